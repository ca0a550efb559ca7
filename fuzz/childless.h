// No children: a fork of a process with AddressSanitizer takes longer than an input. What a child would have done counts as failed, as on
// a machine that lets nobody fork. For targets that are linked with --wrap for these functions.
#pragma once

#include <stdbool.h>

bool __wrap_child_run(void);
bool __wrap_child_begin(void);

bool __wrap_child_run(void) { return false; }
bool __wrap_child_begin(void) { return false; }
