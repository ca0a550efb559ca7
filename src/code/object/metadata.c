// The note that tells what each kernel needs: msgpack, read in one pass. An unknown key is skipped and a wrong type told, so that notes
// of newer compilers are read as far as they are understood.
#include "code/object/metadata.h"

#include <stdlib.h>

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

/** Takes the next value; of an array or map only the head. false: it is cut off, or not MessagePack; then @m does not move. */
static bool msgpack_next(struct msgpack *m, struct msgpack_value *ret)
{
	struct str rest = str_from(m->file, m->at);
	const unsigned char byte = rest.n ? (unsigned char)rest.p[0] : 0;
	const struct msgpack_form *f = list_find(forms, ARRAY_SIZE(forms), it, byte >= it->first && byte <= it->last);
	if (!rest.n || !f || rest.n - 1 < f->width)
		return false;
	struct msgpack_value v = { f->kind, byte & f->mask, { 0 } };
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

/** Goes past @count whole values, with all that they hold. */
static bool msgpack_skip(struct msgpack *m, uint64_t count)
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

// --- what a kernel needs ---

enum field_kind { FIELD_TEXT, FIELD_NUMBER, FIELD_FLAG, FIELD_THREE, FIELD_ARGUMENTS, FIELD_KERNELS };

/** A key of a map, and where its value goes in the structure that is read. */
struct field {
	const char *key;
	enum field_kind kind;
	size_t to;
};

#define KERNEL(key, kind, member)                                                                                              \
	{                                                                                                                      \
		key, kind, offsetof(struct metadata_kernel, member)                                                            \
	}
static const struct field kernel_fields[] = {
	KERNEL(".name", FIELD_TEXT, kernel.name),
	KERNEL(".symbol", FIELD_TEXT, symbol),
	KERNEL(".vgpr_count", FIELD_NUMBER, kernel.vgprs),
	KERNEL(".agpr_count", FIELD_NUMBER, kernel.agprs),
	KERNEL(".sgpr_count", FIELD_NUMBER, kernel.sgprs),
	KERNEL(".vgpr_spill_count", FIELD_NUMBER, kernel.vgpr_spills),
	KERNEL(".sgpr_spill_count", FIELD_NUMBER, kernel.sgpr_spills),
	KERNEL(".group_segment_fixed_size", FIELD_NUMBER, kernel.lds),
	KERNEL(".private_segment_fixed_size", FIELD_NUMBER, kernel.scratch),
	KERNEL(".kernarg_segment_size", FIELD_NUMBER, kernel.kernarg_size),
	KERNEL(".max_flat_workgroup_size", FIELD_NUMBER, kernel.max_workgroup),
	KERNEL(".wavefront_size", FIELD_NUMBER, kernel.wave_size),
	KERNEL(".reqd_workgroup_size", FIELD_THREE, kernel.required_workgroup),
	KERNEL(".uses_dynamic_stack", FIELD_FLAG, kernel.dynamic_stack),
	KERNEL(".args", FIELD_ARGUMENTS, kernel),
	{ 0 },
};
#undef KERNEL

#define ARGUMENT(key, kind, member)                                                                                            \
	{                                                                                                                      \
		key, kind, offsetof(struct code_argument, member)                                                              \
	}
static const struct field argument_fields[] = {
	ARGUMENT(".name", FIELD_TEXT, name),
	ARGUMENT(".type_name", FIELD_TEXT, type_name),
	ARGUMENT(".value_kind", FIELD_TEXT, value_kind),
	ARGUMENT(".address_space", FIELD_TEXT, address_space),
	ARGUMENT(".access", FIELD_TEXT, access),
	ARGUMENT(".actual_access", FIELD_TEXT, access),
	ARGUMENT(".offset", FIELD_NUMBER, offset),
	ARGUMENT(".size", FIELD_NUMBER, size),
	{ 0 },
};
#undef ARGUMENT

static const struct field document_fields[] = {
	{ "amdhsa.target", FIELD_TEXT, offsetof(struct metadata, target) },
	{ "amdhsa.kernels", FIELD_KERNELS, 0 },
	{ 0 },
};

struct metadata_reader {
	struct msgpack in;
	struct arena *arena;
	struct code_problems *problems;
};

/** Takes the head of an array or a map. Any other value is a problem; it is skipped and counts as empty. */
static bool metadata_take_head(struct metadata_reader *r, enum msgpack_kind kind, const char *what, uint64_t *ret_count)
{
	struct msgpack_value v;
	size_t at = r->in.at;
	*ret_count = 0;
	if (!msgpack_next(&r->in, &v))
		return false;
	if (v.kind == kind) {
		*ret_count = v.number;
		return true;
	}
	code_problem(r->problems, "metadata at 0x%zx: %s is no %s", at, what, kind == MSGPACK_MAP ? "map" : "array");
	r->in.at = at;
	return msgpack_skip(&r->in, 1);
}

static bool metadata_read_field(struct metadata_reader *r, const struct field *fields, struct str key, void *base);

/** Reads the values of a map whose keys are among @fields. */
static bool metadata_read_map(struct metadata_reader *r, const char *what, const struct field *fields, void *to)
{
	uint64_t n;
	if (!metadata_take_head(r, MSGPACK_MAP, what, &n))
		return false;
	for (; n; n--) {
		struct msgpack_value key;
		if (!msgpack_next(&r->in, &key))
			return false;
		if (key.kind == MSGPACK_ARRAY || key.kind == MSGPACK_MAP) {
			code_problem(r->problems, "metadata at 0x%zx: a key of %s is no text", r->in.at, what);
			if (!msgpack_skip(&r->in, key.kind == MSGPACK_MAP ? 2 * key.number + 1 : key.number + 1))
				return false;
		} else if (!metadata_read_field(r, fields, key.kind == MSGPACK_TEXT ? key.text : (struct str){ 0 }, to)) {
			return false;
		}
	}
	return true;
}

/** Puts a value that is neither array nor map into *to. */
static bool metadata_fill(const struct msgpack_value *v, enum field_kind kind, void *to)
{
	if (kind == FIELD_TEXT && v->kind == MSGPACK_TEXT)
		*(struct str *)to = v->text;
	else if (kind == FIELD_NUMBER && v->kind == MSGPACK_UNSIGNED && v->number <= UINT32_MAX)
		*(uint32_t *)to = (uint32_t)v->number;
	else if (kind == FIELD_FLAG && (v->kind == MSGPACK_BOOL || v->kind == MSGPACK_UNSIGNED))
		*(bool *)to = v->number != 0;
	else
		return false;
	return true;
}

static bool read_three(struct metadata_reader *r, uint32_t to[3])
{
	uint64_t n;
	struct msgpack_value v;
	size_t at = r->in.at;
	uint32_t three[3];
	if (!metadata_take_head(r, MSGPACK_ARRAY, ".reqd_workgroup_size", &n))
		return false;
	if (n != 3) {
		code_problem(r->problems, "metadata at 0x%zx: a size has %ju dimensions, not 3", at, (uintmax_t)n);
		return msgpack_skip(&r->in, n);
	}
	for (unsigned i = 0; i < 3; i++) {
		size_t number_at = r->in.at;
		if (!msgpack_next(&r->in, &v))
			return false;
		if (!metadata_fill(&v, FIELD_NUMBER, &three[i])) {
			code_problem(r->problems, "metadata at 0x%zx: a dimension is no 32-bit number", number_at);
			r->in.at = number_at;
			return msgpack_skip(&r->in, 3 - i);
		}
	}
	memcpy(to, three, sizeof(three));
	return true;
}

static bool read_arguments(struct metadata_reader *r, struct code_kernel *k)
{
	_cleanup_vec_ VEC(struct code_argument) found = { 0 };
	uint64_t n;
	bool ok = metadata_take_head(r, MSGPACK_ARRAY, ".args", &n);
	while (ok && n--) {
		struct code_argument a = { 0 };
		size_t at = r->in.at;
		ok = metadata_read_map(r, "an argument", argument_fields, &a);
		if (ok && a.value_kind.n)
			vec_push(&found, a);
		else if (ok)
			code_problem(r->problems, "metadata at 0x%zx: an argument has no .value_kind", at);
	}
	k->arguments = arena_copy(r->arena, found.data, found.len * sizeof(*found.data));
	k->narguments = found.len;
	return ok;
}

/** A kernel without a name is told and left out; it does not cost the others. */
static bool metadata_read_kernels(struct metadata_reader *r, struct metadata *to)
{
	_cleanup_vec_ VEC(struct metadata_kernel) found = { 0 };
	uint64_t n;
	bool ok = metadata_take_head(r, MSGPACK_ARRAY, "amdhsa.kernels", &n);
	while (ok && n--) {
		struct metadata_kernel m = { .offset = r->in.at };
		ok = metadata_read_map(r, "a kernel", kernel_fields, &m);
		// V3 and later name the symbol of the descriptor; its function is called as the kernel.
		if (str_ends(m.symbol, S(".kd")))
			m.kernel.name = str_cut(m.symbol, m.symbol.n - 3);
		if (m.kernel.name.n > 0)
			vec_push(&found, m);
		else if (ok)
			code_problem(r->problems, "metadata at 0x%zx: a kernel has no name", m.offset);
	}
	to->kernels = arena_copy(r->arena, found.data, found.len * sizeof(*found.data));
	to->nkernels = found.len;
	return ok;
}

/** A key that is in none of the tables is skipped: newer compilers have more of them. */
static bool metadata_read_field(struct metadata_reader *r, const struct field *fields, struct str key, void *base)
{
	const struct field *f = fields;
	while (f->key && !str_is(key, f->key))
		f++;
	if (!f->key)
		return msgpack_skip(&r->in, 1);
	void *to = (char *)base + f->to;
	if (f->kind == FIELD_ARGUMENTS)
		return read_arguments(r, to);
	if (f->kind == FIELD_KERNELS)
		return metadata_read_kernels(r, to);
	if (f->kind == FIELD_THREE)
		return read_three(r, to);
	struct msgpack_value v;
	size_t at = r->in.at;
	if (!msgpack_next(&r->in, &v))
		return false;
	if (metadata_fill(&v, f->kind, to))
		return true;
	code_problem(r->problems, "metadata at 0x%zx: %s has no value of its kind", at, f->key);
	r->in.at = at;
	return msgpack_skip(&r->in, 1);
}

void metadata_read(struct arena *a, struct str file, size_t offset, size_t size, struct code_problems *problems,
		   struct metadata *ret)
{
	struct metadata_reader r = { { str_cut(file, offset + size), offset }, a, problems };
	if (!metadata_read_map(&r, "the note", document_fields, ret))
		code_problem(problems, "metadata at 0x%zx: the value at 0x%zx is cut off or none", offset, r.in.at);
}
