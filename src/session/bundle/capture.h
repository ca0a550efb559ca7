// A capture of this machine, for whoever takes one in the middle of something else.
#pragma once

#include "capture/capture.h"

/** Takes one with the looks of all commands. @o->know may be NULL; @o->looks is not looked at. */
struct uh_error *bundle_take(const struct capture_options *o, struct captured *ret);
