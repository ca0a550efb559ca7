// The memory of a process, page by page: what was read is kept, so that a structure is read with few looks, and as it was at one time.
#pragma once

#include "source/probe.h"

struct page;

struct pages {
	const char *mem; // /proc/PID/mem
	/** Makes a look; it may refuse. */
	void (*run)(void *ctx, struct arena *a, struct probe *p);
	void *ctx;
	bool refused; // for want of permission
	struct arena arena;
	struct page *slots;
	size_t n;
};

/** All @size bytes at @address, or false. */
bool pages_read(struct pages *p, uint64_t address, void *to, size_t size);
void pages_free(struct pages *p);
