// Memory of a process that runs, and what the kernel says of it.
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

/** Reads @size bytes at @address of process @pid into *ret, which the caller frees. It always returns, although a process that is stuck
 * in the driver may hold the lock of its own memory. */
struct uh_error *process_memory(int64_t pid, uint64_t address, uint64_t size, char **ret);

/** What /proc/PID/stat says. */
struct process_stat {
	char name[16];
	char state; // R, S, D, T, t, ...
	int64_t parent, session;
	uint64_t cpu, began; // ticks
};
/** false: it is cut, or no such text. */
bool process_stat_parse(struct str text, struct process_stat *ret);
