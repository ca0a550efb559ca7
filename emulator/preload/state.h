// The inside of libunhang-kfd.so: a KFD without silicon under an unmodified ROCm runtime, of whatever version. It stands where the
// kernel would: calls.c takes the program's system calls for /dev/kfd and render nodes. What would be hardware is a thread for each queue,
// which takes packets from its ring and does in C what the kernels that it knows do.
#pragma once

#include <pthread.h>
#include <sys/uio.h>

#include "base/arena.h"
#include "emulator/preload/abi.h"
#include "emulator/preload/plan.h"

enum { KMT_PAGE = 4096, KMT_QUEUES_MOST = 512, KMT_EVENTS_MOST = 4096, KMT_DOORBELL_BYTES = 8192, KMT_CHARGE = 2 << 20 };

#define KMT_FILE_NAME "unhang-vram"

/** Of the file with all memory. It has no holes to fill but those that are used, and its end stays: a limit of file sizes that comes later
 * is none of a driver's. */
#define KMT_FILE_BYTES (UINT64_C(1) << 45)

/** A kernel of a code object that is in memory. */
struct kmt_kernel {
	uint64_t object;   // the address of its descriptor
	struct str symbol; // _Z5saxpyPKfPffi
	uint32_t argument_bytes;
	uint64_t entry;                // where its code begins
	const struct standin *standin; // NULL: it does nothing
};

struct kmt_code {
	struct arena arena;
	VEC(struct kmt_kernel) kernels; // by object
};

/** What a runtime says of memory to whoever imports it, as GEM_METADATA has it. */
struct kmt_metadata {
	uint64_t flags, tiling;
	uint32_t size, data[64];
};

/** Memory that a GPU may reach. */
struct kmt_block {
	uint64_t base, size;
	uint64_t handle; // the driver's name for it
	char *inside;    // where the stand-ins see it: a mapping of our own, or the program's memory; NULL: nothing is there
	uint32_t flags;  // KFD_IOC_ALLOC_MEM_FLAGS_*
	const struct plan_gpu *gpu;
	const struct plan_gpu *gem; // whose render node has it as an object, which has no address; NULL: none
	int file;                   // that it is in; -1: the program's own memory
	int socket;                 // the dma-buf of another process by which it is here; -1: none
	uint64_t inode;             // of another process\'s file, if it is here by a dma-buf
	uint64_t offset;            // in the file
	uint64_t mmap_offset;       // by which the program maps it
	uint64_t gpus;              // that it is mapped for, a bit for each
	bool ring;                  // a queue's is in it
	bool counted;               // as used VRAM
	struct kmt_metadata metadata;
	struct kmt_code *code; // that was looked for in it; NULL: not yet
};

/** Our end of a dma-buf. */
struct kmt_out {
	int socket;
	uint64_t offset; // of its memory in the file
};

/** The program's own memory with what it said of it. */
struct kmt_svm {
	struct kmt_block block; // of which base, size, inside and gpus are used
	uint32_t preferred, prefetched, flags, granularity;
};

/** The kernel that a queue stands in. */
struct kmt_standing {
	bool is; // read and written as an atomic, last
	bool faulted;
	unsigned exception;   // for which it stands; 0: none
	uint64_t pc, address; // address: that faulted, without what the instruction adds
	int scalar, vector;   // the first of the two registers that hold it; -1: none
	uint32_t packet, grid[3], group[3];
};

struct kmt_queue {
	struct kmt *kfd;
	const struct plan_gpu *gpu;
	unsigned id;
	const volatile char *ring;
	uint64_t packets; // that it has room for
	volatile uint64_t *write, *read;
	struct kmt_save_area *area; // NULL: none
	uint32_t area_size;
	pthread_t thread;
	bool ends, suspended, held; // read and written as atomics; held: by a debugger
	uint64_t exceptions;        // that were told, a bit for each; read and written as an atomic
	struct kmt_standing standing;
};

/** An event as the driver has it. */
struct kmt_slot {
	uint32_t type;
	bool manual, signaled;
	unsigned waiters;
	uint64_t age; // times that it was set, and one
	struct kfd_hsa_memory_exception_data fault;
};

/** Who asked for the driver's events (SMI): our end of a pair of sockets. */
struct kmt_watcher {
	int socket;
	uint32_t gpu_id;
	uint64_t wants; // a bit for each kind
};

struct kmt {
	struct kfd_plan plan;
	bool begun;             // read and written as an atomic
	bool alone;             // no emulated machine is around it
	bool refused;           // there is no plan, or a wrong one
	bool xnack;             // GPUs may use all memory of the program
	bool runtime, debugged; // as the runtime asked for
	uint64_t faulted;       // GPUs that did, a bit for each; read and written as an atomic
	uint64_t list;          // of code objects, as the runtime said
	int device;             // the machine's /dev/kfd; -1: none
	pthread_rwlock_t memory;
	VEC(struct kmt_block *) blocks; // by base
	VEC(struct kmt_svm) svm;        // the newest last
	int file;                       // that all memory is in but the program's own
	uint64_t file_end, handles;
	uint64_t used[PLAN_GPUS_MOST];
	uint64_t charged[PLAN_GPUS_MOST]; // the same as the driver tells it: each allocation in pieces of KMT_CHARGE
	VEC(struct kmt_out) out;          // dma-bufs that somebody may have
	pthread_mutex_t lock;             // of what follows
	pthread_cond_t happened, wanted; // wanted: somebody waits for the queues
	struct kmt_slot *slots[KMT_EVENTS_MOST];
	struct kmt_queue *queues[KMT_QUEUES_MOST];
	VEC(struct kmt_watcher) watchers;
};

/** The one of this process; NULL: it has none, and who asks for one gets what this machine has. */
struct kmt *kfd_begin(void);
/** The same, but nothing begins: NULL if it has not begun. */
struct kmt *kfd_begun(void);
const struct plan_gpu *kfd_gpu(const struct kmt *t, uint32_t id);
static inline uint64_t gpu_bit(const struct kmt *t, const struct plan_gpu *g) { return UINT64_C(1) << (g - t->plan.gpus); }
/** Tells the emulated machine outside, where there is one, what happens here. */
void kfd_tell(struct kmt *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** gfx90a is 9.0.10, in decimal places: 90010. */
uint32_t target_of(const struct plan_gpu *g);
uint32_t lds_kb_of(const struct plan_gpu *g);
void sleep_seconds(double seconds);
uint64_t clock_ns(void);

// The doors (ioctl.c, render.c, files.c). What ioctls return is 0 or more, or an errno below 0.
int kfd_ioctl(struct kmt *t, unsigned long request, void *arguments);
int render_ioctl(struct kmt *t, const struct plan_gpu *g, unsigned long request, void *arguments);
/** /proc/self/maps as it is. */
void files_maps(struct text *ret);
/** What a file of sysfs holds, or the names in a directory with an end of line behind each. */
enum kmt_file { KMT_NO_FILE, KMT_FILE, KMT_DIRECTORY };
enum kmt_file files_look(struct kmt *t, const char *path, struct text *ret);

// Memory (memory.c). Each is called by ioctl.c; the arguments are those of the driver's interface.
int memory_allocate(struct kmt *t, struct kfd_ioctl_alloc_memory_of_gpu_args *a);
int memory_free(struct kmt *t, uint64_t handle);
int memory_map(struct kmt *t, const struct kfd_ioctl_map_memory_to_gpu_args *a, bool map);
int memory_export(struct kmt *t, struct kmt_ipc_export *a);
int memory_import(struct kmt *t, struct kmt_ipc_import *a);
/** A place for it among the blocks, with a handle. These four want the lock `memory` held. */
struct kmt_block *memory_insert(struct kmt *t, const struct kmt_block *wanted);
struct kmt_block *memory_of(struct kmt *t, uint64_t handle);
bool memory_open(struct kmt_block *b);
void memory_drop(struct kmt *t, struct kmt_block *b);
/** The file behind what a program maps from a device node, and where in it. */
int memory_file(struct kmt *t, uint64_t mmap_offset, uint64_t *ret_offset);
/** What a GPU finds at an address, with all that follows it in the same mapping: *ret_size bytes at least 1. NULL: it may not reach it.
 * The lock `memory` is held. */
char *memory_reach(struct kmt *t, const struct plan_gpu *g, uint64_t address, bool write, uint64_t *ret_size);
/** The block that an address is in. The lock is held. */
struct kmt_block *memory_block(struct kmt *t, uint64_t address);
/** Whether a ring or arguments of kernels are in it. */
bool memory_commands(struct kmt *t, uint64_t address);
/** Of the program's own memory, what a GPU may reach because the program said so; NULL: nothing (svm.c). */
struct kmt_block *svm_block(struct kmt *t, const struct plan_gpu *g, uint64_t address);
int svm_ioctl(struct kmt *t, struct kfd_ioctl_svm_args *a);

// Dma-bufs, and memory of a render node (dmabuf.c).
int dmabuf_export(struct kmt *t, struct kfd_ioctl_export_dmabuf_args *a);
int dmabuf_info(struct kmt *t, struct kfd_ioctl_get_dmabuf_info_args *a);
int dmabuf_import(struct kmt *t, struct kfd_ioctl_import_dmabuf_args *a);
/** Its size; -1: it is none. */
int64_t dmabuf_size(int fd);
/** Whether somebody may still have a dma-buf of this memory. The lock `memory` is held for writing. */
bool dmabuf_is_out(struct kmt *t, uint64_t offset);
int gem_ioctl(struct kmt *t, const struct plan_gpu *g, unsigned number, void *arguments);

// Code (code.c).
/** The kernel of a descriptor; NULL: it is in no code object. *ret_unread: nobody has looked yet what code is there. The lock `memory` is
 * held. */
const struct kmt_kernel *code_kernel(struct kmt *t, uint64_t object, bool *ret_unread);
/** Looks. The lock is held for writing. */
void code_read(struct kmt *t, uint64_t object);
void code_free(struct kmt_code *c);

// Events (events.c).
int event_create(struct kmt *t, struct kfd_ioctl_create_event_args *a);
int event_destroy(struct kmt *t, uint32_t id);
int event_set(struct kmt *t, uint32_t id);
int event_reset(struct kmt *t, uint32_t id);
int event_wait(struct kmt *t, struct kfd_ioctl_wait_events_args *a);
int event_watch(struct kmt *t, struct kfd_ioctl_smi_events_args *a);
/** Tells the runtime of a fault, and who watches: the events for memory are set. */
void event_fault(struct kmt *t, const struct kfd_hsa_memory_exception_data *fault);

// Queues (queue.c, debug.c).
int queue_create(struct kmt *t, struct kfd_ioctl_create_queue_args *a);
int queue_update(struct kmt *t, const struct kfd_ioctl_update_queue_args *a);
int queue_destroy(struct kmt *t, uint32_t id);
int queue_mask(struct kmt *t, const struct kfd_ioctl_set_cu_mask_args *a);
/** Whether there is any. */
bool queue_any(struct kmt *t);
int debug_trap(struct kmt *t, struct kmt_trap *a);
/** Tells the runtime that a queue stands, and why. */
void queue_exception(struct kmt_queue *q, unsigned code);
/** Returns when the runtime takes the queue down. */
void queue_stand(struct kmt_queue *q);

/** A kernel that is being run (run.c, standins.c). */
struct kmt_run {
	struct kmt *kfd;
	struct kmt_queue *queue;
	_Alignas(16) char arguments[512]; // a copy
	size_t argument_bytes;
	uint64_t entry; // where its code begins
	uint64_t items; // of the grid, along its first side
	unsigned waves, group_waves; // group_waves: of a workgroup
	bool faulted, write;
	struct kfd_hsa_memory_exception_data fault; // whose address is that of a page
	uint64_t address;                           // that faulted
	unsigned exception;                         // 0: none
	struct iovec views[4];                      // memory that was joined for it
	size_t nviews;
};

/** Whether the packet has been done. false: the queue stands for ever. */
bool run_kernel(struct kmt_queue *q, const struct aql_kernel *packet);
/** Tells the machine that its waves are on the GPU and stay there. */
void run_hangs(const struct kmt_run *r);
/** What the kernel finds at an address. NULL: it may not reach all of it, and has faulted. */
void *run_reach(struct kmt_run *r, uint64_t address, uint64_t size, bool write);

/** What a kernel does, in C. The lock `memory` is held. */
struct standin {
	const char *name;
	size_t argument_bytes; // that it reads
	void (*run)(struct kmt_run *r);
};

/** Up to a row without a name. */
extern const struct standin rocrtst_standins[];
const struct standin *standin_of(struct str symbol);
/** A copy or fill of the runtime's own, which has no name: recognised by its code. NULL: it is none. The lock `memory` is held. */
const struct standin *standin_of_code(struct kmt *t, const struct plan_gpu *g, uint64_t object);
