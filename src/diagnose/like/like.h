// Which known defects an incident is like: public cases that share facts with it.
#pragma once

#include "evidence/event.h"

struct incident;

/** A name of a case, where the evidence has it. */
struct case_named {
	uint32_t term;
	struct place at;
};

/** What of the evidence and of the base is held against each other. */
struct cases_asked {
	VEC(struct case_named) names;
	bool *without; // of each case whether it is left out; NULL: none is
};

/** Marks cases as left out: @list has sources (OWNER/REPO#NUMBER), separated by commas or white space. */
void cases_leave_out(struct cases_asked *a, const struct know *k, struct str list);
/** The case of this source, whatever its repository was called then; NULL: there is none. */
const struct know_case *case_called(const struct know *k, struct str source);
void cases_asked_free(struct cases_asked *a);

/** A fact that case and incident share, or in which they differ. */
struct like_fact {
	enum know_term_kind kind;
	struct str value; // of the case
	struct str here;  // of the incident, where it is another; empty: the same
	double worth;     // of what is shared: 1 where only this defect has it
};

/** How near a defect is. */
enum like_near { LIKE_FAR, LIKE_NEAR, LIKE_VERY_NEAR };

/** A defect with a case that is like the incident. */
struct diag_like {
	const struct know_defect *defect;
	const struct know_case *nearest;
	size_t ncases, nsame, ndiffers;
	const struct know_case **cases;         // all that are not left out, the nearest first
	const struct like_fact *same, *differs; // of the nearest; what counts most first
	double score;                           // share of the weight of all that is near that is solved by what solved it
	double own;                             // its own share
	double sums[TERM_KINDS];                // what each kind of fact adds to it
	enum like_near near;
	bool shown; // it is among the few that a person is told
};

typedef VEC(struct diag_like) diag_likes;

/** Fills in i->like, the nearest first. */
void incident_find_like(struct incident *i, const struct know *k, const struct fact_view *view);
/** What a case of the base is like by its own facts, itself left out. Texts lie in @a. */
void case_find_like(const struct know *k, const struct know_case *c, struct arena *a, diag_likes *ret);
/** Whether the same helps against both. */
bool defects_same_fix(const struct know_defect *a, const struct know_defect *b);
