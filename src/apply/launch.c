// The child that launches, and the parent that waits for it (launch.h). The child names each step before it makes it, so that a hang tells how
// far it came. Kernels are launched by hand, packet by packet, so that it knows how many there were.
#include "apply/launch.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/door/library.h"
#include "base/door/trust.h"
#include "base/error.h"
#include "recorder/hsa.h"

enum {
	PACKETS = 256, // of the queue: all launches fit
	ROOM = 4096,
	ELF_FLAGS = 48,
	LANES = 64,
	SPIN_WAVES = 4,
	DEVICE_CPU = 0,
	POOL_KERNARG = 1, // flag
	PROFILE_FULL = 1,
	CONDITION_BELOW = 2,
	STEP_MS = 10,
	LAUNCH_MS = 5000, // for a kernel to begin
	KILL_MS = 500,
	TEXT_MOST = 1 << 16,
	DISPATCH = AQL_KIND_DISPATCH | 1 << 8 | 2 << 9 | 2 << 11, // behind the one before it, fences of system scope
};

/** The directory is where AMD's packages put it. */
static const char *const runtimes[] = { "/opt/rocm/lib/libhsa-runtime64.so.1", "libhsa-runtime64.so.1" };

// What is used of HSA: it has not changed since ROCm 4.
hsa_status hsa_init(void);
hsa_status hsa_iterate_agents(hsa_status (*each)(hsa_handle agent, void *ctx), void *ctx);
hsa_status hsa_agent_get_info(hsa_handle agent, uint32_t what, void *ret);
queue_create_fn hsa_queue_create;
hsa_status hsa_signal_create(int64_t value, uint32_t n, const hsa_handle *consumers, hsa_handle *ret);
signal_store_fn hsa_signal_store_screlease;
signal_wait_fn hsa_signal_wait_scacquire;
hsa_status hsa_code_object_reader_create_from_memory(const void *code, size_t size, hsa_handle *ret);
hsa_status hsa_executable_create_alt(uint32_t profile, uint32_t rounding, const char *options, hsa_handle *ret);
hsa_status hsa_executable_load_agent_code_object(hsa_handle executable, hsa_handle agent, hsa_handle reader,
						 const char *options, hsa_handle *ret);
hsa_status hsa_executable_freeze(hsa_handle executable, const char *options);
hsa_status hsa_executable_get_symbol_by_name(hsa_handle executable, const char *name, const hsa_handle *agent, hsa_handle *ret);
hsa_status hsa_executable_symbol_get_info(hsa_handle symbol, uint32_t what, void *ret);
hsa_status hsa_amd_agent_iterate_memory_pools(hsa_handle agent, hsa_status (*each)(hsa_handle pool, void *ctx), void *ctx);
hsa_status hsa_amd_memory_pool_get_info(hsa_handle pool, uint32_t what, void *ret);
hsa_status hsa_amd_memory_pool_allocate(hsa_handle pool, size_t size, uint32_t flags, void **ret);
hsa_status hsa_amd_agents_allow_access(uint32_t n, const hsa_handle *agents, const uint32_t *flags, const void *p);

// clang-format off
#define HSA_CALLS(call) \
	call(hsa_init) call(hsa_iterate_agents) call(hsa_agent_get_info) call(hsa_queue_create) call(hsa_signal_create) \
	call(hsa_signal_store_screlease) call(hsa_signal_wait_scacquire) call(hsa_code_object_reader_create_from_memory) \
	call(hsa_executable_create_alt) call(hsa_executable_load_agent_code_object) call(hsa_executable_freeze) \
	call(hsa_executable_get_symbol_by_name) call(hsa_executable_symbol_get_info) call(hsa_amd_agent_iterate_memory_pools) \
	call(hsa_amd_memory_pool_get_info) call(hsa_amd_memory_pool_allocate) call(hsa_amd_agents_allow_access)
// clang-format on

struct hsa {
	LIBRARY_API(HSA_CALLS)
};

/** As launch.s has them. */
struct launch_arguments {
	uint64_t address;
	uint32_t number, reserved;
	uint64_t flag, more;
};

/** The memory that the kernels write to: the arguments of each launch, and what they store. */
struct launch_room {
	struct launch_arguments arguments[LAUNCH_STORES + 1];
	_Atomic uint32_t stored[LAUNCH_STORES];
	_Alignas(64) _Atomic uint32_t begun;
	_Alignas(64) _Atomic uint32_t end;
};

struct launch_work {
	const struct launch_options *options;
	_Atomic uint32_t *go_on;
	int fd;
	struct hsa hsa;
	unsigned domain, location;
	hsa_handle gpu, cpu, pool, executable, done;
	struct amd_queue *queue;
	struct launch_room *room;
};

// --- the child ---

static void tell(const struct launch_work *l, char what, const char *text) { dprintf(l->fd, "%c%s\n", what, text); }

/** false: behind a line that says what failed. */
static bool succeeded(const struct launch_work *l, hsa_status status)
{
	if (status != HSA_OK)
		dprintf(l->fd, "Eerror 0x%x of the runtime\n", status);
	return status == HSA_OK;
}
#define STEP(name, call) (tell(l, 'S', (name)), succeeded(l, (call)))

static bool runtime_load(struct launch_work *l)
{
	const char *name = NULL;
	for (size_t i = 0; !l->hsa.library && i < ARRAY_SIZE(runtimes); i++) {
		_cleanup_error_ struct uh_error *refused = NULL;
		l->hsa.library = trust_load(name = runtimes[i], RTLD_NOW, &refused);
		if (refused)
			tell(l, 'E', refused->message);
	}
	if (!l->hsa.library || LIBRARY_LOAD(&l->hsa, HSA_CALLS, NULL))
		return false;
	tell(l, 'L', name);
	return true;
}

static hsa_status take_agent(hsa_handle agent, void *ctx)
{
	struct launch_work *l = ctx;
	uint32_t kind = UINT32_MAX, domain = 0, location = UINT32_MAX;
	l->hsa.hsa_agent_get_info(agent, AGENT_INFO_DEVICE, &kind);
	if (kind == DEVICE_CPU && !l->cpu)
		l->cpu = agent;
	if (kind != DEVICE_GPU)
		return HSA_OK;
	l->hsa.hsa_agent_get_info(agent, AGENT_INFO_BDF, &location);
	l->hsa.hsa_agent_get_info(agent, AGENT_INFO_DOMAIN, &domain);
	if (location == l->location && domain == l->domain && !l->gpu)
		l->gpu = agent;
	return HSA_OK;
}

static hsa_status take_pool(hsa_handle pool, void *ctx)
{
	struct launch_work *l = ctx;
	uint32_t flags = 0, segment = UINT32_MAX;
	l->hsa.hsa_amd_memory_pool_get_info(pool, POOL_INFO_SEGMENT, &segment);
	l->hsa.hsa_amd_memory_pool_get_info(pool, POOL_INFO_FLAGS, &flags);
	if (!segment && flags & POOL_KERNARG && !l->pool)
		l->pool = pool;
	return HSA_OK;
}

static const struct launch_code *launch_code_for(struct str gfx)
{
	const struct launch_code *c = launch_codes;
	while (c->part && !str_is(gfx, c->part))
		c++;
	return c->part ? c : NULL;
}

static bool code_load(struct launch_work *l)
{
	const struct launch_code *c = launch_code_for(l->options->gfx);
	hsa_handle reader;
	unsigned char *code = c ? malloc(c->size) : NULL; // stays where it is as long as it is loaded
	if (!code) {
		tell(l, 'E', "unhang was built without kernels for this part");
		return false;
	}
	memcpy(code, c->code, c->size);
	memcpy(code + ELF_FLAGS, &c->flags, sizeof(c->flags));
	return STEP("loading the kernels", l->hsa.hsa_code_object_reader_create_from_memory(code, c->size, &reader)) &&
	       STEP("loading the kernels", l->hsa.hsa_executable_create_alt(PROFILE_FULL, 0, NULL, &l->executable)) &&
	       STEP("loading the kernels",
		    l->hsa.hsa_executable_load_agent_code_object(l->executable, l->gpu, reader, NULL, NULL)) &&
	       STEP("loading the kernels", l->hsa.hsa_executable_freeze(l->executable, NULL));
}

static bool prepare(struct launch_work *l)
{
	if (!STEP(LAUNCH_STARTING, l->hsa.hsa_init()) || !STEP("looking for the GPU", l->hsa.hsa_iterate_agents(take_agent, l)))
		return false;
	if (!l->gpu || !l->cpu) {
		tell(l, 'E', "the runtime does not see this GPU");
		return false;
	}
	return STEP("looking for memory", l->hsa.hsa_amd_agent_iterate_memory_pools(l->cpu, take_pool, l)) &&
	       STEP("reserving memory", l->hsa.hsa_amd_memory_pool_allocate(
						l->pool, (sizeof(*l->room) + ROOM - 1) / ROOM * ROOM, 0, (void **)&l->room)) &&
	       STEP("reserving memory", l->hsa.hsa_amd_agents_allow_access(1, &l->gpu, NULL, l->room)) && code_load(l) &&
	       STEP("making a queue", l->hsa.hsa_queue_create(l->gpu, PACKETS, 0, NULL, NULL, UINT32_MAX, UINT32_MAX,
							      (struct hsa_queue **)&l->queue)) &&
	       STEP("making a signal", l->hsa.hsa_signal_create(0, 0, NULL, &l->done));
}

static uint64_t kernel_of(struct launch_work *l, const char *name)
{
	char symbol_name[64];
	hsa_handle symbol = 0;
	uint64_t kernel = 0;
	snprintf(symbol_name, sizeof(symbol_name), "%s.kd", name);
	if (succeeded(l, l->hsa.hsa_executable_get_symbol_by_name(l->executable, symbol_name, &l->gpu, &symbol)))
		l->hsa.hsa_executable_symbol_get_info(symbol, SYMBOL_INFO_KERNEL, &kernel);
	return kernel;
}

static void dispatch(struct launch_work *l, uint64_t kernel, const struct launch_arguments *arguments, uint32_t lanes,
		     hsa_handle done)
{
	const uint64_t index = l->queue->write_index;
	uint64_t *p = (uint64_t *)l->queue->hsa.base + index % l->queue->hsa.size * 8;
	const uint64_t packet[8] = { [1] = 1 | (uint64_t)lanes << 32,
				     [2] = 1 | UINT64_C(1) << 32,
				     [4] = kernel,
				     [5] = (uintptr_t)arguments,
				     [7] = done };
	memcpy(p + 1, packet + 1, sizeof(packet) - sizeof(packet[0]));
	__atomic_store_n(&p[0], DISPATCH | 1 << 16 | (uint64_t)LANES << 32 | UINT64_C(1) << 48, __ATOMIC_RELEASE);
	__atomic_store_n(&l->queue->write_index, index + 1, __ATOMIC_RELEASE);
	l->hsa.hsa_signal_store_screlease(l->queue->hsa.doorbell, (int64_t)index);
}

/** The parent's deadline ends a wait without end. */
static void wait_done(struct launch_work *l)
{
	while (l->hsa.hsa_signal_wait_scacquire(l->done, CONDITION_BELOW, 1, UINT64_MAX, 0) >= 1)
		;
}

static bool run_stores(struct launch_work *l)
{
	const uint64_t kernel = kernel_of(l, "unhang_test_store");
	tell(l, 'S', "running kernels that store a number");
	l->hsa.hsa_signal_store_screlease(l->done, 1);
	for (uint32_t i = 0; kernel && i < LAUNCH_STORES; i++) {
		struct launch_arguments *a = &l->room->arguments[i];
		*a = (struct launch_arguments){ .address = (uintptr_t)&l->room->stored[i], .number = i + 1 };
		dispatch(l, kernel, a, LANES, i + 1 == LAUNCH_STORES ? l->done : 0);
	}
	if (!kernel)
		return false;
	wait_done(l);
	for (uint32_t i = 0; i < LAUNCH_STORES; i++)
		if (l->room->stored[i] != i + 1) {
			dprintf(l->fd, "Ekernel %u of %d stored %u\n", i + 1, LAUNCH_STORES, l->room->stored[i]);
			return false;
		}
	tell(l, 'M', "stored");
	return true;
}

static void run_spin(struct launch_work *l)
{
	const uint64_t kernel = kernel_of(l, LAUNCH_SPIN);
	struct launch_arguments *a = &l->room->arguments[LAUNCH_STORES];
	tell(l, 'S', "running the kernel that spins");
	*a = (struct launch_arguments){ .address = (uintptr_t)&l->room->begun, .number = 1, .flag = (uintptr_t)&l->room->end };
	l->hsa.hsa_signal_store_screlease(l->done, 1);
	if (!kernel)
		return;
	dispatch(l, kernel, a, LANES * SPIN_WAVES, l->done);
	while (!l->room->begun)
		usleep(STEP_MS * 1000);
	tell(l, 'M', "spinning");
	while (!*l->go_on)
		usleep(STEP_MS * 1000);
	tell(l, 'S', "ending the kernel that spins");
	l->room->end = 1;
	wait_done(l);
	tell(l, 'M', "ended");
}

/** The address belongs to this process, and nothing is there: no other memory can be hit. The runtime aborts the process. */
static void run_fault(struct launch_work *l)
{
	const uint64_t kernel = kernel_of(l, LAUNCH_FAULT);
	void *nothing = mmap(NULL, 16 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!kernel || nothing == MAP_FAILED)
		return;
	const uint64_t address = ((uint64_t)(uintptr_t)nothing + (8 << 20)) & ~UINT64_C(0xfff);
	l->room->arguments[0] = (struct launch_arguments){ .address = address, .number = 1 };
	l->hsa.hsa_signal_store_screlease(l->done, 1);
	tell(l, 'S', "making a page fault");
	dprintf(l->fd, "A0x%llx\n", (unsigned long long)address);
	tell(l, 'M', "faulting");
	dispatch(l, kernel, &l->room->arguments[0], LANES, l->done);
	wait_done(l);
	tell(l, 'M', "no fault");
}

static void set_environment(const struct launch_options *o)
{
	char path[4096];
	if (o->handler)
		setenv("HSA_COREDUMP_PATTERN", o->handler, 1);
	if (!o->recorder)
		return;
	snprintf(path, sizeof(path), "%s/%%p.recording", o->recordings);
	setenv("HSA_TOOLS_LIB", o->recorder, 1);
	setenv("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1", 1); // else AMD's builds do not look at it
	setenv("UNHANG_RECORDING", path, 1);
	setenv("UNHANG_LEVEL", "1", 1);
	unsetenv("UNHANG_SUPERVISOR");
}

static void launch_child(int fd, const void *ctx)
{
	struct launch_work l = *(const struct launch_work *)ctx;
	int null = -1;
	l.fd = fd;
	child_keep_only(fd);
	do // else what the runtime prints goes to the first files that it opens
		null = open("/dev/null", O_RDWR);
	while (null >= 0 && null < STDERR_FILENO);
	// The runtime calls its handler unless the limit is 0; for a core of the processor's side one byte is too few.
	struct rlimit core = { 0 };
	getrlimit(RLIMIT_CORE, &core);
	core.rlim_cur = l.options->handler && core.rlim_max;
	setrlimit(RLIMIT_CORE, &core);
	set_environment(l.options);
	tell(&l, 'S', "loading the runtime");
	if (!runtime_load(&l))
		tell(&l, 'R', "");
	else if (prepare(&l)) {
		if (l.options->fault)
			run_fault(&l);
		else if (run_stores(&l))
			run_spin(&l);
	}
	_exit(0); // the runtime's own clean-up may wait for a GPU that hangs
}

// --- the parent ---

/** `0000:03:00.0` as the runtime numbers it. */
static void place_of(struct launch_work *l)
{
	struct str rest = l->options->pci;
	uint64_t parts[4] = { 0 };
	str_hex(str_split(&rest, ':'), &parts[0]);
	str_hex(str_split(&rest, ':'), &parts[1]);
	str_hex(str_split(&rest, '.'), &parts[2]);
	str_hex(rest, &parts[3]);
	l->domain = (unsigned)parts[0];
	l->location = (unsigned)(parts[1] << 8 | parts[2] << 3 | parts[3]);
}

bool launch_start(const struct launch_options *o, struct launch *ret)
{
	struct launch_work l = { .options = o };
	*ret = (struct launch){ .child.fd = -1, .deadline = now_ms() + o->milliseconds };
	if (!map_shared(&ret->shared, sizeof(_Atomic uint32_t)))
		return false;
	l.go_on = ret->shared.p;
	place_of(&l);
	return child_start(CHILD_SMOKE, launch_child, &l, &ret->child);
}

/** What the child has said by now. false: it has closed its end, or the time is up. */
static bool hear(struct launch *l)
{
	char room[4096];
	const int64_t left = l->deadline - now_ms();
	struct pollfd p = { .fd = l->child.fd, .events = POLLIN };
	if (left <= 0 || l->said.n > TEXT_MOST || poll(&p, 1, (int)left) <= 0)
		return false;
	const ssize_t n = read(l->child.fd, room, sizeof(room));
	if (n > 0)
		text_add(&l->said, (struct str){ room, (size_t)n });
	return n > 0;
}

static bool has_mark(const struct launch *l, const char *mark)
{
	struct str rest;
	str_each (line, text_str(&l->said), '\n')
		if (str_behind(line, S("M"), &rest) && str_is(rest, mark))
			return true;
	return false;
}

bool launch_wait(struct launch *l, const char *mark)
{
	while (!has_mark(l, mark))
		if (!hear(l))
			return false;
	return true;
}

void launch_go_on(struct launch *l) { *(_Atomic uint32_t *)l->shared.p = 1; }

bool launch_finish(struct launch *l)
{
	while (hear(l))
		;
	const bool ended = child_ended(&l->child);
	child_kill(&l->child, KILL_MS);
	return ended;
}

struct str launch_said(const struct launch *l, char letter)
{
	struct str found = { 0 };
	str_each (line, text_str(&l->said), '\n')
		if (line.n && line.p[0] == letter)
			found = str_from(line, 1);
	return found;
}

void launch_free(struct launch *l)
{
	child_drop(&l->child);
	map_free(&l->shared);
	text_free(&l->said);
}
