// The report for people. One incident gets the first screen (brief.c), or with -v everything (incident.c); the logs of several machines
// get a table, because nobody reads twenty first screens.
#include "base/print.h"
#include "report/sheet.h"
#include "report/text/prose.h"

// The logs of several machines at once: a table instead of one incident in full.

enum { ROWS = 14, FIELDS = 5, SOURCES_BATCH = 3 };

/** What tells an incident from those of other machines: its host, else the file that it is from. */
static struct str machine_of(const struct diagnosis *d, const struct incident *i)
{
	return i->host.n ? i->host : evidence_at(d->evidence, i->events.data[0]->at.source)->path;
}

/** Machines in the ledger, as far as hosts (or @files) tell them apart. */
static size_t count_machines(const struct diagnosis *d, bool files)
{
	size_t count = 0;
	for (size_t n = 0; n < d->ledger->incidents.len; n++) {
		const struct incident *i = d->ledger->incidents.data[n];
		bool seen = !i->events.len || (!files && !i->host.n);
		for (size_t k = 0; k < n && !seen; k++)
			seen = str_eq(machine_of(d, d->ledger->incidents.data[k]), machine_of(d, i));
		count += !seen;
	}
	return count;
}

/** Of sources, in how many something was found. */
static size_t count_sources(const struct diagnosis *d)
{
	size_t count = 0;
	for (size_t source = 0; source < evidence_count(d->evidence); source++) {
		bool has = false;
		for (size_t n = 0; n < d->ledger->incidents.len && !has; n++) {
			const struct incident *i = d->ledger->incidents.data[n];
			for (size_t e = 0; e < i->events.len && !has; e++)
				has = i->events.data[e]->at.source == source;
		}
		count += has;
	}
	return count;
}

struct batch_row {
	struct text fields[FIELDS];
};

static void fill_row(const struct text_report *t, const struct incident *i, struct batch_row *r)
{
	const struct diagnosis *d = t->diagnosis;
	text_add_safe(&r->fields[0], i->host.n ? i->host : str_base(machine_of(d, i)));
	text_add_safe(&r->fields[1], i->gpu.device.n ? i->gpu.device : i->gpu.name);
	prose_date(&r->fields[2], evidence_wall(evidence_at(d->evidence, i->events.data[0]->at.source), i->begin));
	text_add(&r->fields[3], i->action->action);
	text_add(&r->fields[4], i->fault);
	for (size_t f = 0; f < FIELDS; f++)
		if (!r->fields[f].n)
			text_add(&r->fields[f], S("-"));
}

static void text_put_row(const struct text_report *t, const struct batch_row *r, const size_t *widths)
{
	_cleanup_text_ struct text line = { 0 };
	for (size_t f = 0; f < FIELDS; f++) {
		const struct str s = text_str(&r->fields[f]);
		const size_t n = print_columns(s);
		text_add(&line, s);
		if (f + 1 < FIELDS)
			text_printf(&line, "%*s", (int)(widths[f] - n + 2), "");
	}
	if (print_columns(text_str(&line)) > t->width) { // as words, one behind the other
		print_wrapped(t->out, text_str(&line), 2, 0, t->width);
	} else {
		print_safe(t->out, text_str(&line));
		fputc('\n', t->out);
	}
}

static void text_put_head(const struct text_report *t)
{
	const struct diagnosis *d = t->diagnosis;
	const size_t hosts = count_machines(d, false), sources = evidence_count(d->evidence), with = count_sources(d);
	_cleanup_text_ struct text line = { 0 };
	text_printf(&line, "%zu incidents", d->ledger->incidents.len);
	if (hosts > 1)
		text_printf(&line, " on %zu hosts", hosts);
	text_printf(&line, ", in %zu of %zu sources.", with, sources);
	print_wrapped(t->out, text_str(&line), 0, 0, t->width);
	fputc('\n', t->out);
}

/** Widths are those of the longest field, so that columns line up without being cut. */
static void batch_put(const struct text_report *t)
{
	static const char *const heads[FIELDS] = { "HOST", "GPU", "WHEN", "DO", "FAULT" };
	const struct diagnosis *d = t->diagnosis;
	const size_t n = d->ledger->incidents.len < ROWS ? d->ledger->incidents.len : ROWS;
	struct batch_row rows[ROWS + 1] = { 0 };
	size_t widths[FIELDS] = { 0 };
	for (size_t f = 0; f < FIELDS; f++)
		text_add(&rows[n].fields[f], str_z(heads[f]));
	for (size_t k = 0; k < n; k++)
		fill_row(t, d->ledger->incidents.data[k], &rows[k]);
	for (size_t k = 0; k <= n; k++)
		for (size_t f = 0; f < FIELDS; f++) {
			const size_t columns = print_columns(text_str(&rows[k].fields[f]));
			widths[f] = columns > widths[f] ? columns : widths[f];
		}
	text_put_head(t);
	text_put_row(t, &rows[n], widths);
	for (size_t k = 0; k < n; k++) {
		text_put_row(t, &rows[k], widths);
		// Below its row, what happened, in two lines at most.
		const struct incident *i = d->ledger->incidents.data[k];
		struct screen s = { t->out, t->options->colour, t->width };
		struct block *b = screen_add(&s, (struct block){ .indent = 4, .least = 1, .most = 2 });
		text_add(&b->lead, S("    "));
		b->column = 4;
		_cleanup_text_ struct text line = { 0 };
		prose_title(i, &line);
		screen_text(&s, b, text_str(&line));
		prose_place(t, &b->behind, i->events.data[0]->at);
		screen_write(&s, 2);
	}
	if (n < d->ledger->incidents.len)
		fprintf(t->out, "and %zu more\n", d->ledger->incidents.len - n);
	fputc('\n', t->out);
	prose_label(t, "More", S("--all explains each, --oneline lists all, one FILE alone is told in full"));
	for (size_t k = 0; k <= n; k++)
		for (size_t f = 0; f < FIELDS; f++)
			text_free(&rows[k].fields[f]);
}

// --- callbacks of the walk ---

/** Notes are few and short on the first screen; with -v all of them are told in full. */
static void text_on_note(void *ctx, const struct note *n)
{
	struct text_report *t = ctx;
	_cleanup_text_ struct text line = { 0 };
	// Who asks how the machine is now does not ask for what once happened and was no failure.
	if (n->seen && t->diagnosis->observed && !t->options->verbose)
		return;
	// Beside an incident only what is said by itself; without one also what was seen.
	if (t->index && n->seen && !t->options->verbose)
		return;
	if (n->quiet && !t->options->verbose)
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
		const size_t lines = t->index ? NOTE_LINES : SEEN_LINES; // without an incident it is the answer
		struct screen s = { t->out, t->options->colour, t->width };
		struct block *b =
			screen_add(&s, (struct block){ .label = label, .indent = LABEL, .least = NOTE_LINES, .most = lines });
		screen_text(&s, b, n->text);
		prose_place(t, &b->behind, n->at);
		screen_write(&s, lines);
	}
}

/** What was looked at, so that everybody sees what the all-clear is worth. */
static void put_all_clear(const struct text_report *t, const struct machine_observation *m, bool log)
{
	_cleanup_text_ struct text line = { 0 };
	size_t seen = 0;
	bool hints = false; // of the hardware
	for (size_t i = 0; i < m->n; i++) {
		seen += !m->gpus[i].unseen.n;
		hints |= m->gpus[i].hardware.n;
	}
	for (size_t i = 0; i < m->nhives; i++)
		hints |= m->hives[i].hint.n;
	if (t->diagnosis->verdict == UH_HEALTHY)
		text_add(&line, hints ? S("No incident found; see the notes on the hardware above. ") : S("No problem found. "));
	text_printf(&line, "Looked at: %zu GPU%s", m->n, m->n == 1 ? "" : "s");
	if (seen == m->n)
		text_add(&line, m->n == 1 ? S(" with its registers and rings") : S(" with their registers and rings"));
	else if (seen)
		text_printf(&line, ", %zu with registers and rings", seen);
	text_add(&line, log ? S(", and the kernel log.") : S(". The kernel log was not read."));
	prose_wrap(t, text_str(&line), 0, 0);
}

/** Where no incident was found, what was read. */
static void put_nothing_found(const struct text_report *t)
{
	const struct diagnosis *d = t->diagnosis;
	uint64_t lines = 0, events = 0;
	size_t sources = evidence_count(d->evidence);
	bool kernel_log = false;
	for (size_t n = 0; n < sources; n++) {
		const struct evidence *e = evidence_at(d->evidence, n);
		lines += e->lines;
		events += e->events;
		for (size_t k = 0; k < e->nkinds; k++)
			kernel_log |= !strcmp(e->kinds[k], "kernel-log");
	}
	if (d->earlier)
		fprintf(t->out, "%zu earlier incident%s left out.\n", d->earlier, d->earlier == 1 ? " is" : "s are");
	if (d->ledger->omitted)
		fprintf(t->out, "and %llu less important incidents, not listed\n", (unsigned long long)d->ledger->omitted);
	if (d->ledger->incidents.len || !sources)
		return;
	const struct devices *gpus = d->observed ? &d->observed->devices : NULL;
	if (gpus && !gpus->n && gpus->pci_known && !gpus->unread.n) // which was said
		return;
	if (gpus && d->verdict == UH_UNKNOWN) {
		_cleanup_text_ struct text line = { 0 };
		text_printf(&line, "No problem found, but this is no all-clear: " STR_FMT ".", STR_ARG(d->unread));
		print_wrapped(t->out, text_str(&line), 0, 0, report_width(t->options));
		return;
	}
	if (gpus) {
		put_all_clear(t, d->observed, sources > 1);
		return;
	}
	_cleanup_text_ struct text line = { 0 };
	text_add(&line, S("No AMD GPU incident found in "));
	if (sources == 1) {
		// A path, or of one that no line can hold the end.
		struct str path = evidence_at(d->evidence, 0)->path;
		enum { DOTS = 3 };
		path = str_is(path, "-") ? S("standard input") : path;
		const bool cut = print_columns(path) > t->width - DOTS;
		while (cut && print_columns(path) > t->width - 2 * DOTS && path.n > 1) {
			const char *slash = memchr(path.p + 1, '/', path.n - 1);
			path = str_from(path, slash ? (size_t)(slash - path.p) : path.n - (t->width - 2 * DOTS));
		}
		text_add(&line, cut ? S("...") : S(""));
		text_add(&line, str_is(path, "-") ? S("standard input") : path);
	} else {
		text_printf(&line, "%zu sources", sources);
	}
	if (lines)
		text_printf(&line, " (%llu line%s, %llu known message%s).", (unsigned long long)lines, lines == 1 ? "" : "s",
			    (unsigned long long)events, events == 1 ? "" : "s");
	else // a core: what it lacks is noted below
		text_add(&line, d->nnotes ? S(", as far as it can be read.") : S("."));
	if (d->verdict == UH_UNKNOWN)
		text_printf(&line, " This is no all-clear: " STR_FMT ".", STR_ARG(d->unread));
	else if (!events && kernel_log)
		text_add(&line, S(" The hang may be in the log of the boot before; on that machine: unhang explain --boot -1"));
	else if (!events && lines)
		text_add(&line,
			 S(" If a program failed on a GPU there, the kernel log tells more; on that machine: sudo unhang"));
	prose_wrap(t, text_str(&line), 0, 0);
}

static void text_on_open(void *ctx, enum report_list list, const struct incident *i)
{
	const struct text_report *t = ctx;
	(void)i;
	if (list == LIST_INCIDENTS && t->batch && !t->options->all)
		batch_put(t);
	if (list == LIST_NOTES)
		put_nothing_found(ctx);
}

static void text_on_close(void *ctx, enum report_list list, const struct incident *i)
{
	struct text_report *t = ctx;
	if (list == LIST_CHANGES)
		prose_no_change(t, i);
	if (list != LIST_TIMELINE)
		return;
	if (i->dropped)
		fprintf(t->out, "and %u more, only counted\n", i->dropped);
	fputc('\n', t->out);
	prose_label(t, "Why", i->explanation);
	_cleanup_text_ struct text sure = { 0 };
	text_printf(&sure, "in the cause: %s (%d %%): " STR_FMT ".", prose_confidence(i->confidence), i->confidence,
		    STR_ARG(i->sure));
	prose_label(t, "Confidence", text_str(&sure));
}

static void text_on_incident_end(void *ctx, const struct incident *i)
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

static void text_on_machine(void *ctx, const struct machine_observation *m)
{
	struct text_report *t = ctx;
	struct sheet s = sheet_on(false, t->out);
	t->bare = !m->n && t->diagnosis->ledger->incidents.len;
	if (!t->bare)
		report_machine(m, &s, t->options);
	if (m->devices.n < t->diagnosis->expected)
		fprintf(t->out, "%u AMD GPU%s expected, %zu found.\n", t->diagnosis->expected,
			t->diagnosis->expected == 1 ? " was" : "s were", m->devices.n);
	if (t->diagnosis->ledger->incidents.len && (!t->bare || t->diagnosis->expected))
		fputc('\n', t->out);
}

static void text_on_end(void *ctx, const struct diagnosis *d)
{
	const struct text_report *t = ctx;
	if (t->bare) {
		struct sheet s = sheet_on(false, t->out);
		fputc('\n', t->out);
		report_machine(d->observed, &s, t->options);
	}
	if (t->noted > NOTES_BRIEF && !t->options->verbose)
		fprintf(t->out, "%*sand %zu more (-v)\n", LABEL, "", t->noted - NOTES_BRIEF);
	bool trouble = false;
	for (size_t n = 0; n < d->nnotes; n++)
		trouble |= d->notes[n].trouble;
	if (trouble && !t->index && !d->observed)
		prose_label(t, "Next",
			    S("If something failed, this is no all-clear: explain the whole kernel log (sudo dmesg) and the "
			      "program's whole output too."));
}

void report_text(const struct diagnosis *d, FILE *out, const struct uh_report_options *options)
{
	static const struct report_writer brief = {
		.machine = text_on_machine,
		.open = text_on_open,
		.incident = brief_incident,
		.event = rows_event,
		.change = brief_change,
		.like = brief_like,
		.known = brief_known,
		.remedy = brief_remedy,
		.next = brief_next,
		.question = brief_question,
		.note = text_on_note,
		.close = brief_close,
		.incident_end = brief_end,
		.end = text_on_end,
	};
	static const struct report_writer full = {
		.machine = text_on_machine,
		.open = text_on_open,
		.incident = prose_incident,
		.event = prose_event,
		.change = prose_change,
		.like = prose_like,
		.known = prose_known,
		.remedy = prose_remedy,
		.setting = prose_setting,
		.next = prose_next,
		.question = prose_question,
		.note = text_on_note,
		.close = text_on_close,
		.incident_end = text_on_incident_end,
		.end = text_on_end,
	};
	struct text_report t = { .out = out, .options = options, .diagnosis = d };
	t.width = report_width(options);
	t.batch = !options->verbose && (count_machines(d, false) > 1 || count_machines(d, true) >= SOURCES_BATCH);
	report_walk(d, options->verbose ? &full : &brief, &t);
}
