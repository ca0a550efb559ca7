// state.json, as others read it: what the watch knew when it wrote it, and until when that holds.
#pragma once

#include "base/error.h"
#include "report/watch/incidents.h"

/** The bytes of the state in @run_dir. The error's errnum is ENOENT where no watch left one. A file that somebody else than root and the user who called
 * can have written is an error. */
struct uh_error *state_load(const char *run_dir, struct arena *a, struct str *ret);
/** What they say. */
struct uh_error *state_parse(struct str json, struct arena *a, struct watch_state *ret);
/** Both. */
struct uh_error *state_read(const char *run_dir, struct arena *a, struct watch_state *ret);
/** Whether it holds now: it is of this boot, its time has come, and has not passed. *@ret_why: why not. */
bool state_holds(const struct watch_state *s, int64_t now, struct str *ret_why);
