// The file around the incidents: its policy, its style, its script, and what is said by itself.
// The first screen. What a reader needs is above the fold of a phone: what happened, on which GPU of which host, when, what to do now, whose
// fault, whether the machine is fit, and how sure that is. The lead picture follows.
#include <stdlib.h>

#include "report/html/html.h"
#include "style.h"

enum { REMEDIES = 3 };

/** The first fact of this name of the root, or else of any event. */
static struct str html_fact(const struct incident *i, const char *name)
{
	struct str value = i->root ? diag_value(i->root, name) : (struct str){ 0 };
	for (size_t n = 0; n < i->events.len && !value.n; n++)
		value = diag_value(i->events.data[n], name);
	return value;
}

/** On which host, or in which file, and when. */
static void html_origin(struct html_report *h, const struct incident *i)
{
	struct html *p = &h->page;
	_cleanup_text_ struct text file = { 0 };
	if (i->host.n) {
		page_element(p, "span class=\"host\"", "span", i->host);
	} else {
		page_put(p, "<span class=\"host unknown\">host unknown");
		prose_file(&h->words, i->events.data[0]->at.source, &file);
		page_fill(p, " (@)</span>", text_str(&file));
	}
	page_put(p, ", ");
	// A log without dates still tells how long after boot it was.
	_cleanup_text_ struct text date = { 0 };
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
}

static void first_put_head(struct html_report *h, const struct incident *i)
{
	struct html *p = &h->page;
	_cleanup_text_ struct text title = { 0 };
	prose_title(i, &title);
	if (h->index == 1)
		page_element(p, "h1", "h1", text_str(&title));
	else
		page_element(p, "h2", "h2", text_str(&title));
	page_put(p, "<p class=\"place\">");
	// As far as the evidence names the GPU.
	page_put(p, "<span class=\"gpu\">");
	if (i->gpu.name.n)
		page_text(p, i->gpu.name);
	if (i->gpu.gfx.n && !i->gpu.name.n)
		page_text(p, i->gpu.gfx);
	if (i->gpu.device.n) {
		page_fill(p, " @", i->gpu.device);
	}
	if (!i->gpu.name.n && !i->gpu.gfx.n && !i->gpu.device.n)
		page_put(p, "<span class=\"unknown\">GPU not named in this evidence</span>");
	if (i->other_gpus.len)
		page_numbers(p, " and %zu more", i->other_gpus.len);
	page_put(p, "</span>, ");
	html_origin(h, i);
	page_put(p, "</p>\n");
}

/** What changed before it and, where that is to blame, how to go back. */
static void put_changed(struct html_report *h, const struct incident *i)
{
	struct html *p = &h->page;
	const struct command *back = incident_way_back(i);
	_cleanup_text_ struct text line = { 0 };
	prose_changed(i, &line);
	prose_not_blamed(i, &line);
	if (!line.n)
		return;
	page_fill(p, "<div class=\"changed\"><dt>Changed</dt><dd>@.", text_str(&line));
	if (back && command_run(back, 0).n)
		page_fill(p, " To go back:<pre class=\"copied\">@</pre>", command_run(back, 0));
	else if (back)
		page_fill(p, " To go back: @.", command_str(back));
	page_put(p, "</dd></div>\n");
}

/** What to do comes before whose fault it is: it is what the reader came for. */
static void put_answer(struct html_report *h, const struct incident *i)
{
	struct html *p = &h->page;
	_cleanup_text_ struct text line = { 0 };
	page_fill(p,
		  "<div class=\"now\"><dt>Now</dt><dd class=\"copied\">@</dd></div>\n"
		  "<div class=\"fault\"><dt>Whose fault</dt>",
		  i->action_text);
	page_markup(p, str_is(i->fault, "unknown") ? S("<dd class=\"unknown\">") : S("<dd>"));
	prose_fault(i, false, &line);
	page_fill(p, "@</dd></div>\n<div class=\"fit\"><dt>Machine</dt><dd>", text_str(&line));
	static const char *const looks[] = { [FIT_UNKNOWN] = "unknown", [FIT_YES] = "good", [FIT_NO] = "bad" };
	page_fill(p, "<span class=\"@\">@</span></dd></div>\n", str_z(looks[i->fit]),
		  i->fit == FIT_UNKNOWN ? S("fitness unknown") : str_z(prose_fitness(i)));
	text_clear(&line);
	text_printf(&line, "%s: " STR_FMT ".", prose_confidence(i->confidence), STR_ARG(i->sure));
	page_fill(p, "<div class=\"sure\"><dt>Confidence</dt><dd>@", text_str(&line));
	page_numbers(p, " <a href=\"#why%zu\">why</a></dd></div>\n", h->index);
	put_changed(h, i);
	for (size_t n = 0; n < i->answers.len; n++)
		page_fill(p, "<div class=\"replied\"><dt>Reply</dt><dd>@ You replied: @.</dd></div>\n",
			  i->answers.data[n].question->ask, i->answers.data[n].reply);
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

/** The question, and what would be said behind each reply: a file cannot be asked again. */
static void put_question(struct html_report *h, const struct diag_question *q)
{
	struct html *p = &h->page;
	_cleanup_text_ struct text command = { 0 }, then = { 0 };
	question_command(h->d, q, &command);
	page_fill(p, "<div class=\"ask\"><dt>Ask</dt><dd>@ <span class=\"quiet\">@</span><pre class=\"copied\">@</pre>\n",
		  q->question->ask, q->question->why, text_str(&command));
	for (size_t n = 0; n < q->n; n++) {
		const struct diag_reply *r = &q->replies[n];
		text_clear(&then);
		prose_reply(r, &then);
		page_fill(p, "<details class=\"reply\"><summary>If @</summary><p>@</p>\n", r->reply, text_str(&then));
		if (r->first && r->changes) {
			for (size_t k = 0; k < r->first->steps.n; k++) {
				page_put(p, "<p>");
				page_step(p, r->first->steps.list[k]);
				page_put(p, "</p>\n");
			}
		}
		page_put(p, "</details>\n");
	}
	page_put(p, "</dd></div>\n");
}

static void first_put_remedies(struct html_report *h, const struct incident *i, enum know_picture lead)
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
	if (!told && incident_proof(i))
		page_put(p, "Fix the program: see why, below.");
	else if (!told)
		page_put(p, "Nothing specific is known.");
	page_put(p, "</dd></div>\n");
	if (i->next.len) {
		page_fill(p, "<div class=\"next\"><dt>Next</dt><dd>@:<pre class=\"copied\">@</pre></dd></div>\n",
			  i->next.data[0].why, command_str(i->next.data[0].run));
	}
	if (i->question)
		put_question(h, i->question);
	page_put(p, "</dl>\n");
}

/** The first screen of an incident: what happened, where, what to do now, whose fault, and its lead picture. */
static void html_first(struct html_report *h, const struct incident *i)
{
	struct picture lead;
	enum know_picture kind = i->cause->class->picture;
	first_put_head(h, i);
	page_put(&h->page, "<dl class=\"answer\">\n");
	put_answer(h, i);
	// Where in the program: a line of its source, or else its kernel.
	struct html *p = &h->page;
	const struct str source = html_fact(i, "source"), kernel = html_fact(i, "kernel_short");
	if (source.n || kernel.n) {
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
	first_put_remedies(h, i, kind);
	// A picture that lacks data is not drawn; what it would need is said instead.
	bool log = false;
	for (size_t n = 0; n < i->nevidence; n++)
		log |= str_is(i->evidence[n], "kernel-log");
	const char *needs = drawn ? NULL : picture_needs(i->cause->class->picture, i);
	if (!log || needs) {
		page_put(p, "<p class=\"missing\">Not in this evidence: ");
		if (!log)
			page_put(p, "the kernel log");
		if (!log && needs)
			page_put(p, "; ");
		page_fill(p, "@.</p>\n", str_z(needs));
	}
	html_pictures(h, i, any ? kind : SHOWS_KINDS);
}

// The end of the file: what was read, and which private data the file holds, so that nobody shares more than they mean to.

/** What is in it of this kind; nothing where it has none. */
static void put_kind(struct html *p, const char *what, const struct text *found)
{
	page_fill(p, "<li>@: ", str_z(what));
	if (found->n)
		page_text(p, text_str(found));
	else
		page_put(p, "none");
	page_put(p, "</li>\n");
}

/** Adds a name once. */
static void add_once(struct text *to, struct str name)
{
	_cleanup_text_ struct text one = { 0 };
	text_printf(&one, STR_FMT ", ", STR_ARG(name));
	_cleanup_text_ struct text all = { 0 };
	text_printf(&all, STR_FMT ", ", STR_ARG(text_str(to)));
	if (name.n && str_find(text_str(&all), text_str(&one)) < 0)
		text_printf(to, "%s" STR_FMT, to->n ? ", " : "", STR_ARG(name));
}

/** So that nobody shares more than they mean to: the names that stand in this file, listed. */
static void put_contents(struct html_report *h)
{
	_cleanup_text_ struct text hosts = { 0 }, programs = { 0 }, modules = { 0 };
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
}

// --- page ---

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
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	struct json j = { .out = open_memstream(&text, &n) };
	if (!j.out)
		return;
	jw_open(&j, '{');
	for (size_t k = 0; k < ARRAY_SIZE(rows); k++) {
		_cleanup_text_ struct text value = { 0 };
		page_filtered(&h->page, rows[k].value, &value);
		jw_field(&j, rows[k].key, rows[k].value.n ? text_str(&value) : none);
	}
	jw_close(&j, '}');
	fclose(j.out);
	page_put(&h->page, "<script type=\"application/json\" id=\"incident\">\n");
	page_json(&h->page, (struct str){ text, n });
	page_put(&h->page, "</script>\n");
}

static void html_on_begin(void *ctx, const struct diagnosis *d)
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
	page_fill(p, "<title>@</title>\n<style>", title_of(d));
	page_markup(p, str_z(html_style));
	page_put(p, "</style>\n</head>\n<body>\n<main>\n");
}

/** The list of GPUs stands behind the incidents: the first screen is theirs. */
static void html_on_open(void *ctx, enum report_list list, const struct incident *i)
{
	struct html_report *h = ctx;
	(void)i;
	if (list == LIST_INCIDENTS && !h->d->ledger->incidents.len) {
		page_element(&h->page, "h1", "h1", title_of(h->d));
		if (h->d->unread.n) {
			page_fill(&h->page, "<p class=\"unknown\">This is no all-clear: @.</p>\n", h->d->unread);
		}
	}
}

/** The first incident is in full; the others are folded, up to a number that a browser bears. */
static void html_on_incident(void *ctx, const struct incident *i)
{
	struct html_report *h = ctx;
	struct html *p = &h->page;
	const bool others = ++h->index > 1;
	if (h->index > INCIDENTS_MOST)
		return;
	if (h->index == 2)
		page_put(p, "<section class=\"others\"><h2>Other incidents</h2>\n");
	if (others) {
		page_fill(p, "<details><summary>@ <span class=\"quiet\">", i->title);
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

static void html_on_note(void *ctx, const struct note *n)
{
	struct html_report *h = ctx;
	vec_push(&h->notes, *n);
}

static void html_on_close(void *ctx, enum report_list list, const struct incident *i)
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

static void html_on_end(void *ctx, const struct diagnosis *d)
{
	struct html_report *h = ctx;
	if (d->observed) {
		// GPUs of a machine that was looked at.
		struct html *p = &h->page;
		page_put(p, "<details class=\"gpus\"><summary>GPUs of this machine");
		page_numbers(p, " (%zu)", d->observed->n);
		page_put(p, "</summary><table><thead><tr><th scope=\"col\">GPU</th><th scope=\"col\">State</th><th "
			    "scope=\"col\">Says</th>"
			    "</tr></thead><tbody>\n");
		for (size_t n = 0; n < d->observed->n; n++) {
			const struct gpu_observation *g = &d->observed->gpus[n];
			page_fill(p, "<tr><td>@</td><td>", g->device->pci);
			if (gpu_verdict(g) == UH_HEALTHY)
				page_element(p, "span class=\"good\"", "span", g->health);
			else if (g->unwell)
				page_element(p, "span class=\"bad\"", "span", g->health);
			else
				page_put(p, "<span class=\"unknown\">unknown</span>");
			page_fill(p, "</td><td>@</td></tr>\n", g->says.n ? g->says : g->unseen);
		}
		page_put(p, "</tbody></table></details>\n");
	}
	// At the end: what was read, and what the file tells about the machine and its people.
	struct html *p = &h->page;
	page_put(p, "<section class=\"about\"><h2>About this file</h2>\n<details><summary>What was read</summary>\n");
	// What was read, so that a reader of the report knows what it stands on.
	page_put(p, "<table><thead><tr><th scope=\"col\">File</th><th scope=\"col\">Kind</th><th scope=\"col\">Bytes</th>"
		    "<th scope=\"col\">Lines</th></tr></thead><tbody>\n");
	for (size_t n = 0; n < evidence_count(h->d->evidence); n++) {
		const struct evidence *e = evidence_at(h->d->evidence, n);
		page_fill(p, "<tr><td>@</td><td>@</td>", e->path, str_z(e->kind));
		page_numbers(p, "<td>%llu</td><td>%llu</td></tr>\n", (unsigned long long)e->bytes,
			     (unsigned long long)e->lines);
	}
	page_put(p, "</tbody></table>\n"
		    "</details>\n"
		    "<details><summary>Private data in this report</summary>\n");
	put_contents(h);
	page_put(p, "</details>\n<p class=\"quiet\">Made by unhang " UNHANG_VERSION
		    ". This file makes no network requests.</p></section>\n");
	page_put(&h->page, "</main>\n");
	put_data(h);
	page_put(&h->page, "<script>");
	page_markup(&h->page, str_z(html_script));
	page_put(&h->page, "</script>\n</body>\n</html>\n");
}

void report_html(const struct diagnosis *d, FILE *out, const struct page_options *o)
{
	static const struct report_writer writer = {
		.begin = html_on_begin,
		.open = html_on_open,
		.incident = html_on_incident,
		.note = html_on_note,
		.close = html_on_close,
		.end = html_on_end,
	};
	static const struct uh_report_options plain = { 0 };
	struct html_report h = {
		.page = { out, o->filter }, .d = d, .options = o, .words = { .diagnosis = d, .options = &plain }
	};
	report_walk(d, &writer, &h);
	vec_free(&h.notes);
}
