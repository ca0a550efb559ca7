// The first screen: what happened, on which GPU, what to do now, whose fault, the few events that matter, why, how sure, what to try, and
// what would tell more. Everything else is one option away.
#include "base/print.h"
#include "report/text/parts.h"

enum { LINES = 24, COLUMNS_USUAL = 80, REMEDIES = 3, OTHERS = 3 };

static struct block *add_label(struct text_report *t, const char *label, size_t least, size_t most)
{
	return screen_add(&t->screen, (struct block){ .label = label, .indent = LABEL, .least = least, .most = most });
}

static void add_gap(struct text_report *t) { screen_add(&t->screen, (struct block){ .form = FORM_GAP }); }

void brief_incident(void *ctx, const struct incident *i)
{
	struct text_report *t = ctx;
	t->full = (!t->index && !t->batch) || t->options->all;
	if (!t->full)
		return;
	t->screen = (struct screen){ t->out, t->options->colour, t->width };
	t->tried = 0;
	t->nexts = 0;
	t->knowns = 0;
	if (t->index)
		add_gap(t);
	struct text line = { 0 };
	prose_title(i, &line);
	struct block *p = screen_add(&t->screen, (struct block){ .whole = true, .least = 2, .most = 3 });
	screen_text(&t->screen, p, text_str(&line));
	text_clear(&line);
	prose_summary(t, i, &line);
	screen_text(&t->screen, add_label(t, "GPU", 2, 2), text_str(&line));
	screen_text(&t->screen, add_label(t, "Now", 2, 3), i->action_text);
	text_clear(&line);
	prose_fault(i, &line);
	screen_text(&t->screen, add_label(t, "Fault", 1, 2), text_str(&line));
	add_gap(t);
	text_free(&line);
}

/** Behind the timeline. */
static void add_why(struct text_report *t, const struct incident *i)
{
	struct text line = { 0 };
	rows_add(t, i);
	add_gap(t);
	screen_text(&t->screen, add_label(t, "Why", 3, 4), i->explanation);
	text_printf(&line, "%s: " STR_FMT ".", prose_confidence(i->confidence), STR_ARG(i->sure));
	screen_text(&t->screen, add_label(t, "Confidence", 1, 2), text_str(&line));
	text_free(&line);
}

void brief_known(void *ctx, const struct know_bad *b)
{
	struct text_report *t = ctx;
	if (!t->full || t->knowns++)
		return;
	struct block *p = add_label(t, "Known", 1, 2);
	screen_text(&t->screen, p, b->title);
	if (b->good.n) {
		screen_text(&t->screen, p, S("Good:"));
		screen_text(&t->screen, p, b->good);
	}
}

void brief_remedy(void *ctx, const struct diag_remedy *r, size_t number)
{
	struct text_report *t = ctx;
	(void)number;
	if (!t->full || r->verdict.state != REMEDY_TRY || !r->shown || t->tried == REMEDIES)
		return;
	struct text line = { 0 };
	struct block *p = add_label(t, t->tried++ ? "" : "Try", 1, 2);
	text_printf(&line, "%zu. ", t->tried);
	if (!r->certain && r->steps.condition)
		text_printf(&line, "If " STR_FMT ": ", STR_ARG(command_str(r->steps.condition)));
	text_add(&line, r->remedy->title);
	text_printf(&p->behind, " [" STR_FMT "]", STR_ARG(r->remedy->head.id));
	p->column = LABEL;
	p->indent = LABEL + 3;
	screen_text(&t->screen, p, text_str(&line));
	text_free(&line);
}

void brief_setting(void *ctx, const struct diag_setting *s)
{
	(void)ctx;
	(void)s;
}

void brief_next(void *ctx, const struct diag_next *n)
{
	struct text_report *t = ctx;
	if (!t->full || t->nexts++)
		return;
	struct block *p = add_label(t, "Next", 1, 2);
	screen_text(&t->screen, p, n->why);
	text_add(&p->behind, S(":"));
	p = screen_add(&t->screen, (struct block){ .form = FORM_COMMAND, .indent = LABEL });
	text_add(&p->text, command_str(n->run));
}

void brief_close(void *ctx, enum report_list list, const struct incident *i)
{
	struct text_report *t = ctx;
	if (!i || !t->full)
		return;
	if (list == LIST_TIMELINE)
		add_why(t, i);
	if (list == LIST_REMEDIES && !t->tried)
		screen_text(&t->screen, add_label(t, "Try", 1, 2),
			    i->next.len ? S("Nothing specific is known. The next step tells more.") :
					  S("Nothing specific is known."));
}

/** As many words as fit, with room for ` ...` where that is not all. */
static struct str fitting(struct str s, size_t columns)
{
	enum { DOTS = 4 };
	struct str rest = s, shown = s;
	if (print_columns(s) <= columns)
		return s;
	for (shown.n = 0; rest.n;) {
		str_word(&rest);
		const struct str more = str_cut(s, s.n - rest.n);
		if (print_columns(more) + DOTS > columns)
			break;
		shown = more;
	}
	return shown;
}

/** Incidents that are not told in full: a line each. */
static void put_other(struct text_report *t, const struct incident *i, size_t total)
{
	if (t->index == OTHERS + 2)
		fprintf(t->out, "  and %zu more\n", total - t->index + 1);
	if (t->index > OTHERS + 1)
		return;
	struct text line = { 0 };
	struct text place = { 0 };
	prose_date(&line, evidence_wall(evidence_at(t->diagnosis->evidence, i->events.data[0]->at.source), i->begin));
	text_printf(&line, "%s" STR_FMT "%s" STR_FMT, line.n ? "  " : "", STR_ARG(i->gpu.device), i->gpu.device.n ? "  " : "",
		    STR_ARG(i->title));
	prose_place(t, &place, i->events.data[0]->at);
	const struct str shown = fitting(text_str(&line), t->width - 2 - print_columns(text_str(&place)));
	fputs("  ", t->out);
	print_safe(t->out, shown);
	fputs(shown.n < line.n ? " ..." : "", t->out);
	print_safe(t->out, text_str(&place));
	fputc('\n', t->out);
	text_free(&line);
	text_free(&place);
}

/** What follows the incidents. */
static size_t notes_lines(const struct text_report *t)
{
	const size_t n = t->diagnosis->nnotes;
	return n ? 1 + NOTE_LINES * (n < NOTES_BRIEF ? n : NOTES_BRIEF) : 0;
}

void brief_end(void *ctx, const struct incident *i)
{
	struct text_report *t = ctx;
	const size_t total = t->diagnosis->ledger->incidents.len;
	const size_t others = t->options->all || total < 2 ? 0 : total - 1 > OTHERS ? OTHERS + 3 : total + 1;
	t->index++;
	if (t->batch && !t->full)
		return;
	if (!t->full) {
		put_other(t, i, total);
		return;
	}
	screen_text(&t->screen, add_label(t, "More", 1, 2),
		    t->diagnosis->machine ? S("unhang -v: every event; unhang remedy ID: steps, cost and source") :
					    S("unhang explain -v: every event; unhang remedy ID: steps, cost and source"));
	const size_t lines = LINES - others - notes_lines(t);
	// Narrow lines hold less.
	screen_write(&t->screen, t->width < COLUMNS_USUAL ? lines * COLUMNS_USUAL / t->width : lines);
	prose_picture(t, i);
	evidence_lines(t, i);
	if (others)
		fprintf(t->out, "\n%zu more incident%s (--all):\n", total - 1, total > 2 ? "s" : "");
}
