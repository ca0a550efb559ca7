// A tape: what a machine answered, as requests and answers. While a look is recorded, each answer is written before anybody reads it.
// When the tape is played, the same look gets the same answers, on another machine and years later. A tape has tracks: one for each
// look, since a look asks several times what changes.
#pragma once

#include "source/probe.h"
#include "source/source.h"

struct tape;

/** What must not be kept. */
struct tape_filter {
	/** true: *@instead is kept in place of the answer. */
	bool (*replace)(void *ctx, const struct probe *p, struct text *instead);
	/** Is shown each answer, good or not; NULL. */
	void (*seen)(void *ctx, const struct probe *p);
	void *ctx;
};

/** Files that did not answer one of the looks of a recording. No other look of it asks them again: each would leave a child behind that
 * cannot be killed. Shared memory, because each look is a process. */
struct tape_dead;
struct tape_dead *tape_dead_new(void);
void tape_dead_free(struct tape_dead *d);
/** The path that did not answer at @index, and where its reader waits; false behind the last. */
bool tape_dead_at(const struct tape_dead *d, size_t index, struct probe_stuck *ret);

/** Bytes that several writers may have together. Shared memory, because each is a process. */
struct tape_budget {
	_Atomic uint64_t used;
	uint64_t most;
};
struct tape_budget *tape_budget_new(uint64_t most);
void tape_budget_free(struct tape_budget *b);
/** Takes @n bytes of it. false: so many are not left. NULL has any number. */
bool tape_budget_take(struct tape_budget *b, uint64_t n);

struct tape_recording {
	int fd;                     // of the file that is written; the tape does not close it
	uint64_t most;              // bytes; what goes beyond is not kept
	struct tape_budget *budget; // NULL
	struct tape_filter filter;
	bool contents; // of users' memory are kept too
	struct tape_dead *dead;
	struct str id; // of the capture
};
struct tape *tape_record(const struct tape_recording *r);
/** Ends the recording: what is on the tape is on the disk. false: not all of it is; errno says why, EFBIG: there was too much. */
bool tape_end(struct tape *t);
/** The first path that this user may not read (EACCES), as long as the tape is; empty: none. */
struct str tape_refused(const struct tape *t);
/** The first path that nobody asked, since another process of unhang was asking that GPU; empty: none. */
struct str tape_unread(const struct tape *t);
/** Bytes that it has. */
uint64_t tape_written(const struct tape *t);

/** A tape to be played, without tracks. */
struct tape *tape_new(void);
/** Adds a track; the tape makes a copy of @bytes. What is damaged ends the track. false: it is no track at all. */
bool tape_add(struct tape *t, struct str name, struct str bytes);
/** The id of the capture that recorded a track to its end; empty: nobody knows. */
struct str tape_id(struct str bytes);
/** Whether the track is there as it was recorded, to its end. */
bool tape_whole(const struct tape *t, struct str name);
void tape_free(struct tape *t);

/** Plays @track from its beginning. What it lacks is taken from the others. */
void tape_begin(struct tape *t, const char *track);
bool tape_plays(const struct tape *t);
bool tape_records(const struct tape *t);

// The seam. A tape of NULL is this machine, which nobody records.

/** Answers batches in place of the machine. What is not on the tape is PROBE_NOT_MADE. */
void tape_answer(struct tape *t, struct arena *a, struct probe_batch *batches, size_t n);
/** Marks what is known not to answer, and what would come behind it (probe->dead); false: nothing. */
bool tape_mark_dead(const struct tape *t, struct probe_batch *b);
/** After the others were asked: answers what was marked. */
void tape_tell_dead(const struct tape *t, struct arena *a, struct probe_batch *b);
/** Keeps what a batch answered. */
void tape_keep(struct tape *t, const struct probe_batch *b, int64_t began);

/** What the machine itself says without a file: @live now, or what it said when the tape was recorded. */
struct str tape_said(struct tape *t, struct arena *a, const char *name, struct str live);
int64_t tape_number(struct tape *t, const char *name, int64_t live);
/** Memory of a process: what a look wanted of the pages that it read. Nothing else of them is kept. */
void tape_keep_memory(struct tape *t, const char *path, uint64_t address, struct str bytes);
/** false: it is not on the tape. */
bool tape_memory(struct tape *t, const char *path, uint64_t address, void *to, size_t size);
/** now_ms() of the machine. */
int64_t tape_now(const struct tape *t);
/** Waits; a tape that is played does not. */
void tape_pause(struct tape *t, int milliseconds);

// Names of logs.
#define TAPE_LOG_BOOT "boot 0"    // of this boot, from the journal
#define TAPE_LOG_BEFORE "boot -1" // of the one before
#define TAPE_LOG_BUFFER "kmsg"    // the kernel's own buffer

/** Records a log, so that its reader can be handed over in place of @v. */
struct tape_log {
	struct tape *tape;
	const struct source_visitor *to; // gets the records too; NULL: nobody
	const char *name;
	uint64_t bytes, most; // only the first @most bytes are kept
	bool from_end;        // the last ones instead
	struct text tail;
};
struct source_visitor tape_visitor(struct tape_log *l);
/** When it was read. */
void tape_log_end(struct tape_log *l);
/** Plays the log that was recorded under @name. false: there is none. */
bool tape_play_log(struct tape *t, const char *name, const struct source_visitor *v);
