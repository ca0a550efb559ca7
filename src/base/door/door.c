// Files, through the door.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/door/ask.h"

enum { BLOCK = 64 << 10 };

static char *copy_of(const char *text) { return text ? strcpy(mem_alloc(strlen(text) + 1), text) : NULL; }

static struct door_file *file_new(const struct named *n)
{
	struct door_file *f = mem_alloc(sizeof(*f));
	*f = (struct door_file){ .path = copy_of(n->path), .below = copy_of(n->below), .root = copy_of(n->root), .owners = 1 };
	f->believed = n->believed;
	f->as_caller = n->as_caller;
	f->inside = n->inside;
	f->opened.fd = -1;
	if (door_known_silent(f))
		f->silent = door_patience_ms();
	return f;
}

void door_close(struct door_file *f)
{
	if (!f || --f->owners)
		return;
	door_close_later(f);
	for (size_t i = 0; i < DOOR_BLOCKS; i++)
		free(f->blocks[i].bytes);
	free(f->path);
	free(f->below);
	free(f->root);
	free(f);
}

struct door_file *door_share(struct door_file *f)
{
	f->owners++;
	return f;
}

const struct opened *door_what(const struct door_file *f) { return &f->opened; }

static void keep_block(struct door_file *f, const struct question *q)
{
	struct door_block *k = &f->blocks[f->next_block++ % DOOR_BLOCKS];
	if (!k->bytes)
		k->bytes = mem_large(BLOCK);
	k->at = q->offset;
	k->n = q->box->n;
	memcpy(k->bytes, (const char *)q->room + q->box->to, k->n);
}

struct uh_error *door_open(const struct named *n, struct door_file **ret)
{
	struct door_file *f = file_new(n);
	struct question q = { .act = DOOR_OPEN, .file = f, .window = -1, .size = BLOCK };
	struct uh_error *err = question_ask(&q);
	if (err) {
		door_close(f);
		return err;
	}
	f->opened = q.box->opened;
	if (S_ISREG(f->opened.st.st_mode) && q.box->n)
		keep_block(f, &q);
	question_end(&q);
	*ret = f;
	return NULL;
}

struct uh_error *door_look(const struct named *n, struct opened *ret)
{
	struct door_file *f = file_new(n);
	struct question q = { .act = DOOR_LOOK, .file = f, .window = -1 };
	struct uh_error *err = question_ask(&q);
	if (!err) {
		*ret = q.box->opened;
		question_end(&q);
	}
	door_close(f);
	return err;
}

/** One that holds @offset. */
static const struct door_block *door_find_block(struct door_file *f, uint64_t offset, struct uh_error **ret_err)
{
	for (size_t i = 0; i < DOOR_BLOCKS; i++)
		if (f->blocks[i].bytes && offset - f->blocks[i].at < f->blocks[i].n)
			return &f->blocks[i];
	struct question q = { .act = DOOR_READ, .file = f, .window = -1, .offset = offset / BLOCK * BLOCK, .size = BLOCK };
	*ret_err = question_ask(&q);
	if (*ret_err)
		return NULL;
	unsigned at = f->next_block % DOOR_BLOCKS;
	keep_block(f, &q);
	question_end(&q);
	return offset - f->blocks[at].at < f->blocks[at].n ? &f->blocks[at] : NULL;
}

/** What is large is not kept. */
static ssize_t read_large(struct door_file *f, uint64_t offset, char *to, size_t size, struct uh_error **ret_err)
{
	struct question q = {
		.act = DOOR_READ, .file = f, .window = -1, .offset = offset, .size = size < DOOR_WINDOW ? size : DOOR_WINDOW
	};
	*ret_err = question_ask(&q);
	if (*ret_err)
		return -1;
	size_t n = q.box->n;
	memcpy(to, (const char *)q.room + q.box->to, n);
	question_end(&q);
	return (ssize_t)n;
}

ssize_t door_read(struct door_file *f, uint64_t offset, void *to, size_t size, struct uh_error **ret_err)
{
	size_t have = 0;
	*ret_err = NULL;
	while (have < size) {
		char *at = (char *)to + have;
		if (size - have >= BLOCK) {
			ssize_t n = read_large(f, offset + have, at, size - have, ret_err);
			if (n <= 0)
				break;
			have += (size_t)n;
			continue;
		}
		const struct door_block *k = door_find_block(f, offset + have, ret_err);
		if (!k)
			break;
		size_t inside = (size_t)(offset + have - k->at), n = k->n - inside;
		n = n < size - have ? n : size - have;
		memcpy(at, k->bytes + inside, n);
		have += n;
	}
	return *ret_err && !have ? -1 : (ssize_t)have;
}

ssize_t door_next(struct door_file *f, void *to, size_t size, struct uh_error **ret_err)
{
	struct question q = { .act = S_ISDIR(f->opened.st.st_mode) ? DOOR_NAMES : DOOR_NEXT,
			      .file = f,
			      .window = -1,
			      .size = size < DOOR_WINDOW ? size : DOOR_WINDOW };
	int seconds = (door_patience_now() + 500) / 1000;
	*ret_err = question_ask(&q);
	if (*ret_err && (*ret_err)->errnum == ETIMEDOUT && !f->silent) {
		uh_error_free(*ret_err);
		*ret_err =
			uh_error_new(f->seen ? "%s: nothing more came through this FIFO for %d s; what came before was read" :
					       "%s: nothing came through this FIFO for %d s",
				     f->path, seconds);
	}
	if (*ret_err)
		return -1;
	size_t n = q.box->n;
	memcpy(to, (const char *)q.room + q.box->to, n);
	question_end(&q);
	f->seen |= n > 0;
	return (ssize_t)n;
}

ssize_t door_window(struct door_file *f, const struct door_wanted *w, const char **ret_bytes, struct uh_error **ret_err)
{
	struct question q = {
		.act = DOOR_READ, .file = f, .thread = w->thread, .window = (int)w->window, .offset = w->offset, .size = w->size
	};
	*ret_err = question_ask(&q);
	if (*ret_err)
		return -1;
	size_t n = q.box->n;
	*ret_bytes = (const char *)q.room + q.box->to;
	question_end(&q);
	return (ssize_t)n;
}
