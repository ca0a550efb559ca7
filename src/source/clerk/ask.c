// The side of the one that is served.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/lower.h"
#include "source/clerk/wire.h"
#include "source/process.h"

enum { END_MS = 200, ANSWER_MOST = 1 << 30 };

/** A process has one, as it has one set of rights. */
static struct clerk {
	struct child child;
	int socket;
	int owner; // its process: one that was forked from it has none
} the_clerk = { .socket = -1 };

struct clerk_start {
	int socket, self;
};

static void work(int fd, const void *ctx)
{
	const struct clerk_start *s = ctx;
	(void)fd;
	prctl(PR_SET_NAME, "unhang-clerk");
	signal(SIGHUP, SIG_IGN);
	child_keep_only(s->socket);
	lower_to_reading();
	clerk_serve(s->socket, s->self);
}

bool clerk_begin(gid_t group)
{
	int ends[2];
	if (geteuid())
		return true;
	door_begin_for_code(); // the child of an older door has rights too
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return false;
	const struct clerk_start start = { ends[1], getppid() };
	bool begun = child_begin_free(work, &start, &the_clerk.child);
	close(ends[1]);
	if (!begun || !lower_privileges(group)) {
		close(ends[0]);
		return false;
	}
	the_clerk.socket = ends[0];
	the_clerk.owner = getpid();
	return true;
}

bool clerk_reads(void) { return the_clerk.socket >= 0 && the_clerk.owner == getpid(); }

uid_t clerk_uid(void) { return the_clerk.socket >= 0 ? 0 : geteuid(); }

int clerk_split(void)
{
	int ends[2];
	struct clerk_head head = { .task = CLERK_SPLIT };
	struct text nothing = { 0 };
	if (!clerk_reads() || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return -1;
	bool good = clerk_send(the_clerk.socket, &head, (struct str){ 0 }, ends[1]) &&
		    clerk_receive(the_clerk.socket, &head, 0, &nothing, NULL) && !head.error;
	close(ends[1]);
	if (!good)
		cleanup_close(&ends[0]);
	text_free(&nothing);
	return good ? ends[0] : -1;
}

void clerk_take(int socket)
{
	if (the_clerk.socket >= 0)
		the_clerk = (struct clerk){ .socket = socket, .owner = (int)getpid() };
}

void clerk_end(void)
{
	struct text nothing = { 0 };
	if (!clerk_reads())
		return;
	cleanup_close(&the_clerk.socket); // which ends it: root's child cannot be killed from here
	the_clerk.socket = -1;
	child_wait(&the_clerk.child, now_ms() + END_MS, 0, &nothing);
	text_free(&nothing);
}

/** false: it is gone, or it could not be done; errno says why. */
static bool ask_with(enum clerk_task task, struct str question, int fd, struct text *ret, int *ret_fd)
{
	struct clerk_head head = { .task = task, .size = question.n };
	if (!clerk_send(the_clerk.socket, &head, question, fd) ||
	    !clerk_receive(the_clerk.socket, &head, ANSWER_MOST, ret, ret_fd) || head.task != (uint32_t)task)
		return errno = EIO, false;
	errno = head.error;
	return !head.error;
}

static bool ask(enum clerk_task task, struct str question, struct text *ret, int *ret_fd)
{
	return ask_with(task, question, -1, ret, ret_fd);
}

static void fail_all(struct clerk_question *q)
{
	for (size_t i = 0; i < q->n; i++)
		for (size_t k = 0; k < q->batches[i].n; k++) {
			struct probe *p = &q->batches[i].probes[k];
			p->end = PROBE_FAILED;
			p->error = EIO;
			p->data = NULL;
			p->n = 0;
		}
}

void clerk_run_all(struct arena *a, struct probe_batch *batches, size_t n, int milliseconds, struct probe_count *count)
{
	struct probe_patience *patience = count->patience;
	struct clerk_question q = { batches, n, milliseconds, patience != NULL, patience ? patience->left : 0 };
	struct text question = { 0 }, answer = { 0 };
	clerk_put_question(&question, &q);
	if (!ask(CLERK_PROBE, text_str(&question), &answer, NULL) || !clerk_take_answer(text_str(&answer), a, &q, count))
		fail_all(&q);
	else if (patience)
		patience->left = q.patience;
	text_free(&question);
	text_free(&answer);
}

struct str clerk_process_file(int64_t pid, const char *name, char *room, size_t size)
{
	struct text question = { 0 }, answer = { 0 };
	size_t n = 0;
	if (!clerk_reads())
		return process_file(pid, name, room, size);
	tape_put_number(&question, (uint64_t)pid, 8);
	tape_put_text(&question, str_z(name));
	if (ask(CLERK_FILE, text_str(&question), &answer, NULL))
		n = answer.n < size ? answer.n : size;
	if (n)
		memcpy(room, answer.p, n);
	text_free(&question);
	text_free(&answer);
	return (struct str){ room, n };
}

void clerk_read_words(struct clerk_word *words, size_t n)
{
	struct text question = { 0 }, answer = { 0 };
	if (!n)
		return;
	if (!clerk_reads()) {
		clerk_words_here(words, n);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		tape_put_number(&question, (uint64_t)words[i].pid, 8);
		tape_put_number(&question, words[i].address, 8);
	}
	bool good = ask(CLERK_WORDS, text_str(&question), &answer, NULL);
	struct tape_cursor c = { text_str(&answer) };
	for (size_t i = 0; i < n; i++) {
		words[i].read = good && tape_take_number(&c, 1);
		words[i].value = good ? tape_take_number(&c, 8) : 0;
	}
	text_free(&question);
	text_free(&answer);
}

int clerk_open_shared(const char *path, enum clerk_shared how)
{
	struct text question = { 0 }, answer = { 0 };
	int fd = -1;
	if (!clerk_may_open(str_z(path), how))
		return errno = EPERM, -1;
	if (!clerk_reads())
		return clerk_open_here(path, how);
	tape_put_number(&question, (unsigned)how, 1);
	tape_put_text(&question, str_z(path));
	ask(CLERK_SHARED, text_str(&question), &answer, &fd);
	text_free(&question);
	text_free(&answer);
	return fd;
}

int clerk_follow_shared(const char *path, int64_t pid, int inotify)
{
	struct text question = { 0 }, answer = { 0 };
	int found = -1;
	if (!clerk_may_open(str_z(path), CLERK_RECORDING))
		return errno = EPERM, -1;
	if (!clerk_reads())
		return clerk_follow_here(path, pid, inotify);
	tape_put_number(&question, (uint64_t)pid, 8);
	tape_put_text(&question, str_z(path));
	if (ask_with(CLERK_FOLLOW, text_str(&question), inotify, &answer, NULL)) {
		struct tape_cursor c = { text_str(&answer) };
		const uint64_t n = tape_take_number(&c, 4);
		found = c.short_of || n > INT32_MAX ? -1 : (int)n;
	}
	text_free(&question);
	text_free(&answer);
	return found;
}
