// Disassembly against llvm-objdump's, of code that is compiled here; and that nothing a library does ends the program.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "code/disassemble/disassemble.h"

static const char kernels[] = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
			      "__attribute__((noinline)) float far(global float *f, int n) { float s = 0; for (int i = 0; i < "
			      "n; i++) s += f[i * n] / s;\n"
			      " return n > 7 ? far(f, n - 3) + s : s; }\n"
			      "kernel void sum(global int *a, local float *l, int n, global float *f) {\n"
			      " int i = __builtin_amdgcn_workitem_id_x();\n"
			      " float s = 0;\n"
			      " for (int j = 0; j < n; j++) { if (a[i + j] > 3) s += f[i * j] * l[j]; else s -= f[j]; "
			      "__builtin_amdgcn_s_barrier(); }\n"
			      " l[i] = s;\n"
			      " __builtin_amdgcn_s_barrier();\n"
			      " __atomic_fetch_add(a + i, (int)l[n - i], __ATOMIC_SEQ_CST);\n"
			      " f[i] = __builtin_sqrtf(s) / l[i + 1] + far(f, n);\n"
			      " if (a[i] == 7) __builtin_trap();\n"
			      " while (a[i]) __builtin_amdgcn_s_sleep(3);\n"
			      "}\n"
			      "kernel void wide(global double4 *d, global half *h, constant ulong *u, global uchar *b) {\n"
			      " int i = __builtin_amdgcn_workgroup_id_x();\n"
			      " d[i] = d[i + 1] * d[i] + (double)u[i];\n"
			      " b[i] ^= (uchar)(u[i] % 7) + b[i + 5] * b[i - 1];\n"
			      " h[i] = h[i] * h[2] + h[1];\n"
			      "}\n";

struct fixture {
	struct arena arena;
	char directory[32];
	VEC(struct instruction) wanted;
	VEC(struct code_range) ranges;
	struct text bytes;
};

static int set_up(void **state)
{
	struct fixture *x = mem_alloc(sizeof(*x));
	str_copy(x->directory, sizeof(x->directory), S("/tmp/disassemble.XXXXXX"));
	*state = x;
	unsetenv("UNHANG_DISASSEMBLER");
	return !mkdtemp(x->directory);
}

static int tear_down(void **state)
{
	struct fixture *x = *state;
	char *command = NULL;
	int failed = asprintf(&command, "rm -r %s", x->directory) < 0 || system(command);
	free(command);
	arena_free(&x->arena);
	vec_free(&x->wanted);
	vec_free(&x->ranges);
	text_free(&x->bytes);
	free(x);
	unsetenv("UNHANG_DISASSEMBLER");
	return failed;
}

static void need_clang(void)
{
	if (!system("clang-19 --version >/dev/null 2>&1 && llvm-objdump-19 --version >/dev/null 2>&1"))
		return;
	print_message("clang-19 or llvm-objdump-19 is missing\n");
	skip();
}

static void write_source(const struct fixture *x, const char *text)
{
	char path[64];
	snprintf(path, sizeof(path), "%s/source", x->directory);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/** "\ttext  // address: words"; the words are the code. */
static void read_listing_line(struct fixture *x, struct str line)
{
	ptrdiff_t comment = str_find(line, S("// "));
	uint64_t address, word;
	if (line.n < 2 || line.p[0] != '\t' || comment < 0)
		return;
	struct str code = str_from(line, (size_t)comment + 3), text = str_cut(line, (size_t)comment);
	assert_true(str_hex(str_split(&code, ':'), &address));
	struct instruction i = { .address = address };
	for (struct str w = str_word(&code); w.n == 8 && str_hex(w, &word); w = str_word(&code), i.size += 4)
		text_add(&x->bytes,
			 (struct str){ (const char[]){ (char)word, (char)(word >> 8), (char)(word >> 16), (char)(word >> 24) },
				       4 });
	struct text plain = { 0 };
	for (struct str w = str_word(&text); w.n; w = str_word(&text))
		text_printf(&plain, "%s" STR_FMT, plain.n ? " " : "", STR_ARG(w));
	i.text = arena_str(&x->arena, text_str(&plain));
	text_free(&plain);
	struct code_range *last = x->ranges.len ? &x->ranges.data[x->ranges.len - 1] : NULL;
	const struct code_range next = { .begin = address, .bytes = { NULL, i.size } };
	if (last && last->begin + last->bytes.n == address)
		last->bytes.n += i.size;
	else
		vec_push(&x->ranges, next);
	vec_push(&x->wanted, i);
}

/** Compiles the source, and takes code and instructions from what llvm-objdump prints of it. */
static bool compile(struct fixture *x, const char *language, const char *target, const char *options,
		    const char *objdump_options)
{
	char *command = NULL, *line = NULL;
	size_t room = 0;
	assert_true(asprintf(&command,
			     "clang-19 -x %s -target amdgcn-amd-amdhsa -mcpu=%s -Wno-unused-command-line-argument -nogpulib "
			     "-O2 %s -c %s/source -o %s/object && "
			     "llvm-objdump-19 -d -z %s %s/object",
			     language, target, options, x->directory, x->directory, objdump_options, x->directory) > 0);
	FILE *listing = popen(command, "r");
	assert_non_null(listing);
	x->wanted.len = x->ranges.len = 0;
	text_clear(&x->bytes);
	for (ssize_t n; (n = getline(&line, &room, listing)) >= 0;)
		read_listing_line(x, (struct str){ line, (size_t)n });
	bool good = !pclose(listing);
	free(line);
	free(command);
	const char *p = x->bytes.p;
	for (size_t i = 0; i < x->ranges.len; p += x->ranges.data[i++].bytes.n)
		x->ranges.data[i].bytes.p = p;
	return good;
}

static void compare(struct fixture *x, const char *target)
{
	struct disassembly d = { 0 };
	struct uh_error *err = disassemble(&x->arena, str_z(target), x->ranges.data, x->ranges.len, &d);
	if (err)
		fail_msg("%s: %s", target, uh_error_message(err));
	for (size_t i = 0; i < d.n && i < x->wanted.len; i++) {
		const struct instruction *got = &d.instructions[i], *wanted = &x->wanted.data[i];
		if (got->address != wanted->address || got->size != wanted->size || !str_eq(got->text, wanted->text))
			fail_msg("%s by %s: 0x%zx %u " STR_FMT ", not 0x%zx %u " STR_FMT, target, d.by, (size_t)got->address,
				 got->size, STR_ARG(got->text), (size_t)wanted->address, wanted->size, STR_ARG(wanted->text));
	}
	assert_int_equal(d.n, x->wanted.len);
}

/** By LLVM's library, and by its program. */
static void compare_both(struct fixture *x, const char *target)
{
	static const char *const ways[] = { "llvm", "objdump" };
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		setenv("UNHANG_DISASSEMBLER", ways[i], 1);
		compare(x, target);
	}
}

static const char *const targets[] = { "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1151", "gfx1201" };
enum { TARGETS = ARRAY_SIZE(targets) };

static void compiled_code_is_disassembled_as_objdump_does(void **state)
{
	need_clang();
	struct fixture *x = *state;
	write_source(x, kernels);
	for (size_t i = 0; i < TARGETS; i++) {
		assert_true(compile(x, "cl -cl-std=CL2.0", targets[i], "", ""));
		assert_true(x->wanted.len > 200);
		compare_both(x, targets[i]);
	}
}

static void code_of_wave64_is_disassembled_as_objdump_does(void **state)
{
	need_clang();
	struct fixture *x = *state;
	write_source(x, kernels);
	for (size_t i = 0; i < TARGETS; i++) {
		bool both = str_starts(str_z(targets[i]), S("gfx1"));
		const char *option = both ? "-mwavefrontsize64" : "", *attribute = both ? "--mattr=+wavefrontsize64" : "";
		assert_true(compile(x, "cl -cl-std=CL2.0", targets[i], option, attribute));
		for (size_t j = 0; j < x->ranges.len; j++)
			x->ranges.data[j].wave_size = 64;
		compare_both(x, targets[i]);
	}
}

/** Words that are mostly no instructions. So few that llvm-objdump survives them. */
static void words_that_are_no_instructions_are_told_as_objdump_does(void **state)
{
	need_clang();
	struct fixture *x = *state;
	struct text source = { 0 };
	uint64_t seed = 4;
	setenv("UNHANG_DISASSEMBLER", "llvm", 1);
	for (size_t i = 0; i < 8000; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		text_printf(&source, ".long 0x%08x\n", (unsigned)(seed >> 32));
	}
	text_add(&source, (struct str){ "", 1 });
	write_source(x, source.p);
	text_free(&source);
	for (size_t i = 0; i < TARGETS; i++) {
		assert_true(compile(x, "assembler", targets[i], "", ""));
		compare_both(x, targets[i]);
	}
}

/** LLVM 19 dies of the second of these instructions, which is none. Those around it are told all the same. */
static void a_library_that_dies_ends_only_its_child(void **state)
{
	struct fixture *x = *state;
	const struct code_range range = { 0x1000, S("\x01\0\x80\xbf\xf9\x36\xc8\x11\x31\x9f\x23\x11\0\0\x81\xbf"), 0 };
	struct disassembly d = { 0 }, harmless = { 0 };
	struct uh_error *err = disassemble(&x->arena, S("gfx1030"), NULL, 0, &harmless);
	if (err) {
		print_message("%s\n", uh_error_message(err));
		uh_error_free(err);
		skip();
	}
	assert_null(disassemble(&x->arena, S("gfx1030"), &range, 1, &d));
	assert_string_equal(d.by, harmless.by);
	assert_true(d.n >= 3);
	assert_true(str_is(d.instructions[0].text, "s_nop 1"));
	assert_int_equal(d.instructions[1].address, 0x1004);
	if (str_starts(str_z(d.by), S("LLVM 19.")))
		assert_true(str_is(d.instructions[1].text, ".long 0x11c836f9"));
	assert_int_equal(d.instructions[d.n - 1].address, 0x100c);
	assert_true(str_is(d.instructions[d.n - 1].text, "s_endpgm"));
}

/** Random bytes at lengths that are no multiple of a word. */
static void random_bytes_are_all_accounted_for(void **state)
{
	struct fixture *x = *state;
	unsigned char bytes[997];
	srandom(4);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)random();
	struct code_range ranges[60];
	size_t total = 0, n = 0;
	for (size_t i = 0; i < 60; i++) {
		ranges[i] = (struct code_range){ i << 32, { (const char *)bytes + i, sizeof(bytes) - 16 * i }, i % 3 * 32 };
		total += ranges[i].bytes.n;
	}
	for (size_t i = 0; i < TARGETS; i++) {
		struct disassembly d = { 0 };
		struct uh_error *err = disassemble(&x->arena, str_z(targets[i]), ranges, 60, &d);
		if (err) {
			print_message("%s\n", uh_error_message(err));
			uh_error_free(err);
			skip();
		}
		n = 0;
		for (size_t j = 0; j < d.n; j++)
			n += d.instructions[j].size;
		assert_int_equal(n, total);
	}
}

static void expect_error(struct fixture *x, const char *target, const char *part)
{
	const struct code_range range = { 0x1000, S("\0\0\x81\xbf"), 0 };
	struct disassembly d = { .n = 7 };
	struct uh_error *err = disassemble(&x->arena, str_z(target), &range, 1, &d);
	assert_non_null(err);
	if (str_find(str_z(uh_error_message(err)), str_z(part)) < 0)
		fail_msg("%s: %s, not %s", target, uh_error_message(err), part);
	assert_int_equal(d.n, 7);
	uh_error_free(err);
}

static void an_unknown_processor_is_an_error(void **state)
{
	static const char *const nonsense[] = { "", "gfx", "help", "gfx90a;rm", "GFX90A", "gfx:xnack+", "\033[31m" };
	struct fixture *x = *state;
	const struct code_range range = { 0x1000, S("\0\0\x81\xbf"), 0 };
	struct disassembly d = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++)
		expect_error(x, nonsense[i], "no processor has the name");
	struct uh_error *err = disassemble(&x->arena, S("gfx90a"), &range, 1, &d);
	if (err) {
		expect_error(x, "gfx90a", "no disassembler: install libllvm19");
		uh_error_free(err);
		return;
	}
	expect_error(x, "gfx4242", "gfx4242 is not known to ");
	expect_error(x, "gfx9000a:xnack-", "gfx9000a is not known to ");
	setenv("UNHANG_DISASSEMBLER", "objdump", 1);
	expect_error(x, "gfx4242", "gfx4242: no llvm-objdump here knows it");
	unsetenv("UNHANG_DISASSEMBLER");
	if (str_starts(str_z(d.by), S("LLVM 19")))
		expect_error(x, "gfx950:sramecc+:xnack-", "gfx950 is not known to LLVM 19.1.");
}

static void a_wrong_choice_of_disassembler_is_an_error(void **state)
{
	struct fixture *x = *state;
	setenv("UNHANG_DISASSEMBLER", "none", 1);
	expect_error(x, "gfx90a", "no disassembler: UNHANG_DISASSEMBLER is none");
	setenv("UNHANG_DISASSEMBLER", "gdb", 1);
	expect_error(x, "gfx90a", "UNHANG_DISASSEMBLER is llvm, comgr, objdump or none, not gdb");
}

/** comgr, where it is installed, says of gfx90a what llvm-objdump does. */
static void comgr_disassembles_as_llvm_does(void **state)
{
	need_clang();
	struct fixture *x = *state;
	const struct code_range range = { 0x1000, S("\0\0\x81\xbf\xff\xff"), 0 };
	struct disassembly d = { 0 };
	setenv("UNHANG_DISASSEMBLER", "comgr", 1);
	struct uh_error *err = disassemble(&x->arena, S("gfx90a:sramecc+:xnack-"), &range, 1, &d);
	if (err) {
		print_message("%s\n", uh_error_message(err));
		uh_error_free(err);
		skip();
	}
	assert_true(str_starts(str_z(d.by), S("comgr ")));
	assert_int_equal(d.n, 2);
	assert_true(str_is(d.instructions[0].text, "s_endpgm"));
	assert_true(str_is(d.instructions[1].text, ".byte 0xff, 0xff"));
	write_source(x, kernels);
	assert_true(compile(x, "cl -cl-std=CL2.0", "gfx90a", "", ""));
	compare(x, "gfx90a:xnack-");
}

/** The comgr of an installed ROCm comes first, and where it does not know a processor, LLVM. */
static void comgr_of_a_rocm_is_found(void **state)
{
	struct fixture *x = *state;
	const struct code_range range = { 0x1000, S("\0\0\x81\xbf"), 0 };
	struct disassembly d = { 0 };
	char *command = NULL;
	assert_true(asprintf(&command,
			     "file=$(/sbin/ldconfig -p | sed -n 's/.*libamd_comgr.so.2 .*=> //p' | head -1); test \"$file\" && "
			     "mkdir %s/lib && ln -s \"$file\" %s/lib/libamd_comgr.so.2",
			     x->directory, x->directory) > 0);
	bool absent = system(command);
	free(command);
	if (absent) {
		print_message("libamd_comgr.so.2 is missing\n");
		skip();
	}
	setenv("ROCM_PATH", x->directory, 1);
	assert_null(disassemble(&x->arena, S("gfx90a"), &range, 1, &d));
	assert_true(str_starts(str_z(d.by), S("comgr 2.")));
	struct uh_error *err = disassemble(&x->arena, S("gfx1201"), &range, 1, &d);
	if (err)
		assert_true(str_starts(str_z(uh_error_message(err)), S("gfx1201 is not known to comgr 2.")));
	else if (str_is(str_z(d.by), "comgr 2.4"))
		fail_msg("comgr 2.4 knows no gfx1201");
	uh_error_free(err);
	unsetenv("ROCM_PATH");
}

/** A library that ends the process when it is loaded, or that is none, hides no other. */
static void a_broken_rocm_is_passed_over(void **state)
{
	static const char *const makes[] = { "cp /bin/sh lib/libamd_comgr.so.3",
					     "echo 'void __attribute__((constructor)) f(void) { *(volatile int *)8 = 1; }' | "
					     "cc -shared -fPIC -xc - -o lib/libamd_comgr.so.3" };
	struct fixture *x = *state;
	const struct code_range range = { 0x1000, S("\0\0\x81\xbf"), 0 };
	struct disassembly d = { 0 };
	struct uh_error *err = disassemble(&x->arena, S("gfx90a"), &range, 1, &d);
	if (err) {
		print_message("%s\n", uh_error_message(err));
		uh_error_free(err);
		skip();
	}
	setenv("ROCM_PATH", x->directory, 1);
	for (size_t i = 0; i < 2; i++) {
		char *command = NULL;
		assert_true(asprintf(&command, "cd %s && mkdir -p lib && %s", x->directory, makes[i]) > 0);
		assert_int_equal(system(command), 0);
		free(command);
		err = disassemble(&x->arena, S("gfx90a"), &range, 1, &d);
		if (err)
			fail_msg("%s", uh_error_message(err));
	}
	unsetenv("ROCM_PATH");
}

static void targets_of_branches_are_computed(void **state)
{
	struct fixture *x = *state;
	// s_cbranch_scc0 11; s_branch -2; s_nop 1; s_call_b64 s[2:3], 4 (gfx90a)
	const struct code_range range = { 0x1000, S("\x0b\0\x84\xbf\xfe\xff\x82\xbf\x01\0\x80\xbf\x04\0\x82\xba"), 0 };
	static const uint64_t wanted[] = { 0x1000 + 4 + 44, 0x1004 + 4 - 8, 0, 0x100c + 4 + 16 };
	struct disassembly d = { 0 };
	struct uh_error *err = disassemble(&x->arena, S("gfx90a"), &range, 1, &d);
	if (err) {
		print_message("%s\n", uh_error_message(err));
		uh_error_free(err);
		skip();
	}
	assert_int_equal(d.n, 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(d.instructions[i].target, wanted[i]);
}

static void more_code_than_the_limit_is_refused(void **state)
{
	struct fixture *x = *state;
	struct disassembly d = { .n = 7 };
	const struct code_range large[2] = { { 0, { "", 16 << 20 }, 0 }, { 0, { "", 1 }, 0 } };
	struct uh_error *err = disassemble(&x->arena, S("gfx90a"), large, 2, &d);
	assert_non_null(err);
	assert_string_equal(uh_error_message(err), "more than 16 MB of code to disassemble at once");
	uh_error_free(err);
	assert_int_equal(d.n, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(compiled_code_is_disassembled_as_objdump_does, set_up, tear_down),
		cmocka_unit_test_setup_teardown(code_of_wave64_is_disassembled_as_objdump_does, set_up, tear_down),
		cmocka_unit_test_setup_teardown(words_that_are_no_instructions_are_told_as_objdump_does, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_library_that_dies_ends_only_its_child, set_up, tear_down),
		cmocka_unit_test_setup_teardown(random_bytes_are_all_accounted_for, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_unknown_processor_is_an_error, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_wrong_choice_of_disassembler_is_an_error, set_up, tear_down),
		cmocka_unit_test_setup_teardown(comgr_disassembles_as_llvm_does, set_up, tear_down),
		cmocka_unit_test_setup_teardown(comgr_of_a_rocm_is_found, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_broken_rocm_is_passed_over, set_up, tear_down),
		cmocka_unit_test_setup_teardown(targets_of_branches_are_computed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(more_code_than_the_limit_is_refused, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
