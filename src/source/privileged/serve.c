// The privileged reader's side.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/root.h"
#include "source/privileged/wire.h"
#include "source/process.h"

#define SHARED_MEMORY "/dev/shm"
#define KFD_PROCESS "/sys/class/kfd/kfd/proc/%lld"
enum { LINKS_MOST = 65536, IDLE_MS = 1000 };

// --- what may be read ---

bool privileged_may_open(struct str path, enum privileged_shared how)
{
	struct str rest = path, directory = str_split(&rest, '/');
	bool ours = str_starts(directory, S("unhang-")), below = directory.n < path.n;
	if (how == PRIVILEGED_STATUS)
		return path.n && path.p[0] != '/';
	if (how == PRIVILEGED_DIRECTORY)
		return ours && !below;
	return how == PRIVILEGED_RECORDING && ours && str_ends(rest, S(".recording")) && str_find(rest, S("/")) < 0;
}

/** A privileged reader must not become a way into the memory of a process that has nothing to do with a GPU. */
static bool holds_gpu(int64_t pid)
{
	char path[64], target[64];
	snprintf(path, sizeof(path), KFD_PROCESS, (long long)pid);
	if (!access(path, F_OK))
		return true;
	snprintf(path, sizeof(path), "/proc/%lld/fd", (long long)pid);
	_cleanup_dir_ DIR *d = opendir(path);
	bool found = false;
	unsigned links = 0;
	for (const struct dirent *e = d ? readdir(d) : NULL; e && !found && links++ < LINKS_MOST; e = readdir(d)) {
		const ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof(target));
		const struct str to = { target, n > 0 ? (size_t)n : 0 };
		found = str_starts(to, S("/dev/dri/")) || str_is(to, "/dev/kfd");
	}
	return found;
}

/** Who is served asks about the process that started it: its own rights and filters are none of the machine's. Memory is read only of
 * processes that hold a GPU. */
static void prepare_batch(struct probe_batch *b, struct arena *a, int self)
{
	int64_t asked = 0;
	bool may = false;
	for (size_t i = 0; i < b->n; i++) {
		struct probe *p = &b->probes[i];
		struct str rest = { 0 };
		int64_t pid = 0;
		if (str_behind(str_z(p->path), S("/proc/self/"), &rest))
			p->path = arena_printf(a, "/proc/%d/" STR_FMT, self, STR_ARG(rest)).p;
		const bool process = str_behind(str_z(p->path), S("/proc/"), &rest);
		struct str number = str_split(&rest, '/');
		if (!process || !str_is(rest, "mem") || !str_number(number, &pid) || !pid)
			continue;
		if (pid != asked)
			may = holds_gpu(pid);
		asked = pid;
		p->dead |= !may; // what is dead is not asked
	}
}

// --- tasks ---

static void answer_probes(struct privileged_question *q, int self, struct arena *a, struct privileged_answer *ret)
{
	struct probe_patience patience = { q->patience, NULL };
	struct probe_count count = { .patience = q->patient ? &patience : NULL };
	for (size_t i = 0; i < q->n; i++)
		prepare_batch(&q->batches[i], a, self);
	probe_run_machine(a, q->batches, q->n, q->milliseconds, &count);
	ret->batches = q->batches;
	ret->n = q->n;
	ret->children = count.children;
	ret->operations = count.operations;
	ret->patience = patience.left;
}

void privileged_words_here(struct privileged_word *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct privileged_word *w = &words[i];
		const struct iovec to = { &w->value, sizeof(w->value) },
				   from = { (void *)(uintptr_t)w->address, sizeof(w->value) };
		w->read = process_vm_readv((pid_t)w->pid, &to, 1, &from, 1, 0) == (ssize_t)sizeof(w->value);
	}
}

/** Of processes that hold no GPU none is read. */
static void answer_words(struct privileged_question *q, struct privileged_answer *ret)
{
	int64_t asked = 0;
	bool may = false;
	for (size_t i = 0; i < q->nwords; i++) {
		struct privileged_word *w = &q->words[i];
		if (w->pid != asked)
			may = w->pid > 0 && holds_gpu(w->pid);
		asked = w->pid;
		w->read = false;
		w->value = 0;
		if (may)
			privileged_words_here(w, 1);
	}
	ret->words = q->words;
	ret->nwords = q->nwords;
}

int privileged_open_here(const char *path, enum privileged_shared how)
{
	static const int flags[] = { [PRIVILEGED_RECORDING] = O_RDONLY | O_NONBLOCK | O_NOCTTY,
				     [PRIVILEGED_DIRECTORY] = O_RDONLY | O_NONBLOCK | O_DIRECTORY,
				     [PRIVILEGED_STATUS] = O_PATH };
	struct stat st;
	_cleanup_close_ int top = open(SHARED_MEMORY, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = top < 0 ? -1 : root_open_on_mount(top, path, flags[how]);
	if (fd >= 0 && how == PRIVILEGED_RECORDING && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
		close(fd);
		return errno = EINVAL, -1;
	}
	return fd;
}

/** By its descriptor: what the path leads to may be another file by now. */
int privileged_follow_here(const char *path, int64_t pid, int inotify)
{
	char name[64];
	struct stat process, file;
	_cleanup_close_ int fd = privileged_open_here(path, PRIVILEGED_RECORDING);
	if (fd < 0)
		return -1;
	snprintf(name, sizeof(name), "/proc/%lld", (long long)pid);
	if (stat(name, &process) || fstat(fd, &file))
		return -1;
	if (process.st_uid != file.st_uid || !holds_gpu(pid))
		return errno = EPERM, -1;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return inotify_add_watch(inotify, name, IN_ATTRIB);
}

/** Another privileged reader, which serves @other. It ends with this one, or when nobody asks it. */
static int split(int socket, int other, int self)
{
	const int parent = (int)getpid();
	if (other < 0)
		return EINVAL;
	pid_t pid = fork();
	if (pid == 0) {
		child_of(parent);
		close(socket);
		privileged_serve(other, self);
		_exit(0);
	}
	return pid < 0 ? errno : 0;
}

/** Does what is asked. @sent: a descriptor that came with the question, or -1. false: nobody that is served would
 * ask this. */
static bool privileged_do(struct privileged_question *q, int socket, int self, int sent, struct arena *a,
			  struct privileged_answer *ret)
{
	switch (q->task) {
	case PRIVILEGED_PROBE:
		answer_probes(q, self, a, ret);
		return true;
	case PRIVILEGED_FILE:
		if (q->pid <= 0 || !q->path || !str_among(str_z(q->path), STR_EQUALS, "stat|environ|io|cgroup").n)
			return false;
		if (holds_gpu(q->pid))
			ret->bytes = process_file(q->pid, q->path, arena_alloc(a, PRIVILEGED_FILE_MOST), PRIVILEGED_FILE_MOST);
		return true;
	case PRIVILEGED_WORDS:
		answer_words(q, ret);
		return true;
	case PRIVILEGED_SHARED:
		if (!q->path || !privileged_may_open(str_z(q->path), q->how))
			return false;
		ret->fd = privileged_open_here(q->path, q->how);
		ret->error = ret->fd < 0 ? errno : 0;
		return true;
	case PRIVILEGED_SPLIT:
		ret->error = split(socket, sent, self);
		return true;
	case PRIVILEGED_FOLLOW:
		if (q->pid <= 0 || sent < 0 || !q->path || !privileged_may_open(str_z(q->path), PRIVILEGED_RECORDING))
			return false;
		ret->watch = privileged_follow_here(q->path, q->pid, sent);
		ret->error = ret->watch < 0 ? errno : 0;
		return true;
	case PRIVILEGED_TASKS:
		break;
	}
	return false;
}

void privileged_serve(int socket, int self)
{
	_cleanup_text_ struct text bytes = { 0 };
	int sent = -1;
	for (bool good = true; good;) {
		_cleanup_arena_ struct arena a = { 0 };
		struct privileged_question q;
		// When no question comes for a while, those who read end, since a watch may ask nothing for days.
		if (!poll(&(struct pollfd){ .fd = socket, .events = POLLIN }, 1, IDLE_MS))
			probe_readers_end();
		good = privileged_receive(socket, &privileged_question_kind, PRIVILEGED_QUESTION_MOST, &bytes, &sent);
		_cleanup_close_ int other = take_fd(&sent);
		if (!good || !privileged_take_question(text_str(&bytes), &a, &q))
			break;
		struct privileged_answer answer = { .task = q.task, .fd = -1 };
		good = privileged_do(&q, socket, self, other, &a, &answer) &&
		       privileged_send(socket, &privileged_answer_kind, &answer, answer.fd);
		cleanup_close(&answer.fd);
	}
}
