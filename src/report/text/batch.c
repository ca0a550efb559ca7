// The logs of several machines at once: a table instead of one incident in full.
#include "base/print.h"
#include "report/text/parts.h"

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

bool batch_is(const struct diagnosis *d) { return count_machines(d, false) > 1 || count_machines(d, true) >= SOURCES_BATCH; }

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

static void put_row(const struct text_report *t, const struct batch_row *r, const size_t *widths)
{
	struct text line = { 0 };
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
	text_free(&line);
}

static void put_title(const struct text_report *t, const struct incident *i)
{
	struct screen s = { t->out, t->options->colour, t->width };
	struct block *b = screen_add(&s, (struct block){ .indent = 4, .least = 1, .most = 2 });
	text_add(&b->lead, S("    "));
	b->column = 4;
	struct text line = { 0 };
	prose_title(i, &line);
	screen_text(&s, b, text_str(&line));
	prose_place(t, &b->behind, i->events.data[0]->at);
	screen_write(&s, 2);
	text_free(&line);
}

static void put_head(const struct text_report *t)
{
	const struct diagnosis *d = t->diagnosis;
	const size_t hosts = count_machines(d, false), sources = evidence_count(d->evidence), with = count_sources(d);
	struct text line = { 0 };
	text_printf(&line, "%zu incidents", d->ledger->incidents.len);
	if (hosts > 1)
		text_printf(&line, " on %zu hosts", hosts);
	text_printf(&line, ", in %zu of %zu sources.", with, sources);
	print_wrapped(t->out, text_str(&line), 0, 0, t->width);
	fputc('\n', t->out);
	text_free(&line);
}

void batch_put(const struct text_report *t)
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
	put_head(t);
	put_row(t, &rows[n], widths);
	for (size_t k = 0; k < n; k++) {
		put_row(t, &rows[k], widths);
		put_title(t, d->ledger->incidents.data[k]);
	}
	if (n < d->ledger->incidents.len)
		fprintf(t->out, "and %zu more\n", d->ledger->incidents.len - n);
	fputc('\n', t->out);
	prose_label(t, "More", S("--all explains each, --oneline lists all, one FILE alone is told in full"));
	for (size_t k = 0; k <= n; k++)
		for (size_t f = 0; f < FIELDS; f++)
			text_free(&rows[k].fields[f]);
}
