// After a fault the process stands still for a moment, so that who looks after it can look while it still exists. All of it passes
// through the recording's head: no socket, no signal, and nobody who is gone can keep the job waiting.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/fault/fault.h"

enum { ANSWER_MS = 500, LOOK_MS = 2, ANCESTORS_MOST = 64, MILLION = 1000000 };

uint64_t boot_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/** The parent of a process; 0: it has none in this namespace. */
static long parent_of(long pid)
{
	char path[40], text[512];
	long parent = 0;
	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[n < 0 ? 0 : n] = 0;
	// PID (NAME) STATE PARENT; a name may have brackets of its own.
	const char *p = strrchr(text, ')');
	return p && sscanf(p, ") %*c %ld", &parent) == 1 ? parent : 0;
}

/** Whether this process descends from the supervisor that its environment names. In a container that number may be another process's. */
static bool supervisor_lives(void)
{
	const long wanted = (long)rec.settings.supervisor;
	long pid = wanted ? getppid() : 0;
	for (int i = 0; pid > 0 && pid != wanted && i < ANCESTORS_MOST; i++)
		pid = parent_of(pid);
	return wanted && pid == wanted;
}

void supervisor_allow(void)
{
	if (supervisor_lives())
		prctl(PR_SET_PTRACER, (unsigned long)rec.settings.supervisor, 0, 0, 0);
}

static void moment(void) { nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * MILLION }, NULL); }

/** Waits until the supervisor has written the number @n at @word; false: it did not until @deadline. */
static bool wait_for(const uint32_t *word, uint32_t n, uint64_t deadline)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != n) {
		if (boot_ns() >= deadline)
			return false;
		moment();
	}
	return true;
}

/** Who waits for changes of the file (inotify) hears of it at once: what is stored in mapped memory nobody hears of. */
static void hold_say(enum rec_hold state)
{
	__atomic_store_n(&rec.header->hold, state, __ATOMIC_RELEASE);
	if (!place_is(rec.fd, &rec.file) || futimens(rec.fd, NULL))
		return; // then the supervisor looks when it looks
}

// --- the core ---

/** A core that is being written, by a thread of its own: a driver that does not answer, or a file system, holds nobody. */
struct core_job {
	uint64_t deadline, bytes;
	_Atomic bool done;
};

static void *core_thread(void *ctx)
{
	struct core_job *j = ctx;
	j->bytes = core_write(rec.settings.core, j->deadline);
	atomic_store(&j->done, true);
	return NULL;
}

/** Bytes of the core; 0: there is none. A thread that does not come back keeps its job. */
static uint64_t core_make(uint64_t until)
{
	_cleanup_free_ struct core_job *j = rec.settings.core[0] ? calloc(1, sizeof(*j)) : NULL;
	pthread_t thread;
	sigset_t all, old;
	if (!j)
		return 0;
	j->deadline = until;
	// Signals of the program go to its own threads, and what a limit of file sizes sends (SIGXFSZ) ends with this one.
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	const int error = pthread_create(&thread, NULL, core_thread, j);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (error)
		return 0;
	pthread_detach(thread);
	while (!atomic_load(&j->done) && boot_ns() < until)
		moment();
	if (atomic_load(&j->done))
		return j->bytes;
	j = NULL;
	return 0;
}

// --- the hold ---

/** Whether the supervisor answers. */
static bool ask(const struct rec_header *h)
{
	const uint64_t until = h->hold_until;
	const uint64_t answer = supervisor_lives() ? until : boot_ns() + ANSWER_MS * (uint64_t)MILLION;
	if (!__atomic_load_n(&h->supervisor, __ATOMIC_ACQUIRE))
		return false;
	hold_say(REC_HOLD_ASKED);
	return wait_for(&h->answered, h->holds, answer < until ? answer : until);
}

static uint64_t write_core(struct rec_header *h)
{
	hold_say(REC_HOLD_WRITING);
	const uint64_t bytes = core_make(h->hold_until);
	if (bytes)
		snprintf(h->core, sizeof(h->core), "%s", rec.settings.core);
	return bytes;
}

/** A core that the settings ask for comes first: nobody's silence takes its time. */
static enum rec_hold hold_here(struct rec_header *h, uint64_t *ret_bytes)
{
	if (rec.settings.core_asked)
		*ret_bytes = write_core(h);
	if (!ask(h))
		return REC_HOLD_UNANSWERED;
	if (!rec.settings.core_asked)
		*ret_bytes = write_core(h);
	hold_say(REC_HOLD_HELD);
	return wait_for(&h->released, h->holds, h->hold_until) ? REC_HOLD_RELEASED : REC_HOLD_EXPIRED;
}

void hold(enum rec_call why)
{
	static atomic_flag busy = ATOMIC_FLAG_INIT;
	struct rec_header *h = rec.header;
	uint64_t bytes = 0;
	if (!h || !rec.settings.hold || !(rec.settings.core_asked || __atomic_load_n(&h->supervisor, __ATOMIC_ACQUIRE)))
		return;
	// One at a time: what faults behind another fault is seen by who looks at the first.
	if (atomic_flag_test_and_set(&busy))
		return;
	const uint64_t began = rec_ticks();
	h->hold_why = why;
	h->core[0] = 0;
	h->hold_until = boot_ns() + rec.settings.hold * 1000000000ull;
	__atomic_store_n(&h->holds, h->holds + 1, __ATOMIC_RELEASE);
	const enum rec_hold end = hold_here(h, &bytes);
	hold_say(end);
	event_at(thread_here(), CALL_HOLD, began, HSA_OK, (const uint64_t[4]){ h->holds, end, bytes });
	atomic_flag_clear(&busy);
}
