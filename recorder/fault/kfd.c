// Asks the driver for the GPUs and queues of this process, as AMD's own core dump does: by its debugger interface, of which a process may
// be its own debugger. That stops the queues, so that the waves are in memory.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "recorder/fault/fault.h"

enum {
	QUEUE_AQL = 2,
	EXCEPTION_QUEUE_NEW = 1 << 30, // to be cleared before a queue can be suspended
	PACKET = 64,
	VENDOR_AMD = 0x1002,
};
enum trap_operation {
	TRAP_ENABLE = 0,
	TRAP_DISABLE = 1,
	TRAP_SUSPEND = 6,
	TRAP_QUEUES = 13,
	TRAP_GPUS = 14,
};

/** The arguments of AMDKFD_IOC_DBG_TRAP, since Linux 6.5. Which fields there are is another matter of each operation; these four fit all
 * of those above. */
struct trap_arguments {
	uint32_t pid, operation;
	uint64_t exceptions, buffer;
	uint32_t n, size; // enable: size of the buffer, descriptor; suspend: queues, patience
};
_Static_assert(sizeof(struct trap_arguments) == 32, "as KFD has it");
struct kfd_version {
	uint32_t major, minor;
};
#define KFD_VERSION _IOR('K', 0x01, struct kfd_version)
#define KFD_TRAP _IOWR('K', 0x26, struct trap_arguments)

static bool trap(const struct kfd_state *s, struct trap_arguments *a)
{
	a->pid = (uint32_t)rec.pid;
	return !ioctl(s->device, KFD_TRAP, a);
}

/** GPUs for which AMD's own runtime does without: there the interface does harm. */
static bool harmed(void)
{
	static const char *const families[] = { "gfx11" };
	for (size_t i = 0; i < ARRAY_SIZE(families); i++)
		for (uint32_t g = 0; g < rec.ngpus; g++)
			if (!strncmp(rec.gpus[g].name, families[i], strlen(families[i])))
				return true;
	return false;
}

static void suspend(const struct kfd_state *s)
{
	uint32_t ids[QUEUES_MOST];
	for (uint32_t i = 0; i < s->nqueues; i++)
		ids[i] = s->queues[i].id;
	trap(s,
	     &(struct trap_arguments){
		     .operation = TRAP_SUSPEND, .exceptions = EXCEPTION_QUEUE_NEW, .buffer = (uintptr_t)ids, .n = s->nqueues });
}

static bool snapshot(const struct kfd_state *s, enum trap_operation operation, void *to, uint32_t *n, uint32_t size)
{
	struct trap_arguments a = {
		.operation = operation, .exceptions = EXCEPTION_QUEUE_NEW, .buffer = (uintptr_t)to, .n = *n, .size = size
	};
	if (!trap(s, &a))
		return false;
	*n = a.n < *n ? a.n : *n;
	return true;
}

static bool by_driver(struct kfd_state *s)
{
	struct kfd_version v = { 0 };
	uint32_t queues = QUEUES_MOST, gpus = GPUS_MOST;
	s->device = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	if (s->device < 0)
		return false;
	struct trap_arguments enable = {
		.operation = TRAP_ENABLE, .buffer = (uintptr_t)&s->runtime, .n = sizeof(s->runtime), .size = (uint32_t)s->device
	};
	if (!ioctl(s->device, KFD_VERSION, &v) && trap(s, &enable)) {
		s->major = v.major;
		s->minor = v.minor;
		if (snapshot(s, TRAP_GPUS, s->gpus, &gpus, sizeof(s->gpus[0])) &&
		    snapshot(s, TRAP_QUEUES, s->queues, &queues, sizeof(s->queues[0]))) {
			s->ngpus = gpus;
			s->nqueues = queues;
			suspend(s);
			// Once more: what went wrong with a queue stands in its entry.
			snapshot(s, TRAP_QUEUES, s->queues, &queues, sizeof(s->queues[0]));
			return true;
		}
		trap(s, &(struct trap_arguments){ .operation = TRAP_DISABLE });
	}
	cleanup_close(&s->device);
	return false;
}

/** The same by the functions of libhsakmt.so.1, where the runtime has it as a library of its own. */
struct kfd_library {
	int (*version)(struct kfd_version *);
	int (*enable)(void **runtime, uint32_t *size);
	int (*disable)(void);
	int (*gpus)(void **list, uint32_t *n, uint32_t *size);
	int (*queues)(void **list, uint32_t *n, uint32_t *size, bool suspend);
};

static bool library_find(struct kfd_library *l)
{
	static const char *const names[] = { "hsaKmtGetVersion", "hsaKmtDbgEnable", "hsaKmtDbgDisable",
					     "hsaKmtDbgGetDeviceData", "hsaKmtDbgGetQueueData" };
	void *library = dlopen("libhsakmt.so.1", RTLD_LAZY | RTLD_NOLOAD), *found[5] = { 0 };
	_Static_assert(sizeof(found) == sizeof(*l), "a name for each function");
	for (size_t i = 0; library && i < 5; i++)
		if (!(found[i] = dlsym(library, names[i])))
			return false;
	memcpy(l, found, sizeof(*l));
	return library;
}

/** Entries of another size than ours: what both have. */
static uint32_t entries_take(void *to, uint32_t most, size_t room, const void *from, const uint32_t n_size[2])
{
	const uint32_t n = n_size[0] < most ? n_size[0] : most;
	const size_t size = n_size[1] < room ? n_size[1] : room;
	for (uint32_t i = 0; i < n; i++)
		memcpy((char *)to + i * room, (const char *)from + (size_t)i * n_size[1], size);
	return n;
}

static bool by_library(struct kfd_state *s)
{
	struct kfd_library l;
	struct kfd_version v = { 0 };
	uint32_t size = 0, gpus[2] = { 0 }, queues[2] = { 0 };
	_cleanup_free_ void *runtime = NULL, *gpus_owned = NULL, *queues_owned = NULL; // what did not fail handed them over
	void *gpu_list = NULL, *queue_list = NULL;
	if (!library_find(&l) || l.version(&v) || l.enable(&runtime, &size))
		return false;
	const bool good = size >= sizeof(s->runtime) && !l.gpus(&gpu_list, &gpus[0], &gpus[1]) &&
			  !l.queues(&queue_list, &queues[0], &queues[1], true);
	if (good) {
		gpus_owned = gpu_list;
		queues_owned = queue_list;
		s->major = v.major;
		s->minor = v.minor;
		memcpy(&s->runtime, runtime, sizeof(s->runtime));
		s->ngpus = entries_take(s->gpus, GPUS_MOST, sizeof(s->gpus[0]), gpu_list, gpus);
		s->nqueues = entries_take(s->queues, QUEUES_MOST, sizeof(s->queues[0]), queue_list, queues);
		s->disable = l.disable;
	} else {
		l.disable();
	}
	return good;
}

// --- what the recorder knows by itself ---

static uint32_t gpu_id_of(uint32_t node)
{
	char path[80], text[32] = "";
	snprintf(path, sizeof(path), "/sys/class/kfd/kfd/topology/nodes/%u/gpu_id", node);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const uint32_t id = n > 0 ? (uint32_t)strtoul(text, NULL, 10) : 0;
	return id ? id : node;
}

/** gfx90a is 9.0.10, in decimal places: 90010. */
static uint32_t version_of(const char *gfx)
{
	static const char digits[] = "0123456789abcdef";
	const size_t n = strlen(gfx);
	const char *minor = n >= 6 ? strchr(digits, gfx[n - 2]) : NULL, *step = n >= 6 ? strchr(digits, gfx[n - 1]) : NULL;
	uint32_t major = 0;
	if (strncmp(gfx, "gfx", 3) || !minor || !step)
		return 0;
	for (size_t i = 3; i < n - 2 && gfx[i] >= '0' && gfx[i] <= '9'; i++)
		major = major * 10 + (uint32_t)(gfx[i] - '0');
	return major * 10000 + (uint32_t)(minor - digits) * 100 + (uint32_t)(step - digits);
}

static uint32_t gpu_of(hsa_handle agent)
{
	for (uint32_t i = 0; i < rec.ngpus; i++)
		if (rec.gpus[i].handle == agent)
			return gpu_id_of(rec.gpus[i].node);
	return rec.ngpus == 1 ? gpu_id_of(rec.gpus[0].node) : 0;
}

static void queue_known(struct kfd_state *s, const struct queue_state *q)
{
	s->queues[s->nqueues++] = (struct kfd_queue){ .ring = (uintptr_t)q->packets,
						      .write = (uintptr_t)&q->queue->write_index,
						      .read = (uintptr_t)&q->queue->read_index,
						      .id = q->id,
						      .gpu_id = gpu_of(q->agent),
						      .ring_size = (uint32_t)q->size * PACKET,
						      .type = QUEUE_AQL };
}

static void by_recorder(struct kfd_state *s)
{
	for (; s->ngpus < rec.ngpus; s->ngpus++) {
		const struct rec_agent *a = &rec.gpus[s->ngpus];
		s->gpus[s->ngpus] = (struct kfd_gpu){ .gpu_id = gpu_id_of(a->node),
						      .location = a->bdf,
						      .vendor = VENDOR_AMD,
						      .target_version = version_of(a->name),
						      .xccs = 1 };
	}
	for (uint32_t i = 0; i < rec.nqueues; i++)
		if (!rec.queues[i]->gone)
			queue_known(s, rec.queues[i]);
}

/** The runtime's list of code objects, by the name under which debuggers find it. */
static uint64_t list_find(void)
{
	Dl_info runtime;
	void *library = dladdr(next.core[CORE_QUEUE_CREATE], &runtime) && runtime.dli_fname ?
				dlopen(runtime.dli_fname, RTLD_LAZY | RTLD_NOLOAD) :
				NULL;
	void *list = dlsym(library ? library : RTLD_DEFAULT, "_amdgpu_r_debug");
	return (uintptr_t)list;
}

void kfd_take(struct kfd_state *s)
{
	*s = (struct kfd_state){ .device = -1 };
	if (harmed() || (!by_library(s) && !by_driver(s)))
		by_recorder(s);
	if (!s->runtime.r_debug)
		s->runtime.r_debug = list_find();
}

void kfd_release(struct kfd_state *s)
{
	if (s->disable)
		s->disable();
	if (s->device < 0)
		return;
	trap(s, &(struct trap_arguments){ .operation = TRAP_DISABLE });
	cleanup_close(&s->device);
}
