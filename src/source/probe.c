// The parent's side of readers: who reads which batch, until when, and what becomes of one that does not answer.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "source/privileged/privileged.h"
#include "source/probe.h"
#include "source/probe_child.h"
#include "source/probe_stuck.h"
#include "source/process.h"
#include "source/tape/stuck_reads.h"
#include "source/tape/tape.h"

enum {
	ROOM_MOST = 1 << 29,  // of a batch; what is not touched costs nothing
	ROOM_LEAST = 4 << 20, // of a reader, so that the next batch fits too
	ROOM_KEPT = 1 << 20,  // that a batch has touched; more is given back to the kernel
	DIE_MS = 60,
	STEP_MS = 20,
	BATCH_FACTOR = 20, // a batch may take this many times as long as one operation, and a millisecond more for each
	TREE_MS = 10000,   // without progress on a file of a tree
};

// --- where a child stands that does not answer ---

/** A file of the child's in /proc, read here: none of these waits for the child. */
static struct str of_child(struct arena *a, int pid, const char *name)
{
	enum { FIRST = 4096 };
	char text[FIRST];
	return arena_str(a, str_trim(process_file(pid, name, text, sizeof(text))));
}

/** D: it cannot be woken up; R: it runs, or waits for a processor. */
static bool probe_in_state(struct arena *a, int pid, struct str state)
{
	struct str status = of_child(a, pid, "status");
	ptrdiff_t at = str_find(status, S("State:"));
	return at >= 0 && str_starts(str_trim(str_from(status, (size_t)at + 6)), state);
}

/** `[<0>] mutex_lock+0x30/0x40` is mutex_lock. */
static struct str functions_of(struct arena *a, struct str stack)
{
	struct str ret = { 0 };
	while (stack.n) {
		struct str line = str_split(&stack, '\n');
		ptrdiff_t at = str_find(line, S("] "));
		line = str_trim(at < 0 ? line : str_from(line, (size_t)at + 2));
		struct str function = str_split(&line, '+');
		ret = arena_printf(a, STR_FMT "%s" STR_FMT, STR_ARG(ret), ret.n ? "\n" : "", STR_ARG(function));
	}
	return ret;
}

void probe_where_stuck(struct arena *a, int pid, const char *path, struct probe_stuck *ret)
{
	*ret = (struct probe_stuck){ .is = true, .at = arena_str(a, str_z(path)) };
	if (!pid)
		return;
	ret->pid = pid;
	ret->uninterruptible = probe_in_state(a, pid, S("D"));
	ret->stack = functions_of(a, of_child(a, pid, "stack"));
	ret->wchan = of_child(a, pid, "wchan");
	if (str_is(ret->wchan, "0"))
		ret->wchan = (struct str){ 0 };
}

bool probe_came_back(const struct probe_stuck *s)
{
	char room[1024];
	struct process_stat p;
	return s->pid && (!process_stat_parse(process_file(s->pid, "stat", room, sizeof(room)), &p) || p.state == 'Z' || p.state == 'X');
}

// --- readers ---

/** A child that stays, and the memory that it shares with this process. */
struct probe_reader {
	struct child child;
	struct map map;
	bool busy; // with a batch of this round
};

/** They belong to the process that began them: one that was forked from it has neither them nor their memory, and begins its own. */
static struct probe_readers {
	VEC(struct probe_reader *) all;
	int owner;
} the_readers;

static struct probe_room *probe_room_of(const struct probe_reader *r) { return r->map.p; }

static void reader_forget(struct probe_reader *r)
{
	for (size_t i = 0; i < the_readers.all.len; i++)
		if (the_readers.all.data[i] == r)
			the_readers.all.data[i] = the_readers.all.data[--the_readers.all.len];
	child_drop(&r->child);
	map_free(&r->map);
	free(r);
}

void probe_readers_end(void)
{
	const bool ours = the_readers.owner == getpid();
	const int64_t deadline = now_ms() + DIE_MS;
	for (size_t i = 0; i < the_readers.all.len && ours; i++)
		child_kill(&the_readers.all.data[i]->child, 0);
	while (the_readers.all.len) {
		struct probe_reader *r = the_readers.all.data[the_readers.all.len - 1];
		const int64_t left = deadline - now_ms();
		if (ours)
			child_kill(&r->child, left > 0 ? (int)left : 0);
		else
			*r = (struct probe_reader){ .child.fd = r->child.fd }; // its memory was not copied to this process
		cleanup_close(&r->child.fd);
		reader_forget(r);
	}
	vec_free(&the_readers.all);
}

/** One with @size bytes of room. NULL: there is none, see errno. */
static struct probe_reader *reader_take(size_t size)
{
	if (the_readers.owner != getpid())
		probe_readers_end();
	the_readers.owner = getpid();
	struct probe_reader *small = NULL;
	for (size_t i = 0; i < the_readers.all.len; i++) {
		struct probe_reader *r = the_readers.all.data[i];
		struct probe_room *its = probe_room_of(r);
		if (r->busy)
			continue;
		// One that has answered but still closes its files is given a moment.
		if (r->map.size >= size && its->state == READER_ANSWERED)
			futex_wait(&its->state, READER_ANSWERED, STEP_MS);
		const bool usable = r->map.size >= size && !child_ended(&r->child);
		if (usable && its->state == READER_IDLE) {
			r->busy = true;
			return r;
		}
		small = usable ? small : r;
	}
	if (small)
		reader_forget(small);
	struct probe_reader *r = mem_alloc(sizeof(*r));
	r->child.fd = -1;
	const size_t room = size > ROOM_LEAST ? size : ROOM_LEAST;
	void *p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p != MAP_FAILED) {
		r->map = (struct map){ p, room };
		if (child_start(CHILD_READER, probe_child, &p, &r->child)) {
			// No later child can reach the reader: it has the rights that this process has now, and those may have less.
			madvise(p, room, MADV_DONTFORK);
			fcntl(r->child.fd, F_SETFD, FD_CLOEXEC);
			vec_push(&the_readers.all, r);
			r->busy = true;
			return r;
		}
	}
	const int why = errno;
	reader_forget(r);
	errno = why;
	return NULL;
}

// --- batches ---

/** A batch that runs. */
struct probe_running {
	struct probe_batch *batch;
	struct probe_reader *reader; // NULL: it did not begin
	enum child_end end;
};

static size_t aligned(size_t n) { return (n + 7) & ~(size_t)7; }

static int probe_longest(const struct probe_batch *b, int milliseconds) { return BATCH_FACTOR * milliseconds + (int)b->n; }

/** Hands the batch to a reader. */
static void begin_run(struct probe_batch *b, int milliseconds, struct probe_running *ret)
{
	_cleanup_text_ struct text question = { 0 };
	*ret = (struct probe_running){ .batch = b };
	if (!b->n)
		return;
	wire_put(&question, &probe_batch_kind, b);
	const size_t answers = aligned(sizeof(struct probe_room) + question.n);
	size_t start = answers + b->n * sizeof(struct probe_answer), size = start;
	for (size_t i = 0; i < b->n; i++) {
		if (size > ROOM_MOST || probe_size(&b->probes[i]) > ROOM_MOST - size) {
			b->probes[0].error = ENOMEM;
			return;
		}
		size += aligned(probe_size(&b->probes[i]));
	}
	ret->reader = reader_take(size);
	if (!ret->reader) {
		b->probes[0].error = errno;
		return;
	}
	struct probe_room *room = probe_room_of(ret->reader);
	*room = (struct probe_room){ .milliseconds = milliseconds,
				     .processor_ms = probe_longest(b, milliseconds),
				     .question = question.n,
				     .answers = answers,
				     .moved = now_ms() };
	memcpy(room + 1, question.p, question.n);
	for (size_t i = 0; i < b->n; i++) {
		room_answers(room)[i] = (struct probe_answer){ .end = PROBE_NOT_MADE, .at = start };
		start += aligned(probe_size(&b->probes[i]));
	}
	room->state = READER_ASKED;
	futex_wake(&room->state);
}

/** What it answered. More than there was room for is none of its answers. */
static void probe_collect(struct arena *a, const struct probe_running *r)
{
	struct probe_room *room = probe_room_of(r->reader);
	for (size_t i = 0; i < r->batch->n; i++) {
		struct probe *p = &r->batch->probes[i];
		const struct probe_answer *answer = &room_answers(room)[i];
		p->end = (enum probe_end)answer->end;
		if (p->end == PROBE_NOT_MADE && i == room->current && r->end != CHILD_GOOD) {
			p->end = r->end != CHILD_LATE ? PROBE_FAILED : r->batch->stuck.is ? PROBE_STUCK : PROBE_NOT_MADE;
			p->error = EIO;
		}
		if ((p->end != PROBE_GOOD && p->end != PROBE_FAILED) || answer->n > probe_size(p))
			continue;
		p->error = p->error ? p->error : answer->error;
		p->n = answer->n;
		p->microseconds = answer->microseconds;
		p->data = arena_z(a, (struct str){ (const char *)room + answer->at, answer->n });
	}
}

/** What an operation of the batch may take; when it is stuck. */
static int each(const struct probe_batch *b, int milliseconds) { return b->root ? TREE_MS : milliseconds; }

/** Waits for its answers; where it is late, looks where it is and tells it to end, which may take a while. A reader that goes on from
 * operation to operation, or waits for a processor only, is given more time. */
static void wait_run(struct arena *a, struct probe_running *r, int64_t deadline, int milliseconds)
{
	struct probe_room *room = probe_room_of(r->reader);
	struct child *child = &r->reader->child;
	_cleanup_text_ struct text nothing = { 0 };
	int64_t now;
	bool ended;
	do {
		futex_wait(&room->state, READER_ASKED, STEP_MS);
		ended = child_ended(child);
		now = now_ms();
	} while (room->state == READER_ASKED && !ended && now < deadline &&
		 (now - room->moved < milliseconds || probe_in_state(a, child->pid, S("R"))));
	if (room->state != READER_ASKED) {
		r->end = CHILD_GOOD;
		return;
	}
	r->end = child_wait(child, now, 0, &nothing);
	if (r->end == CHILD_GOOD) // it may not end
		r->end = CHILD_CRASHED;
	if (r->end == CHILD_LATE && now - room->moved < milliseconds)
		r->batch->stuck.late = true;
	else if (r->end == CHILD_LATE) {
		probe_where_stuck(a, child->pid, r->batch->probes[room->current].path, &r->batch->stuck);
		r->batch->stuck.since = room->moved;
	}
	child_kill(child, 0);
}

/** Takes the answers. A reader that did not answer is left behind, and a note says where. */
static void probe_end_run(struct arena *a, struct probe_running *r, int64_t deadline, struct probe_count *count)
{
	struct probe_room *room = probe_room_of(r->reader);
	struct child *child = &r->reader->child;
	struct probe_stuck *stuck = &r->batch->stuck;
	const int64_t left = deadline - now_ms();
	if (r->end != CHILD_GOOD && !child_kill(child, left > 0 ? (int)left : 0) && r->end == CHILD_LATE)
		stuck->uninterruptible |= probe_in_state(a, child->pid, S("D"));
	if (r->end != CHILD_GOOD && child->pid && stuck->uninterruptible && !r->batch->root)
		stuck_reads_note_child(child->pid, stuck->at);
	probe_collect(a, r);
	if (room->held) {
		// The child of another process waits for a file of this GPU already: what would have been asked is known not to answer.
		bool buried = false;
		stuck_reads_adopt(str_z(r->batch->probes[room->held - 1].path));
		stuck_reads_mark(r->batch);
		for (size_t i = 0; i < r->batch->n; i++)
			buried |= r->batch->probes[i].buried;
		stuck->late |= !buried; // it has come back meanwhile
		stuck->held = true;
	}
	count->children++;
	count->operations += room->operations;
	r->reader->busy = false;
	if (r->end != CHILD_GOOD)
		reader_forget(r->reader);
	else if (r->reader->map.size > ROOM_LEAST)
		madvise((char *)room + ROOM_KEPT, r->reader->map.size - ROOM_KEPT, MADV_REMOVE);
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
		struct probe_batch *b = &batches[i];
		b->stuck = (struct probe_stuck){ .late = spent };
		for (size_t k = 0; k < b->n; k++)
			probe_answered(&b->probes[k], PROBE_NOT_MADE, 0, (struct str){ 0 });
		if (!spent)
			begin_run(&batches[i], each(&batches[i], milliseconds), &runs[i]);
	}
	const int64_t began = now_ms(), left = count->patience ? count->patience->left : INT64_MAX;
	for (size_t i = 0; i < n; i++) {
		const int most = each(&batches[i], milliseconds), longest = probe_longest(&batches[i], most);
		// Of a tree a batch that goes on is never late.
		const int64_t late = batches[i].root ? INT64_MAX : began + (left < longest ? left : longest);
		if (runs[i].reader)
			wait_run(a, &runs[i], late, most);
	}
	if (n)
		lose_patience(batches, n, now_ms() - began, each(&batches[0], milliseconds), count);
	int64_t deadline = now_ms() + DIE_MS;
	for (size_t i = 0; i < n; i++)
		if (runs[i].reader)
			probe_end_run(a, &runs[i], deadline, count);
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

void probe_run_machine(struct arena *a, struct probe_batch *batches, size_t n, int milliseconds, struct probe_count *count)
{
	for (size_t i = 0; i < n; i++)
		stuck_reads_mark(&batches[i]);
	run_round(a, batches, n, milliseconds, count);
	for (size_t i = 0; i < n; i++) {
		run_rest(a, &batches[i], milliseconds, count);
		stuck_reads_tell(a, &batches[i]);
	}
}

// === Who answers: a tape, the privileged reader, or this process. ===

void probe_run_all(struct arena *a, struct probe_batch *batches, size_t n, int milliseconds, struct probe_count *count)
{
	struct tape *tape = probe_tape(count);
	int64_t began = now_ms();
	bool tree = false; // somebody's files, which need no rights of this machine's
	if (tape_plays(tape)) {
		tape_answer(tape, a, batches, n);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		tape_mark_dead(tape, &batches[i]);
		tree |= batches[i].root != NULL;
	}
	if (privileged_reads() && !tree)
		privileged_run_all(a, batches, n, milliseconds, count);
	else
		probe_run_machine(a, batches, n, milliseconds, count);
	for (size_t i = 0; i < n && tape; i++) {
		tape_tell_dead(tape, a, &batches[i]);
		tape_keep(tape, &batches[i], began);
	}
}

void probe_run(struct arena *a, struct probe *probes, size_t n, int milliseconds, struct probe_stuck *ret_stuck,
	       struct probe_count *count)
{
	struct probe_batch batch = { .probes = probes, .n = n };
	probe_run_all(a, &batch, 1, milliseconds, count);
	if (ret_stuck)
		*ret_stuck = batch.stuck;
}
