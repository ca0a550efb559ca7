// What the recorder needs to know of AMD's HSA runtime: the tables of functions that a tools library is handed, and the few structs
// behind them. Declared here, because the runtime's own header is C++ and each version has another one. The tables have grown over the
// years, and once in the middle: a function's place follows from the table's size (table.c).
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef uint32_t hsa_status;
typedef uint64_t hsa_handle; // of an agent, a signal, a pool, an executable: a struct of one uint64_t, passed as it is
enum { HSA_OK = 0, HSA_ERROR = 0x1000 };

struct hsa_table {
	uint32_t major, minor, step, reserved; // minor: size in bytes
	void *functions[];
};

struct hsa_root {
	uint32_t major, minor, step, reserved;
	struct hsa_table *core, *ext;
};

/** Places in the core table, the same from ROCm 5.2 to 10.0. */
enum core_place {
	CORE_SYSTEM_GET_INFO = 2,
	CORE_ITERATE_AGENTS = 5,
	CORE_AGENT_GET_INFO = 6,
	CORE_QUEUE_CREATE = 7,
	CORE_QUEUE_DESTROY = 9,
	CORE_MEMORY_ALLOCATE = 33,
	CORE_MEMORY_FREE = 34,
	CORE_MEMORY_COPY = 35,
	CORE_SIGNAL_CREATE = 37,
	CORE_SIGNAL_DESTROY = 38,
	CORE_SIGNAL_LOAD_RELAXED = 39,
	CORE_SIGNAL_LOAD_SCACQUIRE = 40,
	CORE_SIGNAL_STORE_RELAXED = 41,
	CORE_SIGNAL_STORE_SCRELEASE = 42,
	CORE_SIGNAL_WAIT_RELAXED = 43,
	CORE_SIGNAL_WAIT_SCACQUIRE = 44,
	CORE_EXECUTABLE_DESTROY = 84,
	CORE_EXECUTABLE_FREEZE = 86,
	CORE_SYMBOL_GET_INFO = 93,
	CORE_ITERATE_SYMBOLS = 94,
	CORE_MAJOR_EXTENSION_TABLE = 98,
	CORE_LEAST = 99, // functions that a core table has at least; of these, levels 5 and 10 can do without:
	CORE_READER_FROM_MEMORY = 116,
	CORE_READER_DESTROY = 117,
	CORE_EXECUTABLE_CREATE = 118,
	CORE_EXECUTABLE_LOAD = 120,
	CORE_EXECUTABLE_SYMBOL = 122,
	CORE_KNOWN = 123,
};

/** Functions of the extension's table, by names of ours; table.c knows where they are. */
enum ext_function {
	EXT_ASYNC_HANDLER,
	EXT_WAIT_ANY,
	EXT_ITERATE_POOLS,
	EXT_POOL_GET_INFO,
	EXT_POOL_ALLOCATE,
	EXT_POOL_FREE,
	EXT_ASYNC_COPY,
	EXT_ASYNC_COPY_ON_ENGINE,
	EXT_ALLOW_ACCESS,
	EXT_LOCK,
	EXT_UNLOCK,
	EXT_FILL,
	EXT_INTEROP_MAP,
	EXT_INTEROP_UNMAP,
	EXT_POINTER_INFO,
	EXT_IPC_ATTACH,
	EXT_IPC_DETACH,
	EXT_EVENT_HANDLER,
	EXT_INTERCEPT_CREATE,
	EXT_INTERCEPT_REGISTER,
	EXT_ASYNC_COPY_RECT,
	EXT_LOCK_TO_POOL,
	EXT_SVM_SET,
	EXT_VMEM_RESERVE,
	EXT_VMEM_FREE,
	EXT_VMEM_CREATE,
	EXT_VMEM_RELEASE,
	EXT_VMEM_MAP,
	EXT_VMEM_UNMAP,
	EXT_VMEM_SET_ACCESS,
	EXT_VMEM_RESERVE_ALIGN,
	EXT_CU_MASK,
	EXT_PRIORITY,
	EXT_QUEUES_CREATE,
	EXT_FUNCTIONS
};

enum { QUEUE_COOPERATIVE = 2 /* a type */, QUEUE_DISPATCHES = 1 /* a feature, which one of SDMA does not have */ };
struct hsa_queue {
	uint32_t type, features;
	void *base;
	hsa_handle doorbell;
	uint32_t size, reserved;
	uint64_t id;
};

/** The queue as the runtime and the GPU share it. */
struct amd_queue {
	struct hsa_queue hsa;
	uint32_t reserved1[4];
	uint64_t write_index;
	uint32_t unused[16];
	uint64_t read_index;
};
_Static_assert(offsetof(struct amd_queue, write_index) == 56 && offsetof(struct amd_queue, read_index) == 128, "amd_queue_t");

struct amd_signal {
	int64_t kind; // below 0: a doorbell
	int64_t value;
	uint64_t mailbox;
	uint32_t event, reserved1;
	uint64_t start, end;
	struct amd_queue *queue; // of a doorbell
};

enum aql_kind {
	AQL_KIND_VENDOR,
	AQL_KIND_INVALID,
	AQL_KIND_DISPATCH,
	AQL_KIND_BARRIER_AND,
	AQL_KIND_AGENT,
	AQL_KIND_BARRIER_OR
};

enum hsa_info {
	SYSTEM_INFO_BUILD_VERSION = 0x200,
	AGENT_INFO_NAME = 0,
	AGENT_INFO_NODE = 16,
	AGENT_INFO_DEVICE = 17,
	AGENT_INFO_BDF = 0xA006,
	AGENT_INFO_PRODUCT = 0xA009,
	AGENT_INFO_DOMAIN = 0xA00F,
	POOL_INFO_SEGMENT = 0,
	POOL_INFO_FLAGS = 1,
	POOL_INFO_SIZE = 2,
	SYMBOL_INFO_TYPE = 0,
	SYMBOL_INFO_NAME_LENGTH = 1,
	SYMBOL_INFO_NAME = 2,
	SYMBOL_INFO_ARGUMENTS = 11,
	SYMBOL_INFO_KERNEL = 22,
	SYMBOL_KERNEL = 1,
	DEVICE_GPU = 1,
	EXTENSION_LOADER = 0x201,
	LOADED_STORAGE = 4,
	LOADED_STORAGE_BASE = 5,
	LOADED_STORAGE_SIZE = 6,
	STORAGE_MEMORY = 2,
	LOADED_DELTA = 8,
	LOADED_BASE = 9,
	LOADED_SIZE = 10,
	LOADED_URI_LENGTH = 11,
	LOADED_URI = 12,
};

enum { POINTER_MAPPED = 6 }; // by hsa_amd_vmem_map
struct hsa_pointer_info {
	uint32_t size, type; // type 0: the runtime does not know it
	void *agent_base, *host_base;
	size_t bytes;
	void *user;
	hsa_handle owner;
	uint32_t flags, reserved;
};

/** A system event; type 0 is a memory fault, later ones begin alike. */
struct hsa_event {
	uint32_t type, padding;
	hsa_handle agent;
	uint64_t address;
	uint32_t reasons;
};

/** The loader's functions, version 1.03. */
struct hsa_loader {
	void *query_host_address, *query_segments, *query_executable;
	hsa_status (*iterate)(hsa_handle executable, hsa_status (*each)(hsa_handle, hsa_handle loaded, void *ctx), void *ctx);
	hsa_status (*info)(hsa_handle loaded, uint32_t what, void *ret);
};

typedef hsa_status pointer_info_fn(const void *p, struct hsa_pointer_info *ret, void *(*allocate)(size_t), uint32_t *n,
				   hsa_handle **agents);
typedef void signal_store_fn(hsa_handle signal, int64_t value);
typedef int64_t signal_load_fn(hsa_handle signal);
typedef int64_t signal_wait_fn(hsa_handle signal, uint32_t condition, int64_t compare, uint64_t timeout, uint32_t how);
typedef void queue_error_fn(hsa_status status, struct hsa_queue *queue, void *data);
typedef hsa_status queue_create_fn(hsa_handle agent, uint32_t size, uint32_t type, queue_error_fn *error, void *data,
				   uint32_t private_size, uint32_t group_size, struct hsa_queue **ret);

/** What hsa_amd_queue_create of ROCm 10 is told of a queue, version 1. */
struct hsa_queue_wish {
	uint16_t version, flags; // flags: what of it is to lie in VRAM
	uint8_t engine, reserved1[3];
	uint32_t bytes, priority;
	queue_error_fn *error;
	void *data;
	struct hsa_queue *queue; // from the runtime; NULL: there is none
	const uint32_t *cu_mask; // from here on of the compute engine
	uint32_t type, private_size, cu_bits, reserved2[3];
	uint32_t traffic; // from here on of all
	uint8_t reserved3[20];
};
_Static_assert(sizeof(struct hsa_queue_wish) == 96 && offsetof(struct hsa_queue_wish, queue) == 32,
	       "hsa_amd_queue_create_desc_t");
enum { WISH_VERSION = 1, ENGINE_COMPUTE = 0, PRIORITY_NORMAL = 1 };
typedef hsa_status queues_create_fn(hsa_handle agent, struct hsa_queue_wish *wishes, uint32_t n);

typedef void packet_writer_fn(const void *packets, uint64_t n);
typedef void intercept_fn(const void *packets, uint64_t n, uint64_t index, void *data, packet_writer_fn *write);
typedef hsa_status event_handler_fn(const struct hsa_event *event, void *data);
