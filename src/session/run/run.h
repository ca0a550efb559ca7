// What the files of unhang run share, and what watch and sessions use of them.
#pragma once

#include <stdio.h>
#include <sys/types.h>

#include "base/child/wire.h"
#include "evidence/silicon/silicon.h"
#include "job/job.h"

struct uh_session;
struct uh_error;

/** All hands of a run. */
const struct job_hands *run_hands(void);
/** Those for runs that were killed, which somebody else completes. */
const struct job_hands *run_hands_left(void);
/** As job_hands.finish(). */
void run_finish(void *ctx, const struct job_study *s, FILE *to);
/** As job_hands.look(). */
void run_look(void *ctx, const struct job_look *l, FILE *to);
/** The votes and facts of a GPU that was looked at, as progress_take() reads them. */
void look_votes(const struct gpu_observation *g, FILE *to);
/** The id of the incident that is so now on a GPU, by a look that has ended; empty: there is none. */
struct str look_incident(const struct uh_session *s, struct str pci);

/** Where runs are stored. The error is that there is no place for them. */
struct uh_run_options;
struct uh_error *run_state_directory(const struct uh_run_options *o, struct arena *a, const char **ret);
/** Adds the newest try of a run, or the one whose directory it is. false: it is the directory of neither. */
bool session_add_run(struct uh_session *s, const char *path);
/** Adds what guard or pool wrote there, which must come before what tells of a fault. */
void try_add_allocations(struct uh_session *s, const char *directory, struct arena *a);
/** Adds what lies in the directory of a try, or of its recordings: GPU cores, what the debug agent and the job wrote. */
void try_add_files(struct uh_session *s, const char *directory, struct arena *a);

/** What the job itself said before it failed. */
struct last_words {
	struct str line; // empty: nothing that knowledge/last-words.know knows
	bool killed;     // it tells of a process that was killed
	int64_t rank;    // whose it is; -1: it does not say
};
/** Of the end of the job's output. */
struct last_words words_find(const struct know *k, struct str output, struct arena *a);
/** The last @lines lines of it. */
struct str words_tail(struct str output, unsigned lines);
/** Saves in @path what `inspect` says of the container of `docker run` or `podman run`, by --name or by what --cidfile names. The file is the
 * user's: for a child. false: nothing, as where the command is another. */
bool container_save(char *const *command, const char *path);

/** What a child that explains hands back to who has it explained. */
struct told_texts {
	struct str lines;      // `key value`, for who has it explained
	struct str json, text; // the diagnosis, in the two forms in which it is kept
};
extern const struct wire_kind told_texts_kind;
/** The text that @write writes to a file; it lies in @a. */
struct str text_written(void (*write)(const void *ctx, FILE *to), const void *ctx, struct arena *a);
struct incident;
/** What a stored incident has of a diagnosis, line by line: see store.h. */
void incident_lines(const struct incident *i, FILE *to);
/** The report of a session that has ended. @width: 0 for the usual one. */
struct str session_report_text(struct uh_session *s, bool json, unsigned width, struct arena *a);
/** Saves both forms of the diagnosis below @directory by @save, as far as there are any. */
void told_texts_save(const struct told_texts *t, const char *directory,
		     struct uh_error *(*save)(int dir, const char *path, struct str bytes, mode_t mode));
