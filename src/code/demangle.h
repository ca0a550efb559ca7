// C++ names as people write them.
#pragma once

#include "base/arena.h"

/** @name without its mangling and without what the runtime adds to it (`.kd`); @name itself where it has none. */
struct str demangle(struct arena *a, struct str name);
/** The name of a function without its namespaces, types and arguments; the mangled name contains it, too. */
struct str bare_name(struct str function);
