// What the driver tells a debugger: GPUs, queues, and the waves of a queue that stands, saved as the GPU saves them.
#include "emulator/thunk/interface.h"
#include "emulator/thunk/thunk.h"

#include <stdlib.h>

enum {
	RUNTIME_ENABLED = 1,
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
	STACK_WORDS = 3 + WAVES_MOST, // two of the command processor's, the waves' size, a word for each
	AREA_BYTES = AREA_HEADER + STACK_WORDS * 4 + WAVES_MOST * WAVE_BYTES,
};

/** How the parts that are known here save a wave of so many registers: the word in the control stack that says so. */
static const struct wave_state {
	const char *gfx;
	uint32_t state, first, last;
} wave_states[] = {
	{ "gfx90a", 1u << 31 | (VGPRS / 4 - 1) << 24 | ((SGPRS + 16) / 16 - 1) << 6 | (VGPRS / 8 - 1), 1 << 17, 1 << 16 },
	{ "gfx906", 1u << 31 | ((SGPRS + 16) / 16 - 1) << 6 | (VGPRS / 4 - 1), 1 << 17, 1 << 16 },
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

int hsaKmtDbgEnable(void **ret_runtime, uint32_t *ret_size)
{
	struct kmt_runtime_info *r = malloc(sizeof(*r)); // the caller frees it
	if (!r)
		return KMT_NO_MEMORY;
	*r = (struct kmt_runtime_info){ thunk_get()->list, RUNTIME_ENABLED, TTMPS_SET_UP };
	*ret_runtime = r;
	*ret_size = sizeof(*r);
	return KMT_SUCCESS;
}

int hsaKmtDbgDisable(void) { return KMT_SUCCESS; }

int hsaKmtDbgGetDeviceData(void **ret, uint32_t *ret_n, uint32_t *ret_size)
{
	const struct kfd_plan *p = &thunk_get()->plan;
	struct kmt_gpu_info *list = calloc(p->ngpus + 1, sizeof(*list));
	if (!list)
		return KMT_NO_MEMORY;
	for (size_t i = 0; i < p->ngpus; i++) {
		const struct plan_gpu *g = &p->gpus[i];
		const uint32_t e = engine_of(g);
		list[i] = (struct kmt_gpu_info){ .gpu_id = g->id,
						 .location = g->location,
						 .vendor = AMD,
						 .device = g->device,
						 .revision = g->revision,
						 .target = (e >> 10 & 63) * 10000 + (e >> 16 & 255) * 100 + (e >> 24),
						 .simds = g->engines * g->arrays * g->cus * g->simds,
						 .waves = g->waves,
						 .arrays = g->engines * g->arrays,
						 .arrays_per_engine = g->arrays,
						 .xccs = 1,
						 .capability = KMT_CAPABLE_DEBUG_TRAP };
	}
	*ret = list;
	*ret_n = (uint32_t)p->ngpus;
	*ret_size = sizeof(*list);
	return KMT_SUCCESS;
}

// --- waves ---

static uint32_t groups(const struct kmt_standing *s, unsigned d)
{
	return s->group[d] ? (s->grid[d] + s->group[d] - 1) / s->group[d] : 1;
}

/** Registers of a wave, from the lowest address on: vector, scalar, hardware, trap handler's. */
static void save_wave(uint32_t *to, const struct kmt_standing *s, unsigned group, unsigned number)
{
	uint32_t *h = to + VGPRS * LANES + SGPRS, *t = h + 16;
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
	h[3] = h[4] = UINT32_MAX;                      // all lanes
	h[5] = 1 << 16 | (s->faulted ? 1 << 13 : 0);   // valid, halted
	h[6] = s->faulted ? 1u << 28 : 0;              // memory violation
	t[6] = s->packet | (s->faulted ? 1 << 30 : 0); // stopped
	t[7] = (uint32_t)s->pc;                        // a wave that stopped waits in the trap handler
	t[8] = group % groups(s, 0);
	t[9] = group / groups(s, 0) % groups(s, 1);
	t[10] = group / groups(s, 0) / groups(s, 1);
	t[11] = number | (uint32_t)(s->pc >> 32 & 0xffff) << 7;
}

/** The first waves of the dispatch that the queue stands in. */
static void save_waves(struct kmt_queue *q, const struct wave_state *w)
{
	const struct kmt_standing *s = &q->standing;
	const uint64_t items = (uint64_t)s->group[0] * (s->group[1] ? s->group[1] : 1) * (s->group[2] ? s->group[2] : 1);
	const unsigned in_group = items ? (unsigned)((items + LANES - 1) / LANES) : 1;
	const uint64_t all = (uint64_t)groups(s, 0) * groups(s, 1) * groups(s, 2);
	const unsigned fit = in_group < WAVES_MOST ? WAVES_MOST / in_group : 0;
	const unsigned n = (all < fit ? (unsigned)all : fit) * in_group, words = 3 + n;
	uint32_t *header = (uint32_t *)q->saved, *stack = header + AREA_HEADER / 4;
	header[0] = AREA_HEADER;
	header[1] = words * 4;
	header[2] = AREA_HEADER + words * 4 + n * WAVE_BYTES;
	header[3] = n * WAVE_BYTES;
	stack[2] = w->state;
	for (unsigned i = 0; i < n; i++) {
		stack[3 + i] = (i % in_group ? 0 : w->first) | (i % in_group == in_group - 1 ? w->last : 0);
		save_wave((uint32_t *)(q->saved + header[2] - (i + 1) * WAVE_BYTES), s, i / in_group, i % in_group);
	}
}

static void save(struct kmt_queue *q)
{
	const struct wave_state *w = state_of(q->gpu);
	if (!w || q->saved)
		return;
	q->saved = calloc(1, AREA_BYTES);
	if (q->saved && __atomic_load_n(&q->standing.is, __ATOMIC_ACQUIRE))
		save_waves(q, w);
}

int hsaKmtDbgGetQueueData(void **ret, uint32_t *ret_n, uint32_t *ret_size, bool suspend)
{
	struct thunk *t = thunk_get();
	struct kmt_queue_info *list = calloc(KMT_QUEUES_MOST, sizeof(*list));
	uint32_t n = 0;
	if (!list)
		return KMT_NO_MEMORY;
	pthread_mutex_lock(&t->lock);
	for (unsigned i = 0; i < KMT_QUEUES_MOST; i++) {
		struct kmt_queue *q = t->queues[i];
		if (!q)
			continue;
		if (suspend)
			save(q);
		list[n++] = (struct kmt_queue_info){ .ring = (uintptr_t)q->ring,
						     .write = (uintptr_t)q->write,
						     .read = (uintptr_t)q->read,
						     .save_area = (uintptr_t)q->saved,
						     .id = q->id,
						     .gpu_id = q->gpu->id,
						     .ring_size = (uint32_t)(q->packets * AQL_BYTES),
						     .type = QUEUE_AQL,
						     .save_area_size = q->saved ? AREA_BYTES : 0 };
	}
	pthread_mutex_unlock(&t->lock);
	*ret = list;
	*ret_n = n;
	*ret_size = sizeof(*list);
	return KMT_SUCCESS;
}
