#include "code/object/msgpack.h"

/** How the values that begin with one of these bytes are built. */
struct msgpack_form {
	unsigned char first, last;
	unsigned char width; // of the big-endian number behind it; 0: the low bits of the byte are the number
	unsigned char mask;  // of those bits
	unsigned char extra; // bytes of text besides its length
	enum msgpack_kind kind;
	bool body; // the number is the length of a text
};

static const struct msgpack_form forms[] = {
	{ 0x00, 0x7f, 0, 0x7f, 0, MSGPACK_UNSIGNED, false }, { 0x80, 0x8f, 0, 0x0f, 0, MSGPACK_MAP, false },
	{ 0x90, 0x9f, 0, 0x0f, 0, MSGPACK_ARRAY, false },    { 0xa0, 0xbf, 0, 0x1f, 0, MSGPACK_TEXT, true },
	{ 0xc0, 0xc0, 0, 0x00, 0, MSGPACK_NIL, false },      { 0xc2, 0xc3, 0, 0x01, 0, MSGPACK_BOOL, false },
	{ 0xc4, 0xc4, 1, 0x00, 0, MSGPACK_OTHER, true },     { 0xc5, 0xc5, 2, 0x00, 0, MSGPACK_OTHER, true },
	{ 0xc6, 0xc6, 4, 0x00, 0, MSGPACK_OTHER, true },     { 0xc7, 0xc7, 1, 0x00, 1, MSGPACK_OTHER, true },
	{ 0xc8, 0xc8, 2, 0x00, 1, MSGPACK_OTHER, true },     { 0xc9, 0xc9, 4, 0x00, 1, MSGPACK_OTHER, true },
	{ 0xca, 0xca, 4, 0x00, 0, MSGPACK_OTHER, false },    { 0xcb, 0xcb, 8, 0x00, 0, MSGPACK_OTHER, false },
	{ 0xcc, 0xcc, 1, 0x00, 0, MSGPACK_UNSIGNED, false }, { 0xcd, 0xcd, 2, 0x00, 0, MSGPACK_UNSIGNED, false },
	{ 0xce, 0xce, 4, 0x00, 0, MSGPACK_UNSIGNED, false }, { 0xcf, 0xcf, 8, 0x00, 0, MSGPACK_UNSIGNED, false },
	{ 0xd0, 0xd0, 1, 0x00, 0, MSGPACK_NEGATIVE, false }, { 0xd1, 0xd1, 2, 0x00, 0, MSGPACK_NEGATIVE, false },
	{ 0xd2, 0xd2, 4, 0x00, 0, MSGPACK_NEGATIVE, false }, { 0xd3, 0xd3, 8, 0x00, 0, MSGPACK_NEGATIVE, false },
	{ 0xd4, 0xd4, 0, 0x00, 2, MSGPACK_OTHER, true },     { 0xd5, 0xd5, 0, 0x00, 3, MSGPACK_OTHER, true },
	{ 0xd6, 0xd6, 0, 0x00, 5, MSGPACK_OTHER, true },     { 0xd7, 0xd7, 0, 0x00, 9, MSGPACK_OTHER, true },
	{ 0xd8, 0xd8, 0, 0x00, 17, MSGPACK_OTHER, true },    { 0xd9, 0xd9, 1, 0x00, 0, MSGPACK_TEXT, true },
	{ 0xda, 0xda, 2, 0x00, 0, MSGPACK_TEXT, true },      { 0xdb, 0xdb, 4, 0x00, 0, MSGPACK_TEXT, true },
	{ 0xdc, 0xdc, 2, 0x00, 0, MSGPACK_ARRAY, false },    { 0xdd, 0xdd, 4, 0x00, 0, MSGPACK_ARRAY, false },
	{ 0xde, 0xde, 2, 0x00, 0, MSGPACK_MAP, false },      { 0xdf, 0xdf, 4, 0x00, 0, MSGPACK_MAP, false },
	{ 0xe0, 0xff, 0, 0x1f, 0, MSGPACK_NEGATIVE, false },
};

static const struct msgpack_form *form_of(unsigned char byte)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if (byte >= forms[i].first && byte <= forms[i].last)
			return &forms[i];
	return NULL;
}

bool msgpack_next(struct msgpack *m, struct msgpack_value *ret)
{
	struct str rest = str_from(m->file, m->at);
	const struct msgpack_form *f = rest.n ? form_of((unsigned char)rest.p[0]) : NULL;
	if (!f || rest.n - 1 < f->width)
		return false;
	struct msgpack_value v = { f->kind, (unsigned char)rest.p[0] & f->mask, { 0 } };
	for (size_t i = 0; i < f->width; i++)
		v.number = v.number << 8 | (unsigned char)rest.p[1 + i];
	// A signed number that is not negative is treated as unsigned.
	if (f->kind == MSGPACK_NEGATIVE && f->width && !((unsigned char)rest.p[1] & 0x80))
		v.kind = MSGPACK_UNSIGNED;
	size_t head = 1 + f->width;
	size_t body = f->body ? (size_t)v.number + f->extra : 0;
	if (body > rest.n - head)
		return false;
	v.text = (struct str){ rest.p + head, body };
	m->at += head + body;
	*ret = v;
	return true;
}

bool msgpack_skip(struct msgpack *m, uint64_t count)
{
	struct msgpack_value v;
	for (; count; count--) {
		if (!msgpack_next(m, &v))
			return false;
		// A head has at most 2^32 members and at least a byte, so that this cannot wrap.
		if (v.kind == MSGPACK_ARRAY)
			count += v.number;
		else if (v.kind == MSGPACK_MAP)
			count += 2 * v.number;
	}
	return true;
}
