// Ways: how an action (`set-word`, `rebuild-initramfs`, `install`) is done on one machine. Remedies, checks and --apply name actions;
// `way` blocks turn one into the commands of the machine at hand, by its facts.
#pragma once

#include "knowledge/know.h"

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
