// Which tensor an address belongs to: a framework's buffers are segments that hold many.
#include "base/print.h"
#include "evidence/recording/recording.h"
#include "gpu/memory/map.h"

enum { PAST_MOST = 4096 };

bool allocation_is_segment(const struct flight_recording *r, const struct recorded_allocation *m)
{
	return (m->call == CALL_POOL_ALLOCATE || m->call == CALL_MAP) && r->allocator.n && r->allocator_segment &&
	       m->size % r->allocator_segment == 0;
}

const char *allocation_noun(struct arena *a, const struct flight_recording *r, const struct recorded_allocation *m)
{
	return allocation_is_segment(r, m) ? arena_printf(a, "segment of " STR_FMT "'s allocator", STR_ARG(r->allocator)).p :
					     call_noun(m->call);
}

static unsigned element_bytes(uint32_t dtype)
{
	// In the order of enum unhang_dtype.
	static const uint8_t sizes[] = { 0, 8, 4, 2, 2, 1, 1, 1, 1, 8, 4, 2, 1, 8, 4, 2, 1, 1, 8, 16 };
	return dtype < sizeof(sizes) ? sizes[dtype] : 0;
}

/** Bytes from the first element of a tensor to behind its last; 0: not known. */
static uint64_t tensor_bytes(const struct rec_tensor *t)
{
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
	return __builtin_mul_overflow(last + 1, element_bytes(t->dtype), &bytes) ? 0 : bytes;
}

struct tensor_nearby recording_tensor(const struct flight_recording *r, uint64_t address)
{
	struct tensor_nearby best = { .past = true, .distance = PAST_MOST };
	for (size_t i = r->noperations; i-- > 0;) {
		const struct recorded_operation *o = &r->operations[i];
		for (unsigned k = 0; k < o->raw.ntensors; k++) {
			const struct rec_tensor *t = &o->raw.tensors[k];
			const uint64_t bytes = tensor_bytes(t), from = address - t->address;
			if (!t->address || address < t->address || !bytes)
				continue;
			if (from < bytes)
				return (struct tensor_nearby){ o, k, false, from };
			if (from - bytes < best.distance)
				best = (struct tensor_nearby){ o, k, true, from - bytes };
		}
	}
	return best;
}

struct str tensor_say(struct arena *a, const struct flight_recording *r, uint64_t address)
{
	const struct tensor_nearby n = recording_tensor(r, address);
	if (!n.operation)
		return (struct str){ 0 };
	const struct str what = one_tensor_say(a, &n.operation->raw.tensors[n.tensor]), in = operation_say(a, r, n.operation);
	const struct str far = map_size_say(a, n.distance);
	const char *place = n.past     ? (n.distance ? " past the end of" : "just past the end of") :
			    n.distance ? " behind the begin of" :
					 "at the begin of";
	return arena_printf(a, STR_FMT "%s tensor %u (" STR_FMT ") of " STR_FMT, STR_ARG(n.distance ? far : (struct str){ 0 }),
			    place, n.tensor + 1, STR_ARG(what), STR_ARG(in));
}
