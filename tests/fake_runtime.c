// A runtime that is none: tables of functions like those of AMD's HSA runtime, a queue, and a thread that plays the GPU. It loads the
// recorder as the runtime would and launches packets whose contents follow from their numbers, so that a test knows what a recording
// has to hold. fake_runtime RECORDER MODE [NAME=VALUE...]
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake_runtime.h"
#include "recorder/hsa.h"
#include "unhang/recorder.h"

enum { CORE_FUNCTIONS = 125, EXT_FUNCTIONS_MOST = 91, KERNELS = 8, ARGUMENT_SIZE = 48, ARGUMENT_SLOT = 64, SIGNALS = 64 };

static struct {
	struct hsa_root root;
	void *before;
	_Alignas(16) char core_room[16 + CORE_FUNCTIONS * 8];
	char ext_room[16 + EXT_FUNCTIONS_MOST * 8];
} tables;
static struct hsa_table *core, *ext;

struct fake_queue {
	_Alignas(64) struct amd_queue q;
	char room[256];
	_Alignas(64) struct amd_signal doorbell;
	char *arguments;
	_Atomic uint64_t hang_at; // packet that never ends; UINT64_MAX: none
};
static _Alignas(64) struct amd_signal signals[SIGNALS];
static _Atomic bool stop;

struct options {
	unsigned threads, size, launches, ext_size, step, queues, allocations, batch;
	uint64_t hang;
	bool forever, slow, wait, memory, wishes, unseen;
	const struct unhang_recorder *framework; // NULL: launches are in no operation
};

static void none(void)
{
	fputs("fake_runtime: a function that it does not have was called\n", stderr);
	abort();
}

// --- the runtime's functions ---

static void store(hsa_handle signal, int64_t value)
{
	struct amd_signal *s = (void *)(uintptr_t)signal;
	if (s->kind >= 0)
		__atomic_store_n(&s->value, value, __ATOMIC_RELEASE);
}

static int64_t wait_for(hsa_handle signal, uint32_t condition, int64_t compare, uint64_t timeout, uint32_t how)
{
	struct amd_signal *s = (void *)(uintptr_t)signal;
	(void)condition;
	(void)timeout;
	(void)how;
	while (__atomic_load_n(&s->value, __ATOMIC_ACQUIRE) >= compare)
		usleep(100);
	return s->value;
}

static int64_t load(hsa_handle signal)
{
	return __atomic_load_n(&((struct amd_signal *)(uintptr_t)signal)->value, __ATOMIC_ACQUIRE);
}

static void *gpu(void *ctx)
{
	struct fake_queue *f = ctx;
	uint16_t *packets = f->q.hsa.base;
	for (uint64_t id = 0; !atomic_load(&stop); id++) {
		uint16_t *p = packets + (id & (f->q.hsa.size - 1)) * 32;
		while ((__atomic_load_n(p, __ATOMIC_ACQUIRE) & 0xff) == AQL_KIND_INVALID || id == atomic_load(&f->hang_at)) {
			if (atomic_load(&stop))
				return NULL;
			if (id == atomic_load(&f->hang_at))
				usleep(1000);
		}
		struct amd_signal *done = (void *)(uintptr_t)((uint64_t *)p)[7];
		__atomic_store_n(p, AQL_KIND_INVALID, __ATOMIC_RELEASE);
		if (done)
			__atomic_fetch_sub(&done->value, 1, __ATOMIC_ACQ_REL);
		__atomic_store_n(&f->q.read_index, id + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static int64_t doorbell_kind;

hsa_status fake_queue_create(hsa_handle agent, uint32_t size, uint32_t type, queue_error_fn *error, void *data,
			     uint32_t private_size, uint32_t group_size, struct hsa_queue **ret)
{
	struct fake_queue *f = aligned_alloc(64, (sizeof(*f) + 63) / 64 * 64);
	pthread_t t;
	(void)agent;
	(void)error;
	(void)data;
	(void)private_size;
	(void)group_size;
	memset(f, 0, sizeof(*f));
	f->doorbell = (struct amd_signal){ .kind = doorbell_kind, .queue = doorbell_kind < 0 ? &f->q : NULL };
	f->q.hsa = (struct hsa_queue){ .type = type,
				       .features = QUEUE_DISPATCHES,
				       .size = size,
				       .base = aligned_alloc(4096, size * 64ul < 4096 ? 4096 : size * 64ul),
				       .doorbell = (uintptr_t)&f->doorbell,
				       .id = 7 };
	memset(f->q.hsa.base, 0, size * 64ul);
	for (uint32_t i = 0; i < size; i++)
		((uint16_t *)f->q.hsa.base)[i * 32] = AQL_KIND_INVALID;
	f->arguments = aligned_alloc(64, size * (size_t)ARGUMENT_SLOT);
	atomic_store(&f->hang_at, UINT64_MAX);
	pthread_create(&t, NULL, gpu, f);
	pthread_detach(t);
	*ret = &f->q.hsa;
	return HSA_OK;
}

static hsa_status queue_destroy(struct hsa_queue *q)
{
	(void)q;
	return HSA_OK;
}

static hsa_status each_agent(hsa_status (*each)(hsa_handle, void *), void *ctx)
{
	each(0xa0, ctx);
	return each(0xa1, ctx);
}

static hsa_status agent_info(hsa_handle agent, uint32_t what, void *ret)
{
	if (what == AGENT_INFO_NAME)
		strcpy(ret, agent == 0xa1 ? "gfx90a" : "AMD EPYC");
	else if (what == AGENT_INFO_PRODUCT)
		strcpy(ret, agent == 0xa1 ? "Fake MI210" : "");
	else if (what == AGENT_INFO_DEVICE)
		*(uint32_t *)ret = agent == 0xa1;
	else if (what == AGENT_INFO_NODE)
		*(uint32_t *)ret = agent == 0xa1;
	else if (what == AGENT_INFO_BDF)
		*(uint32_t *)ret = 0xc300;
	else if (what == AGENT_INFO_DOMAIN)
		*(uint32_t *)ret = 0;
	else
		return HSA_ERROR;
	return HSA_OK;
}

static hsa_status each_pool(hsa_handle agent, hsa_status (*each)(hsa_handle, void *), void *ctx)
{
	return each(agent + 0x100, ctx);
}

static hsa_status pool_info(hsa_handle pool, uint32_t what, void *ret)
{
	if (what == POOL_INFO_SIZE)
		*(size_t *)ret = 64ul << 30;
	else
		*(uint32_t *)ret = what == POOL_INFO_FLAGS ? (pool == 0x1a1 ? 4 : 3) : 0;
	return HSA_OK;
}

static _Atomic uint64_t address = 0x7f0000000000;
static _Atomic int allocations_left = -1;
static hsa_status pool_allocate(hsa_handle pool, size_t size, uint32_t flags, void **ret)
{
	(void)pool;
	(void)flags;
	if (allocations_left >= 0 && atomic_fetch_sub(&allocations_left, 1) == 0)
		for (;;)
			pause();
	*ret = (void *)(uintptr_t)atomic_fetch_add(&address, (size + 0x1fffff) & ~0x1ffffful);
	return HSA_OK;
}

static hsa_status pool_free(void *p)
{
	(void)p;
	return HSA_OK;
}

static struct fake_queue *the_queues[16];
static unsigned nqueues;
/** Arguments of the first queue are in the host's memory, those of the second in the GPU's; nothing else is known. */
static hsa_status pointer_info(const void *p, struct hsa_pointer_info *ret, void *alloc, uint32_t *n, void *agents)
{
	(void)alloc;
	(void)n;
	(void)agents;
	ret->type = 0;
	for (unsigned i = 0; i < nqueues; i++) {
		const struct fake_queue *f = the_queues[i];
		if ((const char *)p < f->arguments || (const char *)p >= f->arguments + f->q.hsa.size * (size_t)ARGUMENT_SLOT)
			continue;
		ret->type = 1;
		ret->agent_base = ret->host_base = f->arguments;
		ret->bytes = f->q.hsa.size * (size_t)ARGUMENT_SLOT;
		ret->owner = i == 1 ? 0xa1 : 0xa0;
	}
	return HSA_OK;
}

static event_handler_fn *fault_handler;
static hsa_status watch(event_handler_fn *handler, void *data)
{
	(void)data;
	fault_handler = handler;
	return HSA_OK;
}

static hsa_status freeze(hsa_handle executable, const char *options)
{
	(void)executable;
	(void)options;
	return HSA_OK;
}

static hsa_status destroy(hsa_handle executable)
{
	(void)executable;
	return HSA_OK;
}

static uint64_t kernel_of(uint64_t id) { return 0x7e0000001000 + (id * 0x9e3779b97f4a7c15u >> 61) * 64; }

static hsa_status each_symbol(hsa_handle executable, hsa_status (*each)(hsa_handle, hsa_handle, void *), void *ctx)
{
	for (unsigned i = 0; i < KERNELS; i++)
		each(executable, i, ctx);
	return HSA_OK;
}

static hsa_status symbol_info(hsa_handle symbol, uint32_t what, void *ret)
{
	char name[16];
	const int n = snprintf(name, sizeof(name), "kernel%u.kd", (unsigned)symbol);
	if (what == SYMBOL_INFO_NAME)
		memcpy(ret, name, (size_t)n);
	else if (what == SYMBOL_INFO_KERNEL)
		*(uint64_t *)ret = 0x7e0000001000 + symbol * 64;
	else
		*(uint32_t *)ret = what == SYMBOL_INFO_TYPE        ? SYMBOL_KERNEL :
				   what == SYMBOL_INFO_NAME_LENGTH ? (uint32_t)n :
								     ARGUMENT_SIZE;
	return HSA_OK;
}

static hsa_status copy(void *to, const void *from, size_t size)
{
	memcpy(to, from, size);
	return HSA_OK;
}

static hsa_status extension(uint16_t extension, uint16_t version, size_t size, void *ret)
{
	(void)extension;
	(void)version;
	(void)size;
	(void)ret;
	return HSA_ERROR;
}

static void ext_set(int oldest, void *f) { ext->functions[oldest + (ext->minor >= 456 && oldest >= 16 ? 2 : 0)] = f; }

static void make_tables(const struct options *o)
{
	core = (void *)tables.core_room;
	ext = (void *)tables.ext_room;
	*core = (struct hsa_table){ 1, sizeof(tables.core_room), 0, 0 };
	*ext = (struct hsa_table){ 1, o->ext_size, o->step, 0 };
	tables.root = (struct hsa_root){ 1, 48, 0, 0, core, ext };
	for (int i = 0; i < CORE_FUNCTIONS; i++)
		core->functions[i] = (void *)none;
	for (unsigned i = 0; i < (o->ext_size - 16) / 8; i++)
		ext->functions[i] = (void *)none;
	core->functions[CORE_SIGNAL_STORE_RELAXED] = core->functions[CORE_SIGNAL_STORE_SCRELEASE] = (void *)store;
	core->functions[CORE_SIGNAL_WAIT_RELAXED] = core->functions[CORE_SIGNAL_WAIT_SCACQUIRE] = (void *)wait_for;
	core->functions[CORE_SIGNAL_LOAD_RELAXED] = core->functions[CORE_SIGNAL_LOAD_SCACQUIRE] = (void *)load;
	core->functions[CORE_QUEUE_CREATE] = (void *)fake_queue_create;
	core->functions[CORE_QUEUE_DESTROY] = (void *)queue_destroy;
	core->functions[CORE_ITERATE_AGENTS] = (void *)each_agent;
	core->functions[CORE_AGENT_GET_INFO] = (void *)agent_info;
	core->functions[CORE_EXECUTABLE_FREEZE] = (void *)freeze;
	core->functions[CORE_EXECUTABLE_DESTROY] = (void *)destroy;
	core->functions[CORE_ITERATE_SYMBOLS] = (void *)each_symbol;
	core->functions[CORE_SYMBOL_GET_INFO] = (void *)symbol_info;
	core->functions[CORE_MAJOR_EXTENSION_TABLE] = (void *)extension;
	core->functions[CORE_MEMORY_COPY] = (void *)copy;
	ext_set(11, (void *)pool_info);
	ext_set(12, (void *)each_pool);
	ext_set(13, (void *)pool_allocate);
	ext_set(14, (void *)pool_free);
	ext_set(26, (void *)pointer_info);
	ext_set(34, (void *)watch);
	if (o->memory)
		fake_memory_table(ext);
	if (o->wishes)
		fake_queues_table(core, ext);
}

// --- the program ---

/** What packet @id is: a test computes the same. */
static void packet_fill(struct fake_queue *f, uint64_t id)
{
	uint64_t *p = (uint64_t *)f->q.hsa.base + (id & (f->q.hsa.size - 1)) * 8;
	uint64_t *arguments = (uint64_t *)(f->arguments + (id & (f->q.hsa.size - 1)) * ARGUMENT_SLOT);
	for (unsigned i = 0; i < ARGUMENT_SIZE / 8; i++)
		__atomic_store_n(&arguments[i], i ? id * i : 0x7f0000000000 + (id & 0xff) * 4, __ATOMIC_RELAXED);
	const uint64_t grid = id % 1000 + 1;
	struct amd_signal *done = id % 4 ? NULL : &signals[id / 4 % SIGNALS];
	__atomic_store_n(&p[1], 1 | grid << 32, __ATOMIC_RELAXED);
	__atomic_store_n(&p[2], ((id & 0xffff) + 1) | 1ul << 32, __ATOMIC_RELAXED);
	__atomic_store_n(&p[3], 0, __ATOMIC_RELAXED);
	__atomic_store_n(&p[4], kernel_of(id), __ATOMIC_RELAXED);
	__atomic_store_n(&p[5], (uintptr_t)arguments, __ATOMIC_RELAXED);
	__atomic_store_n(&p[7], (uintptr_t)done, __ATOMIC_RELAXED);
	if (done)
		__atomic_store_n(&done->value, 1, __ATOMIC_RELAXED);
	// Type, barrier bit, fences; one dimension; a group of 64 by 2.
	__atomic_store_n(&p[0], 0x1502ul | 3ul << 16 | 64ul << 32 | 2ul << 48, __ATOMIC_RELEASE);
}

static void launch(struct fake_queue *f)
{
	const uint64_t id = __atomic_fetch_add(&f->q.write_index, 1, __ATOMIC_ACQ_REL);
	while (id - __atomic_load_n(&f->q.read_index, __ATOMIC_ACQUIRE) >= f->q.hsa.size)
		;
	packet_fill(f, id);
	((signal_store_fn *)core->functions[CORE_SIGNAL_STORE_SCRELEASE])(f->q.hsa.doorbell, (int64_t)id);
}

struct producer {
	const struct options *o;
	struct fake_queue *queue;
};

static void *produce(void *ctx)
{
	const struct producer *p = ctx;
	for (unsigned i = 0; p->o->forever || i < p->o->launches; i++) {
		const int64_t shape[2] = { i + 1, 3 };
		const struct unhang_tensor tensor = { shape, UNHANG_INT64, 2, shape, NULL };
		const struct unhang_recorder *r = p->o->framework;
		const uint32_t outer = r ? unhang_begin(r, "step", NULL, 0) : 0,
			       inner = r ? unhang_begin(r, "layer", &tensor, 1) : 0;
		launch(p->queue);
		if (r) {
			unhang_end(r, inner);
			unhang_end(r, outer);
		}
		if (p->o->forever && i == 100) {
			puts("ready");
			fflush(stdout);
		}
		if (p->o->allocations && i % p->o->allocations == 0) {
			void *at;
			((hsa_status(*)(hsa_handle, size_t, uint32_t, void **))ext->functions[13])(0x1a1, 4096, 0, &at);
			((hsa_status(*)(void *))ext->functions[14])(at);
		}
		if (p->o->slow)
			usleep(1000);
	}
	return NULL;
}

static void produce_all(const struct options *o)
{
	pthread_t threads[64];
	struct producer p[64];
	for (unsigned i = 0; i < o->threads && i < 64; i++) {
		p[i] = (struct producer){ o, the_queues[i % o->queues] };
		pthread_create(&threads[i], NULL, produce, &p[i]);
	}
	for (unsigned i = 0; i < o->threads && i < 64; i++)
		pthread_join(threads[i], NULL);
}

/** Until the GPU has taken everything. */
static void drain(void)
{
	for (unsigned i = 0; i < nqueues; i++)
		while (__atomic_load_n(&the_queues[i]->q.read_index, __ATOMIC_ACQUIRE) !=
		       __atomic_load_n(&the_queues[i]->q.write_index, __ATOMIC_ACQUIRE))
			usleep(100);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static unsigned option(int argc, char **argv, const char *name, unsigned otherwise)
{
	const size_t n = strlen(name);
	for (int i = 3; i < argc; i++)
		if (!strncmp(argv[i], name, n) && argv[i][n] == '=')
			return (unsigned)strtoul(argv[i] + n + 1, NULL, 10);
	return otherwise;
}

typedef bool on_load_fn(struct hsa_root *root, uint64_t version, uint64_t failed, const char *const *names);

uint64_t fake_ring, fake_read, fake_write;

/** @unseen: by a function that a tool does not see. */
static void make_queues(const struct options *o)
{
	struct hsa_queue *made[16], *q;
	queue_create_fn *create = o->unseen ? fake_queue_create : (queue_create_fn *)core->functions[CORE_QUEUE_CREATE];
	if (o->wishes)
		fake_queues_use(core, ext, o->queues, o->size, made);
	for (unsigned i = 0; i < o->queues && i < 16; i++) {
		if (o->wishes)
			q = made[i];
		else
			create(0xa1, o->size, 0, NULL, NULL, 0, 0, &q);
		the_queues[i] = (struct fake_queue *)q;
		fake_ring = (uintptr_t)q->base;
		fake_read = (uintptr_t)&the_queues[i]->q.read_index;
		fake_write = (uintptr_t)&the_queues[i]->q.write_index;
		nqueues = i + 1;
	}
	((hsa_status(*)(hsa_handle, const char *))core->functions[CORE_EXECUTABLE_FREEZE])(0xe0, NULL);
}

static void allocate(size_t size, void **ret)
{
	((hsa_status(*)(hsa_handle, size_t, uint32_t, void **))ext->functions[13])(0x1a1, size, 0, ret);
}

/** Allocates three buffers, frees the second, and faults just past the end of the first. */
static void mode_fault(const struct options *o)
{
	void *a, *b, *c;
	allocate(0x1000, &a);
	allocate(0x2000, &b);
	allocate(0x3000, &c);
	((hsa_status(*)(void *))ext->functions[14])(b);
	launch(the_queues[0]);
	const struct hsa_event e = { .agent = 0xa1, .address = (uintptr_t)a + 0x1000, .reasons = 1 };
	if (o->wait)
		getchar();
	fault_handler(&e, NULL);
	raise(SIGKILL);
}

/** A fault that is an error to the program and not its end: it destroys its queue, and ends by itself. */
static void mode_struck(const struct options *o)
{
	launch(the_queues[0]);
	if (o->hang)
		drain();
	fault_handler(&(struct hsa_event){ .agent = 0xa1, .address = 0x7f0000001000, .reasons = 1 }, NULL);
	((hsa_status(*)(struct hsa_queue *))core->functions[CORE_QUEUE_DESTROY])(&the_queues[0]->q.hsa);
	exit(1);
}

/** Faults wherever memory is reserved, mapped for nobody, freed, and so on. */
static void mode_memory(void)
{
	uint64_t at[FAKE_ADDRESSES];
	const size_t n = fake_memory_use(ext, at);
	for (size_t i = 0; i < n; i++)
		fault_handler(&(struct hsa_event){ .agent = 0xa1, .address = at[i], .reasons = 1 }, NULL);
	fault_handler(&(struct hsa_event){ .type = 3 }, NULL); // as ROCm 7 at its end: no fault
	raise(SIGKILL);
}

static void mode_hang_allocation(void)
{
	void *p;
	for (int i = 0; i < 3; i++)
		allocate(3584, &p);
	atomic_store(&allocations_left, 0);
	puts("ready");
	fflush(stdout);
	allocate(7168, &p);
}

/** Nanoseconds of what is timed: the median of many batches. */
static int compare_doubles(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static void allocation_pair(void)
{
	void *p;
	allocate(4096, &p);
	((hsa_status(*)(void *))ext->functions[14])(p);
}

/** Of a signal that has fired, which the recorder notes. */
static void signal_load(void) { ((signal_load_fn *)core->functions[CORE_SIGNAL_LOAD_RELAXED])((uintptr_t)&signals[0]); }

static void mode_times(void (*what)(void))
{
	enum { ROUNDS = 1000, BATCH = 100 };
	static double times[ROUNDS];
	for (int r = 0; r < ROUNDS; r++) {
		const double begin = now();
		for (int i = 0; i < BATCH; i++)
			what();
		times[r] = (now() - begin) / BATCH;
	}
	qsort(times, ROUNDS, sizeof(times[0]), compare_doubles);
	printf("%.1f ns, tenth percentile %.1f\n", times[ROUNDS / 2], times[ROUNDS / 10]);
}

static void mode_fork(const struct options *o)
{
	const pid_t child = fork();
	if (!child) {
		for (unsigned i = 0; i < 100; i++)
			allocate(4096, &(void *){ NULL });
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	produce_all(o);
	printf("child %d\n", WEXITSTATUS(status));
}

/** The program's own file gets the number of the recorder's descriptor, as after one close() too many. @moved: the recording gets another
 * name, so that nobody finds it again. */
static void steal(const char *victim, bool moved)
{
	char link[40], path[4096], aside[sizeof(path) + 8];
	const int own = open(victim, O_RDWR);
	for (int fd = STDERR_FILENO + 1; fd < own; fd++) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		const ssize_t n = readlink(link, path, sizeof(path) - 1);
		path[n < 0 ? 0 : n] = 0;
		if (!strstr(path, ".recording"))
			continue;
		snprintf(aside, sizeof(aside), "%s.moved", path);
		if (dup2(own, fd) < 0 || (moved && rename(path, aside)))
			abort();
	}
	close(own);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	struct options o = { .threads = option(argc, argv, "threads", 1),
			     .size = option(argc, argv, "size", 1024),
			     .launches = option(argc, argv, "launches", 100),
			     .ext_size = option(argc, argv, "ext", 400),
			     .step = option(argc, argv, "step", 0),
			     .queues = option(argc, argv, "queues", 1),
			     .allocations = option(argc, argv, "allocations", 0),
			     .hang = option(argc, argv, "hang", UINT32_MAX),
			     .forever = option(argc, argv, "forever", 0),
			     .slow = option(argc, argv, "slow", 0),
			     .wait = option(argc, argv, "wait", 0),
			     .wishes = option(argc, argv, "wishes", 0),
			     .unseen = option(argc, argv, "unseen", 0),
			     .memory = !strcmp(argv[2], "memory") };
	void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	on_load_fn *on_load = library ? (on_load_fn *)dlsym(library, "OnLoad") : NULL;
	if (!on_load) {
		fprintf(stderr, "fake_runtime: %s\n", dlerror());
		return 2;
	}
	if (option(argc, argv, "operations", 0))
		o.framework = ((const struct unhang_recorder *(*)(void))dlsym(library, "unhang_recorder_functions"))();
	doorbell_kind = option(argc, argv, "user-doorbells", 0) ? 1 : -1;
	make_tables(&o);
	if (!strcmp(argv[2], "odd-table"))
		core->minor = 64;
	on_load(&tables.root, 1, 0, NULL);
	if (!strcmp(argv[2], "twice"))
		on_load(&tables.root, 1, 0, NULL);
	if (!strcmp(argv[2], "odd-table"))
		core->minor = sizeof(tables.core_room);
	if (option(argc, argv, "odd-place", 0) && ext->functions[option(argc, argv, "odd-place", 0)] != (void *)none)
		puts("replaced");
	if (getenv("FAKE_VICTIM"))
		steal(getenv("FAKE_VICTIM"), option(argc, argv, "moved", 0));
	make_queues(&o);
	if (o.hang != UINT32_MAX)
		atomic_store(&the_queues[0]->hang_at, o.hang);
	const double begin = now();
	if (!strcmp(argv[2], "fault"))
		mode_fault(&o);
	else if (!strcmp(argv[2], "struck"))
		mode_struck(&o);
	else if (!strcmp(argv[2], "memory"))
		mode_memory();
	else if (!strcmp(argv[2], "hang-allocation"))
		mode_hang_allocation();
	else if (!strcmp(argv[2], "allocation-pairs"))
		mode_times(allocation_pair);
	else if (!strcmp(argv[2], "signal-loads"))
		mode_times(signal_load);
	else if (!strcmp(argv[2], "fork"))
		mode_fork(&o);
	else
		produce_all(&o);
	if (!strcmp(argv[2], "die"))
		raise(SIGKILL);
	if (o.hang == UINT32_MAX)
		drain();
	if (!strcmp(argv[2], "time"))
		printf("%.1f ns\n", (now() - begin) / o.launches / o.threads);
	puts("done");
	fflush(stdout);
	if (!strcmp(argv[2], "stay"))
		for (;;)
			pause();
	if (!strcmp(argv[2], "unload")) {
		((void (*)(void))dlsym(library, "OnUnload"))();
		dlclose(library);
		launch(the_queues[0]);
	}
	return (int)option(argc, argv, "status", 0);
}
