// What is known, and what of it an update changes.
#pragma once

#include "diagnose/remedy_state.h"
#include "knowledge/know.h"
#include "knowledge/signed/container.h"
#include "knowledge/steps.h"
#include "report/sheet.h"
#include "unhang/unhang.h"

/** The blocks of a kind, or of all that people ask for (NULL). */
void report_known(const struct know *k, const char *kind, bool as_json, FILE *out);
/** The blocks that are called @id; how many. */
unsigned report_known_as(const struct know *k, struct str id, bool as_json, FILE *out);

/** What each line of a log is recognised as. */
struct match_report {
	struct sheet sheet;
	unsigned lines; // so far
};
void report_matches_begin(struct match_report *r);
/** @m: NULL where it is not recognised. */
void report_match(struct match_report *r, struct str line, const struct match *m);
void report_matches_end(struct match_report *r);

/** The knowledge that is installed beside what is built in. */
struct installed {
	struct container update;
	bool there;           // and sound
	struct uh_error *err; // what is wrong with it
};
/** Which version is in use, and where it is from. */
void report_versions(const struct installed *i, bool as_json, FILE *out);
/** An update, and what it changes. @before: what is installed; NULL: what is built in. */
void report_update(const struct container *c, const struct container *before, struct str key_file, FILE *out);

// One remedy: all that is known of it, for this machine.
struct remedy_view {
	const struct know *know;
	const struct know_remedy *remedy;
	struct steps steps;
	struct remedy_verdict verdict; // on this machine
	struct str numbers;            // its settings, with the values that this machine gives them; empty
	struct str distribution;       // of this machine; empty: not known
};

void report_remedy(const struct remedy_view *v, const struct uh_remedy_options *o, FILE *out);
