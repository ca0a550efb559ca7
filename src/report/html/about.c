// The end of the file: what was read, and what the file tells about the machine and its people, so that nobody shares more than they mean to.
#include "report/html/parts.h"

static void put_sources(struct html_report *h)
{
	struct html *p = &h->page;
	page_put(p, "<table><thead><tr><th scope=\"col\">File</th><th scope=\"col\">Kind</th><th scope=\"col\">Bytes</th>"
		    "<th scope=\"col\">Lines</th></tr></thead><tbody>\n");
	for (size_t n = 0; n < evidence_count(h->d->evidence); n++) {
		const struct evidence *e = evidence_at(h->d->evidence, n);
		page_element(p, "tr><td", "td", e->path);
		page_element(p, "td", "td", str_z(e->kind));
		page_numbers(p, "<td>%llu</td><td>%llu</td></tr>\n", (unsigned long long)e->bytes,
			     (unsigned long long)e->lines);
	}
	page_put(p, "</tbody></table>\n");
}

/** What is in it of this kind; nothing where it has none. */
static void put_kind(struct html *p, const char *what, const struct text *found)
{
	page_put(p, "<li>");
	page_text(p, str_z(what));
	page_put(p, ": ");
	if (found->n)
		page_text(p, text_str(found));
	else
		page_put(p, "none");
	page_put(p, "</li>\n");
}

/** Adds a name once. */
static void add_once(struct text *to, struct str name)
{
	struct text one = { 0 };
	text_printf(&one, STR_FMT ", ", STR_ARG(name));
	struct text all = { 0 };
	text_printf(&all, STR_FMT ", ", STR_ARG(text_str(to)));
	if (name.n && str_find(text_str(&all), text_str(&one)) < 0)
		text_printf(to, "%s" STR_FMT, to->n ? ", " : "", STR_ARG(name));
	text_free(&one);
	text_free(&all);
}

static void put_contents(struct html_report *h)
{
	struct text hosts = { 0 }, programs = { 0 }, modules = { 0 };
	for (size_t n = 0; n < h->d->ledger->incidents.len; n++) {
		const struct incident *i = h->d->ledger->incidents.data[n];
		add_once(&hosts, i->host);
		add_once(&modules, i->gpu.serial);
		add_once(&modules, i->gpu.unique_id);
		for (size_t k = 0; k < i->processes.len; k++)
			add_once(&programs, i->processes.data[k].name);
	}
	add_once(&hosts, h->d->host);
	page_put(&h->page, "<ul>\n");
	put_kind(&h->page, "Names of machines", &hosts);
	put_kind(&h->page, "Names of programs", &programs);
	put_kind(&h->page, "Serial numbers and ids of GPUs", &modules);
	page_put(&h->page,
		 "<li>Paths of the files that were read, and of programs, as the evidence has them; a path may name a "
		 "person</li>\n<li>Quoted lines of the evidence");
	page_markup(&h->page, h->options->full_evidence ? S(": all of them") : S(", each with three lines around it"));
	page_put(&h->page, "</li>\n</ul>\n");
	if (h->options->filter)
		page_put(&h->page,
			 "<p>Names of machines and people, addresses, serial numbers and secrets that unhang recognises "
			 "were replaced (<code>--redact</code>). Read the file before you share it.</p>\n");
	else
		page_put(&h->page,
			 "<p>Nothing was replaced. <code>--redact</code> replaces names of machines and people, addresses, "
			 "serial numbers and secrets.</p>\n");
	text_free(&hosts);
	text_free(&programs);
	text_free(&modules);
}

void html_about(struct html_report *h)
{
	struct html *p = &h->page;
	page_put(p, "<section class=\"about\"><h2>About this file</h2>\n<details><summary>What was read</summary>\n");
	put_sources(h);
	page_put(p, "</details>\n<details><summary>What it tells about the machine and its people</summary>\n");
	put_contents(h);
	page_put(p, "</details>\n<p class=\"quiet\">Made by unhang " UNHANG_VERSION
		    ". This file asks no server for anything.</p></section>\n");
}
