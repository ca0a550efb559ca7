// This machine's GPUs as evidence: each is looked at several times, and what the looks show is told as events.
#pragma once

#include "evidence/artefact.h"
#include "gpu/find/device.h"
#include "unhang/unhang.h"

/** What was seen of a GPU, for the list of them. */
struct gpu_view {
	const struct device *device;
	struct str health; // as the verdict says: idle, busy, hung, ...
	struct str says;   // why it is not healthy; empty
	struct str unseen; // what could not be looked at, and why; empty
	struct str unit;   // the unit that is stuck; empty
	bool unwell;
	bool known; // enough was read to call it healthy if nothing is wrong
	bool looked;
	size_t waves;
	bool waves_known;
};

static inline enum uh_verdict gpu_verdict(const struct gpu_view *g)
{
	return g->unwell ? UH_INCIDENT : g->known ? UH_HEALTHY : UH_UNKNOWN;
}

struct machine_view {
	struct arena arena;
	struct devices devices;
	size_t n;
	struct gpu_view *gpus;
};

struct silicon_options {
	struct str gpu; // only this one; empty: all
};

/** Looks at the GPUs of this machine. What is in @v lives until machine_view_free(). */
void silicon_read(const struct artefact_output *out, const struct silicon_options *o, struct machine_view *v);
void machine_view_free(struct machine_view *v);

/** The verdict about the registers and rings of a devcoredump. */
struct target;
void silicon_read_dump(const struct artefact_output *out, struct target *t, struct place at, struct stamp time);
