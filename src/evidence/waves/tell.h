// Waves as events. A reader fills struct wave and says of each group what only it knows; the rest is the same whoever read it.
#pragma once

#include "evidence/artefact.h"
#include "evidence/waves/wave_code.h"
#include "gpu/wave.h"

/** What is told of waves at one place. */
struct wave_tale {
	const char *signature; // of the event
	struct place at;
	struct stamp time;
	struct str text, device;
	struct wave wave; // one of them; its registers stay the reader's
	size_t count;     // 0: not told
	size_t halted;
	bool listed; // by a tool that shows where waves are, not why: the number comes first, and the code knows the kernel better
	bool pc_known;                   // it may be 0 all the same
	struct str id;                   // as the evidence names the wave
	struct values local;             // what is in its LDS; n 0: not known
	const struct where *where;       // the code at its pc; NULL: not found
	const struct address_range *map; // of the memory that existed
	size_t nmap;
	const struct dump *tables; // of all waves and queues; NULL: they stand elsewhere
	/** Facts that only this evidence has; NULL: none. They stand before those of the wave, or behind them. */
	void (*first)(void *of, struct event *e, struct arena *a);
	void (*own)(void *of, struct event *e, struct arena *a);
	void *of;
};

/** Groups of waves, the most important first. */
struct wave_telling {
	const struct artefact_output *out;
	const char *more; // the event that counts those that are not told; NULL: none does
	size_t most;      // groups that are told
	void (*fill)(void *ctx, const struct wave_place *g, struct arena *a, struct wave_tale *ret);
	void *ctx;
};

/** @beyond: waves of groups that the reader did not keep. */
void waves_tell(const struct wave_telling *t, const struct wave_places *groups, size_t beyond);
/** What the code at its pc says, for an event that is not of waves alone. */
void wave_tell_code(const struct artefact_output *out, const struct wave_tale *t, struct event *e, struct arena *a);
/** One event. */
void wave_tell(const struct artefact_output *out, const struct wave_tale *t, struct arena *a);

// The waves that a text dumps: groups of those that stopped at the same place for the same reason. Registers, local memory and
// disassembly of the first wave of each are kept.

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
