// Memory that is being read must not be freed in that moment: the GPU would fault, and the runtime would end the job. A kernel may have a
// pointer that it does not use, so that the program may free what is there at any time. Nobody waits for long.
#include "recorder/inputs/held.h"

enum { READ_S = 2, FREE_S = 10 }; // who frees waits longer than a piece may take (copier.c)

/** Who reads comes before those who free, or it might wait for ever. */
static pthread_rwlock_t memory_stays = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

bool guard_wait(void)
{
	if (!atomic_load(&rec.on) || reading_stuck())
		return false;
	struct thread_state *t = thread_here();
	if (t->ends_memory)
		return false; // one such call inside of another
	const struct timespec until = in_seconds(FREE_S);
	t->ends_memory = !pthread_rwlock_timedrdlock(&memory_stays, &until);
	return t->ends_memory;
}

void guard_end(void)
{
	thread_here()->ends_memory = false;
	pthread_rwlock_unlock(&memory_stays);
}

bool guard_read(void)
{
	const struct timespec until = in_seconds(READ_S);
	return !pthread_rwlock_timedwrlock(&memory_stays, &until);
}

void guard_read_end(void) { pthread_rwlock_unlock(&memory_stays); }
