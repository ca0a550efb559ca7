// What must hold of questions to the privileged reader and of its answers, whatever is in them.
#pragma once

#include <stdlib.h>

#include "source/privileged/wire.h"

/** A question that is taken is sent and taken in the same way. Returns whether it was taken. */
static inline bool privileged_check_question(struct str bytes)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text sent = { 0 }, back = { 0 };
	struct privileged_question q, again;
	if (!privileged_take_question(bytes, &a, &q))
		return false;
	for (size_t i = 0; i < q.n; i++)
		if (q.batches[i].root)
			abort();
	wire_put(&sent, &privileged_question_kind, &q);
	if (!privileged_take_question(text_str(&sent), &a, &again))
		abort();
	wire_put(&back, &privileged_question_kind, &again);
	if (!str_eq(text_str(&sent), text_str(&back)))
		abort();
	return true;
}

/** An answer to a question for two probes and for one. */
static inline bool privileged_check_answer(struct str bytes)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct probe p[3] = { { .path = "/proc/version" }, { .path = "/proc/version" }, { .path = "/proc/stat" } };
	struct probe_batch b[2] = { { .probes = p, .n = 2 }, { .probes = p + 2, .n = 1 } };
	struct privileged_question q = { .batches = b, .n = 2 };
	struct privileged_answer answer;
	struct probe_count count = { 0 };
	size_t sum = 0;
	bool taken = wire_take(bytes, &privileged_answer_kind, &a, &answer) && privileged_fill_in(&q, &answer, &count);
	for (size_t i = 0; taken && i < 3; i++) {
		if (p[i].n && !p[i].data)
			abort();
		for (size_t k = 0; k < p[i].n; k++)
			sum += (unsigned char)p[i].data[k]; // every byte is there
	}
	return taken && sum != (size_t)-1;
}
