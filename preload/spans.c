// Which of our memory an address lies in: a tree of ranges that do not overlap. The C library has the tree.
#include <search.h>

#include "preload/guard.h"

/** Ranges that overlap are the same to the tree: one that is looked for is the byte of an address. */
static int spans_compare(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	return x->end <= y->begin ? -1 : x->begin >= y->end ? 1 : 0;
}

bool span_add(struct span *s)
{
	struct span **found = tsearch(s, &guard.spans, spans_compare);
	return found && *found == s;
}

void span_drop(struct span *s)
{
	struct span **found = tfind(s, &guard.spans, spans_compare);
	if (found && *found == s)
		tdelete(s, &guard.spans, spans_compare);
}

struct span *span_of(uint64_t address)
{
	const struct span one = { .begin = address, .end = address + 1 };
	struct span **found = tfind(&one, &guard.spans, spans_compare);
	return found ? *found : NULL;
}

static void (*walked)(struct span *s);

static void node_visit(const void *node, VISIT which, int depth)
{
	(void)depth;
	if (which == postorder || which == leaf)
		walked(*(struct span *const *)node);
}

void spans_walk(void (*f)(struct span *s))
{
	walked = f;
	twalk(guard.spans, node_visit);
}
