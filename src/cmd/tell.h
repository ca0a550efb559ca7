// What `explain`, `live` and `unhang` alone tell of incidents, to whom, and when they fail; and reports that are written for others, which
// `incidents` has too.
#pragma once

#include "cmd/cmd.h"

/** A report for others. */
struct sharing {
	const char *html; // file; NULL: none
	bool markdown;
	struct uh_share_options options;
	char *const *inputs; // paths of evidence, which no report may replace
	size_t ninputs;
};

enum { ANSWERS_MOST = 16, AGAIN_MOST = 32 };

struct telling {
	struct uh_report_options report;
	const char *since, *part, *without;
	const char *answers[ANSWERS_MOST];
	size_t nanswers;
	const char *behind_all;  // the word behind -a, where it may be a question without its reply; NULL: none
	char *again[AGAIN_MOST]; // the words of the command, without answers and forms of reports
	size_t nagain;
	bool once; // it cannot be repeated
	bool newest;
	enum { FAIL_ON_INCIDENT, FAIL_ON_NODE } fail_on;
	struct sharing share;
};

/** The options that these commands have in common. */
enum { SHARING_ROWS = 4, TELLING_ROWS = 11 + SHARING_ROWS };
void sharing_rows(struct sharing *s, struct option_row room[static SHARING_ROWS]);
void telling_rows(struct telling *t, struct option_row room[static TELLING_ROWS]);

/** Keeps the command @name (NULL: none) as it was typed, for a question; before the options are parsed, which moves the words. `-a QUESTION=REPLY` becomes
 * `--answer`: -a alone shows all incidents. */
void telling_keep(struct telling *t, char *name, int argc, char **argv);
/** Prepares a session; before the sources. false: behind a complaint. */
bool telling_begin(const struct telling *t, struct uh_session *s);
/** The same where a report for others is all that can be asked for. */
bool sharing_begin(const struct sharing *o, struct uh_session *s);
/** Whether a report for others is asked for, and so not the one on the terminal. */
static inline bool sharing_asked(const struct sharing *o) { return o->html || o->markdown; }
/** Writes it. false: behind a complaint. */
bool sharing_write(const struct sharing *o, struct uh_session *s);
/** The exit status of a session that has ended. */
int telling_status(const struct telling *t, const struct uh_session *s);

/** How to know a file that unhang itself wrote for an option. */
struct output_kind {
	const char *option, *begins;
	const char *has; // within its first bytes
};
/** Whether a file that the user names may be written: it is new, empty, or of this kind, and none of @inputs. false: with a complaint. */
bool output_allowed(const struct output_kind *kind, const char *path, char *const *inputs, size_t n);
