// What follows from a try, by the table `escalation` of knowledge.
#pragma once

#include "job/job.h"
#include "knowledge/know.h"

#define CHANGE_AGENT "debug-agent"
#define CHANGE_REPEAT "on-repeat"

/** @level, or the highest that is allowed: above it the user's data is stored. */
int64_t job_level(const struct job_options *o, int64_t level);
/** Fills in fingerprint, kind, and the decision of @t, the last of the run's tries. */
void job_decide(const struct know *k, const struct job_study *s, struct arena *a, struct run_try *t);
/** `300 MiB`, `4.0 GiB`; empty where it is not known. */
struct str job_size_say(struct arena *a, int64_t bytes);
