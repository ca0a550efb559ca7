// What instructions do: operands, addresses, waits, and what a late fault may be of. Texts are as LLVM 19 writes them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "code/meaning.h"

static struct know *know;

static void no_problem(void *ctx, const char *file, unsigned line, const char *message)
{
	(void)ctx;
	fail_msg("%s:%u: %s", file, line, message);
}

static int set_up(void **state)
{
	(void)state;
	know = know_load_with("none.know", S(""), &(struct know_problems){ .report = no_problem });
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	know_free(know);
	return 0;
}

// --- a wave ---

struct wave {
	uint32_t v[8], step[8]; // lane l has v + l * step
	uint32_t s[16];
	unsigned missing_lane; // whose VGPRs are not known
};

static bool read_register(void *ctx, char bank, unsigned number, unsigned lane, uint32_t *ret)
{
	const struct wave *w = ctx;
	if (bank == 'v' && number < 8 && lane != w->missing_lane) {
		*ret = w->v[number] + lane * w->step[number];
		return true;
	}
	if (bank == 's' && number < 16 && !lane) {
		*ret = w->s[number];
		return true;
	}
	return false;
}

static bool read_named(void *ctx, struct str name, uint64_t *ret)
{
	(void)ctx;
	static const struct {
		const char *name;
		uint64_t value;
	} named[] = {
		{ "vcc", 0x0000700011110000 }, { "m0", 0x40 }, { "ttmp6", 0x22220000 }, { "ttmp7", 0x6000 }, { "ttmp11", 8 }
	};
	for (size_t i = 0; i < ARRAY_SIZE(named); i++) {
		*ret = named[i].value;
		if (str_is(name, named[i].name))
			return true;
	}
	return false;
}

static size_t addresses(struct wave *w, const char *text, uint64_t exec, unsigned lanes, struct lane_address *ret)
{
	const struct meaning_registers r = { .read = read_register, .read_named = read_named, .ctx = w };
	struct meaning m;
	assert_true(meaning_of(know, str_z(text), &m));
	return meaning_addresses(&m, &r, exec, lanes, ret);
}

static const struct wave plain = {
	.v = { 0, 0x10, 0x80001000, 0x00007f00, 0xfffffff0, 3, 0x20, 0x100 },
	.step = { 0, 4, 16, 0, 0, 1, 8, 0 },
	.s = { 0x1003, 0x7e00, 0x44, 0x10, 0x20000000, 0x7f12, 0xffffffff, 7, // s[4:5] a pointer, s[8:11] a raw buffer
	       0x30000000, 0x7f34, 0x400, 0x27000, 0x50000000, 0x00147f56, 0x10, 0x27000 }, // s[12:15] one with a stride of 20
	.missing_lane = 99,
};

/** The address of @lane, which must be among those of all 64. */
static uint64_t address_of(const char *text, unsigned lane)
{
	struct wave w = plain;
	struct lane_address lanes[MEANING_LANES];
	size_t n = addresses(&w, text, UINT64_MAX, 64, lanes);
	for (size_t i = 0; i < n; i++)
		if (lanes[i].lane == lane)
			return lanes[i].address;
	fail_msg("%s: no address of lane %u", text, lane);
	return 0;
}

static void addresses_are_computed_from_registers(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		unsigned lane;
		uint64_t address;
	} rows[] = {
		{ "global_load_dword v1, v[2:3], off offset:16", 0, 0x7f0080001010 },
		{ "global_load_dword v1, v[2:3], off offset:16", 63, 0x7f0080001400 },
		{ "global_load_dword v1, v[2:3], off offset:-4096", 1, 0x7f0080000010 },
		{ "global_store_dwordx4 v1, v[2:5], s[4:5]", 2, 0x7f1220000018 },
		{ "global_load_b32 v1, v1, s[4:5] offset:-8", 0, 0x7f1220000008 },
		{ "global_load_b32 v1, v4, s[4:5]", 0, 0x7f131ffffff0 }, // the offset has no sign
		{ "global_load_b32 v1, v1, vcc offset:4", 1, 0x700011110018 },
		{ "global_load_b32 v1, v1, ttmp[6:7]", 0, 0x600022220010 },
		{ "global_load_lds_dword v[2:3], off offset:4", 0, 0x7f0080001004 },
		{ "global_load_dword v[2:3], off lds", 0, 0x7f0080001000 },
		{ "global_atomic_add_u32 v1, v1, v2, s[4:5] offset:4 glc", 0, 0x7f1220000014 },
		{ "global_atomic_add v[2:3], v1, off", 0, 0x7f0080001000 },
		{ "global_load_dword_addtid v1, s[4:5] offset:8", 5, 0x7f122000001c },
		{ "global_load_tr_b128 v[0:3], v[2:3], off", 0, 0x7f0080001000 },
		{ "flat_load_dword v1, v[2:3] offset:8", 0, 0x7f0080001008 },
		{ "flat_store_b64 v[2:3], v[4:5] offset:-8", 0, 0x7f0080000ff8 },
		{ "flat_atomic_add_u32 v1, v[2:3], v4 glc", 0, 0x7f0080001000 },
		{ "flat_atomic_add v[2:3], v4", 0, 0x7f0080001000 },
		{ "scratch_load_dword v0, off, s2 offset:4", 9, 0x48 },
		{ "scratch_load_b32 v0, v1, s2", 1, 0x58 },
		{ "scratch_store_b32 off, v1, off offset:12", 0, 12 },
		{ "scratch_store_dword v4, v1, s3 offset:8", 0, 8 }, // 32 bits wrap around
		{ "ds_read_b64 v[0:1], v1 offset:8", 1, 0x1c },
		{ "ds_write2st64_b32 v1, v2, v3 offset0:1 offset1:2", 0, 0x110 },
		{ "ds_load_2addr_b64 v[0:3], v1 offset0:3 offset1:4", 0, 0x28 },
		{ "ds_add_rtn_u32 v0, v1, v2 offset:4", 0, 0x14 },
		{ "ds_add_u32 v1, v2", 0, 0x10 },
		{ "ds_read_b32 v0, v4 offset:32", 0, 0x10 },
		{ "s_load_dwordx4 s[0:3], s[0:1], 0x10", 0, 0x7e0000001010 },
		{ "s_load_b128 s[0:3], s[0:1], s2 offset:0x10", 0, 0x7e0000001054 },
		{ "s_load_dword s0, s[4:5], -0x10", 0, 0x7f121ffffff0 },
		{ "s_load_b32 s0, s[4:5], s6 offset:0x4", 0, 0x7f1320000000 }, // no sign, and two bits less
		{ "s_load_dword s0, s[4:5], m0", 0, 0x7f1220000040 },
		{ "s_load_dword s0, s[4:5], ttmp11", 0, 0x7f1220000008 },
		{ "s_load_dword s0, vcc, 0x8", 0, 0x700011110008 },
		{ "s_load_u8 s0, s[0:1], 0x1", 0, 0x7e0000001004 },
		{ "s_load_u16 s0, s[0:1], 0x1", 0, 0x7e0000001002 },
		{ "s_store_dword s3, s[4:5], 0x4", 0, 0x7f1220000004 },
		{ "s_atomic_add s3, s[4:5], 0x4 glc", 0, 0x7f1220000004 },
		{ "s_prefetch_data s[4:5], 0x80, s2, 3", 0, 0x7f12200000c4 },
		{ "s_prefetch_data s[4:5], 0x80, null, 3", 0, 0x7f1220000080 },
		{ "s_buffer_load_dword s0, s[8:11], 0x20", 0, 0x7f3430000020 },
		{ "s_buffer_load_b64 s[0:1], s[8:11], s2 offset:0x4", 0, 0x7f3430000048 },
		{ "s_buffer_load_dword s0, s[8:11], s7 offset:0x7", 0, 0x7f3430000008 },
		{ "s_load_dword s0, s[4:5], s7 offset:0x7", 0, 0x7f1220000008 },
		{ "buffer_load_dword v1, off, s[8:11], 0", 0, 0x7f3430000000 },
		{ "buffer_load_dword v1, v1, s[8:11], s3 offen offset:4", 1, 0x7f3430000028 },
		{ "buffer_load_dword v1, s[8:11], s3 offen offset:4 lds", 1, 0x7f3430000028 },
		{ "buffer_load_dword off, s[8:11], 0 lds", 3, 0x7f3430000000 },
		{ "buffer_store_dword v1, v5, s[12:15], 0 idxen offset:4", 1, 0x7f5650000054 },
		{ "buffer_store_b32 v1, v[5:6], s[12:15], s3 idxen offen", 1, 0x7f5650000088 },
		{ "buffer_load_b32 v1, off, s[8:11], null offset:4", 0, 0x7f3430000004 },
		{ "buffer_load_b32 v1, off, s[8:11], 53 offset:4", 0, 0x7f3430000039 },
		{ "tbuffer_load_format_xy v[0:1], v1, s[8:11], 0 format:[BUF_DATA_FORMAT_32_32,BUF_NUM_FORMAT_FLOAT] offen "
		  "offset:8",
		  0, 0x7f3430000018 },
		{ "buffer_atomic_add v0, v1, s[8:11], 0 offen glc", 0, 0x7f3430000010 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (address_of(rows[i].text, rows[i].lane) != rows[i].address)
			fail_msg("%s: lane %u at 0x%llx, not 0x%llx", rows[i].text, rows[i].lane,
				 (unsigned long long)address_of(rows[i].text, rows[i].lane),
				 (unsigned long long)rows[i].address);
}

static void each_active_lane_has_its_address(void **state)
{
	(void)state;
	struct wave w = plain;
	struct lane_address lanes[MEANING_LANES];
	const char load[] = "global_load_dword v0, v[2:3], off";
	assert_int_equal(addresses(&w, load, UINT64_MAX, 64, lanes), 64);
	assert_int_equal(addresses(&w, load, UINT64_MAX, 32, lanes), 32);
	assert_int_equal(addresses(&w, load, UINT64_MAX, 1000, lanes), 64);
	assert_int_equal(addresses(&w, load, 0, 64, lanes), 0);
	assert_int_equal(addresses(&w, load, 0x8000000000000004, 64, lanes), 2);
	assert_int_equal(lanes[0].lane, 2);
	assert_int_equal(lanes[1].lane, 63);
	assert_int_equal(lanes[1].address, 0x7f00800013f0);
	w.missing_lane = 5;
	assert_int_equal(addresses(&w, load, 0x30, 64, lanes), 1);
	assert_int_equal(lanes[0].lane, 4);
	// One address for the wave, also with no lane active.
	assert_int_equal(addresses(&w, "s_load_dword s0, s[4:5], 0x0", 0, 64, lanes), 1);
	assert_int_equal(lanes[0].lane, 0);
	w = plain;
	w.v[3] = UINT32_MAX;
	w.v[2] = 0xfffffff8;
	assert_int_equal(addresses(&w, "global_load_dword v0, v[2:3], off offset:16", 1, 64, lanes), 1);
	assert_int_equal(lanes[0].address, 8);
}

static void what_is_not_known_gives_no_address(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"global_load_dword v1, v[20:21], off", // registers that nobody knows
		"global_load_dword v1, v1, s[90:91]",
		"global_load_dword v1, v1, exec",
		"global_load_dword v1, v[2:3]",
		"global_load_dword v1, v2, off",
		"global_load_dword v1, v[2:3], s[4:5]",
		"global_load_dword v1, v[2:3, off",
		"global_load_dword",
		"global_load_b32 v1, v1, s[4:5] scale_offset",
		"buffer_load_dword v1, v1, s[8:9], 0 offen",
		"buffer_load_dword v1, off, s[8:11], 0 offen",
		"buffer_load_dword v1, off, s[8:11], 1.0",
		"buffer_load_dword v1, v5, s[8:11], s77 idxen",
		"s_load_dword s0, s4, 0x0",
		"s_load_dword s0, v[2:3], 0x0",
		"s_scratch_load_dword s0, s[4:5], 0x0",
		"s_prefetch_data_pc_rel 0x7c, s0, 5",
		"image_load v[0:1], v[2:3], s[0:7] dmask:0x3 dim:SQ_RSRC_IMG_2D",
		"ds_append v0 offset:4",
		"ds_bpermute_b32 v0, v1, v2",
		"v_add_u32_e32 v0, v1, v2",
		"s_endpgm",
	};
	struct wave w = plain;
	struct lane_address lanes[MEANING_LANES];
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (addresses(&w, texts[i], UINT64_MAX, 64, lanes))
			fail_msg("%s: 0x%llx", texts[i], (unsigned long long)lanes[0].address);
	// Descriptors that scatter the lanes.
	w.s[9] |= 1u << 31;
	assert_int_equal(addresses(&w, "buffer_load_dword v1, v1, s[8:11], 0 offen", 1, 64, lanes), 0);
	w = plain;
	w.s[11] |= 1u << 23;
	assert_int_equal(addresses(&w, "buffer_load_dword v1, v1, s[8:11], 0 offen", 1, 64, lanes), 0);
}

static void accesses_outside_of_a_buffer_descriptor_are_told(void **state)
{
	(void)state;
	struct wave w = plain;
	struct lane_address lanes[MEANING_LANES];
	const char load[] = "buffer_load_dword v1, v7, s[8:11], 0 offen offset:764";
	assert_int_equal(addresses(&w, load, 1, 64, lanes), 1);
	assert_false(lanes[0].outside);
	w.v[7] += 4;
	assert_int_equal(addresses(&w, load, 1, 64, lanes), 1);
	assert_true(lanes[0].outside);
	struct meaning m;
	assert_true(meaning_of(know, str_z(load), &m) && m.checked);
	assert_true(meaning_of(know, S("global_load_dword v1, v[2:3], off"), &m) && !m.checked);
}

static void the_memory_space_of_an_access_is_known(void **state)
{
	(void)state;
	const struct meaning_registers r = { .scratch_base = 0x2000000000000, .lds_base = 0x1000000000000 };
	struct meaning m;
	assert_true(meaning_of(know, S("flat_load_dword v1, v[2:3]"), &m));
	assert_int_equal(meaning_space(&m, &r, 0x1000000000010), SPACE_LDS);
	assert_int_equal(meaning_space(&m, &r, 0x20000ffffffff), SPACE_SCRATCH);
	assert_int_equal(meaning_space(&m, &r, 0x7f0000000000), SPACE_GLOBAL);
	assert_true(meaning_of(know, S("ds_read_b32 v1, v2 gds"), &m));
	assert_int_equal(meaning_space(&m, &r, 0), SPACE_GDS);
	assert_true(meaning_of(know, S("s_load_dword s0, s[2:3], 0x0"), &m));
	assert_int_equal(meaning_space(&m, &r, 0), SPACE_SCALAR);
}

static void operands_are_taken_apart(void **state)
{
	(void)state;
	struct meaning m;
	assert_true(meaning_of(know, S("global_atomic_cmpswap_x2 v[8:9], v[2:3], v[4:7], off offset:-16 glc"), &m));
	assert_true(m.understood);
	assert_int_equal(m.result.first, 8);
	assert_int_equal(m.address.first, 2);
	assert_int_equal(m.address.count, 2);
	assert_int_equal(m.data.first, 4);
	assert_int_equal(m.data.count, 4);
	assert_int_equal(m.immediate, -16);
	assert_int_equal(m.bytes, 8);
	assert_true(meaning_of(know, S("global_store_dword v[0:1], a2, off"), &m));
	assert_int_equal(m.data.bank, 'a');
	assert_int_equal(m.data.first, 2);
	assert_true(meaning_of(know, S("buffer_atomic_swap_b32 v3, v4, s[8:11], s5 offen th:TH_ATOMIC_RETURN"), &m));
	assert_int_equal(m.result.first, 3);
	assert_true(m.offen && !m.idxen);
	assert_int_equal(m.base.count, 4);
	assert_int_equal(m.offset.first, 5);
	assert_true(meaning_of(know, S("buffer_atomic_swap_b32 v3, v4, s[8:11], s5 offen th:TH_ATOMIC_NT"), &m));
	assert_int_equal(m.result.bank, 0);
	assert_true(meaning_of(know, S("ds_write2st64_b64 v9, v[2:3], v[4:5] offset0:1 offset1:255"), &m));
	assert_int_equal(m.immediate, 512);
	assert_int_equal(m.immediate2, 255 * 512);
	assert_int_equal(m.data2.first, 4);
	assert_true(meaning_of(know, S("image_sample v[0:3], [v7, v3], s[0:7], s[8:11] dmask:0xf dim:SQ_RSRC_IMG_2D"), &m));
	assert_true(m.understood);
	assert_int_equal(m.base.count, 8);
	assert_true(meaning_of(know, S("buffer_load_dword v1, v2, s[8:11], 0 idxen offen"), &m));
	assert_false(m.understood);
	assert_false(meaning_of(know, S(".long 0x12345678"), &m));
	assert_null(m.what);
	assert_false(meaning_of(know, S(""), &m));
}

static void the_size_of_an_access_is_known(void **state)
{
	(void)state;
	static const struct {
		const char *mnemonic;
		unsigned bytes;
	} rows[] = { { "global_load_ubyte v0, v[2:3], off", 1 },
		     { "global_load_d16_hi_b16 v0, v[2:3], off", 2 },
		     { "global_store_short_d16_hi v[2:3], v0, off", 2 },
		     { "global_load_dwordx3 v[4:6], v[2:3], off", 12 },
		     { "s_load_dwordx16 s[0:15], s[2:3], 0x0", 64 },
		     { "s_load_b512 s[0:15], s[2:3], 0x0", 64 },
		     { "flat_atomic_add_x2 v[2:3], v[4:5]", 8 },
		     { "flat_atomic_add v[2:3], v4", 4 },
		     { "global_atomic_pk_add_f16 v[2:3], v4, off", 4 },
		     { "ds_read_b64_tr_b16 v[0:1], v2", 8 },
		     { "ds_read_u8_d16 v0, v1", 1 },
		     { "buffer_load_format_xyzw v[0:3], off, s[0:3], 0", 0 },
		     { "ds_condxchg32_rtn_b64 v[0:1], v2, v[4:5]", 8 },
		     { "global_load_lds_dwordx4 v[2:3], off", 16 } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct meaning m;
		assert_true(meaning_of(know, str_z(rows[i].mnemonic), &m));
		if (m.bytes != rows[i].bytes || !m.understood)
			fail_msg("%s: %u bytes", rows[i].mnemonic, m.bytes);
	}
}

static void what_an_instruction_does_is_said(void **state)
{
	(void)state;
	static const struct {
		const char *text, *said;
	} rows[] = {
		{ "global_load_dwordx4 v[4:7], v[2:3], off offset:16",
		  "loads 16 bytes per lane from global memory at v[2:3]+16 into v[4:7]" },
		{ "global_store_b8 v1, v2, s[4:5] offset:-8",
		  "stores 1 byte per lane to global memory at s[4:5]+v1-8 from v2" },
		{ "flat_atomic_add_u32 v1, v[2:3], v4 glc",
		  "changes 4 bytes per lane of memory atomically at v[2:3] with v4 and returns the old value in v1" },
		{ "global_load_lds_dword v[2:3], off", "loads 4 bytes per lane from global memory at v[2:3] into LDS" },
		{ "ds_read2_b32 v[0:1], v2 offset1:4", "loads twice 4 bytes per lane from LDS at v2 and v2+16 into v[0:1]" },
		{ "s_load_b64 s[0:1], s[2:3], s9 offset:0x10",
		  "loads 8 bytes from memory for the whole wave at s[2:3]+s9+16 into s[0:1]" },
		{ "global_load_dword v1, v[2:", "loads 4 bytes per lane from global memory" },
		{ "s_waitcnt vmcnt(0)", "waits for vector memory accesses (vmcnt 0)" },
		{ "s_waitcnt vmcnt(2) lgkmcnt(0)",
		  "waits for vector memory accesses (vmcnt 2); LDS, scalar loads and messages (lgkmcnt 0)" },
		{ "s_waitcnt 0x1234", "waits for memory accesses" },
		{ "s_waitcnt_vscnt null, 0x0", "waits for vector memory stores (vscnt 0)" },
		{ "s_wait_loadcnt 0x21", "waits for vector memory loads (loadcnt 33)" },
		{ "s_wait_loadcnt_dscnt 0x301", "waits for vector memory loads (loadcnt 3); LDS (dscnt 1)" },
		{ "s_wait_idle", "waits for everything that the wave has begun" },
		{ "s_barrier", "waits for the other waves of its workgroup (barrier)" },
		{ "s_barrier_wait 0xffff", "waits for the other waves of its workgroup (barrier)" },
		{ "s_trap 2", "stops the wave on purpose (trap 2): an assertion, abort() or __builtin_trap() in the kernel" },
		{ "s_trap 9", "stops the wave on purpose (trap 9)" },
		{ "s_endpgm", "ends the wave" },
	};
	struct arena a = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct meaning m;
		assert_true(meaning_of(know, str_z(rows[i].text), &m));
		assert_string_equal(arena_z(&a, meaning_say(&a, know, &m)), rows[i].said);
	}
	arena_free(&a);
}

static void instructions_that_wait_say_for_what(void **state)
{
	(void)state;
	static const char *const waiting[] = { "s_barrier", "s_sleep 2", "s_waitcnt lgkmcnt(0)", "s_wait_kmcnt 0x0",
					       "ds_gws_barrier v0 offset:4 gds" };
	static const char *const not [] = { "s_nop 0", "s_barrier_signal -1", "s_endpgm", "v_mov_b32_e32 v0, v1",
					    "ds_gws_init v0 gds" };
	struct arena a = { 0 };
	struct meaning m;
	struct str what;
	for (size_t i = 0; i < ARRAY_SIZE(waiting); i++)
		assert_true(meaning_of(know, str_z(waiting[i]), &m) && meaning_waits(&a, &m, &what) && what.n);
	for (size_t i = 0; i < ARRAY_SIZE(not ); i++)
		assert_true(meaning_of(know, str_z(not [i]), &m) && !meaning_waits(&a, &m, &what));
	arena_free(&a);
}

// --- windows of code ---

enum { WINDOW = 32 };

/** Lines of @text, four bytes each. */
static size_t window(const char *text, struct instruction ret[static WINDOW])
{
	struct str rest = str_z(text);
	size_t n = 0;
	for (; rest.n && n < WINDOW; n++)
		ret[n] = (struct instruction){ 0x1000 + 4 * n, 4, str_split(&rest, '\n') };
	return n;
}

static size_t candidates(const char *text, unsigned spaces, struct meaning_candidate *ret)
{
	struct instruction code[WINDOW];
	return meaning_candidates(know, code, window(text, code), spaces, ret);
}

static void a_late_fault_is_held_against_the_accesses_before_it(void **state)
{
	(void)state;
	const unsigned vector = 1 << SPACE_GLOBAL | 1 << SPACE_FLAT | 1 << SPACE_BUFFER;
	struct meaning_candidate c[MEANING_CANDIDATES];
	assert_int_equal(
		candidates("global_load_dword v0, v[2:3], off\ns_cbranch_scc1 5\n"
			   "global_load_dword v9, v[4:5], off\nglobal_load_dword v5, v[6:7], off\nds_read_b32 v1, v20\n"
			   "s_waitcnt vmcnt(0)\nv_add_co_u32 v20, s[8:9], v3, v4",
			   vector, c),
		2);
	assert_int_equal(c[0].index, 3);
	assert_true(!c[0].clobbered && c[0].waited && !c[0].exec_changed);
	assert_int_equal(c[1].index, 2);
	assert_true(c[1].clobbered); // v5 was loaded
	assert_int_equal(candidates("ds_read_b32 v1, v20\ns_nop 0", 1 << SPACE_LDS, c), 1);
	assert_int_equal(candidates("ds_read_b32 v1, v20\ns_nop 0", vector, c), 0);
	assert_int_equal(candidates("global_load_dword v0, v[2:3], off\ns_setpc_b64 s[30:31]", vector, c), 0);
	assert_int_equal(candidates("global_load_dword v0, v[2:3], off\ns_endpgm\ns_nop 0", vector, c), 0);
	assert_int_equal(candidates("global_load_dword v0, v[2:3], off\n.long 0x1\ns_nop 0", vector, c), 0);
	char many[20 * 40] = "";
	for (int i = 0; i < 20; i++)
		strcat(many, "global_load_dword v0, v[2:3], off\n");
	assert_int_equal(candidates(many, vector, c), MEANING_CANDIDATES);
	assert_int_equal(c[7].index, 12);
}

static void registers_that_changed_since_the_access_are_known(void **state)
{
	(void)state;
	static const struct {
		const char *between;
		bool clobbered, exec, waited;
	} rows[] = {
		{ "v_mov_b32_e32 v2, 0", true, false, false },
		{ "v_mov_b32_e32 v4, v2", false, false, false },
		{ "v_mov_b32_e32 v1, 0", false, false, false },
		{ "global_store_dword v[2:3], v2, off", false, false, false },
		{ "global_load_dwordx4 v[0:3], v[8:9], off", true, false, false },
		{ "v_dual_mov_b32 v9, v8 :: v_dual_add_f32 v3, v8, v9", true, false, false },
		{ "v_dual_mov_b32 v9, v2 :: v_dual_add_f32 v8, v2, v3", false, false, false },
		{ "v_swap_b32 v9, v3", true, false, false },
		{ "v_movreld_b32_e32 v9, v8", true, true, false },
		{ "s_mov_b32 s4, 0", true, false, false },
		{ "s_cmp_eq_u32 s4, 0", false, false, false },
		{ "s_load_dwordx2 s[4:5], s[0:1], 0x0", true, false, false },
		{ "s_and_saveexec_b64 s[4:5], vcc", true, true, false },
		{ "s_and_saveexec_b64 s[10:11], vcc", false, true, false },
		{ "s_mov_b64 exec, s[10:11]", false, true, false },
		{ "s_mov_b32 exec_lo, s10", false, true, false },
		{ "v_cmpx_eq_u32_e32 v8, v9", false, true, false },
		{ "flat_atomic_add v2, v[8:9], v10 glc", true, false, false },
		{ "flat_atomic_add v[2:3], v10", false, false, false },
		{ "s_waitcnt vmcnt(0)", false, false, true },
		{ "s_waitcnt vmcnt(1)", false, false, false },
		{ "s_waitcnt lgkmcnt(0)", false, false, false },
		{ "s_wait_loadcnt 0x0", false, false, true },
		{ "s_wait_loadcnt_dscnt 0x1", false, false, true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct meaning_candidate c[MEANING_CANDIDATES];
		char text[256];
		snprintf(text, sizeof(text), "%s\n%s",
			 strchr(rows[i].between, 's') == rows[i].between ? "global_load_dword v7, v2, s[4:5]" :
									   "global_load_dword v7, v[2:3], off",
			 rows[i].between);
		size_t n = candidates(text, 1 << SPACE_GLOBAL, c);
		assert_true(n);
		const struct meaning_candidate *first = &c[n - 1];
		if (first->index || first->clobbered != rows[i].clobbered || first->exec_changed != rows[i].exec ||
		    first->waited != rows[i].waited)
			fail_msg("%s: clobbered %d, exec %d, waited %d", rows[i].between, first->clobbered, first->exec_changed,
				 first->waited);
	}
	struct meaning_candidate own[MEANING_CANDIDATES];
	assert_int_equal(candidates("global_load_dword v2, v[2:3], off", 1 << SPACE_GLOBAL, own), 1);
	assert_true(own[0].overwritten && !own[0].clobbered);
	assert_int_equal(candidates("global_load_dword v4, v[2:3], off", 1 << SPACE_GLOBAL, own), 1);
	assert_false(own[0].overwritten);
}

static void where_a_wave_waits_is_found(void **state)
{
	(void)state;
	struct instruction code[WINDOW];
	struct meaning_parked p;
	struct arena a = { 0 };
	size_t n = window("s_nop 0\nglobal_load_dword v0, v[2:3], off glc\ns_waitcnt vmcnt(0)\nv_cmp_eq_u32_e32 vcc, 3, v0\n"
			  "s_cbranch_vccnz 2\ns_sleep 2\ns_branch 65530\ns_barrier\ns_waitcnt lgkmcnt(0)\ns_endpgm",
			  code);
	assert_true(meaning_parked(&a, know, code, n, 5, &p));
	assert_true(p.index == 5 && p.loops && p.polls && p.polled == 1);
	assert_true(str_find(p.waits_for, S("polling loop")) >= 0);
	assert_true(meaning_parked(&a, know, code, n, 6, &p)); // the sleep before it
	assert_int_equal(p.index, 5);
	assert_true(meaning_parked(&a, know, code, n, 2, &p));
	assert_true(p.loops && p.polls);
	assert_true(str_find(p.waits_for, S("polling loop")) >= 0);                   // wherever in the loop it is seen
	assert_true(p.waits_here.n && str_find(p.waits_here, S("polling loop")) < 0); // unless it never left the instruction
	assert_int_equal(p.index, 5);
	assert_true(meaning_parked(&a, know, code, n, 3, &p));
	assert_int_equal(p.index, 5);
	assert_true(meaning_parked(&a, know, code, n, 7, &p));
	assert_true(p.index == 7 && !p.loops && !p.polls);
	assert_true(meaning_parked(&a, know, code, n, 8, &p));
	assert_int_equal(p.index, 8);
	assert_false(meaning_parked(&a, know, code, n, 0, &p));
	assert_false(meaning_parked(&a, know, code, n, 9, &p));
	assert_false(meaning_parked(&a, know, code, n, n, &p));
	arena_free(&a);
}

// --- what LLVM writes, and what nobody writes ---

static const char *const processors[] = { "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201" };

static struct str seed(const char *name)
{
	static char bytes[64 << 10];
	char path[512];
	snprintf(path, sizeof(path), "%s/meaning/%s", SEEDS, name);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	size_t n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	return (struct str){ bytes, n };
}

static void instructions_as_llvm_writes_them_are_understood(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(processors); i++) {
		struct str text = seed(processors[i]);
		while (text.n) {
			struct str line = str_split(&text, '\n');
			struct meaning m;
			if (!meaning_of(know, line, &m) || !m.understood)
				fail_msg("%s: " STR_FMT, processors[i], STR_ARG(line));
			bool memory = str_find(m.mnemonic, S("_load")) >= 0 || str_find(m.mnemonic, S("_store")) >= 0 ||
				      str_find(m.mnemonic, S("_atomic")) >= 0;
			bool internal = str_starts(m.mnemonic, S("lds_")) || str_starts(m.mnemonic, S("s_wait")) ||
					str_starts(m.mnemonic, S("ds_param")) || str_starts(m.mnemonic, S("ds_direct"));
			if (memory && !internal && !meaning_accesses(&m))
				fail_msg("%s is no access: " STR_FMT, processors[i], STR_ARG(line));
		}
	}
}

/** In memory of exactly its size, so that a read behind its end is seen. */
static void try_text(struct str text)
{
	struct wave w = plain;
	const struct meaning_registers r = { .read = read_register, .read_named = read_named, .ctx = &w };
	struct lane_address lanes[MEANING_LANES];
	struct meaning_candidate c[MEANING_CANDIDATES];
	struct meaning_parked p;
	struct meaning m;
	struct arena a = { 0 };
	char *copy = malloc(text.n + !text.n);
	memcpy(copy, text.p, text.n);
	const struct instruction code = { 0x1000, 4, { copy, text.n } };
	if (meaning_of(know, code.text, &m)) {
		meaning_say(&a, know, &m);
		assert_true(meaning_addresses(&m, &r, 3, 64, lanes) <= 2);
	}
	meaning_candidates(know, &code, 1, UINT32_MAX, c);
	meaning_parked(&a, know, &code, 1, 0, &p);
	free(copy);
	arena_free(&a);
}

static void instructions_cut_or_changed_harm_nobody(void **state)
{
	(void)state;
	char changed[512];
	for (size_t i = 0; i < ARRAY_SIZE(processors); i++) {
		struct str text = seed(processors[i]);
		for (unsigned number = 0; text.n; number++) {
			struct str line = str_cut(str_split(&text, '\n'), sizeof(changed));
			for (size_t at = 0; at <= line.n; at++)
				try_text(str_cut(line, at));
			memcpy(changed, line.p, line.n);
			for (size_t at = 0; at < line.n && number % 4 == 0; at++) {
				for (const char *c = "[]:,()-9v \xff"; *c; c++) {
					changed[at] = *c;
					try_text((struct str){ changed, line.n });
				}
				changed[at] = line.p[at];
			}
		}
	}
	try_text(S("global_load_dword v[9999999999999999:3], v[2:99999999999], off offset:99999999999999999"));
	try_text(S("s_load_dword s0, s[2:3], 0xffffffffffffffff"));
	try_text(S("s_load_dword s0, s[2:3], -0x8000000000000000"));
	try_text(S("ds_read2st64_b64 v[0:3], v1 offset0:999999999999999999 offset1:-0xffffffffffffffff"));
	try_text(S("s_wait_loadcnt_dscnt -1"));
	try_text(S("s_cbranch_scc1 999999999999999999"));
}

static void a_wrong_row_of_instructions_is_told(void **state)
{
	(void)state;
	static const char *const rows[] = {
		"instruction odd\n  name odd\n  title t\n  act load\n  say x\n  operands data nonsense\n",
		"instruction odd\n  name odd\n  title t\n  act load\n  say x\n  operands data data data data data data data\n",
		"instruction odd\n  name odd\n  title t\n  act fly\n  say x\n",
		"instruction odd\n  name odd\n  act load\n  say x\n",
		"instruction odd\n  name odd\n  title t\n  act wait\n  say x\n  counter vmcnt\n",
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct know_problems problems = { 0 };
		know_free(know_load_with("odd.know", str_z(rows[i]), &problems));
		assert_int_equal(problems.count, 1);
	}
	struct know *k =
		know_load_with("odd.know", S("instruction odd\n  name s_odd_*\n  title t\n  act other\n  say is odd\n"),
			       &(struct know_problems){ .report = no_problem });
	assert_true(str_is(know_instruction(k, S("s_odd_b32"))->head.id, "odd"));
	assert_true(str_is(know_instruction(k, S("s_other_b32"))->head.id, "scalar-arithmetic"));
	know_free(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_computed_from_registers),
		cmocka_unit_test(each_active_lane_has_its_address),
		cmocka_unit_test(what_is_not_known_gives_no_address),
		cmocka_unit_test(accesses_outside_of_a_buffer_descriptor_are_told),
		cmocka_unit_test(the_memory_space_of_an_access_is_known),
		cmocka_unit_test(operands_are_taken_apart),
		cmocka_unit_test(the_size_of_an_access_is_known),
		cmocka_unit_test(what_an_instruction_does_is_said),
		cmocka_unit_test(instructions_that_wait_say_for_what),
		cmocka_unit_test(a_late_fault_is_held_against_the_accesses_before_it),
		cmocka_unit_test(registers_that_changed_since_the_access_are_known),
		cmocka_unit_test(where_a_wave_waits_is_found),
		cmocka_unit_test(instructions_as_llvm_writes_them_are_understood),
		cmocka_unit_test(instructions_cut_or_changed_harm_nobody),
		cmocka_unit_test(a_wrong_row_of_instructions_is_told),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
