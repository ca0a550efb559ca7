// The report for people: the first screen has the answer.
#include <stdlib.h>

#include "base/print.h"
#include "report/report.h"

enum { LABEL = 8, ROW_TEXT = 53, TITLE = 19, ROWS_MAX = 14 };

struct text_report {
	FILE *out;
	const struct uh_report_options *options;
	const struct diagnosis *diagnosis;
	size_t width;
	size_t index; // of the incident
	bool full;    // this incident is written in full
	size_t rows;
	size_t noted;
	size_t quiet;                  // events that are not shown
	const struct diag_event *held; // rows of the same kind are written as one
	struct text held_who;          // ranks or processes of which one row tells
	unsigned held_count;
	struct stamp held_last;
	struct stamp begin; // of the incident
};

// --- words, lines, colours ---

static const char *paint(const struct text_report *t, const char *code) { return t->options->colour ? code : ""; }
static const char *plain(const struct text_report *t) { return t->options->colour ? "\033[0m" : ""; }

static void wrap(const struct text_report *t, struct str s, size_t indent, size_t column)
{
	print_wrapped(t->out, s, indent, column, t->width);
}

static void label(const struct text_report *t, const char *name, struct str s)
{
	fprintf(t->out, "%s%-*s%s", paint(t, "\033[1m"), LABEL, name, plain(t));
	wrap(t, s, LABEL, LABEL);
}

static void put_time(const struct text_report *t, struct stamp time)
{
	int64_t day = (int64_t)time.seconds % 86400, ms = (int64_t)(time.seconds * 1000) % 1000;
	if (time.clock == TIME_NONE)
		fprintf(t->out, "%-12s", "-");
	else if (time.clock == TIME_BOOT || time.clock == TIME_RELATIVE)
		fprintf(t->out, "%-12.3f", time.seconds);
	else if (ms)
		fprintf(t->out, "%02d:%02d:%02d.%03d", (int)(day / 3600), (int)(day / 60 % 60), (int)(day % 60), (int)ms);
	else
		fprintf(t->out, "%02d:%02d:%02d    ", (int)(day / 3600), (int)(day / 60 % 60), (int)(day % 60));
}

static struct str any_fact(const struct incident *i, const char *name)
{
	struct str last = { 0 };
	for (size_t n = 0; n < i->events.len; n++) {
		const struct fact *f = diag_fact(i->events.data[n], name);
		if (f)
			last = f->value;
	}
	return last;
}

// --- one incident ---

/** One part of the second line, on a new line where it does not fit any more. */
static void put_part(const struct text_report *t, size_t *column, const struct text *part)
{
	size_t n = print_columns(text_str(part));
	if (*column && *column + 3 + n > t->width) {
		fputs("\n  ", t->out);
		*column = 2;
	} else if (*column) {
		fputs("   ", t->out);
		*column += 3;
	}
	print_safe(t->out, text_str(part));
	*column += n;
}

static void reset_part(const struct incident *i, struct text *part)
{
	struct str method = any_fact(i, "reset_method"), outcome = any_fact(i, "reset_outcome"),
		   ring = any_fact(i, "ring_reset");
	if (method.n || outcome.n) {
		text_printf(part, "reset: " STR_FMT "%s", STR_ARG(method), method.n ? ", " : "");
		text_add(part, outcome.n ? outcome : S("outcome not in this log"));
		if (any_fact(i, "vram_lost").n)
			text_add(part, S("; VRAM lost"));
	} else if (ring.n) {
		text_printf(part, "ring reset: " STR_FMT, STR_ARG(ring));
	} else if (i->reset_began) {
		text_add(part, S("reset begun, outcome not in this log"));
	}
}

/** The second line: which GPU, which kernel, how long, and how it ended. */
static void put_summary(const struct text_report *t, const struct incident *i)
{
	struct text parts[5] = { 0 };
	struct str kernel = { 0 };
	const struct fact *node = i->root ? diag_fact(i->root, "gpu_node") : NULL;
	if (i->gpu.device.n)
		text_add(&parts[0], i->gpu.device);
	else if (node)
		text_printf(&parts[0], "GPU node-" STR_FMT, STR_ARG(node->value));
	else if (!i->gpu.name.n)
		text_add(&parts[0], S("GPU not named in this log"));
	if (i->other_gpus.len)
		text_printf(&parts[0], " and %zu more", i->other_gpus.len);
	if (i->gpu.name.n)
		text_printf(&parts[0], "%s" STR_FMT " (" STR_FMT ")", parts[0].n ? "  " : "", STR_ARG(i->gpu.name),
			    STR_ARG(i->gpu.gfx));
	else if (i->gpu.gfx.n)
		text_printf(&parts[0], "  " STR_FMT, STR_ARG(i->gpu.gfx));
	if (incident_get(i, S("kernel"), 0, &kernel))
		text_printf(&parts[1], "kernel " STR_FMT, STR_ARG(kernel));
	if (i->begin.clock != TIME_NONE && i->end.seconds > i->begin.seconds)
		text_printf(&parts[2], "lasted %.1f s", i->end.seconds - i->begin.seconds);
	reset_part(i, &parts[3]);
	if (i->ranks.len > 1)
		text_printf(&parts[4], "%zu processes", i->ranks.len);
	size_t column = 0;
	for (size_t n = 0; n < sizeof(parts) / sizeof(parts[0]); n++) {
		if (parts[n].n)
			put_part(t, &column, &parts[n]);
		text_free(&parts[n]);
	}
	fputc('\n', t->out);
}

static struct str blame(struct str fault)
{
	return str_is(fault, "job")    ? S("the job's") :
	       str_is(fault, "node")   ? S("the node's (hardware or set-up)") :
	       str_is(fault, "driver") ? S("the driver's or firmware's") :
					 S("not known from this log");
}

static void put_action(const struct text_report *t, const struct incident *i)
{
	label(t, "Now", i->action_text);
	label(t, "Fault", blame(i->fault));
	for (size_t n = 0; n < i->processes.len; n++) {
		const struct diag_process *p = &i->processes.data[n];
		if (!str_is(str_z(p->role), "bystander"))
			continue;
		struct text note = { 0 };
		text_printf(&note, STR_FMT " (" STR_FMT ") is named in the log but is probably a bystander.", STR_ARG(p->name),
			    STR_ARG(p->pid.n ? p->pid : S("?")));
		label(t, "", text_str(&note));
		text_free(&note);
	}
}

static void on_incident(void *ctx, const struct incident *i)
{
	struct text_report *t = ctx;
	t->full = !t->index || t->options->all || t->options->verbose;
	t->rows = 0;
	t->quiet = 0;
	t->held = NULL;
	t->begin = i->begin;
	if (!t->full)
		return;
	if (t->index)
		fprintf(t->out, "\n");
	fprintf(t->out, "%s", paint(t, "\033[1m"));
	struct text title = { 0 };
	text_printf(&title, STR_FMT ".", STR_ARG(i->title));
	if (i->before_log)
		text_printf(&title, i->log_has_boot ? " What led to it is not in the log." :
						      " What led to it is earlier than this log.");
	wrap(t, text_str(&title), 0, 0);
	text_free(&title);
	fprintf(t->out, "%s", plain(t));
	put_summary(t, i);
	put_action(t, i);
	fputc('\n', t->out);
}

/** How long after the incident began. */
static void put_elapsed(const struct text_report *t, struct stamp time)
{
	char text[16] = "";
	double seconds = time.seconds - t->begin.seconds;
	if (time.clock == t->begin.clock && time.clock != TIME_NONE && seconds >= 0.001)
		snprintf(text, sizeof(text),
			 seconds < 1   ? "+%.0f ms" :
			 seconds < 100 ? "+%.3g s" :
					 "+%.0f s",
			 seconds < 1 ? seconds * 1000 : seconds);
	fprintf(t->out, " %-8s ", text);
}

static struct str file_name(const struct text_report *t, unsigned source)
{
	struct str path = evidence_at(t->diagnosis->evidence, source)->path;
	if (str_ends(path, S(")"))) { // `logs.tar.gz(dir/dmesg.txt)`
		const char *open = memrchr(path.p, '(', path.n);
		path = open ? str_cut(str_from(path, (size_t)(open - path.p) + 1), (size_t)(path.p + path.n - open) - 2) : path;
	}
	const char *slash = memrchr(path.p, '/', path.n);
	return slash ? str_from(path, (size_t)(slash - path.p) + 1) : path;
}

/** Where a row was read. */
static void add_place(const struct text_report *t, struct text *line, struct place at)
{
	bool alone = evidence_count(t->diagnosis->evidence) == 1;
	if (!at.line) // of a core
		text_printf(line, alone ? "" : " [" STR_FMT "]", STR_ARG(file_name(t, at.source)));
	else if (alone)
		text_printf(line, " [line %llu]", (unsigned long long)at.line);
	else
		text_printf(line, " [" STR_FMT ":%llu]", STR_ARG(file_name(t, at.source)), (unsigned long long)at.line);
}

/** By what the process of an event is told from others. */
static struct str who_of(const struct diag_event *e, const char **ret_word)
{
	static const char *const names[][2] = { { "rank", "rank" }, { "group_rank", "rank" }, { "pid", "process" } };
	for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
		const struct fact *f = diag_fact(e, names[n][0]);
		if (f) {
			*ret_word = names[n][1];
			return f->value;
		}
	}
	return (struct str){ 0 };
}

/** `ranks 0-10, 12, 13: waited in vain ...` */
static void put_many(const struct text_report *t, struct text *line, const struct diag_event *e)
{
	enum { SHOWN = 256 };
	int64_t numbers[SHOWN];
	size_t n = 0;
	const char *word = "process";
	struct str all = text_str(&t->held_who);
	who_of(e, &word);
	for (struct str one = str_word(&all); one.n && n < SHOWN; one = str_word(&all))
		n += str_number(one, &numbers[n]);
	qsort(numbers, n, sizeof(numbers[0]), compare_numbers);
	text_printf(line, "%s ", strcmp(word, "rank") ? "processes" : "ranks");
	for (size_t i = 0; i < n; i++) {
		size_t last = i;
		while (last + 1 < n && numbers[last + 1] <= numbers[last] + 1)
			last++;
		text_printf(line, "%s%lld", i ? ", " : "", (long long)numbers[i]);
		if (numbers[last] > numbers[i])
			text_printf(line, "%s%lld", numbers[last] == numbers[i] + 1 ? ", " : "-", (long long)numbers[last]);
		i = last;
	}
	text_printf(line, " " STR_FMT, STR_ARG(e->many));
}

static void put_row(struct text_report *t)
{
	const struct diag_event *e = t->held;
	static const char *const colours[] = { "\033[1;31m", "\033[33m", "\033[2m", "\033[36m" };
	if (!e)
		return;
	t->held = NULL;
	if (t->rows++ == ROWS_MAX && !t->options->verbose) {
		fprintf(t->out, "%s\n", "...         more with --verbose");
		return;
	}
	if (t->rows > ROWS_MAX && !t->options->verbose)
		return;
	put_time(t, e->time);
	put_elapsed(t, e->time);
	fprintf(t->out, "%s%-9s%s  %-*.*s ", paint(t, colours[e->role]), role_name(e->role), plain(t), TITLE,
		STR_ARG(e->kind->title));
	struct text line = { 0 };
	if (t->held_who.n)
		put_many(t, &line, e);
	else
		text_add(&line, e->sentence);
	if (t->held_count > 1 && !e->kind->once && !t->held_who.n) {
		text_printf(&line, " (%u times", t->held_count);
		if (t->held_last.clock == e->time.clock && t->held_last.seconds > e->time.seconds + 0.05)
			text_printf(&line, " in %.1f s", t->held_last.seconds - e->time.seconds);
		text_add(&line, S(")"));
	}
	add_place(t, &line, e->at);
	wrap(t, text_str(&line), ROW_TEXT, ROW_TEXT);
	text_free(&line);
}

static void put_fact(const struct text_report *t, int indent, const struct fact *f)
{
	fprintf(t->out, "%*s%-24.*s ", indent, "", STR_ARG(f->name));
	print_safe(t->out, f->value);
	fputc('\n', t->out);
}

static void on_event(void *ctx, const struct diag_event *e, size_t id)
{
	(void)id;
	struct text_report *t = ctx;
	if (t->full && e->kind->quiet && e->role != ROLE_CAUSE && !t->options->verbose) {
		t->quiet++;
		return;
	}
	if (!t->full)
		return;
	bool same = t->held && !t->options->verbose && t->held->kind == e->kind && t->held->role == e->role &&
		    t->rows < ROWS_MAX && str_eq(t->held->sentence, e->sentence);
	if (same) {
		t->held_count += e->count;
		t->held_last = e->last;
		return;
	}
	const char *word;
	if (t->held && !t->options->verbose && t->held->kind == e->kind && t->held->role == e->role && e->many.n &&
	    str_eq(t->held->many, e->many) && who_of(e, &word).n && who_of(t->held, &word).n) {
		if (!t->held_who.n)
			text_add(&t->held_who, who_of(t->held, &word));
		text_printf(&t->held_who, " " STR_FMT, STR_ARG(who_of(e, &word)));
		t->held_last = e->last;
		return;
	}
	put_row(t);
	text_clear(&t->held_who);
	t->held = e;
	t->held_count = e->count;
	t->held_last = e->last;
	if (!t->options->verbose)
		return;
	put_row(t);
	for (size_t n = 0; n < e->nfacts; n++)
		put_fact(t, ROW_TEXT, &e->facts[n]);
}

static void put_steps(const struct text_report *t, const struct steps *s)
{
	for (size_t n = 0; n < s->n; n++) {
		fprintf(t->out, "%*s", LABEL + 3, "");
		wrap(t, command_str(s->list[n]), LABEL + 3, LABEL + 3);
	}
}

static void put_extra(const struct text_report *t, const char *what, struct str text)
{
	if (!text.n)
		return;
	fprintf(t->out, "%*s%s: ", LABEL + 3, "", what);
	wrap(t, text, LABEL + 3, LABEL + 5 + strlen(what));
}

static void put_extra_step(const struct text_report *t, const char *what, const struct command *c)
{
	put_extra(t, what, command_str(c));
}

/** What is no step: it is in force, does not exist here, or is not needed any more. */
static void put_told(const struct text_report *t, const struct diag_remedy *r)
{
	const struct know_remedy *k = r->remedy;
	const struct remedy_verdict *v = &r->verdict;
	struct text line = { 0 };
	if (!v->fact.n)
		text_printf(&line, STR_FMT ": ", STR_ARG(k->title));
	text_add(&line, v->because);
	if (r->fact)
		add_place(t, &line, r->fact->at);
	else if (r->where.n)
		text_printf(&line, " [" STR_FMT "]", STR_ARG(r->where));
	text_add(&line, S("."));
	if (v->state == REMEDY_APPLIED && v->fact.n && !str_is(k->kind, "cure") && r->steps.cost && r->steps.undo)
		text_printf(&line, " It costs: " STR_FMT ". If nothing is better with it: " STR_FMT ".",
			    STR_ARG(command_str(r->steps.cost)), STR_ARG(command_str(r->steps.undo)));
	label(t, v->state == REMEDY_APPLIED ? "Tried" : "Not", text_str(&line));
	text_free(&line);
}

static void on_remedy(void *ctx, const struct diag_remedy *r, size_t number)
{
	struct text_report *t = ctx;
	const struct know_remedy *k = r->remedy;
	if (t->full && r->verdict.state != REMEDY_TRY)
		put_told(t, r);
	if (!t->full || r->verdict.state != REMEDY_TRY)
		return;
	fprintf(t->out, "%s%-*s%s", paint(t, "\033[1m"), LABEL, number == 1 ? "Do" : "", plain(t));
	struct text line = { 0 };
	text_printf(&line, "%zu. ", number);
	if (!r->certain && k->condition_text.n)
		text_printf(&line, "If " STR_FMT ": ", STR_ARG(k->condition_text));
	text_printf(&line, STR_FMT "  [" STR_FMT ", grade " STR_FMT ", " STR_FMT "]", STR_ARG(k->title), STR_ARG(k->kind),
		    STR_ARG(k->grade), STR_ARG(k->source));
	wrap(t, text_str(&line), LABEL + 3, LABEL);
	text_free(&line);
	put_steps(t, &r->steps);
	put_extra(t, "here", r->numbers);
	put_extra_step(t, "check", r->steps.verify);
	put_extra_step(t, "costs", r->steps.cost);
	if (t->options->verbose) {
		put_extra_step(t, "risk", r->steps.risk);
		put_extra_step(t, "undo", r->steps.undo);
	}
	put_extra_step(t, "not needed once", r->steps.until);
}

static void on_setting(void *ctx, const struct diag_setting *s)
{
	struct text_report *t = ctx;
	if (!t->full)
		return;
	struct text line = { 0 };
	text_add(&line, s->text);
	if (s->fact)
		add_place(t, &line, s->fact->at);
	text_printf(&line, ".  [grade " STR_FMT ", " STR_FMT "]", STR_ARG(s->grade), STR_ARG(s->source));
	label(t, "Set", text_str(&line));
	text_free(&line);
}

static void on_known(void *ctx, const struct know_bad *b)
{
	struct text_report *t = ctx;
	if (!t->full)
		return;
	struct text line = { 0 };
	text_printf(&line, STR_FMT ". ", STR_ARG(b->title));
	if (b->good.n)
		text_printf(&line, "Good: " STR_FMT ".", STR_ARG(b->good));
	text_printf(&line, "  [grade " STR_FMT ", " STR_FMT "]", STR_ARG(b->grade), STR_ARG(b->source));
	label(t, "Known", text_str(&line));
	text_free(&line);
}

static void on_next(void *ctx, const struct diag_next *n)
{
	struct text_report *t = ctx;
	if (!t->full)
		return;
	struct text why = { 0 };
	text_printf(&why, STR_FMT ":", STR_ARG(n->why));
	label(t, "Next", text_str(&why));
	// A command is never wrapped: it is there to be copied.
	fprintf(t->out, "%*s", LABEL + 3, "");
	print_safe(t->out, command_str(n->run));
	fputc('\n', t->out);
	text_free(&why);
}

static void on_note(void *ctx, const struct note *n)
{
	struct text_report *t = ctx;
	struct text line = { 0 };
	// Who asks how the machine is now does not ask for what once happened and was no failure.
	if (n->seen && t->diagnosis->machine && !t->options->verbose)
		return;
	// Beside an incident only what is said by itself; without one also what was seen.
	if (t->index && n->seen && !t->options->verbose)
		return;
	text_add(&line, n->text);
	add_place(t, &line, n->at);
	if (!t->noted++ && t->index)
		fputc('\n', t->out);
	label(t, t->index ? "Note" : "Seen", text_str(&line));
	text_free(&line);
}

/** Where no incident was found, what was read. */
static void put_nothing_found(const struct text_report *t)
{
	const struct diagnosis *d = t->diagnosis;
	uint64_t lines = 0, events = 0;
	size_t sources = evidence_count(d->evidence);
	for (size_t n = 0; n < sources; n++) {
		lines += evidence_at(d->evidence, n)->lines;
		events += evidence_at(d->evidence, n)->events;
	}
	if (d->ledger->omitted)
		fprintf(t->out, "and %llu less important incidents that are not listed\n",
			(unsigned long long)d->ledger->omitted);
	if (d->ledger->incidents.len || !sources)
		return;
	const struct devices *gpus = d->machine ? &d->machine->devices : NULL;
	if (gpus && !gpus->n && gpus->pci_known && !gpus->unread.n) // which was said
		return;
	if (gpus && d->verdict == UH_UNKNOWN) {
		struct text line = { 0 };
		text_printf(&line, "No problem was seen, but this is no all-clear: " STR_FMT ".", STR_ARG(d->unread));
		print_wrapped(t->out, text_str(&line), 0, 0, report_width(t->options));
		text_free(&line);
		return;
	}
	if (d->machine) {
		fputs(sources > 1 ? "Nothing is wrong that could be seen, and there is no incident in the kernel's log of this "
				    "machine.\n" :
				    "Nothing is wrong that could be seen. The kernel's log was not read.\n",
		      t->out);
		return;
	}
	fprintf(t->out, "No AMD GPU incident found in ");
	if (sources == 1)
		print_safe(t->out, evidence_at(d->evidence, 0)->path);
	else
		fprintf(t->out, "%zu sources", sources);
	if (lines)
		fprintf(t->out, " (%llu line%s, %llu known message%s).\n", (unsigned long long)lines, lines == 1 ? "" : "s",
			(unsigned long long)events, events == 1 ? "" : "s");
	else // a core: what it lacks is noted below
		fprintf(t->out, "%s.\n", d->nnotes ? ", as far as it can be read" : "");
	if (d->verdict == UH_UNKNOWN)
		fputs("This is no all-clear: not everything could be read.\n", t->out);
	else if (!events && lines)
		fprintf(t->out,
			"Not one known message is in it. If it is a kernel log, the hang may be in the previous boot: unhang "
			"explain --boot -1\n");
}

static void on_open(void *ctx, enum report_list list, const struct incident *i)
{
	(void)i;
	if (list == LIST_NOTES)
		put_nothing_found(ctx);
}

static void on_close(void *ctx, enum report_list list, const struct incident *i)
{
	struct text_report *t = ctx;
	if (list != LIST_TIMELINE || !t->full)
		return;
	put_row(t);
	if (t->quiet)
		fprintf(t->out, "and %zu less important %s (--verbose)\n", t->quiet, t->quiet > 1 ? "ones" : "one");
	if (i->dropped)
		fprintf(t->out, "and %u more of which only the number was kept\n", i->dropped);
	fputc('\n', t->out);
	label(t, "Why", i->explanation);
	struct text sure = { 0 };
	text_printf(&sure, "%d %%: " STR_FMT ".", i->confidence, STR_ARG(i->sure));
	label(t, "Sure", text_str(&sure));
	text_free(&sure);
}

static void on_incident_end(void *ctx, const struct incident *i)
{
	struct text_report *t = ctx;
	size_t total = t->diagnosis->ledger->incidents.len;
	t->index++;
	if (t->full && t->options->verbose && i->machine.len) {
		fprintf(t->out, "\n%s%-*s%s\n", paint(t, "\033[1m"), LABEL, "Machine", plain(t));
		for (size_t n = 0; n < i->machine.len; n++)
			put_fact(t, LABEL, &i->machine.data[n]);
	}
	if (t->index == 1 && total > 1 && !t->options->all && !t->options->verbose)
		fprintf(t->out, "\n%zu more incident%s (--all shows %s in full):\n", total - 1, total > 2 ? "s" : "",
			total > 2 ? "them" : "it");
	if (t->full)
		return;
	put_time(t, i->begin);
	fprintf(t->out, "  %-13.*s ", STR_ARG(i->gpu.device.n ? i->gpu.device : S("-")));
	wrap(t, i->title, 28, 28);
}

static void on_begin(void *ctx, const struct diagnosis *d)
{
	(void)ctx;
	(void)d;
}

static void on_machine(void *ctx, const struct machine_view *m)
{
	struct text_report *t = ctx;
	report_machine_text(m, t->out, t->options);
	if (t->diagnosis->ledger->incidents.len)
		fputc('\n', t->out);
}

static void on_source(void *ctx, const struct evidence *e)
{
	(void)ctx;
	(void)e;
}

static void on_end(void *ctx, const struct diagnosis *d)
{
	(void)ctx;
	(void)d;
}

void report_text(const struct diagnosis *d, FILE *out, const struct uh_report_options *options)
{
	static const struct report_writer writer = {
		.begin = on_begin,
		.machine = on_machine,
		.open = on_open,
		.source = on_source,
		.incident = on_incident,
		.event = on_event,
		.known = on_known,
		.remedy = on_remedy,
		.setting = on_setting,
		.next = on_next,
		.note = on_note,
		.close = on_close,
		.incident_end = on_incident_end,
		.end = on_end,
	};
	struct text_report t = { .out = out, .options = options, .diagnosis = d };
	t.width = report_width(options);
	report_walk(d, &writer, &t);
	text_free(&t.held_who);
}
