// The head of the file, its sections and their records.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "evidence/allocations/allocations.h"
#include "evidence/allocations/names.h"

bool allocations_begin(struct str head) { return str_starts(head, (struct str){ ALLOC_MAGIC, sizeof(ALLOC_MAGIC) - 1 }); }
bool allocations_of_job(struct str name, int64_t *ret_pid)
{
	return str_starts(name, S(ALLOC_OF_JOB)) && str_number(str_from(name, sizeof(ALLOC_OF_JOB) - 1), ret_pid);
}

enum { ROWS_MOST = 1 << 21, WORDS_MOST = 33 };

/** A section, as far as the file has it. */
struct alloc_piece {
	const char *slots;
	uint64_t n, stride;
};

/** The first that is wrong is told. A job that was killed leaves none of it: the file has its size and its sections before its version. */
__attribute__((format(printf, 2, 3))) static void alloc_damage(struct allocations *a, const char *format, ...)
{
	va_list args;
	char room[200];
	if (a->damage.n)
		return;
	va_start(args, format);
	vsnprintf(room, sizeof(room), format, args);
	va_end(args);
	a->damage = arena_str(&a->arena, str_z(room));
}

static const char *const section_names[] = {
	[ALLOC_SECTION_ROWS] = "rows",         [ALLOC_SECTION_STACKS] = "backtraces", [ALLOC_SECTION_MODULES] = "loaded files",
	[ALLOC_SECTION_FINDINGS] = "findings", [ALLOC_SECTION_BURSTS] = "bursts",     [ALLOC_SECTION_SLABS] = "slabs",
	[ALLOC_SECTION_THREADS] = "threads",   [ALLOC_SECTION_SIZES] = "sizes",	      [ALLOC_SECTION_OPERATIONS] = "operations",
};

static struct alloc_piece alloc_piece_of(struct allocations *a, enum alloc_section_kind kind, size_t stride)
{
	const char *name = section_names[kind];
	for (size_t i = 0; i < ALLOC_SECTIONS; i++) {
		struct alloc_section s;
		const size_t at = RECORDING_PAGE + i * sizeof(s);
		memcpy(&s, a->bytes + at, sizeof(s));
		if (s.kind != kind)
			continue;
		if (s.stride < stride || s.stride % 8 || s.offset % 8 || s.offset < ALLOC_HEAD || !s.slots) {
			alloc_damage(a, "damaged at byte %zu: no section of %s can be like this", at, name);
			continue;
		}
		const uint64_t room = s.offset < a->size ? (a->size - s.offset) / s.stride : 0;
		if (s.slots > room)
			alloc_damage(a, "cut off or damaged: it ends at byte %zu, before the end of its section of %s", a->size,
				     name);
		const uint64_t n = s.slots < room ? s.slots : room;
		return (struct alloc_piece){ room ? a->bytes + s.offset : NULL, n < ROWS_MOST ? n : ROWS_MOST, s.stride };
	}
	if (kind != ALLOC_SECTION_OPERATIONS) // which the first files did not have
		alloc_damage(a, "damaged at byte %d: its table has no section of %s", RECORDING_PAGE, name);
	return (struct alloc_piece){ 0 };
}

/** Whether the record at @at, of @size bytes, is whole and has this number. */
static bool alloc_whole(struct allocations *a, const char *at, size_t size, uint64_t id)
{
	uint64_t w[WORDS_MOST];
	const uint32_t check = get_u32(at + 4);
	if (!get_u64(at) && !check)
		return false;
	memcpy(w, at, size);
	const bool good = get_u32(at) == (uint32_t)id && check && rec_check(w, (unsigned)(size / 8), id) == check;
	a->torn += !good;
	return good;
}
_Static_assert(sizeof(struct alloc_module) <= WORDS_MOST * 8 && sizeof(struct alloc_row) <= WORDS_MOST * 8,
	       "records fit in the room for their check");

static int rows_by_address(const void *a, const void *b)
{
	const struct alloc_row *x = a, *y = b;
	return x->address != y->address ? (x->address < y->address ? -1 : 1) : x->born < y->born ? -1 : x->born > y->born;
}

/** The records of a section in a new list, those that are whole; @first: the number of the one in the first slot. *@ret_n of them. */
static void *take_records(struct allocations *a, enum alloc_section_kind kind, size_t size, uint64_t first, bool in_place,
			  size_t *ret_n)
{
	const struct alloc_piece p = alloc_piece_of(a, kind, size);
	char *list = arena_alloc(&a->arena, (size_t)(p.n + 1) * size);
	size_t n = 0;
	for (uint64_t i = 0; i < p.n; i++) {
		const char *at = p.slots + i * p.stride;
		const bool good = alloc_whole(a, at, size, kind == ALLOC_SECTION_BURSTS ? get_u32(at) : i + first);
		if (good)
			memcpy(list + (in_place ? (size_t)i : n) * size, at, size);
		n += good;
	}
	*ret_n = in_place ? (size_t)p.n : n;
	return list;
}

/** Records without a check. */
static void *take_plain(struct allocations *a, enum alloc_section_kind kind, size_t size, size_t *ret_n)
{
	const struct alloc_piece p = alloc_piece_of(a, kind, size);
	char *list = arena_alloc(&a->arena, (size_t)(p.n + 1) * size);
	for (uint64_t i = 0; i < p.n; i++)
		memcpy(list + i * size, p.slots + i * p.stride, size);
	*ret_n = (size_t)p.n;
	return list;
}

/** Sizes and places that no allocation has: they would be far away from all others, or go round. */
static bool row_possible(const struct alloc_row *r)
{
	const uint64_t most = UINT64_C(1) << 57;
	return r->state > ALLOC_FREE_SLOT && r->state <= ALLOC_RELEASED && r->address < most && r->size < most &&
	       r->map < most && r->map_size < most && r->before <= r->map && r->behind < most;
}

/** Bytes that were overwritten lie beside an allocation, on their side of it. */
static bool finding_possible(const struct alloc_finding *f)
{
	const int64_t most = INT64_C(1) << 57;
	if (f->begin < -most || f->end > most)
		return false;
	if (f->kind == ALLOC_FOUND_BROKEN_BELOW)
		return f->begin < f->end && f->end <= 0;
	return f->kind != ALLOC_FOUND_BROKEN_ABOVE || (f->begin < f->end && f->begin >= 0);
}

/** Findings are written once, one after the other. While the job runs, one may be half there; so may one that a kill cut short. */
static void findings_check(struct allocations *a)
{
	const struct alloc_piece p = alloc_piece_of(a, ALLOC_SECTION_FINDINGS, sizeof(*a->findings));
	const bool ended = a->header.state == ALLOC_ENDED || a->header.state == ALLOC_ASIDE;
	size_t unfinished = ended ? 1 : 0, seen = 0;
	uint64_t used = 0;
	for (uint64_t i = 0; i < p.n; i++)
		used = get_u64(p.slots + i * p.stride) ? i + 1 : used;
	for (uint64_t i = 0; i < used; i++) {
		const uint64_t at = (uint64_t)(p.slots - a->bytes) + i * p.stride;
		if (seen == a->nfindings || a->findings[seen].id != i + 1) {
			if (unfinished++)
				alloc_damage(a, "damaged at byte %llu: finding %llu is not whole", (unsigned long long)at,
					     (unsigned long long)i + 1);
			continue;
		}
		const struct alloc_finding *f = &a->findings[seen++];
		if (f->kind - 1 >= ALLOC_FOUND_REFUSED)
			alloc_damage(a, "byte %llu: finding %llu is of a kind that this unhang does not know",
				     (unsigned long long)at, (unsigned long long)i + 1);
		else if (!finding_possible(f))
			alloc_damage(a, "damaged at byte %llu: finding %llu has places that no allocation has",
				     (unsigned long long)at, (unsigned long long)i + 1);
	}
}

/** Those of which nothing right can be said are left out. */
static void findings_take(struct allocations *a)
{
	size_t n = 0;
	findings_check(a);
	for (size_t i = 0; i < a->nfindings; i++)
		if (finding_possible(&a->findings[i]))
			a->findings[n++] = a->findings[i];
	a->nfindings = n;
}

static void rows_take(struct allocations *a)
{
	size_t n = 0;
	for (size_t i = 0; i < a->nrows; i++)
		if (row_possible(&a->rows[i]))
			a->rows[n++] = a->rows[i];
	a->missing += a->nrows - n;
	a->nrows = n;
	qsort(a->rows, n, sizeof(*a->rows), rows_by_address);
}

static void upto_find(struct allocations *a)
{
	const struct alloc_header *h = &a->header;
	uint64_t upto = h->ended_ns > h->boot_ns ? h->ended_ns : h->boot_ns;
#define LATER(t) upto = (t) > upto ? (t) : upto
	for (size_t i = 0; i < a->nrows; i++) {
		LATER(a->rows[i].born);
		LATER(a->rows[i].died);
	}
	for (size_t i = 0; i < a->nfindings; i++)
		LATER(a->findings[i].time);
	for (size_t i = 0; i < a->nthreads; i++)
		LATER(a->threads[i].since);
#undef LATER
	a->upto = upto;
}

static struct str text_field(const char *text, size_t size) { return (struct str){ text, strnlen(text, size) }; }

static void alloc_header_take(struct allocations *a)
{
	struct alloc_header *h = &a->header;
	memcpy(h, a->bytes, sizeof(*h));
	a->host = text_field(h->host, sizeof(h->host));
	a->program = text_field(h->program, sizeof(h->program));
	a->boot_id = text_field(h->boot_id, sizeof(h->boot_id));
	h->match[sizeof(h->match) - 1] = 0;
	a->command = arena_str(&a->arena, (struct str){ h->command, sizeof(h->command) });
	while (a->command.n && !a->command.p[a->command.n - 1])
		a->command.n--;
	for (size_t i = 0; i < a->command.n; i++)
		if (!a->command.p[i])
			((char *)a->command.p)[i] = ' ';
}

struct uh_error *allocations_parse(const char *name, char *bytes, size_t size, struct allocations **ret)
{
	struct allocations *a = mem_alloc(sizeof(*a));
	struct uh_error *err = NULL;
	*a = (struct allocations){ .bytes = bytes, .size = size };
	const bool head = size >= ALLOC_HEAD && allocations_begin((struct str){ bytes, size });
	const uint32_t version = head ? get_u32(bytes + offsetof(struct alloc_header, version)) : 0;
	const uint32_t pid = head ? get_u32(bytes + offsetof(struct alloc_header, pid)) : 0;
	int64_t named;
	if (!head)
		err = uh_error_new("%s: no list of allocations, or one that was cut off in its first pages", name);
	else if (!version)
		err = uh_error_new("%s: its process ended before anything was allocated", name);
	else if (version != ALLOC_VERSION)
		err = uh_error_new("%s: a list of allocations of version %u; this unhang reads version %d", name, version,
				   ALLOC_VERSION);
	else if (allocations_of_job(str_base(str_z(name)), &named) && named != pid)
		err = uh_error_new("%s: it is of process %u and was copied here: not read", name, pid);
	if (err) {
		allocations_free(a);
		return err;
	}
	alloc_header_take(a);
	a->rows = take_records(a, ALLOC_SECTION_ROWS, sizeof(*a->rows), 0, false, &a->nrows);
	a->missing = a->torn + a->header.lost_rows;
	a->stacks = take_records(a, ALLOC_SECTION_STACKS, sizeof(*a->stacks), 1, true, &a->nstacks);
	a->modules = take_records(a, ALLOC_SECTION_MODULES, sizeof(*a->modules), 0, true, &a->nmodules);
	a->findings = take_records(a, ALLOC_SECTION_FINDINGS, sizeof(*a->findings), 1, false, &a->nfindings);
	a->bursts = take_records(a, ALLOC_SECTION_BURSTS, sizeof(*a->bursts), 1, false, &a->nbursts);
	a->slabs = take_records(a, ALLOC_SECTION_SLABS, sizeof(*a->slabs), 0, false, &a->nslabs);
	a->threads = take_plain(a, ALLOC_SECTION_THREADS, sizeof(*a->threads), &a->nthreads);
	a->sizes = take_plain(a, ALLOC_SECTION_SIZES, sizeof(*a->sizes), &a->nsizes);
	a->operations =
		take_records(a, ALLOC_SECTION_OPERATIONS, sizeof(*a->operations), 1, true, &a->noperations);
	findings_take(a);
	rows_take(a);
	upto_find(a);
	*ret = a;
	return NULL;
}

void allocations_free(struct allocations *a)
{
	if (!a)
		return;
	module_names_free(a->names);
	arena_free(&a->arena);
	free(a->bytes);
	free(a);
}

// --- by address ---

/** The one that counts among several: a live one; the held one that died last; the released one that died last. */
static bool counts_more(const struct alloc_row *r, const struct alloc_row *than)
{
	if (!than)
		return true;
	if (r->state != than->state)
		return r->state < than->state;
	return r->died > than->died;
}

static uint64_t alloc_apart(const struct alloc_row *r, uint64_t address)
{
	const uint64_t end = r->address + r->size;
	return address < r->address ? r->address - address : address >= end ? address - end : 0;
}

struct allocation_at allocations_find(const struct allocations *a, uint64_t address)
{
	const uint64_t page = address & ~(uint64_t)(RECORDING_PAGE - 1);
	struct allocation_at at = { .place = ALLOC_ELSEWHERE };
	const struct alloc_row *nearest = NULL;
	for (size_t i = 0; i < a->nrows; i++) {
		const struct alloc_row *r = &a->rows[i];
		int64_t first, last;
		const enum alloc_place place = alloc_place(r, page, &first, &last);
		if (!nearest || alloc_apart(r, address) < alloc_apart(nearest, address))
			nearest = r;
		if (place == ALLOC_ELSEWHERE || !counts_more(r, at.row))
			continue;
		at = (struct allocation_at){ place, r, first, last, r->state == ALLOC_RELEASED, 0 };
	}
	if (at.row || !nearest)
		return at;
	return (struct allocation_at){ .row = nearest, .distance = alloc_apart(nearest, address) };
}
