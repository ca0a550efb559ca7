// Files that did not answer, over the looks of one recording.
#include <stdatomic.h>
#include <sys/mman.h>

#include "source/tape/parts.h"

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
	void *room = mmap(NULL, sizeof(struct tape_dead), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return room == MAP_FAILED ? NULL : room;
}

void tape_dead_free(struct tape_dead *d)
{
	if (d)
		munmap(d, sizeof(*d));
}

/** Who wrote it may have no rights, and lie. */
static struct str within(const char *text, size_t most) { return (struct str){ text, strnlen(text, most) }; }

bool tape_dead_at(const struct tape_dead *d, size_t index, struct probe_stuck *ret)
{
	const struct dead_file *f = NULL;
	for (size_t i = 0; d && i < DEAD_MOST && !f; i++)
		if (d->list[i].there && !index--)
			f = &d->list[i];
	if (!f)
		return false;
	*ret = (struct probe_stuck){ .is = true,
				     .uninterruptible = f->uninterruptible,
				     .at = within(f->path, sizeof(f->path)),
				     .stack = within(f->stack, sizeof(f->stack)),
				     .wchan = within(f->wchan, sizeof(f->wchan)) };
	return true;
}

static uint64_t hash_of(struct str s)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	for (size_t i = 0; i < s.n; i++)
		h = (h ^ (unsigned char)s.p[i]) * UINT64_C(0x100000001b3);
	return h ? h : 1;
}

/** The slot of a hash: the one that has it, or a free one; NULL: all are taken. */
static _Atomic uint64_t *slot_of(struct tape_dead *d, uint64_t hash)
{
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
	for (size_t i = 0; i < DEAD_MOST; i++) {
		struct str other = str_z(d->list[i].path);
		if (!d->list[i].there)
			continue;
		if (str_eq(path, other))
			return &d->list[i];
		if (!directory.n || !str_starts(other, directory))
			continue;
		const _Atomic uint64_t *slot = slot_of(d, hash_of(path));
		if (!slot || !*slot)
			return &d->list[i];
	}
	return NULL;
}

void tape_note_dead(struct tape_dead *d, const struct probe_batch *b)
{
	if (!d)
		return;
	for (size_t i = 0; i < b->n; i++) {
		struct str path = str_z(b->probes[i].path);
		_Atomic uint64_t *slot =
			b->probes[i].end == PROBE_GOOD && gpu_directory(path).n ? slot_of(d, hash_of(path)) : NULL;
		if (slot)
			*slot = hash_of(path);
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
		b->stuck = (struct probe_stuck){ .is = true,
						 .uninterruptible = f->uninterruptible,
						 .at = arena_str(a, str_z(p->path)),
						 .stack = arena_str(a, str_z(f->stack)),
						 .wchan = arena_str(a, str_z(f->wchan)) };
	}
}
