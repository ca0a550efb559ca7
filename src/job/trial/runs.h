// Runs of a job that are counted: each is started, watched, ended and judged by itself, some beside each other.
#pragma once

#include "base/arena.h"
#include "base/error.h"

enum { RUNS_AT_ONCE = 16, RUNS_ALL = RUNS_AT_ONCE, NOT_STARTED = 127 };

/** When a run counts as failed: any of these. */
struct fails_if {
	bool status, hang;
	int64_t status_is;   // -1: any but 0
	struct str contains; // in its output; empty: it does not matter
	struct str nan_in;   // a file that it writes; empty: none
};
/** `status`, `status=N`, `hang`, `output=TEXT`, `nan=FILE`, with ` or ` between them. The error says what is wrong. */
struct uh_error *fails_if_parse(struct str text, struct fails_if *ret);
/** Whether there is a NaN in a file: in the numbers of .npy, or as a word of a text. */
enum nan_answer { NAN_NONE, NAN_THERE, NAN_UNKNOWN };
enum nan_answer nan_look(struct str bytes);

struct run_ended {
	bool failed, hung;
	int status; // 128 and more: a signal
	unsigned waits_lost;
	unsigned gpu; // struct runs has what it counts
	double seconds;
	char recordings[128]; // the directory with its recordings, which the caller removes; empty: none
};

/** What a run has changed. */
struct trial_change {
	const char *table;      // of the recorder; NULL: none
	bool record;            // with the flight recorder as unhang run has it
	char *const *command;   // in place of the job's, which is in it; NULL: the job's
	const char *const *env; // NAME=VALUE, behind those of the job
	size_t nenv;
};

struct runs {
	char *const *command;
	const char *recorder;   // NULL: none
	const char *const *env; // NAME=VALUE
	size_t nenv;
	struct fails_if fails;
	unsigned hang_after; // seconds
	unsigned enough;     // seconds after which a run is ended and has passed; 0: it goes on
	unsigned gpus;       // each run has one of so many, in turn; 0: all that the job sees
	unsigned without;    // one of these that it does not get; RUNS_ALL: it gets any
	const char *visible; // of the machine's GPUs those that the job may see (ROCR_VISIBLE_DEVICES); NULL: all
	const char *output;  // where the output of the newest failed run is kept; NULL: nowhere
	char place[64];      // of tables and recordings
	unsigned number;     // of the next run
	int keeper;          // who clears the place if this process is killed; -1: nobody
	int stop_fd;         // of signals by which somebody wants it to end; -1: none
	bool stop;           // somebody did
};
/** Makes the place. */
struct uh_error *runs_begin(struct runs *r);
void runs_end(struct runs *r);
/** Has @n runs made at once, RUNS_AT_ONCE at most. @keep: its recordings are kept. false: it was stopped, or cannot be started: *ret_error. */
bool runs_make(struct runs *r, const struct trial_change *c, unsigned n, bool keep, struct run_ended *ret, struct uh_error **ret_error);
/** How many of @n runs may be made at once: as many as there are GPUs for. */
unsigned runs_at_once(const struct runs *r, unsigned n);
/** The GPU that the next run gets, from 0, and the variables that say so. */
unsigned runs_gpu(const struct runs *r);
void runs_gpu_variables(const struct runs *r, unsigned gpu, struct arena *a, const char *ret[static 2]);
/** Whether somebody wants it to end. */
bool runs_stopped(struct runs *r);
void runs_drop(const char *recordings);
/** Starts who clears the place if this process is killed. It ends when what is returned is closed; -1: there is nobody. */
int keeper_begin(const char *place);
/** In a child of @trial: it becomes the process that ends what the job leaves, and ends as the job did. SIGTERM ends it all. Only the job's own
 * process returns from this. */
void reaper_begin(int trial);
/** Whether it is a place as runs_begin() makes them, and ours: what stands in a file may name anything. */
bool runs_is_place(const char *path);
