// Memory of a process that runs.
#pragma once

#include <stdint.h>

#include "base/error.h"

/** Reads @size bytes at @address of process @pid into *ret, which the caller frees. It always returns, although a process that is stuck
 * in the driver may hold the lock of its own memory. */
struct uh_error *process_memory(int64_t pid, uint64_t address, uint64_t size, char **ret);
