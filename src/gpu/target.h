// A target is something to look at: a live GPU, a process, a core, a dump. It is asked with a batch of requests, and each request comes
// back with its answer. What a target cannot give is ANSWER_ABSENT, not an error. Lists live as long as the target; target_close()
// frees it.
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "gpu/wave.h"
#include "knowledge/know.h"

struct reg;
struct vm_tables;
struct vm_walk;

/** A bit of what KFD says of a GPU for debuggers: each wave of a compute queue is told of which dispatch it is. */
enum { DEBUG_TTMPS = 0x400 };

enum answer { ANSWER_GIVEN, ANSWER_ABSENT, ANSWER_REFUSED, ANSWER_TIMED_OUT };

/** A GPU. */
struct agent {
	uint32_t gpu_id, location, vendor, device, revision, firmware;
	bool domain_known; // of its PCI address
	uint32_t domain;
	uint32_t target_version; // 90402: gfx942
	struct str gfx;
	uint32_t xccs, simds, waves_per_simd, debug_properties;
	uint64_t exceptions;
	uint64_t lds_base, scratch_base; // apertures of flat accesses
};

/** Where a queue is on the GPU. */
struct queue_slot {
	bool known;
	unsigned xcc, me, pipe, queue; // xcc: the first one
	unsigned vmid;
	uint64_t xccs; // a bit for each XCC that shows it
};

/** As in the driver's interface. */
enum queue_type { QUEUE_PM4, QUEUE_SDMA, QUEUE_AQL, QUEUE_SDMA_XGMI, QUEUE_SDMA_ENGINE };
enum { AQL_PACKET = 64 }; // bytes

/** What is known of a queue word by word: its descriptor in memory (MQD), or its registers on the GPU (HQD). */
struct queue_words {
	enum queue_words_of { WORDS_COMPUTE, WORDS_COPY, WORDS_GRAPHICS } of;
	bool hqd;
	unsigned xcc; // of registers; of a descriptor, which copy of it
	size_t n;
	const uint32_t *words;
};

struct queue {
	uint32_t id, type;
	const struct agent *agent; // NULL: of a GPU that the target does not have
	uint64_t exceptions;
	uint64_t ring, ring_size;
	uint64_t read_address, write_address;
	bool indexes_known;
	uint64_t read_index,
		write_index; // packets, where the indexes could be read; of others than AQL as the engine counts them
	uint64_t save_area;
	uint32_t save_area_size; // of one XCC
	size_t nwaves;
	struct str problem; // why its waves could not be read; empty
	struct queue_slot slot;
	bool active_known, active; // the GPU works on it, or would
	uint64_t doorbell;
	int64_t watched_ms; // milliseconds between the first and the last look at the read index; 0: one look. It may have stood still before
	bool moved; // it had changed
	const struct queue_words *words; // descriptors, then registers
	size_t nwords;
};

/** What a dispatch packet asks for. */
struct dispatch {
	uint64_t packet, address;
	uint16_t header;
	uint32_t workgroup[3], grid[3];
	uint32_t scratch, lds;
	uint64_t kernel_object, kernarg;
};

/** `0000:c1:00.0`; without the domain where that is not known. */
struct str agent_pci(const struct agent *g, char room[static 24]);
/** What happened to a queue or a GPU, by the bits of its status, as the driver names it. */
size_t exception_names(const struct know *k, uint64_t status, struct str ret[static 64]);

/** A code object that was loaded. */
struct loaded_code {
	uint64_t base; // added to the object's addresses
	struct str uri;
};

/** A range of addresses that the process or its GPU had. */
struct memory_range {
	uint64_t begin, end;
	bool of_gpu; // a buffer of the GPU; false: the process's memory
	bool kept;   // its bytes can be read
	struct str path;
};

/** A ring of the driver's. Positions are in words. */
struct ring {
	struct str name; // gfx_0.0.0
	uint32_t rptr, wptr, driver_wptr;
	size_t n;
	const uint32_t *words; // the whole ring
};

struct ring_fence {
	struct str ring;
	uint32_t signaled, emitted;
};

/** Which copy of a register. -1: the one that is selected, or all. */
struct bank {
	int xcc; // -1: the first
	int se, sh, instance;
	int me, pipe, queue, vmid; // me -1: not banked so
};
#define BANK_NONE                                                                                                              \
	((struct bank){ .xcc = -1, .se = -1, .sh = -1, .instance = -1, .me = -1, .pipe = -1, .queue = -1, .vmid = -1 })

/** Which part of a GPU translates an address. HUB_VRAM: none, it is an offset in VRAM. */
enum hub { HUB_GFX, HUB_MM, HUB_VRAM };

enum request_kind {
	REQUEST_AGENTS,
	REQUEST_QUEUES,
	REQUEST_WAVES,
	REQUEST_CODE,
	REQUEST_MAP,
	REQUEST_MEMORY,
	REQUEST_WAVE_REGISTERS, // of a wave on the GPU
	REQUEST_REGISTER,
	REQUEST_RINGS,
	REQUEST_FENCES, // on a live GPU, reading them makes the driver complete fences
};

/** What is asked of a target, and what it answers. @kind tells which of the structs in the first union is filled, and which list of the
 * second is answered: nothing of another kind is looked at. */
struct request {
	enum request_kind kind;
	enum answer answer;
	union {
		// The first is zero where nothing is filled: it and REQUEST_RINGS may be asked without saying more.
		struct {                               // REQUEST_WAVES, of a live GPU
			uint64_t xccs;                 // a bit for each that is wanted; 0: all
			unsigned units;                // only so many CUs or WGPs of each SH; 0: all
			const struct wave_slot *slots; // only these; NULL: every one. The waves have no registers then
			size_t nslots;
			const struct wave_unit *found; // the answer: the units whose first slot was read
			size_t nfound;
			uint64_t xccs_seen; // the answer: a bit for each XCC that is idle, or of which a slot was read
		};
		struct {                 // REQUEST_RINGS, of a live GPU
			bool positions;  // without what is in them
			bool light;      // only those whose positions are in memory: nothing else of the GPU is touched
			struct str ring; // only this one; empty: all
		};
		struct {               // REQUEST_REGISTER
			struct str ip; // gc, sdma0; with the instance
			unsigned ip_instance;
			const struct reg *reg;
			struct bank bank;
			uint32_t value; // the answer
		};
		struct { // REQUEST_WAVE_REGISTERS
			const struct wave_block *block;
			unsigned lanes;
		};
		struct { // REQUEST_MEMORY
			uint64_t address;
			unsigned vmid; // of a live GPU: whose address it is; 0: the driver's own
			enum hub hub;
			unsigned hub_instance; // an XCC of HUB_GFX
			const char *why_not;   // as a phrase, where a live GPU's memory could not be read; else NULL
			bool contents;         // what a program works on, which a bundle may have to leave out
			// Of a live GPU: page tables of their own instead of those that a VMID has now; NULL. And where the walk to
			// the first page goes; NULL: it is not wanted.
			const struct vm_tables *tables;
			struct vm_walk *walk;
		};
	};
	void *to; // of the two last: where @size bytes go
	size_t size;
	size_t n; // of the list; it lives as long as the target
	union {
		const struct agent *agents;
		const struct queue *queues;
		const struct wave *waves;
		const struct loaded_code *code; // by base
		const struct memory_range *map;
		const struct ring *rings;
		const struct ring_fence *fences;
	};
};

struct target {
	const char *kind;
	struct str name; // what it was opened from
	struct str process;
	int64_t pid;                   // 0: not known
	uint32_t kfd_major, kfd_minor; // version of the driver's interface
	int runtime_version;           // of the runtime's list of code objects; 0: it is not at hand
	bool runtime_enabled;          // the runtime had set the GPUs up for debuggers
	bool all_registers;            // those of all its waves will be asked for, in their order
	void (*ask)(struct target *t, struct request *requests, size_t n);
	/** What is odd about it or missing from it, one line each. */
	struct str (*problems)(struct target *t);
	void (*close)(struct target *t);
};

/** Whether a name fits one of the patterns that knowledge lists: of parts, of rings. */
bool patterns_fit(const struct know_list *patterns, struct str name);
/** One request. */
enum answer target_ask(struct target *t, struct request *r);
bool target_memory(struct target *t, uint64_t address, void *to, size_t size);
/** The same for what a program works on: arguments, buffers. */
bool target_contents(struct target *t, uint64_t address, void *to, size_t size);
void target_close(struct target *t);
static inline void cleanup_target(struct target **t) { target_close(*t); }
#define _cleanup_target_ _cleanup_(cleanup_target)

/** The registers of a block, 32 bits each: @count SGPRs, or @count registers of @lanes lanes each. false where they are not at hand. */
bool wave_registers(struct target *t, const struct wave_block *b, unsigned lanes, uint32_t *ret);
/** The dispatch packet of a wave. */
bool wave_dispatch(struct target *t, const struct wave *w, struct dispatch *ret);
/** The index of a wave's packet counts modulo the ring; the queue's read index tells the rest. */
uint64_t queue_whole_packet(const struct queue *q, uint64_t index);
/** The packet at an index of a queue; false where it is no kernel dispatch any more. */
bool queue_dispatch(struct target *t, const struct queue *q, uint64_t packet, struct dispatch *ret);

enum aql_type { AQL_VENDOR, AQL_INVALID, AQL_DISPATCH, AQL_BARRIER_AND, AQL_AGENT, AQL_BARRIER_OR };
/** A packet of a user queue, and the signals that a barrier waits for as they are now. */
struct aql_packet {
	uint64_t index;
	enum aql_type type;             // or another number
	uint32_t words[AQL_PACKET / 4]; // for packet_decode()
	size_t nsignals;                // all of them, or any one
	struct aql_signal {
		uint64_t address;
		bool known;
		int64_t value; // 0: it has come
	} signals[5];
};
bool queue_packet(struct target *t, const struct queue *q, uint64_t index, struct aql_packet *ret);

/** A GPU of this machine. It reads registers through the render node; more only where looking is safe (silicon.h). */
struct device;
struct file;
struct target *target_device(const struct know *k, const struct device *d);
/** The memory that a VMID of such a GPU sees, and nothing else. Close it before the GPU's target. */
struct target *target_vmid(struct target *gpu, enum hub hub, unsigned instance, unsigned vmid);
/** A devcoredump: its registers and rings. The file is read here and now; the caller still closes it. */
struct uh_error *target_devcoredump(const struct know *k, const struct file *f, struct target **ret);
/** What it says about its GPU: the part and its IP blocks, without their addresses. It lives as long as the target. */
const struct device *devcoredump_device(const struct target *t);

/** Cores of one process: a GPU's, the process's own, or one that holds both. The target closes @files. */
struct uh_error *target_core(const struct know *k, const struct file *files, size_t n, struct target **ret);
/** The same for cores that were parsed already. @c belongs to the target from now on, even if there is an error. */
struct core;
struct uh_error *target_parsed_core(const struct know *k, struct core *c, struct target **ret);
