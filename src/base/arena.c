#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ARENA_BLOCK = 16 << 10 };

struct arena_block {
	struct arena_block *below;
	size_t used, size;
	char bytes[] __attribute__((aligned(16)));
};

static void *mem_check(void *p)
{
	if (!p) {
		static const char line[] = "unhang: out of memory\n";
		if (write(STDERR_FILENO, line, sizeof(line) - 1) < 0)
			_exit(2);
		_exit(2);
	}
	return p;
}

void *mem_alloc(size_t size) { return mem_check(calloc(1, size ? size : 1)); }

void *mem_large(size_t size) { return mem_check(malloc(size ? size : 1)); }

void *mem_grow(void *p, size_t old_size, size_t new_size)
{
	p = mem_check(realloc(p, new_size));
	memset((char *)p + old_size, 0, new_size - old_size);
	return p;
}

bool mem_zero(const char *p, size_t n) { return !n || (!*p && !memcmp(p, p + 1, n - 1)); }

void mem_copy_sparse(char *to, const char *from, size_t n)
{
	enum { PAGE = 4096 };
	for (size_t at = 0; at < n; at += PAGE) {
		const size_t part = n - at < PAGE ? n - at : PAGE;
		if (!mem_zero(from + at, part))
			memcpy(to + at, from + at, part);
	}
}

void *arena_alloc(struct arena *a, size_t size)
{
	size = (size + 15) & ~(size_t)15;
	if (!a->top || a->top->size - a->top->used < size) {
		size_t room = size > ARENA_BLOCK ? size : ARENA_BLOCK;
		struct arena_block *b = mem_alloc(sizeof(*b) + room);
		b->below = a->top;
		b->size = room;
		a->top = b;
		a->total += sizeof(*b) + room;
	}
	void *p = a->top->bytes + a->top->used;
	a->top->used += size;
	return p;
}

void *arena_copy(struct arena *a, const void *from, size_t size)
{
	void *p = arena_alloc(a, size + 1);
	if (size)
		memcpy(p, from, size);
	return p;
}

char *arena_z(struct arena *a, struct str s) { return arena_copy(a, s.p, s.n); }

struct str arena_str(struct arena *a, struct str s) { return (struct str){ arena_z(a, s), s.n }; }

struct str arena_grouped(struct arena *a, uint64_t n)
{
	return n < 1000 ? arena_printf(a, "%llu", (unsigned long long)n) :
			  arena_printf(a, STR_FMT ",%03u", STR_ARG(arena_grouped(a, n / 1000)), (unsigned)(n % 1000));
}

struct str arena_printf(struct arena *a, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	int n = vsnprintf(NULL, 0, format, ap);
	va_end(ap);
	char *p = arena_alloc(a, (size_t)n + 1);
	va_start(ap, format);
	vsnprintf(p, (size_t)n + 1, format, ap);
	va_end(ap);
	return (struct str){ p, (size_t)n };
}

void arena_free(struct arena *a)
{
	while (a->top) {
		struct arena_block *b = a->top;
		a->top = b->below;
		free(b);
	}
	a->total = 0;
}

void vec_free(void *vec)
{
	VEC(char) bare; // every vector has this layout
	memcpy(&bare, vec, sizeof(bare));
	free(bare.data);
	memset(vec, 0, sizeof(bare));
}

char *text_room(struct text *t, size_t more)
{
	if (t->cap - t->n > more)
		return t->p + t->n;
	size_t cap = t->cap ? t->cap : 256;
	while (cap - t->n <= more)
		cap *= 2;
	t->p = mem_check(realloc(t->p, cap));
	t->cap = cap;
	return t->p + t->n;
}

void text_add(struct text *t, struct str s)
{
	text_room(t, s.n);
	if (s.n)
		memcpy(t->p + t->n, s.p, s.n);
	t->n += s.n;
	t->p[t->n] = 0;
}

void text_vprintf(struct text *t, const char *format, va_list ap)
{
	va_list again;
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, format, again);
	va_end(again);
	text_room(t, (size_t)n);
	vsnprintf(t->p + t->n, (size_t)n + 1, format, ap);
	t->n += (size_t)n;
}

void text_printf(struct text *t, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	text_vprintf(t, format, ap);
	va_end(ap);
}

void text_free(struct text *t)
{
	free(t->p);
	*t = (struct text){ 0 };
}
