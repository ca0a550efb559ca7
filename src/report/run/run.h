// A run and its tries, as they are stored and told: job/ fills them in, disk and reports write them down.
#pragma once

#include <stdio.h>

#include "base/arena.h"

/** How a try ended. Files, JSON and knowledge say it by a word. */
enum run_end {
	RUN_RUNS, // not yet
	RUN_DONE,
	RUN_NO_LAUNCH,
	RUN_EXIT,
	RUN_SIGNAL,
	RUN_OOM,
	RUN_GPU_FAULT,
	RUN_GPU_HANG,
	RUN_RUNTIME_HANG,
	RUN_SILENT,
	RUN_DEADLINE,
	RUN_STOPPED,
	RUN_KILLED, // unhang was, while the job ran
	RUN_OTHER,  // a newer unhang has a word for it
};
/** What follows. */
enum run_act { RUN_UNDECIDED, RUN_RESTART, RUN_STOP };
/** How a try differs from the one before it. */
enum run_change { RUN_SAME, RUN_WITH_AGENT, RUN_ON_REPEAT };
/** The words for them, as the record of a run has them; the first is empty. */
/** Behind "the job", by one of run_ended_words: `was ended by a signal`. */
const char *run_ended_say(struct str word);
extern const char *const run_ended_words[], *const run_act_words[], *const run_changes_words[];

/** One start of the job. Numbers are -1 and texts empty where they are not known. */
struct run_try {
	int64_t number, level;
	int64_t began, ran_ms; // milliseconds: since 1970, and of its life
	struct str filter;     // globs of kernels: of these more was recorded
	enum run_change changes;
	enum run_end ended;
	int64_t exit_code, signal;
	struct str because; // the evidence for that, in a sentence
	struct str class, title, fault, gpu;
	struct str action, fit;           // what the machine needs; whether it can take the next job
	struct str beside;                // what the machine shows, though the job used no GPU: not its cause
	struct str kernel, symbol, place; // of the failure: where the address lies, in words
	struct str offset;                // the same without what changes from try to try: past+0/4194304
	int64_t packet, launch;           // of the kernel: its number in the queue; of this kernel in its process, from 1 on
	int64_t rank, pid;                // of the process that failed
	int64_t launches, recordings;
	struct str fingerprint, kind; // what makes it the same failure; what makes it one of the same kind
	struct str output, words;     // the file with the last that it wrote; the line of it that says why it failed
	struct str bundle, diagnosis; // files
	struct str lacking;           // what could not be saved any more, in a sentence
	int64_t memory_peak, memory_limit, oom_kills;
	struct str group, counted_in; // directories: the control group of the try; the one that counts what the kernel killed
	int64_t oom_before;           // its count before the start
	int64_t findings;             // of the guard: double frees, overwritten bytes
	int64_t served;               // allocations that guard or pool had, of all processes
	struct str guard, allocation; // of a fault that the guard explains: past, freed, ...; whose buffer it was
	struct str found_in, allocated_in, freed_in; // functions, as the guard has them: of the wrong call; of that buffer
	struct str allocated_before, small_allocations; // where a call of HIP's does not return: by size; how many small ones
	struct str allocator;         // what guard or pool did, in sentences
	struct str left;              // processes that were still there when the job had ended
	struct str holders;           // who has GPU memory afterwards
	struct str checkpoint;
	int64_t lost_ms; // of work since that checkpoint
	// The decision:
	enum run_act act;
	struct str row, reason, propose;
	int64_t next_level;
	struct str next_filter;
	enum run_change next_changes;
};

/** One job under unhang run. */
struct run_told {
	struct str id, host, boot_id, directory, command;
	struct str launcher, job; // who started it; its number there
	struct str family; // the job's part in the names of its files, the same for all its ranks; empty: it is nobody's rank
	struct str parent; // the process that started unhang, as no other is called since the boot
	int64_t rank, world;
	int64_t restarts,
		rounds; // how often Slurm put the job back into its queue; how often the launcher started its ranks again
	int64_t began, pid, status; // status: -1 while it runs
	struct str recorder;        // the library; empty: none
	struct str recordings;      // directory, while it runs
	struct str before;          // who had GPU memory before the start
	struct str notes;
	const struct run_try *const *tries;
	size_t ntries;
};

/** For people: each try in a few lines of @width columns; 0: 80. */
void report_run(const struct run_told *r, bool json, size_t width, FILE *out);
/** The keys of crash_diagnostics.json as agents read them, and ours. */
struct crash_diagnostics {
	const struct run_told *run;
	struct str log, boundary; // the newest launches; the last of them
	struct str gfx;
	struct str output; // the last lines of the job's
	const struct str *dumps;
	size_t ndumps;
};
void report_crash_diagnostics(const struct crash_diagnostics *d, FILE *out);
/** Why the job failed, in one line; empty: it did not. */
struct str run_failure(const struct run_try *t, struct arena *a);
