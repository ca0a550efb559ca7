// ELF cores as memory: what a process, its GPU, or both had at an address when they died. Only what is asked for is read.
#pragma once

#include "gpu/layout.h"
#include "gpu/target.h"
#include "source/file.h"

enum { CORE_FILES = 8 };

struct core_segment {
	uint64_t address, size; // size: of the address range
	uint64_t kept;          // how many bytes of it are in the file
	uint64_t offset;        // in the file
	unsigned file;
};

struct core_file {
	struct file file;
	bool of_gpu;         // e_machine says that it is a GPU's core, not a process's
	uint64_t notes_end;  // where the file's first note segment ends
	uint64_t note_bytes; // of all its note segments
	uint64_t loads_at;   // offset of the first segment
	uint64_t end;        // where its last segment ends
	unsigned shift;      // how many bytes the segments lie before the offsets that the headers name
	int64_t pid;         // 0: not known
	struct str program;  // the name of the process; empty where it is not known
	size_t segments;
};

/** A mapped file of the process. */
struct core_mapping {
	uint64_t begin, end, offset;
	struct str path;
};

struct core {
	struct arena arena;
	size_t nfiles;
	struct core_file files[CORE_FILES];
	VEC(struct core_segment) segments; // by address, once core_ready() was called
	VEC(struct core_mapping) mappings; // likewise
	struct str gpu_note;               // descriptor of the AMDGPU note, in the arena
	uint64_t gpu_note_at;              // where it lies in its file
	struct text problems;              // one line for each
};

/** Adds a file; its descriptor stays the caller's. */
struct uh_error *core_add(struct core *c, const struct file *f);
/** Moves everything from @from into @to, for which core_ready() was not called yet. false: there is no room. */
bool core_join(struct core *to, struct core *from);
/** To be called when all files were added, before anything is read. */
void core_ready(struct core *c);
void core_free(struct core *c);
/** As core_free(), and closes the files. */
void core_close(struct core *c);
/** Whether a file that begins so is an ELF core. */
bool core_begins(struct str head);
/** All @size bytes at @address, or false. */
bool core_read(const struct core *c, uint64_t address, void *to, size_t size);
/** The segment that @address lies in, or NULL. Of several, one with bytes; of those, the GPU's. */
const struct core_segment *core_segment_at(const struct core *c, uint64_t address);
/** The file that was mapped at @address, or NULL. */
const struct core_mapping *core_mapping_at(const struct core *c, uint64_t address);
/** Notes what is odd about the core, as a line for people. The same line is noted only once. */
void core_problem(struct core *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

// --- The note about GPUs and queues in a core ---

struct core_note {
	uint64_t version;
	uint32_t kfd_major, kfd_minor;
	uint64_t r_debug; // address of the list of loaded code objects
	uint32_t runtime_state, ttmps_set_up;
	size_t nagents, nqueues;
	struct agent *agents;
	struct queue *queues;
};

/** @at: where @desc lies in its file, for errors. */
struct uh_error *core_note_parse(struct arena *a, struct str desc, uint64_t at, struct core_note *ret);

// --- The area where a queue's waves are saved when it is taken off the GPU (CWSR) ---

/** What a save area is read with. */
struct save_area {
	const struct queue *queue;
	const struct wave_layout *layout;
	int runtime_version; // of r_debug; 0: not known
	bool ttmps_set_up;   // so that workgroup and packet are known
	bool (*read)(void *ctx, uint64_t address, void *to, size_t size);
	void (*wave)(void *ctx, const struct wave *w);
	/** What is odd, while the rest is still read. */
	void (*odd)(void *ctx, const char *message);
	void *ctx;
};

/** Reads the saved waves of one XCC, in their order. An error names structure and address; the waves before it were handed over. */
struct uh_error *save_area_read(const struct save_area *s, unsigned xcc);
/** The part of one XCC's area that is used: control stack and waves. false: its header cannot be read, or is wrong. */
bool save_area_used(const struct save_area *s, unsigned xcc, uint64_t *ret_at, uint64_t *ret_size);
/** Whether the header there is consistent. Cores with shifted segments are recognised by this. */
bool save_area_plausible(const struct save_area *s, unsigned xcc);
