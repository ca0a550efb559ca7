// What HIP programs do, on the emulated KFD: each mode prints what came of it.
#include <cstring>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <thread>
#include <vector>

#include "crashes.h"
#include "enemies.h"
#include "jobs.h"
#include "kernels.h"
#include "launches.h"
#include "producers.h"
#include "steps.h"

static const int N = 1 << 16, GROUP = 256, GROUPS = N / GROUP;

static float *device_floats(size_t n, float value)
{
	std::vector<float> host(n, value);
	float *p;
	CHECK(hipMalloc(&p, n * sizeof(float)));
	CHECK(hipMemcpy(p, host.data(), n * sizeof(float), hipMemcpyHostToDevice));
	return p;
}

static void print_floats(const char *what, const float *device, size_t n)
{
	std::vector<float> host(n);
	CHECK(hipMemcpy(host.data(), device, n * sizeof(float), hipMemcpyDeviceToHost));
	bool same = true;
	for (float f : host)
		same &= f == host[0];
	printf("%s %g%s\n", what, host[0], same ? "" : " and others");
	fflush(stdout);
}

/** Each way to launch adds 2 to y. */
static void launches()
{
	float *x = device_floats(N, 1), *y = device_floats(N, 0), a = 2;
	int n = N;
	saxpy<<<GROUPS, GROUP>>>(x, y, a, n);
	print_floats("triple-chevron", y, N);
	void *arguments[] = { &x, &y, &a, &n };
	CHECK(hipLaunchKernel((const void *)saxpy, dim3(GROUPS), dim3(GROUP), arguments, 0, nullptr));
	print_floats("hipLaunchKernel", y, N);
	CHECK(hipLaunchCooperativeKernel((const void *)saxpy, dim3(GROUPS), dim3(GROUP), arguments, 0, nullptr));
	print_floats("cooperative", y, N);
	hipExtLaunchKernelGGL(saxpy, dim3(GROUPS), dim3(GROUP), 0, nullptr, nullptr, nullptr, 0, x, y, a, n);
	print_floats("extended", y, N);
	hipStream_t stream;
	hipGraph_t graph;
	hipGraphExec_t executable;
	CHECK(hipStreamCreate(&stream));
	CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
	for (int i = 0; i < 3; i++)
		saxpy<<<GROUPS, GROUP, 0, stream>>>(x, y, a, n);
	CHECK(hipStreamEndCapture(stream, &graph));
	CHECK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
	CHECK(hipGraphLaunch(executable, stream));
	CHECK(hipGraphLaunch(executable, stream));
	CHECK(hipStreamSynchronize(stream));
	print_floats("graph", y, N);
	CHECK(hipMemset(y, 0, N * sizeof(float)));
	print_floats("hipMemset", y, N);
	CHECK(hipMemsetD8((hipDeviceptr_t)((char *)y + 1), 0x41, 7));
	unsigned char bytes[9];
	CHECK(hipMemcpy(bytes, y, sizeof(bytes), hipMemcpyDeviceToHost));
	printf("unaligned %02x %02x %02x %02x\n", bytes[0], bytes[1], bytes[7], bytes[8]);
	CHECK(hipMemcpy(y, x, N * sizeof(float), hipMemcpyDeviceToDevice));
	print_floats("device-to-device", y, N);
	CHECK(hipMemcpy2D(y, 64, x, 128, 64, 16, hipMemcpyDeviceToDevice));
	print_floats("2D", y, N);
}

/** A module that was loaded from a code object. */
static void module(const char *path)
{
	hipModule_t loaded;
	hipFunction_t function;
	struct {
		float *x, *y;
		float a;
		int n;
	} arguments = { device_floats(N, 1), device_floats(N, 0), 3, N };
	size_t size = sizeof(arguments);
	CHECK(hipModuleLoad(&loaded, path));
	CHECK(hipModuleGetFunction(&function, loaded, "_Z5saxpyPKfPffi"));
	void *extra[] = { HIP_LAUNCH_PARAM_BUFFER_POINTER, &arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size, HIP_LAUNCH_PARAM_END };
	CHECK(hipModuleLaunchKernel(function, GROUPS, 1, 1, GROUP, 1, 1, 0, nullptr, nullptr, extra));
	print_floats("module", arguments.y, N);
	CHECK(hipExtModuleLaunchKernel(function, N, 1, 1, GROUP, 1, 1, 0, nullptr, nullptr, extra, nullptr, nullptr, 0));
	print_floats("extended-module", arguments.y, N);
	CHECK(hipModuleUnload(loaded));
}

static void kernels()
{
	float *x = device_floats(N, 0.5f), *y = device_floats(N, 0);
	fill<<<GROUPS, GROUP>>>(x, 1.5f, N);
	print_floats("fill", x, N);
	copy<<<GROUPS, GROUP>>>((char *)y, (const char *)x, N * sizeof(float));
	print_floats("copy", y, N);
	reduction<<<1, GROUP>>>(x, y, N);
	print_floats("reduction", y, 1);
	std::vector<int64_t> index(N);
	for (int i = 0; i < N; i++)
		index[i] = N - 1 - i;
	int64_t *indices;
	CHECK(hipMalloc(&indices, N * sizeof(int64_t)));
	CHECK(hipMemcpy(indices, index.data(), N * sizeof(int64_t), hipMemcpyHostToDevice));
	index_copy<<<GROUPS, GROUP>>>(y, x, indices, N, N);
	print_floats("index_copy", y, N);
	nothing<<<1, 1>>>((int *)y);
	print_floats("nothing", y, N);
}

/** An index that is one too large. */
static void index_beyond()
{
	wait_quietly();
	float *x = device_floats(4, 1), *y = device_floats(4, 0);
	int64_t host[] = { 0, 1, 4, 2 }, *index;
	CHECK(hipMalloc(&index, sizeof(host)));
	CHECK(hipMemcpy(index, host, sizeof(host), hipMemcpyHostToDevice));
	index_copy<<<1, 64>>>(y, x, index, 4, 4);
	CHECK(hipDeviceSynchronize());
	puts("no assertion");
}

/** Reads so many bytes past the end of a buffer of 4 MiB, or a buffer that was freed. */
static void read_beyond(size_t beyond)
{
	const size_t size = 4 << 20;
	char *from, *to;
	wait_quietly();
	CHECK(hipMalloc(&from, size));
	CHECK(hipMalloc(&to, 2 * size));
	printf("buffer %p end %p\n", from, from + size);
	fflush(stdout);
	copy<<<GROUPS, GROUP>>>(to, from, size + beyond);
	CHECK(hipDeviceSynchronize());
	puts("no fault");
}

static void read_freed()
{
	const size_t size = 4 << 20;
	char *from, *to;
	wait_quietly();
	CHECK(hipMalloc(&from, size));
	CHECK(hipMalloc(&to, size));
	CHECK(hipFree(from));
	printf("buffer %p\n", from);
	fflush(stdout);
	copy<<<GROUPS, GROUP>>>(to, from, size);
	CHECK(hipDeviceSynchronize());
	puts("no fault");
}

/** Copies a buffer of GPU 0 on GPU 1, which may read it only when it was allowed to. */
static void peers(bool allowed)
{
	int n, can = 0;
	CHECK(hipGetDeviceCount(&n));
	printf("GPUs %d\n", n);
	for (int i = 0; i < n; i++) {
		hipDeviceProp_t p;
		char pci[32];
		CHECK(hipGetDeviceProperties(&p, i));
		CHECK(hipDeviceGetPCIBusId(pci, sizeof(pci), i));
		printf("%d %s %s %s %zu MiB %d CUs\n", i, p.gcnArchName, pci, p.name, p.totalGlobalMem >> 20, p.multiProcessorCount);
	}
	fflush(stdout);
	float *there = device_floats(1 << 20, 5);
	CHECK(hipSetDevice(1));
	CHECK(hipDeviceCanAccessPeer(&can, 1, 0));
	if (can && allowed)
		CHECK(hipDeviceEnablePeerAccess(0, 0));
	float *here = device_floats(1 << 20, 0);
	copy<<<GROUPS, GROUP>>>((char *)here, (const char *)there, sizeof(float) << 20);
	CHECK(hipDeviceSynchronize());
	print_floats(can ? "peer" : "no peer", here, 1 << 20);
}

/** The host touches memory of the GPU. */
static void host_reads()
{
	float *p = device_floats(1024, 3);
	printf("host reads %g\n", *(volatile float *)p);
}

static void allocations(int n, size_t bytes)
{
	for (int i = 0; i < n; i++) {
		void *p;
		hipError_t error = hipMalloc(&p, bytes);
		printf("allocation %d %s\n", i + 1, hipGetErrorName(error));
		fflush(stdout);
		if (error != hipSuccess)
			return;
	}
}

/** A child process adds to a buffer of its parent's, which it gets by a handle. Neither may have used HIP before they part. */
static void shared(bool large)
{
	int there[2], back[2];
	char byte = 0;
	hipIpcMemHandle_t handle;
	size_t n = large ? 1 << 20 : 1000;
	if (pipe(there) || pipe(back))
		exit(1);
	if (!fork()) {
		float *y, *x;
		if (read(there[0], &handle, sizeof(handle)) != (ssize_t)sizeof(handle))
			exit(1);
		CHECK(hipIpcOpenMemHandle((void **)&y, handle, hipIpcMemLazyEnablePeerAccess));
		x = device_floats(n, 1);
		saxpy<<<(n + 255) / 256, 256>>>(x, y, 4.0f, (int)n);
		CHECK(hipDeviceSynchronize());
		CHECK(hipIpcCloseMemHandle(y));
		exit(write(back[1], &byte, 1) != 1);
	}
	float *y = device_floats(n, 1);
	CHECK(hipIpcGetMemHandle(&handle, y));
	if (write(there[1], &handle, sizeof(handle)) != (ssize_t)sizeof(handle) || read(back[0], &byte, 1) != 1)
		exit(1);
	print_floats("shared", y, n);
	wait(nullptr);
}

/** Memory that the host and the GPU use alike, and host memory that was registered. */
static void managed()
{
	float *x, *y;
	std::vector<float> own(N, 3);
	CHECK(hipMallocManaged(&x, N * sizeof(float)));
	for (int i = 0; i < N; i++)
		x[i] = 2;
	CHECK(hipHostRegister(own.data(), N * sizeof(float), hipHostRegisterMapped));
	CHECK(hipHostGetDevicePointer((void **)&y, own.data(), 0));
	saxpy<<<GROUPS, GROUP>>>(x, y, 5, N);
	CHECK(hipDeviceSynchronize());
	printf("managed %g %g\n", own[0], own[N - 1]);
	CHECK(hipHostUnregister(own.data()));
}

/** Memory of the host that nobody told the runtime of: a GPU may use it where its page faults are mended. */
static void pageable()
{
	std::vector<float> x(N, 2), y(N, 3);
	saxpy<<<GROUPS, GROUP>>>(x.data(), y.data(), 5, N);
	CHECK(hipDeviceSynchronize());
	printf("pageable %g %g\n", y[0], y[N - 1]);
}

/** Memory of a stream, and of a pool of its own. */
static void pools()
{
	hipStream_t stream;
	hipMemPool_t pool;
	hipMemPoolProps properties = {};
	float *x, *y;
	properties.allocType = hipMemAllocationTypePinned;
	properties.location.type = hipMemLocationTypeDevice;
	CHECK(hipStreamCreate(&stream));
	CHECK(hipMemPoolCreate(&pool, &properties));
	for (int i = 0; i < 3; i++) {
		CHECK(hipMallocAsync((void **)&x, N * sizeof(float), stream));
		CHECK(hipMallocFromPoolAsync((void **)&y, N * sizeof(float), pool, stream));
		fill<<<GROUPS, GROUP, 0, stream>>>(x, 2.0f, N);
		fill<<<GROUPS, GROUP, 0, stream>>>(y, 1.0f, N);
		saxpy<<<GROUPS, GROUP, 0, stream>>>(x, y, 3.0f, N);
		CHECK(hipStreamSynchronize(stream));
		print_floats("pools", y, N);
		CHECK(hipFreeAsync(x, stream));
		CHECK(hipFreeAsync(y, stream));
	}
	CHECK(hipStreamSynchronize(stream));
	CHECK(hipMemPoolDestroy(pool));
}

/** Two pieces of memory side by side at addresses that were reserved before. */
static void virtual_memory()
{
	hipMemAllocationProp properties = {};
	hipMemAccessDesc access = {};
	hipMemGenericAllocationHandle_t pieces[2];
	size_t size = 0;
	char *p;
	properties.type = hipMemAllocationTypePinned;
	properties.location.type = access.location.type = hipMemLocationTypeDevice;
	access.flags = hipMemAccessFlagsProtReadWrite;
	CHECK(hipMemGetAllocationGranularity(&size, &properties, hipMemAllocationGranularityRecommended));
	CHECK(hipMemAddressReserve((void **)&p, 2 * size, 0, nullptr, 0));
	for (int i = 0; i < 2; i++) {
		CHECK(hipMemCreate(&pieces[i], size, &properties, 0));
		CHECK(hipMemMap(p + i * size, size, 0, pieces[i], 0));
	}
	CHECK(hipMemSetAccess(p, 2 * size, &access, 1));
	int n = (int)(2 * size / sizeof(float));
	fill<<<GROUPS, GROUP>>>((float *)p, 7.0f, n / 2);
	fill<<<GROUPS, GROUP>>>((float *)(p + size), 7.0f, n / 2);
	print_floats("virtual", (float *)p, n);
	for (int i = 0; i < 2; i++) {
		CHECK(hipMemUnmap(p + i * size, size));
		CHECK(hipMemRelease(pieces[i]));
	}
	CHECK(hipMemAddressFree(p, 2 * size));
	printf("freed %p\n", p);
	fflush(stdout);
	fill<<<GROUPS, GROUP>>>((float *)p, 7.0f, 1);
	CHECK(hipDeviceSynchronize());
	puts("no fault");
}

// --- where the runtime says that rings and arguments are ---

struct agents {
	hsa_agent_t cpu, gpu;
	hsa_amd_memory_pool_t arguments;
};

static hsa_status_t take_pool(hsa_amd_memory_pool_t pool, void *data)
{
	uint32_t flags = 0;
	hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
	if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT)
		((agents *)data)->arguments = pool;
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t take_agent(hsa_agent_t agent, void *data)
{
	agents *a = (agents *)data;
	hsa_device_type_t type;
	hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
	(type == HSA_DEVICE_TYPE_GPU ? a->gpu : a->cpu) = agent;
	return type == HSA_DEVICE_TYPE_CPU ? hsa_amd_agent_iterate_memory_pools(agent, take_pool, data) : HSA_STATUS_SUCCESS;
}

static const char *place_of(const agents *a, const void *p)
{
	hsa_amd_pointer_info_t info = {};
	info.size = sizeof(info);
	if (hsa_amd_pointer_info(p, &info, nullptr, nullptr, nullptr))
		return "unknown";
	return info.agentOwner.handle == a->gpu.handle ? "VRAM" : "host";
}

static void places()
{
	agents a = {};
	hsa_queue_t *queue;
	void *arguments;
	if (hsa_init() || hsa_iterate_agents(take_agent, &a) ||
	    hsa_queue_create(a.gpu, 256, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX, &queue) ||
	    hsa_amd_memory_pool_allocate(a.arguments, 4096, 0, &arguments))
		exit(1);
	printf("ring %s arguments %s\n", place_of(&a, queue->base_address), place_of(&a, arguments));
	hsa_queue_destroy(queue);
	hsa_amd_memory_pool_free(arguments);
	hsa_shut_down();
}

static hsa_status_t take_vram(hsa_amd_memory_pool_t pool, void *data)
{
	hsa_amd_segment_t segment;
	hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
	if (segment == HSA_AMD_SEGMENT_GLOBAL)
		*(hsa_amd_memory_pool_t *)data = pool;
	return HSA_STATUS_SUCCESS;
}

/** Copies of the HSA runtime itself: aligned and not, and a fill. */
static void hsa_copies()
{
	agents a = {};
	hsa_amd_memory_pool_t vram;
	char *p, text[] = "0123456789abcdefghijklmnopqrstuvwxyz", back[sizeof(text)];
	if (hsa_init() || hsa_iterate_agents(take_agent, &a) || hsa_amd_agent_iterate_memory_pools(a.gpu, take_vram, &vram) ||
	    hsa_amd_memory_pool_allocate(vram, 1 << 20, 0, (void **)&p) || hsa_amd_memory_fill(p, 0x2a2a2a2a, 1 << 18) ||
	    hsa_memory_copy(p + 64, text, 16) || hsa_memory_copy(p + 81, text + 16, 7) || hsa_memory_copy(back, p + 62, 28))
		exit(1);
	printf("hsa %.28s\n", back);
	hsa_amd_memory_pool_free(p);
	hsa_shut_down();
}

/** A packet whose kernel is nowhere. The runtime's handler of the fault ends the program. */
static void lost_kernel()
{
	agents a = {};
	hsa_queue_t *queue;
	hsa_signal_t done;
	if (hsa_init() || hsa_iterate_agents(take_agent, &a) || hsa_signal_create(1, 0, nullptr, &done) ||
	    hsa_queue_create(a.gpu, 256, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX, &queue))
		exit(1);
	uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
	hsa_kernel_dispatch_packet_t *packet = (hsa_kernel_dispatch_packet_t *)queue->base_address + index % queue->size;
	memset((char *)packet + 4, 0, sizeof(*packet) - 4);
	packet->workgroup_size_x = packet->workgroup_size_y = packet->workgroup_size_z = 1;
	packet->grid_size_x = packet->grid_size_y = packet->grid_size_z = 1;
	packet->kernel_object = 0x7ead0040;
	packet->completion_signal = done;
	__atomic_store_n((uint32_t *)packet, HSA_PACKET_TYPE_KERNEL_DISPATCH | 1 << 16, __ATOMIC_RELEASE);
	hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
	hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
	puts("completed");
}

/** Streams of several threads, each with its own sums. */
static void many(int threads, int times)
{
	std::vector<std::thread> all;
	std::vector<int> wrong(threads);
	for (int t = 0; t < threads; t++)
		all.emplace_back([=, &wrong] {
			hipStream_t stream;
			std::vector<float> host(1024);
			CHECK(hipStreamCreate(&stream));
			float *x = device_floats(1024, 1), *y = device_floats(1024, 0);
			for (int i = 0; i < times; i++)
				saxpy<<<4, 256, 0, stream>>>(x, y, 1.0f, 1024);
			CHECK(hipMemcpyAsync(host.data(), y, 4096, hipMemcpyDeviceToHost, stream));
			CHECK(hipStreamSynchronize(stream));
			for (float f : host)
				wrong[t] += f != (float)times;
		});
	int sum = 0;
	for (int t = 0; t < threads; t++) {
		all[t].join();
		sum += wrong[t];
	}
	printf("threads %d launches %d wrong %d\n", threads, times, sum);
}

/** Launches, and then waits: some of them never end. */
static void series(int n)
{
	wait_quietly();
	float *x = device_floats(1024, 1), *y = device_floats(1024, 0);
	for (int i = 0; i < n; i++) {
		saxpy<<<4, 256>>>(x, y, 1.0f, 1024);
		fill<<<4, 256>>>(x, 1.0f, 1024);
	}
	puts("launched");
	fflush(stdout);
	CHECK(hipDeviceSynchronize());
	print_floats("series", y, 1024);
}

/** After each kernel the host asks for one number of what it made, as .item() of PyTorch does. */
static void items(int n)
{
	hipStream_t stream;
	float *x = device_floats(1024, 1), *y = device_floats(1024, 0), *item;
	int wrong = 0;
	CHECK(hipHostMalloc((void **)&item, sizeof(*item), 0));
	CHECK(hipStreamCreate(&stream));
	for (int i = 0; i < n; i++) {
		saxpy<<<4, 256, 0, stream>>>(x, y, 1.0f, 1024);
		CHECK(hipMemcpyAsync(item, y, sizeof(*item), hipMemcpyDeviceToHost, stream));
		CHECK(hipStreamSynchronize(stream));
		wrong += *item != (float)(i + 1);
	}
	printf("items %g wrong %d\n", *item, wrong);
}

static bool run(int argc, char **argv)
{
	const char *mode = argv[0];
	int number = argc > 1 ? atoi(argv[1]) : 0;
	if (!strcmp(mode, "launches"))
		launches();
	else if (!strcmp(mode, "other-launches") && argc > 1)
		other_launches({ device_floats(N, 1), device_floats(N, 0), 2, N }, argv[1], print_floats);
	else if (!strcmp(mode, "module") && argc > 1)
		module(argv[1]);
	else if (!strcmp(mode, "kernels"))
		kernels();
	else if (!strcmp(mode, "index-beyond"))
		index_beyond();
	else if (!strcmp(mode, "crash-number") && argc > 1)
		crash((unsigned)atoi(argv[1]));
	else if (!strcmp(mode, "read-beyond"))
		read_beyond((size_t)number);
	else if (!strcmp(mode, "read-freed"))
		read_freed();
	else if (!strcmp(mode, "peers"))
		peers(number);
	else if (!strcmp(mode, "host-reads"))
		host_reads();
	else if (!strcmp(mode, "allocations") && argc > 2)
		allocations(number, (size_t)atoll(argv[2]));
	else if (!strcmp(mode, "many") && argc > 2)
		many(number, atoi(argv[2]));
	else if (!strcmp(mode, "shared"))
		shared(number);
	else if (!strcmp(mode, "managed"))
		managed();
	else if (!strcmp(mode, "pageable"))
		pageable();
	else if (!strcmp(mode, "pools"))
		pools();
	else if (!strcmp(mode, "virtual"))
		virtual_memory();
	else if (!strcmp(mode, "hsa-copies"))
		hsa_copies();
	else if (!strcmp(mode, "lost-kernel"))
		lost_kernel();
	else if (!strcmp(mode, "places"))
		places();
	else if (!strcmp(mode, "series"))
		series(number);
	else if (!strcmp(mode, "items"))
		items(number);
	else if (!strcmp(mode, "eat"))
		eat(number, argc > 2 ? atoi(argv[2]) : 0);
	else if (!strcmp(mode, "daemons"))
		daemons();
	else if (!strcmp(mode, "deaf"))
		deaf();
	else if (!strcmp(mode, "wait"))
		usleep(number ? number * 1000 : 1000000);
	else if (!strcmp(mode, "stop"))
		raise(SIGSTOP);
	else if (!strcmp(mode, "abort"))
		abort();
	else if (!strcmp(mode, "crash"))
		raise(SIGSEGV);
	else if (!strcmp(mode, "talk"))
		talk(number);
	else if (!strcmp(mode, "terminal"))
		terminal([] { CHECK(hipDeviceSynchronize()); });
	else if (!strcmp(mode, "producers") && argc > 1)
		producers(argv[1]);
	else if (!strcmp(mode, "piped"))
		piped();
	else if (!strcmp(mode, "steps") && argc > 3)
		steps(argv[2], (unsigned)number, argv[3]);
	else if (!strcmp(mode, "handled-steps") && argc > 3)
		handled_steps((unsigned)number, argv[2], argv[3]);
	else if (!strcmp(mode, "hsa-producers") && argc > 2)
		hsa_producers(argv[1], argv[2]);
	else
		return argc > 1 && enemies(mode, argv[1], argc > 2 ? argv[2] : "");
	return true;
}

/** Modes with their arguments, parted by commas: most of the time goes into starting the runtime. */
int main(int argc, char **argv)
{
	for (int at = 1; at < argc;) {
		int end = at;
		while (end < argc && strcmp(argv[end], ","))
			end++;
		if (end == at || !run(end - at, argv + at))
			return 2;
		at = end + 1;
	}
	return 0;
}
