// What a transcript of gdb shows of the waves it stopped: registers, code objects, instructions.
//
//   0x00007fffe1402900  0x00007fffe1402b40  Yes         file:///tmp/heat#offset=8192&size=9000
//   => 0x00007fffe1402a40 <stencil3+320>:	global_load_dword v1, v[2:3], off
//   v0             {0x0, 0x4, 0x8, 0xc <repeats 61 times>}
//   pc             0x7fffe1402a40      0x7fffe1402a40 <stencil3+320>
#pragma once

#include "evidence/artefact.h"

struct gdb_state;
struct where;

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
/** The registers that were shown at a pc; none where they were not. They live as long as @s. */
struct register_set gdb_state_registers(const struct gdb_state *s, uint64_t pc);
/** The instruction that was shown at a pc; empty where none was. */
struct str gdb_state_instruction(const struct gdb_state *s, uint64_t pc);
/** The code at the pc of a wave whose frame is of @w->kernel, which may be one that was inlined; NULL: not found. @gfx: of its GPU; empty:
 * not known. */
const struct where *gdb_state_code(const struct gdb_state *s, const struct artefact_output *out, const struct wave *w,
				   struct str gfx);

/** `0x... in kern (n=3) at saxpy.cpp:57`, or without its address where the pc is at the beginning of a line. */
bool gdb_frame_is(struct str text);
/** The function, its pc and its source of `0x... in kern (n=3) at saxpy.cpp:57`, or of `kern () at saxpy.cpp:7`. */
void gdb_frame_parse(struct str frame, uint64_t *ret_pc, struct str *ret_function, struct str *ret_source);
