// The text of a bug report, from a bundle.
#pragma once

#include "base/arena.h"
#include "base/error.h"

struct devices;
struct know;
/** BUNDLE.md */
const char *bug_report_name(struct arena *a, const char *bundle);
/** Writes it, unless something has that name. */
struct uh_error *bug_report_write(const char *bundle, const struct know *k);
/** The processor's name, which the form asks for; empty: nobody knows. A capture asks too, so that its bundle has the answer. */
struct str bug_report_cpu(struct arena *a, struct devices *d);
