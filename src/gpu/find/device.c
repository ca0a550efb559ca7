#include "gpu/find/device.h"

#include <errno.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/bytes.h"
#include "gpu/find/found.h"
#include "source/clerk/clerk.h"
#include "source/tape/tape.h"

enum { LIST_SIZE = 1 << 17 };

#define TEXT(file, member)                                                                                                     \
	{                                                                                                                      \
		file, DEVICE_TEXT, offsetof(struct found, member), PROBE_FILE, 0                                               \
	}
#define NUMBER(file, member)                                                                                                   \
	{                                                                                                                      \
		file, DEVICE_NUMBER, offsetof(struct found, member), PROBE_FILE, 0                                             \
	}
#define SCALED(file, member, by)                                                                                               \
	{                                                                                                                      \
		file, DEVICE_NUMBER, offsetof(struct found, member), PROBE_FILE, by                                            \
	}
#define SENSOR(file, member, by)                                                                                               \
	{                                                                                                                      \
		file, DEVICE_SENSOR, offsetof(struct found, member), PROBE_FILE, by                                            \
	}
#define UNSIGNED(file, member)                                                                                                 \
	{                                                                                                                      \
		file, DEVICE_UNSIGNED, offsetof(struct found, member), PROBE_FILE, 0                                           \
	}
#define NAMES(file, member)                                                                                                    \
	{                                                                                                                      \
		file, DEVICE_TEXT, offsetof(struct found, member), PROBE_LIST, 0                                               \
	}
#define LINK(file, member)                                                                                                     \
	{                                                                                                                      \
		file, DEVICE_TEXT, offsetof(struct found, member), PROBE_LINK, 0                                               \
	}

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
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static bool config_safe(const struct found *f)
{
	return !str_starts(f->d.runtime_status, S("suspend")) && !str_is(f->d.power_state, "D3cold");
}

int node_number(struct str name, struct str prefix)
{
	struct str rest;
	int64_t number;
	return str_behind(name, prefix, &rest) && str_number(rest, &number) && number >= 0 && number < CARDS_MOST ?
		       (int)number :
		       -1;
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
	while (counters.n) {
		struct str line = str_split(&counters, '\n');
		if (str_starts(line, S("TOTAL_")))
			str_word(&line);
		else
			continue;
		if (!str_number(str_trim(line), &number))
			number = -1;
	}
	return number;
}

bool has_line(struct str text, struct str line)
{
	while (text.n)
		if (str_eq(str_split(&text, '\n'), line))
			return true;
	return false;
}

/** A tree may have lost the link to the driver; then other files tell about amdgpu. That no driver is bound is known only if the tree has
 * the files that would tell. */
static void judge_driver(const struct search *s, struct found *f)
{
	struct device *d = &f->d;
	struct str uevent = f->uevent, named = { 0 };
	d->driver = str_base(f->driver_link);
	d->driver_known = true;
	if (!s->to->tree || d->driver.n)
		return;
	while (uevent.n && !named.n)
		str_behind(str_split(&uevent, '\n'), S("DRIVER="), &named);
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
	if (has_line(f->dump, S("data")))
		d->devcoredump = arena_printf(&s->to->arena, STR_FMT "/devcoredump/data", STR_ARG(d->sysfs));
	if (str_is(d->hive, "0"))
		d->hive = (struct str){ 0 };
}

/** A device that fell off the bus answers with ones; its vendor in sysfs is what the kernel once read. */
static void judge_config(struct found *f)
{
	f->d.config_known = f->config.n >= 4;
	f->d.off_bus = f->d.config_known && get_u32(f->config.p) == UINT32_MAX;
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
	for (size_t i = 0; i < LENGTH(firmware_names); i++)
		if (str_is(name, firmware_names[i].sysfs))
			return str_z(firmware_names[i].name);
	char *upper = arena_z(a, name);
	for (char *c = upper; *c; c++)
		*c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
	return str_z(upper);
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

/** `Linux version 6.8.0-90-generic (buildd@...`: /proc/version says it too. */
static struct str kernel_release(const struct probe *release, const struct probe *version, const char **ret_at)
{
	struct str rest = probe_text(version), kernel = str_trim(probe_text(release));
	if (!kernel.n && str_behind(rest, S("Linux version "), &rest)) {
		kernel = str_word(&rest);
		*ret_at = version->path;
	}
	return kernel;
}

/** amdgpu.ppfeaturemask as the driver took it, in hexadecimal digits. */
static bool masks_gfxoff(struct str text)
{
	enum { GFXOFF_BIT = 0x8000 };
	struct str digits;
	uint64_t mask;
	return str_behind(str_trim(text), S("0x"), &digits) && str_hex(digits, &mask) && !(mask & GFXOFF_BIT);
}

static void find_machine(struct search *s)
{
	struct devices *to = s->to;
	struct tape *tape = probe_tape(&to->count);
	struct utsname host;
	struct probe probes[] = {
		{ .kind = PROBE_LIST, .path = "/sys/bus/pci/devices", .size = LIST_SIZE },
		{ .kind = PROBE_LIST, .path = "/sys/bus/pci/slots", .size = LIST_SIZE },
		{ .kind = PROBE_LIST, .path = "/sys/kernel/debug/dri", .size = LIST_SIZE },
		{ .kind = PROBE_LIST, .path = "/sys/class/kfd/kfd/topology/nodes", .size = LIST_SIZE },
		{ .kind = PROBE_LIST, .path = "/sys/class/kfd/kfd/proc", .size = LIST_SIZE },
		{ .path = "/sys/kernel/security/lockdown" },
		{ .path = "/sys/module/amdgpu/version" },
		{ .path = "/proc/sys/kernel/osrelease" },
		{ .kind = PROBE_LIST, .path = "/sys/class/drm", .size = LIST_SIZE },
		{ .kind = PROBE_LIST, .path = "/proc", .size = 1 << 18 },
		{ .kind = PROBE_LIST, .path = "/sys/module", .size = LIST_SIZE },
		{ .kind = PROBE_LIST, .path = "/sys/bus/pci/drivers/amdgpu", .size = LIST_SIZE },
		{ .path = "/proc/version" },
		{ .path = "/sys/module/amdgpu/parameters/ppfeaturemask" },
	};
	look_once(s, probes, LENGTH(probes), LOOK_MS);
	struct str lockdown = probe_text(&probes[5]);
	to->root = tape_number(tape, "euid", clerk_uid()) == 0;
	to->pci_known = probes[0].end == PROBE_GOOD;
	to->debugfs = probes[2].end == PROBE_GOOD;
	to->lockdown = lockdown.n && str_find(lockdown, S("[none]")) < 0;
	to->driver_version = probe_text(&probes[6]);
	to->kernel = kernel_release(&probes[7], &probes[12], &to->kernel_at);
	if (!to->kernel.n && !to->tree && !uname(&host))
		to->kernel = arena_str(&to->arena, tape_said(tape, &to->arena, "release", str_z(host.release)));
	s->debugfs = probe_text(&probes[2]);
	s->nodes = probe_text(&probes[3]);
	to->kfd_known = s->nodes.n;
	s->processes = probe_text(&probes[4]);
	s->all_processes = probe_text(&probes[9]);
	s->modules = probe_text(&probes[10]);
	s->bound = probe_text(&probes[11]);
	find_pci(s, probe_text(&probes[0]));
	s->cards = probe_text(&probes[8]);
	if (to->tree && !s->n)
		find_cards(s, s->cards);
	find_slots(s, probe_text(&probes[1]));
	for (size_t i = 0; i < s->n; i++)
		s->found[i].d.gfxoff_masked = masks_gfxoff(probe_text(&probes[13]));
	for (size_t i = 0; i < s->n && probes[2].end == PROBE_FAILED && probes[2].error == EACCES; i++)
		s->found[i].d.refused = str_z(probes[2].path);
}

/** A tree whose devices lost the directory of their nodes may have them in drm's class. */
static void find_nodes(struct search *s)
{
	bool lost = false;
	for (size_t i = 0; i < s->n; i++)
		lost |= s->found[i].card < 0 && numbered(s->found[i].nodes, S("card")) < 0;
	if (lost && s->to->tree)
		find_cards(s, s->cards);
}

/** In a tree nothing can be woken up, so one look is enough. The configuration of a device that slept is not believed. */
static void read_kernel_files(struct search *s)
{
	struct device_fact all[LENGTH(cached) + LENGTH(configuration) + LENGTH(recorded)];
	memcpy(all, cached, sizeof(cached));
	memcpy(all + LENGTH(cached), configuration, sizeof(configuration));
	memcpy(all + LENGTH(cached) + LENGTH(configuration), recorded, sizeof(recorded));
	facts_read(s, all, s->to->tree ? LENGTH(all) : LENGTH(cached), NULL, LOOK_MS);
	find_nodes(s);
	for (size_t i = 0; i < s->n; i++)
		judge_cached(s, &s->found[i]);
	if (!s->to->tree)
		facts_read(s, configuration, LENGTH(configuration), config_safe, LOOK_ASK_MS);
	for (size_t i = 0; i < s->n; i++)
		if (config_safe(&s->found[i]))
			judge_config(&s->found[i]);
}

void devices_find(const struct know *k, struct devices *ret) { devices_find_at(k, (struct machine_at){ 0 }, ret); }

/** Partitions are numbered as their nodes are. */
static struct kfd_place place_of(const struct search *s, const struct kfd_node *k)
{
	unsigned before = 0;
	for (size_t i = 0; i < s->nkfd; i++)
		before += s->kfd[i].of == k->of && s->kfd[i].node < k->node;
	return (struct kfd_place){ k->node, k->gpu_id, (size_t)(k->of - s->found), before };
}

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
	facts_read(&s, asked, LENGTH(asked), look_awake, LOOK_ASK_MS);
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
	for (; ret->nkfd < s.nkfd; ret->nkfd++)
		ret->kfd[ret->nkfd] = place_of(&s, &s.kfd[ret->nkfd]);
	int64_t *interrupts = arena_alloc(&ret->arena, ret->n * sizeof(*interrupts) + 1);
	devices_interrupts(ret, interrupts);
	for (size_t i = 0; i < ret->n; i++)
		ret->list[i].interrupts = interrupts[i];
}

bool devices_unsure(const struct devices *d)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->list[i].identity_unread)
			return true;
	return false;
}

void devices_free(struct devices *d)
{
	arena_free(&d->arena);
	*d = (struct devices){ 0 };
}

const struct device *devices_named(const struct devices *d, struct str name)
{
	struct str rest;
	int64_t number;
	for (size_t i = 0; i < d->n; i++) {
		const struct device *g = &d->list[i];
		if (str_eq(name, g->pci) || (str_starts(g->pci, S("0000:")) && str_eq(name, str_from(g->pci, 5))))
			return g;
		if (str_behind(name, S("card"), &rest) && str_number(rest, &number) && number == g->card)
			return g;
		if (str_behind(name, S("renderD"), &rest) && str_number(rest, &number) && number == g->render)
			return g;
	}
	if (name.n && char_digit(name.p[0]) && str_number(name, &number) && number >= 0 && (uint64_t)number < d->n)
		return &d->list[number];
	return NULL;
}

const struct ip *device_ip(const struct device *d, struct str name, unsigned instance)
{
	for (size_t i = 0; i < d->nips; i++)
		if (str_eq(d->ips[i].name, name) && !d->ips[i].harvested && instance-- == 0)
			return &d->ips[i];
	return NULL;
}

bool gc_of_gfx(const struct know *k, struct str gfx, unsigned ret[3])
{
	for (size_t i = 0; i < k->names.len; i++) {
		int64_t version;
		if (!str_is(k->names.data[i]->head.id, "gc-gfx"))
			continue;
		for (const struct know_pair *p = k->names.data[i]->names; p; p = p->next) {
			if (!str_eq(p->value, gfx) || !str_number(p->name, &version))
				continue;
			ret[0] = (unsigned)(version / 10000);
			ret[1] = (unsigned)(version / 100 % 100);
			ret[2] = (unsigned)(version % 100);
			return true;
		}
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

struct str link_text(const struct device *d, struct arena *a)
{
	enum { WIDTH_ONES = 63 }; // what the width reads as where nobody answers
	struct str speed = d->link.speed;
	if (!speed.n || str_starts(speed, S("Unknown")) || d->link.width <= 0 || d->link.width >= WIDTH_ONES)
		return (struct str){ 0 };
	if (str_ends(speed, S(" PCIe")))
		speed.n -= 5;
	return arena_printf(a, STR_FMT " x%lld", STR_ARG(speed), (long long)d->link.width);
}
