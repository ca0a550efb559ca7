// A page fault of a GPU that the log of this machine has.
#pragma once

#include "report/live/memory.h"
#include "session/look.h"

/** Finds the newest one since this machine was started, or that of an incident, whose id may be cut short. What is in @ret lies in @a. */
struct uh_error *log_fault_find(const char *incident, const struct teller *t, struct arena *a, struct memory_fault *ret);
