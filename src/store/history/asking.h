// Questions to the history as SQL: the only place where conditions are put together.
#pragma once

#include "base/cleanup.h"
#include "store/history/query.h"

enum { INQUIRY_VALUES = 24 };

/** A statement while it is put together. */
struct inquiry {
	struct text sql;
	struct db_value values[INQUIRY_VALUES];
	size_t n;
	struct arena room; // of patterns
	bool any;          // a condition was written
};

void inquiry_free(struct inquiry *q);
#define _cleanup_inquiry_ _cleanup_(inquiry_free)

/** A column with a value, or a pattern; an empty one is no condition. */
void inquiry_is(struct inquiry *q, const char *column, struct str value);
/** A time; 0: without a limit. */
void inquiry_from(struct inquiry *q, const char *column, int64_t since, int64_t until);
/** All conditions on incidents. */
void inquiry_filter(struct inquiry *q, const struct history_filter *f);
struct uh_error *inquiry_ask(struct history *h, struct inquiry *q, db_row_fn *row, void *ctx);
