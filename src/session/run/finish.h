// The end of a run: crash diagnostics for agents, and hooks.
#pragma once

#include "job/job.h"

/** As job_hands.finish(). */
void run_finish(void *ctx, const struct job_study *s, FILE *to);
