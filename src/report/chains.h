// Chains of inlined calls as text, each call made once: many addresses have callers in common.
#pragma once

#include "code/lines.h"

struct chains;

struct chains *chains_new(void);
void chains_free(struct chains *c);
/** Adds a place and the callers of what is in its @scope: `   load.h:243:22 < blend.h:87:7 < blend.h:107:7` */
void chains_add(struct chains *c, const struct code_lines *l, const struct code_frame *here, uint32_t scope, struct text *to);
