// Producers that never end, for kills: 16 threads launch `fill` with what their number and their count make of it, and write down how far
// they are, in a file that outlives them.
#pragma once

#include <fcntl.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <thread>
#include <vector>

#include "kernels.h"

enum {
	PRODUCERS = 16,
	PRODUCER_QUEUES = 4,
	QUEUE_PACKETS = 1024,
	ARGUMENT_SLOTS = 2 * QUEUE_PACKETS,
	GRIDS = 7,
	GRID_UNIT = 64
};

/** What a producer writes down; tests/recorder_rocm.py reads it. */
struct diary {
	uint64_t tid, buffer;
	volatile uint64_t begun, rung; // launches that it began, and whose doorbell was rung
	volatile uint64_t packet;      // number of the last one that was rung; UINT64_MAX: not known
	uint64_t reserved[3];
};

static diary *diaries_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, PRODUCERS * sizeof(diary)))
		exit(1);
	return (diary *)mmap(nullptr, PRODUCERS * sizeof(diary), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static unsigned grid_of(uint64_t n) { return (unsigned)(n % GRIDS + 1) * GRID_UNIT; }

static void ready(std::vector<std::thread> &all)
{
	puts("ready");
	fflush(stdout);
	for (std::thread &t : all)
		t.join();
}

/** Through HIP: a stream for each thread. */
static void producers(const char *path)
{
	diary *d = diaries_open(path);
	std::vector<std::thread> all;
	CHECK(hipFree(nullptr)); // "ready" is said when the runtime runs, and with it the recorder
	for (unsigned t = 0; t < PRODUCERS; t++)
		all.emplace_back([=] {
			hipStream_t stream;
			float *buffer;
			CHECK(hipStreamCreate(&stream));
			CHECK(hipMalloc(&buffer, 4096));
			d[t].tid = (uint64_t)syscall(SYS_gettid);
			d[t].buffer = (uint64_t)buffer;
			d[t].packet = UINT64_MAX;
			for (uint64_t n = 0;; n++) {
				d[t].begun = n + 1;
				fill<<<grid_of(n) / GRID_UNIT, GRID_UNIT, 0, stream>>>(buffer, (float)n, (int)t + 1);
				d[t].rung = n + 1;
			}
		});
	ready(all);
}

/** Four streams, and each launch is told on a pipe once it was made: stream, number, buffer. */
static void piped()
{
	enum { STREAMS = 4 };
	std::vector<std::thread> all;
	CHECK(hipFree(nullptr));
	for (unsigned t = 0; t < STREAMS; t++)
		all.emplace_back([=] {
			hipStream_t stream;
			float *buffer;
			char line[64];
			CHECK(hipStreamCreate(&stream));
			CHECK(hipMalloc(&buffer, 4096));
			for (uint64_t n = 0;; n++) {
				fill<<<grid_of(n) / GRID_UNIT, GRID_UNIT, 0, stream>>>(buffer, (float)n, (int)t + 1);
				int size = snprintf(line, sizeof(line), "%u %lu %lu\n", t, (unsigned long)n, (unsigned long)buffer);
				if (write(STDOUT_FILENO, line, size) != size)
					exit(1);
			}
		});
	for (std::thread &t : all)
		t.join();
}

struct hsa_side {
	hsa_agent_t gpu, cpu;
	hsa_amd_memory_pool_t arguments, vram;
	uint64_t kernel;
};

static hsa_status_t side_agent(hsa_agent_t agent, void *data)
{
	hsa_device_type_t type;
	hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
	(type == HSA_DEVICE_TYPE_GPU ? ((hsa_side *)data)->gpu : ((hsa_side *)data)->cpu) = agent;
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t side_pool(hsa_amd_memory_pool_t pool, void *data)
{
	hsa_amd_segment_t segment;
	uint32_t flags = 0;
	hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
	if (segment != HSA_AMD_SEGMENT_GLOBAL)
		return HSA_STATUS_SUCCESS;
	hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
	(flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT ? ((hsa_side *)data)->arguments : ((hsa_side *)data)->vram) =
		pool;
	return HSA_STATUS_SUCCESS;
}

/** The kernel of a code object. */
static bool side_load(hsa_side *s, const char *code)
{
	hsa_code_object_reader_t reader;
	hsa_executable_t executable;
	hsa_executable_symbol_t symbol;
	int fd = open(code, O_RDONLY);
	return fd >= 0 && !hsa_code_object_reader_create_from_file(fd, &reader) &&
	       !hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, nullptr, &executable) &&
	       !hsa_executable_load_agent_code_object(executable, s->gpu, reader, nullptr, nullptr) &&
	       !hsa_executable_freeze(executable, nullptr) &&
	       !hsa_executable_get_symbol_by_name(executable, "_Z4fillPffi.kd", &s->gpu, &symbol) &&
	       !hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &s->kernel);
}

struct fill_arguments {
	uint64_t to;
	float value;
	int32_t n;
};

static void side_launch(const hsa_side *s, hsa_queue_t *queue, diary *d, fill_arguments *slots, unsigned t)
{
	for (uint64_t n = 0;; n++) {
		fill_arguments *a = &slots[n % ARGUMENT_SLOTS];
		d->begun = n + 1;
		uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
		while (index - hsa_queue_load_read_index_scacquire(queue) >= queue->size)
			sched_yield();
		*a = { d->buffer, (float)n, (int32_t)t + 1 };
		auto *packet = (hsa_kernel_dispatch_packet_t *)queue->base_address + index % queue->size;
		packet->workgroup_size_x = GRID_UNIT;
		packet->workgroup_size_y = packet->workgroup_size_z = 1;
		packet->grid_size_x = grid_of(n);
		packet->grid_size_y = packet->grid_size_z = 1;
		packet->private_segment_size = packet->group_segment_size = 0;
		packet->kernel_object = s->kernel;
		packet->kernarg_address = a;
		packet->completion_signal = { 0 };
		__atomic_store_n((uint32_t *)packet, HSA_PACKET_TYPE_KERNEL_DISPATCH | 1 << 16, __ATOMIC_RELEASE);
		hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
		d->packet = index;
		d->rung = n + 1;
	}
}

/** Without HIP, whose start costs more than all else: several threads share each queue. */
static void hsa_producers(const char *path, const char *code)
{
	hsa_side s = {};
	hsa_queue_t *queues[PRODUCER_QUEUES];
	diary *d = diaries_open(path);
	std::vector<std::thread> all;
	char *arguments, *buffer;
	const size_t slots = ARGUMENT_SLOTS * sizeof(fill_arguments);
	if (hsa_init() || hsa_iterate_agents(side_agent, &s) || hsa_amd_agent_iterate_memory_pools(s.cpu, side_pool, &s) ||
	    hsa_amd_agent_iterate_memory_pools(s.gpu, side_pool, &s) || !side_load(&s, code) ||
	    hsa_amd_memory_pool_allocate(s.arguments, PRODUCERS * slots, 0, (void **)&arguments) ||
	    hsa_amd_agents_allow_access(1, &s.gpu, nullptr, arguments) ||
	    hsa_amd_memory_pool_allocate(s.vram, PRODUCERS * 4096, 0, (void **)&buffer))
		exit(1);
	for (hsa_queue_t *&q : queues)
		if (hsa_queue_create(s.gpu, QUEUE_PACKETS, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX, &q))
			exit(1);
	for (unsigned t = 0; t < PRODUCERS; t++)
		all.emplace_back([=, &s] {
			d[t].tid = (uint64_t)syscall(SYS_gettid);
			d[t].buffer = (uint64_t)buffer + t * 4096;
			side_launch(&s, queues[t % PRODUCER_QUEUES], &d[t], (fill_arguments *)(arguments + t * slots), t);
		});
	ready(all);
}
