// Finds which of some thousand templates a line matches.
#pragma once

#include "base/arena.h"
#include "knowledge/template.h"

struct matcher;

struct matcher *matcher_new(void);
/** false where the template has no four characters in a row to find it by. */
bool matcher_add(struct matcher *m, struct template *t);
/** After the last matcher_add(). */
void matcher_finish(struct matcher *m);
/** Calls @better for each match; it returns true to keep the new one. */
bool matcher_find(const struct matcher *m, struct str line, bool (*better)(const struct match *now, const struct match *new),
		  struct match *ret);
void matcher_free(struct matcher *m);
