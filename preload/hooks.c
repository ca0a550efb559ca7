// The functions that programs call in place of HIP's.
#include <stdio.h>
#include <stdlib.h>

#include "preload/guard.h"

#define CALLER __builtin_return_address(0)

static const struct {
	const char *name;
	void *function;
} hooks[] = {
#define X(name, ...) { #name, (void *)name },
	HIP_HOOKED(X)
#undef X
};

void *hook_named(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(hooks); i++)
		if (!strcmp(hooks[i].name, name))
			return hooks[i].function;
	return strcmp(name, "hsa_init") ? NULL : (void *)hsa_init;
}

/** Of a function that this HIP does not have. */
static hip_error lacks(const char *name)
{
	static bool told;
	if (hip_there() && !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		rec_line("the program calls %s, which this HIP does not have", name);
	return HIP_NOT_SUPPORTED;
}

/** What HIP says to the call as it is. */
#define PLAIN(name, ...) (hip.name ? hip.name(__VA_ARGS__) : lacks(#name))

// --- allocating ---

hip_error plain_allocate(const struct request *q, void **ret)
{
	return q->call == ALLOC_CALL_EXT_MALLOC ? PLAIN(hipExtMallocWithFlags, ret, q->size, q->flags) :
						  PLAIN(hipMalloc, ret, q->size);
}

/** An allocation as HIP makes it is in the table, too. */
static void passed_note(struct request *q, const void *p)
{
	count(&guard.header->passed[q->call], 1);
	if (!p)
		return;
	pthread_mutex_lock(&guard.lock);
	q->number = ++guard.numbers;
	const struct alloc_row r = { .address = (uintptr_t)p, .born = now_ns(), .flags = ALLOC_PASSED };
	row_add(q, &r);
	size_born(q, false);
	pthread_mutex_unlock(&guard.lock);
}

static void passed_end(const struct request *q, const void *p)
{
	pthread_mutex_lock(&guard.lock);
	const uint32_t row = row_find((uintptr_t)p, ALLOC_LIVE);
	if (row != ROW_NONE && guard.rows[row].flags & ALLOC_PASSED) {
		const uint64_t now = now_ns();
		size_died(guard.rows[row].size, now - guard.rows[row].born);
		row_end(row, q, ALLOC_RELEASED, now);
	}
	pthread_mutex_unlock(&guard.lock);
}

static hip_error passed_allocate(struct request *q, void **ret)
{
	hip_error e = guard_refuses() ? HIP_OUT_OF_MEMORY : plain_allocate(q, ret);
	while (e == HIP_OUT_OF_MEMORY && guard.settings.mode == ALLOC_MODE_POOL && pool_trim(q->device))
		e = plain_allocate(q, ret);
	passed_note(q, e ? NULL : *ret);
	return e;
}

/** What HIP says to the program after this call, if it asks for the last error: what only we tried is not the program's. */
static hip_error last_error(void) { return hip.hipPeekAtLastError ? hip.hipPeekAtLastError() : HIP_SUCCESS; }

static hip_error answered(hip_error e, hip_error before)
{
	if (!e && !before && last_error() && hip.hipGetLastError)
		hip.hipGetLastError();
	inside_end();
	return e;
}

static hip_error serve_allocation(enum alloc_call call, void **ret, size_t size, unsigned flags, const void *caller)
{
	struct request q;
	request_fill(&q, call, size, flags);
	if (!ret || !size)
		return plain_allocate(&q, ret);
	q.stack = stack_here(caller);
	const bool pool = guard.settings.mode == ALLOC_MODE_POOL;
	const bool served = pool ? pool_allocate(&q, ret) : guard_allocate(&q, ret);
	return served ? HIP_SUCCESS : passed_allocate(&q, ret);
}

hip_error hipMalloc(void **ret, size_t size)
{
	if (!guard_on() || !inside_begin(ALLOC_CALL_MALLOC, size, 0))
		return PLAIN(hipMalloc, ret, size);
	const hip_error before = last_error();
	return answered(serve_allocation(ALLOC_CALL_MALLOC, ret, size, 0, CALLER), before);
}

hip_error hipExtMallocWithFlags(void **ret, size_t size, unsigned flags)
{
	if (!guard_on() || !inside_begin(ALLOC_CALL_EXT_MALLOC, size, flags))
		return PLAIN(hipExtMallocWithFlags, ret, size, flags);
	const hip_error before = last_error();
	return answered(serve_allocation(ALLOC_CALL_EXT_MALLOC, ret, size, flags, CALLER), before);
}

// --- freeing ---

/** What is not ours is HIP's; what HIP does not know either is nobody's. */
static hip_error free_of_hip(void *p, const struct request *q, hip_stream stream, bool async)
{
	const hip_error e = async ? PLAIN(hipFreeAsync, p, stream) : PLAIN(hipFree, p);
	if (!e) {
		passed_end(q, p);
	} else if (e == HIP_INVALID_VALUE) {
		pthread_mutex_lock(&guard.lock);
		const uint32_t row = row_find((uintptr_t)p, ALLOC_RELEASED);
		struct alloc_finding f = { .kind = row == ROW_NONE ? ALLOC_FOUND_WILD_FREE : ALLOC_FOUND_DOUBLE_FREE,
					   .address = (uintptr_t)p };
		finding_add(&f, q, row);
		pthread_mutex_unlock(&guard.lock);
	}
	return e;
}

/** From HIP 6 on the graph frees what is freed while it is captured, each time that it is launched. It cannot free a part of a mapping or slab, so that
 * the memory stays the program's. */
static bool is_for_graph(hip_stream stream, const void *p)
{
	enum { FREED_BY_GRAPHS = 60000000 };
	if (guard.header->hip_version < FREED_BY_GRAPHS || !device_records(stream))
		return false;
	rec_line("hipFreeAsync(%p) while its stream is captured: the memory is kept", p);
	return true;
}

static hip_error serve_free(void *p, enum alloc_call call, hip_stream stream, const void *caller)
{
	struct request q;
	const bool async = call == ALLOC_CALL_FREE_ASYNC;
	request_fill(&q, call, 0, 0);
	q.stack = stack_here(caller);
	pthread_mutex_lock(&guard.lock);
	struct span *s = span_of((uintptr_t)p);
	const struct allocation *a = s && !s->slab ? (struct allocation *)s : NULL;
	// In the unmapped bytes around an allocation, and where nothing is, HIP says what is wrong.
	const bool ours = s && (s->slab || ((uintptr_t)p >= a->map && (uintptr_t)p < a->map + a->map_size));
	if (ours && async && (s->slab || a->state == ALLOC_LIVE)) {
		pthread_mutex_unlock(&guard.lock);
		if (is_for_graph(stream, p))
			return HIP_SUCCESS;
		hip.hipStreamSynchronize(stream);
		pthread_mutex_lock(&guard.lock);
		s = span_of((uintptr_t)p);
	}
	if (ours && s)
		return s->slab ? pool_free(s, &q, p) : guard_free((struct allocation *)s, &q, p);
	pthread_mutex_unlock(&guard.lock);
	return free_of_hip(p, &q, stream, async);
}

hip_error hipFree(void *p)
{
	if (!guard_on() || !p || !inside_begin(ALLOC_CALL_FREE, (uintptr_t)p, 0))
		return PLAIN(hipFree, p);
	const hip_error before = last_error();
	return answered(serve_free(p, ALLOC_CALL_FREE, NULL, CALLER), before);
}

hip_error hipFreeAsync(void *p, hip_stream stream)
{
	if (!guard_on() || !p || !inside_begin(ALLOC_CALL_FREE_ASYNC, (uintptr_t)p, (uintptr_t)stream))
		return PLAIN(hipFreeAsync, p, stream);
	const hip_error before = last_error();
	return answered(serve_free(p, ALLOC_CALL_FREE_ASYNC, stream, CALLER), before);
}

// --- what is passed on as it is, and told ---

/** The first use of what cannot be guarded is told once for each function. */
static void unguarded_tell(enum alloc_call call, const char *name)
{
	static uint32_t told;
	const uint32_t bit = UINT32_C(1) << call;
	if (guard.settings.mode == ALLOC_MODE_GUARD && !(__atomic_fetch_or(&told, bit, __ATOMIC_RELAXED) & bit))
		rec_line("memory of %s is not guarded", name);
}

static hip_error passed_end_of_call(enum alloc_call call, hip_error e, void *const *ret, size_t size, const void *caller)
{
	struct request q;
	if (!e && ret && *ret && size) {
		request_fill(&q, call, size, 0);
		q.stack = stack_here(caller);
		passed_note(&q, *ret);
	} else {
		count(&guard.header->passed[call], 1);
	}
	inside_end();
	return e;
}

#define PASS(call_, name, ret_, size_, arguments)                                                                              \
	if (!guard_on() || !inside_begin(ALLOC_CALL_##call_, size_, 0))                                                        \
		return PLAIN_OF(name, arguments);                                                                              \
	return passed_end_of_call(ALLOC_CALL_##call_, PLAIN_OF(name, arguments), ret_, size_, CALLER)
#define PLAIN_OF(name, arguments) (hip.name ? hip.name arguments : lacks(#name))
#define PASS_TOLD(call_, name, ret_, size_, arguments)                                                                         \
	if (!guard_on() || !inside_begin(ALLOC_CALL_##call_, size_, 0))                                                        \
		return PLAIN_OF(name, arguments);                                                                              \
	unguarded_tell(ALLOC_CALL_##call_, #name);                                                                             \
	return passed_end_of_call(ALLOC_CALL_##call_, PLAIN_OF(name, arguments), ret_, size_, CALLER)

hip_error hipHostMalloc(void **ret, size_t size, unsigned flags)
{
	PASS(HOST_MALLOC, hipHostMalloc, NULL, size, (ret, size, flags));
}
hip_error hipHostAlloc(void **ret, size_t size, unsigned flags)
{
	PASS(HOST_MALLOC, hipHostAlloc, NULL, size, (ret, size, flags));
}
hip_error hipMallocHost(void **ret, size_t size) { PASS(HOST_MALLOC, hipMallocHost, NULL, size, (ret, size)); }
hip_error hipMemAllocHost(void **ret, size_t size) { PASS(HOST_MALLOC, hipMemAllocHost, NULL, size, (ret, size)); }
hip_error hipHostFree(void *p) { PASS(HOST_FREE, hipHostFree, NULL, (uintptr_t)p, (p)); }
hip_error hipFreeHost(void *p) { PASS(HOST_FREE, hipFreeHost, NULL, (uintptr_t)p, (p)); }
hip_error hipMallocManaged(void **ret, size_t size, unsigned flags)
{
	PASS_TOLD(MANAGED, hipMallocManaged, ret, size, (ret, size, flags));
}
hip_error hipMallocPitch(void **ret, size_t *pitch, size_t width, size_t height)
{
	PASS_TOLD(PITCH, hipMallocPitch, ret, width * height, (ret, pitch, width, height));
}
hip_error hipMemAllocPitch(void **ret, size_t *pitch, size_t width, size_t height, unsigned element)
{
	PASS_TOLD(PITCH, hipMemAllocPitch, ret, width * height, (ret, pitch, width, height, element));
}
hip_error hipMalloc3D(void *pitched, struct hip_extent e)
{
	// hipPitchedPtr begins with the address.
	PASS_TOLD(3D, hipMalloc3D, (void **)pitched, e.width * e.height * e.depth, (pitched, e));
}
hip_error hipMallocAsync(void **ret, size_t size, hip_stream stream)
{
	PASS_TOLD(ASYNC, hipMallocAsync, ret, size, (ret, size, stream));
}
hip_error hipMallocFromPoolAsync(void **ret, size_t size, void *pool, hip_stream stream)
{
	PASS_TOLD(ASYNC, hipMallocFromPoolAsync, ret, size, (ret, size, pool, stream));
}
hip_error hipMemAddressReserve(void **ret, size_t size, size_t alignment, void *wanted, unsigned long long flags)
{
	PASS_TOLD(RESERVE, hipMemAddressReserve, NULL, size, (ret, size, alignment, wanted, flags));
}
hip_error hipMemCreate(void **handle, size_t size, const struct hip_property *of, unsigned long long flags)
{
	PASS(CREATE, hipMemCreate, NULL, size, (handle, size, of, flags));
}
hip_error hipGraphAddMemAllocNode(void *node, void *graph, const void *after, size_t n, void *parameters)
{
	PASS_TOLD(GRAPH_NODE, hipGraphAddMemAllocNode, NULL, 0, (node, graph, after, n, parameters));
}

hip_error hipGraphAddNode(void *node, void *graph, const void *after, size_t n, const int *parameters)
{
	if (guard_on() && parameters && *parameters == HIP_NODE_ALLOCATES)
		unguarded_tell(ALLOC_CALL_GRAPH_NODE, "hipGraphAddNode");
	return PLAIN(hipGraphAddNode, node, graph, after, n, parameters);
}

// A capture that is under way forbids waits for the device, which would end it.
static hip_error capture_begun(hip_error e)
{
	device_captures(e ? 0 : 1);
	return e;
}

static hip_error capture_ended(hip_error e)
{
	device_captures(-1);
	return e;
}

hip_error hipStreamBeginCapture(hip_stream stream, int mode)
{
	guard_on();
	return capture_begun(PLAIN(hipStreamBeginCapture, stream, mode));
}

hip_error hipStreamBeginCapture_spt(hip_stream stream, int mode)
{
	guard_on();
	return capture_begun(PLAIN(hipStreamBeginCapture_spt, stream, mode));
}

hip_error hipStreamBeginCaptureToGraph(hip_stream stream, void *graph, const void *after, const void *edges, size_t n, int mode)
{
	guard_on();
	return capture_begun(PLAIN(hipStreamBeginCaptureToGraph, stream, graph, after, edges, n, mode));
}

hip_error hipStreamEndCapture(hip_stream stream, void **graph)
{
	guard_on();
	return capture_ended(PLAIN(hipStreamEndCapture, stream, graph));
}

hip_error hipStreamEndCapture_spt(hip_stream stream, void **graph)
{
	guard_on();
	return capture_ended(PLAIN(hipStreamEndCapture_spt, stream, graph));
}

hip_error hipSetDevice(int device)
{
	const bool on = guard_on();
	const hip_error e = PLAIN(hipSetDevice, device);
	if (on && !e)
		device_used(device);
	return e;
}

hip_error hipDeviceReset(void)
{
	int device = 0;
	if (!guard_on() || hip.hipGetDevice(&device) || !inside_begin(ALLOC_CALL_DEVICE_RESET, (uint64_t)device, 0))
		return PLAIN(hipDeviceReset);
	const hip_error e = PLAIN(hipDeviceReset);
	if (!e && guard.settings.mode == ALLOC_MODE_POOL)
		pool_reset(device);
	else if (!e)
		guard_reset(device);
	inside_end();
	return e;
}

/** Who looks for a function that is hooked gets ours. */
static hip_error looked_up(hip_error e, const char *name, void **ret)
{
	void *ours = !e && name && ret && *ret && guard_wanted() ? hook_named(name) : NULL;
	if (ours)
		*ret = ours;
	return e;
}

hip_error hipGetProcAddress(const char *name, void **ret, int version, uint64_t flags, void *status)
{
	guard_on();
	return looked_up(PLAIN(hipGetProcAddress, name, ret, version, flags, status), name, ret);
}

hip_error hipGetDriverEntryPoint(const char *name, void **ret, unsigned long long flags, void *status)
{
	guard_on();
	return looked_up(PLAIN(hipGetDriverEntryPoint, name, ret, flags, status), name, ret);
}

hip_error hipGetDriverEntryPoint_spt(const char *name, void **ret, unsigned long long flags, void *status)
{
	guard_on();
	return looked_up(PLAIN(hipGetDriverEntryPoint_spt, name, ret, flags, status), name, ret);
}
