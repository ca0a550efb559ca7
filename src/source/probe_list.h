// What a look at the driver may open.
#pragma once

#include "source/probe.h"

enum { ARGUMENT_MOST = 256 }; // bytes that an ioctl is given

/** Whether an operation of this kind on the path is on the list. */
bool probe_listed(enum probe_kind kind, struct str path);
/** Whether it is on the list of files that may be read only in a tree. On the machine itself, reading them makes the driver act. */
bool probe_listed_recorded(enum probe_kind kind, struct str path);
