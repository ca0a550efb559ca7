// What the files of fake_runtime share.
#pragma once

#include "recorder/hsa.h"

enum { FAKE_ADDRESSES = 32 };

/** fake_memory.c: functions for memory in a table of ROCm 6 or later. */
void fake_memory_table(struct hsa_table *ext);
/** Uses them, and says at which addresses a GPU shall fault. */
size_t fake_memory_use(const struct hsa_table *ext, uint64_t *ret);

/** As the runtime makes a queue. */
queue_create_fn fake_queue_create;
/** fake_queues.c: functions for queues in a table of ROCm 10. */
void fake_queues_table(struct hsa_table *core, struct hsa_table *ext);
/** Makes @n queues, and some that are none, and says what came of it. */
void fake_queues_use(const struct hsa_table *core, const struct hsa_table *ext, unsigned n, unsigned size,
		     struct hsa_queue **ret);

/** For fake_kfd.c: the newest queue. */
extern uint64_t fake_ring, fake_read, fake_write;
