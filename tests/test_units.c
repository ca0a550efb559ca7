// The small parts: strings, versions, templates, conditions, sentences, JSON, files that are written.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/door/library.h"
#include "base/door/root.h"
#include "base/save.h"
#include "gpu/wave.h"
#include "knowledge/condition.h"
#include "knowledge/know.h"
#include "knowledge/template.h"

static int half(int n) { return n / 2; }
static int twice(int n) { return 2 * n; }
#define SUMS(call) call(half) call(twice)
struct sums {
	LIBRARY_API(SUMS)
};

/** As the static file takes what other builds load. */
static void functions_that_are_inside_are_taken(void **state)
{
	struct sums s = { 0 };
	(void)state;
	assert_null(library_take(&s, (void *const[]){ SUMS(LIBRARY_ADDRESS) NULL }));
	assert_non_null(s.library);
	assert_int_equal(s.half(s.twice(4)), 4);
	assert_int_equal(s.twice(4), 8);
	s.library = NULL;
	assert_string_equal(LIBRARY_LOAD(&s, SUMS, "libunhang-none.so"), "half");
	assert_null(s.library);
}

static void typing_errors_are_counted(void **state)
{
	(void)state;
	assert_int_equal(str_typos(S("cwsr-off"), S("cwsr-off"), 3), 0);
	assert_int_equal(str_typos(S("cwsr-off"), S("CWSR-of"), 3), 1);
	assert_int_equal(str_typos(S("cwsr-off"), S("cwrs-off"), 3), 2);
	assert_int_equal(str_typos(S(""), S("ab"), 3), 2);
	assert_true(str_typos(S("cwsr-off"), S("something-else"), 3) > 3);
	char long_name[200] = "";
	memset(long_name, 'a', sizeof(long_name) - 1);
	assert_true(str_typos(str_z(long_name), str_z(long_name), 3) > 3);
}

static void numbers_are_parsed(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool ok;
		int64_t value;
	} cases[] = {
		{ "0", true, 0 },     { "-110", true, -110 },
		{ "0x1f", true, 31 }, { "", false, 0 },
		{ "0x", false, 0 },   { "12a", false, 0 },
		{ "-", false, 0 },    { "99999999999999999999", false, 0 },
		{ "+7", true, 7 },    { "0xffffffffffffffff", true, -1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int64_t value = 0;
		assert_int_equal(str_number(str_z(cases[i].text), &value), cases[i].ok);
		if (cases[i].ok)
			assert_int_equal(value, cases[i].value);
	}
}

static void versions_are_compared(void **state)
{
	(void)state;
	assert_true(str_version_cmp(S("6.8.0-90-generic"), S("6.17.9")) < 0);
	assert_true(str_version_cmp(S("7.0"), S("6.18.22-lts")) > 0);
	assert_int_equal(str_version_cmp(S("6.12"), S("6.12.0")), 0);
	assert_true(str_version_cmp(S("6.12.1"), S("6.12")) > 0);
	assert_int_equal(str_version_cmp(S("6.17.5-arch1-1"), S("6.17.5")), 0);
}

static void globs_match(void **state)
{
	(void)state;
	assert_true(str_glob(S("sdma*"), S("sdma0")));
	assert_false(str_glob(S("sdma*"), S("gfx_0.0.0")));
	assert_true(str_glob(S("*6.17.0-14-generic*"), S("6.17.0-14-generic")));
	assert_true(str_glob(S("a*b*c"), S("aXbYbZc")));
	assert_false(str_glob(S("a*b*c"), S("aXbYbZ")));
	assert_true(str_glob(S("*"), S("")));
}

struct fixture {
	struct arena arena;
	struct know_problems problems;
};

static int set_up(void **state)
{
	*state = calloc(1, sizeof(struct fixture));
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	arena_free(&f->arena);
	free(f);
	return 0;
}

static bool matches(struct fixture *f, const char *text, const char *line, struct match *m)
{
	struct template *t = template_parse(&f->arena, str_z(text), "test", 1, &f->problems);
	assert_non_null(t);
	struct str s = str_z(line);
	for (size_t at = 0; at < s.n; at++)
		if (template_match(t, s, at, m))
			return true;
	return false;
}

static void assert_capture(const struct match *m, size_t index, const char *text)
{
	assert_true(index < m->ncaptures);
	assert_int_equal(m->captures[index].text.n, strlen(text));
	assert_memory_equal(m->captures[index].text.p, text, strlen(text));
}

static void templates_match_and_capture(void **state)
{
	struct fixture *f = *state;
	struct match m = { 0 };
	const char *timeout = "ring {ring} timeout, signaled seq={a:int}, emitted seq={b:int}";
	assert_true(matches(f, timeout, "amdgpu: ring gfx_0.0.0 timeout, signaled seq=12, emitted seq=15", &m));
	assert_capture(&m, 0, "gfx_0.0.0");
	assert_capture(&m, 2, "15");
	// A message begins at the beginning of a word.
	assert_false(matches(f, timeout, "string x timeout, signaled seq=1, emitted seq=2", &m));
	// White space is any white space; an empty text is nothing.
	assert_true(matches(f, "process {p:text} pid {n:int}", "process  pid 7", &m));
	assert_capture(&m, 0, "");
	assert_true(matches(f, "process {p:text} pid {n:int}", "process\tMain Thread  pid 7", &m));
	assert_capture(&m, 0, "Main Thread");
	// A word gives back what the text behind it needs.
	assert_true(matches(f, "block <{b}> failed {e:int}", "hw_init of IP block <gfx_v11_0> failed -110", &m));
	assert_capture(&m, 0, "gfx_v11_0");
	assert_capture(&m, 1, "-110");
	assert_true(matches(f, "on address {a:hex}", "on address (nil). Reason", &m));
	assert_true(matches(f, "{p}[{n:int}]: segfault", "kernel: tokio-rt-worker[3976]: segfault at 0", &m));
	assert_capture(&m, 0, "tokio-rt-worker");
	assert_true(matches(f, "{{literal}} {x}", "{literal} yes", &m));
}

static void wrong_templates_are_refused(void **state)
{
	struct fixture *f = *state;
	assert_null(template_parse(&f->arena, S("a {b"), "test", 1, &f->problems));
	assert_null(template_parse(&f->arena, S("text {a}{b}"), "test", 1, &f->problems));
	assert_null(template_parse(&f->arena, S("{a}"), "test", 1, &f->problems));
	assert_null(template_parse(&f->arena, S("some text {bad name}"), "test", 1, &f->problems));
	assert_int_equal(f->problems.count, 4);
}

/** Facts `gfx`, `kernel`, `ring` twice. */
static bool test_facts(const void *ctx, struct str name, size_t index, struct str *ret)
{
	static const struct {
		const char *name, *value;
	} facts[] = { { "gfx", "gfx1151" }, { "kernel", "6.17.8-arch" }, { "ring", "gfx" }, { "ring", "sdma0" },
		      { "fw", "0x83" },     { "low", "0x3000" } };
	(void)ctx;
	for (size_t i = 0; i < ARRAY_SIZE(facts); i++) {
		if (str_is(name, facts[i].name) && !index--) {
			*ret = str_z(facts[i].value);
			return true;
		}
	}
	return false;
}

static void conditions_are_three_valued(void **state)
{
	struct fixture *f = *state;
	const struct fact_view view = { test_facts, NULL };
	static const struct {
		const char *text;
		enum truth truth;
	} cases[] = {
		{ "gfx = gfx1151", TRUTH_YES },
		{ "gfx = gfx1100", TRUTH_NO },
		{ "gfx in gfx1103 gfx115*", TRUTH_YES },
		{ "kernel < 6.17.9", TRUTH_YES },
		{ "kernel >= 7.0", TRUTH_NO },
		{ "fw = 131", TRUTH_YES },
		{ "low < 0x100000", TRUTH_YES },
		{ "ring = sdma*", TRUTH_YES },
		{ "ring != sdma0", TRUTH_NO },
		{ "rocm < 7.2", TRUTH_UNKNOWN },
		{ "gfx = gfx1151 and rocm < 7.2", TRUTH_UNKNOWN },
		{ "gfx = gfx1100 and rocm < 7.2", TRUTH_NO },
		{ "no rocm", TRUTH_YES },
		{ "gfx", TRUTH_YES },
		{ "gfx = $gfx", TRUTH_YES },
		{ "gfx = $rocm", TRUTH_UNKNOWN },
		{ "gfx is gfx115*", TRUTH_YES },
		{ "gfx is in gfx1103 gfx1151", TRUTH_YES },
		{ "gfx is gfx1100", TRUTH_NO },
		{ "rocm is 7.2", TRUTH_NO },
		{ "rocm is in 7.1 7.2", TRUTH_NO },
		{ "gfx is $rocm", TRUTH_UNKNOWN },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct condition *c = condition_parse(&f->arena, NULL, str_z(cases[i].text), "test", 1, &f->problems);
		if (condition_eval(c, &view) != cases[i].truth)
			fail_msg("%s", cases[i].text);
	}
	// Several lines are alternatives.
	struct condition *c = condition_parse(&f->arena, NULL, S("gfx = gfx1100"), "test", 1, &f->problems);
	c = condition_parse(&f->arena, c, S("kernel < 7.0"), "test", 2, &f->problems);
	assert_int_equal(condition_eval(c, &view), TRUTH_YES);
	assert_int_equal(f->problems.count, 0);
	condition_parse(&f->arena, NULL, S("gfx was gfx1100"), "test", 3, &f->problems);
	condition_parse(&f->arena, NULL, S("gfx ="), "test", 4, &f->problems);
	condition_parse(&f->arena, NULL, S("gfx is"), "test", 5, &f->problems);
	assert_int_equal(f->problems.count, 3);
}

/** Whatever is said of it, or not said, may be otherwise. */
static bool test_unread(const void *ctx, struct str name)
{
	(void)ctx;
	return str_is(name, "fw") || str_is(name, "late");
}

static void a_fact_that_was_not_read_makes_a_condition_unread(void **state)
{
	struct fixture *f = *state;
	const struct fact_view view = { .get = test_facts, .unread = test_unread };
	static const struct {
		const char *text;
		enum truth truth;
	} cases[] = {
		{ "gfx = gfx1151", TRUTH_YES },
		{ "no rocm", TRUTH_YES },
		{ "no late", TRUTH_UNREAD },
		{ "late", TRUTH_UNREAD },
		{ "late = 1", TRUTH_UNREAD },
		{ "fw = 131", TRUTH_UNREAD },
		{ "gfx = $late", TRUTH_UNREAD },
		{ "gfx = gfx1151 and no late", TRUTH_UNREAD },
		{ "gfx = gfx1100 and no late", TRUTH_NO },
		{ "rocm < 7.2 and no late", TRUTH_UNKNOWN },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct condition *c = condition_parse(&f->arena, NULL, str_z(cases[i].text), "test", 1, &f->problems);
		if (condition_eval(c, &view) != cases[i].truth)
			fail_msg("%s", cases[i].text);
	}
	// One of several that holds is enough; one that was not read may hold.
	struct condition *c = condition_parse(&f->arena, NULL, S("no late"), "test", 1, &f->problems);
	struct condition *good = condition_parse(&f->arena, c, S("kernel < 7.0"), "test", 2, &f->problems);
	struct condition *bad = condition_parse(&f->arena, c, S("kernel > 7.0"), "test", 3, &f->problems);
	assert_int_equal(condition_eval(good, &view), TRUTH_YES);
	assert_int_equal(condition_eval(bad, &view), TRUTH_UNREAD);
}

/** The inode that a path leads to, or the error. */
static long led_to(int fd)
{
	struct stat st;
	if (fd < 0)
		return -errno;
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	return (long)st.st_ino;
}

static void put_link(int dir, const char *path, const char *target) { assert_int_equal(symlinkat(target, dir, path), 0); }

/** One component at a time leads to where openat2() leads. */
static void the_walk_without_openat2_leads_to_the_same_files(void **state)
{
	static const char *const paths[] = {
		"/",          "/a",          "/a/",        "/a/b/file",
		"/a/b/file/", "/a/b/file/x", "/a/../a/b",  "/../../a/b/file",
		"/none",      "/a/none",     "/here",      "/here/file",
		"/here/..",   "/up",         "/up/a",      "/out",
		"/loop",      "/away/file",  "/away",      "/dangling",
		"/chain",     "/slash",      "/slash/",    "//a///b//file",
		"a/b/file",   "/to-file/",   "/to-file/x", "/a/./b/./file",
		"/a/b/rel",   "/a/b/rel/b",
	};
	static const int flags[] = { O_RDONLY, O_PATH, O_PATH | O_NOFOLLOW, O_RDONLY | O_NOFOLLOW, O_RDONLY | O_DIRECTORY };
	char room[] = "/tmp/unhang-walk-XXXXXX";
	(void)state;
	assert_non_null(mkdtemp(room));
	_cleanup_close_ int dir = open(room, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(dir, "a", 0755) | mkdirat(dir, "a/b", 0755), 0);
	assert_null(save_new_file(dir, "a/b/file", S("x"), 0644));
	put_link(dir, "here", "a/b");
	put_link(dir, "up", "../../..");
	put_link(dir, "out", "/etc/passwd");
	put_link(dir, "loop", "loop");
	put_link(dir, "away", "/a/b");
	put_link(dir, "dangling", "a/no");
	put_link(dir, "chain", "here/rel/b/../../away/file");
	put_link(dir, "slash", "a/b/");
	put_link(dir, "to-file", "a/b/file");
	put_link(dir, "a/b/rel", "../../a");
	for (size_t p = 0; p < ARRAY_SIZE(paths); p++)
		for (size_t f = 0; f < ARRAY_SIZE(flags); f++) {
			long usual = led_to(root_open_at(dir, paths[p], flags[f]));
			long walked = led_to(root_walk(dir, paths[p], flags[f]));
			if (walked != usual)
				fail_msg("%s with %#x: %ld, not %ld", paths[p], (unsigned)flags[f], walked, usual);
		}
	static const char *const made[] = { "a/b/rel", "a/b/file", "here",  "up",    "out",    "loop",
					    "away",    "dangling", "chain", "slash", "to-file" };
	for (size_t i = 0; i < ARRAY_SIZE(made); i++)
		assert_int_equal(unlinkat(dir, made[i], 0), 0);
	assert_int_equal(unlinkat(dir, "a/b", AT_REMOVEDIR) | unlinkat(dir, "a", AT_REMOVEDIR) | rmdir(room), 0);
}

static void sentences_are_filled_from_facts(void **state)
{
	(void)state;
	const struct fact_view view = { test_facts, NULL };
	static const struct {
		const char *sentence, *filled;
	} cases[] = {
		{ "ring {ring} | , kernel {kernel} | of {process}", "ring gfx, kernel 6.17.8-arch" },
		{ "{process} | , status {fw}", "status 0x83" },
		{ "{process}", "" },
		{ "{ring=gfx} ring || rings", "gfx ring" },
		{ "{ring=sdma} ring || rings", "rings" },
		{ "plain", "plain" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct text out = { 0 };
		phrase_fill(&out, str_z(cases[i].sentence), &view);
		assert_string_equal(out.p ? out.p : "", cases[i].filled);
		text_free(&out);
	}
}

static void json_is_written_escaped(void **state)
{
	(void)state;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct json j = { .out = out };
	jw_open(&j, '[');
	jw_str(&j, (struct str){ "a\"\\\x01\xff\xc3\xa9\xed\xa0\x80", 10 });
	jw_str(&j, (struct str){ 0 });
	jw_decimal(&j, 45755.10331, 6);
	jw_decimal(&j, 3, 6);
	jw_int(&j, -1);
	jw_close(&j, ']');
	fclose(out);
	assert_string_equal(
		text,
		"[\n  \"a\\\"\\\\\\u0001\\ufffd\xc3\xa9\\ufffd\\ufffd\\ufffd\",\n  null,\n  45755.10331,\n  3,\n  -1\n]\n");
	free(text);
}

/** A user's block replaces ours, and its signature wins over ours. */
static void a_users_block_replaces_a_built_in_one(void **state)
{
	(void)state;
	struct know_problems problems = { 0 };
	struct know *k = know_load_with(
		"user.know",
		S("signature ring-timeout\n  event soft-recovered\n  subsystem ring\n  level error\n"
		  "  match ring {ring} timeout, signaled seq={seq_signaled:int}, emitted seq={seq_emitted:int}\n"),
		&problems);
	struct match m = { 0 };
	assert_int_equal(problems.count, 0);
	assert_true(know_match(k, S("ring gfx timeout, signaled seq=1, emitted seq=2"), &m));
	assert_true(str_is(match_signature(&m)->event->head.id, "soft-recovered"));
	know_free(k);
}

static void assert_holds(const char *path, const char *bytes, mode_t mode)
{
	char room[64] = "";
	struct stat st;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && !fstat(fd, &st));
	assert_int_equal(read(fd, room, sizeof(room) - 1), strlen(bytes));
	assert_string_equal(room, bytes);
	assert_int_equal(st.st_mode & 07777, mode);
}

static void assert_refused(struct uh_error *err, int errnum)
{
	assert_non_null(err);
	assert_int_equal(err->errnum, errnum);
	uh_error_free(err);
}

/** Whole, with the mode that was asked for, in place of what was there, and nothing left besides. */
static void a_file_is_saved_whole_or_not_at_all(void **state)
{
	(void)state;
	char room[] = "/tmp/unhang-units-XXXXXX", path[64], other[64];
	assert_non_null(mkdtemp(room));
	snprintf(path, sizeof(path), "%s/a.conf", room);
	snprintf(other, sizeof(other), "%s/.a.conf.0123abcd.unhang-new", room);
	_cleanup_close_ int dir = open(room, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	mode_t before = umask(077);
	assert_null(save_file(AT_FDCWD, path, S("one"), 0644));
	umask(before);
	assert_holds(path, "one", 0644);
	assert_null(save_file(dir, "a.conf", S("two"), 0600));
	assert_holds(path, "two", 0600);
	assert_refused(save_new_file(dir, "a.conf", S("three"), 0644), EEXIST);
	assert_refused(save_file(dir, "no/a.conf", S("three"), 0644), ENOENT);
	assert_refused(save_file(dir, "b/", S("three"), 0644), EISDIR);
	assert_int_equal(save_left_over(dir, "a.conf", false), 0);
	assert_null(save_new_file(AT_FDCWD, other, S("left"), 0644));
	assert_int_equal(save_left_over(AT_FDCWD, path, true), 1);
	assert_int_equal(save_left_over(dir, "a.conf", true), 0);
	assert_holds(path, "two", 0600);
	assert_null(save_remove(dir, "a.conf"));
	assert_null(save_remove(dir, "a.conf"));
	assert_null(save_remove(dir, "no/a.conf"));
	assert_int_equal(rmdir(room), 0);
}

static void registers_of_waves_are_found_by_bank_and_number(void **state)
{
	(void)state;
	static const char *const names[] = { "v07", "vcc", "v", "s12", "v12", "ttmp4", "a1023", "v1024", "exec" };
	struct register_set set = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		wave_register_add(&set, (struct wave_register){ .name = str_z(names[i]) });
	assert_ptr_equal(wave_register_at(&set, 's', 12), &set.data[3]);
	assert_ptr_equal(wave_register_at(&set, 'v', 12), &set.data[4]);
	assert_ptr_equal(wave_register_at(&set, 'a', 1023), &set.data[6]);
	assert_null(wave_register_at(&set, 'v', 7));
	assert_null(wave_register_at(&set, 'v', 0));
	assert_null(wave_register_at(&set, 'v', 1024));
	assert_ptr_equal(wave_register_named(&set, S("vcc")), &set.data[1]);
	assert_null(wave_register_named(&set, S("vc")));
	vec_free(&set);
}

static void waves_of_a_text_are_at_one_place(void **state)
{
	(void)state;
	struct wave waves[] = { { .id = 1, .pc = 8, .kernel = S("k") },
				{ .id = 2, .pc = 8, .kernel = S("k"), .reason = S("TRAP") },
				{ .id = 3, .pc = 16, .kernel = S("k") } };
	struct wave other = { .pc = 8, .kernel = S("k"), .source = S("k.hip:1") };
	struct wave_places places = { 0 };
	for (size_t i = 0; i < 3; i++) {
		assert_null(wave_place_of(&places, &waves[i]));
		vec_push(&places, ((struct wave_place){ .first = &waves[i], .count = i + 1 }));
		assert_ptr_equal(wave_place_of(&places, &waves[i]), &places.data[i]);
	}
	assert_null(wave_place_of(&places, &other));
	wave_places_sort(&places); // the stopped one, then the larger
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(places.data[i].first->id, ((const size_t[]){ 2, 3, 1 })[i]);
	vec_free(&places);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(typing_errors_are_counted),
		cmocka_unit_test(numbers_are_parsed),
		cmocka_unit_test(versions_are_compared),
		cmocka_unit_test(globs_match),
		cmocka_unit_test_setup_teardown(templates_match_and_capture, set_up, tear_down),
		cmocka_unit_test_setup_teardown(wrong_templates_are_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(conditions_are_three_valued, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_fact_that_was_not_read_makes_a_condition_unread, set_up, tear_down),
		cmocka_unit_test(the_walk_without_openat2_leads_to_the_same_files),
		cmocka_unit_test(sentences_are_filled_from_facts),
		cmocka_unit_test(functions_that_are_inside_are_taken),
		cmocka_unit_test(json_is_written_escaped),
		cmocka_unit_test(a_users_block_replaces_a_built_in_one),
		cmocka_unit_test(a_file_is_saved_whole_or_not_at_all),
		cmocka_unit_test(registers_of_waves_are_found_by_bank_and_number),
		cmocka_unit_test(waves_of_a_text_are_at_one_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
