// The kernel's messages about devices: ACTION@DEVPATH, then KEY=VALUE, each with a NUL behind it.
#pragma once

#include "base/str.h"

/** Views into the message; empty: it does not say. */
struct uevent {
	struct str action, path, subsystem, driver, slot, wedged;
};

/** false: it is none. */
bool uevent_parse(struct str bytes, struct uevent *ret);
/** Whether it tells that evidence appeared: a device core, or a GPU that the driver gave up. */
bool uevent_matters(const struct uevent *u);
