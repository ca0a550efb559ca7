// The waves that a text dumps: groups of those that stopped at the same place for the same reason. Registers, local memory and
// disassembly of the first wave of each are kept.
#pragma once

#include "evidence/artefact.h"
#include "gpu/wave_groups.h"

/** What the agent disassembled around a pc. */
struct window_of_code {
	uint64_t pc, begin; // of the marked instruction, of the function
	uint64_t loaded_at; // begin of the code object
	struct str function, uri, instruction, before, source_file, source_line;
};

struct dumped_wave {
	struct wave wave;
	struct arena arena;
	struct str id;
	struct place at;
	struct stamp time;
	struct writer writer;
	unsigned count; // the old agent prints one wave for many
	bool full;      // all it has is kept
	bool telling;   // lanes of it are out of step
	bool old;
	VEC(uint64_t) local;
	struct window_of_code code;
};

struct dumped_waves {
	struct wave_places groups; // whose first is a dumped_wave
	size_t seen;
	size_t beyond; // waves of groups for which there was no room
};

struct dumped_wave *dumped_wave_new(struct dumped_waves *d, const struct logline *line, struct place at);
/** A wave that is complete. It becomes the groups'. */
void dumped_waves_add(struct dumped_waves *d, struct dumped_wave *w);
/** The most important groups as events, the others as a number. @stray: a disassembly that stands before the waves. */
void dumped_waves_tell(struct dumped_waves *d, const struct artefact_output *out, const struct window_of_code *stray);
void dumped_waves_free(struct dumped_waves *d);
