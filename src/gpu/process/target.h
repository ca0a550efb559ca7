// A process of this machine that computes on GPUs, as a target.
#pragma once

#include "gpu/find/kfd.h"
#include "gpu/target.h"

/** Opens it: its queues, its memory, its code. @kfd must outlive the target. */
struct uh_error *target_process_of(const struct know *k, const struct devices *d, const struct kfd *kfd, int64_t pid,
				   struct target **ret);
/** Whether a read of its memory did not return. Then no more are tried. */
bool process_stuck(const struct target *t);
/** Reads the indexes of its queues again, which shows the queues that move. */
void process_look_again(struct target *t);
/** Finds the places of its queues, where those were looked at after it was opened (kfd_look_at_places()). */
void process_find_places(struct target *t);
