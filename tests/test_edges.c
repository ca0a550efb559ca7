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
#include "evidence/documents/pickle.h"
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

#define FRAME "\x95\0\0\0\0\0\0\0\0"

/** Each form of a value that torch, Python and others write, as JSON; NULL where it is damaged or no plain data. */
static void pickled_values(void **state)
{
	(void)state;
	static const struct {
		struct str bytes;
		const char *json;
	} values[] = {
		{ S("K\x07."), "7" },
		{ S("K\xff."), "255" },
		{ S("M\x01\x02."), "513" },
		{ S("J\x01\x02\x03\x04."), "67305985" },
		{ S("J\xfe\xff\xff\xff."), "-2" },
		{ S("\x8a\0."), "0" },
		{ S("\x8a\x01\xff."), "-1" },
		{ S("\x8a\x02\xff\0."), "255" },
		{ S("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."), "9223372036854775807" },
		{ S("\x8a\x08\0\0\0\0\0\0\0\x80."), "-9223372036854775808" },
		{ S("\x8a\x09\0\0\0\0\0\0\0\0\x01."), NULL },
		{ S("\x8b\x01\0\0\0\x07."), "7" },
		{ S("G\x3f\xf8\0\0\0\0\0\0."), "1.5" },
		{ S("G\x7f\xf0\0\0\0\0\0\0."), "null" },
		{ S("G\x3f\xf8\0\0\0\0\0"), NULL },
		{ S("N."), "null" },
		{ S("\x88."), "true" },
		{ S("\x89."), "false" },
		{ S("X\x02\0\0\0no."), "\"no\"" },
		{ S("T\x02\0\0\0no."), "\"no\"" },
		{ S("B\x02\0\0\0no."), "\"no\"" },
		{ S("U\x02no."), "\"no\"" },
		{ S("C\x02no."), "\"no\"" },
		{ S("\x8c\x02no."), "\"no\"" },
		{ S("U\x01\xff."), "\"?\"" },
		{ S("U\x03no."), NULL },
		{ S("U\x04no."), NULL },
		{ S("X\xff\xff\xff\xffno."), NULL },
		{ S("]."), "[]" },
		{ S(")."), "[]" },
		{ S("}."), "{}" },
		{ S("(K\1K\2t."), "[1,2]" },
		{ S("(K\1l."), "[1]" },
		{ S("K\1\x85."), "[1]" },
		{ S("K\1K\2\x86."), "[1,2]" },
		{ S("K\1K\2K\3\x87."), "[1,2,3]" },
		{ S("]K\1a."), "[1]" },
		{ S("](K\1K\2e."), "[1,2]" },
		{ S("](e."), "[]" },
		{ S("}U\1aK\1s."), "{\"a\":1}" },
		{ S("}(U\1aK\1U\1bK\2u."), "{\"a\":1,\"b\":2}" },
		{ S("}K\5K\1s."), "{\"5\":1}" },
		{ S("}NK\1s."), "{}" },
		{ S("U\1aq\0h\0\x86."), "[\"a\",\"a\"]" },
		{ S("U\1ar\0\0\0\0j\0\0\0\0\x86."), "[\"a\",\"a\"]" },
		{ S("U\1a\x94U\1b\x94h\0h\1(tt."), NULL },
		{ S("(U\1a\x94U\1b\x94h\0h\1t."), "[\"a\",\"b\",\"a\",\"b\"]" },
		{ S("]q\0K\1ah\0\x86."), "[[1],[1]]" },
		{ S("]q\0]ah\0a."), NULL },
		{ S(FRAME "K\1."), "1" },
		{ S(""), NULL },
		{ S("."), NULL },
		{ S("K."), NULL },
		{ S("K\1"), NULL },
		{ S("K\1K\2."), NULL },
		{ S("K\1K\2a."), NULL },
		{ S("K\1U\1aK\1s."), NULL },
		{ S("]U\1aK\1s."), NULL },
		{ S("}K\1a."), NULL },
		{ S("]a."), NULL },
		{ S("]e."), NULL },
		{ S("t."), NULL },
		{ S("\x85."), NULL },
		{ S("K\1\x86."), NULL },
		{ S("}K\1s."), NULL },
		{ S("}(U\1au."), NULL },
		{ S("K\1(\x86."), NULL },
		{ S("h\0."), NULL },
		{ S("q\0."), NULL },
		{ S("U\1aq\1."), NULL },
		{ S("cos\nsystem\n."), NULL },
		{ S("]R."), NULL },
	};
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		struct text bytes = { 0 };
		text_add(&bytes, S("\x80\x02"));
		text_add(&bytes, values[i].bytes);
		json_t *json = pickle_load(text_str(&bytes));
		char *told = json ? json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS) : NULL;
		if (!told != !values[i].json || (told && strcmp(told, values[i].json) != 0))
			fail_msg("pickle %zu is %s, not %s", i, told ? told : "nothing", values[i].json ? values[i].json : "nothing");
		free(told);
		json_decref(json);
		text_free(&bytes);
	}
}

/** Which files are taken for pickles of dictionaries. */
static void pickles_begin(void **state)
{
	(void)state;
	assert_true(pickle_begins(S("\x80\x02}q")) && pickle_begins(S("\x80\x05\x95")) && pickle_begins(S("\x80\x04}")));
	assert_false(pickle_begins(S("\x80\x02")) || pickle_begins(S("\x80\x01}")) || pickle_begins(S("\x80\x06}")) ||
		     pickle_begins(S("\x81\x02}")) || pickle_begins(S("\x80\x02]")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_outside_of_the_code),
		cmocka_unit_test(kernels_in_both_symbol_tables),
		cmocka_unit_test(targets_with_nul),
		cmocka_unit_test(waves_that_are_looked_at_again),
		cmocka_unit_test(pickled_values),
		cmocka_unit_test(pickles_begin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
