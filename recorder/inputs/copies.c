// The runtime makes copies one after the other on each of its engines and copy queues. A copy of the program may wait there for a kernel
// that is held; one of ours behind it would wait for the same kernel, and the kernel for us. So ours is made only where none waits, and
// none is added while that is looked at.
#include "recorder/inputs/held.h"

enum { SIGNALS = 64, WAIT_S = 2 };

/** The program's copies, which read here, come one beside the other. */
static pthread_rwlock_t order = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static _Atomic uint32_t turn;
static _Atomic hsa_handle waited_for[SIGNALS]; // by the program's last copies

bool copies_wait(uint32_t n, const hsa_handle *signals)
{
	const struct timespec until = in_seconds(WAIT_S);
	if (!atomic_load(&rec.on) || pthread_rwlock_timedrdlock(&order, &until))
		return false;
	for (uint32_t i = 0; i < n; i++)
		atomic_store(&waited_for[atomic_fetch_add(&turn, 1) % SIGNALS], signals[i]);
	return true;
}

void copies_go_on(void) { pthread_rwlock_unlock(&order); }

/** A signal that has gone, as those do that programs destroy, holds nothing up. */
static bool one_waits(void)
{
	bool any = false;
	for (size_t i = 0; i < SIGNALS; i++) {
		hsa_handle signal = atomic_load(&waited_for[i]);
		int64_t value = 0;
		if (signal && signal_value(signal, &value) && value > 0)
			any = true;
		else if (signal)
			atomic_compare_exchange_strong(&waited_for[i], &signal, 0);
	}
	return any;
}

bool copies_stop(void)
{
	static bool told;
	const struct timespec until = in_seconds(WAIT_S);
	if (pthread_rwlock_timedwrlock(&order, &until))
		return false;
	if (!one_waits())
		return true;
	copies_go_on();
	if (!told)
		rec_line("the program copies behind kernels; where such a copy waits, the kernel's buffers on the GPU are not "
			 "read");
	told = true;
	return false;
}
