// The state that the functions of the library share, and how it begins.
#include "emulator/thunk/interface.h"
#include "emulator/thunk/thunk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "emulator/thunk/tell.h"

// An interface without a handle: whoever calls hsaKmt* means this process's KFD. There is one, as there is one /dev/kfd.
static struct thunk the_thunk = { .device = -1,
				  .vram = -1,
				  .memory = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP,
				  .lock = PTHREAD_MUTEX_INITIALIZER,
				  .happened = PTHREAD_COND_INITIALIZER };

struct thunk *thunk_get(void) { return &the_thunk; }

const struct plan_gpu *thunk_gpu(const struct thunk *t, uint32_t node)
{
	for (size_t i = 0; i < t->plan.ngpus; i++)
		if (t->plan.gpus[i].node == node)
			return &t->plan.gpus[i];
	return NULL;
}

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

// --- opening ---

static bool read_plan(struct thunk *t, struct str text, const char *where)
{
	char why[PLAN_WHY];
	if (plan_read(&t->plan, text, why))
		return true;
	fprintf(stderr, "unhang: %s: %s\n", where, why);
	return false;
}

/** The emulated /dev/kfd tells what it is when it is read; a real one does not. */
static bool read_device(struct thunk *t)
{
	t->device = open("/dev/kfd", O_RDWR | O_CLOEXEC);
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
	return good;
}

static bool begin(struct thunk *t)
{
	const char *variable = getenv("UNHANG_KFD");
	bool good = variable ? read_plan(t, str_z(variable), "UNHANG_KFD") : read_device(t);
	if (!good || !t->plan.ngpus)
		return false;
	t->vram = memfd_create("unhang-vram", MFD_CLOEXEC);
	t->doorbells =
		mmap(NULL, KMT_QUEUES_MOST * sizeof(*t->doorbells), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	t->mailboxes =
		mmap(NULL, KMT_EVENTS_MOST * sizeof(*t->mailboxes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return t->vram >= 0 && t->doorbells != MAP_FAILED && t->mailboxes != MAP_FAILED;
}

int hsaKmtOpenKFD(void)
{
	struct thunk *t = thunk_get();
	pthread_mutex_lock(&t->lock);
	bool good = t->plan.ngpus || begin(t);
	if (good)
		t->opened++;
	pthread_mutex_unlock(&t->lock);
	return good ? KMT_SUCCESS : KMT_NOT_OPENED;
}

int hsaKmtCloseKFD(void)
{
	struct thunk *t = thunk_get();
	pthread_mutex_lock(&t->lock);
	bool was = t->opened > 0;
	t->opened -= was;
	pthread_mutex_unlock(&t->lock);
	return was ? KMT_SUCCESS : KMT_NOT_OPENED;
}

void thunk_tell(struct thunk *t, const char *format, ...)
{
	struct kmt_told told = { 0 };
	va_list ap;
	if (t->device < 0)
		return;
	va_start(ap, format);
	vsnprintf(told.line, sizeof(told.line), format, ap);
	va_end(ap);
	ioctl(t->device, KMT_TELL, &told);
}
