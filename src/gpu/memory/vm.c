#include "gpu/memory/vm.h"

enum {
	PAGE_BITS = 12,
	TABLE_BITS = 9, // of an address, for each directory
	DEPTH_MOST = 3,
	BLOCK_MOST = 15,
};
static const uint64_t page_address = UINT64_C(0x0000fffffffff000), table_address = UINT64_C(0x0000ffffffffffc0);

static const char not_mapped[] = "nothing is mapped there";
static const char contradictory[] = "its page tables contradict themselves";

// --- what is known ---

uint64_t vm_bits_get(struct vm_bits b, uint64_t entry) { return b.n ? entry >> b.low & (UINT64_MAX >> (64 - b.n)) : 0; }
uint64_t vm_bits_put(struct vm_bits b, uint64_t number) { return b.n ? (number & (UINT64_MAX >> (64 - b.n))) << b.low : 0; }

static bool any_fits(const struct know_list *patterns, struct str name)
{
	for (; patterns; patterns = patterns->next)
		if (str_glob(patterns->text, name))
			return true;
	return false;
}

static const struct know_page_table *block_for(const struct know *k, struct str gfx)
{
	for (size_t i = 0; i < k->page_tables.len; i++)
		if (any_fits(k->page_tables.data[i]->parts, gfx))
			return k->page_tables.data[i];
	return NULL;
}

static bool read_bits(struct str text, struct vm_bits *ret)
{
	int64_t high, low;
	struct str first = str_trim(str_split(&text, ':'));
	if (!str_number(first, &high))
		return false;
	low = high;
	if (text.n && !str_number(str_trim(text), &low))
		return false;
	if (low < 0 || high > 63 || low > high)
		return false;
	*ret = (struct vm_bits){ (unsigned)low, (unsigned)(high - low + 1) };
	return true;
}

bool vm_format_of(const struct know *k, struct str gfx, struct vm_format *ret)
{
	const struct know_page_table *block = block_for(k, gfx);
	const struct {
		const char *name;
		struct vm_bits *bits;
	} rows[] = { { "valid", &ret->valid },     { "system", &ret->system },     { "leaf", &ret->leaf },
		     { "further", &ret->further }, { "unbacked", &ret->unbacked }, { "block", &ret->block } };
	*ret = (struct vm_format){ .guests_from_zero = block && block->guests_from_zero };
	for (const struct know_pair *p = block ? block->bits : NULL; p; p = p->next)
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			if (str_is(p->name, rows[i].name) && !read_bits(p->value, rows[i].bits))
				return false;
	return ret->valid.n && ret->system.n && ret->leaf.n && ret->block.n && ret->block.n <= 6;
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
	const struct know_page_table *block = block_for(k, gfx);
	unsigned first, n = numbers_of(ring, &first);
	*ret = block && any_fits(block->mmhub, ring) ? HUB_MM : HUB_GFX;
	// comp_XCC.ME.PIPE.QUEUE, kiq_XCC.ME.PIPE.QUEUE; sdmaDIE.ENGINE
	const bool of_xcc = *ret == HUB_GFX && n == 4, of_die = *ret == HUB_MM && n == 2 && str_starts(ring, S("sdma"));
	*ret_instance = of_xcc || of_die ? first : 0;
	if (block && *ret == HUB_MM && any_fits(block->second_mmhub, ring))
		*ret_instance = 1;
}

// --- walking ---

static void give_up(struct vm_walk *w, const char *why)
{
	w->state = VM_NONE;
	w->why_not = why;
}

/** Where a physical address is that an entry has. */
static void go_to(struct vm_walk *w, enum vm_state state, bool system, uint64_t physical)
{
	const struct vm_space *s = w->space;
	w->state = state;
	w->at = (struct vm_place){ system, physical };
	if (system)
		return;
	if (physical < s->vram || physical - s->vram >= s->vram_size) {
		give_up(w, "it is in the memory of another GPU, or nowhere");
		return;
	}
	w->at.address = physical - s->vram;
}

/** To an entry of the table that @entry points to, whose entries cover 2^@shift bytes each, all of them 2^@all. */
static void want(struct vm_walk *w, uint64_t entry, unsigned shift, unsigned all)
{
	uint64_t offset = all < 64 ? w->address & ((UINT64_C(1) << all) - 1) : w->address;
	w->shift = shift;
	if (w->read == VM_LEVELS) {
		give_up(w, contradictory);
		return;
	}
	go_to(w, VM_WANTS_ENTRY, vm_bits_get(w->space->format.system, entry),
	      (entry & table_address) + (offset >> shift) * VM_ENTRY);
}

/** To the table behind an entry at level @w->level: a directory, or the last table. */
static void descend(struct vm_walk *w, uint64_t entry)
{
	const struct vm_space *s = w->space;
	const unsigned covers = PAGE_BITS + TABLE_BITS + s->block; // by the last table
	const bool root = w->level == s->depth;
	if (w->level) {
		const unsigned shift = covers + TABLE_BITS * (w->level - 1);
		want(w, entry, shift, root ? 64 : shift + TABLE_BITS);
		return;
	}
	const unsigned shift = PAGE_BITS + (unsigned)vm_bits_get(s->format.block, entry);
	if (shift > covers)
		give_up(w, contradictory);
	else
		want(w, entry, shift, root ? 64 : covers);
}

static bool inside(uint64_t first, uint64_t last, uint64_t address) { return address >= first && address <= last; }

void vm_walk_begin(struct vm_walk *w, const struct vm_space *s, uint64_t address)
{
	*w = (struct vm_walk){ .space = s, .address = address - s->first, .level = s->depth };
	if (s->kernel && inside(s->fb_first, s->fb_last, address))
		go_to(w, VM_FOUND, false, address - s->fb_vram + s->vram);
	else if (s->kernel && inside(s->agp_first, s->agp_last, address))
		go_to(w, VM_FOUND, true, address - s->agp_first + s->agp_base);
	else if (!s->enabled || !vm_bits_get(s->format.valid, s->root))
		give_up(w, "its VMID has no page tables now");
	else if (!inside(s->first, s->last, address))
		give_up(w, "it is outside the range that its VMID can address");
	else if (s->depth > DEPTH_MOST || s->block > BLOCK_MOST)
		give_up(w, contradictory);
	else
		descend(w, s->root);
}

void vm_walk_on(struct vm_walk *w, uint64_t entry)
{
	const struct vm_format *f = &w->space->format;
	w->read++;
	if (!vm_bits_get(f->valid, entry) || vm_bits_get(f->unbacked, entry)) {
		give_up(w, not_mapped);
		return;
	}
	if (w->level && !vm_bits_get(f->leaf, entry)) {
		w->level--;
		descend(w, entry);
		return;
	}
	const bool further = f->further.n ? vm_bits_get(f->further, entry) : !vm_bits_get(f->leaf, entry);
	const unsigned covers = w->shift, shift = PAGE_BITS + (unsigned)vm_bits_get(f->block, entry);
	if (!w->level && further && (f->further.n || covers > PAGE_BITS)) {
		// Each goes to a table of smaller pages.
		if (shift < covers)
			want(w, entry, shift, covers);
		else
			give_up(w, contradictory);
		return;
	}
	go_to(w, VM_FOUND, vm_bits_get(f->system, entry),
	      (entry & page_address) + (w->address & ((UINT64_C(1) << covers) - 1)));
}
