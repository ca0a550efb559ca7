// What is known of each GPU, as facts. All files of a round are asked for first and read by one child for each GPU, so that a GPU that
// hangs costs only its own facts; the second round asks for what the first one named.
#include "host/gpus.h"

#include <stdlib.h>

enum { ASK_MS = 700, FIRMWARE_SIZE = 1 << 14, MB = 1 << 20 };

size_t ask(struct asks *to, enum probe_kind kind, struct str path, size_t size)
{
	vec_push(&to->probes, ((struct probe){ .kind = kind, .path = path.p, .size = size }));
	return to->probes.len - 1;
}

size_t ask_gpu(struct gpu_looks *l, struct gpu_look *g, enum probe_kind kind, const char *file, size_t size)
{
	return ask(&g->asks, kind, arena_printf(&l->h->arena, STR_FMT "/%s", STR_ARG(g->d->sysfs), file), size);
}

struct str answer_text(const struct asks *a, size_t index)
{
	return index < a->probes.len ? str_trim(probe_text(&a->probes.data[index])) : (struct str){ 0 };
}

int64_t answer_number(const struct asks *a, size_t index)
{
	int64_t number;
	return str_number(answer_text(a, index), &number) ? number : -1;
}

struct str answer_place(const struct asks *a, size_t index)
{
	return index < a->probes.len ? str_z(a->probes.data[index].path) : (struct str){ 0 };
}

/** Files of a tree wait for nothing: one child reads all. Here each GPU has its own. */
static void run_asks(struct gpu_looks *l)
{
	struct host *h = l->h;
	struct probe_batch *batches = arena_alloc(&h->arena, (l->n + 1) * sizeof(*batches));
	size_t all = l->machine.probes.len, at = 0;
	for (size_t n = 0; n < l->n; n++)
		all += l->list[n].asks.probes.len;
	struct probe *probes = arena_alloc(&h->arena, all * sizeof(*probes) + 1);
	for (size_t n = 0; n <= l->n; n++) {
		const struct asks *a = n < l->n ? &l->list[n].asks : &l->machine;
		batches[n] = (struct probe_batch){ .probes = probes + at, .n = a->probes.len, .root = h->root };
		if (a->probes.len)
			memcpy(probes + at, a->probes.data, a->probes.len * sizeof(*probes));
		at += a->probes.len;
	}
	struct probe_batch together = { .probes = probes, .n = all, .root = h->root };
	probe_run_all(&h->arena, h->root ? &together : batches, h->root ? 1 : l->n + 1, ASK_MS, &h->count);
	for (size_t n = 0; n <= l->n; n++) {
		struct asks *a = n < l->n ? &l->list[n].asks : &l->machine;
		*(n < l->n ? &l->list[n].doubt : &l->doubt) |= host_note_ends(h, batches[n].probes, a->probes.len);
		if (a->probes.len)
			memcpy(a->probes.data, batches[n].probes, a->probes.len * sizeof(*probes));
		if (n < l->n && batches[n].stuck.is)
			l->list[n].stuck = batches[n].stuck;
	}
}

/** Sets the doubt for the facts that follow: facts of the machine, of one GPU, or of all GPUs together. */
static void of_machine(struct gpu_looks *l) { l->h->doubt = l->doubt; }
static void gpus_of_gpu(struct gpu_looks *l, const struct gpu_look *g) { l->h->doubt = l->doubt || g->doubt; }
static void of_all(struct gpu_looks *l)
{
	of_machine(l);
	for (size_t n = 0; n < l->n; n++)
		l->h->doubt |= l->list[n].doubt;
}

// --- what a file says is a fact ---

/** Files whose text is a fact. The last may wait for the driver, and wakes a GPU that sleeps. */
static const struct {
	const char *file, *fact;
} plain[] = {
	{ "boot_vga", "boot_vga" },
	{ "power/control", "runpm" },
	{ "available_compute_partition", "available_compute_partition" },
	{ "link/l1_aspm", "l1_aspm" },
	{ "power_dpm_force_performance_level", "dpm_level" },
};
enum {
	PLAIN = ARRAY_SIZE(plain),
	AT_GROUP = 0,
	AT_TYPE,
	AT_CARD,
	AT_RESOURCE,
	AT_VISIBLE,
	AT_RAS,
	AT_LINKS,
	AT_FIRMWARE,
	AT_PLAIN,
};

/** Files whose names are known. What a directory names is asked for in the second round. */
static void ask_first(struct gpu_looks *l, struct gpu_look *g)
{
	struct arena *a = &l->h->arena;
	const struct device *d = g->d;
	ask_gpu(l, g, PROBE_LINK, "iommu_group", 1024);
	ask_gpu(l, g, PROBE_FILE, "iommu_group/type", 64);
	ask_gpu(l, g, PROBE_LIST, arena_printf(a, "drm/card%d", d->card < 0 ? 0 : d->card).p, 1 << 14);
	ask_gpu(l, g, PROBE_FILE, "resource", 0);
	ask_gpu(l, g, PROBE_FILE, "mem_info_vis_vram_total", 64);
	ask_gpu(l, g, PROBE_LIST, "ras", 0);
	ask(&g->asks, PROBE_LIST,
	    arena_printf(a, "/sys/class/kfd/kfd/topology/nodes/%lld/io_links", (long long)(d->kfd_node < 0 ? 0 : d->kfd_node)),
	    0);
	ask(&g->asks, PROBE_FILE,
	    arena_printf(a, STR_FMT "/amdgpu_firmware_info",
			 STR_ARG(d->debugfs.n ? d->debugfs : S("/sys/kernel/debug/dri/none"))),
	    FIRMWARE_SIZE);
	size_t most = device_awake(d) ? PLAIN : PLAIN - 1;
	for (size_t n = 0; n < most; n++)
		ask_gpu(l, g, PROBE_FILE, plain[n].file, 256);
}

static void note_text(struct gpu_looks *l, struct gpu_look *g, const char *fact, struct str value, const char *file)
{
	host_note_said(l->h, g->item, fact, str_trim(value),
		       arena_printf(&l->h->arena, STR_FMT "/%s", STR_ARG(g->d->sysfs), file));
}

// --- the aperture ---

/** The largest of the first six lines `START END FLAGS` that is memory which may be read ahead. */
static int64_t largest_bar(struct str resource)
{
	enum { PREFETCH = 0x2000, BARS = 6 };
	uint64_t most = 0;
	for (unsigned n = 0; n < BARS && resource.n; n++) {
		struct str line = str_split(&resource, '\n');
		struct str first = str_word(&line), last = str_word(&line), flags = str_word(&line), digits;
		uint64_t start, end, bits;
		if (!str_behind(first, S("0x"), &digits) || !str_hex(digits, &start) || !str_behind(last, S("0x"), &digits) ||
		    !str_hex(digits, &end) || !str_behind(flags, S("0x"), &digits) || !str_hex(digits, &bits))
			return -1;
		if (bits & PREFETCH && end > start && end - start > most)
			most = end - start;
	}
	return most && most < INT64_MAX ? (int64_t)most + 1 : -1;
}

// --- firmware ---

/** `RLC SRLC` is fw_rlc_srlc; what the driver calls SMC, its messages and everybody else call SMU. */
static void note_firmware(struct gpu_looks *l, struct gpu_look *g, struct str engine, uint32_t version, struct str where)
{
	struct arena *a = &l->h->arena;
	if (str_is(engine, "SMC"))
		engine = S("SMU");
	char *name = arena_z(a, arena_printf(a, "fw_" STR_FMT, STR_ARG(engine)));
	for (char *c = name; *c; c++)
		*c = *c == ' ' ? '_' : *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
	if (!host_says(g->item, name, (struct str){ 0 }))
		host_note_said(l->h, g->item, name, arena_printf(a, "0x%x", version), where);
}

// --- the GPU itself ---

/** What was found when the GPUs were listed is a fact as well; here it gets its place. */
static void note_device(struct gpu_looks *l, struct gpu_look *g)
{
	const struct device *d = g->d;
	struct host *h = l->h;
	bool doubt = h->doubt;
	h->doubt = d->identity_unread;
	host_note(h, g->item, "pci", d->pci, d->sysfs);
	host_note(h, g->item, "part", d->name.n ? d->name : arena_printf(&h->arena, "AMD GPU %04x:%04x", d->vendor, d->device),
		  d->sysfs);
	host_note(h, g->item, "gfx", d->gfx, d->sysfs);
	host_note(h, g->item, "apu", d->apu ? S("yes") : S("no"), d->sysfs);
	host_note(h, g->item, "guest", d->guest ? S("yes") : S("no"), d->sysfs);
	h->doubt = doubt;
	note_text(l, g, "vbios", d->vbios, "vbios_version");
	note_text(l, g, "runtime_status", d->runtime_status, "power/runtime_status");
	note_text(l, g, "compute_partition", d->compute_partition, "current_compute_partition");
	note_text(l, g, "memory_partition", d->memory_partition, "current_memory_partition");
	note_text(l, g, "hive", d->hive, "xgmi_hive_info/xgmi_hive_id");
	if (d->busy >= 0)
		note_text(l, g, "gpu_busy", arena_printf(&h->arena, "%lld", (long long)d->busy), "gpu_busy_percent");
	if (d->off_bus)
		note_text(l, g, "off_bus", S("yes"), "config");
	// Bound to nothing, or to another driver: then nothing else of it can be read.
	if (d->driver_known && !str_is(d->driver, "amdgpu") && d->card < 0 && d->kfd_node < 0 && d->vram_total < 0 &&
	    !d->nfirmware)
		host_note(l->h, g->item, "unbound", d->driver.n ? d->driver : S("none"),
			  arena_printf(&l->h->arena, STR_FMT "/driver", STR_ARG(d->sysfs)));
	if (str_is(d->driver, "amdgpu") && l->h->devices.kfd_known)
		host_note(l->h, g->item, "kfd", d->kfd_node < 0 ? S("no") : S("yes"), S("/sys/class/kfd/kfd/topology/nodes"));
}

static void note_first(struct gpu_looks *l, struct gpu_look *g)
{
	const struct device *d = g->d;
	gpus_of_gpu(l, g);
	note_device(l, g);
	for (size_t n = 0; n < PLAIN && AT_PLAIN + n < g->asks.probes.len; n++)
		host_note_said(l->h, g->item, plain[n].fact, answer_text(&g->asks, AT_PLAIN + n),
			       answer_place(&g->asks, AT_PLAIN + n));
	// Not of an APU: its memory is the machine's own.
	int64_t visible = answer_number(&g->asks, AT_VISIBLE);
	size_t from = visible > 0 ? AT_VISIBLE : AT_RESOURCE;
	visible = visible > 0 ? visible : largest_bar(answer_text(&g->asks, AT_RESOURCE));
	if (d->vram_total > 0)
		note_text(l, g, "vram_mb", arena_printf(&l->h->arena, "%lld", (long long)d->vram_total / MB),
			  "mem_info_vram_total");
	if (!d->apu && !d->off_bus && visible > 0 && d->vram_total > 0) {
		host_note_number(l->h, g->item, "bar_visible_mb", visible / MB, answer_place(&g->asks, from));
		host_note(l->h, g->item, "bar", visible >= d->vram_total ? S("full") : S("small"),
			  answer_place(&g->asks, from));
	}
	struct firmware f;
	str_each (line, answer_text(&g->asks, AT_FIRMWARE), '\n')
		if (firmware_info_line(line, &f))
			note_firmware(l, g, f.name, f.version, answer_place(&g->asks, AT_FIRMWARE));
	for (size_t n = 0; n < d->nfirmware; n++)
		note_firmware(l, g, d->firmware[n].name, d->firmware[n].version,
			      arena_printf(&l->h->arena, STR_FMT "/fw_version", STR_ARG(d->sysfs)));
	iommu_note(l, g, answer_text(&g->asks, AT_TYPE), answer_place(&g->asks, AT_TYPE));
	g->grouped = answer_text(&g->asks, AT_GROUP).n || g->iommu.n;
	g->connectors = answer_text(&g->asks, AT_CARD);
	g->ras = answer_text(&g->asks, AT_RAS);
	g->links = d->kfd_node < 0 ? (struct str){ 0 } : answer_text(&g->asks, AT_LINKS);
}

/** `SPX/NPS1`. */
static struct str mode_of(struct gpu_looks *l, const struct device *d)
{
	struct str mode = str_trim(d->compute_partition), memory = str_trim(d->memory_partition);
	return mode.n && memory.n ? arena_printf(&l->h->arena, STR_FMT "/" STR_FMT, STR_ARG(mode), STR_ARG(memory)) : mode;
}

/** Modes that GPUs are in, each once, and how many there are. */
static void note_modes(struct gpu_looks *l)
{
	struct host_item *m = host_machine(l->h);
	struct str *modes = arena_alloc(&l->h->arena, l->n * sizeof(*modes) + 1);
	int64_t count = 0;
	for (size_t n = 0; n < l->n; n++) {
		const struct device *d = l->list[n].d;
		struct str mode = modes[n] = mode_of(l, d);
		if (!mode.n || host_says(m, "partition_modes", mode))
			continue;
		count++;
		host_note(l->h, m, "partition_modes", mode,
			  arena_printf(&l->h->arena, STR_FMT "/current_compute_partition", STR_ARG(d->sysfs)));
	}
	if (count)
		host_note_number(l->h, m, "partition_mode_count", count, S("/sys/bus/pci/devices"));
	// The mode that most are in, and which GPUs are in another.
	_cleanup_text_ struct text odd = { 0 };
	size_t best = 0, most = 0;
	for (size_t n = 0; n < l->n; n++) {
		size_t same = 0;
		for (size_t o = 0; o < l->n; o++)
			same += modes[n].n && str_eq(modes[o], modes[n]);
		if (same > most) {
			most = same;
			best = n;
		}
	}
	for (size_t n = 0; n < l->n; n++)
		if (modes[n].n && !str_eq(modes[n], modes[best]))
			text_printf(&odd, "%s" STR_FMT " is in " STR_FMT, odd.n ? ", " : "", STR_ARG(l->list[n].d->pci),
				    STR_ARG(modes[n]));
	if (odd.n)
		host_note(l->h, host_machine(l->h), "partition_usual", modes[best], l->list[best].d->sysfs);
	host_note(l->h, host_machine(l->h), "partition_odd", text_str(&odd), S("/sys/bus/pci/devices"));
}

/** Files that the first round named: those of connectors, of counters and of the way to the root complex. */
static void second_round(struct gpu_looks *l)
{
	l->machine.probes.len = 0;
	for (size_t n = 0; n < l->n; n++)
		l->list[n].asks.probes.len = 0;
	for (size_t n = 0; n < l->n; n++) {
		struct gpu_look *g = &l->list[n];
		displays_ask(l, g);
		xgmi_ask(l, g);
		if (g->stuck.is)
			continue;
		links_ask(l, g);
		metrics_ask(l, g);
		errors_ask(l, g); // the list of bad pages waits for a recovery
	}
	run_asks(l);
	of_all(l);
	xgmi_note(l);
	for (size_t n = 0; n < l->n; n++) {
		struct gpu_look *g = &l->list[n];
		gpus_of_gpu(l, g);
		g->item->doubt |= l->h->doubt;
		displays_note(l, g);
		errors_note(l, g);
		links_note(l, g);
		metrics_note(l, g);
		// Notes the file that does not answer, and the kernel function in which its reader waits.
		struct str stack = g->stuck.stack, inner = str_split(&stack, '\n');
		host_note_said(l->h, g->item, "stuck", g->stuck.at, g->stuck.at);
		host_note_said(l->h, g->item, "stuck_in", inner.n ? inner : g->stuck.wchan, g->stuck.at);
	}
}

/** What is said of all GPUs together, and may be missing because of one. */
static void note_all(struct gpu_looks *l)
{
	static const char *const names[] = { "gpus",          "apus",
					     "dgpus",         "igpu_and_dgpu",
					     "hive_size",     "partition_modes",
					     "partition_odd", "partition_usual",
					     "display_on",    "iommu",
					     "vram_gb",       "partition_mode_count" };
	of_all(l);
	struct host_item *m = host_machine(l->h);
	struct str where = S("/sys/bus/pci/devices");
	int64_t apus = 0;
	for (size_t n = 0; n < l->n; n++)
		apus += l->list[n].d->apu;
	host_note_number(l->h, m, "gpus", (int64_t)l->n, where);
	host_note_number(l->h, m, "apus", apus, where);
	host_note_number(l->h, m, "dgpus", (int64_t)l->n - apus, where);
	if (apus && apus < (int64_t)l->n)
		host_note(l->h, m, "igpu_and_dgpu", S("yes"), where);
	note_modes(l);
	displays_note_machine(l);
	iommu_note_machine(l);
	for (size_t n = 0; n < ARRAY_SIZE(names); n++)
		host_note_doubt(l->h, host_machine(l->h), names[n]);
	for (size_t n = 0; n < l->n; n++) {
		host_note_doubt(l->h, l->list[n].item, "xgmi_links");
		host_note_doubt(l->h, l->list[n].item, "xgmi_peers_missing");
	}
	of_machine(l);
}

void host_read_gpus(struct host *h)
{
	struct gpu_looks l = { .h = h, .doubt = h->doubt };
	size_t aspm;
	l.list = arena_alloc(&h->arena, h->devices.n * sizeof(*l.list) + 1);
	for (size_t n = 0; n < h->items.len && l.n < h->devices.n; n++)
		if (str_is(h->items.data[n]->kind, "gpu"))
			l.list[l.n++] = (struct gpu_look){
				.item = h->items.data[n],
				.d = h->items.data[n]->gpu,
				.stuck = h->items.data[n]->gpu->stuck,
				.doubt = h->items.data[n]->gpu->stuck.is || h->items.data[n]->gpu->unread.n,
				.connected = -1,
				.ras_ask = SIZE_MAX,
				.metrics_ask = SIZE_MAX,
			};
	size_t connectors = ask(&l.machine, PROBE_LIST, S("/sys/class/drm"), 1 << 16);
	size_t programs = ask(&l.machine, PROBE_LIST, S("/usr/bin"), 4096);
	size_t iommus = ask(&l.machine, PROBE_LIST, S("/sys/class/iommu"), 1 << 14);
	aspm = ask(&l.machine, PROBE_FILE, S("/sys/module/pcie_aspm/parameters/policy"), 256);
	for (size_t n = 0; n < l.n; n++)
		if (!l.list[n].stuck.is)
			ask_first(&l, &l.list[n]);
	run_asks(&l);
	of_machine(&l);
	l.connectors = answer_text(&l.machine, connectors);
	l.iommus_known = l.machine.probes.data[iommus].end == PROBE_GOOD;
	l.iommus = answer_text(&l.machine, iommus);
	if (!answer_text(&l.machine, programs).n) // of a tree
		host_note(h, host_machine(h), "software", S("unknown"), S("/usr/bin"));
	aspm_note(&l, answer_text(&l.machine, aspm), answer_place(&l.machine, aspm));
	for (size_t n = 0; n < l.n; n++)
		note_first(&l, &l.list[n]);
	second_round(&l);
	note_all(&l);
	vec_free(&l.machine.probes);
	for (size_t n = 0; n < l.n; n++)
		vec_free(&l.list[n].asks.probes);
}
