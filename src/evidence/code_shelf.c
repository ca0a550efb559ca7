// Code objects by the URI and the load address that a text tells.
#include <stdlib.h>

#include "code/places.h"
#include "evidence/wave_code.h"

enum { OBJECTS_MOST = 64, PLACES_MOST = 64, PAGE = 4096 };

struct shelf_entry {
	struct str evidence, uri;
	uint64_t loaded_at;
	struct loaded *loaded; // NULL: it is nowhere
};

struct code_shelf {
	struct code_set set;
	VEC(struct shelf_entry) entries;
	size_t npaths;
	const char *paths[PLACES_MOST];
};

struct code_shelf *code_shelf_new(void) { return mem_alloc(sizeof(struct code_shelf)); }

void code_shelf_free(struct code_shelf *s)
{
	if (!s)
		return;
	vec_free(&s->entries);
	code_set_free(&s->set);
	free(s);
}

void code_shelf_add(struct code_shelf *s, const char *path)
{
	if (s->npaths < PLACES_MOST)
		s->paths[s->npaths++] = arena_z(&s->set.arena, str_z(path));
}

const char *const *code_shelf_paths(const struct code_shelf *s, size_t *ret_n)
{
	*ret_n = s->npaths;
	return s->paths;
}

struct taking {
	struct code_shelf *shelf;
	uint64_t loaded_at, pc;
	struct loaded *loaded;
};

/** What was loaded there has code at the pc; a file that has none is another one. */
static bool take(void *ctx, struct str name, char *bytes, size_t size)
{
	struct taking *t = ctx;
	struct code_set *set = &t->shelf->set;
	size_t before = set->problems.n;
	struct loaded *l = code_set_take(set, name, bytes, size, t->loaded_at);
	if (!l) {
		set->problems.n = before;
		return false;
	}
	l->base -= l->object->begin & ~(PAGE - 1ull);
	if (!code_object_symbol(l->object, t->pc - l->base)) {
		code_set_drop(set, l);
		return false;
	}
	t->loaded = l;
	return true;
}

static struct loaded *find_object(struct code_shelf *s, struct str evidence, struct str uri, uint64_t loaded_at, uint64_t pc)
{
	for (size_t i = 0; i < s->entries.len; i++) {
		const struct shelf_entry *e = &s->entries.data[i];
		if (e->loaded_at == loaded_at && str_eq(e->uri, uri) && str_eq(e->evidence, evidence))
			return e->loaded;
	}
	if (s->entries.len == OBJECTS_MOST)
		return NULL;
	struct code_places places = { .n = s->npaths, .paths = s->paths, .beside = evidence };
	struct taking t = { .shelf = s, .loaded_at = loaded_at, .pc = pc };
	struct code_taker taker = { take, &t };
	code_places_find(&places, uri, &taker);
	struct arena *a = &s->set.arena;
	struct shelf_entry e = { arena_str(a, evidence), arena_str(a, uri), loaded_at, t.loaded };
	vec_push(&s->entries, e);
	return t.loaded;
}

const struct where *code_shelf_where(struct code_shelf *s, struct str evidence, struct str uri, uint64_t loaded_at, uint64_t pc)
{
	struct loaded *l = uri.n && loaded_at ? find_object(s, evidence, uri, loaded_at, pc) : NULL;
	if (!l || pc < l->base)
		return NULL;
	struct where *w = arena_alloc(&s->set.arena, sizeof(*w));
	code_where_in(&s->set, l, &pc, 1, WAVE_CONTEXT, w);
	return w->function ? w : NULL;
}
