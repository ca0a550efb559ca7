// Bundles: taken in the middle of something else, taken apart by a child without rights, and the text of a bug report from one.
#pragma once

#include "capture/capture.h"

struct uh_machine;
struct uh_session;

/** Takes one with the looks of all commands. @o->know may be NULL; @o->looks is not looked at. */
struct uh_error *bundle_take(const struct capture_options *o, struct captured *ret);

/** In a child that takes a bundle apart, and has the bundle and a pipe open: closes all but the two, and reads the knowledge, while it still may. */
struct uh_session *apart_begin(int out, int bundle);
/** Puts the rights down, and then opens the bundle. The child ends where either cannot be. */
struct uh_machine *apart_open(int bundle, const char *name);

/** BUNDLE.md */
const char *bug_report_name(struct arena *a, const char *bundle);
/** Writes it, unless something has that name. */
struct uh_error *bug_report_write(const char *bundle, const struct know *k);
/** The processor's name, which the form asks for; empty: nobody knows. A capture asks too, so that its bundle has the answer. */
struct str bug_report_cpu(struct arena *a, struct devices *d);
