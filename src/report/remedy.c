#include "report/remedy.h"

#include "base/print.h"
#include "report/report.h"
#include "report/sheet.h"

enum { LABEL = 8, NUMBER = 3 };

/** What a grade stands on, as knowledge/remedies.know has it. */
static struct str grade_text(struct str grade)
{
	return str_is(grade, "A") ? S("an AMD engineer or a merged patch says so") :
	       str_is(grade, "B") ? S("several people report it") :
				    S("one person reports it");
}

static const struct know_source *find_source(const struct know *k, struct str id)
{
	for (size_t n = 0; n < k->sources.len; n++)
		if (str_eq(k->sources.data[n]->head.id, id))
			return k->sources.data[n];
	return NULL;
}

/** Takes the next citation off @list: commas and semicolons in brackets do not separate. */
static struct str take_source(struct str *list)
{
	size_t n = 0;
	int depth = 0;
	for (; n < list->n && (depth > 0 || !char_among(list->p[n], ",;")); n++)
		depth += list->p[n] == '(' ? 1 : list->p[n] == ')' ? -1 : 0;
	struct str one = str_trim(str_cut(*list, n));
	*list = str_from(*list, n + 1);
	return one;
}

static void walk_sources(struct sheet *s, const struct remedy_view *v, const struct row_style *style)
{
	struct str list = v->remedy->source;
	bool first = true;
	sheet_open(s, "sources", '[');
	while (list.n) {
		const struct str id = take_source(&list);
		const struct know_source *source = find_source(v->know, id);
		struct text line = { 0 };
		if (!id.n)
			continue;
		sheet_open(s, NULL, '{');
		sheet_put(s, "id", v_text(id));
		sheet_put(s, "says", v_known(source ? source->says : (struct str){ 0 }));
		sheet_put(s, "confirms", v_known(source ? source->confirms : (struct str){ 0 }));
		text_add(&line, id);
		if (source)
			text_printf(&line, ": " STR_FMT, STR_ARG(source->says));
		if (source && str_is(source->confirms, "partly"))
			text_add(&line, S(" (It supports this in part.)"));
		if (!s->as_json)
			wrap_row(s->json.out, style, first ? "Source" : "", text_str(&line), 2);
		text_free(&line);
		first = false;
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
}

static void put_steps(const struct remedy_view *v, const struct row_style *style, FILE *out)
{
	for (size_t n = 0; n < v->steps.n; n++) {
		struct text line = { 0 };
		text_printf(&line, "%zu. " STR_FMT, n + 1, STR_ARG(command_str(v->steps.list[n])));
		wrap_row(out, style, n ? "" : "Do", text_str(&line), NUMBER);
		text_free(&line);
	}
}

static bool can_apply(const struct know_remedy *r)
{
	return r->change.sets || r->change.clears || r->change.envs || r->change.drops;
}

/** The command that makes its change, where unhang can. */
static void put_apply(struct sheet *s, const struct remedy_view *v, const struct row_style *style)
{
	struct arena room = { 0 };
	const struct command *apply =
		can_apply(v->remedy) ? COMMAND_OF(&room, "sudo unhang doctor --apply ", PIECE_WORD, v->remedy->head.id) : NULL;
	sheet_put(s, "apply", v_command(apply));
	if (!s->as_json && apply)
		wrap_row(s->json.out, style, "Or", command_str(apply), 2);
	arena_free(&room);
}

/** Behind the steps. */
static void walk_rest(struct sheet *s, const struct remedy_view *v, const struct row_style *style)
{
	static const struct column rows[] = { { "check", "Check" }, { "cost", "Cost" },   { "risk", "Risk" },
					      { "undo", "Undo" },   { "until", "Until" }, { "state_here", "Here" } };
	const struct know_remedy *r = v->remedy;
	struct text here = { 0 };
	if (v->verdict.state != REMEDY_TRY && v->verdict.because.n)
		text_printf(&here, STR_FMT ".", STR_ARG(v->verdict.because));
	sheet_put(s, "check", v_command(v->steps.verify));
	sheet_put(s, "cost", v_command(v->steps.cost));
	sheet_put(s, "risk", v_command(v->steps.risk));
	sheet_put(s, "undo", v_command(v->steps.undo));
	sheet_put(s, "until", v_command(v->steps.until));
	sheet_put(s, "takes", v_word(remedy_takes_name(r->takes)));
	sheet_put(s, "state", v_word(remedy_state_name(v->verdict.state)));
	sheet_put(s, "because", v_known(v->verdict.because));
	sheet_put(s, "distribution", v_known(v->distribution));
	sheet_note(s, "state_here", v_known(text_str(&here)));
	sheet_rows(s, style, COLUMNS(rows));
	text_free(&here);
}

static void walk_classes(struct sheet *s, const struct know_remedy *r)
{
	sheet_open(s, "for", '[');
	for (const struct know_list *c = r->for_classes; c && s->as_json; c = c->next)
		jw_str(&s->json, c->text);
	sheet_close(s, ']');
}

static void put_title(struct sheet *s, const struct know_remedy *r, bool colour, size_t width)
{
	struct text line = { 0 };
	if (s->as_json)
		return;
	text_printf(&line, STR_FMT " [" STR_FMT "]", STR_ARG(r->title), STR_ARG(r->head.id));
	fputs(colour ? "\033[1m" : "", s->json.out);
	print_wrapped(s->json.out, text_str(&line), 0, 0, width);
	fputs(colour ? "\033[0m" : "", s->json.out);
	text_free(&line);
}

void report_remedy(const struct remedy_view *v, const struct uh_remedy_options *o, FILE *out)
{
	static const struct column rows[] = { { "if", "If" }, { "kind_text", "Kind" }, { "here", "Value" } };
	const struct know_remedy *r = v->remedy;
	const struct row_style style = { 0, LABEL, report_width(&(struct uh_report_options){ .width = o->width }) };
	struct sheet s = sheet_on(o->json, out);
	struct text kind = { 0 };
	text_printf(&kind, STR_FMT "; " STR_FMT " (grade " STR_FMT ")", STR_ARG(r->kind), STR_ARG(grade_text(r->grade)),
		    STR_ARG(r->grade));
	sheet_begin(&s, "unhang/remedy/1", NULL);
	sheet_put(&s, "id", v_text(r->head.id));
	sheet_put(&s, "title", v_text(r->title));
	sheet_put(&s, "kind", v_text(r->kind));
	sheet_put(&s, "grade", v_text(r->grade));
	walk_classes(&s, r);
	sheet_put(&s, "if", v_known(r->condition_text));
	sheet_put(&s, "here", v_known(v->numbers));
	sheet_note(&s, "kind_text", v_known(text_str(&kind)));
	put_title(&s, r, o->colour, style.width);
	sheet_rows(&s, &style, COLUMNS(rows));
	sheet_commands(&s, "do", v->steps.list, v->steps.n);
	if (!s.as_json)
		put_steps(v, &style, out);
	put_apply(&s, v, &style);
	walk_rest(&s, v, &style);
	walk_sources(&s, v, &style);
	text_free(&kind);
	sheet_close(&s, '}');
}
