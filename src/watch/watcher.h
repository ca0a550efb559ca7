// The watcher: all that the process which judges knows, and what its files do for each other.
#pragma once

#include "base/child.h"
#include "diagnose/engine.h"
#include "evidence/reader.h"
#include "evidence/recording/hold.h"
#include "store/history/line.h"
#include "store/store.h"
#include "store/trend.h"
#include "watch/keeper.h"
#include "watch/life.h"
#include "watch/progress.h"
#include "watch/pulse/holds.h"
#include "watch/tell.h"
#include "watch/watch.h"

enum { CASES_MOST = 96, GPUS_MOST = 64, BUNDLES_MOST = 64 };

enum {
	PROGRESS_TOLD = 400,
	CHECK_FIRST_MS = 30000, // before the second look at a GPU that is not well
};

enum job_kind { JOB_NONE, JOB_CAPTURE, JOB_LOOK, JOB_EXPLAIN, JOB_HOOKS, JOB_NOTE, JOB_SHIP };

struct watch_job {
	enum job_kind kind;
	int fd;                // what it writes
	struct watch_case *of; // NULL: of none
	struct text answer;
	int64_t deadline;
};

enum { HOLD_PATH = 200 };

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
	int64_t now; // of this turn, by now_ms(): time is an input like any other, so that a test says what time it is
	struct watch_voice voice;
	struct engine *engine;
	struct evidence_reader *evidence;
	int keeper;                         // what has rights (keeper.h)
	int disk;                           // where incidents are stored: how much room there is; -1
	int reader, pulse;                  // what they send; -1: there is none
	struct text inbox, pulse_inbox;     // from the log reader, and from the pulse
	int64_t reader_began, reader_again; // when the newest log reader was started, and when another one is to be; -1: not
	int64_t reader_due;                 // when something must have come from it
	bool log_failed;                    // it said that it cannot read the log
	int64_t pulse_due;                  // when something must have come from the pulse; 0: never
	bool ready;                         // what the log had at the start was read
	bool stop, reload;
	bool root; // it began as root, and sees everything
	char host[SOURCE_HOST_MAX], boot_id[64];
	int64_t clock_ms; // what to add to now_ms() for the kernel's clock
	uint64_t lost;
	struct text unread, uncounted; // why the log is not read, and progress not counted; empty: it is
	struct str unlisted;           // why there may be GPUs that a look did not find, in gpus_arena
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
	VEC(struct watch_hold) holds;         // HOLDS_KEPT at most
	int64_t work_due, note_due, ship_due; // of the diary; 0: not yet known
	size_t work_cases;                    // when its last line of work was due
	uint64_t noted;                       // hash of how the machine is set up, as it was told last
	struct trend corrected;               // errors that are not yet kept, by PCI address
	bool unshipped;                       // the history has lines that were not brought to others
};

enum { DIARY_SAMPLES = 60 }; // ten minutes

/** What of a GPU goes into the history. */
struct gpu_diary {
	int64_t since;            // seconds since 1970: what follows is counted from then on
	int64_t counted, busy_ms; // up to when, on the clock of the watch, and what it worked
	struct history_sample samples[DIARY_SAMPLES];
	size_t nsamples, sent; // the first of them were told
	int64_t sampled;       // when that was
};

/** Whether a GPU makes progress, as far as is known. */
struct watched_progress {
	char pci[32];
	struct gpu_progress progress;
	enum pace pace;
	int64_t seconds;          // for which nothing moved, by the votes
	char says[PROGRESS_TOLD]; // what is told of it; empty
	struct gpu_diary diary;
};

/** Now, on the kernel's clock. */
int64_t watch_kernel_ms(const struct watcher *w);
/** A time of the boot whose records are read now, in seconds since 1970. */
int64_t watch_wall(const struct watcher *w, int64_t kernel_us);

// life.c, beside the table: the list of cases
/** An empty one; NULL: there are too many. */
struct watch_case *case_add(struct watcher *w);
/** Forgets what is over, told and stored. What the engine still has would come back: that stays. */
void cases_forget(struct watcher *w);
void cases_free(struct watcher *w);
/** Whether something is still to be done for one of them. */
bool cases_busy(const struct watcher *w);

// cases.c: what the engine, looks, holds and uevents tell becomes an input of a case
/** As incident_sink.incident() and incident_sink.joined(). */
void cases_closed(void *ctx, struct incident *i);
void cases_joined(void *ctx, uint64_t from, uint64_t to);
/** Concludes what is open, has news, and is due at @now. */
void cases_follow(struct watcher *w, int64_t now);
/** An event of now that others than the log tell; the log may tell it too. */
void cases_second(struct watcher *w, struct event *e);
/** Evidence appeared, of which no line of the log told. */
void cases_evidence(struct watcher *w, struct str gpu);
/** A program stands still for its evidence to be saved: that begins now. */
void cases_held(struct watcher *w, const struct hold_told *told);
/** An incident that nobody but a look tells of. First that is a suspicion, which nobody is woken for. NULL: there are too many. */
struct watch_case *cases_suspect(struct watcher *w, struct str gpu, struct str title);
/** Takes what a look said of the GPUs into account; if it did not answer, there will be another. */
void cases_looked(struct watcher *w, bool answered);
/** Closes what was quiet for long, what an operator wants closed, and what there is too much of; asks for looks; forgets what is over. */
void cases_sweep(struct watcher *w);
/** When something is due next; -1: never. */
int64_t cases_next(const struct watcher *w);
/** case_input() of INPUT_CLOSE or INPUT_MOVES, with the reason that the record is to have. */
void case_close(struct watcher *w, struct watch_case *c, enum case_input input, struct str why);
/** Names its program. A job of a scheduler, which the record names behind the program, stays: the program may be gone by now. */
void case_name_program(struct watch_case *c, struct str name);

// A watch that begins goes on with what an earlier one stored: the log is read once more, and each incident is found again.
/** What is stored as closed ends, while the log is read once more, where it ended then: what came later is another. */
void cases_replay(struct watcher *w, double seconds);
/** All that was in the log was read: what is stored but was not met again is gone on with. */
void cases_adopt(struct watcher *w);
/** Notes on the disk up to where all that was read is stored. */
void cases_keep_place(struct watcher *w);

// state.c
/** Makes the directory and takes its lock: two watches on one would tell everything twice. */
struct uh_error *state_take(const char *directory, int *ret_lock);
/** Writes state.json, which is valid for a while: whoever reads it later knows that nobody watches. */
void state_write(struct watcher *w);

// suspicions.c: hangs that nobody reports
/** Takes votes: the first line is the GPU's PCI address. @deep: of a look. */
void votes_take(struct watcher *w, struct str text, bool deep);
/** What the votes make of each GPU: looks that are due, suspicions, hangs, and the end of them. */
void suspicions_follow(struct watcher *w);
/** A look at all GPUs begins. */
void suspicions_look(struct watcher *w);
/** Errors that the driver counted: an incident where its log, which comes first, has not told them. */
void errors_take(struct watcher *w, struct str text);
/** Names the program and the job of its GPU, as far as the pulse knows them. */
void suspicions_name_job(struct watcher *w, struct watch_case *c);
/** The id of the incident that the newest look found on a GPU; empty: it found none. */
struct str suspicions_incident(const struct watcher *w, struct str pci);

// diary.c: what goes into the history
/** Counts the time since the last call: before what the GPU does becomes another. */
void diary_count(struct watcher *w, struct watched_progress *p);
/** Takes what the pulse read: the GPU's PCI address, then load, watts, thousandths of a degree and bytes in use; -1: not known. */
void diary_sample(struct watcher *w, struct str text);
/** As event_sink.event(): an event of the log is the engine's. One that tells of corrected errors is counted, unless an earlier watch has. */
void diary_event(void *ctx, const struct event *e);
/** Keeps what was counted: before the place in the log is, behind which a later watch counts. */
void diary_keep(struct watcher *w);
/** Takes what a job noted of the machine: lines `item NAME VALUE`. */
void diary_noted(struct watcher *w, struct str answer);
/** Writes what is due. */
void diary_follow(struct watcher *w);
/** The watch ends: what was counted is written. */
void diary_end(struct watcher *w);
/** Whether the job is due; then it counts as begun. */
bool diary_note_wanted(struct watcher *w);
bool diary_ship_wanted(struct watcher *w);
/** When something is due; -1: nothing is. */
int64_t diary_next(const struct watcher *w);

// holds.c: programs that stand still for the watch
/** Takes what the pulse tells of one. */
void holds_take(struct watcher *w, struct str text);
/** Lets those go whose evidence is saved, or is not going to be. */
void holds_follow(struct watcher *w);
/** When one of them is over; -1: there is none. */
int64_t holds_next(const struct watcher *w);

// jobs.c: children, one at a time; how many bundles there may be in an hour
/** The GPU at @pci as the newest look saw it; NULL: it is none that is watched. */
const struct watched_gpu *watched_gpu(const struct watcher *w, struct str pci);
/** Whether another card is in the slot than the one that failed, in an earlier boot. */
bool watched_other_card(const struct watcher *w, const struct stored *i);
/** How many more bundles there may be at all. */
int64_t quota_left(struct watcher *w);
/** Counts those that an earlier run of the watch took. */
void quota_remember(struct watcher *w);
/** Starts the next that is to be done, where none runs. */
void jobs_start(struct watcher *w);
/** Reads what the child says, and ends it where it is late. */
void jobs_go_on(struct watcher *w);
/** It has said all that it will. @good: it came to its end. */
void jobs_end(struct watcher *w, bool good);
/** Ends it. What it was to do is done later, as the state of its case asks for it. */
void jobs_stop(struct watcher *w);
/** Whether a bundle is missing since the disk was full. */
bool jobs_lack_room(struct str said);
/** Of a capture that runs: whether all is saved, and it packs or explains. */
bool jobs_saved(const struct watcher *w);
