// What is done on GPUs for ourselves: waits, canaries.
#include "preload/guard.h"

/** One for each GPU that waits for nothing of the program's. */
static hip_stream streams[DEVICES_MOST];

int device_enter(int device)
{
	int now = -1;
	if (hip.hipGetDevice(&now) || now == device)
		return -1;
	return hip.hipSetDevice(device) ? -1 : now;
}

void device_leave(int before)
{
	if (before >= 0)
		hip.hipSetDevice(before);
}

static int captures; // that are under way in this process

void device_captures(int by)
{
	// One may end twice, or with its stream.
	if (__atomic_add_fetch(&captures, by, __ATOMIC_ACQ_REL) < 0)
		__atomic_store_n(&captures, 0, __ATOMIC_RELEASE);
}

/** hipFree() waits for the device in its own way, which does not end captures. */
static hip_error wait_by_freeing(void)
{
	void *p = NULL;
	const hip_error e = hip.hipMalloc(&p, PAGE);
	return e ? e : hip.hipFree(p);
}

hip_error device_wait(int device)
{
	inside_step(ALLOC_CALL_SYNCHRONIZE);
	const int before = device_enter(device);
	const bool capturing = __atomic_load_n(&captures, __ATOMIC_ACQUIRE) > 0;
	const hip_error e = capturing ? wait_by_freeing() : hip.hipDeviceSynchronize();
	device_leave(before);
	inside_step(ALLOC_CALL_FREE);
	count(&guard.header->waits, 1);
	return e;
}

/** The device is the current one. */
static hip_stream stream_of(int device)
{
	static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
	hip_stream s = __atomic_load_n(&streams[device], __ATOMIC_ACQUIRE);
	if (s)
		return s;
	pthread_mutex_lock(&making);
	s = streams[device];
	if (!s && !hip.hipStreamCreateWithFlags(&s, HIP_NON_BLOCKING))
		__atomic_store_n(&streams[device], s, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&making);
	return s;
}

void device_forget(int device) { __atomic_store_n(&streams[device], NULL, __ATOMIC_RELEASE); }

/** It is not waited for: what reads is behind it in the same stream, and HIP frees nothing before it is done. */
bool device_fill(int device, uint64_t at, uint64_t n)
{
	const int before = device_enter(device);
	const hip_stream s = stream_of(device);
	const bool good = s && !hip.hipMemsetAsync((void *)at, CANARY, n, s);
	device_leave(before);
	return good;
}

bool device_read(int device, uint64_t at, void *ret, uint64_t n)
{
	const int before = device_enter(device);
	const hip_stream s = stream_of(device);
	const bool good =
		s && !hip.hipMemcpyAsync(ret, (const void *)at, n, HIP_DEVICE_TO_HOST, s) && !hip.hipStreamSynchronize(s);
	device_leave(before);
	return good;
}
