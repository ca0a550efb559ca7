// What the files of the watch share.
#pragma once

#include "base/child.h"
#include "diagnose/engine.h"
#include "evidence/reader.h"
#include "store/store.h"
#include "watch/hand.h"
#include "watch/progress.h"
#include "watch/tell.h"
#include "watch/watch.h"

enum { CASES_MOST = 96, GPUS_MOST = 64, BUNDLES_MOST = 64 };

enum { PROGRESS_TOLD = 400, HUNG_CHECK_MS = 30000 };

enum case_capture { CAPTURE_NONE, CAPTURE_WANTED, CAPTURE_DONE };

/** An incident while it is watched. */
struct watch_case {
	struct arena arena;
	struct stored stored;
	uint64_t order;      // the engine's number of it
	bool live;           // the engine still has it
	bool known;          // it was told, and is on the disk
	bool causeless;      // it was concluded, and has no cause that is worth telling
	bool dirty;          // what is on the disk is old
	bool hooks_wanted;   // they are to be told of its state
	unsigned hook_tries; // how often who ran them was killed
	bool explain_wanted; // its bundle is new; or it is over, and the log has more of it than its bundle. Before the hooks
	bool unexplained;    // its bundle could not be explained: that is tried once more
	bool done;           // nothing is left to do
	enum case_capture capture;
	struct str taken; // what came of the capture; in the record when it is explained, so that a restart explains it
	uint64_t signs;   // that were there when it was last concluded
	int64_t due;      // when it may be concluded next
	int64_t wait;     // and the pause behind that
	int64_t check;    // when to look whether the GPU is well again; 0: not
	int64_t patience; // the pause behind that look
	int64_t retry;    // when to write it again
	uint64_t lacked;  // free bytes from which on its bundle is tried again, since the disk was full; 0: not
};

enum job_kind { JOB_NONE, JOB_CAPTURE, JOB_LOOK, JOB_EXPLAIN, JOB_HOOKS };

struct watch_job {
	enum job_kind kind;
	int fd;                // what it writes
	struct watch_case *of; // NULL: of none
	struct text answer;
	int64_t deadline;
};

enum { HOLDS_MOST = 16, HOLD_PATH = 200 };

/** A program that met a fault and asked the watch to look before it ends. */
struct watch_hold {
	char path[HOLD_PATH]; // of its recording, below /dev/shm
	uint32_t number;
	int64_t until; // then it goes on by itself
	bool stands;   // it was answered, and stands still
};

/** A bundle of the last hour, and what it was of: hashes of the class, the fingerprint and the process. */
struct taken_bundle {
	int64_t when;
	uint64_t class, fingerprint, process;
};

struct watcher {
	const struct watch_options *options;
	const struct know *know;
	struct watch_settings settings;
	struct watch_voice voice;
	struct engine *engine;
	struct evidence_reader *evidence;
	int hand;                       // what has rights (hand.h)
	int disk;                       // where incidents are stored: how much room there is; -1
	int eye, pulse;                 // what they send; -1: there is none
	struct text inbox, pulse_inbox; // from the eye, and from the pulse
	int64_t eye_began, eye_again;   // when the newest eye was started, and when another one is to be; -1: not
	int64_t eye_due;                // when something must have come from it
	bool log_failed;                // it said that it cannot read the log
	int64_t pulse_due;              // when something must have come from the pulse; 0: never
	bool ready;                     // what the log had at the start was read
	bool stop, reload;
	bool root; // it began as root, and sees everything
	char host[256], boot_id[64];
	int64_t clock_ms; // what to add to now_ms() for the kernel's clock
	uint64_t lost;
	struct text unread, uncounted; // why the log is not read, and progress not counted; empty: it is
	char log_boot[64];             // of the records that are read now: an earlier boot's are those of the journal
	int64_t log_began_us;          // when that earlier boot began, since 1970
	struct store_place place;      // up to where the log was stored when it began
	struct store_place read, kept; // up to where it was read, and up to where the disk says that all is stored
	int64_t read_at;               // when the last record came
	int64_t keep_due;              // when that is to be written again
	VEC(struct watch_case *) cases;
	struct stored_list before; // what was stored when it began
	struct watch_job job;
	bool look_wanted;
	int64_t looked;
	struct arena gpus_arena;
	struct watched_gpu gpus[GPUS_MOST];
	size_t ngpus;
	struct watched_progress *progress; // of GPUS_MOST GPUs
	size_t nprogress;
	int64_t asked;                             // when it was last asked whether an operator closes one
	bool state_old;                            // state.json is
	int64_t state_due;                         // when it is to be written anew, so that it stays valid
	struct taken_bundle bundles[BUNDLES_MOST]; // in the last hour
	size_t nbundles;
	struct watch_hold holds[HOLDS_MOST];
	size_t nholds;
};

/** Whether a GPU makes progress, as far as is known. */
struct watched_progress {
	char pci[32];
	struct gpu_progress progress;
	enum pace pace;
	int64_t seconds;          // for which nothing moved, by the votes
	char says[PROGRESS_TOLD]; // what is told of it; empty
};

int64_t watch_kernel_ms(const struct watcher *w);

// cases.c: from incidents of the engine to cases
/** As incident_sink.incident() and incident_sink.joined(). */
void cases_closed(void *ctx, struct incident *i);
void cases_joined(void *ctx, uint64_t from, uint64_t to);
/** Concludes what is open and has news. */
void cases_follow(struct watcher *w, int64_t now);
/** An event of now that others than the log tell; the log may tell it too. */
void cases_second(struct watcher *w, struct event *e);
/** Evidence appeared, of which no line of the log told. */
void cases_evidence(struct watcher *w, struct str gpu);
/** The program @pid stands still for its evidence to be saved: that begins now. @gpu: empty where it uses several. */
void cases_held(struct watcher *w, struct str gpu, int64_t pid, int64_t now);
/** Takes what a look said of the GPUs into account; if it did not answer, there will be another. */
void cases_looked(struct watcher *w, int64_t now, bool answered);
/** When something is due next; -1: never. */
int64_t cases_next(const struct watcher *w, int64_t now);
/** An incident that nobody but a look tells of; NULL: there are too many. */
struct watch_case *case_begin_look(struct watcher *w, struct str gpu, struct str title);
/** Takes the evidence of it, unless there is some. */
void case_want_capture(struct watcher *w, struct watch_case *c);
/** An empty one; NULL: there are too many. */
struct watch_case *case_add(struct watcher *w);
/** Whether it is known to be of another process. */
bool case_is_others(const struct stored *i, int64_t pid);
void case_set(struct watch_case *c, struct str *to, struct str value);
void case_name_program(struct watch_case *c, struct str name);
/** Whether it lasts until the machine is started again: the machine itself is at fault, and looks well meanwhile. */
bool case_lasts(const struct stored *i);
void case_close(struct watcher *w, struct watch_case *c, struct str why);
void case_save(struct watcher *w, struct watch_case *c, int64_t now);
void case_announce(struct watcher *w, struct watch_case *c, const char *what);
/** Closes what an operator wants closed. */
void cases_close_asked(struct watcher *w, int64_t now);
/** When that is to be asked for again; -1: nothing is open. */
int64_t closings_next(const struct watcher *w, int64_t now);
/** A user can make programs fault as fast as he likes. What is not the node's gives way, the oldest first: an error of the hardware must find
 * a place, and nobody acts on a hundred faults of programs one by one. */
void closings_make_room(struct watcher *w);
void cases_sweep(struct watcher *w, int64_t now);
void cases_free(struct watcher *w);

// restart.c: what an earlier run of the watch stored
void case_copy(struct watch_case *c, const struct stored *from);
/** What is stored of it already: by its id, or where its first lines are gone from the log, by GPU, process and time. */
const struct stored *restart_found(const struct watcher *w, struct str id, const struct stored *now);
/** Whether an earlier run has stored and told it, and its vacuum removed it since. */
bool restart_knows(const struct watcher *w, const struct stored *i);
/** Closes what an earlier boot had, unless a new boot does not mend it. */
void case_close_boot(struct watcher *w, struct watch_case *c);
/** What is stored as closed ends, while the log is read once more, where it ended then: what came later is another. */
void cases_replay(struct watcher *w, double seconds);
/** All that was in the log was read: what is stored but was not met again is gone on with. */
void cases_adopt(struct watcher *w);
/** Notes on the disk up to where all that was read is stored. */
void restart_keep(struct watcher *w, int64_t now);

// state.c
/** Makes the directory and takes its lock: two watches on one would tell everything twice. */
struct uh_error *state_take(const char *directory, int *ret_lock);
/** Writes state.json, which is valid for a while: whoever reads it later knows that nobody watches. */
void state_write(struct watcher *w);

// suspicions.c: hangs that nobody reports
/** Takes votes: the first line is the GPU's PCI address. @deep: of a look. */
void votes_take(struct watcher *w, struct str text, bool deep, int64_t now);
/** What the votes make of each GPU: looks that are due, suspicions, hangs, and the end of them. */
void suspicions_follow(struct watcher *w, int64_t now);
/** A look at all GPUs begins. */
void suspicions_look(struct watcher *w, int64_t now);
/** Names the program and the job of its GPU, as far as the pulse knows them. */
void suspicions_name_job(struct watcher *w, struct watch_case *c);
/** The pulse is a new one, or gone: what it said counts no more. */
void suspicions_forget(struct watcher *w);

// holds.c: programs that stand still for the watch
/** Takes what the pulse tells of one. */
void holds_take(struct watcher *w, struct str text, int64_t now);
/** Lets those go whose evidence is saved, or is not going to be. */
void holds_follow(struct watcher *w, int64_t now);
/** When one of them is over; -1: there is none. */
int64_t holds_next(const struct watcher *w);

// jobs.c: children, one at a time; how many bundles there may be in an hour
/** The GPU at @pci as the newest look saw it; NULL: it is none that is watched. */
const struct watched_gpu *watched_gpu(const struct watcher *w, struct str pci);
/** How many more there may be at all. */
int64_t quota_left(struct watcher *w, int64_t now);
/** Why there is none for this incident; empty: there is, and it counts from now on. The first of a class always has one. */
struct str quota_take(struct watcher *w, const struct stored *i, int64_t now);
/** Counts those that an earlier run of the watch took. */
void quota_remember(struct watcher *w);
void jobs_start(struct watcher *w, int64_t now);
/** Reads what the child says, and ends it where it is late. */
void jobs_go_on(struct watcher *w, int64_t now);
void jobs_stop(struct watcher *w);
/** Whether a bundle is missing since the disk was full. */
bool jobs_lack_room(struct str said);
/** Of a capture that runs: whether all is saved, and it packs or explains. */
bool jobs_saved(const struct watcher *w);
