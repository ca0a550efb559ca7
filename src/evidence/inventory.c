// What machines print about their GPUs: rocminfo, rocm-smi, amd-smi. It says which node number is which PCI address and which
// part, what ROCm and driver are installed, and how many errors were counted.
#include <stdio.h>

#include "evidence/hardware/counts.h"

struct inventory_gpu {
	int64_t node, index;
	uint64_t chip, bdf;
	bool gpu, has_bdf;
	char pci[16], gfx[16];
	struct error_counts counts;
};

/** What a line of `KEY: value` says of the GPU that is being read. */
enum inventory_field { OF_NAME, OF_GFX, OF_NODE, OF_TYPE, OF_CHIP, OF_BDF, OF_PCI };
struct inventory_key {
	const char *key;
	enum inventory_field field;
};

/** rocminfo; amd-smi, which has them below `GPU: 0`; rocm-smi, which has them behind `GPU[0]   :`. */
static const struct inventory_key keys[] = {
	{ "Name: ", OF_NAME },    { "Node: ", OF_NODE },      { "Device Type: ", OF_TYPE },
	{ "Chip ID: ", OF_CHIP }, { "BDFID: ", OF_BDF },      { "BDF: ", OF_PCI },
	{ "NODE_ID: ", OF_NODE }, { "DEVICE_ID: ", OF_CHIP }, { "TARGET_GRAPHICS_VERSION: ", OF_GFX }
};
static const struct inventory_key old_smi_keys[] = {
	{ "Node ID:", OF_NODE }, { "PCI Bus:", OF_PCI }, { "GFX Version:", OF_GFX }, { "Card Model:", OF_CHIP }
};

struct inventory {
	struct artefact_output out;
	struct place at;
	struct inventory_gpu now; // the agent or GPU that is being read
	bool open;
	char rocm[24], driver[32];
};

/** `GPU: 0` */
static bool is_gpu_line(struct str text)
{
	return str_starts(text, S("GPU: ")) && text.n < 10 && text.n > 5 && char_digit(text.p[5]);
}

/** Its number; -1: the line is another. */
static int64_t gpu_line_number(struct str text)
{
	int64_t n;
	return is_gpu_line(text) && str_number(str_trim(str_from(text, 5)), &n) ? n : -1;
}

static bool inventory_begins(struct str line)
{
	static const char *const begins[] = { "HSA System Attributes", "ROCm System Management Interface", "| AMD-SMI ",
					      "AMDSMI Tool: ", "HSA Agents" };
	for (size_t i = 0; i < ARRAY_SIZE(begins); i++)
		if (str_find(line, str_z(begins[i])) >= 0)
			return true;
	return is_gpu_line(str_trim(line)) || counts_cut(str_trim(line));
}

// --- one GPU ---

static void inventory_tell_gpu(struct inventory *v)
{
	const struct inventory_gpu *g = &v->now;
	struct event e;
	_cleanup_arena_ struct arena a = { 0 };
	if (v->open && (g->gpu || g->pci[0]) && artefact_event(&v->out, "inventory-gpu", v->at, &e)) {
		if (g->pci[0])
			event_add_text(&e, &a, "pci", str_z(g->pci));
		else if (g->has_bdf) // rocminfo prints bus, device and function as one number, without the domain
			event_add(&e, S("pci"),
				  arena_printf(&a, "0000:%02x:%02x.%x", (unsigned)(g->bdf >> 8 & 0xff),
					       (unsigned)(g->bdf >> 3 & 0x1f), (unsigned)(g->bdf & 7)),
				  FACT_TEXT);
		if (g->node >= 0)
			event_add_number(&e, &a, "gpu_node", g->node);
		if (g->index >= 0)
			event_add_number(&e, &a, "gpu_index", g->index);
		if (g->chip) {
			event_add_code(&e, &a, "vendor", 0x1002);
			event_add_code(&e, &a, "device_id", g->chip);
		}
		event_add_text(&e, &a, "gfx", str_z(g->gfx));
		artefact_tell(&v->out, &e);
	}
	if (v->open)
		counts_tell(&g->counts, &v->out, v->at, str_z(g->pci), g->index);
}

static void begin_gpu(struct inventory *v, struct place at)
{
	inventory_tell_gpu(v);
	v->now = (struct inventory_gpu){ .node = -1, .index = -1 };
	v->open = true;
	v->at = at;
}

// --- lines ---

/** `30033(0x7551)`, `768`, `0x74a0` */
static uint64_t first_number(struct str value)
{
	int64_t n;
	return str_number(str_cut(value, str_run(value, char_word)), &n) && n >= 0 ? (uint64_t)n : 0;
}

/** Whether a field says something, which is kept then. */
static bool field_take(struct inventory_gpu *g, enum inventory_field field, struct str value)
{
	int64_t n = 0;
	const bool number = str_number(value, &n);
	switch (field) {
	case OF_NAME:
	case OF_GFX:
		if (field == OF_NAME && !str_starts(value, S("gfx")))
			return false;
		str_copy(g->gfx, sizeof(g->gfx), value);
		return true;
	case OF_NODE:
		g->node = number ? n : g->node;
		return number;
	case OF_TYPE:
		g->gpu = str_starts(value, S("GPU"));
		return true;
	case OF_CHIP:
		g->chip = first_number(value);
		return true;
	case OF_BDF:
		g->bdf = first_number(value);
		g->has_bdf = g->bdf > 0;
		return true;
	case OF_PCI:
		if (pci_length(value))
			str_copy(g->pci, sizeof(g->pci), str_cut(value, pci_length(value)));
		return pci_length(value);
	}
	return false;
}

static bool fields_line(struct inventory *v, const struct inventory_key *list, size_t n, struct str text)
{
	struct str value;
	for (size_t i = 0; i < n; i++)
		if (str_behind(text, str_z(list[i].key), &value))
			return field_take(&v->now, list[i].field, value);
	return false;
}

/** rocm-smi: `GPU[0]   : Node ID:  1` */
static bool old_smi_line(struct inventory *v, struct str text, struct place at)
{
	struct str rest = str_from(text, 4), index = str_split(&rest, ']');
	int64_t n;
	if (!str_starts(text, S("GPU[")) || !str_number(index, &n))
		return false;
	if (!v->open || v->now.index != n) {
		begin_gpu(v, at);
		v->now.index = n;
		v->now.gpu = true;
	}
	str_split(&rest, ':');
	fields_line(v, old_smi_keys, ARRAY_SIZE(old_smi_keys), str_trim(rest));
	return true;
}

/** `| 0000:ff:00.0   AMD Instinct MI300X | 0 %      44 °C   2           160/750 W |`: the third value counts uncorrected errors (UEC). */
static void row_errors(struct error_counts *c, struct str text)
{
	enum { CELL = 2, ERRORS = 3 };
	char line[64];
	struct str cell = { 0 }, word = { 0 };
	for (unsigned i = 0; i <= CELL; i++)
		cell = str_split(&text, '|');
	for (unsigned i = 0; i < ERRORS && cell.n;) {
		word = str_word(&cell);
		i += !str_is(word, "%") && !str_ends(word, S("C"));
	}
	if (!cell.n) // the row of another release
		return;
	snprintf(line, sizeof(line), "TOTAL_UNCORRECTABLE_COUNT: %.*s", (int)(word.n < 24 ? word.n : 24), word.p);
	counts_line(c, str_z(line));
}

static enum taken inventory_line(void *self, const struct logline *line, struct place at)
{
	struct inventory *v = self;
	struct str text = str_trim(line->text), version;
	const struct {
		struct str key;
		char *room;
		size_t size;
	} versions[] = { { S("ROCm version: "), v->rocm, sizeof(v->rocm) },
			 { S("amdgpu version: "), v->driver, sizeof(v->driver) },
			 { S("ROCk module version "), v->driver, sizeof(v->driver) } };
	if (!v->at.line)
		v->at = at;
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		if (str_after(text, versions[i].key, &version)) {
			version = str_word(&version);
			if (version.n && char_digit(version.p[0]))
				str_copy(versions[i].room, versions[i].size, version);
		}
	// The table of amd-smi: `| 0000:ff:00.0 AMD Instinct MI300X VF | 0 % ...`
	const bool row = str_starts(text, S("| ")) && pci_length(str_from(text, 2)) == 12, gpu = row || is_gpu_line(text);
	if (gpu || (str_starts(text, S("Agent ")) && text.n < 12)) {
		begin_gpu(v, at);
		v->now.gpu = gpu;
		v->now.index = gpu_line_number(text);
		if (row) {
			str_copy(v->now.pci, sizeof(v->now.pci), str_cut(str_from(text, 2), 12));
			row_errors(&v->now.counts, text);
		}
		return true;
	}
	if (!v->open && counts_cut(text)) { // what grep left
		begin_gpu(v, at);
		v->now.counts.cut = true;
	}
	if (fields_line(v, keys, ARRAY_SIZE(keys), text) || counts_line(&v->now.counts, text) || old_smi_line(v, text, at))
		return true;
	// Tables and fields that say nothing that is kept, but are of it: `KEY: value`, rules, rows.
	bool looks = !text.n || char_among(text.p[0], "=*|+-") || str_find(text, S(":")) > 0 || str_starts(text, S("HSA ")) ||
		     char_digit(text.p[0]) || str_starts(text, S("Device ")) || str_starts(text, S("Agent"));
	return looks ? TAKEN_LOOKS_LIKE : TAKEN_NO;
}

static void inventory_close(void *self)
{
	struct inventory *v = self;
	struct event e;
	_cleanup_arena_ struct arena a = { 0 };
	inventory_tell_gpu(v);
	if ((v->rocm[0] || v->driver[0]) && artefact_event(&v->out, "inventory-software", v->at, &e)) {
		event_add_text(&e, &a, "rocm", str_z(v->rocm));
		event_add_text(&e, &a, "driver", str_z(v->driver));
		artefact_tell(&v->out, &e);
	}
}

ARTEFACT_READER(inventory, "inventory", 4);

// Files of the driver's debugfs, as people paste them: amdgpu_fence_info and amdgpu_firmware_info. A fence that is not signaled
// is no hang by itself; one that two looks show at the same number is.

enum { RINGS_MAX = 128 };

struct ring_fences {
	char name[32];
	uint64_t signaled, emitted;
	struct place at;
	bool stuck;
};

struct fence_info {
	struct artefact_output out;
	struct arena arena;
	size_t n;
	struct ring_fences rings[RINGS_MAX];
	struct ring_fences now;
	unsigned field; // how many of the ring's numbers were read: signaled, emitted
};

/** `--- ring 0 (gfx_0.0.0) ---` */
static bool ring_header(struct str line, struct str *ret_name)
{
	struct str rest;
	if (!str_after(line, S("--- ring "), &rest))
		return false;
	str_split(&rest, '(');
	*ret_name = str_split(&rest, ')');
	return ret_name->n;
}

static bool fence_info_begins(struct str line) { return ring_header(line, &(struct str){ 0 }); }

/** The same ring again is a second look. */
static void inventory_end_ring(struct fence_info *f)
{
	if (!f->now.name[0] || f->field < 2)
		return;
	for (size_t i = 0; i < f->n; i++) {
		struct ring_fences *r = &f->rings[i];
		if (strcmp(r->name, f->now.name))
			continue;
		r->stuck = r->signaled == f->now.signaled && f->now.emitted > f->now.signaled && r->emitted > r->signaled;
		r->emitted = f->now.emitted;
		r->signaled = f->now.signaled;
		return;
	}
	if (f->n < RINGS_MAX)
		f->rings[f->n++] = f->now;
}

static enum taken fence_info_line(void *self, const struct logline *line, struct place at)
{
	struct fence_info *f = self;
	struct str text = str_trim(line->text), name;
	if (ring_header(text, &name)) {
		inventory_end_ring(f);
		f->now = (struct ring_fences){ .at = at };
		f->field = 0;
		str_copy(f->now.name, sizeof(f->now.name), name);
		return true;
	}
	if (!str_starts(text, S("Last ")))
		return !text.n;
	ptrdiff_t number = str_find(text, S("0x"));
	uint64_t value;
	// Only the first two are the ring's own; the trailing fences of preemption follow under the same words.
	if (number > 0 && str_hex(str_trim(str_from(text, (size_t)number)), &value)) {
		if (f->field == 0)
			f->now.signaled = value;
		else if (f->field == 1)
			f->now.emitted = value;
		f->field++;
	}
	return true;
}

static void fence_info_close(void *self)
{
	struct fence_info *f = self;
	struct event e;
	inventory_end_ring(f);
	for (size_t i = 0; i < f->n; i++) {
		const struct ring_fences *r = &f->rings[i];
		if (r->emitted <= r->signaled ||
		    !artefact_event(&f->out, r->stuck ? "fence-stuck" : "fence-pending", r->at, &e))
			continue;
		event_add_text(&e, &f->arena, "ring", str_z(r->name));
		event_add_code(&e, &f->arena, "fence_signaled", r->signaled);
		event_add_code(&e, &f->arena, "fence_emitted", r->emitted);
		artefact_tell(&f->out, &e);
	}
	arena_free(&f->arena);
}

ARTEFACT_READER(fence_info, "fence-info", 8);

// --- amdgpu_firmware_info ---

void firmware_fact(struct event *e, struct arena *a, struct str engine, uint64_t version)
{
	char name[32] = "fw_";
	for (size_t i = 0; i < engine.n && 3 + i + 1 < sizeof(name); i++)
		name[3 + i] = engine.p[i] == ' ' ? '_' : char_lower(engine.p[i]);
	event_add_code(e, a, arena_z(a, str_z(name)), version);
}

bool firmware_line(const struct artefact_output *out, struct str text, struct place at)
{
	ptrdiff_t feature = str_find(text, S(" feature version: "));
	struct str rest;
	uint64_t version;
	struct event e;
	if (feature <= 0 || feature > 24 ||
	    !(str_after(text, S("fw version: "), &rest) || str_after(text, S("firmware version: "), &rest)))
		return false;
	if (!str_hex(str_word(&rest), &version) || !version || !artefact_event(out, "firmware-info", at, &e))
		return true;
	_cleanup_arena_ struct arena arena = { 0 };
	firmware_fact(&e, &arena, str_cut(text, (size_t)feature), version);
	artefact_tell(out, &e);
	return true;
}

static bool firmware_info_begins(struct str line)
{
	return str_find(line, S(" feature version: ")) > 0 && str_find(line, S(", firmware version: 0x")) > 0;
}

static enum taken firmware_info_line(void *self, const struct logline *line, struct place at)
{
	struct str text = str_trim(line->message);
	return firmware_line(self, text, at) || str_starts(text, S("VBIOS version"));
}

const struct artefact_reader firmware_info_reader = {
	.kind = "firmware-info",
	.begins = firmware_info_begins,
	.size = sizeof(struct artefact_output),
	.line = firmware_info_line,
	.patience = 4,
};
