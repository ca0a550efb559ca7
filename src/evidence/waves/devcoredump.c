// The driver's own dump of a hung GPU (/sys/class/drm/cardN/device/devcoredump/data), of 6.12 and of 7.x: who, which ring,
// which firmware, the last page fault, the registers of every block, the rings and the job's command buffers (IBs).
#include <stdlib.h>

#include "evidence/artefact.h"
#include "evidence/silicon/silicon.h"
#include "gpu/core/devcoredump.h"
#include "gpu/target.h"
#include "source/file.h"

enum {
	REGISTERS_MAX = 16384,
	WORDS_MAX = 1 << 20,
	NAME_BYTES = 96,
	DUMPS_MAX = 256,
	KEPT_BYTES = 8 << 20,
	WHOLE_BYTES = 4 << 20
};

struct words {
	struct str group, name;
	uint64_t address;
	bool ring; // lines of offset and value, not of a value alone
	VEC(uint64_t) data;
};

struct devcoredump {
	struct artefact_output out;
	struct arena arena;
	struct place at;
	struct stamp time;
	bool header; // the file's own first lines were seen
	struct str kernel, process, pid, thread, tid, ring, ip_type, vmid, pasid;
	struct str device, revision;
	struct str only_ring; // that is named, with @rings the number of them
	unsigned rings;
	struct str discovered; // the block of the discovery section
	struct str block;      // `gfx_v11_0`
	struct str queue;      // of the registers of one queue
	bool fault_seen, address_seen;
	struct place fault_at;
	struct str fault_hub;
	uint64_t fault_address, fault_status, latched_status;
	bool latched;
	struct place latched_at;
	struct str latched_hub;
	bool vram_lost;
	VEC(struct values) registers;
	VEC(struct words) dumps;
	size_t words;
	struct words *open_dump;
	struct text whole; // for the verdict on its registers and rings
};

/** Older kernels print it without the stars. */
static bool is_title(struct str line)
{
	return str_find(line, S("AMDGPU Device Coredump ****")) >= 0 || str_is(str_trim(line), "AMDGPU Device Coredump");
}

static bool devcoredump_begins(struct str line)
{
	return is_title(line) || str_find(line, S("Ring timed out details")) >= 0 ||
	       str_find(line, S("Page fault observed")) >= 0 || str_find(line, S("Protection fault status register: 0x")) >= 0;
}

static void dump_keep(struct devcoredump *d, struct str *to, struct str value)
{
	if (d->arena.total < KEPT_BYTES)
		*to = arena_str(&d->arena, str_cut(str_trim(value), 256));
}

static void keep_value(struct devcoredump *d, struct str group, struct str name, uint64_t value)
{
	if (d->registers.len < REGISTERS_MAX)
		vec_push(&d->registers, ((struct values){ .group = group,
							  .name = arena_str(&d->arena, name),
							  .digits = 8,
							  .n = 1,
							  .data = arena_copy(&d->arena, &value, sizeof(value)) }));
}

/** `python3 PID: 20417`, or `python3 TGID: 20417 thread: python3:cs0 PID: 20431` */
static void waves_devcoredump_process_line(struct devcoredump *d, struct str text)
{
	ptrdiff_t group = str_find(text, S(" TGID: ")), pid = str_find(text, S(" PID: ")),
		  thread = str_find(text, S(" thread: "));
	struct str rest;
	if (group < 0 && pid < 0)
		return;
	dump_keep(d, &d->process, str_cut(text, (size_t)(group >= 0 ? group : pid)));
	rest = str_from(text, (size_t)(group >= 0 ? group + 7 : pid + 6));
	dump_keep(d, &d->pid, str_word(&rest));
	if (thread >= 0 && pid > thread) {
		dump_keep(d, &d->thread, str_cut(str_from(text, (size_t)thread + 9), (size_t)(pid - thread) - 9));
		rest = str_from(text, (size_t)pid + 6);
		dump_keep(d, &d->tid, str_word(&rest));
	}
}

static void waves_devcoredump_take_register(struct devcoredump *d, const struct dump_line *l, struct place at)
{
	bool status = str_find(l->name, S("VM_L2_PROTECTION_FAULT_STATUS")) >= 0 && !str_ends(l->name, S("HI32"));
	if (status && l->value && l->value != UINT32_MAX && !d->latched) {
		d->latched = true;
		d->latched_status = l->value;
		d->latched_at = at;
		d->latched_hub = str_find(l->name, S("MMVM")) >= 0 ? S("mmhub") : S("gfxhub");
	}
	struct str group = d->block;
	if (d->queue.n && d->registers.len < REGISTERS_MAX)
		group = arena_printf(&d->arena, STR_FMT " " STR_FMT, STR_ARG(d->block), STR_ARG(d->queue));
	keep_value(d, group, l->name, l->value);
}

static void dump_begin(struct devcoredump *d, const char *group, struct str name, uint64_t address, bool ring)
{
	d->open_dump = NULL;
	if (d->dumps.len == DUMPS_MAX)
		return;
	struct words w = {
		.group = str_z(group), .name = arena_str(&d->arena, str_cut(name, NAME_BYTES)), .address = address, .ring = ring
	};
	vec_push(&d->dumps, w);
	d->open_dump = &d->dumps.data[d->dumps.len - 1];
}

static bool fault_line(struct devcoredump *d, struct str text, struct place at)
{
	struct str rest;
	ptrdiff_t observed = str_find(text, S("] Page fault observed"));
	if (observed > 0 && text.p[0] == '[') {
		d->fault_seen = true;
		d->fault_at = at;
		dump_keep(d, &d->fault_hub, str_cut(str_from(text, 1), (size_t)observed - 1));
	} else if (str_behind(text, S("Faulty page starting at address"), &rest)) {
		rest = str_from(rest, str_starts(rest, S(":"))); // older kernels print none
		d->address_seen = str_hex(str_word(&rest), &d->fault_address);
	} else if (str_behind(text, S("Protection fault status register:"), &rest)) {
		str_hex(str_word(&rest), &d->fault_status);
	} else {
		return false;
	}
	return true;
}

/** `HWIP: GC[1][0]: v11.0.0.0.0` becomes ip.gc = 11.0.0 */
static void block_version(struct devcoredump *d, const struct dump_line *l, struct place at)
{
	struct str name = l->name, version = l->text;
	struct event e;
	if (!artefact_event(&d->out, "devcoredump-soc", at, &e))
		return;
	while (str_ends(version, S(".0.0")) && version.n > 6)
		version.n -= 4;
	char fact[32] = "ip.";
	for (size_t i = 0; i < name.n; i++)
		fact[3 + i] = name.p[i] == '/' ? '_' : char_lower(name.p[i]);
	event_add(&e, str_z(fact), str_cut(version, 24), FACT_TEXT);
	artefact_tell(&d->out, &e);
}

/** Sizes and names that say what the GPU is: each is a fact of the machine. */
static bool soc_line(struct devcoredump *d, struct str text, struct place at)
{
	static const char *const fields[][2] = {
		{ "real vram size: ", "vram_bytes" },
		{ "visible vram size: ", "visible_vram_bytes" },
		{ "gtt size: ", "gtt_bytes" },
		{ "SOC Family: ", "soc_family" },
		{ "SOC Revision id: ", "soc_revision" },
		{ "vbios name     : ", "vbios_name" },
		{ "vbios pn       : ", "vbios_part" },
		{ "vbios ver_str  : ", "vbios_version" },
		{ "vbios date     : ", "vbios_date" },
		{ "name: ", "vbios_name" },
		{ "pn: ", "vbios_part" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		struct str value;
		struct event e;
		int64_t number;
		if (!str_behind(text, str_z(fields[i][0]), &value))
			continue;
		if (value.n && artefact_event(&d->out, "devcoredump-soc", at, &e)) {
			event_add(&e, str_z(fields[i][1]), str_cut(value, 80),
				  str_number(value, &number) ? FACT_NUMBER : FACT_TEXT);
			artefact_tell(&d->out, &e);
		}
		return true;
	}
	return false;
}

/** The section of IP discovery says at which offsets the registers of a block begin. */
static bool discovery_line(struct devcoredump *d, struct str text)
{
	struct str rest;
	uint64_t address;
	if (str_behind(text, S("hw_id "), &rest)) {
		str_word(&rest);
		dump_keep(d, &d->discovered, rest);
		return true;
	}
	if (!d->discovered.n || !str_behind(text, S("base_addr["), &rest))
		return false;
	str_split(&rest, ']');
	if (str_hex(str_trim(rest), &address))
		keep_value(d, S("ip-base"), d->discovered, address);
	return true;
}

static bool waves_devcoredump_header_line(struct devcoredump *d, struct str text)
{
	const struct {
		const char *key;
		struct str *to;
	} fields[] = { { "kernel: ", &d->kernel },
		       { "pasid: ", &d->pasid },
		       { "vmid: ", &d->vmid },
		       { "SOC Device id: ", &d->device },
		       { "SOC PCI Revision id: ", &d->revision } };
	struct str rest, name;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (str_behind(text, str_z(fields[i].key), &rest)) {
			dump_keep(d, fields[i].to, rest);
			return true;
		}
	if (str_behind(text, S("process_name: "), &rest)) {
		waves_devcoredump_process_line(d, rest);
	} else if (str_behind(text, S("IP Type: "), &rest)) {
		dump_keep(d, &d->ip_type, str_word(&rest));
		if (str_behind(str_trim(rest), S("Ring Name: "), &name))
			dump_keep(d, &d->ring, name);
	} else if (str_find(text, S("VRAM is lost due to GPU reset")) >= 0) {
		d->vram_lost = true;
	} else {
		return false;
	}
	return true;
}

/** Registers and memory. */
static bool waves_devcoredump_state_line(struct devcoredump *d, struct str text, struct place at)
{
	const struct dump_line l = dump_line_parse(text);
	switch (l.kind) {
	case DUMP_BLOCK:
		dump_keep(d, &d->block, l.name);
		d->queue = (struct str){ 0 };
		return true;
	case DUMP_INSTANCE:
	case DUMP_QUEUE:
		dump_keep(d, &d->queue, text);
		return true;
	case DUMP_REGISTER:
		waves_devcoredump_take_register(d, &l, at);
		return true;
	case DUMP_RING:
		// Newer kernels list all rings; where an older one names a single one, it is the one that timed out.
		dump_keep(d, &d->only_ring, d->rings++ ? (struct str){ 0 } : l.name);
		dump_begin(d, "ring", l.name, 0, true);
		return true;
	case DUMP_IB:
		dump_begin(d, "ib", l.name, l.value, false);
		return true;
	case DUMP_RING_WORD:
	case DUMP_IB_WORD:
		if (!d->open_dump || d->open_dump->ring != (l.kind == DUMP_RING_WORD))
			return false;
		if (d->words < WORDS_MAX) {
			d->words++;
			vec_push(&d->open_dump->data, l.value);
		}
		return true;
	case DUMP_RING_POINTERS:
	case DUMP_RING_HEAD:
		return d->open_dump;
	case DUMP_VERSION:
		block_version(d, &l, at);
		return true;
	case DUMP_OTHER:
	case DUMP_DEVICE:
	case DUMP_REVISION:
		break;
	}
	return false;
}

static enum taken devcoredump_line(void *self, const struct logline *line, struct place at)
{
	struct devcoredump *d = self;
	struct str text = str_trim(line->message), rest;
	if (!d->at.line) {
		d->at = at;
		d->time = line_time(line);
	}
	if (d->whole.n < WHOLE_BYTES)
		text_printf(&d->whole, STR_FMT "\n", STR_ARG(line->message));
	if (is_title(text)) {
		if (d->header || d->ring.n) // another one
			return TAKEN_NO;
		d->header = true;
		return TAKEN_YES;
	}
	char number[32];
	if (d->header && str_behind(text, S("time: "), &rest) && rest.n < sizeof(number)) {
		str_copy(number, sizeof(number), rest);
		double seconds = strtod(number, NULL);
		if (seconds > 0 && seconds < 1e10)
			d->time = (struct stamp){ TIME_BOOT, seconds };
		return true;
	}
	bool taken = fault_line(d, text, at) || waves_devcoredump_state_line(d, text, at) || discovery_line(d, text) ||
		     soc_line(d, text, at) || waves_devcoredump_header_line(d, text) || firmware_line(&d->out, text, at);
	// Words by which a line belongs to the file although it says nothing that is kept.
	const char *words =
		"****|version: |module: |SOC |real vram|visible vram|gtt size|GDS |gds: |HW IP|HWIP: |IP Firmw|IP Dump|num_|"
		"die |hw_id |instance|major |minor |revision|harvest|base_addr|Ring |VRAM |VBIOS|Inactive|vbios|name: |pn |"
		"ver_str|date|Active |time: |IBs|ib[";
	return taken ? TAKEN_YES : !text.n || str_among(text, STR_BEGINS, words).n ? TAKEN_LOOKS_LIKE : TAKEN_NO;
}

// --- what is handed on ---

static void waves_devcoredump_add_process(struct devcoredump *d, struct event *e)
{
	int64_t pid;
	bool known = str_number(d->pid, &pid) && pid > 0;
	event_add(e, S("process"), known ? d->process : (struct str){ 0 }, FACT_TEXT);
	event_add(e, S("pid"), known ? d->pid : (struct str){ 0 }, FACT_NUMBER);
	event_add(e, S("thread"), d->thread, FACT_TEXT);
	event_add(e, S("tid"), d->tid, FACT_NUMBER);
}

static void tell_dump(struct devcoredump *d)
{
	struct event e;
	const char *id = d->ring.n ? "devcoredump-ring" : d->vram_lost ? "devcoredump-reset" : "devcoredump-state";
	if (!artefact_event(&d->out, id, d->at, &e))
		return;
	e.time = d->time;
	e.text = S("AMDGPU Device Coredump");
	event_add(&e, S("ring"), d->ring, FACT_TEXT);
	waves_devcoredump_add_process(d, &e);
	event_add_number(&e, &d->arena, "registers", (int64_t)d->registers.len);
	if (d->vram_lost)
		event_add(&e, S("vram_lost"), S("true"), FACT_TRUE);
	for (size_t i = 0; i < d->dumps.len; i++) {
		const struct words *w = &d->dumps.data[i];
		vec_push(&d->registers, ((struct values){ w->group, w->name, 8, w->address, w->data.len, w->data.data }));
	}
	e.dump.values = d->registers.data;
	e.dump.nvalues = d->registers.len;
	artefact_tell(&d->out, &e);
}

/** A record of zeros is none; what the fault register still holds is. */
static void waves_devcoredump_tell_fault(struct devcoredump *d)
{
	struct event e;
	bool record = d->fault_seen && (d->fault_address || d->fault_status);
	if (!record && !d->latched)
		return;
	if (!artefact_event(&d->out, "devcoredump-fault", record ? d->fault_at : d->latched_at, &e))
		return;
	e.time = d->time;
	event_add(&e, S("hub"), record ? d->fault_hub : d->latched_hub, FACT_TEXT);
	// With a status the address zero was really used.
	if (record && (d->fault_address || (d->address_seen && d->fault_status)))
		event_add_code(&e, &d->arena, "fault_address", d->fault_address);
	uint64_t status = record && d->fault_status ? d->fault_status : d->latched_status;
	if (status)
		event_add_code(&e, &d->arena, "fault_status", status);
	event_add(&e, S("vmid"), d->vmid, FACT_NUMBER);
	event_add(&e, S("pasid"), d->pasid, FACT_NUMBER);
	waves_devcoredump_add_process(d, &e);
	artefact_tell(&d->out, &e);
}

static void devcoredump_close(void *self)
{
	struct devcoredump *d = self;
	struct event e;
	int64_t id, revision = 0;
	if (!d->ring.n)
		d->ring = d->only_ring;
	bool state = d->registers.len || d->words; // the names of rings alone say nothing of them
	if (d->kernel.n && artefact_event(&d->out, "devcoredump-kernel", d->at, &e)) {
		event_add(&e, S("kernel"), d->kernel, FACT_TEXT);
		artefact_tell(&d->out, &e);
	}
	if (str_number(d->device, &id) && artefact_event(&d->out, "devcoredump-part", d->at, &e)) {
		event_add_code(&e, &d->arena, "vendor", 0x1002);
		event_add_code(&e, &d->arena, "device_id", (uint64_t)id);
		if (str_number(d->revision, &revision))
			event_add_code(&e, &d->arena, "revision", (uint64_t)revision);
		artefact_tell(&d->out, &e);
	}
	waves_devcoredump_tell_fault(d);
	tell_dump(d);
	// What the registers and rings together mean.
	_cleanup_target_ struct target *t = NULL;
	struct file file = file_memory(d->out.name, text_str(&d->whole));
	_cleanup_error_ struct uh_error *err = state && d->registers.len ? target_devcoredump(d->out.know, &file, &t) : NULL;
	if (t)
		silicon_read_dump(&d->out, t, &(struct dump_head){ d->at, d->time, d->ring });
	text_free(&d->whole);
	for (size_t i = 0; i < d->dumps.len; i++)
		vec_free(&d->dumps.data[i].data);
	vec_free(&d->dumps);
	vec_free(&d->registers);
	arena_free(&d->arena);
}

ARTEFACT_READER(devcoredump, "devcoredump", 200);
