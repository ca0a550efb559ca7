// The recording's file: made once, grown piece by piece. Every piece is allocated before it is mapped: a store to a hole in a full tmpfs
// would kill the job.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "recorder/recorder.h"

enum { EVENT_SLOTS = 16384, DONE_SLOTS = 4096, ALLOCATION_SLOTS = 65536, THREAD_SLOTS = 512, LOG_BYTES = 8 << 20, SHARE = 8 };

struct recorder rec = { .fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER };
struct rec_next next;

void clocks_note(struct rec_clock *ret)
{
	struct timespec real, boot;
	const uint64_t before = rec_ticks();
	clock_gettime(CLOCK_REALTIME, &real);
	clock_gettime(CLOCK_BOOTTIME, &boot);
	ret->ticks = before + (rec_ticks() - before) / 2;
	ret->real_ns = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
	ret->boot_ns = (uint64_t)boot.tv_sec * 1000000000u + (uint64_t)boot.tv_nsec;
}

int file_fd(void)
{
	if (rec.header->closed || place_is(rec.fd, &rec.file))
		return rec.header->closed ? -1 : rec.fd;
	rec.fd = place_again(rec.file_path, &rec.file);
	if (rec.fd < 0) {
		rec.header->closed = 1;
		rec_line("the program closed the recording, which cannot be opened again: %s; queues that it makes from now on "
			 "are not "
			 "recorded",
			 strerror(errno));
	}
	return rec.fd;
}

static struct rec_extent *free_extent(void)
{
	struct rec_extent *table = (void *)((char *)rec.header + RECORDING_EXTENTS_AT);
	for (size_t i = 0; i < RECORDING_EXTENTS; i++)
		if (!table[i].kind)
			return &table[i];
	return NULL;
}

/** What launches and calls write is faulted in beforehand. The rest is large, of most jobs little is touched, and who touches it is the
 * sampler or a call that takes long anyway. */
static int populate_of(enum extent_kind kind)
{
	return kind == EXTENT_LOG || kind == EXTENT_MEMORY || kind == EXTENT_STATISTICS ? 0 : MAP_POPULATE;
}

/** A piece of the file, allocated and mapped, zeroed; NULL: there is no room. The lock is held. */
static void *extent_add(enum extent_kind kind, uint32_t id, uint32_t head, uint64_t slots, uint32_t stride)
{
	const uint64_t size = (head + slots * stride + RECORDING_PAGE - 1) / RECORDING_PAGE * RECORDING_PAGE;
	struct rec_extent *e = free_extent();
	const int fd = e && rec.used + size <= rec.budget ? file_fd() : -1;
	void *at = MAP_FAILED;
	if (fd >= 0 && quiet_allocate(fd, rec.used, rec.used + size))
		at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | populate_of(kind), fd, (off_t)rec.used);
	if (at == MAP_FAILED) {
		if (fd >= 0 && ftruncate(fd, (off_t)rec.used))
			rec_line("what is behind the end of the recording could not be given back: %s", strerror(errno));
		return NULL;
	}
	*e = (struct rec_extent){ .id = id, .offset = rec.used, .size = size, .slots = slots, .stride = stride, .head = head };
	rec.used += size;
	__atomic_store_n(&e->kind, kind, __ATOMIC_RELEASE);
	return at;
}

void *extent_fit(enum extent_kind kind, uint32_t id, uint32_t head, uint64_t *slots, uint64_t least, uint32_t stride)
{
	// Other queues come later: where room is short, none takes more than half of what is left.
	const bool shares = kind == EXTENT_QUEUE || kind == EXTENT_ARGUMENTS;
	for (; *slots >= least && *slots; *slots /= 2) {
		if (shares && *slots / 2 >= least && *slots * stride > (rec.budget - rec.used) / 2)
			continue;
		void *at = extent_add(kind, id, head, *slots, stride);
		if (at)
			return at;
	}
	return NULL;
}

static void read_small(const char *path, char *ret, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);
	ret[n < 0 ? 0 : n] = 0;
}

/** Ticks per second by a look of a fifth of a millisecond: for a job that dies before the sampler has seen two clocks. */
static uint64_t rate_of(const struct rec_clock *first)
{
	struct rec_clock now;
	do
		clocks_note(&now);
	while (now.boot_ns - first->boot_ns < 200000);
	return (uint64_t)((double)(now.ticks - first->ticks) * 1e9 / (double)(now.boot_ns - first->boot_ns));
}

/** UNHANG_CONTAINER=no says that the numbers are the driver's, as in an emulated machine. */
static uint64_t namespace_of(void)
{
	enum { FIRST = 0xeffffffc }; // that the kernel makes at boot: PROC_PID_INIT_INO
	const char *said = getenv("UNHANG_CONTAINER");
	struct stat st;
	if ((said && !strcmp(said, "no")) || stat_path("/proc/self/ns/pid", 0, &st) || st.st_ino == FIRST)
		return 0;
	return st.st_ino;
}

static void header_fill(struct rec_header *h)
{
	const struct rec_settings *s = &rec.settings;
	h->size = RECORDING_HEAD;
	h->pid = (uint32_t)getpid();
	h->pid_namespace = namespace_of();
	h->uid = getuid();
	h->rank = s->rank;
	h->level = h->wanted = (uint32_t)s->level;
	h->max_level = (uint32_t)s->max_level;
	h->supervisor = s->supervisor;
	clocks_note(&h->start);
	h->clocks[0] = h->start;
	h->ticks_per_second = rate_of(&h->start);
	rec.ticks_per_us = h->ticks_per_second / 1000000 + 1;
	read_small("/proc/sys/kernel/random/boot_id", h->boot_id, sizeof(h->boot_id));
	h->boot_id[strcspn(h->boot_id, "\n")] = 0;
	gethostname(h->host, sizeof(h->host) - 1);
	read_small("/proc/self/comm", h->program, sizeof(h->program));
	h->program[strcspn(h->program, "\n")] = 0;
	read_small("/proc/self/cmdline", h->command, sizeof(h->command));
	snprintf(h->dumps, sizeof(h->dumps), "%s", s->dumps);
	// Last: what has it is a recording.
	__atomic_store_n(&h->version, RECORDING_VERSION, __ATOMIC_RELEASE);
}

/** Slots of @stride bytes in a part of the budget, a power of two, @most at most. Half of the budget stays for the queues. */
static uint64_t slots_in(unsigned part, uint32_t stride, uint64_t most)
{
	while (most > 1 && most * stride > rec.budget / part)
		most /= 2;
	return most;
}

/** Pieces that every recording has, the ones that matter most first. */
static void pieces_add(void)
{
	uint64_t n = slots_in(32, sizeof(struct rec_thread), THREAD_SLOTS);
	rec.threads = extent_fit(EXTENT_THREADS, 0, 0, &n, 16, sizeof(struct rec_thread));
	rec.nthreads = rec.threads ? (uint32_t)n : 0;
	n = slots_in(4, RECORD_SIZE, LOG_BYTES / RECORD_SIZE);
	rec.log = extent_fit(EXTENT_LOG, 0, sizeof(struct rec_log), &n, 64, RECORD_SIZE);
	rec.log_size = rec.log ? n * RECORD_SIZE : 0;
	n = slots_in(16, RECORD_SIZE, EVENT_SLOTS);
	rec.events = extent_fit(EXTENT_EVENTS, 0, sizeof(struct rec_ring), &n, 64, RECORD_SIZE);
	rec.event_slots = rec.events ? (uint64_t *)(rec.events + 1) : NULL;
	rec.event_mask = n - 1;
	n = slots_in(32, sizeof(struct rec_done), DONE_SLOTS);
	rec.done = extent_fit(EXTENT_DONE, 0, 0, &n, 64, sizeof(struct rec_done));
	rec.done_mask = n / REC_DONE_WAYS - 1;
	n = slots_in(8, RECORD_SIZE, ALLOCATION_SLOTS);
	rec.memory = extent_fit(EXTENT_MEMORY, 0, sizeof(struct rec_memory), &n, 64, RECORD_SIZE);
	rec.allocations = rec.memory ? (struct rec_allocation *)(rec.memory + 1) : NULL;
	rec.allocation_mask = n - 1;
}

/** A child of fork() shares the mapping: it must not write into its parent's recording. It ends nothing and frees nothing. */
static void forked(void)
{
	atomic_store(&rec.level, 0);
	atomic_store(&rec.on, false);
	rec.header = NULL; // so that no line of the child's goes there
	rec.sampling = false;
}

/** So many bytes may be used in this directory, and so many by all recordings there. Of a small file system, as a container's shared memory
 * is, eight ranks take a quarter. Some file systems do not tell their size. */
static uint64_t budget_of(const char *directory, uint64_t *ret_all)
{
	enum { SHARE_OF_WHOLE = 32 };
	struct statvfs fs;
	struct rlimit limit;
	uint64_t budget = rec.settings.space;
	if (statvfs(directory, &fs))
		return 0;
	const uint64_t whole = (uint64_t)fs.f_blocks * fs.f_frsize, left = (uint64_t)fs.f_bavail * fs.f_frsize;
	const uint64_t bounds[] = { whole ? left / SHARE : UINT64_MAX, whole ? whole / SHARE_OF_WHOLE : UINT64_MAX,
				    getrlimit(RLIMIT_FSIZE, &limit) ? UINT64_MAX : limit.rlim_cur };
	for (size_t i = 0; i < ARRAY_SIZE(bounds); i++)
		budget = budget < bounds[i] ? budget : bounds[i];
	*ret_all = whole ? whole / 4 : UINT64_MAX;
	return budget;
}

/** What finds the file again. The directory that the program is in now may be another one then. */
static void identity_note(const char *path)
{
	char link[40];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", rec.fd);
	const ssize_t n = readlink(link, rec.file_path, sizeof(rec.file_path) - 1);
	if (n < 0)
		snprintf(rec.file_path, sizeof(rec.file_path), "%s", path);
	stat_fd(rec.fd, &rec.file);
}

/** The file with its head. */
static bool make_head(const char *directory)
{
	const char *path = rec.settings.path;
	rec.fd = place_open(&rec.settings, directory);
	if (rec.fd < 0)
		return false;
	struct rec_header *h = MAP_FAILED;
	if (quiet_allocate(rec.fd, 0, RECORDING_HEAD))
		h = mmap(NULL, RECORDING_HEAD, PROT_READ | PROT_WRITE, MAP_SHARED, rec.fd, 0);
	if (h == MAP_FAILED) {
		rec_line("no room for %s: %s; nothing is recorded", path, strerror(errno));
		remove_open(path, rec.fd);
		return false;
	}
	identity_note(path);
	rec.header = h;
	rec.used = RECORDING_HEAD;
	header_fill(h);
	return true;
}

static bool make_file(void)
{
	enum { SHORT = 16 << 20 }; // a job with one or two queues has all in it
	char directory[PATH_MOST];
	uint64_t all = 0;
	if (!place_directory(&rec.settings, directory))
		return false;
	rec.budget = budget_of(directory, &all);
	if (rec.budget <= RECORDING_HEAD) {
		rec_line("no room in %s: %llu bytes may be used there; nothing is recorded", directory,
			 (unsigned long long)rec.budget);
		return false;
	}
	const uint32_t removed = vacuum(directory, rec.settings.keep, all / rec.budget - 1);
	if (!make_head(directory))
		return false;
	rec.header->removed = removed;
	if (rec.budget < SHORT && rec.budget < rec.settings.space)
		rec_line("%s is small: the recording has %llu KB, and old launches and names may be missing; UNHANG_RECORDING "
			 "names another place",
			 directory, (unsigned long long)rec.budget >> 10);
	pieces_add();
	if (!rec.threads || !rec.events)
		return rec_aside("no room for a recording in %s; nothing is recorded", rec.settings.path), false;
	return true;
}

/** An empty file tells who looks after the job that this process could not be recorded: without one it would seem to use no GPU. */
static void leave_mark(void)
{
	_cleanup_close_ int fd = -1;
	if (rec.settings.supervisor)
		fd = open(rec.settings.path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/** Whether a program ends well only its status tells: also one that fails ends in order. */
static void exits(int status, void *ctx)
{
	(void)ctx;
	if (rec.header && rec.pid == getpid())
		rec.header->exited = 1 + (uint32_t)(status & 0xff);
}

bool rec_start(void)
{
	static _Atomic bool tried;
	if (atomic_load_explicit(&tried, memory_order_acquire))
		return atomic_load(&rec.on);
	pthread_mutex_lock(&rec.lock);
	const bool first = !atomic_load(&tried);
	if (first) {
		rec.pid = getpid();
		settings_read(&rec.settings);
		const bool made = !rec.settings.off && make_file();
		if (!made && !rec.settings.off)
			leave_mark();
		if (made) {
			__atomic_store_n(&rec.header->state, RECORDING_ON, __ATOMIC_RELEASE);
			atomic_store(&rec.on, true);
			atomic_store(&rec.level, rec.settings.level);
			pthread_atfork(NULL, NULL, forked);
			on_exit(exits, NULL);
			supervisor_allow();
		}
		atomic_store_explicit(&tried, true, memory_order_release);
	}
	pthread_mutex_unlock(&rec.lock);
	if (first && atomic_load(&rec.on))
		sampler_start();
	return atomic_load(&rec.on);
}

void rec_end(void)
{
	if (!atomic_load(&rec.on))
		return;
	sampler_stop();
	sample();
	__atomic_store_n(&rec.header->state, RECORDING_ENDED, __ATOMIC_RELEASE);
}

/** A process that told operations and never started the runtime: its recording ends with it. */
static __attribute__((destructor)) void ended(void)
{
	if (atomic_load(&rec.on) && rec.pid == getpid() && !rec.header->core_size)
		rec_end();
}
