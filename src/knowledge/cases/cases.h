// Cases: public incidents as facts, and the defects that they are incidents of. Facts are interned: a case is a list of numbers, so that
// thousands of them cost little to load, and an incident is held against all of them in one pass.
#pragma once

#include "base/arena.h"
#include "knowledge/know_head.h"

struct know;

/** What a fact of a case is about. */
enum know_term_kind {
	TERM_GFX,
	TERM_KERNEL,
	TERM_FIRMWARE,
	TERM_ROCM,
	TERM_MESA,
	TERM_PROGRAM,
	TERM_PROGRAM_VERSION, // NAME=VERSION
	TERM_CLASS,
	TERM_EVENT,
	TERM_NAME,    // of a GPU kernel, a function, a library, a game, as a log prints it
	TERM_CODE,    // FACT=VALUE
	TERM_SETTING, // NAME=VALUE
	TERM_DIFFERS, // FACT=VALUE of what did not fail
	TERM_DEFECT,  // the id of a defect
	TERM_SOURCE,  // the id of a case
	TERM_COMMON,  // a name that logs of any defect print
	TERM_KINDS
};

/** A fact that cases have, once for all of them. */
struct know_term {
	struct str text;
	uint32_t kind : 8, defects : 24; // how many defects have a case with it; of an id the place of its block, and 1
	uint32_t next;                   // the place of the next with the same first word, and 1; 0: there is none
};

struct know_terms {
	VEC(struct know_term) list;
	uint32_t *slots; // places in the list, and 1; 0: free. By the hash of kind and text
	size_t nslots;   // a power of two, or 0
	// The same for names, programs and settings by their first word, whatever its case: the first of each.
	uint32_t *heads;
	size_t nheads;
	uint8_t *rarity; // of each of the list: RARITY_MOST for what one defect has, 0 for what all have
};
enum { RARITY_MOST = 255 };

enum know_state { STATE_SOLVED, STATE_OPEN };
/** By whom it is confirmed that the fix is one. */
enum know_confirmed { CONFIRMED_UNSAID, CONFIRMED_ONE, CONFIRMED_SEVERAL, CONFIRMED_MAINTAINER };

/** What goes wrong, and what solved it. */
struct know_defect {
	struct know_head head;
	struct str title, by, fix;
	enum know_state state;
	enum know_confirmed confirmed;
	struct know_list *versions; // PART VERSION: the first that is good, or the one to go back to
	struct know_list *remedies; // ids of those that do the same
	uint32_t newest;            // date of its newest case
	uint32_t ncases;
};

/** One thread about a defect; its id is OWNER/REPO#NUMBER. */
struct know_case {
	struct know_head head;
	struct str defect_id;
	struct know_defect *defect; // NULL until all is loaded
	uint32_t date;              // 20251120, or 20251100 where the day is not known; 0: neither is the month
	uint32_t nterms;
	const uint32_t *terms; // of struct know_terms, by kind
};

struct know_row;

/** All of them. */
struct know_base {
	VEC(struct know_defect *) defects;
	VEC(struct know_case *) cases;
	VEC(struct know_row *) commons; // names that tell no case from another
	VEC(struct know_row *) renamed; // a repository -> what it is called today
	struct know_terms terms;
};

/** The number of a term that is in no case. */
enum { TERM_NONE = UINT32_MAX };
uint32_t term_find(const struct know_terms *t, enum know_term_kind kind, struct str text);
/** The same, which adds it. @text must live as long as the knowledge. */
uint32_t term_intern(struct know_terms *t, enum know_term_kind kind, struct str text);
/** The name, program or setting that stands at @at of @text, where a word begins, whatever its case; the one behind @before, TERM_NONE for
 * the first. TERM_NONE: there is none. */
uint32_t terms_name_at(const struct know_terms *t, struct str text, size_t at, uint32_t before);
/** From 1 for what one defect has to nearly 0 for what all have. */
static inline double term_rarity(const struct know_terms *t, uint32_t term) { return t->rarity[term] * (1.0 / RARITY_MOST); }
/** The same of so many defects. */
double cases_rarity(const struct know_base *b, double defects);
/** To the base of 2, straight between powers: libm is not needed for a weight. */
double cases_logarithm(double n);
/** When all cases are there: names by their first words, and how rare each fact is. */
void terms_settle(struct know_base *base);
void terms_free(struct know_terms *t);
/** What it is called where it is told. */
const char *term_kind_name(enum know_term_kind kind);

struct know_problems;
/** When all blocks are there: of several with one id the last counts; finds the defect of each case, and how many defects have each fact. */
void cases_resolve(struct know *k, struct know_problems *problems);
