// What is folded below the first screen: why, each remedy with its steps, every event with its facts.
#include "report/cases.h"
#include "report/html/html.h"

// Tables of what a core or a dump holds: the code where the waves are, and every wave.

enum { ROWS = 100 }; // of one table: a browser lays out only those that are seen (page.css)

static const struct page_source *source_of(const struct html_report *h, const struct diag_event *e)
{
	for (size_t n = 0; n < h->options->nsources; n++)
		if (h->options->sources[n].event == e)
			return &h->options->sources[n];
	return NULL;
}

/** Source and instructions side by side, where both are known. */
static void details_put_code(struct html_report *h, const struct incident *i)
{
	struct html *p = &h->page;
	size_t n = 0;
	for (size_t k = 0; k < i->events.len; k++)
		n += i->events.data[k]->dump.ncode > 0;
	if (!n)
		return;
	html_fold(h, "code", "Code", n);
	for (size_t k = 0; k < i->events.len; k++) {
		const struct diag_event *e = i->events.data[k];
		const struct page_source *s = source_of(h, e);
		if (!e->dump.ncode)
			continue;
		page_fill(p, "<h3>@</h3><div class=\"beside\">\n", e->sentence);
		if (s) {
			page_fill(p,
				  "<div class=\"wide\" tabindex=\"0\" role=\"region\" "
				  "aria-label=\"Source\"><table><caption>@</caption><tbody>\n",
				  s->path);
			for (size_t m = 0; m < s->n; m++) {
				const bool here = s->first + m == s->here;
				page_markup(p, here ? S("<tr class=\"here\">") : S("<tr>"));
				page_numbers(p, "<th scope=\"row\">%zu</th>", s->first + m);
				page_markup(p, here ? S("<td>\xe2\x86\x92</td>") : S("<td></td>"));
				page_fill(p, "<td><code>@</code></td></tr>\n", s->lines[m]);
			}
			page_put(p, "</tbody></table></div>\n");
		}
		page_put(p, "<div class=\"wide\" tabindex=\"0\" role=\"region\" "
			    "aria-label=\"Instructions\"><table><caption>instructions</caption>"
			    "<tbody>\n");
		for (size_t j = 0; j < e->dump.ncode; j++) {
			const struct code_row *r = &e->dump.code[j];
			page_markup(p, r->here ? S("<tr class=\"here\">") : S("<tr>"));
			page_numbers(p, "<th scope=\"row\">0x%llx</th>", (unsigned long long)r->pc);
			page_markup(p, r->here ? S("<td>\xe2\x86\x92</td>") : S("<td></td>"));
			page_fill(p, "<td><code>@</code></td></tr>\n", r->text);
		}
		page_put(p, "</tbody></table></div>\n");
		page_put(p, "</div>\n");
		if (!s)
			page_put(p, "<p class=\"missing\">The source is not beside the code.</p>\n");
	}
	html_fold_end(h);
}

/** Every wave, in tables of a hundred: a browser lays out only those that are seen. */
static void put_waves(struct html_report *h, const struct dump *d)
{
	struct html *p = &h->page;
	html_fold(h, "waves", "Waves", d->nwaves);
	page_put(p, "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Waves\">\n");
	for (size_t n = 0; n < d->nwaves; n++) {
		if (n % ROWS == 0)
			page_put(p,
				 "<div class=\"rows\"><table><thead><tr><th scope=\"col\">Wave</th><th scope=\"col\">Queue</th>"
				 "<th scope=\"col\">Workgroup:wave</th><th scope=\"col\">XCC.SE</th><th scope=\"col\">pc</th>"
				 "<th scope=\"col\">Active lanes</th><th scope=\"col\">State</th><th "
				 "scope=\"col\">Kernel</th></tr>"
				 "</thead><tbody>\n");
		const struct wave_row *w = &d->waves[n];
		page_numbers(p, "<tr><th scope=\"row\">%zu</th><td>%u</td><td>", w->id, w->queue);
		if (w->placed)
			page_numbers(p, "%u,%u,%u:%u", w->workgroup[0], w->workgroup[1], w->workgroup[2], w->wave_in_group);
		page_numbers(p, "</td><td>%u.%u</td><td>0x%llx</td><td>0x%llx</td>", w->xcc, w->se, (unsigned long long)w->pc,
			     (unsigned long long)w->exec);
		page_fill(p, "<td>@</td><td>", w->state.n ? w->state : S("running"));
		page_clipped(p, w->kernel, 80);
		page_put(p, "</td></tr>\n");
		if ((n + 1) % ROWS == 0 || n + 1 == d->nwaves)
			page_put(p, "</tbody></table></div>\n");
	}
	page_put(p,
		 "</div>\n<p class=\"missing\">Not drawn: where on the chip these waves are. This evidence does not tell which "
		 "compute units the part has (its harvest mask).</p>\n");
	html_fold_end(h);
}

/** Code and waves. */
static void html_tables(struct html_report *h, const struct incident *i)
{
	details_put_code(h, i);
	for (size_t n = 0; n < i->events.len; n++) {
		const struct dump *d = &i->events.data[n]->dump;
		if (!d->nwaves)
			continue;
		put_waves(h, d);
		return; // of one target
	}
}

// Lines of the evidence, each with those around it, as they stand there.

enum { LINES_MOST = 600, LINE_MOST = 1000, LINE_FULL = 4096 };

/** A list for each run of lines. */
static void details_put_lines(struct html_report *h, const quoted_lines *list)
{
	struct html *p = &h->page;
	const struct quoted_line *last = NULL;
	for (size_t n = 0; n < list->len; n++) {
		const struct quoted_line *q = &list->data[n];
		if (last && (last->at.source != q->at.source || last->at.line + 1 != q->at.line))
			page_put(p, "</ol>\n");
		if (!last || last->at.source != q->at.source)
			page_element(p, "h3", "h3", evidence_at(h->d->evidence, q->at.source)->path);
		if (!last || last->at.source != q->at.source || last->at.line + 1 != q->at.line)
			page_put(p, "<ol class=\"lines\">\n");
		// Its anchor is what events link to.
		page_numbers(p, "<li value=\"%llu\" id=\"L%zu-%u-%llu\">", (unsigned long long)q->at.line, h->index,
			     q->at.source, (unsigned long long)q->at.line);
		page_put(p, "<code>");
		if (q->told)
			page_put(p, "<mark>");
		page_clipped(p, lines_at(h->d->lines, q->at), h->options->full_evidence ? LINE_FULL : LINE_MOST);
		if (q->told)
			page_put(p, "</mark>");
		page_put(p, "</code></li>\n");
		last = q;
	}
	if (last)
		page_put(p, "</ol>\n");
}

void html_quote(struct html_report *h, const struct incident *i)
{
	// All of the evidence stands with the first incident: it is the same for all.
	const bool full = h->options->full_evidence && h->index == 1;
	h->quoted = quote_lines(h->d, i, full);
	h->all_quoted = full || quote_limit(&h->quoted, LINES_MOST);
}

// --- details ---

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

/** Each change before it with its packages; the row at the top says which one is to blame. */
static void put_changes(struct html *p, const struct incident *i)
{
	const struct diag_changes *c = &i->changes;
	_cleanup_text_ struct text line = { 0 };
	if (!c->list.len)
		return;
	page_put(p, "<p>Changed before it:</p>\n<ul>\n");
	for (size_t n = 0; n < c->list.len; n++) {
		text_clear(&line);
		prose_change_line(&c->list.data[n], &line);
		page_fill(p, "<li>@</li>\n", text_str(&line));
	}
	page_put(p, "</ul>\n");
	if (c->list.data[0].role != CHANGE_TO_BLAME)
		return;
	text_clear(&line);
	prose_why_blamed(i, &line);
	page_fill(p, "<p class=\"quiet\">@.</p>\n", text_str(&line));
}

/** The one part that is unfolded from the beginning, since an answer without a reason convinces nobody. */
static void put_why(struct html_report *h, const struct incident *i)
{
	struct html *p = &h->page;
	_cleanup_text_ struct text summary = { 0 };
	page_numbers(p, "<details open id=\"why%zu\"><summary>Why</summary>\n", h->index);
	page_fill(p, "<p>@</p><p>", i->explanation);
	page_numbers(p, "Confidence %d %%: ", i->confidence);
	page_fill(p, "@.</p>\n<p class=\"quiet\">", i->sure);
	prose_summary(&h->words, i, &summary);
	page_fill(p, "@. Class <code>@</code>, incident <code>@</code>.</p>\n", text_str(&summary), i->cause->head.id, i->id);
	for (size_t n = 0; n < i->like.len && i->like.data[n].shown; n++) {
		const struct diag_like *l = &i->like.data[n];
		_cleanup_text_ struct text row = { 0 };
		like_row(&row, l);
		page_fill(p, "<p>Like @ <span class=\"quiet\">@</span></p>\n", text_str(&row), l->defect->title);
	}
	for (size_t n = 0; n < i->known.len; n++) {
		page_put(p, "<p>Known: ");
		page_known(p, i->known.data[n]->title);
		if (i->known.data[n]->good.n) {
			page_put(p, ". Good: ");
			page_known(p, i->known.data[n]->good);
		}
		page_fill(p, " <span class=\"quiet\">@</span></p>\n", i->known.data[n]->source);
	}
	put_changes(p, i);
	html_fold_end(h);
}

static void details_put_extra(struct html *p, const char *label, const struct command *c)
{
	if (!c)
		return;
	page_fill(p, "<p>@: ", str_z(label));
	page_step(p, c);
	page_put(p, "</p>\n");
}

/** A remedy with its steps. One that is in force or impossible here says why instead. */
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
		details_put_extra(p, "If", r->certain ? NULL : r->steps.condition);
		page_put(p, "<ol>");
		for (size_t n = 0; n < r->steps.n; n++) {
			page_put(p, "<li>");
			page_step(p, r->steps.list[n]);
			page_put(p, "</li>");
		}
		page_put(p, "</ol>\n");
		if (r->why.n)
			page_element(p, "p", "p", r->why);
		details_put_extra(p, "Check", r->steps.verify);
		details_put_extra(p, "Cost", r->steps.cost);
		details_put_extra(p, "Risk", r->steps.risk);
		details_put_extra(p, "Undo", r->steps.undo);
	}
	page_fill(p, "<p class=\"quiet\">@, grade @, @</p></section>\n", r->remedy->head.id, r->remedy->grade,
		  r->remedy->source);
}

/** Those to try that a person is told, three at most, and those that are in force or impossible here. */
static void details_put_remedies(struct html_report *h, const struct incident *i)
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
		page_fill(&h->page, "<p>@:</p><pre class=\"copied\">@</pre>\n", i->next.data[n].why,
			  command_str(i->next.data[n].run));
	}
	html_fold_end(h);
}

static void put_facts(struct html *p, const struct fact *facts, size_t n)
{
	page_put(p, "<table><tbody>");
	for (size_t k = 0; k < n; k++) {
		page_fill(p, "<tr><th scope=\"row\">@</th><td>", facts[k].name);
		page_clipped(p, facts[k].value, 2000);
		page_put(p, "</td></tr>\n");
	}
	page_put(p, "</tbody></table>\n");
}

/** An event, folded: its line, then its facts and where it stands in the evidence. */
static void put_event(struct html_report *h, const struct incident *i, const struct diag_event *e)
{
	struct html *p = &h->page;
	_cleanup_text_ struct text time = { 0 };
	prose_clock(&time, prose_stamp(h->d, e));
	text_add(&time, time.n ? S(" ") : S(""));
	prose_elapsed(&time, i->begin, e->time);
	page_fill(p, "<details class=\"event\"><summary><span class=\"role\">@</span> ", str_z(role_name(e->role)));
	if (time.n)
		page_element(p, "time", "time", text_str(&time));
	page_fill(p, " <b>@</b> ", e->kind->title);
	page_clipped(p, e->sentence, 1000);
	if (e->count > 1)
		page_numbers(p, " (%u times)", e->count);
	page_put(p, "</summary><p>");
	// The place of a line, as a link to where it is quoted.
	_cleanup_text_ struct text line = { 0 };
	prose_place(&h->words, &line, e->at);
	const bool quoted = quote_has(&h->quoted, e->at);
	if (quoted)
		page_numbers(p, "<a href=\"#L%zu-%u-%llu\">", h->index, e->at.source, (unsigned long long)e->at.line);
	page_text(p, str_trim(text_str(&line)));
	if (quoted)
		page_put(p, "</a>");
	if (e->lead) {
		page_fill(p, " After @: @", e->led_by->kind->title, e->lead->why);
	}
	page_put(p, "</p>");
	put_facts(p, e->facts, e->nfacts);
	page_put(p, "</details>\n");
}

void html_details(struct html_report *h, const struct incident *i)
{
	put_why(h, i);
	details_put_remedies(h, i);
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
	// Last, because it is the longest.
	if (h->quoted.len) {
		html_fold(h, "evidence", "Evidence", quote_told(&h->quoted));
		details_put_lines(h, &h->quoted);
		if (!h->all_quoted)
			page_put(&h->page, "<p>More lines are in the evidence itself.</p>\n");
		html_fold_end(h);
	}
	vec_free(&h->quoted);
}
