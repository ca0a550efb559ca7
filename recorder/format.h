// The recording: what libunhang-recorder.so writes while a job runs, and unhang reads at any time, also after a kill at any
// instruction. docs/RECORDING.md tells it in words. All numbers are little-endian.
//
// The file is mapped and shared. Nothing is locked: a record has a checksum that its number takes part in, so that a reader takes what
// is whole and leaves what is half written, lapped, or older than what it looks for.
#pragma once

#include <stdint.h>

#define RECORDING_MAGIC "UNHANGRC"
enum {
	RECORDING_VERSION = 1, // another one is not read: fields are added in what is zero today
	RECORDING_PAGE = 4096,
	RECORDING_EXTENTS = 480,
	RECORDING_EXTENTS_AT = RECORDING_PAGE,
	SMALL_ALLOCATION = 4096, // bytes at most: thousands of these hang some cards
	RECORDING_HEAD = 8 * RECORDING_PAGE, // the header and the table of extents
	RECORD_SIZE = 64,
	RECORD_WORDS = RECORD_SIZE / 8,
	RECORD_NO_THREAD = 0xffff, // there were more threads than slots, or the sampler found the packet
};

enum recording_state {
	RECORDING_BEING_MADE,
	RECORDING_ON,
	RECORDING_ENDED, // the runtime was shut down in order
	RECORDING_ASIDE, // the recorder stepped aside; rec_header.note says why
};

/** Ticks of the processor's clock, and the time of day and since the boot at that moment. */
struct rec_clock {
	uint64_t ticks, real_ns, boot_ns;
};

struct rec_header {
	char magic[8];
	uint32_t version;
	uint32_t size; // of the whole head: RECORDING_HEAD
	uint32_t state;
	uint32_t pid;
	int32_t rank; // -1: not known
	uint32_t uid;
	uint32_t level, max_level;
	uint32_t wanted; // level that `unhang level` asks for; the recorder takes it over within some milliseconds
	uint32_t lines;  // that the recorder wrote to stderr
	struct rec_clock start;
	uint64_t ticks_per_second; // by a first short look; the newest clock below is better
	uint32_t newest;           // which of the two is whole
	uint32_t runtime_major;    // of the runtime's table
	struct rec_clock clocks[2];
	uint32_t core_size, ext_size; // of the runtime's tables in bytes
	uint32_t torn_queues;         // queues that got no ring
	uint32_t lost_names;          // kernels for whose names there was no room
	char boot_id[40];
	char host[64];
	char program[64];
	char command[256]; // the arguments of the program, NUL between them
	char note[256];    // the newest line that was written to stderr
	char dumps[256];   // where inputs go
	// A hold: after a fault the process stands still, so that who looks after it can look while it still exists.
	uint32_t supervisor;    // process that looks after this one; 0: none. Supervisors write it, too
	uint32_t hold;          // enum rec_hold
	uint32_t holds;         // number of the newest hold, from 1
	uint32_t answered;      // number of the hold that the supervisor looks at; it writes this
	uint32_t released;      // number of the hold that may end; the supervisor writes this
	uint32_t hold_why;      // enum rec_call: CALL_FAULT or CALL_QUEUE_ERROR
	uint64_t hold_until;    // nanoseconds since the boot: then the process goes on, released or not
	char core[256];         // the light GPU core of the newest hold; empty: there is none
	uint64_t pid_namespace; // that @pid is a number of; 0: of the first one, as the driver and the kernel's log have it
	uint32_t closed;        // 1: the program closed the file, and it could not be opened again: no piece was made since
	uint32_t exited;        // 1 + the status that the program gave to exit(), 0 to 255; 0: it called none
	uint32_t removed;       // older recordings that were removed to make room for this one, and for those
	uint32_t waits;         // packets that waited for others because UNHANG_WAITS said so
	uint32_t waits_lost;    // of these were given up
	uint32_t delays;        // packets that began later for it
};

/** The supervisor that `unhang watch` is: no process of the job, and another one after each of its restarts. */
#define REC_SUPERVISOR_WATCH UINT32_MAX

enum rec_hold {
	REC_HOLD_NONE,
	REC_HOLD_ASKED,      // does the supervisor answer?
	REC_HOLD_WRITING,    // the light core is being written
	REC_HOLD_HELD,       // the supervisor may look, and releases the process
	REC_HOLD_RELEASED,   // it did
	REC_HOLD_EXPIRED,    // it did not, in time
	REC_HOLD_UNANSWERED, // there was nobody to hold it for
};

/** What a piece of the file holds. A reader passes over kinds that it does not know. */
enum extent_kind {
	EXTENT_NONE,
	EXTENT_QUEUE,      // struct rec_queue, then a record for each packet
	EXTENT_ARGUMENTS,  // of the queue @id: slots of @stride bytes
	EXTENT_EVENTS,     // struct rec_ring, then events: calls that were made
	EXTENT_MEMORY,     // struct rec_memory, then the allocations that there are, and that there were
	EXTENT_THREADS,    // a struct rec_thread for each slot
	EXTENT_LOG,        // struct rec_log, then entries: kernels, code, GPUs, pools, texts
	EXTENT_OPERATIONS, // struct rec_ring, then struct rec_operation
	EXTENT_STATISTICS, // struct rec_ring, then struct rec_statistics
	EXTENT_LEFT_OUT,   // of a copy: what was here is not to be shown. No recorder writes it
	EXTENT_DONE,       // struct rec_done: signals that the program saw to have fired
};

struct rec_extent {
	uint32_t kind; // written last
	uint32_t id;   // which one of its kind
	uint64_t offset, size;
	uint64_t slots;  // a power of two; 0 of a log
	uint32_t stride; // bytes from slot to slot
	uint32_t head;   // bytes before the first slot
};

/** A user queue. What is in flight is never overwritten: there are as many records as the queue has packets, where there is room. */
struct rec_queue {
	uint64_t address;  // of the runtime's queue (amd_queue_t)
	uint64_t ring;     // its packets
	uint64_t doorbell; // handle of its signal
	uint64_t agent;
	uint32_t size; // packets
	uint32_t flags;
	uint64_t hsa_id;
	uint64_t created, destroyed; // ticks
	uint64_t unseen;             // packets that were overwritten before they could be recorded
	uint64_t reserved[7];
	uint64_t seen; // packets below it are recorded or passed over
	uint64_t reserved2[7];
	// Written by the sampler alone, every few milliseconds.
	uint64_t sampled;     // ticks
	uint64_t read, write; // the queue's indices at that time
	uint64_t moved;       // when the read index was last seen to move
	uint64_t certain;     // packets below it have certainly ended: a completion signal says so
	uint64_t reserved3[3];
};
enum rec_queue_flag {
	REC_QUEUE_FOUND = 1,       // by its doorbell: its creation was not seen
	REC_QUEUE_INTERCEPTED = 2, // its packets can be held back: levels 5 and 10
	REC_QUEUE_SHORT = 4,       // there was no room for a record for each packet
};

static inline uint64_t rec_check_begin(uint64_t id) { return (id ^ 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u; }
/** What the word at place @i of a record adds. */
static inline uint64_t rec_check_word(uint64_t word, unsigned i)
{
	return (word ^ (0x94d049bb133111ebu + i)) * (0xd6e8feb86659fd93u + 2 * (uint64_t)i * 0x2545f4914f6cdd1du);
}
static inline uint32_t rec_check_end(uint64_t sum) { return (uint32_t)(sum >> 32 ^ sum) | 1; }
/** What a record's number and words make. A half that is written only is found out, and so is a writer that was lapped. */
static inline uint32_t rec_check(const uint64_t *words, unsigned n, uint64_t id)
{
	uint64_t sum = rec_check_begin(id);
	for (unsigned i = 1; i < n; i++)
		sum += rec_check_word(words[i], i);
	return rec_check_end(sum);
}

/** A packet, as it lay in the queue when its doorbell was rung. */
struct rec_packet {
	uint32_t id, check;  // the packet's number, its low half; the check has all of it
	uint64_t time;       // ticks
	uint64_t kernel;     // kernel object; of a barrier: the first signal that it waits for
	uint64_t arguments;  // address; of a barrier: the second signal
	uint64_t completion; // signal; 0: none
	uint32_t grid[3];    // of a barrier: [0] and [1] the third signal, [2] how many there are
	uint32_t group;      // 10 bits each: x - 1, y - 1, z - 1; bits 30 and 31: dimensions
	uint16_t header;     // AQL: type, barrier bit, fences
	uint16_t thread;     // slot
	uint32_t operation;  // number; 0: none
};
/** In rec_packet.header, where AQL has the type INVALID: the GPU had taken the packet before it was read, only its type is gone. */
enum { REC_PACKET_TAKEN = 0xffff };

enum rec_arguments_state {
	REC_ARGUMENTS_COPIED = 1,
	REC_ARGUMENTS_IN_VRAM, // reading them would cross the bus
	REC_ARGUMENTS_UNKNOWN, // the runtime knows of no memory there, or the kernel is not known
	REC_ARGUMENTS_LEFT_OUT // by UNHANG_INCLUDE, UNHANG_EXCLUDE
};
/** The arguments of a packet: the bytes behind it, as many as fit. */
struct rec_arguments {
	uint32_t id, check; // as of the packet
	uint16_t state, copied;
	uint16_t size;      // of the kernel's argument segment
	uint16_t lds_words; // of 4 bytes, rounded up: group memory that the packet asks for; 0xffff: so many or more
};

/** A signal that the program has seen to be 0 or less, so that all that was launched with it before @time has ended. The newest look at a
 * signal counts. A set of REC_DONE_WAYS slots holds the signals that share it. A half that is written only names no signal. */
struct rec_done {
	uint64_t signal; // rec_done_mix() with the time
	uint64_t time;   // ticks, right before the look; 0: the slot is free
};
enum { REC_DONE_WAYS = 4 };
/** The word in the file of a signal, and the other way round. */
static inline uint64_t rec_done_mix(uint64_t signal, uint64_t time) { return signal ^ time * 0x9e3779b97f4a7c15u; }

struct rec_ring {
	uint64_t next; // number of the next record; the last @slots of those before it are there
	uint64_t reserved[7];
};

/** GPUs as a mask: bit n is the n-th GPU of the log, counted from 0. There is no bit for those from this one on; it says that the rest is
 * known. */
enum { REC_GPUS_KNOWN = 31 };

/** What the runtime was asked to do. Numbers are the file's: never changed, new ones behind. */
enum rec_call {
	CALL_NONE,
	CALL_POOL_ALLOCATE,  // address, size, pool
	CALL_POOL_FREE,      // address
	CALL_ALLOCATE,       // address, size, region
	CALL_FREE,           // address
	CALL_RESERVE,        // address, size: virtual addresses without memory
	CALL_UNRESERVE,      // address, size
	CALL_HANDLE_CREATE,  // handle, size, pool: memory without an address
	CALL_HANDLE_RELEASE, // handle
	CALL_MAP,            // address, size, handle
	CALL_UNMAP,          // address, size
	CALL_SET_ACCESS,     // address, size, GPUs that may use it from now on, GPUs that may not
	CALL_IPC_ATTACH,     // address, size, GPUs
	CALL_IPC_DETACH,     // address
	CALL_LOCK,           // address for the GPU, size, host address, GPUs
	CALL_UNLOCK,         // host address
	CALL_INTEROP_MAP,    // address, size
	CALL_INTEROP_UNMAP,  // address
	CALL_SVM_SET,        // address, size, number of attributes
	CALL_ALLOW_ACCESS,   // address, number of agents, first agent, GPUs: these and the owner may use it, no other
	CALL_COPY,           // to, size, from
	CALL_ASYNC_COPY,     // to, size, from, completion signal
	CALL_FILL,           // address, bytes, value
	CALL_WAIT,           // signal, value that it is compared with, 0, timeout
	CALL_LOAD,           // executable, number of kernels
	CALL_UNLOAD,         // executable
	CALL_QUEUE_CREATE,   // queue, packets, agent
	CALL_QUEUE_DESTROY,  // queue
	CALL_FAULT,          // address, reasons, agent: the GPU's memory fault
	CALL_QUEUE_ERROR,    // queue, status
	CALL_LEVEL,          // new level, old level
	CALL_INIT,           // the recorder was loaded
	CALL_SHUT_DOWN,
	CALL_HOLD,       // number of the hold, enum rec_hold that it ended with, bytes of the light core
	CALL_COPY_AFTER, // completion signal of a copy, and up to three signals that it waits for
	CALL_TRACE,      // address that was allocated, or kernel that was launched; REC_TRACE_MEMORY, or its queue; a text of the log with who did
	CALLS
};

enum { REC_TRACE_COPIES = 31, REC_TRACE_MEMORY };

/** A call that has returned. */
struct rec_event {
	uint32_t id, check;
	uint64_t time; // ticks, when it began
	uint16_t call, thread;
	int32_t status;
	uint64_t a[4];
	uint32_t operation;
	uint32_t took; // microseconds; 0: less than the clock of the sampler can tell
};

enum rec_memory_state { REC_MEMORY_FREE_SLOT, REC_MEMORY_LIVE, REC_MEMORY_FREED };
/** Built by the sampler from the events below @applied: a reader goes on with those from there. */
struct rec_memory {
	uint64_t applied;
	uint64_t lost; // events that were overwritten before they were applied, and allocations for which there was no room
	uint64_t reserved[6];
};
struct rec_allocation {
	uint32_t id, check; // the slot's number
	uint64_t address, size;
	uint64_t born, died; // ticks
	uint64_t of;         // pool, handle, or host address
	uint16_t call;       // that made it
	uint16_t state;
	uint16_t by, freed_by; // threads
	uint32_t operation;
	uint32_t gpus; // that were given access; the owner of its pool has it anyway
};

/** Who has access to an allocation when it is made. Mapped memory is nobody's until somebody says whose it is. */
static inline uint32_t rec_gpus_at_first(const struct rec_event *e)
{
	return e->call == CALL_LOCK       ? (uint32_t)e->a[3] :
	       e->call == CALL_IPC_ATTACH ? (uint32_t)e->a[2] :
	       e->call == CALL_MAP        ? UINT32_C(1) << REC_GPUS_KNOWN :
					    0;
}
/** And after a call that gives or takes it. */
static inline uint32_t rec_gpus_after(const struct rec_allocation *a, const struct rec_event *e)
{
	if (e->call == CALL_ALLOW_ACCESS)
		return (uint32_t)e->a[3];
	return ((a->gpus | (uint32_t)e->a[2]) & ~(uint32_t)e->a[3]) | UINT32_C(1) << REC_GPUS_KNOWN;
}

/** A thread, and the call that it is inside of. Only the thread itself writes. */
struct rec_thread {
	uint32_t tid;   // 0: the slot is free
	uint32_t call;  // written last; 0: in none
	uint64_t since; // ticks
	uint64_t a[4];
	uint32_t operation; // number of the one that it is in; 0: none
	uint32_t depth;     // calls inside of calls
	uint64_t calls;     // that it made
	uint64_t ended;     // when the thread ended; 0: it has not
	char name[16];
	uint64_t reserved[5];
};

/** Entries of a log stand one behind the other; @used counts whole ones only. */
struct rec_log {
	uint64_t used; // bytes behind this head
	uint64_t reserved[7];
};
enum rec_entry_kind {
	ENTRY_KERNEL = 1,
	ENTRY_CODE,
	ENTRY_UNLOAD,
	ENTRY_AGENT,
	ENTRY_POOL,
	ENTRY_TEXT,
	ENTRY_METADATA,
	ENTRY_ALLOCATOR
};
/** A multiple of 8 bytes; the text is behind the numbers. */
struct rec_entry {
	uint32_t size; // all of it
	uint32_t check;
	uint16_t kind;
	uint16_t text; // bytes
	uint32_t id;   // of a text
	uint64_t time; // ticks
	uint64_t n[6]; // kernel: object, argument bytes, executable; code: base, size, delta, executable; unload: executable;
		       // agent: handle, type (1: GPU), node, bus address, domain; pool: handle, agent, flags, bytes;
		       // metadata (the text is what a code object's note says of its kernels): executable;
		       // allocator (the text says whose): what it takes of the runtime are multiples of so many bytes
};

enum { REC_TENSORS = 8, REC_DIMENSIONS = 6 };
struct rec_tensor {
	uint64_t address;
	uint8_t dtype; // enum unhang_dtype
	uint8_t ndim;  // also where it has more than there is room for
	uint8_t reserved[6];
	uint64_t shape[REC_DIMENSIONS];
	int64_t strides[REC_DIMENSIONS]; // in elements
};
/** What a framework was doing: unhang_begin() and unhang_end(). */
struct rec_operation {
	uint32_t id, check;    // the check is over rec_operation_words()
	uint64_t begin;        // ticks
	uint32_t name, parent; // a text of the log; the operation around it, 0: none
	uint16_t thread, ntensors;
	uint32_t filter; // 1: UNHANG_INCLUDE names it or one around it, 2: UNHANG_EXCLUDE does
	struct rec_tensor tensors[REC_TENSORS];
	uint64_t end; // ticks; 0: it has not ended
	uint64_t reserved2[3];
};

/** Words of an operation that are written and checked when it begins: of its tensors only those that it has. */
static inline unsigned rec_operation_words(unsigned ntensors)
{
	return (unsigned)((__builtin_offsetof(struct rec_operation, tensors) + ntensors * sizeof(struct rec_tensor)) / 8);
}

/** Of a buffer before its kernel ran (level 5). */
struct rec_statistics {
	uint32_t id, check;
	uint32_t queue, argument; // number of the queue's extent; offset of the pointer among the arguments
	uint64_t packet;
	uint64_t address, elements;
	uint64_t zeros, nans, infinities;
	double least, most, mean;
	uint32_t dtype, guessed; // nobody said what type it has
	uint64_t time;
	uint64_t reserved[3];
};

_Static_assert(sizeof(struct rec_header) <= RECORDING_PAGE, "the header is a page");
_Static_assert(RECORDING_EXTENTS_AT + RECORDING_EXTENTS * sizeof(struct rec_extent) <= RECORDING_HEAD, "the table fits");
_Static_assert(sizeof(struct rec_packet) == RECORD_SIZE && sizeof(struct rec_event) == RECORD_SIZE &&
		       sizeof(struct rec_allocation) == RECORD_SIZE && sizeof(struct rec_ring) == RECORD_SIZE,
	       "records are cache lines");
_Static_assert(sizeof(struct rec_queue) == 256 && sizeof(struct rec_thread) == 128 && sizeof(struct rec_statistics) == 128,
	       "whole cache lines");
_Static_assert(sizeof(struct rec_operation) % 8 == 0 && sizeof(struct rec_entry) == 72, "words");
