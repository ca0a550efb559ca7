// Tables of what a core or a dump holds: the code where the waves are, and every wave.
#include "report/html/parts.h"

enum { ROWS = 100 }; // of one table: a browser lays out only those that are seen (page.css)

static const struct page_source *source_of(const struct html_report *h, const struct diag_event *e)
{
	for (size_t n = 0; n < h->options->nsources; n++)
		if (h->options->sources[n].event == e)
			return &h->options->sources[n];
	return NULL;
}

static void put_source(struct html_report *h, const struct page_source *s)
{
	struct html *p = &h->page;
	page_put(p, "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Source\"><table><caption>");
	page_text(p, s->path);
	page_put(p, "</caption><tbody>\n");
	for (size_t n = 0; n < s->n; n++) {
		const bool here = s->first + n == s->here;
		page_markup(p, here ? S("<tr class=\"here\">") : S("<tr>"));
		page_numbers(p, "<th scope=\"row\">%zu</th>", s->first + n);
		page_markup(p, here ? S("<td>\xe2\x86\x92</td>") : S("<td></td>"));
		page_element(p, "td><code", "code", s->lines[n]);
		page_put(p, "</td></tr>\n");
	}
	page_put(p, "</tbody></table></div>\n");
}

static void put_instructions(struct html_report *h, const struct dump *d)
{
	struct html *p = &h->page;
	page_put(p, "<div class=\"wide\" tabindex=\"0\" role=\"region\" "
		    "aria-label=\"Instructions\"><table><caption>instructions</caption>"
		    "<tbody>\n");
	for (size_t n = 0; n < d->ncode; n++) {
		const struct code_row *r = &d->code[n];
		page_markup(p, r->here ? S("<tr class=\"here\">") : S("<tr>"));
		page_numbers(p, "<th scope=\"row\">0x%llx</th>", (unsigned long long)r->pc);
		page_markup(p, r->here ? S("<td>\xe2\x86\x92</td>") : S("<td></td>"));
		page_element(p, "td><code", "code", r->text);
		page_put(p, "</td></tr>\n");
	}
	page_put(p, "</tbody></table></div>\n");
}

static void put_code(struct html_report *h, const struct incident *i)
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
		page_element(p, "h3", "h3", e->sentence);
		page_put(p, "<div class=\"beside\">\n");
		if (s)
			put_source(h, s);
		put_instructions(h, &e->dump);
		page_put(p, "</div>\n");
		if (!s)
			page_put(p, "<p class=\"missing\">The source is not beside the code.</p>\n");
	}
	html_fold_end(h);
}

static void put_wave(struct html *p, const struct wave_row *w)
{
	page_numbers(p, "<tr><th scope=\"row\">%zu</th><td>%u</td><td>", w->id, w->queue);
	if (w->placed)
		page_numbers(p, "%u,%u,%u:%u", w->workgroup[0], w->workgroup[1], w->workgroup[2], w->wave_in_group);
	page_numbers(p, "</td><td>%u.%u</td><td>0x%llx</td><td>0x%llx</td>", w->xcc, w->se, (unsigned long long)w->pc,
		     (unsigned long long)w->exec);
	page_element(p, "td", "td", w->state.n ? w->state : S("running"));
	page_put(p, "<td>");
	page_clipped(p, w->kernel, 80);
	page_put(p, "</td></tr>\n");
}

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
		put_wave(p, &d->waves[n]);
		if ((n + 1) % ROWS == 0 || n + 1 == d->nwaves)
			page_put(p, "</tbody></table></div>\n");
	}
	page_put(p,
		 "</div>\n<p class=\"missing\">Not drawn: where on the chip these waves are. This evidence does not tell which "
		 "compute units the part has (its harvest mask).</p>\n");
	html_fold_end(h);
}

void html_tables(struct html_report *h, const struct incident *i)
{
	put_code(h, i);
	for (size_t n = 0; n < i->events.len; n++) {
		const struct dump *d = &i->events.data[n]->dump;
		if (!d->nwaves)
			continue;
		put_waves(h, d);
		return; // of one target
	}
}
