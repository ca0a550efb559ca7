// Writes and reads messages by the tables of their structs (wire.h). What is read may come from a child that a hostile file has taken over:
// every type, number and length is checked before it is used, and nothing is believed because unhang would have written it so.
#include "base/child/wire.h"

#include "base/bytes.h"

// What stands in front of a value. A zero, an empty text and an empty list are one byte, since most fields of most structs are that.
enum {
	NOTHING = 'z', // 0, no elements, NULL
	SAME = 's',    // the text of the element before it: of a thousand reads of one file its path is sent once
	EMPTY = 'e',   // a text without bytes that is not NULL
	TEXT = 't',
	LIST = 'l',
	PART = 'p', // a number has the number of its bytes: '1', '2', '4', '8'
};
enum { VERSION = 1, MAGIC = 0x7568 }; // "hu"

// --- writing ---

static void put_bytes(struct text *to, uint64_t value, unsigned bytes)
{
	char *at = text_room(to, bytes);
	for (unsigned i = 0; i < bytes; i++)
		at[i] = (char)(value >> 8 * i);
	to->n += bytes;
}

static void put_type(struct text *to, char type) { text_add(to, (struct str){ &type, 1 }); }

static void child_wire_put_number(struct text *to, uint64_t value)
{
	const unsigned bytes = value > UINT32_MAX ? 8 : value > UINT16_MAX ? 4 : value > UINT8_MAX ? 2 : 1;
	if (!value) {
		put_type(to, NOTHING);
		return;
	}
	put_type(to, (char)('0' + bytes));
	put_bytes(to, value, bytes);
}

/** A number of a struct, its sign drawn out. */
static uint64_t field_number(const char *at, size_t size, bool sign)
{
	uint64_t value = 0;
	memcpy(&value, at, size); // little-endian, as all machines that have such GPUs are
	const unsigned unused = 64 - 8 * (unsigned)size;
	return sign ? (uint64_t)((int64_t)(value << unused) >> unused) : value;
}

static void child_wire_put_text(struct text *to, struct str s)
{
	put_type(to, s.n ? TEXT : s.p ? EMPTY : NOTHING);
	if (s.n)
		child_wire_put_number(to, s.n);
	text_add(to, s);
}

static const void *field_pointer(const char *at)
{
	const void *p;
	memcpy(&p, at, sizeof(p));
	return p;
}

/** @before: the element of a list before this one; NULL. */
static void put_struct(struct text *to, const struct wire_kind *k, const char *from, const char *before)
{
	for (size_t i = 0; i < k->n; i++) {
		const struct wire_field *f = &k->fields[i];
		const char *at = from + f->at;
		const uint64_t count = f->count_size ? field_number(from + f->count_at, f->count_size, false) : 0;
		const char *p = f->type >= WIRE_IS_Z && f->type <= WIRE_IS_LIST ? field_pointer(at) : NULL;
		switch (f->type) {
		case WIRE_IS_NUMBER:
			child_wire_put_number(to, field_number(at, f->size, f->sign));
			break;
		case WIRE_IS_TEXT:
			child_wire_put_text(to, *(const struct str *)(const void *)at);
			break;
		case WIRE_IS_Z:
			if (p && before && p == field_pointer(before + f->at))
				put_type(to, SAME);
			else
				child_wire_put_text(to, p ? str_z(p) : (struct str){ 0 });
			break;
		case WIRE_IS_BYTES:
			child_wire_put_text(to, (struct str){ p, p ? count : 0 });
			if (!p)
				child_wire_put_number(to, count);
			break;
		case WIRE_IS_LIST:
			put_type(to, LIST);
			child_wire_put_number(to, count);
			for (uint64_t n = 0; n < count; n++, p += f->of->size)
				put_struct(to, f->of, p, n ? p - f->of->size : NULL);
			break;
		case WIRE_IS_PART:
			put_type(to, PART);
			put_struct(to, f->of, at, NULL);
			break;
		}
	}
}

void wire_put(struct text *to, const struct wire_kind *k, const void *from)
{
	const size_t start = to->n;
	put_bytes(to, MAGIC, 2);
	put_bytes(to, VERSION, 2);
	put_bytes(to, k->id, 4);
	put_bytes(to, 0, 8);
	put_struct(to, k, from, NULL);
	const uint64_t length = to->n - start - WIRE_HEAD;
	for (unsigned i = 0; i < 8; i++)
		to->p[start + 8 + i] = (char)(length >> 8 * i);
}

// --- reading ---

struct wire_cursor {
	struct str left;
	struct arena *a;
};

static bool child_wire_take_bytes(struct wire_cursor *c, uint64_t n, struct str *ret)
{
	if (n > c->left.n)
		return false;
	*ret = str_cut(c->left, n);
	c->left = str_from(c->left, n);
	return true;
}

static bool take_type(struct wire_cursor *c, char *ret)
{
	struct str type;
	if (!child_wire_take_bytes(c, 1, &type))
		return false;
	*ret = *type.p;
	return true;
}

/** A number is written in as few bytes as it needs: who writes it in more is none of ours. */
static bool child_wire_take_number(struct wire_cursor *c, uint64_t *ret)
{
	char type;
	struct str bytes;
	if (!take_type(c, &type) || (type != NOTHING && type != '1' && type != '2' && type != '4' && type != '8'))
		return false;
	const unsigned size = type == NOTHING ? 0 : (unsigned)(type - '0');
	if (!child_wire_take_bytes(c, size, &bytes))
		return false;
	*ret = 0;
	for (unsigned i = 0; i < size; i++)
		*ret |= (uint64_t)(unsigned char)bytes.p[i] << 8 * i;
	return !size || *ret >> (size == 1 ? 0 : 4 * size);
}

static bool take_text(struct wire_cursor *c, uint64_t most, const char *same, struct str *ret)
{
	char type;
	uint64_t n = 0;
	*ret = (struct str){ 0 };
	if (!take_type(c, &type))
		return false;
	switch (type) {
	case NOTHING:
		return true;
	case SAME:
		*ret = (struct str){ same, 0 };
		return same;
	case EMPTY:
		break;
	case TEXT:
		if (!child_wire_take_number(c, &n) || !n || n > most || !child_wire_take_bytes(c, n, ret))
			return false;
		break;
	default:
		return false;
	}
	*ret = (struct str){ arena_z(c->a, *ret), n };
	return true;
}

static bool child_wire_fits(const struct wire_field *f, uint64_t value)
{
	const int64_t number = (int64_t)value;
	return f->sign && number < 0 ?
		       (uint64_t) - (number + 1) <= f->most && number == (int64_t)field_number((char *)&value, f->size, true) :
		       value <= f->most && value == field_number((char *)&value, f->size, f->sign);
}

static bool take_struct(struct wire_cursor *c, const struct wire_kind *k, char *to, const char *before);

static bool take_list(struct wire_cursor *c, const struct wire_field *f, char *to)
{
	char type, *all;
	uint64_t n;
	// An element has a byte for each field at least, so that a number alone cannot make anybody ask for memory.
	if (!take_type(c, &type) || type != LIST || !child_wire_take_number(c, &n) || n > f->most || n > c->left.n / f->of->n)
		return false;
	all = arena_alloc(c->a, (n + 1) * f->of->size);
	memcpy(to + f->at, &all, sizeof(all));
	memcpy(to + f->count_at, &n, f->count_size);
	for (uint64_t i = 0; i < n; i++, all += f->of->size)
		if (!take_struct(c, f->of, all, i ? all - f->of->size : NULL))
			return false;
	return true;
}

static bool take_struct(struct wire_cursor *c, const struct wire_kind *k, char *to, const char *before)
{
	bool good = true;
	for (size_t i = 0; i < k->n && good; i++) {
		const struct wire_field *f = &k->fields[i];
		uint64_t value = 0;
		struct str text;
		char type;
		switch (f->type) {
		case WIRE_IS_NUMBER:
			good = child_wire_take_number(c, &value) && child_wire_fits(f, value);
			if (good)
				memcpy(to + f->at, &value, f->size);
			break;
		case WIRE_IS_TEXT:
			good = take_text(c, f->most, NULL, (struct str *)(void *)(to + f->at));
			break;
		case WIRE_IS_Z:
			good = take_text(c, f->most, before ? field_pointer(before + f->at) : NULL, &text) &&
			       !(text.n && memchr(text.p, 0, text.n));
			memcpy(to + f->at, &text.p, sizeof(text.p));
			break;
		case WIRE_IS_BYTES:
			good = take_text(c, f->most, NULL, &text);
			value = text.n;
			good = good && (text.p || child_wire_take_number(c, &value)) && value <= f->most;
			memcpy(to + f->at, &text.p, sizeof(text.p));
			memcpy(to + f->count_at, &value, f->count_size);
			break;
		case WIRE_IS_LIST:
			good = take_list(c, f, to);
			break;
		case WIRE_IS_PART:
			good = take_type(c, &type) && type == PART && take_struct(c, f->of, to + f->at, NULL);
			break;
		}
	}
	return good;
}

bool wire_length(const char head[static WIRE_HEAD], const struct wire_kind *k, uint64_t *ret)
{
	*ret = get_u64(head + 8);
	return get_u32(head) == (MAGIC | VERSION << 16) && get_u32(head + 4) == k->id;
}

bool wire_take(struct str bytes, const struct wire_kind *k, struct arena *a, void *ret)
{
	uint64_t length;
	struct wire_cursor c = { str_from(bytes, WIRE_HEAD), a };
	memset(ret, 0, k->size);
	return bytes.n >= WIRE_HEAD && wire_length(bytes.p, k, &length) && length == c.left.n &&
	       take_struct(&c, k, ret, NULL) && !c.left.n;
}

static const struct wire_field text_fields[] = { { .type = WIRE_IS_TEXT, .size = sizeof(struct str), .most = SIZE_MAX } };
const struct wire_kind wire_one_text = WIRE_KIND('t', struct str, text_fields);
