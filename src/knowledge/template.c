// Messages of drivers and programs against the lines of a log. People cut lines, paste them wrapped and leave numbers out, so a line may lack
// values (`...`, `XXXX`) and even text; then what is missing is unknown, never guessed. A hostile line cannot take long: steps are counted.
#include "knowledge/template.h"

enum {
	MATCH_STEPS = 20000,
	PASSED_A_STEP = 16, // characters that are passed over for the time of a step
	GAP_WEIGHT = 14,    // so much of a message must stand before a gap in it
	GAP_RESUMES = 4,    // so much of its text tells where it goes on behind one
};

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
	for (size_t i = 0; i < ARRAY_SIZE(type_names); i++) {
		if (str_is(type, type_names[i].name)) {
			piece->type = type_names[i].type;
			return true;
		}
	}
	piece->type = VALUE_NAME;
	piece->table = type;
	return true;
}

/** The literal text at the front of @s, with white space folded and braces undone: a copy only where that changes something. */
static struct str literal_take(struct arena *arena, struct str *s)
{
	char *out = NULL;
	size_t n = 0, i = 0;
	while (i < s->n) {
		const size_t at = i;
		char c = s->p[i];
		bool twice = i + 1 < s->n && s->p[i + 1] == c;
		if (c == '{' && !twice)
			break;
		i += (c == '{' || c == '}') && twice ? 2 : 1;
		if (char_space(c)) {
			if (n && (out ? out[n - 1] : s->p[n - 1]) == ' ')
				continue;
			c = ' ';
		}
		if (!out && (n != at || c != s->p[at]))
			out = arena_copy(arena, s->p, s->n);
		if (out)
			out[n] = c;
		n++;
	}
	const struct str literal = { out ? out : s->p, n };
	*s = str_from(*s, i);
	return literal;
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

/** Length of the dots at the front of @s: at least three, or the one character that stands for them. */
static size_t dots_length(struct str s)
{
	size_t n = 0;
	while (n < s.n && s.p[n] == '.')
		n++;
	return n >= 3 ? n : str_starts(s, S("\xe2\x80\xa6")) ? 3 : 0;
}

size_t elision_length(struct str s)
{
	char open = s.n ? s.p[0] : 0, close = open == '[' ? ']' : open == '<' ? '>' : 0;
	size_t inner = dots_length(str_from(s, close != 0)), n = inner + (close != 0);
	if (!inner || !close)
		return inner;
	return n < s.n && s.p[n] == close ? n + 1 : 0;
}

/** Length of `N`, `XXXX`, `???` or `<pid>` at the front of @s, as people write for a number that they do not tell. */
static size_t placeholder_length(struct str s)
{
	size_t n = 0;
	if (!s.n)
		return 0;
	if (s.p[0] == '<') {
		while (n < s.n && n < 24 && s.p[n] != '>' && s.p[n] != '%')
			n++;
		return n > 1 && n < s.n && s.p[n] == '>' ? n + 1 : 0;
	}
	if (!char_among(s.p[0], "NXnx?*#"))
		return 0;
	while (n < s.n && s.p[n] == s.p[0])
		n++;
	bool alone = n == s.n || !char_word(s.p[n]);
	// One small letter is somebody's variable or unit.
	return alone && (n > 1 || char_among(s.p[0], "NX?")) ? n : 0;
}

bool value_elided(struct str s)
{
	bool hex = str_starts(s, S("0x")) || str_starts(s, S("0X"));
	struct str rest = str_from(s, hex ? 2 : 0);
	size_t n = elision_length(rest);
	if (n || (hex && !rest.n))
		return n == rest.n;
	n = placeholder_length(rest);
	// `X` is the name of a program.
	return n == s.n && (n > 2 || s.p[0] == '?') &&
	       (s.p[0] != '<' || str_find(s, S("edacted")) > 0 || str_find(s, S("EDACTED")) > 0);
}

/** Where @literal ends if it stands at @at, else SIZE_MAX and in @ret_stop where the line stopped to have it. @lazy: its last white
 * space takes one character only. */
static size_t literal_match(struct str literal, struct str line, size_t at, bool lazy, size_t *ret_had, size_t *ret_stop)
{
	for (size_t i = 0; i < literal.n; i++) {
		*ret_had = i;
		*ret_stop = at;
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

static size_t digits_end(struct str line, size_t at, bool (*is)(char))
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
	size_t end = digits_end(line, from, (type == VALUE_HEX || (hex && type == VALUE_NUM)) ? char_hex : char_digit);
	return end > from ? end : SIZE_MAX;
}

/** Whether what stands at @at, behind the digits of a number, makes it another number or none: it is cut short, or mistyped. */
static bool number_spoilt(enum value_type type, struct str line, size_t from, size_t at)
{
	static const char letters_for_digits[] = "OoIlXx?*";
	struct str rest = str_from(line, at);
	if (dots_length(rest) || (rest.n > 1 && str_starts(rest, S("..")) && !char_digit(line.p[at + 1])))
		return true;
	if (!rest.n)
		return false;
	if (type == VALUE_INT || (type == VALUE_NUM && !str_starts(str_from(line, from), S("0x")))) {
		size_t n = 0;
		while (n < rest.n && (char_among(rest.p[n], letters_for_digits) || char_digit(rest.p[n])))
			n++;
		return n && (n == rest.n || !char_word(rest.p[n]));
	}
	return (char_word(rest.p[0]) && !char_among(rest.p[0], "LU")) || char_among(rest.p[0], "?*");
}

/** Where what stands for a number at @at ends: `...`, `0x...`, `N`, `0x0080...`, `0x008O1031`. SIZE_MAX: nothing of the kind. */
static size_t unknown_end(enum value_type type, struct str line, size_t at)
{
	struct str here = str_from(line, at);
	bool hex = type != VALUE_INT && here.n > 1 && char_among(here.p[0], "0Oo") && char_among(here.p[1], "xX");
	size_t from = at + (hex ? 2 : 0), n = elision_length(str_from(line, from));
	if (!n)
		n = placeholder_length(str_from(line, from));
	if (n)
		return from + n;
	size_t end = digits_end(line, from, type == VALUE_INT || (type == VALUE_NUM && !hex) ? char_digit : char_hex);
	if (end == from)
		return hex && (from == line.n || !char_word(line.p[from])) ? from : SIZE_MAX;
	if (!number_spoilt(type, line, at, end) && here.p[0] != 'O' && here.p[0] != 'o')
		return SIZE_MAX;
	while (end < line.n && (char_word(line.p[end]) || char_among(line.p[end], "?*")))
		end++;
	size_t dots = dots_length(str_from(line, end));
	return end + (dots ? dots : str_starts(str_from(line, end), S("..")) ? 2 : 0);
}

static bool match_from(const struct template *t, size_t index, struct str line, size_t at, struct match *m);

static bool value_take(const struct template *t, size_t index, struct str line, size_t at, size_t end, struct match *m)
{
	size_t n = m->ncaptures;
	struct str text = { line.p + at, end - at };
	m->captures[m->ncaptures++] = (struct capture){ &t->pieces[index], str_trim(text) };
	if (match_from(t, index + 1, line, end, m))
		return true;
	m->ncaptures = n;
	return false;
}

/** A number, or what stands for one that is not told: then its text is empty. */
static bool value_take_number(const struct template *t, size_t index, struct str line, size_t at, struct match *m)
{
	enum value_type type = t->pieces[index].type;
	const struct piece *next = index + 1 < t->npieces ? &t->pieces[index + 1] : NULL;
	size_t end = type == VALUE_NAME ? digits_end(line, at, char_word) : number_end(type, line, at);
	bool number = end != SIZE_MAX && end > at;
	bool named = type == VALUE_NAME && number && !char_digit(line.p[at]);
	// Text that the message itself has behind the number belongs to it: `{seconds:int}ms`.
	bool goes_on = next && number && end < line.n && next->literal.n && line.p[end] == next->literal.p[0];
	bool spoilt = number && !named && !goes_on && number_spoilt(type == VALUE_NAME ? VALUE_NUM : type, line, at, end);
	if (number && !spoilt && value_take(t, index, line, at, end, m))
		return true;
	size_t unknown = unknown_end(type == VALUE_NAME ? VALUE_NUM : type, line, at), n = m->ncaptures;
	if (unknown == SIZE_MAX)
		return false;
	m->captures[m->ncaptures++] = (struct capture){ &t->pieces[index], { line.p + at, 0 } };
	if (match_from(t, index + 1, line, unknown, m))
		return true;
	m->ncaptures = n;
	return false;
}

/** The next place from @at on where @literal can begin; SIZE_MAX: there is none. Where the line may differ from the message, it can anywhere. */
static size_t may_begin(struct str literal, struct str line, size_t at, struct match *m)
{
	if (!literal.n || m->gaps || m->slips_left)
		return at;
	const size_t from = at;
	while (at < line.n && (literal.p[0] == ' ' ? !char_space(line.p[at]) : line.p[at] != literal.p[0]))
		at++;
	m->steps += (unsigned)(at - from) / PASSED_A_STEP;
	return at < line.n ? at : SIZE_MAX;
}

/** Where a text stands before a number, as a program's name before its pid, whoever chose the text may have written the message's own
 * words and a number into it. If the text can as well end behind @end, what the readings disagree about is unknown. @had: captures before
 * the text's. */
static void doubt_text(size_t index, struct str line, size_t at, size_t end, size_t had, struct match *m)
{
	const struct template *t = m->template;
	const struct piece *next = &t->pieces[index + 1];
	if (!t->pieces[index].name.n || next->type != VALUE_INT)
		return;
	struct match other = *m;
	other.gaps = false; // a reading that needs a gap or a slip is no better than the first
	other.slips_left = 0;
	while ((end = may_begin(next->literal, line, end + 1, &other)) != SIZE_MAX) {
		other.ncaptures = had;
		const bool fits = value_take(t, index, line, at, end, &other);
		for (size_t i = had; fits && i < m->ncaptures; i++)
			if (i >= other.ncaptures || m->captures[i].piece != other.captures[i].piece ||
			    !str_eq(m->captures[i].text, other.captures[i].text))
				m->captures[i].text.n = 0;
	}
	m->steps = other.steps;
}

static bool match_text_value(const struct template *t, size_t index, struct str line, size_t at, struct match *m)
{
	const size_t had = m->ncaptures;
	for (size_t end = at; end <= line.n; end++) {
		end = may_begin(t->pieces[index + 1].literal, line, end, m);
		if (end == SIZE_MAX)
			return false;
		if (value_take(t, index, line, at, end, m)) {
			doubt_text(index, line, at, end, had, m);
			return true;
		}
	}
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
	case VALUE_NAME:
		return value_take_number(t, index, line, at, m);
	case VALUE_PCI:
		end = at + pci_length(str_from(line, at));
		return end != at && value_take(t, index, line, at, end, m);
	case VALUE_TEXT:
		return last ? value_take(t, index, line, at, line.n, m) : match_text_value(t, index, line, at, m);
	default:
		for (end = at; end < line.n && !char_space(line.p[end]);)
			end++;
		if (last) {
			while (end > at + 1 && char_among(line.p[end - 1], ".,;:!)`\"'"))
				end--;
			return end > at && value_take(t, index, line, at, end, m);
		}
		for (size_t stop = at + 1; stop <= end; stop++)
			if (value_take(t, index, line, at, stop, m))
				return true;
		return false;
	}
}

static bool match_text(const struct template *t, size_t index, struct str literal, struct str line, size_t at, struct match *m);

/** Behind a gap at @at, before the literal of piece @index was complete: where the message goes on, or its end where it does not. */
static bool match_behind_gap(const struct template *t, size_t index, struct str line, size_t at, struct match *m)
{
	for (size_t next = index; next < t->npieces; next++) {
		struct str literal = t->pieces[next].literal, rest = str_from(line, at);
		// The comma before the next part goes with what was left out.
		while (literal.n && !char_word(literal.p[0]))
			literal = str_from(literal, 1);
		if (literal.n < GAP_RESUMES)
			continue;
		m->steps += 1 + (unsigned)(rest.n / 64);
		ptrdiff_t found = str_find(rest, literal);
		if (found >= 0 && match_text(t, next, literal, line, at + (size_t)found, m))
			return true;
	}
	m->end = at;
	return m->weight >= GAP_WEIGHT;
}

static bool match_text(const struct template *t, size_t index, struct str literal, struct str line, size_t at, struct match *m)
{
	const struct piece *piece = &t->pieces[index];
	size_t weight = m->weight, had = 0, stop = 0;
	if (++m->steps > MATCH_STEPS)
		return false;
	size_t after = literal_match(literal, line, at, piece->type == VALUE_TEXT, &had, &stop);
	bool found = false;
	unsigned slips_left = m->slips_left;
	if (after == SIZE_MAX && slips_left)
		after = literal_match_typed(literal, line, at, &m->slips_left);
	if (after != SIZE_MAX) {
		m->weight += literal.n;
		m->end = after;
		found = piece->type == VALUE_NONE || match_value(t, index, line, after, m);
	} else if (m->gaps && (index || had)) {
		while (stop < line.n && char_space(line.p[stop]))
			stop++;
		size_t gap = elision_length(str_from(line, stop));
		m->weight += had;
		found = gap && match_behind_gap(t, index, line, stop + gap, m);
	}
	if (!found) {
		m->weight = weight;
		m->slips_left = slips_left;
	}
	return found;
}

static bool match_from(const struct template *t, size_t index, struct str line, size_t at, struct match *m)
{
	if (index == t->npieces) {
		m->end = at;
		return true;
	}
	return match_text(t, index, t->pieces[index].literal, line, at, m);
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
	ret->weight = 0;
	ret->ncaptures = 0;
	return match_from(t, 0, line, at, ret);
}

enum { NEAR = 4 };

/** How many letters of a message, of the three behind its first, stand about where they should. */
static unsigned letters_near(struct str first, struct str line, size_t at)
{
	char have[NEAR + 1];
	unsigned near = 0;
	for (size_t i = 0; i < sizeof(have); i++)
		have[i] = at + i < line.n ? char_lower(line.p[at + i]) : 0;
	for (size_t i = 1; i < NEAR; i++) {
		const char c = char_lower(first.p[i]);
		near += c == have[i - 1] || c == have[i] || c == have[i + 1];
	}
	return near;
}

bool template_match_typed(const struct template *t, struct str line, size_t at, struct match *ret)
{
	enum { SURE = 16, PER_SLIP = 10, SLIPS = 2 };
	unsigned allowed = t->weight / PER_SLIP < SLIPS ? (unsigned)(t->weight / PER_SLIP) : SLIPS;
	struct str first = t->pieces[0].literal;
	if (t->weight < SURE || !first.n || char_lower(first.p[0]) != char_lower(line.p[at]))
		return false;
	if (first.n >= NEAR && letters_near(first, line, at) < 2) // that spares nearly every search
		return false;
	*ret = (struct match){ .slips_left = allowed };
	if (!template_match(t, line, at, ret))
		return false;
	ret->slips = allowed - ret->slips_left;
	return true;
}
