// What every parsed code object must hold, whatever its bytes are. For the fuzz target and the test.
#pragma once

#include "code/object/object.h"

static inline bool code_inside(const struct code_object *o, struct str s)
{
	return !s.n || (s.p >= o->bytes.p && (size_t)(s.p - o->bytes.p) <= o->bytes.n &&
			s.n <= o->bytes.n - (size_t)(s.p - o->bytes.p));
}

static inline bool code_in_segment(const struct code_object *o, uint64_t address, uint64_t size)
{
	for (size_t i = 0; i < o->nsegments; i++) {
		const struct code_segment *s = &o->segments[i];
		if (address >= s->address && address - s->address < s->memory_size)
			return size <= s->memory_size - (address - s->address);
	}
	return false;
}

static inline const char *code_segment_complaint(const struct code_object *o)
{
	uint64_t end = 0;
	for (size_t i = 0; i < o->nsegments; i++) {
		const struct code_segment *s = &o->segments[i];
		if (s->address < end || !s->memory_size || s->memory_size > UINT64_MAX - s->address)
			return "segments lie over each other";
		if (s->file_size > s->memory_size || (s->file_size && s->offset > o->bytes.n) ||
		    (s->file_size && s->file_size > o->bytes.n - s->offset))
			return "a segment outside the file";
		end = s->address + s->memory_size;
	}
	return !o->nsegments || o->begin != o->segments[0].address || o->end != end ?
		       "begin and end are not those of the segments" :
		       NULL;
}

static inline const char *code_kernel_complaint(const struct code_object *o, const struct code_kernel *k)
{
	if (!k->name.n || !code_inside(o, k->name))
		return "a kernel's name is not in the file";
	if (k->descriptor && code_object_at(o, k->descriptor).n < 64)
		return "a descriptor outside the file";
	if (k->descriptor && k->wave_size != 32 && k->wave_size != 64)
		return "a wave of neither 32 nor 64 lanes";
	const struct code_symbol *s = k->entry ? code_object_symbol(o, k->entry) : NULL;
	if (k->entry && (!s || s->address != k->entry || !s->kernel))
		return "a kernel whose function is not there";
	for (size_t i = 0; i < k->narguments; i++) {
		const struct code_argument *a = &k->arguments[i];
		if (!a->value_kind.n || !code_inside(o, a->name) || !code_inside(o, a->type_name) ||
		    !code_inside(o, a->value_kind) || !code_inside(o, a->address_space) || !code_inside(o, a->access))
			return "an argument's texts are not in the file";
	}
	return NULL;
}

/** NULL where nothing is wrong. */
static inline const char *code_complaint(const struct code_object *o)
{
	const char *complaint = code_segment_complaint(o);
	for (size_t i = 0; !complaint && i < o->nkernels; i++)
		complaint = code_kernel_complaint(o, &o->kernels[i]);
	for (size_t i = 0; !complaint && i < o->nsymbols; i++) {
		const struct code_symbol *s = &o->symbols[i];
		if (!s->size || !s->name.n || !code_inside(o, s->name) || !code_in_segment(o, s->address, s->size))
			complaint = "a function outside its segment";
		else if (i && s[-1].address >= s->address)
			complaint = "functions are not ordered by address";
		else if (!code_object_symbol(o, s->address) || code_object_symbol(o, s->address)->address != s->address)
			complaint = "a function is not found at its own address";
	}
	return complaint;
}
