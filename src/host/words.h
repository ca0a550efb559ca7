// Words of a command line and of module options, as the kernel splits them.
#pragma once

#include "base/arena.h"

/** A word and where it stands. */
struct placed_word {
	struct str text;
	struct str where; // a path, with `:LINE` where it has lines
};

/** Takes the next word off @rest; quotes hold white space together. false at the end. */
bool word_next(struct str *rest, struct str *ret);
/** `name=value` without the quotes around the value or the whole. false: it has no value. */
bool word_split(struct str word, struct str *ret_name, struct str *ret_value);
/** The name as the kernel takes it: - is _. */
struct str word_plain(struct arena *a, struct str name);
