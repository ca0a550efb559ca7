// How long a view is valid: the rule of base/str.h. In sanitized builds every test checks it.
#pragma once

#include <stdlib.h>

#include "base/arena.h"
#include "base/cleanup.h"

#if defined(__SANITIZE_ADDRESS__)
enum { ADDRESSES_CHECKED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { ADDRESSES_CHECKED = 1 };
#else
enum { ADDRESSES_CHECKED = 0 };
#endif
#else
enum { ADDRESSES_CHECKED = 0 };
#endif

/** The scope for which a view is lent. */
struct lifetime {
	char *copy;
};

#define _lifetime_ _cleanup_(lifetime_end) struct lifetime

static inline void lifetime_end(struct lifetime *l)
{
	free(l->copy);
	l->copy = NULL;
}

/**
 * @s, until @l ends or begins again. With AddressSanitizer it is a copy of exactly that size, which is freed then. So a test finds
 * code that reads behind its end or keeps a view of it.
 */
static inline struct str lifetime_begin(struct lifetime *l, struct str s)
{
	if (!ADDRESSES_CHECKED)
		return s;
	char *copy = mem_large(s.n);
	if (s.n)
		memcpy(copy, s.p, s.n);
	lifetime_end(l);
	l->copy = copy;
	return (struct str){ copy, s.n };
}
