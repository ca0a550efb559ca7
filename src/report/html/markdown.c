// A diagnosis for a bug tracker or a chat. What comes from the evidence stays text: it makes no markup, no link, and calls nobody.
#include <stdlib.h>

#include "base/print.h"
#include "report/cases.h"
#include "report/html/page.h"
#include "report/html/html.h"
#include "report/html/tag.h"
#include "report/text/prose.h"

static void markdown_want(quoted_lines *list, struct place at)
{
	const struct quoted_line *last = list->len ? &list->data[list->len - 1] : NULL;
	const struct quoted_line one = { at, true };
	if (at.line && !(last && !by_place(last, &at)))
		vec_push(list, one);
}

/** Sorted, each once. */
static void markdown_tidy(quoted_lines *list)
{
	size_t len = 0;
	if (list->len)
		qsort(list->data, list->len, sizeof(list->data[0]), by_place);
	for (size_t n = 0; n < list->len; n++) {
		if (len && !by_place(&list->data[n], &list->data[len - 1]))
			list->data[len - 1].told |= list->data[n].told;
		else
			list->data[len++] = list->data[n];
	}
	list->len = len;
}

quoted_lines quote_lines(const struct diagnosis *d, const struct incident *i, bool full)
{
	quoted_lines list = { 0 };
	for (size_t n = 0; n < i->events.len; n++) {
		markdown_want(&list, i->events.data[n]->at);
		for (size_t f = 0; f < i->events.data[n]->nfacts; f++)
			markdown_want(&list, i->events.data[n]->facts[f].at);
	}
	for (size_t n = 0; n < i->machine.len; n++)
		markdown_want(&list, i->machine.data[n].at);
	markdown_tidy(&list);
	if (full) {
		// Every line that was kept of the sources that have one.
		for (size_t n = 0; n < evidence_count(d->evidence); n++) {
			const struct evidence *e = evidence_at(d->evidence, n);
			for (uint64_t line = 1; line <= e->lines + 1; line++) { // the last one may have no end
				const struct quoted_line one = { { e->id, line }, false };
				if (lines_at(d->lines, one.at).n)
					vec_push(&list, one);
			}
		}
		markdown_tidy(&list);
	} else {
		// Lines around those that tell, as a reader would look at them.
		const size_t n = list.len;
		for (size_t k = 0; k < n; k++) {
			const struct place at = list.data[k].at;
			for (uint64_t line = at.line > QUOTED_AROUND ? at.line - QUOTED_AROUND : 1;
			     line <= at.line + QUOTED_AROUND; line++) {
				const struct quoted_line one = { { at.source, line }, false };
				if (line != at.line)
					vec_push(&list, one);
			}
		}
		markdown_tidy(&list);
	}
	// Evidence that is not kept cannot be quoted.
	size_t len = 0;
	for (size_t n = 0; n < list.len; n++)
		if (lines_at(d->lines, list.data[n].at).n)
			list.data[len++] = list.data[n];
	list.len = len;
	return list;
}

size_t quote_told(const quoted_lines *list)
{
	size_t told = 0;
	for (size_t n = 0; n < list->len; n++)
		told += list->data[n].told;
	return told;
}

bool quote_limit(quoted_lines *list, size_t most)
{
	size_t len = 0;
	if (list->len <= most)
		return true;
	for (size_t n = 0; n < list->len; n++)
		if (list->data[n].told)
			list->data[len++] = list->data[n];
	list->len = len < most ? len : most;
	return false;
}

bool quote_has(const quoted_lines *list, struct place at)
{
	return list->len && bsearch(&at, list->data, list->len, sizeof(list->data[0]), by_place);
}

// --- markdown ---

enum { REMEDIES = 3, LINES_MOST = 60, LINE_MOST = 300 };

struct md_report {
	struct html page; // for its filter
	const struct diagnosis *d;
	const struct page_options *options;
	struct text_report words;
};

/** One line of text in which no character means anything. @ and # are cut off from what follows: trackers look for names and numbers
 * only after they have undone escapes. */
static void markdown_put_text(struct md_report *r, struct str s)
{
	_cleanup_text_ struct text filtered = { 0 }, shown = { 0 };
	page_filtered(&r->page, s, &filtered);
	text_add_safe(&shown, text_str(&filtered));
	for (size_t n = 0; n < shown.n; n++) {
		const char c = shown.p[n];
		if (c == '<' || c == '>' || c == '&')
			fputs(c == '<' ? "&lt;" : c == '>' ? "&gt;" : "&amp;", r->page.out);
		else
			fprintf(r->page.out, char_among(c, "\\`*_{}[]|~$") ? "\\%c" : "%c", c);
		if (c == '@' || c == '#' || (c == ':' && n + 1 < shown.n && shown.p[n + 1] == '/'))
			fputs("<!-- -->", r->page.out);
	}
}

/** A text of knowledge: what stands there between backticks stays code. */
static void put_known(struct md_report *r, struct str s)
{
	while (s.n) {
		const char *begin = memchr(s.p, '`', s.n);
		const char *end = begin ? memchr(begin + 1, '`', (size_t)(s.p + s.n - begin) - 1) : NULL;
		const struct str before = end ? str_cut(s, (size_t)(begin - s.p)) : s;
		markdown_put_text(r, before);
		if (!end)
			return;
		fprintf(r->page.out, STR_FMT, (int)(end - begin) + 1, begin);
		s = str_from(s, (size_t)(end - s.p) + 1);
	}
}

/** A line of a fenced block, which backticks in it cannot end. */
static void markdown_put_code(struct md_report *r, struct str s, size_t most)
{
	_cleanup_text_ struct text filtered = { 0 }, shown = { 0 };
	page_filtered(&r->page, s, &filtered);
	text_add_safe(&shown, text_str(&filtered));
	size_t n = shown.n < most ? shown.n : most;
	while (n < shown.n && n && ((unsigned char)shown.p[n] & 0xc0) == 0x80) // not within a character
		n--;
	for (size_t k = 0; k < n; k++)
		fputc(shown.p[k] == '`' ? '\'' : shown.p[k], r->page.out);
	fputs(n < shown.n ? "...\n" : "\n", r->page.out);
}

/** A text, between what is markup. */
static void markdown_put_between(struct md_report *r, const char *before, struct str text, const char *after)
{
	fputs(before, r->page.out);
	markdown_put_text(r, text);
	fputs(after, r->page.out);
}

static void markdown_put_row(struct md_report *r, const char *label, struct str text)
{
	if (!text.n)
		return;
	fprintf(r->page.out, "| **%s**", label);
	markdown_put_between(r, " | ", text, " |\n");
}

/** Within its item of the list: the command, or the words where none does it. */
static void markdown_put_way_back(struct md_report *r, const struct command *step)
{
	const struct str run = command_run(step, 0);
	if (!run.n) {
		markdown_put_between(r, "\n   ", command_str(step), "\n\n");
		return;
	}
	fputs("\n   ```sh\n   ", r->page.out);
	markdown_put_code(r, run, SIZE_MAX);
	fputs("   ```\n\n", r->page.out);
}

/** Three at most: a comment in a tracker is no manual. */
static void markdown_put_remedies(struct md_report *r, const struct incident *i)
{
	size_t told = 0;
	for (size_t n = 0; n < i->like.len && i->like.data[n].shown; n++) {
		_cleanup_text_ struct text row = { 0 };
		like_row(&row, &i->like.data[n]);
		markdown_put_between(r, "**Like** ", text_str(&row), "\n\n");
	}
	for (size_t n = 0; n < i->remedies.len && told < REMEDIES; n++) {
		const struct diag_remedy *remedy = &i->remedies.data[n];
		if (remedy->verdict.state != REMEDY_TRY || !remedy->shown)
			continue;
		fprintf(r->page.out, "%s%zu. ", told ? "" : "**Try**\n\n", told + 1);
		told++;
		if (!remedy->certain && remedy->steps.condition) {
			fputs("If ", r->page.out);
			put_known(r, command_str(remedy->steps.condition));
			fputs(": ", r->page.out);
		}
		put_known(r, remedy->remedy->title);
		fprintf(r->page.out, " (`unhang remedy " STR_FMT "`)\n", STR_ARG(remedy->remedy->head.id));
		if (way_back_step(remedy))
			markdown_put_way_back(r, way_back_step(remedy));
	}
	if (told)
		fputc('\n', r->page.out);
	if (i->next.len) {
		markdown_put_between(r, "**Next**: ", i->next.data[0].why, ":\n\n```sh\n");
		markdown_put_code(r, command_str(i->next.data[0].run), SIZE_MAX);
		fputs("```\n\n", r->page.out);
	}
	if (i->question) {
		_cleanup_text_ struct text command = { 0 }, replies = { 0 };
		question_command(r->d, i->question, &command);
		question_replies(i->question, 0, &replies);
		markdown_put_between(r, "**Ask**: ", i->question->question->ask, " (");
		markdown_put_between(r, "", text_str(&replies), ")\n\n```sh\n");
		markdown_put_code(r, text_str(&command), SIZE_MAX);
		fputs("```\n\n", r->page.out);
	}
}

static void put_events(struct md_report *r, const struct incident *i)
{
	_cleanup_text_ struct text line = { 0 };
	fprintf(r->page.out, "<details><summary>Events (%zu)</summary>\n\n```text\n", i->events.len);
	for (size_t n = 0; n < i->events.len && n < LINES_MOST; n++) {
		const struct diag_event *e = i->events.data[n];
		text_clear(&line);
		prose_clock(&line, prose_stamp(r->words.diagnosis, e));
		text_printf(&line, "%s%-9s " STR_FMT ": " STR_FMT, line.n ? "  " : "", role_name(e->role),
			    STR_ARG(e->kind->title), STR_ARG(e->sentence));
		prose_place(&r->words, &line, e->at);
		markdown_put_code(r, text_str(&line), LINE_MOST);
	}
	fputs("```\n\n</details>\n\n", r->page.out);
}

/** Evidence is folded, and cut to what a comment in a tracker bears. */
static void markdown_put_lines(struct md_report *r, const struct incident *i)
{
	_cleanup_vec_ quoted_lines list = quote_lines(r->d, i, r->options->full_evidence);
	const size_t most = r->options->full_evidence ? SIZE_MAX : LINES_MOST;
	if (list.len)
		fprintf(r->page.out, "<details><summary>Evidence (%zu line%s)</summary>\n\n```text\n", quote_told(&list),
			quote_told(&list) == 1 ? "" : "s");
	for (size_t n = 0; n < list.len && n < most; n++) {
		const struct quoted_line *q = &list.data[n];
		if (n && (q->at.source != q[-1].at.source || q->at.line != q[-1].at.line + 1))
			fputs("--\n", r->page.out);
		fprintf(r->page.out, "%s %llu: ", q->told ? ">" : " ", (unsigned long long)q->at.line);
		markdown_put_code(r, lines_at(r->d->lines, q->at), LINE_MOST);
	}
	if (list.len)
		fputs("```\n\n</details>\n\n", r->page.out);
}

void report_markdown(const struct diagnosis *d, FILE *out, const struct page_options *o)
{
	static const struct uh_report_options plain = { 0 };
	struct md_report r = { { out, o->filter }, d, o, { .diagnosis = d, .options = &plain } };
	const size_t n = d->ledger->incidents.len;
	if (!n)
		fprintf(out, "No AMD GPU incident found in this evidence.\n");
	if (n) {
		const struct incident *i = d->ledger->incidents.data[0];
		_cleanup_text_ struct text line = { 0 };
		prose_title(i, &line);
		markdown_put_between(&r, "### ", text_str(&line), "\n\n| | |\n|---|---|\n");
		text_clear(&line);
		prose_summary(&r.words, i, &line);
		markdown_put_row(&r, "GPU", text_str(&line));
		markdown_put_row(&r, "Now", i->action_text);
		text_clear(&line);
		prose_fault(i, false, &line);
		markdown_put_row(&r, "Whose fault", text_str(&line));
		markdown_put_row(&r, "Machine", str_z(prose_fitness(i)));
		text_clear(&line);
		text_printf(&line, "%s: " STR_FMT ".", prose_confidence(i->confidence), STR_ARG(i->sure));
		markdown_put_row(&r, "Confidence", text_str(&line));
		markdown_put_row(&r, "Why", i->explanation);
		for (size_t k = 0; k < i->answers.len; k++) {
			text_clear(&line);
			text_printf(&line, STR_FMT " " STR_FMT, STR_ARG(i->answers.data[k].question->ask),
				    STR_ARG(i->answers.data[k].reply));
			markdown_put_row(&r, "Reply", text_str(&line));
		}
		text_clear(&line);
		prose_changed(i, &line);
		prose_not_blamed(i, &line);
		markdown_put_row(&r, "Changed", text_str(&line));
		fputc('\n', r.page.out);
		markdown_put_remedies(&r, i);
		put_events(&r, i);
		markdown_put_lines(&r, i);
	}
	if (n > 1)
		fprintf(out, "%zu more incident%s in this evidence.\n", n - 1, n == 2 ? " is" : "s are");
	fputs("<sub>Made by unhang " UNHANG_VERSION ".</sub>\n", out);
}
