// No children: a fork of a process with AddressSanitizer takes longer than an input. What a child would have done counts as failed, as on
// a machine that lets nobody fork. For targets that are linked with --wrap for these functions.
#pragma once

#include "base/child.h"

enum child_end __wrap_child_collect(void);
bool __wrap_child_start(void);

enum child_end __wrap_child_collect(void) { return CHILD_REFUSED; }
bool __wrap_child_start(void) { return false; }
