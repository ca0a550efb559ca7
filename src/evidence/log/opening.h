// How a record of a live kernel log begins, and so who wrote it: what a user can make the kernel print stands in the middle of a line
// that begins otherwise. Which beginnings there are is knowledge (`opening`).
#pragma once

#include "knowledge/know.h"
#include "source/source.h"

enum { OPENINGS_MOST = 4 };

struct opening {
	bool live;     // it is such a record, and only what the kernel itself printed counts; else the text may be anybody's
	bool attested; // it carries the device that it names
	bool own;      // whoever began it wrote all of it, unless it began with the name of a process
	bool brief;    // messages that begin so have little text of their own
	size_t n;      // known beginnings at its front
	size_t begins[OPENINGS_MOST + 1]; // where a message may begin: at the front, and behind each of them
};

/** @by: who wrote @text, as the source says. */
struct opening opening_read(const struct know *k, struct str text, const struct source_note *by);
/** The message in @text that whoever began the line so can have printed. */
bool opening_match(const struct know *k, const struct opening *o, struct str text, struct match *ret);
