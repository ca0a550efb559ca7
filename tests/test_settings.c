// Parameters: the files that they are set in, the file of a module, and values; each small file is cut at every byte and has every byte
// changed.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "host/settings/setting.h"
#include "knowledge/parameter.h"
#include "modinfo_check.h"

#define assert_text(a, z) assert_string_equal(arena_z(&arena, a), z)

static void lines_of_modprobe_d_are_parsed(void **state)
{
	static const struct {
		enum modprobe_kind kind;
		const char *module, *rest;
		unsigned line;
	} wanted[] = {
		{ MODPROBE_OPTIONS, "amd_gpu", " a=1   b=2", 2 }, { MODPROBE_OPTIONS, "amdgpu", " c=1 # d=2", 5 },
		{ MODPROBE_BLACKLIST, "radeon", "", 7 },          { MODPROBE_INSTALL, "amdgpu", " /bin/false", 8 },
		{ MODPROBE_OPTIONS, "ttm", " x=ay", 10 },
	};
	struct str text = S("# options amdgpu no=1\n"
			    "options amd-gpu a=1 \\\n  b=2\n"
			    "\n"
			    "  options\tamdgpu c=1 # d=2\n"
			    " # options amdgpu no=2\n"
			    "blacklist radeon\n"
			    "install amdgpu /bin/false\n"
			    "options\n"
			    "options ttm x=a\\y\\");
	struct arena arena = { 0 };
	struct modprobe_line l;
	unsigned line = 0;
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		assert_true(modprobe_next(&arena, &text, &line, &l));
		assert_int_equal(l.kind, wanted[i].kind);
		assert_text(l.module, wanted[i].module);
		assert_text(l.rest, wanted[i].rest);
		assert_int_equal(l.line, wanted[i].line);
	}
	assert_false(modprobe_next(&arena, &text, &line, &l));
	arena_free(&arena);
}

static void files_of_modprobe_d_are_read_in_order(void **state)
{
	struct modprobe_file files[] = {
		{ S("z.conf"), "/etc" }, { S("b.conf"), "/etc" }, { S("readme"), "/etc" },
		{ S("b.conf"), "/lib" }, { S("a.conf"), "/lib" },
	};
	(void)state;
	assert_int_equal(modprobe_order(files, 5), 3);
	assert_true(str_is(files[0].name, "a.conf") && str_is(files[1].name, "b.conf") && str_is(files[2].name, "z.conf"));
	assert_string_equal(files[1].directory, "/etc");
}

static void words_of_a_command_line_are_split(void **state)
{
	struct str rest = S("  quiet amdgpu.a=\"b c\" \"d=e f\" x= "), word, name, value;
	(void)state;
	assert_true(word_next(&rest, &word) && !word_split(word, &name, &value) && str_is(name, "quiet"));
	assert_true(word_next(&rest, &word) && word_split(word, &name, &value) && str_is(value, "b c"));
	assert_true(word_next(&rest, &word) && word_split(word, &name, &value) && str_is(name, "d") && str_is(value, "e f"));
	assert_true(word_next(&rest, &word) && word_split(word, &name, &value) && str_is(name, "x") && !value.n);
	assert_false(word_next(&rest, &word));
}

static void settings_of_grub_are_read_with_their_places(void **state)
{
	struct grub g = { 0 };
	struct arena arena = { 0 };
	(void)state;
	grub_read(&arena,
		  S("# GRUB_CMDLINE_LINUX=no\n"
		    "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet \\\n splash\"\n"
		    "OTHER=1\n"
		    "GRUB_CMDLINE_LINUX='a=1'\n"),
		  "/one", &g);
	grub_read(&arena,
		  S("GRUB_CMDLINE_LINUX+=\" b=2\" # c=3\n"
		    "export GRUB_CMDLINE_LINUX_DEFAULT=\"${GRUB_CMDLINE_LINUX_DEFAULT} d=4\""),
		  "/two", &g);
	assert_int_equal(g.all.len, 2);
	assert_text(g.all.data[0].text, "a=1");
	assert_text(g.all.data[0].where, "/one:5");
	assert_text(g.all.data[1].where, "/two:1");
	assert_int_equal(g.normal.len, 3);
	assert_text(g.normal.data[1].text, "splash");
	assert_text(g.normal.data[1].where, "/one:2");
	assert_text(g.normal.data[2].where, "/two:2");
	grub_free(&g);
	arena_free(&arena);
}

/** A variable that holds itself twice, again and again. */
static void settings_of_grub_that_grow_are_bounded(void **state)
{
	struct text text = { 0 };
	struct grub g = { 0 };
	struct arena arena = { 0 };
	(void)state;
	text_printf(&text, "GRUB_CMDLINE_LINUX=a\n");
	for (int i = 0; i < 64; i++)
		text_printf(&text, "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX\"\n");
	grub_read(&arena, text_str(&text), "/grub", &g);
	assert_true(g.all.len >= 1024 && g.all.len < 100000);
	grub_free(&g);
	text_free(&text);
	arena_free(&arena);
}

static void values_are_compared_as_the_kernel_reads_them(void **state)
{
	static const struct {
		const char *a, *b;
		bool same;
	} rows[] = {
		{ "1", "Y", true },
		{ "0", "N", true },
		{ "off", "N", true },
		{ "1", "N", false },
		{ "0x10", "16", true },
		{ "010", "8", true },
		{ "0xfff7bfff", "4294426623", true },
		{ "-1", "4294967295", true },
		{ "2", "Y", false },
		{ "off", "0", false },
		{ " 16\n", "0x10", true },
		{ "10000", "10000,", false },
		{ "", "0", false },
		{ "0xffffffffffffffff1", "1", false },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (value_same(str_z(rows[i].a), str_z(rows[i].b)) != rows[i].same)
			fail_msg("%s and %s", rows[i].a, rows[i].b);
		if (value_same(str_z(rows[i].b), str_z(rows[i].a)) != rows[i].same)
			fail_msg("%s and %s", rows[i].b, rows[i].a);
	}
}

static void count_call(void *ctx) { ++*(size_t *)ctx; }

/** A line that lies over the end of what is read at once. */
static void a_word_is_found_across_windows_of_a_file(void **state)
{
	enum { AROUND = 128 << 10, REACH = 40 };
	char found[32];
	struct text text = { 0 };
	(void)state;
	for (size_t at = AROUND - REACH; at < AROUND + REACH; at++) {
		FILE *file = tmpfile();
		size_t calls = 0;
		text_clear(&text);
		memset(text_room(&text, at), 'x', at);
		text.n = at;
		text_printf(&text, "\nfirst needle last\nneedle");
		assert_int_equal(fwrite(text.p, 1, text.n, file), text.n);
		fflush(file);
		ssize_t n = probe_find(fileno(file), S("needle"), found, 17, count_call, &calls);
		assert_int_equal(n, 17);
		assert_memory_equal(found, "first needle last", 17);
		assert_int_equal(probe_find(fileno(file), S("needles"), found, 17, count_call, &calls), -1);
		assert_int_equal(errno, ENODATA);
		assert_true(calls >= 3);
		fclose(file);
	}
	text_free(&text);
}

static size_t read_seed(const char *name, uint8_t *room, size_t size)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/modinfo/%s", SEEDS, name);
	FILE *in = fopen(path, "rb");
	if (!in)
		fail_msg("%s cannot be read", path);
	size_t n = fread(room, 1, size, in);
	fclose(in);
	return n;
}

static void parameters_of_a_module_file_are_read(void **state)
{
	uint8_t bytes[4096];
	struct arena arena = { 0 };
	struct modinfo m;
	struct str file = { (const char *)bytes, read_seed("module", bytes, sizeof(bytes)) };
	(void)state;
	modinfo_read(&arena, section_find(file, S(".modinfo")), &m);
	assert_text(m.version, "6.16.13");
	assert_int_equal(m.n, 2);
	assert_true(modinfo_has(&m, S("cwsr_enable")) && modinfo_has(&m, S("mes")) && !modinfo_has(&m, S("gfxoff")));
	assert_null(section_find(file, S(".modinf")).p);
	arena_free(&arena);
}

/** In a block of its own size, so that a step outside of it is seen. */
static void check(const uint8_t *bytes, size_t n, size_t at)
{
	uint8_t *copy = malloc(n ? n : 1);
	assert_non_null(copy);
	memcpy(copy, bytes, n);
	const char *complaint = modinfo_complaint(copy, n);
	free(copy);
	if (complaint)
		fail_msg("at %zu: %s", at, complaint);
}

static void settings_cut_or_changed_at_any_byte_harm_nobody(void **state)
{
	static const char *const seeds[] = { "module", "modprobe", "grub", "entry" };
	static const uint8_t changes[] = { 0x00, 0xff, 0x80, '\n', '"', '\\' };
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(seeds); i++) {
		uint8_t bytes[4096];
		size_t n = read_seed(seeds[i], bytes, sizeof(bytes));
		for (size_t at = 0; at <= n; at++)
			check(bytes, at, at);
		for (size_t at = 0; at < n; at++) {
			uint8_t was = bytes[at];
			for (size_t c = 0; c < sizeof(changes); c++) {
				bytes[at] = changes[c];
				check(bytes, n, at);
			}
			bytes[at] = was;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_of_modprobe_d_are_parsed),
		cmocka_unit_test(files_of_modprobe_d_are_read_in_order),
		cmocka_unit_test(words_of_a_command_line_are_split),
		cmocka_unit_test(settings_of_grub_are_read_with_their_places),
		cmocka_unit_test(settings_of_grub_that_grow_are_bounded),
		cmocka_unit_test(values_are_compared_as_the_kernel_reads_them),
		cmocka_unit_test(parameters_of_a_module_file_are_read),
		cmocka_unit_test(settings_cut_or_changed_at_any_byte_harm_nobody),
		cmocka_unit_test(a_word_is_found_across_windows_of_a_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
