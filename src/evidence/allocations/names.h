// Functions and source lines of the program that allocated, from the files that it had loaded.
#pragma once

#include "base/arena.h"
#include "preload/format.h"

struct module_names;

struct module_names *module_names_new(void);
void module_names_free(struct module_names *n);
/** `load_weights (weights.c:141)`, `load_weights`, or `libtorch.so + 0x1234` where the file is gone, is another by now, or has no names. */
struct str module_place_say(struct module_names *n, struct arena *a, const struct alloc_module *m, uint64_t offset);

/** A call of a backtrace: the file that it returns into, and where. */
struct module_frame {
	const struct alloc_module *module; // NULL: not known
	uint64_t offset;                   // in it; else the address
};
/** `load (model.c:41) < main`: who called the allocator or the runtime, the innermost first, up to @most of them. */
struct str frames_say(struct module_names *n, struct arena *a, const struct module_frame *frames, size_t count, size_t most);
