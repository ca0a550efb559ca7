// The memory around a faulting access: the buffers on both sides, those that were freed too, and which lanes went where.
#include <stdlib.h>

#include "evidence/waves/wave_code.h"
#include "report/picture/picture.h"

enum { NEAR = 2, PAGE = 4096 }; // buffers on each side

/** What is drawn. */
struct area {
	const struct dump *map;           // of the event that has it; NULL: none has
	const struct wave_access *access; // NULL: only the address is known
	uint64_t low, high;               // of the access; high is behind it
	const struct memory_row *rows;    // near it
	size_t n;
};

static const struct dump *find_map(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (i->events.data[n]->dump.nmap)
			return &i->events.data[n]->dump;
	return NULL;
}

static bool first_address(const struct incident *i, uint64_t *ret)
{
	static const char *const names[] = { "effective_address", "fault_address" };
	for (size_t k = 0; k < ARRAY_SIZE(names); k++)
		for (size_t n = 0; n < i->events.len; n++)
			if (str_hex(diag_value(i->events.data[n], names[k]), ret))
				return true;
	return false;
}

static bool spans(const struct wave_access *x, uint64_t address, struct area *a)
{
	bool hit = false;
	a->low = UINT64_MAX;
	a->high = 0;
	for (unsigned lane = 0; lane < WAVE_LANES; lane++) {
		const uint64_t at = x->addresses[lane];
		if (at == UINT64_MAX)
			continue;
		hit |= at / PAGE == address / PAGE;
		a->low = at < a->low ? at : a->low;
		a->high = at >= a->high ? at + 4 : a->high;
	}
	return hit;
}

/** The access whose lanes have the address. */
static void find_access(const struct incident *i, uint64_t address, struct area *a)
{
	for (size_t n = 0; n < i->events.len; n++) {
		const struct dump *d = &i->events.data[n]->dump;
		for (size_t k = 0; k < d->naccesses; k++) {
			a->access = &d->accesses[k];
			if (d->accesses[k].trust != ACCESS_LDS && spans(a->access, address, a))
				return;
		}
	}
	a->access = NULL;
	a->low = address;
	a->high = address + 1;
}

static struct str size_of(struct picture *p, uint64_t begin, uint64_t end) { return map_size_say(&p->arena, end - begin); }

static void picture_addresses_add_row(struct picture *p, const char *what, uint64_t begin, uint64_t end)
{
	char room[24], to[24];
	picture_cells(p, str_z(what), code_text(begin, room), code_text(end, to), size_of(p, begin, end));
}

/** Lanes that lie outside of all memory. */
static uint64_t outside(const struct area *a)
{
	uint64_t mask = 0;
	for (unsigned lane = 0; a->access && a->map && lane < WAVE_LANES; lane++)
		if (a->access->addresses[lane] != UINT64_MAX &&
		    map_locate(a->map->map, a->map->nmap, a->access->addresses[lane]).relation != MAP_INSIDE)
			mask |= 1ull << lane;
	return mask;
}

static void add_lanes(struct picture *p, const struct area *a)
{
	char room[24];
	for (unsigned lane = 0; a->access && a->map && lane < WAVE_LANES; lane++) {
		const uint64_t at = a->access->addresses[lane];
		if (at == UINT64_MAX)
			continue;
		const struct map_place place = map_locate(a->map->map, a->map->nmap, at);
		picture_cells(p, arena_printf(&p->arena, "lane %u", lane), code_text(at, room), S(""),
			      map_say(&p->arena, &place));
	}
}

/** Buffers to scale, with the gaps between them folded: a fault may be terabytes away from the nearest one. */
static void draw(struct picture *p, const struct area *a)
{
	const struct memory_row *ranges = a->rows;
	const size_t n = a->n;
	_cleanup_(scale_free) struct scale s = { 0 };
	_cleanup_free_ struct scale_span *spans_of = mem_alloc((n + 1) * sizeof(*spans_of));
	const double high = (double)a->high;
	char room[24];
	for (size_t i = 0; i < n; i++) {
		spans_of[i] = (struct scale_span){ (double)ranges[i].begin, (double)ranges[i].end };
		scale_add(&s, spans_of[i].begin);
		scale_add(&s, spans_of[i].end);
	}
	spans_of[n] = (struct scale_span){ (double)a->low, high };
	scale_add(&s, (double)a->low);
	scale_add(&s, high);
	scale_ready(&s, spans_of, n + 1, p);
	picture_track(p, S("memory"));
	picture_track(p, S("access"));
	for (size_t i = 0; i + 1 < n; i++)
		if (ranges[i].end < ranges[i + 1].begin)
			picture_mark(p,
				     (struct picture_mark){ 0, scale_at(&s, spans_of[i].end),
							    scale_at(&s, spans_of[i + 1].begin), LOOK_QUIET, S("not mapped") });
	for (size_t i = 0; i < n; i++)
		picture_mark(p, (struct picture_mark){ 0, scale_at(&s, spans_of[i].begin), scale_at(&s, spans_of[i].end),
						       ranges[i].freed ? LOOK_EFFECT : LOOK_GOOD,
						       size_of(p, ranges[i].begin, ranges[i].end) });
	const uint64_t mask = outside(a);
	const struct str lanes =
		mask ? arena_printf(&p->arena, "lanes " STR_FMT, STR_ARG(lanes_say(&p->arena, mask))) : S("the access");
	picture_mark(p, (struct picture_mark){ 1, scale_at(&s, (double)a->low), scale_at(&s, high), LOOK_BAD, lanes });
	picture_tick(p, scale_at(&s, (double)a->low), code_text(a->low, room)); // the first ones have the room
	for (size_t i = 0; i < n; i++)
		picture_tick(p, scale_at(&s, spans_of[i].begin), code_text(ranges[i].begin, room));
}

/** Where the access is, in words. */
static struct str picture_addresses_place_of(const struct incident *i, const struct area *a, struct picture *p)
{
	static const char *const names[] = { "use_after_free", "fault_place" };
	for (size_t k = 0; k < ARRAY_SIZE(names); k++)
		for (size_t n = 0; n < i->events.len; n++)
			if (diag_fact(i->events.data[n], names[k]))
				return diag_value(i->events.data[n], names[k]);
	const struct map_place place = map_locate(a->map ? a->map->map : NULL, a->map ? a->map->nmap : 0, a->low);
	return map_say(&p->arena, &place);
}

bool picture_of_addresses(const struct diagnosis *d, const struct incident *i, struct picture *p)
{
	struct area a = { .map = find_map(i) };
	uint64_t address;
	(void)d;
	if (!first_address(i, &address))
		return false;
	find_access(i, address, &a);
	// Of a recording, which knows what was freed.
	for (size_t n = 0; n < i->events.len && !a.n; n++) {
		uint64_t at;
		const struct diag_event *e = i->events.data[n];
		if (e->dump.nmemory && str_hex(diag_value(e, "fault_address"), &at) && at == address) {
			a.rows = e->dump.memory;
			a.n = e->dump.nmemory;
		}
	}
	if (!a.n && a.map) {
		// The buffers next to the access.
		size_t first = 0, last;
		while (first < a.map->nmap && a.map->map[first].end <= a.low)
			first++;
		last = first;
		while (last < a.map->nmap && a.map->map[last].begin < a.high)
			last++;
		first = first > NEAR ? first - NEAR : 0;
		last = last + NEAR < a.map->nmap ? last + NEAR : a.map->nmap;
		struct memory_row *rows = arena_alloc(&p->arena, (last - first) * sizeof(*rows) + 1);
		for (size_t n = first; n < last; n++)
			rows[n - first] = (struct memory_row){ a.map->map[n].begin, a.map->map[n].end, false };
		a.rows = rows;
		a.n = last - first;
	}
	if (!a.n)
		return false;
	p->looks[LOOK_BAD] = "accessed";
	picture_heads(p, "What", "From", "To", "Size or place");
	draw(p, &a);
	for (size_t k = 0; k < a.n; k++) {
		p->looks[a.rows[k].freed ? LOOK_EFFECT : LOOK_GOOD] = a.rows[k].freed ? "freed" : "memory that exists";
		picture_addresses_add_row(p, a.rows[k].freed ? "freed buffer" : "buffer", a.rows[k].begin, a.rows[k].end);
	}
	p->looks[LOOK_QUIET] = a.n > 1 ? "not mapped" : NULL;
	picture_addresses_add_row(p, "access", a.low, a.high);
	add_lanes(p, &a);
	const struct str place = picture_addresses_place_of(i, &a, p);
	p->says = arena_printf(&p->arena, "The access at 0x%llx is " STR_FMT, (unsigned long long)a.low, STR_ARG(place));
	return true;
}
