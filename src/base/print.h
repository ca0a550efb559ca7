// Evidence may hold anything; a terminal is only given what prints.
#pragma once

#include <stdio.h>

#include "base/arena.h"

/** Length of the UTF-8 sequence at the front of @s, or 0 where there is none. */
size_t utf8_length(struct str s);
/** The character that the sequence @s is, of a length that utf8_length() gave. */
uint32_t utf8_point(struct str s);
/** Whether it is something to see: no control (C0, DEL, C1), no mark of direction, nothing else that only changes how others look. */
bool point_shows(uint32_t point);
/** Writes @s without what does not show, and without bytes that are no UTF-8. */
void print_safe(FILE *out, struct str s);
/** The same into a text. */
void text_add_safe(struct text *to, struct str s);
/** Whether print_safe() would write it as it is. */
bool print_is_safe(struct str s);
/** How many bytes at the front of @s are ASCII that prints. */
size_t print_plain(struct str s);
/** Columns that @s takes: characters, not bytes. */
size_t print_columns(struct str s);
/** Writes @s over as many lines as it takes, each but the first after @indent spaces, and a newline. @column: where it begins. A
 * word that does not fit behind the indent begins further left. */
void print_wrapped(FILE *out, struct str s, size_t indent, size_t column, size_t width);
/** How many lines that would be. */
size_t print_lines(struct str s, size_t indent, size_t column, size_t width);
/** Room for a text: so many lines as print_wrapped() makes, with so many columns for what stands @behind it. */
struct print_room {
	size_t indent, column, width, lines, behind;
};
/** As much of the front of @s as fits; where that ends within a clause, *@ret_torn, and there is room for ` ...`. */
struct str print_clip(struct str s, const struct print_room *room, bool *ret_torn);
/** Writes @s as it is. */
void print_str(FILE *out, struct str s);

/** Whether all that was written to @out so far has arrived where it goes. */
bool print_arrived(FILE *out);

enum { NUMBER_DIGITS = 20 };

/** In base 10 or 16, without 0x; the digits lie in @room. */
struct str number_digits(char room[static NUMBER_DIGITS], uint64_t v, unsigned base);
void print_number(FILE *out, uint64_t v, unsigned base);
