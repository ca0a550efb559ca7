// What is folded below the first screen: why, each remedy with its steps, every event with its facts.
#include "report/html/parts.h"

void html_fold(struct html_report *h, const char *id, const char *title, size_t count)
{
	struct html *p = &h->page;
	page_put(p, "<details id=\"");
	page_markup(p, str_z(id));
	page_numbers(p, "%zu\"><summary>", h->index);
	page_text(p, str_z(title));
	if (count)
		page_numbers(p, " (%zu)", count);
	page_put(p, "</summary>\n");
}

void html_fold_end(struct html_report *h) { page_put(&h->page, "</details>\n"); }

void html_place(struct html_report *h, struct place at)
{
	struct html *p = &h->page;
	struct text line = { 0 };
	prose_place(&h->words, &line, at);
	const bool quoted = quote_has(&h->quoted, at);
	if (quoted)
		page_numbers(p, "<a href=\"#L%zu-%u-%llu\">", h->index, at.source, (unsigned long long)at.line);
	page_text(p, str_trim(text_str(&line)));
	if (quoted)
		page_put(p, "</a>");
	text_free(&line);
}

static void put_why(struct html_report *h, const struct incident *i)
{
	struct html *p = &h->page;
	struct text summary = { 0 };
	page_numbers(p, "<details open id=\"why%zu\"><summary>Why</summary>\n", h->index);
	page_element(p, "p", "p", i->explanation);
	page_put(p, "<p>");
	page_numbers(p, "Confidence %d %%: ", i->confidence);
	page_text(p, i->sure);
	page_put(p, ".</p>\n<p class=\"quiet\">");
	prose_summary(&h->words, i, &summary);
	page_text(p, text_str(&summary));
	page_put(p, ". Class ");
	page_element(p, "code", "code", i->cause->head.id);
	page_put(p, ", incident ");
	page_element(p, "code", "code", i->id);
	page_put(p, ".</p>\n");
	for (size_t n = 0; n < i->known.len; n++) {
		page_put(p, "<p>Known: ");
		page_known(p, i->known.data[n]->title);
		if (i->known.data[n]->good.n) {
			page_put(p, ". Good: ");
			page_known(p, i->known.data[n]->good);
		}
		page_put(p, " <span class=\"quiet\">");
		page_text(p, i->known.data[n]->source);
		page_put(p, "</span></p>\n");
	}
	html_fold_end(h);
	text_free(&summary);
}

static void put_extra(struct html *p, const char *label, const struct command *c)
{
	if (!c)
		return;
	page_put(p, "<p>");
	page_text(p, str_z(label));
	page_put(p, ": ");
	page_step(p, c);
	page_put(p, "</p>\n");
}

static void put_remedy(struct html_report *h, const struct diag_remedy *r, size_t number)
{
	struct html *p = &h->page;
	page_numbers(p, "<section id=\"remedy%zu-%zu\">", h->index, number);
	page_put(p, "<h3>");
	page_known(p, r->remedy->title);
	page_put(p, "</h3>");
	if (r->verdict.state != REMEDY_TRY) {
		page_element(p, "p", "p", r->verdict.because);
	} else {
		put_extra(p, "If", r->certain ? NULL : r->steps.condition);
		page_put(p, "<ol>");
		for (size_t n = 0; n < r->steps.n; n++) {
			page_put(p, "<li>");
			page_step(p, r->steps.list[n]);
			page_put(p, "</li>");
		}
		page_put(p, "</ol>\n");
		if (r->why.n)
			page_element(p, "p", "p", r->why);
		put_extra(p, "Check", r->steps.verify);
		put_extra(p, "Cost", r->steps.cost);
		put_extra(p, "Risk", r->steps.risk);
		put_extra(p, "Undo", r->steps.undo);
	}
	page_put(p, "<p class=\"quiet\">");
	page_text(p, r->remedy->head.id);
	page_put(p, ", grade ");
	page_text(p, r->remedy->grade);
	page_put(p, ", ");
	page_text(p, r->remedy->source);
	page_put(p, "</p></section>\n");
}

/** Those to try that a person is told, three at most, and those that are in force or impossible here. */
static void put_remedies(struct html_report *h, const struct incident *i)
{
	enum { REMEDIES = 3 };
	size_t told = 0;
	if (!i->remedies.len && !i->settings.len)
		return;
	html_fold(h, "remedies", "Steps", 0);
	for (size_t n = 0; n < i->remedies.len; n++) {
		const struct diag_remedy *r = &i->remedies.data[n];
		const bool try = r->verdict.state == REMEDY_TRY;
		if ((try && (!r->shown || told == REMEDIES)))
			continue;
		told += try;
		put_remedy(h, r, n + 1);
	}
	for (size_t n = 0; n < i->settings.len; n++)
		page_element(&h->page, "p", "p", i->settings.data[n].text);
	for (size_t n = 0; n < i->next.len; n++) {
		page_put(&h->page, "<p>");
		page_text(&h->page, i->next.data[n].why);
		page_put(&h->page, ":</p><pre class=\"copied\">");
		page_text(&h->page, command_str(i->next.data[n].run));
		page_put(&h->page, "</pre>\n");
	}
	html_fold_end(h);
}

static void put_facts(struct html *p, const struct fact *facts, size_t n)
{
	page_put(p, "<table><tbody>");
	for (size_t k = 0; k < n; k++) {
		page_element(p, "tr><th scope=\"row\"", "th", facts[k].name);
		page_put(p, "<td>");
		page_clipped(p, facts[k].value, 2000);
		page_put(p, "</td></tr>\n");
	}
	page_put(p, "</tbody></table>\n");
}

static void put_event(struct html_report *h, const struct incident *i, const struct diag_event *e)
{
	struct html *p = &h->page;
	struct text time = { 0 };
	prose_clock(&time, prose_stamp(h->d, e));
	text_add(&time, time.n ? S(" ") : S(""));
	prose_elapsed(&time, i->begin, e->time);
	page_put(p, "<details class=\"event\"><summary><span class=\"role\">");
	page_text(p, str_z(role_name(e->role)));
	page_put(p, "</span> ");
	if (time.n)
		page_element(p, "time", "time", text_str(&time));
	page_put(p, " <b>");
	page_text(p, e->kind->title);
	page_put(p, "</b> ");
	page_clipped(p, e->sentence, 1000);
	if (e->count > 1)
		page_numbers(p, " (%u times)", e->count);
	page_put(p, "</summary><p>");
	html_place(h, e->at);
	if (e->lead) {
		page_put(p, " After ");
		page_text(p, e->led_by->kind->title);
		page_put(p, ": ");
		page_text(p, e->lead->why);
	}
	page_put(p, "</p>");
	put_facts(p, e->facts, e->nfacts);
	page_put(p, "</details>\n");
	text_free(&time);
}

void html_details(struct html_report *h, const struct incident *i)
{
	put_why(h, i);
	put_remedies(h, i);
	html_fold(h, "events", "Events", i->events.len);
	for (size_t n = 0; n < i->events.len; n++)
		put_event(h, i, i->events.data[n]);
	if (i->dropped)
		page_numbers(&h->page, "<p>%u more events were counted only.</p>\n", i->dropped);
	html_fold_end(h);
	if (i->machine.len) {
		html_fold(h, "machine", "The machine", i->machine.len);
		put_facts(&h->page, i->machine.data, i->machine.len);
		html_fold_end(h);
	}
	html_tables(h, i);
	html_evidence(h);
}
