// The functions that a ROCm 5.2 runtime imports from libhsakmt.so.1, as it calls them; they return an enum kmt_status. Their flags are
// structs of one word there, which are handed over as the word is.
#pragma once

#include "emulator/thunk/abi.h"

#pragma GCC visibility push(default)

// thunk.c
int hsaKmtOpenKFD(void);
int hsaKmtCloseKFD(void);

// topology.c
int hsaKmtGetVersion(struct kmt_version *ret);
int hsaKmtAcquireSystemProperties(struct kmt_system *ret);
int hsaKmtReleaseSystemProperties(void);
int hsaKmtGetNodeProperties(uint32_t node, struct kmt_node *ret);
int hsaKmtGetNodeMemoryProperties(uint32_t node, uint32_t count, struct kmt_bank *ret);
int hsaKmtGetNodeCacheProperties(uint32_t node, uint32_t processor, uint32_t count, struct kmt_cache *ret);
int hsaKmtGetNodeIoLinkProperties(uint32_t node, uint32_t count, struct kmt_link *ret);
int hsaKmtGetClockCounters(uint32_t node, struct kmt_clocks *ret);
int hsaKmtGetXNACKMode(int32_t *ret);
int hsaKmtSetXNACKMode(int32_t enable);

// events.c
int hsaKmtCreateEvent(const struct kmt_event_wanted *wanted, bool manual, bool signaled, struct kmt_event **ret);
int hsaKmtDestroyEvent(struct kmt_event *e);
int hsaKmtSetEvent(struct kmt_event *e);
int hsaKmtWaitOnMultipleEvents(struct kmt_event *events[], uint32_t n, bool all, uint32_t ms);
int hsaKmtWaitOnEvent(struct kmt_event *e, uint32_t ms);

// memory.c
int hsaKmtAllocMemory(uint32_t node, uint64_t size, uint32_t flags, void **address);
int hsaKmtFreeMemory(void *address, uint64_t size);
int hsaKmtRegisterMemoryWithFlags(void *address, uint64_t size, uint32_t flags);
int hsaKmtDeregisterMemory(void *address);
int hsaKmtMapMemoryToGPUNodes(void *address, uint64_t size, uint64_t *ret_other, uint32_t flags, uint64_t n,
			      const uint32_t *nodes);
int hsaKmtMapMemoryToGPU(void *address, uint64_t size, uint64_t *ret_other);
int hsaKmtUnmapMemoryToGPU(void *address);
int hsaKmtQueryPointerInfo(const void *address, struct kmt_pointer *ret);
int hsaKmtSetMemoryUserData(const void *address, void *user);

// queue.c
int hsaKmtCreateQueue(uint32_t node, uint32_t type, uint32_t share, int32_t priority, void *ring, uint64_t size,
		      struct kmt_event *event, struct kmt_queue_resource *resource);
int hsaKmtUpdateQueue(uint64_t id, uint32_t share, int32_t priority, void *ring, uint64_t size, struct kmt_event *event);
int hsaKmtDestroyQueue(uint64_t id);

// unsupported.c
int hsaKmtRuntimeEnable(void *list, bool registers);
int hsaKmtRuntimeDisable(void);
int hsaKmtSetTrapHandler(uint32_t node, void *handler, uint64_t size, void *buffer, uint64_t buffer_size);
int hsaKmtSetMemoryPolicy(uint32_t node, uint32_t normal, uint32_t other, void *address, uint64_t size);
int hsaKmtSetQueueCUMask(uint64_t queue, uint32_t bits, uint32_t *mask);
int hsaKmtAllocQueueGWS(uint64_t queue, uint32_t n, uint32_t *ret_first);
int hsaKmtGetTileConfig(uint32_t node, struct kmt_tiles *config);
int hsaKmtRegisterGraphicsHandleToNodes(uint64_t handle, void *ret, uint64_t n, uint32_t *nodes);

// debug.c; of newer runtimes
int hsaKmtDbgEnable(void **ret_runtime, uint32_t *ret_size);
int hsaKmtDbgDisable(void);
int hsaKmtDbgGetDeviceData(void **ret, uint32_t *ret_n, uint32_t *ret_size);
int hsaKmtDbgGetQueueData(void **ret, uint32_t *ret_n, uint32_t *ret_size, bool suspend);

// share.c, svm.c
int hsaKmtShareMemory(void *address, uint64_t size, struct kmt_shared_handle *ret);
int hsaKmtRegisterSharedHandle(const struct kmt_shared_handle *handle, void **ret_address, uint64_t *ret_size);
int hsaKmtRegisterSharedHandleToNodes(const struct kmt_shared_handle *handle, void **ret_address, uint64_t *ret_size,
				      uint64_t n, uint32_t *nodes);
int hsaKmtSVMSetAttr(void *address, uint64_t size, unsigned n, struct kmt_svm_attribute *attributes);
int hsaKmtSVMGetAttr(void *address, uint64_t size, unsigned n, struct kmt_svm_attribute *attributes);

#pragma GCC visibility pop
