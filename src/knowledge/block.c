// The lines of a knowledge file, taken apart into blocks and keys. Users write such files by hand, so whatever is wrong is told with its line
// and the rest is read: one mistake must not cost the knowledge of a whole file.
#include "knowledge/block.h"

#include <stdio.h>
#include <stdlib.h>

void know_problem(struct know_problems *to, const char *file, unsigned line, const char *format, ...)
{
	_cleanup_text_ struct text message = { 0 };
	va_list ap;
	va_start(ap, format);
	text_vprintf(&message, format, ap);
	va_end(ap);
	to->count++;
	if (to->report)
		to->report(to->ctx, file, line, message.p);
}

static size_t indent_of(struct str line)
{
	size_t columns = 0;
	for (size_t i = 0; i < line.n && (line.p[i] == ' ' || line.p[i] == '\t'); i++)
		columns += line.p[i] == '\t' ? 8 - columns % 8 : 1;
	return columns;
}

struct block_reader {
	struct arena *arena;
	struct know_problems *problems;
	know_block_fn *fn;
	void *ctx;
	struct know_block block;
	VEC(struct know_key) keys;
	struct text value; // of the newest key, where it goes on over more lines
	size_t key_indent;
};

static void block_reader_free(struct block_reader *r)
{
	text_free(&r->value);
	vec_free(&r->keys);
}

static void reader_end_key(struct block_reader *r)
{
	if (r->value.n)
		r->keys.data[r->keys.len - 1].value = arena_str(r->arena, text_str(&r->value));
	text_clear(&r->value);
}

static void reader_flush(struct block_reader *r)
{
	reader_end_key(r);
	if (r->block.kind.n) {
		r->block.keys = r->keys.data;
		r->block.nkeys = r->keys.len;
		r->fn(r->ctx, &r->block);
	}
	r->block.kind = (struct str){ 0 };
	r->keys.len = 0;
	r->key_indent = 0;
}

static void reader_key(struct block_reader *r, struct str line, size_t indent, unsigned number)
{
	if (!r->block.kind.n) {
		know_problem(r->problems, r->block.file, number, "an indented line before the first block");
		return;
	}
	if (r->keys.len && indent > r->key_indent) {
		if (!r->value.n)
			text_add(&r->value, r->keys.data[r->keys.len - 1].value);
		text_add(&r->value, S(" "));
		text_add(&r->value, str_trim(line));
		return;
	}
	reader_end_key(r);
	r->key_indent = indent;
	struct str rest = line;
	struct know_key key = { .key = str_word(&rest), .line = number };
	key.value = str_trim(rest);
	vec_push(&r->keys, key);
}

void know_blocks(struct arena *arena, const char *file, struct str text, struct know_problems *problems, know_block_fn *fn,
		 void *ctx)
{
	_cleanup_(block_reader_free) struct block_reader r = {
		.arena = arena, .problems = problems, .fn = fn, .ctx = ctx, .block.file = file
	};
	unsigned number = 0;
	while (text.n) {
		struct str line = str_split(&text, '\n');
		number++;
		if (memchr(line.p, 0, line.n)) {
			know_problem(problems, file, number, "a NUL byte; this is not a text file");
			break;
		}
		struct str bare = str_trim(line);
		if (!bare.n || bare.p[0] == '#')
			continue;
		size_t indent = indent_of(line);
		if (indent) {
			reader_key(&r, bare, indent, number);
			continue;
		}
		reader_flush(&r);
		r.block.kind = str_word(&bare);
		r.block.id = str_trim(bare);
		r.block.line = number;
	}
	reader_flush(&r);
}
