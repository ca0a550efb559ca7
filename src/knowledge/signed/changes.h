// What an update adds to the knowledge, changes in it, and takes out.
#pragma once

#include "knowledge/signed/container.h"

enum know_difference { DIFFERENCE_NEW, DIFFERENCE_CHANGED, DIFFERENCE_GONE };

typedef void know_difference_fn(void *ctx, enum know_difference change, struct str kind, struct str id);
/** Calls @fn for each block that differs between the knowledge with @before (NULL: what is built in) and with @after. Different
 * comments, blanks or order are no change. */
void know_changes(const struct container *before, const struct container *after, know_difference_fn *fn, void *ctx);
/** Each block of the update itself. */
void know_update_blocks(const struct container *c, void (*fn)(void *ctx, struct str kind), void *ctx);
