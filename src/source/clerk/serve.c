// The clerk's side.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/root.h"
#include "source/clerk/wire.h"
#include "source/process.h"

#define SHARED_MEMORY "/dev/shm"
#define KFD_PROCESS "/sys/class/kfd/kfd/proc/%lld"
enum { LINKS_MOST = 65536 };

// --- what may be read ---

bool clerk_may_read(struct str name)
{
	static const char *const names[] = { "stat", "environ", "io", "cgroup" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (str_is(name, names[i]))
			return true;
	return false;
}

bool clerk_may_open(struct str path, enum clerk_shared how)
{
	struct str rest = path, directory = str_split(&rest, '/');
	bool ours = str_starts(directory, S("unhang-")), below = directory.n < path.n;
	if (how == CLERK_STATUS)
		return path.n && path.p[0] != '/';
	if (how == CLERK_DIRECTORY)
		return ours && !below;
	return how == CLERK_RECORDING && ours && str_ends(rest, S(".recording")) && str_find(rest, S("/")) < 0;
}

static bool leads_to_gpu(int directory, const char *name)
{
	char target[64];
	ssize_t n = readlinkat(directory, name, target, sizeof(target));
	struct str to = { target, n > 0 ? (size_t)n : 0 };
	return str_starts(to, S("/dev/dri/")) || str_is(to, "/dev/kfd");
}

/** A clerk must not become a way into the memory of a process that has nothing to do with a GPU. */
static bool holds_gpu(int64_t pid)
{
	char path[64];
	snprintf(path, sizeof(path), KFD_PROCESS, (long long)pid);
	if (!access(path, F_OK))
		return true;
	snprintf(path, sizeof(path), "/proc/%lld/fd", (long long)pid);
	DIR *d = opendir(path);
	bool found = false;
	unsigned n = 0;
	for (const struct dirent *e = d ? readdir(d) : NULL; e && !found && n++ < LINKS_MOST; e = readdir(d))
		found = leads_to_gpu(dirfd(d), e->d_name);
	if (d)
		closedir(d);
	return found;
}

/** The process whose memory a path is; 0: it is none. */
static int64_t memory_of(struct str path)
{
	int64_t pid;
	if (!str_behind(path, S("/proc/"), &path))
		return 0;
	struct str number = str_split(&path, '/');
	return str_is(path, "mem") && str_number(number, &pid) ? pid : 0;
}

/** Who is served asks about the process that started it: its own rights and filters are none of the machine's. */
static void name_self(struct probe_batch *b, struct arena *a, int self)
{
	for (size_t i = 0; i < b->n; i++) {
		struct probe *p = &b->probes[i];
		struct str rest;
		if (str_behind(str_z(p->path), S("/proc/self/"), &rest))
			p->path = arena_printf(a, "/proc/%d/" STR_FMT, self, STR_ARG(rest)).p;
	}
}

static void forbid_memory(struct probe_batch *b)
{
	int64_t asked = 0;
	bool may = false;
	for (size_t i = 0; i < b->n; i++) {
		int64_t pid = memory_of(str_z(b->probes[i].path));
		if (pid && pid != asked)
			may = holds_gpu(pid);
		asked = pid ? pid : asked;
		b->probes[i].dead |= pid && !may; // what is dead is not asked
	}
}

// --- tasks ---

/** false: nobody that is served would ask this. */
static bool answer_probes(struct str question, int self, struct text *to)
{
	struct arena a = { 0 };
	struct clerk_question q;
	bool good = clerk_take_question(question, &a, &q);
	if (good) {
		struct probe_patience patience = { q.patience, NULL };
		struct probe_count count = { .patience = q.patient ? &patience : NULL };
		for (size_t i = 0; i < q.n; i++) {
			name_self(&q.batches[i], &a, self);
			forbid_memory(&q.batches[i]);
		}
		probe_run_machine(&a, q.batches, q.n, q.milliseconds, &count);
		q.patience = patience.left;
		clerk_put_answer(to, &q, &count);
	}
	arena_free(&a);
	return good;
}

static bool answer_file(struct str question, struct text *to)
{
	struct tape_cursor c = { question };
	int64_t pid = (int64_t)tape_take_number(&c, 8);
	struct str name = tape_take_text(&c);
	char known[16];
	if (c.short_of || c.left.n || pid <= 0 || !clerk_may_read(name))
		return false;
	str_copy(known, sizeof(known), name);
	if (holds_gpu(pid))
		to->n += process_file(pid, known, text_room(to, CLERK_FILE_MOST), CLERK_FILE_MOST).n;
	return true;
}

void clerk_words_here(struct clerk_word *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct clerk_word *w = &words[i];
		const struct iovec to = { &w->value, sizeof(w->value) },
				   from = { (void *)(uintptr_t)w->address, sizeof(w->value) };
		w->read = process_vm_readv((pid_t)w->pid, &to, 1, &from, 1, 0) == (ssize_t)sizeof(w->value);
	}
}

static bool answer_words(struct str question, struct text *to)
{
	struct tape_cursor c = { question };
	size_t n = question.n / 16;
	struct clerk_word w = { 0 };
	int64_t asked = 0;
	bool may = false;
	if (question.n % 16 || n > CLERK_WORDS_MOST)
		return false;
	for (size_t i = 0; i < n; i++) {
		w = (struct clerk_word){ .pid = (int64_t)tape_take_number(&c, 8) };
		w.address = tape_take_number(&c, 8);
		if (w.pid != asked)
			may = w.pid > 0 && w.pid <= INT32_MAX && holds_gpu(w.pid);
		asked = w.pid;
		if (may)
			clerk_words_here(&w, 1);
		tape_put_number(to, w.read, 1);
		tape_put_number(to, w.value, 8);
	}
	return true;
}

int clerk_open_here(const char *path, enum clerk_shared how)
{
	static const int flags[] = { [CLERK_RECORDING] = O_RDONLY | O_NONBLOCK | O_NOCTTY,
				     [CLERK_DIRECTORY] = O_RDONLY | O_NONBLOCK | O_DIRECTORY,
				     [CLERK_STATUS] = O_PATH };
	struct stat st;
	_cleanup_close_ int top = open(SHARED_MEMORY, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = top < 0 ? -1 : root_open_beneath(top, path, flags[how]);
	if (fd >= 0 && how == CLERK_RECORDING && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
		close(fd);
		return errno = EINVAL, -1;
	}
	return fd;
}

/** By its descriptor: what the path leads to may be another file by now. */
int clerk_follow_here(const char *path, int64_t pid, int inotify)
{
	char name[64];
	struct stat process, file;
	_cleanup_close_ int fd = clerk_open_here(path, CLERK_RECORDING);
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

static bool answer_follow(struct str question, int inotify, struct clerk_head *head, struct text *to)
{
	struct tape_cursor c = { question };
	struct arena a = { 0 };
	int64_t pid = (int64_t)tape_take_number(&c, 8);
	struct str path = tape_take_text(&c);
	bool good = !c.short_of && !c.left.n && pid > 0 && inotify >= 0 && clerk_may_open(path, CLERK_RECORDING);
	int found = good ? clerk_follow_here(arena_z(&a, path), pid, inotify) : -1;
	head->error = found < 0 ? errno : 0;
	if (found >= 0)
		tape_put_number(to, (unsigned)found, 4);
	arena_free(&a);
	return good;
}

static bool answer_shared(struct str question, struct clerk_head *head, int *ret_fd)
{
	struct tape_cursor c = { question };
	struct arena a = { 0 };
	unsigned how = (unsigned)tape_take_number(&c, 1);
	struct str path = tape_take_text(&c);
	bool good = !c.short_of && !c.left.n && how <= CLERK_STATUS && clerk_may_open(path, (enum clerk_shared)how);
	if (good) {
		*ret_fd = clerk_open_here(arena_z(&a, path), (enum clerk_shared)how);
		head->error = *ret_fd < 0 ? errno : 0;
	}
	arena_free(&a);
	return good;
}

/** Another clerk, which serves @other. It ends with this one, or when nobody asks it. */
static int split(int socket, int other, int self)
{
	const int parent = (int)getpid();
	if (other < 0)
		return EINVAL;
	pid_t pid = fork();
	if (pid == 0) {
		child_of(parent);
		close(socket);
		clerk_serve(other, self);
		_exit(0);
	}
	return pid < 0 ? errno : 0;
}

void clerk_serve(int socket, int self)
{
	struct clerk_head head;
	struct text question = { 0 };
	bool good = true;
	int sent = -1;
	while (good && clerk_receive(socket, &head, CLERK_QUESTION_MOST, &question, &sent)) {
		struct text to = { 0 };
		_cleanup_close_ int fd = -1, other = sent;
		struct str asked = text_str(&question);
		head.error = 0;
		switch (head.task < CLERK_TASKS ? (enum clerk_task)head.task : CLERK_TASKS) {
		case CLERK_PROBE:
			good = answer_probes(asked, self, &to);
			break;
		case CLERK_FILE:
			good = answer_file(asked, &to);
			break;
		case CLERK_WORDS:
			good = answer_words(asked, &to);
			break;
		case CLERK_SHARED:
			good = answer_shared(asked, &head, &fd);
			break;
		case CLERK_SPLIT:
			head.error = split(socket, other, self);
			break;
		case CLERK_FOLLOW:
			good = answer_follow(asked, other, &head, &to);
			break;
		case CLERK_TASKS:
			good = false;
			break;
		}
		head.size = to.n;
		good = good && clerk_send(socket, &head, text_str(&to), fd);
		text_free(&to);
	}
	text_free(&question);
}
