// A thread that does not come back from the runtime: what was allocated before, and where in the kernel it waits.
#include <stdlib.h>

#include "evidence/recording/waits.h"
#include "gpu/memory/map.h"
#include "source/probe.h"

enum { SIZES_SAID = 3, SIZES_KEPT = 64, ASK_MS = 500 };

struct size_count {
	uint64_t size, count, born; // born: of the first
};

static bool of_a_gpu(const struct flight_recording *r, const struct recorded_allocation *a)
{
	const struct recorded_agent *owner = a->pool ? recording_agent(r, a->pool->agent) : NULL;
	return a->size && (a->call == CALL_HANDLE_CREATE || (owner && owner->gpu));
}

static int commoner_first(const void *a, const void *b)
{
	const struct size_count *x = a, *y = b;
	return x->count > y->count ? -1 : x->count < y->count;
}

static int earlier_first(const void *a, const void *b)
{
	const struct size_count *x = a, *y = b;
	// The recorder's clock ticks slowly: of the same moment, the larger is told first.
	return x->born != y->born ? (x->born < y->born ? -1 : 1) : x->size > y->size ? -1 : x->size < y->size;
}

struct str allocations_say(struct arena *a, const struct flight_recording *r, struct small_allocations *ret)
{
	struct size_count sizes[SIZES_KEPT];
	size_t n = 0;
	uint64_t all = 0, said = 0;
	_cleanup_text_ struct text t = { 0 };
	*ret = (struct small_allocations){ 0 };
	for (size_t i = 0; i < r->nallocations; i++) {
		const struct recorded_allocation *m = &r->allocations[i];
		if (!of_a_gpu(r, m))
			continue;
		all++;
		if (m->size <= SMALL_ALLOCATION) {
			ret->first = !ret->count || m->born < ret->first ? m->born : ret->first;
			ret->last = m->born > ret->last ? m->born : ret->last;
			ret->count++;
		}
		size_t k = 0;
		while (k < n && sizes[k].size != m->size)
			k++;
		if (k == SIZES_KEPT)
			continue;
		if (k == n)
			sizes[n++] = (struct size_count){ m->size, 0, m->born };
		sizes[k].count++;
		sizes[k].born = m->born < sizes[k].born ? m->born : sizes[k].born;
	}
	qsort(sizes, n, sizeof(*sizes), commoner_first);
	n = n < SIZES_SAID ? n : SIZES_SAID;
	qsort(sizes, n, sizeof(*sizes), earlier_first);
	for (size_t k = 0; k < n; k++) {
		text_printf(&t, "%s" STR_FMT " of " STR_FMT, k ? ", " : "", STR_ARG(arena_grouped(a, sizes[k].count)),
			    STR_ARG(map_size_say(a, sizes[k].size)));
		said += sizes[k].count;
	}
	if (all > said)
		text_printf(&t, ", " STR_FMT " of other sizes", STR_ARG(arena_grouped(a, all - said)));
	return arena_str(a, text_str(&t));
}

const struct recorded_agent *thread_asks_gpu(const struct flight_recording *r, const struct recorded_thread *t)
{
	const struct recorded_agent *owner = NULL;
	for (size_t i = 0; i < r->npools && t->raw.call == CALL_POOL_ALLOCATE; i++)
		if (r->pools[i].handle == t->raw.a[2])
			owner = recording_agent(r, r->pools[i].agent);
	return owner && owner->gpu ? owner : NULL;
}

struct str thread_call_say(struct arena *a, const struct flight_recording *r, const struct recorded_thread *t)
{
	const struct str call = call_say(a, t->raw.call, t->raw.a);
	// HIP has other ways to it than hipMalloc, and may ask for its own needs.
	return thread_asks_gpu(r, t) ? arena_printf(a, STR_FMT " (hipMalloc or the like)", STR_ARG(call)) : call;
}

struct str kernel_wait_say(struct arena *a, struct str wchan, struct str stack)
{
	struct str inner = str_is(str_trim(wchan), "0") ? (struct str){ 0 } : str_trim(wchan), outer = { 0 };
	while (stack.n) {
		struct str line = str_trim(str_split(&stack, '\n'));
		const bool driver = str_ends(line, S("[amdgpu]"));
		const ptrdiff_t at = str_find(line, S("] "));
		line = at < 0 ? line : str_from(line, (size_t)at + 2);
		const struct str function = str_trim(str_split(&line, '+'));
		inner = inner.n ? inner : function;
		outer = driver ? function : outer;
	}
	if (!inner.n || !outer.n || str_eq(inner, outer))
		return inner;
	return arena_printf(a, STR_FMT ", called from the driver's " STR_FMT, STR_ARG(inner), STR_ARG(outer));
}

struct str thread_wait_say(struct arena *a, struct tape *tape, int64_t pid, uint32_t tid)
{
	enum { WCHAN, STACK, FILES };
	static const char *const names[FILES] = { [WCHAN] = "wchan", [STACK] = "stack" };
	struct probe p[FILES];
	struct probe_patience patience = { ASK_MS, tape };
	struct probe_count count = { .patience = &patience };
	for (size_t i = 0; i < FILES; i++)
		p[i] = (struct probe){ .path = arena_printf(a, "/proc/%lld/task/%u/%s", (long long)pid, tid, names[i]).p,
				       .size = 16 << 10 };
	struct probe_batch batch = { .probes = p, .n = FILES, .goes_on = true };
	probe_run_all(a, &batch, 1, ASK_MS, &count);
	return kernel_wait_say(a, probe_text(&p[WCHAN]), probe_text(&p[STACK]));
}

void recording_ask_threads(struct flight_recording *r, struct tape *tape)
{
	enum { ASKED_MOST = 16 };
	size_t asked = 0;
	for (size_t i = 0; i < r->nthreads && asked < ASKED_MOST; i++) {
		struct recorded_thread *t = &r->threads[i];
		if (!t->raw.call || t->raw.ended || recording_age(r, t->raw.since) < 1)
			continue;
		t->kernel = thread_wait_say(&r->arena, tape, r->header.pid, t->raw.tid);
		asked++;
	}
}
