// A struct as lines of text, `key value` each: incidents and runs on the disk. What is written is read back the same, whatever its texts hold.
#pragma once

#include <stddef.h>

#include "base/arena.h"

struct record_key {
	const char *key; // NULL behind the last
	size_t offset;   // of a struct str, or of an int64_t
	bool number;
};

#define RECORD_TEXT(type, name)                                                                                                \
	{                                                                                                                      \
#name, offsetof(struct type, name), false                                                                      \
	}
#define RECORD_NUMBER(type, name)                                                                                              \
	{                                                                                                                      \
#name, offsetof(struct type, name), true                                                                       \
	}

/** Texts that are empty are left out. A value has one line: what does not show becomes a space or a question mark. */
void record_text(const void *object, const struct record_key *keys, struct text *to);
/** Fills in what @text has; other members, and lines with other keys, are left alone. */
void record_take(struct str text, struct arena *a, void *object, const struct record_key *keys);
