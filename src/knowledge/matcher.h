// Finds which of some thousand templates a line matches.
#pragma once

#include "base/arena.h"
#include "knowledge/template.h"

struct matcher;

struct matcher *matcher_new(void);
/** false: the template has no four literal characters in a row, by which it would be found. */
bool matcher_add(struct matcher *m, struct template *t);
/** After the last matcher_add(). */
void matcher_finish(struct matcher *m);
/** Finds the best match. @better compares two: true to take the new one. false: nothing matches. */
bool matcher_find(const struct matcher *m, struct str line, bool (*better)(const struct match *now, const struct match *new),
		  struct match *ret);
void matcher_free(struct matcher *m);
