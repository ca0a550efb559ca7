// The door to the runtime: a tools library (HSA_TOOLS_LIB) is handed the runtime's tables of functions, and puts its own in their place.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "recorder/waits/waits.h"

/** Sizes of the extension's table at which its order changed: two functions were put in at place 16, and three at 47. */
enum { EXT_LEAST = 400, EXT_COPY_ENGINES = 456, ENGINES_AT = 16, ENGINES = 2, TABLE_HEAD = sizeof(struct hsa_table) };
/** The step of the extension's table that brought hsa_amd_queue_create, as released with ROCm 10; builds before it had others there. */
enum { STEP_QUEUES = 0x10 };

/** Places in the oldest table; those of functions that came later are counted in the newer one. */
static const struct ext_row {
	int place;
	bool newer;
	uint32_t step; // from which on it is there
} ext_rows[EXT_FUNCTIONS] = {
	[EXT_ASYNC_HANDLER] = { 7 },
	[EXT_WAIT_ANY] = { 9 },
	[EXT_POOL_GET_INFO] = { 11 },
	[EXT_ITERATE_POOLS] = { 12 },
	[EXT_POOL_ALLOCATE] = { 13 },
	[EXT_POOL_FREE] = { 14 },
	[EXT_ASYNC_COPY] = { 15 },
	[EXT_ASYNC_COPY_ON_ENGINE] = { 16, true },
	[EXT_ALLOW_ACCESS] = { 17 },
	[EXT_LOCK] = { 20 },
	[EXT_UNLOCK] = { 21 },
	[EXT_FILL] = { 22 },
	[EXT_INTEROP_MAP] = { 23 },
	[EXT_INTEROP_UNMAP] = { 24 },
	[EXT_POINTER_INFO] = { 26 },
	[EXT_IPC_ATTACH] = { 29 },
	[EXT_IPC_DETACH] = { 30 },
	[EXT_EVENT_HANDLER] = { 34 },
	[EXT_INTERCEPT_CREATE] = { 35 },
	[EXT_INTERCEPT_REGISTER] = { 36 },
	[EXT_ASYNC_COPY_RECT] = { 38 },
	[EXT_LOCK_TO_POOL] = { 40 },
	[EXT_SVM_SET] = { 44 },
	[EXT_VMEM_RESERVE] = { 55, true },
	[EXT_VMEM_FREE] = { 56, true },
	[EXT_VMEM_CREATE] = { 57, true },
	[EXT_VMEM_RELEASE] = { 58, true },
	[EXT_VMEM_MAP] = { 59, true },
	[EXT_VMEM_UNMAP] = { 60, true },
	[EXT_VMEM_SET_ACCESS] = { 61, true },
	[EXT_VMEM_RESERVE_ALIGN] = { 69, true },
	[EXT_CU_MASK] = { 10 },
	[EXT_PRIORITY] = { 37 },
	[EXT_QUEUES_CREATE] = { 86, true, STEP_QUEUES },
};

/** -1: this table does not have it. */
static int ext_place(int f, const struct hsa_table *ext)
{
	const struct ext_row *r = &ext_rows[f];
	const bool newer = ext->minor >= EXT_COPY_ENGINES;
	const int place = r->place + (newer && !r->newer && r->place >= ENGINES_AT ? ENGINES : 0);
	if ((r->newer && !newer) || ext->step < r->step)
		return -1;
	return TABLE_HEAD + ((uint32_t)place + 1) * sizeof(void *) <= ext->minor ? place : -1;
}

/** Whether the tables are as we know them. The sizes are what counts: a major version says little. */
static bool tables_known(const struct hsa_root *root)
{
	if (!root || root->minor < sizeof(*root) || !root->core || !root->ext)
		return rec_line("the runtime's table is not known (size %u); nothing is recorded", root ? root->minor : 0),
		       false;
	if (root->core->minor < TABLE_HEAD + CORE_LEAST * sizeof(void *) || root->core->minor > 1u << 16 ||
	    root->ext->minor < EXT_LEAST || root->ext->minor > 1u << 16)
		return rec_line("the runtime's tables have sizes that are not known (%u, %u); nothing is recorded",
				root->core->minor, root->ext->minor),
		       false;
	for (size_t i = 0; i < ncore_hooks; i++)
		if (!root->core->functions[core_hooks[i].place])
			return rec_line("the runtime's table has no function %d; nothing is recorded", core_hooks[i].place),
			       false;
	return true;
}

static void tables_keep(const struct hsa_root *root)
{
	for (size_t i = 0; i < CORE_KNOWN; i++)
		next.core[i] = TABLE_HEAD + (i + 1) * sizeof(void *) <= root->core->minor ? root->core->functions[i] : NULL;
	for (int f = 0; f < EXT_FUNCTIONS; f++) {
		const int place = ext_place(f, root->ext);
		next.ext[f] = place < 0 ? NULL : root->ext->functions[place];
	}
}

static void hooks_put(const struct hsa_root *root)
{
	for (size_t i = 0; i < ncore_hooks; i++)
		root->core->functions[core_hooks[i].place] = core_hooks[i].function;
	for (size_t i = 0; i < next_hooks; i++)
		if (next.ext[ext_hooks[i].place])
			root->ext->functions[ext_place(ext_hooks[i].place, root->ext)] = ext_hooks[i].function;
}

static void loader_find(void)
{
	hsa_status (*get)(uint16_t, uint16_t, size_t, void *) =
		(hsa_status(*)(uint16_t, uint16_t, size_t, void *))next.core[CORE_MAJOR_EXTENSION_TABLE];
	if (!get || get(EXTENSION_LOADER, 1, sizeof(rec.loader), &rec.loader) != HSA_OK)
		rec.loader = (struct hsa_loader){ 0 };
}

/** Called by the runtime, inside of hsa_init(). */
__attribute__((visibility("default"))) bool OnLoad(const struct hsa_root *root, uint64_t version, uint64_t failed,
						   const char *const *names);
bool OnLoad(const struct hsa_root *root, uint64_t version, uint64_t failed, const char *const *names)
{
	(void)failed;
	(void)names;
	if (!tables_known(root))
		return true; // false would make the runtime complain, too
	if (root->core->functions[CORE_SIGNAL_STORE_SCRELEASE] == (void *)hook_store_screlease)
		return true; // found twice by one runtime: by HSA_TOOLS_LIB and because it is preloaded
	if (rec.core && rec.core != root->core) {
		rec_line("a second HSA runtime in this process; it is not recorded");
		return true;
	}
	if (!rec_start())
		return true;
	tables_keep(root);
	waits_begin();
	rec.header->runtime_major = (uint32_t)version;
	rec.header->core_size = root->core->minor;
	rec.header->ext_size = root->ext->minor;
	loader_find();
	agents_note();
	faults_watch();
	rec.core = root->core;
	hooks_put(root);
	event_at(thread_here(), CALL_INIT, rec_ticks(), HSA_OK, (uint64_t[4]){ version, root->core->minor, root->ext->minor });
	__atomic_store_n(&rec.header->state, RECORDING_ON, __ATOMIC_RELEASE);
	sampler_start();
	return true;
}

/** The runtime is being shut down; it may be started again. */
__attribute__((visibility("default"))) void OnUnload(void);
void OnUnload(void)
{
	if (!atomic_load(&rec.on) || rec.pid != getpid())
		return;
	reading_end();
	waits_end();
	pthread_mutex_lock(&rec.lock);
	queues_end();
	pthread_mutex_unlock(&rec.lock);
	event_at(thread_here(), CALL_SHUT_DOWN, rec_ticks(), HSA_OK, (uint64_t[4]){ 0 });
	rec.core = NULL;
	rec_end();
}

/** Newer runtimes find a preloaded tools library by this name. */
__attribute__((visibility("default"))) extern const uint32_t HSA_AMD_TOOL_PRIORITY;
const uint32_t HSA_AMD_TOOL_PRIORITY = 50;

/** Preloaded (LD_PRELOAD): runtimes that do not look for preloaded tools, or that leave HSA_TOOLS_LIB alone once rocprofiler is there, are
 * told of us. This is the fallback for programs that overwrite HSA_TOOLS_LIB. */
static __attribute__((constructor)) void preloaded(void)
{
	const char *preload = getenv("LD_PRELOAD"), *tools = getenv("HSA_TOOLS_LIB");
	char list[4096];
	Dl_info self;
	if (!preload || !strstr(preload, "libunhang-recorder.so"))
		return;
	setenv("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1", 0);
	if ((tools && strstr(tools, "libunhang-recorder.so")) || !dladdr((void *)preloaded, &self) || !self.dli_fname)
		return;
	const int n = snprintf(list, sizeof(list), "%s%s%s", tools ? tools : "", tools && *tools ? " " : "", self.dli_fname);
	if (n < 0 || n >= (int)sizeof(list))
		return;
	setenv("HSA_TOOLS_LIB", list, 1);
}
