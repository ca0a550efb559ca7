// Shaders of graphics, which have no names: where their code begins, and which buffer of commands set that.
#pragma once

#include "gpu/find/device.h"
#include "gpu/target.h"

struct shader_start {
	uint64_t address;  // of its first instruction
	struct str stage;  // pixel shader
	struct str origin; // what runs the buffer: gfx_0.0.0, queue 1 of game (4242)
	uint64_t ib;       // the buffer
	size_t word;       // in it
};

/** Those that the buffers set which a ring runs for @vmid, or has just run; by address. How many; they lie in @a. */
size_t shaders_of_rings(struct arena *a, const struct know *k, struct target *gpu, unsigned vmid, const struct shader_start **ret);
/** The same for the queue of a client of the driver. */
struct client_queue;
size_t shaders_of_client(struct arena *a, const struct know *k, struct target *gpu, const struct client_queue *q,
			 const struct shader_start **ret);
/** Those that words of a buffer set themselves: what it runs is not read. */
size_t shaders_of_words(struct arena *a, const struct know *k, const struct device *d, const uint32_t *words, size_t n,
			const struct shader_start **ret);
/** `pixel shader at 0x7f..., set at word 12 of the buffer 0x7f... of gfx_0.0.0` */
struct str shader_say(struct arena *a, const struct shader_start *s);
