// Code objects inside other files: fat binaries, offload bundles (also compressed), host programs and libraries, packages.
#pragma once

#include "source/file.h"

/** A code object that lies in a file. */
struct code_found {
	struct str target; // as its container names it (hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-); empty where nothing does
	uint64_t offset;   // in the file, or in what was unpacked of it
	bool unpacked;     // it was compressed
	struct str bytes;  // only as long as found() runs
	char **ours;       // the same bytes, malloc'ed: to keep them, take the pointer and set *ours to NULL. NULL: copy them
};

struct code_finder {
	/** Whether an object for this target is worth reading. NULL: all are. */
	bool (*wanted)(void *ctx, struct str target);
	void (*found)(void *ctx, const struct code_found *f);
	/** Gets what is damaged, with structure and offset, and frees the error. The search goes on behind the damage. */
	void (*problem)(void *ctx, struct uh_error *err);
	void *ctx;
};

/** Hands every code object in @f to @finder, in the order of the file (in a bundle, in the order of its list). In a large library only
 * headers and wanted objects are read. A core has none. */
void code_find(const struct file *f, const struct code_finder *finder);

/** The target id in the name of a target: gfx90a:xnack- of hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-. Empty where there is none. */
struct str code_target_gfx(struct str target);
