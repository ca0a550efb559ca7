// What the tables have of many lines, asked for at once: a server may be far away.
#pragma once

#include <jansson.h>

#include "base/cleanup.h"
#include "store/db/db.h"
#include "store/history/line.h"
#include "store/history/names.h"

/** What is there of something. */
struct known_row {
	bool there;
	int64_t revision;
	struct str host; // who told of it first
};

struct index_known {
	struct arena arena;
	struct name_table keys;
	VEC(struct known_row) rows; // by the numbers of the keys
	json_t *asked;
};
void index_known_free(struct index_known *k);
#define _cleanup_known_ _cleanup_(index_known_free)

/** By what something of a kind is found; what does not count for it is empty, or 0. */
struct known_key {
	enum history_kind kind;
	struct str host, id;
	int64_t n;
};

/** Remembers to ask for it. */
void index_known_want(struct index_known *k, const struct known_key *key);
/** Asks for all of it. Only a server is asked. */
struct uh_error *index_known_ask(struct index_known *k, struct db *d);
/** NULL: nobody asked for it. What the caller then writes about it, it notes in the row. */
struct known_row *index_known_row(const struct index_known *k, const struct known_key *key);
