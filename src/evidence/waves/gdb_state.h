// What a transcript of gdb shows of the waves it stopped: registers, code objects, instructions.
//
//   0x00007fffe1402900  0x00007fffe1402b40  Yes         file:///tmp/heat#offset=8192&size=9000
//   => 0x00007fffe1402a40 <stencil3+320>:	global_load_dword v1, v[2:3], off
//   v0             {0x0, 0x4, 0x8, 0xc <repeats 61 times>}
//   pc             0x7fffe1402a40      0x7fffe1402a40 <stencil3+320>
#pragma once

#include "evidence/artefact.h"

struct gdb_state;

/** A wave at whose pc the code is. */
struct gdb_wave {
	uint64_t pc;
	struct str function; // of its frame, which may be one that was inlined
	struct str reason;   // why it stopped; empty: it did not
	struct str gfx;      // of its GPU; empty: not known
	bool registers;      // whether those that were shown at its pc are its own
};

struct gdb_state *gdb_state_new(void);
void gdb_state_free(struct gdb_state *s);
/** Whether the line tells where a code object of a GPU was loaded. */
bool gdb_state_library(struct str text);
/** Whether the line is one of those above. */
bool gdb_state_line(struct gdb_state *s, struct str text);
/** Another thread or frame is looked at from now on; @pc is 0 where it is not known. */
void gdb_state_turn(struct gdb_state *s, uint64_t pc);
/** The pc of what is looked at, 0 where it was not shown. */
uint64_t gdb_state_pc(const struct gdb_state *s);
/** Adds registers and what the code at the pc says. What is added lives in @a. */
void gdb_state_tell(struct gdb_state *s, const struct artefact_output *out, struct event *e, struct arena *a,
		    const struct gdb_wave *w);
