// Of the static file and of the page: a loader would bring a C library of its own into a program that has one.
#include <stddef.h>

#include "base/door/library.h"

const bool library_loads = false;

void *library_open(const char *file, int flags)
{
	(void)file;
	(void)flags;
	return NULL;
}

void *library_find(void *library, const char *name)
{
	(void)library;
	(void)name;
	return NULL;
}
