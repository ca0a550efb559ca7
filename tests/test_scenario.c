// Scenarios: what each statement makes of the machine, every part, every scenario that is built in, and damaged ones.
#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/child.h"
#include "base/cleanup.h"
#include "emulator/machine.h"
#include "gpu/memory/vm.h"
#include "scenario_check.h"
#include "tests/wave_bits.h"

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

static void every_built_in_scenario_is_right(void **state)
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

static void every_part_has_its_registers(void **state)
{
	struct know *k = knowledge();
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
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

static void values_change_with_time(void **state)
{
	struct know *k = knowledge();
	(void)state;
	struct emu_machine *m = read_text(k, GPU " busy cycle 0.5 1 2 3\n"
						 " power 10 until 2.5 count 100 -5 0.5\n"
						 " temperature (cycle 1 7 8) until 2 9 until 3 10 # then 10\n"
						 " clock 0x10\n"
						 " vram used 2K\n"
						 " state gfxoff until 1 cycle 1 awake reset\n"
						 " vram 0x100 1 (cycle 1 2 3) \\\n  4\n"
						 " vram 0x100 9\n");
	const struct emu_gpu *g = emu_gpu(m, 0);
	assert_int_equal(emu_number(g, EMU_BUSY, 0), 1);
	assert_int_equal(emu_number(g, EMU_BUSY, 0.6), 2);
	assert_int_equal(emu_number(g, EMU_BUSY, 1.6), 1);
	assert_int_equal(emu_number(g, EMU_BUSY, -5), 1);
	assert_int_equal(emu_number(g, EMU_POWER, 2.4), 10);
	assert_int_equal(emu_number(g, EMU_POWER, 2.6), 75); // five steps since the command was started
	assert_int_equal(emu_number(g, EMU_TEMPERATURE, 1.5), 8);
	assert_int_equal(emu_number(g, EMU_TEMPERATURE, 2.5), 9);
	assert_int_equal(emu_number(g, EMU_TEMPERATURE, 3.5), 10);
	assert_int_equal(emu_number(g, EMU_CLOCK, 0), 16);
	assert_int_equal(emu_number(g, EMU_VRAM_USED, 0), 2048);
	assert_int_equal(emu_state(g, 0.5), EMU_GFXOFF);
	assert_int_equal(emu_state(g, 3.5), EMU_RESET);
	assert_int_equal(emu_state(g, 4.5), EMU_AWAKE);
	assert_int_equal(emu_vram(g, 0x100, 0), 9);
	assert_int_equal(emu_vram(g, 0x104, 1.5), 3);
	assert_int_equal(emu_vram(g, 0x108, 0), 4);
	assert_int_equal(emu_vram(g, 0x10c, 0), 0);
	emu_free(m);
	know_free(k);
}

static void registers_and_banks_are_what_is_stated(void **state)
{
	struct know *k = knowledge();
	(void)state;
	struct emu_machine *m = read_text(k, GPU " register GRBM_STATUS.GUI_ACTIVE = 1\n"
						 " register gc.GRBM_STATUS.SPI_BUSY=1 until 1 0\n"
						 " register se 1 GRBM_STATUS_SE0 = 5\n"
						 " register me 1 pipe 2 queue 3 CP_HQD_VMID = 7\n"
						 " register 0xff014 = 0xabc\n"
						 " register sdma1.SDMA1_STATUS_REG.IDLE = 0\n"
						 "gpu 0000:04:00.0\n part gfx942\n"
						 " register GRBM_STATUS = 1\n"
						 " register xcc 3 GRBM_STATUS = 2\n"
						 " register xcc 3 me 1 pipe 0 queue 4 CP_HQD_ACTIVE = 1\n"
						 " register sdma5.SDMA_STATUS_REG = 0\n"
						 " register xcc 2 0x9000 = 0x22\n");
	const struct emu_gpu *g = emu_gpu(m, 0), *mi = emu_gpu(m, 1);
	assert_int_equal(named_register(g, "GRBM_STATUS", NULL, 0), 0x80000000 | 1u << 22 | 0x3028);
	assert_int_equal(named_register(g, "GRBM_STATUS", NULL, 1), 0x80003028);
	assert_int_equal(emu_register(g, &BANK_NONE, 0x8010, 1), 0x80003028);
	assert_int_equal(emu_register(g, &BANK_NONE, 0xff014, 1), 0xabc);
	struct bank b = BANK_NONE;
	assert_int_equal(named_register(g, "GRBM_STATUS_SE0", &b, 0), 0);
	b.se = 1;
	assert_int_equal(named_register(g, "GRBM_STATUS_SE0", &b, 0), 5);
	b = BANK_NONE;
	b.me = 1, b.pipe = 2, b.queue = 3;
	assert_int_equal(named_register(g, "CP_HQD_VMID", &b, 0), 7);
	b.queue = 2;
	assert_int_equal(named_register(g, "CP_HQD_VMID", &b, 0), 0);
	assert_int_equal(named_register(g, "SDMA1_STATUS_REG", NULL, 0), 0x46dee556);
	assert_int_equal(named_register(g, "SDMA0_STATUS_REG", NULL, 0), 0x46dee557);
	for (int xcc = 0; xcc < 8; xcc++) {
		b = BANK_NONE;
		b.xcc = xcc;
		assert_int_equal(named_register(mi, "GRBM_STATUS", &b, 0), xcc == 3 ? 2 : 1);
		b.me = 1, b.pipe = 0, b.queue = 4;
		assert_int_equal(named_register(mi, "CP_HQD_ACTIVE", &b, 0), xcc == 3);
	}
	assert_int_equal(emu_register(mi, &BANK_NONE, 0x9000, 0), 0);
	assert_int_equal(emu_register(mi, &BANK_NONE, 0x9000 + 2 * 0x100000, 0), 0x22);
	size_t sdma = 0;
	for (size_t i = 0; i < emu_facts(mi)->nips; i++) {
		const struct ip *ip = &emu_facts(mi)->ips[i];
		if (!str_is(ip->name, "sdma0"))
			continue;
		assert_int_equal(emu_register(mi, &BANK_NONE, (ip->bases[0] + 0x25) * 4, 0),
				 ip->instance == 5 ? 0 : 0x46dee557);
		sdma++;
	}
	assert_int_equal(sdma, 16);
	emu_free(m);
	know_free(k);
}

/** What a walk finds that reads the emulated VRAM. */
static uint64_t walked(const struct emu_gpu *g, const struct vm_space *s, uint64_t address, bool *ret_system)
{
	struct vm_walk w;
	for (vm_walk_begin(&w, s, address); w.state == VM_WANTS_ENTRY;) {
		assert_false(w.at.system);
		vm_walk_on(&w, emu_vram(g, w.at.address, 0) | (uint64_t)emu_vram(g, w.at.address + 4, 0) << 32);
	}
	assert_int_equal(w.state, VM_FOUND);
	*ret_system = w.at.system;
	return w.at.address;
}

static uint64_t gc_value(const struct emu_gpu *g, const char *name)
{
	struct bank none = BANK_NONE;
	struct reg r;
	assert_true(emu_gc_register(g, name, &r));
	return emu_register(g, &none, emu_gc_address(g, 0, &r), 0);
}

static void memory_and_page_tables_are_what_is_stated(void **state)
{
	struct know *k = knowledge();
	(void)state;
	struct emu_machine *m = read_text(k, GPU " map 8 0x7f0000000000 vram 0x200000 8K\n"
						 " map 8 0x7f0000002000 system 0x12345000 4K\n"
						 " map 8 0x7f0000200000 vram 0x400000 2M\n"
						 " map 0 0x7fff00000000 system 0x22222000 4K\n"
						 " virtual 8 0x7f0000001ffc 1 2\n"
						 " virtual 8 0x7f0000200010 (cycle 1 3 4)\n"
						 " virtual 0 0x7fff00000000 5\n"
						 " register GCVM_CONTEXT9_CNTL = 7\n");
	const struct emu_gpu *g = emu_gpu(m, 0);
	uint32_t word;
	bool system;
	assert_int_equal(emu_vram(g, 0x201ffc, 0), 1);
	assert_true(emu_iomem(g, 0x12345000, 0, &word) && word == 2);
	assert_true(emu_iomem(g, 0x12345ffc, 0, &word) && word == 0);
	assert_false(emu_iomem(g, 0x12346000, 0, &word));
	assert_int_equal(emu_vram(g, 0x400010, 1.5), 4);
	assert_true(emu_iomem(g, 0x22222000, 0, &word) && word == 5);
	assert_int_equal(gc_value(g, "GCVM_CONTEXT8_CNTL") & 7, 1 | 3 << 1);
	assert_int_equal(gc_value(g, "GCVM_CONTEXT9_CNTL"), 7);
	struct vm_space s = { .enabled = true, .depth = 3, .last = UINT64_MAX, .vram_size = emu_facts(g)->vram_total };
	assert_true(vm_format_of(k, S("gfx1100"), &s.format));
	s.root = gc_value(g, "GCVM_CONTEXT8_PAGE_TABLE_BASE_ADDR_LO32") | gc_value(g, "GCVM_CONTEXT8_PAGE_TABLE_BASE_ADDR_HI32")
										  << 32;
	s.vram = gc_value(g, "GCMC_VM_FB_OFFSET") << 24;
	assert_int_equal(walked(g, &s, 0x7f0000001ffc, &system), 0x201ffc);
	assert_false(system);
	assert_int_equal(walked(g, &s, 0x7f0000002008, &system), 0x12345008);
	assert_true(system);
	assert_int_equal(walked(g, &s, 0x7f0000212344, &system), 0x412344);
	emu_free(m);
	know_free(k);
}

static void waves_are_at_their_places(void **state)
{
	struct know *k = knowledge();
	(void)state;
	size_t slots;
	struct emu_machine *m =
		read_text(k, GPU " wave 3072 pc 0x100 until 2\n"
				 " wave se 5 sh 1 cu 3 simd 3 slot 15 pc 0x7f00000000f0 exec 0x3 halted barrier m0 7 sgpr 4 9 "
				 "vgpr 2 0x77 from 2\n");
	const struct emu_gpu *g = emu_gpu(m, 0);
	struct wave_slot s = { true, 0, 5, 1, 3, 3, 15 };
	struct str gfx = emu_facts(g)->gfx;
	uint32_t words[WAVE_WORDS_MOST];
	assert_int_equal(count_waves(k, g, 0, &slots), 3072);
	assert_int_equal(slots, 3072);
	assert_int_equal(count_waves(k, g, 2.5, &slots), 1);
	assert_true(emu_wave(g, &s, 3, words) > 0);
	assert_int_equal(wave_pair(k, gfx, "pc_lo", "pc_hi", words), 0x7f00000000f0);
	assert_int_equal(wave_pair(k, gfx, "exec_lo", "exec_hi", words), 3);
	assert_int_equal(wave_bits(k, gfx, "halted", words), 1);
	assert_int_equal(wave_bits(k, gfx, "in-barrier", words), 1);
	assert_int_equal(wave_bits(k, gfx, "wave64", words), 0);
	assert_int_equal(emu_gpr(g, &s, false, 0, 4, 3), 9);
	assert_int_equal(emu_gpr(g, &s, true, 31, 2, 3), 0x77);
	assert_int_equal(emu_gpr(g, &s, true, 31, 2, 1), 0);
	s.slot = 16;
	assert_int_equal(emu_wave(g, &s, 3, words), 0);
	emu_free(m);
	know_free(k);
}

static void rings_have_their_words_and_pointers(void **state)
{
	struct know *k = knowledge();
	(void)state;
	struct emu_machine *m =
		read_text(k, GPU " ring sdma0 size 64 rptr 70 wptr count 0x10 1 1\n packets sdma0 at 6 8 9\n"
				 " fence sdma0 signaled 4 emitted 6 done 5\n ring own rptr 1 wptr 2 driver 3\n");
	const struct emu_gpu *g = emu_gpu(m, 0);
	size_t seen = 0;
	for (size_t i = 0; i < emu_rings(g); i++) {
		struct emu_ring r = emu_ring(g, i, 3);
		struct emu_fence f = emu_fence(g, i, 3);
		if (str_is(r.name, "sdma0")) {
			assert_int_equal(r.words, 64);
			assert_int_equal(r.rptr, 6);
			assert_int_equal(r.wptr, 0x13);
			assert_int_equal(r.driver, 0x13);
			assert_int_equal(emu_ring_word(g, i, 7, 0), 9);
			assert_int_equal(f.signaled + 10 * f.emitted + 100 * f.done, 564);
			seen++;
		} else if (str_is(r.name, "own")) {
			assert_int_equal(r.words, 1024);
			assert_int_equal(r.driver, 3);
			seen++;
		} else {
			assert_int_equal(r.rptr, r.wptr);
			assert_int_equal(f.signaled, f.emitted);
		}
	}
	assert_int_equal(seen, 2);
	emu_free(m);
	know_free(k);
}

static void files_have_their_texts(void **state)
{
	struct know *k = knowledge();
	(void)state;
	struct emu_machine *m =
		read_text(k, GPU " sysfs power/x one\\ntwo # three\n sysfs power/x from 2 later $pid(p)\n"
				 " file amdgpu_regs* blocks\n file amdgpu_regs2 fails EIO\n file kmsg from 3 ones\n"
				 " devcoredump a\n devcoredump   b\n"
				 "process p\nmessages\n 9 err z\n 3 info y $pasid(p)\n");
	const struct emu_gpu *g = emu_gpu(m, 0);
	struct text text = { 0 };
	emu_process_runs(emu_process(m, 0), 4711, 32770);
	assert_int_equal(emu_files(g, EMU_SYSFS), 1);
	emu_file_text(g, EMU_SYSFS, 0, 0, &text);
	assert_true(str_is(text_str(&text), "one\ntwo # three\n"));
	text_clear(&text);
	emu_file_text(g, EMU_SYSFS, 0, 2, &text);
	assert_true(str_is(text_str(&text), "later 4711\n"));
	text_clear(&text);
	emu_expand(m, emu_message(m, 0).text, &text);
	assert_true(str_is(text_str(&text), "y 32770"));
	text_free(&text);
	assert_int_equal(emu_message(m, 1).level, 3);
	assert_int_equal(emu_behaviour(m, g, S("amdgpu_regs"), 0).does, EMU_BLOCKS);
	assert_int_equal(emu_behaviour(m, g, S("amdgpu_regs2"), 0).error, EIO);
	assert_int_equal(emu_behaviour(m, g, S("amdgpu_wave"), 0).does, EMU_ANSWERS);
	assert_int_equal(emu_behaviour(m, NULL, S("kmsg"), 2).does, EMU_ANSWERS);
	assert_int_equal(emu_behaviour(m, NULL, S("kmsg"), 3).does, EMU_ONES);
	assert_true(str_is(emu_devcoredump(g), "a\n  b\n"));
	emu_free(m);
	know_free(k);
}

static const struct emu_gpu *gpu_of(const struct emu_machine *m) { return emu_gpu(m, 0); }

static void queues_have_their_descriptors(void **state)
{
	struct know *k = knowledge();
	(void)state;
	struct emu_machine *m =
		read_text(k, GPU " hqd 1 CP_HQD_PQ_CONTROL 0x77\n mqd 1 CP_HQD_QUANTUM 0x66\n"
				 "process p\n queue 1 gpu 0000:03:00.0 ring 0x7f1200000000 size 0x10000 rptr 41 wptr count "
				 "1042 1 1 place 1.2.3\n"
				 " packet 1 1065 dispatch kernel 0x7f1210000040 args 0x10 grid 64 2 1 group 64 1 1\n"
				 " memory 0x7f1230000000 1 cycle 1 2 3\n");
	struct emu_queue q = emu_queue(m, 0);
	uint32_t mqd[512], hqd[256][2];
	assert_ptr_equal(q.gpu, gpu_of(m));
	assert_int_equal(q.vmid, 8);
	assert_int_equal(emu_queue_mqd(m, 0, 0, mqd), 512);
	assert_int_equal(mqd[0], 0xC0310800);
	assert_int_equal(mqd[136], 0x12000000); // cp_hqd_pq_base_lo: the address, less its last 8 bits
	assert_int_equal(mqd[137], 0x7f);
	assert_int_equal(mqd[138], 41 * 16);
	assert_int_equal(mqd[135], 0x66);                  // cp_hqd_quantum
	assert_int_equal(emu_queue_hqd(m, 0, 0, hqd), 56); // as many as the driver prints
	struct bank b = BANK_NONE;
	b.me = 1, b.pipe = 2, b.queue = 3;
	assert_int_equal(named_register(q.gpu, "CP_HQD_PQ_BASE", &b, 0), 0x12000000);
	assert_int_equal(named_register(q.gpu, "CP_HQD_PQ_CONTROL", &b, 0), 0x77);
	assert_int_equal(named_register(q.gpu, "CP_HQD_PQ_WPTR_LO", &b, 1), 1043 * 16);
	assert_int_equal(named_register(q.gpu, "CP_HQD_ACTIVE", &b, 0), 1);
	fflush(NULL);
	int status, pid = fork();
	if (!pid) {
		const struct emu_process *p = emu_process(m, 0);
		const volatile uint32_t *packet = (const uint32_t *)(0x7f1200000000 + 41 * 64);
		const volatile uint64_t *record = (const uint64_t *)0x7f1200010000;
		const volatile uint32_t *word = (const uint32_t *)0x7f1230000004;
		struct uh_error *err = emu_process_fill(p);
		if (err)
			_exit(1);
		if ((packet[0] & 0xff) != 2 || packet[8] != 0x10000040 || packet[9] != 0x7f12 || packet[4] != 2)
			_exit(2);
		if (record[0x38 / 8] != 1042 || record[0x80 / 8] != 41 || word[0] != 2)
			_exit(3);
		emu_process_tick(p, 1.5);
		_exit(record[0x38 / 8] != 1043 || word[0] != 3 ? 4 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	emu_free(m);
	know_free(k);
}

extern struct r_debug _amdgpu_r_debug;

static void processes_have_their_code(void **state)
{
	struct know *k = knowledge();
	char text[1024];
	(void)state;
	snprintf(text, sizeof(text), GPU "process p\n code 0x7f5600000000 %s/code-object/gfx1100\n", SEEDS);
	struct emu_machine *m = read_text(k, text);
	fflush(NULL);
	int status, pid = fork();
	if (!pid) {
		struct uh_error *err = emu_process_fill(emu_process(m, 0));
		const struct link_map *map = _amdgpu_r_debug.r_map;
		if (err || !map || map->l_next || map->l_addr != 0x7f5600000000)
			_exit(1);
		_exit(strncmp(map->l_name, "file:///", 8) || memcmp((const void *)map->l_addr, "\177ELF", 4) ? 2 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	emu_free(m);
	m = read_text(k, GPU "process p\n code 0x7f5600000000 /nowhere\n");
	_cleanup_error_ struct uh_error *err = emu_process_fill(emu_process(m, 0));
	assert_non_null(err);
	assert_non_null(strstr(uh_error_message(err), "/nowhere"));
	emu_free(m);
	know_free(k);
}

static void each_mistake_is_told_with_its_line(void **state)
{
	static const struct {
		const char *text, *error;
	} rows[] = {
		{ "", "test:1: a machine without a block gpu" },
		{ " part gfx1100\n", "test:1: an indented line before the first block" },
		{ "gpus x\n", "test:1: 'gpus' is none of" },
		{ "gpu 03:00.0\n part gfx1100\n", "test:1: '03:00.0' is no PCI address" },
		{ "gpu 0000:03:00.0\n busy 1\n", "test:1: 'part NAME' must come first" },
		{ "gpu 0000:03:00.0\n part gfx1\n", "test:2: there is no part 'gfx1'" },
		{ GPU " bussy 1\n", "test:3: 'bussy' is no statement of a block gpu" },
		{ GPU " busy 1 2\n", "test:3: '2' is not expected here" },
		{ GPU " busy cycle 0.1\n", "test:3: cycle without values" },
		{ GPU " busy (1\n", "test:3: a ) is missing" },
		{ GPU " busy cycle 0 1 2\n", "test:3: a step of less than" },
		{ GPU " register GRBM_STATUSS = 1\n", "test:3: gfx1100 has no register GRBM_STATUSS" },
		{ GPU " register GRBM_STATUS.X = 1\n", "test:3: GRBM_STATUS has no field X" },
		{ GPU " register xcc 1 GRBM_STATUS = 1\n", "test:3: there is no XCC 1" },
		{ GPU " register GRBM_STATUS 1\n", "test:3: = is missing" },
		{ GPU " wave 1000000000\n", "test:3: a number of waves must be 1 to" },
		{ GPU " wave 3073\n", "test:3: no free slot for 1 of 3073 waves" },
		{ GPU " wave se 6\n", "test:3: there is no SE 6" },
		{ GPU " wave colour 6\n", "test:3: waves of gfx1100 have no 'colour'" },
		{ GPU " ring x size 3\n", "test:3: the size of a ring is no power of two" },
		{ GPU " packets nope at 0 1\n", "test:3: there is no ring 'nope'" },
		{ GPU " file ../x blocks\n", "test:3: '../x' is no path" },
		{ GPU " file x fails EWHAT\n", "test:3: 'EWHAT' is no name of an error" },
		{ GPU " vram 0x2 1\n", "test:3: 0x2 is no multiple of 4" },
		{ GPU " map 16 0 vram 0 4K\n", "test:3: " },
		{ GPU " map 8 0x100 vram 0 4K\n", "test:3: addresses and sizes of pages are multiples of 4096" },
		{ GPU " map 8 0 vram 0 0\n", "test:3: addresses and sizes" },
		{ GPU " map 8 0 disk 0 4K\n", "test:3: 'vram' or 'system' is missing" },
		{ GPU " map 8 0xfffffffff000 vram 0 8K\n", "test:3: it ends behind the last address" },
		{ GPU " map 8 0 vram 0 64G\n", "test:3: VRAM for pages ends at" },
		{ GPU " busy 1\n map 8 0 system 0x1000 1G\n", "test:4: more than 65536 pages" },
		{ GPU " map 0 0 system 0 4K\n map 0 1G system 0 4K\n", "test:4: VMID 0 can address" },
		{ GPU " virtual 8 0x1000 1\n", "test:3: no 'map' before this has 0x1000 of VMID 8" },
		{ GPU " map 8 0x1000 vram 0 4K\n virtual 8 0x1ffc 1 2\n", "test:4: no 'map' before this has 0x2000" },
		{ GPU " map 8 0x1000 vram 0 4K\n virtual 8 0x1002 1\n", "test:4: 0x1002 is no multiple of 4" },
		{ GPU " page-tables 1\n", "test:3: page tables have depth 2 or 3" },
		{ GPU " vram total 32M\n map 8 0 vram 0 4K\n", "test:4: page tables want VRAM" },
		{ GPU " gfx gfx803\n map 8 0 vram 0 4K\n", "test:4: the page tables of gfx803 are not known" },
		{ GPU " sysfs x $pid(nobody)\n", "test:3: there is no process 'nobody'" },
		{ GPU " mqd 9 CP_HQD_QUANTUM 1\n", "test:3: no process has a queue 9" },
		{ GPU "messages\n 1 loud x\n", "test:4: 'loud' is no level" },
		{ GPU "process p\n queue 1 gpu 0000:09:00.0\n", "test:4: there is no GPU at" },
		{ GPU "process p\n packet 1 1 dispatch\n", "test:4: the process has no queue 1" },
		{ "part a\n part b\npart b\n part a\ngpu 0000:03:00.0\n part a\n", "parts that name parts without end" },
	};
	struct know *k = knowledge();
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct emu_machine *m;
		_cleanup_error_ struct uh_error *err = emu_read(k, "test", str_z(rows[i].text), &m);
		assert_null(m);
		if (!err || !strstr(uh_error_message(err), rows[i].error))
			fail_msg("%s: '%s' instead of '%s'", rows[i].text, err ? uh_error_message(err) : "", rows[i].error);
	}
	know_free(k);
}

/** What costs most of what a small text may ask for. */
static void a_scenario_that_wants_too_much_is_refused(void **state)
{
	static const struct {
		const char *head, *line;
		size_t lines;
	} rows[] = {
		{ "gpu 0000:03:00.0\n part gfx1100\n shaders ses 16 shs 2 cus 64\n", " wave 65536 until 0\n", 4096 },
		{ "gpu 0000:03:00.0\n part gfx942\n", " register GRBM_STATUS.GUI_ACTIVE = cycle 1 1 1\n", 20000 },
		{ GPU " packets sdma0 at 0", " 1", 30000 },
		{ GPU " busy ", "(", 60000 },
		{ GPU " busy ", "1 until 1 ", 6000 },
		{ GPU " sysfs x ", "$pid(", 12000 },
		{ GPU, " sysfs x y\n", 100000 },
		{ GPU, " ring r rptr 1\n", 100000 },
	};
	struct know *k = knowledge();
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct text text = { 0 };
		const clock_t begin = clock(); // of the processor: a busy machine takes longer
		text_add(&text, str_z(rows[i].head));
		for (size_t n = 0; n < rows[i].lines; n++)
			text_add(&text, str_z(rows[i].line));
		assert_null(scenario_complaint(k, text.p, text.n, NULL));
		text_free(&text);
		if ((clock() - begin) / CLOCKS_PER_SEC > 20)
			fail_msg("%s%s... took %ld s", rows[i].head, rows[i].line, (clock() - begin) / CLOCKS_PER_SEC);
	}
	know_free(k);
}

enum { TRIAL_SECONDS = 40 };

static void try_bytes(const struct know *k, const char *name, const char *how, size_t at, const char *bytes, size_t size)
{
	// A copy of exactly this size, so that AddressSanitizer sees a read behind its end.
	_cleanup_free_ char *copy = mem_alloc(size + !size);
	struct text error = { 0 };
	memcpy(copy, bytes, size);
	const char *complaint = scenario_complaint(k, copy, size, &error);
	if (complaint)
		fail_msg("%s %s at %zu: %s", name, how, at, complaint);
	if (error.p && strncmp(error.p, "scenario:", 9))
		fail_msg("%s %s at %zu: '%s' does not say where", name, how, at, error.p);
	text_free(&error);
}

static void scenarios_cut_or_changed_harm_nobody(void **state)
{
	static const char *const names[] = { "everything", "mi300-xcc-stuck" };
	struct know *k = knowledge();
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[512], chunk[4096];
		struct text text = { 0 };
		int64_t end = now_ms() + TRIAL_SECONDS * 1000;
		snprintf(path, sizeof(path), "%s/scenario/%s.scenario", SEEDS, names[i]);
		FILE *f = fopen(path, "rb");
		assert_non_null(f);
		for (size_t n; (n = fread(chunk, 1, sizeof(chunk), f));)
			text_add(&text, (struct str){ chunk, n });
		fclose(f);
		struct text error = { 0 };
		assert_null(scenario_complaint(k, text.p, text.n, &error));
		if (error.p)
			fail_msg("%s", error.p);
		for (size_t at = 0; at < text.n && now_ms() < end; at++) {
			static const char other[] = { 0, ' ', '\n', '9', '(', (char)0xff };
			char was = text.p[at];
			try_bytes(k, names[i], "cut", at, text.p, at);
			text.p[at] = other[at % sizeof(other)];
			try_bytes(k, names[i], "changed", at, text.p, text.n);
			text.p[at] = was;
		}
		text_free(&text);
	}
	know_free(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_built_in_scenario_is_right),
		cmocka_unit_test(every_part_has_its_registers),
		cmocka_unit_test(values_change_with_time),
		cmocka_unit_test(registers_and_banks_are_what_is_stated),
		cmocka_unit_test(memory_and_page_tables_are_what_is_stated),
		cmocka_unit_test(waves_are_at_their_places),
		cmocka_unit_test(rings_have_their_words_and_pointers),
		cmocka_unit_test(files_have_their_texts),
		cmocka_unit_test(queues_have_their_descriptors),
		cmocka_unit_test(processes_have_their_code),
		cmocka_unit_test(each_mistake_is_told_with_its_line),
		cmocka_unit_test(a_scenario_that_wants_too_much_is_refused),
		cmocka_unit_test(scenarios_cut_or_changed_harm_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
