// What the code at a wave's pc says of the wave: kernel, source line, the access with the address of each lane, what it waits for. The
// same for every reader that has waves.
#pragma once

#include "code/loaded.h"
#include "code/meaning.h"
#include "evidence/event.h"
#include "gpu/memory/map.h"
#include "gpu/target.h"
#include "gpu/wave.h"

/** Instructions before and behind a pc that are looked at. */
enum { WAVE_CONTEXT = 24 };

/** What a wave's own status says of barriers, and looks at it of loops. */
struct wave_barrier {
	bool known;  // it says something
	bool inside; // it waits in one
	bool alone;  // its workgroup has no other waves
	bool stood;  // it was looked at several times, and never moved
	bool memory_idle; // and the path to memory was idle at every look
};

static inline struct wave_barrier wave_barrier_of(const struct wave *w)
{
	return (struct wave_barrier){ w->barrier_known, w->in_barrier, w->first && w->last, w->stood, w->memory_idle };
}

struct wave_code {
	const struct know *know;
	const struct where *where;
	const struct wave *wave;         // its registers, where they are known, and why it stopped
	const struct address_range *map; // of the memory that existed; NULL: not known
	size_t nmap;
	uint64_t lds_base, scratch_base; // apertures of flat accesses; 0: not known
};

/** Adds facts: instruction, source_file, source_line, call_chain, access, effective_address, waits_for, ...; and the accesses with
 * the address of each lane. What is added lives in @a. */
void wave_code_tell(struct event *e, struct arena *a, const struct wave_code *w);

/** What a wave that did not stop waits for; empty where it does not wait. *@ret_polls: the load that it repeats; empty: none. */
struct str wave_waits_for(struct arena *a, const struct know *k, const struct where *at, const struct wave_barrier *b,
			  struct str *ret_polls);

/** Whether the instruction at the pc is an access. */
bool wave_code_accesses(const struct wave_code *w);
/** The address that each lane accesses with the instruction at the pc; 0 where it is no access, or its registers are not known. */
size_t wave_code_addresses(const struct wave_code *w, struct lane_address ret[static MEANING_LANES]);

/** Whether the instruction at the pc is the one that a text shows there: another build has another. */
bool wave_code_is(const struct where *w, struct str instruction);

// --- code for the waves of texts ---

/** Finds code by what a text tells of where it was loaded, and keeps it. */
struct code_shelf;

/** What a text tells of an object that was loaded: its URI or nothing, and one of the addresses. */
struct code_anchor {
	struct str uri;
	uint64_t loaded_at;   // the object's begin
	uint64_t text_at;     // its section .text
	struct str function;  // mangled or not
	uint64_t function_at; // its first instruction
	struct str bytes;     // of the code in memory
	uint64_t bytes_at;
	struct str gfx;         // of the GPU; empty: any
	struct str instruction; // that the text has at the pc; empty: it has none
};

struct code_shelf *code_shelf_new(void);
void code_shelf_free(struct code_shelf *s);
/** A file or directory with code. */
void code_shelf_add(struct code_shelf *s, const char *path);
/** What is at @pc of the object that @anchor tells of; NULL where the object is nowhere, or, without a URI, where several may be it.
 * @evidence: the file that tells it. */
const struct where *code_shelf_where(struct code_shelf *s, struct str evidence, const struct code_anchor *anchor, uint64_t pc);
/** A library that would have told more of the code and is not believed, and why; NULL: there is none. */
const char *code_shelf_refused(const struct code_shelf *s);
/** The paths that were added. */
const char *const *code_shelf_paths(const struct code_shelf *s, size_t *ret_n);

// --- Lanes of a wave that are out of step with the others ---

/** How the lanes of one register go on from one to the next. */
struct lane_pattern {
	const struct wave_register *v;
	bool stepped; // value = base + lane * step; else they only share a range
	uint32_t step, base;
	uint32_t low, high;
	unsigned fit; // lanes that agree
	uint64_t odd; // active lanes that do not
	bool address; // the lower half of a 64-bit address
};

/** The vector register that is most like an index among those whose @active lanes break the pattern of the others. */
bool lanes_find_odd(const struct register_set *s, uint64_t active, struct lane_pattern *ret);
/** `59-63`, `0, 2, 7-9` */
struct str lanes_say(struct arena *a, uint64_t mask);
