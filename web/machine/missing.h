// What emscripten's C library lacks.
#pragma once

#include <stddef.h>

void qsort_r(void *items, size_t n, size_t size, int (*compare)(const void *a, const void *b, void *ctx), void *ctx);
const char *strerrorname_np(int error);
int prctl(int option, ...);
