// Scenarios: what each statement makes of the machine, every part, every scenario that is built in, and damaged ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "emulator/model.h"

static struct know *knowledge(void)
{
	struct know_problems problems = { 0 };
	return know_load(&problems);
}

static struct emu_machine *read_text(const struct know *k, const char *text)
{
	struct emu_machine *m;
	struct uh_error *err = emu_read(k, "test", str_z(text), &m);
	if (err)
		fail_msg("%s", uh_error_message(err));
	return m;
}

static uint32_t named_register(const struct emu_gpu *g, const char *name, const struct bank *b, double t)
{
	const struct emu_facts *f = emu_facts(g);
	unsigned xcc = b && b->xcc > 0 ? (unsigned)b->xcc : 0;
	for (size_t i = 0; i < f->nips; i++) {
		const struct ip *ip = &f->ips[i];
		bool exact;
		struct reg r;
		const struct register_table *table =
			register_table_for(ip->name, ip->version[0], ip->version[1], ip->version[2], &exact);
		if (!table || !register_find(table, str_z(name), &r) || (str_is(ip->name, "gc") && ip->instance != xcc))
			continue;
		return emu_register(g, b ? b : &BANK_NONE, (ip->bases[r.base] + r.offset) * 4, t);
	}
	fail_msg("no register %s", name);
	return 0;
}

#define GPU "gpu 0000:03:00.0\n part gfx1100\n"

static void test_builtin(void **state)
{
	struct know *k = knowledge();
	(void)state;
	size_t n = 0;
	for (const struct emu_builtin *b = emu_builtins; b->name; b++, n++) {
		struct emu_machine *m;
		struct uh_error *err = emu_read(k, b->name, (struct str){ b->begin, (size_t)(b->end - b->begin) }, &m);
		if (err)
			fail_msg("%s", uh_error_message(err));
		assert_true(emu_gpus(m) > 0);
		assert_true(emu_title(m).n > 0);
		emu_free(m);
	}
	assert_true(n > 0);
	know_free(k);
}

static const char *const parts[] = { "gfx900",  "gfx906",  "gfx908",  "gfx90a",  "gfx942",  "gfx1010", "gfx1030",
				     "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1151", "gfx1200", "gfx1201" };

static unsigned cus_of(const struct know *k, const struct emu_facts *f)
{
	struct wave_words w;
	assert_true(wave_words_of(k, f->gfx, &w));
	return w.wgp ? f->shaders.cus_per_sh / 2 : f->shaders.cus_per_sh;
}

/** Bits of a wave's answer as knowledge/save-areas.know has them; the emulator takes them from the register tables. */
static uint32_t wave_bits(const struct know *k, struct str gfx, const char *name, const uint32_t *words)
{
	size_t word;
	unsigned high, low;
	if (!wave_bits_of(k, gfx, str_z(name), &word, &high, &low))
		fail_msg("no bits %s of " STR_FMT, name, STR_ARG(gfx));
	return get_bits(words[1 + word], high, low);
}

static uint64_t wave_pair(const struct know *k, struct str gfx, const char *low, const char *high, const uint32_t *words)
{
	struct wave_words w;
	uint64_t v = 0;
	assert_true(wave_words_of(k, gfx, &w));
	assert_int_equal(words[0], w.type);
	for (size_t i = 0; i < w.n; i++)
		v |= str_is(w.names[i], low) ? words[1 + i] : str_is(w.names[i], high) ? (uint64_t)words[1 + i] << 32 : 0;
	return v;
}

/** Waves in all slots, and how many slots there are. */
static size_t count_waves(const struct know *k, const struct emu_gpu *g, double t, size_t *ret_slots)
{
	const struct emu_facts *f = emu_facts(g);
	size_t n = 0;
	*ret_slots = 0;
	for (unsigned xcc = 0; xcc < f->shaders.xccs; xcc++)
		for (unsigned se = 0; se < f->shaders.ses; se++)
			for (unsigned sh = 0; sh < f->shaders.shs_per_se; sh++)
				for (unsigned cu = 0; cu < cus_of(k, f); cu++)
					for (unsigned i = 0; i < f->simds_per_cu * f->slots_per_simd; i++) {
						struct wave_slot s = {
							true, xcc, se, sh, cu, i / f->slots_per_simd, i % f->slots_per_simd
						};
						uint32_t words[WAVE_WORDS_MOST];
						assert_true(emu_wave(g, &s, t, words) > 0);
						++*ret_slots;
						n += wave_bits(k, f->gfx, "valid", words);
					}
	return n;
}

static void test_parts(void **state)
{
	struct know *k = knowledge();
	(void)state;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		char text[256];
		size_t slots;
		snprintf(text, sizeof(text),
			 "gpu 0000:03:00.0\n part %s\n wave 3 pc 0x7f0012345678 vmid 9 me 1 pipe 2 queue 3\n", parts[i]);
		struct emu_machine *m = read_text(k, text);
		const struct emu_gpu *g = emu_gpu(m, 0);
		const struct emu_facts *f = emu_facts(g);
		assert_true(str_is(f->part, parts[i]));
		assert_true(str_is(f->gfx, parts[i]));
		assert_int_equal(named_register(g, "GRBM_STATUS", NULL, 0), 0x3028);
		const struct know_part *known = know_part(k, f->device, (int)f->revision);
		assert_non_null(known);
		assert_true(str_eq(known->gfx, f->gfx));
		assert_int_equal(known->apu, f->apu);
		assert_true(f->vram_total && emu_rings(g) > 5 && emu_firmwares(g) > 5);
		assert_int_equal(count_waves(k, g, 0, &slots), 3);
		struct wave_slot at = { .known = true };
		uint32_t words[WAVE_WORDS_MOST];
		assert_true(emu_wave(g, &at, 0, words) > 0);
		assert_int_equal(wave_pair(k, f->gfx, "pc_lo", "pc_hi", words), 0x7f0012345678);
		assert_int_equal(wave_bits(k, f->gfx, "vmid", words), 9);
		assert_int_equal(wave_bits(k, f->gfx, "me", words), 1);
		assert_int_equal(wave_bits(k, f->gfx, "pipe", words), 2);
		assert_int_equal(wave_bits(k, f->gfx, "queue", words), 3);
		assert_int_equal(wave_bits(k, f->gfx, "halted", words), 0);
		emu_free(m);
	}
	know_free(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_builtin),
		cmocka_unit_test(test_parts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
