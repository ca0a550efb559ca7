// Chains of inlined calls as text, each made once: many addresses have callers in common.
#pragma once

#include "code/lines.h"

struct chains;

struct chains *chains_new(void);
void chains_free(struct chains *c);
/** The callers of what is in @scope: ` < blend.h:87:7 < blend.h:107:7`. It lasts until the next call. */
struct str chains_of(struct chains *c, const struct code_lines *l, uint32_t scope);
/** ` < blend.h:87:7` */
void add_place(struct text *to, struct str before, const struct code_frame *f);
