// C++ names as people write them.
#pragma once

#include "base/arena.h"

/** @name without its mangling and without what the runtime adds to it (`.kd`); @name itself where it has none. */
struct str demangle(struct arena *a, struct str name);
