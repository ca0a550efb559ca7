// The search for GPUs, from the list of PCI devices to a `struct device` each: which files are read, in which order, and what they mean
// together. found.c reads, places.c, ips.c and holders.c each find one part.
//
// The order matters: what the kernel has in memory comes first, because it tells whether a device sleeps, is off the bus or hangs, and so
// whether it may be asked what wakes it up or makes the driver ask its power controller.
#include "gpu/find/device.h"

#include <errno.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/bytes.h"
#include "gpu/find/found.h"
#include "source/privileged/privileged.h"
#include "source/tape/tape.h"

enum { LIST_SIZE = 1 << 17 };

#define FACT(file, member, as, kind, by)                                                                                       \
	{                                                                                                                      \
		file, as, offsetof(struct found, member), kind, by                                                             \
	}
#define TEXT(file, member) FACT(file, member, DEVICE_TEXT, PROBE_FILE, 0)
#define NUMBER(file, member) FACT(file, member, DEVICE_NUMBER, PROBE_FILE, 0)
#define SCALED(file, member, by) FACT(file, member, DEVICE_NUMBER, PROBE_FILE, by)
#define SENSOR(file, member, by) FACT(file, member, DEVICE_SENSOR, PROBE_FILE, by)
#define BYTES(file, member) FACT(file, member, DEVICE_RAW, PROBE_FILE, 0)
#define UNSIGNED(file, member) FACT(file, member, DEVICE_UNSIGNED, PROBE_FILE, 0)
#define NAMES(file, member) FACT(file, member, DEVICE_TEXT, PROBE_LIST, 0)
#define LINK(file, member) FACT(file, member, DEVICE_TEXT, PROBE_LINK, 0)

/** What the kernel has in memory: reading these wakes nothing up and asks nobody. */
static const struct device_fact cached[] = {
	TEXT("power/runtime_status", d.runtime_status),
	TEXT("power_state", d.power_state),
	UNSIGNED("device", d.device),
	UNSIGNED("revision", d.revision),
	UNSIGNED("subsystem_vendor", d.subsystem_vendor),
	UNSIGNED("subsystem_device", d.subsystem_device),
	LINK("driver", driver_link),
	LINK("physfn", physical),
	NAMES("drm", nodes),
	NAMES("hwmon", monitors),
	NAMES("msi_irqs", d.irqs),
	NAMES("fw_version", firmware),
	NAMES("ip_discovery/die", dies),
	NAMES("devcoredump", dump),
	TEXT("unique_id", d.unique_id),
	TEXT("serial_number", d.serial),
	TEXT("product_name", d.product),
	TEXT("vbios_version", d.vbios),
	TEXT("xgmi_hive_info/xgmi_hive_id", d.hive),
	NUMBER("mem_info_vram_total", d.vram_total),
	NUMBER("mem_info_vram_used", d.vram_used),
	NUMBER("mem_info_gtt_total", d.gtt_total),
	NUMBER("mem_info_gtt_used", d.gtt_used),
	TEXT("aer_dev_correctable", correctable),
	TEXT("aer_dev_nonfatal", nonfatal),
	TEXT("aer_dev_fatal", fatal),
	TEXT("ras/event_state", ras_events),
	NUMBER("xgmi_physical_id", d.oam),
};

/** Of the configuration space, whose reading resumes a device that is in D3cold. */
static const struct device_fact configuration[] = {
	TEXT("config", config),
	TEXT("current_link_speed", d.link.speed),
	TEXT("max_link_speed", d.link.max_speed),
	NUMBER("current_link_width", d.link.width),
	NUMBER("max_link_width", d.link.max_width),
};

/** Only in a tree: here they would wait for a driver that hangs while it starts. */
static const struct device_fact recorded[] = {
	TEXT("uevent", uevent),
	TEXT("driver_override", override),
};

/** The driver asks the power controller or reads a register for these: they resume a sleeping device, and may not return. */
static const struct device_fact asked[] = {
	SENSOR("gpu_busy_percent", d.busy, 1),
	SCALED("mem_busy_percent", d.memory_busy, 1),
	SENSOR("hwmon/$/power1_average", d.power_mw, 1000),
	SENSOR("hwmon/$/power1_input", power_input, 1000),
	SCALED("hwmon/$/power1_cap", d.power_cap_mw, 1000),
	SENSOR("hwmon/$/temp1_input", d.temperature, 1),
	SENSOR("hwmon/$/temp2_input", junction, 1),
	SENSOR("hwmon/$/freq1_input", d.clock, 1000000),
	TEXT("current_compute_partition", d.compute_partition),
	TEXT("current_memory_partition", d.memory_partition),
	BYTES("gpu_metrics", d.metrics),
};

static bool config_safe(const struct found *f)
{
	return !str_starts(f->d.runtime_status, S("suspend")) && !str_is(f->d.power_state, "D3cold");
}

/** The number behind @prefix in a list of names, the least; -1. */
static int numbered(struct str names, struct str prefix)
{
	int ret = -1;
	while (names.n) {
		int number = node_number(str_split(&names, '\n'), prefix);
		if (number >= 0 && (ret < 0 || number < ret))
			ret = number;
	}
	return ret;
}

/** `TOTAL_ERR_COR 0` is the last line. */
static int64_t total_of(struct str counters)
{
	int64_t number = -1;
	str_each (line, counters, '\n')
		if (str_starts(str_word(&line), S("TOTAL_")) && !str_number(str_trim(line), &number))
			number = -1;
	return number;
}

/** The driver counts for all GPUs of a hive together, so that all of them say the same. */
static void judge_hives(struct search *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct device *d = &s->found[i].d;
		for (size_t j = 0; j < s->n && d->hive.n; j++) {
			const struct device *o = &s->found[j].d;
			const bool same = i != j && str_eq(o->hive, d->hive) && o->ras.fatal == d->ras.fatal &&
					  o->ras.poison_created == d->ras.poison_created &&
					  o->ras.poison_consumed == d->ras.poison_consumed;
			d->ras.gpus += same;
			d->ras.first &= !same || i < j;
		}
	}
}

/** A tree may have lost the link to the driver; then other files tell about amdgpu. That no driver is bound is known only if the tree has
 * the files that would tell. */
static void judge_driver(const struct search *s, struct found *f)
{
	struct device *d = &f->d;
	const struct str named = line_behind(f->uevent, S("DRIVER="));
	d->driver = str_base(f->driver_link);
	d->driver_known = true;
	if (!s->to->tree || d->driver.n)
		return;
	bool loaded = has_line(s->modules, S("amdgpu")), away = s->modules.n && !loaded;
	if (d->vram_total >= 0 || (loaded && d->card >= 0) || has_line(s->bound, d->pci))
		d->driver = S("amdgpu");
	else if (!away || !str_is(named, "amdgpu")) // a module that is not loaded drives nothing
		d->driver = named;
	d->driver_known = d->driver.n || (f->uevent.n && !named.n) || f->override.n || s->drivers_recorded;
}

static void judge_cached(struct search *s, struct found *f)
{
	struct device *d = &f->d;
	struct str monitors = f->monitors;
	d->card = numbered(f->nodes, S("card"));
	d->card = d->card < 0 ? f->card : d->card;
	d->render = numbered(f->nodes, S("renderD"));
	d->render = d->render < 0 ? f->render : d->render;
	judge_driver(s, f);
	f->monitor = str_split(&monitors, '\n');
	d->link.correctable = total_of(f->correctable);
	d->link.nonfatal = total_of(f->nonfatal);
	d->link.fatal = total_of(f->fatal);
	d->ras = ras_events_parse(f->ras_events);
	if (has_line(f->dump, S("data")))
		d->devcoredump = arena_printf(&s->to->arena, STR_FMT "/devcoredump/data", STR_ARG(d->sysfs));
	if (str_is(d->hive, "0"))
		d->hive = (struct str){ 0 };
}

/** Names of sysfs that differ from those of amdgpu_firmware_info by more than their case. */
static const struct {
	const char *sysfs, *name;
} firmware_names[] = {
	{ "sdma", "SDMA0" },        { "sdma2", "SDMA1" },   { "rlc_srlc", "RLC SRLC" }, { "rlc_srlg", "RLC SRLG" },
	{ "rlc_srls", "RLC SRLS" }, { "ta_ras", "TA RAS" }, { "ta_xgmi", "TA XGMI" },
};

static struct str firmware_name(struct arena *a, struct str name)
{
	for (size_t i = 0; i < ARRAY_SIZE(firmware_names); i++)
		if (str_is(name, firmware_names[i].sysfs))
			return str_z(firmware_names[i].name);
	char *upper = arena_z(a, name);
	for (char *c = upper; *c; c++)
		*c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
	return str_z(upper);
}

/** `SMC feature version: 0, program: 4, firmware version: 0x00525600 (82.86.0)` */
bool firmware_info_line(struct str line, struct firmware *ret)
{
	enum { NAME_MOST = 32 };
	struct str rest;
	const ptrdiff_t name = str_find(line, S(" feature version:")), version = str_find(line, S("firmware version: "));
	int64_t number;
	if (name <= 0 || name > NAME_MOST || version < name ||
	    !str_behind(str_from(line, (size_t)version), S("firmware version:"), &rest) ||
	    !str_number(str_word(&rest), &number) || number <= 0 || number > UINT32_MAX)
		return false;
	*ret = (struct firmware){ str_cut(line, (size_t)name), (uint32_t)number };
	return true;
}

static void find_firmware(struct search *s)
{
	static const struct str suffix = S("_fw_version");
	struct arena *a = &s->to->arena;
	struct probe_batch *batches = arena_alloc(a, s->n * sizeof(*batches) + 1);
	struct str **names = arena_alloc(a, s->n * sizeof(*names) + 1);
	for (size_t i = 0; i < s->n; i++) {
		struct found *f = &s->found[i];
		size_t n = f->d.stuck.is ? 0 : lines_of(a, f->firmware, 256, &names[i]);
		batches[i] = (struct probe_batch){ arena_alloc(a, n * sizeof(struct probe) + 1), n, s->to->tree, { 0 } };
		for (size_t j = 0; j < n; j++)
			batches[i].probes[j].path =
				arena_printf(a, STR_FMT "/fw_version/" STR_FMT, STR_ARG(f->d.sysfs), STR_ARG(names[i][j])).p;
		f->d.firmware = arena_alloc(a, n * sizeof(struct firmware) + 1);
	}
	look_run(s, batches, LOOK_MS);
	for (size_t i = 0; i < s->n; i++) {
		struct device *d = &s->found[i].d;
		for (size_t j = 0; j < batches[i].n; j++) {
			int64_t version;
			if (!str_ends(names[i][j], suffix) || !str_number(probe_text(&batches[i].probes[j]), &version) ||
			    !version)
				continue;
			struct str name = str_cut(names[i][j], names[i][j].n - suffix.n);
			d->firmware[d->nfirmware++] = (struct firmware){ firmware_name(a, name), (uint32_t)version };
		}
	}
}

static void name_device(struct search *s, struct found *f)
{
	struct device *d = &f->d;
	const struct know_part *part = know_part(s->k, d->device, (int)d->revision);
	const struct ip *gc = device_ip(d, S("gc"), 0);
	d->gfx = gc ? gfx_of_gc(s->k, gc->version) : (struct str){ 0 };
	if (!d->gfx.n && f->gfx_version > 0)
		d->gfx = gfx_of_target(&s->to->arena, (uint32_t)f->gfx_version);
	if (!d->gfx.n && part)
		d->gfx = part->gfx;
	d->name = part ? part->name : d->product;
	d->apu |= part && part->apu;
	d->guest |= f->physical.n || (part && str_ends(part->name, S("(virtual function)")));
}

/** Everything that is no device's: the lists in which the devices are looked for, the kernel and its driver. */
static void find_machine(struct search *s)
{
	enum { GFXOFF_BIT = 0x8000 }; // of amdgpu.ppfeaturemask
	enum {
		DEVICES,
		SLOTS,
		DEBUGFS,
		NODES,
		COMPUTING,
		LOCKDOWN,
		DRIVER,
		RELEASE,
		CARDS,
		PROCESSES,
		MODULES,
		BOUND,
		VERSION,
		MASK
	};
	struct devices *to = s->to;
	struct tape *tape = probe_tape(&to->count);
	struct utsname host;
	struct probe probes[] = {
		[DEVICES] = { .kind = PROBE_LIST, .path = "/sys/bus/pci/devices", .size = LIST_SIZE },
		[SLOTS] = { .kind = PROBE_LIST, .path = "/sys/bus/pci/slots", .size = LIST_SIZE },
		[DEBUGFS] = { .kind = PROBE_LIST, .path = "/sys/kernel/debug/dri", .size = LIST_SIZE },
		[NODES] = { .kind = PROBE_LIST, .path = "/sys/class/kfd/kfd/topology/nodes", .size = LIST_SIZE },
		[COMPUTING] = { .kind = PROBE_LIST, .path = "/sys/class/kfd/kfd/proc", .size = LIST_SIZE },
		[LOCKDOWN] = { .path = "/sys/kernel/security/lockdown" },
		[DRIVER] = { .path = "/sys/module/amdgpu/version" },
		[RELEASE] = { .path = "/proc/sys/kernel/osrelease" },
		[CARDS] = { .kind = PROBE_LIST, .path = "/sys/class/drm", .size = LIST_SIZE },
		[PROCESSES] = { .kind = PROBE_LIST, .path = "/proc", .size = 1 << 18 },
		[MODULES] = { .kind = PROBE_LIST, .path = "/sys/module", .size = LIST_SIZE },
		[BOUND] = { .kind = PROBE_LIST, .path = "/sys/bus/pci/drivers/amdgpu", .size = LIST_SIZE },
		[VERSION] = { .path = "/proc/version" },
		[MASK] = { .path = "/sys/module/amdgpu/parameters/ppfeaturemask" },
	};
	look_once(s, probes, ARRAY_SIZE(probes), LOOK_MS);
	struct str text[ARRAY_SIZE(probes)], digits;
	for (size_t i = 0; i < ARRAY_SIZE(probes); i++)
		text[i] = probe_text(&probes[i]);
	to->root = tape_number(tape, "euid", privileged_uid()) == 0;
	to->pci_known = probes[DEVICES].end == PROBE_GOOD;
	to->debugfs = probes[DEBUGFS].end == PROBE_GOOD;
	to->lockdown = text[LOCKDOWN].n && str_find(text[LOCKDOWN], S("[none]")) < 0;
	to->driver_version = text[DRIVER];
	to->kernel = str_trim(text[RELEASE]);
	// `Linux version 6.8.0-90-generic (buildd@...`: /proc/version says it too.
	if (!to->kernel.n && str_behind(text[VERSION], S("Linux version "), &text[VERSION])) {
		to->kernel = str_word(&text[VERSION]);
		to->kernel_at = probes[VERSION].path;
	}
	if (!to->kernel.n && !to->tree && !uname(&host))
		to->kernel = arena_str(&to->arena, tape_said(tape, &to->arena, "release", str_z(host.release)));
	s->debugfs = text[DEBUGFS];
	s->nodes = text[NODES];
	to->kfd_known = s->nodes.n;
	s->processes = text[COMPUTING];
	s->all_processes = text[PROCESSES];
	s->modules = text[MODULES];
	s->bound = text[BOUND];
	s->cards = text[CARDS];
	find_pci(s, text[DEVICES]);
	if (to->tree && !s->n)
		find_cards(s, s->cards);
	find_slots(s, text[SLOTS]);
	uint64_t mask;
	bool masked = str_behind(str_trim(text[MASK]), S("0x"), &digits) && str_hex(digits, &mask) && !(mask & GFXOFF_BIT);
	for (size_t i = 0; i < s->n; i++) {
		s->found[i].d.gfxoff_masked = masked;
		if (probes[DEBUGFS].end == PROBE_FAILED && probes[DEBUGFS].error == EACCES)
			s->found[i].d.refused = str_z(probes[DEBUGFS].path);
	}
}

/** In a tree nothing can be woken up, so one look is enough. The configuration of a device that slept is not believed. */
static void read_kernel_files(struct search *s)
{
	struct device_fact all[ARRAY_SIZE(cached) + ARRAY_SIZE(configuration) + ARRAY_SIZE(recorded)];
	bool lost = false;
	memcpy(all, cached, sizeof(cached));
	memcpy(all + ARRAY_SIZE(cached), configuration, sizeof(configuration));
	memcpy(all + ARRAY_SIZE(cached) + ARRAY_SIZE(configuration), recorded, sizeof(recorded));
	facts_read(s, all, s->to->tree ? ARRAY_SIZE(all) : ARRAY_SIZE(cached), NULL, LOOK_MS);
	// A tree whose devices lost the directory of their nodes may have them in drm's class.
	for (size_t i = 0; i < s->n; i++)
		lost |= s->found[i].card < 0 && numbered(s->found[i].nodes, S("card")) < 0;
	if (lost && s->to->tree)
		find_cards(s, s->cards);
	for (size_t i = 0; i < s->n; i++)
		judge_cached(s, &s->found[i]);
	judge_hives(s);
	if (!s->to->tree)
		facts_read(s, configuration, ARRAY_SIZE(configuration), config_safe, LOOK_ASK_MS);
	for (size_t i = 0; i < s->n; i++) {
		struct found *f = &s->found[i];
		if (!config_safe(f))
			continue;
		// A device that fell off the bus answers with ones; its vendor in sysfs is what the kernel once read.
		f->d.config_known = f->config.n >= 4;
		f->d.off_bus = f->d.config_known && get_u32(f->config.p) == UINT32_MAX;
	}
}

void devices_find(const struct know *k, struct devices *ret) { devices_find_at(k, (struct machine_at){ 0 }, ret); }

void devices_find_at(const struct know *k, struct machine_at at, struct devices *ret)
{
	const char *root = at.root;
	*ret = (struct devices){ .tree = root, .kernel_at = "/proc/sys/kernel/osrelease" };
	struct search s = { .k = k, .to = ret };
	struct probe_patience *patience = ret->count.patience = arena_alloc(&ret->arena, sizeof(*patience));
	*patience = (struct probe_patience){ root ? PATIENCE_TREE_MS : PATIENCE_MS, at.tape };
	s.for_processes = root ? PATIENCE_TREE_MS : PATIENCE_PROCESSES_MS;
	find_machine(&s);
	patience->left += s.n > 1 && !root ? (int64_t)(s.n - 1) * PATIENCE_GPU_MS : 0;
	read_kernel_files(&s);
	find_ips(&s);
	for (size_t i = 0; i < s.n; i++)
		s.found[i].d.identity_unread = s.found[i].d.unread.n;
	find_firmware(&s);
	find_debugfs(&s);
	find_kfd(&s);
	find_holders(&s);
	facts_read(&s, asked, ARRAY_SIZE(asked), look_awake, LOOK_ASK_MS);
	find_shaders(&s);
	ret->list = arena_alloc(&ret->arena, s.n * sizeof(*ret->list) + 1);
	for (size_t i = 0; i < s.n; i++) {
		if (s.found[i].d.power_mw < 0)
			s.found[i].d.power_mw = s.found[i].power_input;
		if (s.found[i].d.temperature < 0)
			s.found[i].d.temperature = s.found[i].junction;
		name_device(&s, &s.found[i]);
		s.found[i].d.patience = patience;
		ret->list[ret->n++] = s.found[i].d;
	}
	ret->kfd = arena_alloc(&ret->arena, s.nkfd * sizeof(*ret->kfd) + 1);
	for (; ret->nkfd < s.nkfd; ret->nkfd++) {
		const struct kfd_node *node = &s.kfd[ret->nkfd];
		unsigned before = 0; // partitions are numbered as their nodes are
		for (size_t i = 0; i < s.nkfd; i++)
			before += s.kfd[i].of == node->of && s.kfd[i].node < node->node;
		ret->kfd[ret->nkfd] = (struct kfd_place){ node->node, node->gpu_id, (size_t)(node->of - s.found), before };
	}
	int64_t *interrupts = arena_alloc(&ret->arena, ret->n * sizeof(*interrupts) + 1);
	devices_interrupts(ret, interrupts);
	for (size_t i = 0; i < ret->n; i++)
		ret->list[i].interrupts = interrupts[i];
}

bool devices_unsure(const struct devices *d) { return list_find(d->list, d->n, it, it->identity_unread) != NULL; }

void devices_free(struct devices *d)
{
	arena_free(&d->arena);
	*d = (struct devices){ 0 };
}

struct str devices_unlisted(const struct devices *d, struct arena *a)
{
	struct str paths = d->unread.paths;
	const struct str first = str_split(&paths, '\n');
	return d->unread.n ? arena_printf(a, STR_FMT " did not answer, so a GPU may be missing here.", STR_ARG(first)) :
			     (struct str){ 0 };
}

const struct device *devices_named(const struct devices *d, struct str name)
{
	int64_t number;
	int card = node_number(name, S("card")), render = node_number(name, S("renderD"));
	for (size_t i = 0; i < d->n; i++) {
		const struct device *g = &d->list[i];
		if (str_eq(name, g->pci) || (str_starts(g->pci, S("0000:")) && str_eq(name, str_from(g->pci, 5))))
			return g;
		if ((card >= 0 && card == g->card) || (render >= 0 && render == g->render))
			return g;
	}
	if (name.n && char_digit(name.p[0]) && str_number(name, &number) && number >= 0 && (uint64_t)number < d->n)
		return &d->list[number];
	return NULL;
}

const struct ip *device_ip(const struct device *d, struct str name, unsigned instance)
{
	return list_find(d->ips, d->nips, it, str_eq(it->name, name) && !it->harvested && instance-- == 0);
}

bool gc_of_gfx(const struct know *k, struct str gfx, unsigned ret[3])
{
	const struct know_names *names = list_find_of(k->names.data, k->names.len, it, str_is(it->head.id, "gc-gfx"));
	int64_t version;
	for (const struct know_pair *p = names ? names->names : NULL; p; p = p->next) {
		if (!str_eq(p->value, gfx) || !str_number(p->name, &version))
			continue;
		ret[0] = (unsigned)(version / 10000);
		ret[1] = (unsigned)(version / 100 % 100);
		ret[2] = (unsigned)(version % 100);
		return true;
	}
	return false;
}

struct str gfx_of_gc(const struct know *k, const unsigned version[3])
{
	return know_name(k, S("gc-gfx"), (int64_t)version[0] * 10000 + version[1] * 100 + version[2]);
}

struct str gfx_of_target(struct arena *a, uint32_t version)
{
	unsigned major = version / 10000, minor = version / 100 % 100, stepping = version % 100;
	if (!major || major > 99 || minor > 15 || stepping > 15)
		return (struct str){ 0 };
	return arena_printf(a, "gfx%u%x%x", major, minor, stepping);
}
