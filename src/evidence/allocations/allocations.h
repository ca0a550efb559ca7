// The allocations of a job as they are read: what libunhang-guard.so wrote into preload/format.h's file. Its bytes are a stranger's: each
// record is held against its checksum, and what is torn is counted and left out. Nothing here judges.
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "preload/format.h"

enum { ALLOCATIONS_MOST = 256 << 20 };

struct allocations {
	struct arena arena;
	char *bytes; // of the file; owned
	size_t size;
	struct alloc_header header;
	struct str host, program, boot_id, command;
	struct str damage; // what no job leaves behind, and where; empty: the file is whole
	bool alive; // its process runs
	uint64_t torn;
	uint64_t missing; // rows for which there was no room, that are torn, or that no allocation has
	uint64_t upto; // the newest time in it; of a process that runs: now
	size_t nrows, nstacks, nmodules, nfindings, nbursts, nslabs, nthreads, nsizes, noperations;
	struct alloc_row *rows;         // live and freed ones, in the order of their addresses
	struct alloc_stack *stacks;     // by number: stacks[id - 1]; without frames: it is torn, or there is none
	struct alloc_module *modules;   // by their place
	struct alloc_finding *findings; // in their order
	struct alloc_burst *bursts;
	struct alloc_slab *slabs;
	struct alloc_thread *threads;
	struct alloc_size *sizes; // by class
	struct alloc_operation *operations; // by number: operations[id - 1]
	struct module_names *names; // of functions, found when they are asked for
};

bool allocations_begin(struct str head);
/** Whether a file is called as those of a run are: allocations.4242, of process 4242. */
bool allocations_of_job(struct str name, int64_t *ret_pid);
/** Takes @bytes apart, which are the result's from now on, also where there is an error. */
struct uh_error *allocations_parse(const char *name, char *bytes, size_t size, struct allocations **ret);
void allocations_free(struct allocations *a);

/** Which allocation an address is of, by the address alone. */
struct allocation_at {
	enum alloc_place place;
	const struct alloc_row *row; // NULL: it is near none
	int64_t first, last;         // what was touched, as bytes from the allocation's address: a GPU tells the page
	bool guess;                  // its addresses may have become another's
	uint64_t distance;           // of a wild address: from the nearest allocation
};
struct allocation_at allocations_find(const struct allocations *a, uint64_t address);

// --- words ---

const char *alloc_call_name(uint32_t call);
/** `the 4,000 bytes at 0x7f0000000000 (allocation 17 of this process)` */
struct str allocation_say(struct arena *a, const struct alloc_row *r);
/** `0 to 4,095 bytes past the end`; `up to 4,096 bytes before the beginning`; `byte 8 to 4,103 of it` */
struct str allocation_offset_say(struct arena *a, const struct allocation_at *at);
/** `main > load (model.c:41)`: a backtrace, the caller of the allocator first; @most frames. Empty: it is not known. */
struct str allocation_stack_say(struct allocations *a, struct arena *to, uint32_t stack, size_t most);
/** The name of an operation; empty: it is not known. */
struct str allocation_operation_say(const struct allocations *a, uint32_t number);
/** Seconds since 1970 of a time of the file. */
double allocations_time(const struct allocations *a, uint64_t ns);
/** `48,112 allocations of up to 4 KiB in 3.0 s` */
struct str burst_say(struct arena *a, const struct alloc_burst *b);
/** The burst with the most allocations; NULL: there is none. */
const struct alloc_burst *allocations_burst(const struct allocations *a);
