#include "report/node/node.h"

#include "base/print.h"
#include "report/sheet.h"

const char *const node_statuses[] = { "healthy", "degraded", "unknown", "failed", NULL };

enum { NPD_MOST = 80, REASON_MOST = 120 };

const struct node_finding *node_worst(const struct node_answer *a)
{
	const struct node_finding *first = a->findings.len ? &a->findings.data[0] : NULL;
	return first && !first->observed && first->status > NODE_HEALTHY ? first : NULL;
}

const char *node_fit(const struct node_answer *a)
{
	return a->status == NODE_FAILED ? "no" : a->status == NODE_UNKNOWN ? "unknown" : "yes";
}

// --- for people and programs ---

static void node_put_findings(struct sheet *s, const struct node_answer *a)
{
	sheet_each (i, s, "findings", a->findings.len) {
		const struct node_finding *f = &a->findings.data[i];
		sheet_fields(s, { "status", v_word(node_statuses[f->status]) }, { "rule", v_text(f->rule) },
			     { "observed", v_bool(f->observed) }, { "gpu", v_known(f->gpu) }, { "class", v_known(f->class) },
			     { "says", v_known(f->says) }, { "fault", v_known(f->fault) }, { "action", v_known(f->action) },
			     { "incident", v_known(f->incident) }, { "bundle", v_known(f->bundle) }, { "job", v_known(f->job) },
			     { "since", v_date(f->since) });
	}
}

static void node_put_json(const struct node_answer *a, FILE *out)
{
	const struct node_finding *worst = node_worst(a);
	const struct node_finding none = { 0 }, *w = worst ? worst : &none;
	struct sheet s = sheet_on(true, out);
	sheet_open(&s, NULL, '{');
	sheet_fields(&s, { "schema", v_word("unhang/check/1") }, { "status", v_word(node_statuses[a->status]) },
		     { "fit", v_word(node_fit(a)) }, { "class", v_known(w->class) }, { "fault", v_known(w->fault) },
		     { "action", v_known(w->action) }, { "gpu", v_known(w->gpu) }, { "incident", v_known(w->incident) },
		     { "bundle", v_known(w->bundle) }, { "says", v_known(w->says) }, { "host", v_known(a->host) },
		     { "boot_id", v_known(a->boot_id) }, { "source", v_text(a->source) }, { "asked", v_date(a->asked) },
		     { "valid_until", v_date(a->valid_until) }, { "expected_gpus", v_if(a->expected, v_number(a->expected)) });
	sheet_record(&s, "watch", { "runs", v_bool(a->watch.runs) }, { "written", v_date(a->watch.written) },
		     { "log_overruns", v_number(a->watch.lost) }, { "log_unread", v_known(a->watch.unread) },
		     { "progress_unread", v_known(a->watch.uncounted) }, { "smoke_test", v_known(a->watch.smoke) });
	sheet_each (i, &s, "gpus", a->ngpus) {
		const struct node_gpu *g = &a->gpus[i];
		sheet_fields(&s, { "pci", v_text(g->pci) }, { "serial", v_known(g->serial) },
			     { "unique_id", v_known(g->unique_id) }, { "slot", v_known(g->slot) },
			     { "partition", v_known(g->partition) }, { "health", v_known(g->health) },
			     { "fit", v_word(g->fit   ? "yes" :
					     g->known ? "no" :
							"unknown") });
	}
	node_put_findings(&s, a);
	sheet_close(&s, '}');
}

/** `0000:85:00.0, slot 1, serial 692...` */
static void node_add_gpu(struct text *to, const struct node_answer *a, struct str pci)
{
	const struct node_gpu *g = list_find(a->gpus, a->ngpus, it, str_eq(it->pci, pci));
	text_add(to, pci);
	if (g && g->slot.n)
		text_printf(to, ", slot " STR_FMT, STR_ARG(g->slot));
	if (g && g->serial.n)
		text_printf(to, ", serial " STR_FMT, STR_ARG(g->serial));
}

static void put_finding(const struct node_answer *a, const struct node_finding *f, size_t width, FILE *out)
{
	enum { INDENT = 2, MORE = 4 };
	_cleanup_text_ struct text line = { 0 };
	text_printf(&line, "%s: ", node_statuses[f->status]);
	if (f->gpu.n) {
		node_add_gpu(&line, a, f->gpu);
		text_add(&line, S(": "));
	}
	text_add(&line, f->says);
	if (f->says.n && f->says.p[f->says.n - 1] != '.')
		text_add(&line, S("."));
	if (f->action.n)
		text_printf(&line, " It needs: " STR_FMT ".", STR_ARG(f->action));
	if (f->fault.n)
		text_printf(&line, " Whose fault: " STR_FMT ".", STR_ARG(f->fault));
	if (f->incident.n)
		text_printf(&line, " Incident " STR_FMT ".", STR_ARG(f->incident));
	if (f->observed)
		text_add(&line, S(" (A new rule, which is not in force here yet.)"));
	fprintf(out, "%*s", INDENT, "");
	print_wrapped(out, text_str(&line), INDENT, MORE, width);
}

static void node_put_text(const struct node_answer *a, unsigned columns, FILE *out)
{
	enum { FINDINGS = 8, USUAL = 80 };
	static const char *const heads[] = {
		[NODE_HEALTHY] = "Fit for the next job.",
		[NODE_DEGRADED] = "Fit for the next job, with a warning.",
		[NODE_UNKNOWN] = "It is not known whether the next job can run here.",
		[NODE_FAILED] = "Not fit for the next job.",
	};
	const size_t width = columns ? columns : USUAL;
	char until[DATE_ROOM];
	_cleanup_text_ struct text line = { 0 };
	text_printf(&line, "%s %zu GPU%s", heads[a->status], a->ngpus, a->ngpus == 1 ? "" : "s");
	if (a->expected)
		text_printf(&line, " of %u", a->expected);
	if (str_is(a->source, "watch"))
		text_printf(&line, "; by unhang watch, valid until " STR_FMT ".", STR_ARG(date_text(a->valid_until, until)));
	else
		text_printf(&line, "; %s.", str_is(a->source, "look") ? "by a look at this machine" : "nobody watches them");
	print_wrapped(out, text_str(&line), 0, 0, width);
	for (size_t n = 0; n < a->findings.len && n < FINDINGS; n++)
		put_finding(a, &a->findings.data[n], width, out);
	if (a->findings.len > FINDINGS)
		fprintf(out, "  and %zu more (--json)\n", a->findings.len - FINDINGS);
}

void report_node(const struct node_answer *a, bool json, unsigned width, FILE *out)
{
	if (json)
		node_put_json(a, out);
	else
		node_put_text(a, width, out);
}

// --- for schedulers: words of which none is a stranger's ---

/** Letters that a reason may have: what is in it stands in public lists and in logs. */
static void add_plain(struct text *to, struct str s)
{
	for (size_t n = 0; n < s.n; n++) {
		const char c = s.p[n];
		const bool good = char_word(c) || c == '-' || c == '.' || c == ':';
		text_add(to, good ? (struct str){ &s.p[n], 1 } : S("_"));
	}
}

void node_reason(struct text *to, const struct node_finding *f)
{
	const struct str words[] = { f->class, f->gpu, f->action, f->incident };
	text_add(to, S("[unhang "));
	add_plain(to, f->fault.n ? f->fault : S("unknown"));
	text_add(to, S("]"));
	for (size_t n = 0; n < ARRAY_SIZE(words); n++) {
		if (!words[n].n)
			continue;
		text_add(to, S(" "));
		add_plain(to, words[n]);
	}
}

static void node_add_reason(const struct node_answer *a, struct text *to)
{
	const struct node_finding *w = node_worst(a);
	if (w)
		node_reason(to, w);
	else
		text_printf(to, "[unhang] %s", node_statuses[a->status]);
}

void report_node_slurm(const struct node_answer *a, FILE *out)
{
	_cleanup_text_ struct text reason = { 0 };
	node_add_reason(a, &reason);
	fprintf(out, "%s\t%s\t%.*s\n", node_statuses[a->status], node_fit(a),
		(int)(reason.n < REASON_MOST ? reason.n : REASON_MOST), reason.p);
}

/** The condition's message. An incident's id is of no use cut, so where the line is too long, it goes without the action. Where nobody watches,
 * it says only that: whoever remembers a failure then knows that nothing newer could be read. */
static void node_add_condition(const struct node_answer *a, struct text *to)
{
	const struct node_finding *w = node_worst(a);
	if (a->status == NODE_HEALTHY) {
		text_add(to, S("AMD GPUs are fit for the next job"));
	} else if (a->status == NODE_UNKNOWN && !a->watch.runs) {
		text_add(to, S("[unhang unknown] not-watched"));
	} else {
		node_add_reason(a, to);
		if (to->n > NPD_MOST && w) {
			struct node_finding shorter = *w;
			shorter.action = (struct str){ 0 };
			to->n = 0;
			node_reason(to, &shorter);
		}
	}
}

int report_node_npd(const struct node_answer *a, FILE *out)
{
	_cleanup_text_ struct text line = { 0 };
	node_add_condition(a, &line);
	fprintf(out, "%.*s\n", (int)(line.n < NPD_MOST ? line.n : NPD_MOST), line.p);
	return a->status == NODE_FAILED ? 1 : a->status == NODE_UNKNOWN ? 2 : 0;
}
