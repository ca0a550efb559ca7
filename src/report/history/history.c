#include "report/history/history.h"

#include <math.h>
#include <time.h>

#include "base/print.h"
#include "report/report.h"
#include "report/sheet.h"

enum { LINES = 24, DAY = 86400, WEEK = 7 * DAY };

const char *const helped_verdicts[] = { "unknown", "no-evidence", "helped", "worse" };

size_t history_width(const struct history_told *t)
{
	return report_width(&(struct uh_report_options){ .width = t->options->width });
}

/** 17 Nov, with the year where it is not that of @now. */
static void day_said(struct text *to, int64_t when, int64_t now)
{
	static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
	struct tm tm, today;
	gmtime_r(&(time_t){ (time_t)when }, &tm);
	gmtime_r(&(time_t){ (time_t)now }, &today);
	text_printf(to, "%d %s", tm.tm_mday, months[tm.tm_mon]);
	if (tm.tm_year != today.tm_year)
		text_printf(to, " %d", tm.tm_year + 1900);
}

static void plural(struct text *to, int64_t n, const char *what)
{
	text_printf(to, "%lld %s%s", (long long)n, what, n == 1 ? "" : "s");
}

/** `8 weeks`, `26 hours`: as long as it is. */
static void span_of(struct text *to, int64_t seconds)
{
	if (seconds >= 2 * WEEK && seconds % WEEK < DAY)
		plural(to, (seconds + DAY / 2) / WEEK, "week");
	else if (seconds >= 2 * DAY)
		plural(to, (seconds + DAY / 2) / DAY, "day");
	else
		plural(to, (seconds + 1800) / 3600, "hour");
}

/** Hours of work as people say them: with one decimal where there are few. */
static void history_hours_said(struct text *to, double hours)
{
	text_printf(to, hours < 10 && hours != floor(hours) ? "%.1f h" : "%.0f h", hours);
}

// --- whether it helped ---

static void rate_said(struct text *to, struct rate r)
{
	text_printf(to, "%.0f in ", r.events);
	history_hours_said(to, r.hours);
}

void helped_sentence(struct text *to, const struct helped *h)
{
	if (h->verdict == HELPED_UNKNOWN) {
		text_printf(to, "Cannot tell: no work was counted %s it.", h->before.hours <= 0 ? "before" : "after");
		return;
	}
	// Chance, or that people change something when it is worst, may still be behind it.
	const bool fewer = h->verdict == HELPED_NOTHING && h->ratio.high < 1;
	const bool more = h->verdict == HELPED_NOTHING && h->ratio.low > 1;
	const bool undecided = h->verdict == HELPED_NOTHING && h->next <= 0;
	if (undecided)
		text_printf(to, "No evidence: not decided after %.0f h of work. ", h->looked);
	text_add(to, h->verdict == HELPED_YES   ? S("Helped: ") :
		     h->verdict == HELPED_WORSE ? S("Made it worse: ") :
		     undecided                  ? S("") :
		     fewer                      ? S("Fewer, but not certain: ") :
		     more                       ? S("More, but not certain: ") :
						  S("No evidence yet: "));
	rate_said(to, h->after);
	text_add(to, S(" after, "));
	rate_said(to, h->before);
	text_add(to, S(" before"));
	if (undecided) {
		if (isfinite(h->ratio.ratio))
			text_printf(to, " (rate x %.2f)", h->ratio.ratio);
	} else if (fewer || more) {
		text_printf(to, "; the next verdict is due in %.0f h of work", ceil(h->next));
	} else if (h->verdict == HELPED_NOTHING && isfinite(h->to_tell)) {
		text_add(to, S("; it would take "));
		text_printf(to, "%.0f h without one to tell", ceil(h->to_tell > 1 ? h->to_tell : 1));
	} else if (h->verdict == HELPED_NOTHING) {
		text_add(to, h->before.events > 0 ? S("") : S("; without one before, nothing can tell"));
	} else {
		text_printf(to, " (rate x %.2f, 95 %%: %.2f to ", h->ratio.ratio, h->ratio.low);
		text_printf(to, isfinite(h->ratio.high) ? "%.2f)" : "no limit)", h->ratio.high);
	}
	text_add(to, S("."));
}

static void put_rate(struct sheet *s, const char *key, struct rate r)
{
	sheet_record(s, key, { "incidents", v_decimal(r.events, 0) }, { "hours", v_decimal(r.hours, 1) });
}

static void put_helped(struct sheet *s, const struct helped *h)
{
	sheet_put(s, "verdict", v_word(helped_verdicts[h->verdict]));
	put_rate(s, "before", h->before);
	put_rate(s, "after", h->after);
	sheet_fields(
		s, { "ratio", v_decimal(h->ratio.ratio, 4) }, { "low", v_decimal(h->ratio.low, 4) },
		{ "high", v_decimal(h->ratio.high, 4) }, { "judged_at_hours", v_if(h->looked > 0, v_decimal(h->looked, 0)) },
		{ "hours_to_tell", v_decimal(h->to_tell, 1) },
		{ "next_verdict_in_hours", v_if(h->next > 0, v_decimal(h->next, 1)) }, { "spread", v_decimal(h->spread, 2) });
}

static void put_change(struct sheet *s, const struct history_helped *c)
{
	sheet_fields(s, { "name", v_text(c->name) }, { "from", v_known(c->from) }, { "to", v_known(c->to) },
		     { "when", v_date(c->when) }, { "host", v_known(c->host) }, { "hosts", v_int(c->hosts) },
		     { "with", v_known(c->beside) });
	put_helped(s, &c->all);
	sheet_each (n, s, "classes", s->as_json ? c->nkinds : 0) {
		sheet_put(s, "class", v_text(c->kinds[n].class));
		put_helped(s, &c->kinds[n].helped);
	}
}

/** The class whose rate changed most, where there are several: its number, or behind the last. */
static size_t most_changed(const struct history_helped *c)
{
	size_t most = SIZE_MAX;
	double change = 0;
	for (size_t n = 0; n < c->nkinds && c->nkinds > 1; n++) {
		const struct helped *h = &c->kinds[n].helped;
		const double by = fabs(h->after.events / h->after.hours - h->before.events / h->before.hours);
		if (h->verdict != HELPED_UNKNOWN && by > change) {
			change = by;
			most = n;
		}
	}
	return most;
}

static void say_change(const struct history_told *t, const struct history_helped *c, FILE *out)
{
	enum { INDENT = 12 };
	char room[DATE_ROOM];
	_cleanup_text_ struct text line = { 0 };
	text_printf(&line, STR_FMT "  " STR_FMT " " STR_FMT " -> " STR_FMT, STR_ARG(str_cut(date_text(c->when, room), 10)),
		    STR_ARG(c->name), STR_ARG(c->from.n ? c->from : S("not set")), STR_ARG(c->to.n ? c->to : S("not set")));
	if (c->hosts > 1)
		text_printf(&line, " on %lld nodes", (long long)c->hosts);
	if (c->beside.n)
		text_printf(&line, "; with " STR_FMT, STR_ARG(c->beside));
	print_wrapped(out, text_str(&line), INDENT, 0, history_width(t));
	text_clear(&line);
	helped_sentence(&line, &c->all);
	fprintf(out, "%*s", INDENT, "");
	print_wrapped(out, text_str(&line), INDENT, INDENT, history_width(t));
	const size_t most = most_changed(c);
	for (size_t n = 0; n < c->nkinds; n++) {
		const struct helped *h = &c->kinds[n].helped;
		if (h->verdict != HELPED_YES && h->verdict != HELPED_WORSE && n != most)
			continue;
		text_clear(&line);
		text_printf(&line, STR_FMT ": ", STR_ARG(c->kinds[n].class));
		helped_sentence(&line, h);
		fprintf(out, "%*s", INDENT + 2, "");
		print_wrapped(out, text_str(&line), INDENT + 4, INDENT + 2, history_width(t));
	}
}

void history_begin(struct sheet *s, const struct history_told *t)
{
	sheet_begin(s, "unhang/history/1", NULL);
	sheet_fields(s, { "since", v_date(t->filter.since) }, { "until", v_date(t->filter.until) }, { "now", v_date(t->now) });
	sheet_record(s, "totals", { "incidents", v_int(t->summary.totals.incidents) },
		     { "nodes", v_int(t->summary.totals.hosts) }, { "open", v_int(t->summary.totals.open) },
		     { "this_week", v_int(t->summary.totals.this_week) }, { "last_week", v_int(t->summary.totals.last_week) },
		     { "first", v_date(t->summary.totals.first) }, { "last", v_date(t->summary.totals.last) },
		     { "gpu_hours", v_decimal(t->summary.totals.hours, 1) }, { "older_open", v_int(t->summary.totals.older) });
}

/** As many as fit on a screen. */
static void say_changes(const struct history_told *t, FILE *out)
{
	enum { AROUND = 3 }; // the title, and how many are left out
	const bool all = t->options->all || t->options->most;
	size_t lines = AROUND, shown = 0;
	for (; shown < t->helped.len; shown++) {
		_cleanup_free_ char *bytes = NULL;
		size_t n = 0;
		FILE *one = open_memstream(&bytes, &n);
		say_change(t, &t->helped.data[shown], one);
		fclose(one);
		for (struct str rest = { bytes, n }; rest.n; lines++)
			str_split(&rest, '\n');
		if (lines > LINES && !all && shown)
			break;
		print_str(out, (struct str){ bytes, n });
	}
	if (shown < t->helped.len)
		fprintf(out, "and %zu older %s: --all\n", t->helped.len - shown,
			t->helped.len - shown == 1 ? "change" : "changes");
}

void report_helped(const struct history_told *t, FILE *out)
{
	struct sheet s = sheet_on(t->options->json, out);
	history_begin(&s, t);
	sheet_each (n, &s, "changes", t->options->json ? t->helped.len : 0)
		put_change(&s, &t->helped.data[n]);
	sheet_close(&s, '}');
	if (t->options->json)
		return;
	if (!t->helped.len) {
		print_wrapped(out,
			      S("No change is known yet. unhang watch notes kernel, firmware, ROCm, Mesa and parameters when "
				"they change, and "
				"counts the hours of work."),
			      0, 0, history_width(t));
		return;
	}
	fputs("Did it help? Incidents and GPU-hours of work before and after each change.\n\n", out);
	say_changes(t, out);
}

// --- what happened ---

static void put_fault(struct sheet *s, const struct history_fault *f)
{
	sheet_fields(s, { "fingerprint", v_text(f->key) }, { "class", v_known(f->class) }, { "title", v_known(f->title) },
		     { "fault", v_known(f->fault) }, { "part", v_known(f->part) }, { "count", v_int(f->count) },
		     { "nodes", v_int(f->hosts) }, { "node", v_known(f->host) }, { "open", v_int(f->open) },
		     { "this_week", v_int(f->this_week) }, { "last_week", v_int(f->last_week) }, { "first", v_date(f->first) },
		     { "last", v_date(f->last) }, { "new", v_bool(f->new) });
}

static void put_listed(struct sheet *s, const struct history_incident *i)
{
	sheet_fields(s, { "id", v_text(i->id) }, { "state", v_known(i->state) }, { "began", v_date(i->began) },
		     { "ended", v_date(i->ended) }, { "node", v_known(i->host) }, { "gpu", v_known(i->gpu) },
		     { "serial", v_known(i->serial) }, { "unique_id", v_known(i->unique_id) }, { "part", v_known(i->part) },
		     { "gpu_name", v_known(i->gpu_name) }, { "class", v_known(i->class) }, { "title", v_known(i->title) },
		     { "fault", v_known(i->fault) }, { "action", v_known(i->action) }, { "fit", v_known(i->fit) },
		     { "program", v_known(i->program) }, { "job", v_known(i->job) }, { "fingerprint", v_known(i->fingerprint) },
		     { "bundle", v_known(i->bundle) }, { "place", v_known(i->place) }, { "revision", v_int(i->revision) });
}

/** As many words as fit into what is left of a line, with a mark where that is not all. Who made the store may have made it as long as he likes. */
static void history_add_fitting(const struct history_told *t, struct text *to, struct str s)
{
	const size_t width = history_width(t), used = print_columns(text_str(to)), columns = used < width ? width - used : 0;
	const bool all = print_columns(s) <= columns;
	struct str shown = all ? s : str_cut(s, 4 * columns);
	while (!all && shown.n && (print_columns(shown) + 4 > columns || shown.p[shown.n] != ' '))
		shown.n--;
	text_add(to, shown);
	text_add(to, all ? S("") : S(" ..."));
}

void history_window_said(struct text *to, const struct history_told *t)
{
	const struct history_filter *f = &t->filter;
	if (f->since && f->until) {
		text_add(to, S(" from "));
		day_said(to, f->since, f->until);
		text_add(to, S(" to "));
		day_said(to, f->until, 0);
	} else if (f->until) {
		text_add(to, S(" before "));
		day_said(to, f->until, 0);
	} else if (f->since) {
		text_add(to, S(" in the last "));
		span_of(to, t->now - f->since);
	}
}

/** A week that lies outside of what is asked for in part would look quiet. */
static bool covers_weeks(const struct history_told *t)
{
	return t->filter.since <= t->now - 2 * WEEK && (!t->filter.until || t->filter.until >= t->now);
}

static void open_said(struct text *to, const struct history_totals *n)
{
	if (!n->open)
		return;
	text_printf(to, " %lld %s open", (long long)n->open, n->open == 1 ? "is" : "are");
	if (n->older && n->older < n->open)
		text_printf(to, ", %lld of them", (long long)n->older);
	text_add(to, !n->older ? S(".") : n->older < n->open ? S(" from before that.") : S(", from before that."));
}

static void say_head(const struct history_told *t, FILE *out)
{
	_cleanup_text_ struct text line = { 0 };
	const struct history_totals *n = &t->summary.totals;
	const int64_t within = n->incidents - n->older;
	plural(&line, within, "incident");
	if (n->hosts > 1)
		text_printf(&line, " on %lld nodes", (long long)n->hosts);
	history_window_said(&line, t);
	if (n->hours > 0) {
		text_printf(&line, "; %.0f GPU-hours of work", n->hours);
		// Not all nodes count their work: a rate would be too high.
		if (within && !t->filter.open && n->machines >= n->hosts)
			text_printf(&line, ", one every %.0f GPU-hours", n->hours / (double)within);
	}
	text_add(&line, S("."));
	if (covers_weeks(t))
		text_printf(&line, " This week %lld, last week %lld.", (long long)n->this_week, (long long)n->last_week);
	open_said(&line, n);
	print_wrapped(out, text_str(&line), 0, 0, history_width(t));
}

static void say_fault(const struct history_told *t, const struct history_fault *f, bool nodes, FILE *out)
{
	enum { PART_MOST = 16 };
	_cleanup_text_ struct text line = { 0 }, day = { 0 }, what = { 0 };
	text_printf(&line, "%4lld %5lld %5lld", (long long)f->this_week, (long long)f->last_week, (long long)f->count);
	if (nodes)
		text_printf(&line, " %5lld", (long long)f->hosts);
	day_said(&day, f->last, t->now);
	text_printf(&line, "  %6.*s %-4s %-8.*s ", STR_ARG(text_str(&day)),
		    f->new && f->open ? "new*" :
		    f->new            ? "new" :
		    f->open           ? "*" :
					"",
		    STR_ARG(str_cut(f->part.n ? f->part : S("-"), PART_MOST)));
	if (t->options->all)
		text_printf(&line, STR_FMT "  ", STR_ARG(f->key));
	text_add_safe(&what, f->title.n ? f->title : f->class.n ? f->class : S("not explained"));
	if (t->options->all)
		text_add(&line, text_str(&what));
	else
		history_add_fitting(t, &line, text_str(&what));
	print_safe(out, text_str(&line));
	fputc('\n', out);
}

static void say_faults(const struct history_told *t, FILE *out)
{
	const bool nodes = t->summary.totals.hosts > 1;
	const size_t left = t->summary.nfaults - t->summary.faults.len;
	bool new = false;
	fprintf(out, "\nthis  last\nweek  week   all%s  newest      part     %sfault\n", nodes ? " nodes" : "",
		t->options->all ? "fingerprint       " : "");
	for (size_t n = 0; n < t->summary.faults.len; n++) {
		say_fault(t, &t->summary.faults.data[n], nodes, out);
		new |= t->summary.faults.data[n].new;
	}
	if (left)
		fprintf(out, "and %zu more: --all\n", left);
	if (new)
		fprintf(out, "new: never seen before this week%s\n", t->summary.totals.open ? "; *: open" : "");
	else if (t->summary.totals.open)
		fputs("*: open\n", out);
}

/** What to do, and where it came from, where a line has room for it. */
static void list_add_wide(struct text *to, const struct history_incident *i, size_t width)
{
	enum { WIDE = 120 };
	if (width < WIDE)
		return;
	text_printf(to, " (" STR_FMT "; fit: " STR_FMT ")", STR_ARG(i->action.n ? i->action : S("no action")),
		    STR_ARG(i->fit.n ? i->fit : S("unknown")));
	if (i->place.n)
		text_printf(to, " " STR_FMT, STR_ARG(i->place));
}

static void say_list(const struct history_told *t, FILE *out)
{
	fputc('\n', out);
	for (size_t n = 0; n < t->incidents.len; n++) {
		const struct history_incident *i = &t->incidents.data[n];
		char room[DATE_ROOM];
		_cleanup_text_ struct text line = { 0 }, rest = { 0 }, safe = { 0 };
		text_printf(&line, STR_FMT "  ", STR_ARG(str_cut(date_text(i->began, room), 16)));
		text_add_safe(&line, i->id); // of a file that anybody may have written
		text_add(&line, str_is(i->state, "closed") ? S("   ") : S(" * "));
		if (t->summary.totals.hosts > 1)
			text_printf(&rest, STR_FMT " ", STR_ARG(i->host));
		text_add(&rest, i->title.n ? i->title : i->class);
		list_add_wide(&rest, i, history_width(t));
		text_add_safe(&safe, text_str(&rest));
		history_add_fitting(t, &line, text_str(&safe));
		fprintf(out, STR_FMT "\n", STR_ARG(text_str(&line)));
	}
	if (t->more)
		fprintf(out, "and more (--skip %llu)\n", t->options->skip + (unsigned long long)t->incidents.len);
	if (t->summary.totals.open)
		fputs("*: open\n", out);
}

static void say_history(const struct history_told *t, FILE *out)
{
	if (!t->summary.totals.incidents && !t->options->filtered) {
		print_wrapped(out, S("No incident in the last 8 weeks."), 0, 0, history_width(t));
		return;
	}
	say_head(t, out);
	if (t->options->list)
		say_list(t, out);
	else if (t->summary.faults.len)
		say_faults(t, out);
	fputs(t->options->list ? "\nMore    unhang history --id ID: one of them; --csv: as a table\n" :
				 "\nMore    unhang history --list: each incident; --nodes, --gpus: which fail most;\n"
				 "        --remedies: did a change help; --all: each fault with its fingerprint\n",
	      out);
}

void report_history(const struct history_told *t, FILE *out)
{
	struct sheet s = sheet_on(true, out);
	if (!t->options->json) {
		say_history(t, out);
		return;
	}
	history_begin(&s, t);
	sheet_each (n, &s, "faults", t->summary.faults.len)
		put_fault(&s, &t->summary.faults.data[n]);
	sheet_each (n, &s, "incidents", t->incidents.len)
		put_listed(&s, &t->incidents.data[n]);
	sheet_put(&s, "next", v_if(t->more, v_number(t->options->skip + t->incidents.len)));
	sheet_close(&s, '}');
}

void report_history_incident(const struct history_incident *i, const struct history_event_list *events, struct str diagnosis,
			     FILE *out)
{
	struct sheet s = sheet_on(true, out);
	sheet_begin(&s, "unhang/incident/1", NULL);
	sheet_open(&s, "incident", '{');
	put_listed(&s, i);
	sheet_close(&s, '}');
	sheet_each (n, &s, "events", events->len) {
		const struct history_event *e = &events->data[n];
		sheet_fields(&s, { "time", v_decimal(e->time, 6) }, { "event", v_known(e->event) },
			     { "role", v_known(e->role) }, { "text", v_known(e->text) });
	}
	jw_key(&s.json, "diagnosis");
	if (diagnosis.n) // our own document, as it was stored
		jw_document(&s.json, diagnosis);
	else
		jw_null(&s.json);
	sheet_close(&s, '}');
}

// --- a table for others ---

static void csv_text(FILE *out, struct str s, bool first)
{
	_cleanup_text_ struct text safe = { 0 };
	text_add_safe(&safe, s);
	const struct str t = text_str(&safe);
	// A table program takes what begins with one of these for a formula.
	const bool formula = t.n && char_among(t.p[0], "=+-@");
	fputs(first ? "\"" : ",\"", out);
	if (formula)
		fputc('\'', out);
	for (size_t n = 0; n < t.n; n++) {
		if (t.p[n] == '"')
			fputc('"', out);
		fputc(t.p[n], out);
	}
	fputc('"', out);
}

void report_history_csv(const struct history_told *t, FILE *out)
{
	fputs("id,state,began,ended,node,gpu,serial,part,class,fault,action,fit,program,job,fingerprint,title,place\r\n", out);
	for (size_t n = 0; n < t->incidents.len; n++) {
		const struct history_incident *i = &t->incidents.data[n];
		char began[DATE_ROOM], ended[DATE_ROOM];
		const struct str values[] = { i->id,
					      i->state,
					      date_text(i->began, began),
					      date_text(i->ended, ended),
					      i->host,
					      i->gpu,
					      i->serial,
					      i->part,
					      i->class,
					      i->fault,
					      i->action,
					      i->fit,
					      i->program,
					      i->job,
					      i->fingerprint,
					      i->title,
					      i->place };
		for (size_t k = 0; k < ARRAY_SIZE(values); k++)
			csv_text(out, values[k], !k);
		fputs("\r\n", out);
	}
}
