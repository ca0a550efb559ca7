// Evidence may hold anything; a terminal is only given what prints.
#pragma once

#include <stdio.h>

#include "base/str.h"

/** Length of the UTF-8 sequence at the front of @s, or 0 where there is none. */
size_t utf8_length(struct str s);
/** Writes @s without control characters (C0, DEL, C1) and without bytes that are no UTF-8. */
void print_safe(FILE *out, struct str s);
