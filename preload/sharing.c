// Memory that other processes have by a handle. HIP's handles open a whole mapping, in which an allocation of ours may begin later. Such a
// handle is marked: where this library is, it opens the allocation; where it is not, HIP refuses it.
#include <stdlib.h>

#include "preload/guard.h"

/** In the last 8 bytes, which HIP leaves zero, are the mark and where the allocation begins; the first 16 are changed. From
 * ROCm 6.4 on they name what a process has and the process: of another one's memory the owner says nothing, for which HIP waits for ever,
 * and no process of such a number is there to be asked. */
#define MARK UINT64_C(0x756e000000000000)
#define MARK_MASK UINT64_C(0xffff000000000000)
#define CHANGED UINT64_C(0xa5c3e1f00f1e3c5a)
enum { HANDLE_WORDS = 8, HANDLE_LAST = 7 };

/** What was opened: one mapping may be given out several times. */
static struct opened {
	uint64_t handle[HANDLE_WORDS]; // as HIP has it
	uint64_t base, given;
	struct opened *next;
} * all_opened;
/** Of the list, and held while HIP opens and closes: of two threads one would find the other's half way. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static void handle_change(uint64_t *w)
{
	w[0] ^= CHANGED;
	w[1] ^= CHANGED;
}

static hip_error refuse(const char *why)
{
	rec_line("hipIpcGetMemHandle is refused: %s", why);
	return HIP_NOT_SUPPORTED;
}

static hip_error marked_get(struct hip_ipc *handle, const struct bounds *b)
{
	uint64_t w[HANDLE_WORDS];
	if (guard.header->tier == ALLOC_TIER_MAPPED)
		return refuse("HIP cannot share memory of its virtual memory functions");
	memset(handle, 0, sizeof(*handle)); // what HIP does not write stays zero
	const hip_error e = hip.hipIpcGetMemHandle(handle, (void *)b->map);
	if (e || (!b->pooled && b->begin == b->map))
		return e;
	memcpy(w, handle, sizeof(w));
	if (w[HANDLE_LAST])
		return refuse("handles of this HIP have no room for a mark");
	handle_change(w);
	w[HANDLE_LAST] = MARK | (b->begin - b->map);
	memcpy(handle, w, sizeof(w));
	return e;
}

hip_error hipIpcGetMemHandle(struct hip_ipc *handle, void *p)
{
	struct bounds b;
	if (!guard_on() || !inside_begin(ALLOC_CALL_IPC_GET, (uintptr_t)p, 0))
		return hip.hipIpcGetMemHandle ? hip.hipIpcGetMemHandle(handle, p) : HIP_NOT_SUPPORTED;
	const bool ours = bounds_of(p, &b) && hip.hipIpcGetMemHandle && handle;
	const hip_error e = ours                   ? marked_get(handle, &b) :
			    b.nobodys              ? HIP_INVALID_VALUE :
			    hip.hipIpcGetMemHandle ? hip.hipIpcGetMemHandle(handle, p) :
						     HIP_NOT_SUPPORTED;
	if (ours && !e) {
		pthread_mutex_lock(&guard.lock);
		row_flag(b.row, ALLOC_EXPORTED);
		pthread_mutex_unlock(&guard.lock);
	}
	inside_end();
	return e;
}

/** Opens what a handle names, once. */
static hip_error marked_open(void **ret, struct opened *o, unsigned flags)
{
	struct hip_ipc handle;
	void *base = NULL;
	const uint64_t offset = o->handle[HANDLE_LAST] & ~MARK_MASK;
	handle_change(o->handle);
	o->handle[HANDLE_LAST] = 0;
	memcpy(&handle, o->handle, sizeof(handle));
	pthread_mutex_lock(&opening);
	for (const struct opened *other = all_opened; other; other = other->next)
		if (!memcmp(other->handle, o->handle, sizeof(o->handle)))
			base = (void *)other->base;
	const hip_error e = base ? HIP_SUCCESS : hip.hipIpcOpenMemHandle(&base, handle, flags);
	if (!e) {
		o->base = (uintptr_t)base;
		o->given = o->base + offset;
		o->next = all_opened;
		all_opened = o;
		*ret = (void *)o->given;
	}
	pthread_mutex_unlock(&opening);
	return e;
}

hip_error hipIpcOpenMemHandle(void **ret, struct hip_ipc handle, unsigned flags)
{
	if (!guard_on() || !inside_begin(ALLOC_CALL_IPC_OPEN, 0, 0))
		return hip.hipIpcOpenMemHandle ? hip.hipIpcOpenMemHandle(ret, handle, flags) : HIP_NOT_SUPPORTED;
	struct opened *o = calloc(1, sizeof(*o));
	hip_error e = HIP_OUT_OF_MEMORY;
	if (o)
		memcpy(o->handle, &handle, sizeof(handle));
	if (o && ret && (o->handle[HANDLE_LAST] & MARK_MASK) == MARK) {
		e = marked_open(ret, o, flags);
		o = e ? o : NULL;
	} else if (hip.hipIpcOpenMemHandle) {
		e = hip.hipIpcOpenMemHandle(ret, handle, flags);
	}
	free(o);
	inside_end();
	return e;
}

/** The mapping is closed with the last that was given out of it. */
static hip_error marked_close(void *p)
{
	struct opened *mine = NULL;
	bool used = false;
	for (struct opened **at = &all_opened; *at && !mine; at = mine ? at : &(*at)->next)
		if ((*at)->given == (uintptr_t)p) {
			mine = *at;
			*at = mine->next;
		}
	for (const struct opened *other = all_opened; mine && other; other = other->next)
		used |= other->base == mine->base;
	void *base = mine ? (void *)mine->base : p;
	free(mine);
	return used ? HIP_SUCCESS : hip.hipIpcCloseMemHandle(base);
}

hip_error hipIpcCloseMemHandle(void *p)
{
	const bool on = guard_on();
	if (!hip.hipIpcCloseMemHandle)
		return HIP_NOT_SUPPORTED;
	if (!on)
		return hip.hipIpcCloseMemHandle(p);
	pthread_mutex_lock(&opening);
	const hip_error e = marked_close(p);
	pthread_mutex_unlock(&opening);
	return e;
}
