// What machines print about their GPUs: rocminfo, rocm-smi, amd-smi. It says which node number is which PCI address and which
// part, what ROCm and driver are installed, and how many errors were counted.
#include <stdlib.h>

#include "evidence/artefact.h"

struct inventory_gpu {
	int64_t node, index;
	uint64_t chip, bdf;
	bool gpu, has_bdf;
	char pci[16], gfx[16];
	int64_t uncorrectable;
};

struct inventory {
	struct artefact_output out;
	struct place at;
	struct inventory_gpu now; // the agent or GPU that is being read
	bool open;
	char rocm[24], driver[32];
};

static const char *const begins[] = { "HSA System Attributes", "ROCm System Management Interface", "| AMD-SMI ",
				      "AMDSMI Tool: ", "HSA Agents" };

static bool is_gpu_line(struct str text)
{
	return str_starts(text, S("GPU: ")) && text.n < 10 && text.n > 5 && char_digit(text.p[5]);
}

static bool inventory_begins(struct str line)
{
	struct str text = str_trim(line);
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (str_find(text, str_z(begins[i])) >= 0)
			return true;
	return is_gpu_line(text);
}

static void *inventory_open(const struct artefact_output *out)
{
	struct inventory *v = mem_alloc(sizeof(*v));
	v->out = *out;
	return v;
}

// --- one GPU ---

static void tell_gpu(struct inventory *v)
{
	const struct inventory_gpu *g = &v->now;
	struct event e;
	struct arena a = { 0 };
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
		if (g->chip) {
			event_add_code(&e, &a, "vendor", 0x1002);
			event_add_code(&e, &a, "device_id", g->chip);
		}
		event_add_text(&e, &a, "gfx", str_z(g->gfx));
		artefact_tell(&v->out, &e);
	}
	if (v->open && g->uncorrectable > 0 && artefact_event(&v->out, "inventory-ecc", v->at, &e)) {
		event_add_number(&e, &a, "ras_count", g->uncorrectable);
		event_add_text(&e, &a, "pci", str_z(g->pci));
		artefact_tell(&v->out, &e);
	}
	arena_free(&a);
}

static void begin_gpu(struct inventory *v, struct place at)
{
	tell_gpu(v);
	v->now = (struct inventory_gpu){ .node = -1, .index = -1 };
	v->open = true;
	v->at = at;
}

static void tell_software(struct inventory *v)
{
	struct event e;
	struct arena a = { 0 };
	if ((v->rocm[0] || v->driver[0]) && artefact_event(&v->out, "inventory-software", v->at, &e)) {
		event_add_text(&e, &a, "rocm", str_z(v->rocm));
		event_add_text(&e, &a, "driver", str_z(v->driver));
		artefact_tell(&v->out, &e);
	}
	arena_free(&a);
}

// --- lines ---

/** `30033(0x7551)`, `768`, `0x74a0` */
static uint64_t first_number(struct str value)
{
	int64_t n;
	size_t end = 0;
	while (end < value.n && (char_word(value.p[end])))
		end++;
	return str_number(str_cut(value, end), &n) && n >= 0 ? (uint64_t)n : 0;
}

static bool rocminfo_line(struct inventory *v, struct str text, struct place at)
{
	struct str value;
	if (str_starts(text, S("Agent ")) && text.n < 12) {
		begin_gpu(v, at);
		return true;
	}
	if (str_behind(text, S("Name: "), &value) && str_starts(value, S("gfx")))
		str_copy(v->now.gfx, sizeof(v->now.gfx), value);
	else if (str_behind(text, S("Node: "), &value))
		v->now.node = (int64_t)first_number(value);
	else if (str_behind(text, S("Device Type: "), &value))
		v->now.gpu = str_starts(value, S("GPU"));
	else if (str_behind(text, S("Chip ID: "), &value))
		v->now.chip = first_number(value);
	else if (str_behind(text, S("BDFID: "), &value)) {
		v->now.bdf = first_number(value);
		v->now.has_bdf = v->now.bdf > 0;
	} else
		return false;
	return true;
}

/** amd-smi: `GPU: 0` and its fields below */
static bool smi_line(struct inventory *v, struct str text, struct place at)
{
	struct str value;
	int64_t n;
	if (is_gpu_line(text)) {
		begin_gpu(v, at);
		v->now.gpu = true;
		return true;
	}
	if (str_behind(text, S("BDF: "), &value) && pci_length(value))
		str_copy(v->now.pci, sizeof(v->now.pci), str_cut(value, pci_length(value)));
	else if (str_behind(text, S("NODE_ID: "), &value) && str_number(value, &n))
		v->now.node = n;
	else if (str_behind(text, S("DEVICE_ID: "), &value))
		v->now.chip = first_number(value);
	else if (str_behind(text, S("TARGET_GRAPHICS_VERSION: "), &value))
		str_copy(v->now.gfx, sizeof(v->now.gfx), value);
	else if (str_behind(text, S("TOTAL_UNCORRECTABLE_COUNT: "), &value) && str_number(value, &n))
		v->now.uncorrectable = n;
	else
		return false;
	return true;
}

/** rocm-smi: `GPU[0]   : Node ID:  1` */
static bool old_smi_line(struct inventory *v, struct str text, struct place at)
{
	struct str rest, value;
	int64_t n;
	if (!str_starts(text, S("GPU[")))
		return false;
	rest = str_from(text, 4);
	struct str index = str_split(&rest, ']');
	if (!str_number(index, &n))
		return false;
	if (!v->open || v->now.index != n) {
		begin_gpu(v, at);
		v->now.index = n;
		v->now.gpu = true;
	}
	str_split(&rest, ':');
	rest = str_trim(rest);
	if (str_behind(rest, S("Node ID:"), &value) && str_number(value, &n))
		v->now.node = n;
	else if (str_behind(rest, S("PCI Bus:"), &value) && pci_length(value))
		str_copy(v->now.pci, sizeof(v->now.pci), str_cut(value, pci_length(value)));
	else if (str_behind(rest, S("GFX Version:"), &value))
		str_copy(v->now.gfx, sizeof(v->now.gfx), value);
	else if (str_behind(rest, S("Card Model:"), &value))
		v->now.chip = first_number(value);
	return true;
}

/** A version behind @key, up to a space. */
static void version(struct str text, const char *key, char *room, size_t size)
{
	ptrdiff_t at = str_find(text, str_z(key));
	if (at < 0)
		return;
	struct str rest = str_from(text, (size_t)at + strlen(key)), word = str_word(&rest);
	if (word.n && char_digit(word.p[0]))
		str_copy(room, size, word);
}

static enum taken inventory_line(void *self, const struct logline *line, struct place at)
{
	struct inventory *v = self;
	struct str text = str_trim(line->text);
	if (!v->at.line)
		v->at = at;
	version(text, "ROCm version: ", v->rocm, sizeof(v->rocm));
	version(text, "amdgpu version: ", v->driver, sizeof(v->driver));
	version(text, "ROCk module version ", v->driver, sizeof(v->driver));
	// The table of amd-smi: `| 0000:ff:00.0 AMD Instinct MI300X VF | 0 % ...`
	if (str_starts(text, S("| ")) && pci_length(str_from(text, 2)) == 12) {
		begin_gpu(v, at);
		v->now.gpu = true;
		str_copy(v->now.pci, sizeof(v->now.pci), str_cut(str_from(text, 2), 12));
		return true;
	}
	if (rocminfo_line(v, text, at) || smi_line(v, text, at) || old_smi_line(v, text, at))
		return true;
	// Tables and fields that say nothing that is kept, but are of it: `KEY: value`, rules, rows.
	bool looks = !text.n || char_among(text.p[0], "=*|+-") || str_find(text, S(":")) > 0 || str_starts(text, S("HSA ")) ||
		     char_digit(text.p[0]) || str_starts(text, S("Device ")) || str_starts(text, S("Agent"));
	return looks ? TAKEN_LOOKS_LIKE : TAKEN_NO;
}

static void inventory_close(void *self)
{
	struct inventory *v = self;
	tell_gpu(v);
	tell_software(v);
	free(v);
}

const struct artefact_reader inventory_reader = {
	.kind = "inventory",
	.begins = inventory_begins,
	.open = inventory_open,
	.line = inventory_line,
	.close = inventory_close,
	.patience = 4,
};
