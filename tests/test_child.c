// Children with a deadline: the limits that they are under, how their end is told, and what is left of them.
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/child.h"
#include "base/door/door.h"
#include "base/lifetime.h"
#include "base/lower.h"
#include "wire_check.h"

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

static struct limits limits_of(const struct child_task *t)
{
	struct text said = { 0 };
	struct limits l;
	assert_int_equal(child_collect(t, tell_limits, NULL, &said), CHILD_GOOD);
	assert_int_equal(said.n, sizeof(l));
	memcpy(&l, said.p, sizeof(l));
	text_free(&said);
	return l;
}

static void ignore(int number) { (void)number; }

static void limits_of_a_child(void **state)
{
	struct rlimit ours;
	(void)state;
	getrlimit(RLIMIT_AS, &ours);
	signal(SIGSEGV, ignore);
	struct limits l = limits_of(&(struct child_task){ CHILD_READER, .deadline = now_ms() + 7500 });
	struct limits without = limits_of(&(struct child_task){ CHILD_DOOR, .deadline = now_ms() + PATIENCE });
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
		const struct child_task task = { CHILD_LINES, .deadline = now_ms() + PATIENCE, .most = BYTES };
		assert_int_equal(child_collect(&task, write_bytes, &n, &said), n <= BYTES ? CHILD_GOOD : CHILD_MEMORY);
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
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		const struct child_task task = { CHILD_LINES, .deadline = now_ms() + PATIENCE };
		assert_int_equal(child_collect(&task, end_badly, ways[i], &said), CHILD_CRASHED);
	}
	assert_true(child_start(CHILD_LINES, end_badly, "wait", &c));
	pid_t pid = c.pid;
	assert_int_equal(child_wait(&c, now_ms() + 20, BYTES, &said), CHILD_LATE);
	assert_int_equal(kill(pid, 0), 0);
	assert_true(child_kill(&c, PATIENCE));
	assert_int_equal(kill(pid, 0), -1); // nothing of it is left, not even its status
	const struct child_task late = { CHILD_LINES, .deadline = now_ms() + 20 };
	assert_int_equal(child_collect(&late, end_badly, "wait", &said), CHILD_LATE);
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
	const struct child_task task = { CHILD_LINES, .deadline = now_ms() + PATIENCE };
	void *room = NULL;
	(void)state;
	assert_int_equal(child_fill(&task, ask_for_too_much, &little, 4096, &room), CHILD_GOOD);
	munmap(room, 4096);
	room = NULL;
	if (ADDRESSES_CHECKED)
		return;
	assert_int_equal(child_fill(&task, ask_for_too_much, &much, 4096, &room), CHILD_MEMORY);
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
	const struct sock_fprog program = { ARRAY_SIZE(filter), filter };
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
	for (size_t i = 0; i < ARRAY_SIZE(sandboxes); i++) {
		struct text said = { 0 };
		const struct child_task task = { CHILD_LINES, .deadline = now_ms() + PATIENCE, .most = 1 };
		assert_int_equal(child_collect(&task, count_descriptors, &sandboxes[i], &said), CHILD_GOOD);
		assert_int_equal(said.n, 1);
		assert_int_equal(said.p[0], 1);
		text_free(&said);
	}
	close(other);
	close(200);
}

// --- answers as structs ---

static void fill_everything(const void *asked, struct arena *a, void *answer)
{
	(void)a;
	*(struct wire_all *)answer = *(const struct wire_all *)asked;
}

/** What one process writes the other reads, whatever it is; cut or changed at any byte it is refused, or is another struct of its kind. */
static void structs_that_are_sent(void **state)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text whole = { 0 };
	struct wire_all got;
	(void)state;
	wire_put(&whole, &wire_all_kind, &wire_all_example);
	assert_true(wire_check(text_str(&whole)));
	for (size_t n = 0; n < whole.n; n++) {
		char *cut = malloc(n ? n : 1);
		memcpy(cut, whole.p, n);
		assert_false(wire_check((struct str){ cut, n }));
		free(cut);
		for (int change = 1; change < 256; change++) {
			whole.p[n] = (char)(whole.p[n] ^ change);
			wire_check(text_str(&whole));
			whole.p[n] = (char)(whole.p[n] ^ change);
		}
	}
	const struct child_task task = { CHILD_SPACE, fill_everything, &wire_all_kind, .deadline = now_ms() + PATIENCE };
	assert_int_equal(child_call(&task, &wire_all_example, &a, &got), CHILD_GOOD);
	assert_int_equal(got.small, -3);
	assert_int_equal(got.large, UINT64_MAX);
	assert_true(got.yes && !got.nothing && got.empty && !*got.empty);
	assert_int_equal(got.n, 3);
	assert_true(got.elements[1].path == got.elements[0].path && !got.elements[2].path);
	assert_string_equal(got.elements[1].path, "/a");
	assert_int_equal(got.part.number, 7);
	assert_true(str_is(got.text, "text") && got.nbytes == 2 && !memcmp(got.bytes, "\0\1", 2));
}

static void lie(const void *asked, struct arena *a, void *answer)
{
	(void)a;
	*(struct wire_all *)answer = wire_all_example;
	((struct wire_all *)answer)->small = *(const int *)asked;
}

static void say_nonsense(const void *asked, struct arena *a, void *answer)
{
	(void)asked, (void)a, (void)answer;
	for (int fd = 3; fd < 16; fd++) // the answer's descriptor is among them
		(void)!write(fd, "nonsense that is as long as a head", 34);
}

static void a_child_that_lies_is_refused(void **state)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct wire_all got;
	struct child_task task = { CHILD_SPACE, lie, &wire_all_kind, .deadline = now_ms() + PATIENCE };
	(void)state;
	for (int number = WIRE_SMALL_MOST - 1; number <= WIRE_SMALL_MOST + 1; number++)
		assert_int_equal(child_call(&task, &number, &a, &got), number <= WIRE_SMALL_MOST ? CHILD_GOOD : CHILD_CRASHED);
	assert_int_equal(got.large, 0); // nothing of it is left
	task.work = say_nonsense;
	assert_int_equal(child_call(&task, NULL, &a, &got), CHILD_CRASHED);
	task.most = 20;
	task.work = lie;
	assert_int_equal(child_call(&task, &(int){ 0 }, &a, &got), CHILD_MEMORY);
	task.deadline = now_ms() - 1;
	task.work = fill_everything;
	assert_int_not_equal(child_call(&task, NULL, &a, &got), CHILD_GOOD); // it crashes, or is late
}

struct rights_told {
	uint64_t user, memory, seconds;
	bool network;
};
static const struct wire_field told_fields[] = {
	WIRE_NUMBER(struct rights_told, user, UINT64_MAX),
	WIRE_NUMBER(struct rights_told, memory, UINT64_MAX),
	WIRE_NUMBER(struct rights_told, seconds, UINT64_MAX),
	WIRE_BOOL(struct rights_told, network),
};
static const struct wire_kind told_kind = WIRE_KIND('r', struct rights_told, told_fields);

static void tell_rights(const void *asked, struct arena *a, void *answer)
{
	struct rlimit memory, time;
	(void)a;
	if (asked && !child_put_down(*(const enum child_name *)asked))
		_exit(1);
	getrlimit(RLIMIT_AS, &memory);
	getrlimit(RLIMIT_CPU, &time);
	const int fd = socket(AF_INET, SOCK_DGRAM, 0);
	*(struct rights_told *)answer = (struct rights_told){ geteuid(), memory.rlim_cur >> 20, time.rlim_cur, fd >= 0 };
}

/** The table is obeyed: user, system calls, memory and time are those of its row. */
static void rights_are_those_of_the_table(void **state)
{
	_cleanup_arena_ struct arena a = { 0 };
	(void)state;
	for (int name = 0; name < CHILDREN; name++) {
		const struct child_rights *r = &child_rights[name];
		const struct child_task task = { (enum child_name)name, tell_rights, &told_kind, .deadline = now_ms() + 90000 };
		struct rights_told told;
		assert_true(r->name && r->what);
		assert_int_equal(child_call(&task, r->later ? &task.name : NULL, &a, &told), CHILD_GOOD);
		const bool lowers = r->user == CHILD_AS_NO_ONE || r->user == CHILD_AS_READING;
		assert_int_equal(told.user, r->user == CHILD_AS_NO_ONE && !geteuid() ? LOWER_NO_ONE : geteuid());
		assert_int_equal(told.network, !lowers);
		if (r->memory && !ADDRESSES_CHECKED)
			assert_int_equal(told.memory, r->memory);
		if (r->memory)
			assert_in_range(told.seconds, 80, 91);
	}
}

/** docs/SECURITY.md has the table as it is. */
static void rights_are_documented(void **state)
{
	static const char *const users[] = { "caller", "no one", "root, reading", "the file's owner" };
	static const struct {
		uint64_t bits;
		const char *name;
	} kept[] = { { LOWER_READS_FILES, "CAP_DAC_READ_SEARCH" }, { LOWER_READS_LOG, "CAP_SYSLOG" } };
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text table = { 0 };
	struct str page = { 0 };
	(void)state;
	for (int name = 0; name < CHILDREN; name++) {
		const struct child_rights *r = &child_rights[name];
		const bool lowers = r->user != CHILD_AS_CALLER;
		text_printf(&table, "| %s | %s | %s | ", r->name, r->what, users[r->user]);
		if (r->user == CHILD_AS_READING)
			text_printf(&table, "to read files, the log and processes");
		for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
			if (r->keeps & kept[i].bits)
				text_printf(&table, "%s%s", table.p[table.n - 1] == ' ' ? "" : ", ", kept[i].name);
		text_printf(&table, "%s| %s | ", table.p[table.n - 1] == ' ' ? (lowers ? "none " : "the caller's ") : " ",
			    lowers ? "yes" : "no");
		if (r->memory)
			text_printf(&table, "%u MB | ", r->memory);
		else
			text_printf(&table, "| ");
		if (r->milliseconds)
			text_printf(&table, "%g s |\n", r->milliseconds / 1000.0);
		else
			text_printf(&table, "|\n");
	}
	struct uh_error *err = root_read(NULL, SEEDS "/../../docs/SECURITY.md", 1 << 20, &a, &page, NULL);
	assert_null(err);
	door_end();
	if (str_find(page, text_str(&table)) < 0) {
		fprintf(stderr, "docs/SECURITY.md lacks this table:\n" STR_FMT, STR_ARG(text_str(&table)));
		fail();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_of_a_child),
		cmocka_unit_test(as_much_as_is_allowed),
		cmocka_unit_test(ends_that_are_not_good),
		cmocka_unit_test(memory_that_is_refused),
		cmocka_unit_test(descriptors_that_are_kept),
		cmocka_unit_test(structs_that_are_sent),
		cmocka_unit_test(a_child_that_lies_is_refused),
		cmocka_unit_test(rights_are_those_of_the_table),
		cmocka_unit_test(rights_are_documented),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
