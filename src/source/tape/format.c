// The records of a track, and its paths by number.
#include <stdlib.h>
#include <zlib.h>

#include "base/bytes.h"
#include "source/tape/format.h"
#include "source/tape/parts.h"
#include "source/tape/tape.h"

void tape_put_number(struct text *t, uint64_t value, unsigned bytes)
{
	char *at = text_room(t, bytes);
	for (unsigned i = 0; i < bytes; i++)
		at[i] = (char)(value >> 8 * i);
	t->n += bytes;
}

void tape_put_text(struct text *t, struct str s)
{
	tape_put_number(t, s.n, 4);
	text_add(t, s);
}

size_t tape_open_record(struct text *t, enum tape_type type)
{
	size_t start = t->n;
	tape_put_number(t, 0, TAPE_RECORD_HEAD);
	tape_put_number(t, (unsigned)type, 1);
	return start;
}

static uint32_t checksum(struct str s) { return (uint32_t)crc32(0, (const unsigned char *)s.p, (unsigned)s.n); }

void tape_close_record(struct text *t, size_t start)
{
	_cleanup_text_ struct text head = { 0 };
	struct str payload = str_from(text_str(t), start + TAPE_RECORD_HEAD);
	tape_put_number(&head, payload.n, 4);
	tape_put_number(&head, checksum(payload), 4);
	memcpy(t->p + start, head.p, TAPE_RECORD_HEAD);
}

void tape_put_key(struct text *t, const struct probe *p, uint32_t path)
{
	enum { PAGE = 4096 };
	size_t size = p->kind == PROBE_IOCTL ? p->argument_size : p->size ? p->size : PAGE;
	size_t argument = p->argument ? p->argument_size : 0;
	tape_put_number(t, (unsigned)p->kind, 1);
	tape_put_number(t, 0, 3);
	tape_put_number(t, path, 4);
	tape_put_number(t, p->offset, 8);
	tape_put_number(t, p->request | p->from_end, 8); // a file that is read as a whole has no request
	tape_put_number(t, size, 8);
	tape_put_number(t, argument, 4);
	tape_put_number(t, p->find.n, 4);
	text_add(t, (struct str){ p->argument, argument });
	text_add(t, p->find);
}

uint64_t tape_take_number(struct tape_cursor *c, unsigned bytes)
{
	uint64_t value = 0;
	struct str s = tape_take_bytes(c, bytes);
	for (unsigned i = 0; i < s.n; i++)
		value |= (uint64_t)(unsigned char)s.p[i] << 8 * i;
	return value;
}

struct str tape_take_bytes(struct tape_cursor *c, size_t n)
{
	struct str s = str_cut(c->left, n);
	if (n > c->left.n) {
		*c = (struct tape_cursor){ .short_of = true };
		return (struct str){ 0 };
	}
	c->left = str_from(c->left, n);
	return s;
}

struct str tape_take_text(struct tape_cursor *c) { return tape_take_bytes(c, tape_take_number(c, 4)); }

bool tape_take_record(struct str *left, enum tape_type *ret_type, struct str *ret)
{
	struct tape_cursor c = { *left };
	uint64_t size = tape_take_number(&c, 4);
	uint32_t sum = (uint32_t)tape_take_number(&c, 4);
	struct str payload = size <= TAPE_RECORD_MOST ? tape_take_bytes(&c, size) : (struct str){ 0 };
	if (c.short_of || !payload.n || checksum(payload) != sum)
		return false;
	*left = c.left;
	*ret_type = (enum tape_type)(unsigned char)payload.p[0];
	*ret = str_from(payload, 1);
	return true;
}

uint32_t tape_sum(uint32_t sum, struct str more)
{
	enum { AT_ONCE = 1 << 30 };
	for (; more.n; more = str_from(more, AT_ONCE))
		sum = (uint32_t)crc32(sum, (const unsigned char *)more.p, (unsigned)str_cut(more, AT_ONCE).n);
	return sum;
}

void tape_put_last(struct text *t, const struct tape_last *last)
{
	const size_t start = tape_open_record(t, TAPE_END);
	tape_put_text(t, last->id);
	tape_put_number(t, last->sum, 4);
	tape_close_record(t, start);
}

struct str tape_id(struct str bytes)
{
	enum { SIZE = TAPE_RECORD_HEAD + 1 + 4 + TAPE_ID + 4 };
	struct str end = str_from(bytes, bytes.n < SIZE ? 0 : bytes.n - SIZE), record;
	enum tape_type type;
	if (!tape_take_record(&end, &type, &record) || type != TAPE_END)
		return (struct str){ 0 };
	return tape_take_text(&(struct tape_cursor){ record });
}

bool tape_take_last(struct str record, struct str before, struct tape_last *ret)
{
	struct tape_cursor c = { record };
	ret->id = tape_take_text(&c);
	ret->sum = (uint32_t)tape_take_number(&c, 4);
	return !c.short_of && ret->sum == tape_sum(0, before);
}

bool tape_take_batch(struct str record, struct tape_batch *ret)
{
	struct tape_cursor c = { record };
	ret->began = (int64_t)tape_take_number(&c, 8);
	ret->ended = (int64_t)tape_take_number(&c, 8);
	unsigned flags = (unsigned)tape_take_number(&c, 1);
	ret->stuck.is = flags & 1;
	ret->stuck.late = flags & 2;
	ret->stuck.uninterruptible = flags & 4;
	ret->stuck.at = tape_take_text(&c);
	ret->stuck.stack = tape_take_text(&c);
	ret->stuck.wchan = tape_take_text(&c);
	return !c.short_of;
}

bool tape_take_probe(struct str record, struct tape_probe *ret)
{
	struct tape_cursor c = { record };
	struct str head = tape_take_bytes(&c, TAPE_KEY);
	if (c.short_of)
		return false;
	uint64_t rest = (uint64_t)get_u32(head.p + 32) + get_u32(head.p + 36);
	tape_take_bytes(&c, rest);
	ret->key = str_cut(record, TAPE_KEY + rest);
	ret->path = get_u32(head.p + 4);
	ret->end = (enum probe_end)tape_take_number(&c, 1);
	ret->error = (int)(int32_t)tape_take_number(&c, 4);
	ret->batch = (uint32_t)tape_take_number(&c, 4);
	ret->data = c.left;
	return !c.short_of && ret->end <= PROBE_STUCK;
}

// === The names on a tape, each once: thousands of questions are about a few hundred paths, and a track refers to them by number. ===

static uint32_t *tape_names_slot_of(const struct tape_names *n, struct str name)
{
	const uint64_t hash = str_hash(STR_HASH_BEGIN, name);
	size_t i = (size_t)(hash ^ hash >> 29) & (n->nslots - 1);
	while (n->slots[i] && !str_eq(n->list.data[n->slots[i] - 1], name))
		i = (i + 1) & (n->nslots - 1);
	return &n->slots[i];
}

uint32_t tape_name(struct tape_names *n, struct str name, bool add)
{
	enum { FIRST = 256 };
	if (n->list.len * 2 >= n->nslots) {
		free(n->slots);
		n->nslots = n->nslots ? 2 * n->nslots : FIRST;
		n->slots = mem_alloc(n->nslots * sizeof(*n->slots));
		for (uint32_t i = 0; i < n->list.len; i++)
			*tape_names_slot_of(n, n->list.data[i]) = i + 1;
	}
	uint32_t *slot = tape_names_slot_of(n, name);
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
