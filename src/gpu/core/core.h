// ELF cores as memory: what a process, its GPU, or both had at an address when they died. Only what is asked for is read.
#pragma once

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
