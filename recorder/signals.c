// What the program sees of its signals. One that it finds at 0 or less has fired, and what was launched with it has ended: the signal and
// the time are kept, in a slot that they share with few others. So a reader knows what the program knew when it died.
//
// The time is taken before the signal is looked at. Taken afterwards it could lie behind the next launch with the same signal, of another
// thread, and would speak of that one.
#include <stdlib.h>

#include "recorder/recorder.h"

static void fired(hsa_handle signal, uint64_t time)
{
	if (!rec.done)
		return;
	struct rec_done *set = &rec.done[((signal * 0x9e3779b97f4a7c15u >> 32) & rec.done_mask) * REC_DONE_WAYS], *to = set;
	for (unsigned i = 0; i < REC_DONE_WAYS; i++) {
		const uint64_t at = __atomic_load_n(&set[i].time, __ATOMIC_RELAXED);
		if (rec_done_mix(__atomic_load_n(&set[i].signal, __ATOMIC_RELAXED), at) == signal) {
			if (at >= time)
				return;
			to = &set[i];
			break;
		}
		to = at < __atomic_load_n(&to->time, __ATOMIC_RELAXED) ? &set[i] : to;
	}
	__atomic_store_n(&to->signal, rec_done_mix(signal, time), __ATOMIC_RELAXED);
	__atomic_store_n(&to->time, time, __ATOMIC_RELAXED);
}

static inline int64_t load_in(int place, hsa_handle signal)
{
	signal_load_fn *load = (signal_load_fn *)next.core[place];
	if (!rec_level())
		return load(signal);
	const uint64_t time = rec_ticks();
	const int64_t value = load(signal);
	if (value <= 0)
		fired(signal, time);
	return value;
}

int64_t hook_load_relaxed(hsa_handle signal) { return load_in(CORE_SIGNAL_LOAD_RELAXED, signal); }
int64_t hook_load_scacquire(hsa_handle signal) { return load_in(CORE_SIGNAL_LOAD_SCACQUIRE, signal); }

/** Waits are no events: there may be millions, and what matters is the one that does not end. */
static int64_t wait_in(int place, hsa_handle signal, uint32_t condition, int64_t compare, uint64_t timeout, uint32_t how)
{
	signal_wait_fn *wait = (signal_wait_fn *)next.core[place];
	if (!rec_level())
		return wait(signal, condition, compare, timeout, how);
	struct thread_state *t = thread_here();
	call_begin(t, CALL_WAIT, signal, (uint64_t)compare, timeout);
	const uint64_t time = t->slot ? t->slot->since : rec_ticks();
	const int64_t value = wait(signal, condition, compare, timeout, how);
	call_end(t);
	if (value <= 0)
		fired(signal, time);
	return value;
}
int64_t hook_wait_relaxed(hsa_handle signal, uint32_t condition, int64_t compare, uint64_t timeout, uint32_t how)
{
	return wait_in(CORE_SIGNAL_WAIT_RELAXED, signal, condition, compare, timeout, how);
}
int64_t hook_wait_scacquire(hsa_handle signal, uint32_t condition, int64_t compare, uint64_t timeout, uint32_t how)
{
	return wait_in(CORE_SIGNAL_WAIT_SCACQUIRE, signal, condition, compare, timeout, how);
}

typedef uint32_t wait_any_fn(uint32_t n, const hsa_handle *signals, const uint32_t *conditions, const int64_t *values,
			     uint64_t timeout, uint32_t how, int64_t *ret_value);
uint32_t hook_wait_any(uint32_t n, const hsa_handle *signals, const uint32_t *conditions, const int64_t *values,
		       uint64_t timeout, uint32_t how, int64_t *ret_value)
{
	int64_t value = 1;
	const uint64_t time = rec_level() ? rec_ticks() : 0;
	const uint32_t i = ((wait_any_fn *)next.ext[EXT_WAIT_ANY])(n, signals, conditions, values, timeout, how,
								   ret_value ? ret_value : &value);
	if (time && i < n && (ret_value ? *ret_value : value) <= 0)
		fired(signals[i], time);
	return i;
}

/** The program's own handler is behind ours. */
struct handler_wrap {
	signal_handler_fn *handler;
	void *arg;
	hsa_handle signal;
};

/** Handlers are registered before the launch, so that the time of that says nothing. The runtime holds the signal until they return. */
static bool wrapped_handler(int64_t value, void *arg)
{
	_cleanup_free_ struct handler_wrap *w = arg;
	load_in(CORE_SIGNAL_LOAD_RELAXED, w->signal);
	const bool again = w->handler(value, w->arg);
	if (again)
		w = NULL;
	return again;
}

typedef hsa_status async_handler_fn(hsa_handle signal, uint32_t condition, int64_t value, signal_handler_fn *handler,
				    void *arg);
hsa_status hook_async_handler(hsa_handle signal, uint32_t condition, int64_t value, signal_handler_fn *handler, void *arg)
{
	async_handler_fn *next_one = (async_handler_fn *)next.ext[EXT_ASYNC_HANDLER];
	_cleanup_free_ struct handler_wrap *w = signal && handler && rec_level() ? malloc(sizeof(*w)) : NULL;
	if (!w)
		return next_one(signal, condition, value, handler, arg);
	*w = (struct handler_wrap){ handler, arg, signal };
	const hsa_status status = next_one(signal, condition, value, wrapped_handler, w);
	if (status == HSA_OK)
		w = NULL; // the handler has it
	return status;
}
