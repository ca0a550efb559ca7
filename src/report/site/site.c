#include "report/site/site.h"

#include <time.h>

#include "base/print.h"
#include "report/html/tag.h"
#include "report/sheet.h"
#include "site_style.h"

static const struct {
	const char *kind, *name;
} pages[SITE_PAGES] = {
	[SITE_OVERVIEW] = { "", "Overview" },
	[SITE_INCIDENTS] = { "incidents", "Incidents" },
	[SITE_RUNS] = { "runs", "Runs" },
	[SITE_MACHINES] = { "machines", "Machines" },
};

void site_put_name(struct text *to, struct str name)
{
	for (size_t n = 0; n < name.n; n++)
		if (char_word(name.p[n]) || name.p[n] == '-' || (name.p[n] == '.' && n))
			text_add(to, (struct str){ name.p + n, 1 });
		else
			text_printf(to, "%%%02X", (unsigned char)name.p[n]);
}

/** The same for a file, which is of one name only: _ begins two digits of a byte, and one that would be too long ends with _h and its hash. */
static void site_put_file_name(struct text *to, struct str name)
{
	enum { NAME_MOST = 180 };
	const size_t begin = to->n;
	for (size_t n = 0; n < name.n && to->n - begin < NAME_MOST; n++)
		if ((char_word(name.p[n]) && name.p[n] != '_') || name.p[n] == '-' || (name.p[n] == '.' && n))
			text_add(to, (struct str){ name.p + n, 1 });
		else
			text_printf(to, "_%02X", (unsigned char)name.p[n]);
	if (to->n - begin < NAME_MOST)
		return;
	to->n = begin + NAME_MOST - 4; // an escape that is cut here is no matter: the hash tells
	text_printf(to, "_h%016llx", (unsigned long long)str_hash(STR_HASH_BEGIN, name));
}

void site_file(struct text *to, const char *kind, struct str name)
{
	text_printf(to, "%s", *kind ? kind : "index");
	if (name.n) {
		text_add(to, S("/"));
		site_put_file_name(to, name);
	}
	text_add(to, S(".html"));
}

void site_href(const struct site *s, struct html *p, const char *kind, struct str name)
{
	_cleanup_text_ struct text to = { 0 };
	if (s->files) {
		for (unsigned n = 0; n < s->depth; n++)
			text_add(&to, S("../"));
		site_file(&to, kind, name);
	} else {
		text_printf(&to, "/%s", kind);
		if (name.n) {
			text_add(&to, S("/"));
			site_put_name(&to, name);
		}
	}
	page_text(p, text_str(&to));
}

void site_link(const struct site *s, struct html *p, const char *kind, struct str name, struct str text)
{
	page_put(p, "<a href=\"");
	site_href(s, p, kind, name);
	page_fill(p, "\">@</a>", text);
}

void site_when(struct html *p, int64_t when)
{
	char room[DATE_ROOM];
	const struct str date = date_text(when, room);
	if (!date.n) {
		page_put(p, "<span class=\"unknown\">unknown</span>");
		return;
	}
	page_fill(p, "<time datetime=\"@\">@ @</time>", date, str_cut(date, 10), str_cut(str_from(date, 11), 5));
}

struct html site_begin(const struct site *s, FILE *out, enum site_page page, struct str title)
{
	struct html own = { out, NULL }, *p = &own;
	page_put(p, "<!DOCTYPE html>\n<html lang=\"en-GB\">\n<head>\n<meta charset=\"utf-8\">\n"
		    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '" HTML_STYLE_HASH
		    "'; form-action 'self'; base-uri 'none'\">\n"
		    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		    "<meta name=\"referrer\" content=\"no-referrer\">\n");
	page_fill(p, "<title>@ - unhang</title>\n<style>", title);
	page_markup(p, str_z(html_style));
	page_put(p, "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the "
		    "content</a>\n<header><strong>unhang</strong>");
	if (s->title.n)
		page_fill(p, " <span class=\"quiet\">@</span>", s->title);
	page_put(p, "<nav aria-label=\"Pages\"><ul>");
	for (enum site_page n = 0; n < SITE_PAGES; n++) {
		page_put(p, "<li><a href=\"");
		site_href(s, p, pages[n].kind, (struct str){ 0 });
		page_put(p, "\"");
		if (n == page)
			page_put(p, " aria-current=\"page\"");
		page_fill(p, ">@</a></li>", str_z(pages[n].name));
	}
	page_fill(p, "</ul></nav></header>\n<main id=\"main\">\n<h1>@</h1>\n", title);
	return own;
}

void site_end(struct html *p)
{
	page_put(p, "</main>\n<footer>Times are UTC. A week is the last seven days. unhang " UNHANG_VERSION
		    "</footer>\n</body>\n</html>\n");
}

void site_put_notice(const struct site *s, const char *title, struct str says, FILE *out)
{
	struct html p = site_begin(s, out, SITE_PAGES, str_z(title));
	page_element(&p, "p", "p", says);
	site_end(&p);
}

void site_table(const struct site *s, struct html *p, const struct history_incident_list *list, bool nodes)
{
	page_put(p, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Incidents\"><table><thead><tr><th "
		    "scope=\"col\">Began</th><th "
		    "scope=\"col\">What happened</th>");
	if (nodes)
		page_put(p, "<th scope=\"col\">Node</th>");
	page_put(p, "<th scope=\"col\" class=\"wideonly\">GPU</th><th scope=\"col\" class=\"wideonly\">Program</th><th "
		    "scope=\"col\" class=\"wideonly\">Fault</th><th scope=\"col\">State</th></tr></thead><tbody>\n");
	for (size_t n = 0; n < list->len; n++) {
		const struct history_incident *i = &list->data[n];
		const bool open = !str_is(i->state, "closed");
		page_markup(p, open ? S("<tr class=\"open\"><td class=\"t\">") : S("<tr><td class=\"t\">"));
		site_when(p, i->began);
		page_put(p, "</td><td>");
		site_link(s, p, "incident", i->id, i->title.n ? i->title : i->class.n ? i->class : S("not explained yet"));
		page_put(p, "</td>");
		if (nodes) {
			page_put(p, "<td>");
			if (i->host.n)
				site_link(s, p, "machine", i->host, i->host);
			page_put(p, "</td>");
		}
		page_fill(p, "<td class=\"wideonly\">@ @</td><td class=\"wideonly\">@</td><td class=\"wideonly\">@</td>",
			  i->gpu_name.n ? i->gpu_name : i->part, i->gpu, i->program, i->fault);
		page_markup(p, open ? S("<td class=\"state open\">") : S("<td class=\"state\">"));
		page_fill(p, "@</td></tr>\n", i->state);
	}
	page_put(p, "</tbody></table></div>\n");
}
