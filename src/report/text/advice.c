// What an incident's report advises: remedies, settings, known-bad versions, next steps.
#include "report/text/parts.h"
#include "report/text/wrap.h"

static void put_steps(const struct text_report *t, const struct steps *s)
{
	for (size_t n = 0; n < s->n; n++) {
		fprintf(t->out, "%*s", LABEL + 3, "");
		wrap_step(t->out, s->list[n], &(struct row_style){ LABEL + 3, 0, t->width }, LABEL + 3);
	}
}

static void put_extra(const struct text_report *t, const char *what, struct str text)
{
	if (!text.n)
		return;
	fprintf(t->out, "%*s%s: ", LABEL + 3, "", what);
	prose_wrap(t, text, LABEL + 3, LABEL + 5 + strlen(what));
}

static void put_extra_step(const struct text_report *t, const char *what, const struct command *c)
{
	if (!c)
		return;
	fprintf(t->out, "%*s%s:", LABEL + 3, "", what);
	wrap_step(t->out, c, &(struct row_style){ LABEL + 3, 0, t->width }, LABEL + 4 + strlen(what));
}

/** What is no step: it is in force, does not exist here, or is not needed any more. */
static void put_told(const struct text_report *t, const struct diag_remedy *r)
{
	const struct know_remedy *k = r->remedy;
	const struct remedy_verdict *v = &r->verdict;
	struct text line = { 0 };
	if (!v->fact.n)
		text_printf(&line, STR_FMT ": ", STR_ARG(k->title));
	text_add(&line, v->because);
	if (r->fact)
		prose_place(t, &line, r->fact->at);
	else if (r->where.n)
		text_printf(&line, " [" STR_FMT "]", STR_ARG(r->where));
	text_add(&line, S("."));
	if (v->state == REMEDY_APPLIED && v->fact.n && !str_is(k->kind, "cure") && r->steps.cost && r->steps.undo)
		text_printf(&line, " Cost: " STR_FMT ". If it does not help: " STR_FMT ".", STR_ARG(command_str(r->steps.cost)),
			    STR_ARG(command_str(r->steps.undo)));
	prose_label(t, v->state == REMEDY_APPLIED ? "Tried" : "Not", text_str(&line));
	text_free(&line);
}

void prose_remedy(void *ctx, const struct diag_remedy *r, size_t number)
{
	struct text_report *t = ctx;
	const struct know_remedy *k = r->remedy;
	if (r->verdict.state != REMEDY_TRY) {
		put_told(t, r);
		return;
	}
	fprintf(t->out, "%s%-*s%s", prose_paint(t, "\033[1m"), LABEL, number == 1 ? "Try" : "", prose_plain(t));
	struct text line = { 0 };
	text_printf(&line, "%zu. ", number);
	if (!r->certain && r->steps.condition)
		text_printf(&line, "If " STR_FMT ": ", STR_ARG(command_str(r->steps.condition)));
	text_printf(&line, STR_FMT "  [" STR_FMT ": " STR_FMT ", grade " STR_FMT ", " STR_FMT "]", STR_ARG(k->title),
		    STR_ARG(k->head.id), STR_ARG(k->kind), STR_ARG(k->grade), STR_ARG(k->source));
	prose_wrap(t, text_str(&line), LABEL + 3, LABEL);
	text_free(&line);
	put_steps(t, &r->steps);
	put_extra(t, "because", r->why);
	put_extra(t, "here", r->numbers);
	put_extra_step(t, "check", r->steps.verify);
	put_extra_step(t, "cost", r->steps.cost);
	put_extra_step(t, "risk", r->steps.risk);
	put_extra_step(t, "undo", r->steps.undo);
	put_extra_step(t, "not needed once", r->steps.until);
}

void prose_setting(void *ctx, const struct diag_setting *s)
{
	struct text_report *t = ctx;
	struct text line = { 0 };
	text_add(&line, s->text);
	if (s->fact)
		prose_place(t, &line, s->fact->at);
	text_printf(&line, ".  [grade " STR_FMT ", " STR_FMT "]", STR_ARG(s->grade), STR_ARG(s->source));
	prose_label(t, "Set", text_str(&line));
	text_free(&line);
}

void prose_known(void *ctx, const struct know_bad *b)
{
	struct text_report *t = ctx;
	struct text line = { 0 };
	text_printf(&line, STR_FMT ". ", STR_ARG(b->title));
	if (b->good.n)
		text_printf(&line, "Good: " STR_FMT ".", STR_ARG(b->good));
	text_printf(&line, "  [grade " STR_FMT ", " STR_FMT "]", STR_ARG(b->grade), STR_ARG(b->source));
	prose_label(t, "Known", text_str(&line));
	text_free(&line);
}

void prose_next(void *ctx, const struct diag_next *n)
{
	struct text_report *t = ctx;
	struct text why = { 0 };
	text_printf(&why, STR_FMT ":", STR_ARG(n->why));
	prose_label(t, "Next", text_str(&why));
	wrap_command(t->out, command_str(n->run), LABEL + 3, t->width);
	text_free(&why);
}
