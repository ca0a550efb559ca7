// A queue of our own on a GPU, with a kernel that copies: no packet of the program waits for it, and it waits for none of them.
#pragma once

#include "recorder/inputs/held.h"

/** The kernel as a code object for a part (copy.s; tools/assemble-kernels makes the table). A part of NULL ends it. */
struct copy_kernel {
	const char *part;
	uint32_t flags; // of the ELF header, which name the part
	const unsigned char *code;
	size_t size;
};
extern const struct copy_kernel copy_kernels[];

struct copier;

/** That of a GPU, made where there is none yet; NULL: there can be none. The recorder's lock is held. */
struct copier *copier_of(hsa_handle agent);
/** Copies @n bytes; both addresses are a multiple of 16, and so much is copied. false: the GPU did not come to it in time. */
bool copier_copy(struct copier *c, void *to, uint64_t from, size_t n);
/** The runtime ends. */
void copiers_end(void);
