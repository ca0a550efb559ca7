// The light GPU core: from the core that ROCm's runtime pipes to its handler, and from the memory of the process that waits meanwhile. It has
// what explains a fault (waves, queues, packets in flight, code, the map) and leaves out the GPU's memory. Its form is that of the flight
// recorder's (recorder/fault/core.c), so that whoever reads one reads both.
#pragma once

#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"

struct light_options {
	int fd;           // the file, which is empty
	uint64_t most;    // bytes of memory that it may hold
	int milliseconds; // for the process's memory
	bool all;         // keep everything that the stream has
	uint32_t lacks;   // what is known to be missing: enum light_lacks
	int64_t pid;
	struct str program, command;
	/** Memory of the process, as pread(); NULL: it may not be read. */
	ssize_t (*read)(void *ctx, uint64_t address, void *to, size_t size);
	/** Whether the disk has room for so many bytes more: others may have taken it meanwhile. NULL: it has. */
	bool (*room)(void *ctx, size_t bytes);
	/** The rest of the stream does not matter; much may still be read of the process and be written. */
	void (*enough)(void *ctx);
	void *ctx;
};

/** What a core lacks, in a note of its own: words would be a stranger's. */
enum light_lacks {
	LIGHT_MEMORY = 1, // the memory of its process may not be read
	LIGHT_ROOM = 2,   // there was no room for more
	LIGHT_TIME = 4,   // reading the process took too long
	LIGHT_STREAM = 8, // the stream ended early
	LIGHT_CODE = 16,  // code that the GPU ran could not be read from the process
	LIGHT_GONE = 32,  // the process had ended
	LIGHT_OTHER = 64, // the process is not the one that waits, or another user's
	LIGHT_HOLE = 128, // the process does not have the address of the runtime's list
};
#define LIGHT_NOTE "UNHANG"
enum { LIGHT_NOTE_TYPE = 1 };

struct light;
/** @o must outlive it. */
struct light *light_new(const struct light_options *o);
void light_free(struct light *l);
static inline void cleanup_light(struct light **l) { light_free(*l); }
#define _cleanup_light_ _cleanup_(cleanup_light)

/** The next bytes of the stream, however many. The error is that this is no GPU core, or that it cannot be written. */
struct uh_error *light_take(struct light *l, struct str bytes);
/** Whether the rest of the stream matters. */
bool light_wants_more(const struct light *l);
/** The stream has ended, or its rest does not matter: the headers are written, after which the file is a core. */
struct uh_error *light_end(struct light *l);
