// Whether a remedy is worth trying on a machine, as far as the machine's facts tell.
#pragma once

#include "knowledge/know.h"

enum remedy_state {
	REMEDY_TRY,        // nothing speaks against it
	REMEDY_APPLIED,    // it is in force, and so did not help
	REMEDY_NO_SUCH,    // this kernel has no such parameter
	REMEDY_SUPERSEDED, // a version that is here makes it unnecessary
};

struct remedy_verdict {
	enum remedy_state state;
	struct str because; // a sentence without its full stop; empty: nothing to say
	struct str fact;    // that shows it, where one does; its place is worth telling
};

/** Judges by the facts `param.NAME`, `env.NAME`, `kernel`, `rocm`, `gfx`, `fw_*` and others that conditions name. A fact that is not
 * known speaks neither for nor against. Texts lie in @arena. */
struct remedy_verdict remedy_judge(const struct know *k, const struct know_remedy *r, const struct fact_view *view,
				   struct arena *arena);
/** The settings that a remedy asks for, as numbers for this machine: `amdgpu.ppfeaturemask=0xfff73fff`. Empty if they do not depend on
 * the machine, or if the value in effect is not known. */
struct str remedy_numbers(const struct know_change *c, const struct fact_view *view, struct arena *arena);
/** `linux 6.8.0-90-generic has no parameter amdgpu.gfxoff`. */
struct str parameter_missing_text(struct str name, struct str kernel, struct arena *arena);
const char *remedy_state_name(enum remedy_state s);
const char *remedy_takes_name(enum know_takes t);
/** For sorting: those that are `last` at the end; the better grade first; then cures, workarounds, experiments; then what asks less of
 * the user. 0: equally good. */
int remedy_compare(const struct know_remedy *a, const struct know_remedy *b);
