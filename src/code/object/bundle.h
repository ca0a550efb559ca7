// Code objects inside other files: fat binaries, offload bundles (also compressed), host programs and libraries, packages.
#pragma once

#include "source/file.h"

/** A code object that lies in a file. */
struct code_found {
	struct str target; // as its container names it (hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-); empty where nothing does
	uint64_t offset;   // in the file, or in what was unpacked of it
	bool unpacked;     // it was compressed
	struct str bytes;  // only as long as found() runs
	char **ours;       // the same, malloc'ed: who keeps it sets it to NULL; NULL: it must be copied
};

struct code_finder {
	/** Whether an object for this target is worth reading; NULL: all are. */
	bool (*wanted)(void *ctx, struct str target);
	void (*found)(void *ctx, const struct code_found *f);
	/** What is damaged, with structure and offset; the search goes on behind it. The error is given away. */
	void (*problem)(void *ctx, struct uh_error *err);
	void *ctx;
};

/** Hands every code object in @f to @finder, in the order in which they lie there (those of one bundle as it lists them). Of a large
 * library only headers and what is wanted are read. There are none in a core. */
void code_find(const struct file *f, const struct code_finder *finder);

/** The target id in the name of a target: gfx90a:xnack- of hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-. Empty where there is none. */
struct str code_target_gfx(struct str target);
