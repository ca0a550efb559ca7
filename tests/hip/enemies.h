// What no program should do, and some do: launches that the GPU cannot get to, buffers that are freed too early, ends in the middle. Without
// HIP, so that each queue, packet and buffer is as it says.
#pragma once

#include <atomic>
#include <cstring>
#include <pthread.h>
#include <sys/wait.h>

#include "producers.h"

/** A GPU with a queue, memory for arguments, and a buffer. */
struct enemy : hsa_side {
	hsa_queue_t *queue;
	fill_arguments *slots;
	char *buffer;
	enum { BUFFER = 64 << 10, SLOTS = 4096 };

	enemy(const char *code, uint32_t packets = 1024) : hsa_side(), slots(), buffer()
	{
		if (hsa_init() || hsa_iterate_agents(side_agent, this) ||
		    hsa_amd_agent_iterate_memory_pools(cpu, side_pool, (hsa_side *)this) ||
		    hsa_amd_agent_iterate_memory_pools(gpu, side_pool, (hsa_side *)this) || !side_load(this, code) ||
		    hsa_amd_memory_pool_allocate(arguments, SLOTS * sizeof(*slots), 0, (void **)&slots) ||
		    hsa_amd_agents_allow_access(1, &gpu, nullptr, slots))
			exit(1);
		buffer = device(BUFFER);
		queue = make_queue(packets);
	}

	hsa_queue_t *make_queue(uint32_t packets) const
	{
		hsa_queue_t *made;
		if (hsa_queue_create(gpu, packets, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX, &made))
			exit(1);
		return made;
	}

	char *device(size_t bytes) const
	{
		char *p;
		if (hsa_amd_memory_pool_allocate(vram, bytes, 0, (void **)&p))
			exit(1);
		return p;
	}

	static hsa_signal_t signal()
	{
		hsa_signal_t made;
		if (hsa_signal_create(1, 0, nullptr, &made))
			exit(1);
		return made;
	}

	static void wait(hsa_signal_t done)
	{
		hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
	}

	/** @packet: 64 bytes, whose first four come last. */
	static void put(hsa_queue_t *to, const void *packet, uint32_t first)
	{
		const uint64_t index = hsa_queue_add_write_index_relaxed(to, 1);
		while (index - hsa_queue_load_read_index_scacquire(to) >= to->size)
			sched_yield();
		char *at = (char *)to->base_address + index % to->size * 64;
		memcpy(at + 4, (const char *)packet + 4, 60);
		__atomic_store_n((uint32_t *)at, first, __ATOMIC_RELEASE);
		hsa_signal_store_screlease(to->doorbell_signal, (hsa_signal_value_t)index);
	}

	/** Nothing behind it runs until the signal is 0. */
	static void gate(hsa_queue_t *to, hsa_signal_t open)
	{
		hsa_barrier_and_packet_t packet = {};
		packet.dep_signal[0] = open;
		put(to, &packet, HSA_PACKET_TYPE_BARRIER_AND | 1 << HSA_PACKET_HEADER_BARRIER);
	}

	/** Fills @n floats at @to; the arguments are in slot @i. */
	void launch(hsa_queue_t *on, unsigned i, const void *to, int n, hsa_signal_t done = {}) const
	{
		fill_arguments *a = &slots[i % SLOTS];
		*a = { (uint64_t)to, (float)i, n };
		launch_with(on, a, done);
	}

	void launch_with(hsa_queue_t *on, void *arguments_at, hsa_signal_t done = {}) const
	{
		hsa_kernel_dispatch_packet_t packet = {};
		packet.workgroup_size_x = packet.grid_size_x = 64;
		packet.workgroup_size_y = packet.workgroup_size_z = packet.grid_size_y = packet.grid_size_z = 1;
		packet.kernel_object = kernel;
		packet.kernarg_address = arguments_at;
		packet.completion_signal = done;
		put(on, &packet, HSA_PACKET_TYPE_KERNEL_DISPATCH | 1 << HSA_PACKET_HEADER_BARRIER | 1 << 16);
	}

	void launch_and_wait(unsigned i, const void *to, int n) const
	{
		hsa_signal_t done = signal();
		launch(queue, i, to, n, done);
		wait(done);
		hsa_signal_destroy(done);
	}
};

/** The GPU waits for the program, which opens the gate when it has launched all. */
static void gated(const char *code, unsigned n)
{
	enemy e(code);
	hsa_signal_t open = e.signal(), done = e.signal();
	e.gate(e.queue, open);
	for (unsigned i = 0; i < n; i++)
		e.launch(e.queue, i, e.buffer, 16, i == n - 1 ? done : hsa_signal_t{});
	printf("gated %u before %lld\n", n, (long long)hsa_signal_load_relaxed(done));
	hsa_signal_store_screlease(open, 0);
	e.wait(done);
	hsa_shut_down();
}

/** A gate that never opens: the queue is destroyed with what is in it. */
static void destroyed(const char *code)
{
	enemy e(code);
	hsa_signal_t open = e.signal();
	e.gate(e.queue, open);
	for (unsigned i = 0; i < 9; i++)
		e.launch(e.queue, i, e.buffer, 16);
	hsa_queue_destroy(e.queue);
	e.queue = e.make_queue(256);
	e.launch_and_wait(10, e.buffer, 16);
	puts("destroyed");
}

/** Many more launches than fit into the queue, and the GPU is slow. */
static void far_ahead(const char *code, unsigned n)
{
	enemy e(code, 64);
	hsa_signal_t done = e.signal();
	for (unsigned i = 0; i < n; i++)
		e.launch(e.queue, i, e.buffer, 16, i == n - 1 ? done : hsa_signal_t{});
	e.wait(done);
	printf("ahead %u\n", n);
}

/** A buffer that the kernel has and does not use is freed while it waits. */
static void freed_early(const char *code, unsigned times)
{
	enemy e(code);
	for (unsigned i = 0; i < times; i++) {
		hsa_signal_t done = e.signal();
		char *unused = e.device(8 << 20); // smaller ones the runtime keeps for itself
		e.launch(e.queue, i, unused, 0, done);
		usleep(5000);
		hsa_amd_memory_pool_free(unused);
		e.wait(done);
		hsa_signal_destroy(done);
	}
	printf("freed %u\n", times);
}

static hsa_status_t other_gpu(hsa_agent_t agent, void *data)
{
	hsa_device_type_t type;
	hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
	if (type == HSA_DEVICE_TYPE_GPU && ((hsa_side *)data)->gpu.handle != agent.handle)
		((hsa_side *)data)->cpu = agent;
	return HSA_STATUS_SUCCESS;
}

/** A kernel of one GPU fills a buffer of the other's. */
static void others_buffer(const char *code)
{
	enemy e(code);
	hsa_side other = e;
	char *there;
	if (hsa_iterate_agents(other_gpu, &other) || hsa_amd_agent_iterate_memory_pools(other.cpu, side_pool, &other) ||
	    hsa_amd_memory_pool_allocate(other.vram, 4096, 0, (void **)&there) ||
	    hsa_amd_agents_allow_access(1, &e.gpu, nullptr, there))
		exit(1);
	for (unsigned i = 0; i < 3; i++)
		e.launch_and_wait(i, i % 2 ? e.buffer : there, 16);
	puts("other's");
}

/** Pointers to anywhere, and buffers of any size. */
static void odd_pointers(const char *code)
{
	enemy e(code);
	const uint64_t b = (uint64_t)e.buffer, a = (uint64_t)e.slots, end = enemy::BUFFER;
	unsigned n = 0;
	for (uint64_t p : { UINT64_C(0), UINT64_C(1), UINT64_C(0xffff), UINT64_C(0x10000), UINT64_C(0x7fffffffffff),
			    UINT64_C(1) << 47, ~UINT64_C(0), b - 1, b + 3, b + end - 1, b + end, a + 1, (uint64_t)&e,
			    (uint64_t)e.queue, (uint64_t)e.queue->base_address, e.kernel, (uint64_t)puts })
		e.launch_and_wait(n++, (void *)p, 0);
	for (size_t size : { size_t(1), size_t(3), size_t(4097), size_t(8 << 20), size_t(8 << 20) + 1, size_t(17 << 20) + 3 }) {
		char *p = e.device(size);
		e.launch_and_wait(n++, p, 0);
		e.launch_and_wait(n++, p + size - 1, 0);
		hsa_amd_memory_pool_free(p);
	}
	printf("odd %u\n", n);
}

/** A thread whose stack is the smallest. */
static void small_stack(const char *code)
{
	enemy e(code);
	pthread_attr_t attributes;
	pthread_t thread;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 16384);
	auto run = [](void *p) -> void * {
		((enemy *)p)->launch_and_wait(0, ((enemy *)p)->buffer, 16);
		return nullptr;
	};
	if (pthread_create(&thread, &attributes, run, &e))
		exit(1);
	pthread_join(thread, nullptr);
	puts("small stack");
}

/** The runtime is shut down and started again; every second time its queue is left to it, with what is in it. */
static void again(const char *code, unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		enemy e(code);
		e.launch_and_wait(i, e.buffer, 16);
		if (i % 2)
			e.launch(e.queue, i, e.buffer, 16);
		else
			hsa_queue_destroy(e.queue);
		hsa_shut_down();
	}
	printf("again %u\n", times);
}

/** Threads that launch without end, on queues of their own and a common one, and queues that come and go. Then the program ends as it is told. */
static void ends(const char *code, const char *how)
{
	static std::atomic<unsigned> launched{ 0 };
	static enemy e(code, 64);
	for (unsigned t = 0; t < 6; t++)
		std::thread([t] {
			for (unsigned i = 0;; i++) {
				hsa_queue_t *own = t % 3 ? e.queue : e.make_queue(64);
				for (unsigned k = 0; k < 4; k++)
					e.launch(own, t * 100 + k, e.buffer + t * 64, 16);
				if (own != e.queue)
					hsa_queue_destroy(own);
				launched++;
			}
		}).detach();
	while (launched < 20)
		sched_yield();
	puts("ends");
	fflush(stdout);
	if (!strcmp(how, "fork")) {
		int status;
		pid_t child = fork();
		if (!child)
			exit(9);
		waitpid(child, &status, 0);
		_exit(WEXITSTATUS(status) == 9 ? 7 : 1);
	} else if (!strcmp(how, "abort")) {
		abort();
	} else if (!strcmp(how, "wait")) {
		for (;;)
			pause();
	}
	exit(7);
}

/** Whether there is such a mode. Each takes the code object, and one word more. */
static bool enemies(const char *mode, const char *code, const char *more)
{
	const unsigned n = (unsigned)atoi(more);
	if (!strcmp(mode, "gated"))
		gated(code, n);
	else if (!strcmp(mode, "destroyed"))
		destroyed(code);
	else if (!strcmp(mode, "far-ahead"))
		far_ahead(code, n);
	else if (!strcmp(mode, "freed-early"))
		freed_early(code, n);
	else if (!strcmp(mode, "others-buffer"))
		others_buffer(code);
	else if (!strcmp(mode, "odd-pointers"))
		odd_pointers(code);
	else if (!strcmp(mode, "small-stack"))
		small_stack(code);
	else if (!strcmp(mode, "again"))
		again(code, n);
	else if (!strcmp(mode, "ends"))
		ends(code, more);
	else
		return false;
	return true;
}
