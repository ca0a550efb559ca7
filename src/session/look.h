// What the looks at targets, GPUs and code share.
#pragma once

#include "report/live/look.h"

/** Who is told of what is odd. */
struct teller {
	uh_problem_fn *problem;
	void *ctx;
};

/** Tells each line of @text. */
void look_tell(const struct teller *t, struct str text);
struct know *look_knowledge(struct teller *t);
/** The same for a look at a machine, which may have it. It is freed with the second. */
struct know *look_knowledge_of(const struct uh_machine *m, struct teller *t);
void look_knowledge_free(const struct uh_machine *m, struct know *k);
/** Tells what is odd about a target and its code. */
void look_tell_target(struct look *l, const struct teller *t);
/** Finds out what code the waves run. */
void look_find_code(struct waves_seen *seen, struct arena *a);
/** Finds the GPUs of this machine and writes about their waves. */
struct uh_error *live_waves(const struct uh_look_options *o, FILE *out, struct teller *teller);
