// Children with a deadline: the limits that they are under, how their end is told, and what is left of them.
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/child.h"
#include "base/lifetime.h"

enum { PATIENCE = 60000, BYTES = 100, GIGABYTE = 1 << 30 };

struct limits {
	struct rlimit memory, time, core;
	bool silent;  // it has no standard error
	bool plainly; // no handler of the parent's for crashes
};

static void tell_limits(int fd, const void *ctx)
{
	struct limits l = { .silent = fcntl(STDERR_FILENO, F_GETFD) < 0 };
	struct sigaction segv;
	(void)ctx;
	getrlimit(RLIMIT_AS, &l.memory);
	getrlimit(RLIMIT_CPU, &l.time);
	getrlimit(RLIMIT_CORE, &l.core);
	sigaction(SIGSEGV, NULL, &segv);
	l.plainly = segv.sa_handler == SIG_DFL;
	if (write(fd, &l, sizeof(l)) != sizeof(l))
		_exit(1);
}

static struct limits limits_of(struct child *c)
{
	struct text said = { 0 };
	struct limits l;
	assert_int_equal(child_wait(c, now_ms() + PATIENCE, sizeof(l), &said), CHILD_GOOD);
	assert_int_equal(said.n, sizeof(l));
	memcpy(&l, said.p, sizeof(l));
	text_free(&said);
	return l;
}

static void ignore(int number) { (void)number; }

static void limits_of_a_child(void **state)
{
	struct child c;
	struct rlimit ours;
	(void)state;
	getrlimit(RLIMIT_AS, &ours);
	signal(SIGSEGV, ignore);
	assert_true(child_begin(tell_limits, NULL, 7500, &c));
	struct limits l = limits_of(&c);
	assert_true(child_begin_free(tell_limits, NULL, &c));
	struct limits without = limits_of(&c);
	signal(SIGSEGV, SIG_DFL);
	assert_true(l.plainly && without.plainly);
	assert_int_equal(l.time.rlim_cur, 8);
	assert_int_equal(l.core.rlim_max, 0);
	assert_int_equal(without.core.rlim_max, 0);
	assert_int_equal(without.memory.rlim_cur, ours.rlim_cur);
	assert_false(without.silent);
	if (!ADDRESSES_CHECKED) {
		assert_int_equal(l.memory.rlim_cur, GIGABYTE);
		assert_int_equal(l.memory.rlim_max, GIGABYTE);
		assert_true(l.silent);
	}
}

static void write_bytes(int fd, const void *ctx)
{
	char bytes[2 * BYTES] = { 0 };
	if (write(fd, bytes, *(const size_t *)ctx) < 0)
		_exit(1);
}

static void as_much_as_is_allowed(void **state)
{
	(void)state;
	for (size_t n = BYTES - 1; n <= BYTES + 1; n++) {
		struct text said = { 0 };
		assert_int_equal(child_run(write_bytes, &n, PATIENCE, BYTES, &said), n <= BYTES);
		if (n <= BYTES)
			assert_int_equal(said.n, n);
		text_free(&said);
	}
}

static void end_badly(int fd, const void *ctx)
{
	const char *how = ctx;
	(void)fd;
	if (*how == 's')
		_exit(3);
	if (*how == 'a')
		abort();
	for (;;)
		pause();
}

static void ends_that_are_not_good(void **state)
{
	static const char *const ways[] = { "status", "abort" };
	struct text said = { 0 };
	struct child c;
	(void)state;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		assert_true(child_begin(end_badly, ways[i], PATIENCE, &c));
		assert_int_equal(child_wait(&c, now_ms() + PATIENCE, BYTES, &said), CHILD_CRASHED);
		assert_false(child_run(end_badly, ways[i], PATIENCE, BYTES, &said));
	}
	assert_true(child_begin(end_badly, "wait", PATIENCE, &c));
	pid_t pid = c.pid;
	assert_int_equal(child_wait(&c, now_ms() + 20, BYTES, &said), CHILD_LATE);
	assert_int_equal(kill(pid, 0), 0);
	assert_true(child_kill(&c, PATIENCE));
	assert_int_equal(kill(pid, 0), -1); // nothing of it is left, not even its status
	assert_false(child_run(end_badly, "wait", 20, BYTES, &said));
	assert_int_equal(said.n, 0);
	text_free(&said);
}

static void ask_for_too_much(void *room, size_t size, const void *ctx)
{
	(void)size;
	*(void **)room = mem_alloc(*(const size_t *)ctx);
}

static void memory_that_is_refused(void **state)
{
	const size_t little = 1 << 20, much = GIGABYTE;
	void *room = NULL;
	(void)state;
	assert_int_equal(child_fill(ask_for_too_much, &little, PATIENCE, 4096, &room), CHILD_GOOD);
	munmap(room, 4096);
	room = NULL;
	if (ADDRESSES_CHECKED)
		return;
	assert_int_equal(child_fill(ask_for_too_much, &much, PATIENCE, 4096, &room), CHILD_MEMORY);
	assert_null(room);
}

/** System calls that a child does not have; 0: none. */
struct denied {
	unsigned calls[2];
	int why;
};

static void deny(const struct denied *d)
{
	const uint32_t no = SECCOMP_RET_ERRNO | (uint32_t)d->why;
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, d->calls[0], 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, d->calls[1] ? d->calls[1] : d->calls[0], 0, 1),
		BPF_STMT(BPF_RET | BPF_K, no),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(1);
}

static void count_descriptors(int fd, const void *ctx)
{
	const struct denied *d = ctx;
	char open = 0;
	if (d->calls[0])
		deny(d);
	child_keep_only(fd);
	for (int i = STDERR_FILENO + 1; i < 256; i++)
		open += fcntl(i, F_GETFD) >= 0;
	if (write(fd, &open, 1) != 1)
		_exit(1);
}

/** What a child that is stuck keeps open, those who read unhang's output would wait for. */
static void descriptors_that_are_kept(void **state)
{
	// An old kernel; an old container runtime; and one without /proc.
	static const struct denied sandboxes[] = { { .why = 0 },
						   { { SYS_close_range }, ENOSYS },
						   { { SYS_close_range }, EPERM },
						   { { SYS_close_range, SYS_openat }, EPERM } };
	(void)state;
	int other = open("/dev/null", O_RDONLY);
	assert_true(other >= 0);
	assert_int_equal(fcntl(other, F_DUPFD, 200), 200);
	for (size_t i = 0; i < sizeof(sandboxes) / sizeof(sandboxes[0]); i++) {
		struct text said = { 0 };
		assert_true(child_run(count_descriptors, &sandboxes[i], PATIENCE, 1, &said));
		assert_int_equal(said.n, 1);
		assert_int_equal(said.p[0], 1);
		text_free(&said);
	}
	close(other);
	close(200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_of_a_child),         cmocka_unit_test(as_much_as_is_allowed),
		cmocka_unit_test(ends_that_are_not_good),    cmocka_unit_test(memory_that_is_refused),
		cmocka_unit_test(descriptors_that_are_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
