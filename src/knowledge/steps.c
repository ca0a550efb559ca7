#include "knowledge/steps.h"

enum piece_type fact_type(const struct know *k, struct str name)
{
	for (size_t i = k->facts.len; i-- > 0;)
		if (str_glob(k->facts.data[i]->head.id, name))
			return piece_type_named(k->facts.data[i]->value);
	return str_ends(name, S("@")) ? PIECE_PATH : PIECE_WORD;
}

static bool is_fact_name(struct str s)
{
	for (size_t n = 0; n < s.n; n++)
		if (!char_word(s.p[n]) && s.p[n] != '.' && s.p[n] != '@')
			return false;
	return s.n && s.p[0] >= 'a' && s.p[0] <= 'z';
}

/** Takes the text before the next {fact} off @text, and its name; without a name: the rest. */
static struct str take_literal(struct str *text, struct str *ret_name)
{
	struct str all = *text;
	*ret_name = (struct str){ 0 };
	for (size_t at = 0; at < all.n; at++) {
		if (all.p[at] != '{')
			continue;
		struct str behind = str_from(all, at + 1), name = str_split(&behind, '}');
		if (!is_fact_name(name) || name.p + name.n == all.p + all.n)
			continue;
		*ret_name = name;
		*text = behind;
		return str_cut(all, at);
	}
	*text = (struct str){ 0 };
	return all;
}

/** What became of the facts of a text, the worst of them. */
enum filled { FILLED_WELL, FILLED_REFUSED, FILLED_UNKNOWN };

/** The value may end up inside quotes of the text, so it has to be plain in any quotes. */
static enum filled fill_fact(struct command_maker *m, const struct know *k, struct str name, const struct fact_view *view)
{
	const struct command *made = view->command ? view->command(view->ctx, name) : NULL;
	struct str value;
	enum piece_type type = fact_type(k, name);
	if (made) {
		command_add_command(m, made);
		return FILLED_WELL;
	}
	bool known = view->get(view->ctx, name, 0, &value);
	if (known && piece_plain(type, value) && command_add_value(m, type, value))
		return FILLED_WELL;
	command_add_blank(m, name);
	return known ? FILLED_REFUSED : FILLED_UNKNOWN;
}

static const struct command *fill_one(struct command_maker *m, const struct know *k, struct str text,
				      const struct fact_view *view, enum filled *ret)
{
	*ret = FILLED_WELL;
	while (text.n) {
		struct str name;
		command_add_known(m, take_literal(&text, &name));
		enum filled one = name.n ? fill_fact(m, k, name, view) : FILLED_WELL;
		*ret = one > *ret ? one : *ret;
	}
	return command_end(m);
}

const struct command *steps_fill(struct arena *to, const struct know *k, struct str text, const struct fact_view *view,
				 enum fill_mode mode)
{
	const struct command *second = NULL;
	enum filled how;
	if (mode != FILL_ALTERNATIVES) {
		struct command_maker *m = command_begin(to);
		if (mode == FILL_RUN)
			command_mark(m);
		return fill_one(m, k, text, view, &how);
	}
	while (text.n) {
		ptrdiff_t bars = str_find(text, S(" || "));
		const struct command *c =
			fill_one(command_begin(to), k, bars < 0 ? text : str_cut(text, (size_t)bars), view, &how);
		if (how == FILLED_WELL)
			return c;
		if (how == FILLED_REFUSED && !second)
			second = c;
		text = str_from(text, bars < 0 ? text.n : (size_t)bars + 4);
	}
	return second;
}

void steps_fill_list(struct arena *to, const struct know *k, const struct know_list *texts, const struct fact_view *view,
		     enum fill_mode mode, struct steps *ret)
{
	size_t n = 0;
	for (const struct know_list *t = texts; t; t = t->next)
		n++;
	ret->list = arena_alloc(to, n * sizeof(const struct command *) + 1);
	ret->n = 0;
	for (; texts; texts = texts->next) {
		const struct command *c = steps_fill(to, k, texts->text, view, mode);
		if (c)
			ret->list[ret->n++] = c;
	}
}

void steps_of_remedy(struct arena *to, const struct know_remedy *r, const struct know *k, const struct fact_view *view,
		     struct steps *ret)
{
	steps_fill_list(to, k, r->steps, view, FILL_BLANKS, ret);
	ret->condition = steps_fill(to, k, r->condition_text, view, FILL_BLANKS);
	ret->undo = steps_fill(to, k, r->undo, view, FILL_BLANKS);
	ret->cost = steps_fill(to, k, r->cost, view, FILL_BLANKS);
	ret->risk = steps_fill(to, k, r->risk, view, FILL_BLANKS);
	ret->until = steps_fill(to, k, r->until, view, FILL_BLANKS);
	ret->verify = steps_fill(to, k, r->verify, view, FILL_BLANKS);
}
