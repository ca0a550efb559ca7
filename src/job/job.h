// unhang run: one job, from its start to the report.
//
// The process that starts the job stays small: it waits, forwards signals, and looks at the recordings some times a second. Whatever reads
// evidence, knowledge or a user's files is done by a child with a deadline (struct job_hands), so that nothing of it can disturb the job.
// All other children are the job's.
#pragma once

#include "base/error.h"
#include "knowledge/know.h"
#include "report/run/run.h"
#include "unhang/unhang.h"

#define TRY_BEGINS "try" // a line of the file `run`, behind which a try follows
// In the directory of a try:
#define RUN_UNCALLED "ROCm's runtime was started in " // how `lacking` begins where ROCm was there, and did not call the recorder
#define JOB_CORE "gpucore."              // what ROCm writes, behind it the process; what the recorder writes, with .light
#define JOB_PROCESS_CORE "core."         // what the kernel writes
#define JOB_AGENT_FILE "debug-agent.txt" // what the debug agent writes
#define JOB_OUTPUT "output"              // the last that the job wrote to standard output and standard error
enum { JOB_OUTPUT_KEPT = 256 << 10 };    // of each
#define JOB_INPUTS "inputs"              // of kernels, at level 10
#define JOB_CONTAINER "container.json"   // what Docker or Podman says of the container that it started
struct job_copy;
/** Saves it in @directory, as far as it is known. In a child: it may lie where nobody answers. */
struct uh_error *copy_save(const struct job_copy *c, const char *directory);

/** What is to be studied. */
struct job_study {
	const struct run_told *run;
	const struct run_try *of; // the try that has ended, or is about to
	const char *directory;    // of the try: bundle and diagnosis go there
	const char *recordings;   // directory
	const int64_t *pids;      // of the job
	size_t npids;
	const struct job_copy *copy; // of its output; NULL: there is none
	bool capture;                // take a bundle, too
	bool output;                 // nothing but its output: the rest was studied while it ran
	bool starved;                // memory ran out in a group that others share: it is the job's if its words tell of a kill
	bool elsewhere;              // another rank of the node has taken it
	int64_t deadline_ms;
	const struct uh_run_options *options;
};

/** The job's queues stand still, and the GPUs are looked at. */
struct job_look {
	const char *recordings; // directory
	int64_t stood_ms;       // so long the queues stood
	int64_t seen_ms;        // so long the GPU did, by the looks before
	int64_t hung_after;     // seconds, in place of what knowledge/progress.know says; 0: as it says
};

/** What others do for it, in a child. Answers are lines of KEY VALUE (keys of struct run_try), which the child writes to @to. */
struct job_hands {
	/** Saves and explains: class, title, fault, gpu, kernel, place, packet, launch, ... */
	void (*study)(void *ctx, const struct job_study *s, FILE *to);
	/** Decides by the table: row, act, reason, propose, next_level. @of has what study() found. */
	void (*decide)(void *ctx, const struct job_study *s, FILE *to);
	/** Whether the GPUs of the job move: lines of KEY VALUE, pace (enum pace), look (a vote), says, votes. None: nobody knows. */
	void (*look)(void *ctx, const struct job_look *l, FILE *to);
	/** The variables of a profile: NAME=VALUE lines, or a line `error ...`. */
	void (*profile)(void *ctx, const char *path, FILE *to);
	/** Runs the hooks, and writes the crash diagnostics: complaints. */
	void (*finish)(void *ctx, const struct job_study *s, FILE *to);
	void *ctx;
};

struct job_result {
	struct arena arena;
	struct run_told run;
	int status; // the job's: 128 and more where a signal ended it
};
/** @o->state_dir says where: each run has a directory below it. The error is that the job was not started. */
struct uh_error *job_run(const struct uh_run_options *o, const struct job_hands *hands, void (*tell)(const char *line),
			 struct job_result *ret);
/** Completes the reports of runs below @state_dir that were killed, and removes old ones. */
void job_complete(const char *state_dir, const struct job_hands *hands, void (*tell)(const char *line));
void job_result_free(struct job_result *r);

// --- what helpers of a run call ---

/** @level, or the highest that is allowed: above it the user's data is stored. */
int64_t job_level(const struct uh_run_options *o, int64_t level);
/** What follows from a try, by the table `escalation` of knowledge. Fills in fingerprint, kind, and the decision of @t, the last of the
 * run's tries. */
void job_decide(const struct know *k, const struct job_study *s, struct arena *a, struct run_try *t);
/** `300 MiB`, `4.0 GiB`; empty where it is not known. */
struct str job_size_say(struct arena *a, int64_t bytes);
/** The variables for one job that `unhang doctor --apply` writes: lines of `export NAME='VALUE'` become lines of NAME=VALUE. false: *@ret_wrong
 * is a line that no profile has. */
bool profile_parse(struct str text, struct text *to, struct str *ret_wrong);
