// The live GPU as a target, without a GPU: positions, words of waves, copies of registers, runs, rings.
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "gpu/silicon/target.h"
#include "tests/wave_bits.h"

static int no_problem(void **state)
{
	struct know_problems problems = { 0 };
	*state = know_load(&problems);
	return problems.count != 0;
}

static int free_know(void **state)
{
	know_free(*state);
	return 0;
}

// A gfx1100 with 96 CUs: 6 SEs of two SHs, 8 CUs each.
static const uint32_t gc_bases[] = { 0x1260, 0xa000, 0x02402c00 };
static struct ip ips[] = {
	{ .name = { "gc", 2 }, .version = { 11, 0, 0 }, .nbases = 3, .bases = gc_bases },
	{ .name = { "sdma0", 5 }, .version = { 6, 0, 0 }, .nbases = 3, .bases = gc_bases },
	{ .name = { "sdma1", 5 }, .version = { 6, 0, 0 }, .nbases = 3, .bases = gc_bases },
};
static const struct device navi31 = {
	.pci = { "0000:03:00.0", 12 },
	.gfx = { "gfx1100", 7 },
	.sysfs = { "/sys/bus/pci/devices/0000:03:00.0", 33 },
	.debugfs = { "/sys/kernel/debug/dri/0000:03:00.0", 34 },
	.render = 128,
	.ips = ips,
	.nips = 3,
	.shaders = { .xccs = 1, .ses = 6, .shs_per_se = 2, .cus_per_sh = 8 },
};

static void positions_in_debugfs_carry_the_bank(void **state)
{
	(void)state;
	struct bank b = BANK_NONE;
	assert_int_equal(debugfs_register_position(0x8010, &b), 0x8010);
	b.se = 5;
	assert_int_equal(debugfs_register_position(0x8010, &b),
			 1ull << 62 | 0x3ffull << 44 | 0x3ffull << 34 | 5ull << 24 | 0x8010);
	b = BANK_NONE;
	b.se = 0x3ff, b.sh = 2, b.instance = 5;
	assert_int_equal(debugfs_register_position(0x8010, &b), 1ull << 62 | 5ull << 44 | 2ull << 34 | 0x3ffull << 24 | 0x8010);
	b = BANK_NONE;
	b.me = 1, b.pipe = 2, b.queue = 3, b.vmid = 8;
	assert_int_equal(debugfs_register_position(0xda00, &b),
			 1ull << 61 | 8ull << 54 | 3ull << 44 | 2ull << 34 | 1ull << 24 | 0xda00);
	struct wave_slot s = { .se = 5, .sh = 1, .cu = 15, .slot = 9 };
	assert_int_equal(debugfs_wave_position(&s), 5ull << 7 | 1ull << 15 | 15ull << 23 | 9ull << 31);
	s.simd = 3;
	assert_int_equal(debugfs_wave_position(&s) >> 37, 3);
	assert_int_equal(debugfs_gpr_position(&s, true, 31),
			 5ull << 12 | 1ull << 20 | 15ull << 28 | 9ull << 36 | 3ull << 44 | 31ull << 52);
	assert_int_equal(debugfs_gpr_position(&s, false, 0) >> 60, 1);
	assert_int_equal(sizeof(struct regs2_state), 44);
	assert_int_equal(sizeof(struct gprwave_state), 36);
}

/** What each value is called in the driver's headers. */
static const struct {
	const char *bits, *field;
} fields[] = {
	{ "valid", "VALID" },
	{ "idle", "IDLE" },
	{ "in-trap", "PRIV" },
	{ "trap-pending", "TRAP" },
	{ "halted", "HALT" },
	{ "in-barrier", "IN_BARRIER" },
	{ "wave64", "WAVE64" },
	{ "vmid", "VM_ID" },
	{ "me", "ME_ID" },
	{ "pipe", "PIPE_ID" },
	{ "queue", "QUEUE_ID" },
	{ "sgprs", "SGPR_SIZE" },
	{ "lds", "LDS_SIZE" },
	{ "shared-vgprs", "VGPR_SHARED_SIZE" },
	{ "fatal-halt", "FATAL_HALT" },
	{ "no-vgprs", "NO_VGPRS" },
	{ "skip-export", "SKIP_EXPORT" },
	{ "lds-whole", "WGP_TAKEOVER" },
};

static const struct generation {
	const char *gfx;
	unsigned gc[3], type, words, slots;
	bool wgp;
	const char *vgprs;
} generations[] = {
	{ "gfx900", { 9, 0, 0 }, 1, 15, 10, false, "VGPR_SIZE" },   { "gfx908", { 9, 4, 1 }, 1, 15, 10, false, "VGPR_SIZE" },
	{ "gfx90a", { 9, 4, 2 }, 1, 15, 10, false, "ACCV_OFFSET" }, { "gfx942", { 9, 4, 3 }, 1, 15, 10, false, "ACCV_OFFSET" },
	{ "gfx1010", { 10, 1, 0 }, 2, 16, 20, true, "VGPR_SIZE" },  { "gfx1030", { 10, 3, 0 }, 2, 16, 16, true, "VGPR_SIZE" },
	{ "gfx1100", { 11, 0, 0 }, 3, 15, 16, true, "VGPR_SIZE" },  { "gfx1151", { 11, 5, 1 }, 3, 15, 16, true, "VGPR_SIZE" },
	{ "gfx1201", { 12, 0, 1 }, 4, 23, 16, true, "VGPR_SIZE" },
};
#define EACH_GENERATION(g) for (const struct generation *g = generations; g < generations + ARRAY_SIZE(generations); g++)

static void check_field(const struct know *k, const struct generation *g, const struct wave_words *w, const char *bits,
			const char *field)
{
	size_t word;
	unsigned high, low;
	char name[64];
	struct reg r;
	struct reg_field f;
	if (!wave_bits_of(k, str_z(g->gfx), str_z(bits), &word, &high, &low))
		return;
	assert_true(word < w->n);
	snprintf(name, sizeof(name), "SQ_WAVE_" STR_FMT, STR_ARG(w->names[word]));
	const struct register_table *t = register_table_for(S("gc"), g->gc[0], g->gc[1], g->gc[2], NULL);
	assert_non_null(t);
	if (!register_find(t, str_z(name), &r) || !register_field_find(&r, str_z(field), &f))
		fail_msg("%s: %s: no %s.%s", g->gfx, bits, name, field);
	if (f.low != low || f.bits != high - low + 1)
		fail_msg("%s: %s is %u:%u, %s.%s is %u:%u", g->gfx, bits, high, low, name, field, f.low + f.bits - 1, f.low);
}

static void words_of_waves_by_generation(void **state)
{
	const struct know *k = *state;
	EACH_GENERATION(g)
	{
		struct wave_words w;
		assert_true(wave_words_of(k, str_z(g->gfx), &w));
		assert_int_equal(w.type, g->type);
		assert_int_equal(w.n, g->words);
		assert_int_equal(w.slots, g->slots);
		assert_int_equal(w.wgp, g->wgp);
		assert_true(str_is(w.names[0], "status"));
		for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
			check_field(k, g, &w, fields[i].bits, fields[i].field);
		check_field(k, g, &w, "vgprs", g->vgprs);
		size_t word;
		unsigned high, low;
		assert_true(wave_bits_of(k, str_z(g->gfx), S("valid"), &word, &high, &low));
		assert_true(wave_bits_of(k, str_z(g->gfx), S("vmid"), &word, &high, &low));
		assert_true(wave_bits_of(k, str_z(g->gfx), S("halted"), &word, &high, &low));
		struct wave_slot s = { .cu = 5, .simd = 2 }, asked = wave_slot_asked(&w, &s);
		assert_int_equal(asked.cu, g->wgp ? 22 : 5);
		assert_int_equal(asked.simd, g->wgp ? 0 : 2);
	}
}

static void put(const struct know *k, const char *gfx, uint32_t *words, const char *bits, uint32_t value)
{
	size_t word;
	unsigned high, low;
	assert_true(wave_bits_of(k, str_z(gfx), str_z(bits), &word, &high, &low));
	words[1 + word] |= value << low;
}

static void put_word(const struct wave_words *w, uint32_t *words, const char *name, uint32_t value)
{
	for (size_t i = 0; i < w->n; i++)
		if (str_is(w->names[i], name))
			words[1 + i] = value;
}

static void a_wave_is_read_from_its_words(void **state)
{
	const struct know *k = *state;
	EACH_GENERATION(g)
	{
		struct arena a = { 0 };
		struct wave_words w;
		const struct wave_layout *l;
		struct wave v;
		uint32_t words[WAVE_WORDS_MOST] = { g->type };
		struct wave_slot s = { .se = 1, .cu = 3, .simd = 2, .slot = 7 };
		assert_true(wave_words_of(k, str_z(g->gfx), &w));
		assert_null(layout_for_words(&a, k, str_z(g->gfx), &l));
		assert_false(wave_from_words(&w, l, words, w.n + 1, &s, &v)); // not valid
		put(k, g->gfx, words, "valid", 1);
		put(k, g->gfx, words, "vmid", 8);
		put(k, g->gfx, words, "me", 1);
		put(k, g->gfx, words, "queue", 3);
		put_word(&w, words, "pc_lo", 0x1040);
		put_word(&w, words, "pc_hi", 0x7f00);
		put_word(&w, words, "exec_lo", 0xffff);
		put_word(&w, words, "exec_hi", 0xff);
		assert_true(wave_from_words(&w, l, words, w.n + 1, &s, &v));
		assert_int_equal(v.pc, 0x7f0000001040);
		assert_int_equal(v.exec, g->wgp ? 0xffff : 0xff0000ffff);
		assert_int_equal(v.lanes, g->wgp ? 32 : 64);
		assert_int_equal(v.slot.vmid, 8);
		assert_int_equal(v.slot.me, 1);
		assert_int_equal(v.slot.queue, 3);
		assert_int_equal(v.slot.slot, 7);
		assert_false(v.halted || v.idle || v.in_trap || v.stop_reasons);
		// An exception counts when the wave was stopped by it.
		const char *flags = g->type == 4 ? "excp_flag_priv" : "trapsts";
		put_word(&w, words, flags, 1u << (g->type == 4 ? 12 : 28));
		assert_true(wave_from_words(&w, l, words, w.n + 1, &s, &v) && !v.stop_reasons);
		put(k, g->gfx, words, "halted", 1);
		assert_true(wave_from_words(&w, l, words, w.n + 1, &s, &v));
		assert_true(v.halted);
		assert_int_equal(v.stop_reasons, 1u << STOP_MEMORY_VIOLATION);
		assert_int_equal(v.barrier_known, g->type != 4);
		if (g->type != 4)
			put(k, g->gfx, words, "in-barrier", 1);
		assert_true(wave_from_words(&w, l, words, w.n + 1, &s, &v));
		assert_int_equal(v.in_barrier, g->type != 4);
		// cut, another type, no such unit, all ones
		for (size_t n = 0; n <= w.n; n++)
			assert_false(wave_from_words(&w, l, words, n, &s, &v));
		words[0]++;
		assert_false(wave_from_words(&w, l, words, w.n + 1, &s, &v));
		words[0]--;
		words[1] = 0xbebebeef;
		assert_false(wave_from_words(&w, l, words, w.n + 1, &s, &v));
		words[1] = 0xffffffff;
		assert_false(wave_from_words(&w, l, words, w.n + 1, &s, &v));
		arena_free(&a);
	}
}

static void banks_that_a_part_does_not_have_are_refused(void **state)
{
	struct wave_words w;
	assert_true(wave_words_of(*state, S("gfx1100"), &w));
	static const struct {
		struct bank b;
		bool exists;
	} rows[] = {
		{ { -1, -1, -1, -1, -1, -1, -1, -1 }, true }, { { 0, 5, 1, 15, -1, -1, -1, -1 }, true },
		{ { 1, -1, -1, -1, -1, -1, -1, -1 }, false }, { { -1, 6, -1, -1, -1, -1, -1, -1 }, false },
		{ { -1, 0, 2, -1, -1, -1, -1, -1 }, false },  { { -1, 0, 0, 32, -1, -1, -1, -1 }, false },
		{ { -1, -1, -1, -1, 3, 3, 7, 15 }, true },    { { -1, -1, -1, -1, 4, 0, 0, 0 }, false },
		{ { -1, -1, -1, -1, 1, 0, 0, 16 }, false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(bank_exists(&navi31, &w, &rows[i].b), rows[i].exists);
}

static void registers_of_a_device_by_name(void **state)
{
	(void)state;
	struct device_register r[64];
	assert_int_equal(device_registers(&navi31, S("GRBM_STATUS"), r, 64), 1);
	assert_int_equal(r[0].address, 0x8010);
	assert_int_equal(device_registers(&navi31, S("gc.grbm_status"), r, 64), 1);
	assert_int_equal(device_registers(&navi31, S("gc0.grbm_status"), r, 64), 1);
	assert_int_equal(device_registers(&navi31, S("gc1.grbm_status"), r, 64), 0);
	assert_int_equal(device_registers(&navi31, S("sdma0.GRBM_STATUS"), r, 64), 0);
	assert_int_equal(device_registers(&navi31, S("sdma0.SDMA0_STATUS_REG"), r, 64), 1);
	assert_int_equal(device_registers(&navi31, S("SDMA?_STATUS_REG"), r, 64), 2);
	assert_true(device_registers(&navi31, S("*"), r, 64) > 5000);
	assert_true(device_registers(&navi31, S("GRBM_STATUS_SE*"), r, 64) >= 6);
	assert_int_equal(device_registers(&navi31, S("SQ_WAVE_STATUS"), r, 64), 0); // it has no address
	assert_int_equal(device_registers(&navi31, S(""), r, 64), 0);
	assert_int_equal(device_registers(&navi31, S("."), r, 64), 0);
}

static struct request ask(const char *name, struct reg *room, struct bank b)
{
	struct device_register r;
	assert_int_equal(device_registers(&navi31, str_z(name), &r, 1), 1);
	*room = r.reg;
	return (struct request){ .kind = REQUEST_REGISTER, .ip = S("gc"), .reg = room, .bank = b };
}

static void neighbouring_registers_are_read_in_one_run(void **state)
{
	struct target *target = target_device(*state, &navi31);
	struct silicon *t = (struct silicon *)target;
	struct batch b = { .t = t };
	struct reg regs[8];
	struct bank one = BANK_NONE, two = BANK_NONE;
	one.se = 0, two.se = 1;
	assert_int_equal(t->status_address, 0x8010);
	struct request r[8] = {
		ask("GRBM_STATUS_SE1", &regs[0], BANK_NONE), ask("GRBM_STATUS", &regs[1], BANK_NONE),
		ask("GRBM_STATUS_SE0", &regs[2], BANK_NONE), ask("CP_STAT", &regs[3], BANK_NONE),
		ask("SPI_CONFIG_CNTL", &regs[4], BANK_NONE), ask("GRBM_STATUS", &regs[5], one),
		ask("GRBM_STATUS", &regs[6], two),           ask("GRBM_STATUS_SE0", &regs[7], two),
	};
	struct wanted_list w = registers_wanted(t, &b.arena, r, 8);
	assert_int_equal(w.n, 8);
	registers_plan(&b, &w, true);
	assert_int_equal(b.probes.len, 2); // STATUS to SE1, and CP_STAT
	assert_int_equal(b.probes.data[0].size, 12);
	assert_int_equal(b.probes.data[0].kind, PROBE_QUERY);
	assert_int_equal(((const struct amdgpu_query *)b.probes.data[0].argument)->words[0], 0x8010 / 4);
	for (size_t i = 0; i < b.probes.len; i++)
		assert_true(probe_allowed(&b.probes.data[i]));
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(w.data[i].lead, w.data[i].probe); // one that fails says nothing of the others
	b.probes.len = 0;
	registers_plan(&b, &w, false);
	assert_int_equal(b.probes.len, 3); // SPI_CONFIG_CNTL, one of each bank
	assert_int_equal(b.probes.data[2].size, 8);
	assert_int_equal(b.probes.data[2].kind, PROBE_READ);
	assert_int_equal(b.probes.data[2].offset, debugfs_register_position(0x8010, &two));
	for (size_t i = 0; i < b.probes.len; i++)
		assert_true(probe_allowed(&b.probes.data[i]));
	// Through the other file the bank is set once.
	b.probes.len = 0;
	for (size_t i = 0; i < w.n; i++)
		w.data[i].way = WAY_REGS2;
	registers_plan(&b, &w, false);
	assert_int_equal(b.probes.len, 5);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(b.probes.data[i].kind, PROBE_READ);
	for (size_t i = 3; i < 5; i++) {
		assert_int_equal(b.probes.data[i].kind, PROBE_BANKED);
		assert_true(probe_allowed(&b.probes.data[i]));
	}
	batch_free(&b);
	target_close(target);
}

static void each_slot_of_waves_is_asked_once(void **state)
{
	struct target *target = target_device(*state, &navi31);
	struct request all = { .kind = REQUEST_WAVES };
	struct batch b = { .t = (struct silicon *)target, .waves = &all };
	waves_plan(&b);
	assert_int_equal(b.slots.len, 96 / 2 * 4 * 16);
	assert_int_equal(b.probes.len, b.slots.len + 1); // one operation each, after whether anything is busy
	assert_int_equal(b.probes.data[0].offset, b.t->status_address);
	for (size_t i = 1; i < b.probes.len; i++) {
		assert_int_equal(b.probes.data[i].kind, PROBE_READ);
		assert_int_equal(b.probes.data[i].offset >> 37, 0); // never a SIMD
	}
	assert_true(probe_allowed(&b.probes.data[0]) && probe_allowed(&b.probes.data[1]));
	assert_int_equal(b.probes.data[0].skips, b.slots.len); // where nothing is busy
	assert_int_equal(b.probes.data[1].skips, 63);
	assert_int_equal(b.probes.data[17].skips, 15);
	assert_int_equal(b.probes.data[2].unless.n, 0);
	batch_free(&b);
	target_close(target);
}

static void a_ring_file_is_parsed(void **state)
{
	(void)state;
	struct arena a = { 0 };
	struct ring r;
	uint32_t words[3 + 16] = { 4, 8, 9, 0xc0001000 };
	for (size_t n = 0; n < 16; n++) // the head alone are positions
		assert_int_equal(ring_parse(&a, S("gfx_0.0.0"), (const char *)words, n, &r), n == 12);
	assert_true(ring_parse(&a, S("gfx_0.0.0"), (const char *)words, sizeof(words), &r));
	assert_int_equal(r.n, 16);
	assert_int_equal(r.rptr, 4);
	assert_int_equal(r.driver_wptr, 9);
	assert_int_equal(r.words[0], 0xc0001000);
	words[1] = 16;
	assert_false(ring_parse(&a, S("gfx_0.0.0"), (const char *)words, sizeof(words), &r));
	static const char text[] = "--- ring 0 (gfx_0.0.0) ---\n"
				   "Last signaled fence          0x00000010\n"
				   "Last emitted                 0x00000012\n"
				   "Last signaled trailing fence 0x00000000\n"
				   "Last emitted                 0x00000077\n"
				   "--- ring 1 (comp_1.0.0) ---\n"
				   "Last signaled fence          0x00000001\n"
				   "Last emitted                 0x00000001\n";
	const struct ring_fence *f;
	assert_int_equal(fences_parse(&a, str_z(text), &f), 2);
	assert_true(str_is(f[0].ring, "gfx_0.0.0") && f[0].signaled == 0x10 && f[0].emitted == 0x12);
	assert_true(str_is(f[1].ring, "comp_1.0.0") && f[1].signaled == 1 && f[1].emitted == 1);
	for (size_t n = 0; n < sizeof(text); n++) {
		char *cut = mem_large(n + 1);
		memcpy(cut, text, n);
		fences_parse(&a, (struct str){ cut, n }, &f);
		for (size_t i = 0; i < n; i += 3) {
			cut[i] ^= 0x55;
			fences_parse(&a, (struct str){ cut, n }, &f);
			cut[i] ^= 0x55;
		}
		free(cut);
	}
	arena_free(&a);
}

// --- in a mount namespace whose /sys is made here; there is no render node ---

#define PCI "/sys/bus/pci/devices/0000:03:00.0"
#define DRI "/sys/kernel/debug/dri/0000:03:00.0"

/** Puts bytes to a place of a file, which need not be there. */
static void write_at(const char *path, uint64_t at, const void *bytes, size_t n)
{
	char part[256];
	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		str_copy(part, sizeof(part), (struct str){ path, (size_t)(slash - path) });
		mkdir(part, 0755);
	}
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT, 0644);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, n, (off_t)at), n);
}

static void write_word(const char *path, uint64_t at, uint32_t word) { write_at(path, at, &word, sizeof(word)); }

static void write_wave(const struct know *k, struct wave_slot s, uint32_t pc)
{
	struct wave_words w;
	uint32_t words[WAVE_WORDS_MOST] = { 3 };
	assert_true(wave_words_of(k, S("gfx1100"), &w));
	put(k, "gfx1100", words, "valid", 1);
	put_word(&w, words, "pc_lo", pc);
	s = wave_slot_asked(&w, &s);
	write_at(DRI "/amdgpu_wave", debugfs_wave_position(&s), words, 4 * (w.n + 1));
	for (uint32_t i = 0; i < 108; i++)
		write_word(DRI "/amdgpu_gpr", debugfs_gpr_position(&s, false, 0) + 4 * i, 0x5000 + i);
	for (uint32_t lane = 0; lane < 32; lane++)
		for (uint32_t i = 0; i < 8; i++)
			write_word(DRI "/amdgpu_gpr", debugfs_gpr_position(&s, true, lane) + 4 * i, 0x1000 * i + lane);
}

static int own_sys(void **state)
{
	struct bank one = BANK_NONE;
	uint32_t ring[3 + 16] = { 4, 8, 8, 0xc0001000 };
	one.se = 1;
	if (mount("none", "/sys", "tmpfs", 0, "size=64m"))
		return -1;
	write_at(PCI "/power/runtime_status", 0, "active\n", 7);
	write_at(PCI "/config", 0, "\x02\x10\x4c\x74", 4);
	write_word(DRI "/amdgpu_gfxoff", 0, 0);
	write_word(DRI "/amdgpu_regs", 0x8010, 0x80003028);
	write_word(DRI "/amdgpu_regs", 0x8014, 0x3029);
	write_word(DRI "/amdgpu_regs", debugfs_register_position(0x8010, &one), 0x77);
	write_wave(*state, (struct wave_slot){ .se = 5, .sh = 1, .cu = 3, .simd = 3, .slot = 15 }, 0x2000);
	write_wave(*state, (struct wave_slot){ .cu = 1 }, 0x1000);
	write_at(DRI "/amdgpu_ring_gfx_0.0.0", 0, ring, sizeof(ring));
	write_at(DRI "/amdgpu_ring_vcn_unified_0", 0, ring, sizeof(ring));
	write_at(DRI "/amdgpu_ring_sdma0", 0, ring, 8);
	write_at(DRI "/amdgpu_error_gfx_0.0.0", 0, "no", 2);
	return 0;
}

static int gone_sys(void **state)
{
	(void)state;
	return umount2("/sys", MNT_DETACH); // a reader that stays may still be closing its last file
}

static void a_look_gives_registers_rings_and_waves(void **state)
{
	struct target *t = target_device(*state, &navi31);
	struct reg regs[4];
	struct bank one = BANK_NONE;
	one.se = 1;
	struct request r[] = { ask("GRBM_STATUS", &regs[0], BANK_NONE),
			       ask("GRBM_STATUS_SE0", &regs[1], BANK_NONE),
			       ask("GRBM_STATUS", &regs[2], one),
			       { .kind = REQUEST_WAVES },
			       { .kind = REQUEST_RINGS } };
	t->ask(t, r, 4);
	assert_true(target_gate(t).open);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(r[i].answer, ANSWER_GIVEN);
	assert_int_equal(r[0].value, 0x80003028);
	assert_int_equal(r[1].value, 0x3029);
	assert_int_equal(r[2].value, 0x77);
	assert_int_equal(r[3].n, 2);
	assert_int_equal(r[3].waves[0].pc, 0x1000);
	assert_int_equal(r[3].waves[1].pc, 0x2000);
	assert_int_equal(r[3].waves[1].slot.cu, 3);
	struct probe_count count = target_count(t);
	// Two, and one more for each time that a slow machine let the gate's answer grow old.
	assert_in_range(count.children, 2, 16);
	assert_in_range(count.operations, 3073, 3073 + 16 * (count.children - 1));
	uint32_t sgprs[108], vgprs[4 * 32];
	const struct wave *w = &r[3].waves[1];
	assert_int_equal(w->vgprs.count, 4);
	assert_true(wave_registers(t, &w->sgprs, 1, sgprs) && sgprs[107] == 0x5000 + 107);
	assert_true(wave_registers(t, &w->vgprs, 32, vgprs) && vgprs[3 * 32 + 31] == 0x301f);
	assert_int_equal(target_ask(t, &r[4]), ANSWER_GIVEN);
	assert_int_equal(r[4].n, 2);
	assert_true(str_is(r[4].rings[1].name, "vcn_unified_0") && r[4].rings[0].wptr == 8);
	target_close(t);
}

/** A unit that is not there costs one operation, not 64. */
static void the_slots_of_a_unit_that_is_not_there_are_asked_once(void **state)
{
	write_word(DRI "/amdgpu_wave", 4, 0xbebebeef);
	struct target *t = target_device(*state, &navi31);
	struct request r = { .kind = REQUEST_WAVES };
	assert_int_equal(target_ask(t, &r), ANSWER_GIVEN);
	assert_int_equal(r.n, 2);
	assert_in_range(target_count(t).operations, 3073 - 63, 3073 - 63 + 8);
	write_word(DRI "/amdgpu_wave", 4, 0);
	target_close(t);
}

static void nothing_is_read_while_the_gate_is_shut(void **state)
{
	struct reg reg;
	struct request r[] = { ask("GRBM_STATUS", &reg, BANK_NONE), { .kind = REQUEST_WAVES } };
	struct target *t = target_device(*state, &navi31);
	write_at(PCI "/power/runtime_status", 0, "suspended\n", 10);
	t->ask(t, r, 2);
	assert_true(!target_gate(t).open && target_gate(t).asleep);
	assert_int_equal(r[0].answer, ANSWER_REFUSED);
	assert_int_equal(r[1].answer, ANSWER_REFUSED);
	assert_true(target_count(t).operations <= 2); // the file and its end
	target_close(t);
	t = target_device(*state, &navi31);
	write_at(PCI "/power/runtime_status", 0, "active\n\n\n", 10);
	write_at(PCI "/config", 0, "\xff\xff\xff\xff", 4);
	assert_true(!target_gate(t).open && target_gate(t).off_bus);
	write_at(PCI "/config", 0, "\x02\x10\x4c\x74", 4);
	assert_true(target_gate(t).off_bus); // for good
	target_close(t);
	t = target_device(*state, &navi31);
	write_word(DRI "/amdgpu_gfxoff", 0, 1);
	t->ask(t, r, 2);
	assert_true(!target_gate(t).open && target_gate(t).gfxoff);
	assert_int_equal(r[1].answer, ANSWER_REFUSED);
	target_close(t);
	t = target_device(*state, &navi31);
	write_word(DRI "/amdgpu_gfxoff", 0, UINT32_MAX);
	assert_true(!target_gate(t).open && target_gate(t).refused && !target_gate(t).gfxoff); // what it says is not known
	target_close(t);
	t = target_device(*state, &navi31);
	assert_int_equal(truncate(DRI "/amdgpu_gfxoff", 0), 0);
	assert_true(!target_gate(t).open && target_gate(t).refused);
	write_word(DRI "/amdgpu_gfxoff", 0, 0);
	target_close(t);
}

/** Without amdgpu_regs the other file is tried; without ioctls it cannot give a bank. */
static void the_way_to_registers_that_is_there_is_taken(void **state)
{
	struct reg regs[2];
	struct bank one = BANK_NONE;
	one.se = 1;
	struct request r[] = { ask("GRBM_STATUS", &regs[0], BANK_NONE), ask("GRBM_STATUS", &regs[1], one) };
	struct target *t = target_device(*state, &navi31);
	assert_int_equal(rename(DRI "/amdgpu_regs", DRI "/amdgpu_regs2"), 0);
	t->ask(t, r, 2);
	assert_int_equal(r[0].answer, ANSWER_GIVEN);
	assert_int_equal(r[0].value, 0x80003028);
	assert_int_equal(r[1].answer, ANSWER_REFUSED);
	assert_int_equal(rename(DRI "/amdgpu_regs2", DRI "/amdgpu_regs"), 0);
	target_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(positions_in_debugfs_carry_the_bank),
		cmocka_unit_test(words_of_waves_by_generation),
		cmocka_unit_test(a_wave_is_read_from_its_words),
		cmocka_unit_test(banks_that_a_part_does_not_have_are_refused),
		cmocka_unit_test(registers_of_a_device_by_name),
		cmocka_unit_test(neighbouring_registers_are_read_in_one_run),
		cmocka_unit_test(each_slot_of_waves_is_asked_once),
		cmocka_unit_test(a_ring_file_is_parsed),
		cmocka_unit_test_setup_teardown(a_look_gives_registers_rings_and_waves, own_sys, gone_sys),
		cmocka_unit_test_setup_teardown(the_slots_of_a_unit_that_is_not_there_are_asked_once, own_sys, gone_sys),
		cmocka_unit_test_setup_teardown(nothing_is_read_while_the_gate_is_shut, own_sys, gone_sys),
		cmocka_unit_test_setup_teardown(the_way_to_registers_that_is_there_is_taken, own_sys, gone_sys),
	};
	const bool own = !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
	// One group: meson takes a second plan in the output for an error.
	return _cmocka_run_group_tests("tests", tests, own ? 12 : 8, no_problem, free_know);
}
