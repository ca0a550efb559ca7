// What must hold of questions to the clerk and of its answers, whatever is in them.
#pragma once

#include <stdlib.h>

#include "source/clerk/wire.h"

/** A question that is taken is sent and taken in the same way. Returns whether it was taken. */
static inline bool clerk_check_question(struct str bytes)
{
	struct arena a = { 0 };
	struct clerk_question q, again;
	struct text sent = { 0 }, back = { 0 };
	bool taken = clerk_take_question(bytes, &a, &q);
	if (taken) {
		clerk_put_question(&sent, &q);
		if (!clerk_take_question(text_str(&sent), &a, &again))
			abort();
		clerk_put_question(&back, &again);
		if (!str_eq(text_str(&sent), text_str(&back)))
			abort();
	}
	text_free(&sent);
	text_free(&back);
	arena_free(&a);
	return taken;
}

/** An answer to a question for two probes and for one. */
static inline bool clerk_check_answer(struct str bytes)
{
	struct arena a = { 0 };
	struct probe p[3] = { { .path = "/proc/version" }, { .path = "/proc/version" }, { .path = "/proc/stat" } };
	struct probe_batch b[2] = { { .probes = p, .n = 2 }, { .probes = p + 2, .n = 1 } };
	struct clerk_question q = { .batches = b, .n = 2 };
	struct probe_count count = { 0 };
	size_t sum = 0;
	bool taken = clerk_take_answer(bytes, &a, &q, &count);
	for (size_t i = 0; taken && i < 3; i++) {
		if (p[i].n && !p[i].data)
			abort();
		for (size_t k = 0; k < p[i].n; k++)
			sum += (unsigned char)p[i].data[k]; // every byte is there
	}
	arena_free(&a);
	return taken && sum != (size_t)-1;
}
