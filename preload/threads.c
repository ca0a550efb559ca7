// The call that each thread is inside of: a call that never returns is named in the file.
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/guard.h"
#include "recorder/recorder.h"

/** A thread's own. */
static __thread struct inside {
	struct alloc_thread *slot;
	uint64_t since; // when the call began
	uint32_t tid;
	bool inside, tried;
} here;
static pthread_key_t ended_key;
static pthread_once_t ended_once = PTHREAD_ONCE_INIT;

static void slot_end(void *slot)
{
	struct alloc_thread *t = slot;
	if (guard.file && guard.pid == getpid())
		__atomic_store_n(&t->ended, now_ns(), __ATOMIC_RELEASE);
	here.slot = NULL;
}

static void ended_make(void) { pthread_key_create(&ended_key, slot_end); }

static void thread_enter(void)
{
	here.tried = true;
	here.tid = (uint32_t)syscall(SYS_gettid);
	struct alloc_thread *t =
		slot_take(guard.threads, guard.nthreads, sizeof(*t), offsetof(struct alloc_thread, ended), here.tid);
	if (!t)
		return;
	__atomic_store_n(&t->call, ALLOC_CALL_NONE, __ATOMIC_RELAXED);
	t->calls = 0;
	prctl(PR_GET_NAME, t->name);
	pthread_once(&ended_once, ended_make);
	pthread_setspecific(ended_key, t);
	here.slot = t;
}

bool inside_begin(enum alloc_call call, uint64_t a, uint64_t b)
{
	if (here.inside)
		return false;
	here.inside = true;
	if (!here.tried)
		thread_enter();
	count(&guard.header->calls[call], 1);
	here.since = now_ns();
	struct alloc_thread *t = guard.nthreads ? here.slot : NULL;
	if (!t)
		return true;
	__atomic_store_n(&t->a[0], a, __ATOMIC_RELAXED);
	__atomic_store_n(&t->a[1], b, __ATOMIC_RELAXED);
	__atomic_store_n(&t->since, here.since, __ATOMIC_RELAXED);
	__atomic_store_n(&t->call, call, __ATOMIC_RELEASE);
	return true;
}

void inside_step(enum alloc_call call)
{
	if (here.slot && guard.nthreads)
		__atomic_store_n(&here.slot->call, call, __ATOMIC_RELEASE);
}

void inside_end(void)
{
	struct alloc_thread *t = guard.nthreads ? here.slot : NULL;
	here.inside = false;
	if (!t)
		return;
	__atomic_store_n(&t->calls, t->calls + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&t->call, ALLOC_CALL_NONE, __ATOMIC_RELEASE);
}

void request_fill(struct request *q, enum alloc_call call, uint64_t size, unsigned flags)
{
	*q = (struct request){ .call = call, .size = size, .flags = flags, .thread = here.tid, .time = here.since };
	if (here.slot && guard.nthreads)
		memcpy(q->name, here.slot->name, sizeof(q->name));
	operation_fill(q);
	if (hip.hipGetDevice(&q->device) || q->device < 0 || q->device >= DEVICES_MOST)
		q->device = 0;
}
