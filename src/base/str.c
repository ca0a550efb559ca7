#include "base/str.h"

struct str str_trim(struct str s)
{
	while (s.n && char_space(s.p[0]))
		s = str_from(s, 1);
	while (s.n && char_space(s.p[s.n - 1]))
		s.n--;
	return s;
}

ptrdiff_t str_find(struct str s, struct str needle)
{
	if (!needle.n)
		return 0;
	if (s.n < needle.n)
		return -1;
	const char *hit = memmem(s.p, s.n, needle.p, needle.n);
	return hit ? hit - s.p : -1;
}

int str_cmp(struct str a, struct str b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int c = n ? memcmp(a.p, b.p, n) : 0;
	return c ? c : (a.n > b.n) - (a.n < b.n);
}

struct str str_split(struct str *s, char sep)
{
	const char *hit = s->n ? memchr(s->p, sep, s->n) : NULL;
	size_t n = hit ? (size_t)(hit - s->p) : s->n;
	struct str head = str_cut(*s, n);
	*s = str_from(*s, hit ? n + 1 : n);
	return head;
}

struct str str_base(struct str path)
{
	while (path.n) {
		struct str component = str_split(&path, '/');
		if (!path.n)
			return component;
	}
	return path;
}

struct str str_word(struct str *s)
{
	while (s->n && char_space(s->p[0]))
		*s = str_from(*s, 1);
	size_t n = 0;
	while (n < s->n && !char_space(s->p[n]))
		n++;
	struct str word = str_cut(*s, n);
	*s = str_from(*s, n);
	return word;
}

bool str_behind(struct str s, struct str prefix, struct str *ret_rest)
{
	if (!str_starts(s, prefix))
		return false;
	*ret_rest = str_trim(str_from(s, prefix.n));
	return true;
}

bool str_after(struct str s, struct str mark, struct str *ret_rest)
{
	const ptrdiff_t at = str_find(s, mark);
	if (at < 0)
		return false;
	*ret_rest = str_from(s, (size_t)at + mark.n);
	return true;
}

void str_copy(char *room, size_t size, struct str s)
{
	s = str_cut(s, size - 1);
	if (s.n)
		memcpy(room, s.p, s.n);
	room[s.n] = 0;
}

/** Whether a pattern's character, which is no wildcard, matches a character of the text. */
typedef bool same_char(char pattern, char text);

static bool same_exactly(char pattern, char text) { return pattern == text; }

static bool same_loosely(char pattern, char text) { return pattern == '?' || char_lower(pattern) == char_lower(text); }

static bool str_match(struct str pattern, struct str text, same_char *same)
{
	size_t p = 0, t = 0, star = SIZE_MAX, mark = 0;
	while (t < text.n) {
		if (p < pattern.n && pattern.p[p] == '*') {
			star = p++;
			mark = t;
		} else if (p < pattern.n && same(pattern.p[p], text.p[t])) {
			p++;
			t++;
		} else if (star != SIZE_MAX) {
			p = star + 1;
			t = ++mark;
		} else {
			return false;
		}
	}
	while (p < pattern.n && pattern.p[p] == '*')
		p++;
	return p == pattern.n;
}

size_t str_typos(struct str a, struct str b, size_t most)
{
	enum { LONGEST = 64 };
	size_t row[LONGEST + 1];
	if (a.n > LONGEST || b.n > LONGEST)
		return most + 1;
	for (size_t k = 0; k <= b.n; k++)
		row[k] = k;
	for (size_t i = 1; i <= a.n; i++) {
		size_t across = row[0], least = row[0] = i;
		for (size_t k = 1; k <= b.n; k++) {
			const size_t change = across + (char_lower(a.p[i - 1]) != char_lower(b.p[k - 1]));
			const size_t other = (row[k] < row[k - 1] ? row[k] : row[k - 1]) + 1;
			across = row[k];
			row[k] = change < other ? change : other;
			least = row[k] < least ? row[k] : least;
		}
		if (least > most)
			return most + 1;
	}
	return row[b.n];
}

bool str_glob(struct str pattern, struct str text) { return str_match(pattern, text, same_exactly); }

bool str_like(struct str pattern, struct str text) { return str_match(pattern, text, same_loosely); }

static bool is_front_of(struct str word, struct str s) { return str_starts(s, word); }
static bool is_end_of(struct str word, struct str s) { return str_ends(s, word); }

struct str str_among(struct str s, enum str_fit fit, const char *list)
{
	static bool (*const fits[])(struct str word, struct str s) = {
		[STR_EQUALS] = str_eq,    [STR_BEGINS] = is_front_of, [STR_ENDS] = is_end_of,
		[STR_MATCHES] = str_glob, [STR_LIKE] = str_like,
	};
	for (struct str rest = str_z(list); rest.n;) {
		const struct str word = str_split(&rest, '|');
		if (fits[fit](word, s))
			return word;
	}
	return (struct str){ 0 };
}

bool str_hex(struct str s, uint64_t *ret_value)
{
	if (str_starts(s, S("0x")) || str_starts(s, S("0X")))
		s = str_from(s, 2);
	if (!s.n || s.n > 32)
		return false;
	uint64_t v = 0;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (!char_hex(c) || v >> 60)
			return false;
		v = v << 4 | (uint64_t)(char_digit(c) ? c - '0' : (c | 32) - 'a' + 10);
	}
	*ret_value = v;
	return true;
}

bool str_number(struct str s, int64_t *ret_value)
{
	uint64_t u;
	if (str_starts(s, S("0x"))) {
		if (!str_hex(s, &u))
			return false;
		*ret_value = (int64_t)u;
		return true;
	}
	bool minus = s.n && s.p[0] == '-';
	if (s.n && (minus || s.p[0] == '+'))
		s = str_from(s, 1);
	if (!s.n || s.n > 18)
		return false;
	int64_t v = 0;
	for (size_t i = 0; i < s.n; i++) {
		if (!char_digit(s.p[i]))
			return false;
		v = v * 10 + (s.p[i] - '0');
	}
	*ret_value = minus ? -v : v;
	return true;
}

int compare_numbers(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

static uint64_t version_part(struct str *s)
{
	uint64_t v = 0;
	size_t n = 0;
	while (n < s->n && n < 15 && char_digit(s->p[n]))
		v = v * 10 + (uint64_t)(s->p[n++] - '0');
	*s = str_from(*s, n);
	return v;
}

int str_version_cmp(struct str a, struct str b)
{
	// Only the dotted numbers at the front count: what distributions append says nothing of the driver.
	for (;;) {
		uint64_t x = version_part(&a), y = version_part(&b);
		if (x != y)
			return x < y ? -1 : 1;
		bool more_a = a.n > 1 && a.p[0] == '.' && char_digit(a.p[1]);
		bool more_b = b.n > 1 && b.p[0] == '.' && char_digit(b.p[1]);
		if (!more_a && !more_b)
			return 0;
		a = more_a ? str_from(a, 1) : S("");
		b = more_b ? str_from(b, 1) : S("");
	}
}

uint64_t str_hash(uint64_t hash, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		hash = hash_mix(hash, (unsigned char)s.p[i]);
	return hash_mix(hash, 0xff);
}

struct str str_of_list(const char *const *words, unsigned i)
{
	for (; *words && i; words++)
		i--;
	return *words ? str_z(*words) : (struct str){ 0 };
}

unsigned str_in_list(const char *const *words, struct str word)
{
	unsigned i = 0;
	while (words[i] && !str_is(word, words[i]))
		i++;
	return i;
}
