// Conditions and phrases. Evidence lacks most facts, so a condition has four answers: a remedy is not advised because a fact is missing, and
// a phrase of a sentence whose fact is missing is left out.
#include "knowledge/condition.h"

enum op { OP_KNOWN, OP_NOT_KNOWN, OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_IN, OP_HAS, OP_LACKS };

struct term {
	enum op op;
	bool sure; // a fact that is not known does not fit, instead of perhaps
	struct str name, value;
	struct term *next;
};

struct condition {
	struct term *terms;
	struct condition *next;
};

static const struct {
	const char *text;
	enum op op;
} ops[] = {
	{ "=", OP_EQ },  { "!=", OP_NE }, { "<", OP_LT },    { "<=", OP_LE },       { ">", OP_GT },
	{ ">=", OP_GE }, { "in", OP_IN }, { "has", OP_HAS }, { "lacks", OP_LACKS },
};

static bool term_parse(struct str text, struct term *t)
{
	struct str rest = text;
	struct str first = str_word(&rest);
	if (str_is(first, "no")) {
		*t = (struct term){ .op = OP_NOT_KNOWN, .name = str_word(&rest) };
		return t->name.n && !str_trim(rest).n;
	}
	*t = (struct term){ .op = OP_KNOWN, .name = first };
	struct str op = str_word(&rest);
	if (!op.n)
		return first.n;
	rest = str_trim(rest);
	t->sure = str_is(op, "is");
	if (t->sure)
		op = str_starts(rest, S("in ")) ? str_word(&rest) : S("=");
	t->value = str_trim(rest);
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		if (str_is(op, ops[i].text)) {
			t->op = ops[i].op;
			return t->value.n;
		}
	}
	return false;
}

struct condition *condition_parse(struct arena *arena, struct condition *c, struct str text, const char *file, unsigned line,
				  struct know_problems *problems)
{
	struct condition *made = arena_alloc(arena, sizeof(*made));
	struct term **tail = &made->terms;
	while (text.n) {
		struct str part = part_take(&text, S(" and "));
		struct term *t = arena_alloc(arena, sizeof(*t));
		if (!term_parse(str_trim(part), t)) {
			know_problem(problems, file, line, "'" STR_FMT "' is not a condition (NAME OP VALUE)", STR_ARG(part));
			return c;
		}
		*tail = t;
		tail = &t->next;
	}
	if (!made->terms) {
		know_problem(problems, file, line, "an empty condition");
		return c;
	}
	made->next = c;
	return made;
}

static bool looks_like_version(struct str s)
{
	return s.n > 2 && char_digit(s.p[0]) && memchr(s.p, '.', s.n) && !str_starts(s, S("0x"));
}

/** 1 or -1 for a number that is too long for 64 bits, by its sign; 0: @s is none. */
static int number_beyond(struct str s)
{
	enum { DIGITS = 18 }; // that str_number() takes
	const bool minus = s.n && s.p[0] == '-';
	const struct str digits = str_from(s, minus);
	return digits.n <= DIGITS || str_run(digits, char_digit) < digits.n ? 0 : minus ? -1 : 1;
}

/** -1, 0 or 1; false where the two cannot be compared. */
static bool values_compare(struct str have, struct str want, int *ret)
{
	int64_t x, y;
	*ret = number_beyond(have);
	if (*ret && str_number(want, &y))
		return true;
	if (str_number(have, &x) && str_number(want, &y)) {
		*ret = (x > y) - (x < y);
		return true;
	}
	if (looks_like_version(have) || looks_like_version(want)) {
		if (!have.n || !char_digit(have.p[0]) || !char_digit(want.p[0]))
			return false;
		*ret = str_version_cmp(have, want);
		return true;
	}
	return false;
}

static bool equal(struct str have, struct str want)
{
	int c;
	if (values_compare(have, want, &c))
		return !c;
	return str_glob(want, have);
}

static bool term_holds(enum op op, struct str have, struct str want)
{
	int c;
	int64_t mask, bits;
	switch (op) {
	case OP_HAS:
	case OP_LACKS:
		if (!str_number(have, &mask) || !str_number(want, &bits))
			return false;
		return op == OP_HAS ? (mask & bits) == bits : !(mask & bits);
	case OP_EQ:
	case OP_NE: // the caller turns it round
		return equal(have, want);
	case OP_IN:
		for (struct str one = str_word(&want); one.n; one = str_word(&want))
			if (equal(have, one))
				return true;
		return false;
	default:
		if (!values_compare(have, want, &c))
			return false;
		return op == OP_LT ? c < 0 : op == OP_LE ? c <= 0 : op == OP_GT ? c > 0 : c >= 0;
	}
}

static enum truth term_eval(const struct term *t, const struct fact_view *view)
{
	struct str have, want = t->value;
	bool known = view->get(view->ctx, t->name, 0, &have), other = want.n && want.p[0] == '$';
	if (view->unread && (view->unread(view->ctx, t->name) || (other && view->unread(view->ctx, str_from(want, 1)))))
		return TRUTH_UNREAD;
	if (t->op == OP_KNOWN || t->op == OP_NOT_KNOWN)
		return known == (t->op == OP_KNOWN) ? TRUTH_YES : TRUTH_NO;
	if (other && !view->get(view->ctx, str_from(want, 1), 0, &want))
		return TRUTH_UNKNOWN;
	if (!known)
		return t->sure ? TRUTH_NO : TRUTH_UNKNOWN;
	bool any = false;
	for (size_t i = 0; view->get(view->ctx, t->name, i, &have); i++)
		any |= term_holds(t->op, have, want);
	return any != (t->op == OP_NE) ? TRUTH_YES : TRUTH_NO;
}

static enum truth terms_eval(const struct term *t, const struct fact_view *view)
{
	enum truth all = TRUTH_YES;
	for (; t && all != TRUTH_NO; t = t->next) {
		enum truth one = term_eval(t, view);
		all = one < all ? one : all;
	}
	return all;
}

enum truth condition_eval(const struct condition *c, const struct fact_view *view)
{
	if (!c)
		return TRUTH_YES;
	enum truth best = TRUTH_NO;
	for (; c; c = c->next) {
		enum truth all = terms_eval(c->terms, view);
		best = all > best ? all : best;
	}
	return best;
}

void condition_facts(const struct condition *c, const struct fact_view *view, void (*fact)(void *ctx, struct str name),
		     void *ctx)
{
	const struct condition *first = NULL; // lines stand in the list from the last to the first
	for (; c; c = c->next)
		if (terms_eval(c->terms, view) == TRUTH_YES)
			first = c;
	for (const struct term *t = first ? first->terms : NULL; t; t = t->next)
		if (t->op != OP_NOT_KNOWN)
			fact(ctx, t->name);
}

/** Whether the term compares a fact; the class is what the block is for. */
static bool tells_something(const struct term *t)
{
	return t->op != OP_NOT_KNOWN && t->op != OP_KNOWN && !str_is(t->name, "class");
}

static bool compared_before(const struct term *first, const struct term *t)
{
	for (; first != t; first = first->next)
		if (tells_something(first) && str_eq(first->name, t->name))
			return true;
	return false;
}

unsigned condition_met(const struct condition *c, const struct fact_view *view)
{
	unsigned most = 0;
	for (; c; c = c->next) {
		unsigned met = 0;
		for (const struct term *t = c->terms; t; t = t->next)
			met += tells_something(t) && !compared_before(c->terms, t);
		if (!met && c->terms && c->terms->op == OP_KNOWN)
			met = 1;
		if (met > most && terms_eval(c->terms, view) == TRUTH_YES)
			most = met;
	}
	return most;
}

static bool phrase_one(struct text *out, struct str phrase, const struct fact_view *view)
{
	size_t start = out->n;
	while (phrase.n) {
		ptrdiff_t open = str_find(phrase, S("{"));
		if (open < 0) {
			text_add(out, phrase);
			return true;
		}
		text_add(out, str_cut(phrase, (size_t)open));
		phrase = str_from(phrase, (size_t)open + 1);
		struct str only = str_split(&phrase, '}'), value;
		struct str name = str_split(&only, '=');
		if (!view->get(view->ctx, name, 0, &value) || (only.n && !str_eq(value, only))) {
			out->n = start;
			return false;
		}
		text_add(out, value);
	}
	return true;
}

/** The first of the alternatives between " || " whose facts are all known. */
static bool phrase_any(struct text *out, struct str alternatives, const struct fact_view *view)
{
	while (alternatives.n)
		if (phrase_one(out, part_take(&alternatives, S(" || ")), view))
			return true;
	return false;
}

void phrase_fill(struct text *out, struct str sentence, const struct fact_view *view)
{
	while (sentence.n) {
		struct str phrase = part_take(&sentence, S(" | "));
		size_t before = out->n;
		// A phrase that comes first loses the comma that it begins with.
		while (!before && phrase.n && char_among(phrase.p[0], ",.;: "))
			phrase = str_from(phrase, 1);
		// A phrase that begins with punctuation is glued to what stands before it.
		if (before && phrase.n && !char_among(phrase.p[0], ",.;:)"))
			text_add(out, S(" "));
		if (!phrase_any(out, phrase, view))
			out->n = before;
	}
	if (out->p)
		out->p[out->n] = 0;
}
