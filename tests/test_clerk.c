// The privileged reader reads for a process that has put its rights down. It believes nothing that it is asked.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/lower.h"
#include "base/save.h"
#include "clerk_check.h"
#include "source/privileged/privileged.h"

/** Memory that ends where the bytes do. */
static char *exact(struct str s)
{
	char *copy = malloc(s.n ? s.n : 1);
	if (s.n)
		memcpy(copy, s.p, s.n);
	return copy;
}

static struct text question(void)
{
	static const struct amdgpu_query query = { .query = 0x15 };
	const char *path = "/proc/version";
	struct probe p[] = {
		{ .path = path, .size = 64, .unless = S("x"), .skips = 1 },
		{ .path = path, .from_end = true, .unless_fails = true },
		{ .kind = PROBE_QUERY, .path = "/dev/dri/renderD128", .argument = &query, .argument_size = sizeof(query) },
		{ .kind = PROBE_FIND, .path = "/var/lib/dpkg/status", .find = S("rocm"), .dead = true },
	};
	struct probe_batch b = { .probes = p, .n = 4, .goes_on = true };
	const struct privileged_question q = { .batches = &b, .n = 1, .milliseconds = 700, .patient = true, .patience = 10000 };
	struct text ret = { 0 };
	wire_put(&ret, &privileged_question_kind, &q);
	return ret;
}

static void questions_are_whole_or_none(void **state)
{
	struct text whole = question();
	(void)state;
	assert_true(privileged_check_question(text_str(&whole)));
	for (size_t n = 0; n < whole.n; n++) {
		char *cut = exact((struct str){ whole.p, n });
		assert_false(privileged_check_question((struct str){ cut, n }));
		free(cut);
		for (unsigned bit = 0; bit < 8; bit++) {
			char *changed = exact(text_str(&whole));
			changed[n] ^= (char)(1 << bit);
			privileged_check_question((struct str){ changed, whole.n });
			free(changed);
		}
	}
	text_free(&whole);
}

static void answers_are_whole_or_none(void **state)
{
	struct probe p[3] = { { .end = PROBE_GOOD, .data = "one", .n = 3 },
			      { .end = PROBE_FAILED, .error = ENOENT },
			      { .end = PROBE_STUCK } };
	struct probe_batch b[2] = { { .probes = p, .n = 2 }, { .probes = p + 2, .n = 1 } };
	b[1].stuck = (struct probe_stuck){ .is = true, .at = S("/x"), .stack = S("a"), .wchan = S("b") };
	const struct privileged_answer answer = { .batches = b, .n = 2, .children = 1 };
	struct text whole = { 0 };
	(void)state;
	wire_put(&whole, &privileged_answer_kind, &answer);
	assert_true(privileged_check_answer(text_str(&whole)));
	for (size_t n = 0; n < whole.n; n++) {
		char *cut = exact((struct str){ whole.p, n }), *changed = exact(text_str(&whole));
		assert_false(privileged_check_answer((struct str){ cut, n }));
		changed[n] ^= 0x41;
		privileged_check_answer((struct str){ changed, whole.n });
		free(cut);
		free(changed);
	}
	text_free(&whole);
}

static void only_recordings_are_opened(void **state)
{
	(void)state;
	assert_true(privileged_may_open(S("unhang-0/host.12.recording"), PRIVILEGED_RECORDING));
	assert_true(privileged_may_open(S("unhang-0"), PRIVILEGED_DIRECTORY));
	assert_false(privileged_may_open(S("secret"), PRIVILEGED_RECORDING));
	assert_false(privileged_may_open(S("other-0/host.12.recording"), PRIVILEGED_RECORDING));
	assert_false(privileged_may_open(S("unhang-0/a/host.12.recording"), PRIVILEGED_RECORDING));
	assert_false(privileged_may_open(S("unhang-0/secret"), PRIVILEGED_RECORDING));
	assert_false(privileged_may_open(S("."), PRIVILEGED_DIRECTORY));
	assert_false(privileged_may_open(S("/etc/passwd"), PRIVILEGED_STATUS));
	assert_true(privileged_open_here("../../etc/passwd", PRIVILEGED_STATUS) < 0);
}

static void serve(int fd, const void *ctx)
{
	(void)fd;
	privileged_serve(*(const int *)ctx, getppid());
}

/** Asks a privileged reader of this process's own rights. false: it has ended. */
static bool ask(const struct privileged_question *q, struct arena *a, struct privileged_answer *ret)
{
	int ends[2];
	_cleanup_child_ struct child c;
	_cleanup_text_ struct text bytes = { 0 };
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	assert_true(child_start(CHILD_DOOR, serve, &ends[1], &c));
	close(ends[1]);
	bool answered = privileged_send(ends[0], &privileged_question_kind, q, -1) &&
			privileged_receive(ends[0], &privileged_answer_kind, 1 << 20, &bytes, NULL) &&
			wire_take(text_str(&bytes), &privileged_answer_kind, a, ret);
	close(ends[0]);
	return answered;
}

static enum probe_end probed(const char *path)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct probe p = { .path = path, .size = 64 };
	struct probe_batch b = { .probes = &p, .n = 1 };
	struct privileged_question q = { .batches = &b, .n = 1, .milliseconds = 20000 };
	struct privileged_answer answer;
	assert_true(ask(&q, &a, &answer));
	assert_true(privileged_fill_in(&q, &answer, &(struct probe_count){ 0 }));
	return p.end;
}

static void what_is_not_on_the_list_is_not_read(void **state)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct privileged_answer answer;
	char memory[64];
	(void)state;
	snprintf(memory, sizeof(memory), "/proc/%d/mem", getpid());
	assert_int_equal(probed("/proc/version"), PROBE_GOOD);
	assert_int_equal(probed("/proc/self/status"), PROBE_GOOD);
	assert_int_equal(probed("/etc/passwd"), PROBE_FORBIDDEN);
	assert_int_equal(probed("/sys/kernel/debug/dri/0/amdgpu_gpu_recover"), PROBE_FORBIDDEN);
	assert_int_equal(probed(memory), PROBE_FORBIDDEN); // it holds no GPU
	assert_true(
		ask(&(struct privileged_question){ .task = PRIVILEGED_FILE, .pid = getpid(), .path = "stat" }, &a, &answer));
	assert_int_equal(answer.bytes.n, 0); // the same
	struct privileged_word word = { .pid = getpid(), .address = (uintptr_t)memory, .value = 7, .read = true };
	assert_true(ask(&(struct privileged_question){ .task = PRIVILEGED_WORDS, .words = &word, .nwords = 1 }, &a, &answer));
	assert_true(answer.nwords == 1 && !answer.words[0].read && !answer.words[0].value);
	// Nobody asks these. A tree would have files that are not on the list of this machine's.
	struct probe p = { .path = "/proc/version" };
	struct probe_batch tree = { .probes = &p, .n = 1, .root = "/" };
	const struct privileged_question bad[] = {
		{ .task = PRIVILEGED_FILE, .pid = getpid(), .path = "maps" },
		{ .task = PRIVILEGED_FILE, .pid = getpid() },
		{ .task = PRIVILEGED_TASKS },
		{ .task = PRIVILEGED_SHARED },
		{ .task = PRIVILEGED_FOLLOW, .pid = getpid(), .path = "unhang-0/a.recording" },
		{ .batches = &tree, .n = 1, .milliseconds = 20000 }
	};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(ask(&bad[i], &a, &answer));
}

/** Nobody hears of recordings through the privileged reader but of those of a process that holds a GPU, and of its own user. */
static void only_a_program_s_own_recording_is_followed(void **state)
{
	char directory[64], path[96];
	_cleanup_arena_ struct arena a = { 0 };
	struct privileged_answer answer;
	_cleanup_close_ int inotify = inotify_init1(IN_CLOEXEC);
	(void)state;
	snprintf(directory, sizeof(directory), "/dev/shm/unhang-test-clerk-%d", getpid());
	snprintf(path, sizeof(path), "%s/h.1.recording", directory);
	if (mkdir(directory, 0700))
		skip();
	uh_error_free(save_file(AT_FDCWD, path, S("x"), 0600));
	const char *below = path + sizeof("/dev/shm/") - 1;
	assert_int_equal(privileged_follow_here(below, getpid(), inotify), -1); // it holds no GPU
	assert_int_equal(errno, EPERM);
	const struct privileged_question q = { .task = PRIVILEGED_FOLLOW, .pid = getpid(), .path = below };
	assert_false(ask(&q, &a, &answer)); // without an inotify nobody asks
	unlink(path);
	rmdir(directory);
}

static bool opens(const char *directory, const char *below)
{
	struct door_file *f;
	struct uh_error *err = door_open(&(struct named){ .path = directory, .below = below }, &f);
	bool good = !err;
	uh_error_free(err);
	if (good)
		door_close(f);
	return good;
}

/** In a child: who it is, what it can open itself, and what its privileged reader reads for it. */
static void work_without_rights(int fd, const void *ctx)
{
	char path[64];
	struct arena a = { 0 };
	struct probe_count count = { 0 };
	bool begun = privileged_begin(LOWER_NOGROUP);
	snprintf(path, sizeof(path), "/proc/%d/environ", getppid());
	struct probe p = { .path = path, .size = 64 };
	probe_run(&a, &p, 1, 20000, NULL, &count);
	dprintf(fd, "%d %d %d %d %d", begun, geteuid() == 0, open(path, O_RDONLY) >= 0, open(ctx, O_RDONLY) >= 0,
		p.end == PROBE_GOOD);
	dprintf(fd, " %d %d %d %d", opens(ctx, "code"), opens(ctx, "core"), opens(ctx, "secret"), opens(ctx, "."));
	door_end();
	privileged_end();
}

static void who_is_served_has_no_rights(void **state)
{
	static const char *const names[] = { "code", "core", "secret" };
	static const char contents[][65] = { "\177ELF            \3", "\177ELF            \4", "secret" };
	char name[] = "/tmp/test-clerk-XXXXXX", path[64];
	struct text said = { 0 };
	(void)state;
	if (geteuid())
		skip();
	assert_non_null(mkdtemp(name)); // root's alone
	for (size_t i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", name, names[i]);
		uh_error_free(save_file(AT_FDCWD, path, (struct str){ contents[i], 64 }, 0600));
	}
	const struct child_task task = { CHILD_LINES, .deadline = now_ms() + 60000 };
	assert_int_equal(child_collect(&task, work_without_rights, name, &said), CHILD_GOOD);
	assert_string_equal(said.p, "1 0 0 0 1 1 0 0 0"); // of its files only the code is opened for it
	text_free(&said);
	for (size_t i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", name, names[i]);
		unlink(path);
	}
	rmdir(name);
}

/** Of a library that opens what it takes apart. */
static void work_with_one_right(int fd, const void *ctx)
{
	bool left = lower_keeping(LOWER_NOGROUP, LOWER_READS_FILES);
	dprintf(fd, "%d %d %d %d", left, geteuid() == 0, open(ctx, O_RDONLY) >= 0, open(ctx, O_WRONLY) >= 0);
}

static void one_right_can_be_kept(void **state)
{
	char name[] = "/tmp/test-clerk-XXXXXX";
	struct text said = { 0 };
	(void)state;
	if (geteuid())
		skip();
	close(mkstemp(name));
	const struct child_task task = { CHILD_LINES, .deadline = now_ms() + 60000 };
	assert_int_equal(child_collect(&task, work_with_one_right, name, &said), CHILD_GOOD);
	assert_string_equal(said.p, "1 0 1 0");
	text_free(&said);
	unlink(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(questions_are_whole_or_none),
		cmocka_unit_test(answers_are_whole_or_none),
		cmocka_unit_test(only_recordings_are_opened),
		cmocka_unit_test(what_is_not_on_the_list_is_not_read),
		cmocka_unit_test(only_a_program_s_own_recording_is_followed),
		cmocka_unit_test(who_is_served_has_no_rights),
		cmocka_unit_test(one_right_can_be_kept),
	};
	return cmocka_run_group_tests_name("clerk", tests, NULL, NULL);
}
