#include "base/print.h"

#include <unistd.h>

size_t utf8_length(struct str s)
{
	unsigned char c = (unsigned char)s.p[0];
	size_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
	if (!n || n > s.n)
		return 0;
	for (size_t i = 1; i < n; i++)
		if (((unsigned char)s.p[i] & 0xc0) != 0x80)
			return 0;
	unsigned char d = n > 1 ? (unsigned char)s.p[1] : 0;
	if ((c == 0xe0 && d < 0xa0) || (c == 0xed && d > 0x9f) || (c == 0xf0 && d < 0x90) || (c == 0xf4 && d > 0x8f))
		return 0;
	return n;
}

/** Whether any of eight bytes is not printable ASCII. Its high bit shows it: it is set there already, or after subtracting ' ' from a
 * control character, or after adding 1 to DEL. */
static inline uint64_t any_other(const char *p)
{
	static const uint64_t ones = 0x0101010101010101, highs = 0x8080808080808080;
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	return (v | (v - ones * ' ') | (v + ones)) & highs;
}

size_t print_plain(struct str s)
{
	size_t n = 0;
	while (s.n - n >= 32 &&
	       !(any_other(s.p + n) | any_other(s.p + n + 8) | any_other(s.p + n + 16) | any_other(s.p + n + 24)))
		n += 32;
	while (s.n - n >= 8 && !any_other(s.p + n))
		n += 8;
	while (n < s.n && s.p[n] >= ' ' && s.p[n] <= '~')
		n++;
	return n;
}

/** Characters that are not visible: controls, and those that change how others look (Unicode's Cf, and the separators of lines and
 * paragraphs). They can make one text look like another. */
static const struct {
	uint32_t first, last;
} unseen[] = {
	{ 0x0, 0x1f },        { 0x7f, 0x9f },       { 0xad, 0xad },       { 0x600, 0x605 },     { 0x61c, 0x61c },
	{ 0x6dd, 0x6dd },     { 0x70f, 0x70f },     { 0x890, 0x891 },     { 0x8e2, 0x8e2 },     { 0x180e, 0x180e },
	{ 0x200b, 0x200f },   { 0x2028, 0x202e },   { 0x2060, 0x206f },   { 0xfeff, 0xfeff },   { 0xfff9, 0xfffb },
	{ 0x110bd, 0x110bd }, { 0x110cd, 0x110cd }, { 0x13430, 0x1343f }, { 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a },
	{ 0xe0000, 0xe0fff },
};

bool point_shows(uint32_t point)
{
	for (size_t i = 0; i < ARRAY_SIZE(unseen) && point >= unseen[i].first; i++)
		if (point <= unseen[i].last)
			return false;
	return true;
}

uint32_t utf8_point(struct str s)
{
	static const unsigned char masks[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	uint32_t point = (unsigned char)s.p[0] & masks[s.n];
	for (size_t i = 1; i < s.n; i++)
		point = point << 6 | ((unsigned char)s.p[i] & 0x3f);
	return point;
}

/** Takes off @s what is to be shown next: as it is, or what stands for it. */
static struct str take_shown(struct str *s)
{
	size_t plain = print_plain(*s), n = plain ? plain : utf8_length(*s);
	struct str part = str_cut(*s, n);
	*s = str_from(*s, n ? n : 1);
	if (plain)
		return part;
	uint32_t point = n ? utf8_point(part) : 0;
	return !n ? S("?") : point_shows(point) ? part : point < 0xa0 ? S(" ") : S("?");
}

bool print_is_safe(struct str s)
{
	while (s.n) {
		struct str before = s, shown = take_shown(&s);
		if (shown.p != before.p)
			return false;
	}
	return true;
}

void text_add_safe(struct text *to, struct str s)
{
	while (s.n)
		text_add(to, take_shown(&s));
}

// One thread writes; taking the lock of the stream for each word would cost more than the writing.

void print_str(FILE *out, struct str s) { fwrite_unlocked(s.p, 1, s.n, out); }

void print_safe(FILE *out, struct str s)
{
	while (s.n)
		print_str(out, take_shown(&s));
}

bool print_arrived(FILE *out) { return !fflush(out) && !ferror(out); }

struct str number_digits(char room[static NUMBER_DIGITS], uint64_t v, unsigned base)
{
	char *p = room + NUMBER_DIGITS;
	// Each base has a loop of its own: dividing by a constant is no division.
	if (base == 16)
		do
			*--p = "0123456789abcdef"[v % 16];
		while (v /= 16);
	else
		do
			*--p = (char)('0' + v % 10);
		while (v /= 10);
	return (struct str){ p, (size_t)(room + NUMBER_DIGITS - p) };
}

void print_number(FILE *out, uint64_t v, unsigned base)
{
	char room[NUMBER_DIGITS];
	print_str(out, number_digits(room, v, base));
}

size_t print_columns(struct str s)
{
	size_t n = 0;
	for (size_t i = 0; i < s.n; i++)
		n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
	return n;
}

static bool begins_with_path(struct str s)
{
	while (s.n && (s.p[0] == '\'' || s.p[0] == '"'))
		s = str_from(s, 1);
	return s.n && s.p[0] == '/';
}

/** `[line 9]`: what is in brackets and of two words is not torn apart. */
static bool ends_bracket(struct str unit, struct str next)
{
	return unit.p[0] == '[' && !memchr(unit.p, ']', unit.n) && memchr(next.p, ']', next.n);
}

/** `4 %` */
static bool ends_number(struct str unit, struct str next)
{
	return next.p[0] == '%' && unit.p[unit.n - 1] >= '0' && unit.p[unit.n - 1] <= '9';
}

struct str print_unit(struct str *s)
{
	struct str unit = str_word(s), rest = *s;
	for (struct str next = str_word(&rest);
	     unit.n && next.n && (begins_with_path(next) || ends_bracket(unit, next) || ends_number(unit, next)) &&
	     next.p == unit.p + unit.n + 1;
	     next = str_word(&rest)) {
		unit.n += 1 + next.n;
		*s = rest;
	}
	return unit;
}

/** Where the next word goes. */
struct wrapper {
	size_t indent, column, width, lines;
	bool first; // of its line
};

/** Places a word; returns whether it begins a new line, which then is the one at w->column less the word. */
static bool place_word(struct wrapper *w, struct str word, size_t *ret_left)
{
	size_t n = print_columns(word), left = n <= w->width && w->indent + n > w->width ? w->width - n : w->indent;
	bool new_line = w->column + !w->first + n > w->width && (!w->first || left < w->column);
	*ret_left = left;
	w->lines += new_line;
	w->column = new_line ? left + n : w->column + !w->first + n;
	return new_line;
}

void print_wrapped(FILE *out, struct str s, size_t indent, size_t column, size_t width)
{
	struct wrapper w = { indent, column, width, 1, true };
	size_t left;
	for (struct str word = print_unit(&s); word.n; word = print_unit(&s)) {
		if (place_word(&w, word, &left))
			fprintf(out, "\n%*s", (int)left, "");
		else if (!w.first)
			fputc(' ', out);
		print_safe(out, word);
		w.first = false;
	}
	fputc('\n', out);
}

size_t print_lines(struct str s, size_t indent, size_t column, size_t width)
{
	struct wrapper w = { indent, column, width, 1, true };
	size_t left;
	for (struct str word = print_unit(&s); word.n; word = print_unit(&s)) {
		place_word(&w, word, &left);
		w.first = false;
	}
	return w.lines;
}

/** The last place at which @s may end without a word about it: behind a sentence, else before a clause or a bracket. 0: there is none.
 *  Before a bracket only where it is not closed: what follows a closed one belongs to what stands before it. @parts: before a colon, too. */
static size_t clean_end(struct str s, bool parts)
{
	size_t sentence = 0, clause = 0, part = 0, bracket = 0;
	bool quoted = false;
	int depth = 0;
	for (size_t n = 0; n < s.n; n++) {
		const char c = s.p[n], next = n + 1 < s.n ? s.p[n + 1] : ' ';
		quoted ^= c == '`';
		if (c == '(' && !depth++)
			bracket = n && s.p[n - 1] == ' ' ? n - 1 : 0;
		depth -= c == ')' && depth;
		if (depth || quoted || next != ' ')
			continue;
		if (c == '.')
			sentence = n + 1;
		else if (c == ';')
			clause = n;
		else if (c == ':' && parts)
			part = n;
	}
	if (depth)
		part = bracket;
	return sentence >= s.n / 3 ? sentence : clause >= s.n / 3 ? clause : part;
}

struct str print_clip(struct str s, const struct print_room *room, bool *ret_torn)
{
	enum { DOTS = 4 };
	struct wrapper w = { room->indent, room->column, room->width, 1, true };
	struct str rest = s;
	size_t left, fits = 0;
	*ret_torn = false;
	for (struct str word = print_unit(&rest); word.n && w.lines <= room->lines; word = print_unit(&rest)) {
		place_word(&w, word, &left);
		w.first = false;
		if (w.lines < room->lines || (w.lines == room->lines && w.column + room->behind + DOTS <= w.width))
			fits = (size_t)(word.p - s.p) + word.n;
	}
	if (w.lines < room->lines || (w.lines == room->lines && w.column + room->behind <= w.width))
		return s;
	const size_t clean = clean_end(str_cut(s, fits), !room->advice);
	*ret_torn = clean <= room->kept;
	return str_cut(s, *ret_torn ? fits : clean);
}

void print_said(const char *message)
{
	fputs("unhang: ", stderr);
	print_safe(stderr, str_z(message));
	fputc('\n', stderr);
}

void print_line(FILE *out, const char *key, struct str value)
{
	_cleanup_text_ struct text safe = { 0 };
	text_add_safe(&safe, value);
	if (safe.n)
		fprintf(out, "%s " STR_FMT "\n", key, STR_ARG(text_str(&safe)));
}

void tell_nobody(void *ctx, const char *message)
{
	(void)ctx;
	(void)message;
}
