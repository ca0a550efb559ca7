// Functions and source lines of the program that allocated, from the files that it had loaded.
#pragma once

#include "base/arena.h"
#include "preload/format.h"

struct module_names;

struct module_names *module_names_new(void);
void module_names_free(struct module_names *n);
/** `load_weights (weights.c:141)`, `load_weights`, or `libtorch.so + 0x1234` where the file is gone, is another by now, or has no names. */
struct str module_place_say(struct module_names *n, struct arena *a, const struct alloc_module *m, uint64_t offset);
