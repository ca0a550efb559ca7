// The ioctls of /dev/kfd: what the driver answers, and what it says of those that are not here.
#include "emulator/preload/state.h"

#include <errno.h>

enum { KFD_MAJOR = 1, KFD_MINOR = 18, OLD_TRAP_MAJOR = 10, GPU_CLOCK_NS = 10, ARGUMENTS_MOST = 512 };

// Where the apertures of LDS and scratch begin, of which only the upper halves count, and what of the address space GPUs share.
#define LDS_APERTURE UINT64_C(0x1000000000000)
#define SCRATCH_APERTURE UINT64_C(0x2000000000000)
#define APERTURE_BYTES (UINT64_C(1) << 32)
#define SHARED_BASE UINT64_C(0x1000000)
#define SHARED_LIMIT UINT64_C(0x7fffffffffff)

static int get_version(struct kmt *t, void *arguments)
{
	(void)t;
	*(struct kfd_ioctl_get_version_args *)arguments = (struct kfd_ioctl_get_version_args){ KFD_MAJOR, KFD_MINOR };
	return 0;
}

static int get_apertures(struct kmt *t, void *arguments)
{
	struct kfd_ioctl_get_process_apertures_new_args *a = arguments;
	struct kfd_process_device_apertures *to = (void *)(uintptr_t)a->kfd_process_device_apertures_ptr;
	for (size_t i = 0; i < t->plan.ngpus && i < a->num_of_nodes; i++)
		to[i] = (struct kfd_process_device_apertures){ .lds_base = LDS_APERTURE,
							       .lds_limit = LDS_APERTURE + APERTURE_BYTES - 1,
							       .scratch_base = SCRATCH_APERTURE,
							       .scratch_limit = SCRATCH_APERTURE + APERTURE_BYTES - 1,
							       .gpuvm_base = SHARED_BASE,
							       .gpuvm_limit = SHARED_LIMIT,
							       .gpu_id = t->plan.gpus[i].id };
	a->num_of_nodes = (uint32_t)t->plan.ngpus;
	return 0;
}

/** A GPU counts 100 MHz. */
static int get_clocks(struct kmt *t, void *arguments)
{
	struct kfd_ioctl_get_clock_counters_args *a = arguments;
	(void)t;
	a->cpu_clock_counter = a->system_clock_counter = clock_ns();
	a->gpu_clock_counter = a->cpu_clock_counter / GPU_CLOCK_NS;
	a->system_clock_freq = 1000000000;
	return 0;
}

/** The runtime asks for it when it starts; who uses images reads it. */
static int get_tiles(struct kmt *t, void *arguments)
{
	struct kfd_ioctl_get_tile_config_args *a = arguments;
	(void)t;
	a->num_tile_configs = a->num_macro_tile_configs = a->num_banks = a->num_ranks = 0;
	a->gb_addr_config = 0x2a114042;
	return 0;
}

static int get_available(struct kmt *t, void *arguments)
{
	struct kmt_available *a = arguments;
	const struct plan_gpu *g = kfd_gpu(t, a->gpu_id);
	if (!g)
		return -EINVAL;
	pthread_rwlock_rdlock(&t->memory);
	const uint64_t charged = t->charged[g - t->plan.gpus];
	a->bytes = charged < g->vram ? g->vram - charged : 0;
	pthread_rwlock_unlock(&t->memory);
	return 0;
}

/** Whether a GPU's page faults can be mended: for parts whose processes may differ in that, as long as there are no queues. A number below
 * 0 asks. */
static int set_xnack(struct kmt *t, void *arguments)
{
	struct kfd_ioctl_set_xnack_mode_args *a = arguments;
	if (a->xnack_enabled < 0) {
		a->xnack_enabled = t->xnack;
		return 0;
	}
	if (queue_any(t))
		return -EBUSY;
	for (size_t i = 0; a->xnack_enabled && i < t->plan.ngpus; i++) {
		const uint32_t target = target_of(&t->plan.gpus[i]);
		if (target < 90010 || target >= 100000)
			return -EPERM;
	}
	t->xnack = a->xnack_enabled;
	return 0;
}

/** The runtime then takes exceptions of queues from the driver. */
static int enable_runtime(struct kmt *t, void *arguments)
{
	const struct kmt_runtime_enable *a = arguments;
	t->runtime = a->mode & KMT_RUNTIME_ENABLED;
	if (t->runtime)
		t->list = a->list;
	return 0;
}

static int old_trap(struct kmt *t, void *arguments)
{
	struct kmt_old_trap *a = arguments;
	if (a->operation == KMT_OLD_TRAP_VERSION) {
		a->data[0] = OLD_TRAP_MAJOR;
		a->data[1] = 0;
		return 0;
	}
	if (a->operation != KMT_OLD_TRAP_RUNTIME)
		return -EINVAL;
	t->runtime = a->data[0];
	if (t->runtime)
		t->list = a->pointer;
	return 0;
}

static int allocate_gws(struct kmt *t, void *arguments)
{
	(void)t;
	((struct kfd_ioctl_alloc_queue_gws_args *)arguments)->first_gws = 0;
	return 0;
}

/** What changes nothing here. */
static int accept(struct kmt *t, void *arguments)
{
	(void)t, (void)arguments;
	return 0;
}

static int create_queue(struct kmt *t, void *a) { return queue_create(t, a); }
static int update_queue(struct kmt *t, void *a) { return queue_update(t, a); }
static int destroy_queue(struct kmt *t, void *a) { return queue_destroy(t, *(uint32_t *)a); }
static int create_event(struct kmt *t, void *a) { return event_create(t, a); }
static int destroy_event(struct kmt *t, void *a) { return event_destroy(t, *(uint32_t *)a); }
static int set_event(struct kmt *t, void *a) { return event_set(t, *(uint32_t *)a); }
static int reset_event(struct kmt *t, void *a) { return event_reset(t, *(uint32_t *)a); }
static int wait_events(struct kmt *t, void *a) { return event_wait(t, a); }
static int allocate(struct kmt *t, void *a) { return memory_allocate(t, a); }
static int release(struct kmt *t, void *a) { return memory_free(t, *(uint64_t *)a); }
static int svm(struct kmt *t, void *a) { return svm_ioctl(t, a); }
static int trap(struct kmt *t, void *a) { return debug_trap(t, a); }
static int set_mask(struct kmt *t, void *a) { return queue_mask(t, a); }
static int watch(struct kmt *t, void *a) { return event_watch(t, a); }
static int export_memory(struct kmt *t, void *a) { return memory_export(t, a); }
static int import_memory(struct kmt *t, void *a) { return memory_import(t, a); }
static int export_dmabuf(struct kmt *t, void *a) { return dmabuf_export(t, a); }
static int get_dmabuf_info(struct kmt *t, void *a) { return dmabuf_info(t, a); }
static int import_dmabuf(struct kmt *t, void *a) { return dmabuf_import(t, a); }

static int map(struct kmt *t, void *a)
{
	struct kfd_ioctl_map_memory_to_gpu_args *m = a;
	m->n_success = m->n_devices;
	return memory_map(t, m, true);
}

static int unmap(struct kmt *t, void *a)
{
	struct kfd_ioctl_map_memory_to_gpu_args *m = a;
	m->n_success = m->n_devices;
	return memory_map(t, m, false);
}

int kfd_ioctl(struct kmt *t, unsigned long request, void *arguments)
{
	static int (*const table[])(struct kmt *, void *) = {
		[KMT_GET_VERSION] = get_version,
		[KMT_CREATE_QUEUE] = create_queue,
		[KMT_DESTROY_QUEUE] = destroy_queue,
		[KMT_UPDATE_QUEUE] = update_queue,
		[KMT_SET_CU_MASK] = set_mask,
		[KMT_ALLOC_QUEUE_GWS] = allocate_gws,
		[KMT_SET_MEMORY_POLICY] = accept,
		[KMT_SET_SCRATCH_BACKING_VA] = accept,
		[KMT_SET_TRAP_HANDLER] = accept,
		[KMT_ACQUIRE_VM] = accept,
		[KMT_GET_CLOCK_COUNTERS] = get_clocks,
		[KMT_GET_TILE_CONFIG] = get_tiles,
		[KMT_GET_PROCESS_APERTURES_NEW] = get_apertures,
		[KMT_CREATE_EVENT] = create_event,
		[KMT_DESTROY_EVENT] = destroy_event,
		[KMT_SET_EVENT] = set_event,
		[KMT_RESET_EVENT] = reset_event,
		[KMT_WAIT_EVENTS] = wait_events,
		[KMT_ALLOC_MEMORY_OF_GPU] = allocate,
		[KMT_FREE_MEMORY_OF_GPU] = release,
		[KMT_MAP_MEMORY_TO_GPU] = map,
		[KMT_UNMAP_MEMORY_FROM_GPU] = unmap,
		[KMT_GET_DMABUF_INFO] = get_dmabuf_info,
		[KMT_IMPORT_DMABUF] = import_dmabuf,
		[KMT_EXPORT_DMABUF] = export_dmabuf,
		[KMT_SMI_EVENTS] = watch,
		[KMT_SVM] = svm,
		[KMT_SET_XNACK_MODE] = set_xnack,
		[KMT_AVAILABLE_MEMORY] = get_available,
		[KMT_RUNTIME_ENABLE] = enable_runtime,
		[KMT_TRAP] = trap,
		[KMT_IPC_IMPORT] = import_memory,
		[KMT_IPC_EXPORT] = export_memory,
		[KMT_OLD_TRAP] = old_trap,
	};
	// What needs privileges, and what nobody may do any more.
	static const int refused[] = { [KMT_CRIU] = EACCES, [KMT_DBG_REGISTER... KMT_DBG_WAVE_CONTROL] = EPERM };
	const size_t size = _IOC_SIZE(request);
	_Alignas(16) char room[ARGUMENTS_MOST] = { 0 };
	if (_IOC_TYPE(request) == 'K' && _IOC_NR(request) < ARRAY_SIZE(refused) && refused[_IOC_NR(request)])
		return -refused[_IOC_NR(request)];
	if (_IOC_TYPE(request) != 'K' || _IOC_NR(request) >= ARRAY_SIZE(table) || !table[_IOC_NR(request)])
		return -EINVAL;
	if (size > sizeof(room))
		return table[_IOC_NR(request)](t, arguments);
	// As in the kernel: of arguments that are shorter or longer than ours, what both have.
	memcpy(room, arguments, size);
	int result = table[_IOC_NR(request)](t, room);
	memcpy(arguments, room, size);
	return result;
}
