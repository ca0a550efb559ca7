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
#include "source/privileged/wire.h"
#include "source/process.h"

enum { END_MS = 200, ANSWER_MOST = 1 << 30 };

/** A process has one, as it has one set of rights. */
static struct privileged {
	struct child child;
	int socket;
	int owner; // its process: one that was forked from it has none
} the_privileged = { .socket = -1 };

struct privileged_start {
	int socket, self;
};

static void privileged_ask_work(int fd, const void *ctx)
{
	const struct privileged_start *s = ctx;
	(void)fd;
	prctl(PR_SET_NAME, "unhang-clerk");
	signal(SIGHUP, SIG_IGN);
	child_keep_only(s->socket);
	privileged_serve(s->socket, s->self);
}

bool privileged_begin(gid_t group)
{
	int ends[2];
	if (geteuid())
		return true;
	door_begin_for_code(); // the child of an older door has rights too
	probe_readers_end();   // and so have they
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return false;
	const struct privileged_start start = { ends[1], getppid() };
	bool begun = child_start(CHILD_PRIVILEGED_READER, privileged_ask_work, &start, &the_privileged.child);
	close(ends[1]);
	if (!begun || !lower_privileges(group)) {
		close(ends[0]);
		return false;
	}
	the_privileged.socket = ends[0];
	the_privileged.owner = getpid();
	return true;
}

bool privileged_reads(void) { return the_privileged.socket >= 0 && the_privileged.owner == getpid(); }

uid_t privileged_uid(void) { return the_privileged.socket >= 0 ? 0 : geteuid(); }

void privileged_take(int socket)
{
	if (the_privileged.socket >= 0)
		the_privileged = (struct privileged){ .socket = socket, .owner = (int)getpid() };
}

void privileged_end(void)
{
	_cleanup_text_ struct text nothing = { 0 };
	if (!privileged_reads())
		return;
	cleanup_close(&the_privileged.socket); // which ends it: root's child cannot be killed from here
	the_privileged.socket = -1;
	child_wait(&the_privileged.child, now_ms() + END_MS, 0, &nothing);
}

/** Asks, and takes the answer apart into @a. false: it is gone, or it could not be done; errno says why. */
static bool privileged_ask(const struct privileged_question *q, int fd, struct arena *a, struct privileged_answer *ret,
			   int *ret_fd)
{
	_cleanup_text_ struct text bytes = { 0 };
	if (!privileged_send(the_privileged.socket, &privileged_question_kind, q, fd) ||
	    !privileged_receive(the_privileged.socket, &privileged_answer_kind, ANSWER_MOST, &bytes, ret_fd) ||
	    !wire_take(text_str(&bytes), &privileged_answer_kind, a, ret) || ret->task != q->task)
		return errno = EIO, false;
	errno = ret->error;
	return !ret->error;
}

int privileged_split(void)
{
	int ends[2];
	_cleanup_arena_ struct arena a = { 0 };
	struct privileged_answer answer;
	if (!privileged_reads() || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return -1;
	_cleanup_close_ int ours = ends[0], other = ends[1];
	return privileged_ask(&(struct privileged_question){ .task = PRIVILEGED_SPLIT }, other, &a, &answer, NULL) ?
		       take_fd(&ours) :
		       -1;
}

void privileged_run_all(struct arena *a, struct probe_batch *batches, size_t n, int milliseconds, struct probe_count *count)
{
	struct probe_patience *patience = count->patience;
	struct privileged_question q = { .batches = batches,
					 .n = n,
					 .milliseconds = milliseconds,
					 .patient = patience,
					 .patience = patience ? patience->left : 0 };
	struct privileged_answer answer;
	const bool good = privileged_ask(&q, -1, a, &answer, NULL) && privileged_fill_in(&q, &answer, count);
	if (good && patience)
		patience->left = q.patience;
	for (size_t i = 0; i < n && !good; i++)
		for (size_t k = 0; k < batches[i].n; k++)
			probe_answered(&batches[i].probes[k], PROBE_FAILED, EIO, (struct str){ 0 });
}

struct str privileged_process_file(int64_t pid, const char *name, char *room, size_t size)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct privileged_question q = { .task = PRIVILEGED_FILE, .pid = pid, .path = name };
	struct privileged_answer answer;
	if (!privileged_reads())
		return process_file(pid, name, room, size);
	const struct str got = privileged_ask(&q, -1, &a, &answer, NULL) ? str_cut(answer.bytes, size) : (struct str){ 0 };
	if (got.n)
		memcpy(room, got.p, got.n);
	return (struct str){ room, got.n };
}

void privileged_read_words(struct privileged_word *words, size_t n)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct privileged_question q = { .task = PRIVILEGED_WORDS, .words = words, .nwords = n };
	struct privileged_answer answer;
	if (!n)
		return;
	if (!privileged_reads()) {
		privileged_words_here(words, n);
		return;
	}
	const bool good = privileged_ask(&q, -1, &a, &answer, NULL) && answer.nwords == n;
	for (size_t i = 0; i < n; i++) {
		words[i].read = good && answer.words[i].read;
		words[i].value = good ? answer.words[i].value : 0;
	}
}

int privileged_open_shared(const char *path, enum privileged_shared how)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct privileged_answer answer;
	int fd = -1;
	if (!privileged_may_open(str_z(path), how))
		return errno = EPERM, -1;
	if (!privileged_reads())
		return privileged_open_here(path, how);
	privileged_ask(&(struct privileged_question){ .task = PRIVILEGED_SHARED, .path = path, .how = how }, -1, &a, &answer,
		       &fd);
	return fd;
}

int privileged_follow_shared(const char *path, int64_t pid, int inotify)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct privileged_question q = { .task = PRIVILEGED_FOLLOW, .pid = pid, .path = path };
	struct privileged_answer answer;
	if (!privileged_may_open(str_z(path), PRIVILEGED_RECORDING))
		return errno = EPERM, -1;
	if (!privileged_reads())
		return privileged_follow_here(path, pid, inotify);
	return privileged_ask(&q, inotify, &a, &answer, NULL) && answer.watch >= 0 ? answer.watch : -1;
}
