// What a ROCm runtime and its libhsakmt.so.1 hand each other: names of our own for the facts of that interface, as ROCm 5.2 has it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kmt_status {
	KMT_SUCCESS = 0,
	KMT_ERROR = 1,
	KMT_INVALID_PARAMETER = 3,
	KMT_INVALID_HANDLE = 4,
	KMT_INVALID_NODE = 5,
	KMT_NO_MEMORY = 6,
	KMT_NOT_SUPPORTED = 11,
	KMT_NOT_OPENED = 20,
	KMT_WAIT_TIMEOUT = 31,
};

#pragma pack(push, 4)

struct kmt_version {
	uint32_t major, minor;
};

struct kmt_system {
	uint32_t nodes, oem, id, revision;
};

enum {
	KMT_NAME = 64,
	KMT_CAPABLE_DOORBELL_64 = 2 << 12, // a doorbell takes the index of a packet, 64 bits wide
	KMT_CAPABLE_DEBUG_TRAP = 1 << 15,
	KMT_CAPABLE_REVISION_SHIFT = 22,
	KMT_CAPABLE_SVM = 1 << 27,
};

struct kmt_node {
	uint32_t cpu_cores, simds, banks, caches, links;
	uint32_t cpu_first, simd_first;
	uint32_t capability;
	uint32_t waves_per_simd, lds_kb, gds_kb, wave_size;
	uint32_t engines, arrays_per_engine, cus_per_array, simds_per_cu, scratch_slots_per_cu;
	uint32_t engine_id; // ucode:10 major:6 minor:8 stepping:8
	uint16_t vendor, device;
	uint32_t location;
	uint64_t local_memory;
	uint32_t gpu_mhz, cpu_mhz;
	int32_t render;
	uint16_t marketing_name[KMT_NAME];
	uint8_t amd_name[KMT_NAME];
	uint32_t sdma_version;
	uint64_t debug_properties, hive;
	uint32_t sdma_engines, sdma_xgmi_engines;
	uint8_t sdma_queues, compute_queues, gws, reserved;
	uint32_t domain;
	uint64_t unique_id;
	uint32_t vgpr_bytes, sgpr_bytes;
	uint8_t reserved2[12];
};
_Static_assert(sizeof(struct kmt_node) == 356 && offsetof(struct kmt_node, hive) == 304, "as libhsakmt has it");

enum { KMT_HEAP_SYSTEM = 0, KMT_HEAP_PUBLIC = 1, KMT_HEAP_PRIVATE = 2, KMT_HEAP_LDS = 4, KMT_HEAP_SCRATCH = 5 };

struct kmt_bank {
	uint32_t heap;
	uint64_t size;
	uint32_t flags, width, mhz;
	uint64_t base;
};
_Static_assert(sizeof(struct kmt_bank) == 32, "as libhsakmt has it");

enum { KMT_CACHE_DATA = 1, KMT_CACHE_CPU = 4, KMT_CACHE_GPU = 8 };

struct kmt_cache {
	uint32_t processor, level, size_kb, line, lines_per_tag, ways, latency, type;
	uint32_t siblings[256];
};
_Static_assert(sizeof(struct kmt_cache) == 1056, "as libhsakmt has it");

enum { KMT_LINK_PCIE = 2 };

struct kmt_link {
	uint32_t type, major, minor, from, to, weight;
	uint32_t least_latency, most_latency, least_bandwidth, most_bandwidth, transfer, flags;
};
_Static_assert(sizeof(struct kmt_link) == 48, "as libhsakmt has it");

/** Bits of the flags that memory is allocated with. */
enum {
	KMT_MEMORY_READ_ONLY = 1 << 3,
	KMT_MEMORY_HOST = 1 << 6,
	KMT_MEMORY_SCRATCH = 1 << 9,
	KMT_MEMORY_EXECUTE = 1 << 12,
	KMT_MEMORY_FIXED = 1 << 15,
	KMT_MEMORY_UNCACHED = 1 << 17, // what kernel arguments lie in
};

enum { KMT_EVENT_SIGNAL = 0, KMT_EVENT_MEMORY = 8 };

struct kmt_sync {
	uint64_t data, size;
};

struct kmt_event_wanted {
	uint32_t type, node;
	struct kmt_sync sync;
};

enum { KMT_FAULT_NOT_PRESENT = 1 << 0, KMT_FAULT_READ_ONLY = 1 << 1, KMT_FAULT_FATAL = 1 };

struct kmt_fault {
	uint32_t node;
	uint64_t address;
	uint32_t failure, severity;
};

struct kmt_event {
	uint32_t id, type;
	union {
		struct kmt_sync sync;
		struct kmt_fault fault;
	};
	uint64_t handle, mailbox;
	uint32_t data;
};
_Static_assert(sizeof(struct kmt_event) == 48 && offsetof(struct kmt_event, mailbox) == 36, "as libhsakmt has it");

enum { KMT_QUEUE_AQL = 21 };

struct kmt_queue_resource {
	uint64_t id;
	volatile uint64_t *doorbell, *write, *read;
	volatile int64_t *error;
};
_Static_assert(sizeof(struct kmt_queue_resource) == 40, "as libhsakmt has it");

enum { KMT_POINTER_UNKNOWN = 0, KMT_POINTER_ALLOCATED = 1, KMT_POINTER_USER = 2, KMT_POINTER_SHARED = 4 };

struct kmt_pointer {
	uint32_t type, node, flags;
	void *host;
	uint64_t gpu, size;
	uint32_t nregistered, nmapped;
	const uint32_t *registered, *mapped;
	void *user;
};
_Static_assert(sizeof(struct kmt_pointer) == 68, "as libhsakmt has it");

struct kmt_tiles {
	uint32_t *tile, *macro_tile; // room of the caller's
	uint32_t tiles, macro_tiles, address_config, banks, ranks, reserved[7];
};
_Static_assert(sizeof(struct kmt_tiles) == 64, "as libhsakmt has it");

struct kmt_clocks {
	uint64_t gpu, cpu, system, system_hz;
};

enum {
	KMT_SVM_PREFERRED,
	KMT_SVM_PREFETCH,
	KMT_SVM_ACCESS,
	KMT_SVM_ACCESS_IN_PLACE,
	KMT_SVM_NO_ACCESS,
	KMT_SVM_SET_FLAGS,
	KMT_SVM_CLEAR_FLAGS,
	KMT_SVM_GRANULARITY,
};

struct kmt_svm_attribute {
	uint32_t type, value;
};

struct kmt_shared_handle {
	uint32_t words[8];
};

#pragma pack(pop)

// --- what the hardware reads and writes in memory ---

enum { AQL_BYTES = 64, AQL_TYPE_BITS = 0xff };
enum { AQL_VENDOR_BARRIER_VALUE = 2 };

union aql {
	uint16_t header;
	struct aql_kernel {
		uint16_t header, setup, group[3], reserved;
		uint32_t grid[3], private_bytes, group_bytes;
		uint64_t object, arguments, reserved2, signal;
	} kernel;
	struct aql_barrier {
		uint16_t header, reserved[3];
		uint64_t waits[5], reserved2, signal;
	} barrier;
	struct aql_value {
		uint16_t header;
		uint8_t format, reserved[5];
		uint64_t waits;
		int64_t value, mask;
		uint32_t condition, reserved2;
		uint64_t reserved3[2], signal;
	} value;
	uint32_t words[AQL_BYTES / 4];
};
_Static_assert(sizeof(union aql) == AQL_BYTES && offsetof(struct aql_kernel, signal) == 56 &&
		       offsetof(struct aql_value, signal) == 56,
	       "as the packet processor has it");

/** amd_signal_t */
struct kmt_signal {
	int64_t kind;
	volatile int64_t value;
	uint64_t mailbox;
	uint32_t event, reserved;
	uint64_t start, end, reserved2[2];
};
_Static_assert(sizeof(struct kmt_signal) == 64, "as the packet processor has it");
