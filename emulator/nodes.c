// Device nodes: the render nodes with the driver's query, /dev/kfd, the kernel's log; and /proc.
#define FUSE_USE_VERSION 35
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "emulator/server.h"

// --- the render node ---

struct version {
	int major, minor, patch;
	size_t name_size;
	uint64_t name;
	size_t date_size;
	uint64_t date;
	size_t description_size;
	uint64_t description;
};

struct query {
	uint64_t to;
	uint32_t size, what;
	union {
		struct {
			uint32_t offset, count, instance, flags;
		} registers;
		struct {
			uint32_t type, ip_instance, index, pad;
		} firmware;
		struct {
			uint32_t type, offset;
		} vbios;
		uint32_t sensor;
	};
};

struct client {
	int index, authenticated;
	unsigned long pid, uid, magic, ioctls;
};

enum {
	QUERY_ACCEL_WORKING = 0x00,
	QUERY_FIRMWARE = 0x0e,
	QUERY_VRAM_USAGE = 0x10,
	QUERY_GTT_USAGE = 0x11,
	QUERY_VRAM_GTT = 0x14,
	QUERY_REGISTERS = 0x15,
	QUERY_DEVICE = 0x16,
	QUERY_MEMORY = 0x19,
	QUERY_VBIOS = 0x1b,
	QUERY_SENSOR = 0x1d,
	REGISTERS_MOST = 128,
	DEVICE_BYTES = 448
};
#define IOCTL_VERSION _IOWR('d', 0x00, struct version)
#define IOCTL_CLIENT _IOWR('d', 0x05, struct client)
#define IOCTL_QUERY _IOW('d', 0x45, struct query)

static int give(pid_t caller, uint64_t to, const void *data, size_t size)
{
	struct iovec local = { (void *)(uintptr_t)data, size }, remote = { (void *)(uintptr_t)to, size };
	return !size || process_vm_writev(caller, &local, 1, &remote, 1, 0) == (ssize_t)size ? 0 : EFAULT;
}

/** As much as the caller wants. */
static int give_some(pid_t caller, const struct query *q, const void *data, size_t size)
{
	return give(caller, q->to, data, q->size < size ? q->size : size);
}

static int give_text(pid_t caller, uint64_t to, size_t *size, const char *text)
{
	size_t room = *size;
	*size = strlen(text);
	return to ? give(caller, to, text, room < *size ? room : *size) : 0;
}

static int version(char *data, pid_t caller)
{
	struct version v;
	memcpy(&v, data, sizeof(v));
	v.major = 3, v.minor = 59, v.patch = 0;
	int error = give_text(caller, v.name, &v.name_size, "amdgpu");
	if (!error)
		error = give_text(caller, v.date, &v.date_size, "20150101");
	if (!error)
		error = give_text(caller, v.description, &v.description_size, "AMD GPU");
	memcpy(data, &v, sizeof(v));
	return error;
}

static bool allowed(const struct seat *seat, uint32_t address)
{
	for (size_t i = 0; i < seat->allowed.len; i++)
		if (seat->allowed.data[i] == address)
			return true;
	return false;
}

/** It takes the reset lock and keeps the graphics core on while it reads; the driver allows GFXOFF again a while later. */
static int query_registers(struct server *s, struct seat *seat, const struct query *q, pid_t caller)
{
	static const double gfxoff_delay = 0.1;
	enum { SE_MOST = 8, SH_MOST = 2, ANY = 0xff };
	uint32_t se = q->registers.instance & ANY, sh = q->registers.instance >> 8 & ANY, words[REGISTERS_MOST];
	if ((se != ANY && se >= SE_MOST) || (sh != ANY && sh >= SH_MOST) || q->registers.count > REGISTERS_MOST)
		return EINVAL;
	enum emu_state state = seat_state(s, seat);
	if (state == EMU_RESET)
		return ANSWER_LATER;
	seat->on_until = server_time(s) + gfxoff_delay;
	struct bank b = BANK_NONE;
	for (uint32_t i = 0; i < q->registers.count; i++) {
		uint32_t address = (q->registers.offset + i) * 4;
		if (!allowed(seat, address))
			return EFAULT;
		words[i] = state == EMU_OFF_BUS ? UINT32_MAX : emu_register(seat->gpu, &b, address, server_time(s));
	}
	size_t size = q->registers.count * sizeof(words[0]);
	return give(caller, q->to, words, size < q->size ? size : q->size);
}

static void put32(char *p, uint32_t v) { memcpy(p, &v, sizeof(v)); }
static void put64(char *p, uint64_t v) { memcpy(p, &v, sizeof(v)); }

/** The CUs of an array that are there, a bit each: two for a WGP. */
static uint32_t cus_on(const struct seat *seat, unsigned se, unsigned sh)
{
	const uint32_t off = emu_units_off(seat->gpu, 0, se, sh);
	const unsigned each = seat->gc_major >= 10 ? 2 : 1;
	uint32_t on = 0;
	for (unsigned cu = 0; cu < seat->facts->shaders.cus_per_sh && cu < 32; cu++)
		on |= off >> cu / each & 1 ? 0 : 1u << cu;
	return on;
}

/** struct drm_amdgpu_info_device, as far as the model knows it. */
static int query_device(const struct seat *seat, const struct query *q, pid_t caller)
{
	enum {
		DEVICE = 0,
		REVISION = 4,
		EXTERNAL_REVISION = 8,
		PCI_REVISION = 12,
		FAMILY = 16,
		SES = 20,
		SHS = 24,
		CLOCK = 32,
		CUS = 48,
		BITMAP = 56,
		CUS_OF_ARRAY = 248
	};
	char d[DEVICE_BYTES] = { 0 };
	const struct emu_facts *f = seat->facts;
	put32(d + DEVICE, f->device);
	put32(d + REVISION, f->gca[24]);
	put32(d + EXTERNAL_REVISION, f->gca[28]);
	put32(d + PCI_REVISION, f->revision);
	put32(d + FAMILY, f->shaders.family);
	put32(d + SES, f->shaders.ses);
	put32(d + SHS, f->shaders.shs_per_se);
	put64(d + CLOCK, (uint64_t)f->limits.clock * 1000);
	put32(d + CUS, emu_active_cus(seat->gpu));
	put32(d + CUS_OF_ARRAY, f->shaders.cus_per_sh);
	for (unsigned se = 0; se < f->shaders.ses; se++)
		for (unsigned sh = 0; sh < f->shaders.shs_per_se; sh++) {
			const unsigned column = sh + se / 4 * f->shaders.shs_per_se; // where an array is in the driver's 4 x 4
			if (column < 4)
				put32(d + BITMAP + 4 * (se % 4 * 4 + column), cus_on(seat, se, sh));
		}
	return give_some(caller, q, d, sizeof(d));
}

/** By the driver's numbers of firmware, as far as the model knows them. */
static int query_firmware(const struct seat *seat, const struct query *q, pid_t caller)
{
	static const char *const names[] = {
		[0x1] = "VCE", [0x2] = "UVD", [0x3] = "MC",   [0x4] = "ME",  [0x5] = "PFP", [0x6] = "CE",  [0x7] = "RLC",
		[0x8] = "MEC", [0xa] = "SMC", [0xb] = "SDMA", [0xc] = "SOS", [0xd] = "ASD", [0xe] = "VCN", [0x14] = "DMCUB"
	};
	if (q->firmware.type >= ARRAY_SIZE(names) || !names[q->firmware.type])
		return EINVAL;
	char wanted[16];
	bool sdma = !strcmp(names[q->firmware.type], "SDMA"), second = q->firmware.index && !sdma;
	snprintf(wanted, sizeof(wanted),
		 sdma   ? "%s%u" :
		 second ? "%s%u" :
			  "%s",
		 names[q->firmware.type], q->firmware.index + (second ? 1 : 0));
	uint32_t answer[2] = { 0 };
	for (size_t i = 0; i < emu_firmwares(seat->gpu); i++) {
		struct emu_firmware f = emu_firmware(seat->gpu, i);
		if (str_is(f.name, wanted))
			answer[0] = f.version, answer[1] = f.feature;
	}
	return give_some(caller, q, answer, sizeof(answer));
}

/** struct drm_amdgpu_info_vbios. */
static int query_vbios(const struct seat *seat, const struct query *q, pid_t caller)
{
	enum { VBIOS_INFO = 3, NAME = 0, NUMBER = 64, VERSION = 136, DATE = 168, BYTES = 200 };
	char v[BYTES] = { 0 };
	if (q->vbios.type != VBIOS_INFO)
		return EINVAL;
	str_copy(v + NAME, NUMBER - NAME, seat->facts->name);
	snprintf(v + NUMBER, 64, "113-EMULATED-%04X", seat->facts->device);
	snprintf(v + VERSION, DATE - VERSION, "022.001.002.001.000001");
	snprintf(v + DATE, BYTES - DATE, "2024/01/02 03:04");
	return give_some(caller, q, v, sizeof(v));
}

/** Sizes of memory and what is used of it, in the order of struct drm_amdgpu_memory_info: VRAM, its part that the host reaches, GTT. */
static int query_memory(struct server *s, const struct seat *seat, const struct query *q, pid_t caller)
{
	const uint64_t vram = seat->facts->vram_total, gtt = seat->facts->gtt_total;
	const uint64_t used = emu_number(seat->gpu, EMU_VRAM_USED, server_time(s));
	const uint64_t heaps[] = { vram, vram,        used, vram - used, vram,     vram,
				   used, vram - used, gtt,  gtt,         GTT_USED, gtt - GTT_USED };
	const uint64_t sizes[] = { vram, vram, gtt };
	switch (q->what) {
	case QUERY_MEMORY:
		return give_some(caller, q, heaps, sizeof(heaps));
	case QUERY_VRAM_USAGE:
		return give_some(caller, q, &used, sizeof(used));
	case QUERY_GTT_USAGE:
		return give_some(caller, q, &(uint64_t){ GTT_USED }, sizeof(uint64_t));
	default:
		return give_some(caller, q, sizes, sizeof(sizes));
	}
}

static int query_sensor(struct server *s, const struct seat *seat, const struct query *q, pid_t caller)
{
	static const struct {
		enum emu_number which;
		uint32_t times;
	} sensors[] = {
		[1] = { EMU_CLOCK, 1 }, [3] = { EMU_TEMPERATURE, 1000 }, [4] = { EMU_BUSY, 1 }, [5] = { EMU_POWER, 1 }
	};
	enum { MEMORY_CLOCK = 2 };
	uint32_t value = (uint32_t)seat_memory_clock(s, seat);
	if (q->sensor != MEMORY_CLOCK && (q->sensor >= ARRAY_SIZE(sensors) || !sensors[q->sensor].times))
		return EOPNOTSUPP;
	if (q->sensor != MEMORY_CLOCK)
		value = (uint32_t)emu_number(seat->gpu, sensors[q->sensor].which, server_time(s)) * sensors[q->sensor].times;
	return give_some(caller, q, &value, sizeof(value));
}

static int render_ioctl(struct server *s, struct open_file *f, unsigned request, char *data, size_t size, pid_t caller)
{
	struct query q;
	seat_wake(s, f->node, caller);
	if (request == IOCTL_VERSION && size >= sizeof(struct version))
		return version(data, caller);
	if (request == IOCTL_CLIENT && size >= sizeof(struct client)) {
		struct client client = { .authenticated = 1, .pid = (unsigned long)caller };
		memcpy(data, &client, sizeof(client));
		return 0;
	}
	if (request != IOCTL_QUERY || size < sizeof(q))
		return EINVAL;
	memcpy(&q, data, sizeof(q));
	struct seat *seat = f->node->seat;
	switch (q.what) {
	case QUERY_ACCEL_WORKING:
		return give_some(caller, &q, &(uint32_t){ 1 }, sizeof(uint32_t));
	case QUERY_MEMORY:
	case QUERY_VRAM_USAGE:
	case QUERY_GTT_USAGE:
	case QUERY_VRAM_GTT:
		return query_memory(s, seat, &q, caller);
	case QUERY_SENSOR:
		return query_sensor(s, seat, &q, caller);
	case QUERY_REGISTERS:
		return query_registers(s, seat, &q, caller);
	case QUERY_DEVICE:
		return query_device(seat, &q, caller);
	case QUERY_FIRMWARE:
		return query_firmware(seat, &q, caller);
	case QUERY_VBIOS:
		return query_vbios(seat, &q, caller);
	default:
		return EINVAL;
	}
}

static uint64_t nothing(struct server *s, const struct node *n)
{
	(void)s, (void)n;
	return 0;
}

static const struct kind render_kind = { .ioctl = render_ioctl, .size = nothing, .wakes_on_open = true };

// --- the kernel's log ---

/** As large as SEEK_END makes the position: no reading gets there. */
enum { LOG_END = 1 << 24 };

static void log_seek(struct server *s, struct open_file *f, uint64_t at)
{
	if (at == f->log.at)
		return;
	f->log.next = 0;
	while (at && f->log.next < emu_messages(s->machine) &&
	       emu_message(s->machine, f->log.next).time <= EMU_UPTIME + server_time(s))
		f->log.next++;
}

/** What dev_*() adds to a record: the device whose name the line begins with. */
static void log_note(struct str text, struct text *ret)
{
	struct str rest = text, driver = str_word(&rest), device = str_word(&rest);
	const bool pci = str_ends(device, S(":")) && pci_length(device) + 1 == device.n;
	if (pci)
		text_printf(ret, " SUBSYSTEM=pci\n DEVICE=+pci:" STR_FMT "\n", STR_ARG(str_cut(device, device.n - 1)));
	else if (str_is(driver, "kfd") && str_is(device, "kfd:"))
		text_add(ret, S(" SUBSYSTEM=kfd\n DEVICE=c511:0\n"));
	else if (str_is(driver, "usb"))
		text_printf(ret, " SUBSYSTEM=usb\n DEVICE=+usb:" STR_FMT "\n", STR_ARG(str_split(&device, ':')));
}

static int log_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	enum { FACILITY_SHIFT = 3 };
	log_seek(s, f, at);
	f->log.at = at;
	bool there = f->log.next < emu_messages(s->machine);
	struct emu_message m = there ? emu_message(s->machine, f->log.next) : (struct emu_message){ 0 };
	if (!there || m.time > EMU_UPTIME + server_time(s))
		return f->flags & O_NONBLOCK ? EAGAIN : ANSWER_LATER;
	text_printf(ret, "%u,%zu,%llu,-;", m.facility << FACILITY_SHIFT | m.level,
		    emu_overwritten(s->machine) + f->log.next + 1, (unsigned long long)(m.time * 1e6 + 0.5));
	emu_expand(s->machine, m.text, ret);
	text_add(ret, S("\n"));
	if (!m.facility)
		log_note(m.text, ret);
	if (ret->n > size)
		return EINVAL;
	f->log.next++;
	f->log.at += ret->n;
	return 0;
}

static void log_close(struct open_file *f)
{
	if (f->log.poll)
		fuse_pollhandle_destroy(f->log.poll);
}

/** Who writes adds a line of his own; here it goes nowhere. */
static int log_write(struct server *s, struct open_file *f, uint64_t at, const char *data, size_t size)
{
	(void)s, (void)f, (void)at, (void)data, (void)size;
	return 0;
}

static uint64_t log_size(struct server *s, const struct node *n)
{
	(void)s, (void)n;
	return LOG_END;
}

bool log_tell(struct server *s)
{
	bool waits = false;
	for (size_t i = 0; i < s->files.len; i++) {
		struct open_file *f = s->files.data[i];
		if (f->node->kind != &log_kind || !f->log.poll)
			continue;
		if (f->log.next >= emu_messages(s->machine) ||
		    emu_message(s->machine, f->log.next).time > EMU_UPTIME + server_time(s)) {
			waits = true;
			continue;
		}
		fuse_lowlevel_notify_poll(f->log.poll);
		fuse_pollhandle_destroy(f->log.poll);
		f->log.poll = NULL;
	}
	return waits;
}

const struct kind log_kind = {
	.read = log_read, .write = log_write, .close = log_close, .size = log_size, .interruptible = true
};

static void build_node(struct server *s, struct node *dri, struct seat *seat, struct str name, const char *use, mode_t mode)
{
	struct node *n = tree_file(s, dri, name.p, mode, &render_kind);
	n->seat = seat;
	n->path = str_z(use);
	const char *by_path = arena_printf(&s->arena, "by-path/pci-" STR_FMT "-%s", STR_ARG(seat->facts->pci), use).p;
	tree_link(s, dri, by_path, arena_printf(&s->arena, "../" STR_FMT, STR_ARG(name)).p);
}

void build_nodes(struct server *s, struct node *dev)
{
	struct node *dri = tree_directory(s, dev, "dri", 0755);
	tree_file(s, dev, "kmsg", 0644, &log_kind)->path = S("kmsg");
	if (s->nseats)
		tree_file(s, dev, "kfd", 0666, &kfd_kind);
	for (size_t i = 0; i < s->nseats; i++) {
		const struct emu_facts *f = s->seats[i].facts;
		build_node(s, dri, &s->seats[i], arena_printf(&s->arena, "card%d", f->card), "card", 0660);
		build_node(s, dri, &s->seats[i], arena_printf(&s->arena, "renderD%d", f->render), "render", 0666);
	}
}

// --- /proc ---

static int fill_interrupts(struct server *s, const struct node *n, struct text *ret)
{
	(void)n;
	text_printf(ret, "           CPU0       \n");
	for (size_t i = 0; i < s->nseats; i++) {
		const struct emu_facts *f = s->seats[i].facts;
		text_printf(ret, "%4zu: %10llu  PCI-MSI-" STR_FMT "    0-edge      amdgpu\n", 100 + i,
			    (unsigned long long)emu_number(s->seats[i].gpu, EMU_INTERRUPTS, server_time(s)), STR_ARG(f->pci));
	}
	text_printf(ret, " NMI: %10d   Non-maskable interrupts\n LOC: %10d   Local timer interrupts\n ERR: %10d\n", 0, 0, 0);
	return 0;
}

/** The kernel's own clock, on which its messages are. */
static int fill_uptime(struct server *s, const struct node *n, struct text *ret)
{
	(void)n;
	text_printf(ret, "%.2f %.2f\n", EMU_UPTIME + server_time(s), EMU_UPTIME + server_time(s));
	return 0;
}

static int fill_modules(struct server *s, const struct node *n, struct text *ret)
{
	(void)s, (void)n;
	text_add(ret, S("amdgpu 19333120 1 - Live 0x0000000000000000\n"));
	return 0;
}

/** The kernel's release; @index: in its line of /proc/version. */
static int fill_release(struct server *s, const struct node *n, struct text *ret)
{
	struct str release = emu_kernel(s->machine);
	if (n->index)
		text_printf(ret, "Linux version " STR_FMT " (unhang emulate) #1 SMP PREEMPT_DYNAMIC\n", STR_ARG(release));
	else
		text_printf(ret, STR_FMT "\n", STR_ARG(release));
	return 0;
}

/** What the kernel says of an open render node. @index: the process. */
static int fill_client(struct server *s, const struct node *n, struct text *ret)
{
	const struct emu_process *p = emu_process(s->machine, n->index);
	text_printf(
		ret,
		"pos:\t0\nflags:\t02100002\nmnt_id:\t1\nino:\t1\ndrm-driver:\tamdgpu\ndrm-client-id:\t%zu\ndrm-pdev:\t" STR_FMT
		"\npasid:\t%u\ndrm-memory-vram:\t%llu KiB\ndrm-memory-gtt: \t0 KiB\ndrm-memory-cpu: \t0 KiB\n",
		n->index + 10, STR_ARG(n->seat->facts->pci), emu_process_pasid(p),
		(unsigned long long)emu_process_vram(p, n->seat->gpu) / 1024);
	return 0;
}

void build_clients(struct server *s, struct node *proc)
{
	static const struct kind interrupts_kind = { .fill = fill_interrupts, .size = nothing };
	static const struct kind modules_kind = { .fill = fill_modules, .size = nothing };
	static const struct kind uptime_kind = { .fill = fill_uptime, .size = nothing };
	static const struct kind release_kind = { .fill = fill_release, .size = nothing };
	static const struct kind client_kind = { .fill = fill_client, .size = nothing };
	tree_file(s, proc, "interrupts", 0444, &interrupts_kind);
	tree_file(s, proc, "modules", 0444, &modules_kind);
	tree_file(s, proc, "uptime", 0444, &uptime_kind);
	tree_file(s, proc, "osrelease", 0444, &release_kind);
	tree_file(s, proc, "version", 0444, &release_kind)->index = 1;
	for (size_t i = 0; i < emu_processes(s->machine); i++) {
		const struct emu_process *p = emu_process(s->machine, i);
		// The process opens them in this order, as its first files behind the standard ones.
		unsigned fd = 3;
		for (size_t g = 0; g < s->nseats; g++) {
			if (!emu_process_opens(p, s->seats[g].gpu))
				continue;
			const char *path = arena_printf(&s->arena, "fdinfo/%d/%u", emu_process_pid(p), fd++).p;
			struct node *n = tree_file(s, proc, path, 0444, &client_kind);
			n->seat = &s->seats[g];
			n->index = i;
		}
	}
}
