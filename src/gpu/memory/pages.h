// The memory of a process, page by page. Pages that were read are kept: a structure then takes few reads, and is seen as it was at one
// time.
#pragma once

#include "source/probe.h"

struct page;

struct pages {
	const char *mem; // /proc/PID/mem
	/** Runs a probe, or refuses to. */
	void (*run)(void *ctx, struct arena *a, struct probe *p);
	void *ctx;
	bool refused; // there was no permission
	struct tape *tape; // NULL
	struct arena arena;
	struct page *slots;
	size_t n;
};

/** All @size bytes at @address, or false. @contents: they are what a program works on, and no structure of the runtime. */
bool pages_read(struct pages *p, uint64_t address, void *to, size_t size, bool contents);
void pages_free(struct pages *p);
