// A streaming JSON writer. It takes care of commas and indentation; the caller opens and closes brackets in pairs.
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/command.h"

struct json {
	FILE *out;
	unsigned depth;
	bool comma, after_key;
	bool one_line;
};

void jw_open(struct json *j, char bracket); // '{' or '['
void jw_close(struct json *j, char bracket);
void jw_key(struct json *j, const char *key);
/** A string; bytes that are not UTF-8 become U+FFFD. NULL text is null. */
void jw_str(struct json *j, struct str s);
/** A key and its string. */
void jw_field(struct json *j, const char *key, struct str value);
/** The same for a list of commands. NULL is null. */
void jw_commands(struct json *j, const char *key, const struct command *const *list, size_t n);
void jw_int(struct json *j, int64_t v);
void jw_unsigned(struct json *j, uint64_t v);
/** An address, a register, a code: "0x..." */
void jw_hex(struct json *j, uint64_t v);
void jw_bool(struct json *j, bool v);
void jw_null(struct json *j);
/** A whole document as a value, as it is. Who hands it over answers for it. */
void jw_document(struct json *j, struct str json);
/** At most @digits digits after the point. */
void jw_decimal(struct json *j, double v, int digits);
