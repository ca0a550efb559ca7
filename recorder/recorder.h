// The recorder's own state and the doors between its files. It lives inside a stranger's program: it takes no lock that the program
// could hold, makes no system call for a record, and steps aside (settings.c: rec_aside()) at anything that it did not expect.
#pragma once

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "recorder/cleanup.h"
#include "recorder/format.h"
#include "recorder/hsa.h"

enum {
	QUEUES_MOST = 256,
	QUEUE_BUCKETS = 1024,
	PATH_MOST = 256,
	ARGUMENTS_LEAST = 64,
	ARGUMENTS_MOST = 4096,
	FILTERS_MOST = 1024,
	GPUS_MOST = 64,
	CACHE_LINE = 64,
	MAGIC_SIZE = sizeof(RECORDING_MAGIC) - 1,
};
#define RECORDING_SUFFIX ".recording"
// How a GPU's core begins: ELF of 64 bits for AMDGPU, ET_CORE, EM_AMDGPU.
#define CORE_MAGIC "\177ELF\2\1\1\100\0\0\0\0\0\0\0\0\4\0\340"
enum { LEVEL_LAUNCHES = 1, LEVEL_ARGUMENTS = 3, LEVEL_STATISTICS = 5, LEVEL_INPUTS = 10 };

/** UNHANG_*, read once. */
struct rec_settings {
	int level, max_level;
	uint64_t space;          // bytes of a recording at most
	uint32_t argument_bytes; // of a slot
	uint32_t keep;           // recordings of processes that have ended
	uint64_t dump_bytes;
	uint32_t dump_count;
	int32_t rank;
	uint32_t supervisor; // process; 0: none
	uint32_t hold;       // seconds that a fault may be held for at most
	uint64_t core_bytes; // of a light core at most
	bool core_asked;     // one is written after each fault, supervisor or not
	bool path_named;     // UNHANG_RECORDING says where; else @path is a name in the default directory
	bool off;            // it says that nothing is to be recorded
	char core[PATH_MOST];
	char path[PATH_MOST], dumps[PATH_MOST];
	char waits[PATH_MOST];                             // the table of where packets wait; empty: none
	char include[FILTERS_MOST], exclude[FILTERS_MOST]; // globs, comma between them
};

/** A GPU. */
struct rec_agent {
	hsa_handle handle;
	char name[64]; // gfx90a
	uint32_t node, bdf;
};

/** A queue that is being recorded. What each launch needs is in its first cache line. */
struct queue_state {
	struct rec_queue *head; // NULL: there was no room; it is known, and not recorded
	struct amd_queue *queue;
	const uint64_t *packets;
	uint64_t *records;
	uint64_t mask; // of records
	uint64_t size, packet_mask;
	struct rec_arguments *arguments; // NULL: none yet
	hsa_handle doorbell, agent;
	uint64_t argument_mask;
	uint32_t argument_stride, id;
	// Where the runtime says that arguments lie: asked once for each piece of memory.
	_Atomic uint64_t range_begin, range_end;
	_Atomic uint32_t range_state, range_turn;
	uint64_t last_write; // of the sampler
	bool gone;
	struct passing *passing; // of an intercept queue: what it handed on to the GPU; NULL: not known
} __attribute__((aligned(CACHE_LINE)));

enum { OPERATORS_DEEPEST = 36 };
/** The operators of PyTorch that a thread is in. It hands the same object to the end of an operator as to its beginning. */
struct operators {
	const void *functions[OPERATORS_DEEPEST];
	uint32_t operations[OPERATORS_DEEPEST];
	unsigned depth;
};

/** The thread that runs. It has no other variables of its own, and they are less than 512 bytes: for so much the C library finds room where
 * it is quick to find again. */
struct thread_state {
	struct rec_thread *slot;
	uint32_t operation;
	uint32_t filter; // FILTER_IN, FILTER_OUT: of the operation, and of those around it
	uint16_t number;
	bool tried;
	bool ends_memory;     // inside of a call that guard.c knows of
	struct tail *awaited; // what it launched and is to wait for (waits/); NULL: nothing
	struct operators inside;
};
_Static_assert(sizeof(struct thread_state) < 512, "glibc's optional static TLS");

/** What the runtime's tables held before us. */
struct rec_next {
	void *core[CORE_KNOWN];
	void *ext[EXT_FUNCTIONS];
};

struct recorder {
	_Atomic int level; // 0: nothing is recorded
	_Atomic bool on;   // the file is there
	struct rec_settings settings;
	// The file's own. The program may close any descriptor, and give its number to a file of its own: file_fd() looks first.
	int fd;
	struct stat file;
	char file_path[PATH_MAX];
	struct rec_header *header;
	uint64_t ticks_per_us; // rounded up
	uint64_t used, budget; // of the file
	pthread_mutex_t lock;  // for what is made seldom: extents, queues, names
	// Each is a piece of the file, or NULL.
	struct rec_ring *events;
	uint64_t *event_slots;
	uint64_t event_mask;
	struct rec_done *done;
	uint64_t done_mask; // of sets
	struct rec_memory *memory;
	struct rec_allocation *allocations;
	uint64_t allocation_mask;
	struct rec_thread *threads;
	uint32_t nthreads;
	struct rec_ring *operations;
	struct rec_operation *operation_slots;
	uint64_t operation_mask;
	struct rec_ring *statistics;
	struct rec_statistics *statistics_slots;
	uint64_t statistics_mask;
	struct rec_agent gpus[GPUS_MOST];
	uint32_t ngpus;
	hsa_handle host_pool;     // of ordinary memory of the host; 0: none is known
	hsa_handle host_agent;    // that it is of
	hsa_handle argument_pool; // of memory for kernels' arguments; 0: none is known
	struct rec_log *log;
	uint64_t log_size;
	struct queue_state *queues[QUEUES_MOST];
	uint32_t nqueues;
	struct queue_bucket {
		_Atomic uint64_t doorbell; // 0: free; 1: was used
		struct queue_state *_Atomic queue;
	} buckets[QUEUE_BUCKETS];
	pid_t pid;
	struct hsa_table *core; // the tables that hold our functions; NULL: none
	struct hsa_loader loader;
	pthread_t sampler;
	bool sampling;
	_Atomic bool stop;
	_Atomic uint64_t coarse; // ticks, as the sampler last saw them
};

extern struct recorder rec;
extern struct rec_next next;

static inline uint64_t rec_ticks(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t t;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
#else
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#endif
}

static inline int rec_level(void) { return atomic_load_explicit(&rec.level, memory_order_relaxed); }

/** Writes a record whose number is @id, its words in @words; word 0 is made here. Each word is stored once. */
static inline void rec_write(uint64_t *to, uint64_t *words, unsigned n, uint64_t id)
{
	words[0] = (uint32_t)id | (uint64_t)rec_check(words, n, id) << 32;
#pragma GCC unroll 8
	for (unsigned i = 0; i < n; i++)
		__atomic_store_n(&to[i], words[i], __ATOMIC_RELAXED);
}

/** Reads a record that others may be writing; false: it is not whole, or not that of @id. */
static inline bool rec_read(const uint64_t *from, uint64_t *words, unsigned n, uint64_t id)
{
	for (unsigned i = 0; i < n; i++)
		words[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	return words[0] == ((uint32_t)id | (uint64_t)rec_check(words, n, id) << 32);
}

/** A producer that was preempted may find its packet overwritten. Not before the GPU has taken it, though: who has a number beyond the end
 * of the ring waits for that. The differences are signed: other tools defer the index. */
static inline bool packet_overtaken(const struct queue_state *q, uint64_t id)
{
	return (int64_t)(__atomic_load_n(&q->queue->write_index, __ATOMIC_ACQUIRE) - id) > (int64_t)q->size &&
	       (int64_t)(__atomic_load_n(&q->queue->read_index, __ATOMIC_ACQUIRE) - id) > 0;
}

// words.c
uint64_t setting_number(const char *name, uint64_t otherwise, uint64_t most);
void setting_text(const char *name, char *ret, size_t size);
/** A line with what the user wrote in it has nothing that a terminal obeys. */
void line_harmless(char *line, size_t n);
/** The rank as launchers tell it; -1: they do not. */
int32_t setting_rank(void);
/** %i rank, %p pid, %h host, %u user, %% percent. false: it does not fit. */
bool setting_path(const char *pattern, int32_t rank, char *ret, size_t size);
/** '*' is any characters, '?' one. */
bool text_matches(const char *pattern, size_t n, const char *text);
/** The light core of a recording: beside it. false: it does not fit. */
bool core_beside(const char *recording, char *ret, size_t size);

// settings.c
/** Whose files place.c and vacuum.c make and remove: a recorder's, or an allocator's (preload/). */
struct file_kind {
	const char *magic; // MAGIC_SIZE characters
	const char *suffix;
	const char *variable; // of the environment, which names its place
	size_t removed; // where its header says how many older ones were removed for it
};
extern const struct file_kind file_kind;
void settings_read(struct rec_settings *s);
/** One line on stderr and in the recording. */
void rec_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** The same, and nothing is recorded from now on. */
void rec_aside(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** What the filters say of a kernel or an operation: a kernel is taken that is in by its own name or by that of an operation which it is
 * launched in, and that is out by none of them. */
enum { FILTER_IN = 1, FILTER_OUT = 2 };
uint32_t filter_of(const struct rec_settings *s, const char *name);

// file.c
/** Makes the recording, once in a process; @true where there is one. */
bool rec_start(void);
void rec_end(void);
/** A piece of the file, allocated and mapped, zeroed; where there is no room for it, with half as many slots again and again, down to @least.
 * NULL: there is no room at all. The lock is held. */
void *extent_fit(enum extent_kind kind, uint32_t id, uint32_t head, uint64_t *slots, uint64_t least, uint32_t stride);
/** The descriptor of the recording, opened anew where the program has closed it; -1: that cannot be, and a line said so. The lock is
 * held. */
int file_fd(void);
void clocks_note(struct rec_clock *ret);

// place.c
/** The directory for a recording; @path is then a path in it. false: there is none, and a line said why. */
bool place_directory(struct rec_settings *s, char ret[PATH_MOST]);
/** Makes the file there, locked, with nothing but its magic; @path and @core are final then. -1: a line said why. */
int place_open(struct rec_settings *s, const char *directory);
/** Makes a file with nothing but the magic of a recording, locked; one that was begun so by a process that has ended is replaced. -1: see
 * errno; EEXIST: something else has that name. */
int place_begin(const char *path);
/** Whether the descriptor is that of a file. */
bool place_is(int fd, const struct stat *file);
/** fstat(), and stat() or (AT_SYMLINK_NOFOLLOW) lstat(), as one function that every glibc has. */
int stat_fd(int fd, struct stat *ret);
int stat_path(const char *path, int how, struct stat *ret);
/** Opens and locks a file of ours once more. -1: see errno; the path leads to it no more, or may not be opened any more. */
int place_again(const char *path, const struct stat *file);
/** Opens a regular file of this user that begins with @magic, to be read. -1, EEXIST: it is none. */
int own_file(const char *path, const void *magic, size_t n);
/** Gives the file @part the name @path. What has that name is replaced only if it is an own_file(). false: @part is there; EBUSY where the
 * process of that file lives, or see errno. */
bool put_in_place(const char *part, const char *path, const void *magic, size_t n);
/** Removes the name of a file that is open, if it still is that file's. */
bool remove_open(const char *path, int fd);
/** Whether the process that records there lives. */
bool is_locked(int fd);

// slots.c
/** One of @n slots for a thread, of @stride bytes: each begins with its thread's number, and has at @ended_at when that one ended. NULL: all
 * are others'. */
void *slot_take(void *slots, uint32_t n, size_t stride, size_t ended_at, uint32_t tid);

// quiet.c
/** write(), without SIGXFSZ and SIGPIPE. */
ssize_t quiet_write(int fd, const void *bytes, size_t n);
/** Allocates a piece of a file, without SIGXFSZ. false: there is no room. */
bool quiet_allocate(int fd, uint64_t begin, uint64_t end);

// vacuum.c
/** Leaves @keep recordings of processes that have ended, and fewer where there would be more than @most with those of processes that
 * live. Returns how many were removed, with those that had been removed for them. */
uint32_t vacuum(const char *directory, uint64_t keep, uint64_t most);

// calls.c
struct thread_state *thread_here(void);
/** Something that happened at a time. */
void event_at(const struct thread_state *t, enum rec_call call, uint64_t began, hsa_status status, const uint64_t a[4]);

/** When a call begins. An allocation may seem some milliseconds older than it is; a free must not, or what was launched before it would
 * seem to use freed memory. Reading the clock is a third of what an allocation costs here. */
static inline uint64_t call_time(enum rec_call call)
{
	const uint64_t coarse = call == CALL_POOL_ALLOCATE ? atomic_load_explicit(&rec.coarse, memory_order_relaxed) : 0;
	return coarse ? coarse : rec_ticks();
}

/** The thread is inside of a call from now on. */
static inline void call_begin(struct thread_state *t, enum rec_call call, uint64_t a, uint64_t b, uint64_t c)
{
	struct rec_thread *s = t->slot;
	if (!s || s->depth++)
		return; // the outermost call is the one that the program made
	__atomic_store_n(&s->a[0], a, __ATOMIC_RELAXED);
	__atomic_store_n(&s->a[1], b, __ATOMIC_RELAXED);
	__atomic_store_n(&s->a[2], c, __ATOMIC_RELAXED);
	__atomic_store_n(&s->since, call_time(call), __ATOMIC_RELAXED);
	__atomic_store_n(&s->operation, t->operation, __ATOMIC_RELAXED);
	__atomic_store_n(&s->call, call, __ATOMIC_RELEASE);
}

static inline void call_end(struct thread_state *t)
{
	struct rec_thread *s = t->slot;
	if (!s || --s->depth)
		return;
	s->calls++;
	__atomic_store_n(&s->call, CALL_NONE, __ATOMIC_RELEASE);
}

/** A call that has returned. */
static inline void event_note(const struct thread_state *t, enum rec_call call, hsa_status status, const uint64_t a[4])
{
	event_at(t, call, t->slot ? t->slot->since : rec_ticks(), status, a);
}

// signals.c: the hooks around loads of signals and waits for them
int64_t hook_load_relaxed(hsa_handle signal);
int64_t hook_load_scacquire(hsa_handle signal);
signal_wait_fn hook_wait_relaxed, hook_wait_scacquire;
uint32_t hook_wait_any(uint32_t n, const hsa_handle *signals, const uint32_t *conditions, const int64_t *values,
		       uint64_t timeout, uint32_t how, int64_t *ret_value);
typedef bool signal_handler_fn(int64_t value, void *arg);
hsa_status hook_async_handler(hsa_handle signal, uint32_t condition, int64_t value, signal_handler_fn *handler, void *arg);

// names.c
void names_of_executable(hsa_handle executable);
/** A code object in memory of the process: where it was loaded, and where it lies. */
struct code_storage {
	hsa_handle executable;
	uint64_t base, size, storage, bytes;
};
/** Level 10 saves code, too (inputs/code.c). The lock is held. */
void code_loaded(const struct code_storage *s);
void code_unloaded(hsa_handle executable);
void names_unload(hsa_handle executable);
/** Bytes of arguments of a kernel that this thread launches; -1: it is not known, -2: filters leave it out. */
int kernel_arguments(uint64_t kernel);
/** The same of a thread whose operation has this filter. */
int kernel_arguments_in(uint64_t kernel, uint32_t filter);
/** Its name as the file has it, without ".kd"; NULL: not known. */
const char *kernel_name(uint64_t kernel);
/** An entry of the log. The lock is held. false: there is no room. */
bool log_add(enum rec_entry_kind kind, uint32_t id, const uint64_t *n, unsigned nn, const char *text);
/** The number of a text, made where it is new; 0: there is no room. */
uint32_t text_number(const char *text);
/** The text of a number, cut to @size; empty: it is not known. */
void text_copy(uint32_t number, char *ret, size_t size);
/** filter_of() the text of a number. */
uint32_t text_filter(uint32_t number);
void agents_note(void);

// queues.c
void hook_store_relaxed(hsa_handle signal, int64_t value);
void hook_store_screlease(hsa_handle signal, int64_t value);
/** The queue that a signal is the doorbell of; NULL: it is not known to be one. */
struct queue_state *queue_find(hsa_handle doorbell);
/** Makes a queue known. The lock is held. */
struct queue_state *queue_add(struct hsa_queue *queue, hsa_handle agent, uint32_t flags);
/** Its doorbell is none any more. The lock is held. */
void queue_forget(hsa_handle doorbell);
/** The runtime ends, and its queues with it: the next one may have others at the same places. The lock is held. */
void queues_end(void);
/** The packets below @end, of which no doorbell told. */
void queue_record_unrung(struct queue_state *q, uint64_t end);

// creation.c
hsa_status hook_queue_create(hsa_handle agent, uint32_t size, uint32_t type, queue_error_fn *error, void *data,
			     uint32_t private_size, uint32_t group_size, struct hsa_queue **ret);
hsa_status hook_queues_create(hsa_handle agent, struct hsa_queue_wish *wishes, uint32_t n);
hsa_status hook_intercept_create(hsa_handle agent, uint32_t size, uint32_t type, queue_error_fn *error, void *data,
				 uint32_t private_size, uint32_t group_size, struct hsa_queue **ret);
hsa_status hook_queue_destroy(struct hsa_queue *queue);

// inputs/intercept.c: queues whose packets can be held back
/** Who makes such a queue. */
queue_create_fn *intercept_maker(void);
void intercept_begin(struct queue_state *q);
/** The queue is going to be destroyed; @passing_free when it was. */
void passing_end(struct passing *s);
void passing_free(struct passing *s);
/** How far the GPU is. An intercept queue hands packets on before they run: @read, its own index, says that only. The lock is held. */
uint64_t intercept_read(struct queue_state *q, uint64_t read);

// operations.c
/** One ends while others that began in it go on: the thread stays in those. */
void operation_end_outer(uint32_t operation);

// arguments.c
/** @filter: of the operation that launches it. */
/** A launch whose arguments are recorded. */
struct argued {
	uint64_t kernel, address;
	uint32_t lds; // bytes of group memory
	uint32_t filter;
};
void arguments_record(struct queue_state *q, uint64_t id, struct argued of);
/** Room for arguments, once the level asks for them. The lock is held. */
void arguments_room(struct queue_state *q);

// memory.c: the hooks around memory, as a table for table.c
struct hook {
	int place; // of the core table, or enum ext_function
	void *function;
};
extern const struct hook core_hooks[], ext_hooks[];
extern const size_t ncore_hooks, next_hooks;
void memory_apply(void);

// sampler.c
void sampler_start(void);
void sampler_stop(void);
void sample(void);
/** Notes how far a queue is. The lock is held. */
void sample_queue(struct queue_state *q);
/** The value of a signal that may be gone; false: it is. */
bool signal_value(uint64_t signal, int64_t *ret);
/** Reads memory that may be gone: through the kernel, which does not fault. 0: it was read, or errno. */
int read_safely(const void *at, void *ret, size_t size);

// faults.c
void faults_watch(void);
void queue_failed(hsa_status status, struct hsa_queue *queue, void *data);

// hold.c
/** Lets the supervisor look into this process where the kernel asks for leave (Yama). */
void supervisor_allow(void);
/** After a fault: lets the supervisor look before the runtime ends the program. */
void hold(enum rec_call why);
