// The file of allocations. All of it is allocated when it is made: a store to a hole in a full tmpfs would kill the program.
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include "preload/guard.h"
#include "recorder/recorder.h"

const struct file_kind file_kind = { .magic = ALLOC_MAGIC,
				     .suffix = ALLOC_SUFFIX,
				     .variable = "UNHANG_ALLOCATIONS",
				     .removed = offsetof(struct alloc_header, removed) };

enum {
	ROWS = 65536,
	ROWS_LEAST = 1024,
	STACKS = 8192,
	MODULES = 512,
	FINDINGS = 1024,
	BURSTS = 64,
	SLABS = 4096,
	THREADS = 512,
	OPERATIONS = 1024
};

/** The sections in their order, and where each is told to begin. */
struct part {
	enum alloc_section_kind kind;
	uint32_t stride, slots;
	void **at;
	uint32_t *n;
};

#define PART(kind_, slots_, at_, n_)                                                                                           \
	{                                                                                                                      \
		ALLOC_SECTION_##kind_, sizeof(*guard.at_), slots_, (void **)&guard.at_, n_                                     \
	}

static uint64_t parts_lay(char *base, uint32_t rows)
{
	static uint32_t nsizes;
	const struct part parts[] = {
		PART(THREADS, THREADS, threads, &guard.nthreads),     PART(SIZES, ALLOC_CLASSES, sizes, &nsizes),
		PART(FINDINGS, FINDINGS, findings, &guard.nfindings), PART(BURSTS, BURSTS, bursts, &guard.nbursts),
		PART(MODULES, MODULES, modules, &guard.nmodules),     PART(SLABS, SLABS, slabs, &guard.nslabs),
		PART(STACKS, STACKS, stacks, &guard.nstacks),         PART(ROWS, rows, rows, &guard.nrows),
		PART(OPERATIONS, OPERATIONS, operations, &guard.noperations),
	};
	uint64_t at = ALLOC_HEAD;
	struct alloc_section *table = (void *)(base + RECORDING_PAGE);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		const struct part *p = &parts[i];
		const uint64_t size = round_up((uint64_t)p->slots * p->stride, RECORDING_PAGE);
		if (base) {
			*p->at = base + at;
			*p->n = p->slots;
			table[i] = (struct alloc_section){ .stride = p->stride, .offset = at, .slots = p->slots };
			__atomic_store_n(&table[i].kind, p->kind, __ATOMIC_RELEASE);
		}
		at += size;
	}
	return at;
}

void record_write(void *to, void *record, unsigned words, uint64_t id)
{
	uint64_t w[64];
	memcpy(w, record, words * 8);
	rec_write(to, w, words, id);
}

static void read_text(const char *path, char *ret, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);
	ret[n < 0 ? 0 : n] = 0;
}

static void settings_tell(struct alloc_header *h)
{
	const struct guard_settings *s = &guard.settings;
	h->mode = s->mode;
	h->align = s->align;
	h->below = s->below;
	h->sample = s->sample;
	h->reported = s->reported;
	memcpy(h->match, s->match, sizeof(h->match));
	h->quarantine_bytes = s->quarantine_bytes;
	h->quarantine_count = s->quarantine_count;
	h->mappings_most = s->mappings;
	h->memory_most = s->memory;
	h->pool_most = s->pool_most;
	h->slab_bytes = s->slab;
}

/** As the recorder has it: UNHANG_CONTAINER=no says that the numbers are the driver's, as in an emulated machine. */
static uint64_t pid_namespace(void)
{
	enum { FIRST = 0xeffffffc };
	const char *said = getenv("UNHANG_CONTAINER");
	struct stat st;
	if ((said && !strcmp(said, "no")) || stat_path("/proc/self/ns/pid", 0, &st) || st.st_ino == FIRST)
		return 0;
	return st.st_ino;
}

static void header_tell(struct alloc_header *h)
{
	struct timespec real;
	clock_gettime(CLOCK_REALTIME, &real);
	h->size = ALLOC_HEAD;
	h->pid = (uint32_t)getpid();
	h->uid = getuid();
	h->pid_namespace = pid_namespace();
	h->real_ns = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
	h->boot_ns = now_ns();
	read_text("/proc/sys/kernel/random/boot_id", h->boot_id, sizeof(h->boot_id));
	h->boot_id[strcspn(h->boot_id, "\n")] = 0;
	gethostname(h->host, sizeof(h->host) - 1);
	read_text("/proc/self/comm", h->program, sizeof(h->program));
	h->program[strcspn(h->program, "\n")] = 0;
	read_text("/proc/self/cmdline", h->command, sizeof(h->command));
	settings_tell(h);
	memcpy(h->magic, ALLOC_MAGIC, sizeof(h->magic));
	__atomic_store_n(&h->version, ALLOC_VERSION, __ATOMIC_RELEASE);
}

/** Of the file system no more than a sixteenth, so that eight ranks take half. */
static uint32_t rows_that_fit(const char *directory)
{
	enum { PART_OF = 16 };
	struct statvfs fs;
	uint32_t rows = ROWS;
	if (statvfs(directory, &fs) || !fs.f_blocks)
		return rows;
	while (rows > ROWS_LEAST && parts_lay(NULL, rows) > (uint64_t)fs.f_bavail * fs.f_frsize / PART_OF)
		rows /= 2;
	return rows;
}

static bool file_open(struct rec_settings *s, char **ret_base, uint32_t *ret_rows)
{
	char directory[PATH_MOST];
	if (s->off || !place_directory(s, directory))
		return false;
	vacuum(directory, s->keep, UINT64_MAX);
	// The descriptor stays open: its lock says that the process lives.
	const int fd = place_open(s, directory);
	if (fd < 0)
		return false;
	*ret_rows = rows_that_fit(directory);
	const uint64_t size = parts_lay(NULL, *ret_rows);
	*ret_base = MAP_FAILED;
	if (quiet_allocate(fd, 0, size))
		*ret_base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (*ret_base != MAP_FAILED)
		return true;
	rec_line("no room for %s: %s; nothing is written down", s->path, strerror(errno));
	remove_open(s->path, fd);
	close(fd);
	return false;
}

/** Where, by the same rules as the recorder's file. */
static void file_settings(struct rec_settings *s)
{
	char pattern[PATH_MOST];
	*s = (struct rec_settings){ .rank = setting_rank(), .core_asked = true };
	s->keep = (uint32_t)setting_number("UNHANG_KEEP", 8, 10000);
	setting_text("UNHANG_ALLOCATIONS", pattern, sizeof(pattern));
	s->off = !strcmp(pattern, "off") || !strcmp(pattern, "0") || !strcmp(pattern, "/dev/null");
	s->path_named = pattern[0];
	if (!setting_path(pattern[0] ? pattern : "%h.%p" ALLOC_SUFFIX, s->rank, s->path, sizeof(s->path)))
		s->path[0] = 0;
}

void file_make(void)
{
	struct rec_settings s;
	char *base = NULL;
	uint32_t rows = ROWS_LEAST;
	file_settings(&s);
	guard.file = file_open(&s, &base, &rows);
	if (!guard.file)
		base = mmap(NULL, parts_lay(NULL, rows), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		return;
	parts_lay(base, rows);
	// With what was told before there was a file.
	memcpy(base, guard.header, sizeof(*guard.header));
	header_tell((struct alloc_header *)base);
	guard.header = (struct alloc_header *)base;
}
