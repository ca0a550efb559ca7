// A library's work in a copy of the module. The page keeps what the copy sends, outside of the module's memory.
#include "source/feed.h"

#include <stdlib.h>

#include "machine/page.h"

struct feed_piece {
	uint32_t kind, n;
};

void feed_send(int fd, unsigned kind, struct str a, struct str b)
{
	const struct feed_piece p = { kind, (uint32_t)(a.n + b.n) };
	page_write(fd, &p, sizeof(p));
	page_write(fd, a.p, a.n);
	page_write(fd, b.p, b.n);
}

struct uh_error *feed_begin(struct feed *f, enum child_name who, const char *name, void (*work)(int fd, const void *ctx),
			    const void *ctx)
{
	(void)who;
	*f = (struct feed){ .name = name, .room = mem_large(FEED_MOST) };
	// How it ended is told when all that it sent before was taken.
	f->child.pid = (int)page_child(work, ctx, &f->child.fd);
	return NULL;
}

static struct uh_error *bad_end(const struct feed *f)
{
	if (f->child.pid == PAGE_MEMORY)
		return uh_error_new("%s: needs too much memory; only what was read before is used", f->name);
	return uh_error_new(
		"%s: its reader crashed: it is damaged, or was truncated while it was read; what was read before counts",
		f->name);
}

int feed_next(struct feed *f, struct str *ret, struct uh_error **ret_err)
{
	struct feed_piece p;
	*ret_err = NULL;
	for (;;) {
		size_t n = page_take(f->child.fd, &p, sizeof(p));
		if (!n && f->child.pid == PAGE_GOOD)
			return 0;
		if (n < sizeof(p) || p.n > FEED_MOST || page_take(f->child.fd, f->room, p.n) < p.n) {
			*ret_err = bad_end(f);
			return -1;
		}
		*ret = (struct str){ f->room, p.n };
		if (p.kind != FEED_ENDLESS)
			return (int)p.kind;
	}
}

void feed_end(struct feed *f)
{
	page_close(f->child.fd);
	free(f->room);
	f->room = NULL;
}
