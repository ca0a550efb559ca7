// Says of an address which buffer it is in, or which one it misses: an overrun is mostly a little past the end of what was meant.
#include "gpu/memory/map.h"

enum {
	NULL_BYTES = 64 << 10,
	NEAR_LEAST = 2 << 20, // an overrun may jump over a page or a row
	BEFORE_MOST = 1 << 20,
};

struct map_place map_locate(const struct address_range *ranges, size_t n, uint64_t address)
{
	struct map_place p = { .relation = address < NULL_BYTES ? MAP_NULL : MAP_NOWHERE };
	const size_t at = sorted_upto(ranges, n, begin, address);
	const struct address_range *before = at ? &ranges[at - 1] : NULL, *behind = at < n ? &ranges[at] : NULL;
	if (before && address < before->end)
		return (struct map_place){ MAP_INSIDE, *before, address - before->begin };
	if (p.relation == MAP_NULL)
		return p;
	// Behind a large buffer a larger distance is still its overrun.
	const uint64_t size = before ? before->end - before->begin : 0;
	if (before && address - before->end < (size > NEAR_LEAST ? size : NEAR_LEAST))
		p = (struct map_place){ MAP_PAST, *before, address - before->end };
	if (behind && behind->begin - address <= BEFORE_MOST &&
	    (p.relation != MAP_PAST || behind->begin - address < p.distance))
		p = (struct map_place){ MAP_BEFORE, *behind, behind->begin - address };
	return p;
}

struct str map_size_say(struct arena *a, uint64_t bytes)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	unsigned unit = 0;
	while (bytes >= 1024 && bytes % 1024 == 0 && unit < 4) {
		bytes /= 1024;
		unit++;
	}
	return arena_printf(a, "%llu %s", (unsigned long long)bytes, bytes == 1 && !unit ? "byte" : units[unit]);
}

struct str map_say(struct arena *a, const struct map_place *p)
{
	unsigned long long begin = p->range.begin;
	struct str size = map_size_say(a, p->range.end - p->range.begin), distance = map_size_say(a, p->distance);
	struct str buffer = arena_printf(a, "the " STR_FMT " buffer at 0x%llx", STR_ARG(size), begin);
	switch (p->relation) {
	case MAP_INSIDE:
		return p->distance ? arena_printf(a, "inside " STR_FMT ", " STR_FMT " from its begin", STR_ARG(buffer),
						  STR_ARG(distance)) :
				     arena_printf(a, "at the beginning of " STR_FMT, STR_ARG(buffer));
	case MAP_PAST:
		return p->distance ? arena_printf(a, STR_FMT " past the end of " STR_FMT, STR_ARG(distance), STR_ARG(buffer)) :
				     arena_printf(a, "right after the end of " STR_FMT, STR_ARG(buffer));
	case MAP_BEFORE:
		return arena_printf(a, STR_FMT " before the beginning of " STR_FMT, STR_ARG(distance), STR_ARG(buffer));
	case MAP_NULL:
		return S("close to zero: a null pointer with a small offset");
	case MAP_NOWHERE:
		break;
	}
	return S("nowhere near any buffer");
}

const char *map_relation_name(enum map_relation relation)
{
	static const char *const names[] = { "inside", "past", "before", "null", "nowhere" };
	return names[relation];
}
