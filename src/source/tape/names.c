#include "source/tape/parts.h"

#include <stdlib.h>

static size_t hash_of(struct str s)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	for (size_t i = 0; i < s.n; i++)
		h = (h ^ (unsigned char)s.p[i]) * UINT64_C(0x100000001b3);
	return (size_t)(h ^ h >> 29);
}

static uint32_t *slot_of(const struct tape_names *n, struct str name)
{
	size_t i = hash_of(name) & (n->nslots - 1);
	while (n->slots[i] && !str_eq(n->list.data[n->slots[i] - 1], name))
		i = (i + 1) & (n->nslots - 1);
	return &n->slots[i];
}

static void grow(struct tape_names *n)
{
	enum { FIRST = 256 };
	free(n->slots);
	n->nslots = n->nslots ? 2 * n->nslots : FIRST;
	n->slots = mem_alloc(n->nslots * sizeof(*n->slots));
	for (uint32_t i = 0; i < n->list.len; i++)
		*slot_of(n, n->list.data[i]) = i + 1;
}

uint32_t tape_name(struct tape_names *n, struct str name, bool add)
{
	if (n->list.len * 2 >= n->nslots)
		grow(n);
	uint32_t *slot = slot_of(n, name);
	if (!*slot && add) {
		vec_push(&n->list, arena_str(&n->arena, name));
		*slot = (uint32_t)n->list.len;
	}
	return *slot ? *slot - 1 : UINT32_MAX;
}

void tape_names_free(struct tape_names *n)
{
	vec_free(&n->list);
	free(n->slots);
	arena_free(&n->arena);
}
