// Calls into the runtime. While one is under way the thread's slot in the file says so: a call that never returns is named there. One that
// has returned is an event in a ring.
#include <sys/syscall.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "recorder/recorder.h"

static __thread struct thread_state here = { .number = RECORD_NO_THREAD };
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void thread_ended(void *slot)
{
	struct rec_thread *t = slot;
	if (atomic_load(&rec.on) && rec.pid == getpid())
		__atomic_store_n(&t->ended, rec_ticks(), __ATOMIC_RELEASE);
	here.slot = NULL;
	here.number = RECORD_NO_THREAD;
}

static void make_key(void) { pthread_key_create(&key, thread_ended); }

static __attribute__((noinline)) struct thread_state *thread_begin(void)
{
	here.tried = true;
	struct rec_thread *t = NULL;
	if (atomic_load(&rec.on))
		t = slot_take(rec.threads, rec.nthreads, sizeof(*t), offsetof(struct rec_thread, ended), (uint32_t)syscall(SYS_gettid));
	if (!t)
		return &here;
	t->call = 0;
	t->depth = 0;
	t->calls = 0;
	prctl(PR_GET_NAME, t->name);
	pthread_once(&key_once, make_key);
	pthread_setspecific(key, t);
	here.slot = t;
	here.number = (uint16_t)(t - rec.threads);
	return &here;
}

// A function of its own: what some versions of the C library do to find a thread's own variable spoils vector registers.
struct thread_state *thread_here(void)
{
	struct thread_state *t = &here;
	return __builtin_expect(t->tried, 1) ? t : thread_begin();
}

void event_at(const struct thread_state *t, enum rec_call call, uint64_t began, hsa_status status, const uint64_t a[4])
{
	uint64_t w[RECORD_WORDS];
	// As a rule the sampler has not looked since: then it is 0, without a division.
	const uint64_t now = atomic_load_explicit(&rec.coarse, memory_order_relaxed);
	const uint64_t took = now > began ? (now - began) / rec.ticks_per_us : 0;
	const uint64_t id = __atomic_fetch_add(&rec.events->next, 1, __ATOMIC_RELAXED);
	w[1] = began;
	w[2] = call | (uint64_t)t->number << 16 | (uint64_t)status << 32;
	for (unsigned i = 0; i < 4; i++)
		w[3 + i] = a[i];
	w[7] = t->operation | (took > UINT32_MAX ? UINT32_MAX : took) << 32;
	rec_write(&rec.event_slots[(id & rec.event_mask) * RECORD_WORDS], w, RECORD_WORDS, id);
	__builtin_prefetch(&rec.event_slots[((id + 1) & rec.event_mask) * RECORD_WORDS], 1);
}
