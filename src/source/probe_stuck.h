// Where a child that reads files stands, from what the kernel says of it.
#pragma once

#include "source/probe.h"

/** @pid 0: it is gone. @path: what it reads. */
void probe_where_stuck(struct arena *a, int pid, const char *path, struct probe_stuck *ret);
