// Memory of a process that runs.
#pragma once

#include <stdint.h>

#include "base/error.h"

/** @size bytes at @address of process @pid, in memory of their own. It only reads, and it ends: a process that is stuck in the driver may
 * hold its own memory's lock. */
struct uh_error *process_memory(int64_t pid, uint64_t address, uint64_t size, char **ret);
