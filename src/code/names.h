// Names around code: C++ functions as people write them, targets, and where a loaded object came from.
#pragma once

#include "base/arena.h"
#include "base/str.h"

/** @name without its mangling and without what the runtime adds to it (`.kd`); @name itself where it has none. */
struct str demangle(struct arena *a, struct str name);
/** The name of a function without its namespaces, types and arguments; the mangled name contains it, too. */
struct str bare_name(struct str function);

// The processors that code objects are built for.
struct code_target {
	unsigned char mach; // in e_flags
	char name[19];
	bool wave32, wave64;                  // the sizes of waves that it has
	unsigned char granule_32, granule_64; // the descriptor counts VGPRs in units of this, for each size of wave
	bool accum_offset;   // VGPRs and accumulation VGPRs share one file; the descriptor says where it is split
	bool xnack, sramecc; // whether it can switch these on and off
};

/** NULL where it is not known. */
const struct code_target *code_target_of(unsigned mach);
const struct code_target *code_target_named(struct str name);

// Where a loaded code object came from, as the runtime writes it: file:///lib.so#offset=4096&size=8192 or
// memory://1234#offset=0x7f00&size=8192.
struct code_uri {
	bool memory;     // it is memory of process @pid, not a file
	struct str path; // with percent signs decoded
	int64_t pid;
	uint64_t offset, size;
	bool has_range; // false: it is the whole file
};

/** false: it is not such a URI. The path lies in @a. */
bool code_uri_parse(struct arena *a, struct str uri, struct code_uri *ret);
/** Whether rocm-debug-agent saves the object of @uri in a file named @filename (without directories). */
bool code_uri_saved_as(struct str uri, struct str filename);
