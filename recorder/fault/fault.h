// What happens after a fault: a light GPU core, and a hold.
#pragma once

#include "recorder/recorder.h"

/** What the driver says of GPUs and queues, in the words of its debugger interface: a core's note has them as they are. */
struct kfd_runtime {
	uint64_t r_debug; // the runtime's list of code objects
	uint32_t state, ttmps;
};
struct kfd_gpu {
	uint64_t exceptions, lds_base, lds_limit, scratch_base, scratch_limit, gpuvm_base, gpuvm_limit;
	uint32_t gpu_id, location, vendor, device, revision, subsystem_vendor, subsystem_device, firmware;
	uint32_t target_version, simds, waves_per_simd, arrays, arrays_per_engine, xccs, capability, debug_properties;
};
struct kfd_queue {
	uint64_t exceptions, ring, write, read, save_area;
	uint32_t id, gpu_id, ring_size, type, save_area_size, reserved;
};
_Static_assert(sizeof(struct kfd_runtime) == 16 && sizeof(struct kfd_gpu) == 120 && sizeof(struct kfd_queue) == 64,
	       "as KFD has it");

struct kfd_state {
	uint32_t major, minor;
	struct kfd_runtime runtime;
	uint32_t ngpus, nqueues;
	struct kfd_gpu gpus[GPUS_MOST];
	struct kfd_queue queues[QUEUES_MOST];
	int device;           // that queues are suspended through; -1: none are
	int (*disable)(void); // or the function that lets them go on; NULL: none
};

/** kfd.c: asks for it, and suspends the queues, so that their waves are saved. Where the driver does not answer, what the recorder knows. */
void kfd_take(struct kfd_state *s);
/** Lets the queues go on. */
void kfd_release(struct kfd_state *s);

/** core.c: writes the light core, until a time in nanoseconds since the boot; how many bytes it has. 0: there is none. */
uint64_t core_write(const char *path, uint64_t deadline);
uint64_t boot_ns(void);
