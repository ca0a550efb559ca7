#include "source/feed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/door/door.h"

enum { ROOM = 2 * FEED_MOST, PIPE = 1 << 20, SLICE_MS = 200, END_MS = 2000 };

struct feed_piece {
	uint32_t kind, n;
};

void feed_send(int fd, unsigned kind, struct str a, struct str b)
{
	struct feed_piece p = { kind, (uint32_t)(a.n + b.n) };
	struct iovec parts[] = { { &p, sizeof(p) }, { (void *)a.p, a.n }, { (void *)b.p, b.n } };
	for (size_t i = 0; i < ARRAY_SIZE(parts);) {
		ssize_t n = writev(fd, parts + i, (int)(ARRAY_SIZE(parts) - i));
		if (n < 0 && errno == EAGAIN)
			poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, -1);
		else if (n < 0 && errno != EINTR)
			_exit(0);
		for (; n >= 0 && i < ARRAY_SIZE(parts) && (size_t)n >= parts[i].iov_len; i++)
			n -= (ssize_t)parts[i].iov_len;
		if (n > 0) {
			parts[i].iov_base = (char *)parts[i].iov_base + n;
			parts[i].iov_len -= (size_t)n;
		}
	}
}

struct uh_error *feed_begin(struct feed *f, enum child_name who, const char *name, void (*work)(int fd, const void *ctx),
			    const void *ctx)
{
	*f = (struct feed){ .name = name };
	if (!child_start(who, work, ctx, &f->child))
		return uh_error_os(errno, "%s", name);
	fcntl(f->child.fd, F_SETPIPE_SZ, PIPE);
	fcntl(f->child.fd, F_SETFD, FD_CLOEXEC);
	f->room = mem_large(ROOM);
	return NULL;
}

/** Whether there is something to read, be it the end. */
static bool wait_readable(const struct feed *f)
{
	int64_t last = now_ms();
	uint64_t pulse = 0;
	int patience = door_patience_ms();
	struct pollfd wait = { .fd = f->child.fd, .events = POLLIN };
	while (poll(&wait, 1, SLICE_MS) <= 0) {
		if (child_moves(f->child.pid, f->child.pid, &pulse) || f->endless)
			last = now_ms();
		else if (now_ms() - last >= patience)
			return false;
	}
	return true;
}

static struct uh_error *bad_end(const struct feed *f, enum child_end end)
{
	const char *why =
		end == CHILD_LATE   ? "takes too long to unpack; only what was read before is used" :
		end == CHILD_MEMORY ? "needs too much memory; only what was read before is used" :
				      "its reader crashed: it is damaged, or was truncated while it was read; what was read "
				      "before counts";
	return end == CHILD_GOOD ? NULL : uh_error_new("%s: %s", f->name, why);
}

static int ended(struct feed *f, struct uh_error **ret_err)
{
	_cleanup_text_ struct text nothing = { 0 };
	enum child_end end = child_wait(&f->child, now_ms() + END_MS, 0, &nothing);
	*ret_err = bad_end(f, f->have > f->from && end == CHILD_GOOD ? CHILD_CRASHED : end);
	return *ret_err ? -1 : 0;
}

/** Makes sure that @n bytes are there. 1: they are; 0, -1: as feed_next(). */
static int feed_fill(struct feed *f, size_t n, struct uh_error **ret_err)
{
	if (ROOM - f->from < n) {
		memmove(f->room, f->room + f->from, f->have - f->from);
		f->have -= f->from;
		f->from = 0;
	}
	while (f->have - f->from < n) {
		if (!wait_readable(f)) {
			*ret_err = uh_error_new("%s: does not answer; nothing came for %d s, so it was given up", f->name,
						(door_patience_ms() + 500) / 1000);
			(*ret_err)->errnum = ETIMEDOUT;
			return -1;
		}
		ssize_t got = read(f->child.fd, f->room + f->have, ROOM - f->have);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return ended(f, ret_err);
		f->have += (size_t)got;
	}
	return 1;
}

int feed_next(struct feed *f, struct str *ret, struct uh_error **ret_err)
{
	struct feed_piece p;
	for (;;) {
		*ret_err = NULL;
		int there = feed_fill(f, sizeof(p), ret_err);
		if (there <= 0)
			return there;
		memcpy(&p, f->room + f->from, sizeof(p));
		f->from += sizeof(p);
		there = p.n > FEED_MOST ? -1 : feed_fill(f, p.n, ret_err);
		if (there <= 0) {
			*ret_err = *ret_err ? *ret_err : bad_end(f, CHILD_CRASHED);
			return -1;
		}
		*ret = (struct str){ f->room + f->from, p.n };
		f->from += p.n;
		if (p.kind != FEED_ENDLESS)
			return (int)p.kind;
		f->endless = true;
	}
}

void feed_end(struct feed *f)
{
	child_kill(&f->child, 0);
	free(f->room);
	f->room = NULL;
}
