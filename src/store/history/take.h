// Lines that are taken together.
#pragma once

#include "evidence/documents/document.h"
#include "store/history/index.h"
#include "store/history/known.h"

/** NULL: it is no JSON, or too long. */
json_t *index_line(struct str line);
/** Remembers what must be known for it. */
void index_line_want(const json_t *root, struct str from, struct index_known *k);
/** index_take_from() of a line that was parsed; @root may be NULL. @k: what is known; NULL: it is asked for now. */
struct uh_error *index_line_take(struct db *d, const json_t *root, struct str from, struct index_known *k,
				 enum index_taken *ret);
