// A run under its supervisor: the process that starts the job stays beside it until nothing of it is left. What the files of job/ share.
#pragma once

#include <dirent.h>
#include <signal.h>
#include <sys/types.h>
#include <termios.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "evidence/recording/head.h"
#include "evidence/recording/hold.h"
#include "job/job.h"
#include "job/life.h"
#include "source/process.h"

/** The directory that is open as *@fd, which it takes; NULL: none is, and *@fd is as it was. */
static inline DIR *dir_of(int *fd)
{
	DIR *d = *fd < 0 ? NULL : fdopendir(*fd);
	if (d)
		*fd = -1;
	return d;
}
/** The name of the next thing in it; NULL: there is none, or no directory. */
static inline const char *dir_next(DIR *d)
{
	const struct dirent *e = d ? readdir(d) : NULL;
	while (e && (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")))
		e = readdir(d);
	return e ? e->d_name : NULL;
}

// --- start.c: the job has the terminal; afterwards it is as it was ---
struct terminal {
	int fd; // -1: there is none
	pid_t foreground;
	struct termios modes;
};
void terminal_save(struct terminal *t);
/** Modes and foreground again, where the job died with the terminal in its hands. */
void terminal_restore(const struct terminal *t);
/** Whether a shell with job control would see us stop. */
bool terminal_job_control(const struct terminal *t);

// --- start.c: what the job would have without us ---
enum { SIGNALS_KEPT = 10 };
struct signals {
	int fd;                              // signalfd
	sigset_t mask;                       // that we were started with
	struct sigaction kept[SIGNALS_KEPT]; // dispositions, too
};
void signals_take(struct signals *s);
/** Mask and dispositions as they were. */
void signals_give_back(const struct signals *s);
/** Whether our parent ignored it, and with it the job does. */
bool signals_ignored(const struct signals *s, int signal);

// --- processes.c ---
enum { PIDS_MOST = 4096, DUMPED_MOST = 16, HELPERS_KEPT = 16, REAPED_KEPT = 16, BEFORE_MOST = 256 };
struct pid_list {
	int64_t list[PIDS_MOST];
	size_t n;
};
struct job_group;
struct helper;
/** All that descend from this process or are in the group, but for the helpers and what descends from them. Zombies are left out. */
void tree_list(const struct helper *h, const struct job_group *g, struct pid_list *ret);
/** Finds who is our child before the job starts: a script that becomes us by `exec` has started them, and they are not the job's. */
void tree_note_before(struct helper *h);
/** Whether a process is of the job, by its parents. A zombie is, too. */
bool tree_descends(const struct helper *h, int64_t pid);
void tree_signal(const struct pid_list *p, int signal);
/** `python (4242), sh (4243)` */
struct str tree_say(struct arena *a, const struct pid_list *p);
/** Bytes that the processes have handed to write() until now. */
uint64_t tree_written(const struct pid_list *p);

// --- group.c: control groups ---
/** A group of version 2 that a try has for itself. fd -1: there is none, and the tree of processes has to do. */
struct job_group {
	int fd;                 // its directory
	struct str path, mount; // the mount that it lies below
};
/** Makes one below that of this process, where it may. */
void group_begin(struct job_group *g, struct arena *a, struct str name);
void group_list(const struct job_group *g, struct pid_list *to);
/** SIGKILL to all that are in it. */
void group_kill(const struct job_group *g);
/** Removes it, unless processes are in it. */
void group_end(struct job_group *g);
enum { GROUP_NAME = 160 }; // of the name of a run so much is in that of its groups
/** Removes the group that a run noted, if it is one, and of that run. */
void group_remove_noted(struct str path, struct str run_id);

struct oom_figures {
	struct str group;           // the directory that counts
	int64_t kills, peak, limit; // -1: not known
	bool own;                   // nobody but the job is in it
};
/** Of the job's own group or of that of this process, of either version. */
void oom_read(const struct job_group *g, struct arena *a, struct oom_figures *ret);
/** Of a group that an earlier process noted. */
void oom_read_left(struct str group, struct arena *a, struct oom_figures *ret);

/** Who has GPU memory, other than @own; empty: nobody, or KFD does not tell. *@ret_ours: a process of @own is among them. */
struct str holders_say(struct arena *a, const struct pid_list *own, const char *run_id, bool *ret_ours);

/** Processes of the job that cannot be recorded, or are not, as `python (4242)`; empty: none. */
struct job_strangers {
	struct str bare;     // without the variables of the run, or another user's
	struct str uncalled; // with them, and ROCm's runtime has started without a call of the recorder
};
void strangers_find(struct arena *a, const struct pid_list *pids, const char *run_id, struct job_strangers *ret);
#define SURVIVORS "Processes of it still run: "
/** A sentence on the processes that a run which was killed left running, as far as this user may know. */
struct str survivors_say(struct arena *a, const char *run_id);

// --- hang.c: whether the job moves, by its recordings ---
struct votes_call {
	struct recorded_call of; // the call into the runtime that has lasted longest; age 0: none lasts
	int64_t pid, rank;
};
/** What one look at all recordings saw. */
struct votes_seen {
	uint64_t sum;   // of all that moves
	uint64_t clock; // of the recorders, all together
	uint64_t packets;
	unsigned recordings;
	unsigned waiting, working; // processes that have work on a GPU, or a call that does not return; a queue, and none on it
	bool in_flight;            // work is on a GPU
	bool gap;                  // a recording says that there was no room for all
	bool lost;                 // one is empty or cannot be read: its process could not be recorded, or somebody changed it
	uint64_t removed;          // recordings of processes that have ended, which later ones had no room beside
	bool calls;                // they were looked at
	struct votes_call call;
};
struct votes {
	struct votes_seen seen;
	int64_t moved;         // when the sum last did
	int64_t ticked;        // when the clock last did
	int64_t calls_due;     // when calls are looked at again
	int holds[HOLDS_KEPT]; // recordings of processes that a fault holds for us; we have answered
	size_t nholds;
	struct pid_list computed; // processes that recorded
};
/** Looks at all recordings of @directory, and answers processes that a fault holds. */
void votes_look(struct votes *v, const char *directory, int64_t now);
/** For how many milliseconds all of them still stand still; -1: one still writes its core. */
int64_t votes_held(const struct votes *v);
/** Lets them go on to their end. */
void votes_release(struct votes *v);

// --- copy.c: what the job writes, where that is no terminal ---
enum { COPIES = 2 }; // standard output, standard error
enum copy_kind { COPY_NOT, COPY_FILE, COPY_PIPE };
struct copy_shared;
struct copy_stream {
	enum copy_kind kind;
	int for_job;         // what the job gets in place of ours; -1: what we have
	uint64_t begin, end; // in a file
};
struct job_copy {
	struct copy_stream streams[COPIES];
	bool same;        // both go to the same place
	bool lacking;     // nobody could be put between the job and its pipe
	pid_t pid, owner; // of the process that hands on, 0: there is none; of ours
	int nudge;        // wakes it
	struct copy_shared *shared;
};
/** Before the job is started. @directory: of the try, where the output is saved if we are killed. */
void copy_begin(struct job_copy *c, const char *directory);
/** In the job's process: its standard output and error. */
void copy_become(const struct job_copy *c);
/** The job has them now, or was not started. */
void copy_started(struct job_copy *c);
/** Whether all that the job wrote until the first such call has reached who reads it. */
bool copy_handed_on(struct job_copy *c);
/** Notes how far the output is by now, for copy_save(). false: there is none. */
bool copy_mark(struct job_copy *c);
/** What still writes goes on to do so, through a process that we leave behind. */
void copy_end(struct job_copy *c);

// --- show.c: whether the job says something ---
struct output {
	uint64_t sum;
	int64_t changed;
	int64_t late_ms; // so much later something may still have been written
};
void output_look(struct output *o, const struct helper *h, const struct job_group *g, int64_t now);

// --- helper.c: the one child that is not the job's ---
enum helper_kind { HELPER_NONE, HELPER_LOOK, HELPER_STUDY, HELPER_DECIDE, HELPER_PROFILE, HELPER_FINISH };
struct helper {
	enum helper_kind kind;
	struct child child;
	struct text answer;
	int64_t deadline;
	bool gone;                    // it was reaped
	pid_t copier;                 // hands on the job's output: not the job's either
	pid_t sessions[HELPERS_KEPT]; // of the newest ones: what they leave behind becomes our child, and is not the job's
	size_t nsessions;
	// of tree_note_before()
	struct {
		int64_t pid;
		uint64_t began;
	} before[BEFORE_MOST];
	size_t nbefore;
};
/** Begins one of the hands, in a child: @about is what that hand takes. */
bool helper_begin(struct helper *h, const struct job_hands *hands, enum helper_kind kind, const void *about,
		  int64_t milliseconds);
/** Reads what it says. true: it has ended, or is late and was killed. */
bool helper_go_on(struct helper *h, int64_t now);
void helper_end(struct helper *h);

// --- the supervisor ---
struct supervisor {
	const struct uh_run_options *options;
	const struct job_hands *hands;
	void (*tell)(const char *line);
	struct arena *arena;
	struct run_told *run;
	VEC(struct run_try *) tries;
	struct signals signals;
	struct terminal terminal;
	struct helper helper;
	const char *directory, *recordings;
	int lock;                   // on the directory
	struct str profile, repeat; // lines of NAME=VALUE
	int64_t deadline;           // of all tries; 0: none
	int64_t silent_ms, hang_ms; // --timeout-silent, 0: none; --hang-after
	int64_t delay_ms;           // before the next try
	int asked;                  // the signal by which somebody wants us to end; 0
	int64_t asked_at;
	int64_t passed;      // when the loop last went round
	bool missing;        // the command could not be started
	bool shows;          // a progress line is on the terminal
	struct life life;    // of the try that there is, or of the one that waits to begin
	struct job_try *now; // the try while it has processes; NULL: no job runs
};

/** Looks at the GPU while the queues stand still. */
struct job_looks {
	int64_t moved;      // since when they stand
	int64_t due, pause; // the next look
	int64_t since;      // since when the GPU stands, by the looks; 0: it does not
	bool blind;         // nobody can look
	struct str saw;     // what the last look that saw it stand said
};

/** A try while it runs. */
struct job_try {
	struct run_try *told;
	const char *directory; // of the try
	pid_t root;
	struct oom_figures
		starved; // memory ran out in a group that others share, and nobody knows yet whose; kills 0: it did not
	int status;      // as waitpid() has it
	int64_t began;
	struct votes votes;
	struct output output;
	struct job_copy copy;
	struct job_group group;
	int64_t stood_ms;          // so long the queues had stood when somebody wanted it to end
	unsigned killed;           // processes that SIGKILL ended, though we did not send it
	pid_t reaped[REAPED_KEPT]; // its newest processes that have ended
	size_t nreaped;
	int own_signal; // that a process of the job sent to us, with its whole group mostly
	int64_t output_due, show_due, strangers_due;
	struct job_strangers strangers; // as long as nothing was recorded
	bool first;                     // of its node to save
	struct job_looks looks;
	struct pid_list pids; // as of the last look
	struct {
		int64_t list[DUMPED_MOST];
		size_t n;
	} dumped; // processes that left a core
};

// start.c
/** Starts the job of a try. */
struct uh_error *start_try(struct supervisor *s, struct job_try *a);

// loop.c: from the start of a try until nothing of it is left
void attempt_run(struct supervisor *s, struct job_try *a);
/** Waits for signals and for the helper, at most @milliseconds. */
void loop_wait(struct supervisor *s, int64_t milliseconds);
/** A line for the user. With --json it is a note of the report. */
void loop_tell(const struct supervisor *s, struct str line);
/** A line on the terminal, where there is one, while the job is silent; NULL: wipes it. */
void loop_show(struct supervisor *s, const char *what);
/** Runs a helper to its end, unless somebody asks us to end. false: there is no answer. */
bool loop_help(struct supervisor *s, enum helper_kind kind, const void *about, int64_t milliseconds);

/** What helpers are told of a try. */
struct job_study study_of(struct supervisor *s, struct job_try *a);
/** Something happened to the try, or time went by: what the table says follows is done. */
void loop_step(struct supervisor *s, enum life_input i);

// hang.c
/** While a try runs: begins a look at the GPU, or ends the try, where it stands for too long. */
void hang_look(struct supervisor *s, struct job_try *a, int64_t now);
/** What the look at the GPUs said. */
void hang_take_look(struct supervisor *s, struct job_try *a, int64_t now);

// show.c
/** A line on the terminal while the job computes and is silent. */
void loop_progress(struct supervisor *s, struct job_try *a, int64_t now);

// cores.c
/** Bytes that a core may have: a part of what is free where it will lie. */
uint64_t cores_most(const struct supervisor *s);
/** Brings cores of processes to the directory of the try, where they are to be kept. */
void cores_collect(const struct supervisor *s, struct job_try *a);
/** Cores of GPUs were explained. */
void cores_drop(const struct supervisor *s, const struct job_try *a);

// ended.c
/** Whether the kernel killed for want of memory since the start; then this is how it ended. @more: what to add. */
bool ended_oom(struct arena *a, struct run_try *t, const struct oom_figures *now, const char *more);
/** How it ended, as far as this process knows. */
void ended_judge(const struct supervisor *s, struct job_try *a);
/** The job's words are known now: whether the memory that ran out was the job's, or a neighbour's. */
void ended_starved(const struct supervisor *s, struct job_try *a);
/** Somebody ended unhang while it waited for the next try. */
void ended_waiting(const struct supervisor *s, struct run_try *t);
/** The job's exit status. */
int ended_status(const struct job_try *a);

// disk.c: tries as text, a line for each value
void try_text(const struct run_try *t, struct text *to);
/** Sets what the lines say. Texts are copied to @a. */
void try_take(struct str text, struct arena *a, struct run_try *t);
struct run_try *try_new(struct arena *a);
/** Only what the status leaves open is the recordings' to say: else the end is what it was @before they were read. */
void try_keep_end(struct run_try *t, const struct run_try *before);
void run_text(const struct run_told *r, struct text *to);
void run_take(struct str text, struct arena *a, struct run_told *r);
/** Brings the run and its tries to the disk, as the next run reads them; for others; for --status-file only; both. */
struct uh_error *disk_note(const struct supervisor *s);
/** The error that nothing can be written, for the user; NULL stays NULL. */
struct uh_error *disk_refuse(struct uh_error *cannot);
/** Whether the path of the run's directory still leads to it: who may change the directory above can put a link there. */
struct uh_error *disk_check(const struct supervisor *s);
bool disk_ours(const struct supervisor *s);
void disk_report(const struct supervisor *s);
void disk_status(const struct supervisor *s);
void disk_save(const struct supervisor *s);
/** Makes the directory of the run, and reads the tries that are in it already. */
struct uh_error *disk_begin(struct supervisor *s);
/** Opens a directory that nobody but the caller can exchange, and makes it if it is not there. Nothing is made where that is not so. */
struct uh_error *own_directory(const char *path, mode_t mode, bool *ret_made, int *ret_fd);
/** Opens what nobody but us, root and the user who called can have written; a link is not followed. -1: errno EPERM says
 * that it is not believed. */
int disk_open_believed(int dir, const char *name, int flags);
#define BUNDLE_MARK ".bundle" // how the name of a file ends that says: a rank of this node saves
/** Whether this process is the first of its job on this node to save a bundle. */
bool disk_first_of_node(const struct supervisor *s, struct job_try *t);
/** The run in the directory that is open, and its tries behind it. */
void run_read(struct supervisor *s, struct run_told *r);

// disk.c: where the recordings of a run lie while its job runs
#define RECORDINGS_BEGIN "unhang-" // how the name of the directory begins
/** Makes a directory for them. */
struct uh_error *recordings_make(struct supervisor *s);
/** Whether a path is one that the run of this name can have made for this user, and leads to a directory of his alone. */
bool recordings_believed(struct str path, struct str run_id);
/** Removes the files in it, if it is a directory of ours. */
void recordings_empty(const char *path);
void recordings_remove(const char *path);

// left/left.c: runs that were killed
/** The last try of @other has no end, and nobody watches it any more. It waits: no job may run. */
void left_complete(struct supervisor *s, struct supervisor *other);
/** Completes the reports of runs that were killed. No job may run: it waits. */
void disk_complete(struct supervisor *s);

// describe.c
/** Milliseconds since 1970. */
int64_t run_now_ms(void);
/** Fills in s->run. */
void run_describe(struct supervisor *s);

/** The newest file that @pattern fits, and how much of the try was lost since. */
void checkpoint_find(const char *pattern, struct arena *a, struct run_try *t);
