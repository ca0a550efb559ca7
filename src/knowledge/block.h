// The shape of a knowledge file: blocks of keys. What the keys mean is load.c's business.
#pragma once

#include "base/arena.h"
#include "base/str.h"

struct know_key {
	struct str key, value;
	unsigned line;
};

struct know_block {
	struct str kind, id; // the first word of the heading, and the rest of it
	const char *file;
	unsigned line;
	size_t nkeys;
	const struct know_key *keys;
};

/** Where problems go: file, line (0: the whole file), what is wrong. */
struct know_problems {
	void (*report)(void *ctx, const char *file, unsigned line, const char *message);
	void *ctx;
	unsigned count;
};
void know_problem(struct know_problems *to, const char *file, unsigned line, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/** Takes what stands before the next @mark off @rest, and the mark itself; without one, all of it. */
static inline struct str part_take(struct str *rest, struct str mark)
{
	const ptrdiff_t at = str_find(*rest, mark);
	const struct str part = at < 0 ? *rest : str_cut(*rest, (size_t)at);
	*rest = str_from(*rest, at < 0 ? rest->n : (size_t)at + mark.n);
	return part;
}

typedef void know_block_fn(void *ctx, const struct know_block *block);

/** Reads @text and hands over each block. @text and @file must live as long as @arena. */
void know_blocks(struct arena *arena, const char *file, struct str text, struct know_problems *problems, know_block_fn *fn,
		 void *ctx);
