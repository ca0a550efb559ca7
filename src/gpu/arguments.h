// The arguments that a kernel was started with.
#pragma once

#include "gpu/memory/map.h"
#include "gpu/target_code.h"

enum { ARGUMENT_BYTES = 16 };

struct kernel_argument {
	const struct code_argument *what;
	bool known; // its bytes are in the target
	bool pointer;
	uint64_t value;                // if it has at most 8 bytes
	uint8_t bytes[ARGUMENT_BYTES]; // its first bytes
};

/** The arguments that the program gave to the dispatch, without those that the compiler added. Returns how many, at most @most. */
size_t dispatch_arguments(struct target *t, const struct code_kernel *k, const struct dispatch *d, struct kernel_argument *ret,
			  size_t most);
/** x = 0x7f0000000000 (4 MiB buffer), n = 4096, ...; @map may be NULL. */
struct str arguments_say(struct arena *a, const struct kernel_argument *args, size_t n, const struct address_range *map,
			 size_t nmap);
