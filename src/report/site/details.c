// The pages of one thing: an incident, a run with its tries, a machine.
#include <math.h>

#include "report/html/html.h"
#include "report/history/history.h"
#include "report/sheet.h"
#include "report/run/run.h"
#include "report/site/site.h"

static void put_fact(struct html *p, const char *name, struct str value)
{
	if (value.n)
		page_fill(p, "<dt>@</dt><dd>@</dd>\n", str_z(name), value);
}

static void put_moment(struct html *p, const char *name, int64_t when)
{
	if (!when)
		return;
	page_fill(p, "<dt>@</dt><dd>", str_z(name));
	site_when(p, when);
	page_put(p, "</dd>\n");
}

// --- an incident ---

static void site_put_events(struct html *p, const struct history_event_list *list)
{
	if (!list->len)
		return;
	page_put(p, "<h2>What happened</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
		    "aria-label=\"Events\"><table><thead><tr><th "
		    "scope=\"col\" class=\"n\">After</th><th scope=\"col\">Role</th><th scope=\"col\">Event</th><th "
		    "scope=\"col\">Text</th></tr></thead><tbody>\n");
	for (size_t n = 0; n < list->len; n++) {
		const struct history_event *e = &list->data[n];
		page_put(p, "<tr><td class=\"n\">");
		if (n && isfinite(e->time) && isfinite(list->data[0].time))
			page_numbers(p, "%+.3f s", e->time - list->data[0].time);
		page_fill(p, "</td><td>@</td><td>@</td><td>@</td></tr>\n", e->role, e->event, e->text);
	}
	page_put(p, "</tbody></table></div>\n");
}

static void put_texts(struct html *p, const char *title, const struct str *list, size_t n)
{
	if (!n)
		return;
	page_fill(p, "<h2>@</h2>\n<ol>\n", str_z(title));
	for (size_t i = 0; i < n; i++)
		page_element(p, "li", "li", list[i]);
	page_put(p, "</ol>\n");
}

static void site_put_changed(struct html *p, const char *title, const struct history_change_list *list)
{
	if (!list->len)
		return;
	page_fill(p, "<h2>@</h2>\n<ul>\n", str_z(title));
	for (size_t n = 0; n < list->len; n++) {
		const struct history_change *c = &list->data[n];
		page_put(p, "<li>");
		site_when(p, c->when);
		page_fill(p, " @ @: @ to @</li>\n", c->gpu, c->name, c->from.n ? c->from : S("not set"),
			  c->to.n ? c->to : S("not set"));
	}
	page_put(p, "</ul>\n");
}

void site_put_incident(const struct site *s, const struct site_incident *of, FILE *out)
{
	const struct history_incident *i = of->incident;
	struct html own = site_begin(s, out, SITE_INCIDENTS,
				     i->title.n ? i->title :
				     i->class.n ? i->class :
						  S("An incident")),
		    *p = &own;
	page_put(p, "<dl class=\"facts\">\n");
	put_fact(p, "Now", of->diagnosis->action);
	put_fact(p, "Whose fault", i->fault);
	put_fact(p, "Fit for the next job", i->fit);
	put_fact(p, "Confidence", of->diagnosis->confidence);
	page_put(p, "<dt>Node</dt><dd>");
	if (i->host.n)
		site_link(s, p, "machine", i->host, i->host);
	else
		page_put(p, "<span class=\"unknown\">not named</span>");
	page_fill(p, "</dd>\n<dt>GPU</dt><dd>@ @ @</dd>\n", i->gpu_name, i->part, i->gpu);
	put_fact(p, "Serial number", i->serial);
	put_fact(p, "Unique id", i->unique_id);
	put_fact(p, "Program", i->program);
	put_fact(p, "Job", i->job);
	put_fact(p, "State", i->state);
	put_moment(p, "Began", i->began);
	put_moment(p, "Ended", i->ended);
	put_fact(p, "Ended by", i->closed_by);
	put_fact(p, "Cause", i->class);
	put_fact(p, "Bundle", i->bundle);
	put_fact(p, "Evidence", i->place);
	put_fact(p, "Id", i->id);
	page_put(p, "</dl>\n");
	if (of->report) {
		page_put(p, "<p><a href=\"");
		site_href(s, p, "report", i->id);
		page_put(p, "\">The full report, with pictures</a></p>\n");
	}
	site_put_events(p, of->events);
	if (of->diagnosis->explanation.n)
		page_fill(p, "<h2>Why</h2>\n<p>@</p>\n", of->diagnosis->explanation);
	put_texts(p, "What to try", of->diagnosis->remedies.data, of->diagnosis->remedies.len);
	put_texts(p, "What would tell more", of->diagnosis->next.data, of->diagnosis->next.len);
	site_put_changed(p, "What changed in the two weeks before", of->changes);
	chart_samples(p, of->samples, &i->began, 1);
	site_end(p);
}

// --- a run ---

static bool try_passed(const struct history_try *t) { return str_among(t->ended, STR_EQUALS, "done|no-launch|").n; }
static bool try_failed(const struct history_try *t) { return t->ended.n && !try_passed(t); }

/** What a try came to, in a few words: its cause, or what is known of its end. */
static struct str try_words(const struct history_try *t, const struct site_try *d)
{
	const struct str words = t->title.n ? t->title : d->because.n ? d->because : str_z(run_ended_say(t->ended));
	return try_passed(t) ? S("passed") : str_cut(words, words.n - (words.n && words.p[words.n - 1] == '.'));
}

/** All tries on one line of time. */
static void put_trajectory(struct html *p, const struct history_try_list *list, const struct site_try *details)
{
	struct picture g = { .form = PICTURE_TRACKS, .kind = SHOWS_TIMELINE };
	struct html_report h = { .page = *p };
	const int64_t begin = list->data[0].began;
	int64_t end = begin + 1;
	for (size_t n = 0; n < list->len; n++) {
		const int64_t e = list->data[n].began + list->data[n].ran_ms / 1000;
		end = e > end ? e : end;
	}
	size_t failed = 0;
	for (size_t n = 0; n < list->len; n++) {
		const struct history_try *t = &list->data[n];
		_cleanup_text_ struct text label = { 0 };
		text_printf(&label, "try %lld, recorded at level %lld", (long long)t->number, (long long)t->level);
		picture_track(&g, text_str(&label));
		failed += try_failed(t);
		const double place = (double)(t->began - begin) / (double)(end - begin), from = place < 0.99 ? place : 0.99;
		const double wide = (double)t->ran_ms / 1000 / (double)(end - begin);
		picture_mark(&g, (struct picture_mark){ n, from, from + (wide > 0.01 ? wide : 0.01),
							try_failed(t) ? LOOK_BAD :
							try_passed(t) ? LOOK_GOOD :
									LOOK_UNKNOWN,
							try_words(t, &details[n]) });
	}
	_cleanup_text_ struct text says = { 0 };
	text_printf(&says, "%zu tries, of which %zu failed", list->len, failed);
	g.says = arena_str(&g.arena, text_str(&says));
	page_put(p, "<figure><figcaption>The tries, by time</figcaption>\n");
	html_strip(&h, &g);
	page_fill(p, "<p class=\"says\">@.</p></figure>\n", g.says);
	picture_free(&g);
}

static void put_duration(struct html *p, int64_t ms)
{
	if (ms >= 7200000)
		page_numbers(p, "%.1f h", (double)ms / 3600000);
	else if (ms >= 120000)
		page_numbers(p, "%.1f min", (double)ms / 60000);
	else
		page_numbers(p, "%.1f s", (double)ms / 1000);
}

static void site_put_try(struct html *p, const struct history_try *t, const struct site_try *d)
{
	page_markup(p, try_failed(t) ? S("<section class=\"try bad\">") :
		       try_passed(t) ? S("<section class=\"try good\">") :
				       S("<section class=\"try\">"));
	page_numbers(p, "<h2>Try %lld", (long long)t->number);
	page_fill(p, ": @</h2>\n", try_words(t, d));
	page_fill(p, "<p>The job @. @</p>\n<dl class=\"facts\">\n", str_z(run_ended_say(t->ended)), t->title);
	put_moment(p, "Began", t->began);
	page_put(p, "<dt>Ran</dt><dd>");
	put_duration(p, t->ran_ms);
	page_numbers(p, "</dd>\n<dt>Recorded</dt><dd>level %lld", (long long)t->level);
	if (d->filter.n)
		page_fill(p, ", only @", d->filter);
	page_put(p, "</dd>\n");
	put_fact(p, "Evidence for that", d->because);
	put_fact(p, "Cause", t->class);
	put_fact(p, "Whose fault", t->fault);
	put_fact(p, "GPU kernel", d->kernel.n ? d->kernel : t->kernel);
	put_fact(p, "Where", d->place);
	put_fact(p, "It said", d->words);
	put_fact(p, "Bundle", d->bundle);
	put_fact(p, "Then", d->decision);
	page_put(p, "</dl>\n</section>\n");
}

void site_put_run(const struct site *s, const struct site_run *of, FILE *out)
{
	enum { MOMENTS = 64, TITLE_MOST = 90 };
	const struct history_run *r = of->run;
	const struct str title = str_cut(r->command.n ? r->command : r->id, TITLE_MOST);
	struct html own = site_begin(s, out, SITE_RUNS, title), *p = &own;
	int64_t moments[MOMENTS];
	size_t n = 0, failed = 0;
	for (size_t i = 0; i < of->tries->len; i++)
		failed += try_failed(&of->tries->data[i]);
	const bool passed = of->tries->len && try_passed(&of->tries->data[of->tries->len - 1]);
	if (failed)
		page_numbers(p, failed == 1 ? "<p>It failed %zu time" : "<p>It failed %zu times", failed);
	if (passed && failed)
		page_numbers(p, ", and passed at try %zu", of->tries->len);
	if (failed)
		page_put(p, ".</p>\n");
	page_put(p, "<dl class=\"facts\">\n");
	page_put(p, "<dt>Node</dt><dd>");
	if (r->host.n)
		site_link(s, p, "machine", r->host, r->host);
	page_put(p, "</dd>\n");
	put_fact(p, "Command", title.n < r->command.n ? r->command : (struct str){ 0 });
	put_moment(p, "Began", r->began);
	if (r->status >= 0)
		page_numbers(p, "<dt>Status</dt><dd>%lld</dd>\n", (long long)r->status);
	put_fact(p, "State", r->state);
	put_fact(p, "Started by", r->launcher);
	put_fact(p, "Job", r->job);
	put_fact(p, "Files", r->place);
	put_fact(p, "Id", r->id);
	page_put(p, "</dl>\n");
	if (of->tries->len)
		put_trajectory(p, of->tries, of->details);
	for (size_t i = 0; i < of->tries->len; i++) {
		const struct history_try *t = &of->tries->data[i];
		site_put_try(p, t, &of->details[i]);
		if (try_failed(t) && n < MOMENTS)
			moments[n++] = t->began + t->ran_ms / 1000;
	}
	chart_samples(p, of->samples, moments, n);
	site_end(p);
}

// --- a machine ---

static void put_helped_rows(struct html *p, const struct history_helped_list *list)
{
	if (!list->len)
		return;
	page_put(p, "<h2>Did it help?</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
		    "aria-label=\"Changes\"><table><thead><tr><th "
		    "scope=\"col\">When</th><th scope=\"col\">Change</th><th scope=\"col\">Incidents and "
		    "GPU-hours</th></tr></thead><tbody>\n");
	for (size_t n = 0; n < list->len; n++) {
		const struct history_helped *c = &list->data[n];
		_cleanup_text_ struct text says = { 0 };
		helped_sentence(&says, &c->all);
		page_put(p, "<tr><td class=\"t\">");
		site_when(p, c->when);
		page_fill(p, "</td><td>@: @ to @</td><td>", c->name, c->from.n ? c->from : S("not set"),
			  c->to.n ? c->to : S("not set"));
		page_markup(p, c->all.verdict == HELPED_YES   ? S("<span class=\"good\">") :
			       c->all.verdict == HELPED_WORSE ? S("<span class=\"bad\">") :
								S("<span>"));
		page_fill(p, "@</span></td></tr>\n", text_str(&says));
	}
	page_put(p, "</tbody></table></div>\n");
}

void site_put_machine(const struct site *s, const struct site_machine *m, FILE *out)
{
	struct html own = site_begin(s, out, SITE_MACHINES, m->host), *p = &own;
	const int64_t within = m->totals->incidents - m->totals->older;
	page_numbers(p,
		     within == 1 ? "<p>%lld incident in the last 8 weeks, %lld open." :
				   "<p>%lld incidents in the last 8 weeks, %lld open.",
		     (long long)within, (long long)m->totals->open);
	if (m->totals->hours > 0)
		page_numbers(p, " %.0f GPU-hours of work.", m->totals->hours);
	page_put(p, "</p>\n");
	chart_days(p, m->days, m->since, s->now);
	put_helped_rows(p, m->helped);
	if (m->incidents->len) {
		page_put(p, "<h2>Incidents</h2>\n");
		site_table(s, p, m->incidents, false);
	}
	if (m->configuration->len) {
		page_put(p, "<h2>How it is set up</h2>\n<dl class=\"facts\">\n");
		for (size_t n = 0; n < m->configuration->len; n++) {
			const struct history_change *c = &m->configuration->data[n];
			page_fill(p, "<dt>@ @</dt><dd>@ <span class=\"quiet\">since ", c->gpu, c->name, c->to);
			site_when(p, c->when);
			page_put(p, "</span></dd>\n");
		}
		page_put(p, "</dl>\n");
	}
	site_put_changed(p, "What changed", m->changes);
	site_end(p);
}
