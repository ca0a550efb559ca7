// The queue that a GPU's buffers are copied by. The runtime's own copies do not serve: they come one after the other, and one of the
// program's may wait for the kernel that is held. Nor does the mapping of the processor: the GPU's cache may hold what is newer.
#include "recorder/inputs/copier.h"

#include <stdlib.h>

enum {
	COPY_MS = 3000,   // so long for the GPU to begin; half of it after each time that it did not
	RUNNING_MS = 500, // so long more for a copy that has begun
	LOOK_MOST_MS = 20,
	TIMES_MOST = 10,
	PACKETS = 64,
	LANES = 256, // of a group, as copy.s has it
	GROUPS = 64, // at most: a busy GPU need not have room for all at once
	UNIT = 16,   // bytes of a lane
	ELF_FLAGS = 48,
	ARGUMENTS_ROOM = 4096,
	PROFILE_FULL = 1,
	DISPATCH_HEADER = AQL_KIND_DISPATCH | 1 << 8 | 2 << 9 | 2 << 11, // fences of system scope before and behind it
};

/** As copy.s has them, and behind them the words that both sides share. */
struct copy_arguments {
	uint64_t from, to;
	uint32_t bytes, turn;
	uint64_t shared;
	_Alignas(CACHE_LINE) _Atomic uint32_t begun;
	_Atomic uint32_t given_up;
};

struct copier {
	hsa_handle agent, reader, executable, done;
	struct amd_queue *queue;
	struct copy_arguments *arguments;
	unsigned char *code; // stays where it is as long as it is loaded
	uint64_t kernel;
	bool tried;
	unsigned times_late; // copies that were given up
};

/** Made under the recorder's lock; then one thread alone uses them. */
static struct copier copiers[GPUS_MOST];

static const struct copy_kernel *kernel_for(const char *part)
{
	for (const struct copy_kernel *k = copy_kernels; k->part; k++)
		if (!strcmp(k->part, part))
			return k;
	return NULL;
}

static bool code_load(struct copier *c, const struct copy_kernel *k)
{
	hsa_status (*read)(const void *, size_t, hsa_handle *) =
		(hsa_status(*)(const void *, size_t, hsa_handle *))next.core[CORE_READER_FROM_MEMORY];
	hsa_status (*create)(uint32_t, uint32_t, const char *, hsa_handle *) =
		(hsa_status(*)(uint32_t, uint32_t, const char *, hsa_handle *))next.core[CORE_EXECUTABLE_CREATE];
	hsa_status (*load)(hsa_handle, hsa_handle, hsa_handle, const char *, hsa_handle *) =
		(hsa_status(*)(hsa_handle, hsa_handle, hsa_handle, const char *, hsa_handle *))next.core[CORE_EXECUTABLE_LOAD];
	hsa_status (*freeze)(hsa_handle, const char *) =
		(hsa_status(*)(hsa_handle, const char *))next.core[CORE_EXECUTABLE_FREEZE];
	hsa_status (*find)(hsa_handle, const char *, const hsa_handle *, hsa_handle *) =
		(hsa_status(*)(hsa_handle, const char *, const hsa_handle *, hsa_handle *))next.core[CORE_EXECUTABLE_SYMBOL];
	hsa_status (*info)(hsa_handle, uint32_t, void *) =
		(hsa_status(*)(hsa_handle, uint32_t, void *))next.core[CORE_SYMBOL_GET_INFO];
	hsa_handle symbol = 0;
	if (!read || !create || !load || !find || !(c->code = malloc(k->size)))
		return false;
	memcpy(c->code, k->code, k->size);
	memcpy(c->code + ELF_FLAGS, &k->flags, sizeof(k->flags));
	return read(c->code, k->size, &c->reader) == HSA_OK && create(PROFILE_FULL, 0, NULL, &c->executable) == HSA_OK &&
	       load(c->executable, c->agent, c->reader, NULL, NULL) == HSA_OK && freeze(c->executable, NULL) == HSA_OK &&
	       find(c->executable, "unhang_copy.kd", &c->agent, &symbol) == HSA_OK &&
	       info(symbol, SYMBOL_INFO_KERNEL, &c->kernel) == HSA_OK;
}

static bool arguments_allocate(struct copier *c)
{
	hsa_status (*allocate)(hsa_handle, size_t, uint32_t, void **) =
		(hsa_status(*)(hsa_handle, size_t, uint32_t, void **))next.ext[EXT_POOL_ALLOCATE];
	hsa_status (*allow)(uint32_t, const hsa_handle *, const uint32_t *, const void *) =
		(hsa_status(*)(uint32_t, const hsa_handle *, const uint32_t *, const void *))next.ext[EXT_ALLOW_ACCESS];
	return rec.argument_pool && allocate(rec.argument_pool, ARGUMENTS_ROOM, 0, (void **)&c->arguments) == HSA_OK &&
	       allow(1, &c->agent, NULL, c->arguments) == HSA_OK;
}

static bool queue_make(struct copier *c)
{
	queue_create_fn *create = (queue_create_fn *)next.core[CORE_QUEUE_CREATE];
	return create(c->agent, PACKETS, 0, NULL, NULL, UINT32_MAX, UINT32_MAX, (struct hsa_queue **)&c->queue) == HSA_OK;
}

static void copier_end(struct copier *c)
{
	if (c->queue)
		((hsa_status(*)(struct hsa_queue *))next.core[CORE_QUEUE_DESTROY])(&c->queue->hsa);
	if (c->executable)
		((hsa_status(*)(hsa_handle))next.core[CORE_EXECUTABLE_DESTROY])(c->executable);
	if (c->reader)
		((hsa_status(*)(hsa_handle))next.core[CORE_READER_DESTROY])(c->reader);
	if (c->arguments)
		((hsa_status(*)(void *))next.ext[EXT_POOL_FREE])(c->arguments);
	signal_end(c->done);
	free(c->code);
	*c = (struct copier){ .tried = true };
}

static void copier_make(struct copier *c, const struct rec_agent *gpu)
{
	const struct copy_kernel *k = kernel_for(gpu->name);
	*c = (struct copier){ .agent = gpu->handle, .tried = true };
	if (k && code_load(c, k) && arguments_allocate(c) && (c->done = signal_new(0, c->agent)) && queue_make(c))
		return;
	copier_end(c);
	rec_line("levels 5 and 10 have no kernel of their own for %s; the runtime copies its buffers", gpu->name);
}

struct copier *copier_of(hsa_handle agent)
{
	for (uint32_t i = 0; i < rec.ngpus; i++) {
		if (rec.gpus[i].handle != agent)
			continue;
		if (!copiers[i].tried)
			copier_make(&copiers[i], &rec.gpus[i]);
		return copiers[i].queue ? &copiers[i] : NULL;
	}
	return NULL;
}

void copiers_end(void)
{
	for (size_t i = 0; i < GPUS_MOST; i++) {
		copier_end(&copiers[i]);
		copiers[i].tried = false; // a runtime that is started again has other GPUs
	}
}

// --- a copy ---

static bool is_done(const struct copier *c) { return !signal_counted(c->done); }

/** Waits for the copy, @ms at most, or RUNNING_MS once the kernel was let go. On a machine that has no time for this thread, its GPU may have
 * none either, and a program may be stopped: the time between two looks counts as a short one. */
static bool done_within(const struct copier *c, uint64_t ms)
{
	for (uint64_t before = now_ms(); !is_done(c) && ms;) {
		look_pause();
		const uint64_t now = now_ms(), passed = now - before < LOOK_MOST_MS ? now - before : LOOK_MOST_MS;
		before = now;
		ms -= passed < ms ? passed : ms;
		if (!reading_on() && ms > RUNNING_MS)
			ms = RUNNING_MS;
	}
	return is_done(c);
}

static void dispatch(struct copier *c, uint32_t lanes)
{
	const uint64_t index = c->queue->write_index;
	uint64_t *p = (uint64_t *)c->queue->hsa.base + index % c->queue->hsa.size * 8;
	const uint64_t packet[8] = { [1] = 1 | (uint64_t)lanes << 32,
				     [2] = 1 | UINT64_C(1) << 32,
				     [4] = c->kernel,
				     [5] = (uintptr_t)c->arguments,
				     [7] = c->done };
	memcpy(p + 1, packet + 1, sizeof(packet) - sizeof(packet[0]));
	__atomic_store_n(&p[0], DISPATCH_HEADER | 1 << 16 | (uint64_t)LANES << 32 | UINT64_C(1) << 48, __ATOMIC_RELEASE);
	__atomic_store_n(&c->queue->write_index, index + 1, __ATOMIC_RELEASE);
	((signal_store_fn *)next.core[CORE_SIGNAL_STORE_SCRELEASE])(c->queue->hsa.doorbell, (int64_t)index);
}

/** The GPU did not come to it in time, as where a kernel that stays has all its CUs. It may come to it when the memory is freed: then its
 * waves see that it was given up. Waves that have begun have not seen that, and are waited for; others have, so it is not whole. */
static void give_up(struct copier *c)
{
	static bool told;
	atomic_store(&c->arguments->given_up, 1);
	if (atomic_load(&c->arguments->begun))
		done_within(c, RUNNING_MS);
	if (!reading_on())
		return;
	c->times_late += c->times_late < TIMES_MOST;
	if (!told)
		rec_line("the GPU is too busy to copy buffers for the recorder; some are left out");
	told = true;
}

/** Whether a copy that was given up is still in the way: that of the same queue, or one that has begun and may yet write. */
static bool is_in_the_way(const struct copier *c)
{
	for (uint32_t i = 0; i < rec.ngpus; i++) {
		const struct copier *o = &copiers[i];
		if (o->queue && !is_done(o) && (o == c || atomic_load(&o->arguments->begun)))
			return true;
	}
	return false;
}

bool copier_copy(struct copier *c, void *to, uint64_t from, size_t n)
{
	const uint32_t groups = (uint32_t)((n + LANES * UNIT - 1) / (LANES * UNIT)),
		       lanes = LANES * (groups < GROUPS ? groups : GROUPS);
	if (is_in_the_way(c))
		return false;
	c->arguments->from = from;
	c->arguments->to = (uintptr_t)to;
	c->arguments->bytes = (uint32_t)n;
	c->arguments->turn = lanes * UNIT;
	c->arguments->shared = (uintptr_t)&c->arguments->begun;
	atomic_store(&c->arguments->begun, 0);
	atomic_store(&c->arguments->given_up, 0);
	((signal_store_fn *)next.core[CORE_SIGNAL_STORE_SCRELEASE])(c->done, 1);
	dispatch(c, lanes);
	if (done_within(c, COPY_MS >> c->times_late))
		return true;
	give_up(c);
	return false;
}
