// The door of a page: behind it are the files that were given, and nothing else.
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "base/child.h"
#include "base/door/room.h"
#include "machine/page.h"

struct uh_error *named_open(const struct named *n, bool look, struct opened *ret)
{
	struct text path = { 0 };
	double size = 0;
	*ret = (struct opened){ .fd = -1 };
	text_printf(&path, "%s%s%s", n->path, n->below ? "/" : "", n->below ? n->below : "");
	// Files that only root or the caller can have written there are none of.
	enum page_kind kind = n->root || n->believed ? PAGE_NOTHING : page_open(path.p, path.n, &ret->fd, &size);
	struct uh_error *err = kind == PAGE_NOTHING ? uh_error_os(ENOENT, "%s", path.p) : NULL;
	text_free(&path);
	if (err)
		return err;
	ret->st.st_mode = kind == PAGE_FILE ? S_IFREG | 0444 : S_IFDIR | 0555;
	ret->st.st_size = (off_t)size;
	if (look) {
		page_close(ret->fd);
		ret->fd = -1;
	}
	return NULL;
}

static int read_at(struct door_box *b, int fd, char *to)
{
	int n = page_read(fd, (double)b->offset, to, b->size);
	b->n = n < 0 ? 0 : (size_t)n;
	return n < 0 ? EIO : 0;
}

static int open_it(struct door_box *b, char *to)
{
	const struct named n = { .path = b->path,
				 .below = b->has_below ? b->below : NULL,
				 .root = b->has_root ? b->root : NULL,
				 .believed = b->believed };
	struct uh_error *err = named_open(&n, b->act == DOOR_LOOK, &b->opened);
	const int error = err ? err->errnum : 0;
	uh_error_free(err);
	b->n = 0;
	b->offset = 0;
	return !error && b->opened.fd >= 0 && S_ISREG(b->opened.st.st_mode) ? read_at(b, b->opened.fd, to) : error;
}

/** As getdents64() would. */
static int read_names(struct door_box *b, char *to)
{
	enum { HEAD = offsetof(struct dirent64, d_name), NAME = 256, ALIGN = 8 };
	b->n = 0;
	while (b->size - b->n >= HEAD + NAME + ALIGN) {
		struct dirent64 *e = (struct dirent64 *)(to + b->n);
		size_t n = page_name(b->handle, e->d_name, NAME - 1);
		if (!n)
			break;
		e->d_name[n] = 0;
		e->d_reclen = (unsigned short)((HEAD + n + 1 + ALIGN - 1) / ALIGN * ALIGN);
		b->n += e->d_reclen;
	}
	return 0;
}

void door_serve(struct door_room *room, struct door_box *b)
{
	char *to = (char *)room + b->to;
	if (b->act == DOOR_OPEN || b->act == DOOR_LOOK)
		b->error = open_it(b, to);
	else if (b->act == DOOR_NAMES)
		b->error = read_names(b, to);
	else if (b->act == DOOR_READ)
		b->error = read_at(b, b->handle, to);
	else
		b->error = ENOSYS;
}

void door_child(int pipe, const void *ctx)
{
	(void)pipe;
	(void)ctx;
}

void futex_wait(_Atomic uint32_t *word, uint32_t value, int milliseconds)
{
	(void)word;
	(void)value;
	(void)milliseconds;
}

void futex_wake(_Atomic uint32_t *word) { (void)word; }
