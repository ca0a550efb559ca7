// The report for people: the first screen has the answer.
#include "base/print.h"
#include "report/sheet.h"
#include "report/text/parts.h"

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
	if (++t->noted > NOTES_BRIEF && !t->options->verbose)
		return;
	const char *label = t->index ? "Note" : "Seen";
	if (t->noted == 1 && t->index)
		fputc('\n', t->out);
	if (t->options->verbose) {
		text_add(&line, n->text);
		prose_place(t, &line, n->at);
		prose_label(t, label, text_str(&line));
	} else {
		struct screen s = { t->out, t->options->colour, t->width };
		struct block *b = screen_add(
			&s, (struct block){ .label = label, .indent = LABEL, .least = NOTE_LINES, .most = NOTE_LINES });
		screen_text(&s, b, n->text);
		prose_place(t, &b->behind, n->at);
		screen_write(&s, NOTE_LINES);
	}
	text_free(&line);
}

/** A path, or of one that no line can hold the end. */
static void add_path(const struct text_report *t, struct text *line, struct str path)
{
	enum { DOTS = 3 };
	path = str_is(path, "-") ? S("standard input") : path;
	const bool cut = print_columns(path) > t->width - DOTS;
	while (cut && print_columns(path) > t->width - 2 * DOTS && path.n > 1) {
		const char *slash = memchr(path.p + 1, '/', path.n - 1);
		path = str_from(path, slash ? (size_t)(slash - path.p) : path.n - (t->width - 2 * DOTS));
	}
	text_add(line, cut ? S("...") : S(""));
	text_add(line, str_is(path, "-") ? S("standard input") : path);
}

/** What was looked at, so that everybody sees what the all-clear is worth. */
static void put_all_clear(const struct text_report *t, const struct machine_observation *m, bool log)
{
	struct text line = { 0 };
	size_t seen = 0;
	for (size_t i = 0; i < m->n; i++)
		seen += !m->gpus[i].unseen.n;
	if (t->diagnosis->verdict == UH_HEALTHY)
		text_add(&line, S("No problem found. "));
	text_printf(&line, "Looked at: %zu GPU%s", m->n, m->n == 1 ? "" : "s");
	if (seen == m->n)
		text_add(&line, m->n == 1 ? S(" with its registers and rings") : S(" with their registers and rings"));
	else if (seen)
		text_printf(&line, ", %zu with registers and rings", seen);
	text_add(&line, log ? S(", and the kernel log.") : S(". The kernel log was not read."));
	prose_wrap(t, text_str(&line), 0, 0);
	text_free(&line);
}

static bool has_kernel_log(const struct evidence_reader *r)
{
	for (size_t n = 0; n < evidence_count(r); n++)
		for (size_t k = 0; k < evidence_at(r, n)->nkinds; k++)
			if (!strcmp(evidence_at(r, n)->kinds[k], "kernel-log"))
				return true;
	return false;
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
	if (d->earlier)
		fprintf(t->out, "%zu earlier incident%s left out.\n", d->earlier, d->earlier == 1 ? " is" : "s are");
	if (d->ledger->omitted)
		fprintf(t->out, "and %llu less important incidents, not listed\n", (unsigned long long)d->ledger->omitted);
	if (d->ledger->incidents.len || !sources)
		return;
	const struct devices *gpus = d->machine ? &d->machine->devices : NULL;
	if (gpus && !gpus->n && gpus->pci_known && !gpus->unread.n) // which was said
		return;
	if (gpus && d->verdict == UH_UNKNOWN) {
		struct text line = { 0 };
		text_printf(&line, "No problem found, but this is no all-clear: " STR_FMT ".", STR_ARG(d->unread));
		print_wrapped(t->out, text_str(&line), 0, 0, report_width(t->options));
		text_free(&line);
		return;
	}
	if (gpus) {
		put_all_clear(t, d->machine, sources > 1);
		return;
	}
	struct text line = { 0 };
	text_add(&line, S("No AMD GPU incident found in "));
	if (sources == 1)
		add_path(t, &line, evidence_at(d->evidence, 0)->path);
	else
		text_printf(&line, "%zu sources", sources);
	if (lines)
		text_printf(&line, " (%llu line%s, %llu known message%s).", (unsigned long long)lines, lines == 1 ? "" : "s",
			    (unsigned long long)events, events == 1 ? "" : "s");
	else // a core: what it lacks is noted below
		text_add(&line, d->nnotes ? S(", as far as it can be read.") : S("."));
	if (d->verdict == UH_UNKNOWN)
		text_printf(&line, " This is no all-clear: " STR_FMT ".", STR_ARG(d->unread));
	else if (!events && has_kernel_log(d->evidence))
		text_add(&line, S(" The hang may be in the log of the boot before; on that machine: unhang explain --boot -1"));
	prose_wrap(t, text_str(&line), 0, 0);
	text_free(&line);
}

static void put_end_of_notes(const struct text_report *t)
{
	if (t->noted > NOTES_BRIEF && !t->options->verbose)
		fprintf(t->out, "%*sand %zu more (-v)\n", LABEL, "", t->noted - NOTES_BRIEF);
}

static void on_open(void *ctx, enum report_list list, const struct incident *i)
{
	const struct text_report *t = ctx;
	(void)i;
	if (list == LIST_INCIDENTS && t->batch && !t->options->all)
		batch_put(t);
	if (list == LIST_NOTES)
		put_nothing_found(ctx);
}

static void on_close(void *ctx, enum report_list list, const struct incident *i)
{
	struct text_report *t = ctx;
	if (list != LIST_TIMELINE)
		return;
	if (i->dropped)
		fprintf(t->out, "and %u more, only counted\n", i->dropped);
	fputc('\n', t->out);
	prose_label(t, "Why", i->explanation);
	struct text sure = { 0 };
	text_printf(&sure, "%s (%d %%): " STR_FMT ".", prose_confidence(i->confidence), i->confidence, STR_ARG(i->sure));
	prose_label(t, "Confidence", text_str(&sure));
	text_free(&sure);
}

static void on_incident_end(void *ctx, const struct incident *i)
{
	struct text_report *t = ctx;
	t->index++;
	if (i->machine.len)
		fprintf(t->out, "\n%s%-*s%s\n", prose_paint(t, "\033[1m"), LABEL, "Machine", prose_plain(t));
	for (size_t n = 0; n < i->machine.len; n++)
		prose_fact(t, LABEL, &i->machine.data[n]);
	prose_picture(t, i);
	evidence_lines(t, i);
}

static void on_begin(void *ctx, const struct diagnosis *d)
{
	(void)ctx;
	(void)d;
}

static void on_machine(void *ctx, const struct machine_observation *m)
{
	struct text_report *t = ctx;
	struct sheet s = sheet_on(false, t->out);
	report_machine(m, &s, t->options);
	if (m->devices.n < t->diagnosis->expected)
		fprintf(t->out, "%u AMD GPU%s expected, %zu found.\n", t->diagnosis->expected,
			t->diagnosis->expected == 1 ? " was" : "s were", m->devices.n);
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
	put_end_of_notes(ctx);
	(void)d;
}

void report_text(const struct diagnosis *d, FILE *out, const struct uh_report_options *options)
{
	static const struct report_writer brief = {
		.begin = on_begin,
		.machine = on_machine,
		.open = on_open,
		.source = on_source,
		.incident = brief_incident,
		.event = rows_event,
		.known = brief_known,
		.remedy = brief_remedy,
		.setting = brief_setting,
		.next = brief_next,
		.note = on_note,
		.close = brief_close,
		.incident_end = brief_end,
		.end = on_end,
	};
	static const struct report_writer full = {
		.begin = on_begin,
		.machine = on_machine,
		.open = on_open,
		.source = on_source,
		.incident = prose_incident,
		.event = prose_event,
		.known = prose_known,
		.remedy = prose_remedy,
		.setting = prose_setting,
		.next = prose_next,
		.note = on_note,
		.close = on_close,
		.incident_end = on_incident_end,
		.end = on_end,
	};
	struct text_report t = { .out = out, .options = options, .diagnosis = d };
	t.width = report_width(options);
	t.batch = !options->verbose && batch_is(d);
	report_walk(d, options->verbose ? &full : &brief, &t);
}
