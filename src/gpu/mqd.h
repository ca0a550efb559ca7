// What the words of a queue's descriptor (MQD) and of its registers (HQD) mean, by the blocks `mqd` of knowledge/queues.know.
#pragma once

#include "gpu/find/kfd_files.h"
#include "gpu/target.h"

/** NULL where the part's layout is not known. */
const struct know_mqd *mqd_layout(const struct know *k, struct str gfx);
/** The word of a register by its name, in the MQD or, with @hqd, in the list of registers; -1 where there is none. */
int mqd_word(const struct know_mqd *m, bool sdma, bool hqd, struct str name);
/** Words of one, and how they are laid out. */
struct mqd_words {
	const struct know_mqd *layout;
	bool sdma, hqd;
	const uint32_t *words;
	size_t n;
};
struct mqd_words mqd_words_of(const struct know_mqd *m, const struct kfd_mqd *q);
struct mqd_words hqd_words_of(const struct know_mqd *m, const struct kfd_hqd *h);
/** A value by its name in the block: `ring-low`. false where the words do not reach so far. */
bool mqd_value(struct mqd_words w, const char *name, uint32_t *ret);
/** Addresses, size and type of a queue by its descriptor. false where it is cut, or no queue's. */
bool mqd_queue(const struct know_mqd *m, const struct kfd_mqd *q, struct queue *ret);
/** The address of the ring of the queue that is in a place; 0: the place is empty. */
uint64_t hqd_ring(const struct know_mqd *m, const struct kfd_hqd *h);
/** Whether the GPU works on the queue in a place, or would if it had work. */
bool hqd_active(const struct know_mqd *m, const struct kfd_hqd *h, unsigned *ret_vmid);
