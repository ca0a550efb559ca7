// One block of LZ4, as journals have it: the library is not on every machine, and the format is small.
#pragma once

#include <stddef.h>

#include "base/str.h"

/** Unpacks as much as there is room for. Returns how much it was; what stands before damage counts. */
size_t lz4_unpack(struct str block, char *to, size_t room);
