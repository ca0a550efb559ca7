// Makes a failing launch a program of its own: from a recording or a core, as a plan; from the plan, its files; and runs of it, to shrink it.
#pragma once

#include "base/error.h"
#include "code/places.h"
#include "evidence/recording/inputs.h"
#include "report/repro/repro.h"
#include "unhang/unhang.h"

enum { REPRO_POINTERS_MOST = 4096, REPRO_BUFFERS_MOST = 4096 };

/** A code object that was looked for. */
struct repro_code {
	uint64_t base;
	const struct code_object *object; // NULL: it is not there
	uint32_t number;                  // among the plan's
};

struct repro_making {
	struct repro_plan *plan;
	const struct uh_repro_options *options;
	const struct flight_recording *r;
	const struct code_places *places;
	const char *dumps; // directory of inputs; NULL: none
	size_t ninputs;
	struct inputs_saved *inputs;
	VEC(const struct recorded_allocation *) allocations; // of each buffer
	VEC(struct repro_code) code;
};

/** A sentence about what is not in the program. The same one is said once. */
void repro_leave_out(struct repro_plan *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Sorts the steps, once all are there. */
void repro_order(struct repro_plan *p);
void repro_plan_free(struct repro_plan *p);

/** Fills in the plan. An error where nothing failed, or what failed cannot be made a program. */
struct uh_error *repro_from_recording(struct repro_making *m);
/** How it failed, as far as the recording tells; false: nothing failed. */
bool repro_failure_of(const struct flight_recording *r, struct arena *a, struct repro_failure *ret);
/** Whether two failures are the same as far as a stranger would say: kind, kernel, which buffer it was, on which side of it,
 * and about how far beyond. */
bool repro_alike(const struct repro_failure *a, const struct repro_failure *b);

/** Whether the eight bytes at @at of a kernel's arguments may be an address: of a pointer, or within a structure. What the compiler does not say
 * may be. And whether they are one. */
bool repro_may_point(const struct code_kernel *k, uint32_t at);
bool repro_is_pointer(const struct code_kernel *k, uint32_t at);
/** The bytes that the program gives: HIP adds those that the compiler asks for. */
uint32_t repro_given_bytes(const struct code_kernel *k);
/** The code of a kernel; NULL: it is not there, which is noted. */
const struct repro_code *repro_code_of(struct repro_making *m, const struct recorded_kernel *k);
/** The buffer that an address of that time lies in or right behind; false: none is known. */
bool repro_buffer_of(struct repro_making *m, uint64_t address, uint64_t time, struct repro_pointer *ret);
/** What the buffers of a launch held before it. */
void repro_contents(struct repro_making *m, uint32_t launch, uint64_t time);

/** The same from a GPU's core, which stays open as long as the plan is used. */
struct target;
struct know;
struct uh_error *repro_from_core(struct repro_making *m, struct target *core);
/** Where in its source the failing kernel stood, if it is the core's, too. */
void repro_place_of_core(struct repro_making *m, const struct know *k, struct target *core);

/** Makes the directory, or takes one that is empty and that nobody else can change. An error where it is another's. */
struct uh_error *repro_directory(const char *path, int *ret);
/** Writes the files into an open directory, also over those that it wrote before. */
struct uh_error *repro_save(const struct repro_plan *p, int dir);

/** Builds and runs it, and makes it smaller as long as it fails alike. */
void repro_try(struct repro_plan *p, const struct uh_repro_options *o, int dir, void (*tell)(const char *line));
/** The same in a directory below @dir that nobody else can reach, whatever becomes of those above it; it is gone afterwards. */
struct uh_error *repro_try_apart(struct repro_plan *p, const struct uh_repro_options *o, int dir);
