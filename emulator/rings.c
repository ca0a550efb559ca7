// The driver's rings, what is in them, and their fences.
#include "emulator/machine.h"

#include <stdlib.h>

static struct emu_ring_state *ring_named(struct emu_gpu *g, struct str name)
{
	for (size_t i = 0; i < g->rings.len; i++)
		if (str_eq(g->rings.data[i].name, name))
			return &g->rings.data[i];
	return NULL;
}

static bool known_ring(struct cursor *c, struct emu_gpu *g, struct emu_ring_state **ret)
{
	struct str name = cursor_word(c);
	*ret = ring_named(g, name);
	return *ret || emu_wrong(c, "there is no ring '" STR_FMT "'", STR_ARG(str_cut(name, 80)));
}

static bool name_right(struct str name)
{
	for (size_t i = 0; i < name.n; i++)
		if (!char_word(name.p[i]) && name.p[i] != '.' && name.p[i] != '-')
			return false;
	return name.n && name.n < 32;
}

static bool read_size(struct cursor *c, struct emu_ring_state *r)
{
	if (!cursor_unsigned(c, "the size of a ring", EMU_RING_MOST, &r->words))
		return false;
	return (r->words && !(r->words & (r->words - 1))) || emu_wrong(c, "the size of a ring is no power of two");
}

/** `NAME [size N] [rptr VALUE] [wptr VALUE] [driver VALUE] [nop N]` */
bool emu_ring_read(struct cursor *c, void *gpu)
{
	struct emu_gpu *g = gpu;
	struct str name = cursor_word(c);
	if (!name_right(name))
		return emu_wrong(c, "'" STR_FMT "' is no name of a ring", STR_ARG(str_cut(name, 80)));
	struct emu_ring_state *r = ring_named(g, name);
	if (!r && g->rings.len == EMU_FEW)
		return emu_wrong(c, "more than %d rings", EMU_FEW);
	if (!r) {
		struct arena *a = &g->machine->arena;
		const struct value *one = value_constant(a, 1);
		vec_push(&g->rings,
			 ((struct emu_ring_state){
				 .name = arena_str(a, name), .words = 1024, .signaled = one, .emitted = one, .done = one }));
		r = &g->rings.data[g->rings.len - 1];
	}
	bool driver = false;
	while (cursor_more(c)) {
		struct str key = cursor_word(c);
		if (str_is(key, "size")   ? !read_size(c, r) :
		    str_is(key, "rptr")   ? !cursor_value(c, NULL, &r->rptr) :
		    str_is(key, "wptr")   ? !cursor_value(c, NULL, &r->wptr) :
		    str_is(key, "driver") ? (driver = true, !cursor_value(c, NULL, &r->driver)) :
		    str_is(key, "nop")    ? !cursor_unsigned(c, "nop", UINT32_MAX, &r->nop) :
					    !emu_wrong(c, "'" STR_FMT "' is none of size, rptr, wptr, driver, nop",
						       STR_ARG(str_cut(key, 80))))
			return false;
	}
	if (!driver)
		r->driver = r->wptr;
	return true;
}

bool emu_packets_read(struct cursor *c, void *gpu)
{
	struct emu_ring_state *r;
	if (!known_ring(c, gpu, &r))
		return false;
	if (!cursor_is(c, "at"))
		return emu_wrong(c, "'at WORD' is missing");
	return words_read(c, &r->content, 1);
}

/** `RING signaled VALUE emitted VALUE [done VALUE]` */
bool emu_fence_read(struct cursor *c, void *gpu)
{
	struct emu_ring_state *r;
	bool done = false;
	if (!known_ring(c, gpu, &r))
		return false;
	while (cursor_more(c)) {
		struct str key = cursor_word(c);
		if (str_is(key, "signaled") ? !cursor_value(c, NULL, &r->signaled) :
		    str_is(key, "emitted")  ? !cursor_value(c, NULL, &r->emitted) :
		    str_is(key, "done")     ? (done = true, !cursor_value(c, NULL, &r->done)) :
					      !emu_wrong(c, "'" STR_FMT "' is none of signaled, emitted, done",
							 STR_ARG(str_cut(key, 80))))
			return false;
	}
	if (!done)
		r->done = r->signaled;
	return true;
}

size_t emu_rings(const struct emu_gpu *g) { return g->rings.len; }

static uint32_t position(const struct emu_ring_state *r, const struct value *v, double t)
{
	return (uint32_t)value_at(v, t) & (r->words - 1);
}

struct emu_ring emu_ring(const struct emu_gpu *g, size_t index, double t)
{
	const struct emu_ring_state *r = &g->rings.data[index];
	return (struct emu_ring){ r->name, r->words, position(r, r->rptr, t), position(r, r->wptr, t),
				  position(r, r->driver, t) };
}

uint32_t emu_ring_word(const struct emu_gpu *g, size_t index, uint32_t word, double t)
{
	const struct emu_ring_state *r = &g->rings.data[index];
	const struct emu_word *w = words_find(&r->content, word);
	return w ? (uint32_t)value_at(w->value, t) : r->nop;
}

size_t emu_fences(const struct emu_gpu *g) { return g->rings.len; }

struct emu_fence emu_fence(const struct emu_gpu *g, size_t index, double t)
{
	const struct emu_ring_state *r = &g->rings.data[index];
	return (struct emu_fence){ r->name, (uint32_t)value_at(r->signaled, t), (uint32_t)value_at(r->emitted, t),
				   (uint32_t)value_at(r->done, t) };
}
