// The index of the history: tables that are made of lines (line.h), and can be made of them again at any time. Lines come at least once, in any
// order; each thing is in a table once, as its newest revision has it.
#pragma once

#include "store/db/db.h"
#include "store/history/spool.h"

#define INDEX_FILE "history.sqlite"
#define INDEX_ASIDE ".old"          // behind the name of one that was not as unhang makes it
#define HISTORY_DIRECTORY "history" // below the directory of the incidents: the machine's own lines

/** Opens an index, and brings one in a file to the form that is known here. The error says what to do where a server's is older. It is EUCLEAN
 * where the file is damaged, or has other tables than unhang makes. */
struct uh_error *index_open(const char *where, enum db_access access, struct db **ret);
/** The index of a state directory, brought up to date from what is there. Where others can have prepared its file, or it cannot be written, it is
 * made in memory, and *@ret_why gets a line if that is worth a word, and one if a file cannot be read. An index that is damaged, or has other tables than unhang
 * makes, is set aside and made anew, and told. */
struct uh_error *index_open_directory(const char *directory, struct text *ret_why, struct db **ret);
/** Brings it to the newest form. *@ret_from, *@ret_to: which it was, and is. */
struct uh_error *index_migrate(struct db *d, int64_t *ret_from, int64_t *ret_to);
/** Whether the file itself is sound, and what it says of each incident. */
struct uh_error *index_check(struct db *d, struct text *ret_problems);

/** What came of a line. */
enum index_taken { TAKEN_NEW, TAKEN_CHANGED, TAKEN_KNOWN, TAKEN_REFUSED };
/** Takes a line, within a transaction. TAKEN_REFUSED: it is none of ours, or damaged. */
struct uh_error *index_take(struct db *d, struct str line, enum index_taken *ret);

/** The same of a line that lies in the directory of a host, which may tell only of itself. @from: the name of the directory; empty: nobody's.
 * What was told of by one host first is not replaced by a line of another, which is kept by an id of its own; in nobody's directory it is
 * refused. */
struct uh_error *index_take_from(struct db *d, struct str line, struct str from, enum index_taken *ret);

/** What was taken from files. */
struct index_counts {
	uint64_t lines[TAKEN_REFUSED + 1];
	uint64_t files;
	uint64_t unread;     // files that cannot be read
	char why[256];       // of the first of them
	struct text refused; // the first line that was not understood, as FILE:LINE; empty: there was none
};
void index_counts_free(struct index_counts *c);
#define _cleanup_counts_ _cleanup_(index_counts_free)
/** Takes what is new in the files below a directory. Each piece of a file is one transaction together with how far it was read. @go_on may say that
 * it is enough for now; NULL: it never is. A file that cannot be read, or has more than SPOOL_AT_ONCE that is no line, keeps the others from nothing. */
struct uh_error *index_collect(struct db *d, const char *directory, bool (*go_on)(void *ctx), void *ctx,
			       struct index_counts *counts);
/** Which revision of a run its report is: it grows with each try, and once more when the run has ended. */
int64_t history_run_revision(struct str report);
/** Takes what the directories of incidents and runs below @state have, and the lines of the history there. */
struct uh_error *index_sync(struct db *d, const char *state, struct index_counts *counts);
