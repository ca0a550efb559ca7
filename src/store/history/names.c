#include "store/history/names.h"

#include <stdlib.h>

#include "base/cleanup.h"

enum { SLOTS_FIRST = 1024 };

static uint32_t *name_table_slot(const struct name_table *t, struct str name)
{
	uint64_t hash = str_hash(STR_HASH_BEGIN, name);
	for (hash ^= hash >> 32;; hash++) {
		uint32_t *slot = &t->slots[hash & (t->n - 1)];
		if (!*slot || str_eq(t->names.data[*slot - 1], name))
			return slot;
	}
}

uint32_t name_number(struct name_table *t, struct str name)
{
	if (2 * (t->names.len + 1) > t->n) {
		_cleanup_free_ uint32_t *before = t->slots;
		t->n = t->n ? 2 * t->n : SLOTS_FIRST;
		t->slots = mem_alloc(t->n * sizeof(*t->slots));
		for (size_t i = 0; i < t->names.len; i++)
			*name_table_slot(t, t->names.data[i]) = (uint32_t)i + 1;
	}
	uint32_t *slot = name_table_slot(t, name);
	if (!*slot) {
		vec_push(&t->names, arena_str(t->arena, name));
		*slot = (uint32_t)t->names.len;
	}
	return *slot - 1;
}

bool name_known(const struct name_table *t, struct str name, uint32_t *ret)
{
	const uint32_t found = t->n ? *name_table_slot(t, name) : 0;
	if (found)
		*ret = found - 1;
	return found;
}

void name_table_free(struct name_table *t)
{
	vec_free(&t->names);
	free(t->slots);
}
