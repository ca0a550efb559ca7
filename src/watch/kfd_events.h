// A child that has KFD tell of page faults and resets: a second way to hear of them, beside the kernel's log. Nobody can forge it, and no
// rate limit silences it.
//
// Who asks KFD becomes one of its processes for as long as he lives, and while the kernel has such processes it refuses to repartition or
// to unload. So one that asks lives only while other programs compute, which prevent the same; before and after, nothing is open.
#pragma once

#include "base/child.h"

/** Starts it; it sends NOTICE_KFD. Needs root, for events of others' processes. */
bool kfd_events_begin(struct child *ret);
