// A machine that runs a pickle's instructions on a stack, as Python does, but knows only those that make plain data: a name of a class or a
// call ends it. Sizes, depth and numbers of values are bounded, because a pickle of a few bytes can ask for any of them.
#include "evidence/documents/document.h"

#include <stdlib.h>

#include "base/arena.h"

enum {
	STACK_MAX = 1 << 20,
	MEMO_MAX = 1 << 20,
	COPIED_MAX = 1 << 20,
	TEXT_MAX = 1 << 20,
	DEPTH_MAX = 64,
	VALUES_MAX = 2 << 20
};

struct pickle_slot {
	json_t *item;   // NULL is a mark
	unsigned depth; // to which containers are nested in it
};

struct pickle {
	struct str s;
	size_t at;
	VEC(struct pickle_slot) stack;
	VEC(struct pickle_slot) memo;
	size_t values; // made so far
	size_t copied; // members of what was fetched again
};

bool pickle_begins(struct str head)
{
	unsigned char version = head.n > 2 ? (unsigned char)head.p[1] : 0;
	return head.n > 2 && head.p[0] == '\x80' && version >= 2 && version <= 5 && (head.p[2] == '}' || head.p[2] == '\x95');
}

/** A little-endian number of @size bytes. */
static bool pickle_take_number(struct pickle *p, size_t size, uint64_t *ret)
{
	uint64_t v = 0;
	if (p->s.n - p->at < size)
		return false;
	for (size_t i = 0; i < size; i++)
		v |= (uint64_t)(unsigned char)p->s.p[p->at + i] << 8 * i;
	p->at += size;
	*ret = v;
	return true;
}

/** Takes @item over; NULL is a failure. */
static bool push_deep(struct pickle *p, json_t *item, unsigned depth)
{
	if (!item)
		return false;
	if (p->stack.len >= STACK_MAX || p->values++ >= VALUES_MAX) {
		json_decref(item);
		return false;
	}
	struct pickle_slot slot = { item, depth };
	vec_push(&p->stack, slot);
	return true;
}

static bool push(struct pickle *p, json_t *item) { return push_deep(p, item, json_is_array(item) || json_is_object(item)); }

static bool push_text(struct pickle *p, size_t size_bytes)
{
	uint64_t n;
	if (!pickle_take_number(p, size_bytes, &n) || n > p->s.n - p->at || n > TEXT_MAX)
		return false;
	json_t *text = json_stringn(p->s.p + p->at, (size_t)n);
	p->at += (size_t)n;
	return push(p, text ? text : json_string("?")); // not UTF-8
}

static bool push_long(struct pickle *p, size_t size_bytes)
{
	uint64_t n, v = 0;
	if (!pickle_take_number(p, size_bytes, &n) || n > p->s.n - p->at || n > 8)
		return false;
	bool negative = n && (unsigned char)p->s.p[p->at + n - 1] >= 0x80;
	if (!pickle_take_number(p, (size_t)n, &v))
		return false;
	if (negative && n < 8)
		v |= ~0ull << 8 * n;
	return push(p, json_integer((json_int_t)v));
}

static bool push_float(struct pickle *p)
{
	uint64_t bits = 0;
	double v;
	if (p->s.n - p->at < 8)
		return false;
	for (size_t i = 0; i < 8; i++)
		bits = bits << 8 | (unsigned char)p->s.p[p->at + i];
	p->at += 8;
	memcpy(&v, &bits, sizeof(v));
	json_t *real = json_real(v);
	return push(p, real ? real : json_null()); // JSON has no infinity
}

/** Where the items of the newest mark begin; SIZE_MAX where there is none. */
static size_t find_mark(const struct pickle *p)
{
	for (size_t n = p->stack.len; n-- > 0;)
		if (!p->stack.data[n].item)
			return n + 1;
	return SIZE_MAX;
}

/** The depth of a container that holds the items from @from on; 0: it would be too deep. (Data is freed recursively, so its depth must be
 * limited.) */
static unsigned depth_around(const struct pickle *p, size_t from, unsigned own)
{
	unsigned deepest = own ? own - 1 : 0;
	for (size_t n = from; n < p->stack.len; n++)
		deepest = p->stack.data[n].depth > deepest ? p->stack.data[n].depth : deepest;
	return deepest < DEPTH_MAX ? deepest + 1 : 0;
}

static bool make_tuple(struct pickle *p, size_t from, bool marked)
{
	unsigned depth = from <= p->stack.len ? depth_around(p, from, 0) : 0;
	if (!depth)
		return false;
	json_t *array = json_array();
	bool good = true;
	for (size_t n = from; n < p->stack.len; n++) {
		good &= p->stack.data[n].item != NULL;
		if (p->stack.data[n].item)
			json_array_append_new(array, p->stack.data[n].item);
	}
	p->stack.len = from - marked;
	if (good)
		return push_deep(p, array, depth);
	json_decref(array);
	return false;
}

static void set_item(json_t *dict, json_t *key, json_t *value)
{
	char number[32];
	if (json_is_string(key)) {
		json_object_set_new(dict, json_string_value(key), value);
	} else if (json_is_integer(key)) {
		snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(key));
		json_object_set_new(dict, number, value);
	} else {
		json_decref(value);
	}
	json_decref(key);
}

/** Puts the items from @from on into the container before them: a list, or a dict, which takes them in pairs. Where they may not go there,
 * they are freed. */
static bool fill_from(struct pickle *p, size_t from, bool marked, bool pairs)
{
	if (from > p->stack.len)
		return false;
	struct pickle_slot *slot = from > marked ? &p->stack.data[from - 1 - marked] : NULL;
	const unsigned depth = slot && slot->item ? depth_around(p, from, slot->depth) : 0;
	bool good = depth && (pairs ? json_is_object(slot->item) && (p->stack.len - from) % 2 == 0 : json_is_array(slot->item));
	for (size_t n = from; n < p->stack.len; n++)
		good &= p->stack.data[n].item != NULL;
	if (good)
		slot->depth = depth;
	for (size_t n = from; n < p->stack.len; n += good && pairs ? 2 : 1) {
		json_t *item = p->stack.data[n].item;
		if (!good)
			json_decref(item);
		else if (pairs)
			set_item(slot->item, item, p->stack.data[n + 1].item);
		else
			json_array_append_new(slot->item, item);
	}
	p->stack.len = from - marked;
	return good;
}

static bool memo_put(struct pickle *p, uint64_t index)
{
	struct pickle_slot top = p->stack.len ? p->stack.data[p->stack.len - 1] : (struct pickle_slot){ 0 }, none = { 0 };
	if (index > p->memo.len || index >= MEMO_MAX || !top.item)
		return false;
	if (index == p->memo.len)
		vec_push(&p->memo, none);
	json_decref(p->memo.data[index].item);
	p->memo.data[index] = (struct pickle_slot){ json_incref(top.item), 0 };
	return true;
}

static bool holds_containers(const json_t *item)
{
	const char *key;
	json_t *child;
	size_t index;
	json_array_foreach(item, index, child)
	{
		if (json_is_array(child) || json_is_object(child))
			return true;
	}
	json_object_foreach((json_t *)item, key, child)
	{
		if (json_is_array(child) || json_is_object(child))
			return true;
	}
	return false;
}

/** What is fetched again is copied, and only where it is flat: data that contains itself would never end. */
static bool memo_get(struct pickle *p, uint64_t index)
{
	json_t *item = index < p->memo.len ? p->memo.data[index].item : NULL;
	if (!item)
		return false;
	if (!json_is_array(item) && !json_is_object(item))
		return push(p, json_incref(item));
	p->copied += 1 + json_array_size(item) + json_object_size(item);
	if (p->copied > COPIED_MAX || holds_containers(item))
		return false;
	return push(p, json_copy(item));
}

static bool step(struct pickle *p, unsigned char op)
{
	const struct pickle_slot mark_slot = { 0 };
	uint64_t v;
	switch (op) {
	case 0x80: // PROTO
		return pickle_take_number(p, 1, &v);
	case 0x95: // FRAME
		return pickle_take_number(p, 8, &v);
	case '(':
		if (p->stack.len >= STACK_MAX)
			return false;
		vec_push(&p->stack, mark_slot);
		return true;
	case '}':
		return push(p, json_object());
	case ']':
	case ')':
		return push(p, json_array());
	case 't':
	case 'l':
		return make_tuple(p, find_mark(p), true);
	case 0x85:
	case 0x86:
	case 0x87:
		return p->stack.len >= op - 0x84u && make_tuple(p, p->stack.len - (op - 0x84u), false);
	case 'a':
		return p->stack.len >= 2 && fill_from(p, p->stack.len - 1, false, false);
	case 'e':
		return fill_from(p, find_mark(p), true, false);
	case 's':
		return p->stack.len >= 3 && fill_from(p, p->stack.len - 2, false, true);
	case 'u':
		return fill_from(p, find_mark(p), true, true);
	case 'N':
		return push(p, json_null());
	case 0x88:
		return push(p, json_true());
	case 0x89:
		return push(p, json_false());
	case 'J':
		return pickle_take_number(p, 4, &v) && push(p, json_integer((int32_t)v));
	case 'K':
		return pickle_take_number(p, 1, &v) && push(p, json_integer((json_int_t)v));
	case 'M':
		return pickle_take_number(p, 2, &v) && push(p, json_integer((json_int_t)v));
	case 0x8a:
		return push_long(p, 1);
	case 0x8b:
		return push_long(p, 4);
	case 'G':
		return push_float(p);
	case 'X':
	case 'T':
	case 'B':
		return push_text(p, 4);
	case 0x8c:
	case 'U':
	case 'C':
		return push_text(p, 1);
	case 'q':
		return pickle_take_number(p, 1, &v) && memo_put(p, v);
	case 'r':
		return pickle_take_number(p, 4, &v) && memo_put(p, v);
	case 0x94: // MEMOIZE
		return memo_put(p, p->memo.len);
	case 'h':
		return pickle_take_number(p, 1, &v) && memo_get(p, v);
	case 'j':
		return pickle_take_number(p, 4, &v) && memo_get(p, v);
	default: // names of classes and functions, calls: not plain data
		return false;
	}
}

json_t *pickle_load(struct str bytes)
{
	struct pickle p = { .s = bytes };
	bool good = true, ended = false;
	while (good && !ended && p.at < p.s.n) {
		unsigned char op = (unsigned char)p.s.p[p.at++];
		ended = op == '.';
		good = ended || step(&p, op);
	}
	json_t *result = good && ended && p.stack.len == 1 ? json_incref(p.stack.data[0].item) : NULL;
	for (size_t n = 0; n < p.stack.len; n++)
		json_decref(p.stack.data[n].item);
	for (size_t n = 0; n < p.memo.len; n++)
		json_decref(p.memo.data[n].item);
	vec_free(&p.stack);
	vec_free(&p.memo);
	return result;
}
