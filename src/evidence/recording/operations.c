// Operations of a recording, in words.
#include "base/print.h"
#include "evidence/recording/recording.h"

#define UNHANG_RECORDER_INSIDE
#include "unhang/recorder.h"

enum { CHAIN_MOST = 6 };

const char *dtype_name(uint32_t dtype)
{
	static const char *const names[UNHANG_DTYPES] = {
		"unknown",          "float64",          "float32", "float16", "bfloat16",  "float8_e4m3", "float8_e5m2",
		"float8_e4m3_fnuz", "float8_e5m2_fnuz", "int64",   "int32",   "int16",     "int8",        "uint64",
		"uint32",           "uint16",           "uint8",   "bool",    "complex64", "complex128"
	};
	return dtype < UNHANG_DTYPES ? names[dtype] : names[0];
}

struct str operation_say(struct arena *a, const struct flight_recording *r, const struct recorded_operation *o)
{
	const struct recorded_operation *chain[CHAIN_MOST];
	struct text t = { 0 };
	size_t n = 0;
	// The number of what is around one is always smaller, so that a damaged file cannot send us round in circles.
	for (const struct recorded_operation *next; o && n < CHAIN_MOST; o = next && next < o ? next : NULL) {
		chain[n++] = o;
		next = recording_operation(r, o->raw.parent);
	}
	while (n--)
		text_printf(&t, "%s" STR_FMT, t.n ? " > " : "", STR_ARG(chain[n]->name));
	struct str said = arena_str(a, text_str(&t));
	text_free(&t);
	return said;
}

static void add_tensor(struct text *t, const struct rec_tensor *x)
{
	text_printf(t, "%s ", dtype_name(x->dtype));
	for (unsigned d = 0; d < x->ndim && d < REC_DIMENSIONS; d++)
		text_printf(t, "%s%llu", d ? "x" : "", (unsigned long long)x->shape[d]);
	text_printf(t, "%s", !x->ndim ? "scalar" : x->ndim > REC_DIMENSIONS ? "x..." : "");
}

static struct str kept(struct arena *a, struct text *t)
{
	struct str said = arena_str(a, text_str(t));
	text_free(t);
	return said;
}

struct str one_tensor_say(struct arena *a, const struct rec_tensor *x)
{
	struct text t = { 0 };
	add_tensor(&t, x);
	return kept(a, &t);
}

struct str tensors_say(struct arena *a, const struct recorded_operation *o)
{
	struct text t = { 0 };
	for (size_t i = 0; i < o->raw.ntensors; i++) {
		text_add(&t, i ? S(", ") : S(""));
		add_tensor(&t, &o->raw.tensors[i]);
	}
	return kept(a, &t);
}
