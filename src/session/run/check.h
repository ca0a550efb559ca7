// What is looked at before a job starts.
#pragma once

#include <unhang/unhang.h>

#include "base/arena.h"
#include "base/error.h"

/** Whether what the options name can be used. */
struct uh_error *run_check(const struct uh_run_options *o);
/** Where runs are stored. The error is that there is no place for them. */
struct uh_error *run_state_directory(const struct uh_run_options *o, struct arena *a, const char **ret);
