// MessagePack, value by value. Positions are those in the file, so that an error can name them.
#pragma once

#include "base/str.h"

enum msgpack_kind {
	MSGPACK_NIL,
	MSGPACK_BOOL,
	MSGPACK_UNSIGNED,
	MSGPACK_NEGATIVE,
	MSGPACK_TEXT,
	MSGPACK_ARRAY,
	MSGPACK_MAP,
	MSGPACK_OTHER
};

struct msgpack_value {
	enum msgpack_kind kind;
	uint64_t number; // the number or bool; how many values an array has, how many pairs a map
	struct str text;
};

struct msgpack {
	struct str file; // up to where the data ends
	size_t at;
};

/** Takes the next value; of an array or map only the head. false: it is cut off, or not MessagePack; then @m does not move. */
bool msgpack_next(struct msgpack *m, struct msgpack_value *ret);
/** Goes past @count whole values, with all that they hold. */
bool msgpack_skip(struct msgpack *m, uint64_t count);
