#include "gpu/memory/pages.h"

#include <errno.h>
#include <stdlib.h>

#include "source/tape/tape.h"

enum {
	PAGE = 4096,
	AHEAD = 16,        // pages that are read at once
	KEPT_MOST = 16384, // pages
	SLOTS = 2 * KEPT_MOST,
	LARGE = AHEAD * PAGE, // reads of this size or more are not kept
};

struct page {
	uint64_t address;
	const char *bytes; // NULL: it cannot be read
};

static struct probe look(struct pages *p, struct arena *a, uint64_t address, size_t size)
{
	struct probe ask = { .kind = PROBE_READ, .path = p->mem, .offset = address, .size = size, .contents = true };
	p->run(p->ctx, a, &ask);
	p->refused |= ask.end == PROBE_FORBIDDEN || (ask.end == PROBE_FAILED && (ask.error == EACCES || ask.error == EPERM));
	return ask;
}

static bool read_fresh(struct pages *p, uint64_t address, void *to, size_t size)
{
	struct arena a = { 0 };
	struct probe ask = look(p, &a, address, size);
	bool whole = ask.end == PROBE_GOOD && ask.n == size;
	if (whole)
		memcpy(to, ask.data, size);
	arena_free(&a);
	return whole;
}

static struct page *slot_of(struct pages *p, uint64_t address)
{
	size_t i = (size_t)(address / PAGE * UINT64_C(0x9e3779b97f4a7c15) >> 40) % SLOTS;
	while (p->slots[i].address != address && p->slots[i].address != UINT64_MAX)
		i = (i + 1) % SLOTS;
	return &p->slots[i];
}

static void keep(struct pages *p, uint64_t address, struct str bytes)
{
	struct page *slot = slot_of(p, address);
	if (slot->address == address || p->n == KEPT_MOST)
		return;
	*slot = (struct page){ address, bytes.n == PAGE ? arena_str(&p->arena, bytes).p : NULL };
	p->n++;
}

/** The page at an address; those behind it are read with it. NULL where no more are kept. */
static const struct page *page_at(struct pages *p, uint64_t address)
{
	struct arena a = { 0 };
	struct page *slot = slot_of(p, address);
	if (slot->address == address)
		return slot;
	struct probe ask = look(p, &a, address, LARGE);
	size_t got = ask.end == PROBE_GOOD ? ask.n : 0;
	keep(p, address, (struct str){ ask.data, got < PAGE ? 0 : PAGE });
	for (size_t at = PAGE; at + PAGE <= got; at += PAGE)
		keep(p, address + at, (struct str){ ask.data + at, PAGE });
	arena_free(&a);
	slot = slot_of(p, address);
	return slot->address == address ? slot : NULL;
}

static void make_slots(struct pages *p)
{
	p->slots = mem_alloc(SLOTS * sizeof(*p->slots));
	for (size_t i = 0; i < SLOTS; i++)
		p->slots[i].address = UINT64_MAX;
}

static bool read_pages(struct pages *p, uint64_t address, void *to, size_t size)
{
	char *out = to;
	if (size > UINT64_MAX - address || address >= UINT64_MAX - 2 * LARGE)
		return false;
	if (size >= LARGE)
		return read_fresh(p, address, to, size);
	if (!p->slots)
		make_slots(p);
	while (size) {
		uint64_t in = address % PAGE, n = PAGE - in < size ? PAGE - in : size;
		const struct page *page = page_at(p, address - in);
		if (!page)
			return read_fresh(p, address, out, size);
		if (!page->bytes)
			return false;
		memcpy(out, page->bytes + in, n);
		out += n;
		address += n;
		size -= n;
	}
	return true;
}

/** Pages hold more than was asked for: a tape gets what was wanted of them. */
bool pages_read(struct pages *p, uint64_t address, void *to, size_t size, bool contents)
{
	if (tape_plays(p->tape) && tape_memory(p->tape, p->mem, address, to, size))
		return true;
	bool read = read_pages(p, address, to, size);
	if (read && !contents && tape_records(p->tape))
		tape_keep_memory(p->tape, p->mem, address, (struct str){ to, size });
	return read;
}

void pages_free(struct pages *p)
{
	arena_free(&p->arena);
	free(p->slots);
}
