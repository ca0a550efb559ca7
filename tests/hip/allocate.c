// What programs do with memory of HIP's, rightly and wrongly, in C: no compiler of HIP's is needed, so that it runs with any version. The
// kernels are those of programs.cpp, from a code object; the emulated KFD knows them by name. allocate CODE MODE [ARGUMENT...]
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef int error;
typedef void *stream;
struct ipc {
	char bytes[64];
};
struct attributes {
	int type, device;
	void *device_pointer, *host_pointer;
	int managed;
	unsigned flags, more[16];
};
error hipInit(unsigned), hipMalloc(void **, size_t), hipFree(void *), hipExtMallocWithFlags(void **, size_t, unsigned);
error hipMemcpy(void *, const void *, size_t, int), hipMemcpyAsync(void *, const void *, size_t, int, stream);
error hipMemset(void *, int, size_t), hipMemGetInfo(size_t *, size_t *), hipDeviceSynchronize(void), hipDeviceReset(void);
error hipStreamCreateWithFlags(stream *, unsigned), hipStreamSynchronize(stream), hipSetDevice(int), hipGetDevice(int *);
error hipModuleLoad(void **, const char *), hipModuleGetFunction(void **, void *, const char *);
error hipModuleLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, stream, void **,
			    void **);
error hipMemGetAddressRange(void **, size_t *, void *), hipPointerGetAttributes(struct attributes *, const void *);
error hipPointerGetAttribute(void *, int, void *), hipIpcGetMemHandle(struct ipc *, void *);
error hipIpcOpenMemHandle(void **, struct ipc, unsigned), hipIpcCloseMemHandle(void *),
	hipMallocManaged(void **, size_t, unsigned);
error hipMallocPitch(void **, size_t *, size_t, size_t), hipHostMalloc(void **, size_t, unsigned), hipHostFree(void *);
error hipMemcpyPeer(void *, int, const void *, int, size_t), hipStreamBeginCapture(stream, int),
	hipStreamEndCapture(stream, void **);
error hipSetDeviceFlags(unsigned), hipDeviceEnablePeerAccess(int, unsigned), hipMemsetAsync(void *, int, size_t, stream), hipGraphGetNodes(void *, void **, size_t *);
error hipGraphInstantiate(void **, void *, void **, char *, size_t), hipGraphLaunch(void *, stream);
const char *hipGetErrorName(error);
error hipGetLastError(void);
enum { TO_DEVICE = 1, TO_HOST = 2, BETWEEN = 3, THREADS_MOST = 64, LIVE_MOST = 256 };

#define CHECK(call)                                                                                                            \
	do {                                                                                                                   \
		const error e_ = (call);                                                                                       \
		if (e_) {                                                                                                      \
			printf("%s: %s\n", #call, hipGetErrorName(e_));                                                        \
			exit(3);                                                                                               \
		}                                                                                                              \
	} while (0)

/** Calls of KFD, and the VRAM that it gives: the runtime finds this one first. */
static unsigned long kfd_calls;
static struct {
	uint64_t handle, size;
} blocks[1 << 16];
static uint64_t vram;

static void block_note(uint64_t handle, uint64_t size)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
		if (blocks[i].handle == (size ? 0 : handle)) {
			vram += size - blocks[i].size;
			blocks[i].handle = size ? handle : 0;
			blocks[i].size = size;
			break;
		}
	pthread_mutex_unlock(&lock);
}

/** KFD_IOC_ALLOC_MEMORY_OF_GPU and KFD_IOC_FREE_MEMORY_OF_GPU. */
static void memory_note(unsigned number, const uint64_t *arguments)
{
	const bool is_vram = number == 0x16 && (uint32_t)(arguments[4] >> 32) & 1;
	if (is_vram)
		block_note(arguments[2], arguments[1]);
	else if (number == 0x17)
		block_note(arguments[0], 0);
}

int ioctl(int fd, unsigned long request, ...)
{
	static int (*next)(int, unsigned long, void *);
	va_list ap;
	va_start(ap, request);
	void *argument = va_arg(ap, void *);
	va_end(ap);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "ioctl");
	if (_IOC_TYPE(request) == 'K' && _IOC_SIZE(request))
		__atomic_add_fetch(&kfd_calls, 1, __ATOMIC_RELAXED);
	const int e = next(fd, request, argument);
	if (!e && _IOC_TYPE(request) == 'K')
		memory_note(_IOC_NR(request), argument);
	return e;
}

static const char *code;
static struct {
	void *module, *copy, *fill;
} kernels[2]; // of each GPU

static void load(int gpu)
{
	CHECK(hipSetDevice(gpu));
	CHECK(hipSetDeviceFlags(4)); // hipDeviceScheduleBlockingSync: threads that spin would have the processors of the emulated GPU
	CHECK(hipModuleLoad(&kernels[gpu].module, code));
	CHECK(hipModuleGetFunction(&kernels[gpu].copy, kernels[gpu].module, "_Z4copyPcPKcm"));
	CHECK(hipModuleGetFunction(&kernels[gpu].fill, kernels[gpu].module, "_Z4fillPffi"));
}

static void copy(void *to, const void *from, size_t n, stream s)
{
	void *arguments[] = { &to, &from, &n };
	CHECK(hipModuleLaunchKernel(kernels[0].copy, 1, 1, 1, 64, 1, 1, 0, s, arguments, NULL));
}

static void fill(void *to, float value, int n, stream s)
{
	void *arguments[] = { &to, &value, &n };
	CHECK(hipModuleLaunchKernel(kernels[0].fill, 1, 1, 1, 64, 1, 1, 0, s, arguments, NULL));
}

static __attribute__((noinline)) void *allocate(size_t size)
{
	void *p = NULL;
	CHECK(hipMalloc(&p, size));
	return p;
}

static __attribute__((noinline)) error release(void *p) { return hipFree(p); }

static void say(const char *what, const void *p, size_t size)
{
	printf("%s %p %zu\n", what, p, size);
	fflush(stdout);
}

/** A kernel reads or writes @n bytes at a place; the rest is right. */
static void touch(char *at, size_t n, bool write)
{
	char *other = allocate(8 << 20);
	if (write)
		copy(at, other, n, NULL);
	else
		copy(other, at, n, NULL);
	const error e = hipDeviceSynchronize();
	if (e)
		exit(4); // HIP 7 returns faults
}

/** past|before SIZE read|write */
static void outside(bool past, size_t size, const char *how)
{
	char *p = allocate(size), *next = allocate(size);
	say("allocation", p, size);
	say("next", next, size);
	if (past)
		touch(p, size + 1, *how == 'w');
	else
		touch(p - 1, 2, *how == 'w');
}

/** freed COUNT read|write: so many allocations later. */
static void freed(int n, const char *how)
{
	char *p = allocate(8192);
	say("allocation", p, 8192);
	CHECK(release(p));
	for (int i = 0; i < n; i++) {
		void *other = allocate((size_t)(i % 7 + 1) * (i % 8 ? 4096 : 1024)); // most fill their pages: the GPU has no canaries to write
		if (i % 3)
			CHECK(release(other));
	}
	touch(p, 1, *how == 'w');
}

/** What a framework does around its operations, by the recorder that the runtime has loaded. */
static void operated(void)
{
	void *recorder = dlopen("libunhang-recorder.so", RTLD_LAZY | RTLD_NOLOAD);
	uint32_t (*begin)(const char *, const void *, size_t) = NULL;
	void (*end)(uint32_t) = NULL;
	*(void **)&begin = recorder ? dlsym(recorder, "unhang_recorder_begin") : NULL;
	*(void **)&end = recorder ? dlsym(recorder, "unhang_recorder_end") : NULL;
	if (!begin || !end)
		exit(1);
	char *p = NULL;
	for (int i = 0; i < 3; i++) {
		const uint32_t made = begin("aten::embedding", NULL, 0);
		p = allocate(8192);
		end(made);
		const uint32_t gone = begin("aten::index_put_", NULL, 0);
		CHECK(release(p));
		end(gone);
	}
	say("allocation", p, 8192);
	touch(p, 1, false);
}

static void misuses(void)
{
	char *p = allocate(1000), *q = allocate(3000);
	say("allocation", p, 1000);
	say("other", q, 3000);
	printf("inside %d\n", release(p + 256));
	printf("first %d\n", release(p));
	printf("second %d\n", release(p));
	printf("wild %d\n", release((void *)0x123456789000));
	printf("null %d\n", release(NULL));
	printf("other %d\n", release(q));
}

/** freed-often COUNT: so many times once too often. */
static void freed_often(int n)
{
	char *p = allocate(1000);
	int refused = 0;
	CHECK(release(p));
	for (int i = 0; i < n; i++)
		refused += release(p) == 1;
	printf("refused %d\n", refused);
}

/** Bytes are written that are not the allocation's, but in its mapping. */
static void slack(void)
{
	char *p = allocate(1000), *q = allocate(500), *r = allocate(999);
	say("below", p, 1000);
	say("above", q, 500);
	say("left", r, 999);
	char *from = allocate(64);
	CHECK(hipMemset(from, 1, 64));
	copy(p - 4, from, 4, NULL);
	copy(q + 500, from, 8, NULL);
	copy(r + 1000, from, 1, NULL);
	CHECK(hipDeviceSynchronize());
	CHECK(release(p));
	CHECK(release(q));
}

// --- against a model ---

struct held {
	uint32_t *p;
	size_t words;
	uint32_t value;
};
struct worker {
	pthread_t thread;
	int number, operations;
	stream s;
	uint64_t random;
	struct held held[LIVE_MOST];
	int n;
	unsigned wrong;
};

static uint64_t rolled(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

static void one_make(struct worker *w)
{
	static const size_t most[] = { 64, 1024, 4096, 16384, 300000 };
	struct held *h = &w->held[w->n++];
	float f;
	h->words = 1 + rolled(w) % (most[rolled(w) % 5] / 4);
	h->value = 0x3f800000u | (uint32_t)(rolled(w) & 0x7fffff);
	h->p = allocate(h->words * 4);
	memcpy(&f, &h->value, 4);
	fill(h->p, f, (int)h->words, w->s);
}

/** Its first and last word, its bounds. */
static void one_look(struct worker *w, const struct held *h)
{
	uint32_t first = 0, last = 0;
	void *base = NULL;
	size_t size = 0;
	CHECK(hipStreamSynchronize(w->s));
	CHECK(hipMemcpyAsync(&first, h->p, 4, TO_HOST, w->s));
	CHECK(hipMemcpyAsync(&last, h->p + h->words - 1, 4, TO_HOST, w->s));
	CHECK(hipStreamSynchronize(w->s));
	CHECK(hipMemGetAddressRange(&base, &size, h->p + h->words / 2));
	w->wrong += first != h->value || last != h->value || base != h->p || size != h->words * 4 || (uintptr_t)h->p % 256;
}

static void one_end(struct worker *w)
{
	const int i = (int)(rolled(w) % (uint64_t)w->n);
	if (rolled(w) % 4 == 0)
		one_look(w, &w->held[i]);
	CHECK(release(w->held[i].p));
	w->held[i] = w->held[--w->n];
}

static void *work(void *ctx)
{
	struct worker *w = ctx;
	for (int i = 0; i < w->operations; i++)
		if (w->n < LIVE_MOST && (!w->n || rolled(w) % 2))
			one_make(w);
		else
			one_end(w);
	while (w->n)
		one_end(w);
	return NULL;
}

/** random OPERATIONS THREADS STREAMS */
static void against_model(int operations, int threads, int nstreams)
{
	static struct worker workers[THREADS_MOST];
	stream streams[THREADS_MOST];
	unsigned wrong = 0;
	for (int i = 0; i < nstreams; i++)
		CHECK(hipStreamCreateWithFlags(&streams[i], 1));
	for (int i = 0; i < threads; i++) {
		workers[i] = (struct worker){ .number = i, .operations = operations / threads, .s = streams[i % nstreams] };
		workers[i].random = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1);
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		wrong += workers[i].wrong;
	}
	printf("random wrong %u\n", wrong);
}

// --- the pool ---

/** What this thread worked for: on a busy machine the clock's time would tell of others. */
static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/** seed COUNT: 48 buffers of 7 MB, then so many of 3,584 bytes, as the program of seed 004 does. */
static void seed(int n)
{
	void **small = calloc((size_t)n, sizeof(*small));
	for (int i = 0; i < 8; i++)
		CHECK(release(allocate(3584))); // what is made once is made
	const uint64_t before = vram;
	for (int i = 0; i < 48; i++)
		allocate(7 << 20);
	const unsigned long calls = kfd_calls;
	const double begin = seconds();
	for (int i = 0; i < n; i++)
		small[i] = allocate(3584);
	const double took = seconds() - begin;
	const uint64_t taken = vram - before;
	for (int i = 0; i < n; i++)
		CHECK(release(small[i]));
	printf("seed calls %lu microseconds %.3f memory %llu\n", kfd_calls - calls, took / n * 1e6, (unsigned long long)taken);
}

/** A kernel that is late writes into memory that was freed meanwhile. */
static void late(void)
{
	stream s;
	float value = 0, *p = allocate(4096), *others[64];
	CHECK(hipStreamCreateWithFlags(&s, 1));
	fill(p, 666.0f, 1024, s); // the plan has it wait before it writes
	CHECK(release(p));
	for (int i = 0; i < 64; i++) {
		others[i] = allocate(4096);
		CHECK(hipMemset(others[i], 0, 4096));
	}
	CHECK(hipDeviceSynchronize());
	int damaged = 0;
	for (int i = 0; i < 64; i++) {
		CHECK(hipMemcpy(&value, others[i], 4, TO_HOST));
		damaged += value != 0;
	}
	printf("late damaged %d\n", damaged);
}

/** late-peer: the kernel is another GPU's, with access to the first one's memory. */
static void late_peer(void)
{
	stream s;
	float value = 666, *p = allocate(4096), *others[64];
	int n = 1024, damaged = 0;
	void *arguments[] = { &p, &value, &n };
	load(1);
	CHECK(hipDeviceEnablePeerAccess(0, 0));
	CHECK(hipStreamCreateWithFlags(&s, 1));
	CHECK(hipModuleLaunchKernel(kernels[1].fill, 1, 1, 1, 64, 1, 1, 0, s, arguments, NULL));
	CHECK(hipSetDevice(0));
	CHECK(release(p));
	for (int i = 0; i < 64; i++) {
		others[i] = allocate(4096);
		CHECK(hipMemset(others[i], 0, 4096));
	}
	CHECK(hipDeviceSynchronize());
	CHECK(hipSetDevice(1));
	const error e = hipDeviceSynchronize();
	CHECK(hipSetDevice(0));
	for (int i = 0; i < 64; i++) {
		CHECK(hipMemcpy(&value, others[i], 4, TO_HOST));
		damaged += value != 0;
	}
	printf("late peer %d damaged %d\n", e, damaged);
}

/** All that is freed comes back to HIP. */
static void give_back(void)
{
	void *p[4000];
	CHECK(release(allocate(100)));
	const uint64_t before = vram;
	for (int i = 0; i < 4000; i++)
		p[i] = allocate(8192);
	const uint64_t between = vram;
	for (int i = 0; i < 4000; i++)
		CHECK(release(p[(i * 7) % 4000]));
	printf("took %lld kept %lld\n", (long long)(between - before), (long long)(vram - before));
}

// --- what programs ask ---

/** What HIP says where no allocation is: never that there is one. */
static void asked_of_nobody(const char *name, char *p)
{
	struct attributes a = { .device = -1 };
	struct ipc handle;
	void *base = NULL, *start = NULL;
	size_t size = 0;
	const error range = hipMemGetAddressRange(&base, &size, p), known = hipPointerGetAttributes(&a, p);
	const error began = hipPointerGetAttribute(&start, 11, p), given = hipIpcGetMemHandle(&handle, p);
	printf("%s range %d known %d start %d given %d\n", name, !range, !known && a.device_pointer, !began && start, !given);
}

static void ask(void)
{
	enum { BUFFER_ID = 7, RANGE_START = 11, RANGE_SIZE = 12 };
	char *p[3];
	const size_t sizes[] = { 1000, 5000, 123456 };
	for (int i = 0; i < 3; i++)
		p[i] = allocate(sizes[i]);
	for (int i = 0; i < 3; i++) {
		struct attributes a = { 0 };
		void *base = NULL, *start = NULL;
		size_t size = 0;
		uint32_t range[2] = { 0, 0xabcdefu };
		CHECK(hipMemGetAddressRange(&base, &size, p[i] + 900));
		CHECK(hipPointerGetAttributes(&a, p[i] + 900));
		CHECK(hipPointerGetAttribute(&start, RANGE_START, p[i] + 10));
		CHECK(hipPointerGetAttribute(range, RANGE_SIZE, p[i] + 10));
		printf("ask %d %zu %d %d %d %u %x\n", base == p[i], size, a.device_pointer == p[i] + 900, a.device,
		       start == p[i], range[0], range[1] == 0xabcdef || !range[1]);
	}
	CHECK(release(p[1]));
	asked_of_nobody("freed", p[1]);
	asked_of_nobody("behind", p[0] + 1000);
}

/** Two allocations, each by its handle, and another process that has both. */
static void share(void)
{
	int there[2], back[2];
	struct ipc handles[2];
	char byte = 0, *p[2];
	float values[2];
	if (pipe(there) || pipe(back))
		exit(1);
	if (!fork()) {
		close(there[1]);
		if (read(there[0], handles, sizeof(handles)) != (ssize_t)sizeof(handles))
			_exit(1);
		load(0);
		for (int i = 0; i < 2; i++) {
			void *q = NULL;
			if (hipIpcOpenMemHandle(&q, handles[i], 1)) // hipIpcMemLazyEnablePeerAccess, which was 0 in HIP 5
				CHECK(hipIpcOpenMemHandle(&q, handles[i], 0));
			fill(q, (float)(i + 2), 250, NULL);
			CHECK(hipDeviceSynchronize());
			if (i)
				CHECK(hipIpcCloseMemHandle(q));
		}
		exit(write(back[1], &byte, 1) != 1);
	}
	load(0);
	for (int i = 0; i < 2; i++) {
		p[i] = allocate(1000);
		CHECK(hipMemset(p[i], 0, 1000));
		CHECK(hipIpcGetMemHandle(&handles[i], p[i]));
	}
	CHECK(hipDeviceSynchronize());
	if (write(there[1], handles, sizeof(handles)) != (ssize_t)sizeof(handles))
		exit(1);
	close(back[1]);
	const bool answered = read(back[0], &byte, 1) == 1;
	for (int i = 0; i < 2; i++)
		CHECK(hipMemcpy(&values[i], p[i] + 996, 4, TO_HOST));
	printf("share %d %g %g\n", answered, values[0], values[1]);
	wait(NULL);
}

/** exported SIZE: its handle as text, and the memory until the input ends. */
static void exported(size_t size)
{
	struct ipc handle = { { 0 } };
	char *p = allocate(size);
	CHECK(hipMemset(p, 5, size));
	CHECK(hipDeviceSynchronize());
	const error e = hipIpcGetMemHandle(&handle, p);
	printf("exported %d ", e);
	for (size_t i = 0; i < sizeof(handle); i++)
		printf("%02x", (unsigned char)handle.bytes[i]);
	puts("");
	fflush(stdout);
	getchar();
}

/** imported HANDLE: what there is. */
static void imported(const char *text)
{
	struct ipc handle = { { 0 } };
	void *p = NULL;
	char bytes[16] = { 0 };
	for (size_t i = 0; i < sizeof(handle) && text[2 * i]; i++) {
		unsigned byte = 0;
		sscanf(text + 2 * i, "%2x", &byte);
		handle.bytes[i] = (char)byte;
	}
	error e = hipIpcOpenMemHandle(&p, handle, 1);
	if (e)
		e = hipIpcOpenMemHandle(&p, handle, 0);
	if (!e)
		CHECK(hipMemcpy(bytes, p, sizeof(bytes), TO_HOST));
	printf("imported %d %d %d\n", !e, bytes[0], bytes[15]);
}

/** A function of HIP's own; NULL: this HIP has none. */
static void *looked_up(const char *name) { return dlsym(dlopen(getenv("HIP_LIBRARY"), RTLD_LAZY | RTLD_NOLOAD), name); }

/** Functions that are looked up; and those that make other memory, which hipFree takes, too. */
static void others(void)
{
	size_t pitch = 0;
	void *p = NULL, *named = NULL;
	error (*get)(const char *, void **, int, uint64_t, void *) = NULL;
	error (*entry)(const char *, void **, unsigned long long, void *) = NULL;
	*(void **)&get = looked_up("hipGetProcAddress");
	*(void **)&entry = looked_up("hipGetDriverEntryPoint");
	printf("looked up %d", looked_up("hipMalloc") == (void *)hipMalloc);
	if (get && !get("hipMalloc", &named, 60000000, 0, NULL))
		printf(" %d", named == (void *)hipMalloc);
	if (entry && !entry("hipMalloc", &named, 0, NULL))
		printf(" %d", named == (void *)hipMalloc);
	puts("");
	CHECK(hipMallocManaged(&p, 5000, 1));
	CHECK(release(p));
	CHECK(hipMallocPitch(&p, &pitch, 100, 10));
	CHECK(release(p));
	CHECK(hipExtMallocWithFlags(&p, 700, 0));
	CHECK(release(p));
	CHECK(hipHostMalloc(&p, 700, 0));
	CHECK(hipHostFree(p));
	allocate(777);
	CHECK(hipDeviceReset());
	p = allocate(100);
	CHECK(release(p));
	puts("others");
}

struct meanwhile {
	void *old, *made;
	error freed, allocated;
};

static void *memory_change(void *ctx)
{
	struct meanwhile *m = ctx;
	m->freed = release(m->old);
	m->allocated = hipMalloc(&m->made, 512);
	return NULL;
}

/** Ways to capture: the three modes of hipStreamBeginCapture(), then those of other functions. */
enum { CAPTURE_TO_GRAPH = 3, CAPTURE_OF_THREAD };

static error capture_begin(int way, stream s, void **ret_graph)
{
	error (*create)(void **, unsigned) = NULL, (*of_thread)(stream, int) = NULL;
	error (*to_graph)(stream, void *, const void *, const void *, size_t, int) = NULL;
	*(void **)&create = looked_up("hipGraphCreate");
	*(void **)&to_graph = looked_up("hipStreamBeginCaptureToGraph");
	*(void **)&of_thread = looked_up("hipStreamBeginCapture_spt");
	if (way == CAPTURE_TO_GRAPH)
		return to_graph && !create(ret_graph, 0) ? to_graph(s, *ret_graph, NULL, NULL, 0, 2) : 801;
	if (way == CAPTURE_OF_THREAD)
		return of_thread ? of_thread(s, 2) : 801;
	return hipStreamBeginCapture(s, way);
}

static error capture_end(int way, stream s, void **ret_graph)
{
	error (*of_thread)(stream, void **) = NULL;
	*(void **)&of_thread = looked_up("hipStreamEndCapture_spt");
	return way == CAPTURE_OF_THREAD ? of_thread(s, ret_graph) : hipStreamEndCapture(s, ret_graph);
}

/** captured WAY [OTHER]: memory is freed and made while a stream is captured, by the thread that captures or another; the graph runs. */
static void captured(int way, bool other)
{
	stream s;
	size_t nodes = 0;
	uint32_t value = 0;
	void *graph = NULL, *run = NULL, *p = allocate(512);
	struct meanwhile m = { .old = allocate(512) };
	pthread_t thread;
	CHECK(hipStreamCreateWithFlags(&s, 1));
	CHECK(hipDeviceSynchronize());
	if (capture_begin(way, s, &graph)) {
		puts("captured none");
		return;
	}
	CHECK(hipMemsetAsync(p, 7, 512, s)); // HIP 5.2 does not capture hipModuleLaunchKernel
	if (other && !pthread_create(&thread, NULL, memory_change, &m))
		pthread_join(thread, NULL);
	else
		memory_change(&m);
	const error ended = capture_end(way, s, &graph);
	if (!ended && graph) {
		CHECK(hipMemset(p, 0, 512));
		CHECK(hipDeviceSynchronize());
		CHECK(hipGraphGetNodes(graph, NULL, &nodes));
		CHECK(hipGraphInstantiate(&run, graph, NULL, NULL, 0));
		CHECK(hipGraphLaunch(run, s));
		CHECK(hipStreamSynchronize(s));
		CHECK(hipMemcpy(&value, p, 4, TO_HOST));
	}
	printf("captured %d %d %d %zu %x\n", m.freed, m.allocated, ended, nodes, value);
	if (!m.allocated)
		CHECK(release(m.made));
	CHECK(release(allocate(512)));
}

// --- memory that is made in other ways ---

/** hipMemAllocNodeParams. */
struct node_parameters {
	struct {
		int type, handles, location_type, location;
		void *windows;
		size_t most;
		unsigned char reserved[56];
	} pool;
	const void *access;
	size_t naccess, size;
	void *p;
};
/** hipMemsetParams. */
struct set_parameters {
	void *p;
	unsigned element;
	size_t height, pitch;
	unsigned value;
	size_t width;
};
enum { NODE_BYTES = 4096 };

/** What HIP says of an address, in numbers; -1: nothing. */
static void said_of(const char *name, char *p, void *base_of)
{
	struct attributes a = { .device = -1 };
	void *base = NULL;
	size_t size = 0;
	const error range = hipMemGetAddressRange(&base, &size, p), known = hipPointerGetAttributes(&a, p);
	printf("%s range %d %ld %zu attributes %d %d %d\n", name, range, range ? -1 : (long)((char *)base - (char *)base_of), range ? 0 : size, known, known ? -1 : a.type, a.device);
}

/** Others have their memory between: it must stay theirs. */
static void churn(int n)
{
	void *p[8] = { NULL };
	for (int i = 0; i < n; i++) {
		CHECK(p[i % 8] ? release(p[i % 8]) : 0);
		p[i % 8] = allocate((size_t)(i % 5 + 1) * 3000);
		CHECK(hipMemset(p[i % 8], 0xee, (size_t)(i % 5 + 1) * 3000));
	}
	for (int i = 0; i < 8; i++)
		CHECK(p[i] ? release(p[i]) : 0);
}

/** Launches a graph that fills and copies its own memory to @to; whether @to has it each time. */
static void graph_launch(const char *name, void *graph, void *to, stream s)
{
	void *run = NULL;
	CHECK(hipGraphInstantiate(&run, graph, NULL, NULL, 0));
	for (int i = 0; i < 3; i++) {
		uint32_t value = 0;
		CHECK(hipMemset(to, 0, NODE_BYTES));
		CHECK(hipDeviceSynchronize());
		const error e = hipGraphLaunch(run, s), waited = hipStreamSynchronize(s);
		CHECK(hipMemcpy(&value, (char *)to + NODE_BYTES - 4, 4, TO_HOST));
		printf("%s launch %d %d %x\n", name, e, waited, value);
		churn(20);
	}
}

/** A graph with memory of its own: its nodes are added one by one. */
static void graph_nodes(stream s)
{
	struct node_parameters of = { .pool = { 1, 0, 1, 0 }, .size = NODE_BYTES };
	void *graph = NULL, *nodes[4], *to = allocate(NODE_BYTES);
	error (*create)(void **, unsigned) = NULL, (*make)(void **, void *, void **, size_t, void *) = NULL;
	error (*set)(void **, void *, void **, size_t, void *) = NULL, (*end)(void **, void *, void **, size_t, void *) = NULL;
	error (*take)(void **, void *, void **, size_t, void *, const void *, size_t, int) = NULL;
	*(void **)&create = looked_up("hipGraphCreate");
	*(void **)&make = looked_up("hipGraphAddMemAllocNode");
	*(void **)&end = looked_up("hipGraphAddMemFreeNode");
	*(void **)&set = looked_up("hipGraphAddMemsetNode");
	*(void **)&take = looked_up("hipGraphAddMemcpyNode1D");
	if (!make || !end) {
		puts("nodes none");
		return;
	}
	CHECK(create(&graph, 0));
	CHECK(make(&nodes[0], graph, NULL, 0, &of));
	CHECK(set(&nodes[1], graph, &nodes[0], 1, &(struct set_parameters){ of.p, 1, 1, NODE_BYTES, 9, NODE_BYTES }));
	CHECK(take(&nodes[2], graph, &nodes[1], 1, to, of.p, NODE_BYTES, BETWEEN));
	CHECK(end(&nodes[3], graph, &nodes[2], 1, of.p));
	graph_launch("nodes", graph, to, s);
	said_of("nodes", of.p, of.p);
	CHECK(release(to));
}

/** captured_nodes: hipMallocAsync of a stream that is captured; its end is in the graph, or comes after it by hipFree or hipFreeAsync. */
static void captured_nodes(stream s, const char *how)
{
	void *graph = NULL, *p = NULL, *to = allocate(NODE_BYTES), *run = NULL;
	error (*make)(void **, size_t, stream) = NULL, (*end)(void *, stream) = NULL;
	*(void **)&make = looked_up("hipMallocAsync");
	*(void **)&end = looked_up("hipFreeAsync");
	CHECK(hipStreamBeginCapture(s, 0));
	const error made = make(&p, NODE_BYTES, s);
	const error set = made ? 0 : hipMemsetAsync(p, 9, NODE_BYTES, s);
	const error taken = made ? 0 : hipMemcpyAsync(to, p, NODE_BYTES, BETWEEN, s);
	const error freed = made || *how != 'i' ? 0 : end(p, s);
	const error ended = hipStreamEndCapture(s, &graph);
	printf("%s capture %d %d %d %d %d\n", how, made, set, taken, freed, ended);
	if (made || ended || !graph)
		return;
	if (*how == 'i') {
		graph_launch(how, graph, to, s);
	} else {
		uint32_t value = 0;
		CHECK(hipGraphInstantiate(&run, graph, NULL, NULL, 0));
		CHECK(hipGraphLaunch(run, s));
		CHECK(hipMemcpyAsync(&value, to, 4, TO_HOST, s));
		CHECK(hipStreamSynchronize(s));
		printf("%s launch %x free %d\n", how, value, *how == 'f' ? hipFree(p) : end(p, s));
	}
	CHECK(release(to));
}

/** freed-in-order: hipFreeAsync of what hipMalloc made: beside work of its stream, and while that is captured. */
static void freed_in_order(void)
{
	stream s;
	void *graph = NULL, *p = allocate(NODE_BYTES), *q = allocate(NODE_BYTES), *other = allocate(NODE_BYTES);
	error (*end)(void *, stream) = NULL;
	*(void **)&end = looked_up("hipFreeAsync");
	CHECK(hipStreamCreateWithFlags(&s, 1));
	CHECK(hipMemsetAsync(p, 7, NODE_BYTES, s));
	const error freed = end(p, s), waited = hipStreamSynchronize(s);
	CHECK(hipStreamBeginCapture(s, 2));
	CHECK(hipMemsetAsync(other, 7, NODE_BYTES, s));
	const error captured = end(q, s), ended = hipStreamEndCapture(s, &graph);
	printf("freed %d %d captured %d %d then %d\n", freed, waited, captured, ended, hipFree(q));
	churn(20);
	puts("freed in order");
}

static void graph_memory(void)
{
	stream s;
	CHECK(hipStreamCreateWithFlags(&s, 1));
	graph_nodes(s);
	captured_nodes(s, "inside");
	captured_nodes(s, "freed later");
	captured_nodes(s, "ended later");
	churn(20);
	puts("graph memory");
}

/** Segments that grow and shrink in place, as PyTorch makes them. */
struct segments {
	char *at;
	void *handles[8];
	error (*reserve)(void **, size_t, size_t, void *, unsigned long long), (*create)(void **, size_t, const void *, unsigned long long);
	error (*map)(void *, size_t, size_t, void *, unsigned long long), (*unmap)(void *, size_t), (*drop)(void *);
	error (*allow)(void *, size_t, const void *, size_t), (*forget)(void *, size_t);
};
enum { SEGMENT = 2 << 20, SEGMENTS = 8 };

/** hipMemAllocationProp: pinned, on a GPU. */
static const struct {
	int type, handles, location_type, location;
	void *windows;
	unsigned char flags[4];
} segment_kind = { .type = 1, .location_type = 1 };

static void segment_map(struct segments *g, int i)
{
	char *at = g->at + (size_t)i * SEGMENT;
	CHECK(g->create(&g->handles[i], SEGMENT, &segment_kind, 0));
	CHECK(g->map(at, SEGMENT, 0, g->handles[i], 0));
	CHECK(g->allow(at, SEGMENT, (const int[]){ 1, 0, 3 }, 1));
	CHECK(hipMemset(at, i + 1, SEGMENT));
}

static void segment_unmap(struct segments *g, int i)
{
	CHECK(g->unmap(g->at + (size_t)i * SEGMENT, SEGMENT));
	CHECK(g->drop(g->handles[i]));
	g->handles[i] = NULL;
}

static int segments_wrong(const struct segments *g)
{
	int wrong = 0;
	for (int i = 0; i < SEGMENTS; i++) {
		char first = 0, last = 0;
		if (!g->handles[i])
			continue;
		CHECK(hipMemcpy(&first, g->at + (size_t)i * SEGMENT, 1, TO_HOST));
		CHECK(hipMemcpy(&last, g->at + (size_t)(i + 1) * SEGMENT - 1, 1, TO_HOST));
		wrong += first != i + 1 || last != i + 1;
	}
	return wrong;
}

/** Bytes of the reservation that the process has no mapping for: anybody may get them. */
static size_t segments_holes(const struct segments *g)
{
	const uintptr_t begin = (uintptr_t)g->at, end = begin + SEGMENTS * SEGMENT;
	size_t covered = 0;
	char line[512];
	unsigned long from, to;
	FILE *maps = fopen("/proc/self/maps", "re");
	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx", &from, &to) == 2 && from < end && to > begin)
			covered += (to < end ? to : end) - (from > begin ? from : begin);
	fclose(maps);
	return SEGMENTS * SEGMENT - covered;
}

/** Whether this HIP has them. */
static bool segments_begin(struct segments *g)
{
	void *reserved = NULL, *handle = NULL;
	*(void **)&g->reserve = looked_up("hipMemAddressReserve");
	*(void **)&g->create = looked_up("hipMemCreate");
	*(void **)&g->map = looked_up("hipMemMap");
	*(void **)&g->unmap = looked_up("hipMemUnmap");
	*(void **)&g->drop = looked_up("hipMemRelease");
	*(void **)&g->allow = looked_up("hipMemSetAccess");
	*(void **)&g->forget = looked_up("hipMemAddressFree");
	const error e = g->reserve ? g->reserve(&reserved, SEGMENTS * SEGMENT, 0, NULL, 0) : 801;
	const error made = e ? e : g->create(&handle, SEGMENT, &segment_kind, 0);
	g->at = reserved;
	if (!e && !made)
		CHECK(g->drop(handle));
	else
		printf("segments refused %d\n", made);
	return !e && !made;
}

static void segments(void)
{
	struct segments g = { 0 };
	if (!segments_begin(&g))
		return;
	churn(20);
	for (int i = 0; i < SEGMENTS; i++)
		segment_map(&g, i);
	copy(g.at + SEGMENT - 8, g.at + SEGMENT + 8, 16, NULL); // over the edge of two
	CHECK(hipDeviceSynchronize());
	CHECK(hipMemset(g.at + SEGMENT - 8, 1, 8));
	for (int round = 0; round < 3; round++) {
		for (int i = round % 2; i < SEGMENTS; i += 2)
			segment_unmap(&g, i);
		const size_t holes = segments_holes(&g);
		churn(30);
		printf("segments wrong %d holes %zu", segments_wrong(&g), holes);
		for (int i = round % 2; i < SEGMENTS; i += 2)
			segment_map(&g, i);
		churn(30);
		printf(" wrong %d\n", segments_wrong(&g));
	}
	said_of("segments", g.at + 4096, g.at);
	for (int i = 0; i < SEGMENTS; i++)
		segment_unmap(&g, i);
	printf("segments end %d\n", g.forget(g.at, SEGMENTS * SEGMENT));
	churn(30);
}

/** What hipFree() says of them, which is not for it: 0, from 6.4 on. It is the last that the program does. */
static void segments_freed(bool inside)
{
	struct segments g = { 0 };
	if (!segments_begin(&g))
		return;
	segment_map(&g, 0);
	printf("segments free %d\n", hipFree(g.at + (inside ? 4096 : 0)));
	fflush(stdout);
	_exit(0);
}

// --- few descriptors ---

/** descriptors lowered|used: HIP goes on as it was, with no descriptor left. */
static void descriptors(const char *how)
{
	void *small[300], *large = NULL, *p = NULL;
	stream s;
	int failed = 0;
	CHECK(hipStreamCreateWithFlags(&s, 1));
	CHECK(release(allocate(100)));
	if (*how == 'l')
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, 0 });
	while (dup(STDOUT_FILENO) >= 0)
		;
	for (int i = 0; i < 300; i++) {
		failed += hipMalloc(&small[i], 20000) != 0;
		fill(small[i], 1.0f, 5000, s);
	}
	failed += hipMalloc(&large, 5 << 20) != 0;
	CHECK(hipStreamSynchronize(s));
	for (int i = 0; i < 300; i++)
		failed += hipFree(small[i]) != 0;
	failed += hipFree(large) != 0;
	failed += hipMalloc(&p, 500) != 0 || hipFree(p) != 0;
	printf("descriptors failed %d twice %d\n", failed, hipFree(p));
	// A capture forbids to wait for the device: the pool finds another way.
	void *graph = NULL, *old = allocate(512);
	CHECK(hipStreamBeginCapture(s, 2));
	const error freed = hipFree(old), made = hipMalloc(&p, 512);
	printf("descriptors captured %d %d %d\n", freed, made, hipStreamEndCapture(s, &graph));
}

// --- few mappings ---

enum { MAP_PAGE = 4096, MAPPINGS_MOST = 1 << 20 };

/** Takes all mappings that the kernel allows, but so many. What was taken; all of it is given back by munmap(). */
static char *mappings_take(int left)
{
	char *all = mmap(NULL, (size_t)MAPPINGS_MOST * MAP_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int i = 1;
	while (i < MAPPINGS_MOST && !mprotect(all + (size_t)i * MAP_PAGE, MAP_PAGE, PROT_READ))
		i += 2;
	for (; left > 0 && i > 2; left -= 2)
		mprotect(all + (size_t)(i -= 2) * MAP_PAGE, MAP_PAGE, PROT_NONE);
	return all;
}

/** mappings LEFT: HIP goes on, or refuses, but nobody gets what is another's. */
static void mappings(int left)
{
	enum { BUFFERS = 400, WORDS = 250 };
	static uint32_t *p[BUFFERS];
	int made = 0, wrong = 0, odd = 0;
	churn(20);
	char *all = mappings_take(left);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < BUFFERS; i++) {
			const error e = hipMalloc((void **)&p[i], WORDS * 4);
			odd += e && e != 2; // hipErrorOutOfMemory
			p[i] = e ? NULL : p[i];
			made += !e;
			wrong += !e && hipMemset(p[i], i % 200 + 1, WORDS * 4) != 0;
		}
		for (int i = 0; i < BUFFERS; i++) {
			uint32_t got[WORDS] = { 0 };
			if (!p[i])
				continue;
			wrong += hipMemcpy(got, p[i], sizeof(got), TO_HOST) != 0;
			for (int k = 0; k < WORDS; k++)
				wrong += got[k] != (uint32_t)(i % 200 + 1) * 0x01010101u;
			odd += release(p[i]) != 0;
		}
	}
	munmap(all, (size_t)MAPPINGS_MOST * MAP_PAGE);
	churn(40);
	printf("mappings wrong %d odd %d\nmade %d\n", wrong, odd, made);
}

/** From the memory of one GPU to that of another. */
static void peers(void)
{
	char host[1000], *a, *b;
	load(1);
	b = allocate(1000);
	CHECK(hipMemset(b, 0, 1000));
	CHECK(hipSetDevice(0));
	a = allocate(1000);
	CHECK(hipMemset(a, 7, 1000));
	CHECK(hipMemcpyPeer(b, 1, a, 0, 1000));
	CHECK(hipMemcpy(host, b, 1000, TO_HOST));
	printf("peers %d %d\n", host[0], host[999]);
	CHECK(hipDeviceEnablePeerAccess(1, 0));
	copy(b, a, 1000, NULL);
	CHECK(hipDeviceSynchronize());
	CHECK(release(b));
	CHECK(release(a));
}

/** nearly-full: a megabyte is left, which is too little for a slab; the last error is that of the program's calls. */
static void nearly_full(void)
{
	void *p = NULL, *last_one = NULL;
	for (size_t size = (size_t)1 << 40; size >= 1 << 20; size /= 2)
		while (!hipMalloc(&p, size))
			last_one = p;
	CHECK(release(last_one));
	hipGetLastError();
	const error made = hipMalloc(&p, 8192), last = hipGetLastError(), freed = hipFree(p);
	printf("nearly full %d %d %d\n", made, last, freed ? freed : hipGetLastError());
}

/** flagged FLAGS: memory that other devices and the host may use at the same time keeps its kind. */
static void flagged(unsigned flags)
{
	void *p = NULL;
	CHECK(hipExtMallocWithFlags(&p, 8192, flags));
	say("flagged", p, 8192);
	CHECK(release(p));
}

/** What HIP says is free, before and after many small allocations: they take pages, whatever the driver counts. */
static void available(int n)
{
	size_t before, after, total;
	CHECK(release(allocate(100)));
	CHECK(hipMemGetInfo(&before, &total));
	for (int i = 0; i < n; i++)
		allocate(1000);
	CHECK(hipMemGetInfo(&after, &total));
	printf("available %zu %zu\n", before - after, total);
}

/** The GPU is gone: what is asked of it is not done. */
static void lost(void)
{
	void *p = allocate(1000);
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	release(p);
}

/** grow COUNT: so many at once, none freed. */
static void grow(int n)
{
	for (int i = 0; i < n; i++)
		allocate(100);
	puts("grown");
}

static void *memory_use(void *ctx)
{
	for (size_t i = 0; i < 5; i++)
		*(int *)ctx |= release(allocate(1000 + i * 7));
	return NULL;
}

/** small-stack BYTES: of the thread that allocates and frees. */
static void small_stack(size_t bytes)
{
	pthread_attr_t with;
	pthread_t thread;
	int failed = release(allocate(1)); // HIP itself starts with more
	pthread_attr_init(&with);
	pthread_attr_setstacksize(&with, bytes);
	if (!pthread_create(&thread, &with, memory_use, &failed))
		pthread_join(thread, NULL);
	printf("small stack %d\n", failed);
}

static void *memory_use_once(void *ctx)
{
	const int failed = release(allocate(1000));
	*(int *)ctx = failed ? -1 : gettid();
	return NULL;
}

/** threads COUNT: one after the other; the number of the last. */
static void threads(int n)
{
	pthread_t thread;
	int last = 0;
	for (int i = 0; i < n && !pthread_create(&thread, NULL, memory_use_once, &last); i++)
		pthread_join(thread, NULL);
	printf("last thread %d\n", last);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[2] : "", *a = argc > 3 ? argv[3] : "0", *b = argc > 4 ? argv[4] : "0",
		   *c = argc > 5 ? argv[5] : "1";
	code = argv[1];
	if (!strcmp(mode, "share"))
		return share(), 0;
	if (!strcmp(mode, "first")) // as libraries do that want HIP to start
		return printf("first %d\n", hipFree(NULL)), 0;
	if (strcmp(mode, "seed")) // which has no kernels, and runs on any GPU
		load(0);
	if (!strcmp(mode, "past") || !strcmp(mode, "before"))
		outside(*mode == 'p', (size_t)atoll(a), b);
	else if (!strcmp(mode, "freed"))
		freed(atoi(a), b);
	else if (!strcmp(mode, "wild"))
		touch((char *)strtoull(a, NULL, 0), 1, false);
	else if (!strcmp(mode, "operator"))
		operated();
	else if (!strcmp(mode, "misuses"))
		misuses();
	else if (!strcmp(mode, "freed-often"))
		freed_often(atoi(a));
	else if (!strcmp(mode, "slack"))
		slack();
	else if (!strcmp(mode, "random"))
		against_model(atoi(a), atoi(b), atoi(c));
	else if (!strcmp(mode, "seed"))
		seed(atoi(a));
	else if (!strcmp(mode, "late"))
		late();
	else if (!strcmp(mode, "late-peer"))
		late_peer();
	else if (!strcmp(mode, "give-back"))
		give_back();
	else if (!strcmp(mode, "exported"))
		exported((size_t)atoll(a));
	else if (!strcmp(mode, "imported"))
		imported(a);
	else if (!strcmp(mode, "ask"))
		ask();
	else if (!strcmp(mode, "others"))
		others();
	else if (!strcmp(mode, "captured"))
		captured(atoi(a), *b == 'o');
	else if (!strcmp(mode, "graph-memory"))
		graph_memory();
	else if (!strcmp(mode, "segments"))
		segments();
	else if (!strcmp(mode, "segments-freed"))
		segments_freed(*a == 'i');
	else if (!strcmp(mode, "descriptors"))
		descriptors(a);
	else if (!strcmp(mode, "mappings"))
		mappings(atoi(a));
	else if (!strcmp(mode, "peers"))
		peers();
	else if (!strcmp(mode, "available"))
		available(atoi(a));
	else if (!strcmp(mode, "freed-in-order"))
		freed_in_order();
	else if (!strcmp(mode, "nearly-full"))
		nearly_full();
	else if (!strcmp(mode, "flagged"))
		flagged((unsigned)atoi(a));
	else if (!strcmp(mode, "small-stack"))
		small_stack((size_t)atoll(a));
	else if (!strcmp(mode, "threads"))
		threads(atoi(a));
	else if (!strcmp(mode, "lost"))
		lost();
	else if (!strcmp(mode, "grow"))
		grow(atoi(a));
	else
		return 2;
	return 0;
}
