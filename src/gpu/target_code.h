// The code that the waves of a target ran: the objects that were loaded, from the target's own memory or from files.
#pragma once

#include "code/places.h"
#include "gpu/memory/map.h"
#include "gpu/target.h"

/** A difference between code in memory and the file that it came from. */
struct code_difference {
	const struct loaded *in;
	uint64_t address; // of the first byte that differs
	uint64_t bytes;   // that differ
	uint32_t expected, found;
};

enum { CODE_FUNCTION_MOST = 256 << 10 }; // a pc further behind the begin of code without an object is of something else

struct target_code {
	struct target *target;
	const struct code_places *places;
	struct code_set set;
	VEC(uint64_t) tried; // bases of objects that were looked for
	uint64_t images;     // bytes of objects that only memory has
	VEC(struct code_difference) differences;
	// Code that belongs to no object is taken as it lies in memory, for this part; empty: it is not. @starts: what is known to begin
	// where, by address.
	struct str bare_gfx;
	bool bare_only; // no objects are looked for
	const struct code_symbol *starts;
	size_t nstarts;
	const struct queue *queue; // the dispatch whose kernel was found last: its queue, packet and kernel
	uint64_t packet;
	const struct code_kernel *kernel;
};

void target_code_open(struct target_code *c, struct target *t, const struct code_places *places);
void target_code_close(struct target_code *c);
/** Loads the object that @address (of code or of a kernel's descriptor) lies in; NULL: it cannot be had. */
struct loaded *target_code_need(struct target_code *c, uint64_t address);
/** The kernel whose descriptor lies at @kernel_object, or NULL. */
const struct code_kernel *target_code_kernel(struct target_code *c, uint64_t kernel_object);
/** What each wave is at; waves at the same instruction share it. @context as in code_where(). The result is in the set's arena. */
const struct where **target_code_waves(struct target_code *c, const struct wave *waves, size_t n, int context);
/** The same for pcs. */
const struct where **target_code_pcs(struct target_code *c, const uint64_t *pcs, size_t n, int context);
/** The kernel that a wave runs, demangled, by its dispatch or else by its pc; empty where it is not known. */
struct str target_code_kernel_name(struct target_code *c, const struct wave *w, const struct where *at);
/** What a difference between memory and file means, in one line. */
void code_difference_say(const struct code_difference *d, struct text *out);

// --- The arguments that a kernel was started with ---

enum { ARGUMENT_BYTES = 16 };

struct kernel_argument {
	const struct code_argument *what;
	bool known; // its bytes are in the target
	bool pointer;
	uint64_t value;                // if it has at most 8 bytes
	uint8_t bytes[ARGUMENT_BYTES]; // its first bytes
};

/** The arguments that the program gave to the dispatch, without those that the compiler added. Returns how many, at most @most. */
size_t dispatch_arguments(struct target *t, const struct code_kernel *k, const struct dispatch *d, struct kernel_argument *ret,
			  size_t most);
/** x = 0x7f0000000000 (4 MiB buffer), n = 4096, ...; @map may be NULL. */
struct str arguments_say(struct arena *a, const struct kernel_argument *args, size_t n, const struct address_range *map,
			 size_t nmap);
