// Structs on their way between processes of unhang: one table of fields says how a struct is written and how it is read back, so that both
// directions cannot differ.
//
// A message is a head (version, kind, length) and then each field of the struct in the order of its table, each with its type in front.
// Who reads believes none of it: a type that the table does not have at that place, a number that does not fit or is above the most that
// the table allows, a length beyond what is left, and bytes behind the end are all refused. So a child that lies, because what it took
// apart has taken it over, can hand over wrong values of the right form, and nothing else.
//
//	struct answer { int64_t bytes; struct str why; };
//	static const struct wire_field answer_fields[] = {
//		WIRE_NUMBER(struct answer, bytes, INT64_MAX),
//		WIRE_TEXT(struct answer, why),
//	};
//	static const struct wire_kind answer_kind = WIRE_KIND('a', struct answer, answer_fields);
#pragma once

#include <stddef.h>

#include "base/arena.h"

struct wire_kind;

enum wire_type {
	WIRE_IS_NUMBER, // of 1, 2, 4 or 8 bytes, with or without a sign; an enum; a bool
	WIRE_IS_TEXT,   // struct str
	WIRE_IS_Z,      // const char *, ended by a NUL; NULL stays NULL
	WIRE_IS_BYTES,  // const void * or char *, and their number in another field; NULL stays NULL, with its number
	WIRE_IS_LIST,   // structs that stand one behind another, and their number in another field
	WIRE_IS_PART,   // a struct inside the struct
};

struct wire_field {
	enum wire_type type;
	bool sign;
	unsigned short at, size, count_at,
		count_size;         // where it stands in the struct; and where the number of its elements does
	uint64_t most;              // the largest number, or the most elements
	const struct wire_kind *of; // of a list and of a part
};

struct wire_kind {
	uint32_t id; // two kinds that could be taken for one another have different ones
	size_t size;
	const struct wire_field *fields;
	size_t n;
};

#define WIRE_OF(T, member) __typeof__(((T *)0)->member)
#define WIRE_AT(T, member) .at = offsetof(T, member), .size = sizeof(WIRE_OF(T, member))
#define WIRE_COUNT(T, member) .count_at = offsetof(T, member), .count_size = sizeof(WIRE_OF(T, member))
/** A number of at most @largest; where it has a sign, of at least -@largest - 1. */
#define WIRE_NUMBER(T, member, largest)                                                                                        \
	{                                                                                                                      \
		.type = WIRE_IS_NUMBER, WIRE_AT(T, member), .sign = (WIRE_OF(T, member)) - 1 < (WIRE_OF(T, member))1,          \
		.most = (largest)                                                                                              \
	}
#define WIRE_BOOL(T, member) WIRE_NUMBER(T, member, 1)
#define WIRE_TEXT(T, member)                                                                                                   \
	{                                                                                                                      \
		.type = WIRE_IS_TEXT, WIRE_AT(T, member), .most = SIZE_MAX                                                     \
	}
#define WIRE_Z(T, member)                                                                                                      \
	{                                                                                                                      \
		.type = WIRE_IS_Z, WIRE_AT(T, member), .most = SIZE_MAX                                                        \
	}
#define WIRE_BYTES(T, member, count, largest)                                                                                  \
	{                                                                                                                      \
		.type = WIRE_IS_BYTES, WIRE_AT(T, member), WIRE_COUNT(T, count), .most = (largest)                             \
	}
#define WIRE_LIST(T, member, count, kind, largest)                                                                             \
	{                                                                                                                      \
		.type = WIRE_IS_LIST, WIRE_AT(T, member), WIRE_COUNT(T, count), .most = (largest), .of = (kind)                \
	}
#define WIRE_PART(T, member, kind)                                                                                             \
	{                                                                                                                      \
		.type = WIRE_IS_PART, WIRE_AT(T, member), .of = (kind)                                                         \
	}
#define WIRE_KIND(name, T, list)                                                                                               \
	{                                                                                                                      \
		.id = (name), .size = sizeof(T), .fields = (list), .n = ARRAY_SIZE(list)                                       \
	}

enum { WIRE_HEAD = 16 };

/** Writes the message behind what @to has. */
void wire_put(struct text *to, const struct wire_kind *k, const void *from);
/** Fills the struct from a message, which is all of @bytes; texts and lists are copied into @a, with a NUL behind each text. false: it is
 * no message of this kind, and what @ret has is not to be used. */
bool wire_take(struct str bytes, const struct wire_kind *k, struct arena *a, void *ret);
/** How many bytes follow a head of this kind. false: it is none. */
bool wire_length(const char head[static WIRE_HEAD], const struct wire_kind *k, uint64_t *ret);

/** A message that is one text. */
extern const struct wire_kind wire_one_text;
