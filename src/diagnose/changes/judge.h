// Which change of the machine an incident came with. A change is to blame only if chance explains badly that all incidents of this kind
// came after it took effect; else it is one of those that were made lately. docs/CHANGES.md has the rule and what it is worth.
#pragma once

#include "base/command.h"
#include "evidence/event.h"
#include "host/changes/cache.h"
#include "host/changes/changes.h"

/** That an incident was seen, in whatever boot. */
struct past_sighting {
	struct str fingerprint;
	double when; // seconds since 1970
};

enum change_role {
	CHANGE_TO_BLAME,
	CHANGE_BESIDE, // it took effect so shortly before the one to blame that it may be this one
	CHANGE_LATELY, // made in the days before, and not once seen before it: more is not known
};

struct diag_change {
	const struct transaction *transaction;
	enum change_role role;
	double effect; // when it took effect, in seconds since 1970
};

/** A fact that is a part of a command. */
struct change_command {
	struct str name;
	const struct command *command;
};

/** What is known of what changed before an incident. */
struct diag_changes {
	VEC(struct diag_change) list; // the one to blame, those beside it, those of late from the newest on
	// Of the incidents of this kind, of all boots:
	bool read;         // what changed could be read, and all of it
	bool earlier;      // the kind was seen before each of the changes of late
	bool earliest;     // it was seen before every change of which anything is known
	unsigned seen;     // boots in which it was seen
	double first;      // when it was seen first
	unsigned counted;  // how many of them count for the rule
	unsigned tried;    // transactions that were held against them
	double since, all; // hours that the machine ran since the change took effect, and in all
	double after;      // the same, from its effect until it was seen first
	double chance;     // that none is to blame although it looks so; 1: nothing speaks against chance
	size_t boots;      // known to be quiet before it took effect
	size_t unknown;    // boots before it of which nobody knows whether they were quiet
	bool undone;       // it was taken back since
	bool pending;      // and that takes effect at the next boot
	// Of the change to blame, for conditions and steps (docs/KNOWLEDGE.md):
	VEC(struct fact) facts;
	VEC(struct change_command) commands;
};

/** What changes are judged by. */
struct changes_judge {
	const struct changes *changes;
	const struct past_sighting *sightings; // of all boots, in any order
	size_t nsightings;
	double when; // of the incident that is told
	struct str fingerprint;
	struct str process; // that it names; empty: none. Packages of other programs are left out
};
void changes_judge(const struct changes_judge *j, struct diag_changes *ret);

/** The one part that a transaction changed, as a GPU sees it, by the first package of it; NULL: it changed several. */
const struct change *transaction_only(const struct transaction *t);
/** Whether a release of the kernel, as uname -r prints it, is of this package. */
bool change_is_kernel(const struct change *c, struct str release);
/** Adds what only the boots themselves tell: another kernel, BIOS, firmware or command line, where no log of packages has it. */
void changes_of_boots(struct changes *c, const struct know *k);
bool change_of_kernel(const struct change *c);
struct incident;
/** Finds out how the change to blame can be taken back, for the advice. */
void changes_find_way_back(struct incident *i, const struct changes *c, const struct package_cache *cache);
/** The facts of the change to blame. As fact_view.get() and command(). */
bool changes_get(const struct diag_changes *c, struct str name, size_t index, struct str *ret);
const struct command *changes_command(const struct diag_changes *c, struct str name);
void diag_changes_free(struct diag_changes *c);
