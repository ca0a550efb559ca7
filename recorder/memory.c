// The hooks around calls that allocate, free, map, copy or load. Each is in the thread's slot while it is under way, and an event
// when it has returned.
#include "recorder/waits/waits.h"

/** The runtime's own function, with the hook's type. */
#define CORE(place, type) ((type)next.core[place])
#define EXT(function, type) ((type)next.ext[function])

/** Calls that make an allocation at the first of what is noted. */
#define MAKES(call) ((call) == CALL_POOL_ALLOCATE || (call) == CALL_ALLOCATE || (call) == CALL_MAP || (call) == CALL_LOCK)

/** @body between the two notes, where something is recorded; else alone. What comes of it is `status`. */
#define AROUND(call, a, b, c, body, ...)                                                                                       \
	if (!rec_level())                                                                                                      \
		return body;                                                                                                   \
	struct thread_state *t = thread_here();                                                                                \
	call_begin(t, call, (uint64_t)(a), (uint64_t)(b), (uint64_t)(c));                                                      \
	const hsa_status status = body;                                                                                        \
	call_end(t);                                                                                                           \
	event_note(t, call, status, (const uint64_t[4]){ __VA_ARGS__ });                                                       \
	if (MAKES(call) && traces_on() && !status)                                                                             \
		trace_note(((const uint64_t[4]){ __VA_ARGS__ })[0], REC_TRACE_MEMORY);                                         \
	return status

/** The same of a call that ends an allocation. It is noted before it is made: the next one at this address may be noted before it has
 * returned. Of a call that fails the note is wrong; nothing that frees what it does not have is worth more. */
#define BEFORE(call, a, b, body)                                                                                               \
	const bool guarded = guard_enter();                                                                                    \
	struct thread_state *t = rec_level() ? thread_here() : NULL;                                                           \
	if (t) {                                                                                                               \
		call_begin(t, call, (uint64_t)(a), (uint64_t)(b), 0);                                                          \
		event_note(t, call, HSA_OK, (const uint64_t[4]){ (uint64_t)(a), (uint64_t)(b) });                              \
	}                                                                                                                      \
	const hsa_status status = body;                                                                                        \
	if (t)                                                                                                                 \
		call_end(t);                                                                                                   \
	guard_leave(guarded);                                                                                                  \
	return status

static uint64_t out(void **ret) { return ret ? (uintptr_t)*ret : 0; }

static uint64_t gpu_bit(hsa_handle agent)
{
	for (uint32_t i = 0; i < rec.ngpus && i < REC_GPUS_KNOWN; i++)
		if (rec.gpus[i].handle == agent)
			return UINT64_C(1) << i;
	return 0;
}

/** Of no list at all: every GPU. */
static uint64_t gpus_of(const hsa_handle *agents, uint64_t n)
{
	uint64_t mask = UINT64_C(1) << REC_GPUS_KNOWN;
	for (uint64_t i = 0; agents && i < n; i++)
		mask |= gpu_bit(agents[i]);
	return agents && n ? mask : mask | (mask - 1);
}

typedef hsa_status pool_allocate_fn(hsa_handle pool, size_t size, uint32_t flags, void **ret);
static hsa_status pool_allocate(hsa_handle pool, size_t size, uint32_t flags, void **ret)
{
	AROUND(CALL_POOL_ALLOCATE, 0, size, pool, EXT(EXT_POOL_ALLOCATE, pool_allocate_fn *)(pool, size, flags, ret),
	       status ? 0 : out(ret), size, pool, flags);
}

typedef hsa_status free_fn(void *p);
static hsa_status pool_free(void *p) { BEFORE(CALL_POOL_FREE, (uintptr_t)p, 0, EXT(EXT_POOL_FREE, free_fn *)(p)); }
static hsa_status memory_free(void *p) { BEFORE(CALL_FREE, (uintptr_t)p, 0, CORE(CORE_MEMORY_FREE, free_fn *)(p)); }
static hsa_status unlock(void *p) { BEFORE(CALL_UNLOCK, (uintptr_t)p, 0, EXT(EXT_UNLOCK, free_fn *)(p)); }
static hsa_status ipc_detach(void *p) { BEFORE(CALL_IPC_DETACH, (uintptr_t)p, 0, EXT(EXT_IPC_DETACH, free_fn *)(p)); }
static hsa_status interop_unmap(void *p) { BEFORE(CALL_INTEROP_UNMAP, (uintptr_t)p, 0, EXT(EXT_INTEROP_UNMAP, free_fn *)(p)); }

typedef hsa_status memory_allocate_fn(hsa_handle region, size_t size, void **ret);
static hsa_status memory_allocate(hsa_handle region, size_t size, void **ret)
{
	AROUND(CALL_ALLOCATE, 0, size, region, CORE(CORE_MEMORY_ALLOCATE, memory_allocate_fn *)(region, size, ret),
	       status ? 0 : out(ret), size, region);
}

typedef hsa_status lock_fn(void *host, size_t size, hsa_handle *agents, int n, void **ret);
static hsa_status lock(void *host, size_t size, hsa_handle *agents, int n, void **ret)
{
	AROUND(CALL_LOCK, 0, size, (uintptr_t)host, EXT(EXT_LOCK, lock_fn *)(host, size, agents, n, ret), status ? 0 : out(ret),
	       size, (uintptr_t)host, gpus_of(agents, n > 0 ? (uint64_t)n : 0));
}

typedef hsa_status lock_to_pool_fn(void *host, size_t size, hsa_handle *agents, int n, hsa_handle pool, uint32_t flags,
				   void **ret);
static hsa_status lock_to_pool(void *host, size_t size, hsa_handle *agents, int n, hsa_handle pool, uint32_t flags, void **ret)
{
	AROUND(CALL_LOCK, 0, size, (uintptr_t)host,
	       EXT(EXT_LOCK_TO_POOL, lock_to_pool_fn *)(host, size, agents, n, pool, flags, ret), status ? 0 : out(ret), size,
	       (uintptr_t)host, gpus_of(agents, n > 0 ? (uint64_t)n : 0));
}

typedef hsa_status ipc_attach_fn(const void *handle, size_t size, uint32_t n, const hsa_handle *agents, void **ret);
static hsa_status ipc_attach(const void *handle, size_t size, uint32_t n, const hsa_handle *agents, void **ret)
{
	AROUND(CALL_IPC_ATTACH, 0, size, n, EXT(EXT_IPC_ATTACH, ipc_attach_fn *)(handle, size, n, agents, ret),
	       status ? 0 : out(ret), size, gpus_of(agents, n));
}

typedef hsa_status interop_map_fn(uint32_t n, hsa_handle *agents, int handle, uint32_t flags, size_t *size, void **ret,
				  size_t *metadata_size, const void **metadata);
static hsa_status interop_map(uint32_t n, hsa_handle *agents, int handle, uint32_t flags, size_t *size, void **ret,
			      size_t *metadata_size, const void **metadata)
{
	AROUND(CALL_INTEROP_MAP, 0, 0, (uint32_t)handle,
	       EXT(EXT_INTEROP_MAP, interop_map_fn *)(n, agents, handle, flags, size, ret, metadata_size, metadata),
	       status ? 0 : out(ret), status || !size ? 0 : *size);
}

typedef hsa_status svm_set_fn(void *p, size_t size, void *attributes, size_t n);
static hsa_status svm_set(void *p, size_t size, void *attributes, size_t n)
{
	AROUND(CALL_SVM_SET, (uintptr_t)p, size, n, EXT(EXT_SVM_SET, svm_set_fn *)(p, size, attributes, n), (uintptr_t)p, size,
	       n);
}

typedef hsa_status allow_access_fn(uint32_t n, const hsa_handle *agents, const uint32_t *flags, const void *p);
static hsa_status allow_access(uint32_t n, const hsa_handle *agents, const uint32_t *flags, const void *p)
{
	AROUND(CALL_ALLOW_ACCESS, (uintptr_t)p, n, 0, EXT(EXT_ALLOW_ACCESS, allow_access_fn *)(n, agents, flags, p),
	       (uintptr_t)p, n, n && agents ? agents[0] : 0, n && agents ? gpus_of(agents, n) : 0);
}

typedef hsa_status reserve_fn(void **ret, size_t size, uint64_t address, uint64_t flags);
static hsa_status vmem_reserve(void **ret, size_t size, uint64_t address, uint64_t flags)
{
	AROUND(CALL_RESERVE, address, size, 0, EXT(EXT_VMEM_RESERVE, reserve_fn *)(ret, size, address, flags),
	       status ? 0 : out(ret), size);
}

typedef hsa_status reserve_align_fn(void **ret, size_t size, uint64_t address, uint64_t align, uint64_t flags);
static hsa_status vmem_reserve_align(void **ret, size_t size, uint64_t address, uint64_t align, uint64_t flags)
{
	AROUND(CALL_RESERVE, address, size, 0,
	       EXT(EXT_VMEM_RESERVE_ALIGN, reserve_align_fn *)(ret, size, address, align, flags), status ? 0 : out(ret), size);
}

typedef hsa_status range_fn(void *p, size_t size);
static hsa_status vmem_free(void *p, size_t size)
{
	BEFORE(CALL_UNRESERVE, (uintptr_t)p, size, EXT(EXT_VMEM_FREE, range_fn *)(p, size));
}
static hsa_status vmem_unmap(void *p, size_t size)
{
	BEFORE(CALL_UNMAP, (uintptr_t)p, size, EXT(EXT_VMEM_UNMAP, range_fn *)(p, size));
}

typedef hsa_status handle_create_fn(hsa_handle pool, size_t size, uint32_t type, uint64_t flags, hsa_handle *ret);
static hsa_status vmem_create(hsa_handle pool, size_t size, uint32_t type, uint64_t flags, hsa_handle *ret)
{
	AROUND(CALL_HANDLE_CREATE, 0, size, pool, EXT(EXT_VMEM_CREATE, handle_create_fn *)(pool, size, type, flags, ret),
	       status || !ret ? 0 : *ret, size, pool);
}

typedef hsa_status handle_fn(hsa_handle handle);
static hsa_status vmem_release(hsa_handle handle)
{
	AROUND(CALL_HANDLE_RELEASE, handle, 0, 0, EXT(EXT_VMEM_RELEASE, handle_fn *)(handle), handle);
}

typedef hsa_status map_fn(void *p, size_t size, size_t offset, hsa_handle handle, uint64_t flags);
static hsa_status vmem_map(void *p, size_t size, size_t offset, hsa_handle handle, uint64_t flags)
{
	AROUND(CALL_MAP, (uintptr_t)p, size, handle, EXT(EXT_VMEM_MAP, map_fn *)(p, size, offset, handle, flags), (uintptr_t)p,
	       size, handle);
}

/** For whom: permissions (0: none), then the agent. */
struct vmem_access {
	uint32_t permissions, padding;
	hsa_handle agent;
};
static uint64_t gpus_with(const struct vmem_access *access, size_t n, bool may)
{
	uint64_t mask = 0;
	for (size_t i = 0; access && i < n; i++)
		mask |= !access[i].permissions == !may ? gpu_bit(access[i].agent) : 0;
	return mask;
}
typedef hsa_status set_access_fn(void *p, size_t size, const struct vmem_access *access, size_t n);
static hsa_status set_access(void *p, size_t size, const struct vmem_access *access, size_t n)
{
	AROUND(CALL_SET_ACCESS, (uintptr_t)p, size, n, EXT(EXT_VMEM_SET_ACCESS, set_access_fn *)(p, size, access, n),
	       (uintptr_t)p, size, gpus_with(access, n, true), gpus_with(access, n, false));
}
static hsa_status vmem_set_access(void *p, size_t size, const struct vmem_access *access, size_t n)
{
	const bool guarded = guard_enter();
	const hsa_status status = set_access(p, size, access, n);
	guard_leave(guarded);
	return status;
}

typedef hsa_status copy_fn(void *to, const void *from, size_t size);
static hsa_status copy(void *to, const void *from, size_t size)
{
	AROUND(CALL_COPY, (uintptr_t)to, size, (uintptr_t)from, CORE(CORE_MEMORY_COPY, copy_fn *)(to, from, size),
	       (uintptr_t)to, size, (uintptr_t)from);
}

/** A copy that the program sees to be done tells of what it waited for, too. */
static hsa_status copied(hsa_status status, uint32_t n, const hsa_handle *signals, hsa_handle completion)
{
	if (status == HSA_OK && n && signals && completion && rec_level())
		event_note(thread_here(), CALL_COPY_AFTER, status,
			   (const uint64_t[4]){ completion, signals[0], n > 1 ? signals[1] : 0, n > 2 ? signals[2] : 0 });
	return status;
}

/** @body is a copy behind @signals, which completes @completion. */
#define BEHIND(n, signals, completion, body)                                                                                   \
	({                                                                                                                     \
		struct copy_waits more;                                                                                        \
		waits_copy(&more, n, signals);                                                                                 \
		n = more.n;                                                                                                    \
		signals = more.ntails ? more.signals : signals;                                                                \
		const bool entered = copies_enter(n, signals);                                                                 \
		const hsa_status copying = body;                                                                               \
		copies_leave(entered);                                                                                         \
		waits_copied(&more, copying ? 0 : completion);                                                                 \
		copied(copying, n, signals, completion);                                                                       \
	})

typedef hsa_status async_copy_fn(void *to, hsa_handle to_agent, const void *from, hsa_handle from_agent, size_t size,
				 uint32_t n, const hsa_handle *signals, hsa_handle completion);
static hsa_status async_copy(void *to, hsa_handle to_agent, const void *from, hsa_handle from_agent, size_t size, uint32_t n,
			     const hsa_handle *signals, hsa_handle completion)
{
	AROUND(CALL_ASYNC_COPY, (uintptr_t)to, size, (uintptr_t)from,
	       BEHIND(n, signals, completion,
		      EXT(EXT_ASYNC_COPY, async_copy_fn *)(to, to_agent, from, from_agent, size, n, signals, completion)),
	       (uintptr_t)to, size, (uintptr_t)from, completion);
}

typedef hsa_status async_copy_on_engine_fn(void *to, hsa_handle to_agent, const void *from, hsa_handle from_agent, size_t size,
					   uint32_t n, const hsa_handle *signals, hsa_handle completion, uint32_t engine,
					   _Bool force);
static hsa_status async_copy_on_engine(void *to, hsa_handle to_agent, const void *from, hsa_handle from_agent, size_t size,
				       uint32_t n, const hsa_handle *signals, hsa_handle completion, uint32_t engine,
				       _Bool force)
{
	AROUND(CALL_ASYNC_COPY, (uintptr_t)to, size, (uintptr_t)from,
	       BEHIND(n, signals, completion,
		      EXT(EXT_ASYNC_COPY_ON_ENGINE, async_copy_on_engine_fn *)(to, to_agent, from, from_agent, size, n, signals,
									       completion, engine, force)),
	       (uintptr_t)to, size, (uintptr_t)from, completion);
}

struct pitched {
	void *base;
	size_t pitch, slice;
};
struct dim3 {
	uint32_t x, y, z;
};
typedef hsa_status copy_rect_fn(const struct pitched *to, const struct dim3 *to_at, const struct pitched *from,
				const struct dim3 *from_at, const struct dim3 *range, hsa_handle agent, uint32_t direction,
				uint32_t n, const hsa_handle *signals, hsa_handle completion);
static hsa_status async_copy_rect(const struct pitched *to, const struct dim3 *to_at, const struct pitched *from,
				  const struct dim3 *from_at, const struct dim3 *range, hsa_handle agent, uint32_t direction,
				  uint32_t n, const hsa_handle *signals, hsa_handle completion)
{
	const uint64_t size = range ? (uint64_t)range->x * range->y * range->z : 0;
	AROUND(CALL_ASYNC_COPY, to ? (uintptr_t)to->base : 0, size, from ? (uintptr_t)from->base : 0,
	       BEHIND(n, signals, completion,
		      EXT(EXT_ASYNC_COPY_RECT, copy_rect_fn *)(to, to_at, from, from_at, range, agent, direction, n, signals,
							       completion)),
	       to ? (uintptr_t)to->base : 0, size, from ? (uintptr_t)from->base : 0, completion);
}

typedef hsa_status fill_fn(void *p, uint32_t value, size_t count);
static hsa_status fill(void *p, uint32_t value, size_t count)
{
	AROUND(CALL_FILL, (uintptr_t)p, count * 4, value, EXT(EXT_FILL, fill_fn *)(p, value, count), (uintptr_t)p, count * 4,
	       value);
}

/** Names are noted at every level: a kernel that was loaded before is launched when the level is raised. */
typedef hsa_status freeze_fn(hsa_handle executable, const char *options);
static hsa_status freeze(hsa_handle executable, const char *options)
{
	freeze_fn *f = CORE(CORE_EXECUTABLE_FREEZE, freeze_fn *);
	if (!atomic_load(&rec.on))
		return f(executable, options);
	struct thread_state *t = thread_here();
	call_begin(t, CALL_LOAD, executable, 0, 0);
	const hsa_status status = f(executable, options);
	call_end(t);
	if (status == HSA_OK)
		names_of_executable(executable);
	return status;
}

static hsa_status executable_destroy(hsa_handle executable)
{
	handle_fn *f = CORE(CORE_EXECUTABLE_DESTROY, handle_fn *);
	if (!atomic_load(&rec.on))
		return f(executable);
	names_unload(executable);
	struct thread_state *t = thread_here();
	call_begin(t, CALL_UNLOAD, executable, 0, 0);
	const bool guarded = guard_enter();
	const hsa_status status = f(executable);
	guard_leave(guarded);
	call_end(t);
	event_note(t, CALL_UNLOAD, status, (const uint64_t[4]){ executable });
	return status;
}

const struct hook core_hooks[] = {
	{ CORE_SIGNAL_STORE_RELAXED, hook_store_relaxed },
	{ CORE_SIGNAL_STORE_SCRELEASE, hook_store_screlease },
	{ CORE_QUEUE_CREATE, hook_queue_create },
	{ CORE_QUEUE_DESTROY, hook_queue_destroy },
	{ CORE_MEMORY_ALLOCATE, memory_allocate },
	{ CORE_MEMORY_FREE, memory_free },
	{ CORE_MEMORY_COPY, copy },
	{ CORE_SIGNAL_LOAD_RELAXED, hook_load_relaxed },
	{ CORE_SIGNAL_LOAD_SCACQUIRE, hook_load_scacquire },
	{ CORE_SIGNAL_WAIT_RELAXED, hook_wait_relaxed },
	{ CORE_SIGNAL_WAIT_SCACQUIRE, hook_wait_scacquire },
	{ CORE_EXECUTABLE_FREEZE, freeze },
	{ CORE_EXECUTABLE_DESTROY, executable_destroy },
};
const size_t ncore_hooks = ARRAY_SIZE(core_hooks);

const struct hook ext_hooks[] = {
	{ EXT_ASYNC_HANDLER, hook_async_handler },
	{ EXT_WAIT_ANY, hook_wait_any },
	{ EXT_POOL_ALLOCATE, pool_allocate },
	{ EXT_POOL_FREE, pool_free },
	{ EXT_ASYNC_COPY, async_copy },
	{ EXT_ASYNC_COPY_ON_ENGINE, async_copy_on_engine },
	{ EXT_ASYNC_COPY_RECT, async_copy_rect },
	{ EXT_ALLOW_ACCESS, allow_access },
	{ EXT_LOCK, lock },
	{ EXT_LOCK_TO_POOL, lock_to_pool },
	{ EXT_UNLOCK, unlock },
	{ EXT_FILL, fill },
	{ EXT_INTEROP_MAP, interop_map },
	{ EXT_INTEROP_UNMAP, interop_unmap },
	{ EXT_IPC_ATTACH, ipc_attach },
	{ EXT_IPC_DETACH, ipc_detach },
	{ EXT_INTERCEPT_CREATE, hook_intercept_create },
	{ EXT_QUEUES_CREATE, hook_queues_create },
	{ EXT_SVM_SET, svm_set },
	{ EXT_VMEM_RESERVE, vmem_reserve },
	{ EXT_VMEM_RESERVE_ALIGN, vmem_reserve_align },
	{ EXT_VMEM_FREE, vmem_free },
	{ EXT_VMEM_CREATE, vmem_create },
	{ EXT_VMEM_RELEASE, vmem_release },
	{ EXT_VMEM_MAP, vmem_map },
	{ EXT_VMEM_UNMAP, vmem_unmap },
	{ EXT_VMEM_SET_ACCESS, vmem_set_access },
};
const size_t next_hooks = ARRAY_SIZE(ext_hooks);
