// A recording as it is read: what libunhang-recorder.so wrote into recorder/format.h's file, taken apart. Its bytes are a stranger's: each
// record is held against its checksum, and what is torn is counted and left out. Nothing here judges.
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "code/object/object.h"
#include "recorder/format.h"

enum { RECORDING_MOST = 1 << 30 };

/** How far a packet is, as far as the recording tells. */
enum packet_progress {
	PROGRESS_ENDED,   // a completion signal says so, or the program saw it
	PROGRESS_TAKEN,   // the GPU went on to a later packet: it has probably ended
	PROGRESS_UNKNOWN, // launched; nobody knows whether it ran
	PROGRESS_RUNNING, // the first that has not ended, and known to run
	PROGRESS_WAITING, // behind it
};
const char *progress_name(enum packet_progress p);

enum packet_kind { PACKET_DISPATCH, PACKET_BARRIER, PACKET_OTHER };

struct recorded_packet {
	uint64_t id;
	struct rec_packet raw;
	enum packet_kind kind;
	enum packet_progress progress;
	bool barrier_bit;
	bool awaits_all; // a barrier that waits for all of its signals, not for one of them
	uint32_t group[3], dimensions;
	const struct recorded_kernel *kernel;       // NULL: its name is not known
	const struct recorded_operation *operation; // NULL: none, or it is overwritten
	const struct rec_arguments *arguments;      // NULL: there are none. The bytes are behind it
	const uint8_t *argument_bytes;
};

struct recorded_queue {
	uint32_t id;
	struct rec_queue head;
	const struct recorded_agent *agent; // NULL: not known
	size_t n;                           // packets that are there, oldest first
	struct recorded_packet *packets;
	uint64_t read, write; // indices, as sampled
	bool stands;          // its first packet that has not ended was seen so for a while, or its GPU reported a fault
	uint64_t torn;
};

struct recorded_kernel {
	uint64_t object, executable;
	uint64_t loaded, unloaded; // ticks; UINT64_MAX: it was not
	uint32_t argument_bytes;
	struct str name;                 // as the code object has it, without .kd
	const struct code_kernel *takes; // its arguments; NULL: not known
	struct kernel_words *words;      // for kernel_words(); several may share them
};

/** A kernel's name as people write it, which may take a child process to find out: it is found once, when it is first asked for. */
struct kernel_words {
	struct arena *arena;
	bool known;
	struct str plain; // saxpy(float const*, float*, float, int)
	size_t nparameters;
	struct str *parameters; // their types, as far as the name has them
};
const struct kernel_words *kernel_words(const struct recorded_kernel *k);

/** What the metadata of a code object say of a kernel. */
struct recorded_type {
	uint64_t executable;
	const struct code_kernel *kernel;
};

struct recorded_code {
	uint64_t base, size, delta, executable, loaded, unloaded;
	struct str uri;
};

struct recorded_agent {
	uint64_t handle;
	bool gpu;
	uint32_t node;
	struct str name, product, pci; // pci: empty where it is none
};

struct recorded_pool {
	uint64_t handle, agent, bytes;
	uint32_t flags, segment;
};

struct recorded_thread {
	uint32_t slot;
	struct rec_thread raw;
	struct str name;
	struct str kernel; // the kernel's function that it waits in; empty: nobody asked, or nobody may know
};

struct recorded_event {
	uint64_t id;
	struct rec_event raw;
};

struct recorded_allocation {
	uint64_t begin, size;
	uint64_t born, died; // ticks; died 0: it lives
	enum rec_call call;  // that made it
	uint16_t by, freed_by;
	uint32_t operation;
	uint32_t gpus;                    // that were given access (rec_allocation.gpus)
	const struct recorded_pool *pool; // NULL: not of one
};

/** A signal that the program saw to have fired: what was launched with it until @time has ended. */
struct seen_signal {
	uint64_t signal, time;
};

struct recorded_operation {
	struct rec_operation raw;
	struct str name;
};

struct flight_recording {
	struct arena arena;
	char *bytes; // of the file; owned
	size_t size;
	struct rec_header header;
	struct str host, program, command, boot_id, note, core;
	bool cut;     // pieces of it are missing, lie behind the end of the file, or are not what the recorder makes
	bool alive;   // its process runs
	uint64_t now; // ticks: of the last sample, or of this moment where it is alive
	double rate;  // ticks of a second
	uint64_t torn;
	size_t nqueues, nkernels, ncode, nagents, npools, nthreads, nevents, nallocations, noperations;
	struct recorded_queue *queues;
	VEC(struct seen_signal) seen;    // by signal, then by time
	struct recorded_kernel *kernels; // by object, then by time
	struct recorded_code *code;
	VEC(struct recorded_type) types; // while it is read
	struct recorded_agent *agents;
	struct recorded_pool *pools;
	struct recorded_thread *threads;
	struct recorded_event *events;           // oldest first
	struct recorded_allocation *allocations; // by address, then by birth
	uint64_t *farthest;                      // end of it and of those before it
	struct recorded_operation *operations;   // by number
	size_t nstatistics;
	struct rec_statistics *statistics; // by time
	size_t nnames;
	struct str *names; // texts by their number, from 1
	uint64_t applied;  // events below it are in the table of allocations
	uint64_t lost_allocations;
	struct str allocator;       // a framework that hands out parts of its buffers; empty: none is known
	uint64_t allocator_segment; // they are multiples of so many bytes
};

bool recording_begins(struct str head);
/** Whether it would be one if its first bytes were not damaged. */
bool recording_damaged(struct str head);
/** Takes @bytes apart, which are the recording's from now on, also where there is an error. */
struct uh_error *recording_parse(const char *name, char *bytes, size_t size, struct flight_recording **ret);
void recording_free(struct flight_recording *r);
/** Why not everything is in it, as half a sentence; NULL: it is whole. What is not in it may have been launched all the same. */
const char *recording_gap(const struct flight_recording *r);

/** Seconds from @ticks to the recording's end, or to now. */
double recording_age(const struct flight_recording *r, uint64_t ticks);
/** Seconds since 1970. */
double recording_time(const struct flight_recording *r, uint64_t ticks);
/** This moment in ticks, for a process that runs on this machine; 0: it cannot be told. */
uint64_t recording_now(const struct flight_recording *r);
/** A program that has stopped launching: the GPU waits for it. */
struct idle_gpu {
	bool idle; // nothing is in flight, and nothing was launched for some seconds before the end, which was not told;
		   // of a recording with a gap nobody knows
	uint64_t launched; // packets; 0: none at all
	double age;        // seconds since the last, or since the start
};
struct idle_gpu recording_idle(const struct flight_recording *r);
/** How far each packet is. Once more where the process turns out to live. */
void recording_progress(struct flight_recording *r);
/** Kernels that were launched and of which nobody knows that they ended. */
uint64_t recording_open_ended(const struct flight_recording *r);
/** The packet that is known to run; NULL: none is. */
const struct recorded_packet *queue_running(const struct recorded_queue *q);
/** The kernel that was running when the GPU reported @fault, if there is but one that it can be, and its queue. */
const struct recorded_packet *recording_faulted(const struct flight_recording *r, const struct rec_event *fault,
						const struct recorded_queue **ret_queue);
/** A kernel that failed, or does not end. */
struct accused {
	const struct rec_event *fault;        // NULL: none was seen, it only stands
	const struct recorded_packet *packet; // NULL: nobody knows which
	const struct recorded_queue *queue;
	uint64_t since; // ticks: of the fault, or since when it stands
};
/** A fault outweighs what only stands. Without one a kernel is accused where it is known to run because its queue stands; of several the one
 * that has stood longest, from its launch or from when its turn came: packets may be written long before that. false: none is. */
bool recording_accuse(const struct flight_recording *r, struct accused *ret);
const struct recorded_kernel *recording_kernel(const struct flight_recording *r, uint64_t object, uint64_t time);
const struct recorded_operation *recording_operation(const struct flight_recording *r, uint32_t id);
const struct recorded_agent *recording_agent(const struct flight_recording *r, uint64_t handle);
/** The thread of a slot; NULL: not known. */
const struct recorded_thread *recording_thread(const struct flight_recording *r, uint16_t slot);
/** The name of a call as the runtime has it: hsa_amd_memory_pool_allocate. */
const char *call_name(uint32_t call);
/** What was allocated by it, as a noun: buffer, reserved addresses, locked memory. */
const char *call_noun(enum rec_call call);

/** The noun of one: `segment of PyTorch's allocator`. */
const char *allocation_noun(struct arena *a, const struct flight_recording *r, const struct recorded_allocation *m);

/** Where an address lies among the tensors of operations: in one, or less than a page past the end of one; the newest operation counts:
 * `64 bytes past the end of tensor 2 (float16 3x4) of attention > aten::mm`; empty where it is near none. */
struct str tensor_say(struct arena *a, const struct flight_recording *r, uint64_t address);

/** Where an address lies among the allocations. */
enum near_relation { NEAR_INSIDE, NEAR_FREED, NEAR_PAST, NEAR_BEFORE, NEAR_NOWHERE };
struct nearby {
	enum near_relation relation;
	const struct recorded_allocation *allocation; // NULL where it is near none
	uint64_t distance;                            // from the begin, from the end, or to the begin
	bool only_reserved;                           // the addresses are reserved, and no memory is mapped there
	bool not_for_gpu;                             // the memory is there, and the GPU was not given access
};
/** @agent: the GPU that used the address; 0: not known. */
struct nearby recording_near(const struct flight_recording *r, uint64_t address, uint64_t time, uint64_t agent);
const char *near_name(enum near_relation relation);

// Words, for reports and for events.
/** 2.1 s, 3 min, 640 us */
struct str seconds_say(struct arena *a, double seconds);
/** `64 bytes past the end of the 4 KiB buffer at 0x7f0000000000, allocated 2.1 s before`; empty where it is near none. */
struct str near_say(struct arena *a, const struct flight_recording *r, const struct nearby *n, uint64_t time, const char *what);
/** The kernel of a packet without its mangling; its object where the name is not known. */
struct str packet_say(struct arena *a, const struct recorded_packet *p);
/** `hsa_amd_memory_pool_allocate(3584 bytes)` */
struct str call_say(struct arena *a, uint32_t call, const uint64_t args[4]);
/** The arguments of a packet: pointers with the buffers that they are in, numbers as they are. Empty where there are none. */
struct str packet_arguments_say(struct arena *a, const struct flight_recording *r, const struct recorded_packet *p);
/** An argument that the program gave to a kernel, not one that the compiler added. */
struct packet_argument {
	const struct code_argument *what;
	struct str type;      // as the kernel's name has it; empty: not known
	const uint8_t *bytes; // NULL: not recorded
};
/** The arguments of a packet; 0: what its kernel takes is not known, or they were not recorded. */
size_t packet_takes(struct arena *a, const struct recorded_packet *p, struct packet_argument **ret);
bool argument_is_pointer(const struct packet_argument *x);
/** A number as its type has it: -7, 2.5, true. */
void argument_number_say(struct text *t, const struct packet_argument *x);
/** One argument: a pointer with its buffer, a number, the words of a structure. */
struct str argument_say(struct arena *a, const struct flight_recording *r, const struct recorded_packet *p,
			const struct packet_argument *x);
/** `attention > aten::mm`: the operation behind those that it is in. */
struct str operation_say(struct arena *a, const struct flight_recording *r, const struct recorded_operation *o);
/** `bfloat16 5x4, bfloat16 4x6`; empty where it has none. */
struct str tensors_say(struct arena *a, const struct recorded_operation *o);
const char *dtype_name(uint32_t dtype);
/** `page not present, write to a read-only page` */
struct str fault_reasons_say(struct arena *a, uint64_t reasons);
/** The name of a status that the runtime hands to a program with the error of a queue (hsa_status_t), or its number. */
struct str status_say(struct arena *a, uint64_t status);

// The parts of recording_parse(); parse.c puts them together.
struct recording_piece {
	struct rec_extent extent;
	const char *head;  // @extent.head bytes
	const char *slots; // all of them lie inside
};
void recording_names(struct flight_recording *r, const struct recording_piece *log);
void recording_calls(struct flight_recording *r, const struct recording_piece *p, size_t n);
void recording_memory(struct flight_recording *r, const struct recording_piece *memory);
void recording_queues(struct flight_recording *r, const struct recording_piece *p, size_t n);
void recording_seen(struct flight_recording *r, const struct recording_piece *p, size_t n);
/** Whether the record at @words, whose low half of the number is its first, is whole: then *ret_id is its number, at most @upto. */
bool record_whole(const char *words, unsigned nwords, uint64_t upto, uint64_t *ret_id);
/** Whether slot @i of a piece has a record that is whole and belongs there, and whose number is below @next. One that is torn is
 * counted in *@torn. */
bool record_at(const struct recording_piece *p, uint64_t i, unsigned nwords, uint64_t next, uint64_t *ret_id, uint64_t *torn);
