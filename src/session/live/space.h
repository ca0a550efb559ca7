// Whose address it is that somebody asks for: which GPU, which VMID, which XCC and which process. What is not clear is refused, because
// the same number means another thing to each of them.
#pragma once

#include "gpu/find/kfd.h"
#include "report/live/memory.h"
#include "session/look.h"

/** An address space of a GPU that is looked at. */
struct space_opened {
	struct live live;
	struct kfd kfd;
	bool kfd_looked, kfd_placed;
	const struct device *device;
	struct target *target;
	struct memory_space of;
	struct address_space before; // as it was when it was opened
	struct target *process;      // whose memory it is; NULL: not opened, or not known
	bool process_tried;
	struct arena arena;
};

/** Opens the GPU alone. Close it in any case. */
struct uh_error *space_open_gpu(const struct looking *at, const struct uh_memory_query *q, const char *track, struct space_opened *ret);
/** Finds the address space on it. */
struct uh_error *space_choose(const struct looking *at, const struct uh_memory_query *q, struct space_opened *s);
/** Both. @track: what a tape calls the look. */
struct uh_error *space_open(const struct looking *at, const struct uh_memory_query *q, const char *track,
			    struct space_opened *ret);
/** Whether the VMID is still whose it was; else the error says so. */
struct uh_error *space_still(struct space_opened *s);
void space_close(struct space_opened *s);
#define _cleanup_space_ _cleanup_(space_close)
/** The process whose address space it is, where it computes; NULL. */
struct target *space_process(const struct looking *at, struct space_opened *s);
/** A number, also one whose upper bits repeat bit 47. */
struct uh_error *space_address(const char *text, uint64_t *ret);
