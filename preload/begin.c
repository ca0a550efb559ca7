// Where it begins and ends: with the first call of HIP, and with the program.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "preload/guard.h"
#include "recorder/recorder.h"

enum { LINES_MOST = 16, NOTES = 8 };
#define FRAGMENTS "HSA_DISABLE_FRAGMENT_ALLOCATOR"
#define GUARD_PAGES "HSA_SVM_GUARD_PAGES"

/** Until there is a file. */
static struct alloc_header first;
struct guard guard = { .lock = PTHREAD_MUTEX_INITIALIZER, .header = &first };

static void line_tell(const char *format, va_list ap)
{
	char line[256];
	struct alloc_header *h = guard.header;
	int n = snprintf(line, sizeof(line), "unhang: %s: ", guard.settings.mode == ALLOC_MODE_POOL ? "pool" : "guard");
	const int begin = n, more = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, ap);
	n = more < 0 ? n : n + more > (int)sizeof(line) - 2 ? (int)sizeof(line) - 2 : n + more;
	line_harmless(line, (size_t)n);
	const uint32_t number = __atomic_fetch_add(&h->notes, 1, __ATOMIC_RELAXED);
	if (number > LINES_MOST)
		return;
	if (number == LINES_MOST)
		n = begin + snprintf(line + begin, sizeof(line) - (size_t)begin - 1, "what more there is, is not printed; unhang explain tells it");
	snprintf(h->note[number % NOTES], sizeof(h->note[0]), "%.*s", (int)sizeof(h->note[0]) - 1, line + begin);
	line[n++] = '\n';
	const int error = errno;
	int old;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	if (quiet_write(STDERR_FILENO, line, (size_t)n) < 0)
		line[0] = 0; // nobody listens
	pthread_setcancelstate(old, NULL);
	errno = error;
}

void rec_line(const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	line_tell(format, ap);
	va_end(ap);
}

void aside(const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	line_tell(format, ap);
	va_end(ap);
	__atomic_store_n(&guard.mode, ALLOC_MODE_NONE, __ATOMIC_RELEASE);
	__atomic_store_n(&guard.header->state, ALLOC_ASIDE, __ATOMIC_RELEASE);
}

void environment_set(void)
{
	if (mode_wanted() != ALLOC_MODE_GUARD)
		return;
	setenv(FRAGMENTS, "1", 0);
	setenv(GUARD_PAGES, "512", 0);
	const char *said = getenv(FRAGMENTS), *pages = getenv(GUARD_PAGES);
	__atomic_store_n(&guard.header->environment, said && !strcmp(said, "1") && pages && atoi(pages) > 1, __ATOMIC_RELAXED);
}

static void fork_before(void) { pthread_mutex_lock(&guard.lock); }
static void fork_parent(void) { pthread_mutex_unlock(&guard.lock); }
/** A child shares the mapping: it must not write into its parent's file. HIP does not work in it, either. */
static void fork_child(void)
{
	static struct alloc_header child;
	pthread_mutex_init(&guard.lock, NULL);
	if (guard.file) {
		guard.file = false;
		child = *guard.header;
		guard.header = &child;
		guard.nrows = guard.nstacks = guard.nmodules = guard.nfindings = guard.nbursts = guard.nslabs = guard.nthreads =
			guard.noperations = 0;
		guard.sizes = NULL;
	}
	__atomic_store_n(&guard.mode, ALLOC_MODE_NONE, __ATOMIC_RELEASE);
}

/** Registered when HIP is there, so that it comes before HIP's own end. */
static void program_ends(void)
{
	if (guard.pid != getpid())
		return;
	if (__atomic_load_n(&guard.mode, __ATOMIC_ACQUIRE) == ALLOC_MODE_GUARD)
		guard_end();
	// A look that a hung GPU did not answer has the lock for ever.
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	if (!pthread_mutex_timedlock(&guard.lock, &until)) {
		statistics_tell();
		pthread_mutex_unlock(&guard.lock);
	}
	guard.header->ended_ns = now_ns();
	if (guard.header->state == ALLOC_ON)
		__atomic_store_n(&guard.header->state, ALLOC_ENDED, __ATOMIC_RELEASE);
}

static void hip_tell(void)
{
	int version = 0;
	if (hip.hipRuntimeGetVersion && !hip.hipRuntimeGetVersion(&version))
		guard.header->hip_version = (uint32_t)version;
	if (hip.hipDriverGetVersion && !hip.hipDriverGetVersion(&version))
		guard.header->hip_driver = (uint32_t)version;
}

static void begin(void)
{
	guard.pid = getpid();
	const char *missing = hip_find();
	if (!guard_wanted())
		return;
	guard_settings_read(&guard.settings);
	if (missing)
		return aside("this HIP has no %s; nothing is %s", missing,
			     guard.settings.mode == ALLOC_MODE_POOL ? "pooled" : "guarded");
	file_make();
	operations_find();
	hip_tell();
	pthread_atfork(fork_before, fork_parent, fork_child);
	atexit(program_ends);
	guard.header->state = ALLOC_ON;
	__atomic_store_n(&guard.mode, guard.settings.mode, __ATOMIC_RELEASE);
}

bool guard_on(void)
{
	static pthread_mutex_t beginning = PTHREAD_MUTEX_INITIALIZER;
	static bool begun;
	if (!__atomic_load_n(&begun, __ATOMIC_ACQUIRE)) {
		pthread_mutex_lock(&beginning);
		if (!begun && hip_there()) {
			begin();
			__atomic_store_n(&begun, true, __ATOMIC_RELEASE);
		}
		pthread_mutex_unlock(&beginning);
	}
	return __atomic_load_n(&guard.mode, __ATOMIC_ACQUIRE) != ALLOC_MODE_NONE;
}
