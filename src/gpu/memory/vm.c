// Page tables of the GPU, as text of knowledge describes them and as a walk goes down them; and the memory that a VMID sees, as a target.
//
// The walk reads nothing itself: it says which entry it wants, so that silicon/memory.c can take many walks one level down with one child,
// and so that the emulator and the fuzzer can walk tables of their own.
#include "gpu/memory/vm.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	PAGE_BITS = 12,
	TABLE_BITS = 9, // of an address, for each directory
	DEPTH_MOST = 3,
	BLOCK_MOST = 15,
};
static const uint64_t page_address = UINT64_C(0x0000fffffffff000), table_address = UINT64_C(0x0000ffffffffffc0);

static const char contradictory[] = "its page tables contradict themselves";

// --- what is known ---

uint64_t vm_bits_get(struct vm_bits b, uint64_t entry) { return b.n ? entry >> b.low & (UINT64_MAX >> (64 - b.n)) : 0; }
uint64_t vm_bits_put(struct vm_bits b, uint64_t number) { return b.n ? (number & (UINT64_MAX >> (64 - b.n))) << b.low : 0; }

static const struct know_page_table *vm_page_table_of_part(const struct know *k, struct str gfx)
{
	return list_find_of(k->page_tables.data, k->page_tables.len, it, patterns_fit(it->parts, gfx));
}

static bool read_bits(struct str text, struct vm_bits *ret)
{
	int64_t high, low;
	struct str first = str_trim(str_split(&text, ':'));
	if (!str_number(first, &high) || !str_number(text.n ? str_trim(text) : first, &low) || low < 0 || high > 63 ||
	    low > high)
		return false;
	*ret = (struct vm_bits){ (unsigned)low, (unsigned)(high - low + 1) };
	return true;
}

bool vm_format_of(const struct know *k, struct str gfx, struct vm_format *ret)
{
	const struct know_page_table *block = vm_page_table_of_part(k, gfx);
	const struct {
		const char *name;
		struct vm_bits *bits;
	} rows[] = { { "valid", &ret->valid },     { "system", &ret->system },     { "leaf", &ret->leaf },
		     { "further", &ret->further }, { "unbacked", &ret->unbacked }, { "block", &ret->block } };
	*ret = (struct vm_format){ .guests_from_zero = block && block->guests_from_zero };
	for (const struct know_pair *p = block ? block->bits : NULL; p; p = p->next)
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
			if (str_is(p->name, rows[i].name) && !read_bits(p->value, rows[i].bits))
				return false;
	return ret->valid.n && ret->system.n && ret->leaf.n && ret->block.n && ret->block.n <= 6;
}

size_t vm_page_bits(const struct know *k, struct str gfx, struct vm_named_bits *ret, size_t most)
{
	const struct know_page_table *block = vm_page_table_of_part(k, gfx);
	size_t n = 0;
	for (const struct know_pair *p = block ? block->page : NULL; p && n < most; p = p->next)
		if (read_bits(p->value, &ret[n].bits))
			ret[n++].name = p->name;
	return n;
}

bool vm_pasid_register(const struct know *k, struct str gfx, unsigned vmid, char *ret, size_t size)
{
	const struct know_page_table *block = vm_page_table_of_part(k, gfx);
	struct str rest = block ? block->pasid : (struct str){ 0 }, before = str_split(&rest, '*');
	snprintf(ret, size, STR_FMT "%u" STR_FMT, STR_ARG(before), vmid, STR_ARG(rest));
	return before.n;
}

/** How many numbers are in `comp_1.0.0`, and the first of them. */
static unsigned numbers_of(struct str ring, unsigned *ret_first)
{
	unsigned n = 0;
	size_t at = 0;
	*ret_first = 0;
	while (at < ring.n && !char_digit(ring.p[at]))
		at++;
	for (struct str rest = str_from(ring, at); rest.n; n++) {
		int64_t v;
		if (str_number(str_split(&rest, '.'), &v) && !n && v >= 0 && v < 64)
			*ret_first = (unsigned)v;
	}
	return n;
}

void vm_hub_of(const struct know *k, struct str gfx, struct str ring, enum hub *ret, unsigned *ret_instance)
{
	const struct know_page_table *block = vm_page_table_of_part(k, gfx);
	unsigned first, n = numbers_of(ring, &first);
	*ret = block && patterns_fit(block->mmhub, ring) ? HUB_MM : HUB_GFX;
	// comp_XCC.ME.PIPE.QUEUE, kiq_XCC.ME.PIPE.QUEUE; sdmaDIE.ENGINE
	const bool of_xcc = *ret == HUB_GFX && n == 4, of_die = *ret == HUB_MM && n == 2 && str_starts(ring, S("sdma"));
	*ret_instance = of_xcc || of_die ? first : 0;
	if (block && *ret == HUB_MM && patterns_fit(block->second_mmhub, ring))
		*ret_instance = 1;
}

// --- walking ---

static void give_up(struct vm_walk *w, const char *why)
{
	w->state = VM_NONE;
	w->why_not = why;
}

/** Where a physical address is that an entry has. */
static void vm_go_to(struct vm_walk *w, enum vm_state state, bool system, uint64_t physical)
{
	const struct vm_space *s = w->space;
	w->state = state;
	w->at = (struct vm_place){ system, physical };
	w->physical = physical;
	if (system)
		return;
	if (physical < s->vram || physical - s->vram >= s->vram_size) {
		w->elsewhere = state == VM_FOUND;
		give_up(w, "it is in the memory of another GPU, or nowhere");
		return;
	}
	w->at.address = physical - s->vram;
}

/** To an entry of the table that @entry points to, whose entries cover 2^@shift bytes each, all of them 2^@all. */
static void walk_wants(struct vm_walk *w, uint64_t entry, unsigned shift, unsigned all)
{
	uint64_t offset = all < 64 ? w->address & ((UINT64_C(1) << all) - 1) : w->address;
	w->shift = shift;
	if (w->read == VM_LEVELS)
		give_up(w, contradictory);
	else
		vm_go_to(w, VM_WANTS_ENTRY, vm_bits_get(w->space->format.system, entry),
			 (entry & table_address) + (offset >> shift) * VM_ENTRY);
}

/** To the table behind an entry at level @w->level: a directory, or the last table. */
static void walk_down(struct vm_walk *w, uint64_t entry)
{
	const struct vm_space *s = w->space;
	const unsigned covers = PAGE_BITS + TABLE_BITS + s->block; // by the last table
	const unsigned shift =
		w->level ? covers + TABLE_BITS * (w->level - 1) : PAGE_BITS + (unsigned)vm_bits_get(s->format.block, entry);
	if (!w->level && shift > covers)
		give_up(w, contradictory);
	else
		walk_wants(w, entry, shift, w->level == s->depth ? 64 : w->level ? shift + TABLE_BITS : covers);
}

static bool vm_inside(uint64_t first, uint64_t last, uint64_t address) { return address >= first && address <= last; }

void vm_walk_begin(struct vm_walk *w, const struct vm_space *s, uint64_t address)
{
	*w = (struct vm_walk){ .space = s, .address = address - s->first, .level = s->depth };
	if (s->kernel && vm_inside(s->fb_first, s->fb_last, address))
		vm_go_to(w, VM_FOUND, false, address - s->fb_vram + s->vram);
	else if (s->kernel && vm_inside(s->agp_first, s->agp_last, address))
		vm_go_to(w, VM_FOUND, true, address - s->agp_first + s->agp_base);
	else if (!s->enabled || !vm_bits_get(s->format.valid, s->root))
		give_up(w, "its VMID has no page tables now");
	else if (!vm_inside(s->first, s->last, address))
		give_up(w, "it is outside the range that its VMID can address");
	else if (s->depth > DEPTH_MOST || s->block > BLOCK_MOST)
		give_up(w, contradictory);
	else
		walk_down(w, s->root);
}

void vm_walk_on(struct vm_walk *w, uint64_t entry)
{
	const struct vm_format *f = &w->space->format;
	w->steps[w->read++] = (struct vm_step){ w->at, entry, w->level, w->shift };
	if (!vm_bits_get(f->valid, entry) || vm_bits_get(f->unbacked, entry)) {
		give_up(w, "nothing is mapped there");
		return;
	}
	if (w->level && !vm_bits_get(f->leaf, entry)) {
		w->level--;
		walk_down(w, entry);
		return;
	}
	const bool further = f->further.n ? vm_bits_get(f->further, entry) : !vm_bits_get(f->leaf, entry);
	const unsigned covers = w->shift, shift = PAGE_BITS + (unsigned)vm_bits_get(f->block, entry);
	if (!w->level && further && (f->further.n || covers > PAGE_BITS)) {
		// Each goes to a table of smaller pages.
		if (shift < covers)
			walk_wants(w, entry, shift, covers);
		else
			give_up(w, contradictory);
		return;
	}
	vm_go_to(w, VM_FOUND, vm_bits_get(f->system, entry),
		 (entry & page_address) + (w->address & ((UINT64_C(1) << covers) - 1)));
}

// The memory that a VMID of a live GPU sees, as a target of its own: for code that is looked for where a wave runs. Pages are kept, and
// read many at once, because each look down the page tables costs several children.

enum {
	BLOCK_PAGES = 64,
	BLOCK = BLOCK_PAGES * VM_PAGE,
	BLOCKS_MOST = 64, // 16 MiB
};

struct vm_block {
	uint64_t address; // a multiple of BLOCK
	bool there[BLOCK_PAGES];
	char *bytes;
};

struct vm_target {
	struct target target;
	struct target *gpu;
	enum hub hub;
	unsigned instance, vmid;
	VEC(struct vm_block) blocks;
};

static const struct vm_block *vm_block_of(struct vm_target *t, uint64_t address)
{
	const uint64_t begin = address & ~(uint64_t)(BLOCK - 1);
	struct vm_block b = { .address = begin };
	struct request pages[BLOCK_PAGES];
	const struct vm_block *known = list_find(t->blocks.data, t->blocks.len, it, it->address == begin);
	if (known || t->blocks.len == BLOCKS_MOST)
		return known;
	b.bytes = mem_alloc(BLOCK);
	for (size_t i = 0; i < BLOCK_PAGES; i++)
		pages[i] = (struct request){ .kind = REQUEST_MEMORY,
					     .address = begin + i * VM_PAGE,
					     .size = VM_PAGE,
					     .to = b.bytes + i * VM_PAGE,
					     .hub = t->hub,
					     .hub_instance = t->instance,
					     .vmid = t->vmid };
	t->gpu->ask(t->gpu, pages, BLOCK_PAGES);
	for (size_t i = 0; i < BLOCK_PAGES; i++)
		b.there[i] = pages[i].answer == ANSWER_GIVEN;
	vec_push(&t->blocks, b);
	return &t->blocks.data[t->blocks.len - 1];
}

static enum answer vm_read(struct vm_target *t, const struct request *r)
{
	if (r->size > BLOCKS_MOST * (size_t)BLOCK || r->address > UINT64_MAX - r->size - BLOCK)
		return ANSWER_ABSENT;
	for (size_t done = 0; done < r->size;) {
		const uint64_t address = r->address + done, at = address % BLOCK;
		const size_t left = VM_PAGE - address % VM_PAGE, n = left < r->size - done ? left : r->size - done;
		const struct vm_block *b = vm_block_of(t, address);
		if (!b || !b->there[at / VM_PAGE])
			return ANSWER_ABSENT;
		memcpy((char *)r->to + done, b->bytes + at, n);
		done += n;
	}
	return ANSWER_GIVEN;
}

static void vm_ask(struct target *target, struct request *requests, size_t n)
{
	for (size_t i = 0; i < n; i++)
		requests[i].answer =
			requests[i].kind == REQUEST_MEMORY ? vm_read((struct vm_target *)target, &requests[i]) : ANSWER_ABSENT;
}

static struct str vm_problems(struct target *target)
{
	(void)target;
	return (struct str){ 0 };
}

static void vm_close(struct target *target)
{
	struct vm_target *t = (struct vm_target *)target;
	for (size_t i = 0; i < t->blocks.len; i++)
		free(t->blocks.data[i].bytes);
	vec_free(&t->blocks);
	free(t);
}

struct target *target_vmid(struct target *gpu, enum hub hub, unsigned instance, unsigned vmid)
{
	struct vm_target *t = mem_alloc(sizeof(*t));
	t->target = (struct target){
		.kind = "gpu-memory", .name = gpu->name, .ask = vm_ask, .problems = vm_problems, .close = vm_close
	};
	t->gpu = gpu;
	t->hub = hub;
	t->instance = instance;
	t->vmid = vmid;
	return &t->target;
}
