// What the structs of all kinds of blocks are made of.
#pragma once

#include "base/str.h"

struct know_kind;

/** What every block has. */
struct know_head {
	struct str id;
	const char *file;
	unsigned line;
	bool user;                    // the file is not one of ours
	const struct know_kind *kind; // knowledge/kinds/kinds.h
};

struct know_pair {
	struct str name, value;
	struct know_pair *next;
};

struct know_list {
	struct str text;
	struct know_list *next;
};
