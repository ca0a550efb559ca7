// What the files of fake_runtime share.
#pragma once

#include "recorder/hsa.h"

enum { FAKE_ADDRESSES = 32 };

/** fake_memory.c: functions for memory in a table of ROCm 6 or later. */
void fake_memory_table(struct hsa_table *ext);
/** Uses them, and says at which addresses a GPU shall fault. */
size_t fake_memory_use(const struct hsa_table *ext, uint64_t *ret);

/** For fake_kfd.c: the newest queue. */
extern uint64_t fake_ring, fake_read, fake_write;
