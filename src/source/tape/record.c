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

// --- files that did not answer, over the looks of one recording ---

enum { DEAD_MOST = 64, GOOD_SLOTS = 1 << 14 };

struct tape_dead {
	_Atomic uint32_t n; // that are taken: several looks may find some at once
	struct dead_file {
		_Atomic bool there; // it is filled in
		char path[512], stack[4096], wchan[128];
		bool uninterruptible;
	} list[DEAD_MOST];
	_Atomic uint64_t good[GOOD_SLOTS]; // hashes of paths that answered
};

struct tape_dead *tape_dead_new(void)
{
	struct map room;
	return map_shared(&room, sizeof(struct tape_dead)) ? room.p : NULL;
}

void tape_dead_free(struct tape_dead *d)
{
	if (d)
		munmap(d, sizeof(*d));
}

/** Who wrote it may have no rights, and lie. */
static struct str within(const char *text, size_t most) { return (struct str){ text, strnlen(text, most) }; }

static struct probe_stuck stuck_at(const struct dead_file *f)
{
	return (struct probe_stuck){ .is = true,
				     .uninterruptible = f->uninterruptible,
				     .at = within(f->path, sizeof(f->path)),
				     .stack = within(f->stack, sizeof(f->stack)),
				     .wchan = within(f->wchan, sizeof(f->wchan)) };
}

bool tape_dead_at(const struct tape_dead *d, size_t index, struct probe_stuck *ret)
{
	const struct dead_file *f = NULL;
	for (size_t i = 0; d && i < DEAD_MOST && !f; i++)
		if (d->list[i].there && !index--)
			f = &d->list[i];
	if (f)
		*ret = stuck_at(f);
	return f;
}

/** The slot of a path that answered: the one that has its hash, or a free one; NULL: all are taken. */
static _Atomic uint64_t *dead_slot_of(struct tape_dead *d, struct str path, uint64_t *ret_hash)
{
	uint64_t hash = str_hash(STR_HASH_BEGIN, path);
	*ret_hash = hash = hash ? hash : 1;
	for (size_t i = 0; i < GOOD_SLOTS; i++) {
		_Atomic uint64_t *slot = &d->good[(hash + i) % GOOD_SLOTS];
		if (*slot == hash || !*slot)
			return slot;
	}
	return NULL;
}

/** The debugfs directory of a GPU that a path lies in; empty: none. */
static struct str gpu_directory(struct str path)
{
	const struct str above = S("/sys/kernel/debug/dri/");
	struct str rest = str_from(path, above.n), name = str_split(&rest, '/');
	return str_starts(path, above) && rest.n ? str_cut(path, above.n + name.n + 1) : (struct str){ 0 };
}

/** The file itself did not answer, or another one of the same GPU: then only those are asked that answered before. */
static const struct dead_file *dead_file(struct tape_dead *d, struct str path)
{
	struct str directory = gpu_directory(path);
	uint64_t hash;
	for (size_t i = 0; i < DEAD_MOST; i++) {
		struct str other = str_z(d->list[i].path);
		if (!d->list[i].there)
			continue;
		if (str_eq(path, other))
			return &d->list[i];
		if (!directory.n || !str_starts(other, directory))
			continue;
		const _Atomic uint64_t *slot = dead_slot_of(d, path, &hash);
		if (!slot || !*slot)
			return &d->list[i];
	}
	return NULL;
}

static void tape_note_dead(struct tape_dead *d, const struct probe_batch *b)
{
	if (!d)
		return;
	for (size_t i = 0; i < b->n; i++) {
		struct str path = str_z(b->probes[i].path);
		uint64_t hash;
		_Atomic uint64_t *slot =
			b->probes[i].end == PROBE_GOOD && gpu_directory(path).n ? dead_slot_of(d, path, &hash) : NULL;
		if (slot)
			*slot = hash;
	}
	// One that could be killed was late only, as on a busy machine.
	if (!b->stuck.uninterruptible || d->n >= DEAD_MOST || dead_file(d, b->stuck.at))
		return;
	const uint32_t at = d->n++;
	if (at >= DEAD_MOST)
		return;
	struct dead_file *f = &d->list[at];
	str_copy(f->path, sizeof(f->path), b->stuck.at);
	str_copy(f->stack, sizeof(f->stack), b->stuck.stack);
	str_copy(f->wchan, sizeof(f->wchan), b->stuck.wchan);
	f->uninterruptible = b->stuck.uninterruptible;
	f->there = true;
}

bool tape_mark_dead(const struct tape *t, struct probe_batch *b)
{
	struct tape_dead *d = tape_records(t) ? t->recorder.to.dead : NULL;
	bool any = false;
	for (size_t i = 0; d && d->n && i < b->n; i++) {
		struct probe *p = &b->probes[i];
		p->dead = dead_file(d, str_z(p->path)) || (any && !b->goes_on);
		any |= p->dead;
	}
	return any;
}

void tape_tell_dead(const struct tape *t, struct arena *a, struct probe_batch *b)
{
	bool first = true;
	for (size_t i = 0; i < b->n; i++) {
		struct probe *p = &b->probes[i];
		if (!p->dead)
			continue;
		const struct dead_file *f = dead_file(t->recorder.to.dead, str_z(p->path));
		p->dead = false;
		p->end = f && (first || b->goes_on) ? PROBE_STUCK : PROBE_NOT_MADE;
		if (!f || !first)
			continue;
		first = false;
		b->stuck = stuck_at(f);
		b->stuck.at = arena_str(a, str_z(p->path));
		b->stuck.stack = arena_str(a, b->stuck.stack);
		b->stuck.wchan = arena_str(a, b->stuck.wchan);
	}
}

// --- the file ---

struct tape_budget *tape_budget_new(uint64_t most)
{
	struct map room;
	struct tape_budget *b = map_shared(&room, sizeof(*b)) ? room.p : NULL;
	if (b)
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

static void tape_sync(struct tape_recorder *r)
{
	if (fdatasync(r->to.fd))
		r->error = errno;
	r->synced = now_ms();
}

/** After the first write that failed there are no more: what lies behind a gap would not be read. A kill loses nothing that was written;
 * a machine that loses its power loses a tenth of a second. */
static void tape_write(struct tape *t)
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
static uint32_t tape_record_number_of(struct tape *t, struct str path)
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

static void put_probe(struct tape *t, const struct probe *p, uint32_t batch)
{
	struct text *room = &t->recorder.room;
	_cleanup_text_ struct text instead = { 0 };
	const struct tape_filter *f = &t->recorder.to.filter;
	uint32_t path = tape_record_number_of(t, str_z(p->path));
	if (f->seen)
		f->seen(f->ctx, p);
	if (p->end == PROBE_FAILED && p->error == EACCES && !t->recorder.refused.n)
		t->recorder.refused = t->paths.list.data[path];
	size_t start = tape_open_record(room, TAPE_PROBE);
	tape_put_key(room, p, path);
	bool withheld = p->contents && p->end == PROBE_GOOD && !t->recorder.to.contents;
	tape_put_number(room, (unsigned)(withheld ? PROBE_FAILED : p->end), 1);
	tape_put_number(room, (uint32_t)(withheld ? ENODATA : p->error), 4);
	tape_put_number(room, batch, 4);
	const bool good = p->end == PROBE_GOOD && !withheld, replaced = good && f->replace && f->replace(f->ctx, p, &instead);
	text_add(room, replaced ? text_str(&instead) : (struct str){ p->data, good ? p->n : 0 });
	tape_close_record(room, start);
}

void tape_keep(struct tape *t, const struct probe_batch *b, int64_t began)
{
	if (!b->n)
		return;
	struct text *room = &t->recorder.room;
	const size_t start = tape_open_record(room, TAPE_BATCH);
	tape_put_number(room, (uint64_t)began, 8);
	tape_put_number(room, (uint64_t)now_ms(), 8);
	tape_put_number(room, (b->stuck.is ? 1 : 0) | (b->stuck.late ? 2 : 0) | (b->stuck.uninterruptible ? 4 : 0), 1);
	tape_put_text(room, b->stuck.at);
	tape_put_text(room, b->stuck.stack);
	tape_put_text(room, b->stuck.wchan);
	tape_close_record(room, start);
	for (size_t i = 0; i < b->n; i++)
		put_probe(t, &b->probes[i], t->recorder.batches);
	t->recorder.batches++;
	for (size_t i = 0; b->stuck.held && !t->recorder.unread.n && i < b->n; i++)
		if (b->probes[i].end == PROBE_NOT_MADE || b->probes[i].end == PROBE_STUCK)
			t->recorder.unread = t->paths.list.data[tape_record_number_of(t, str_z(b->probes[i].path))];
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

int64_t tape_now(const struct tape *t) { return tape_plays(t) ? t->player.now : now_ms(); }

void tape_pause(struct tape *t, int milliseconds)
{
	if (tape_plays(t))
		t->player.now += milliseconds;
	else
		usleep((unsigned)milliseconds * 1000);
}

// --- logs ---

static void put_log_record(struct text *room, const struct source_record *r)
{
	size_t start;
	uint64_t boot, wall;
	memcpy(&boot, &r->boot_seconds, sizeof(boot));
	memcpy(&wall, &r->wall_seconds, sizeof(wall));
	if (r->by.writer != WRITER_UNTOLD) {
		start = tape_open_record(room, TAPE_NOTE);
		tape_put_number(room, r->by.writer, 1);
		tape_put_text(room, r->by.subsystem);
		// Of devices on other buses nobody asks, and their names may tell of the machine's owner.
		tape_put_text(room, str_is(r->by.subsystem, "pci") ? r->by.device : S(""));
		tape_close_record(room, start);
	}
	start = tape_open_record(room, TAPE_LINE);
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

static void tape_record_on_record(void *ctx, const char *name, const struct source_record *record)
{
	enum { AT_ONCE = 1 << 18 };
	struct tape_log *l = ctx;
	struct text *room = &l->tape->recorder.room;
	if (!record && !name && l->tail.n) {
		cut_tail(&l->tail, l->most);
		text_add(room, text_str(&l->tail));
	}
	if (record && l->from_end) {
		put_log_record(&l->tail, record);
		if (l->tail.n > 2 * l->most)
			cut_tail(&l->tail, l->most);
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

static void tape_record_on_visit(void *ctx, struct source *s)
{
	struct tape_log *l = ctx;
	if (l->to)
		l->to->visit(l->to->ctx, s);
}

static void tape_record_on_problem(void *ctx, struct uh_error *err)
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
	return (struct source_visitor){
		.visit = tape_record_on_visit, .record = tape_record_on_record, .problem = tape_record_on_problem, .ctx = l
	};
}
