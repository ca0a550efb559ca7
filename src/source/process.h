// Memory of a process that runs, and what the kernel says of it.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

/** Reads @size bytes at @address of process @pid into *ret, which the caller frees. It always returns, although a process that is stuck
 * in the driver may hold the lock of its own memory. */
struct uh_error *process_memory(int64_t pid, uint64_t address, uint64_t size, char **ret);

/** A small file of the kernel, or a note of our own, as far as there is room; nothing where it cannot be read. Here and now: only for what
 * does not block. */
struct str small_file(const char *path, char *room, size_t size);
/** The same of /proc/PID/@name. */
struct str process_file(int64_t pid, const char *name, char *room, size_t size);
/** Whose process it is, as /proc says; false: it is gone. */
bool process_owner(int64_t pid, uid_t *ret);
/** The value of a variable, with its `=` in @name, in the text of /proc/PID/environ. */
bool environ_value(struct str environ, struct str name, struct str *ret);

/** Whether the driver and the kernel's log number processes as /proc does here. In a container they do not: their numbers are the host's.
 * UNHANG_CONTAINER=no says that they do, for an emulated machine. */
bool process_numbers_shared(void);

/** What /proc/PID/stat says. */
struct process_stat {
	char name[16];
	char state; // R, S, D, T, t, ...
	int64_t parent, session, threads;
	uint64_t cpu, began; // ticks
};
/** false: it is cut, or no such text. */
bool process_stat_parse(struct str text, struct process_stat *ret);
