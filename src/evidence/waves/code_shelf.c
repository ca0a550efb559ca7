// Code objects by what a text tells of where they were loaded.
#include <elf.h>
#include <stdlib.h>

#include "code/names.h"
#include "code/places.h"
#include "evidence/waves/wave_code.h"

enum { OBJECTS_MOST = 64, PLACES_MOST = 64 };

struct shelf_entry {
	struct str evidence;
	struct code_anchor anchor;
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

const char *code_shelf_refused(const struct code_shelf *s) { return s->set.refused; }

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

// --- where an object was loaded ---

static bool find_function(struct arena *a, const struct code_object *o, struct str function, uint64_t *ret)
{
	struct str bare = bare_name(function);
	for (size_t i = 0; i < o->nsymbols && bare.n; i++) {
		const struct code_symbol *f = &o->symbols[i];
		if (str_find(f->name, bare) < 0 || (!str_eq(f->name, function) && !str_eq(demangle(a, f->name), function)))
			continue;
		*ret = f->address;
		return true;
	}
	return false;
}

/** Where @bytes are in the object's code; false where they are nowhere, or in several places. */
static bool find_bytes(const struct code_object *o, struct str bytes, uint64_t *ret)
{
	unsigned found = 0;
	for (size_t i = 0; i < o->nsegments && bytes.n; i++) {
		const struct code_segment *s = &o->segments[i];
		struct str code = s->flags & PF_X ? code_object_at(o, s->address) : (struct str){ 0 };
		struct str rest = code;
		for (ptrdiff_t at; found < 2 && (at = str_find(rest, bytes)) >= 0; rest = str_from(rest, (size_t)at + 1)) {
			uint64_t address = s->address + (uint64_t)(rest.p - code.p) + (uint64_t)at;
			if (address % 4)
				continue;
			*ret = address;
			found++;
		}
	}
	return found == 1;
}

/** What is added to the object's addresses; false where it is not the object that @c tells of. */
static bool find_base(struct arena *a, const struct code_object *o, const struct code_anchor *c, uint64_t *ret)
{
	uint64_t address = 0, at;
	bool found = true;
	if (c->loaded_at) {
		address = code_object_page(o);
		at = c->loaded_at;
	} else if (c->text_at) {
		size_t i = 0;
		while (i < o->nsegments && !(o->segments[i].flags & PF_X))
			i++;
		found = i < o->nsegments;
		address = found ? o->segments[i].address : 0; // it begins with .text
		at = c->text_at;
	} else if (c->function_at) {
		found = find_function(a, o, c->function, &address);
		at = c->function_at;
	} else {
		found = find_bytes(o, c->bytes, &address);
		at = c->bytes_at;
	}
	*ret = at - address;
	return found;
}

// --- the search ---

struct shelf_taking {
	struct code_shelf *shelf;
	const struct code_anchor *anchor;
	uint64_t pc;
	struct loaded *loaded;
	bool all, several; // all: go on, to see whether there are several
};

/** What was loaded there has code at the pc, and the instruction that the text has there; a file that has not is another one. */
static bool shelf_take(void *ctx, struct str name, char *bytes, size_t size)
{
	struct shelf_taking *t = ctx;
	struct code_set *set = &t->shelf->set;
	size_t before = set->problems.n;
	struct loaded *l = code_set_take(set, name, bytes, size, 0);
	if (!l) {
		set->problems.n = before;
		return false;
	}
	bool good = find_base(&set->arena, l->object, t->anchor, &l->base) && code_object_symbol(l->object, t->pc - l->base);
	if (good && t->anchor->instruction.n) {
		struct where w;
		code_where_in(set, l, &t->pc, 1, 0, &w);
		good = wave_code_is(&w, t->anchor->instruction);
	}
	if (good && t->loaded)
		t->several |= !str_eq(t->loaded->object->bytes, l->object->bytes);
	if (!good || t->loaded) {
		code_set_drop(set, l);
		return false;
	}
	t->loaded = l;
	return !t->all;
}

static struct loaded *shelf_search(struct code_shelf *s, struct str evidence, const struct code_anchor *anchor, uint64_t pc)
{
	struct code_places places = { .n = s->npaths, .paths = s->paths, .beside = evidence, .gfx = anchor->gfx };
	struct shelf_taking t = { .shelf = s, .anchor = anchor, .pc = pc, .all = !anchor->uri.n };
	struct code_taker taker = { shelf_take, &t };
	if (anchor->uri.n) {
		if (!code_places_find(&places, anchor->uri, &taker))
			code_places_any(&places, &taker);
	} else {
		code_places_all(&places, &taker, NULL);
		code_places_beside(&places, &taker);
	}
	if (t.several) {
		code_set_drop(&s->set, t.loaded);
		return NULL;
	}
	return t.loaded;
}

static struct loaded *find_object(struct code_shelf *s, struct str evidence, const struct code_anchor *anchor, uint64_t pc)
{
	for (size_t i = 0; i < s->entries.len; i++) {
		const struct shelf_entry *e = &s->entries.data[i];
		const struct code_anchor *b = &e->anchor;
		if (b->loaded_at == anchor->loaded_at && b->text_at == anchor->text_at &&
		    b->function_at == anchor->function_at && b->bytes_at == anchor->bytes_at && str_eq(b->uri, anchor->uri) &&
		    str_eq(b->function, anchor->function) && str_eq(b->bytes, anchor->bytes) && str_eq(b->gfx, anchor->gfx) &&
		    str_eq(e->evidence, evidence))
			return e->loaded;
	}
	if (s->entries.len == OBJECTS_MOST)
		return NULL;
	struct arena *a = &s->set.arena;
	struct shelf_entry e = { arena_str(a, evidence), *anchor, shelf_search(s, evidence, anchor, pc) };
	e.anchor.uri = arena_str(a, anchor->uri);
	e.anchor.function = arena_str(a, anchor->function);
	e.anchor.bytes = arena_str(a, anchor->bytes);
	e.anchor.gfx = arena_str(a, anchor->gfx);
	e.anchor.instruction = (struct str){ 0 }; // of one pc only
	vec_push(&s->entries, e);
	return e.loaded;
}

const struct where *code_shelf_where(struct code_shelf *s, struct str evidence, const struct code_anchor *anchor, uint64_t pc)
{
	bool anchored = anchor->loaded_at || anchor->text_at || anchor->function_at || anchor->bytes_at;
	struct loaded *l = anchored ? find_object(s, evidence, anchor, pc) : NULL;
	if (!l || pc < l->base)
		return NULL;
	struct where *w = arena_alloc(&s->set.arena, sizeof(*w));
	code_where_in(&s->set, l, &pc, 1, WAVE_CONTEXT, w);
	return w->function ? w : NULL;
}
