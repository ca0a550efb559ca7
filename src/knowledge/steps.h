// What knowledge says to do, filled from facts: steps, checks and next steps, each of which may hold a command.
#pragma once

#include "base/command.h"
#include "knowledge/know.h"

// --- ways: how an action (`set-word`, `rebuild-initramfs`, `install`) is done on one machine ---
// Remedies, checks and --apply name actions; `way` blocks turn one into the commands of the machine at hand, by its facts.

/** The usual value of a fact on a distribution (`usual` rows); empty: there is none. */
struct str know_usual(const struct know *k, struct str distribution, struct str fact);

/** The facts of @view, and where it has none those that its distribution usually has. It lives as long as @view and itself. */
struct usual_facts {
	const struct know *know;
	const struct fact_view *view;
};
struct fact_view usual_view(const struct usual_facts *facts);

/** Whether there is such an action at all. */
bool know_action_named(const struct know *k, struct str name);
/** The first way of an action that fits; NULL: none. */
const struct know_way *know_way(const struct know *k, struct str action, const struct fact_view *view);

// --- steps ---

/** The type of a fact as knowledge says (`fact pid :: number`). By default a fact is one word, and a place (`NAME@`) a path. */
enum piece_type fact_type(const struct know *k, struct str name);

enum fill_mode {
	/** " || " separates alternatives. Taken is the first whose facts are all known and pass their types; else the first whose facts
	 * are known, with FACT in place of one that does not pass; else none. */
	FILL_ALTERNATIVES,
	/** " || " is the shell's. FACT stands for a fact that is not known or does not pass its type. */
	FILL_BLANKS,
	/** The same, and all of it can be run. */
	FILL_RUN,
};

/** What @action (`set-word`, or `undo set-word`) is on the machine of @view. @it: what it is done to; NULL: nothing. NULL: no way is known. */
const struct command *steps_action(struct arena *to, const struct know *k, struct str action, const struct command *it,
				   const struct fact_view *view);

/** Fills the {facts} and {actions} of a text of knowledge; single bars and other braces are the shell's. NULL: it cannot be said here. */
const struct command *steps_fill(struct arena *to, const struct know *k, struct str text, const struct fact_view *view,
				 enum fill_mode mode);

/** What a remedy or a finding says for people to do. */
struct steps {
	const struct command **list;
	size_t n;
	const struct command *condition, *undo, *cost, *risk, *until, *verify;
};

/** Fills the list of @ret. */
void steps_fill_list(struct arena *to, const struct know *k, const struct know_list *texts, const struct fact_view *view,
		     enum fill_mode mode, struct steps *ret);
/** All that a remedy says. */
void steps_of_remedy(struct arena *to, const struct know_remedy *r, const struct know *k, const struct fact_view *view,
		     struct steps *ret);
