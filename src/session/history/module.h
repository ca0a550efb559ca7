// What was stored of a module before: whether its error came back after the machine had been without power.
#pragma once

#include "base/arena.h"

struct stored;

struct module_past {
	struct str serial, class; // whose, and of what
	struct str unique_id;     // of the module; empty: not known
	size_t n;                 // earlier incidents of this class, of other boots; 0: there is none, or nobody knows
	struct str id;            // of the newest of them
	bool powered;             // one of them asked for the power to be switched off, and who closed it says that this was done
};

enum { MODULES_MOST = 64 };
struct module_pasts {
	size_t n;
	struct module_past list[MODULES_MOST];
};

/** Of all modules that had incidents in other boots than @now, by what is stored below @state_dir. Texts are copied to @a. */
void module_pasts_find(const char *state_dir, const struct stored *now, struct arena *a, struct module_pasts *ret);
/** NULL: this module had none of this class, or its serial number is none. */
const struct module_past *module_past_of(const struct module_pasts *p, struct str serial, struct str unique_id, struct str class);
