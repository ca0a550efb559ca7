// sysfs: what every machine has, and the directory of a GPU's PCI device.
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "emulator/server.h"

void build_sysfs(struct server *s, struct node *sys)
{
	static const char *const directories[] = {
		"block",
		"bus/pci/devices",
		"bus/pci/drivers/amdgpu",
		"bus/pci/slots",
		"class/drm",
		"class/hwmon",
		"class/devcoredump",
		"class/net",
		"dev/char",
		"dev/block",
		"devices/system",
		"devices/virtual",
		"firmware",
		"fs/cgroup",
		"fs/pstore",
		"kernel/debug",
		"kernel/mm",
		"kernel/security",
		"module/amdgpu/parameters",
		"power",
	};
	static const struct {
		const char *name, *value;
	} parameters[] = {
		{ "gpu_recovery", "-1" }, { "lockup_timeout", "" }, { "ppfeaturemask", "0xfff7bfff" },
		{ "runpm", "-1" },        { "mes", "0" },           { "sched_policy", "0" },
		{ "noretry", "-1" },      { "cwsr_enable", "1" },   { "vm_fault_stop", "0" },
		{ "dc", "-1" },           { "aspm", "-1" },         { "debug_mask", "0" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++)
		tree_directory(s, sys, directories[i], 0755);
	tree_find(tree_find(sys, S("kernel")), S("debug"))->mode = 040700;
	for (size_t i = 0; i < ARRAY_SIZE(parameters); i++)
		tree_text(s, sys, arena_printf(&s->arena, "module/amdgpu/parameters/%s", parameters[i].name).p,
			  arena_printf(&s->arena, "%s\n", parameters[i].value));
	tree_text(s, sys, "module/amdgpu/version", S("6.12.0\n"));
	tree_text(s, sys, "module/amdgpu/refcnt", S("1\n"));
	tree_text(s, sys, "module/amdgpu/initstate", S("live\n"));
	tree_text(s, sys, "class/drm/version", S("drm 1.1.0 20060810\n"));
	tree_link(s, sys, "bus/pci/drivers/amdgpu/module", "../../../../module/amdgpu");
	tree_link(s, sys, "module/amdgpu/drivers/pci:amdgpu", "../../../bus/pci/drivers/amdgpu");
	tree_text(s, sys, "kernel/security/lockdown",
		  emu_lockdown(s->machine) ? S("none [integrity] confidentiality\n") : S("[none] integrity confidentiality\n"));
}

// --- how it stands ---

static int fill_runtime_status(struct server *s, const struct node *n, struct text *ret)
{
	text_printf(ret, "%s\n", seat_state(s, n->seat) == EMU_SUSPENDED ? "suspended" : "active");
	return 0;
}

static int fill_power_state(struct server *s, const struct node *n, struct text *ret)
{
	enum emu_state state = seat_state(s, n->seat);
	text_printf(ret, "%s\n", state == EMU_SUSPENDED ? "D3cold" : "D0");
	return 0;
}

/** A link status that reads all ones. */
static int fill_link_speed(struct server *s, const struct node *n, struct text *ret)
{
	const unsigned tenths = n->seat->facts->link.speed;
	if (seat_state(s, n->seat) == EMU_OFF_BUS)
		text_printf(ret, "Unknown\n");
	else
		text_printf(ret, "%u.%u GT/s PCIe\n", tenths / 10, tenths % 10);
	return 0;
}

static int fill_link_width(struct server *s, const struct node *n, struct text *ret)
{
	text_printf(ret, "%u\n", seat_state(s, n->seat) == EMU_OFF_BUS ? 63 : n->seat->facts->link.width);
	return 0;
}

// --- configuration space ---

enum { CONFIG_BYTES = 256, PM_CAPABILITY = 0x48, PCIE_CAPABILITY = 0x64 };

static void put16(unsigned char *p, unsigned v) { p[0] = v & 0xff, p[1] = v >> 8 & 0xff; }

static int config_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	const struct emu_facts *x = f->node->seat->facts;
	unsigned char c[CONFIG_BYTES] = { 0 };
	put16(c, x->vendor);
	put16(c + 2, x->device);
	put16(c + 4, 0x0407); // memory, I/O, bus master; interrupts by message
	put16(c + 6, 0x0010); // there are capabilities
	c[8] = (unsigned char)x->revision;
	c[9] = x->class & 0xff;
	put16(c + 10, x->class >> 8);
	put16(c + 0x2c, x->subsystem_vendor);
	put16(c + 0x2e, x->subsystem_device);
	c[0x34] = PM_CAPABILITY;
	c[PM_CAPABILITY] = 0x01, c[PM_CAPABILITY + 1] = PCIE_CAPABILITY;
	c[PCIE_CAPABILITY] = 0x10;
	put16(c + PCIE_CAPABILITY + 2, 0x0012);
	put16(c + PCIE_CAPABILITY + 0x0c, 0x0104); // most: 16 lanes of 16 GT/s
	unsigned speed = 1; // of 2.5 GT/s
	for (unsigned tenths = 25; tenths < x->link.speed; tenths = tenths == 50 ? 80 : tenths * 2)
		speed++;
	put16(c + PCIE_CAPABILITY + 0x12, 0x1000 | x->link.width << 4 | speed); // and now
	if (seat_state(s, f->node->seat) == EMU_OFF_BUS)
		memset(c, 0xff, sizeof(c));
	if (at < sizeof(c))
		text_add(ret, str_cut(str_from((struct str){ (char *)c, sizeof(c) }, (size_t)at), size));
	return 0;
}

static uint64_t config_size(struct server *s, const struct node *n)
{
	(void)s, (void)n;
	return CONFIG_BYTES;
}

static const struct kind runtime_status_kind = { .fill = fill_runtime_status };
static const struct kind power_state_kind = { .fill = fill_power_state };
static const struct kind link_speed_kind = { .fill = fill_link_speed, .wakes = true };
static const struct kind link_width_kind = { .fill = fill_link_width, .wakes = true };
static const struct kind config_kind = { .read = config_read, .size = config_size, .wakes = true };

// --- the device ---

static void fixed(struct server *s, struct node *d, const char *path, struct str text)
{
	tree_text(s, d, path, text)->path = str_z(path);
}

uint64_t seat_unique_id(const struct emu_facts *f)
{
	uint64_t id = STR_HASH_BEGIN;
	for (size_t i = 0; i < f->pci.n; i++)
		id = hash_mix(id, (unsigned char)f->pci.p[i]);
	return f->apu ? 0 : id;
}

static void build_identity(struct server *s, struct node *d, const struct emu_facts *f)
{
	struct arena *a = &s->arena;
	const struct {
		const char *name;
		unsigned value;
		int digits;
	} hex[] = { { "vendor", f->vendor, 4 },
		    { "device", f->device, 4 },
		    { "revision", f->revision, 2 },
		    { "subsystem_vendor", f->subsystem_vendor, 4 },
		    { "subsystem_device", f->subsystem_device, 4 },
		    { "class", f->class, 6 } };
	for (size_t i = 0; i < ARRAY_SIZE(hex); i++)
		fixed(s, d, hex[i].name, arena_printf(a, "0x%0*x\n", hex[i].digits, hex[i].value));
	fixed(s, d, "uevent",
	      arena_printf(
		      a, "DRIVER=amdgpu\nPCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\nPCI_SLOT_NAME=" STR_FMT "\n",
		      f->class, f->vendor, f->device, f->subsystem_vendor, f->subsystem_device, STR_ARG(f->pci)));
	fixed(s, d, "vbios_version", arena_printf(a, "113-EMULATED-%04X\n", f->device));
	fixed(s, d, "enable", S("1\n"));
	fixed(s, d, "numa_node", S("-1\n"));
	fixed(s, d, "max_link_speed", S("16.0 GT/s PCIe\n"));
	fixed(s, d, "max_link_width", S("16\n"));
	const uint64_t id = seat_unique_id(f);
	if (!f->apu) {
		fixed(s, d, "unique_id", arena_printf(a, "%016llx\n", (unsigned long long)id));
		fixed(s, d, "serial_number", arena_printf(a, "EMU%010llu\n", (unsigned long long)(id % 10000000000)));
		fixed(s, d, "product_name", arena_printf(a, STR_FMT "\n", STR_ARG(f->name)));
	}
	if (f->compute_partition.n)
		fixed(s, d, "current_compute_partition", arena_printf(a, STR_FMT "\n", STR_ARG(f->compute_partition)));
	if (f->memory_partition.n)
		fixed(s, d, "current_memory_partition", arena_printf(a, STR_FMT "\n", STR_ARG(f->memory_partition)));
	const struct {
		const char *name;
		uint64_t value;
	} memory[] = { { "mem_info_vram_total", f->vram_total },
		       { "mem_info_vis_vram_total", f->vram_total },
		       { "mem_info_gtt_total", f->gtt_total },
		       { "mem_info_gtt_used", GTT_USED } };
	for (size_t i = 0; i < ARRAY_SIZE(memory); i++)
		fixed(s, d, memory[i].name, arena_printf(a, "%llu\n", (unsigned long long)memory[i].value));
}

static void build_errors(struct server *s, struct node *d)
{
	fixed(s, d, "aer_dev_correctable",
	      S("RxErr 0\nBadTLP 0\nBadDLLP 0\nRollover 0\nTimeout 0\nNonFatalErr 0\nCorrIntErr 0\nHeaderOF 0\nTOTAL_ERR_COR "
		"0\n"));
	static const char uncorrectable[] =
		"Undefined 0\nDLP 0\nSDES 0\nTLP 0\nFCP 0\nCmpltTO 0\nCmpltAbrt 0\nUnxCmplt 0\nRxOF 0\n"
		"MalfTLP 0\nECRC 0\nUnsupReq 0\nACSViol 0\nUncorrIntErr 0\nBlockedTLP 0\n"
		"AtomicOpBlocked 0\nTLPBlockedErr 0\nPoisonTLPBlocked 0\nTOTAL_ERR_%s 0\n";
	fixed(s, d, "aer_dev_fatal", arena_printf(&s->arena, uncorrectable, "FATAL"));
	fixed(s, d, "aer_dev_nonfatal", arena_printf(&s->arena, uncorrectable, "NONFATAL"));
}

/** Whether it sleeps, and what its place on the bus says. */
static void build_bus(struct server *s, struct node *d)
{
	tree_named(s, d, "power/runtime_status", 0444, &runtime_status_kind);
	tree_named(s, d, "power_state", 0444, &power_state_kind);
	tree_named(s, d, "current_link_speed", 0444, &link_speed_kind);
	tree_named(s, d, "current_link_width", 0444, &link_width_kind);
	tree_named(s, d, "config", 0644, &config_kind);
	tree_text(s, d, "power/control", S("auto\n"));
}

// --- IP discovery ---

/** Register tables call some blocks otherwise than the driver's list of hardware ids. */
static const struct {
	const char *ip, *name;
	unsigned id;
} hardware[] = {
	{ "mp1", "MP1", 1 },      { "mp2", "MP2", 2 },      { "thm", "THM", 3 },      { "smuio", "SMUIO", 4 },
	{ "fuse", "FUSE", 5 },    { "clk", "CLKA", 6 },     { "gc", "GC", 11 },       { "vcn", "UVD", 12 },
	{ "vpe", "VPE", 21 },     { "mmhub", "MMHUB", 34 }, { "athub", "ATHUB", 35 }, { "osssys", "OSSSYS", 40 },
	{ "hdp", "HDP", 41 },     { "sdma0", "SDMA0", 42 }, { "sdma1", "SDMA1", 43 }, { "df", "DF", 46 },
	{ "sdma2", "SDMA2", 68 }, { "sdma3", "SDMA3", 69 }, { "lsdma", "LSDMA", 91 }, { "nbio", "NBIF", 108 },
	{ "umc", "UMC", 150 },    { "xgmi", "XGMI", 200 },  { "mp0", "MP0", 255 },    { "dcn", "DMU", 271 },
};

static void build_ip(struct server *s, struct node *dies, const struct ip *ip)
{
	struct arena *a = &s->arena;
	size_t h = 0, known = ARRAY_SIZE(hardware);
	while (h < known && !str_is(ip->name, hardware[h].ip))
		h++;
	if (h == known)
		return; // jpeg, for one, is part of another block there
	struct node *die = tree_directory(s, dies, arena_printf(a, "%u", ip->die).p, 0755);
	const char *id = arena_printf(a, "%u", hardware[h].id).p;
	struct node *d = tree_directory(s, die, arena_printf(a, "%s/%u", id, ip->instance).p, 0755);
	tree_link(s, die, hardware[h].name, id);
	const struct {
		const char *name;
		size_t value;
	} numbers[] = { { "hw_id", hardware[h].id }, { "num_instance", ip->instance }, { "major", ip->version[0] },
			{ "minor", ip->version[1] }, { "revision", ip->version[2] },   { "num_base_addresses", ip->nbases } };
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		tree_text(s, d, numbers[i].name, arena_printf(a, "%zu\n", numbers[i].value));
	tree_text(s, d, "harvest", arena_printf(a, "0x%01X\n", ip->harvested));
	struct text bases = { 0 };
	for (size_t i = 0; i < ip->nbases; i++)
		text_printf(&bases, "0x%08X\n", ip->bases[i]);
	tree_text(s, d, "base_addr", text_str(&bases));
	text_free(&bases);
}

// --- firmware, devcoredump, what a scenario adds ---

/** `SDMA0` is sdma_fw_version, `SDMA1` sdma2_fw_version, `TA RAS` ta_ras_fw_version. */
static void build_firmware(struct server *s, struct node *d, const struct emu_gpu *g)
{
	for (size_t i = 0; i < emu_firmwares(g); i++) {
		struct emu_firmware f = emu_firmware(g, i);
		char name[64];
		str_copy(name, sizeof(name), f.name);
		for (char *p = name; *p; p++)
			*p = *p == ' ' ? '_' : char_alpha(*p) ? (char)(*p | 0x20) : *p;
		const char *known = !strcmp(name, "sdma0") ? "sdma" : !strcmp(name, "sdma1") ? "sdma2" : name;
		const char *path = arena_printf(&s->arena, "fw_version/%s_fw_version", known).p;
		fixed(s, d, path, arena_printf(&s->arena, "0x%08x\n", f.version));
	}
}

/** Whoever writes to it frees it: then it is gone, also for who has it open. */
static int fill_dump(struct server *s, const struct node *n, struct text *ret)
{
	(void)s;
	if (n->freed)
		return ENODEV;
	text_add(ret, n->text);
	return 0;
}

static int free_dump(struct server *s, struct open_file *f, uint64_t at, const char *data, size_t size)
{
	(void)s, (void)at, (void)data, (void)size;
	f->node->freed = true;
	return 0;
}

static void build_devcoredump(struct server *s, struct node *sys, struct node *d, const struct seat *seat)
{
	struct str dump = emu_devcoredump(seat->gpu);
	if (!dump.n)
		return;
	struct arena *a = &s->arena;
	const char *name = arena_printf(a, "devcd%d", seat->facts->card + 1).p;
	struct node *n = tree_directory(s, sys, arena_printf(a, "devices/virtual/devcoredump/%s", name).p, 0755);
	n->seat = d->seat;
	static const struct kind dump_kind = { .fill = fill_dump, .write = free_dump };
	struct node *data = tree_file(s, n, "data", 0600, &dump_kind);
	data->path = S("devcoredump/data");
	struct text expanded = { 0 };
	emu_expand(s->machine, dump, &expanded);
	data->text = arena_str(a, text_str(&expanded));
	text_free(&expanded);
	struct text up = { 0 };
	tree_path(d, &up);
	tree_link(s, n, "failing_device", arena_printf(a, "../../../../%s", up.p + strlen("/sys/")).p);
	tree_link(s, sys, arena_printf(a, "class/devcoredump/%s", name).p,
		  arena_printf(a, "../../devices/virtual/devcoredump/%s", name).p);
	tree_link(s, d, "devcoredump", arena_printf(a, "../../../virtual/devcoredump/%s", name).p);
	text_free(&up);
}

static int fill_written(struct server *s, const struct node *n, struct text *ret)
{
	emu_file_text(n->seat->gpu, EMU_SYSFS, n->index, server_time(s), ret);
	return 0;
}

static void build_written(struct server *s, struct node *d, const struct emu_gpu *g)
{
	static const struct kind written_kind = { .fill = fill_written };
	for (size_t i = 0; i < emu_files(g, EMU_SYSFS); i++) {
		const char *path = arena_z(&s->arena, emu_file_path(g, EMU_SYSFS, i));
		tree_named(s, d, path, 0444, &written_kind)->index = i;
	}
}

// --- nodes and links ---

/** Directories of the DRM nodes, and links to all of it. */
static void build_links(struct server *s, struct node *sys, struct node *d, const struct emu_facts *f, const char *where,
			size_t seat)
{
	struct arena *a = &s->arena;
	const struct {
		const char *name;
		int minor;
	} nodes[] = { { arena_printf(a, "card%d", f->card).p, f->card },
		      { arena_printf(a, "renderD%d", f->render).p, f->render } };
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		const char *name = nodes[i].name;
		struct node *n = tree_directory(s, d, arena_printf(a, "drm/%s", name).p, 0755);
		tree_text(s, n, "dev", arena_printf(a, "226:%d\n", nodes[i].minor));
		tree_text(s, n, "uevent",
			  arena_printf(a, "MAJOR=226\nMINOR=%d\nDEVNAME=dri/%s\nDEVTYPE=drm_minor\n", nodes[i].minor, name));
		tree_link(s, n, "device", "../..");
		tree_link(s, n, "subsystem", "../../../../../../class/drm");
		tree_link(s, sys, arena_printf(a, "class/drm/%s", name).p, arena_printf(a, "../../%s/drm/%s", where, name).p);
		tree_link(s, sys, arena_printf(a, "dev/char/226:%d", nodes[i].minor).p,
			  arena_printf(a, "../../%s/drm/%s", where, name).p);
	}
	const char *pci = arena_z(a, f->pci);
	tree_link(s, d, "driver", "../../../../bus/pci/drivers/amdgpu");
	tree_link(s, d, "subsystem", "../../../../bus/pci");
	tree_link(s, sys, arena_printf(a, "bus/pci/devices/%s", pci).p, arena_printf(a, "../../../%s", where).p);
	tree_link(s, sys, arena_printf(a, "bus/pci/drivers/amdgpu/%s", pci).p, arena_printf(a, "../../../../%s", where).p);
	tree_link(s, d, arena_printf(a, "hwmon/hwmon%zu/device", seat + 2).p, "../..");
	tree_link(s, sys, arena_printf(a, "class/hwmon/hwmon%zu", seat + 2).p,
		  arena_printf(a, "../../%s/hwmon/hwmon%zu", where, seat + 2).p);
	const char *slot = arena_printf(a, "bus/pci/slots/%zu/address", seat + 1).p;
	if (!f->apu && f->pci.n > 2)
		tree_text(s, sys, slot, arena_printf(a, STR_FMT "\n", (int)f->pci.n - 2, pci));
}

void build_gpu_sysfs(struct server *s, struct node *sys, struct seat *seat)
{
	struct arena *a = &s->arena;
	const struct emu_facts *f = seat->facts;
	size_t index = (size_t)(seat - s->seats);
	char domain[8];
	str_copy(domain, sizeof(domain), str_split(&(struct str){ f->pci.p, f->pci.n }, ':'));
	const char *port = arena_printf(a, "devices/pci%s:00/%s:00:%02zx.1", domain, domain, 1 + index % 31).p;
	const char *where = arena_printf(a, "%s/" STR_FMT, port, STR_ARG(f->pci)).p;
	struct node *bridge = tree_directory(s, sys, port, 0755);
	tree_text(s, bridge, "vendor", S("0x1022\n"));
	tree_text(s, bridge, "class", S("0x060400\n"));
	tree_text(s, bridge, "device", S("0x1483\n"));
	tree_text(s, bridge, "max_link_speed",
		  arena_printf(a, "%u.%u GT/s PCIe\n", f->link.port_speed / 10, f->link.port_speed % 10));
	tree_text(s, bridge, "max_link_width", arena_printf(a, "%u\n", f->link.port_width));
	tree_link(s, sys, arena_printf(a, "bus/pci/devices/%s", strrchr(port, '/') + 1).p, arena_printf(a, "../../../%s", port).p);
	struct node *d = tree_directory(s, sys, where, 0755);
	d->seat = seat;
	seat->sysfs = d;
	build_identity(s, d, f);
	build_errors(s, d);
	build_sensors(s, d, f, index);
	build_bus(s, d);
	fixed(s, d, "irq", arena_printf(a, "%zu\n", 100 + index));
	tree_text(s, d, arena_printf(a, "msi_irqs/%zu", 100 + index).p, S("msi\n"));
	tree_directory(s, d, "ip_discovery", 0755)->path = S("ip_discovery");
	struct node *dies = tree_directory(s, d, "ip_discovery/die", 0755);
	for (size_t i = 0; i < f->nips; i++)
		build_ip(s, dies, &f->ips[i]);
	for (size_t i = 0; i < dies->children.len; i++)
		tree_text(s, dies->children.data[i], "num_ips", arena_printf(a, "%zu\n", f->nips));
	build_firmware(s, d, seat->gpu);
	build_links(s, sys, d, f, where, index);
	build_devcoredump(s, sys, d, seat);
	build_written(s, d, seat->gpu);
}
