// Libraries by the machine's loader.
#include <dlfcn.h>

#include "base/door/library.h"

const bool library_loads = true;

void *library_open(const char *file, int flags) { return dlopen(file, flags); }

void *library_find(void *library, const char *name) { return dlsym(library, name); }
