// Levels 5 and 10: the buffers behind a kernel's pointers.
#pragma once

#include "recorder/inputs/held.h"

enum { INPUTS_MOST = 16, STAGING = 8 << 20 };

/** A buffer that a kernel will use. */
struct input {
	uint64_t address, bytes;
	uint64_t from;     // where the bytes are read: memory of the host may have another address there
	uint32_t argument; // offset of the pointer among the arguments
	uint32_t dtype;
	bool guessed; // nobody said what type it has
	bool on_gpu;
	uint32_t ndim;
	uint64_t shape[REC_DIMENSIONS];
};

struct inputs {
	uint32_t queue; // its number
	uint64_t packet, kernel;
	const char *name; // of the kernel; NULL: not known
	uint32_t operation;
	size_t n;
	struct input list[INPUTS_MOST];
};

/** The buffers that the arguments point to; what the thread's operation says of them is taken. */
void inputs_find(struct inputs *in, uint64_t arguments, int size);
/** Calls @take with the bytes of an input, piece by piece. false: they could not be read. */
typedef bool piece_fn(void *ctx, const void *bytes, size_t n);
bool input_read(const struct input *in, piece_fn *take, void *ctx);
/** Level 5. */
void inputs_count(const struct inputs *in);
/** Level 10. */
void inputs_dump(const struct inputs *in);
/** The code of a kernel that is in memory alone, where it was loaded, and a copy of it to free; 0: there is none, or it was asked for before. */
uint64_t code_keep(uint64_t kernel, char **ret_bytes, size_t *ret_size);
bool owner_is_gpu(hsa_handle agent);

// fetch.c: bytes of a GPU's memory.
/** The memory that pieces go through, and what @agent copies them by. The recorder's lock is held. */
void staging_begin(hsa_handle agent);
void staging_end(void);
/** Where the bytes are until the next call, STAGING at most; NULL: they could not be read. */
const char *fetch(uint64_t from, size_t n);
