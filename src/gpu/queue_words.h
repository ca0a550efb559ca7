// The words of queues by their names: descriptors (MQDs) and registers (HQDs), as knowledge/queues.know and queue-words.know have them.
#pragma once

#include "gpu/register/register_names.h"
#include "gpu/target.h"

struct queue_word {
	unsigned at;     // which word
	struct str name; // COMPUTE_PGM_RSRC1; empty: nobody knows
	bool is_register;
	struct reg reg; // where it is one
	uint32_t value;
};

/** All words, of a queue of @gfx; how many. They lie in @a. */
size_t queue_words_named(struct arena *a, const struct know *k, struct str gfx, const struct queue_words *w,
			 const struct queue_word **ret);
