// The state of the emulated KFD, and how it begins.
#include "emulator/preload/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "emulator/number.h"
#include "emulator/preload/tell.h"

// System calls have no handle: whoever opens /dev/kfd means this process's. There is one.
static struct kmt the_kfd = { .device = -1,
			      .file = -1,
			      .memory = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP,
			      .lock = PTHREAD_MUTEX_INITIALIZER,
			      .happened = PTHREAD_COND_INITIALIZER,
			      .wanted = PTHREAD_COND_INITIALIZER };

const struct plan_gpu *kfd_gpu(const struct kmt *t, uint32_t id)
{
	for (size_t i = 0; i < t->plan.ngpus; i++)
		if (t->plan.gpus[i].id == id)
			return &t->plan.gpus[i];
	return NULL;
}

uint32_t target_of(const struct plan_gpu *g)
{
	const struct gfx_version v = emu_gfx_version(str_z(g->gfx));
	return v.major * 10000 + v.minor * 100 + v.stepping;
}

uint32_t lds_kb_of(const struct plan_gpu *g) { return target_of(g) == 90500 ? 160 : 64; }

void sleep_seconds(double seconds)
{
	struct timespec left = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

uint64_t clock_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// --- beginning ---

/** Rules of chance are drawn once for each process. */
static void draw_rules(struct kfd_plan *p)
{
	size_t kept = 0;
	for (size_t i = 0; i < p->nrules; i++) {
		uint32_t drawn = 0;
		const bool asked = p->rules[i].chance < 100;
		if (!asked || (getrandom(&drawn, sizeof(drawn), 0) == sizeof(drawn) && drawn % 100 < p->rules[i].chance))
			p->rules[kept++] = p->rules[i];
	}
	p->nrules = kept;
}

static bool read_plan(struct kmt *t, struct str text, const char *where)
{
	char why[PLAN_WHY];
	if (plan_read(&t->plan, text, why)) {
		draw_rules(&t->plan);
		return true;
	}
	fprintf(stderr, "unhang: %s: %s\n", where, why);
	return false;
}

/** The emulated /dev/kfd tells what it is when it is read; a real one does not. Our own open() would lead back here. */
static bool read_device(struct kmt *t)
{
	t->device = (int)syscall(SYS_openat, AT_FDCWD, "/dev/kfd", O_RDWR | O_CLOEXEC);
	if (t->device < 0)
		return false;
	struct text text = { 0 };
	ssize_t n = 1;
	while (n > 0 && text.n < PLAN_TEXT_MOST) {
		n = read(t->device, text_room(&text, KMT_PAGE), KMT_PAGE);
		if (n > 0)
			text.n += (size_t)n;
	}
	bool good = text.n && read_plan(t, text_str(&text), "/dev/kfd");
	text_free(&text);
	if (!good) {
		syscall(SYS_close, t->device);
		t->device = -1;
	}
	return good;
}

static bool make_file(struct kmt *t)
{
	t->file = memfd_create(KMT_FILE_NAME, MFD_CLOEXEC);
	t->file_end = KMT_DOORBELL_BYTES;
	return t->file >= 0 && !ftruncate(t->file, (off_t)KMT_FILE_BYTES);
}

/** A child has none of its parent's memory, queues and events, and no thread that serves them. What was allocated for them is lost. */
static void begin_again(void)
{
	static const struct kmt fresh = { .device = -1,
					  .file = -1,
					  .memory = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP,
					  .lock = PTHREAD_MUTEX_INITIALIZER,
					  .happened = PTHREAD_COND_INITIALIZER,
					  .wanted = PTHREAD_COND_INITIALIZER };
	for (size_t i = 0; i < the_kfd.out.len; i++)
		syscall(SYS_close, the_kfd.out.data[i].socket);
	for (size_t i = 0; i < the_kfd.watchers.len; i++)
		syscall(SYS_close, the_kfd.watchers.data[i].socket);
	if (the_kfd.file >= 0)
		syscall(SYS_close, the_kfd.file);
	if (the_kfd.device >= 0)
		syscall(SYS_close, the_kfd.device);
	the_kfd = fresh;
}

struct kmt *kfd_begin(void)
{
	static bool forks_known;
	struct kmt *t = &the_kfd;
	if (kfd_begun())
		return t;
	pthread_mutex_lock(&t->lock);
	if (!t->plan.ngpus && !t->refused) {
		const char *variable = getenv("UNHANG_KFD");
		t->alone = variable;
		bool good = variable ? read_plan(t, str_z(variable), "UNHANG_KFD") : read_device(t);
		t->refused = !good || !t->plan.ngpus || !make_file(t);
		if (!forks_known)
			pthread_atfork(NULL, NULL, begin_again);
		forks_known = true;
	}
	__atomic_store_n(&t->begun, !t->refused, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&t->lock);
	return kfd_begun();
}

struct kmt *kfd_begun(void) { return __atomic_load_n(&the_kfd.begun, __ATOMIC_ACQUIRE) ? &the_kfd : NULL; }

void kfd_tell(struct kmt *t, const char *format, ...)
{
	struct kmt_told told = { 0 };
	va_list ap;
	if (t->device < 0)
		return;
	va_start(ap, format);
	vsnprintf(told.line, sizeof(told.line), format, ap);
	va_end(ap);
	syscall(SYS_ioctl, t->device, KMT_TELL, &told);
}
