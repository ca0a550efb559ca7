// What the kernel's driver and its callers hand each other, and what the hardware reads and writes in memory. The first are a part of
// linux/kfd_ioctl.h under its names; that header itself needs libdrm's.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

struct kfd_ioctl_get_version_args {
	uint32_t major_version, minor_version;
};

enum { KFD_IOC_QUEUE_TYPE_COMPUTE_AQL = 2 };

struct kfd_ioctl_create_queue_args {
	uint64_t ring_base_address, write_pointer_address, read_pointer_address, doorbell_offset;
	uint32_t ring_size, gpu_id, queue_type, queue_percentage, queue_priority, queue_id;
	uint64_t eop_buffer_address, eop_buffer_size, ctx_save_restore_address;
	uint32_t ctx_save_restore_size, ctl_stack_size;
};

struct kfd_ioctl_update_queue_args {
	uint64_t ring_base_address;
	uint32_t queue_id, ring_size, queue_percentage, queue_priority;
};

struct kfd_ioctl_get_clock_counters_args {
	uint64_t gpu_clock_counter, cpu_clock_counter, system_clock_counter, system_clock_freq;
	uint32_t gpu_id, pad;
};

struct kfd_process_device_apertures {
	uint64_t lds_base, lds_limit, scratch_base, scratch_limit, gpuvm_base, gpuvm_limit;
	uint32_t gpu_id, pad;
};

struct kfd_ioctl_get_process_apertures_new_args {
	uint64_t kfd_process_device_apertures_ptr;
	uint32_t num_of_nodes, pad;
};

enum { KFD_IOC_EVENT_SIGNAL = 0, KFD_IOC_EVENT_MEMORY = 8 };
enum { KFD_IOC_WAIT_RESULT_COMPLETE, KFD_IOC_WAIT_RESULT_TIMEOUT, KFD_IOC_WAIT_RESULT_FAIL };

struct kfd_ioctl_create_event_args {
	uint64_t event_page_offset;
	uint32_t event_trigger_data, event_type, auto_reset, node_id, event_id, event_slot_index;
};

struct kfd_hsa_memory_exception_data {
	struct {
		uint32_t NotPresent, ReadOnly, NoExecute, imprecise;
	} failure;
	uint64_t va;
	uint32_t gpu_id, ErrorType;
};

struct kfd_event_data {
	union {
		struct kfd_hsa_memory_exception_data memory_exception_data;
		uint64_t last_event_age; // of a signal, since version 1.14: how old it was when the caller last looked
	};
	uint64_t kfd_event_data_ext;
	uint32_t event_id, pad;
};
_Static_assert(sizeof(struct kfd_event_data) == 48, "as the kernel has it");

struct kfd_ioctl_wait_events_args {
	uint64_t events_ptr;
	uint32_t num_events, wait_for_all, timeout, wait_result;
};

struct kfd_ioctl_get_tile_config_args {
	uint64_t tile_config_ptr, macro_tile_config_ptr;
	uint32_t num_tile_configs, num_macro_tile_configs, gpu_id, gb_addr_config, num_banks, num_ranks;
};

#define KFD_IOC_ALLOC_MEM_FLAGS_VRAM (1u << 0)
#define KFD_IOC_ALLOC_MEM_FLAGS_USERPTR (1u << 2)
#define KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL (1u << 3)
#define KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED (1u << 25) // what kernel arguments lie in
#define KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE (1u << 31)

struct kfd_ioctl_alloc_memory_of_gpu_args {
	uint64_t va_addr, size, handle, mmap_offset;
	uint32_t gpu_id, flags;
};

/** Also those of unmapping. */
struct kfd_ioctl_map_memory_to_gpu_args {
	uint64_t handle, device_ids_array_ptr;
	uint32_t n_devices, n_success;
};

struct kfd_ioctl_get_dmabuf_info_args {
	uint64_t size, metadata_ptr;
	uint32_t metadata_size, gpu_id, flags, dmabuf_fd;
};

struct kfd_ioctl_import_dmabuf_args {
	uint64_t va_addr, handle;
	uint32_t gpu_id, dmabuf_fd;
};

struct kfd_ioctl_export_dmabuf_args {
	uint64_t handle;
	uint32_t flags, dmabuf_fd;
};

struct kfd_ioctl_alloc_queue_gws_args {
	uint32_t queue_id, num_gws, first_gws, pad;
};

enum { KFD_IOCTL_SVM_OP_SET_ATTR, KFD_IOCTL_SVM_OP_GET_ATTR };
#define KFD_IOCTL_SVM_LOCATION_UNDEFINED 0xffffffffu
enum {
	KFD_IOCTL_SVM_ATTR_PREFERRED_LOC,
	KFD_IOCTL_SVM_ATTR_PREFETCH_LOC,
	KFD_IOCTL_SVM_ATTR_ACCESS,
	KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE,
	KFD_IOCTL_SVM_ATTR_NO_ACCESS,
	KFD_IOCTL_SVM_ATTR_SET_FLAGS,
	KFD_IOCTL_SVM_ATTR_CLR_FLAGS,
	KFD_IOCTL_SVM_ATTR_GRANULARITY,
};

struct kfd_ioctl_svm_attribute {
	uint32_t type, value;
};

struct kfd_ioctl_svm_args {
	uint64_t start_addr, size;
	uint32_t op, nattr;
	struct kfd_ioctl_svm_attribute attrs[];
};

struct kfd_ioctl_set_cu_mask_args {
	uint32_t queue_id, num_cu_mask;
	uint64_t cu_mask_ptr;
};

enum { KFD_SMI_EVENT_VMFAULT = 1 };

struct kfd_ioctl_smi_events_args {
	uint32_t gpuid, anon_fd;
};

struct kfd_ioctl_set_xnack_mode_args {
	int32_t xnack_enabled;
};

/** Numbers of ioctls, since a caller's size of the arguments may be that of another version. */
enum {
	KMT_GET_VERSION = 0x01,
	KMT_CREATE_QUEUE = 0x02,
	KMT_DESTROY_QUEUE = 0x03,
	KMT_SET_MEMORY_POLICY = 0x04,
	KMT_GET_CLOCK_COUNTERS = 0x05,
	KMT_UPDATE_QUEUE = 0x07,
	KMT_CREATE_EVENT = 0x08,
	KMT_DESTROY_EVENT = 0x09,
	KMT_SET_EVENT = 0x0a,
	KMT_RESET_EVENT = 0x0b,
	KMT_WAIT_EVENTS = 0x0c,
	KMT_DBG_REGISTER = 0x0d, // this one to the next were a debugger's once
	KMT_DBG_WAVE_CONTROL = 0x10,
	KMT_SET_SCRATCH_BACKING_VA = 0x11,
	KMT_GET_TILE_CONFIG = 0x12,
	KMT_SET_TRAP_HANDLER = 0x13,
	KMT_GET_PROCESS_APERTURES_NEW = 0x14,
	KMT_ACQUIRE_VM = 0x15,
	KMT_ALLOC_MEMORY_OF_GPU = 0x16,
	KMT_FREE_MEMORY_OF_GPU = 0x17,
	KMT_MAP_MEMORY_TO_GPU = 0x18,
	KMT_UNMAP_MEMORY_FROM_GPU = 0x19,
	KMT_SET_CU_MASK = 0x1a,
	KMT_GET_DMABUF_INFO = 0x1c,
	KMT_IMPORT_DMABUF = 0x1d,
	KMT_ALLOC_QUEUE_GWS = 0x1e,
	KMT_SMI_EVENTS = 0x1f,
	KMT_SVM = 0x20,
	KMT_SET_XNACK_MODE = 0x21,
	KMT_CRIU = 0x22,
	KMT_AVAILABLE_MEMORY = 0x23,
	KMT_EXPORT_DMABUF = 0x24,
	KMT_RUNTIME_ENABLE = 0x25,
	KMT_TRAP = 0x26,
	KMT_IPC_IMPORT = 0x80, // these and the next are in AMD's own driver only
	KMT_IPC_EXPORT = 0x81,
	KMT_OLD_TRAP = 0x82, // as of ROCm 5
};

struct kmt_available {
	uint64_t bytes;
	uint32_t gpu_id, pad;
};

struct kmt_runtime_enable {
	uint64_t list; // of code objects
	uint32_t mode, capabilities;
};

enum { KMT_RUNTIME_ENABLED = 1 };

/** What the driver tells of a queue (KFD_EC_QUEUE_*), and the last of a GPU. */
enum {
	EXCEPTION_ABORT = 1,
	EXCEPTION_TRAP,
	EXCEPTION_MATH_ERROR,
	EXCEPTION_ILLEGAL_INSTRUCTION,
	EXCEPTION_MEMORY_VIOLATION,
	EXCEPTION_APERTURE_VIOLATION,
	EXCEPTION_DIMENSIONS = 16,
	EXCEPTION_GROUP_SEGMENT,
	EXCEPTION_CODE,
	EXCEPTION_PACKET = 20,
	EXCEPTION_WORKGROUP,
	EXCEPTION_OF_MEMORY = 33, // a GPU's
};

/** Which fields there are is another matter of each operation; these fit all that are known here. */
struct kmt_trap {
	uint32_t pid, operation;
	uint64_t exceptions, buffer;
	uint32_t n, size;
};
enum {
	KMT_TRAP_ENABLE = 0,
	KMT_TRAP_DISABLE = 1,
	KMT_TRAP_SUSPEND = 6,
	KMT_TRAP_RESUME = 7,
	KMT_TRAP_QUEUES = 13,
	KMT_TRAP_GPUS = 14
};

struct kmt_old_trap {
	uint64_t exceptions, pointer;
	uint32_t pid, operation, data[4];
};
enum { KMT_OLD_TRAP_VERSION = 7, KMT_OLD_TRAP_RUNTIME = 13 };

struct kmt_ipc_export {
	uint64_t handle;
	uint32_t share[4], gpu_id, flags;
};

struct kmt_ipc_import {
	uint64_t handle, va, mmap_offset;
	uint32_t share[4], gpu_id, flags;
};

/** The head of a queue's save area, which the runtime allocates. */
struct kmt_save_area {
	uint32_t stack_offset, stack_size, waves_offset, waves_size, debug_offset, debug_size;
	uint64_t error;
	uint32_t error_event, reserved;
};
_Static_assert(sizeof(struct kmt_save_area) == 40, "as the runtime has it");

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
