// Where shaders begin, by the registers that buffers of commands write.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "shaders_check.h"

static int setup(void **state)
{
	*state = know_load(&(struct know_problems){ 0 });
	return 0;
}

static int teardown(void **state)
{
	know_free(*state);
	return 0;
}

static size_t find_in(struct know *k, struct arena *a, const char *gfx, const uint32_t *words, size_t n, const struct shader_start **ret)
{
	struct ip ip;
	const struct device d = shaders_device(k, gfx, &ip);
	assert_null(shaders_complaint(k, gfx, words, n));
	return shaders_of_words(a, k, &d, words, n, ret);
}

static void assert_shader(const struct shader_start *s, const char *stage, uint64_t address, size_t word)
{
	if (!str_is(s->stage, stage) || s->address != address || s->word != word)
		fail_msg("it is " STR_FMT " at 0x%llx, word %zu", STR_ARG(s->stage), (unsigned long long)s->address, s->word);
}

enum { SET_SH_REG = 0x76, SET_SH_REG_INDEX = 0x9b, PAIRS = 0xba, PAIRS_PACKED = 0xbb };
#define P3(opcode, count) (3u << 30 | (uint32_t)(count) << 16 | (uint32_t)(opcode) << 8)

static void each_form_of_register_write_sets_shaders(void **state)
{
	struct arena a = { 0 };
	const struct shader_start *found;
	// Words that nothing says anything of, then PS, ES and CS; of gfx11 offsets in the SH registers are 0x8, 0xc8 and 0x20c.
	const uint32_t words[] = { P3(0x10, 0), 0,      P3(SET_SH_REG, 2), 0x8,  0x00123456, 0x7f,      P3(PAIRS, 3),
				   0xc8,        0x0010, 0xc9,              0x7e, P3(PAIRS_PACKED, 3),   2,
				   0x020d020c,  0x20,   0x7d,              P3(SET_SH_REG_INDEX, 2),     0x30000008,
				   0x00123400,  0x7f };
	const size_t n = find_in(*state, &a, "gfx1100", words, sizeof(words) / sizeof(*words), &found);
	assert_int_equal(n, 4);
	assert_shader(&found[0], "compute shader", UINT64_C(0x7d00000020) << 8, 11);
	assert_shader(&found[1], "vertex or geometry shader", UINT64_C(0x7e00000010) << 8, 6);
	assert_shader(&found[2], "pixel shader", UINT64_C(0x7f00123400) << 8, 16);
	assert_shader(&found[3], "pixel shader", UINT64_C(0x7f00123456) << 8, 2);
	arena_free(&a);
}

static void the_upper_half_may_come_later_and_elsewhere(void **state)
{
	struct arena a = { 0 };
	const struct shader_start *found;
	// On gfx12 the halves of ES do not lie beside each other: 0x89 and 0x86.
	const uint32_t words[] = { P3(SET_SH_REG, 1), 0x89, 0x99, P3(SET_SH_REG, 1), 0x11, 0x22, P3(SET_SH_REG, 1), 0x86, 0x7f };
	assert_int_equal(find_in(*state, &a, "gfx1201", words, 6, &found), 0);
	assert_int_equal(find_in(*state, &a, "gfx1201", words, 9, &found), 1);
	assert_shader(found, "vertex or geometry shader", UINT64_C(0x7f00000099) << 8, 6);
	arena_free(&a);
}

static void cut_and_random_words_harm_nobody(void **state)
{
	uint8_t bytes[512];
	uint64_t random = 0x9e3779b97f4a7c15;
	static const uint32_t begins[] = { P3(SET_SH_REG, 2), P3(PAIRS, 3), P3(PAIRS_PACKED, 3), P3(PAIRS_PACKED, 0x3fff), P3(0x3f, 2) };
	for (size_t round = 0; round < 300; round++) {
		for (size_t i = 0; i < sizeof(bytes); i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			bytes[i] = (uint8_t)(random >> 56);
		}
		for (size_t i = 1; i + 4 <= sizeof(bytes); i += 28)
			memcpy(bytes + i, &begins[(round + i) % (sizeof(begins) / sizeof(*begins))], 4);
		for (size_t cut = 0; cut <= sizeof(bytes); cut += round < 4 ? 1 : 61) {
			const char *complaint = shaders_bytes_complaint(*state, bytes, cut);
			if (complaint)
				fail_msg("round %zu, %zu bytes: %s", round, cut, complaint);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_form_of_register_write_sets_shaders),
		cmocka_unit_test(the_upper_half_may_come_later_and_elsewhere),
		cmocka_unit_test(cut_and_random_words_harm_nobody),
	};
	return cmocka_run_group_tests_name("shaders", tests, setup, teardown);
}
