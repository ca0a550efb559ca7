// KFD's topology in sysfs: a node for the CPU and one for each GPU, with memory and links (kfd_topology.c, kfd_crat.c in the driver).
#include <sched.h>
#include <unistd.h>

#include "emulator/number.h"
#include "emulator/server.h"

/** A list of NAME NUMBER, as all of these files are. */
struct property {
	const char *name;
	uint64_t value;
};

static void build_properties(struct server *s, struct node *directory, const struct property *list, size_t n)
{
	struct text text = { 0 };
	for (size_t i = 0; i < n; i++)
		text_printf(&text, "%s %llu\n", list[i].name, (unsigned long long)list[i].value);
	tree_text(s, directory, "properties", text_str(&text));
	text_free(&text);
}
#define PROPERTIES(s, directory, list) build_properties(s, directory, list, ARRAY_SIZE(list))

// --- memory ---

static int fill_used(struct server *s, const struct node *n, struct text *ret)
{
	text_printf(ret, "%llu\n", (unsigned long long)emu_number(n->seat->gpu, EMU_VRAM_USED, server_time(s)));
	return 0;
}

/** @seat: NULL for the CPU. */
static void build_bank(struct server *s, struct node *node, struct seat *seat)
{
	enum { HEAP_SYSTEM, HEAP_PUBLIC }; // all of VRAM is visible here
	static const struct kind used_kind = { .fill = fill_used };
	const struct emu_facts *f = seat ? seat->facts : NULL;
	uint64_t size = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	if (f)
		size = f->apu ? f->gtt_total : f->vram_total; // an APU takes it from the host's
	struct node *bank = tree_directory(s, node, "mem_banks/0", 0755);
	const struct property list[] = {
		{ "heap_type", f ? HEAP_PUBLIC : HEAP_SYSTEM },
		{ "size_in_bytes", size },
		{ "flags", 0 },
		{ "width", f ? f->limits.memory_bus : 64 },
		{ "mem_clk_max", f ? f->limits.memory_clock : 3200 },
	};
	PROPERTIES(s, bank, list);
	if (seat)
		tree_file(s, bank, "used_memory", 0444, &used_kind)->seat = seat;
}

// --- links ---

static void build_link(struct server *s, struct node *links, unsigned from, unsigned to)
{
	enum { PCIE = 2, HOP = 20, ENABLED = 1, NOT_COHERENT = 2 };
	const bool peers = from && to; // then it leads over the CPU
	const struct property list[] = {
		{ "type", PCIE },
		{ "version_major", 0 },
		{ "version_minor", 0 },
		{ "node_from", from },
		{ "node_to", to },
		{ "weight", peers ? 2 * HOP : HOP },
		{ "min_latency", 0 },
		{ "max_latency", 0 },
		{ "min_bandwidth", 2500 / 8 },       // MB/s of a lane of 2.5 GT/s
		{ "max_bandwidth", 16 * 16000 / 8 }, // of 16 with 16 GT/s
		{ "recommended_transfer_size", 0 },
		{ "recommended_sdma_engine_id_mask", 0 },
		{ "flags", to ? ENABLED | NOT_COHERENT : ENABLED },
	};
	const char *number = arena_printf(&s->arena, "%zu", links->children.len).p;
	PROPERTIES(s, tree_directory(s, links, number, 0755), list);
}

/** The CPU has one to each GPU and each GPU one to the CPU; GPUs reach each other as peers, where both are cards. */
static void build_links(struct server *s, struct node *node, const struct seat *seat, size_t ret_counts[2])
{
	struct node *io = tree_directory(s, node, "io_links", 0755), *p2p = tree_directory(s, node, "p2p_links", 0755);
	if (seat)
		build_link(s, io, seat->facts->node, 0);
	for (size_t i = 0; i < s->nseats; i++) {
		const struct emu_facts *to = s->seats[i].facts;
		if (!seat)
			build_link(s, io, 0, to->node);
		else if (seat != &s->seats[i] && !seat->facts->apu && !to->apu)
			build_link(s, p2p, seat->facts->node, to->node);
	}
	ret_counts[0] = io->children.len;
	ret_counts[1] = p2p->children.len;
}

// --- nodes ---

static unsigned location_of(struct str pci, unsigned *ret_domain)
{
	unsigned bus = 0, device = 0, function = 0;
	char text[32];
	str_copy(text, sizeof(text), pci);
	*ret_domain = 0;
	return sscanf(text, "%x:%x:%x.%x", ret_domain, &bus, &device, &function) == 4 ? bus << 8 | device << 3 | function : 0;
}

static uint32_t firmware(const struct emu_gpu *g, const char *name)
{
	for (size_t i = 0; i < emu_firmwares(g); i++)
		if (str_is(emu_firmware(g, i).name, name))
			return emu_firmware(g, i).version;
	return 0;
}

/** Whether each wave is told of which dispatch it is: on MI200, and on gfx11 before version 70 of the scheduler firmware, only where the
 * program's runtime asks for it. */
static bool ttmps_always(const struct emu_gpu *g, struct gfx_version v)
{
	enum { MES_VERSION = 0xfff, MES_LEAST = 70 };
	const bool mi200 = v.major == 9 && !v.minor && v.stepping == 10;
	return v.major == 11 ? (firmware(g, "MES") & MES_VERSION) >= MES_LEAST : !mi200;
}

struct copy_engines {
	unsigned all, with_links, queues; // those for links between GPUs; queues of each for programs
};

/** With links between GPUs all but two are for these. From version 6 on the driver keeps two queues of each. */
static struct copy_engines copy_engines(const struct emu_facts *f)
{
	struct copy_engines e = { .queues = 8 };
	bool links = false;
	for (size_t i = 0; i < f->nips; i++) {
		const unsigned *v = f->ips[i].version;
		links |= str_is(f->ips[i].name, "xgmi");
		if (!str_starts(f->ips[i].name, S("sdma")))
			continue;
		e.all++;
		e.queues = v[0] >= 6 ? 6 : v[0] == 4 && !v[1] ? 2 : 8;
	}
	e.with_links = links && e.all > 2 ? e.all - 2 : 0;
	return e;
}

static void build_gpu_properties(struct server *s, struct node *node, const struct seat *seat, const size_t links[2])
{
	enum { WATCH_POINTS = 0x280, DOORBELLS_64 = 0x2000, TRAP_DEBUG = 0x8000, SVM = 0x8000000, REVISION_SHIFT = 22, TTMPS = 0x400 };
	const struct emu_facts *f = seat->facts;
	const struct shader_array *x = &f->shaders;
	const unsigned xccs = x->xccs ? x->xccs : 1;
	const unsigned simds = seat->gc_major >= 10 ? (f->simds_per_cu + 1) / 2 : f->simds_per_cu; // two CUs are a WGP
	const struct copy_engines e = copy_engines(f);
	const struct gfx_version gfx = emu_gfx_version(f->gfx);
	unsigned domain, location = location_of(f->pci, &domain);
	const struct property list[] = {
		{ "cpu_cores_count", 0 },
		{ "simd_count", emu_active_cus(seat->gpu) * simds },
		{ "mem_banks_count", 1 },
		{ "caches_count", 0 },
		{ "io_links_count", links[0] },
		{ "p2p_links_count", links[1] },
		{ "cpu_core_id_base", 0 },
		{ "simd_id_base", 0x80001000 },
		{ "max_waves_per_simd", f->slots_per_simd },
		{ "lds_size_in_kb", 64 },
		{ "gds_size_in_kb", 0 },
		{ "num_gws", 64 },
		{ "wave_front_size", seat->gc_major >= 10 ? 32 : 64 },
		{ "array_count", xccs * x->ses * x->shs_per_se },
		{ "simd_arrays_per_engine", x->shs_per_se },
		{ "cu_per_simd_array", x->cus_per_sh },
		{ "simd_per_cu", simds },
		{ "max_slots_scratch_cu", 32 },
		{ "gfx_target_version", gfx.major * 10000 + gfx.minor * 100 + gfx.stepping },
		{ "vendor_id", f->vendor },
		{ "device_id", f->device },
		{ "location_id", location },
		{ "domain", domain },
		{ "drm_render_minor", (unsigned)f->render },
		{ "hive_id", 0 },
		{ "num_sdma_engines", e.all - e.with_links },
		{ "num_sdma_xgmi_engines", e.with_links },
		{ "num_sdma_queues_per_engine", e.queues },
		{ "num_cp_queues", 24 },
		{ "max_engine_clk_fcompute", f->limits.clock },
		{ "local_mem_size", 0 },
		{ "fw_version", firmware(seat->gpu, "MEC") },
		{ "capability", WATCH_POINTS | DOORBELLS_64 | TRAP_DEBUG | SVM | (f->revision & 15) << REVISION_SHIFT },
		{ "debug_prop", ttmps_always(seat->gpu, gfx) ? TTMPS : 0 },
		{ "sdma_fw_version", firmware(seat->gpu, "SDMA0") },
		{ "unique_id", seat_unique_id(f) },
		{ "num_xcc", xccs },
		{ "max_engine_clk_ccompute", 0 },
	};
	PROPERTIES(s, node, list);
}

/** sysconf() would look into /sys, which is the emulator's own to answer for by now. */
static unsigned processors(void)
{
	cpu_set_t set;
	return sched_getaffinity(0, sizeof(set), &set) ? 1 : (unsigned)CPU_COUNT(&set);
}

static void build_cpu_properties(struct server *s, struct node *node, const size_t links[2])
{
	const struct property list[] = {
		{ "cpu_cores_count", processors() },
		{ "simd_count", 0 },
		{ "mem_banks_count", 1 },
		{ "caches_count", 0 },
		{ "io_links_count", links[0] },
		{ "p2p_links_count", links[1] },
		{ "gfx_target_version", 0 },
		{ "vendor_id", 0 },
		{ "device_id", 0 },
		{ "location_id", 0 },
		{ "domain", 0 },
		{ "drm_render_minor", 0 },
		{ "hive_id", 0 },
		{ "max_engine_clk_ccompute", 0 },
	};
	PROPERTIES(s, node, list);
}

static void build_node(struct server *s, struct node *nodes, struct seat *seat)
{
	const struct emu_facts *f = seat ? seat->facts : NULL;
	struct node *node = tree_directory(s, nodes, arena_printf(&s->arena, "%u", f ? f->node : 0).p, 0755);
	size_t links[2];
	tree_text(s, node, "gpu_id", arena_printf(&s->arena, "%u\n", f ? f->gpu_id : 0));
	tree_text(s, node, "name", f ? arena_printf(&s->arena, STR_FMT "\n", STR_ARG(f->chip)) : S("\n"));
	tree_directory(s, node, "caches", 0755);
	build_bank(s, node, seat);
	build_links(s, node, seat, links);
	if (seat)
		build_gpu_properties(s, node, seat, links);
	else
		build_cpu_properties(s, node, links);
}

void build_topology(struct server *s, struct node *kfd)
{
	tree_text(s, kfd, "topology/generation_id", S("2\n"));
	tree_text(s, kfd, "topology/system_properties", S("platform_oem 0\nplatform_id 0\nplatform_rev 0\n"));
	struct node *nodes = tree_directory(s, kfd, "topology/nodes", 0755);
	build_node(s, nodes, NULL);
	for (size_t i = 0; i < s->nseats; i++)
		build_node(s, nodes, &s->seats[i]);
}
