// What a recording holds, in words.
#include <stdio.h>

#include "base/bytes.h"
#include "base/print.h"
#include "evidence/recording/recording.h"
#include "gpu/memory/map.h"

#define UNHANG_RECORDER_INSIDE
#include "unhang/recorder.h"

enum { WORDS_MOST = 64 };

struct str seconds_say(struct arena *a, double s)
{
	return s < 1e-3 ? arena_printf(a, "%.0f us", s * 1e6) :
	       s < 1    ? arena_printf(a, "%.0f ms", s * 1e3) :
	       s < 120  ? arena_printf(a, "%.1f s", s) :
	       s < 7200 ? arena_printf(a, "%.0f min", s / 60) :
			  arena_printf(a, "%.1f h", s / 3600);
}

/** Whether a framework hands out parts of it. */
static bool allocation_is_segment(const struct flight_recording *r, const struct recorded_allocation *m)
{
	return (m->call == CALL_POOL_ALLOCATE || m->call == CALL_MAP) && r->allocator.n && r->allocator_segment &&
	       m->size % r->allocator_segment == 0;
}

const char *allocation_noun(struct arena *a, const struct flight_recording *r, const struct recorded_allocation *m)
{
	return allocation_is_segment(r, m) ? arena_printf(a, "segment of " STR_FMT "'s allocator", STR_ARG(r->allocator)).p :
					     call_noun(m->call);
}

static void add_age(struct text *t, struct arena *a, const struct flight_recording *r, const char *before, uint64_t since,
		    uint64_t until)
{
	if (since && until > since)
		text_printf(t, "%s" STR_FMT, before, STR_ARG(seconds_say(a, (double)(until - since) / r->rate)));
}

static void add_by(struct text *t, const struct flight_recording *r, uint16_t slot)
{
	const struct recorded_thread *who = recording_thread(r, slot);
	if (who)
		text_printf(t, " by thread %u (" STR_FMT ")", who->raw.tid, STR_ARG(who->name));
}

/** Where the address lies, without the allocation's story. */
static void recording_words_add_place(struct text *t, struct arena *a, const struct flight_recording *r, const struct nearby *n)
{
	const struct recorded_allocation *m = n->allocation;
	const char *noun = allocation_noun(a, r, m);
	struct str size = map_size_say(a, m->size), distance = map_size_say(a, n->distance);
	const unsigned long long begin = m->begin;
	switch (n->relation) {
	case NEAR_INSIDE:
	case NEAR_FREED:
		text_printf(t, "%s the %s" STR_FMT " %s at 0x%llx", n->distance ? "inside" : "at the start of",
			    n->relation == NEAR_FREED ? (m->call == CALL_MAP ? "unmapped " : "freed ") : "", STR_ARG(size),
			    noun, begin);
		if (n->distance)
			text_printf(t, " + 0x%llx", (unsigned long long)n->distance);
		break;
	case NEAR_PAST:
		if (n->distance)
			text_printf(t, STR_FMT " past", STR_ARG(distance));
		else
			text_add(t, S("just past"));
		text_printf(t, " the end of the " STR_FMT " %s at 0x%llx", STR_ARG(size), noun, begin);
		break;
	case NEAR_BEFORE:
		text_printf(t, STR_FMT " before the start of the " STR_FMT " %s at 0x%llx", STR_ARG(distance), STR_ARG(size),
			    noun, begin);
		break;
	case NEAR_NOWHERE:
		break;
	}
}

struct str near_say(struct arena *a, const struct flight_recording *r, const struct nearby *n, uint64_t time, const char *what)
{
	_cleanup_text_ struct text t = { 0 };
	const struct recorded_allocation *m = n->allocation;
	if (!m)
		return (struct str){ 0 };
	recording_words_add_place(&t, a, r, n);
	if (n->only_reserved)
		text_add(&t, S(" (no memory is mapped there)"));
	if (n->not_for_gpu)
		text_add(&t, S(" (not mapped for this GPU)"));
	add_age(&t, a, r, ", allocated ", m->born, time);
	if (m->born && time > m->born)
		text_printf(&t, " before%s", what);
	add_by(&t, r, m->by);
	if (n->relation == NEAR_FREED) {
		const bool mapped = m->call == CALL_MAP;
		add_age(&t, a, r, mapped ? ", unmapped " : ", freed ", m->died, time);
		if (m->died < time)
			text_printf(&t, " before%s", what);
		else
			text_add(&t, mapped ? S(", unmapped") : S(", freed"));
		add_by(&t, r, m->freed_by);
	}
	return arena_str(a, text_str(&t));
}

struct str packet_say(struct arena *a, const struct recorded_packet *p)
{
	if (p->kind == PACKET_BARRIER)
		return p->raw.grid[2] ? arena_printf(a, "barrier that waits for %u signal%s", p->raw.grid[2],
						     p->raw.grid[2] == 1 ? "" : "s") :
					S("barrier");
	if (p->kernel)
		return kernel_words(p->kernel)->plain;
	return p->kind == PACKET_DISPATCH ? arena_printf(a, "kernel at 0x%llx", (unsigned long long)p->raw.kernel) :
					    S("vendor packet");
}

struct str call_say(struct arena *a, uint32_t call, const uint64_t args[4])
{
	const char *name = call_name(call);
	const unsigned long long x = args[0], y = args[1], z = args[2];
	switch (call) {
	case CALL_POOL_ALLOCATE:
	case CALL_ALLOCATE:
	case CALL_RESERVE:
	case CALL_HANDLE_CREATE:
	case CALL_IPC_ATTACH:
		return arena_printf(a, "%s of %llu bytes", name, y);
	case CALL_COPY:
	case CALL_ASYNC_COPY:
		return arena_printf(a, "%s of %llu bytes from 0x%llx to 0x%llx", name, y, z, x);
	case CALL_LOCK:
		return arena_printf(a, "%s of %llu bytes at 0x%llx", name, y, z);
	case CALL_MAP:
	case CALL_UNMAP:
	case CALL_UNRESERVE:
	case CALL_SET_ACCESS:
	case CALL_SVM_SET:
	case CALL_FILL:
		return arena_printf(a, "%s of %llu bytes at 0x%llx", name, y, x);
	case CALL_WAIT:
		return arena_printf(a, "%s for the signal 0x%llx", name, x);
	default:
		return arena_printf(a, "%s of 0x%llx", name, x);
	}
}

/** `4 MiB buffer + 0x10`, and of one that was freed when and by whom. */
static void add_pointer(struct text *t, struct arena *a, const struct flight_recording *r, const struct nearby *n,
			uint64_t time)
{
	const struct recorded_allocation *m = n->allocation;
	text_printf(t, STR_FMT " %s", STR_ARG(map_size_say(a, m->size)),
		    allocation_is_segment(r, m) ? "segment" : call_noun(m->call));
	if (n->distance)
		text_printf(t, " + 0x%llx", (unsigned long long)n->distance);
	if (n->only_reserved)
		text_add(t, S(", not mapped"));
	if (n->relation != NEAR_FREED)
		return;
	add_age(t, a, r, ", freed ", m->died, time);
	text_add(t, m->died < time ? S(" before") : S(", freed"));
	add_by(t, r, m->freed_by);
}

/** A word that may be an address: one is what lies in an allocation; what is only near one may as well be a number. */
static void recording_words_add_word(struct text *t, struct arena *a, const struct flight_recording *r, uint64_t v,
				     uint64_t time)
{
	const struct nearby n = v >= 1 << 16 ? recording_near(r, v, time, 0) : (struct nearby){ 0 };
	text_printf(t, v < 1u << 16 ? "%llu" : "0x%llx", (unsigned long long)v);
	if (!n.allocation || (n.relation != NEAR_INSIDE && n.relation != NEAR_FREED))
		return;
	text_add(t, S(" ("));
	add_pointer(t, a, r, &n, time);
	text_add(t, S(")"));
}

struct str argument_say(struct arena *a, const struct flight_recording *r, const struct recorded_packet *p,
			const struct packet_argument *x)
{
	_cleanup_text_ struct text t = { 0 };
	if (x->what->name.n)
		text_printf(&t, STR_FMT " = ", STR_ARG(x->what->name));
	if (!x->bytes) {
		text_add(&t, S("?"));
	} else if (argument_is_pointer(x)) {
		recording_words_add_word(&t, a, r, get_u64(x->bytes), p->raw.time);
	} else if (x->what->size <= 8) {
		argument_number_say(&t, x);
	} else {
		for (uint32_t at = 0; at + 8 <= x->what->size && at / 8 < WORDS_MOST; at += 8) {
			text_add(&t, at ? S(", ") : S("{"));
			recording_words_add_word(&t, a, r, get_u64(x->bytes + at), p->raw.time);
		}
		text_add(&t, S("}"));
	}
	return arena_str(a, text_str(&t));
}

struct str packet_arguments_say(struct arena *a, const struct flight_recording *r, const struct recorded_packet *p)
{
	static const char *const why_none[] = { [REC_ARGUMENTS_IN_VRAM] = "not read: in VRAM",
						[REC_ARGUMENTS_UNKNOWN] = "not read: the runtime knows no memory there",
						[REC_ARGUMENTS_LEFT_OUT] = "left out by UNHANG_INCLUDE or UNHANG_EXCLUDE" };
	_cleanup_text_ struct text t = { 0 };
	struct packet_argument *list;
	if (!p->arguments)
		return (struct str){ 0 };
	if (p->arguments->state != REC_ARGUMENTS_COPIED)
		return p->arguments->state < ARRAY_SIZE(why_none) ? str_z(why_none[p->arguments->state]) : (struct str){ 0 };
	const size_t n = packet_takes(a, p, &list);
	for (size_t i = 0; i < n && i < WORDS_MOST; i++)
		text_printf(&t, "%s" STR_FMT, i ? ", " : "", STR_ARG(argument_say(a, r, p, &list[i])));
	for (unsigned at = 0; !n && at + 8 <= p->arguments->copied && at / 8 < WORDS_MOST; at += 8) {
		text_add(&t, at ? S(", ") : S(""));
		recording_words_add_word(&t, a, r, get_u64(p->argument_bytes + at), p->raw.time);
	}
	if (!n && p->arguments->copied < p->arguments->size)
		text_printf(&t, "%s%u more bytes", t.n ? ", " : "", p->arguments->size - p->arguments->copied);
	return arena_str(a, text_str(&t));
}

struct str fault_reasons_say(struct arena *a, uint64_t reasons)
{
	static const char *const words[] = { "page not present",
					     "write to a read-only page",
					     "execution of data",
					     "page of the host only",
					     "uncorrectable memory error (ECC)",
					     "address not exact",
					     "uncorrectable register error (ECC)" };
	_cleanup_text_ struct text t = { 0 };
	for (unsigned i = 0; i < ARRAY_SIZE(words); i++)
		if (reasons >> i & 1)
			text_printf(&t, "%s%s", t.n ? ", " : "", words[i]);
	if (reasons >> 31 & 1)
		text_printf(&t, "%sthe GPU hung and was reset", t.n ? ", " : "");
	return arena_str(a, text_str(&t));
}

struct str status_say(struct arena *a, uint64_t status)
{
	static const struct {
		uint64_t status;
		const char *name;
	} names[] = {
		{ 41, "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION" },
		{ 42, "HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION" },
		{ 43, "HSA_STATUS_ERROR_MEMORY_FAULT" },
		{ 45, "HSA_STATUS_ERROR_OUT_OF_REGISTERS" },
		{ 0x1000, "HSA_STATUS_ERROR" },
		{ 0x1001, "HSA_STATUS_ERROR_INVALID_ARGUMENT" },
		{ 0x1003, "HSA_STATUS_ERROR_INVALID_ALLOCATION" },
		{ 0x1007, "HSA_STATUS_ERROR_INVALID_QUEUE" },
		{ 0x1008, "HSA_STATUS_ERROR_OUT_OF_RESOURCES" },
		{ 0x1009, "HSA_STATUS_ERROR_INVALID_PACKET_FORMAT" },
		{ 0x100f, "HSA_STATUS_ERROR_INVALID_ISA" },
		{ 0x1010, "HSA_STATUS_ERROR_INVALID_CODE_OBJECT" },
		{ 0x1016, "HSA_STATUS_ERROR_EXCEPTION" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].status == status)
			return str_z(names[i].name);
	return arena_printf(a, "status 0x%llx", (unsigned long long)status);
}

// === Operations of a recording, in words. ===

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
	_cleanup_text_ struct text t = { 0 };
	size_t n = 0;
	// The number of what is around one is always smaller, so that a damaged file cannot send us round in circles.
	for (const struct recorded_operation *next; o && n < CHAIN_MOST; o = next && next < o ? next : NULL) {
		chain[n++] = o;
		next = recording_operation(r, o->raw.parent);
	}
	while (n--)
		text_printf(&t, "%s" STR_FMT, t.n ? " > " : "", STR_ARG(chain[n]->name));
	return arena_str(a, text_str(&t));
}

static void add_tensor(struct text *t, const struct rec_tensor *x)
{
	text_printf(t, "%s ", dtype_name(x->dtype));
	for (unsigned d = 0; d < x->ndim && d < REC_DIMENSIONS; d++)
		text_printf(t, "%s%llu", d ? "x" : "", (unsigned long long)x->shape[d]);
	text_printf(t, "%s", !x->ndim ? "scalar" : x->ndim > REC_DIMENSIONS ? "x..." : "");
}

struct str tensors_say(struct arena *a, const struct recorded_operation *o)
{
	_cleanup_text_ struct text t = { 0 };
	for (size_t i = 0; i < o->raw.ntensors; i++) {
		text_add(&t, i ? S(", ") : S(""));
		add_tensor(&t, &o->raw.tensors[i]);
	}
	return arena_str(a, text_str(&t));
}

// === Which tensor an address belongs to: a framework's buffers are segments that hold many. ===

enum { PAST_MOST = 4096 };

/** Bytes from the first element of a tensor to behind its last; 0: not known. */
static uint64_t tensor_bytes(const struct rec_tensor *t)
{
	// Of an element, in the order of enum unhang_dtype.
	static const uint8_t sizes[] = { 0, 8, 4, 2, 2, 1, 1, 1, 1, 8, 4, 2, 1, 8, 4, 2, 1, 1, 8, 16 };
	uint64_t last = 0, bytes;
	if (t->ndim > REC_DIMENSIONS)
		return 0;
	for (unsigned d = 0; d < t->ndim; d++) {
		uint64_t far;
		if (!t->shape[d] || t->strides[d] < 0 ||
		    __builtin_mul_overflow(t->shape[d] - 1, (uint64_t)t->strides[d], &far) ||
		    __builtin_add_overflow(last, far, &last))
			return 0;
	}
	return t->dtype >= sizeof(sizes) || __builtin_mul_overflow(last + 1, sizes[t->dtype], &bytes) ? 0 : bytes;
}

struct str tensor_say(struct arena *a, const struct flight_recording *r, uint64_t address)
{
	const struct recorded_operation *in = NULL;
	unsigned number = 0;
	bool past = true;
	uint64_t distance = PAST_MOST; // from the begin, or from the end
	for (size_t i = r->noperations; i-- > 0 && past;) {
		const struct recorded_operation *o = &r->operations[i];
		for (unsigned k = 0; k < o->raw.ntensors && past; k++) {
			const struct rec_tensor *t = &o->raw.tensors[k];
			const uint64_t bytes = tensor_bytes(t), from = address - t->address;
			const bool inside = from < bytes;
			if (!t->address || address < t->address || !bytes || (!inside && from - bytes >= distance))
				continue;
			past = !inside;
			distance = inside ? from : from - bytes;
			in = o;
			number = k;
		}
	}
	if (!in)
		return (struct str){ 0 };
	_cleanup_text_ struct text what = { 0 };
	add_tensor(&what, &in->raw.tensors[number]);
	const struct str of = operation_say(a, r, in);
	const struct str far = distance ? map_size_say(a, distance) : (struct str){ 0 };
	const char *place = past     ? (distance ? " past the end of" : "just past the end of") :
			    distance ? " behind the start of" :
				       "at the start of";
	return arena_printf(a, STR_FMT "%s tensor %u (" STR_FMT ") of " STR_FMT, STR_ARG(far), place, number + 1,
			    STR_ARG(text_str(&what)), STR_ARG(of));
}
