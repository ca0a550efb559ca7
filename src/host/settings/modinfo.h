// What a kernel module says of itself: the section .modinfo of its file, `key=value` with a zero behind each.
#pragma once

#include "base/arena.h"

struct modinfo {
	struct str version, vermagic; // version: of modules that are not the kernel's own
	struct str *parameters;
	size_t n;
};

void modinfo_read(struct arena *a, struct str section, struct modinfo *ret);
bool modinfo_has(const struct modinfo *m, struct str parameter);
