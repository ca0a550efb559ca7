// Tapes: what was recorded is played, in its order; a track that was cut is good up to the cut; and one that lies does no harm.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tape_check.h"
#include "source/tape/bundle.h"
#include "source/tape/format.h"

static const struct amdgpu_query query = { .query = 0x15, .words = { 4, 4, 0xffffffff } };

static struct probe good(enum probe_kind kind, const char *path, struct str data)
{
	return (struct probe){ .kind = kind, .path = path, .size = 64, .end = PROBE_GOOD, .data = data.p, .n = data.n };
}

static void keep(struct tape *t, struct probe *p, size_t n, struct probe_stuck stuck)
{
	struct probe_batch b = { .probes = p, .n = n, .stuck = stuck };
	tape_keep(t, &b, 1000);
}

static bool no_secret(void *ctx, const struct probe *p, struct text *instead)
{
	(void)ctx;
	if (strcmp(p->path, "/proc/1/environ"))
		return false;
	text_add(instead, S("kept"));
	return true;
}

/** A track with something of everything. */
static struct text recorded(uint64_t most)
{
	char name[] = "/tmp/unhang-test-tape-XXXXXX", chunk[4096];
	struct text ret = { 0 };
	int fd = mkstemp(name);
	unlink(name);
	struct tape *t = tape_record(&(struct tape_recording){ .fd = fd, .most = most, .filter = { no_secret } });
	for (int look = 0; look < 2; look++) {
		char text[] = "look 0";
		text[5] = (char)('0' + look);
		struct probe p[] = { good(PROBE_FILE, "/proc/cmdline", str_z(text)),
				     good(PROBE_LIST, "/sys/class/drm", S("card0\n")) };
		keep(t, p, 2, (struct probe_stuck){ 0 });
	}
	struct probe regs = good(PROBE_READ, "/sys/kernel/debug/dri/0/amdgpu_regs", S("0123456789abcdef"));
	regs.size = 16;
	keep(t, &regs, 1, (struct probe_stuck){ 0 });
	struct probe node = good(PROBE_QUERY, "/dev/dri/renderD128", S("AAAABBBBCCCCDDDD"));
	node.argument = &query;
	node.argument_size = sizeof(query);
	node.size = 16;
	keep(t, &node, 1, (struct probe_stuck){ 0 });
	struct probe stuck[] = { { .path = "/sys/kernel/debug/dri/0/amdgpu_ring_gfx", .end = PROBE_STUCK },
				 { .path = "/sys/kernel/debug/dri/0/amdgpu_ring_sdma", .end = PROBE_NOT_MADE } };
	keep(t, stuck, 2, (struct probe_stuck){ .is = true, .at = S("/x"), .stack = S("a\nb"), .wchan = S("w") });
	struct probe secret = good(PROBE_FILE, "/proc/1/environ", S("SECRET"));
	keep(t, &secret, 1, (struct probe_stuck){ 0 });
	tape_number(t, "euid", 7);
	struct tape_log log = { .tape = t, .name = TAPE_LOG_BOOT, .most = 1 << 20 };
	struct source_visitor v = tape_visitor(&log);
	v.record(v.ctx, "journal", NULL);
	v.record(v.ctx, "journal", &(struct source_record){ S("line one"), S("boot"), 1.5, 2.5 });
	v.record(v.ctx, NULL, NULL);
	tape_log_end(&log);
	tape_end(t);
	tape_free(t);
	lseek(fd, 0, SEEK_SET);
	for (ssize_t n; (n = read(fd, chunk, sizeof(chunk))) > 0;)
		text_add(&ret, (struct str){ chunk, (size_t)n });
	close(fd);
	return ret;
}

static struct tape *played(struct text *bytes)
{
	struct tape *t = tape_new();
	assert_true(tape_add(t, S("machine"), text_str(bytes)));
	tape_begin(t, "machine");
	return t;
}

static struct probe ask(struct tape *t, struct arena *a, struct probe p, struct probe_stuck *ret_stuck)
{
	struct probe_batch b = { .probes = &p, .n = 1 };
	tape_answer(t, a, &b, 1);
	if (ret_stuck)
		*ret_stuck = b.stuck;
	return p;
}

static void answers_come_in_their_order(void **state)
{
	struct arena a = { 0 };
	struct text bytes = recorded(1 << 20);
	struct tape *t = played(&bytes);
	struct probe p = { .path = "/proc/cmdline", .size = 64 };
	(void)state;
	assert_true(tape_whole(t, S("machine")));
	assert_string_equal(ask(t, &a, p, NULL).data, "look 0");
	assert_string_equal(ask(t, &a, p, NULL).data, "look 1");
	assert_string_equal(ask(t, &a, p, NULL).data, "look 1"); // the last one stays
	tape_begin(t, "machine");
	assert_string_equal(ask(t, &a, p, NULL).data, "look 0");
	tape_begin(t, "another");
	assert_string_equal(ask(t, &a, p, NULL).data, "look 0"); // what a track lacks comes from the others
	assert_int_equal(tape_number(t, "euid", 99), 7);
	assert_int_equal(tape_number(t, "never said", 99), -1);
	tape_free(t);
	text_free(&bytes);
	arena_free(&a);
}

static void parts_of_an_answer_are_found(void **state)
{
	struct arena a = { 0 };
	struct text bytes = recorded(1 << 20);
	struct tape *t = played(&bytes);
	(void)state;
	struct probe p = { .kind = PROBE_READ, .path = "/sys/kernel/debug/dri/0/amdgpu_regs", .offset = 4, .size = 4 };
	struct probe got = ask(t, &a, p, NULL);
	assert_true(got.end == PROBE_GOOD && got.n == 4 && !memcmp(got.data, "4567", 4));
	p.offset = 13;
	assert_int_equal(ask(t, &a, p, NULL).end, PROBE_NOT_MADE); // it goes beyond
	struct amdgpu_query two = query;
	two.words[0] = 6; // the third of the four registers
	two.words[1] = 1;
	struct probe node = {
		.kind = PROBE_QUERY, .path = "/dev/dri/renderD128", .argument = &two, .argument_size = sizeof(two), .size = 4
	};
	got = ask(t, &a, node, NULL);
	assert_true(got.end == PROBE_GOOD && !memcmp(got.data, "CCCC", 4));
	two.words[2] = 0; // of another bank
	assert_int_equal(ask(t, &a, node, NULL).end, PROBE_NOT_MADE);
	struct probe file = { .path = "/proc/cmdline", .size = 4096 };
	assert_string_equal(ask(t, &a, file, NULL).data, "look 1"); // the same file, asked for more bytes
	struct probe nothing = { .path = "/proc/never" };
	assert_int_equal(ask(t, &a, nothing, NULL).end, PROBE_NOT_MADE);
	tape_free(t);
	text_free(&bytes);
	arena_free(&a);
}

static void what_blocked_blocks_again(void **state)
{
	struct arena a = { 0 };
	struct text bytes = recorded(1 << 20);
	struct tape *t = played(&bytes);
	struct probe_stuck stuck;
	(void)state;
	struct probe first = { .path = "/sys/kernel/debug/dri/0/amdgpu_ring_gfx" },
		     behind = { .path = "/sys/kernel/debug/dri/0/amdgpu_ring_sdma" };
	assert_int_equal(ask(t, &a, first, &stuck).end, PROBE_STUCK);
	assert_true(stuck.is && str_is(stuck.at, "/x") && str_is(stuck.stack, "a\nb") && str_is(stuck.wchan, "w"));
	assert_int_equal(ask(t, &a, behind, &stuck).end, PROBE_STUCK); // alone, it would have been the first
	first.kind = PROBE_READ;
	assert_int_equal(ask(t, &a, first, &stuck).end, PROBE_NOT_MADE); // nobody asked so
	tape_free(t);
	text_free(&bytes);
	arena_free(&a);
}

static void secrets_are_not_kept(void **state)
{
	struct arena a = { 0 };
	struct text bytes = recorded(1 << 20);
	struct tape *t = played(&bytes);
	(void)state;
	assert_int_equal(str_find(text_str(&bytes), S("SECRET")), -1);
	assert_string_equal(ask(t, &a, (struct probe){ .path = "/proc/1/environ", .size = 64 }, NULL).data, "kept");
	tape_free(t);
	text_free(&bytes);
	arena_free(&a);
}

static void too_much_is_cut(void **state)
{
	struct text bytes = recorded(200);
	struct tape *t = tape_new();
	(void)state;
	assert_true(bytes.n <= 200);
	assert_true(tape_add(t, S("machine"), text_str(&bytes)));
	assert_false(tape_whole(t, S("machine")));
	tape_free(t);
	text_free(&bytes);
}

static void cut_at_every_byte(void **state)
{
	struct text bytes = recorded(1 << 20);
	size_t before = 0;
	(void)state;
	for (size_t n = 0; n <= bytes.n; n++) {
		char *exact = malloc(n + !n);
		memcpy(exact, bytes.p, n);
		size_t given = tape_play_bytes((struct str){ exact, n });
		assert_true(given >= before); // more bytes never say less
		before = given;
		free(exact);
	}
	assert_true(before > 0);
	text_free(&bytes);
}

static void every_byte_changed(void **state)
{
	struct text bytes = recorded(1 << 20);
	(void)state;
	for (size_t i = 0; i < bytes.n; i++) {
		bytes.p[i] ^= 0x5a;
		tape_play_bytes(text_str(&bytes));
		bytes.p[i] ^= 0x5a;
	}
	text_free(&bytes);
}

/** The same with checksums that are right: a liar can compute them too. */
static void every_record_changed(void **state)
{
	struct text bytes = recorded(1 << 20);
	struct str left = str_from(text_str(&bytes), sizeof(TAPE_HEAD) - 1), record;
	enum tape_type type;
	(void)state;
	while (tape_take_record(&left, &type, &record)) {
		for (size_t i = 0; i < record.n; i++) {
			struct text lie = { 0 };
			struct str before = { bytes.p, (size_t)(record.p - bytes.p) - TAPE_RECORD_HEAD - 1 };
			text_add(&lie, before);
			size_t start = tape_open_record(&lie, type);
			text_add(&lie, record);
			lie.p[start + TAPE_RECORD_HEAD + 1 + i] ^= (char)0xff;
			tape_close_record(&lie, start);
			text_add(&lie, left);
			tape_play_bytes(text_str(&lie));
			text_free(&lie);
		}
	}
	text_free(&bytes);
}

static void names_of_entries(void **state)
{
	static const char *const wrong[] = { "", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a/b/c/d/e/f", "a/." };
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_non_null(bundle_name_wrong(str_z(wrong[i])));
	assert_null(bundle_name_wrong(S("answers/machine")));
	assert_null(bundle_name_wrong(S("devcoredump/0000:03:00.0.txt")));
}

static void tapes_share_a_budget(void **state)
{
	enum { MOST = 4096, PIECE = 1000, TAPES = 8 };
	static char piece[PIECE];
	struct tape_budget *budget = tape_budget_new(MOST);
	char name[] = "/tmp/unhang-test-tape-XXXXXX";
	int fd = mkstemp(name), cut = 0;
	(void)state;
	unlink(name);
	for (int i = 0; i < TAPES; i++) {
		struct tape *t = tape_record(&(struct tape_recording){ .fd = fd, .most = UINT64_MAX, .budget = budget });
		struct probe p = good(PROBE_FILE, "/proc/cmdline", (struct str){ piece, PIECE });
		p.size = PIECE;
		keep(t, &p, 1, (struct probe_stuck){ 0 });
		cut += !tape_end(t);
		tape_free(t);
	}
	assert_true(cut > 0 && cut < TAPES);
	assert_true(lseek(fd, 0, SEEK_END) <= MOST && budget->used <= MOST);
	tape_budget_free(budget);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_come_in_their_order),
		cmocka_unit_test(parts_of_an_answer_are_found),
		cmocka_unit_test(what_blocked_blocks_again),
		cmocka_unit_test(secrets_are_not_kept),
		cmocka_unit_test(too_much_is_cut),
		cmocka_unit_test(cut_at_every_byte),
		cmocka_unit_test(every_byte_changed),
		cmocka_unit_test(every_record_changed),
		cmocka_unit_test(names_of_entries),
		cmocka_unit_test(tapes_share_a_budget),
	};
	return cmocka_run_group_tests_name("tape", tests, NULL, NULL);
}
