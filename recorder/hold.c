// After a fault the process stands still for a moment, so that who looks after it can look while it still exists. All of it passes
// through the recording's head: no socket, no signal, and nobody who is gone can keep the job waiting.
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/recorder.h"

enum { ANSWER_MS = 500, LOOK_MS = 2, ANCESTORS_MOST = 64, MILLION = 1000000 };

static uint64_t boot_ns(void)
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
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
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

/** Waits until the supervisor has written the number @n at @word; false: it did not until @deadline. */
static bool wait_for(const uint32_t *word, uint32_t n, uint64_t deadline)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != n) {
		if (boot_ns() >= deadline)
			return false;
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * MILLION }, NULL);
	}
	return true;
}

/** Who waits for changes of the file (inotify) hears of it at once: what is stored in mapped memory nobody hears of. */
static void hold_say(enum rec_hold state)
{
	__atomic_store_n(&rec.header->hold, state, __ATOMIC_RELEASE);
	if (futimens(rec.fd, NULL))
		return; // then the supervisor looks when it looks
}

static enum rec_hold hold_here(struct rec_header *h, uint32_t n)
{
	const uint64_t now = boot_ns(), until = h->hold_until;
	const uint64_t answer = supervisor_lives() ? until : now + ANSWER_MS * (uint64_t)MILLION;
	hold_say(REC_HOLD_ASKED);
	if (!wait_for(&h->answered, n, answer < until ? answer : until))
		return REC_HOLD_UNANSWERED;
	hold_say(REC_HOLD_HELD);
	return wait_for(&h->released, n, until) ? REC_HOLD_RELEASED : REC_HOLD_EXPIRED;
}

void hold(enum rec_call why)
{
	static atomic_flag busy = ATOMIC_FLAG_INIT;
	struct rec_header *h = rec.header;
	// One at a time: what faults behind another fault is seen by who looks at the first.
	if (!h || !rec.settings.hold || !__atomic_load_n(&h->supervisor, __ATOMIC_ACQUIRE) || atomic_flag_test_and_set(&busy))
		return;
	const uint32_t n = h->holds + 1;
	const uint64_t began = rec_ticks();
	h->hold_why = why;
	h->hold_until = boot_ns() + rec.settings.hold * 1000000000ull;
	__atomic_store_n(&h->holds, n, __ATOMIC_RELEASE);
	const enum rec_hold end = hold_here(h, n);
	hold_say(end);
	event_at(thread_here(), CALL_HOLD, began, HSA_OK, (const uint64_t[4]){ n, end });
	atomic_flag_clear(&busy);
}
