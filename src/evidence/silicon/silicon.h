// This machine's GPUs as evidence: each is looked at several times, and what the looks show is told as events.
#pragma once

#include "evidence/artefact.h"
#include "gpu/find/device.h"
#include "unhang/unhang.h"

/** What a queue of a program, or a ring of the driver, was seen to do. */
struct observed_queue {
	struct str process; // empty: of a ring
	int64_t pid;
	unsigned id;
	struct str ring;
	bool client, placed; // client: of the driver; placed: where it is on the GPU is known
	unsigned vmid;
	uint64_t xccs; // of its partition; 0: it may be any
	struct str kernel;
	struct str is, why; // as struct silicon_state has it
	double seconds;
};

/** How a GPU was when it was looked at: for the list of GPUs. That it is not well is an event, too. */
struct gpu_observation {
	const struct device *device;
	struct str health; // as the verdict says: idle, busy, hung, ...
	struct str says;   // why it is not healthy; empty
	struct str hint;   // what is worth knowing though nothing is called wrong, one line each; empty
	struct str hardware; // the part of these that is of its hardware: errors that were counted, its link, what slows it down
	int fit;             // what that makes of the next job: as `fit` of verdicts
	struct str throttle; // what slows it down; empty
	int64_t pages_pending; // bad pages that wait to be retired
	bool pages_known;
	struct str unseen; // what could not be looked at, and why; empty
	struct str unit;   // the unit that is stuck; empty
	bool unwell;
	bool stands; // nothing is called wrong, but there is no progress either
	bool known; // enough was read to call it healthy if nothing is wrong
	bool looked;
	size_t waves;
	bool waves_known;
	struct observed_votes { // on progress, between the looks
		enum vote rings, waves, firmware;
		bool loop; // all waves go round in short loops
	} votes;
	struct str kernel; // at which most waves are, where a verdict asked for it; empty
	size_t nqueues;
	struct observed_queue *queues; // those that have or had work
};

static inline enum uh_verdict gpu_verdict(const struct gpu_observation *g)
{
	return g->unwell ? UH_INCIDENT : g->known ? UH_HEALTHY : UH_UNKNOWN;
}

/** What the driver counts for all GPUs of an XGMI hive together. */
struct hive_observation {
	const struct device *first;
	struct str hint; // what is worth knowing of it, one line each; empty
	int fit;         // as of a GPU
};

struct machine_observation {
	struct arena arena;
	struct devices devices;
	bool borrowed; // these devices
	size_t n, nhives;
	struct gpu_observation *gpus;
	struct hive_observation *hives;
};

struct silicon_options {
	struct str gpu;                // only this one; empty: all
	struct tape *tape;             // as struct machine_at has it; NULL
	const char *name;              // of the machine; NULL: this one
	const struct devices *devices; // that were found already, and live longer than what is told; NULL
	struct str lacks;              // which answers are lost: then no GPU is known to be well; empty
};

/** Looks at the GPUs of this machine: tells events, then the observation. What is in @v lives until machine_observation_free(). */
void silicon_read(const struct artefact_output *out, const struct silicon_options *o, struct machine_observation *v);
void machine_observation_free(struct machine_observation *v);

/** The verdict about the registers and rings of a devcoredump. */
struct target;
struct dump_head {
	struct place at;
	struct stamp time;
	struct str ring; // that timed out; empty: it does not say
};
void silicon_read_dump(const struct artefact_output *out, struct target *t, const struct dump_head *head);
