// String views: pointer and length. They own nothing and need not be NUL-terminated.
//
// A function may use a view that it was handed until it returns. To keep the text it makes a copy: in an arena (arena_str()), or in a
// struct whose name begins with `kept_` and which has no views. base/lifetime.h lets tests find code that breaks the rule.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** How many elements an array has. */
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

struct str {
	const char *p;
	size_t n;
};

#define S(literal) ((struct str){ (literal), sizeof(literal) - 1 })
#define STR_FMT "%.*s"
#define STR_ARG(s) ((int)(s).n), (s).p

static inline struct str str_z(const char *z) { return (struct str){ z, z ? strlen(z) : 0 }; }
static inline struct str str_from(struct str s, size_t at)
{
	if (at >= s.n)
		return (struct str){ s.n ? s.p + s.n : s.p, 0 };
	return (struct str){ s.p + at, s.n - at };
}
static inline struct str str_cut(struct str s, size_t n) { return (struct str){ s.p, n < s.n ? n : s.n }; }
static inline bool str_eq(struct str a, struct str b) { return a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n)); }
static inline bool str_is(struct str a, const char *z) { return str_eq(a, str_z(z)); }
static inline bool str_starts(struct str s, struct str prefix) { return s.n >= prefix.n && !memcmp(s.p, prefix.p, prefix.n); }
static inline bool str_ends(struct str s, struct str suffix)
{
	return s.n >= suffix.n && !memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n);
}
static inline bool char_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static inline bool char_digit(char c) { return c >= '0' && c <= '9'; }
static inline bool char_hex(char c) { return char_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
static inline bool char_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static inline char char_lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c | 32) : c; }
static inline bool char_word(char c) { return char_alpha(c) || char_digit(c) || c == '_'; }
/** Whether @c is in @set. Unlike strchr() it never finds the NUL at the end. */
static inline bool char_among(char c, const char *set) { return c && strchr(set, c); }

struct str str_trim(struct str s);
/** Position of needle in s, or -1. */
ptrdiff_t str_find(struct str s, struct str needle);
int str_cmp(struct str a, struct str b);
/** How many letters have to be typed, left out or changed to make one the other, upper and lower case being the same; more than @most
 * where it is more, or where one is too long to be a name. */
size_t str_typos(struct str a, struct str b, size_t most);
/** Takes the text before the next @sep off @s; all of it where there is none. */
struct str str_split(struct str *s, char sep);
/** Goes through the parts of @text that have @sep between them, each as a struct str @part. */
#define str_each(part, text, sep)                                                                                              \
	for (struct str part, part##_rest = (text); part##_rest.n && (part = str_split(&part##_rest, (sep)), true);)
/** The last component of a path. */
struct str str_base(struct str path);
/** Takes the next run of non-space characters off @s, and the white space before it. */
struct str str_word(struct str *s);
/** Whether @s begins with @prefix. Then *ret_rest is what follows, without white space around it. */
bool str_behind(struct str s, struct str prefix, struct str *ret_rest);
/** Whether @mark stands in @s, wherever. Then *ret_rest is what follows it. */
bool str_after(struct str s, struct str mark, struct str *ret_rest);
/** NUL-terminated, cut to what fits into @room. */
void str_copy(char *room, size_t size, struct str s);
/** '*' in @pattern stands for any characters. */
bool str_glob(struct str pattern, struct str text);
/** How a text is held against the words of a list. STR_MATCHES, STR_LIKE: the words are patterns of str_glob(), of str_like(). */
enum str_fit { STR_EQUALS, STR_BEGINS, STR_ENDS, STR_MATCHES, STR_LIKE };
/** The first word of @list, which has bars between its words ("root|daemon"), that @s is, begins with, ends with or matches; empty: none. */
struct str str_among(struct str s, enum str_fit fit, const char *list);
/** How many bytes at the front of @s are such. */
static inline size_t str_run(struct str s, bool (*is)(char c))
{
	size_t n = 0;
	while (n < s.n && is(s.p[n]))
		n++;
	return n;
}
/** '*' stands for any characters, '?' for one; upper and lower case are the same. */
bool str_like(struct str pattern, struct str text);
/** Whether @s has a '*' or '?'. */
static inline bool str_is_pattern(struct str s) { return s.n && (memchr(s.p, '*', s.n) || memchr(s.p, '?', s.n)); }
/** The word at @i of a list that ends with NULL; empty: it has none. */
struct str str_of_list(const char *const *words, unsigned i);
/** The other way round: where @word is; of one that is not there, where the list ends. */
unsigned str_in_list(const char *const *words, struct str word);
/** A whole number, decimal or 0x hexadecimal, that is all of @s. */
bool str_number(struct str s, int64_t *ret_value);
bool str_hex(struct str s, uint64_t *ret_value);
/** Compares two int64_t, for qsort(). */
int compare_numbers(const void *a, const void *b);
/** Dotted versions such as 6.17.9-arch1: compared number by number. */
int str_version_cmp(struct str a, struct str b);

/** The hash FNV-1a, a number at a time. */
#define STR_HASH_BEGIN UINT64_C(0xcbf29ce484222325)
static inline uint64_t hash_mix(uint64_t hash, uint64_t n) { return (hash ^ n) * UINT64_C(0x100000001b3); }
/** Adds a text to a hash; its end counts, too. */
uint64_t str_hash(uint64_t hash, struct str s);
