// Kernels that are held back, and the thread that reads their buffers and lets them go. The program's own threads do not wait for the GPU
// here: they may be the ones that it waits for. One thread reads for all queues, whichever has a kernel ready.
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "recorder/inputs/inputs.h"

enum {
	LOOKS_OFTEN = 2000, // in a row, without anything to do; then more seldom
	LOOK_SELDOM_US = 1000,
	STUCK_MS = 5000, // without a piece read: the file system or the GPU does not answer
	WATCH_MS = 100,
	STOP_S = 2,
	MOST_PART = 16, // of a queue's packets may be kernels that are held: each needs three
	MOST = 256,     // and not more, or what the framework said of the first is overwritten
};

struct holding {
	struct holding *next;
	hsa_handle agent, reached;
	hsa_handle before; // the signal that was released last: the GPU looks at it until the next barrier is reached
	struct held *first, **last;
	uint64_t taken; // kernels that were reached and are gone
	_Atomic uint64_t held, let_go;
	uint64_t most;
	uint32_t queue;
	bool behind; // the program did not wait longer: what it launches is not held until half of the others are gone
	bool ending;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t more, done;
	pthread_t thread;
	_Atomic bool runs, lost, stop;
	struct holding *first;
	const struct holding *reading; // the queue whose kernel is being read; NULL: none
	_Atomic bool late;             // it was let go meanwhile
	_Atomic bool stuck;
	_Atomic uint64_t pieces;
	uint64_t watched_pieces, watched_at, watched_ms; // milliseconds that nothing was read in
} all = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER };

/** Who launches may hold locks of the runtime: a thread that is cancelled is so elsewhere. */
void look_pause(void)
{
	int old;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	nanosleep(&(struct timespec){ .tv_nsec = LOOK_US * 1000 }, NULL);
	pthread_setcancelstate(old, NULL);
}

uint64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

struct timespec in_seconds(int n)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += n;
	return t;
}

hsa_handle signal_new(int64_t value, hsa_handle consumer)
{
	hsa_status (*create)(int64_t, uint32_t, const hsa_handle *, hsa_handle *) =
		(hsa_status(*)(int64_t, uint32_t, const hsa_handle *, hsa_handle *))next.core[CORE_SIGNAL_CREATE];
	hsa_handle signal = 0;
	return create(value, 1, &consumer, &signal) == HSA_OK ? signal : 0;
}

void signal_end(hsa_handle signal)
{
	if (signal)
		((hsa_status(*)(hsa_handle))next.core[CORE_SIGNAL_DESTROY])(signal);
}

uint64_t signal_counted(hsa_handle signal)
{
	int64_t (*load)(hsa_handle) = (int64_t(*)(hsa_handle))next.core[CORE_SIGNAL_LOAD_SCACQUIRE];
	return (uint64_t)-load(signal);
}

static void signal_release(hsa_handle signal) { ((signal_store_fn *)next.core[CORE_SIGNAL_STORE_SCRELEASE])(signal, 0); }

bool reading_on(void)
{
	atomic_fetch_add_explicit(&all.pieces, 1, memory_order_relaxed);
	return !atomic_load(&all.late);
}

bool reading_stuck(void) { return atomic_load_explicit(&all.stuck, memory_order_relaxed); }

// --- the thread that reads ---

static bool ready(const struct holding *h) { return h->first && signal_counted(h->reached) > h->taken; }

/** A queue whose first kernel can be read, after @last in turn; NULL: none. The lock is held. */
static struct holding *find_ready(const struct holding *last)
{
	struct holding *found = NULL;
	bool behind = !last;
	for (struct holding *h = all.first; h; h = h->next) {
		if ((behind || !found) && ready(h)) {
			found = h;
			if (behind)
				return found;
		}
		behind |= h == last;
	}
	return found;
}

static bool any_held(void)
{
	for (const struct holding *h = all.first; h; h = h->next)
		if (h->first)
			return true;
	return false;
}

static void take(const struct holding *h, const struct held *k)
{
	struct inputs in = { .queue = h->queue,
			     .packet = k->packet,
			     .kernel = k->kernel,
			     .name = kernel_name(k->kernel),
			     .operation = k->operation };
	inputs_find(&in, k->arguments, k->size);
	if (in.n && rec_level() >= LEVEL_INPUTS)
		inputs_dump(&in);
	if (in.n)
		inputs_count(&in);
}

/** The first kernel goes. A signal that the GPU may still look at stays until a later one has been reached. The lock is held. */
static void let_first_go(struct holding *h)
{
	_cleanup_free_ struct held *k = h->first;
	signal_release(k->released);
	h->first = k->next;
	h->last = h->first ? h->last : &h->first;
	h->taken++;
	signal_end(h->before);
	h->before = k->released;
	atomic_fetch_add(&h->let_go, 1);
}

/** The lock is held, and is given away while the buffers are read. */
static void read_first(struct holding *h)
{
	const struct held *k = h->first;
	if (k->gone) {
		let_first_go(h);
		return;
	}
	all.reading = h;
	atomic_store(&all.late, false);
	pthread_mutex_unlock(&all.lock);
	if (rec_level() >= LEVEL_STATISTICS)
		take(h, k);
	pthread_mutex_lock(&all.lock);
	all.reading = NULL;
	pthread_cond_broadcast(&all.done);
	if (!h->ending)
		let_first_go(h);
}

static void *reader(void *ctx)
{
	const struct holding *last = NULL;
	unsigned looks = 0;
	(void)ctx;
	pthread_setname_np(pthread_self(), "unhang-inputs");
	pthread_mutex_lock(&all.lock);
	while (!atomic_load(&all.stop)) {
		struct holding *h = find_ready(last);
		if (h) {
			last = h;
			looks = 0;
			read_first(h);
			continue;
		}
		if (!any_held()) {
			pthread_cond_wait(&all.more, &all.lock);
			looks = 0;
			continue;
		}
		pthread_mutex_unlock(&all.lock);
		const long us = looks++ < LOOKS_OFTEN ? LOOK_US : LOOK_SELDOM_US;
		nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
		pthread_mutex_lock(&all.lock);
	}
	pthread_mutex_unlock(&all.lock);
	return NULL;
}

/** The lock is held. */
static bool reader_start(void)
{
	pthread_attr_t attributes;
	sigset_t every, old;
	if (all.runs || all.lost || pthread_attr_init(&attributes))
		return all.runs;
	// Signals of the program go to its own threads.
	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &old);
	pthread_attr_setstacksize(&attributes, 256 << 10);
	atomic_store(&all.stop, false);
	all.runs = !pthread_create(&all.thread, &attributes, reader, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attributes);
	if (!all.runs)
		rec_line("no thread to read buffers; levels 5 and 10 read none");
	return all.runs;
}

static void let_go(struct held *k)
{
	k->gone = true;
	signal_release(k->released);
}

/** Those that are read or wait for it. The lock is held. */
static void let_all_go(const struct holding *h)
{
	for (struct held *k = h->first; k; k = k->next)
		let_go(k);
	if (all.reading == h)
		atomic_store(&all.late, true);
}

/** A program that was stopped for a while, with this thread, is not stuck: the time between two looks counts as a short one. */
void reading_watch(void)
{
	if (!all.runs || pthread_mutex_trylock(&all.lock))
		return;
	const uint64_t pieces = atomic_load(&all.pieces), now = now_ms(), passed = now - all.watched_at;
	const bool stands = all.reading && pieces == all.watched_pieces;
	all.watched_ms = stands ? all.watched_ms + (passed < WATCH_MS ? passed : WATCH_MS) : 0;
	all.watched_pieces = pieces;
	all.watched_at = now;
	if (all.watched_ms > STUCK_MS && !atomic_exchange(&all.stuck, true)) {
		rec_line("a buffer could not be read for %d seconds; kernels are not held back any more", STUCK_MS / 1000);
		for (const struct holding *h = all.first; h; h = h->next)
			let_all_go(h);
	}
	pthread_mutex_unlock(&all.lock);
}

void reading_again(void)
{
	pthread_mutex_lock(&all.lock);
	if (!all.reading)
		atomic_store(&all.stuck, false);
	pthread_mutex_unlock(&all.lock);
}

/** A thread that does not end needs its code also when the runtime has given it back. */
static void code_stays(void)
{
	Dl_info self;
	if (dladdr((void *)code_stays, &self) && self.dli_fname)
		dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

/** A signal handler that ends the program may have interrupted who has the lock: it is not waited for without end. */
static void reader_stop(void)
{
	struct timespec until = in_seconds(STOP_S);
	if (!all.runs || pthread_mutex_timedlock(&all.lock, &until))
		return;
	atomic_store(&all.stop, true);
	for (const struct holding *h = all.first; h; h = h->next)
		let_all_go(h);
	pthread_cond_broadcast(&all.more);
	pthread_mutex_unlock(&all.lock);
	until = in_seconds(STOP_S);
	all.lost = pthread_timedjoin_np(all.thread, NULL, &until);
	all.runs = false;
	if (all.lost)
		code_stays();
}

void reading_end(void)
{
	reader_stop();
	if (!all.lost)
		staging_end();
	pthread_mutex_lock(&all.lock);
	all.first = NULL; // what is left belongs to queues that the runtime ends itself
	pthread_mutex_unlock(&all.lock);
}

/** The program exits without having shut the runtime down. */
static __attribute__((destructor)) void exiting(void)
{
	if (rec.pid == getpid())
		reader_stop();
}

// --- kernels of a queue ---

struct holding *holding_new(hsa_handle agent, uint64_t size, uint32_t queue)
{
	struct holding *h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	*h = (struct holding){ .agent = agent,
			       .queue = queue,
			       .most = size / MOST_PART < MOST ? size / MOST_PART + 1 : MOST,
			       .reached = signal_new(0, agent) };
	h->last = &h->first;
	// Now, and not where the program has freed memory: what it still does there would go unnoticed in ours.
	if (!all.lost)
		staging_begin(agent);
	pthread_mutex_lock(&all.lock);
	const bool good = h->reached && reader_start();
	if (good) {
		h->next = all.first;
		all.first = h;
	}
	pthread_mutex_unlock(&all.lock);
	if (good)
		return h;
	holding_free(h);
	return NULL;
}

hsa_handle holding_reached(const struct holding *h) { return h->reached; }

static uint64_t holding_now(struct holding *h) { return atomic_load(&h->held) - atomic_load(&h->let_go); }

bool holding_room(struct holding *h)
{
	static _Atomic bool told;
	uint64_t gone = atomic_load(&h->let_go), since = 0;
	if (h->behind)
		h->behind = holding_now(h) > h->most / 2;
	while (!h->behind && holding_now(h) >= h->most) {
		const uint64_t now = now_ms(), gone_now = atomic_load(&h->let_go);
		since = since && gone == gone_now ? since : now;
		gone = gone_now;
		h->behind = now - since > AHEAD_MS || reading_stuck() || atomic_load(&all.stop);
		look_pause();
	}
	if (h->behind && !atomic_load(&all.stop) && !reading_stuck() && !atomic_exchange(&told, true))
		rec_line("a program is far ahead of its GPU; the buffers of some kernels are not read");
	return !h->behind && !reading_stuck() && !atomic_load(&all.stop);
}

struct held *held_new(const struct holding *h, const uint64_t *packet, uint64_t index)
{
	struct held *k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	*k = (struct held){ .packet = index,
			    .kernel = packet[4],
			    .arguments = packet[5],
			    .size = kernel_arguments(packet[4]),
			    .operation = thread_here()->operation,
			    .released = signal_new(1, h->agent) };
	if (k->released)
		return k;
	held_free(k);
	return NULL;
}

void held_free(struct held *k)
{
	signal_end(k->released);
	free(k);
}

void holding_add(struct holding *h, struct held *first)
{
	if (!first)
		return;
	pthread_mutex_lock(&all.lock);
	const bool was_none = !h->first;
	*h->last = first;
	for (struct held *k = first; k; k = k->next) {
		h->last = &k->next;
		atomic_fetch_add(&h->held, 1);
		if (h->ending || reading_stuck() || atomic_load(&all.stop))
			let_go(k);
	}
	if (was_none)
		pthread_cond_signal(&all.more);
	pthread_mutex_unlock(&all.lock);
}

void holding_end(struct holding *h)
{
	const struct timespec until = in_seconds(STOP_S);
	int old;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	pthread_mutex_lock(&all.lock);
	for (struct holding **at = &all.first; *at; at = &(*at)->next)
		if (*at == h) {
			*at = h->next;
			break;
		}
	h->ending = true;
	let_all_go(h);
	while (all.reading == h && !pthread_cond_timedwait(&all.done, &all.lock, &until))
		;
	pthread_mutex_unlock(&all.lock);
	pthread_setcancelstate(old, NULL);
}

void holding_free(struct holding *h)
{
	pthread_mutex_lock(&all.lock);
	const bool read = all.reading == h; // for ever, it seems: it is left to the reader
	pthread_mutex_unlock(&all.lock);
	if (read)
		return;
	while (h->first) {
		struct held *k = h->first;
		h->first = k->next;
		held_free(k);
	}
	signal_end(h->before);
	signal_end(h->reached);
	free(h);
}
