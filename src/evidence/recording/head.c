#include "evidence/recording/head.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"

static bool recording_head_read_at(int fd, void *to, size_t size, uint64_t at)
{
	return at <= INT64_MAX - size && pread(fd, to, size, (off_t)at) == (ssize_t)size;
}

bool recording_head(int fd, struct rec_header *ret)
{
	return recording_head_read_at(fd, ret, sizeof(*ret), 0) && !memcmp(ret->magic, RECORDING_MAGIC, sizeof(ret->magic)) &&
	       ret->version == RECORDING_VERSION;
}

/** The table of extents; NULL: it cannot be read. */
static struct rec_extent *read_extents(int fd)
{
	const size_t size = RECORDING_EXTENTS * sizeof(struct rec_extent);
	struct rec_extent *extents = mem_alloc(size);
	if (recording_head_read_at(fd, extents, size, RECORDING_EXTENTS_AT))
		return extents;
	free(extents);
	return NULL;
}

bool recording_pace(int fd, struct recorded_pace *ret)
{
	_cleanup_free_ struct rec_extent *extents = read_extents(fd);
	*ret = (struct recorded_pace){ 0 };
	if (!extents)
		return false;
	for (const struct rec_extent *e = extents; e < extents + RECORDING_EXTENTS; e++) {
		struct rec_queue q;
		if (e->kind != EXTENT_QUEUE || e->head < sizeof(q) || !recording_head_read_at(fd, &q, sizeof(q), e->offset))
			continue;
		ret->taken += q.read;
		ret->written += q.write > q.seen ? q.write : q.seen; // what came behind the last sample of a process that died
		ret->queues++;
		ret->busy += !q.destroyed && q.write > q.read;
	}
	return true;
}

/** Milliseconds from @since to the newest time that the recorder wrote down. */
static int64_t age_of(const struct rec_header *h, uint64_t since)
{
	static const double AGE_MOST = 1e12; // thirty years: who says more lies
	const struct rec_clock *now = &h->clocks[h->newest & 1];
	const uint64_t ticks = now->ticks - h->start.ticks, ns = now->boot_ns - h->start.boot_ns;
	if (now->ticks <= since || since < h->start.ticks || !ticks || now->boot_ns < h->start.boot_ns)
		return 0;
	const double ms = (double)(now->ticks - since) / (double)ticks * (double)ns / 1e6;
	return ms < AGE_MOST ? (int64_t)ms : 0;
}

bool call_ends_alone(uint32_t call)
{
	// A wait, a copy or a fill lasts as long as the kernels before it; loading code as long as the disk.
	return (call >= CALL_POOL_ALLOCATE && call <= CALL_ALLOW_ACCESS) || call == CALL_QUEUE_CREATE || call == CALL_QUEUE_DESTROY;
}

bool recording_call(int fd, const struct rec_header *h, struct recorded_call *ret)
{
	enum { THREADS_MOST = 4096 };
	_cleanup_free_ struct rec_extent *extents = read_extents(fd);
	*ret = (struct recorded_call){ 0 };
	for (const struct rec_extent *e = extents; extents && e < extents + RECORDING_EXTENTS; e++) {
		if (e->kind != EXTENT_THREADS || e->stride < sizeof(struct rec_thread))
			continue;
		for (uint64_t i = 0; i < e->slots && i < THREADS_MOST; i++) {
			struct rec_thread t;
			if (!recording_head_read_at(fd, &t, sizeof(t), e->offset + e->head + i * e->stride) || !t.tid)
				break;
			const int64_t age = call_ends_alone(t.call) && !t.ended ? age_of(h, t.since) : -1;
			if (age < 0 || (ret->call && age <= ret->age_ms))
				continue;
			*ret = (struct recorded_call){ .call = t.call, .tid = t.tid, .age_ms = age };
			memcpy(ret->a, t.a, sizeof(ret->a));
			memcpy(ret->name, t.name, sizeof(ret->name));
		}
	}
	return ret->call;
}
