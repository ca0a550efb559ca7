// A struct as lines of text, `key value` each: incidents and runs on the disk. What is written is read back the same, whatever its texts hold.
#pragma once

#include <stddef.h>

#include "base/arena.h"
#include "base/json.h"

/** One member. What it is called in the file is its name in the struct. */
struct record_key {
	const char *key; // NULL behind the last
	size_t offset;   // of a struct str, of an int64_t, or of an enum
	bool number;
	const char *const *words; // of an enum: by its values, NULL behind the last; an empty word is not written
};

#define RECORD_TEXT(type, name)                                                                                                \
	{                                                                                                                      \
#name, offsetof(struct type, name), false                                                                      \
	}
#define RECORD_NUMBER(type, name)                                                                                              \
	{                                                                                                                      \
#name, offsetof(struct type, name), true                                                                       \
	}
#define RECORD_WORD(type, name, list)                                                                                          \
	{                                                                                                                      \
#name, offsetof(struct type, name), false, list                                                                \
	}

/** Texts that are empty are left out. A value has one line: what does not show becomes a space or a question mark. */
void record_text(const void *object, const struct record_key *keys, struct text *to);
/** Fills in what @text has; other members, and lines with other keys, are left alone. A word that is not in the list, as a newer unhang may
 * write it, becomes the number behind the last of the list: that something is said there is known. */
void record_take(struct str text, struct arena *a, void *object, const struct record_key *keys);
/** The same as an object of JSON: texts that are empty are null. */
void record_json(const void *object, const struct record_key *keys, struct json *j);
