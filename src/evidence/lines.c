// Keeps lines of the evidence beside the events that were read from them. Which lines are wanted is known only when a source was read, so a
// file is read a second time, of a stream a copy is kept, and of records those before the newest.
#include "evidence/lines.h"

#include <stdlib.h>

#include "base/door/door.h"
#include "evidence/log/line.h"

enum {
	WANTED_MAX = 1 << 16, // lines of one source
	STREAM_MAX = 64 << 20,
	KEPT_MAX = 32 << 20, // bytes of all lines
	CHUNK = 256 << 10,
};

struct kept_line {
	struct place at; // first, for by_place()
	size_t begin, n; // in @bytes
};

struct lines {
	unsigned around;
	VEC(struct place) wanted; // of the source that is being read
	VEC(struct kept_line) kept;
	struct text bytes;
	// of a stream
	struct source watched, *stream;
	struct text copy;
	// of records
	VEC(struct text) before; // the newest that were not kept
	size_t before_bytes;
	size_t after; // records that are still wanted behind the last one
};

struct lines *lines_new(unsigned around)
{
	struct lines *l = mem_alloc(sizeof(*l));
	l->around = around;
	return l;
}

/** Forgets the oldest @n records that were not kept. */
static void records_forget(struct lines *l, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		l->before_bytes -= l->before.data[k].n;
		text_free(&l->before.data[k]);
	}
	l->before.len -= n;
	if (l->before.len)
		memmove(l->before.data, l->before.data + n, l->before.len * sizeof(l->before.data[0]));
}

void lines_free(struct lines *l)
{
	if (!l)
		return;
	vec_free(&l->wanted);
	vec_free(&l->kept);
	text_free(&l->bytes);
	text_free(&l->copy);
	records_forget(l, l->before.len);
	vec_free(&l->before);
	free(l);
}

static int evidence_lines_by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->source != y->source)
		return x->source < y->source ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

void lines_want(struct lines *l, struct place at)
{
	const struct place *last = l->wanted.len ? &l->wanted.data[l->wanted.len - 1] : NULL;
	if (at.line && l->wanted.len < WANTED_MAX && !(last && !evidence_lines_by_place(last, &at)))
		vec_push(&l->wanted, at);
}

static ssize_t read_and_keep(struct source *s, void *buffer, size_t size, struct uh_error **ret_err)
{
	struct lines *l = s->ctx;
	const ssize_t n = l->stream->read(l->stream, buffer, size, ret_err);
	if (n > 0 && l->copy.n < STREAM_MAX)
		text_add(&l->copy, (struct str){ buffer, (size_t)n });
	return n;
}

struct source *lines_watch(struct lines *l, struct source *s)
{
	l->wanted.len = 0;
	text_clear(&l->copy);
	if (s->door)
		return s;
	l->stream = s;
	l->watched = (struct source){ .name = s->name, .size = s->size, .read = read_and_keep, .ctx = l };
	return &l->watched;
}

static void evidence_lines_keep(struct lines *l, struct place at, struct str text)
{
	text = str_cut(text, LINE_MAX_BYTES);
	text.n -= str_ends(text, S("\r"));
	if (l->bytes.n + text.n > KEPT_MAX)
		return;
	struct kept_line one = { at, l->bytes.n, text.n };
	text_add(&l->bytes, text);
	vec_push(&l->kept, one);
}

/** Walks a text that comes in pieces, line by line. */
struct line_walk {
	struct lines *lines;
	size_t next;      // of the wanted lines
	uint64_t line;    // that the next piece begins in, or goes on with
	struct text part; // of a wanted line that goes over pieces
};

static void walk_piece(struct line_walk *w, struct str piece)
{
	struct lines *l = w->lines;
	while (piece.n && w->next < l->wanted.len) {
		const char *newline = memchr(piece.p, '\n', piece.n);
		const size_t n = newline ? (size_t)(newline - piece.p) : piece.n;
		const struct place at = { l->wanted.data[w->next].source, w->line };
		const bool wanted = l->wanted.data[w->next].line <= w->line + l->around;
		if (wanted && w->part.n < LINE_MAX_BYTES)
			text_add(&w->part, str_cut(piece, n));
		piece = str_from(piece, n + (newline != NULL));
		if (!newline)
			return;
		if (wanted)
			evidence_lines_keep(l, at, text_str(&w->part));
		text_clear(&w->part);
		w->line++;
		while (w->next < l->wanted.len && l->wanted.data[w->next].line + l->around < w->line)
			w->next++;
	}
}

void lines_take(struct lines *l, const struct source *s)
{
	struct line_walk w = { .lines = l, .line = 1 };
	_cleanup_error_ struct uh_error *err = NULL; // the source was read before: what is missing now is only not shown
	if (l->wanted.len)
		qsort(l->wanted.data, l->wanted.len, sizeof(l->wanted.data[0]), evidence_lines_by_place);
	_cleanup_free_ char *room = s->door && l->wanted.len ? mem_large(CHUNK) : NULL;
	uint64_t offset = 0;
	for (ssize_t n = room ? 1 : 0; n > 0 && w.next < l->wanted.len;) {
		n = door_read(s->door, offset, room, CHUNK, &err);
		walk_piece(&w, (struct str){ room, n > 0 ? (size_t)n : 0 });
		offset += n > 0 ? (uint64_t)n : 0;
	}
	if (!s->door)
		walk_piece(&w, text_str(&l->copy));
	if (w.next < l->wanted.len && w.part.n) // the last line has no newline
		evidence_lines_keep(l, (struct place){ l->wanted.data[w.next].source, w.line }, text_str(&w.part));
	text_free(&w.part);
	text_free(&l->copy);
	l->wanted.len = 0;
}

void lines_begin_records(struct lines *l)
{
	records_forget(l, l->before.len);
	l->after = 0;
}

void lines_take_record(struct lines *l, struct str text)
{
	const struct place *last = l->kept.len ? &l->kept.data[l->kept.len - 1].at : NULL;
	if (l->wanted.len) {
		const struct place at = l->wanted.data[0];
		for (size_t n = 0; n < l->before.len; n++)
			if (at.line > l->before.len - n)
				evidence_lines_keep(l, (struct place){ at.source, at.line - (l->before.len - n) },
						    text_str(&l->before.data[n]));
		for (size_t n = 0; n < l->wanted.len; n++)
			if (!n || evidence_lines_by_place(&l->wanted.data[n - 1], &l->wanted.data[n]))
				evidence_lines_keep(l, l->wanted.data[n], text);
		l->after = l->around;
	} else if (l->after && last) {
		evidence_lines_keep(l, (struct place){ last->source, last->line + 1 }, text);
		l->after--;
	} else if (l->around) { // nobody wants it yet: one of the next may
		struct text copy = { 0 };
		if (l->before_bytes > KEPT_MAX)
			records_forget(l, l->before.len);
		else if (l->before.len == l->around)
			records_forget(l, 1);
		text_add(&copy, str_cut(text, LINE_MAX_BYTES));
		l->before_bytes += copy.n;
		vec_push(&l->before, copy);
		return;
	}
	records_forget(l, l->before.len);
	l->wanted.len = 0;
}

struct str lines_at(const struct lines *l, struct place at)
{
	// Sources are read one after the other, so that the lines are in order.
	const struct kept_line *k =
		l && l->kept.len ? bsearch(&at, l->kept.data, l->kept.len, sizeof(l->kept.data[0]), evidence_lines_by_place) :
				   NULL;
	return k ? (struct str){ l->bytes.p + k->begin, k->n } : (struct str){ 0 };
}
