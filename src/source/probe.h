// Reads files of the driver and the kernel. Some of them block, and some must not be touched. A batch of operations runs in one child with
// a deadline. A child that is stuck is left behind, and the answer says where it is stuck. Only what the list in probe_list.c names is
// opened, only for reading; nothing is ever written.
#pragma once

#include "base/arena.h"

enum probe_kind {
	PROBE_FILE,    // the whole of a small file, up to @size bytes
	PROBE_LIST,    // the names in a directory, one per line
	PROBE_LINK,    // where a link points
	PROBE_READ,    // @size bytes at @offset
	PROBE_FIND,    // @size bytes of a large text, from the first line with @find on
	PROBE_SECTION, // the section @find of an ELF file, which may be compressed
	PROBE_IOCTL, // @request with @argument (@argument_size bytes, which come back in @data); only on files that take ioctls
	PROBE_BANKED, // PROBE_IOCTL, then PROBE_READ on the same open file
	PROBE_QUERY, // a render node's AMDGPU_INFO: @argument is a struct amdgpu_query, @data what it answers, up to @size bytes
};
enum probe_end {
	PROBE_NOT_MADE, // the child did not get that far
	PROBE_GOOD,
	PROBE_FAILED,    // errno in @error
	PROBE_FORBIDDEN, // not on the list
	PROBE_STUCK,     // the child was at this one when the deadline passed
};

/** What AMDGPU_INFO takes: the driver's struct drm_amdgpu_info. The child fills in where the answer goes. */
struct amdgpu_query {
	uint64_t pointer;
	uint32_t size;
	uint32_t query;
	uint32_t words[4];
};
#define DRM_VERSION_IOCTL 0xC0406400u
#define AMDGPU_INFO_IOCTL 0x40206445u

struct probe {
	enum probe_kind kind;
	uint32_t microseconds; // answered: that it took, with opening the file; 0 where it was not made, or is played
	const char *path;
	uint64_t offset;
	unsigned long request;
	const void *argument;
	size_t argument_size;
	size_t size;   // most bytes; 0: a page
	bool from_end; // PROBE_FILE: if the file is larger, its last bytes instead of its first
	bool dead;     // it is known not to answer, and is not asked (tape/tape.h)
	bool buried;   // a child of unhang waits for it already, and it is not asked (tape/stuck_reads.h)
	bool contents; // of users' memory: a tape keeps it only where it may
	bool unless_fails;
	struct str find; // what PROBE_FIND and PROBE_SECTION look for
	/** If the answer has these bytes at @unless_at, or there is none and @unless_fails, or the batch began more than @within milliseconds
	 * before (0: it may have), the next @skips operations are skipped. */
	struct str unless;
	size_t unless_at, skips;
	unsigned within;
	// answers, in the arena that probe_run() was given
	enum probe_end end;
	int error;
	const char *data;
	size_t n;
};

/** Where a child was stuck. */
struct probe_stuck {
	bool is;
	bool late;            // it made progress, but time ran out: the rest is PROBE_NOT_MADE
	bool held;            // another process of unhang asks that GPU, and does not come back: nobody asked
	bool uninterruptible; // in D state
	int pid;              // of the child, which may still come back; 0: not known
	int64_t since;        // ms of now_ms() at which it began to wait; 0: not known
	struct str at;        // the path
	struct str stack;     // of the kernel, a function per line, innermost first; empty where it may not be read
	struct str wchan;     // the function that it sleeps in; empty where it is not known
};

/** Whether the child that was left there has ended by now: what it read was late, and no more than that. */
bool probe_came_back(const struct probe_stuck *s);

struct tape;

/** What all batches of a look share: how many milliseconds may still be lost to files that answer late or not at all (when they are used
 * up, nothing more is read), and the tape that the answers are recorded on or come from. */
struct probe_patience {
	int64_t left;
	struct tape *tape; // NULL: this machine, without a record
};

/** Which machine is asked. */
struct machine_at {
	const char *root;  // a tree that stands for it; NULL
	struct tape *tape; // NULL
};

struct probe_count {
	size_t children,
		operations; // children: how often one was asked; operations: system calls on files other than open and close
	struct probe_patience *patience; // NULL: without end
};

struct probe_batch {
	struct probe *probes;
	size_t n;
	const char *
		root; // a directory that stands for `/`: links in it lead nowhere else, and only files and directories are opened; NULL
	struct probe_stuck stuck;
	bool goes_on; // after a file that does not answer, another child reads the rest; for a tree always
};

/** Runs each batch in a child of its own, all at the same time. The children stay and read the next batches too (probe_child.h). A file that consecutive operations name is opened once. One operation
 * may take @milliseconds. A batch that makes progress may take twenty times that, plus a millisecond for each operation. A tree lies on
 * somebody's disk, which may be slow: there each file may take ten seconds, and there is no limit as long as there is progress. */
void probe_run_all(struct arena *a, struct probe_batch *batches, size_t n, int milliseconds, struct probe_count *count);
/** The same, always of this machine and with the rights of this process (see privileged/privileged.h). */
void probe_run_machine(struct arena *a, struct probe_batch *batches, size_t n, int milliseconds, struct probe_count *count);
/** Ends the children that read: none of them is there when nothing is looked at, or has rights that its parent has put down. The next batch
 * begins one again. */
void probe_readers_end(void);
/** Runs the batch in one child. @ret_stuck may be NULL. */
void probe_run(struct arena *a, struct probe *probes, size_t n, int milliseconds, struct probe_stuck *ret_stuck,
	       struct probe_count *count);
/** The tape of a look; NULL. */
static inline struct tape *probe_tape(const struct probe_count *c) { return c->patience ? c->patience->tape : NULL; }
/** Whether the list has it. */
bool probe_allowed(const struct probe *p);

/** Whether the answer is unknown: the file answered too late, its turn never came, or something other than the file failed. (A file that
 * does not exist or may not be read has a known answer.) */
bool probe_unread(const struct probe *p);
/** Fills in what was answered. */
static inline void probe_answered(struct probe *p, enum probe_end end, int error, struct str data)
{
	p->end = end;
	p->error = error;
	p->data = data.p;
	p->n = data.n;
}
/** The file as text, without the newline at its end. Empty: it does not exist, or probe_unread(). */
struct str probe_text(const struct probe *p);
