// How lines of the kernel begin, and which messages count behind that.
#pragma once

#include "knowledge/know.h"
#include "knowledge/matcher.h"

/** What stands before messages of the kernel at the beginning of a line: by that a live log tells them from words that a user has put
 * into another's line. */
struct know_opening {
	struct know_head head;
	struct know_list *begins;
	struct template **templates; // of @begins
	size_t ntemplates;
	struct str subsystem; // of the device that such a record carries; empty: it carries none
	bool own;             // all that follows are its own words, but for names of processes
	bool brief;           // messages that begin so may be as short as the name of a process, which could begin a line so
};

/** As know_match(), among the messages that @rule allows. */
bool know_match_by(const struct know *k, struct str line, const struct match_rule *rule, struct match *ret);
