// What a run has its helper do; its end: crash diagnostics for agents, and hooks.
#pragma once

#include "job/job.h"

/** As job_hands.finish(). */
void run_finish(void *ctx, const struct job_study *s, FILE *to);
/** All hands of a run. */
const struct job_hands *run_hands(void);
/** Those for runs that were killed, which somebody else completes. */
const struct job_hands *run_hands_left(void);
