// The inside of our libhsakmt.so.1: a KFD without silicon under an unmodified ROCm runtime. What would be hardware is a thread for each
// queue, which takes packets from its ring and does in C what the kernels that it knows do.
#pragma once

#include <pthread.h>

#include "base/arena.h"
#include "emulator/thunk/abi.h"
#include "emulator/thunk/plan.h"

enum { KMT_PAGE = 4096, KMT_NODES_MOST = 64, KMT_QUEUES_MOST = 512, KMT_EVENTS_MOST = 4096 };

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

/** Memory that a GPU may reach. */
struct kmt_block {
	uint64_t base, size;
	char *inside; // where the stand-ins see it; where VRAM is closed to the host this is another mapping
	uint32_t type, flags, node;
	bool vram;       // of this process's; what others share is not
	int file;        // that it is a mapping of; -1: none
	uint64_t offset; // in the file
	uint32_t mapped[KMT_NODES_MOST], nmapped;
	unsigned registrations;
	void *user;
	struct kmt_code *code; // that was looked for in it; NULL: not yet
};

/** The program's own memory with what it said of it. */
struct kmt_svm {
	struct kmt_block block; // of which base, size, inside and mapped are used
	uint32_t preferred, prefetched, flags, granularity;
};

/** The kernel that a queue stands in. */
struct kmt_standing {
	bool is; // read and written as an atomic, last
	bool faulted;
	uint64_t pc, address; // address: that faulted, without what the instruction adds
	int scalar, vector;   // the first of the two registers that hold it; -1: none
	uint32_t packet, grid[3], group[3];
};

struct kmt_queue {
	struct thunk *thunk;
	const struct plan_gpu *gpu;
	unsigned id;
	const volatile char *ring;
	uint64_t packets; // that it has room for
	volatile uint64_t *doorbell, *write, *read;
	volatile int64_t *error;
	struct kmt_event *event;
	pthread_t thread;
	bool ends, suspended; // read and written as atomics
	struct kmt_standing standing;
	char *saved; // its waves, where a debugger looks; NULL: nobody has
};

/** An event as the driver has it. */
struct kmt_slot {
	struct kmt_event *event;
	bool manual, signaled;
	unsigned waiters;
	uint64_t wakes; // times that waiters were woken
	struct kmt_fault fault;
};

struct thunk {
	struct kfd_plan plan;
	unsigned opened;
	uint64_t list; // of code objects, as the runtime said
	int device;    // /dev/kfd; -1: none
	pthread_rwlock_t memory;
	VEC(struct kmt_block *) blocks; // by base
	VEC(struct kmt_block *) registered;
	VEC(struct kmt_svm) svm; // the newest last
	int vram;
	uint64_t vram_end;
	uint64_t used[KMT_NODES_MOST];
	pthread_mutex_t lock; // of what follows
	pthread_cond_t happened;
	struct kmt_slot *slots[KMT_EVENTS_MOST];
	uint64_t *mailboxes;
	struct kmt_queue *queues[KMT_QUEUES_MOST];
	uint64_t *doorbells;
};

/** The one of this process. */
struct thunk *thunk_get(void);
const struct plan_gpu *thunk_gpu(const struct thunk *t, uint32_t node);
/** Tells the emulated machine outside, where there is one, what happens here. */
void thunk_tell(struct thunk *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** ucode:10 major:6 minor:8 stepping:8 */
uint32_t engine_of(const struct plan_gpu *g);
void sleep_seconds(double seconds);
uint64_t clock_ns(void);

// Memory (memory.c).
/** What a GPU finds at an address, with all that follows it in the same mapping: *ret_size bytes at least 1. NULL: it may not reach it.
 * The lock `memory` is held. */
char *memory_reach(struct thunk *t, uint32_t node, uint64_t address, bool write, uint64_t *ret_size);
/** Maps a block as it is described, but for its addresses; NULL: there is no memory. The lock is held for writing. */
struct kmt_block *memory_map(struct thunk *t, const struct kmt_block *wanted);
void memory_unmap(struct thunk *t, struct kmt_block *b);
/** Of the program's own memory, what a GPU may reach because the program said so; NULL: nothing (svm.c). */
struct kmt_block *svm_block(struct thunk *t, uint32_t node, uint64_t address);
/** The block that an address is in, of those that were allocated. The lock is held. */
struct kmt_block *memory_block(struct thunk *t, uint64_t address);

// Code (code.c).
/** The kernel of a descriptor; NULL: it is in no code object. *ret_unread: nobody has looked yet what code is there. The lock `memory` is
 * held. */
const struct kmt_kernel *code_kernel(struct thunk *t, uint64_t object, bool *ret_unread);
/** Looks. The lock is held for writing. */
void code_read(struct thunk *t, uint64_t object);
void code_free(struct kmt_code *c);

// Events (events.c).
void event_set(struct thunk *t, uint32_t id);
/** Tells the runtime of a fault: the events for memory are set. */
void event_fault(struct thunk *t, const struct kmt_fault *fault);

// Queues (queue.c).
/** Tells the runtime that a queue stands, and why. */
void queue_exception(struct kmt_queue *q, unsigned code);
/** Returns when the runtime takes the queue down. */
void queue_stand(struct kmt_queue *q);

/** A kernel that is being run (run.c, standins.c). */
struct kmt_run {
	struct thunk *thunk;
	struct kmt_queue *queue;
	_Alignas(16) char arguments[512]; // a copy
	size_t argument_bytes;
	uint64_t entry; // where its code begins
	unsigned waves;
	bool faulted, write;
	struct kmt_fault fault; // whose address is that of a page
	uint64_t address;       // that faulted
	unsigned exception;     // 0: none
};

/** Whether the packet has been done. false: the queue stands for ever. */
bool run_kernel(struct kmt_queue *q, const struct aql_kernel *packet);
/** What the kernel finds at an address. NULL: it may not reach all of it, and has faulted. */
void *run_reach(struct kmt_run *r, uint64_t address, uint64_t size, bool write);

/** What a kernel does, in C. The lock `memory` is held. */
struct standin {
	const char *name;
	size_t argument_bytes; // that it reads
	void (*run)(struct kmt_run *r);
};
const struct standin *standin_of(struct str symbol);
/** A copy or fill of the runtime's own, which has no name: recognised by its code. NULL: it is none. The lock `memory` is held. */
const struct standin *standin_of_code(struct thunk *t, uint32_t node, uint64_t object);
