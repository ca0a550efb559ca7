// One run of the program that was made, under the flight recorder.
#pragma once

#include "job/repro/make.h"

enum trial_end { TRIAL_ALIKE, TRIAL_OTHER, TRIAL_WELL, TRIAL_CANNOT };

/** Builds and runs it. *@ret_said, in @a: how it ended instead, or why it could not be run. */
enum trial_end trial_run(const struct repro_plan *p, const struct uh_repro_options *o, int dir, struct arena *a,
			 struct str *ret_said);
