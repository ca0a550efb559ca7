// The text of a bug report, from a bundle.
#pragma once

#include "base/error.h"

struct know;
/** Writes BUNDLE.md. */
struct uh_error *bug_report_write(const char *bundle, const struct know *k);
