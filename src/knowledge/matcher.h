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
/** Which matches of a line count. */
struct match_rule {
	bool (*allows)(const void *ctx, const struct match *m);
	const void *ctx;
};
/** Finds the best match. @better compares two: true to take the new one. @rule NULL: all count, also those of which something is left
 * out. false: nothing matches. */
bool matcher_find(const struct matcher *m, struct str line, const struct match_rule *rule,
		  bool (*better)(const struct match *now, const struct match *new), struct match *ret);
void matcher_free(struct matcher *m);
