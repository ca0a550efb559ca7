// Page tables of the GPU: how an address of a VMID becomes a place in VRAM or in the memory of the machine. Nothing is read here: the
// caller reads each entry that the walk asks for and hands it over. A walk ends after VM_LEVELS entries, whatever is in them.
#pragma once

#include "gpu/target.h"

enum {
	VM_PAGE = 4096,
	VM_ENTRY = 8, // bytes
	VM_LEVELS = 5,
	VM_IDS = 16,
};

struct vm_bits {
	unsigned low, n; // n 0: there is no such bit
};

/** Where the bits of an entry are. */
struct vm_format {
	struct vm_bits valid, system, leaf, further, unbacked, block;
	bool guests_from_zero;
};
/** The format of a part, by its block `page-table`. false: there is none, or it is wrong. */
bool vm_format_of(const struct know *k, struct str gfx, struct vm_format *ret);
uint64_t vm_bits_get(struct vm_bits b, uint64_t entry);
uint64_t vm_bits_put(struct vm_bits b, uint64_t number);
/** What an entry that is a page says besides: names, and where their bits are. Returns how many, at most @most. */
struct vm_named_bits {
	struct str name;
	struct vm_bits bits;
};
size_t vm_page_bits(const struct know *k, struct str gfx, struct vm_named_bits *ret, size_t most);
/** The name of the register with the PASID of @vmid; false: there is none that can be read. */
bool vm_pasid_register(const struct know *k, struct str gfx, unsigned vmid, char *ret, size_t size);
/** Which hub translates the addresses in a ring of this name. */
void vm_hub_of(const struct know *k, struct str gfx, struct str ring, enum hub *ret, unsigned *ret_instance);

/** A place: an address on the bus of the machine, or an offset in VRAM. */
struct vm_place {
	bool system;
	uint64_t address;
};

/** An address space, as the registers of its hub describe it. Ranges are empty where the first is behind the last. */
struct vm_space {
	struct vm_format format;
	bool kernel, enabled;  // kernel: VMID 0
	unsigned depth, block; // as in the registers
	uint64_t root;         // an entry that points to the first table
	uint64_t first, last;  // addresses that the tables are for
	uint64_t vram;         // where entries count VRAM from
	uint64_t vram_size;
	// What VMID 0 sees without tables:
	uint64_t fb_first, fb_last, fb_vram; // VRAM, which begins at fb_vram
	uint64_t agp_first, agp_last, agp_base;
};

/** Page tables that something else than the registers of a VMID names. */
struct vm_tables {
	uint64_t root, last; // as in vm_space
	unsigned depth, block;
};

/** An entry that a walk went through. */
struct vm_step {
	struct vm_place at;
	uint64_t entry;
	unsigned level; // directories between here and the last table: 0 is the last
	unsigned shift; // log2 of the bytes that the entry stands for
};

enum vm_state { VM_WANTS_ENTRY, VM_FOUND, VM_NONE };

struct vm_walk {
	enum vm_state state;
	struct vm_place at;  // VM_WANTS_ENTRY: of that entry; VM_FOUND: of what was looked for
	const char *why_not; // VM_NONE: as a phrase
	bool elsewhere;      // VM_NONE: at @physical, in the memory of another GPU of the hive, if anywhere
	uint64_t physical;   // as the last entry has it
	unsigned read;       // how many entries were read
	struct vm_step steps[VM_LEVELS];
	// Only for the walk itself:
	const struct vm_space *space;
	uint64_t address; // counted from the first address of the space
	unsigned level;   // directories between here and the last table
	unsigned shift;   // log2 of what an entry of this table covers
};

void vm_walk_begin(struct vm_walk *w, const struct vm_space *s, uint64_t address);
void vm_walk_on(struct vm_walk *w, uint64_t entry);
