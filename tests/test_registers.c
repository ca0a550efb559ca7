// The register tables: each register is found by its name, fields give back what was put into them, versions get the right table.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "gpu/register/registers.h"

static const struct register_table *table(const char *ip, unsigned major, unsigned minor, unsigned revision)
{
	const struct register_table *t = register_table_for(str_z(ip), major, minor, revision, NULL);

	if (!t)
		fail_msg("no table for %s %u.%u.%u", ip, major, minor, revision);
	return t;
}

static struct reg find(const struct register_table *t, const char *name)
{
	struct reg r;

	if (!register_find(t, str_z(name), &r))
		fail_msg(STR_FMT " has no %s", STR_ARG(register_table_name(t)), name);
	return r;
}

static struct reg_field field(const struct reg *r, const char *name)
{
	struct reg_field f;

	if (!register_field_find(r, str_z(name), &f))
		fail_msg(STR_FMT " has no field %s", STR_ARG(r->name), name);
	return f;
}

/** A name of the headers, inside of the table's strings. */
static void good_name(struct str name)
{
	const char *strings = (const char *)(register_data + register_data[16]);

	assert_in_range(name.n, 1, 255);
	assert_true(name.p > strings && name.p + name.n <= strings + register_data[17]);
	for (size_t i = 0; i < name.n; i++)
		assert_true(char_word(name.p[i]));
}

static void table_is_whole(void **state)
{
	(void)state;
	// of tables, registers, their order, fields, names, relatives, bases in words; strings in bytes
	static const uint32_t words[] = { 7, 3, 1, 1, 2, 5, 8 };
	uint32_t at = 18;

	assert_int_equal(register_data[0], 0x53474552);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		assert_int_equal(register_data[2 + 2 * i], at);
		at += register_data[3 + 2 * i] * words[i];
	}
	assert_int_equal(register_data[16], at);
	assert_int_equal(register_data[1], at * 4 + register_data[17]);

	size_t registers = 0;
	for (size_t i = 0; i < register_tables(); i++) {
		const struct register_table *t = register_table_at(i);
		good_name(register_table_name(t));
		good_name(register_table_ip(t));
		if (i)
			assert_true(str_cmp(register_table_name(register_table_at(i - 1)), register_table_name(t)) < 0);
		assert_true(registers_count(t) > 0);
		registers += registers_count(t);
	}
	assert_int_equal(registers, register_data[7]);
}

static void every_register_is_found_by_its_name(void **state)
{
	(void)state;
	for (size_t i = 0; i < register_tables(); i++) {
		const struct register_table *t = register_table_at(i);

		for (size_t j = 0; j < registers_count(t); j++) {
			struct reg r = register_at(t, j), found;
			char small[256];

			good_name(r.name);
			assert_true(register_find(t, r.name, &found));
			assert_true(str_eq(found.name, r.name) && found.offset == r.offset && found.table == t);
			for (size_t k = 0; k < r.name.n; k++)
				small[k] = char_alpha(r.name.p[k]) ? r.name.p[k] | 0x20 : r.name.p[k];
			assert_true(register_find(t, (struct str){ small, r.name.n }, &found));
			assert_true(str_eq(found.name, r.name));
			assert_true(r.nfields <= register_data[9] && r.first <= register_data[9] - r.nfields);
		}
	}
}

static void only_registers_are_found(void **state)
{
	(void)state;
	static const char *const others[] = { "",    "A", "GRBM_STATU", "GRBM_STATUS_", "GRBM_STATUS2 ", "regGRBM_STATUS",
					      "ZZZ", "_", "~" };
	const struct register_table *t = table("gc", 11, 0, 0);
	struct reg r, status = find(t, "GRBM_STATUS");
	struct reg_field f;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		assert_false(register_find(t, str_z(others[i]), &r));
		assert_false(register_field_find(&status, str_z(others[i]), &f));
	}
}

/** Whatever the rest of the register is, @f gives @number back and the rest stays. */
static void field_gives_back(const struct reg_field *f, uint32_t number)
{
	static const uint32_t patterns[] = { 0, UINT32_MAX, 0xaaaaaaaa, 0x55555555, 0xdeadbeef };
	uint32_t most = field_of(f, UINT32_MAX), mask = field_mask(f);

	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		uint32_t value = field_put(f, patterns[i], number);

		if (field_of(f, value) != (number & most) || (value & ~mask) != (patterns[i] & ~mask))
			fail_msg("field " STR_FMT ": %#x put into %#x gives %#x", STR_ARG(f->name), number, patterns[i], value);
	}
}

static void field_is_right(const struct reg *r, size_t index)
{
	struct reg_field f = register_field(r, index), other;

	good_name(f.name);
	assert_in_range(f.bits, 1, 32);
	assert_true(f.low + f.bits <= 32);
	assert_int_equal(field_of(&f, UINT32_MAX), f.bits == 32 ? UINT32_MAX : (1u << f.bits) - 1);
	if (index)
		assert_true(register_field(r, index - 1).low <= f.low);
	// Also: no field before it has its name.
	assert_true(register_field_find(r, f.name, &other));
	assert_true(other.name.p == f.name.p && other.low == f.low && other.bits == f.bits);
	field_gives_back(&f, 0);
	field_gives_back(&f, UINT32_MAX);
	field_gives_back(&f, 0x12345678);
	for (unsigned bit = 0; bit < f.bits; bit++)
		field_gives_back(&f, 1u << bit);
}

static void fields_give_back_what_was_put_into_them(void **state)
{
	(void)state;
	for (size_t i = 0; i < register_tables(); i++) {
		const struct register_table *t = register_table_at(i);

		for (size_t j = 0; j < registers_count(t); j++) {
			struct reg r = register_at(t, j);

			for (size_t k = 0; k < r.nfields; k++)
				field_is_right(&r, k);
		}
	}
}

static void known_registers_have_their_fields(void **state)
{
	(void)state;
	static const struct {
		unsigned version[3];
		size_t registers;
		uint32_t status;
	} counts[] = {
		{ { 9, 4, 3 }, 3644, 0x0004 },
		{ { 10, 3, 0 }, 7091, 0x0da4 },
		{ { 11, 0, 0 }, 5844, 0x0da4 },
		{ { 12, 0, 0 }, 5490, 0x0da4 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		const unsigned *v = counts[i].version;
		const struct register_table *t = table("GC", v[0], v[1], v[2]);
		struct reg r = find(t, "GRBM_STATUS");
		struct reg_field f = field(&r, "GUI_ACTIVE");
		bool exact = false;

		assert_int_equal(registers_count(t), counts[i].registers);
		assert_int_equal(r.offset, counts[i].status);
		assert_int_equal(r.base, 0);
		assert_int_equal(r.kind, REGISTER_MMIO);
		assert_int_equal(f.low, 31);
		assert_int_equal(f.bits, 1);
		assert_ptr_equal(register_table_for(S("GC"), v[0], v[1], v[2], &exact), t);
		assert_true(exact);
	}
}

static void known_registers_have_their_places(void **state)
{
	(void)state;
	static const struct {
		const char *ip;
		unsigned version[3];
		const char *name;
		enum register_kind kind;
		unsigned base;
		uint32_t offset;
		const char *field;
		unsigned low, bits;
	} known[] = {
		{ "gc", { 11, 0, 0 }, "SQ_WAVE_STATUS", REGISTER_INDEX, 0, 0x0102, "HALT", 13, 1 },
		{ "gc", { 9, 0, 1 }, "SQ_WAVE_STATUS", REGISTER_INDEX, 0, 0x0012, "HALT", 13, 1 },
		{ "gc", { 11, 0, 0 }, "SDMA0_STATUS_REG", REGISTER_MMIO, 0, 0x0025, "IDLE", 0, 1 },
		{ "sdma0", { 6, 0, 0 }, "SDMA0_STATUS_REG", REGISTER_MMIO, 0, 0x0025, "SEM_RESP_STATE", 28, 2 },
		{ "gc", { 11, 0, 0 }, "SQ_DEBUG_STS_GLOBAL", REGISTER_MMIO, 1, 0x09e1, "BUSY", 0, 1 },
		// neither has a base in the header
		{ "gc", { 11, 0, 0 }, "GFX_IMU_FUSESTRAP", REGISTER_MMIO, 1, 0x4094, NULL, 0, 0 },
		{ "gc", { 9, 0, 0 }, "CP_CPF_DEBUG", REGISTER_MMIO, 0, 0x1080, NULL, 0, 0 },
		// of its own header, and of that of Vega 10
		{ "gc", { 9, 4, 1 }, "GRBM_STATUS", REGISTER_MMIO, 0, 0x0004, "GUI_ACTIVE", 31, 1 },
		{ "gc", { 9, 4, 1 }, "TA_EDC_CNT", REGISTER_MMIO, 0, 0x0586, "TA_FS_DFIFO_SEC_COUNT", 0, 2 },
		{ "NBIF", { 7, 4, 0 }, "BIF_DOORBELL_INT_CNTL", REGISTER_MMIO, 2, 0x00fd, "DOORBELL_INTERRUPT_DISABLE", 24, 1 },
		{ "OSSSYS", { 6, 0, 0 }, "IH_RB_CNTL", REGISTER_MMIO, 0, 0x0080, "RB_ENABLE", 0, 1 },
		{ "UVD", { 4, 0, 0 }, "UVD_STATUS", REGISTER_MMIO, 1, 0x0143, "RBC_BUSY", 0, 1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		const unsigned *v = known[i].version;
		struct reg r = find(table(known[i].ip, v[0], v[1], v[2]), known[i].name);

		if (r.kind != known[i].kind || r.base != known[i].base || r.offset != known[i].offset)
			fail_msg("%s is %d %u:%#x", known[i].name, r.kind, r.base, r.offset);
		if (!known[i].field)
			continue;
		struct reg_field f = field(&r, known[i].field);
		if (f.low != known[i].low || f.bits != known[i].bits)
			fail_msg("%s.%s is @%u:%u", known[i].name, known[i].field, f.low, f.bits);
	}
}

/** The header of nbif_6_1 writes __MASK where the others write _MASK. */
static void fields_whose_header_writes_two_underscores(void **state)
{
	(void)state;
	for (size_t i = 0; i < register_tables(); i++) {
		if (!str_is(register_table_name(register_table_at(i)), "nbif_6_1"))
			continue;
		struct reg r = find(register_table_at(i), "RCC_DEV0_EPF0_STRAP0");
		struct reg_field f = field(&r, "STRAP_MAJOR_REV_ID_DEV0_F0");

		assert_int_equal(f.low, 16);
		assert_int_equal(f.bits, 4);
		return;
	}
	fail_msg("there is no nbif_6_1");
}

/** How a register is reached, and whether it is read at all. */
static void registers_that_are_not_simply_read(void **state)
{
	(void)state;
	static const struct {
		const char *ip;
		unsigned version[3];
		const char *name;
		enum register_kind kind;
		bool acts, off;
	} wanted[] = {
		{ "gc", { 11, 0, 0 }, "GRBM_STATUS", REGISTER_MMIO, false, false },
		{ "gc", { 11, 0, 0 }, "GCVM_INVALIDATE_ENG17_SEM", REGISTER_MMIO, true, false },
		{ "gc", { 9, 4, 2 }, "DIDT_SQ_CTRL0", REGISTER_DIDT, false, false },
		{ "gc", { 11, 0, 0 }, "SQ_WAVE_STATUS", REGISTER_INDEX, false, false },
		{ "umc", { 12, 0, 0 }, "UMCCH0_OdEccErrCnt", REGISTER_BUS, false, false },
		{ "nbio", { 7, 4, 0 }, "PCIE_LC_CNTL", REGISTER_BUS, false, false },
		{ "smuio", { 13, 0, 6 }, "ROM_DATA", REGISTER_MMIO, true, false },
		{ "dcn", { 3, 2, 0 }, "DP_AUX0_AUX_SW_DATA", REGISTER_MMIO, true, false },
		{ "dcn", { 3, 2, 0 }, "OTG0_OTG_CONTROL", REGISTER_MMIO, false, false },
		{ "dcn", { 3, 5, 0 }, "OTG0_OTG_CONTROL", REGISTER_MMIO, false, true },
		{ "dcn", { 3, 1, 4 }, "OTG0_OTG_CONTROL", REGISTER_MMIO, false, true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		const unsigned *v = wanted[i].version;
		const struct reg r = find(table(wanted[i].ip, v[0], v[1], v[2]), wanted[i].name);
		if (r.kind != wanted[i].kind || r.acts != wanted[i].acts || r.may_be_off != wanted[i].off)
			fail_msg("%s is %d%s%s", wanted[i].name, r.kind, r.acts ? ", acts" : "", r.may_be_off ? ", off" : "");
	}
	assert_int_equal(find(table("nbio", 7, 4, 0), "PCIE_LC_CNTL").offset * 4, 0x11140280);
	assert_int_equal(find(table("nbio", 7, 4, 0), "PCIE_LC_CNTL").base, REGISTER_ABSOLUTE);
}

static void versions_get_their_table(void **state)
{
	(void)state;
	static const struct {
		const char *ip;
		unsigned version[3];
		const char *table; // NULL: none
		bool exact;
	} wanted[] = {
		{ "gc", { 9, 0, 1 }, "gc_9_0", true },
		{ "gc", { 9, 1, 0 }, "gc_9_1", true },
		{ "gc", { 9, 2, 1 }, "gc_9_2_1", true },
		{ "gc", { 9, 2, 2 }, "gc_9_1", false },
		{ "gc", { 9, 3, 0 }, "gc_9_1", false },
		{ "gc", { 9, 4, 0 }, "gc_9_4_0", true },
		{ "gc", { 9, 4, 1 }, "gc_9_4_1", true },
		{ "gc", { 9, 4, 4 }, "gc_9_4_3", false },
		{ "gc", { 9, 5, 0 }, "gc_9_4_3", false },
		{ "gc", { 10, 1, 10 }, "gc_10_1_0", false },
		{ "gc", { 10, 3, 6 }, "gc_10_3_0", false },
		{ "gc", { 11, 0, 2 }, "gc_11_0_0", false },
		{ "gc", { 11, 0, 3 }, "gc_11_0_3", true },
		{ "gc", { 11, 0, 4 }, "gc_11_0_0", false },
		{ "gc", { 11, 5, 2 }, "gc_11_5_0", false },
		{ "gc", { 12, 0, 1 }, "gc_12_0_0", false },
		{ "gc", { 8, 0, 0 }, NULL, false },
		{ "gc", { 13, 0, 0 }, NULL, false },
		{ "gc", { 11, 4096, 0 }, "gc_11_5_0", false },
		{ "SDMA0", { 4, 0, 0 }, "sdma0_4_0", true },
		{ "SDMA1", { 4, 2, 2 }, "sdma1_4_2_2", true },
		{ "SDMA0", { 4, 1, 2 }, "sdma0_4_1", true },
		{ "SDMA1", { 4, 4, 0 }, "sdma_4_4_0", true },
		{ "SDMA0", { 4, 4, 2 }, "sdma_4_4_2", true },
		{ "SDMA0", { 4, 4, 5 }, "sdma_4_4_2", false },
		{ "SDMA0", { 5, 0, 2 }, "gc_10_1_0", false },
		{ "SDMA3", { 5, 2, 0 }, "gc_10_3_0", true },
		{ "SDMA1", { 6, 0, 0 }, "gc_11_0_0", true },
		{ "SDMA0", { 6, 1, 0 }, "gc_11_5_0", true },
		{ "SDMA0", { 7, 0, 1 }, "gc_12_0_0", false },
		{ "MMHUB", { 9, 0, 0 }, "mmhub_1_0", true },
		{ "MMHUB", { 9, 4, 0 }, "mmhub_1_0", false },
		{ "MMHUB", { 9, 4, 1 }, "mmhub_9_4_1", true },
		{ "MMHUB", { 9, 4, 2 }, "mmhub_1_7", true },
		{ "MMHUB", { 1, 8, 1 }, "mmhub_1_8_0", false },
		{ "MMHUB", { 2, 1, 0 }, "mmhub_2_0_0", false },
		{ "MMHUB", { 2, 4, 0 }, "mmhub_2_3_0", false },
		{ "MMHUB", { 3, 0, 3 }, "mmhub_3_0_0", false },
		{ "MMHUB", { 3, 3, 1 }, "mmhub_3_3_0", false },
		{ "ATHUB", { 9, 4, 2 }, "athub_1_0", false },
		{ "ATHUB", { 1, 3, 1 }, "athub_2_0_0", false },
		{ "OSSSYS", { 4, 0, 0 }, "osssys_4_0", true },
		{ "OSSSYS", { 4, 0, 1 }, "osssys_4_0_1", true },
		{ "OSSSYS", { 4, 1, 0 }, "osssys_4_0", false },
		{ "OSSSYS", { 4, 4, 0 }, "osssys_4_4_0", true },
		{ "OSSSYS", { 4, 4, 5 }, "osssys_4_4_2", false },
		{ "HDP", { 5, 2, 0 }, "hdp_5_0_0", false },
		{ "MP1", { 11, 0, 7 }, "mp_11_0", true },
		{ "MP0", { 11, 0, 9 }, "mp_11_0", false },
		{ "MP0", { 11, 0, 3 }, "mp_12_0_0", false },
		{ "MP1", { 13, 0, 7 }, "mp_13_0_0", false },
		{ "MP1", { 13, 0, 14 }, "mp_13_0_6", false },
		{ "MP1", { 14, 0, 3 }, "mp_14_0_2", false },
		{ "NBIF", { 2, 1, 1 }, "nbio_2_3", false },
		{ "NBIF", { 2, 3, 2 }, "nbio_2_3", true },
		{ "NBIF", { 2, 5, 0 }, "nbio_7_0", false },
		{ "NBIF", { 3, 3, 1 }, "nbio_2_3", false },
		{ "NBIF", { 4, 3, 0 }, "nbio_4_3_0", true },
		{ "NBIF", { 6, 1, 0 }, "nbio_6_1", true },
		{ "NBIF", { 6, 3, 1 }, "nbif_6_3_1", true },
		{ "NBIF", { 7, 5, 1 }, "nbio_7_2_0", false },
		{ "NBIF", { 7, 11, 1 }, "nbio_7_11_0", false },
		{ "NBIF", { 7, 9, 0 }, "nbio_7_9_0", true },
		{ "UMC", { 12, 0, 0 }, "umc_12_0_0", true },
		{ "UMC", { 8, 1, 1 }, NULL, false },
		{ "UVD", { 3, 1, 2 }, "vcn_3_0_0", false },
		{ "VCN", { 4, 0, 4 }, "vcn_4_0_0", false },
		{ "UVD", { 7, 0, 0 }, NULL, false },
		{ "DMU", { 3, 0, 0 }, "dcn_3_0_0", true },
		{ "DMU", { 1, 0, 1 }, "dcn_1_0", true },
		{ "DMU", { 3, 1, 3 }, "dcn_3_1_2", false },
		{ "DMU", { 4, 0, 1 }, "dcn_4_1_0", false },
		{ "DMU", { 12, 0, 0 }, NULL, false },
		{ "SMUIO", { 10, 0, 1 }, "smuio_9_0", false },
		{ "SMUIO", { 11, 0, 8 }, "smuio_11_0_0", false },
		{ "SMUIO", { 13, 0, 9 }, "smuio_11_0_6", false },
		{ "SMUIO", { 13, 0, 8 }, "smuio_13_0_6", false },
		{ "THM", { 11, 0, 0 }, "thm_11_0_2", false },
		{ "THM", { 13, 0, 7 }, "thm_13_0_2", false },
		{ "THM", { 13, 0, 6 }, NULL, false },
		{ "DF", { 3, 6, 1 }, "df_3_6", true },
		{ "DF", { 2, 1, 0 }, "df_1_7", false },
		{ "DF", { 4, 6, 2 }, NULL, false },
		{ "DF", { 4, 15, 1 }, "df_4_15", true },
		{ "XGMI", { 4, 1, 0 }, "xgmi_4_0_0", false },
		// What has other places is not taken for a relative.
		{ "gc", { 12, 1, 0 }, NULL, false },
		{ "SDMA0", { 7, 1, 0 }, NULL, false },
		{ "UMC", { 8, 14, 0 }, NULL, false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		const unsigned *v = wanted[i].version;
		bool exact = true;
		const struct register_table *t = register_table_for(str_z(wanted[i].ip), v[0], v[1], v[2], &exact);
		struct str name = t ? register_table_name(t) : (struct str){ 0 };

		if (!str_is(name, wanted[i].table) || exact != wanted[i].exact)
			fail_msg("%s %u.%u.%u has " STR_FMT "%s", wanted[i].ip, v[0], v[1], v[2], STR_ARG(name),
				 exact ? ", exact" : "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_is_whole),
		cmocka_unit_test(every_register_is_found_by_its_name),
		cmocka_unit_test(only_registers_are_found),
		cmocka_unit_test(fields_give_back_what_was_put_into_them),
		cmocka_unit_test(known_registers_have_their_fields),
		cmocka_unit_test(known_registers_have_their_places),
		cmocka_unit_test(fields_whose_header_writes_two_underscores),
		cmocka_unit_test(registers_that_are_not_simply_read),
		cmocka_unit_test(versions_get_their_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
