// Steps of two kernels each, and each way in which a program sees that they have ended. What it has seen it writes down where that outlives
// it: `begun` launches of fill, and `rung` of them that it saw to have ended.
#pragma once

#include <atomic>
#include <csignal>
#include <string>

#include "enemies.h"

/** How a program waits for what it launched on @stream. */
struct waiter {
	std::string way;
	hipStream_t stream, other;
	hipEvent_t event;
	float *from, to[16];
	std::atomic<unsigned> called;

	waiter(const char *way_, hipStream_t stream_, float *from_) : way(way_), stream(stream_), from(from_), called(0)
	{
		CHECK(hipStreamCreate(&other));
		CHECK(hipEventCreateWithFlags(&event, hipEventDisableTiming));
	}

	static void on_call(hipStream_t, hipError_t, void *data) { ((waiter *)data)->called++; }

	void wait()
	{
		const unsigned before = called;
		if (way == "copy") {
			CHECK(hipMemcpyAsync(to, from, sizeof(to), hipMemcpyDeviceToHost, stream));
			CHECK(hipStreamSynchronize(stream));
		} else if (way == "event") {
			CHECK(hipEventRecord(event, stream));
			while (hipEventQuery(event) == hipErrorNotReady)
				sched_yield();
		} else if (way == "other") { // a second stream waits for the first, and the program for the second
			CHECK(hipEventRecord(event, stream));
			CHECK(hipStreamWaitEvent(other, event, 0));
			fill<<<1, 64, 0, other>>>(from + 512, 0.0f, 64);
			CHECK(hipStreamSynchronize(other));
		} else if (way == "callback") {
			CHECK(hipStreamAddCallback(stream, on_call, this, 0));
			while (called == before)
				sched_yield();
		} else {
			CHECK(way == "stream" ? hipStreamSynchronize(stream) : hipDeviceSynchronize());
		}
	}
};

static void stepped(diary *d, unsigned n, unsigned i)
{
	d->rung = i + 1;
	if (i == 2) {
		puts("ready");
		fflush(stdout);
	}
	if (i + 1 == n)
		raise(SIGSEGV);
}

/** @n steps, then a segmentation fault; 0: without end. */
static void steps(const char *way, unsigned n, const char *path)
{
	diary *d = diaries_open(path);
	hipStream_t stream;
	float *x, *y;
	CHECK(hipStreamCreate(&stream));
	CHECK(hipMalloc(&x, 4096));
	CHECK(hipMalloc(&y, 4096));
	waiter w(way, stream, y);
	for (unsigned i = 0;; i++) {
		saxpy<<<4, 256, 0, stream>>>(x, y, 1.0f, 1024);
		d->begun = i + 1;
		fill<<<4, 256, 0, stream>>>(x, (float)i, 1024);
		w.wait();
		stepped(d, n, i);
	}
}

static bool on_signal_fired(hsa_signal_value_t, void *data)
{
	(*(std::atomic<unsigned> *)data)++;
	return false;
}

/** The same without HIP: a handler of the runtime's is called for each, and the signal is used again. */
static void handled_steps(unsigned n, const char *path, const char *code)
{
	diary *d = diaries_open(path);
	enemy e(code);
	std::atomic<unsigned> called(0);
	hsa_signal_t done = e.signal();
	for (unsigned i = 0;; i++) {
		hsa_signal_store_relaxed(done, 1);
		if (hsa_amd_signal_async_handler(done, HSA_SIGNAL_CONDITION_LT, 1, on_signal_fired, &called))
			exit(1);
		d->begun = i + 1;
		e.launch(e.queue, i, e.buffer, 16, done);
		while (called == i)
			sched_yield();
		stepped(d, n, i);
	}
}
