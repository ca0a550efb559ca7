// A failing launch as a program of its own: what it is made of, the files that are its program, and what is told of it. All names in it are a
// stranger's: in C they are octal, and in what people read they are printable.
#pragma once

#include <stdio.h>

#include "base/command.h"
#include "evidence/recording/recording.h"

enum repro_kind { REPRO_FAULT, REPRO_ERROR, REPRO_HANG };
const char *repro_kind_name(enum repro_kind k);

/** How a launch failed, so that two failures can be held against each other: addresses differ from run to run. */
struct repro_failure {
	enum repro_kind kind;
	struct str kernel;           // its symbol; empty: nobody knows which of several it was
	uint64_t status;             // of an error: as the runtime has it
	uint64_t address;            // of a fault
	enum near_relation relation; // of the fault to a buffer
	int64_t argument;            // offset of the pointer to that buffer among the arguments; -1: it has none
	uint64_t distance;           // from the buffer's begin or end
	bool coarse;                 // only kind and kernel are known
	struct str said;             // of a fault: where it was, in words; else empty
	struct str code;             // the source lines that a core has a wave of it at, with what was inlined there; else empty
};

/** Eight bytes at @at that are the address of a place in a buffer. */
struct repro_pointer {
	uint64_t at;
	uint32_t buffer;
	int64_t offset;
};

struct repro_buffer {
	uint64_t address, recorded; // where it was, and its bytes then
	uint64_t bytes;             // in the program: fewer where it was shrunk
	bool host;                  // memory of the host
	bool freed;                 // before the launch that fails
	struct str was;             // what the recording calls it, where it was no plain buffer; empty
};

enum repro_fill { REPRO_ZEROS, REPRO_VALUES, REPRO_SAVED };
/** What a buffer held before a launch. */
struct repro_write {
	uint32_t buffer, launch;
	uint64_t offset, bytes;
	enum repro_fill fill;
	bool withheld;    // there are bytes, which nobody asked for
	bool dropped;     // zeros do as well
	struct str dtype; // of values: how they are stored, and between which they lie
	double least, most;
	size_t npointers;
	const struct repro_pointer *pointers; // from @offset on
	unsigned file;                        // its number among the program's files
	/** Hands over its bytes from @at on. */
	bool (*read)(const struct repro_write *w, uint64_t at, void *to, size_t size);
	const void *from;
	uint64_t from_at;
};

enum repro_role { REPRO_EARLIER, REPRO_BESIDE, REPRO_FAILS };
struct repro_launch {
	enum repro_role role;
	uint32_t object, queue, stream; // streams are counted from 0, without gaps
	uint64_t packet;
	struct str symbol, plain;
	uint32_t grid[3], group[3];
	uint32_t lds; // that the launch asks for, beside the kernel's own
	struct str arguments;
	struct str told; // the arguments in words, as they were in the job; empty
	size_t npointers;
	const struct repro_pointer *pointers;
	bool dropped; // it fails without this one
};

enum repro_act { REPRO_ALLOCATE, REPRO_RELEASE, REPRO_WRITE, REPRO_LAUNCH };
struct repro_step {
	uint64_t time;
	enum repro_act act;
	uint32_t index;
};

struct repro_object {
	struct str bytes, gfx;
	uint64_t base; // where it was loaded
	unsigned abi;  // of its header
};

/** How often it was run, and what came of that. */
struct repro_tried {
	bool asked;
	unsigned runs;
	bool alike;         // it failed as the job did
	struct str why_not; // it could not be built or run; empty
	struct str other;   // how it failed instead; empty
	unsigned launches_before, launches_after;
	uint64_t bytes_before, bytes_after;
};

struct repro_plan {
	struct arena *arena;
	struct repro_failure failure;
	struct str source, program, directory; // source: what it was made from
	bool redacted, user_data;
	uint32_t unrecorded; // pointers of the failing launch whose buffers nobody recorded, so that they cannot be made
	VEC(struct repro_object) objects;
	VEC(struct repro_buffer) buffers;
	VEC(struct repro_write) writes;
	VEC(struct repro_launch) launches;
	VEC(struct repro_step) steps; // in their order
	VEC(struct str) left_out;     // sentences
	struct str earlier;           // of these the one about earlier launches, which no longer holds where it fails without them; empty
	struct repro_tried tried;
	const struct command *next; // how to build and run it
};

/** A step as it is done: what nothing needs any more is left out. Returns whether @ret was filled; @at begins with 0. */
struct repro_walk {
	size_t at;
	bool *used, *written;
};
struct repro_walk repro_walk_begin(const struct repro_plan *p, struct arena *a);
bool repro_walk_next(const struct repro_plan *p, struct repro_walk *w, struct repro_step *ret);
size_t repro_launches_left(const struct repro_plan *p);
/** Of the buffers that are left. */
uint64_t repro_bytes_left(const struct repro_plan *p);
/** Whether a launch that is left needs it. */
bool repro_object_used(const struct repro_plan *p, size_t object);
const struct repro_launch *repro_failing(const struct repro_plan *p);

/** What the program is worth, where buffers are missing that the job had; else empty. */
struct str repro_worth(const struct repro_plan *p, struct arena *a);

/** Printable ASCII, without what Markdown or a terminal might take for something else. */
struct str repro_plain(struct arena *a, struct str s);

#define REPRO_PROGRAM "repro.cpp"
void repro_write_program(const struct repro_plan *p, FILE *out);
void repro_write_makefile(FILE *out);
void repro_write_readme(const struct repro_plan *p, FILE *out);
/** The same as JSON, which is evidence for unhang explain. */
void repro_write_answer(const struct repro_plan *p, FILE *out);
/** What unhang repro says. */
void report_repro(const struct repro_plan *p, bool json, FILE *out);
