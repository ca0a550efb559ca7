// The inside of libunhang-guard.so. It stands between a stranger's program and HIP: until HIP is called it does nothing, it holds no lock
// of its own while HIP works, and it steps aside (aside()) where something is missing that it needs.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "preload/format.h"
#include "preload/hip.h"
#include "recorder/cleanup.h"

enum { PAGE = 4096, DEVICES_MOST = 64, ROW_NONE = UINT32_MAX, FRAMES_RAW = 48, CANARY = 0xc9 };
#define MIB (UINT64_C(1) << 20)

/** UNHANG_GUARD*, UNHANG_POOL*, UNHANG_ALLOCATIONS: read once, when HIP is first called. */
struct guard_settings {
	enum alloc_mode mode;
	bool below, reported;
	uint32_t align, sample;
	char match[128];
	uint64_t quarantine_bytes, quarantine_count, mappings, memory, pool_most, slab;
};

/** What the program asks for. */
struct request {
	enum alloc_call call;
	uint64_t size;
	unsigned flags;
	int device;
	uint32_t stack;
	uint64_t time;      // when the call began
	uint32_t operation; // of the flight recorder; 0: none
	uint32_t doing;     // its name's place in the file
	uint32_t thread;
	char name[16];
	uint64_t number;
};

/** Addresses that are ours, from @begin to @end: with the unmapped ones around an allocation. */
struct span {
	uint64_t begin, end;
	bool slab; // struct slab, else struct allocation
};

/** One that has a mapping of its own. */
struct allocation {
	struct span span;
	uint64_t address, size, map, map_size, before, behind, born;
	uint64_t over; // bytes of free memory that HIP counts too little for it
	void *handle;  // of ALLOC_TIER_MAPPED
	uint32_t row;
	int device;
	enum alloc_state state;
	bool canaries, freeing;
	struct allocation *next; // in quarantine, the oldest first
};

struct guard {
	pthread_mutex_t lock; // of all that follows, and of the file but for threads and counts
	enum alloc_mode mode; // read and written as an atomic
	struct guard_settings settings;
	pid_t pid;
	struct alloc_header *header; // never NULL: where there is no file, it is memory of our own
	bool file;
	struct alloc_row *rows;
	uint32_t nrows;
	struct alloc_stack *stacks;
	uint32_t nstacks;
	struct alloc_module *modules;
	uint32_t nmodules;
	struct alloc_finding *findings;
	uint32_t nfindings, found;
	struct alloc_burst *bursts;
	uint32_t nbursts;
	struct alloc_slab *slabs;
	uint32_t nslabs;
	struct alloc_thread *threads;
	uint32_t nthreads;
	struct alloc_size *sizes;
	struct alloc_operation *operations;
	uint32_t noperations;
	void *spans; // a tree of tsearch()
	uint64_t numbers;
};
extern struct guard guard;

static inline uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static inline uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }
/** Counts in the header, which others read at any time. */
static inline uint64_t count(uint64_t *at, uint64_t by) { return __atomic_add_fetch(at, by, __ATOMIC_RELAXED); }
static inline void counted_peak(uint64_t *peak, uint64_t now)
{
	if (now > __atomic_load_n(peak, __ATOMIC_RELAXED))
		__atomic_store_n(peak, now, __ATOMIC_RELAXED);
}

// begin.c
/** Whether calls are served here: HIP is there, and nothing is missing. */
bool guard_on(void);
/** Variables that the HSA runtime reads when it starts. Called before it does. */
void environment_set(void);
/** Nothing is guarded or pooled any more from now on; what is, is freed rightly. */
void aside(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** A line on stderr and in the file. */
void rec_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

// settings.c
void guard_settings_read(struct guard_settings *s);
/** Whether the library was asked to do anything; without HIP being called. */
bool guard_wanted(void);
/** Being loaded is asking for the guard, unless a variable says otherwise. */
enum alloc_mode mode_wanted(void);

// file.c
/** Makes the file; where that cannot be, memory of our own takes its place. */
void file_make(void);
/** Writes a record of @words words at @to with the number @id, and its check. */
void record_write(void *to, void *record, unsigned words, uint64_t id);

// symbols.c
/** Whether HIP is loaded by now. */
bool hip_there(void);
/** Finds HIP's functions. NULL: all that are needed are there; else the name of one that is not. */
const char *hip_find(void);
/** The function of ours in place of HIP's of this name; NULL: there is none. */
void *hook_named(const char *name);
/** dlsym() as libc has it. */
void *next_symbol(void *handle, const char *name);

// rows.c: the table in the file. The lock is held.
/** The row of a new allocation; ROW_NONE: there was no room. */
uint32_t row_add(const struct request *q, const struct alloc_row *wanted);
/** An allocation ends. @q: who ends it. */
void row_end(uint32_t row, const struct request *q, enum alloc_state state, uint64_t died);
void row_state(uint32_t row, enum alloc_state state);
void row_flag(uint32_t row, enum alloc_flag flag);
/** The row of an address whose state is this, of several that which ended last; ROW_NONE: there is none. */
uint32_t row_find(uint64_t address, enum alloc_state state);
/** What was found: its kind, address and bytes. @q: who did it, or NULL at the end of the program. It is told on stderr, too. */
void finding_add(struct alloc_finding *f, const struct request *q, uint32_t row);

// statistics.c. The lock is held.
void size_born(const struct request *q, bool ours);
void size_died(uint64_t size, uint64_t lived);
/** At the end: one line, where it was asked for. */
void statistics_tell(void);

// threads.c
/** The thread is inside of a call. false: it is one of HIP's own, inside of a call. */
bool inside_begin(enum alloc_call call, uint64_t a, uint64_t b);
void inside_end(void);
void inside_step(enum alloc_call call);
void request_fill(struct request *q, enum alloc_call call, uint64_t size, unsigned flags);

// operations.c
/** The flight recorder may be there now. */
void operations_find(void);
/** The number of the operation that this thread is in, with its name; 0: in none. */
uint32_t operation_here(char *ret_name, size_t size);
/** Puts both into a request. No lock is held. */
void operation_fill(struct request *q);

// stacks.c
/** The number of the backtrace of the program's call; 0: there is none. No lock is held. @caller: where it returns to, which is all that
 * the pool asks for. */
uint32_t stack_here(const void *caller);
/** Whether a module of the backtrace has a name that the glob matches. */
bool stack_matches(uint32_t stack, const char *glob);

// spans.c. The lock is held.
bool span_add(struct span *s);
void span_drop(struct span *s);
struct span *span_of(uint64_t address);
/** Calls @f with each. */
void spans_walk(void (*f)(struct span *s));

// devices.c
/** Makes a device the current one; the one that was it before, or -1: it is it already. */
int device_enter(int device);
void device_leave(int before);
/** Waits for all that the device does. An error: it could not be waited for. */
hip_error device_wait(int device);
/** Also for the other GPUs of the program: they may use its memory. HIP itself waits for them up to 6.4. */
hip_error devices_wait(int device);
/** The program has made it the current one. */
void device_used(int device);
/** Whether a capture of a stream that is under way forbids this thread to allocate: HIP says so. */
bool device_forbids(void);
/** Whether work of this stream goes into a graph: it must not be waited for. */
bool device_records(hip_stream stream);
/** So many captures of streams more are under way. */
void device_captures(int by);
/** Bytes of a device: of none, @n is 0. */
struct extent {
	uint64_t at, n;
};
/** Fills two parts, and reads them one behind the other, by a stream of our own. @call: that the thread is inside of. */
bool device_fill(int device, const struct extent p[2], enum alloc_call call);
bool device_read(int device, const struct extent p[2], uint8_t *ret);
/** Its stream is gone with all else: it was reset. */
void device_forget(int device);

// guard.c
/** false: the request is not to be guarded, or could not be. */
bool guard_allocate(struct request *q, void **ret);
/** Of one that is not guarded: whether the runtime could not make it for want of mappings, at which some versions abort. */
bool guard_refuses(void);
hip_error guard_free(struct allocation *a, struct request *q, void *p);
uint64_t guard_over(int device);
void guard_reset(int device);
void guard_end(void);

// tiers.c
/** How allocations are kept apart here. false: HIP gives no memory, so it is not known yet. */
bool tier_find(void);
/** Memory of its own for an allocation: @map, @map_size, @before, @behind. */
hip_error tier_take(struct allocation *a, const struct request *q, uint64_t bytes);
/** Gives it back. Whether its addresses stay ours. */
hip_error tier_give(struct allocation *a, bool *ret_held);
/** Lets addresses go that were held. */
void tier_release(struct allocation *a);
/** Whether the kernel allows this process so many mappings more. */
bool mappings_left(int n);

// pool.c
bool pool_allocate(struct request *q, void **ret);
/** The allocation that an address lies in; false: in none. The lock is held. */
bool pool_find(struct span *s, uint64_t address, uint64_t *ret_begin, uint64_t *ret_size, uint64_t *ret_number,
	       uint32_t *ret_row);
hip_error pool_free(struct span *s, struct request *q, void *p);
/** Gives back slabs that nobody uses. Whether there were any. */
bool pool_trim(int device);
void pool_reset(int device);

// questions.c
/** The allocation of ours that an address lies in. */
struct bounds {
	uint64_t begin, size, number, map, map_size;
	uint32_t row;
	bool pooled, nobodys; // in a mapping or slab of ours, but of no allocation
};
bool bounds_of(const void *p, struct bounds *ret);

// hooks.c
/** What HIP's function does where it is called as it is. */
hip_error plain_allocate(const struct request *q, void **ret);
