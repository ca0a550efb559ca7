#include "evidence/log/scan_file.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/door/door.h"

enum {
	PROGRESS_WINDOWS = 1024,
	THREADS_MAX = 4,
	SLOTS = DOOR_WINDOWS,
};

_Static_assert(WINDOW_BEFORE + WINDOW_BODY + WINDOW_AFTER <= DOOR_WINDOW, "a window has room for its context");

struct reader_slot {
	bool done;
	uint64_t offset; // of the window's first byte
	struct window window;
	struct uh_error *err;
};

struct file_scan {
	const struct scanner *scanner; // NULL: every line counts
	struct door_file *door;
	uint64_t windows;
	pthread_mutex_t lock;
	pthread_cond_t filled, emptied;
	uint64_t next, consumed; // windows taken by a thread; windows given back
	unsigned helpers;        // that have begun
	bool consumer_waits;
	struct reader_slot slots[SLOTS];
};

static void slot_fill(struct file_scan *f, unsigned thread, struct reader_slot *s, uint64_t index)
{
	uint64_t from = index * WINDOW_BODY;
	size_t before = from < WINDOW_BEFORE ? (size_t)from : WINDOW_BEFORE;
	struct window *w = &s->window;
	s->offset = from - before;
	const struct door_wanted wanted = { thread, (unsigned)(s - f->slots), s->offset, before + WINDOW_BODY + WINDOW_AFTER };
	ssize_t n = door_window(f->door, &wanted, &w->bytes, &s->err);
	size_t have = n < 0 ? 0 : (size_t)n;
	w->size = have;
	w->from = before < have ? before : have;
	w->to = before + WINDOW_BODY < have ? before + WINDOW_BODY : have;
	scan_window(f->scanner, w);
}

/** Takes the next window and fills its slot, with the lock held before and after. false: there is none to take. */
static bool scan_next(struct file_scan *f, unsigned thread)
{
	if (f->next >= f->windows || f->next >= f->consumed + SLOTS)
		return false;
	uint64_t index = f->next++;
	struct reader_slot *s = &f->slots[index % SLOTS];
	pthread_mutex_unlock(&f->lock);
	slot_fill(f, thread, s, index);
	pthread_mutex_lock(&f->lock);
	s->done = true;
	if (f->consumer_waits)
		pthread_cond_signal(&f->filled);
	return true;
}

static void *scan_thread(void *ctx)
{
	struct file_scan *f = ctx;
	pthread_mutex_lock(&f->lock);
	unsigned self = f->helpers++ + 1;
	while (f->next < f->windows)
		if (!scan_next(f, self))
			pthread_cond_wait(&f->emptied, &f->lock);
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

/** Hands the windows on in order; while the next one is not ready, it helps to scan. */
static struct uh_error *consume_slots(struct file_scan *f, const struct scan_progress *progress, const struct source *source,
				      struct log_reader *log)
{
	struct uh_error *err = NULL;
	pthread_mutex_lock(&f->lock);
	for (uint64_t i = f->consumed; i < f->windows; i++) {
		struct reader_slot *s = &f->slots[i % SLOTS];
		while (!s->done) {
			if (scan_next(f, 0))
				continue;
			f->consumer_waits = true;
			pthread_cond_wait(&f->filled, &f->lock);
			f->consumer_waits = false;
		}
		pthread_mutex_unlock(&f->lock);
		if (!err)
			err = s->err;
		else
			uh_error_free(s->err);
		s->err = NULL;
		log_reader_window(log, &s->window, s->offset);
		if (progress->tell && (i % PROGRESS_WINDOWS == 0 || i + 1 == f->windows))
			progress->tell(progress->ctx, source->name, i + 1, f->windows);
		pthread_mutex_lock(&f->lock);
		s->done = false;
		f->consumed++;
		// A thread that waits for room is woken when there is room for some windows, not for one.
		if (f->next - f->consumed <= SLOTS / 2)
			pthread_cond_broadcast(&f->emptied);
	}
	pthread_cond_broadcast(&f->emptied);
	pthread_mutex_unlock(&f->lock);
	return err;
}

static unsigned thread_count(uint64_t windows)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t n = cores < 1 ? 1 : cores > THREADS_MAX ? THREADS_MAX : (uint64_t)cores;
	return (unsigned)(n < windows ? n : windows);
}

struct uh_error *scan_file(const struct scanner *scanner, struct source *s, uint64_t from, struct log_reader *log,
			   const struct scan_progress *progress)
{
	struct file_scan f = { .scanner = scanner, .door = s->door, .windows = (s->size + WINDOW_BODY - 1) / WINDOW_BODY };
	f.next = f.consumed = from / WINDOW_BODY;
	pthread_t threads[THREADS_MAX];
	unsigned helpers = door_scan_begin(thread_count(f.windows)) - 1, started = 0;
	pthread_mutex_init(&f.lock, NULL);
	pthread_cond_init(&f.filled, NULL);
	pthread_cond_init(&f.emptied, NULL);
	while (started < helpers && !pthread_create(&threads[started], NULL, scan_thread, &f))
		started++;
	struct uh_error *err = consume_slots(&f, progress, s, log);
	if (err && err->errnum != ETIMEDOUT) {
		int why = err->errnum;
		uh_error_free(err);
		err = uh_error_os(why, "%s: not all of it could be read", s->name);
	}
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	door_scan_end();
	for (size_t i = 0; i < SLOTS; i++)
		vec_free(&f.slots[i].window.candidates);
	pthread_cond_destroy(&f.filled);
	pthread_cond_destroy(&f.emptied);
	pthread_mutex_destroy(&f.lock);
	return err;
}
