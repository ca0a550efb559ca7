// Who wrote a line: the prefixes by which launchers and servers tell the processes of one job apart.
#pragma once

#include "base/str.h"

struct writer {
	struct str rank;   // of a distributed job
	struct str worker; // `Worker_TP2`, a container's name
	struct str pid;
	struct str host;
};

/** Length of the prefix at the front of @line; 0: there is none. What it says is added to @w, as views of @line. */
size_t prefix_read(struct str line, struct writer *w);
/** The rank in the name of a file: `rank3.log`, `logs/worker_rank_12.err`; empty where there is none. */
struct str prefix_rank_of_name(struct str path);
/** The ranks of parallelism that a server writes beside its time: `[2026-02-24 02:40:51 DP0 TP2]`. */
void prefix_in_bracket(struct str inside, struct writer *w);
