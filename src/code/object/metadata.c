#include "code/object/metadata.h"

#include <stdlib.h>

#include "code/object/msgpack.h"

enum field_kind { FIELD_TEXT, FIELD_NUMBER, FIELD_FLAG, FIELD_THREE, FIELD_ARGUMENTS };

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

struct metadata_reader {
	struct msgpack in;
	struct arena *arena;
	struct code_problems *problems;
};

typedef bool entry_fn(struct metadata_reader *r, struct str key, void *to);

/** Takes the head of an array or a map. Any other value is a problem; it is skipped and counts as empty. */
static bool take_head(struct metadata_reader *r, enum msgpack_kind kind, const char *what, uint64_t *ret_count)
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

/** Hands each key of a map to @entry, which takes the value. */
static bool read_map(struct metadata_reader *r, const char *what, entry_fn *entry, void *to)
{
	uint64_t n;
	if (!take_head(r, MSGPACK_MAP, what, &n))
		return false;
	for (; n; n--) {
		struct msgpack_value key;
		if (!msgpack_next(&r->in, &key))
			return false;
		if (key.kind == MSGPACK_ARRAY || key.kind == MSGPACK_MAP) {
			code_problem(r->problems, "metadata at 0x%zx: a key of %s is no text", r->in.at, what);
			if (!msgpack_skip(&r->in, key.kind == MSGPACK_MAP ? 2 * key.number + 1 : key.number + 1))
				return false;
		} else if (!entry(r, key.kind == MSGPACK_TEXT ? key.text : (struct str){ 0 }, to)) {
			return false;
		}
	}
	return true;
}

static bool read_arguments(struct metadata_reader *r, struct code_kernel *k);

/** Puts a value that is neither array nor map into *to. */
static bool fill(const struct msgpack_value *v, enum field_kind kind, void *to)
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
	if (!take_head(r, MSGPACK_ARRAY, ".reqd_workgroup_size", &n))
		return false;
	if (n != 3) {
		code_problem(r->problems, "metadata at 0x%zx: a size has %ju dimensions, not 3", at, (uintmax_t)n);
		return msgpack_skip(&r->in, n);
	}
	for (unsigned i = 0; i < 3; i++) {
		size_t number_at = r->in.at;
		if (!msgpack_next(&r->in, &v))
			return false;
		if (!fill(&v, FIELD_NUMBER, &three[i])) {
			code_problem(r->problems, "metadata at 0x%zx: a dimension is no 32-bit number", number_at);
			r->in.at = number_at;
			return msgpack_skip(&r->in, 3 - i);
		}
	}
	memcpy(to, three, sizeof(three));
	return true;
}

static bool read_field(struct metadata_reader *r, const struct field *fields, struct str key, void *base)
{
	const struct field *f = fields;
	while (f->key && !str_is(key, f->key))
		f++;
	if (!f->key)
		return msgpack_skip(&r->in, 1);
	void *to = (char *)base + f->to;
	if (f->kind == FIELD_ARGUMENTS)
		return read_arguments(r, to);
	if (f->kind == FIELD_THREE)
		return read_three(r, to);
	struct msgpack_value v;
	size_t at = r->in.at;
	if (!msgpack_next(&r->in, &v))
		return false;
	if (fill(&v, f->kind, to))
		return true;
	code_problem(r->problems, "metadata at 0x%zx: %s has no value of its kind", at, f->key);
	r->in.at = at;
	return msgpack_skip(&r->in, 1);
}

static bool argument_entry(struct metadata_reader *r, struct str key, void *to)
{
	return read_field(r, argument_fields, key, to);
}
static bool kernel_entry(struct metadata_reader *r, struct str key, void *to) { return read_field(r, kernel_fields, key, to); }

static bool read_arguments(struct metadata_reader *r, struct code_kernel *k)
{
	VEC(struct code_argument) found = { 0 };
	uint64_t n;
	bool ok = take_head(r, MSGPACK_ARRAY, ".args", &n);
	while (ok && n--) {
		struct code_argument a = { 0 };
		size_t at = r->in.at;
		ok = read_map(r, "an argument", argument_entry, &a);
		if (ok && a.value_kind.n)
			vec_push(&found, a);
		else if (ok)
			code_problem(r->problems, "metadata at 0x%zx: an argument has no .value_kind", at);
	}
	struct code_argument *kept = arena_alloc(r->arena, found.len * sizeof(*kept));
	if (found.len)
		memcpy(kept, found.data, found.len * sizeof(*kept));
	k->arguments = kept;
	k->narguments = found.len;
	vec_free(&found);
	return ok;
}

/** V3 and later name the symbol of the descriptor; its function is called as the kernel. */
static bool name_kernel(struct metadata_kernel *m)
{
	if (str_ends(m->symbol, S(".kd")))
		m->kernel.name = str_cut(m->symbol, m->symbol.n - 3);
	return m->kernel.name.n > 0;
}

static bool read_kernels(struct metadata_reader *r, struct metadata *to)
{
	VEC(struct metadata_kernel) found = { 0 };
	uint64_t n;
	bool ok = take_head(r, MSGPACK_ARRAY, "amdhsa.kernels", &n);
	while (ok && n--) {
		struct metadata_kernel m = { .offset = r->in.at };
		ok = read_map(r, "a kernel", kernel_entry, &m);
		if (name_kernel(&m))
			vec_push(&found, m);
		else if (ok)
			code_problem(r->problems, "metadata at 0x%zx: a kernel has no name", m.offset);
	}
	to->kernels = arena_alloc(r->arena, found.len * sizeof(*to->kernels));
	if (found.len)
		memcpy(to->kernels, found.data, found.len * sizeof(*to->kernels));
	to->nkernels = found.len;
	vec_free(&found);
	return ok;
}

static bool document_entry(struct metadata_reader *r, struct str key, void *to)
{
	static const struct field fields[] = { { "amdhsa.target", FIELD_TEXT, offsetof(struct metadata, target) }, { 0 } };
	return str_is(key, "amdhsa.kernels") ? read_kernels(r, to) : read_field(r, fields, key, to);
}

void metadata_read(struct arena *a, struct str file, size_t offset, size_t size, struct code_problems *problems,
		   struct metadata *ret)
{
	struct metadata_reader r = { { str_cut(file, offset + size), offset }, a, problems };
	if (!read_map(&r, "the note", document_entry, ret))
		code_problem(problems, "metadata at 0x%zx: the value at 0x%zx is cut off or none", offset, r.in.at);
}
