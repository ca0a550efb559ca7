// What the driver tells a debugger: GPUs, queues, and the waves of a queue that stands, saved as the GPU saves them.
#include "emulator/preload/state.h"

#include <errno.h>
#include <unistd.h>

#define QUEUE_INVALID (1u << 31)

enum {
	CAPABLE_DEBUG_TRAP = 1 << 15,
	TTMPS_SET_UP = 1,
	QUEUE_AQL = 2,
	AMD = 0x1002,
	LANES = 64,
	VGPRS = 32,
	SGPRS = 112,
	WAVE_PADDING = 64,
	WAVE_WORDS = 32, // hardware and trap registers
	WAVE_BYTES = WAVE_PADDING + WAVE_WORDS * 4 + SGPRS * 4 + VGPRS * LANES * 4,
	WAVES_MOST = 64,
	AREA_HEADER = 64,
	WAVE_FIRST = 1 << 17, // of its workgroup
	WAVE_LAST = 1 << 16,
	STACK_WORDS = 3, // two of the command processor's, the waves' size; a word for each wave follows
};

#define STATE_WORD (1u << 31 | ((SGPRS + 16) / 16 - 1) << 6)

/** How the parts that are known here save a wave of so many registers: the word in the control stack that says so. */
static const struct wave_state {
	const char *gfx;
	uint32_t state;
	bool marks; // the trap handler marks the waves whose words it has filled in, and does not park those that stop
} wave_states[] = {
	{ "gfx906", STATE_WORD | (VGPRS / 4 - 1), false },
	{ "gfx90a", STATE_WORD | (VGPRS / 4 - 1) << 24 | (VGPRS / 8 - 1), false },
	{ "gfx942", STATE_WORD | (VGPRS / 4 - 1) << 24 | (VGPRS / 8 - 1), true },
	{ "gfx950", STATE_WORD | (VGPRS / 4 - 1) << 24 | (VGPRS / 8 - 1), true },
};

static const struct wave_state *state_of(const struct plan_gpu *g)
{
	for (size_t i = 0; i < ARRAY_SIZE(wave_states); i++)
		if (!strcmp(wave_states[i].gfx, g->gfx))
			return &wave_states[i];
	return NULL;
}

struct kmt_runtime_info {
	uint64_t list;
	uint32_t state, ttmps;
};

struct kmt_gpu_info {
	uint64_t exceptions, apertures[6];
	uint32_t gpu_id, location, vendor, device, revision, subsystem[2], firmware;
	uint32_t target, simds, waves, arrays, arrays_per_engine, xccs, capability, debug;
};

struct kmt_queue_info {
	uint64_t exceptions, ring, write, read, save_area;
	uint32_t id, gpu_id, ring_size, type, save_area_size, reserved;
};

/** As many as fit, of the sizes that the caller has; it learns how many there are. */
static void copy_out(struct kmt_trap *a, const void *entry, size_t size, uint32_t i)
{
	if (i < a->n)
		memcpy((char *)(uintptr_t)a->buffer + (size_t)i * a->size, entry, a->size < size ? a->size : size);
}

static void tell_gpus(const struct kmt *t, struct kmt_trap *a)
{
	for (uint32_t i = 0; i < t->plan.ngpus; i++) {
		const struct plan_gpu *g = &t->plan.gpus[i];
		const bool faulted = __atomic_load_n(&t->faulted, __ATOMIC_ACQUIRE) & gpu_bit(t, g);
		const struct kmt_gpu_info info = { .exceptions = (uint64_t)faulted << (EXCEPTION_OF_MEMORY - 1),
						   .gpu_id = g->id,
						   .location = g->location,
						   .vendor = AMD,
						   .device = g->device,
						   .revision = g->revision,
						   .target = target_of(g),
						   .simds = g->engines * g->arrays * g->cus * g->simds,
						   .waves = g->waves,
						   .arrays = g->engines * g->arrays,
						   .arrays_per_engine = g->arrays,
						   .xccs = 1,
						   .capability = CAPABLE_DEBUG_TRAP };
		copy_out(a, &info, sizeof(info), i);
	}
	a->n = (uint32_t)t->plan.ngpus;
	a->size = sizeof(struct kmt_gpu_info);
}

// --- waves ---

static uint32_t groups(const struct kmt_standing *s, unsigned d)
{
	return s->group[d] ? (s->grid[d] + s->group[d] - 1) / s->group[d] : 1;
}

/** What is in TRAPSTS of a wave that stopped for this, in MODE, and the number of the trap. */
static const struct {
	uint32_t status, mode, trap;
} stops[] = {
	[EXCEPTION_ABORT] = { .trap = 2 },
	[EXCEPTION_TRAP] = { .trap = 2 },
	[EXCEPTION_MATH_ERROR] = { 1 << 2, 1 << 14, 0 }, // division by 0
	[EXCEPTION_ILLEGAL_INSTRUCTION] = { .status = 1 << 11 },
	[EXCEPTION_MEMORY_VIOLATION] = { .status = 1u << 28 },
	[EXCEPTION_APERTURE_VIOLATION] = { .status = 1 << 8 },
};

/** Registers of a wave, from the lowest address on: vector, scalar, hardware, trap handler's. */
static void save_wave(uint32_t *to, const struct wave_state *w, const struct kmt_standing *s, unsigned group, unsigned number)
{
	uint32_t *h = to + VGPRS * LANES + SGPRS, *t = h + 16;
	const bool stopped = s->exception && s->exception < ARRAY_SIZE(stops);
	for (unsigned lane = 0; lane < LANES && s->vector >= 0 && s->vector + 1 < VGPRS; lane++) {
		to[s->vector * LANES + lane] = (uint32_t)s->address;
		to[(s->vector + 1) * LANES + lane] = (uint32_t)(s->address >> 32);
	}
	if (s->scalar >= 0 && s->scalar + 1 < SGPRS) {
		to[VGPRS * LANES + s->scalar] = (uint32_t)s->address;
		to[VGPRS * LANES + s->scalar + 1] = (uint32_t)(s->address >> 32);
	}
	h[1] = (uint32_t)s->pc;
	h[2] = (uint32_t)(s->pc >> 32);
	h[3] = h[4] = UINT32_MAX;                 // all lanes
	h[5] = 1 << 16 | (uint32_t)stopped << 13; // valid, halted
	h[6] = stopped ? stops[s->exception].status : 0;
	h[9] = stopped ? stops[s->exception].mode : 0;
	t[6] = (uint32_t)stopped << 30 | (stopped ? stops[s->exception].trap << 25 : 0);
	t[8] = group % groups(s, 0);
	t[9] = group / groups(s, 0) % groups(s, 1);
	t[10] = group / groups(s, 0) / groups(s, 1);
	if (w->marks) {
		t[11] = 1u << 31 | s->packet << 6 | number;
	} else {
		t[6] |= s->packet;
		t[7] = (uint32_t)s->pc; // a wave that stopped waits in the trap handler
		t[11] = number | (uint32_t)(s->pc >> 32 & 0xffff) << 7;
	}
}

/** The first waves of the dispatch that the queue stands in. */
static void save_waves(struct kmt_queue *q, const struct wave_state *w)
{
	const struct kmt_standing *s = &q->standing;
	const uint64_t items = (uint64_t)s->group[0] * (s->group[1] ? s->group[1] : 1) * (s->group[2] ? s->group[2] : 1);
	const unsigned in_group = items ? (unsigned)((items + LANES - 1) / LANES) : 1;
	const uint64_t all = (uint64_t)groups(s, 0) * groups(s, 1) * groups(s, 2);
	const unsigned room = (q->area_size - AREA_HEADER - STACK_WORDS * 4) / (WAVE_BYTES + 4);
	const unsigned most = room < WAVES_MOST ? room : WAVES_MOST, fit = in_group < most ? most / in_group : 0;
	const unsigned n = (all < fit ? (unsigned)all : fit) * in_group, words = STACK_WORDS + n;
	struct kmt_save_area *area = q->area;
	uint32_t *stack = (uint32_t *)(void *)area + AREA_HEADER / 4;
	area->stack_offset = AREA_HEADER;
	area->stack_size = words * 4;
	area->waves_offset = AREA_HEADER + words * 4 + n * WAVE_BYTES;
	area->waves_size = n * WAVE_BYTES;
	stack[2] = w->state;
	for (unsigned i = 0; i < n; i++) {
		stack[STACK_WORDS + i] = (i % in_group ? 0 : WAVE_FIRST) | (i % in_group == in_group - 1 ? WAVE_LAST : 0);
		save_wave((uint32_t *)(void *)((char *)area + area->waves_offset - (i + 1) * WAVE_BYTES), w, s, i / in_group,
			  i % in_group);
	}
}

/** Those whose numbers the caller gives; their waves are then in the save areas that the runtime gave them. A number that is none's is
 * marked. Returns how many. */
static int hold(struct kmt *t, uint32_t *ids, uint32_t n, bool held)
{
	int done = 0;
	pthread_mutex_lock(&t->lock);
	for (uint32_t i = 0; i < n; i++) {
		struct kmt_queue *q = ids[i] < KMT_QUEUES_MOST ? t->queues[ids[i]] : NULL;
		const struct wave_state *w = q && held ? state_of(q->gpu) : NULL;
		ids[i] |= q ? 0 : QUEUE_INVALID;
		done += q != NULL;
		if (q)
			__atomic_store_n(&q->held, held, __ATOMIC_RELEASE);
		if (w && q->area && q->area_size > AREA_HEADER + STACK_WORDS * 4 &&
		    __atomic_load_n(&q->standing.is, __ATOMIC_ACQUIRE))
			save_waves(q, w);
	}
	pthread_mutex_unlock(&t->lock);
	return done;
}

static int disable(struct kmt *t)
{
	pthread_mutex_lock(&t->lock);
	for (unsigned i = 0; i < KMT_QUEUES_MOST; i++)
		if (t->queues[i])
			__atomic_store_n(&t->queues[i]->held, false, __ATOMIC_RELEASE);
	t->debugged = false;
	pthread_mutex_unlock(&t->lock);
	return 0;
}

static void tell_queues(struct kmt *t, struct kmt_trap *a)
{
	uint32_t n = 0;
	pthread_mutex_lock(&t->lock);
	for (unsigned i = 0; i < KMT_QUEUES_MOST; i++) {
		const struct kmt_queue *q = t->queues[i];
		if (!q)
			continue;
		const struct kmt_queue_info info = { .exceptions = __atomic_load_n(&q->exceptions, __ATOMIC_ACQUIRE),
						     .ring = (uintptr_t)q->ring,
						     .write = (uintptr_t)q->write,
						     .read = (uintptr_t)q->read,
						     .save_area = (uintptr_t)q->area,
						     .id = q->id,
						     .gpu_id = q->gpu->id,
						     .ring_size = (uint32_t)(q->packets * AQL_BYTES),
						     .type = QUEUE_AQL,
						     .save_area_size = q->area_size };
		copy_out(a, &info, sizeof(info), n++);
	}
	pthread_mutex_unlock(&t->lock);
	a->n = n;
	a->size = sizeof(struct kmt_queue_info);
}

/** A program debugs itself, as its runtime does for a core dump; to debug another, one would have to be its tracer. */
int debug_trap(struct kmt *t, struct kmt_trap *a)
{
	const struct kmt_runtime_info runtime = { t->list, t->runtime ? KMT_RUNTIME_ENABLED : 0, TTMPS_SET_UP };
	if (a->pid != (uint32_t)getpid())
		return -ESRCH;
	if (t->debugged == (a->operation == KMT_TRAP_ENABLE))
		return -EINVAL;
	switch (a->operation) {
	case KMT_TRAP_ENABLE:
		if (a->n)
			memcpy((void *)(uintptr_t)a->buffer, &runtime, a->n < sizeof(runtime) ? a->n : sizeof(runtime));
		a->n = sizeof(runtime);
		t->debugged = true;
		return 0;
	case KMT_TRAP_DISABLE:
		return disable(t);
	case KMT_TRAP_SUSPEND:
		return t->runtime ? hold(t, (uint32_t *)(uintptr_t)a->buffer, a->n, true) : -EACCES;
	case KMT_TRAP_RESUME: // has no exceptions in front
		return t->runtime ? hold(t, (uint32_t *)(uintptr_t)a->exceptions, (uint32_t)a->buffer, false) : -EACCES;
	case KMT_TRAP_QUEUES:
		tell_queues(t, a);
		return 0;
	case KMT_TRAP_GPUS:
		tell_gpus(t, a);
		return 0;
	default:
		return -EPERM;
	}
}
