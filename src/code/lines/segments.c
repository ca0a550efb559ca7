// From ranges that lie in one another to segments that lie side by side.
#include <stdlib.h>

#include "base/cleanup.h"
#include "code/lines/build.h"

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

/** Sorts by begin, which is below @limit; equal ones keep their order, outer before inner. Returns the sorted ranges. */
static struct build_range *sort_ranges(struct build_range *ranges, struct build_range *room, size_t n, uint64_t limit)
{
	_cleanup_free_ size_t *places = mem_alloc(DIGITS * sizeof(*places));
	for (unsigned shift = 0; limit >> shift; shift += DIGIT_BITS) {
		size_t place = 0;
		memset(places, 0, DIGITS * sizeof(*places));
		for (size_t i = 0; i < n; i++)
			places[ranges[i].begin >> shift & (DIGITS - 1)]++;
		for (size_t d = 0; d < DIGITS; d++) {
			size_t count = places[d];
			places[d] = place;
			place += count;
		}
		for (size_t i = 0; i < n; i++)
			room[places[ranges[i].begin >> shift & (DIGITS - 1)]++] = ranges[i];
		struct build_range *swap = ranges;
		ranges = room;
		room = swap;
	}
	return ranges;
}

static void begin_segment(struct builder *b, uint32_t at, uint32_t scope)
{
	const size_t n = b->tables[INDEX_SEGMENTS].n;
	struct index_segment *s = (struct index_segment *)b->tables[INDEX_SEGMENTS].items + n;
	if (n && s[-1].at == at)
		s--;
	else if ((n && s[-1].scope == scope) || !(s = build_add(b, INDEX_SEGMENTS)))
		return;
	*s = (struct index_segment){ at, scope };
}

/** The ranges that are open, innermost last. One that ends behind the one it is in is cut there. */
void build_segments(struct builder *b)
{
	const size_t n = b->ranges.len;
	struct build_range *other = mem_alloc(n * sizeof(*other)), *open = mem_alloc((n + 1) * sizeof(*open));
	size_t depth = 0;
	const struct build_range *sorted = sort_ranges(b->ranges.data, other, n, b->head->size);
	for (size_t i = 0; i <= n; i++) {
		struct build_range r = i < n ? sorted[i] : (struct build_range){ UINT32_MAX, UINT32_MAX, INDEX_NONE };
		while (depth && open[depth - 1].end <= r.begin) {
			depth--;
			begin_segment(b, open[depth].end, depth ? open[depth - 1].scope : INDEX_NONE);
		}
		if (depth && r.end > open[depth - 1].end)
			r.end = open[depth - 1].end;
		if (i < n) {
			begin_segment(b, r.begin, r.scope);
			open[depth++] = r;
		}
	}
	free(other);
	free(open);
}
