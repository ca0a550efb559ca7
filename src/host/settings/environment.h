// What the readers of environments share.
#pragma once

#include "host/host.h"

enum {
	VARIABLES_MOST = 64,    // in one source
	ENVIRONMENT_FILES = 96, // how many files are read
};

struct variable {
	struct str name, value, where;
};

/** Where variables are set together. */
struct environment_source {
	struct host *h;
	const struct command *from; // for people
	struct host_item *gpu;      // the only GPU that it uses; NULL: any
	bool one;                   // it is for one program: what it sets does not count for the machine
	struct variable list[VARIABLES_MOST];
	size_t n;
};

/** `A=B`: kept where knowledge names A. */
void environment_take(struct environment_source *s, struct str entry, struct str where);

/** Files that set variables for everyone, and those of services. */
size_t environment_files(struct host *h, struct probe ret[static ENVIRONMENT_FILES]);
/** What such a file sets. Nothing is run. */
void environment_take_file(struct environment_source *s, const struct probe *p);
