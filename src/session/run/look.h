// A look at the GPUs: what it says of progress.
#pragma once

#include <stdio.h>

#include "evidence/silicon/silicon.h"
#include "job/job.h"

/** The votes and facts of a GPU that was looked at, as progress_take() reads them. */
void look_votes(const struct gpu_observation *g, FILE *to);
/** As job_hands.look(). */
void run_look(void *ctx, const struct job_look *l, FILE *to);
