// The allocations of a job: what libunhang-guard.so writes while the job runs, and unhang reads at any time, also after a kill at any
// instruction. docs/ALLOCATOR.md tells it in words. All numbers are little-endian, all times are nanoseconds since the boot
// (CLOCK_BOOTTIME), all texts end with a NUL unless they fill their room.
//
// The file is mapped, shared, and has its final size from the beginning. A header of a page, the table of its sections in the second page,
// then the sections. Records of a section have a fixed size and begin with (number, check): rec_check() of recorder/format.h over their
// 8-byte words from the second on, with the record's number. A reader takes what is whole and leaves the rest. A record of zeros is free.
// Threads, sizes and the header are words that are valid one by one: they have no check.
#pragma once

#include <stdint.h>

#include "recorder/format.h"

#define ALLOC_MAGIC "UNHANGAL"
#define ALLOC_SUFFIX                                                                                                           \
	".allocations" // in the recorder's directory: /dev/shm/unhang-UID/HOST.PID.allocations; UNHANG_ALLOCATIONS names another place
#define ALLOC_OF_JOB "allocations." // before the process: its place under `unhang run`
enum {
	ALLOC_VERSION = 1, // another one is not read: fields are added in what is zero today
	ALLOC_HEAD = 2 * RECORDING_PAGE,
	ALLOC_SECTIONS = 64,
	ALLOC_FRAMES = 14,  // of a backtrace at most
	ALLOC_CLASSES = 48, // of sizes: class n has sizes from 2^n to 2^(n+1) - 1
	ALLOC_LIVES =
		16, // of lifetimes: bucket 0 up to 1 microsecond, each other up to 8 times the one before it, the last all above
	ALLOC_CALLS_MOST = 32,
};

enum alloc_mode { ALLOC_MODE_NONE, ALLOC_MODE_GUARD, ALLOC_MODE_POOL };
enum alloc_state_of_file {
	ALLOC_BEING_MADE,
	ALLOC_ON,
	ALLOC_ENDED, // the program ended in order: canaries were looked at
	ALLOC_ASIDE, // the library stepped aside; the newest note says why
};

/** How an allocation is kept apart from its neighbours. */
enum alloc_tier {
	ALLOC_TIER_NONE, // nothing was allocated yet, or it cannot be done here
	ALLOC_TIER_PAGES, // a mapping of its own for each, with unmapped pages behind it (HSA_DISABLE_FRAGMENT_ALLOCATOR, HSA_SVM_GUARD_PAGES)
	ALLOC_TIER_MAPPED, // HIP's virtual memory functions: addresses are reserved around it
	ALLOC_TIER_SPACED, // blocks so large that the runtime makes a mapping for each
};

/** What was asked of HIP. Numbers are the file's: never changed, new ones behind. */
enum alloc_call {
	ALLOC_CALL_NONE,
	ALLOC_CALL_MALLOC,       // hipMalloc(size)
	ALLOC_CALL_FREE,         // hipFree(address)
	ALLOC_CALL_EXT_MALLOC,   // hipExtMallocWithFlags(size, flags)
	ALLOC_CALL_HOST_MALLOC,  // hipHostMalloc(size, flags), hipHostAlloc, hipMallocHost
	ALLOC_CALL_HOST_FREE,    // hipHostFree(address), hipFreeHost
	ALLOC_CALL_MANAGED,      // hipMallocManaged(size, flags)
	ALLOC_CALL_PITCH,        // hipMallocPitch, hipMemAllocPitch(width, height)
	ALLOC_CALL_3D,           // hipMalloc3D(width, height, depth)
	ALLOC_CALL_ASYNC,        // hipMallocAsync, hipMallocFromPoolAsync(size, stream)
	ALLOC_CALL_FREE_ASYNC,   // hipFreeAsync(address, stream)
	ALLOC_CALL_IPC_GET,      // hipIpcGetMemHandle(address)
	ALLOC_CALL_IPC_OPEN,     // hipIpcOpenMemHandle
	ALLOC_CALL_RESERVE,      // hipMemAddressReserve(size): expandable segments
	ALLOC_CALL_CREATE,       // hipMemCreate(size)
	ALLOC_CALL_GRAPH_NODE,   // hipGraphAddMemAllocNode
	ALLOC_CALL_DEVICE_RESET, // hipDeviceReset
	ALLOC_CALL_SYNCHRONIZE,  // inside of hipFree: the wait for what may still use the memory
	ALLOC_CALL_EXPORT,       // hipMemGetHandleForAddressRange(address, size)
	ALLOC_CALL_FILL,         // inside of hipMalloc: the wait for the guard's own bytes
	ALLOC_CALLS
};

struct alloc_header {
	char magic[8];
	uint32_t version; // written last
	uint32_t size;    // of the head: ALLOC_HEAD
	uint32_t state;   // enum alloc_state_of_file
	uint32_t mode;    // enum alloc_mode
	uint32_t pid, uid;
	uint64_t pid_namespace;    // as in a recording
	uint64_t real_ns, boot_ns; // the same moment, when the file was made
	uint64_t ended_ns;         // 0: it has not, or was killed
	char boot_id[40];
	char host[64];
	char program[64];
	char command[256];    // NUL between the arguments
	char hip[256];        // path of the HIP library
	uint32_t hip_version; // hipRuntimeGetVersion(): 50221153 is 5.2.21153, 60443484 is 6.4.43484
	uint32_t hip_driver;  // hipDriverGetVersion()
	char reserved1[32];
	// Settings.
	uint32_t align;    // UNHANG_GUARD_ALIGN
	uint32_t below;    // 1: allocations begin at the beginning of their mapping, with unmapped addresses before them
	uint32_t sample;   // every n-th allocation is guarded; 0 and 1: each
	uint32_t reported; // 1: a line at the end was asked for
	char match[128];   // glob of operations or modules; empty: all
	uint64_t quarantine_bytes, quarantine_count; // at most
	uint64_t mappings_most;                      // budget, of allocations with a mapping of their own
	uint64_t memory_most;                        // budget, of bytes that guarding may cost
	uint64_t pool_most, slab_bytes; // larger allocations are passed through; bytes that are asked of HIP at a time
	// What was reached.
	uint32_t tier;        // enum alloc_tier
	uint32_t granularity; // bytes: mappings are multiples of it; 4096 or 2097152
	uint64_t gap;         // unmapped bytes behind each mapping at least; before it in ALLOC_TIER_MAPPED
	uint64_t
		charge; // bytes that HIP's count of free memory loses by the smallest allocation; hipMemGetInfo is corrected by them
	uint32_t
		environment; // 1: both variables were set before the runtime read them; 0: too late, or the program had set others
	uint32_t held;       // 1: freed addresses stay reserved; 0: they cannot be, so that others may come to lie there
	uint32_t sampling; // above the budget: every so many-th allocation is guarded now; 0 and 1: each
	uint32_t reserved2;
	// Counts. Relaxed atomics; each is right by itself.
	uint64_t calls[ALLOC_CALLS_MOST];            // by enum alloc_call: made
	uint64_t passed[ALLOC_CALLS_MOST];           // of those, handed on as they were: not guarded, not pooled
	uint64_t live, live_bytes, peak, peak_bytes; // guarded and pooled allocations; bytes as asked for
	uint64_t taken, taken_bytes,
		taken_peak; // mappings or slabs that are HIP's for those, their bytes, and the most bytes that there were
	uint64_t held_count, held_bytes;                              // in quarantine
	uint64_t lost_rows, lost_stacks, lost_modules, lost_findings; // for which there was no room
	uint64_t unchecked;                                           // canaries that could not be looked at
	uint64_t waits;                                               // hipFree that waited for the device
	uint64_t kfd_calls;        // system calls of KFD but for waits, of the whole process since HIP was first called
	uint32_t bursts, reserved; // that were written
	uint32_t notes, removed;   // notes[i % 8] of these are there
	char note[8][128];         // what was refused or given up, as it was told on stderr
	uint64_t small;            // allocations of up to SMALL_ALLOCATION bytes, passed ones too
};

enum alloc_section_kind {
	ALLOC_SECTION_NONE,
	ALLOC_SECTION_ROWS,     // struct alloc_row
	ALLOC_SECTION_STACKS,   // struct alloc_stack
	ALLOC_SECTION_MODULES,  // struct alloc_module
	ALLOC_SECTION_FINDINGS, // struct alloc_finding
	ALLOC_SECTION_BURSTS,   // struct alloc_burst
	ALLOC_SECTION_SLABS,    // struct alloc_slab
	ALLOC_SECTION_THREADS,  // struct alloc_thread
	ALLOC_SECTION_SIZES,    // struct alloc_size, ALLOC_CLASSES of them
	ALLOC_SECTION_OPERATIONS, // struct alloc_operation
};
struct alloc_section {
	uint32_t kind, stride; // kind is written last
	uint64_t offset, slots;
};

enum alloc_state {
	ALLOC_FREE_SLOT,
	ALLOC_LIVE,
	ALLOC_HELD,     // freed; its addresses are unmapped and nobody else's
	ALLOC_RELEASED, // freed; its addresses may be anybody's
};
enum alloc_flag {
	ALLOC_GUARDED = 1,   // the mapping is its own
	ALLOC_POOLED = 2,    // the mapping is a slab's
	ALLOC_PASSED = 4,    // HIP's own way: larger than the pool takes, over the budget, not sampled, or another function's
	ALLOC_CANARIES = 8,  // the slack was filled
	ALLOC_EXPORTED = 16, // another process may have it
};

/** An allocation. Rows are found by address; those of freed ones stay until their place is needed. */
struct alloc_row {
	uint32_t id, check;                  // the row's place in the section
	uint64_t address, size;              // as the program has them
	uint64_t map, map_size;              // the mapping that it lies in. A pooled one: its slab. A passed one: 0, not known
	uint64_t before, behind;             // unmapped bytes around the mapping that belong to it: a fault there is this one's
	uint64_t born, died;                 // died 0: it lives
	uint64_t number;                     // the n-th allocation of the process, from 1
	uint32_t by, freed_by;               // threads (tid)
	uint32_t stack, freed_stack;         // numbers of backtraces; 0: none
	uint32_t operation, freed_operation; // of the flight recorder beside it; 0: none
	uint16_t call;                       // enum alloc_call
	uint8_t state, device;               // enum alloc_state; HIP's number of the GPU
	uint32_t flags;                      // enum alloc_flag
	char name[16], freed_name[16];       // of the threads
	uint32_t doing, freed_doing;         // names of those operations: struct alloc_operation; 0: none
	uint64_t reserved;
};

/** What the framework was doing, by its name. The same one is there once. */
struct alloc_operation {
	uint32_t id, check; // its place in the section, from 1
	char name[120];
};

/** A backtrace, innermost first. The same one is there once. A frame: the module's number + 1 in the top 16 bits, 48 bits of offset from the
 * module's base (as addr2line wants it); module 0: the offset is the address. They are return addresses: look up offset - 1. */
struct alloc_stack {
	uint32_t id, check; // its place in the section, from 1
	uint64_t frames[ALLOC_FRAMES];
	uint64_t count; // of frames
};
static inline unsigned alloc_frame_module(uint64_t frame) { return (unsigned)(frame >> 48); }
static inline uint64_t alloc_frame_offset(uint64_t frame) { return frame & 0xffffffffffffu; }

/** A loaded file. */
struct alloc_module {
	uint32_t id, check;        // its place in the section
	uint64_t base, begin, end; // what offsets count from; the addresses that it has
	uint64_t loaded;           // when it was seen first
	uint8_t build_id[20];
	uint32_t build_id_size; // 0: it has none
	char path[200];
};

enum alloc_finding_kind {
	ALLOC_FOUND_NONE,
	ALLOC_FOUND_DOUBLE_FREE,  // @address was freed before: @row
	ALLOC_FOUND_WILD_FREE,    // @address is no allocation; @row: the one that it lies in or next to, if any
	ALLOC_FOUND_BROKEN_BELOW, // bytes before the allocation were written: @begin to @end, from its address, below 0
	ALLOC_FOUND_BROKEN_ABOVE, // bytes behind its end were written: @begin to @end, from its address, @begin >= size
	ALLOC_FOUND_REFUSED,      // a call that cannot be served rightly: @call
};
struct alloc_finding {
	uint32_t id, check; // the n-th, from 1; place (id - 1) in the section
	uint64_t time;
	uint32_t kind, call; // enum alloc_finding_kind, enum alloc_call
	uint64_t address;
	int64_t begin, end;      // bytes, end is behind the last one
	uint32_t row, thread;    // row: place + 1; 0: none
	uint64_t born;           // of the row then: another one may be there by now
	uint32_t stack, at_exit; // 1: found at the end of the program
	char name[16];           // of the thread
	uint8_t bytes[16];       // that were found first, of canaries
	uint64_t reserved;
};

/** Many small allocations in a short time: what hangs some cards. */
struct alloc_burst {
	uint32_t id, check; // the n-th, from 1; place (id - 1) % slots
	uint64_t begin, end;
	uint64_t count;         // allocations up to @most bytes within that time
	uint64_t most;          // SMALL_ALLOCATION
	uint64_t size;          // of the newest of them
	uint32_t thread, stack; // of the newest of them
	uint64_t alike;         // the newest so many of them are all of @size bytes
};

/** Of the pool: what it has from HIP. */
struct alloc_slab {
	uint32_t id, check; // its place in the section
	uint64_t base, size;
	uint64_t born, died; // died: it was given back; 0: it is there
	uint64_t used, most; // bytes that allocations have of it; most: that there were at once
	uint32_t blocks, device;
};

/** A thread, and the call that it is inside of. Only the thread itself writes. As in a recording. */
struct alloc_thread {
	uint32_t tid;   // 0: the slot is free
	uint32_t call;  // enum alloc_call, written last; 0: in none
	uint64_t since; // when it began
	uint64_t a[2];  // its arguments
	uint64_t calls; // that it made
	uint64_t ended; // when the thread ended; 0: it has not
	char name[16];
};

/** Of all allocations with a size of a class, passed ones too. */
struct alloc_size {
	uint64_t count, freed, live, peak; // peak: of live
	uint64_t bytes, live_bytes;        // as asked for
	uint64_t guarded;                  // that have a mapping of their own, or a place in a slab
	uint64_t lives[ALLOC_LIVES];       // of those that were freed, by how long they lived
	uint64_t reserved;
};
static inline unsigned alloc_class(uint64_t size)
{
	const unsigned n = size > 1 ? 63 - (unsigned)__builtin_clzll(size) : 0;
	return n < ALLOC_CLASSES ? n : ALLOC_CLASSES - 1;
}

enum alloc_place {
	ALLOC_ELSEWHERE,
	ALLOC_INSIDE, // of a live allocation: not the memory's fault, or access was not given
	ALLOC_PAST,   // behind the end
	ALLOC_BEFORE,
	ALLOC_FREED, // in the memory, or in the unmapped bytes around it, of one that was freed
};
/** Which part of an allocation a page lies in, by the fault's address alone: a GPU tells the page (4096 bytes), so what was touched is
 * *ret_first to *ret_last, bytes from the allocation's address. A page behind the end of the mapping is past the allocation, whatever lies
 * between: the first byte that faults is the mapping's end. Of several rows the first of these is meant: a live one that is not elsewhere;
 * the held one that died last; the released one that died last, which is a guess. No row: a wild pointer. */
static inline enum alloc_place alloc_place(const struct alloc_row *r, uint64_t page, int64_t *ret_first, int64_t *ret_last)
{
	const uint64_t begin = r->map ? r->map : r->address, end = begin + (r->map ? r->map_size : r->size);
	const uint64_t last = page + RECORDING_PAGE - 1;
	*ret_first = (int64_t)(page - r->address);
	*ret_last = (int64_t)(last - r->address);
	// What is pooled or passed has neighbours in its mapping, and no bytes around it that are its own.
	const uint64_t low = r->flags & ALLOC_GUARDED ? begin - r->before : r->address;
	const uint64_t high = r->flags & ALLOC_GUARDED ? end + r->behind : r->address + r->size;
	if (last < low || page >= high)
		return ALLOC_ELSEWHERE;
	if (r->state != ALLOC_LIVE)
		return ALLOC_FREED;
	return page >= end ? ALLOC_PAST : last < begin ? ALLOC_BEFORE : ALLOC_INSIDE;
}

_Static_assert(sizeof(struct alloc_header) <= RECORDING_PAGE, "the header is a page");
_Static_assert((int)ALLOC_CALLS <= (int)ALLOC_CALLS_MOST, "calls have their counts");
_Static_assert(sizeof(struct alloc_row) == 160 && sizeof(struct alloc_stack) == 128 && sizeof(struct alloc_module) == 264 &&
		       sizeof(struct alloc_finding) == 112 && sizeof(struct alloc_burst) == 64 &&
		       sizeof(struct alloc_slab) == 64 && sizeof(struct alloc_thread) == 64 && sizeof(struct alloc_size) == 192 &&
		       sizeof(struct alloc_operation) == 128,
	       "sizes are the file's");
