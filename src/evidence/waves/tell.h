// Waves as events. A reader fills struct wave and says of each group what only it knows; the rest is the same whoever read it.
#pragma once

#include "evidence/artefact.h"
#include "evidence/waves/wave_code.h"
#include "gpu/wave_groups.h"

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
