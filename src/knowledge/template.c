#include "knowledge/template.h"

enum { MATCH_STEPS = 20000 };

static const struct {
	const char *name;
	enum value_type type;
} type_names[] = {
	{ "word", VALUE_WORD }, { "int", VALUE_INT },   { "hex", VALUE_HEX },
	{ "num", VALUE_NUM },   { "text", VALUE_TEXT }, { "pci", VALUE_PCI },
};

static bool value_parse(struct str inside, struct piece *piece)
{
	struct str type = inside;
	piece->name = str_split(&type, ':');
	for (size_t i = 0; i < piece->name.n; i++)
		if (!char_word(piece->name.p[i]))
			return false;
	piece->type = VALUE_WORD;
	if (!type.n)
		return piece->name.n == inside.n;
	for (size_t i = 0; i < sizeof(type_names) / sizeof(type_names[0]); i++) {
		if (str_is(type, type_names[i].name)) {
			piece->type = type_names[i].type;
			return true;
		}
	}
	piece->type = VALUE_NAME;
	piece->table = type;
	return true;
}

/** The literal text at the front of @s, with white space folded and braces undone. */
static struct str literal_take(struct arena *arena, struct str *s)
{
	char *out = arena_alloc(arena, s->n + 1);
	size_t n = 0, i = 0;
	while (i < s->n) {
		char c = s->p[i];
		bool twice = i + 1 < s->n && s->p[i + 1] == c;
		if (c == '{' && !twice)
			break;
		i += (c == '{' || c == '}') && twice ? 2 : 1;
		if (char_space(c)) {
			if (n && out[n - 1] == ' ')
				continue;
			c = ' ';
		}
		out[n++] = c;
	}
	*s = str_from(*s, i);
	return (struct str){ out, n };
}

struct template *template_parse(struct arena *arena, struct str text, const char *file, unsigned line,
				struct know_problems *problems)
{
	struct piece pieces[TEMPLATE_VALUES + 1] = { 0 };
	size_t n = 0, weight = 0;
	struct str rest = text;
	while (rest.n) {
		struct piece *piece = &pieces[n++];
		piece->literal = literal_take(arena, &rest);
		weight += piece->literal.n;
		if (!rest.n)
			break;
		if (n > TEMPLATE_VALUES) {
			know_problem(problems, file, line, "more than %d values in one message", TEMPLATE_VALUES);
			return NULL;
		}
		ptrdiff_t close = str_find(rest, S("}"));
		if (close < 0 || !value_parse(str_cut(str_from(rest, 1), (size_t)close - 1), piece)) {
			know_problem(problems, file, line, "a value is {name} or {name:type}; see '" STR_FMT "'",
				     STR_ARG(str_cut(rest, 40)));
			return NULL;
		}
		if (n > 1 && !piece->literal.n) {
			know_problem(problems, file, line, "two values with nothing between them");
			return NULL;
		}
		rest = str_from(rest, (size_t)close + 1);
	}
	if (weight < 4) {
		know_problem(problems, file, line, "a message needs some text beside its values");
		return NULL;
	}
	struct template *t = arena_alloc(arena, sizeof(*t));
	*t = (struct template){ .text = text, .line = line, .npieces = n, .weight = weight };
	t->pieces = arena_alloc(arena, n * sizeof(*pieces));
	memcpy(t->pieces, pieces, n * sizeof(*pieces));
	return t;
}

/** Where @literal ends if it stands at @at, else SIZE_MAX. @lazy: its last white space takes one character only. */
static size_t literal_match(struct str literal, struct str line, size_t at, bool lazy)
{
	for (size_t i = 0; i < literal.n; i++) {
		if (literal.p[i] != ' ') {
			if (at >= line.n || line.p[at] != literal.p[i])
				return SIZE_MAX;
			at++;
			continue;
		}
		if (at >= line.n || !char_space(line.p[at]))
			return SIZE_MAX;
		at++;
		if (lazy && i + 1 == literal.n)
			break;
		while (at < line.n && char_space(line.p[at]))
			at++;
	}
	return at;
}

size_t pci_length(struct str s)
{
	// [DDDD:]BB:DD.F
	static const char with_domain[] = "xxxx:xx:xx.x", without[] = "xx:xx.x";
	const char *forms[] = { with_domain, without };
	for (size_t f = 0; f < 2; f++) {
		size_t n = strlen(forms[f]), i = 0;
		if (s.n < n)
			continue;
		while (i < n && (forms[f][i] == 'x' ? char_hex(s.p[i]) : s.p[i] == forms[f][i]))
			i++;
		if (i == n)
			return n;
	}
	return 0;
}

static size_t digits(struct str line, size_t at, bool (*is)(char))
{
	while (at < line.n && is(line.p[at]))
		at++;
	return at;
}

/** Where the number of @type at @at ends, or SIZE_MAX. */
static size_t number_end(enum value_type type, struct str line, size_t at)
{
	struct str here = str_from(line, at);
	if (type == VALUE_HEX && str_starts(here, S("(nil)")))
		return at + 5;
	bool hex = str_starts(here, S("0x")) || str_starts(here, S("0X"));
	size_t from = at;
	if (hex && type != VALUE_INT)
		from += 2;
	else if (type == VALUE_INT && here.n && (here.p[0] == '-' || here.p[0] == '+'))
		from++;
	size_t end = digits(line, from, (type == VALUE_HEX || (hex && type == VALUE_NUM)) ? char_hex : char_digit);
	return end > from ? end : SIZE_MAX;
}

static size_t word_end(struct str line, size_t at)
{
	while (at < line.n && !char_space(line.p[at]))
		at++;
	return at;
}

static bool match_from(const struct template *t, size_t index, struct str line, size_t at, struct match *m);

static bool take(const struct template *t, size_t index, struct str line, size_t at, size_t end, struct match *m)
{
	size_t n = m->ncaptures;
	struct str text = { line.p + at, end - at };
	m->captures[m->ncaptures++] = (struct capture){ &t->pieces[index], str_trim(text) };
	if (match_from(t, index + 1, line, end, m))
		return true;
	m->ncaptures = n;
	return false;
}

static bool match_value(const struct template *t, size_t index, struct str line, size_t at, struct match *m)
{
	const struct piece *piece = &t->pieces[index];
	bool last = index + 1 == t->npieces;
	size_t end;
	switch (piece->type) {
	case VALUE_INT:
	case VALUE_HEX:
	case VALUE_NUM:
		end = number_end(piece->type, line, at);
		return end != SIZE_MAX && take(t, index, line, at, end, m);
	case VALUE_PCI:
		end = at + pci_length(str_from(line, at));
		return end != at && take(t, index, line, at, end, m);
	case VALUE_TEXT:
		if (last)
			return take(t, index, line, at, line.n, m);
		for (end = at; end <= line.n; end++)
			if (take(t, index, line, at, end, m))
				return true;
		return false;
	case VALUE_NAME:
		end = digits(line, at, char_word);
		return end > at && take(t, index, line, at, end, m);
	default:
		end = word_end(line, at);
		if (last) {
			while (end > at + 1 && char_among(line.p[end - 1], ".,;:!)`\"'"))
				end--;
			return end > at && take(t, index, line, at, end, m);
		}
		for (size_t stop = at + 1; stop <= end; stop++)
			if (take(t, index, line, at, stop, m))
				return true;
		return false;
	}
}

static bool match_from(const struct template *t, size_t index, struct str line, size_t at, struct match *m)
{
	if (index == t->npieces) {
		m->end = at;
		return true;
	}
	if (++m->steps > MATCH_STEPS)
		return false;
	const struct piece *piece = &t->pieces[index];
	size_t after = literal_match(piece->literal, line, at, piece->type == VALUE_TEXT);
	if (after == SIZE_MAX)
		return false;
	if (piece->type == VALUE_NONE) {
		m->end = after;
		return true;
	}
	return match_value(t, index, line, after, m);
}

bool template_may_begin(struct str literal, struct str line, size_t at)
{
	char before = at ? line.p[at - 1] : ' ';
	if (literal.n)
		return !char_word(literal.p[0]) || !char_word(before);
	// A value takes the whole word; `{1}` is the number of a RAS event, glued to its message.
	return char_space(before) || before == '}';
}

bool template_match(const struct template *t, struct str line, size_t at, struct match *ret)
{
	const struct piece *first = &t->pieces[0];
	ret->steps = 0;
	if (!template_may_begin(first->literal, line, at))
		return false;
	ret->template = t;
	ret->begin = at;
	ret->ncaptures = 0;
	return match_from(t, 0, line, at, ret);
}
