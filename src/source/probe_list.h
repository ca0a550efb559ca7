// What a look at the driver may open.
#pragma once

#include "source/probe.h"

enum { ARGUMENT_MOST = 256 }; // bytes that an ioctl is given

/** Whether an operation of this kind on the path is on the list. */
bool probe_listed(enum probe_kind kind, struct str path);
/** Whether it is on the list of what may be read in a tree only: on the machine itself the driver acts when it is read. */
bool probe_listed_recorded(enum probe_kind kind, struct str path);
/** Whether the file takes this ioctl. */
bool probe_listed_request(struct str path, unsigned long request);
