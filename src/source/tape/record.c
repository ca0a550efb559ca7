// Records: what comes back through the seam goes to the file in one write before the look goes on.
#include <errno.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/child.h"
#include "base/save.h"
#include "source/tape/parts.h"

struct tape_budget *tape_budget_new(uint64_t most)
{
	struct tape_budget *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (b == MAP_FAILED)
		return NULL;
	b->most = most;
	return b;
}

void tape_budget_free(struct tape_budget *b)
{
	if (b)
		munmap(b, sizeof(*b));
}

bool tape_budget_take(struct tape_budget *b, uint64_t n)
{
	uint64_t had = b ? (uint64_t)b->used : 0;
	if (!b)
		return true;
	do {
		if (had > b->most || n > b->most - had)
			return false;
	} while (!atomic_compare_exchange_weak(&b->used, &had, had + n));
	return true;
}

struct tape *tape_record(const struct tape_recording *r)
{
	struct tape *t = mem_alloc(sizeof(*t));
	t->recorder.to = *r;
	t->recorder.synced = now_ms();
	text_add(&t->recorder.room, S(TAPE_HEAD));
	tape_write(t);
	return t;
}

bool tape_records(const struct tape *t) { return t && !t->plays; }

static void tape_sync(struct tape_recorder *r)
{
	if (fdatasync(r->to.fd))
		r->error = errno;
	r->synced = now_ms();
}

/** After the first write that failed there are no more: what lies behind a gap would not be read. A kill loses nothing that was written;
 * a machine that loses its power loses a tenth of a second. */
void tape_write(struct tape *t)
{
	enum { SYNC_MS = 100 };
	struct tape_recorder *r = &t->recorder;
	if (!r->error && (r->room.n > r->to.most - r->written || !tape_budget_take(r->to.budget, r->room.n)))
		r->error = EFBIG;
	if (!r->error && !write_all(r->to.fd, text_str(&r->room)))
		r->error = errno;
	r->written += r->error ? 0 : r->room.n;
	r->sum = tape_sum(r->sum, text_str(&r->room));
	text_clear(&r->room);
	if (!r->error && now_ms() - r->synced >= SYNC_MS)
		tape_sync(r);
}

struct str tape_refused(const struct tape *t) { return t->recorder.refused; }
struct str tape_unread(const struct tape *t) { return t->recorder.unread; }

uint64_t tape_written(const struct tape *t) { return t->recorder.written; }

bool tape_end(struct tape *t)
{
	tape_write(t);
	tape_put_last(&t->recorder.room, &(struct tape_last){ t->recorder.to.id, t->recorder.sum });
	tape_write(t);
	if (!t->recorder.error)
		tape_sync(&t->recorder);
	errno = t->recorder.error;
	return !t->recorder.error;
}

/** The number of a path; a new one gets a record. */
static uint32_t number_of(struct tape *t, struct str path)
{
	size_t had = t->paths.list.len;
	uint32_t number = tape_name(&t->paths, path, true);
	if (number == had) {
		size_t start = tape_open_record(&t->recorder.room, TAPE_PATH);
		text_add(&t->recorder.room, path);
		tape_close_record(&t->recorder.room, start);
	}
	return number;
}

static void put_batch(struct text *room, const struct probe_batch *b, int64_t began, int64_t ended)
{
	size_t start = tape_open_record(room, TAPE_BATCH);
	tape_put_number(room, (uint64_t)began, 8);
	tape_put_number(room, (uint64_t)ended, 8);
	tape_put_number(room, (b->stuck.is ? 1 : 0) | (b->stuck.late ? 2 : 0) | (b->stuck.uninterruptible ? 4 : 0), 1);
	tape_put_text(room, b->stuck.at);
	tape_put_text(room, b->stuck.stack);
	tape_put_text(room, b->stuck.wchan);
	tape_close_record(room, start);
}

static void put_probe(struct tape *t, const struct probe *p, uint32_t batch)
{
	struct text *room = &t->recorder.room, instead = { 0 };
	const struct tape_filter *f = &t->recorder.to.filter;
	uint32_t path = number_of(t, str_z(p->path));
	if (p->end == PROBE_FAILED && p->error == EACCES && !t->recorder.refused.n)
		t->recorder.refused = t->paths.list.data[path];
	size_t start = tape_open_record(room, TAPE_PROBE);
	tape_put_key(room, p, path);
	bool withheld = p->contents && p->end == PROBE_GOOD && !t->recorder.to.contents;
	tape_put_number(room, (unsigned)(withheld ? PROBE_FAILED : p->end), 1);
	tape_put_number(room, (uint32_t)(withheld ? ENODATA : p->error), 4);
	tape_put_number(room, batch, 4);
	if (withheld) {
		tape_close_record(room, start);
		return;
	}
	bool replaced = p->end == PROBE_GOOD && f->replace && f->replace(f->ctx, p, &instead);
	text_add(room, replaced ? text_str(&instead) : (struct str){ p->data, p->end == PROBE_GOOD ? p->n : 0 });
	tape_close_record(room, start);
	text_free(&instead);
}

void tape_keep(struct tape *t, const struct probe_batch *b, int64_t began)
{
	if (!b->n)
		return;
	put_batch(&t->recorder.room, b, began, now_ms());
	for (size_t i = 0; i < b->n; i++)
		put_probe(t, &b->probes[i], t->recorder.batches);
	t->recorder.batches++;
	for (size_t i = 0; b->stuck.held && !t->recorder.unread.n && i < b->n; i++)
		if (b->probes[i].end == PROBE_NOT_MADE || b->probes[i].end == PROBE_STUCK)
			t->recorder.unread = t->paths.list.data[number_of(t, str_z(b->probes[i].path))];
	tape_note_dead(t->recorder.to.dead, b);
	tape_write(t);
}

void tape_keep_memory(struct tape *t, const char *path, uint64_t address, struct str bytes)
{
	enum { AT_ONCE = 1 << 16 };
	const struct probe p = { .kind = (enum probe_kind)TAPE_MEMORY,
				 .path = path,
				 .offset = address,
				 .size = bytes.n,
				 .end = PROBE_GOOD,
				 .data = bytes.p,
				 .n = bytes.n };
	put_probe(t, &p, UINT32_MAX);
	if (t->recorder.room.n > AT_ONCE)
		tape_write(t);
}

bool tape_memory(struct tape *t, const char *path, uint64_t address, void *to, size_t size)
{
	const struct probe p = { .kind = (enum probe_kind)TAPE_MEMORY, .path = path, .offset = address, .size = size };
	struct tape_probe part;
	const struct taped *found = tape_find(t, &p);
	if (found)
		part = found->probe;
	else if (!tape_find_part(t, &p, &part))
		return false;
	if (part.data.n != size)
		return false;
	memcpy(to, part.data.p, size);
	return true;
}

static void keep_said(struct tape *t, const char *name, struct str value)
{
	struct probe p = { .kind = (enum probe_kind)TAPE_SAID, .path = name, .end = PROBE_GOOD, .data = value.p, .n = value.n };
	struct probe_batch b = { .probes = &p, .n = 1 };
	tape_keep(t, &b, now_ms());
}

struct str tape_said(struct tape *t, struct arena *a, const char *name, struct str live)
{
	struct probe p = { .kind = (enum probe_kind)TAPE_SAID, .path = name };
	if (tape_records(t))
		keep_said(t, name, live);
	if (!tape_plays(t))
		return live;
	const struct taped *said = tape_find(t, &p);
	return said ? arena_str(a, said->probe.data) : (struct str){ 0 };
}

int64_t tape_number(struct tape *t, const char *name, int64_t live)
{
	struct arena a = { 0 };
	char room[24];
	int64_t value = live;
	snprintf(room, sizeof(room), "%lld", (long long)live);
	if (t && !str_number(tape_said(t, &a, name, str_z(room)), &value))
		value = -1;
	arena_free(&a);
	return value;
}

int64_t tape_now(const struct tape *t) { return tape_plays(t) ? t->player.now : now_ms(); }

void tape_pause(struct tape *t, int milliseconds)
{
	if (tape_plays(t))
		t->player.now += milliseconds;
	else
		usleep((unsigned)milliseconds * 1000);
}

// --- logs ---

/** Of devices on other buses nobody asks, and their names may tell of the machine's owner. */
static void put_note(struct text *room, const struct source_note *by)
{
	if (by->writer == WRITER_UNTOLD)
		return;
	size_t start = tape_open_record(room, TAPE_NOTE);
	tape_put_number(room, by->writer, 1);
	tape_put_text(room, by->subsystem);
	tape_put_text(room, str_is(by->subsystem, "pci") ? by->device : S(""));
	tape_close_record(room, start);
}

static void put_log_record(struct text *room, const struct source_record *r)
{
	put_note(room, &r->by);
	uint64_t boot, wall;
	memcpy(&boot, &r->boot_seconds, sizeof(boot));
	memcpy(&wall, &r->wall_seconds, sizeof(wall));
	size_t start = tape_open_record(room, TAPE_LINE);
	tape_put_number(room, boot, 8);
	tape_put_number(room, wall, 8);
	tape_put_text(room, r->boot_id);
	text_add(room, r->text);
	tape_close_record(room, start);
}

/** Drops the first records until no more than @most bytes are left; a note goes with its record. */
static void cut_tail(struct text *tail, uint64_t most)
{
	size_t from = 0;
	bool note = false;
	enum tape_type type;
	for (struct str left = text_str(tail), record; tail->n - from > most || note; note = type == TAPE_NOTE) {
		if (!tape_take_record(&left, &type, &record))
			break;
		from = tail->n - left.n;
	}
	memmove(tail->p, tail->p + from, tail->n - from);
	tail->n -= from;
}

static void keep_tail(struct tape_log *l, const struct source_record *record)
{
	put_log_record(&l->tail, record);
	if (l->tail.n > 2 * l->most)
		cut_tail(&l->tail, l->most);
}

static void on_record(void *ctx, const char *name, const struct source_record *record)
{
	enum { AT_ONCE = 1 << 18 };
	struct tape_log *l = ctx;
	struct text *room = &l->tape->recorder.room;
	if (!record && !name && l->tail.n) {
		cut_tail(&l->tail, l->most);
		text_add(room, text_str(&l->tail));
	}
	if (record && l->from_end) {
		keep_tail(l, record);
	} else if (record && l->bytes <= l->most) {
		put_log_record(room, record);
		l->bytes += record->text.n;
	} else if (!record) {
		size_t start = tape_open_record(room, name ? TAPE_LOG : TAPE_LOG_END);
		if (name) {
			tape_put_text(room, str_z(l->name));
			tape_put_text(room, str_z(name));
		}
		tape_close_record(room, start);
	}
	if (room->n > AT_ONCE || !record)
		tape_write(l->tape);
	if (l->to)
		l->to->record(l->to->ctx, name, record);
}

static void on_visit(void *ctx, struct source *s)
{
	struct tape_log *l = ctx;
	if (l->to)
		l->to->visit(l->to->ctx, s);
}

static void on_problem(void *ctx, struct uh_error *err)
{
	struct tape_log *l = ctx;
	if (l->to)
		l->to->problem(l->to->ctx, err);
	else
		uh_error_free(err);
}

void tape_log_end(struct tape_log *l) { text_free(&l->tail); }

struct source_visitor tape_visitor(struct tape_log *l)
{
	return (struct source_visitor){ .visit = on_visit, .record = on_record, .problem = on_problem, .ctx = l };
}
