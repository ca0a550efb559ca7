// Printing. Evidence may hold anything; a terminal gets only what is safe to show.
#pragma once

#include <stdio.h>

#include "base/arena.h"

/** Length of the UTF-8 sequence at the front of @s, or 0 where there is none. */
size_t utf8_length(struct str s);
/** The character of the sequence @s, whose length is what utf8_length() returned. */
uint32_t utf8_point(struct str s);
/** Whether the character is visible: no control (C0, DEL, C1), no mark of direction, nothing that only changes how others look. */
bool point_shows(uint32_t point);
/** Writes the visible characters of @s. Bytes that are not UTF-8 are left out. */
void print_safe(FILE *out, struct str s);
/** The same into a text. */
void text_add_safe(struct text *to, struct str s);
/** A line of an answer: KEY and a value, which has to stay in one line. Nothing, where there is no value. */
void print_line(FILE *out, const char *key, struct str value);
/** What unhang says to people besides its answer: a line `unhang: ...` on standard error. Names in it may be a stranger's. */
void print_said(const char *message);
/** For those to whom messages go that nobody is to see. */
void tell_nobody(void *ctx, const char *message);
/** Whether print_safe() would write all of it. */
bool print_is_safe(struct str s);
/** How many bytes at the front of @s are printable ASCII. */
size_t print_plain(struct str s);
/** Columns that @s takes: characters, not bytes. */
size_t print_columns(struct str s);
/** Takes a word off @s, and the paths behind it, which stay on one line. If a step of several lines is pasted, a line that begins with a
 * path would be run as a command. */
struct str print_unit(struct str *s);
/** Writes @s wrapped to @width, then a newline. The first line begins at @column, the others after @indent spaces. A word that does not
 * fit behind the indent begins further left. */
void print_wrapped(FILE *out, struct str s, size_t indent, size_t column, size_t width);
/** How many lines that would be. */
size_t print_lines(struct str s, size_t indent, size_t column, size_t width);
/** Room for a text: so many lines as print_wrapped() makes, with so many columns for what stands @behind it. */
struct print_room {
	size_t indent, column, width, lines, behind;
	size_t kept; // bytes at the front that say nothing alone: a condition
	bool advice; // what stands behind a colon is what helps
};
/** As much of the front of @s as fits; where that ends within a clause, *@ret_torn, and there is room for ` ...`. */
struct str print_clip(struct str s, const struct print_room *room, bool *ret_torn);
/** Writes @s as it is. */
void print_str(FILE *out, struct str s);

/** Flushes @out. false: something that was written to it was lost (a full disk, say). */
bool print_arrived(FILE *out);

enum { NUMBER_DIGITS = 20 };

/** The digits of @v in base 10 or 16, without 0x. They lie in @room. */
struct str number_digits(char room[static NUMBER_DIGITS], uint64_t v, unsigned base);
void print_number(FILE *out, uint64_t v, unsigned base);
