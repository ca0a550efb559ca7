// The first screen. What a reader needs is above the fold of a phone: what happened, on which GPU of which host, when, what to do now, whose
// fault, whether the machine is fit, and how sure that is. The lead picture follows.
#include "report/html/parts.h"

enum { REMEDIES = 3 };

struct str html_fact(const struct incident *i, const char *name)
{
	struct str value = i->root ? diag_value(i->root, name) : (struct str){ 0 };
	for (size_t n = 0; n < i->events.len && !value.n; n++)
		value = diag_value(i->events.data[n], name);
	return value;
}

static void put_gpu(struct html_report *h, const struct incident *i)
{
	struct html *p = &h->page;
	page_put(p, "<span class=\"gpu\">");
	if (i->gpu.name.n)
		page_text(p, i->gpu.name);
	if (i->gpu.gfx.n && !i->gpu.name.n)
		page_text(p, i->gpu.gfx);
	if (i->gpu.device.n) {
		page_put(p, " ");
		page_text(p, i->gpu.device);
	}
	if (!i->gpu.name.n && !i->gpu.gfx.n && !i->gpu.device.n)
		page_put(p, "<span class=\"unknown\">GPU not named in this evidence</span>");
	if (i->other_gpus.len)
		page_numbers(p, " and %zu more", i->other_gpus.len);
	page_put(p, "</span>");
}

static void put_time(struct html_report *h, const struct incident *i)
{
	struct html *p = &h->page;
	struct text date = { 0 };
	if (i->events.len)
		prose_date(&date, evidence_wall(evidence_at(h->d->evidence, i->events.data[0]->at.source), i->begin));
	page_put(p, "<span class=\"time\">");
	if (date.n)
		page_text(p, text_str(&date));
	else if (i->begin.clock == TIME_BOOT)
		page_numbers(p, "%.3f s after boot", i->begin.seconds);
	else
		page_put(p, "<span class=\"unknown\">time unknown</span>");
	page_put(p, "</span>");
	text_free(&date);
}

void html_origin(struct html_report *h, const struct incident *i)
{
	struct html *p = &h->page;
	struct text file = { 0 };
	if (i->host.n) {
		page_element(p, "span class=\"host\"", "span", i->host);
	} else {
		page_put(p, "<span class=\"host unknown\">host unknown");
		prose_file(&h->words, i->events.data[0]->at.source, &file);
		page_put(p, " (");
		page_text(p, text_str(&file));
		page_put(p, ")</span>");
	}
	page_put(p, ", ");
	put_time(h, i);
	text_free(&file);
}

static void put_head(struct html_report *h, const struct incident *i)
{
	struct html *p = &h->page;
	struct text title = { 0 };
	prose_title(i, &title);
	if (h->index == 1)
		page_element(p, "h1", "h1", text_str(&title));
	else
		page_element(p, "h2", "h2", text_str(&title));
	page_put(p, "<p class=\"place\">");
	put_gpu(h, i);
	page_put(p, ", ");
	html_origin(h, i);
	page_put(p, "</p>\n");
	text_free(&title);
}

static void put_fit(struct html *p, const struct incident *i)
{
	page_put(p, "<div class=\"fit\"><dt>Machine</dt><dd>");
	switch (i->fit) {
	case FIT_YES:
		page_put(p, "<span class=\"good\">fit for the next job</span>");
		break;
	case FIT_NO:
		page_put(p, "<span class=\"bad\">not fit for the next job</span>");
		break;
	case FIT_UNKNOWN:
		page_put(p, "<span class=\"unknown\">fitness unknown</span>");
		break;
	}
	page_put(p, "</dd></div>\n");
}

static void put_answer(struct html_report *h, const struct incident *i)
{
	struct html *p = &h->page;
	struct text line = { 0 };
	page_put(p, "<div class=\"now\"><dt>Now</dt><dd class=\"copied\">");
	page_text(p, i->action_text);
	page_put(p, "</dd></div>\n<div class=\"fault\"><dt>Whose fault</dt>");
	page_markup(p, str_is(i->fault, "unknown") ? S("<dd class=\"unknown\">") : S("<dd>"));
	prose_fault(i, &line);
	page_text(p, text_str(&line));
	page_put(p, "</dd></div>\n");
	put_fit(p, i);
	text_clear(&line);
	text_printf(&line, "%s: " STR_FMT ".", prose_confidence(i->confidence), STR_ARG(i->sure));
	page_put(p, "<div class=\"sure\"><dt>Confidence</dt><dd>");
	page_text(p, text_str(&line));
	page_numbers(p, " <a href=\"#why%zu\">why</a></dd></div>\n", h->index);
	text_free(&line);
}

/** Where in the program: a line of its source, or else its kernel. */
static void put_where(struct html_report *h, const struct incident *i)
{
	struct html *p = &h->page;
	const struct str source = html_fact(i, "source"), kernel = html_fact(i, "kernel_short");
	if (!source.n && !kernel.n)
		return;
	page_put(p, "<div class=\"code\"><dt>Where</dt><dd>");
	if (kernel.n)
		page_element(p, "code", "code", kernel);
	if (source.n && kernel.n)
		page_put(p, ", ");
	if (source.n)
		page_element(p, "code", "code", source);
	if (i->root && i->root->dump.ncode)
		page_numbers(p, " <a href=\"#code%zu\">code</a>", h->index);
	page_put(p, "</dd></div>\n");
}

/** Beside another lead picture, when it was: the events on a line. */
static void put_when(struct html_report *h, const struct incident *i)
{
	struct picture p;
	if (!picture_make(SHOWS_TIMELINE, h->d, i, &p))
		return;
	page_put(&h->page, "<div class=\"when\"><dt>When</dt><dd>");
	html_strip(h, &p);
	page_text(&h->page, p.says);
	page_numbers(&h->page, " <a href=\"#pictures%zu\">more</a></dd></div>\n", h->index);
	picture_free(&p);
}

static void put_remedies(struct html_report *h, const struct incident *i, enum know_picture lead)
{
	struct html *p = &h->page;
	size_t told = 0;
	page_put(p, "<dl class=\"answer\">");
	if (lead != SHOWS_TIMELINE)
		put_when(h, i);
	page_put(p, "<div class=\"try\"><dt>Try</dt><dd><ol>");
	for (size_t n = 0; n < i->remedies.len && told < REMEDIES; n++) {
		const struct diag_remedy *r = &i->remedies.data[n];
		if (r->verdict.state != REMEDY_TRY || !r->shown)
			continue;
		told++;
		page_put(p, "<li>");
		if (!r->certain && r->steps.condition) {
			page_put(p, "If ");
			page_step(p, r->steps.condition);
			page_put(p, ": ");
		}
		page_known(p, r->remedy->title);
		page_numbers(p, " <a href=\"#remedy%zu-%zu\">steps</a></li>", h->index, n + 1);
	}
	page_put(p, "</ol>");
	if (!told)
		page_put(p, "Nothing specific is known.");
	page_put(p, "</dd></div>\n");
	if (i->next.len) {
		page_put(p, "<div class=\"next\"><dt>Next</dt><dd>");
		page_text(p, i->next.data[0].why);
		page_put(p, ":<pre class=\"copied\">");
		page_text(p, command_str(i->next.data[0].run));
		page_put(p, "</pre></dd></div>\n");
	}
	page_put(p, "</dl>\n");
}

static bool has_kind(const struct incident *i, const char *kind)
{
	for (size_t n = 0; n < i->nevidence; n++)
		if (str_is(i->evidence[n], kind))
			return true;
	return false;
}

static void put_missing(struct html_report *h, const struct incident *i, bool drawn)
{
	struct html *p = &h->page;
	const bool log = has_kind(i, "kernel-log");
	const char *needs = drawn ? NULL : picture_needs(i->cause->class->picture, i);
	if (log && !needs)
		return;
	page_put(p, "<p class=\"missing\">Not in this evidence: ");
	if (!log)
		page_put(p, "the kernel log");
	if (!log && needs)
		page_put(p, "; ");
	page_text(p, str_z(needs));
	page_put(p, ".</p>\n");
}

void html_first(struct html_report *h, const struct incident *i)
{
	struct picture lead;
	enum know_picture kind = i->cause->class->picture;
	put_head(h, i);
	page_put(&h->page, "<dl class=\"answer\">\n");
	put_answer(h, i);
	put_where(h, i);
	page_put(&h->page, "</dl>\n");
	const bool drawn = picture_make(kind, h->d, i, &lead);
	bool any = drawn;
	if (!drawn) {
		kind = SHOWS_TIMELINE;
		any = i->cause->class->picture != SHOWS_TIMELINE && picture_make(kind, h->d, i, &lead);
	}
	if (any) {
		html_picture(h, &lead);
		picture_free(&lead);
	}
	put_remedies(h, i, kind);
	put_missing(h, i, drawn);
	html_pictures(h, i, any ? kind : SHOWS_KINDS);
}
