// The code of a launch: what level 10 saved beside the inputs, what the user named, or the file that the runtime noted. It counts only if it has
// the kernel where the recording has it: a program that was built again since has other code.
#include <stdlib.h>

#include "base/cleanup.h"
#include "job/repro/make.h"
#include "source/file.h"

enum { OBJECT_BYTES_MOST = 1 << 30 };

struct code_wanted {
	struct repro_making *m;
	const struct recorded_kernel *kernel;
	const struct recorded_code *code;
	const struct code_object *found;
};

/** As code_taker.take(). */
static bool code_take(void *ctx, struct str name, char *bytes, size_t size)
{
	struct code_wanted *w = ctx;
	struct arena *a = w->m->plan->arena;
	struct code_object *o = NULL;
	_cleanup_free_ char *owned = bytes;
	struct str kept = { owned, size };
	uh_error_free(code_object_parse(a, name, kept, NULL, &o));
	const struct code_kernel *k = o ? list_find(o->kernels, o->nkernels, it, str_eq(it->name, w->kernel->name)) : NULL;
	if (!k || k->descriptor + w->code->delta != w->kernel->object)
		return false;
	kept.p = arena_copy(a, owned, size);
	uh_error_free(code_object_parse(a, arena_str(a, name), kept, NULL, &o));
	w->found = o;
	return o;
}

/** What the recorder saved of code that was in memory only. */
static bool code_take_saved(struct code_wanted *w)
{
	struct repro_making *m = w->m;
	struct file f;
	if (!m->dumps)
		return false;
	const char *path = arena_printf(m->plan->arena, "%s/code-%u-%llx.co", m->dumps, m->r->header.pid,
					(unsigned long long)w->code->base)
				   .p;
	struct uh_error *err = file_open(path, &f);
	if (err) {
		door_forget(err);
		return false;
	}
	_cleanup_free_ char *bytes = f.size && f.size <= OBJECT_BYTES_MOST ? mem_large(f.size) : NULL;
	const bool read = bytes && file_read(&f, 0, bytes, f.size);
	const size_t size = f.size;
	file_close(&f);
	return read && code_take(w, str_z(path), take_ptr(bytes), size);
}

const struct repro_code *repro_code_of(struct repro_making *m, const struct recorded_kernel *k)
{
	struct repro_plan *p = m->plan;
	const struct recorded_code *c = list_find(m->r->code, m->r->ncode, it,
						  it->executable == k->executable && k->object - it->base < it->size &&
							  it->loaded <= k->unloaded && it->unloaded >= k->loaded);
	if (!c) {
		repro_leave_out(p, "Kernels whose code the recording does not tell.");
		return NULL;
	}
	const struct repro_code *known = list_find(m->code.data, m->code.len, it, it->base == c->base);
	if (known)
		return known;
	struct code_wanted w = { m, k, c, NULL };
	const struct code_taker taker = { code_take, &w };
	if (!code_take_saved(&w) && !code_places_find(m->places, c->uri, &taker))
		code_places_any(m->places, &taker);
	vec_push(&m->code, ((struct repro_code){ c->base, w.found, (uint32_t)p->objects.len }));
	if (w.found)
		vec_push(&p->objects, ((struct repro_object){ w.found->bytes, w.found->gfx, c->base, w.found->abi }));
	else
		repro_leave_out(
			p, "The code of " STR_FMT " is gone%s" STR_FMT ": record at level 10, or name its file with --code.",
			STR_ARG(kernel_words(k)->plain), p->redacted ? "" : " from ",
			STR_ARG(p->redacted ? (struct str){ 0 } : c->uri));
	return &m->code.data[m->code.len - 1];
}
