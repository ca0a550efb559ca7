// What the steps of a capture share: a step is a child that saves one thing, with a deadline, and an item of the manifest that says what came
// of it. What a step writes has its name only when it is whole and on the disk, so that a capture may be killed at any moment.
#pragma once

#include <dirent.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "capture/capture.h"
#include "source/tape/bundle.h"

/** A capture at work. */
struct taking {
	const struct capture_options *options;
	struct arena *arena;
	struct manifest *manifest;
	struct tape_dead *dead;
	int dir, lock;                 // FILE.partial; what holds its lock
	const char *path;              // of it
	int64_t began, deadline, last; // when saving must end; and packing
	struct tape_budget *budget;    // of all that is saved; shared with the children
};

/** What a step's child tells its parent. */
struct step_result {
	enum item_state state;
	bool whole; // the plan's files are
	uint64_t bytes;
	char reason[480];
};

/** What a child shares with its parent while it works. */
struct step_shared {
	_Atomic int64_t moved; // when it last made progress
	struct step_result result;
};

/** A step in its child. */
struct step {
	const struct taking *capture;
	const char *name; // of the item
	const void *ctx;
	struct step_shared *shared;
};

/** How a step is run. */
struct step_plan {
	const char *name, *what;
	void (*run)(struct step *s);
	const void *ctx;
	enum child_name child; // what it may do, by the table of children
	int milliseconds;      // that it may take; with @progress: without progress
	bool progress;
	const char *files[2]; // that it writes; they get their names when it has ended, since it has no rights by then; NULL
};
/** Runs a step and notes in the manifest what came of it. Returns the item. */
struct manifest_item *step_run(struct taking *c, const struct step_plan *p);
/** Runs in a child what writes to the disk, which may not answer for minutes. The error of @write, or that it took too long. */
struct uh_error *step_write(const struct taking *c, struct uh_error *(*write)(const void *ctx), const void *ctx, int64_t until);
/** In the parent: gives files that item_close() finished their names. false: see errno. */
bool step_name(const struct taking *c, const char *const *names, size_t n);
/** Tells what is being saved. NULL: all is. */
void step_progress(const struct taking *c, const char *what);
/** Whether the disk has too little space left. */
bool step_full(const struct taking *c);
/** Why nothing more is saved; NULL: there is room and time. */
const char *step_exhausted(struct taking *c);
/** Whether somebody wants the capture to end. */
bool step_stopped(const struct taking *c);
/** What the manifest says of an item: of a child that is late, by its own time or by the capture's; of one that ended. */
void step_note_late(struct taking *c, struct manifest_item *i, const struct child *child);
void step_note_end(struct taking *c, struct manifest_item *i, enum child_end end, const struct step_result *r);
/** Notes an item without running anything. */
struct manifest_item *step_note(struct taking *c, const char *name, const char *what, enum item_state state,
				const char *reason);

// In the child.
void step_moved(struct step *s);
void step_end(struct step *s, enum item_state state, const char *format, ...) __attribute__((format(printf, 3, 4)));
/** How much an item may still have. */
uint64_t step_room(const struct step *s);
/** Writes a file whole, and counts its bytes. false: it is not there, and the step has failed; see errno. */
bool step_save(struct step *s, const char *name, struct str bytes);

/** A file of the partial directory that is being written: it has its name when it is whole and on the disk. */
struct item_file {
	int fd;
	char name[256], new_name[264];
	uint64_t bytes;
	struct tape_budget *budget;
};
/** For files of the step's plan: as far as a child without rights can finish them. */
bool item_close(struct item_file *f);
/** false: see errno. Directories of the name are made. */
bool item_create(const struct taking *c, const char *name, struct item_file *ret);
/** false: see errno; EFBIG: the capture has as many bytes as it may have. */
bool item_write(struct item_file *f, struct str bytes);
/** Goes on behind @n bytes that nobody writes: they are zeros, and need no room. */
bool item_skip(struct item_file *f, uint64_t n);
bool item_finish(const struct taking *c, struct item_file *f);
/** Nothing is left of it. One that could not be created, or is finished, is nothing. errno stays. */
void item_drop(const struct taking *c, struct item_file *f);

/** Gives a file that item_close() finished its name. */
bool item_name(const struct taking *c, const char *name);

/** What is in the directory @dir, which stays open; NULL: see errno. */
DIR *dir_list(int dir);
/** The next entry beside . and ..; NULL: there is none, or no list. */
struct dirent *dir_next(DIR *list);

// The partial directory.
mode_t partial_mode(bool directory);
struct uh_error *partial_create(const struct capture_options *o, struct taking *c);
/** Writes the manifest as it is now. */
struct uh_error *partial_save_manifest(const struct taking *c);
/** What was asked for, of a directory that a capture has left. */
struct partial_mark {
	char room[256];
	struct str id; // of the capture
	const char *user_data;
	bool redact, known_only;
};
/** Whether unhang has made this directory, for this user. */
bool partial_is_ours(int dir, struct partial_mark *ret);
/** Whether a capture that was killed cannot have saved anything in it: not even the mark is there. */
bool partial_unbegun(int dir);
/** Names of what was saved, with the directories above each; not what is empty, which was never begun. */
struct partial_names {
	VEC(struct str) list;
};
/** false: not all of them, see errno. */
bool partial_items(int dir, struct arena *a, struct partial_names *ret);
/** A child may have more of them open than a process usually has. */
void partial_allow_files(void);
/** Removes what a capture has saved, and then the directory. The error is that it stays: there is something in it that no capture has saved. */
struct uh_error *partial_remove(const char *path, int dir);
/** Whether nothing was saved in it. */
bool partial_empty(int dir);

/** A partial directory that is to be packed. */
struct pack {
	const char *partial, *file;
	int dir;       // of it
	int lock;      // what holds its lock, which the child must not keep
	int64_t until; // when it must have ended; 0: some minutes
};
/** Packs it in a child. The error is that there is no bundle. */
struct uh_error *pack_bundle(const struct pack *p);
/** The bundle until it has its name: in the partial directory, where nobody else can write. The mark says that it is whole. */
#define PACKED_BUNDLE ".bundle"
#define PACKED_MARK "packed"
/** The directory that a bundle gets its name in. */
const char *pack_directory(struct arena *a, const char *file);
/** Gives the bundle in the partial directory @dir its name, if nothing has that yet. */
struct uh_error *pack_name(int dir, const char *file);
/** Replaces names and secrets in what was saved. @until: when it must have ended; 0: some minutes. */
struct uh_error *redact_partial(struct taking *c, int64_t until);

// The steps: those that run in a child of their own, by the table in take.c, and those that have several, or none.
void copy_note(struct step *s);
void copy_logs(struct step *s);
#define LOG_TEXT "kernel-log.txt"
void copy_changes(struct step *s);
void copy_crash_files(struct step *s);
void copy_recordings(struct step *s);
void copy_output(struct step *s);
void copy_board(struct step *s);
void copy_pci(struct step *s);
void copy_builds(struct step *s);
#define BUNDLE_MORE "more/" // what an expert asks for next, and a report rarely has
#define PCI_CONFIG BUNDLE_MORE "pci-config.txt"
void capture_dumps(struct taking *c);
/** The looks that are not last, then the processes; and the last ones. */
void capture_first_looks(struct taking *c);
void capture_last_looks(struct taking *c);
/** What programs of others say: lspci of what was saved, the containers, and, where no GPU hangs, ROCm's own tools. */
void capture_programs(struct taking *c);
/** Where they were asked for: what says more of a process. */
void capture_tools(struct taking *c);
void capture_debugger(struct taking *c);

/** In a look's child, which has no rights. The step's ctx: the struct item_file of LOOKS_TEXT. */
#define LOOKS_TEXT "processes.txt"
void capture_processes(struct step *s, struct tape *tape);
/** Keeps of an environment what matters. */
void filter_environment(const struct know *k, struct str all, struct text *ret);
