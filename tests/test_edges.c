// Edges that the other tests do not come near: each was a line that could be broken without a test that noticed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/print.h"
#include "code/disassemble/disassemble.h"
#include "code/lines/lines.h"
#include "code/object/object.h"
#include "code_writer.h"
#include "evidence/documents/document.h"
#include "evidence/event.h"
#include "gpu/memory/map.h"
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
	for (size_t i = 0; i < ARRAY_SIZE(outside); i++) {
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
	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
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
	struct wave_set groups[] = { { .of = waves[0].slot }, { .of = waves[MANY].slot } };
	struct watch w = { .groups = groups,
			   .ngroups = 2,
			   .target = &asked.target,
			   .device = &device,
			   .gate = { .open = true },
			   .xccs = 2,
			   .wave_looks = 1 };
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
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		struct text bytes = { 0 };
		text_add(&bytes, S("\x80\x02"));
		text_add(&bytes, values[i].bytes);
		json_t *json = pickle_load(text_str(&bytes));
		char *told = json ? json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS) : NULL;
		if (!told != !values[i].json || (told && strcmp(told, values[i].json) != 0))
			fail_msg("pickle %zu is %s, not %s", i, told ? told : "nothing",
				 values[i].json ? values[i].json : "nothing");
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

/** Every border between characters, and between what is one and what is none. */
static void utf8_sequences(void **state)
{
	(void)state;
	static const struct {
		struct str bytes;
		size_t length;
		uint32_t point;
	} sequences[] = {
		{ S("\0"), 1, 0 },
		{ S("\x7f"), 1, 0x7f },
		{ S("a\x80"), 1, 'a' },
		{ S("\x80"), 0, 0 },
		{ S("\xbf\x80"), 0, 0 },
		{ S("\xc1\xbf"), 0, 0 },
		{ S("\xc2\x80"), 2, 0x80 },
		{ S("\xc2\x7f"), 0, 0 },
		{ S("\xc2\xc0"), 0, 0 },
		{ S("\xc2"), 0, 0 },
		{ S("\xdf\xbf"), 2, 0x7ff },
		{ S("\xe0\x9f\xbf"), 0, 0 },
		{ S("\xe0\xa0\x80"), 3, 0x800 },
		{ S("\xe2\x80\x8b"), 3, 0x200b },
		{ S("\xe2\x80"), 0, 0 },
		{ S("\xe2\x80\x41"), 0, 0 },
		{ S("\xed\x9f\xbf"), 3, 0xd7ff },
		{ S("\xed\xa0\x80"), 0, 0 },
		{ S("\xef\xbf\xbf"), 3, 0xffff },
		{ S("\xf0\x8f\xbf\xbf"), 0, 0 },
		{ S("\xf0\x90\x80\x80"), 4, 0x10000 },
		{ S("\xf4\x8f\xbf\xbf"), 4, 0x10ffff },
		{ S("\xf4\x90\x80\x80"), 0, 0 },
		{ S("\xf5\x80\x80\x80"), 0, 0 },
		{ S("\xf0\x90\x80"), 0, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(sequences); i++) {
		size_t n = utf8_length(sequences[i].bytes);
		if (n != sequences[i].length || (n && utf8_point(str_cut(sequences[i].bytes, n)) != sequences[i].point))
			fail_msg("sequence %zu has %zu bytes", i, n);
	}
	static const uint32_t shown[] = { ' ',    '~',    0xa0,   0xac,   0xae,   0x5ff,  0x606,   0x200a, 0x2010,
					  0x2027, 0x202f, 0x205f, 0x2070, 0xfefe, 0xff00, 0xdffff, 0xe1000 };
	static const uint32_t hidden[] = { 0,      0x1f,   0x7f,   0x9f,   0xad,   0x600,  0x605,   0x200b,
					   0x200f, 0x2028, 0x202e, 0x2060, 0x206f, 0xfeff, 0xe0000, 0xe0fff };
	for (size_t i = 0; i < ARRAY_SIZE(shown); i++)
		assert_true(point_shows(shown[i]));
	for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
		assert_false(point_shows(hidden[i]));
}

/** What does not show is replaced, wherever it stands; the rest stays as it is. */
static void only_what_shows_is_written(void **state)
{
	(void)state;
	static const struct {
		struct str bytes, shown;
	} texts[] = {
		{ S("plain ~"), S("plain ~") },
		{ S("a\x1b[31mb\tc"), S("a [31mb c") },
		{ S("a\xc2\x9b"
		    "b"),
		  S("a b") },
		{ S("a\xe2\x80\xae"
		    "b"),
		  S("a?b") },
		{ S("a\xff\xc3\xa4"), S("a?\xc3\xa4") },
		{ S("\xc3"), S("?") },
		{ S("\x7f"), S(" ") },
		{ S(""), S("") },
	};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct text t = { 0 };
		text_add_safe(&t, texts[i].bytes);
		assert_true(str_eq(text_str(&t), texts[i].shown));
		assert_int_equal(print_is_safe(texts[i].bytes), str_eq(texts[i].bytes, texts[i].shown));
		text_free(&t);
	}
	static const char others[] = { 0x00, 0x1f, 0x7f, (char)0x80, (char)0xff };
	for (size_t n = 0; n <= 80; n++) {
		char room[81];
		for (size_t i = 0; i < n; i++)
			room[i] = i % 2 ? ' ' : '~';
		assert_int_equal(print_plain((struct str){ room, n }), n);
		for (size_t at = 0; at < n; at++) {
			char was = room[at];
			room[at] = others[(at + n) % sizeof(others)];
			assert_int_equal(print_plain((struct str){ room, n }), at);
			room[at] = was;
		}
	}
	assert_int_equal(print_columns(S("a\xc3\xa4\xe2\x82\xac")), 3);
}

static void lines_are_wrapped(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		size_t indent, column, width;
		const char *lines;
	} texts[] = {
		{ "one two", 2, 0, 7, "one two\n" },
		{ "one two", 2, 0, 6, "one\n  two\n" },
		{ "one two", 2, 1, 7, "one\n  two\n" },
		{ "one two three", 4, 0, 7, "one two\n  three\n" },
		{ "one two three", 4, 0, 9, "one two\n    three\n" },
		{ "", 2, 0, 6, "\n" },
		{ "see at /a", 2, 0, 6, "see\n at /a\n" }, // no line begins with a path
		{ "see at '/a", 2, 0, 7, "see\n at '/a\n" },
		{ "see at b", 2, 0, 6, "see at\n  b\n" },
		{ "\xc3\xa4\xc3\xa4\xc3\xa4 b", 2, 0, 5, "\xc3\xa4\xc3\xa4\xc3\xa4 b\n" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		char *told = NULL;
		size_t n;
		FILE *f = open_memstream(&told, &n);
		print_wrapped(f, str_z(texts[i].text), texts[i].indent, texts[i].column, texts[i].width);
		fclose(f);
		assert_string_equal(told, texts[i].lines);
		free(told);
	}
	char room[NUMBER_DIGITS];
	assert_true(str_is(number_digits(room, UINT64_MAX, 10), "18446744073709551615"));
	assert_true(str_is(number_digits(room, UINT64_MAX, 16), "ffffffffffffffff"));
	assert_true(str_is(number_digits(room, 0, 10), "0") && str_is(number_digits(room, 0, 16), "0"));
	assert_true(str_is(number_digits(room, 10, 10), "10") && str_is(number_digits(room, 16, 16), "10"));
}

/** Borders of buffers and of what is still near them. */
static void addresses_and_buffers(void **state)
{
	enum { KB = 1 << 10, MB = 1 << 20 };
	(void)state;
	static const uint64_t at = 0x7f0000000000, far = 0x7f0100000000;
	const struct address_range ranges[] = { { at, at + 4 * KB }, { at + 8 * KB, at + 8 * KB + 4 * MB }, { far, far + 3 } };
	const struct {
		uint64_t address;
		enum map_relation relation;
		unsigned range;
		uint64_t distance;
		const char *say;
	} places[] = {
		{ 0, MAP_NULL, 0, 0, "close to zero: a null pointer with a small offset" },
		{ 64 * KB - 1, MAP_NULL, 0, 0, "close to zero: a null pointer with a small offset" },
		{ 64 * KB, MAP_NOWHERE, 0, 0, "nowhere near any buffer" },
		{ at - MB - 1, MAP_NOWHERE, 0, 0, "nowhere near any buffer" },
		{ at - MB, MAP_BEFORE, 0, MB, "1 MiB before the beginning of the 4 KiB buffer at 0x7f0000000000" },
		{ at - 1, MAP_BEFORE, 0, 1, "1 byte before the beginning of the 4 KiB buffer at 0x7f0000000000" },
		{ at, MAP_INSIDE, 0, 0, "at the beginning of the 4 KiB buffer at 0x7f0000000000" },
		{ at + 4 * KB - 1, MAP_INSIDE, 0, 4 * KB - 1,
		  "inside the 4 KiB buffer at 0x7f0000000000, 4095 bytes from its begin" },
		{ at + 4 * KB, MAP_PAST, 0, 0, "right after the end of the 4 KiB buffer at 0x7f0000000000" },
		{ at + 6 * KB, MAP_PAST, 0, 2 * KB, "2 KiB past the end of the 4 KiB buffer at 0x7f0000000000" },
		{ at + 6 * KB + 1, MAP_BEFORE, 1, 2 * KB - 1,
		  "2047 bytes before the beginning of the 4 MiB buffer at 0x7f0000002000" },
		{ at + 8 * KB, MAP_INSIDE, 1, 0, "at the beginning of the 4 MiB buffer at 0x7f0000002000" },
		{ at + 8 * KB + 8 * MB - 1, MAP_PAST, 1, 4 * MB - 1,
		  "4194303 bytes past the end of the 4 MiB buffer at 0x7f0000002000" },
		{ at + 8 * KB + 8 * MB, MAP_NOWHERE, 0, 0, "nowhere near any buffer" },
		{ far + 3 + 2 * MB - 1, MAP_PAST, 2, 2 * MB - 1,
		  "2097151 bytes past the end of the 3 bytes buffer at 0x7f0100000000" },
		{ far + 3 + 2 * MB, MAP_NOWHERE, 0, 0, "nowhere near any buffer" },
		{ UINT64_MAX, MAP_NOWHERE, 0, 0, "nowhere near any buffer" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct arena a = { 0 };
		struct map_place p = map_locate(ranges, 3, places[i].address);
		assert_int_equal(p.relation, places[i].relation);
		assert_int_equal(p.distance, places[i].distance);
		if (p.relation == MAP_INSIDE || p.relation == MAP_PAST || p.relation == MAP_BEFORE)
			assert_int_equal(p.range.begin, ranges[places[i].range].begin);
		assert_string_equal(arena_z(&a, map_say(&a, &p)), places[i].say);
		arena_free(&a);
	}
	assert_int_equal(map_locate(NULL, 0, at).relation, MAP_NOWHERE);
	assert_string_equal(map_relation_name(MAP_INSIDE), "inside");
	assert_string_equal(map_relation_name(MAP_NOWHERE), "nowhere");
}

/** What an event carries is copied whole: nothing of the copy lies in what it was made of. */
static void dumps_are_copied(void **state)
{
	(void)state;
	uint64_t lanes[] = { 1, 2, 3 }, words[] = { 4, 5 };
	struct wave_register registers[] = { { S("vector"), S("v7"), 'v', 7, 8, 3, lanes } };
	struct values values[] = { { S("local"), S("lds"), 8, 0x100, 2, words } };
	struct wave_access accesses[2] = {
		{ .instruction = S("global_load_dword v1, v[2:3], off"), .pc = 0x40, .addresses = { 9, UINT64_MAX } },
		{ .pc = 0x44 }
	};
	struct address_range map[] = { { 0x1000, 0x2000 }, { 0x3000, 0x5000 } };
	const struct dump d = { { registers, 1, 1 }, 1, values, 2, accesses, 2, map };
	struct arena a = { 0 };
	struct dump copy = dump_copy(&a, &d);
	assert_int_equal(dump_bytes(&d), dump_bytes(&copy));
	assert_int_equal(dump_bytes(&d),
			 2 * sizeof(*accesses) + 2 * sizeof(*map) + sizeof(*registers) + 3 * 8 + sizeof(*values) + 2 * 8);
	memset(map, 0xff, sizeof(map));
	memset(accesses, 0xff, sizeof(accesses));
	memset(values, 0xff, sizeof(values));
	memset(registers, 0xff, sizeof(registers));
	memset(lanes, 0xff, sizeof(lanes));
	memset(words, 0xff, sizeof(words));
	assert_int_equal(copy.nmap, 2);
	assert_true(copy.map[0].begin == 0x1000 && copy.map[1].begin == 0x3000 && copy.map[1].end == 0x5000);
	assert_int_equal(copy.naccesses, 2);
	assert_true(str_is(copy.accesses[0].instruction, "global_load_dword v1, v[2:3], off") &&
		    !copy.accesses[1].instruction.n);
	assert_true(copy.accesses[0].pc == 0x40 && copy.accesses[1].pc == 0x44 && copy.accesses[0].addresses[0] == 9);
	assert_true(copy.registers.len == 1 && copy.registers.data[0].number == 7 &&
		    str_is(copy.registers.data[0].name, "v7") && str_is(copy.registers.data[0].group, "vector"));
	assert_true(copy.registers.data[0].n == 3 && copy.registers.data[0].data[2] == 3);
	assert_true(copy.nvalues == 1 && str_is(copy.values[0].name, "lds") && str_is(copy.values[0].group, "local"));
	assert_true(copy.values[0].n == 2 && copy.values[0].data[1] == 5 && copy.values[0].address == 0x100);
	arena_free(&a);
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
		cmocka_unit_test(utf8_sequences),
		cmocka_unit_test(only_what_shows_is_written),
		cmocka_unit_test(lines_are_wrapped),
		cmocka_unit_test(addresses_and_buffers),
		cmocka_unit_test(dumps_are_copied),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
