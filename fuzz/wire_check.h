// A struct that has every type of field, and what must hold of each message of its kind.
#pragma once

#include <stdlib.h>

#include "base/child/wire.h"

enum { WIRE_SMALL_MOST = 1000 };

struct wire_element {
	const char *path;
	uint32_t number;
};
struct wire_all {
	int small;
	uint64_t large;
	bool yes;
	const char *nothing, *empty;
	struct str text;
	const void *bytes;
	size_t nbytes;
	struct wire_element *elements;
	size_t n;
	struct wire_element part;
};
static const struct wire_field wire_element_fields[] = { WIRE_Z(struct wire_element, path),
							 WIRE_NUMBER(struct wire_element, number, UINT32_MAX) };
static const struct wire_kind wire_element_kind = WIRE_KIND('e', struct wire_element, wire_element_fields);
static const struct wire_field wire_all_fields[] = {
	WIRE_NUMBER(struct wire_all, small, WIRE_SMALL_MOST),
	WIRE_NUMBER(struct wire_all, large, UINT64_MAX),
	WIRE_BOOL(struct wire_all, yes),
	WIRE_Z(struct wire_all, nothing),
	WIRE_Z(struct wire_all, empty),
	WIRE_TEXT(struct wire_all, text),
	WIRE_BYTES(struct wire_all, bytes, nbytes, 1 << 20),
	WIRE_LIST(struct wire_all, elements, n, &wire_element_kind, 1 << 20),
	WIRE_PART(struct wire_all, part, &wire_element_kind),
};
static const struct wire_kind wire_all_kind = WIRE_KIND('A', struct wire_all, wire_all_fields);

static const char wire_path[] = "/a";
static struct wire_element wire_elements[] = { { wire_path, 1 }, { wire_path, 70000 }, { NULL, UINT32_MAX } };
static const struct wire_all wire_all_example = { .small = -3,
						  .large = UINT64_MAX,
						  .yes = true,
						  .empty = "",
						  .text = { "text", 4 },
						  .bytes = "\0\1",
						  .nbytes = 2,
						  .elements = wire_elements,
						  .n = 3,
						  .part = { "b", 7 } };

/** A message that is taken is sent and taken in the same way, and every byte of it is there. Returns whether it was taken. */
static inline bool wire_check(struct str message)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text sent = { 0 };
	struct wire_all all;
	size_t sum = 0;
	if (!wire_take(message, &wire_all_kind, &a, &all))
		return false;
	for (size_t i = 0; i < all.n; i++)
		sum += all.elements[i].path ? strlen(all.elements[i].path) : 0;
	for (size_t i = 0; i < all.nbytes; i++)
		sum += ((const unsigned char *)all.bytes)[i];
	wire_put(&sent, &wire_all_kind, &all);
	if (all.small > WIRE_SMALL_MOST || all.nbytes > 1 << 20 || sum == (size_t)-1)
		abort();
	struct wire_all again;
	if (!wire_take(text_str(&sent), &wire_all_kind, &a, &again) || again.n != all.n || again.large != all.large ||
	    !str_eq(again.text, all.text))
		abort();
	return true;
}
