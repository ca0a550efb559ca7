// Edges that the other tests do not come near: each was a line that could be broken without a test that noticed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "code/disassemble/disassemble.h"
#include "code/lines/lines.h"
#include "code/object/object.h"
#include "code_writer.h"
#include "gpu/silicon/watch.h"

static struct text sample_object(void)
{
	char bytes[4096];
	struct text t = { 0 };
	FILE *f = fopen(SEEDS "/../../docs/sample-kernel.co", "rb");
	assert_non_null(f);
	for (size_t n; (n = fread(bytes, 1, sizeof(bytes), f));)
		text_add(&t, (struct str){ bytes, n });
	fclose(f);
	return t;
}

/** Addresses before the code, behind it, and those that only look like one of it in 32 bits. */
static void lines_outside_of_the_code(void **state)
{
	enum { FIRST = 0x1700, INSIDE = FIRST + 0x64 }; // gather_rows
	(void)state;
	struct text object = sample_object();
	struct code_lines *l = NULL;
	struct code_frame frames[CODE_FRAMES];
	uint64_t begin = 7;
	_cleanup_error_ struct uh_error *err = code_lines_new(S("sample-kernel.co"), text_str(&object), NULL, 0, &l);
	assert_null(err);
	assert_non_null(l);
	assert_true(code_lines_at(l, FIRST, frames) > 0);
	static const uint64_t outside[] = { 0, 4, 0x10, 0x100000, INSIDE + (UINT64_C(1) << 32), UINT64_MAX };
	for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
		assert_true(code_lines_at(l, INSIDE, frames) > 0);
		assert_int_equal(code_lines_at(l, outside[i], frames), 0);
		assert_true(code_lines_row(l, INSIDE, &begin));
		begin = 7;
		assert_false(code_lines_row(l, outside[i], &begin));
		assert_int_equal(begin, 7);
	}
	code_lines_free(l);
	text_free(&object);
}

/** Kernels whose descriptors stand in .dynsym and in .symtab, as compilers write them, are there once. */
static void kernels_in_both_symbol_tables(void **state)
{
	(void)state;
	for (int metadata = 0; metadata <= 1; metadata++) {
		struct layout l;
		build(&(struct recipe){ .abi = 3, .without_metadata = !metadata }, &l);
		size_t symbols = l.file.n, section = l.sections + 6 * 64;
		static const uint32_t descriptors[] = { N_GAMMA_KD, N_ALPHA_KD, N_BETA_KD };
		static const unsigned order[] = { 2, 0, 1 };
		for (size_t i = 0; i < NKERNELS; i++)
			put_symbol(&l.file, descriptors[i], GLOBAL_OBJECT, IN_RODATA, l.descriptors + order[i] * 64, 64);
		put_at(&l.file, section + 24, symbols, 8);
		put_at(&l.file, section + 32, NKERNELS * 24, 8);
		struct arena arena = { 0 };
		struct text problems = { 0 };
		struct code_object *o = NULL;
		assert_null(code_object_parse(&arena, S("k.co"), text_str(&l.file), &problems, &o));
		assert_int_equal(problems.n, 0);
		assert_int_equal(o->nkernels, NKERNELS);
		arena_free(&arena);
		text_free(&problems);
		text_free(&l.file);
	}
}

/** A name comes out of a file: what stands behind a NUL in it would not reach the disassembler that is asked. */
static void targets_with_nul(void **state)
{
	(void)state;
	static const struct str targets[] = { S("gfx90a\0"), S("gfx90a\0:xnack+"),
					      S("gfx\0"
						"90a") };
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		const struct code_range range = { 0x1000, S("\0\0\x81\xbf"), 0 };
		struct arena arena = { 0 };
		struct disassembly d;
		_cleanup_error_ struct uh_error *err = disassemble(&arena, targets[i], &range, 1, &d);
		assert_non_null(err);
		assert_non_null(strstr(uh_error_message(err), "no processor has the name"));
		arena_free(&arena);
	}
}

/** A GPU that remembers which waves it was asked for. */
struct asked {
	struct target target;
	struct wave_slot slots[128];
	size_t n;
};

static void remember(struct target *t, struct request *requests, size_t n)
{
	struct asked *a = (struct asked *)t;
	assert_int_equal(n, 1);
	assert_true(requests->nslots <= 128);
	memcpy(a->slots, requests->slots, requests->nslots * sizeof(*a->slots));
	a->n = requests->nslots;
	requests->answer = ANSWER_REFUSED;
}

/** Of many waves those that are looked at again stand evenly among all of their XCC, of few it is each. */
static void waves_that_are_looked_at_again(void **state)
{
	enum { MANY = 320, FEW = 5, SOME = 32 };
	(void)state;
	struct wave waves[MANY + FEW] = { 0 };
	for (unsigned i = 0; i < MANY + FEW; i++)
		waves[i].slot = (struct wave_slot){ .known = true, .xcc = i >= MANY, .cu = i < MANY ? i : i - MANY };
	struct asked asked = { .target = { .ask = remember } };
	const struct device device = { 0 };
	struct watch w = { .target = &asked.target, .device = &device, .gate = { .open = true }, .xccs = 2, .wave_looks = 1 };
	w.waves[0] = (struct wave_look){ .n = MANY + FEW, .waves = waves };
	watch_some_waves(&w);
	assert_int_equal(asked.n, SOME + FEW);
	for (unsigned i = 0; i < SOME; i++) {
		assert_int_equal(asked.slots[i].xcc, 0);
		assert_int_equal(asked.slots[i].cu, i * MANY / SOME);
	}
	for (unsigned i = 0; i < FEW; i++) {
		assert_int_equal(asked.slots[SOME + i].xcc, 1);
		assert_int_equal(asked.slots[SOME + i].cu, i);
	}
	arena_free(&w.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_outside_of_the_code),
		cmocka_unit_test(kernels_in_both_symbol_tables),
		cmocka_unit_test(targets_with_nul),
		cmocka_unit_test(waves_that_are_looked_at_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
