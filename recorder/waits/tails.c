// Barriers between queues. A *tail* is a barrier behind a packet, with a signal of ours that fires when the packet and all before it have
// ended: who waits for the packet has a barrier before it that waits for the tail's signal. A delay is a barrier that counts when it is
// reached, and one behind it that waits until our thread fires its signal. The same thread gives up waits that take too long.
#include <signal.h>
#include <stdlib.h>

#include "recorder/waits/tails.h"

struct waits_state waits_all = { .lock = PTHREAD_MUTEX_INITIALIZER };

uint64_t now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

int64_t tail_value(hsa_handle signal) { return ((signal_load_fn *)next.core[CORE_SIGNAL_LOAD_SCACQUIRE])(signal); }
void tail_set(hsa_handle signal, int64_t to) { ((signal_store_fn *)next.core[CORE_SIGNAL_STORE_SCRELEASE])(signal, to); }

// --- tails and what is pending; the lock is held ---

struct tail *tail_new(hsa_handle agent)
{
	enum { LOOKS = 64 };
	for (size_t n = 0; n < LOOKS && n < waits_all.ntails; n++) {
		struct tail *t = waits_all.tails[waits_all.turn++ % waits_all.ntails];
		if (t->users || tail_value(t->signal) > 0)
			continue;
		tail_set(t->signal, 1);
		t->number = ++waits_all.number;
		return t;
	}
	const hsa_handle signal = waits_all.ntails < TAILS_MOST ? signal_new(1, agent) : 0;
	struct tail *t = signal ? calloc(1, sizeof(*t)) : NULL;
	if (!t) {
		signal_end(signal);
		return NULL;
	}
	*t = (struct tail){ .signal = signal, .number = ++waits_all.number };
	waits_all.tails[waits_all.ntails++] = t;
	return t;
}

bool pending_add(const struct pending *p)
{
	if (waits_all.npending == PENDING_MOST) {
		if (!waits_all.told)
			rec_line("more than %d waits at a time; some packets do not wait", (int)PENDING_MOST);
		waits_all.told = true;
		return false;
	}
	for (size_t i = 0; i < WAITED_MOST; i++)
		if (p->tails[i])
			p->tails[i]->users++;
	waits_all.pending[waits_all.npending++] = *p;
	return true;
}

void pending_end(struct pending *p)
{
	for (size_t i = 0; i < WAITED_MOST; i++)
		if (p->tails[i])
			p->tails[i]->users--;
	*p = waits_all.pending[--waits_all.npending];
}

static bool reached(const struct pending *p)
{
	return !p->queue || p->queue->gone || signal_counted(p->queue->counter) >= p->count;
}

void pending_fire(const struct pending *p)
{
	for (size_t i = 0; i < WAITED_MOST; i++)
		if (p->tails[i] && tail_value(p->tails[i]->signal))
			tail_set(p->tails[i]->signal, 0);
}

/** A wait that took too long: those that it waits for may wait for it. The GPU may still count such a signal down, and a barrier waits for
 * 0: so it is set again until the barrier is over. */
static void give_up(struct pending *p)
{
	if (!atomic_load(&waits_all.failed) && !rec.header->waits_lost++)
		rec_line("a wait was given up after %u ms: kernels wait for each other", waits_all.table.deadline);
	pending_fire(p);
}

static bool copy_ended(const struct pending *p)
{
	int64_t v;
	return !signal_value(p->signal, &v) || v <= 0;
}

/** What waits for tails that have not fired, while nothing else moves. */
static void waits_too_long(struct pending *p, uint64_t now)
{
	const uint64_t most = (uint64_t)waits_all.table.deadline * 1000;
	bool waits = false; // for others; else it stands behind its own queue
	for (size_t i = 0; i < WAITED_MOST; i++)
		waits |= p->tails[i] && tail_value(p->tails[i]->signal);
	if (waits && now - p->since > most && now - waits_all.moved > most)
		give_up(p);
}

/** Whether it is over. */
static bool look_after(struct pending *p, uint64_t now)
{
	const bool of_copy = p->kind == PENDING_COPY || p->kind == PENDING_COPIES;
	const bool over = p->kind == PENDING_LATE || (of_copy ? copy_ended(p) : reached(p));
	switch (p->kind) {
	case PENDING_WAIT:
	case PENDING_COPIES:
		if (!over)
			waits_too_long(p, now);
		return over;
	case PENDING_KEEP:
		return over;
	case PENDING_COPY:
		break;
	case PENDING_DELAY:
	case PENDING_LATE:
		if (over && !p->since)
			p->since = now;
		if (!p->since || now - p->since < p->us)
			return false;
	}
	if (over)
		pending_fire(p);
	return over;
}

static void *look_on(void *ctx)
{
	enum { OFTEN_NS = 50000, SELDOM_NS = 1000000 };
	(void)ctx;
	pthread_setname_np(pthread_self(), "unhang-waits");
	while (!atomic_load(&waits_all.stop)) {
		pthread_mutex_lock(&waits_all.lock);
		const uint64_t now = now_us();
		for (size_t i = waits_all.npending; i-- > 0;)
			if (look_after(&waits_all.pending[i], now)) {
				waits_all.moved = now;
				pending_end(&waits_all.pending[i]);
			}
		const bool idle = !waits_all.npending;
		pthread_mutex_unlock(&waits_all.lock);
		nanosleep(&(struct timespec){ .tv_nsec = idle ? SELDOM_NS : OFTEN_NS }, NULL);
	}
	return NULL;
}

void waits_thread_start(void)
{
	sigset_t every, old;
	if (atomic_load(&waits_all.runs))
		return;
	sigfillset(&every); // signals of the program go to its own threads
	pthread_sigmask(SIG_SETMASK, &every, &old);
	atomic_store(&waits_all.stop, false);
	atomic_store(&waits_all.runs, !pthread_create(&waits_all.thread, NULL, look_on, NULL));
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!atomic_load(&waits_all.runs))
		rec_line("no thread to look after waits; nothing waits");
}
