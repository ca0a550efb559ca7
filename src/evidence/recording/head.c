#include "evidence/recording/head.h"

#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"

static bool read_at(int fd, void *to, size_t size, uint64_t at)
{
	return at <= INT64_MAX - size && pread(fd, to, size, (off_t)at) == (ssize_t)size;
}

bool recording_head(int fd, struct rec_header *ret)
{
	return read_at(fd, ret, sizeof(*ret), 0) && !memcmp(ret->magic, RECORDING_MAGIC, sizeof(ret->magic)) &&
	       ret->version == RECORDING_VERSION;
}

bool recording_pace(int fd, struct recorded_pace *ret)
{
	const size_t size = RECORDING_EXTENTS * sizeof(struct rec_extent);
	_cleanup_free_ struct rec_extent *extents = mem_alloc(size);
	*ret = (struct recorded_pace){ 0 };
	if (!read_at(fd, extents, size, RECORDING_EXTENTS_AT))
		return false;
	for (const struct rec_extent *e = extents; e < extents + RECORDING_EXTENTS; e++) {
		struct rec_queue q;
		if (e->kind != EXTENT_QUEUE || e->head < sizeof(q) || !read_at(fd, &q, sizeof(q), e->offset))
			continue;
		ret->taken += q.read;
		ret->written += q.write > q.seen ? q.write : q.seen; // what came behind the last sample of a process that died
		ret->queues++;
		ret->busy += !q.destroyed && q.write > q.read;
	}
	return true;
}
