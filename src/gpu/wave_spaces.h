// The code behind waves of a live GPU. Each wave runs in the address space of its VMID on its XCC: that of a process, which knows its code
// best, or of whoever draws or computes beside KFD, whose code is only seen where the GPU sees it.
#pragma once

#include "gpu/shaders.h"
#include "gpu/silicon/silicon.h"
#include "gpu/target_code.h"

struct client_queues;

struct wave_space {
	unsigned xcc, vmid;
	bool graphics;               // its waves are of no compute queue
	struct target *process;      // NULL: none that computes is known
	struct target_code code;     // of the process, where there is one
	struct target *memory;       // as the GPU sees it; NULL: it was not needed
	struct target_code seen;     // in that memory
	struct address_space before; // as it was when that was opened
	const struct shader_start *shaders;
	size_t nshaders;
};

/** All of a GPU. What it points to must outlive it. */
struct wave_spaces {
	const struct know *know;
	struct target *gpu;
	const struct code_places *places;
	const struct client_queues *clients; // NULL
	struct arena arena;
	VEC(struct wave_space *) list;
};

/** The space of waves in such a slot. @process: whose it is, where that is known and it computes; NULL. */
struct wave_space *wave_space_of(struct wave_spaces *s, const struct wave_slot *of, struct target *process);
/** What is at each of these pcs, which may be in any order. @context as in code_where(). false: the VMID became another's while its memory
 * was read, and nothing of that counts. Results live as long as the spaces. */
bool wave_space_where(struct wave_spaces *s, struct wave_space *w, const uint64_t *pcs, size_t n, int context,
		      const struct where **ret);
/** The kernel that a wave runs; empty where it is not known. */
struct str wave_space_kernel(struct wave_space *s, const struct wave *w, const struct where *at);
/** The shader that a pc lies in; NULL: none that a buffer of commands has set. */
const struct shader_start *wave_space_shader(const struct wave_space *s, uint64_t pc);
/** Bytes at an address of the space, which a program works on. */
bool wave_space_contents(struct wave_spaces *s, struct wave_space *w, uint64_t address, void *to, size_t size);
void wave_spaces_free(struct wave_spaces *s);

// --- Which dispatch a wave is of ---

/** Holds what the hardware wrote down of waves against the packets of the queue that all of them may be of. Those whose packet is such a
 * dispatch are its; returns how many. @mark: the others lose their place. */
size_t waves_check_dispatch(struct target *process, const struct queue *q, struct wave **waves, size_t n, bool mark);
