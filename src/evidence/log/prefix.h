// Who wrote a line: the prefixes by which launchers and servers tell the processes of one job apart.
#pragma once

#include "base/str.h"
#include "knowledge/know.h"
#include "source/source.h"

struct writer {
	struct str rank;   // of a distributed job
	struct str worker; // `Worker_TP2`, a container's name
	struct str pid;
	struct str host;
	bool numbered; // the rank is a bare number, which may be that of a test
};

/** Length of the prefix at the front of @line; 0: there is none. What it says is added to @w, as views of @line. */
size_t prefix_read(struct str line, struct writer *w);
/** The rank in the name of a file: `rank3.log`, `logs/worker_rank_12.err`; empty where there is none. */
struct str prefix_rank_of_name(struct str path);
/** The ranks of parallelism that a server writes beside its time: `[2026-02-24 02:40:51 DP0 TP2]`. */
void prefix_in_bracket(struct str inside, struct writer *w);

// How a record of a live kernel log begins, and so who wrote it: what a user can make the kernel print stands in the middle of a line
// that begins otherwise. Which beginnings there are is knowledge (`opening`).

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
