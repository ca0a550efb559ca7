// What a GPU measures, and what its power management says: hwmon, pp_dpm_*, gpu_metrics. A part says which of them it has not.
#include "emulator/server.h"

static uint64_t number(struct server *s, const struct node *n, enum emu_number which)
{
	return emu_number(n->seat->gpu, which, server_time(s));
}

// --- single numbers ---

/** @index of a node is a row of this table. */
static const struct changing {
	const char *path;
	enum emu_number which;
	uint64_t times;
	bool smu, hwmon;
} changing[] = {
	{ "gpu_busy_percent", EMU_BUSY, 1, true, false },         { "mem_busy_percent", EMU_MEMORY_BUSY, 1, true, false },
	{ "mem_info_vram_used", EMU_VRAM_USED, 1, false, false }, { "mem_info_vis_vram_used", EMU_VRAM_USED, 1, false, false },
	{ "power1_average", EMU_POWER, 1000000, true, true },     { "power1_input", EMU_POWER, 1000000, true, true },
	{ "temp1_input", EMU_TEMPERATURE, 1000, true, true },     { "temp2_input", EMU_TEMPERATURE, 1000, true, true },
	{ "temp3_input", EMU_TEMPERATURE, 1000, true, true },     { "freq1_input", EMU_CLOCK, 1000000, true, true },
};

static int fill_changing(struct server *s, const struct node *n, struct text *ret)
{
	const struct changing *c = &changing[n->index];
	text_printf(ret, "%llu\n", (unsigned long long)(number(s, n, c->which) * c->times));
	return 0;
}

static int fill_text(struct server *s, const struct node *n, struct text *ret)
{
	(void)s;
	text_add(ret, n->text);
	return 0;
}

// --- clocks ---

enum { CLOCK_LEAST = 200, MEMORY_CLOCK_LEAST = 96 }; // MHz

uint64_t seat_memory_clock(struct server *s, const struct seat *seat)
{
	return emu_number(seat->gpu, EMU_BUSY, server_time(s)) ? seat->facts->limits.memory_clock : MEMORY_CLOCK_LEAST;
}

/** What it is now has an asterisk, between the lowest and the highest. */
static void levels(struct text *ret, uint64_t least, uint64_t now, uint64_t most)
{
	unsigned n = 0;
	if (least < now)
		text_printf(ret, "%u: %lluMhz \n", n++, (unsigned long long)least);
	text_printf(ret, "%u: %lluMhz *\n", n++, (unsigned long long)now);
	if (most > now)
		text_printf(ret, "%u: %lluMhz \n", n, (unsigned long long)most);
}

static int fill_clocks(struct server *s, const struct node *n, struct text *ret)
{
	levels(ret, CLOCK_LEAST, number(s, n, EMU_CLOCK), n->seat->facts->limits.clock);
	return 0;
}

static int fill_memory_clocks(struct server *s, const struct node *n, struct text *ret)
{
	levels(ret, MEMORY_CLOCK_LEAST, seat_memory_clock(s, n->seat), n->seat->facts->limits.memory_clock);
	return 0;
}

static int fill_memory_clock(struct server *s, const struct node *n, struct text *ret)
{
	text_printf(ret, "%llu\n", (unsigned long long)seat_memory_clock(s, n->seat) * 1000000);
	return 0;
}

// --- gpu_metrics ---

static int metrics_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	_cleanup_text_ struct text table = { 0 };
	emu_metrics(f->node->seat->gpu, server_time(s), &table);
	if (at < table.n)
		text_add(ret, str_cut(str_from(text_str(&table), (size_t)at), size));
	return 0;
}

static uint64_t page_size(struct server *s, const struct node *n)
{
	(void)s, (void)n;
	return 4096;
}

// --- the files ---

static const struct kind metrics_kind = { .read = metrics_read, .size = page_size, .wakes = true, .smu = true };
static const struct kind changing_kind = { .fill = fill_changing };
static const struct kind changing_smu_kind = { .fill = fill_changing, .wakes = true, .smu = true };
static const struct kind text_kind = { .fill = fill_text };
static const struct kind text_smu_kind = { .fill = fill_text, .wakes = true, .smu = true };
static const struct kind clocks_kind = { .fill = fill_clocks, .wakes = true, .smu = true };
static const struct kind memory_clocks_kind = { .fill = fill_memory_clocks, .wakes = true, .smu = true };
static const struct kind memory_clock_kind = { .fill = fill_memory_clock, .wakes = true, .smu = true };

static struct node *sensor(struct server *s, struct node *hwmon, const char *name, const struct kind *kind)
{
	struct node *n = tree_file(s, hwmon, name, 0444, kind);
	n->path = arena_printf(&s->arena, "hwmon/%s/%s", hwmon->name, name);
	return n;
}

/** Labels, bounds, and what is the same all the time. */
static void build_fixed(struct server *s, struct node *hwmon, const struct emu_facts *f)
{
	const char *cap = arena_printf(&s->arena, "%llu\n", f->limits.power * 1000000ull).p;
	const struct {
		const char *name, *text;
		bool smu;
	} rows[] = {
		{ "name", "amdgpu\n", false },
		{ "temp1_label", "edge\n", false },
		{ "temp2_label", "junction\n", false },
		{ "temp3_label", "mem\n", false },
		{ "temp1_crit", "100000\n", false },
		{ "temp2_crit", "110000\n", false },
		{ "freq1_label", "sclk\n", false },
		{ "freq2_label", "mclk\n", false },
		{ "in0_label", "vddgfx\n", false },
		{ "in0_input", "725\n", true },
		{ "in1_label", "vddnb\n", false },
		{ "in1_input", "700\n", true },
		{ "power1_label", "PPT\n", false },
		{ "power1_cap", cap, true },
		{ "power1_cap_max", cap, true },
		{ "power1_cap_min", "0\n", true },
		{ "power1_cap_default", cap, true },
		{ "fan1_input", "0\n", true },
		{ "pwm1", "0\n", true },
		{ "pwm1_max", "255\n", false },
		{ "pwm1_enable", "2\n", true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		sensor(s, hwmon, rows[i].name, rows[i].smu ? &text_smu_kind : &text_kind)->text = str_z(rows[i].text);
}

void build_sensors(struct server *s, struct node *d, const struct emu_facts *f, size_t seat)
{
	struct node *hwmon = tree_directory(s, d, arena_printf(&s->arena, "hwmon/hwmon%zu", seat + 2).p, 0755);
	for (size_t i = 0; i < ARRAY_SIZE(changing); i++) {
		const struct changing *c = &changing[i];
		const struct kind *kind = c->smu ? &changing_smu_kind : &changing_kind;
		struct node *n = c->hwmon ? sensor(s, hwmon, c->path, kind) : tree_named(s, d, c->path, 0444, kind);
		n->index = i;
	}
	build_fixed(s, hwmon, f);
	sensor(s, hwmon, "freq2_input", &memory_clock_kind);
	tree_named(s, d, "pp_dpm_sclk", 0644, &clocks_kind);
	tree_named(s, d, "pp_dpm_mclk", 0644, &memory_clocks_kind);
	tree_named(s, d, "power_dpm_force_performance_level", 0644, &text_smu_kind)->text = S("auto\n");
	tree_named(s, d, "gpu_metrics", 0444, &metrics_kind);
}
