// What an update changes: blocks are compared by their hashes, so that other comments, blanks or order are no change.
#include "knowledge/signed/changes.h"

#include <stdlib.h>

#include "knowledge/know.h"

struct change_entry {
	struct str kind, id;
	uint64_t hash; // of its keys and values
	size_t number; // where it stands
	bool retracts;
};

struct entries {
	struct arena arena;
	VEC(struct change_entry) list;
};

static void entry_add(void *ctx, const struct know_block *b)
{
	struct entries *all = ctx;
	struct change_entry e = { .kind = b->kind, .id = b->id, .hash = STR_HASH_BEGIN, .number = all->list.len };
	for (size_t i = 0; i < b->nkeys; i++)
		e.hash = str_hash(str_hash(e.hash, b->keys[i].key), b->keys[i].value);
	if (str_is(b->kind, "retract")) {
		e.retracts = true;
		e.kind = str_word(&e.id);
		e.id = str_trim(e.id);
	}
	vec_push(&all->list, e);
}

static void add_text(void *ctx, const char *name, struct str text, bool added)
{
	struct entries *all = ctx;
	struct know_problems problems = { 0 };
	(void)added;
	know_blocks(&all->arena, name, text, &problems, entry_add, all);
}

static int compare_blocks(const struct change_entry *a, const struct change_entry *b)
{
	int c = str_cmp(a->kind, b->kind);
	return c ? c : str_cmp(a->id, b->id);
}

static int compare_entries(const void *a, const void *b)
{
	const struct change_entry *x = a, *y = b;
	int c = compare_blocks(x, y);
	return c ? c : (x->number > y->number) - (x->number < y->number);
}

/** Leaves one entry for each kind and id: several blocks of one id count together, and a retracted one not at all. */
static void entries_gather(struct entries *all, const struct container *update)
{
	know_each_text(&all->arena, update, add_text, all);
	if (all->list.len)
		qsort(all->list.data, all->list.len, sizeof(all->list.data[0]), compare_entries);
	size_t kept = 0;
	for (size_t i = 0; i < all->list.len;) {
		struct change_entry one = all->list.data[i];
		uint64_t last = 0;
		bool there = false;
		one.hash = 0;
		for (; i < all->list.len && !compare_blocks(&one, &all->list.data[i]); i++) {
			const struct change_entry *e = &all->list.data[i];
			if (!there || e->retracts)
				one.hash = last = 0;
			there = !e->retracts;
			if (there && e->hash != last)
				one.hash = one.hash * 31 + e->hash;
			last = e->hash;
		}
		if (there)
			all->list.data[kept++] = one;
	}
	all->list.len = kept;
}

static void entries_free(struct entries *all)
{
	vec_free(&all->list);
	arena_free(&all->arena);
}

void know_changes(const struct container *before, const struct container *after, know_difference_fn *fn, void *ctx)
{
	_cleanup_(entries_free) struct entries old = { 0 }, new = { 0 };
	entries_gather(&old, before);
	entries_gather(&new, after);
	for (size_t i = 0, n = 0; i < old.list.len || n < new.list.len;) {
		const struct change_entry *o = i < old.list.len ? &old.list.data[i] : NULL;
		const struct change_entry *e = n < new.list.len ? &new.list.data[n] : NULL;
		int c = !o ? 1 : !e ? -1 : compare_blocks(o, e);
		if (c < 0)
			fn(ctx, DIFFERENCE_GONE, o->kind, o->id);
		else if (c > 0)
			fn(ctx, DIFFERENCE_NEW, e->kind, e->id);
		else if (o->hash != e->hash)
			fn(ctx, DIFFERENCE_CHANGED, e->kind, e->id);
		i += c <= 0;
		n += c >= 0;
	}
}

void know_update_blocks(const struct container *c, void (*fn)(void *ctx, struct str kind), void *ctx)
{
	_cleanup_(entries_free) struct entries all = { 0 };
	for (size_t i = 0; i < c->nfiles; i++)
		add_text(&all, c->path, c->files[i].text, true);
	for (size_t i = 0; i < all.list.len; i++)
		fn(ctx, all.list.data[i].retracts ? S("retract") : all.list.data[i].kind);
}
