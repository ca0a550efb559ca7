// The part of HIP's interface that is used here, which is the same from ROCm 5 to 7. HIP's own headers are not needed.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int hip_error;
enum {
	HIP_SUCCESS = 0,
	HIP_INVALID_VALUE = 1,
	HIP_OUT_OF_MEMORY = 2,
	HIP_NOT_SUPPORTED = 801,
	HIP_DEVICE_TO_HOST = 2, // hipMemcpyKind
	HIP_NON_BLOCKING = 1,   // hipStreamNonBlocking
	HIP_SIGNAL_MEMORY = 2,  // hipMallocSignalMemory
	HIP_BUFFER_ID = 7,      // hipPointer_attribute
	HIP_RANGE_START = 11,
	HIP_RANGE_SIZE = 12,
	HIP_NODE_ALLOCATES = 10, // hipGraphNodeType, which parameters of nodes begin with
};
typedef void *hip_stream;
struct hip_extent {
	size_t width, height, depth;
};
struct hip_ipc {
	char bytes[64];
};
/** hipMemAllocationProp. */
struct hip_property {
	int type, handles;
	int location_type, location;
	void *windows;
	struct {
		unsigned char compression, rdma;
		unsigned short usage;
	} flags;
};
/** hipMemAccessDesc. */
struct hip_access {
	int location_type, location, flags;
};
enum { HIP_PINNED = 1, HIP_LOCATION_DEVICE = 1, HIP_READ_WRITE = 3, HIP_GRANULARITY_MINIMUM = 0 };

/** Those that programs call: name, what the parameters are, how they are handed on. Hooks of each are in hooks.c. */
#define HIP_HOOKED(X)                                                                                                          \
	X(hipMalloc, (void **ret, size_t size), (ret, size))                                                                   \
	X(hipFree, (void *p), (p))                                                                                             \
	X(hipExtMallocWithFlags, (void **ret, size_t size, unsigned flags), (ret, size, flags))                                \
	X(hipHostMalloc, (void **ret, size_t size, unsigned flags), (ret, size, flags))                                        \
	X(hipHostAlloc, (void **ret, size_t size, unsigned flags), (ret, size, flags))                                         \
	X(hipMallocHost, (void **ret, size_t size), (ret, size))                                                               \
	X(hipMemAllocHost, (void **ret, size_t size), (ret, size))                                                             \
	X(hipHostFree, (void *p), (p))                                                                                         \
	X(hipFreeHost, (void *p), (p))                                                                                         \
	X(hipMallocManaged, (void **ret, size_t size, unsigned flags), (ret, size, flags))                                     \
	X(hipMallocPitch, (void **ret, size_t *pitch, size_t width, size_t height), (ret, pitch, width, height))               \
	X(hipMemAllocPitch, (void **ret, size_t *pitch, size_t width, size_t height, unsigned element),                        \
	  (ret, pitch, width, height, element))                                                                                \
	X(hipMalloc3D, (void *pitched, struct hip_extent extent), (pitched, extent))                                           \
	X(hipMallocAsync, (void **ret, size_t size, hip_stream stream), (ret, size, stream))                                   \
	X(hipMallocFromPoolAsync, (void **ret, size_t size, void *pool, hip_stream stream), (ret, size, pool, stream))         \
	X(hipFreeAsync, (void *p, hip_stream stream), (p, stream))                                                             \
	X(hipMemGetInfo, (size_t * available, size_t * total), (available, total))                                             \
	X(hipMemGetAddressRange, (void **base, size_t *size, void *p), (base, size, p))                                        \
	X(hipMemPtrGetInfo, (void *p, size_t *size), (p, size))                                                                \
	X(hipPointerGetAttributes, (void *data, const void *p), (data, p))                                                     \
	X(hipPointerGetAttribute, (void *data, int attribute, void *p), (data, attribute, p))                                  \
	X(hipDrvPointerGetAttributes, (unsigned n, int *attributes, void **data, void *p), (n, attributes, data, p))           \
	X(hipIpcGetMemHandle, (struct hip_ipc * handle, void *p), (handle, p))                                                 \
	X(hipIpcOpenMemHandle, (void **ret, struct hip_ipc handle, unsigned flags), (ret, handle, flags))                      \
	X(hipIpcCloseMemHandle, (void *p), (p))                                                                                \
	X(hipStreamBeginCapture, (hip_stream stream, int mode), (stream, mode))                                                \
	X(hipStreamEndCapture, (hip_stream stream, void **graph), (stream, graph))                                             \
	X(hipStreamBeginCapture_spt, (hip_stream stream, int mode), (stream, mode))                                            \
	X(hipStreamEndCapture_spt, (hip_stream stream, void **graph), (stream, graph))                                         \
	X(hipStreamBeginCaptureToGraph,                                                                                        \
	  (hip_stream stream, void *graph, const void *after, const void *edges, size_t n, int mode),                          \
	  (stream, graph, after, edges, n, mode))                                                                              \
	X(hipMemGetHandleForAddressRange, (void *handle, void *p, size_t size, int type, unsigned long long flags),            \
	  (handle, p, size, type, flags))                                                                                      \
	X(hipMemAddressReserve, (void **ret, size_t size, size_t alignment, void *wanted, unsigned long long flags),           \
	  (ret, size, alignment, wanted, flags))                                                                               \
	X(hipMemCreate, (void **handle, size_t size, const struct hip_property *of, unsigned long long flags),                 \
	  (handle, size, of, flags))                                                                                           \
	X(hipGraphAddMemAllocNode, (void *node, void *graph, const void *after, size_t n, void *parameters),                   \
	  (node, graph, after, n, parameters))                                                                                 \
	X(hipGraphAddNode, (void *node, void *graph, const void *after, size_t n, const int *parameters),                      \
	  (node, graph, after, n, parameters))                                                                                 \
	X(hipSetDevice, (int device), (device))                                                                                \
	X(hipDeviceReset, (void), ())                                                                                          \
	X(hipGetProcAddress, (const char *name, void **ret, int version, uint64_t flags, void *status),                        \
	  (name, ret, version, flags, status))                                                                                 \
	X(hipGetDriverEntryPoint, (const char *name, void **ret, unsigned long long flags, void *status),                      \
	  (name, ret, flags, status))                                                                                          \
	X(hipGetDriverEntryPoint_spt, (const char *name, void **ret, unsigned long long flags, void *status),                  \
	  (name, ret, flags, status))

/** Those that are only called. */
#define HIP_CALLED(X)                                                                                                          \
	X(hipPeekAtLastError, (void))                                                                                          \
	X(hipGetLastError, (void))                                                                                             \
	X(hipGetDevice, (int *ret))                                                                                            \
	X(hipDeviceSynchronize, (void))                                                                                        \
	X(hipStreamCreateWithFlags, (hip_stream * ret, unsigned flags))                                                        \
	X(hipStreamCreateWithPriority, (hip_stream * ret, unsigned flags, int priority))                                       \
	X(hipDeviceGetStreamPriorityRange, (int *least, int *greatest))                                                        \
	X(hipStreamIsCapturing, (hip_stream stream, int *ret))                                                                 \
	X(hipStreamSynchronize, (hip_stream stream))                                                                           \
	X(hipMemsetAsync, (void *p, int value, size_t n, hip_stream stream))                                                   \
	X(hipMemcpyAsync, (void *to, const void *from, size_t n, int kind, hip_stream stream))                                 \
	X(hipRuntimeGetVersion, (int *ret))                                                                                    \
	X(hipDriverGetVersion, (int *ret))                                                                                     \
	X(hipMemAddressFree, (void *p, size_t size))                                                                           \
	X(hipMemMap, (void *p, size_t size, size_t offset, void *handle, unsigned long long flags))                            \
	X(hipMemUnmap, (void *p, size_t size))                                                                                 \
	X(hipMemRelease, (void *handle))                                                                                       \
	X(hipMemSetAccess, (void *p, size_t size, const struct hip_access *access, size_t n))                                  \
	X(hipMemGetAllocationGranularity, (size_t * ret, const struct hip_property *of, int which))                            \
	X(hipGetDeviceCount, (int *ret))                                                                                       \
	X(hipDeviceCanAccessPeer, (int *ret, int device, int peer))

/** HIP's own functions; NULL: this HIP has none. */
struct hip_functions {
#define X(name, parameters, ...) hip_error(*name) parameters;
	HIP_HOOKED(X)
	HIP_CALLED(X)
#undef X
};
extern struct hip_functions hip;

/** Of the HSA runtime. */
__attribute__((visibility("default"))) int hsa_init(void);

#define X(name, parameters, ...) __attribute__((visibility("default"))) hip_error name parameters;
HIP_HOOKED(X)
#undef X
