// The files of sysfs that runtimes read: KFD's topology as the plan has it, and which render node is whose.
#include "emulator/preload/state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "emulator/number.h"

enum { HEAP_SYSTEM, HEAP_PUBLIC, HEAP_PRIVATE };
enum { MHZ = 1700, AMD = 0x1002, GPU_CACHES = 2, PCIE = 2, HOP = 20, FIRST_RENDER = 128 };

struct kmt_property {
	const char *name;
	uint64_t value;
};

static void properties(struct text *ret, const struct kmt_property *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		text_printf(ret, "%s %llu\n", list[i].name, (unsigned long long)list[i].value);
}
#define PROPERTIES(ret, ...)                                                                                                   \
	properties(ret, (const struct kmt_property[]){ __VA_ARGS__ },                                                          \
		   sizeof((const struct kmt_property[]){ __VA_ARGS__ }) / sizeof(struct kmt_property))

static const struct plan_gpu *gpu_of_node(const struct kmt *t, uint64_t node)
{
	for (size_t i = 0; i < t->plan.ngpus; i++)
		if (t->plan.gpus[i].node == node)
			return &t->plan.gpus[i];
	return NULL;
}

/** Each GPU has a link to the CPU and the CPU one to each GPU whose VRAM it may reach; GPUs reach each other as peers. */
static size_t links_of(const struct kmt *t, const struct plan_gpu *g, bool peers)
{
	if (peers)
		return g ? t->plan.ngpus - 1 : 0;
	return g ? 1 : t->plan.closed ? 0 : t->plan.ngpus;
}

static void tell_cpu(const struct kmt *t, struct text *ret)
{
	PROPERTIES(ret, { "cpu_cores_count", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN) }, { "simd_count", 0 },
		   { "mem_banks_count", 1 }, { "caches_count", 0 }, { "io_links_count", links_of(t, NULL, false) },
		   { "p2p_links_count", 0 }, { "gfx_target_version", 0 }, { "max_engine_clk_ccompute", MHZ });
}

static void tell_gpu(const struct kmt *t, const struct plan_gpu *g, struct text *ret)
{
	enum {
		DOORBELLS_64 = 0x2000,
		TRAP_DEBUG = 0x8000,
		SVM = 0x8000000,
		TRAP_FIRMWARE = 0x20000000,
		REVISION_SHIFT = 22,
		FIRMWARE = 100
	};
	PROPERTIES(
		ret, { "cpu_cores_count", 0 }, { "simd_count", g->engines * g->arrays * g->cus * g->simds },
		{ "mem_banks_count", 1 }, { "caches_count", GPU_CACHES }, { "io_links_count", links_of(t, g, false) },
		{ "p2p_links_count", links_of(t, g, true) }, { "simd_id_base", 0x80001000 }, { "max_waves_per_simd", g->waves },
		{ "lds_size_in_kb", lds_kb_of(g) }, { "gds_size_in_kb", 0 }, { "num_gws", 64 },
		{ "wave_front_size", target_of(g) < 100000 ? 64 : 32 }, { "array_count", g->engines * g->arrays },
		{ "simd_arrays_per_engine", g->arrays }, { "cu_per_simd_array", g->cus }, { "simd_per_cu", g->simds },
		{ "max_slots_scratch_cu", 32 }, { "gfx_target_version", target_of(g) }, { "vendor_id", AMD },
		{ "device_id", g->device }, { "location_id", g->location }, { "domain", g->domain },
		{ "drm_render_minor", (unsigned)g->render }, { "hive_id", 0 }, { "num_sdma_engines", 0 },
		{ "num_sdma_xgmi_engines", 0 }, { "num_sdma_queues_per_engine", 0 }, { "num_cp_queues", 24 },
		{ "max_engine_clk_fcompute", MHZ }, { "local_mem_size", 0 }, { "fw_version", FIRMWARE },
		{ "capability", DOORBELLS_64 | TRAP_DEBUG | SVM | TRAP_FIRMWARE | g->revision << REVISION_SHIFT },
		{ "debug_prop", 0 }, { "sdma_fw_version", FIRMWARE }, { "unique_id", UINT64_C(0x8b3f51a0c47e0000) + g->node },
		{ "num_xcc", 1 }, { "max_engine_clk_ccompute", MHZ });
}

static void tell_bank(const struct kmt *t, const struct plan_gpu *g, struct text *ret)
{
	const uint64_t host = (uint64_t)sysconf(_SC_PHYS_PAGES) * KMT_PAGE;
	PROPERTIES(ret,
		   { "heap_type", !g             ? HEAP_SYSTEM :
				  t->plan.closed ? HEAP_PRIVATE :
						   HEAP_PUBLIC },
		   { "size_in_bytes", g ? g->vram : host }, { "flags", 0 }, { "width", g ? 4096 : 64 },
		   { "mem_clk_max", 1600 });
}

static void tell_cache(uint64_t number, struct text *ret)
{
	enum { DATA = 1, OF_GPU = 8 };
	PROPERTIES(ret, { "processor_id_low", 0x80001000 }, { "level", number + 1 }, { "size", number ? 8192 : 16 },
		   { "cache_line_size", 64 }, { "cache_lines_per_tag", 1 }, { "association", 16 }, { "latency", 0 },
		   { "type", DATA | OF_GPU });
	text_add(ret, S("sibling_map 1\n"));
}

static bool tell_link(const struct kmt *t, const struct plan_gpu *g, bool peers, uint64_t number, struct text *ret)
{
	const unsigned from = g ? g->node : 0;
	unsigned to = 0;
	if (number >= links_of(t, g, peers))
		return false;
	if (!g || peers)
		to = t->plan.gpus[number + (peers && number >= (uint64_t)(g - t->plan.gpus))].node; // all but itself
	PROPERTIES(ret, { "type", PCIE }, { "version_major", 0 }, { "version_minor", 0 }, { "node_from", from },
		   { "node_to", to }, { "weight", peers ? 2 * HOP : HOP }, { "min_latency", 0 }, { "max_latency", 0 },
		   { "min_bandwidth", 0 }, { "max_bandwidth", 0 }, { "recommended_transfer_size", 0 }, { "flags", 1 });
	return true;
}

/** "12/rest": the number, and what is behind it. */
static bool number(struct str *rest, uint64_t *ret) { return emu_number_of(str_split(rest, '/'), ret); }

static enum kmt_file look_at_node(const struct kmt *t, struct str rest, struct text *ret)
{
	uint64_t node, n;
	if (!number(&rest, &node) || (node && !gpu_of_node(t, node)))
		return KMT_NO_FILE;
	const struct plan_gpu *g = gpu_of_node(t, node);
	if (!rest.n)
		return KMT_DIRECTORY;
	const struct {
		const char *name;
		size_t entries;
	} directories[] = { { "mem_banks", 1 },
			    { "caches", g ? GPU_CACHES : 0 },
			    { "io_links", links_of(t, g, false) },
			    { "p2p_links", links_of(t, g, true) } };
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++)
		if (str_is(rest, directories[i].name)) {
			for (size_t entry = 0; entry < directories[i].entries; entry++)
				text_printf(ret, "%zu\n", entry);
			return KMT_DIRECTORY;
		}
	if (str_is(rest, "gpu_id"))
		text_printf(ret, "%u\n", g ? g->id : 0);
	else if (str_is(rest, "name"))
		text_printf(ret, "%s\n", g ? g->gfx : "");
	else if (str_is(rest, "properties") && g)
		tell_gpu(t, g, ret);
	else if (str_is(rest, "properties"))
		tell_cpu(t, ret);
	else if (str_is(rest, "mem_banks/0/properties"))
		tell_bank(t, g, ret);
	else if (str_behind(rest, S("caches/"), &rest) && number(&rest, &n) && g && n < GPU_CACHES &&
		 str_is(rest, "properties"))
		tell_cache(n, ret);
	else {
		const bool peers = str_starts(rest, S("p2p_links/"));
		if (!peers && !str_starts(rest, S("io_links/")))
			return KMT_NO_FILE;
		str_split(&rest, '/');
		return number(&rest, &n) && tell_link(t, g, peers, n, ret) ? KMT_FILE : KMT_NO_FILE;
	}
	return KMT_FILE;
}

static enum kmt_file look_at_topology(const struct kmt *t, struct str rest, struct text *ret)
{
	if (str_is(rest, "generation_id"))
		text_add(ret, S("2\n"));
	else if (str_is(rest, "system_properties"))
		text_add(ret, S("platform_oem 0\nplatform_id 0\nplatform_rev 0\n"));
	else if (str_behind(rest, S("nodes/"), &rest) && rest.n)
		return look_at_node(t, rest, ret);
	else if (!str_is(rest, "nodes") && rest.n)
		return KMT_NO_FILE;
	else {
		text_add(ret, S("0\n"));
		for (size_t i = 0; i < t->plan.ngpus; i++)
			text_printf(ret, "%u\n", t->plan.gpus[i].node);
		return KMT_DIRECTORY;
	}
	return KMT_FILE;
}

/** /sys/dev/char/226:N/device/drm, by which libdrm finds the nodes of one GPU. */
static enum kmt_file look_at_drm(const struct kmt *t, struct str rest, struct text *ret)
{
	uint64_t minor;
	struct str word = str_split(&rest, '/');
	if (!emu_number_of(word, &minor))
		return KMT_NO_FILE;
	for (size_t i = 0; i < t->plan.ngpus; i++) {
		const unsigned render = (unsigned)t->plan.gpus[i].render;
		char name[32];
		snprintf(name, sizeof(name), "device/drm/renderD%u", render);
		if (render != minor)
			continue;
		if (str_is(rest, "device/drm"))
			text_printf(ret, "card%u\nrenderD%u\n", render - FIRST_RENDER, render);
		return !rest.n || str_is(rest, "device/drm") || str_is(rest, "device") || str_is(rest, name) ? KMT_DIRECTORY :
													       KMT_NO_FILE;
	}
	return KMT_NO_FILE;
}

/** libdrm's table of names: in it those of the plan. The second number is the revision, by which render.c tells GPUs of one kind apart. */
static enum kmt_file tell_names(const struct kmt *t, struct text *ret)
{
	text_add(ret, S("1.0.0\n"));
	for (size_t i = 0; i < t->plan.ngpus; i++) {
		const struct plan_gpu *g = &t->plan.gpus[i];
		text_printf(ret, "%X,\t%X,\t%s\n", g->device, (unsigned)i, g->name[0] ? g->name : g->gfx);
	}
	return KMT_FILE;
}

void files_maps(struct text *ret)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : 1;
	while (n > 0 && (n = read(fd, text_room(ret, KMT_PAGE), KMT_PAGE)) > 0)
		ret->n += (size_t)n;
	if (fd >= 0)
		syscall(SYS_close, fd);
}

/** The program's memory, with render nodes where our file is in their place: the runtime's core writer looks for these. */
static enum kmt_file tell_maps(struct kmt *t, struct text *ret)
{
	struct text text = { 0 };
	files_maps(&text);
	struct str rest = text_str(&text);
	pthread_rwlock_rdlock(&t->memory);
	while (rest.n) {
		const struct str line = str_split(&rest, '\n');
		const ptrdiff_t name = str_find(line, S("/memfd:" KMT_FILE_NAME));
		const struct kmt_block *b = name >= 0 ? memory_block(t, strtoull(line.p, NULL, 16)) : NULL;
		if (b && !(b->flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL))
			text_printf(ret, STR_FMT "/dev/dri/renderD%d\n", STR_ARG(str_cut(line, (size_t)name)), b->gpu->render);
		else
			text_printf(ret, STR_FMT "\n", STR_ARG(line));
	}
	pthread_rwlock_unlock(&t->memory);
	text_free(&text);
	return KMT_FILE;
}

enum kmt_file files_look(struct kmt *t, const char *path, struct text *ret)
{
	struct str rest = str_z(path);
	if (str_ends(rest, S("/amdgpu.ids")))
		return tell_names(t, ret);
	if (str_is(rest, "/proc/self/maps"))
		return tell_maps(t, ret);
	if (str_behind(rest, S("/sys/devices/virtual/kfd/kfd/topology"), &rest) ||
	    str_behind(rest, S("/sys/class/kfd/kfd/topology"), &rest))
		return look_at_topology(t, str_from(rest, 1), ret);
	if (str_behind(rest, S("/sys/dev/char/226:"), &rest))
		return look_at_drm(t, rest, ret);
	if (str_is(rest, "/sys/module/amdgpu/initstate"))
		text_add(ret, S("live\n"));
	else if (str_is(rest, "/proc/modules")) // rocminfo asks there for the driver
		text_add(ret, S("amdgpu 14000000 1 - Live 0x0000000000000000\n"));
	else
		return KMT_NO_FILE;
	return KMT_FILE;
}
