// The reader: a child that opens and reads what users and evidence name. It does not parse what it reads, so hostile files cannot attack
// it. It may hang.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/child.h"
#include "base/door/room.h"
#include "base/lower.h"

enum { STEP = 64 << 10, STACK = 256 << 10 };

/** Reads in small steps, so that the parent sees progress even if it is slow. */
static int door_child_read_at(struct door_box *b, int fd, char *to)
{
	for (b->n = 0; b->n < b->size; b->steps++) {
		size_t left = b->size - b->n;
		ssize_t n = pread(fd, to + b->n, left < STEP ? left : STEP, (off_t)(b->offset + b->n));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		if (!n)
			break;
		b->n += (size_t)n;
	}
	return 0;
}

/** A program, a library or GPU code, but no core, which has memory of a process in it. */
static bool door_child_is_code(const struct opened *o)
{
	enum { HEAD = 18, TYPE = 16, CORE = 4 };
	char head[HEAD];
	if (o->fd < 0 || !S_ISREG(o->st.st_mode) || pread(o->fd, head, sizeof(head), 0) != HEAD)
		return false;
	struct str s = { head, HEAD };
	return (str_starts(s, S("\177ELF")) && head[TYPE] != CORE) || str_starts(s, S("__CLANG_OFFLOAD")) ||
	       str_starts(s, S("CCOB"));
}

/** With the right that the child kept aside, where there is one. What turns out to be no code is not handed over. */
static struct uh_error *open_code(const struct named *n, struct opened *ret)
{
	lower_use_kept(true);
	struct uh_error *err = named_open(n, false, ret);
	lower_use_kept(false);
	if (err || door_child_is_code(ret))
		return err;
	if (ret->fd >= 0)
		close(ret->fd);
	*ret = (struct opened){ .fd = -1 };
	return uh_error_os(EACCES, "%s", n->path);
}

static int open_it(const struct door_room *room, struct door_box *b, char *to)
{
	const struct named n = {
		b->path, b->has_below ? b->below : NULL, b->has_root ? b->root : NULL, b->believed, b->as_caller, b->inside
	};
	_cleanup_error_ struct uh_error *err = named_open(&n, b->act == DOOR_LOOK, &b->opened);
	if (err && err->errnum == EACCES && room->for_code && b->act == DOOR_OPEN) {
		uh_error_free(err);
		err = open_code(&n, &b->opened);
	}
	if (b->as_caller)
		prctl(PR_SET_PDEATHSIG, SIGKILL); // which other rights have cleared
	b->n = 0;
	if (err && !err->errnum)
		str_copy(b->why, sizeof(b->why), str_z(err->message));
	if (err)
		return err->errnum ? err->errnum : EPERM;
	b->steps++;
	b->offset = 0;
	return b->opened.fd >= 0 && S_ISREG(b->opened.st.st_mode) ? door_child_read_at(b, b->opened.fd, to) : 0;
}

/** The next bytes of something that cannot be read at any offset. A FIFO's writer may never come: the wait is limited to wait_ms. */
static int door_child_read_next(struct door_box *b, char *to)
{
	struct pollfd wait = { .fd = b->handle, .events = POLLIN };
	int ready;
	do
		ready = poll(&wait, 1, b->wait_ms);
	while (ready < 0 && errno == EINTR);
	if (!ready)
		return ETIMEDOUT;
	ssize_t n = read(b->handle, to, b->size);
	b->n = n < 0 ? 0 : (size_t)n;
	return n < 0 ? errno : 0;
}

static int read_names(struct door_box *b, char *to)
{
	long n = syscall(SYS_getdents64, b->handle, to, b->size);
	b->n = n < 0 ? 0 : (size_t)n;
	return n < 0 ? errno : 0;
}

static void *serve_thread(void *ctx);

static int door_child_begin_thread(struct door_room *room, void *(*work)(void *))
{
	pthread_t thread;
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	int error = pthread_create(&thread, &attributes, work, room);
	pthread_attr_destroy(&attributes);
	return error;
}

void door_serve(struct door_room *room, struct door_box *b)
{
	char *to = (char *)room + b->to;
	switch (b->act) {
	case DOOR_OPEN:
	case DOOR_LOOK:
		b->error = open_it(room, b, to);
		break;
	case DOOR_NAMES:
		b->error = read_names(b, to);
		break;
	case DOOR_READ:
		b->error = door_child_read_at(b, b->handle, to);
		break;
	case DOOR_NEXT:
		b->error = door_child_read_next(b, to);
		break;
	case DOOR_THREAD:
		b->error = door_child_begin_thread(room, serve_thread);
		break;
	}
}

static void serve_box(struct door_room *room, struct door_box *b)
{
	b->thread = (int)syscall(SYS_gettid);
	for (;;) {
		uint32_t turn = b->turn;
		if (!(turn & 1)) {
			futex_wait(&b->turn, turn, 0);
			continue;
		}
		door_serve(room, b);
		b->turn++;
		futex_wake(&b->turn);
	}
}

/** Takes the first box that nobody serves. */
static void *serve_thread(void *ctx)
{
	struct door_room *room = ctx;
	for (unsigned i = 0; i < DOOR_THREADS; i++) {
		int nobody = 0;
		if (atomic_compare_exchange_strong(&room->boxes[i].thread, &nobody, 1))
			serve_box(room, &room->boxes[i]);
	}
	return NULL;
}

static void *close_thread(void *ctx)
{
	struct door_room *room = ctx;
	for (;;) {
		uint32_t asked = room->to_close, done = room->closed;
		if (done == asked) {
			futex_wait(&room->to_close, asked, 0);
			continue;
		}
		close(room->closes[done % DOOR_CLOSES]);
		room->closed++;
	}
	return NULL;
}

void door_child(int pipe, const void *ctx)
{
	const struct door_start *start = ctx;
	child_keep_only(pipe);
	start->room->for_code = start->for_code && child_put_down(CHILD_DOOR_CODE);
	if (start->for_code)
		lower_use_kept(false);
	if (!door_child_begin_thread(start->room, close_thread))
		serve_thread(start->room);
}
