// A GPU core as a stream, in pieces of any size, with a process whose memory is the same bytes; what comes of it is read as a core. For the fuzz
// target and the test.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "core_check.h"
#include "gpu/core/core.h"
#include "gpu/core/light.h"

enum { LIGHT_CHECK_ROOMS = 1 << 30 };

static size_t light_check_reads; // of the process, by all

struct light_check {
	struct core memory;
	unsigned rooms; // how often the disk has room
};

/** The segments of the stream, where its headers say that they are. They are smaller than pages in seeds, so that what is beside them is 0. */
static inline ssize_t light_check_read(void *ctx, uint64_t address, void *to, size_t size)
{
	enum { STEP = 16 };
	bool any = false;
	light_check_reads++;
	for (size_t at = 0; at < size; at += STEP) {
		const size_t n = size - at < STEP ? size - at : STEP;
		const bool there = core_read(&((struct light_check *)ctx)->memory, address + at, (char *)to + at, n);
		if (!there)
			memset((char *)to + at, 0, n);
		any |= there;
	}
	return any ? (ssize_t)size : -1;
}

static inline bool light_check_room(void *ctx, size_t bytes)
{
	struct light_check *c = ctx;
	(void)bytes;
	c->rooms -= c->rooms > 0;
	return c->rooms;
}

/** The file that is made of the stream; *@ret_err: why there is none. @step: bytes at a time. @reads: whether the process may be read. @rooms: for
 * how many pieces the disk has room. */
static inline struct map light_make(struct str bytes, size_t step, bool reads, bool all, unsigned rooms,
				    struct uh_error **ret_err)
{
	enum { MOST = 4 << 20, LONG_MS = 600000 };
	struct light_check check = { .rooms = rooms + 1 };
	const struct file f = file_memory(S("process"), bytes);
	_cleanup_close_ int fd = memfd_create("light", MFD_CLOEXEC);
	_cleanup_error_ struct uh_error *none = core_add(&check.memory, &f);
	core_ready(&check.memory);
	const struct light_options o = { .fd = fd,
					 .most = MOST,
					 .milliseconds = LONG_MS,
					 .all = all,
					 .pid = 4242,
					 .program = S("train"),
					 .read = reads && !none ? light_check_read : NULL,
					 .room = light_check_room,
					 .ctx = &check };
	_cleanup_light_ struct light *l = light_new(&o);
	struct uh_error *err = NULL;
	while (bytes.n && !err && light_wants_more(l)) {
		err = light_take(l, str_cut(bytes, step));
		bytes = str_from(bytes, step);
	}
	*ret_err = err ? err : light_end(l);
	core_free(&check.memory);
	const off_t size = lseek(fd, 0, SEEK_END);
	void *p = size > 0 ? mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
	return p == MAP_FAILED ? (struct map){ 0 } : (struct map){ p, (size_t)size };
}

/** NULL where nothing is wrong with it. */
static inline const char *light_complaint(const struct know *k, struct str bytes, size_t step, bool reads, bool all)
{
	_cleanup_error_ struct uh_error *err = NULL;
	_cleanup_map_ struct map file = light_make(bytes, step, reads, all, LIGHT_CHECK_ROOMS, &err);
	const bool begins = file.p && core_begins((struct str){ file.p, file.size });
	if (begins == !!err)
		return err ? "what was not finished begins as a core" : "it is no core";
	return err ? NULL : core_complaint(k, file.p, file.size, NULL);
}
