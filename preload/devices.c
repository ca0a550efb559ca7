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

static bool are_captures(void) { return __atomic_load_n(&captures, __ATOMIC_ACQUIRE) > 0; }

bool device_records(hip_stream stream)
{
	int status = 0;
	return are_captures() && hip.hipStreamIsCapturing && !hip.hipStreamIsCapturing(stream, &status) && status;
}

bool device_forbids(void) { return are_captures() && wait_by_freeing(); }

hip_error device_wait(int device)
{
	inside_step(ALLOC_CALL_SYNCHRONIZE);
	const int before = device_enter(device);
	const hip_error e = are_captures() ? wait_by_freeing() : hip.hipDeviceSynchronize();
	device_leave(before);
	inside_step(ALLOC_CALL_FREE);
	count(&guard.header->waits, 1);
	return e;
}

static uint64_t used; // GPUs of the program, as bits
_Static_assert(DEVICES_MOST <= 64, "each has its bit");

void device_used(int device)
{
	if (device >= 0 && device < DEVICES_MOST)
		__atomic_fetch_or(&used, UINT64_C(1) << device, __ATOMIC_RELAXED);
}

hip_error devices_wait(int device)
{
	const hip_error e = device_wait(device);
	uint64_t others = __atomic_load_n(&used, __ATOMIC_RELAXED) & ~(UINT64_C(1) << device);
	for (; !e && others; others &= others - 1)
		device_wait(__builtin_ctzll(others)); // one that is lost uses nothing any more
	return e;
}

/** The highest priority has hardware queues of its own: behind a kernel of the program's that waits for the host, a call that the host
 * makes would wait for ever. */
static hip_error stream_make(hip_stream *ret)
{
	int least = 0, greatest = 0;
	if (hip.hipStreamCreateWithPriority && hip.hipDeviceGetStreamPriorityRange &&
	    !hip.hipDeviceGetStreamPriorityRange(&least, &greatest) && greatest < least &&
	    !hip.hipStreamCreateWithPriority(ret, HIP_NON_BLOCKING, greatest))
		return HIP_SUCCESS;
	return hip.hipStreamCreateWithFlags(ret, HIP_NON_BLOCKING);
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
	if (!s && !stream_make(&s))
		__atomic_store_n(&streams[device], s, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&making);
	return s;
}

void device_forget(int device) { __atomic_store_n(&streams[device], NULL, __ATOMIC_RELEASE); }

static bool part_fill(const struct extent *p, hip_stream s)
{
	return !p->n || !hip.hipMemsetAsync((void *)p->at, CANARY, p->n, s);
}

static bool part_read(const struct extent *p, uint8_t *ret, hip_stream s)
{
	return !p->n || !hip.hipMemcpyAsync(ret, (const void *)p->at, p->n, HIP_DEVICE_TO_HOST, s);
}

/** It is waited for: what a kernel writes there as soon as the program has the address must not be filled over. */
bool device_fill(int device, const struct extent p[2], enum alloc_call call)
{
	if (!p[0].n && !p[1].n)
		return true;
	inside_step(ALLOC_CALL_FILL);
	const int before = device_enter(device);
	const hip_stream s = stream_of(device);
	const bool good = s && part_fill(&p[0], s) && part_fill(&p[1], s) && !hip.hipStreamSynchronize(s);
	device_leave(before);
	inside_step(call);
	return good;
}

bool device_read(int device, const struct extent p[2], uint8_t *ret)
{
	const int before = device_enter(device);
	const hip_stream s = stream_of(device);
	const bool good = s && part_read(&p[0], ret, s) && part_read(&p[1], ret + p[0].n, s) && !hip.hipStreamSynchronize(s);
	device_leave(before);
	return good;
}
