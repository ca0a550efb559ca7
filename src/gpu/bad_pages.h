// The driver's list of bad pages of VRAM (ras/gpu_vram_bad_pages).
#pragma once

#include "source/probe.h"

enum { BAD_PAGES_READS = 8 };

struct bad_pages {
	int64_t retired, pending, failed;
	bool more; // the list is longer than what was read
};

/** What to read of the file at @path, which must live as long as the answers. */
void bad_pages_ask(const char *path, struct probe ret[static BAD_PAGES_READS]);
/** false: it could not be read. */
bool bad_pages_count(const struct probe *asked, size_t n, struct bad_pages *ret);
