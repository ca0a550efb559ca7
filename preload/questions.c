// What programs ask of their memory: its bounds are those of the allocation, not those of the mapping or slab that it lies in.
#include "preload/guard.h"

bool bounds_of(const void *p, struct bounds *ret)
{
	const uint64_t at = (uintptr_t)p;
	bool found = false;
	pthread_mutex_lock(&guard.lock);
	struct span *s = at ? span_of(at) : NULL;
	*ret = (struct bounds){ 0 };
	if (s && s->slab) {
		found = pool_find(s, at, &ret->begin, &ret->size, &ret->number, &ret->row);
		ret->map = s->begin;
		ret->pooled = true;
		ret->map_size = s->end - s->begin;
	} else if (s) {
		const struct allocation *a = (const struct allocation *)s;
		found = a->state == ALLOC_LIVE && at >= a->address && at < a->address + a->size;
		*ret = (struct bounds){ a->address, a->size, 0, a->map, a->map_size, a->row, false, false };
	}
	ret->nobodys = s && !found;
	pthread_mutex_unlock(&guard.lock);
	return found;
}

/** What HIP is asked about: where nothing of the program's is, it is not to find its own memory. */
static void *asked(bool on, const void *p, struct bounds *b, bool *ret_ours)
{
	*ret_ours = on && bounds_of(p, b);
	return on && b->nobodys ? (void *)1 : (void *)(uintptr_t)p;
}

hip_error hipMemGetInfo(size_t *available, size_t *total)
{
	const bool on = guard_on();
	int device = 0;
	const hip_error e = hip.hipMemGetInfo ? hip.hipMemGetInfo(available, total) : HIP_NOT_SUPPORTED;
	if (e || !on || !available || !total || hip.hipGetDevice(&device) || device < 0 || device >= DEVICES_MOST)
		return e;
	const uint64_t corrected = *available + guard_over(device);
	*available = corrected < *total ? corrected : *total;
	return e;
}

hip_error hipMemGetAddressRange(void **base, size_t *size, void *p)
{
	struct bounds b;
	bool ours;
	void *at = asked(guard_on(), p, &b, &ours);
	const hip_error e = hip.hipMemGetAddressRange ? hip.hipMemGetAddressRange(base, size, at) : HIP_NOT_SUPPORTED;
	if (e || !ours)
		return e;
	if (base)
		*base = (void *)b.begin;
	if (size)
		*size = b.size;
	return e;
}

hip_error hipMemPtrGetInfo(void *p, size_t *size)
{
	struct bounds b;
	bool ours;
	void *at = asked(guard_on(), p, &b, &ours);
	const hip_error e = hip.hipMemPtrGetInfo ? hip.hipMemPtrGetInfo(at, size) : HIP_NOT_SUPPORTED;
	if (!e && size && ours)
		*size = b.size;
	return e;
}

static void attribute_set(void *data, int attribute, const struct bounds *b)
{
	if (!data)
		return;
	if (attribute == HIP_RANGE_START)
		*(void **)data = (void *)b->begin;
	else if (attribute == HIP_RANGE_SIZE)
		*(uint32_t *)data = (uint32_t)b->size; // as HIP has it
	else if (attribute == HIP_BUFFER_ID && b->number)
		*(uint32_t *)data = (uint32_t)b->number | UINT32_C(1) << 31;
}

hip_error hipPointerGetAttributes(void *data, const void *p)
{
	struct bounds b;
	bool ours;
	const void *at = asked(guard_on(), p, &b, &ours);
	return hip.hipPointerGetAttributes ? hip.hipPointerGetAttributes(data, at) : HIP_NOT_SUPPORTED;
}

hip_error hipPointerGetAttribute(void *data, int attribute, void *p)
{
	struct bounds b;
	bool ours;
	void *at = asked(guard_on(), p, &b, &ours);
	const hip_error e = hip.hipPointerGetAttribute ? hip.hipPointerGetAttribute(data, attribute, at) : HIP_NOT_SUPPORTED;
	if (!e && ours)
		attribute_set(data, attribute, &b);
	return e;
}

hip_error hipDrvPointerGetAttributes(unsigned n, int *attributes, void **data, void *p)
{
	struct bounds b;
	bool ours;
	void *at = asked(guard_on(), p, &b, &ours);
	const hip_error e =
		hip.hipDrvPointerGetAttributes ? hip.hipDrvPointerGetAttributes(n, attributes, data, at) : HIP_NOT_SUPPORTED;
	if (!e && attributes && data && ours)
		for (unsigned i = 0; i < n; i++)
			attribute_set(data[i], attributes[i], &b);
	return e;
}

/** Who imports it takes the file from its beginning: an allocation that does not begin there cannot be given away. */
hip_error hipMemGetHandleForAddressRange(void *handle, void *p, size_t size, int type, unsigned long long flags)
{
	struct bounds b;
	const bool on = guard_on();
	if (!hip.hipMemGetHandleForAddressRange)
		return HIP_NOT_SUPPORTED;
	if (!on || !inside_begin(ALLOC_CALL_EXPORT, (uintptr_t)p, size))
		return hip.hipMemGetHandleForAddressRange(handle, p, size, type, flags);
	const bool refused = bounds_of(p, &b) && b.begin != b.map;
	if (refused) {
		struct request q;
		request_fill(&q, ALLOC_CALL_EXPORT, size, 0);
		pthread_mutex_lock(&guard.lock);
		finding_add(&(struct alloc_finding){ .kind = ALLOC_FOUND_REFUSED, .address = (uintptr_t)p }, &q, b.row);
		pthread_mutex_unlock(&guard.lock);
		rec_line("hipMemGetHandleForAddressRange(%p) is refused: the allocation does not begin at a page of its own",
			 p);
	}
	const hip_error e = refused ? HIP_NOT_SUPPORTED : hip.hipMemGetHandleForAddressRange(handle, p, size, type, flags);
	inside_end();
	return e;
}
