// A thread that looks every few milliseconds: how far each queue is, what time it is, which level is asked for; and that keeps the table of
// allocations, so that who allocates does not have to.
#include <errno.h>
#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

#include "recorder/inputs/held.h"

enum { PERIOD_MS = 4, IDLE_MS = 50, SIGNALS_AT_ONCE = 64 };

int read_safely(const void *at, void *ret, size_t size)
{
	struct iovec to = { ret, size }, from = { (void *)at, size };
	return process_vm_readv(rec.pid, &to, 1, &from, 1, 0) == (ssize_t)size ? 0 : errno;
}

bool signal_value(uint64_t signal, int64_t *ret)
{
	return !read_safely((const char *)(uintptr_t)signal + offsetof(struct amd_signal, value), ret, sizeof(*ret));
}

static bool signal_fired(uint64_t signal)
{
	int64_t value;
	return signal_value(signal, &value) && value <= 0;
}

/** The queue's indices; false: the runtime has taken its memory back without a word. Where a sandbox forbids to ask the kernel, the
 * memory is read as it is. */
static bool indices_read(const struct queue_state *q, uint64_t *ret_read, uint64_t *ret_write)
{
	struct amd_queue copy;
	const int error = read_safely(q->queue, &copy, sizeof(copy));
	if (error == EFAULT)
		return false;
	*ret_read = error ? __atomic_load_n(&q->queue->read_index, __ATOMIC_RELAXED) : copy.read_index;
	*ret_write = error ? __atomic_load_n(&q->queue->write_index, __ATOMIC_RELAXED) : copy.write_index;
	return true;
}

/** The newest packet below the read index whose completion signal has fired: it has ended, and so have those before it that it had to wait
 * for. A signal is used again only when it has fired, so that one that has not says nothing. */
static void sample_certain(struct queue_state *q, uint64_t read)
{
	uint64_t certain = q->head->certain;
	if (certain + q->mask + 1 < read)
		certain = read - q->mask - 1;
	for (uint64_t id = read, n = 0; id-- > certain && n < SIGNALS_AT_ONCE; n++) {
		struct rec_packet p;
		if (rec_read(&q->records[(id & q->mask) * RECORD_WORDS], (uint64_t *)&p, RECORD_WORDS, id) && p.completion &&
		    signal_fired(p.completion)) {
			__atomic_store_n(&q->head->certain, id + 1, __ATOMIC_RELAXED);
			return;
		}
	}
}

void sample_queue(struct queue_state *q)
{
	struct rec_queue *h = q->head;
	uint64_t read, write;
	const uint64_t now = rec_ticks();
	if (!indices_read(q, &read, &write)) {
		q->gone = true;
		return;
	}
	read = intercept_read(q, read);
	if (read != h->read || !h->moved)
		__atomic_store_n(&h->moved, now, __ATOMIC_RELAXED);
	__atomic_store_n(&h->read, read, __ATOMIC_RELAXED);
	__atomic_store_n(&h->write, write, __ATOMIC_RELAXED);
	__atomic_store_n(&h->sampled, now, __ATOMIC_RELEASE);
	sample_certain(q, read);
	// Packets that no doorbell told of for a whole period: somebody rings it directly.
	if (rec_level() && write == q->last_write && (int64_t)(write - __atomic_load_n(&h->seen, __ATOMIC_RELAXED)) > 0 &&
	    write)
		queue_record_unrung(q, write);
	q->last_write = write;
}

static void sample_clock(void)
{
	const uint32_t i = !rec.header->newest;
	clocks_note(&rec.header->clocks[i]);
	__atomic_store_n(&rec.header->newest, i, __ATOMIC_RELEASE);
}

/** `unhang level` writes what it wants into the file. The lock is held. */
static void take_level(void)
{
	const uint32_t wanted = __atomic_load_n(&rec.header->wanted, __ATOMIC_RELAXED);
	const int old = rec_level(), level = wanted > rec.header->max_level ? (int)rec.header->max_level : (int)wanted;
	if (level == old)
		return;
	if (level >= LEVEL_ARGUMENTS)
		for (uint32_t i = 0; i < rec.nqueues; i++)
			if (!rec.queues[i]->gone)
				arguments_room(rec.queues[i]);
	reading_again();
	atomic_store(&rec.level, level);
	__atomic_store_n(&rec.header->level, (uint32_t)level, __ATOMIC_RELEASE);
	event_at(&(struct thread_state){ .number = RECORD_NO_THREAD }, CALL_LEVEL, rec_ticks(), HSA_OK,
		 (const uint64_t[4]){ (uint64_t)level, (uint64_t)old });
}

/** The lock is held. */
static void sample_locked(void)
{
	if (atomic_load(&rec.on)) {
		atomic_store_explicit(&rec.coarse, rec_ticks(), memory_order_relaxed);
		sample_clock();
		file_fd(); // who closes it also takes its lock away
		for (uint32_t i = 0; i < rec.nqueues; i++)
			if (!rec.queues[i]->gone && rec.queues[i]->head)
				sample_queue(rec.queues[i]);
		memory_apply();
		reading_watch();
		take_level();
	}
}

void sample(void)
{
	pthread_mutex_lock(&rec.lock);
	sample_locked();
	pthread_mutex_unlock(&rec.lock);
}

/** The program exits, without having shut the runtime down: the last look. Another thread may hold the lock for ever by now. */
static __attribute__((destructor)) void exiting(void)
{
	if (!atomic_load(&rec.on) || rec.pid != getpid() || rec.header->state != RECORDING_ON ||
	    pthread_mutex_trylock(&rec.lock))
		return;
	sample_locked();
	__atomic_store_n(&rec.header->state, RECORDING_ENDED, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&rec.lock);
}

static void *sampler(void *ctx)
{
	(void)ctx;
	pthread_setname_np(pthread_self(), "unhang-recorder");
	while (!atomic_load(&rec.stop)) {
		const long ms = rec_level() ? PERIOD_MS : IDLE_MS;
		sample();
		nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
	}
	return NULL;
}

void sampler_start(void)
{
	sigset_t all, old;
	pthread_attr_t attributes;
	pthread_mutex_lock(&rec.lock);
	if (!rec.sampling && !pthread_attr_init(&attributes)) {
		// Signals of the program go to its own threads.
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		pthread_attr_setstacksize(&attributes, 256 << 10);
		atomic_store(&rec.stop, false);
		rec.sampling = !pthread_create(&rec.sampler, &attributes, sampler, NULL);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		pthread_attr_destroy(&attributes);
		if (!rec.sampling)
			rec_line("no thread for the sampler; how far the queues are is not recorded");
	}
	pthread_mutex_unlock(&rec.lock);
}

void sampler_stop(void)
{
	if (!rec.sampling)
		return;
	atomic_store(&rec.stop, true);
	pthread_join(rec.sampler, NULL);
	rec.sampling = false;
}
