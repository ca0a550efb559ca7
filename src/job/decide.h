// What follows from a try, by the table `escalation` of knowledge.
#pragma once

#include "job/job.h"
#include "knowledge/know.h"

#define CHANGE_AGENT "debug-agent"
#define CHANGE_REPEAT "on-repeat"

/** Fills in fingerprint, kind, and the decision of @t, the last of the run's tries. */
void job_decide(const struct know *k, const struct job_study *s, struct arena *a, struct run_try *t);
