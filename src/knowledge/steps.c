// Texts of knowledge that say what to do, filled with the facts of a machine. What is filled in may come from a stranger's file, so a value
// goes into a command only if it passes the type of its fact; else a blank in capitals stands for it, which a person fills in.
#include "knowledge/steps.h"

#include "knowledge/kinds/kinds.h"

enum { WAYS_DEEP = 4 }; // a way may name other actions

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

// --- ways ---

struct str know_usual(const struct know *k, struct str distribution, struct str fact)
{
	for (size_t n = k->usuals.len; n-- > 0;) {
		struct str value = k->usuals.data[n]->value, name = str_word(&value);
		if (str_eq(name, fact) && str_glob(k->usuals.data[n]->head.id, distribution))
			return str_trim(value);
	}
	return (struct str){ 0 };
}

/** Evidence may speak of several distributions. Then it is not known which one the machine has. */
static struct str only_value(const struct fact_view *view, struct str name)
{
	struct str value, other;
	bool one = view->get(view->ctx, name, 0, &value) && !view->get(view->ctx, name, 1, &other);
	return one ? value : (struct str){ 0 };
}

static bool usual_get(const void *ctx, struct str name, size_t index, struct str *ret)
{
	const struct usual_facts *u = ctx;
	struct str own, value, like = S("distribution_like");
	if (u->view->get(u->view->ctx, name, 0, &own))
		return u->view->get(u->view->ctx, name, index, ret);
	if (index || str_starts(name, S("distribution")))
		return false;
	value = know_usual(u->know, only_value(u->view, S("distribution")), name);
	for (size_t n = 0; !value.n && u->view->get(u->view->ctx, like, n, &own); n++)
		value = know_usual(u->know, own, name);
	*ret = value;
	return value.n;
}

static const struct command *usual_command(const void *ctx, struct str name)
{
	const struct usual_facts *u = ctx;
	return u->view->command ? u->view->command(u->view->ctx, name) : NULL;
}

static bool usual_unread(const void *ctx, struct str name)
{
	const struct usual_facts *u = ctx;
	return u->view->unread && u->view->unread(u->view->ctx, name);
}

struct fact_view usual_view(const struct usual_facts *facts)
{
	return (struct fact_view){ .get = usual_get, .ctx = facts, .command = usual_command, .unread = usual_unread };
}

bool know_action_named(const struct know *k, struct str name) { return KNOW_BY_ID(k->ways, name); }

const struct know_way *know_way(const struct know *k, struct str action, const struct fact_view *view)
{
	const struct usual_facts facts = { k, view };
	const struct fact_view usual = usual_view(&facts);
	for (size_t n = 0; n < k->ways.len; n++) {
		const struct know_way *w = k->ways.data[n];
		if (str_eq(w->head.id, action) && condition_eval(w->when, &usual) == TRUTH_YES)
			return w;
	}
	return NULL;
}

// --- actions ---

/** `{set-word: amdgpu.runpm=0}`, `{undo set-word: $word}`, `{rebuild-initramfs}` */
struct action_ref {
	struct str action, argument;
	bool undo;
};

static bool is_action(const struct know *k, struct str inside, struct action_ref *ret)
{
	struct str rest = inside;
	*ret = (struct action_ref){ .undo = str_starts(inside, S("undo ")) };
	if (ret->undo)
		rest = str_from(rest, 5);
	ret->action = str_split(&rest, ':');
	ret->argument = str_trim(rest);
	return know_action_named(k, ret->action);
}

/** Takes the text before the next {fact} or {action} off @text, and what stands in the braces; without any: the rest. */
static struct str take_literal(const struct know *k, struct str *text, struct str *ret_name)
{
	struct str all = *text;
	struct action_ref action;
	*ret_name = (struct str){ 0 };
	for (size_t at = 0; at < all.n; at++) {
		if (all.p[at] != '{')
			continue;
		struct str behind = str_from(all, at + 1), name = str_split(&behind, '}');
		if ((!is_fact_name(name) && !is_action(k, name, &action)) || name.p + name.n == all.p + all.n)
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

struct filling {
	struct arena *to;
	const struct know *know;
	const struct fact_view *view;
	unsigned depth; // in ways of ways
};

static enum filled fill_text(struct filling *f, struct str text, struct command_maker *m, bool first);

/** A step begins with a capital. Behind other words it does not. */
static struct str in_sentence(struct arena *a, struct str text, bool first)
{
	bool capital = text.n > 1 && text.p[0] >= 'A' && text.p[0] <= 'Z' && text.p[1] >= 'a' && text.p[1] <= 'z';
	if (first || !capital)
		return text;
	return arena_printf(a, "%c" STR_FMT, text.p[0] + 32, STR_ARG(str_from(text, 1)));
}

/** The value may end up inside quotes of the text, so it has to be plain in any quotes. */
static enum filled fill_fact(const struct filling *f, struct command_maker *m, struct str name, bool first)
{
	const struct fact_view *view = f->view;
	const struct command *made = view->command ? view->command(view->ctx, name) : NULL;
	struct str value;
	enum piece_type type = fact_type(f->know, name);
	if (made) {
		(first ? command_add_command : command_add_within)(m, made);
		return FILLED_WELL;
	}
	bool known = view->get(view->ctx, name, 0, &value);
	if (known && piece_plain(type, value) && command_add_value(m, type, value))
		return FILLED_WELL;
	command_add_blank(m, name);
	return known ? FILLED_REFUSED : FILLED_UNKNOWN;
}

/** The facts of a way: those of the machine, and {it}, what the action is done to. */
struct way_facts {
	const struct fact_view *view;
	const struct command *it;
};

static bool way_get(const void *ctx, struct str name, size_t index, struct str *ret)
{
	const struct way_facts *w = ctx;
	if (!str_is(name, "it"))
		return w->view->get(w->view->ctx, name, index, ret);
	*ret = command_str(w->it);
	return !index && w->it;
}

static const struct command *way_command(const void *ctx, struct str name)
{
	const struct way_facts *w = ctx;
	if (str_is(name, "it"))
		return w->it;
	return w->view->command ? w->view->command(w->view->ctx, name) : NULL;
}

static bool way_unread(const void *ctx, struct str name)
{
	const struct way_facts *w = ctx;
	return !str_is(name, "it") && w->view->unread && w->view->unread(w->view->ctx, name);
}

/** What an action is done to: a fact behind `$`, or words of knowledge itself. */
static const struct command *action_argument(const struct filling *f, struct str argument, enum filled *ret)
{
	struct command_maker *m = command_begin(f->to);
	*ret = FILLED_WELL;
	if (str_starts(argument, S("$")))
		*ret = fill_fact(f, m, str_from(argument, 1), true);
	else
		command_add_known(m, argument);
	return command_end(m);
}

static enum filled fill_way(struct filling *f, struct command_maker *m, const struct action_ref *r, const struct command *it,
			    bool first)
{
	const struct usual_facts facts = { f->know, f->view };
	const struct fact_view usual = usual_view(&facts);
	const struct way_facts with = { &usual, it };
	const struct fact_view view = { way_get, &with, way_command, way_unread };
	const struct know_way *way = f->depth < WAYS_DEEP ? know_way(f->know, r->action, &view) : NULL;
	struct str text = way ? r->undo ? way->undo : way->run.n ? way->run : way->say : (struct str){ 0 };
	if (!text.n) {
		command_add_blank(m, r->action);
		return FILLED_UNKNOWN;
	}
	struct filling inner = { f->to, f->know, &view, f->depth + 1 };
	return fill_text(&inner, in_sentence(f->to, text, first), m, first);
}

static enum filled fill_action(struct filling *f, struct command_maker *m, const struct action_ref *r, bool first)
{
	enum filled argument = FILLED_WELL;
	const struct command *it = r->argument.n ? action_argument(f, r->argument, &argument) : NULL;
	enum filled how = fill_way(f, m, r, it, first);
	return how > argument ? how : argument;
}

const struct command *steps_action(struct arena *to, const struct know *k, struct str action, const struct command *it,
				   const struct fact_view *view)
{
	struct filling f = { to, k, view, 0 };
	struct command_maker *m = command_begin(to);
	struct action_ref r;
	enum filled how = is_action(k, action, &r) ? fill_way(&f, m, &r, it, true) : FILLED_UNKNOWN;
	const struct command *made = command_end(m);
	return how == FILLED_UNKNOWN ? NULL : made;
}

// --- texts ---

static enum filled fill_text(struct filling *f, struct str text, struct command_maker *m, bool first)
{
	enum filled worst = FILLED_WELL;
	while (text.n) {
		struct str name, literal = take_literal(f->know, &text, &name);
		struct action_ref action;
		command_add_known(m, literal);
		first = first && !literal.n;
		enum filled one = !name.n                           ? FILLED_WELL :
				  is_action(f->know, name, &action) ? fill_action(f, m, &action, first) :
								      fill_fact(f, m, name, first);
		first = first && !name.n;
		worst = one > worst ? one : worst;
	}
	return worst;
}

static const struct command *fill_one(struct filling *f, struct str text, bool run, enum filled *ret)
{
	struct command_maker *m = command_begin(f->to);
	if (run)
		command_mark(m);
	*ret = fill_text(f, text, m, true);
	return command_end(m);
}

const struct command *steps_fill(struct arena *to, const struct know *k, struct str text, const struct fact_view *view,
				 enum fill_mode mode)
{
	const struct command *second = NULL;
	struct filling f = { to, k, view, 0 };
	enum filled how;
	if (mode != FILL_ALTERNATIVES)
		return fill_one(&f, text, mode == FILL_RUN, &how);
	while (text.n) {
		const struct command *c = fill_one(&f, part_take(&text, S(" || ")), false, &how);
		if (how == FILLED_WELL)
			return c;
		if (how == FILLED_REFUSED && !second)
			second = c;
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
