// The file around the incidents: its policy, its style, its script, and what is said by itself.
#include <stdlib.h>

#include "report/html/parts.h"
#include "style.h"

enum { INCIDENTS_MOST = 20 };

/** A title of its own for the tab: the most important incident. */
static struct str title_of(const struct diagnosis *d)
{
	return d->ledger->incidents.len ? d->ledger->incidents.data[0]->title :
	       d->verdict == UH_HEALTHY ? S("No problem found") :
					  S("No incident found");
}

/** What programs ask of a report: which incident this is. */
static void put_data(struct html_report *h)
{
	const struct incident *i = h->d->ledger->incidents.len ? h->d->ledger->incidents.data[0] : NULL;
	const struct str none = { 0 };
	const struct {
		const char *key;
		struct str value;
	} rows[] = {
		{ "schema", S("unhang/page/1") },
		{ "verdict", str_z(verdict_name(h->d->verdict)) },
		{ "id", i ? i->id : none },
		{ "fingerprint", i ? i->fingerprint : none },
		{ "class", i ? i->cause->head.id : none },
		{ "title", i ? i->title : none },
		{ "do", i ? i->action->action : none },
		{ "fault", i ? i->fault : none },
		{ "fit", i ? incident_fit(i) : none },
		{ "gpu", i ? i->gpu.device : none },
		{ "host", i ? i->host : none },
	};
	char *text = NULL;
	size_t n = 0;
	struct json j = { .out = open_memstream(&text, &n) };
	if (!j.out)
		return;
	jw_open(&j, '{');
	for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
		struct text value = { 0 };
		page_filtered(&h->page, rows[k].value, &value);
		jw_field(&j, rows[k].key, rows[k].value.n ? text_str(&value) : none);
		text_free(&value);
	}
	jw_close(&j, '}');
	fclose(j.out);
	page_put(&h->page, "<script type=\"application/json\" id=\"incident\">\n");
	page_json(&h->page, (struct str){ text, n });
	page_put(&h->page, "</script>\n");
	free(text);
}

static void on_begin(void *ctx, const struct diagnosis *d)
{
	struct html_report *h = ctx;
	struct html *p = &h->page;
	page_put(p,
		 "<!DOCTYPE html>\n<html lang=\"en-GB\">\n<head>\n<meta charset=\"utf-8\">\n"
		 "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		 "style-src '" HTML_STYLE_HASH "'; script-src '" HTML_SCRIPT_HASH "'; base-uri 'none'; form-action 'none'\">\n"
		 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		 "<meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"generator\" content=\"unhang " UNHANG_VERSION
		 "\">\n");
	page_element(p, "title", "title", title_of(d));
	page_put(p, "\n<style>");
	page_markup(p, str_z(html_style));
	page_put(p, "</style>\n</head>\n<body>\n<main>\n");
}

/** GPUs of a machine that was looked at. */
static void put_machine(struct html_report *h, const struct machine_observation *m)
{
	struct html *p = &h->page;
	page_put(p, "<details class=\"gpus\"><summary>GPUs of this machine");
	page_numbers(p, " (%zu)", m->n);
	page_put(p,
		 "</summary><table><thead><tr><th scope=\"col\">GPU</th><th scope=\"col\">State</th><th scope=\"col\">Says</th>"
		 "</tr></thead><tbody>\n");
	for (size_t n = 0; n < m->n; n++) {
		const struct gpu_observation *g = &m->gpus[n];
		page_element(p, "tr><td", "td", g->device->pci);
		page_put(p, "<td>");
		if (gpu_verdict(g) == UH_HEALTHY)
			page_element(p, "span class=\"good\"", "span", g->health);
		else if (g->unwell)
			page_element(p, "span class=\"bad\"", "span", g->health);
		else
			page_put(p, "<span class=\"unknown\">unknown</span>");
		page_put(p, "</td>");
		page_element(p, "td", "td", g->says.n ? g->says : g->unseen);
		page_put(p, "</tr>\n");
	}
	page_put(p, "</tbody></table></details>\n");
}

/** The list of GPUs stands behind the incidents: the first screen is theirs. */
static void on_machine(void *ctx, const struct machine_observation *m)
{
	(void)ctx;
	(void)m;
}

static void on_open(void *ctx, enum report_list list, const struct incident *i)
{
	struct html_report *h = ctx;
	(void)i;
	if (list == LIST_INCIDENTS && !h->d->ledger->incidents.len) {
		page_element(&h->page, "h1", "h1", title_of(h->d));
		if (h->d->unread.n) {
			page_put(&h->page, "<p class=\"unknown\">This is no all-clear: ");
			page_text(&h->page, h->d->unread);
			page_put(&h->page, ".</p>\n");
		}
	}
}

static void on_source(void *ctx, const struct evidence *e)
{
	(void)ctx;
	(void)e;
}

static void on_incident(void *ctx, const struct incident *i)
{
	struct html_report *h = ctx;
	struct html *p = &h->page;
	const bool others = ++h->index > 1;
	if (h->index > INCIDENTS_MOST)
		return;
	if (h->index == 2)
		page_put(p, "<section class=\"others\"><h2>Other incidents</h2>\n");
	if (others) {
		page_put(p, "<details><summary>");
		page_text(p, i->title);
		page_put(p, " <span class=\"quiet\">");
		html_origin(h, i);
		page_put(p, "</span></summary>\n");
	}
	page_numbers(p, "<article id=\"incident%zu\">\n", h->index);
	html_quote(h, i);
	html_first(h, i);
	html_details(h, i);
	page_put(p, "</article>\n");
	if (others)
		page_put(p, "</details>\n");
}

static void on_event(void *ctx, const struct diag_event *e, size_t id)
{
	(void)ctx;
	(void)e;
	(void)id;
}

static void on_known(void *ctx, const struct know_bad *b)
{
	(void)ctx;
	(void)b;
}

static void on_remedy(void *ctx, const struct diag_remedy *r, size_t number)
{
	(void)ctx;
	(void)r;
	(void)number;
}

static void on_setting(void *ctx, const struct diag_setting *s)
{
	(void)ctx;
	(void)s;
}

static void on_next(void *ctx, const struct diag_next *n)
{
	(void)ctx;
	(void)n;
}

static void on_note(void *ctx, const struct note *n)
{
	struct html_report *h = ctx;
	vec_push(&h->notes, *n);
}

static void on_close(void *ctx, enum report_list list, const struct incident *i)
{
	struct html_report *h = ctx;
	(void)i;
	if (list == LIST_INCIDENTS && h->index > INCIDENTS_MOST)
		page_numbers(&h->page, "<p>%zu more incidents are not in this file.</p>\n", h->index - INCIDENTS_MOST);
	if (list == LIST_INCIDENTS && h->index > 1)
		page_put(&h->page, "</section>\n");
	if (list != LIST_NOTES || !h->notes.len)
		return;
	page_put(&h->page, "<details><summary>Notes");
	page_numbers(&h->page, " (%zu)", h->notes.len);
	page_put(&h->page, "</summary><ul>\n");
	for (size_t n = 0; n < h->notes.len; n++)
		page_element(&h->page, "li", "li", h->notes.data[n].text);
	page_put(&h->page, "</ul></details>\n");
}

static void on_incident_end(void *ctx, const struct incident *i)
{
	(void)ctx;
	(void)i;
}

static void on_end(void *ctx, const struct diagnosis *d)
{
	struct html_report *h = ctx;
	if (d->machine)
		put_machine(h, d->machine);
	html_about(h);
	page_put(&h->page, "</main>\n");
	put_data(h);
	page_put(&h->page, "<script>");
	page_markup(&h->page, str_z(html_script));
	page_put(&h->page, "</script>\n</body>\n</html>\n");
}

void report_html(const struct diagnosis *d, FILE *out, const struct page_options *o)
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
	static const struct uh_report_options plain = { 0 };
	struct html_report h = {
		.page = { out, o->filter }, .d = d, .options = o, .words = { .diagnosis = d, .options = &plain }
	};
	report_walk(d, &writer, &h);
	vec_free(&h.notes);
}
