// Where a loaded code object came from, as the runtime writes it: file:///lib.so#offset=4096&size=8192 or
// memory://1234#offset=0x7f00&size=8192.
#pragma once

#include "base/arena.h"

struct code_uri {
	bool memory;     // it is memory of process @pid, not a file
	struct str path; // with percent signs decoded
	int64_t pid;
	uint64_t offset, size;
	bool has_range; // false: it is the whole file
};

/** false: it is not such a URI. The path lies in @a. */
bool code_uri_parse(struct arena *a, struct str uri, struct code_uri *ret);
/** Whether rocm-debug-agent saves the object of @uri in a file named @filename (without directories). */
bool code_uri_saved_as(struct str uri, struct str filename);
