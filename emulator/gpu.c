// The statements of a block `gpu`, which are those of a block `part` as well.
#include "emulator/machine.h"

#include <stdlib.h>

#include "gpu/layout.h"
#include "knowledge/template.h"

// --- parts ---

enum { PART_DEPTH = 8, PARTS = 64 };

static const struct emu_statement statements[];

static bool read_part(struct cursor *c, void *gpu)
{
	struct emu_gpu *g = gpu;
	struct str name = cursor_word(c);
	if (!emu_part_apply(c, g, name))
		return false;
	g->facts.part = name;
	return true;
}

bool emu_part_apply(struct cursor *c, struct emu_gpu *g, struct str name)
{
	struct emu_reader *r = c->r;
	for (size_t i = 0; i < r->nparts; i++)
		if (str_is(r->parts[i].kind, "part") && str_eq(r->parts[i].id, name)) {
			if (++g->depth > PART_DEPTH || ++g->parts > PARTS)
				return emu_wrong(c, "parts that name parts without end");
			bool good = emu_statements(r, &r->parts[i], statements, g);
			g->depth--;
			g->facts.part = name;
			return good;
		}
	return emu_wrong(c, "there is no part '" STR_FMT "'", STR_ARG(str_cut(name, 80)));
}

// --- what it is ---

static bool read_name(struct cursor *c, void *gpu)
{
	((struct emu_gpu *)gpu)->facts.name = cursor_text(c);
	return true;
}

static bool read_chip(struct cursor *c, void *gpu)
{
	((struct emu_gpu *)gpu)->facts.chip = cursor_text(c);
	return true;
}

static bool read_gfx(struct cursor *c, void *gpu)
{
	struct emu_gpu *g = gpu;
	g->facts.gfx = cursor_word(c);
	g->waves_known = wave_words_of(g->machine->k, g->facts.gfx, &g->wave_words);
	uh_error_free(layout_for_words(&g->machine->arena, g->machine->k, g->facts.gfx, &g->layout));
	if (g->waves_known) {
		g->facts.simds_per_cu = g->wave_words.simds;
		g->facts.slots_per_simd = g->wave_words.slots;
	}
	return true;
}

static bool read_device(struct cursor *c, void *gpu)
{
	struct emu_facts *f = &((struct emu_gpu *)gpu)->facts;
	if (!cursor_unsigned(c, "the device's number", 0xffff, &f->device))
		return false;
	while (cursor_more(c)) {
		struct str key = cursor_word(c);
		if (str_is(key, "revision")  ? !cursor_unsigned(c, "revision", 0xff, &f->revision) :
		    str_is(key, "subsystem") ? !cursor_unsigned(c, "subsystem", 0xffff, &f->subsystem_vendor) ||
						       !cursor_unsigned(c, "subsystem", 0xffff, &f->subsystem_device) :
		    str_is(key, "class") ? !cursor_unsigned(c, "class", 0xffffff, &f->class) :
					   !emu_wrong(c, "'" STR_FMT "' is none of revision, subsystem, class",
						      STR_ARG(str_cut(key, 80))))
			return false;
	}
	return true;
}

static bool read_family(struct cursor *c, void *gpu)
{
	struct emu_gpu *g = gpu;
	return cursor_unsigned(c, "the family", 0xffff, &g->facts.shaders.family) &&
	       (!cursor_more(c) || cursor_unsigned(c, "the external revision", 0xffff, &g->external_revision));
}

static bool read_version(struct cursor *c, unsigned ret[3])
{
	struct str word = cursor_word(c), rest = word;
	for (size_t i = 0; i < 3; i++) {
		uint64_t v;
		if (!emu_number_of(str_split(&rest, '.'), &v) || v > 255)
			return emu_wrong(c, "'" STR_FMT "' is no version of three numbers", STR_ARG(str_cut(word, 80)));
		ret[i] = (unsigned)v;
	}
	return !rest.n || emu_wrong(c, "'" STR_FMT "' is no version of three numbers", STR_ARG(str_cut(word, 80)));
}

/** `ip NAME VERSION [instance N] [die N] [BASE]...` */
static bool read_ip(struct cursor *c, void *gpu)
{
	enum { BASES = 8, IPS = 256 };
	struct emu_gpu *g = gpu;
	struct arena *a = &g->machine->arena;
	uint32_t *bases = arena_alloc(a, BASES * sizeof(*bases));
	struct ip ip = { .name = cursor_word(c), .bases = bases };
	if (!ip.name.n || ip.name.n > 16 || !read_version(c, ip.version))
		return emu_wrong(c, "an IP block is NAME VERSION");
	while (cursor_more(c)) {
		unsigned *number = cursor_is(c, "instance") ? &ip.instance : cursor_is(c, "die") ? &ip.die : NULL;
		if (number ? !cursor_unsigned(c, "a number", 63, number) :
			     ip.nbases == BASES || !cursor_unsigned(c, "a base address", UINT32_MAX, &bases[ip.nbases++]))
			return emu_wrong(c, "more than %d base addresses", BASES);
	}
	for (size_t i = 0; i < g->ips.len; i++)
		if (str_eq(g->ips.data[i].name, ip.name) && g->ips.data[i].instance == ip.instance) {
			g->ips.data[i] = ip;
			return true;
		}
	if (g->ips.len == IPS)
		return emu_wrong(c, "more than %d IP blocks", IPS);
	vec_push(&g->ips, ip);
	return true;
}

/** A word and its number. */
struct numbered {
	const char *name;
	unsigned *number, most;
};

/** `NAME N...`, each of which is 1 at least. */
static bool read_numbered(struct cursor *c, const struct numbered *rows, size_t n, const char *names)
{
	while (cursor_more(c)) {
		struct str key = cursor_word(c);
		size_t i = 0;
		while (i < n && !str_is(key, rows[i].name))
			i++;
		if (i == n)
			return emu_wrong(c, "'" STR_FMT "' is none of %s", STR_ARG(str_cut(key, 80)), names);
		if (!cursor_unsigned(c, rows[i].name, rows[i].most, rows[i].number))
			return false;
		if (!*rows[i].number)
			return emu_wrong(c, "%s must be 1 at least", rows[i].name);
	}
	return true;
}

static bool read_shaders(struct cursor *c, void *gpu)
{
	struct emu_facts *f = &((struct emu_gpu *)gpu)->facts;
	const struct numbered rows[] = { { "xccs", &f->shaders.xccs, 8 },      { "ses", &f->shaders.ses, 32 },
					 { "shs", &f->shaders.shs_per_se, 4 }, { "cus", &f->shaders.cus_per_sh, 64 },
					 { "simds", &f->simds_per_cu, 4 },     { "slots", &f->slots_per_simd, 40 } };
	return read_numbered(c, rows, ARRAY_SIZE(rows), "xccs, ses, shs, cus, simds, slots");
}

static bool read_limits(struct cursor *c, void *gpu)
{
	struct emu_facts *f = &((struct emu_gpu *)gpu)->facts;
	const struct numbered rows[] = { { "clock", &f->limits.clock, 10000 },
					 { "memory-clock", &f->limits.memory_clock, 10000 },
					 { "memory-bus", &f->limits.memory_bus, 16384 },
					 { "power", &f->limits.power, 2000 } };
	return read_numbered(c, rows, ARRAY_SIZE(rows), "clock, memory-clock, memory-bus, power");
}

static bool read_minor(struct cursor *c, int *ret)
{
	unsigned v;
	if (!cursor_unsigned(c, "a minor number", 1023, &v))
		return false;
	*ret = (int)v;
	return true;
}
static bool read_card(struct cursor *c, void *gpu) { return read_minor(c, &((struct emu_gpu *)gpu)->facts.card); }
static bool read_render(struct cursor *c, void *gpu) { return read_minor(c, &((struct emu_gpu *)gpu)->facts.render); }

static bool read_partition(struct cursor *c, void *gpu)
{
	struct emu_facts *f = &((struct emu_gpu *)gpu)->facts;
	f->compute_partition = cursor_word(c);
	f->memory_partition = cursor_word(c);
	return f->memory_partition.n || emu_wrong(c, "partition COMPUTE MEMORY, as in SPX NPS1");
}

static bool read_guest(struct cursor *c, void *gpu)
{
	(void)c;
	((struct emu_gpu *)gpu)->facts.guest = true;
	return true;
}

static bool read_apu(struct cursor *c, void *gpu)
{
	(void)c;
	((struct emu_gpu *)gpu)->facts.apu = true;
	return true;
}

static bool read_space(struct cursor *c, void *gpu)
{
	return cursor_number(c, "the size of the register space", UINT32_MAX, &((struct emu_gpu *)gpu)->facts.registers);
}

static bool read_firmware(struct cursor *c, void *gpu)
{
	struct emu_gpu *g = gpu;
	struct emu_firmware f = { .name = cursor_word(c) };
	if (!cursor_unsigned(c, "the version", UINT32_MAX, &f.version) ||
	    (cursor_more(c) && !cursor_unsigned(c, "the feature version", UINT32_MAX, &f.feature)))
		return false;
	for (size_t i = 0; i < g->firmware.len; i++)
		if (str_eq(g->firmware.data[i].name, f.name)) {
			g->firmware.data[i] = f;
			return true;
		}
	if (g->firmware.len == EMU_FEW)
		return emu_wrong(c, "more than %d firmwares", EMU_FEW);
	vec_push(&g->firmware, f);
	return true;
}

// --- how it is ---

static bool read_state(struct cursor *c, void *gpu)
{
	static const char *const names[] = { [EMU_AWAKE] = "awake", [EMU_SUSPENDED] = "suspended", [EMU_GFXOFF] = "gfxoff",
					     [EMU_RESET] = "reset", [EMU_OFF_BUS] = "off-bus",     NULL };
	return cursor_value(c, names, &((struct emu_gpu *)gpu)->state);
}

static bool read_number(struct cursor *c, struct emu_gpu *g, enum emu_number n)
{
	return cursor_value(c, NULL, &g->numbers[n]);
}
static bool read_busy(struct cursor *c, void *gpu) { return read_number(c, gpu, EMU_BUSY); }
static bool read_memory_busy(struct cursor *c, void *gpu) { return read_number(c, gpu, EMU_MEMORY_BUSY); }
static bool read_power(struct cursor *c, void *gpu) { return read_number(c, gpu, EMU_POWER); }
static bool read_temperature(struct cursor *c, void *gpu) { return read_number(c, gpu, EMU_TEMPERATURE); }
static bool read_clock(struct cursor *c, void *gpu) { return read_number(c, gpu, EMU_CLOCK); }
static bool read_interrupts(struct cursor *c, void *gpu) { return read_number(c, gpu, EMU_INTERRUPTS); }

static bool read_vram(struct cursor *c, void *gpu)
{
	struct emu_gpu *g = gpu;
	if (cursor_is(c, "used"))
		return read_number(c, g, EMU_VRAM_USED);
	if (cursor_is(c, "total"))
		return cursor_number(c, "the size of VRAM", UINT64_C(1) << 48, &g->facts.vram_total);
	return words_read(c, &g->vram, 4);
}

static bool read_gtt(struct cursor *c, void *gpu)
{
	if (!cursor_is(c, "total"))
		return emu_wrong(c, "gtt total BYTES");
	return cursor_number(c, "the size of GTT", UINT64_C(1) << 48, &((struct emu_gpu *)gpu)->facts.gtt_total);
}

static bool read_iomem(struct cursor *c, void *gpu) { return words_read(c, &((struct emu_gpu *)gpu)->iomem, 4); }

// --- queues ---

static bool read_queue_word(struct cursor *c, struct emu_gpu *g, bool hqd)
{
	struct emu_queue_word w = { .hqd = hqd, .line = c->line };
	if (!cursor_unsigned(c, "the queue", UINT32_MAX, &w.queue))
		return false;
	w.name = cursor_word(c);
	cursor_is(c, "=");
	if (!cursor_value(c, NULL, &w.value))
		return false;
	if (g->queue_words.len == EMU_FEW)
		return emu_wrong(c, "more than %d words of queues", EMU_FEW);
	vec_push(&g->queue_words, w);
	return true;
}
static bool read_mqd(struct cursor *c, void *gpu) { return read_queue_word(c, gpu, false); }
static bool read_hqd(struct cursor *c, void *gpu) { return read_queue_word(c, gpu, true); }

static const struct emu_statement statements[] = {
	{ "part", read_part },
	{ "name", read_name },
	{ "gfx", read_gfx },
	{ "chip", read_chip },
	{ "limits", read_limits },
	{ "device", read_device },
	{ "family", read_family },
	{ "ip", read_ip },
	{ "shaders", read_shaders },
	{ "harvested", emu_harvested_read },
	{ "card", read_card },
	{ "render", read_render },
	{ "partition", read_partition },
	{ "guest", read_guest },
	{ "apu", read_apu },
	{ "space", read_space },
	{ "firmware", read_firmware },
	{ "state", read_state },
	{ "busy", read_busy },
	{ "memory-busy", read_memory_busy },
	{ "power", read_power },
	{ "temperature", read_temperature },
	{ "clock", read_clock },
	{ "interrupts", read_interrupts },
	{ "vram", read_vram },
	{ "gtt", read_gtt },
	{ "iomem", read_iomem },
	{ "map", emu_map_read },
	{ "virtual", emu_virtual_read },
	{ "tables", emu_tables_read },
	{ "page-tables", emu_page_tables_read },
	{ "register", emu_register_read },
	{ "wave", emu_waves_read },
	{ "ring", emu_ring_read },
	{ "packets", emu_packets_read },
	{ "fence", emu_fence_read },
	{ "sysfs", emu_sysfs_read },
	{ "debugfs", emu_debugfs_read },
	{ "file", emu_file_read },
	{ "devcoredump", emu_devcoredump_read },
	{ "bad-page", emu_bad_page_read },
	{ "eeprom", emu_eeprom_read },
	{ "record", emu_record_read },
	{ "link", emu_link_read },
	{ "metrics", emu_metrics_read },
	{ "metric", emu_metric_read },
	{ "mqd", read_mqd },
	{ "hqd", read_hqd },
	{ 0 },
};

// --- the block ---

bool emu_gpu_read(struct emu_reader *r, const struct emu_block *b)
{
	struct cursor c = { r, { 0 }, b->line };
	struct emu_machine *m = r->m;
	if (pci_length(b->id) != b->id.n || b->id.n != 12)
		return emu_wrong(&c, "'" STR_FMT "' is no PCI address like 0000:03:00.0", STR_ARG(str_cut(b->id, 80)));
	if (emu_gpu_named(m, b->id))
		return emu_wrong(&c, "there are two GPUs at " STR_FMT, STR_ARG(b->id));
	if (m->gpus.len == EMU_GPUS_MOST)
		return emu_wrong(&c, "more than %d GPUs", EMU_GPUS_MOST);
	struct emu_gpu *g = mem_alloc(sizeof(*g));
	g->machine = m;
	g->facts.pci = b->id;
	g->facts.card = g->facts.render = -1;
	g->facts.vendor = g->facts.subsystem_vendor = 0x1002;
	g->facts.class = 0x030000;
	g->facts.chip = S("ip discovery");
	g->facts.node = (unsigned)m->gpus.len + 1;
	g->facts.shaders = (struct shader_array){ .xccs = 1, .ses = 1, .shs_per_se = 1, .cus_per_sh = 2 };
	g->facts.simds_per_cu = g->facts.slots_per_simd = 1;
	g->facts.link = (struct emu_link){ 160, 16, 160, 16 };
	vec_push(&m->gpus, g);
	if (!b->nlines || !str_is(str_cut(b->lines[0].text, 4), "part"))
		return emu_wrong(&c, "'part NAME' must come first in a block gpu");
	return emu_statements(r, b, statements, g) && emu_gpu_finish(r, g, b->line);
}

static bool minor_taken(const struct emu_machine *m, const struct emu_gpu *but, bool card, int number)
{
	for (size_t i = 0; i < m->gpus.len; i++) {
		const struct emu_facts *f = &m->gpus.data[i]->facts;
		if (m->gpus.data[i] != but && (card ? f->card : f->render) == number)
			return true;
	}
	return false;
}

bool emu_gpus_number(struct emu_reader *r)
{
	struct cursor c = { r, { 0 }, 1 };
	for (size_t i = 0; i < r->m->gpus.len; i++) {
		struct emu_gpu *g = r->m->gpus.data[i];
		struct emu_facts *f = &g->facts;
		if ((f->card >= 0 && minor_taken(r->m, g, true, f->card)) ||
		    (f->render >= 0 && minor_taken(r->m, g, false, f->render)))
			return emu_wrong(&c, "two GPUs have card %d or render %d", f->card, f->render);
	}
	for (size_t i = 0; i < r->m->gpus.len; i++) {
		struct emu_gpu *g = r->m->gpus.data[i];
		for (int n = 0; g->facts.card < 0; n++)
			if (!minor_taken(r->m, g, true, n))
				g->facts.card = n;
		for (int n = 128; g->facts.render < 0; n++)
			if (!minor_taken(r->m, g, false, n))
				g->facts.render = n;
	}
	return true;
}

/** amdgpu_gca_config, version 5. */
static void fill_gca(struct emu_gpu *g)
{
	struct emu_facts *f = &g->facts;
	const struct {
		size_t word;
		uint32_t number;
	} rows[] = { { 0, 5 },
		     { 1, f->shaders.ses },
		     { 2, 16 },
		     { 3, f->shaders.cus_per_sh },
		     { 4, f->shaders.shs_per_se },
		     { 5, 4 },
		     { 6, 16 },
		     { 7, 256 },
		     { 8, 32 },
		     { 9, 8 },
		     { 19, 1 },
		     { 23, f->shaders.ses * 4 },
		     { 24, f->revision },
		     { 27, f->shaders.family },
		     { 28, g->external_revision },
		     { 29, f->device },
		     { 30, f->revision },
		     { 31, f->subsystem_device },
		     { 32, f->subsystem_vendor },
		     { 33, f->apu } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		f->gca[rows[i].word] = rows[i].number;
}

bool emu_gpu_finish(struct emu_reader *r, struct emu_gpu *g, unsigned line)
{
	struct emu_facts *f = &g->facts;
	struct cursor c = { r, { 0 }, line };
	size_t slots = (size_t)f->shaders.xccs * f->shaders.ses * f->shaders.shs_per_se * f->shaders.cus_per_sh *
		       f->simds_per_cu * f->slots_per_simd;
	if (slots > EMU_SLOTS_MOST)
		return emu_wrong(&c, "a shader array of %zu slots for waves; %d is the most", slots, EMU_SLOTS_MOST);
	f->ips = g->ips.data;
	f->nips = g->ips.len;
	f->gpu_id = (0x1000 + f->device * 31 + f->node * 257) & 0xffff;
	fill_gca(g);
	if (!emu_pages_finish(r, g) || !emu_errors_finish(r, g, line))
		return false;
	words_sort(&g->vram);
	words_sort(&g->iomem);
	for (size_t i = 0; i < g->rings.len; i++)
		words_sort(&g->rings.data[i].content);
	if (!emu_waves_place(r, g))
		return false;
	emu_hardware_set(g);
	return true;
}

void emu_gpu_free(struct emu_gpu *g)
{
	vec_free(&g->bad_pages);
	vec_free(&g->records);
	for (size_t i = 0; i < g->rings.len; i++)
		vec_free(&g->rings.data[i].content.list);
	for (size_t i = 0; i < g->waves.len; i++) {
		vec_free(&g->waves.data[i].parts);
		vec_free(&g->waves.data[i].gprs);
	}
	vec_free(&g->ips);
	vec_free(&g->settings);
	vec_free(&g->rings);
	vec_free(&g->firmware);
	vec_free(&g->files[EMU_SYSFS]);
	vec_free(&g->files[EMU_DEBUGFS]);
	vec_free(&g->rules);
	vec_free(&g->queue_words);
	vec_free(&g->metrics.values);
	vec_free(&g->vram.list);
	vec_free(&g->iomem.list);
	vec_free(&g->maps);
	vec_free(&g->tables);
	vec_free(&g->waves);
	vec_free(&g->harvested);
	vec_free(&g->places);
	text_free(&g->devcoredump);
	free(g->slots);
	free(g);
}
