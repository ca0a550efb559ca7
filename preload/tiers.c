// How an allocation gets addresses of its own, with unmapped ones around it, and how those stay unmapped when it is freed.
//
// The HSA runtime makes a mapping of pages for each allocation where its fragment allocator is off, with room between them. In that room,
// and in the place of what was freed, the process itself maps nothing (PROT_NONE), so that neither the runtime nor the C library puts
// anything there. Where the fragment allocator is on, HIP's virtual memory functions do as well (from 7 on: with 6.4 a program that ends while
// something is mapped crashes in HIP); else blocks larger than the fragment allocator's.
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "preload/guard.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define GAP (2 * MIB)
#define FRAGMENT (2 * MIB)
#define SPACED_LEAST (2 * FRAGMENT) // else the fragment allocator serves it
enum { HIP_MAPS_RIGHTLY = 70000000 };

static uint64_t granularity_mapped;

static void addresses_release(uint64_t begin, uint64_t size) { munmap((void *)begin, size); }

/** Maps nothing there. false: somebody has something there. */
static bool addresses_hold(uint64_t begin, uint64_t size)
{
	if (!size)
		return true;
	void *at =
		mmap((void *)begin, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (at != MAP_FAILED && at != (void *)begin)
		addresses_release((uintptr_t)at, size); // a kernel before 4.17 takes it for a wish
	return at == (void *)begin;
}

/** As much as there is room for, up to @GAP. */
static uint64_t gap_hold(uint64_t at, bool before)
{
	for (uint64_t size = GAP; size >= PAGE; size /= 8)
		if (addresses_hold(before ? at - size : at, size))
			return size;
	return 0;
}

bool mappings_left(int n)
{
	const size_t size = (size_t)n * PAGE;
	char *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	bool left = at != MAP_FAILED;
	for (int i = 1; i < n && left; i += 2)
		left = !mprotect(at + (size_t)i * PAGE, PAGE, PROT_READ);
	if (at != MAP_FAILED)
		addresses_release((uintptr_t)at, size);
	return left;
}

// --- HIP's virtual memory functions ---

static struct hip_property property_of(int device)
{
	return (struct hip_property){ .type = HIP_PINNED, .location_type = HIP_LOCATION_DEVICE, .location = device };
}

static bool mapped_possible(int device)
{
	size_t granularity = 0;
	const struct hip_property of = property_of(device);
	if (guard.header->hip_version < HIP_MAPS_RIGHTLY || !hip.hipMemAddressReserve || !hip.hipMemAddressFree || !hip.hipMemCreate || !hip.hipMemRelease || !hip.hipMemMap ||
	    !hip.hipMemUnmap || !hip.hipMemSetAccess || !hip.hipMemGetAllocationGranularity ||
	    hip.hipMemGetAllocationGranularity(&granularity, &of, HIP_GRANULARITY_MINIMUM))
		return false;
	granularity_mapped = granularity;
	return granularity >= PAGE && !(granularity & (granularity - 1));
}

/** Every GPU that can reach the owner's memory may use it, as after hipDeviceEnablePeerAccess(). */
static size_t access_list(int device, struct hip_access *ret)
{
	int n = 0;
	size_t listed = 0;
	if (hip.hipGetDeviceCount && hip.hipGetDeviceCount(&n))
		n = 0;
	ret[listed++] = (struct hip_access){ HIP_LOCATION_DEVICE, device, HIP_READ_WRITE };
	for (int i = 0; i < n && i < DEVICES_MOST; i++) {
		int can = 0;
		if (i != device && hip.hipDeviceCanAccessPeer && !hip.hipDeviceCanAccessPeer(&can, i, device) && can)
			ret[listed++] = (struct hip_access){ HIP_LOCATION_DEVICE, i, HIP_READ_WRITE };
	}
	return listed;
}

static hip_error mapped_take(struct allocation *a, const struct request *q)
{
	const struct hip_property of = property_of(q->device);
	struct hip_access access[DEVICES_MOST + 1];
	const uint64_t gap = round_up(GAP, granularity_mapped), whole = a->map_size + 2 * gap;
	void *reserved = NULL;
	if (device_forbids())
		return HIP_NOT_SUPPORTED; // HIP itself says what is wrong
	hip_error e = hip.hipMemAddressReserve(&reserved, whole, granularity_mapped, NULL, 0);
	if (e)
		return e;
	a->map = (uintptr_t)reserved + gap;
	a->before = a->behind = gap;
	e = hip.hipMemCreate(&a->handle, a->map_size, &of, 0);
	if (!e) {
		e = hip.hipMemMap((void *)a->map, a->map_size, 0, a->handle, 0);
		if (!e) {
			const size_t n = access_list(q->device, access);
			e = hip.hipMemSetAccess((void *)a->map, a->map_size, access, n);
			if (e)
				hip.hipMemUnmap((void *)a->map, a->map_size);
		}
		if (e)
			hip.hipMemRelease(a->handle);
	}
	if (e)
		hip.hipMemAddressFree(reserved, whole);
	return e;
}

/** As hipFree() does: not before the device is done with it, and not where a capture forbids it. */
static hip_error mapped_give(struct allocation *a, bool *ret_held)
{
	hip_error e = device_wait(a->device);
	if (e)
		return e;
	e = hip.hipMemUnmap((void *)a->map, a->map_size);
	hip.hipMemRelease(a->handle);
	*ret_held = true;
	__atomic_store_n(&guard.header->held, 1, __ATOMIC_RELAXED);
	return e;
}

// --- which one ---

/** Whether two small allocations have a mapping each: fragments of one lie side by side. false: HIP gives none. */
static bool apart_find(bool *ret_apart, uint64_t *ret_charge)
{
	void *p[2] = { NULL, NULL };
	size_t before = 0, after = 0, total;
	bool given = false;
	const bool told = !hip.hipMemGetInfo(&before, &total);
	if (!hip.hipMalloc(&p[0], PAGE) && !hip.hipMalloc(&p[1], PAGE)) {
		const uint64_t a = (uintptr_t)p[0], b = (uintptr_t)p[1];
		given = true;
		*ret_apart = (a > b ? a - b : b - a) > 2 * PAGE;
		if (told && !hip.hipMemGetInfo(&after, &total) && before > after)
			*ret_charge = (before - after) / 2;
	}
	for (int i = 0; i < 2; i++)
		if (p[i])
			hip.hipFree(p[i]);
	return given;
}

static void tier_choose(void)
{
	struct alloc_header *h = guard.header;
	uint64_t charge = PAGE;
	int device = 0;
	bool apart = false;
	hip.hipGetDevice(&device);
	if (!apart_find(&apart, &charge))
		return; // HIP itself says what is wrong, and it may go better later
	h->granularity = PAGE;
	h->gap = GAP;
	enum alloc_tier tier = ALLOC_TIER_SPACED;
	if (apart) {
		tier = ALLOC_TIER_PAGES;
	} else if (mapped_possible(device)) {
		tier = ALLOC_TIER_MAPPED;
		h->granularity = (uint32_t)granularity_mapped;
	} else {
		h->granularity = FRAGMENT;
		h->gap = PAGE;
	}
	h->charge = charge < PAGE ? PAGE : charge;
	if (tier == ALLOC_TIER_MAPPED)
		rec_line("the runtime's fragment allocator is on: each allocation takes pages of HIP's virtual memory of %u KB instead", h->granularity >> 10);
	else if (tier == ALLOC_TIER_SPACED)
		rec_line("the runtime's fragment allocator is on: each allocation takes at least %u MB instead of 4 KB", (unsigned)(SPACED_LEAST / MIB));
	__atomic_store_n(&h->tier, tier, __ATOMIC_RELEASE); // with all else that belongs to it
}

bool tier_find(void)
{
	static pthread_mutex_t choosing = PTHREAD_MUTEX_INITIALIZER;
	if (__atomic_load_n(&guard.header->tier, __ATOMIC_ACQUIRE))
		return true;
	pthread_mutex_lock(&choosing);
	if (!guard.header->tier)
		tier_choose();
	const bool chosen = guard.header->tier;
	pthread_mutex_unlock(&choosing);
	return chosen;
}

// --- taking and giving back ---

hip_error tier_take(struct allocation *a, const struct request *q, uint64_t bytes)
{
	const struct alloc_header *h = guard.header;
	void *p = NULL;
	a->map_size = round_up(bytes, h->granularity);
	if (h->tier == ALLOC_TIER_MAPPED)
		return mapped_take(a, q);
	// One of a fragment's size is kept by the runtime when it is freed, and stays mapped.
	if (h->tier == ALLOC_TIER_SPACED && a->map_size < SPACED_LEAST)
		a->map_size = SPACED_LEAST;
	struct request whole = *q;
	whole.size = a->map_size;
	const hip_error e = plain_allocate(&whole, &p);
	if (e || !p)
		return e ? e : HIP_OUT_OF_MEMORY;
	a->map = (uintptr_t)p;
	a->before = gap_hold(a->map, true);
	a->behind = gap_hold(a->map + a->map_size, false);
	return HIP_SUCCESS;
}

hip_error tier_give(struct allocation *a, bool *ret_held)
{
	if (guard.header->tier == ALLOC_TIER_MAPPED)
		return mapped_give(a, ret_held);
	const hip_error e = hip.hipFree((void *)a->map);
	*ret_held = !e && addresses_hold(a->map, a->map_size);
	if (*ret_held)
		__atomic_store_n(&guard.header->held, 1, __ATOMIC_RELAXED);
	return e;
}

void tier_release(struct allocation *a)
{
	const uint64_t begin = a->map - a->before, size = a->before + a->map_size + a->behind;
	if (guard.header->tier == ALLOC_TIER_MAPPED)
		hip.hipMemAddressFree((void *)begin, size);
	else if (a->state == ALLOC_HELD)
		addresses_release(begin, size);
	else {
		// Another's memory may be in the middle by now.
		if (a->before)
			addresses_release(begin, a->before);
		if (a->behind)
			addresses_release(a->map + a->map_size, a->behind);
	}
}
