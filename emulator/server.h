// The emulated machine as files: a tree of nodes that FUSE serves, each with a kind that says how it answers.
#pragma once

#include <stdio.h>
#include <sys/types.h>

#include "emulator/model.h"

/** What an answer returns instead of an errno when its request has to wait; it is asked again later. */
enum { ANSWER_LATER = -1 };

/** Of the GTT, which nobody changes. */
enum { GTT_USED = 64 << 20 };

struct server;
struct open_file;
struct node;

struct kind {
	/** Text, made anew when it is read from its beginning; 0 or an errno. */
	int (*fill)(struct server *s, const struct node *n, struct text *ret);
	/** Other answers: at most @size bytes into @ret; 0, an errno or ANSWER_LATER. */
	int (*read)(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret);
	/** A write is recorded in any case. NULL: EINVAL. */
	int (*write)(struct server *s, struct open_file *f, uint64_t at, const char *data, size_t size);
	int (*ioctl)(struct server *s, struct open_file *f, unsigned request, char *data, size_t size, pid_t caller);
	int (*open)(struct server *s, struct open_file *f, pid_t caller);
	void (*close)(struct open_file *f);
	uint64_t (*size)(struct server *s, const struct node *n);
	bool wakes;  // a sleeping GPU
	bool smu;    // asks the power management: not in reset, not off the bus
	bool acts;   // reading it does something to the GPU
	bool locked; // takes ioctls: refused under lockdown
	bool wakes_on_open;
	bool interruptible; // who waits for it can be killed
};

struct node {
	const char *name;
	struct node *parent;
	VEC(struct node *) children; // of a directory
	uint64_t number;
	mode_t mode;
	bool freed; // a devcoredump that somebody wrote to
	const char *link;
	const struct kind *kind;
	struct seat *seat; // the GPU that it is of; NULL
	struct str path;   // as a scenario names it; empty: it cannot
	struct str text;   // of a file whose text does not change
	size_t index;      // whatever its kind counts
	bool debugfs;
};

/** What a GPU's driver knows besides the model. */
struct seat {
	const struct emu_gpu *gpu;
	const struct emu_facts *facts;
	double awake_until;  // woken up by an access
	double on_until;     // until then a query of registers keeps GFXOFF away
	uint32_t *completed; // of each fence: what was signaled when they were looked at
	unsigned gc_major;
	const struct ip *gc;
	const struct register_table *gc_registers;
	struct reg sq_index_register, sq_data_register, sq_command_register; // without a name: not known
	uint32_t *sq_index;                                                  // of each XCC: what was written there last
	double *halted_at;     // of each XCC: when its waves were; negative: they run
	VEC(uint32_t) allowed; // addresses that the render node's query may read
	struct node *debugfs, *sysfs;
};

struct open_file {
	struct node *node;
	struct text text;
	int flags;
	union {
		struct regs2_state regs2;
		struct gprwave_state gprwave;
		struct {
			size_t next;
			uint64_t at;
			void *poll;
		} log;
		struct {
			struct server *server;
			struct emu_process *process; // the guest that has it open; NULL: none has told anything
		} kfd;
	};
};

/** A request that is not answered yet. */
struct waiting {
	void *request; // fuse_req_t
	bool ioctl;
	struct open_file *file;
	uint64_t at;
	size_t size, out; // out: of an ioctl, what goes back
	unsigned number;
	char *data;
	pid_t caller;
	bool interrupted;
	double due; // when it may be answered; < 0: it is asked again and again
};

struct server {
	struct know *know;
	struct emu_machine *machine;
	struct arena arena;
	VEC(struct node *) nodes; // by number - 1
	VEC(struct waiting) waiting;
	VEC(struct open_file *) files; // that are open
	struct seat *seats;
	size_t nseats;
	const double *begin; // of time, as the monotonic clock has it; 0: not yet
	FILE *record;
	size_t writes, acts;
	struct node *kfd_processes; // their directory in sysfs
	void *session;
	void *received; // where libfuse puts a request
};

double server_time(const struct server *s);
/** As emu_state(), but a GPU that was woken up is awake for a while. */
enum emu_state seat_state(const struct server *s, const struct seat *seat);
/** The file is touched in a way that wakes the GPU up. */
void seat_wake(struct server *s, const struct node *n, pid_t caller);
/** In MHz: it is at its highest while something is done. */
uint64_t seat_memory_clock(struct server *s, const struct seat *seat);

// The tree (tree.c).
struct node *tree_directory(struct server *s, struct node *parent, const char *path, mode_t mode);
struct node *tree_file(struct server *s, struct node *parent, const char *path, mode_t mode, const struct kind *kind);
/** One that a scenario may name. */
struct node *tree_named(struct server *s, struct node *parent, const char *path, mode_t mode, const struct kind *kind);
struct node *tree_text(struct server *s, struct node *parent, const char *path, struct str text);
/** Takes a node out of its directory. */
void tree_remove(struct node *directory, struct str name);
void tree_link(struct server *s, struct node *parent, const char *path, const char *target);
struct node *tree_find(const struct node *directory, struct str name);
/** From the root of the emulated tree. */
void tree_path(const struct node *n, struct text *ret);
/** Directories of the whole machine: /sys, /dev, /proc. */
void tree_build(struct server *s);
void tree_free(struct server *s);

// Its parts.
void build_sysfs(struct server *s, struct node *sys);
void build_gpu_sysfs(struct server *s, struct node *sys, struct seat *seat);
void build_sensors(struct server *s, struct node *d, const struct emu_facts *f, size_t seat);
void build_kfd(struct server *s, struct node *sys);
void build_topology(struct server *s, struct node *kfd);
void build_kfd_queue(struct server *s, struct node *queues, const struct emu_queue *q);
void build_debugfs(struct server *s, struct node *debug);
void build_register_files(struct server *s, struct node *directory);
void build_debugfs_texts(struct server *s, struct node *directory);
void build_kfd_debugfs(struct server *s, struct node *directory);
void build_nodes(struct server *s, struct node *dev);
void build_clients(struct server *s, struct node *proc);
extern const struct kind log_kind, kfd_kind;
/** Tells who polls for kernel messages that some have come; whether somebody goes on waiting. */
bool log_tell(struct server *s);

/** Finds where the registers are that the driver itself uses. */
void seat_prepare(struct server *s, struct seat *seat);
/** What amdgpu calls it by, too, in KFD; 0: it has none. */
uint64_t seat_unique_id(const struct emu_facts *f);
/** A register through debugfs. */
uint32_t seat_register(struct server *s, struct seat *seat, const struct bank *b, uint32_t address);
/** A register of this name of one of the GPU's blocks. */
bool seat_find_register(const struct seat *seat, struct str ip, struct str name, struct reg *ret, uint32_t *ret_address);
/** The shader sequencers' registers of an XCC (sq.c); false: this address is none of them. */
bool seat_sq_read(struct server *s, struct seat *seat, const struct bank *b, uint32_t address, uint32_t *ret);
void seat_sq_write(struct server *s, struct seat *seat, uint32_t address, uint32_t value);
void seat_sq_prepare(struct server *s, struct seat *seat);
/** A slot as the driver reads it, and registers of its wave: halted waves stay as they were. 0: there is no such slot. */
size_t seat_wave(struct server *s, const struct seat *seat, const struct wave_slot *slot,
		 uint32_t words[static WAVE_WORDS_MOST]);
uint32_t seat_gpr(struct server *s, const struct seat *seat, const struct wave_slot *slot, bool vector, unsigned lane,
		  unsigned number);
struct wave_slot seat_slot(const struct seat *seat, unsigned xcc, unsigned se, unsigned sh, unsigned cu, unsigned simd,
			   unsigned wave);

// What is recorded (record.c).
void record_open(struct server *s, const struct node *n, int flags, pid_t caller, int error);
void record_read(struct server *s, const struct open_file *f, uint64_t at, size_t size, pid_t caller, ssize_t result);
void record_write(struct server *s, const struct open_file *f, uint64_t at, const char *data, size_t size, pid_t caller);
void record_ioctl(struct server *s, const struct node *n, unsigned request, const char *data, size_t size, pid_t caller,
		  int error);
/** @what: wake, act, complete, warning */
void record_event(struct server *s, const struct node *n, const char *what, pid_t caller);

// The loop (serve.c).
struct uh_error *serve_begin(struct server *s, int fuse_fd);
/** Answers what has come; @timeout_ms as for poll(). false: the connection has ended. */
bool serve_some(struct server *s, int timeout_ms, int other_fd, bool *ret_other);
void serve_end(struct server *s);
