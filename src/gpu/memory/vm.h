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

enum vm_state { VM_WANTS_ENTRY, VM_FOUND, VM_NONE };

struct vm_walk {
	enum vm_state state;
	struct vm_place at;  // VM_WANTS_ENTRY: of that entry; VM_FOUND: of what was looked for
	const char *why_not; // VM_NONE: as a phrase
	// Only for the walk itself:
	const struct vm_space *space;
	uint64_t address;     // counted from the first address of the space
	unsigned level;       // directories between here and the last table
	unsigned shift, read; // log2 of what an entry of this table covers; how many entries were read
};

void vm_walk_begin(struct vm_walk *w, const struct vm_space *s, uint64_t address);
void vm_walk_on(struct vm_walk *w, uint64_t entry);
