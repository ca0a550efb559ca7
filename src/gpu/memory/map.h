// Which buffer an address is in, just past, or nowhere near.
#pragma once

#include "base/arena.h"

struct address_range {
	uint64_t begin, end;
};

enum map_relation { MAP_INSIDE, MAP_PAST, MAP_BEFORE, MAP_NULL, MAP_NOWHERE };

struct map_place {
	enum map_relation relation;
	struct address_range range; // the one that it is in or near
	uint64_t distance;          // from the begin (inside), from the end (past) or to the begin (before)
};

/** Where @address lies. @ranges are sorted by their begin and do not overlap. */
struct map_place map_locate(const struct address_range *ranges, size_t n, uint64_t address);
/** "64 bytes past the end of the 4 MiB buffer at 0x7f0000000000" */
struct str map_say(struct arena *a, const struct map_place *p);
/** "4 MiB" */
struct str map_size_say(struct arena *a, uint64_t bytes);
/** A word for machines: inside, past, before, null, nowhere. */
const char *map_relation_name(enum map_relation relation);
