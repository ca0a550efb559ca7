// What is left of the versions of before: package files that a package manager keeps, and kernels that can still be booted.
#pragma once

#include "base/arena.h"
#include "source/probe.h"

struct package_cache {
	struct arena arena;
	VEC(struct str) files;   // paths of packages
	VEC(struct str) kernels; // releases
};

/** Lists them on this machine, in a tree, or on a tape. What does not answer is not there. */
void package_cache_read(struct machine_at at, struct package_cache *ret);
/** The file of a package in this version; empty: it is not kept. */
struct str package_cache_find(const struct package_cache *c, struct str package, struct str version);
bool package_cache_boots(const struct package_cache *c, struct str release);
void package_cache_free(struct package_cache *c);
