#include "source/probe.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "source/probe_child.h"
#include "source/probe_list.h"
#include "source/probe_stuck.h"
#include "source/tape/tomb.h"

enum {
	ROOM_MOST = 1 << 29, // of a batch; what is not touched costs nothing
	DIE_MS = 60,
	STEP_MS = 20,
	BATCH_FACTOR = 20, // a batch may take this many times as long as one operation, and a millisecond more for each
	TREE_MS = 10000,   // without progress on a file of a tree
};

/** A batch that runs. */
struct probe_running {
	struct probe_batch *batch;
	struct probe_work work;
	struct child child;
	bool began;
	enum child_end end;
};

/** Room for the answers; which of them are allowed. false where there is none. */
static bool prepare(struct probe_running *r, int milliseconds)
{
	const struct probe_batch *b = r->batch;
	size_t at = sizeof(struct probe_room) + b->n * sizeof(struct probe_answer), start = at;
	for (size_t i = 0; i < b->n; i++) {
		if (at > ROOM_MOST || probe_size(&b->probes[i]) > ROOM_MOST - at)
			return errno = ENOMEM, false;
		at += (probe_size(&b->probes[i]) + 7) & ~(size_t)7;
	}
	void *room = mmap(NULL, at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return false;
	r->work = (struct probe_work){ b->probes, b->n, room, at, getpid(), b->root, -1, milliseconds, b->goes_on };
	r->work.room->moved = now_ms();
	for (size_t i = 0; i < b->n; i++) {
		const struct probe *p = &b->probes[i], *last = i ? p - 1 : NULL;
		bool same = last && last->kind == p->kind && last->request == p->request && last->path == p->path &&
			    last->argument_size == p->argument_size && last->dead == p->dead && last->buried == p->buried;
		struct probe_answer *answer = &r->work.room->answers[i];
		bool allowed = same ? answer[-1].end != PROBE_FORBIDDEN :
				      probe_allowed(p) || (b->root && probe_listed_recorded(p->kind, str_z(p->path)));
		allowed &= (!b->root || p->kind <= PROBE_SECTION) && !p->dead && !p->buried; // a tree has no driver
		answer->end = allowed ? PROBE_NOT_MADE : PROBE_FORBIDDEN;
		answer->at = start;
		start += (probe_size(p) + 7) & ~(size_t)7;
	}
	return true;
}

static void collect(struct arena *a, struct probe_running *r, enum child_end end)
{
	const struct probe_room *room = r->work.room;
	for (size_t i = 0; i < r->batch->n; i++) {
		struct probe *p = &r->batch->probes[i];
		const struct probe_answer *answer = &room->answers[i];
		p->end = (enum probe_end)answer->end;
		if (p->end == PROBE_NOT_MADE && i == room->current && end != CHILD_GOOD) {
			p->end = end != CHILD_LATE ? PROBE_FAILED : r->batch->stuck.is ? PROBE_STUCK : PROBE_NOT_MADE;
			p->error = EIO;
		}
		if (p->end != PROBE_GOOD && p->end != PROBE_FAILED)
			continue;
		p->error = p->error ? p->error : answer->error;
		p->n = answer->n;
		p->data = arena_z(a, (struct str){ (const char *)room + answer->at, answer->n });
	}
}

static int longest(const struct probe_batch *b, int milliseconds) { return BATCH_FACTOR * milliseconds + (int)b->n; }

/** What an operation of the batch may take; when it is stuck. */
static int each(const struct probe_batch *b, int milliseconds) { return b->root ? TREE_MS : milliseconds; }

/** When a batch is late although it goes on: of a tree, never. */
static int64_t batch_deadline(const struct probe_batch *b, int64_t began, int milliseconds, const struct probe_count *count)
{
	int64_t left = count->patience ? count->patience->left : INT64_MAX, most = longest(b, milliseconds);
	return b->root ? INT64_MAX : began + (left < most ? left : most);
}

/** Waits for its end; where it is late, looks where it is and tells it to end, which may take a while. A child that goes on from
 * operation to operation, or waits for a processor only, is given more time; one that has all answers is not waited for. */
static void wait_run(struct arena *a, struct probe_running *r, int64_t deadline, int milliseconds)
{
	struct text nothing = { 0 };
	int64_t now;
	do {
		r->end = child_wait(&r->child, now_ms() + STEP_MS, 0, &nothing);
		now = now_ms();
	} while (r->end == CHILD_LATE && now < deadline && !r->work.room->done &&
		 (now - r->work.room->moved < milliseconds || probe_in_state(a, r->child.pid, S("R"))));
	text_free(&nothing);
	if (r->end == CHILD_LATE && r->work.room->done)
		r->end = CHILD_GOOD;
	if (r->end == CHILD_LATE && now - r->work.room->moved < milliseconds)
		r->batch->stuck.late = true;
	else if (r->end == CHILD_LATE)
		probe_where_stuck(a, r->child.pid, r->batch->probes[r->work.room->current].path, &r->batch->stuck);
	child_kill(&r->child, 0);
}

/** The child of another process waits for a file of this GPU already: what would have been asked is known not to answer. */
static void stand_back(struct arena *a, struct probe_running *r)
{
	const size_t at = r->work.room->held - 1;
	bool buried = false;
	tomb_adopt(str_z(r->batch->probes[at].path));
	tomb_mark(a, r->batch);
	for (size_t i = 0; i < r->batch->n; i++)
		buried |= r->batch->probes[i].buried;
	r->batch->stuck.late |= !buried; // it has come back meanwhile
	r->batch->stuck.held = true;
}

static void end_run(struct arena *a, struct probe_running *r, int64_t deadline, struct probe_count *count)
{
	int64_t left = deadline - now_ms();
	if (!child_kill(&r->child, left > 0 ? (int)left : 0) && r->end == CHILD_LATE)
		r->batch->stuck.uninterruptible |= probe_in_state(a, r->child.pid, S("D"));
	if (r->child.pid && r->batch->stuck.uninterruptible && !r->batch->root)
		tomb_bury(r->child.pid, r->batch->stuck.at);
	collect(a, r, r->end);
	if (r->work.room->held)
		stand_back(a, r);
	count->children++;
	count->operations += r->work.room->operations;
}

static void clear_batch(struct probe_batch *b)
{
	b->stuck = (struct probe_stuck){ 0 };
	for (size_t i = 0; i < b->n; i++) {
		struct probe *p = &b->probes[i];
		p->end = PROBE_NOT_MADE;
		p->error = 0;
		p->data = NULL;
		p->n = 0;
	}
}

static void begin_run(struct probe_batch *b, int milliseconds, struct probe_running *ret)
{
	ret->batch = b;
	ret->began = b->n && prepare(ret, milliseconds) &&
		     child_begin(probe_child, &ret->work, longest(b, milliseconds), &ret->child);
	if (b->n && !ret->began)
		b->probes[0].error = errno;
}

/** Time that went to files that answered late or not at all: of a batch that went well, what one operation may take is not counted, and of
 * a tree only what it stood still. */
static void lose_patience(const struct probe_batch *batches, size_t n, int64_t took, int milliseconds,
			  const struct probe_count *count)
{
	bool stuck = false, tree = batches[0].root;
	for (size_t i = 0; i < n; i++)
		stuck |= batches[i].stuck.is || batches[i].stuck.late;
	int64_t over = took > milliseconds ? took - milliseconds : 0, stood = took < milliseconds ? took : milliseconds;
	int64_t lost = tree ? (stuck ? stood : 0) : stuck ? took : over;
	if (count->patience)
		count->patience->left -= lost < count->patience->left ? lost : count->patience->left;
}

static void run_round(struct arena *a, struct probe_batch *batches, size_t n, int milliseconds, struct probe_count *count)
{
	_cleanup_free_ struct probe_running *runs = mem_alloc((n ? n : 1) * sizeof(*runs));
	bool spent = count->patience && count->patience->left <= 0;
	for (size_t i = 0; i < n; i++) {
		clear_batch(&batches[i]);
		batches[i].stuck.late = spent;
		if (!spent)
			begin_run(&batches[i], each(&batches[i], milliseconds), &runs[i]);
	}
	int64_t began = now_ms();
	for (size_t i = 0; i < n; i++) {
		int most = each(&batches[i], milliseconds);
		if (runs[i].began)
			wait_run(a, &runs[i], batch_deadline(&batches[i], began, most, count), most);
	}
	if (n)
		lose_patience(batches, n, now_ms() - began, each(&batches[0], milliseconds), count);
	int64_t deadline = now_ms() + DIE_MS;
	for (size_t i = 0; i < n; i++) {
		if (runs[i].began)
			end_run(a, &runs[i], deadline, count);
		if (runs[i].work.room)
			munmap(runs[i].work.room, runs[i].work.size);
	}
}

/** What stands behind the file that did not answer. */
static void run_rest(struct arena *a, const struct probe_batch *b, int milliseconds, struct probe_count *count)
{
	struct probe_batch rest = *b;
	while (rest.stuck.is && (rest.root || rest.goes_on)) {
		size_t at = 0;
		while (at < rest.n && rest.probes[at].end != PROBE_STUCK)
			at++;
		if (at == rest.n)
			return;
		rest.probes += at + 1;
		rest.n -= at + 1;
		run_round(a, &rest, 1, milliseconds, count);
	}
}

static void run_all(struct arena *a, struct probe_batch *batches, size_t n, int milliseconds, struct probe_count *count)
{
	run_round(a, batches, n, milliseconds, count);
	for (size_t i = 0; i < n; i++)
		run_rest(a, &batches[i], milliseconds, count);
}

void probe_run_machine(struct arena *a, struct probe_batch *batches, size_t n, int milliseconds, struct probe_count *count)
{
	for (size_t i = 0; i < n; i++)
		tomb_mark(a, &batches[i]);
	run_all(a, batches, n, milliseconds, count);
	for (size_t i = 0; i < n; i++)
		tomb_tell(a, &batches[i]);
}
