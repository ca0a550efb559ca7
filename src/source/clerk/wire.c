#include "source/clerk/wire.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/message.h"
#include "source/probe_list.h"

enum { BATCHES_MOST = 1 << 12, PROBES_MOST = 1 << 20, PROBE_LEAST = 54, WAIT_MOST = 600000 };

// --- questions ---

enum { SAME_PATH = 1, FROM_END = 2, DEAD = 4, UNLESS_FAILS = 8, HAS_ARGUMENT = 16 };

static void put_probe(struct text *to, const struct probe *p, const struct probe *last)
{
	bool same = last && last->path == p->path;
	tape_put_number(to, (unsigned)p->kind, 1);
	tape_put_number(to,
			(same ? SAME_PATH : 0) | (p->from_end ? FROM_END : 0) | (p->dead ? DEAD : 0) |
				(p->unless_fails ? UNLESS_FAILS : 0) | (p->argument ? HAS_ARGUMENT : 0),
			1);
	if (!same)
		tape_put_text(to, str_z(p->path));
	tape_put_number(to, p->offset, 8);
	tape_put_number(to, p->request, 8);
	tape_put_number(to, p->size, 8);
	tape_put_number(to, p->argument_size, 4);
	if (p->argument)
		text_add(to, (struct str){ p->argument, p->argument_size });
	tape_put_text(to, p->find);
	tape_put_text(to, p->unless);
	tape_put_number(to, p->unless_at, 8);
	tape_put_number(to, p->skips, 8);
}

void clerk_put_question(struct text *to, const struct clerk_question *q)
{
	tape_put_number(to, (unsigned)q->milliseconds, 4);
	tape_put_number(to, q->patient, 1);
	tape_put_number(to, (uint64_t)q->patience, 8);
	tape_put_number(to, q->n, 4);
	for (size_t i = 0; i < q->n; i++) {
		const struct probe_batch *b = &q->batches[i];
		tape_put_number(to, b->goes_on, 1);
		tape_put_number(to, b->n, 4);
		for (size_t k = 0; k < b->n; k++)
			put_probe(to, &b->probes[k], k ? &b->probes[k - 1] : NULL);
	}
}

/** An ioctl without its argument would read what is nobody's. */
static bool has_what_it_needs(const struct probe *p)
{
	bool control = p->kind == PROBE_IOCTL || p->kind == PROBE_BANKED || p->kind == PROBE_QUERY;
	return p->kind <= PROBE_QUERY && p->argument_size <= ARGUMENT_MOST &&
	       (!control || p->argument || (p->kind == PROBE_IOCTL && p->request == DRM_VERSION_IOCTL));
}

static bool take_probe(struct tape_cursor *c, struct arena *a, struct probe *p, const struct probe *last)
{
	*p = (struct probe){ .kind = (enum probe_kind)tape_take_number(c, 1) };
	unsigned flags = (unsigned)tape_take_number(c, 1);
	if (!(flags & SAME_PATH))
		p->path = arena_z(a, tape_take_text(c));
	else if (last)
		p->path = last->path;
	p->from_end = flags & FROM_END;
	p->dead = flags & DEAD;
	p->unless_fails = flags & UNLESS_FAILS;
	p->offset = tape_take_number(c, 8);
	p->request = tape_take_number(c, 8);
	p->size = tape_take_number(c, 8);
	p->argument_size = tape_take_number(c, 4);
	if (flags & HAS_ARGUMENT)
		p->argument = arena_z(a, tape_take_bytes(c, p->argument_size));
	p->find = arena_str(a, tape_take_text(c));
	p->unless = arena_str(a, tape_take_text(c));
	p->unless_at = tape_take_number(c, 8);
	p->skips = tape_take_number(c, 8);
	return !c->short_of && p->path && has_what_it_needs(p);
}

static bool take_batch(struct tape_cursor *c, struct arena *a, struct probe_batch *b, size_t *total)
{
	*b = (struct probe_batch){ .goes_on = tape_take_number(c, 1) };
	b->n = tape_take_number(c, 4);
	*total += b->n;
	if (c->short_of || *total > PROBES_MOST || b->n > c->left.n / PROBE_LEAST)
		return false;
	b->probes = arena_alloc(a, (b->n + 1) * sizeof(*b->probes));
	for (size_t i = 0; i < b->n; i++)
		if (!take_probe(c, a, &b->probes[i], i ? &b->probes[i - 1] : NULL))
			return false;
	return true;
}

bool clerk_take_question(struct str bytes, struct arena *a, struct clerk_question *ret)
{
	struct tape_cursor c = { bytes };
	size_t total = 0;
	*ret = (struct clerk_question){ 0 };
	uint64_t milliseconds = tape_take_number(&c, 4);
	ret->patient = tape_take_number(&c, 1);
	ret->patience = (int64_t)tape_take_number(&c, 8);
	ret->n = tape_take_number(&c, 4);
	if (c.short_of || ret->n > BATCHES_MOST || milliseconds > WAIT_MOST)
		return false;
	ret->milliseconds = (int)milliseconds;
	ret->batches = arena_alloc(a, (ret->n + 1) * sizeof(*ret->batches));
	for (size_t i = 0; i < ret->n; i++)
		if (!take_batch(&c, a, &ret->batches[i], &total))
			return false;
	return !c.left.n;
}

// --- answers ---

enum { STUCK = 1, LATE = 2, UNINTERRUPTIBLE = 4, HELD = 8 };

void clerk_put_answer(struct text *to, const struct clerk_question *q, const struct probe_count *count)
{
	tape_put_number(to, count->children, 8);
	tape_put_number(to, count->operations, 8);
	tape_put_number(to, (uint64_t)q->patience, 8);
	for (size_t i = 0; i < q->n; i++) {
		const struct probe_batch *b = &q->batches[i];
		const struct probe_stuck *s = &b->stuck;
		tape_put_number(to,
				(s->is ? STUCK : 0) | (s->late ? LATE : 0) | (s->uninterruptible ? UNINTERRUPTIBLE : 0) |
					(s->held ? HELD : 0),
				1);
		tape_put_text(to, s->at);
		tape_put_text(to, s->stack);
		tape_put_text(to, s->wchan);
		for (size_t k = 0; k < b->n; k++) {
			const struct probe *p = &b->probes[k];
			tape_put_number(to, (unsigned)p->end, 1);
			tape_put_number(to, (uint32_t)p->error, 4);
			tape_put_number(to, p->data != NULL, 1);
			tape_put_text(to, (struct str){ p->data, p->data ? p->n : 0 });
		}
	}
}

static bool take_answered(struct tape_cursor *c, struct arena *a, struct probe *p)
{
	uint64_t end = tape_take_number(c, 1);
	p->error = (int)(int32_t)tape_take_number(c, 4);
	bool has = tape_take_number(c, 1);
	struct str data = tape_take_text(c);
	if (c->short_of || end > PROBE_STUCK || (!has && data.n))
		return false;
	p->end = (enum probe_end)end;
	p->data = has ? arena_z(a, data) : NULL;
	p->n = data.n;
	return true;
}

bool clerk_take_answer(struct str bytes, struct arena *a, struct clerk_question *q, struct probe_count *count)
{
	struct tape_cursor c = { bytes };
	count->children += tape_take_number(&c, 8);
	count->operations += tape_take_number(&c, 8);
	q->patience = (int64_t)tape_take_number(&c, 8);
	for (size_t i = 0; i < q->n; i++) {
		struct probe_stuck *s = &q->batches[i].stuck;
		unsigned flags = (unsigned)tape_take_number(&c, 1);
		*s = (struct probe_stuck){ .is = flags & STUCK,
					   .late = flags & LATE,
					   .held = flags & HELD,
					   .uninterruptible = flags & UNINTERRUPTIBLE };
		s->at = arena_str(a, tape_take_text(&c));
		s->stack = arena_str(a, tape_take_text(&c));
		s->wchan = arena_str(a, tape_take_text(&c));
		for (size_t k = 0; k < q->batches[i].n; k++)
			if (!take_answered(&c, a, &q->batches[i].probes[k]))
				return false;
	}
	return !c.short_of && !c.left.n;
}

// --- the socket ---

static bool send_all(int socket, struct str bytes)
{
	while (bytes.n) {
		ssize_t n = send(socket, bytes.p, bytes.n, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return false;
		bytes = str_from(bytes, n > 0 ? (size_t)n : 0);
	}
	return true;
}

bool clerk_send(int socket, const struct clerk_head *head, struct str bytes, int fd)
{
	struct iovec part = { (void *)(uintptr_t)head, sizeof(*head) };
	return message_send(socket, &part, 1, fd) == sizeof(*head) && send_all(socket, bytes);
}

bool clerk_receive(int socket, struct clerk_head *head, uint64_t most, struct text *bytes, int *ret_fd)
{
	struct iovec part = { head, sizeof(*head) };
	int flags = MSG_WAITALL;
	_cleanup_close_ int fd = -1;
	ssize_t n = message_receive(socket, &part, 1, &flags, &fd);
	text_clear(bytes);
	if (n != sizeof(*head) || head->size > most)
		return false;
	while (bytes->n < head->size) {
		enum { PIECE = 1 << 20 };
		size_t want = head->size - bytes->n < PIECE ? (size_t)(head->size - bytes->n) : PIECE;
		n = recv(socket, text_room(bytes, want), want, 0);
		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		bytes->n += n > 0 ? (size_t)n : 0;
	}
	if (ret_fd) {
		*ret_fd = fd;
		fd = -1;
	}
	return true;
}
