// The runtime's list of loaded code objects, as it keeps it for debuggers (_amdgpu_r_debug), read from a core or from a process.
#pragma once

#include "gpu/target.h"
#include "source/probe.h"

/** Whose memory the list lies in, and what was found in it. */
struct runtime_list {
	bool (*read)(void *ctx, uint64_t address, void *to, size_t size);
	void (*odd)(void *ctx, const char *message);
	void *ctx;
	struct arena *arena; // of the texts
	uint64_t r_debug;    // 0: it is not known where the list is
	VEC(struct loaded_code) code;
};

/** The version of the list's form; 0: the list cannot be read. */
int runtime_list_version(const struct runtime_list *l);
/** Reads the list into @code, sorted by the objects' addresses. */
void runtime_list_read(struct runtime_list *l);

// The memory of a process, page by page. Pages that were read are kept: a structure then takes few reads, and is seen as it was at one
// time.

struct page;

struct pages {
	const char *mem; // /proc/PID/mem
	/** Runs a probe, or refuses to. */
	void (*run)(void *ctx, struct arena *a, struct probe *p);
	void *ctx;
	bool refused;      // there was no permission
	struct tape *tape; // NULL
	struct arena arena;
	struct page *slots;
	size_t n;
};

/** All @size bytes at @address, or false. @contents: they are what a program works on, and no structure of the runtime. */
bool pages_read(struct pages *p, uint64_t address, void *to, size_t size, bool contents);
void pages_free(struct pages *p);

// --- symbols ---

/** A line of a process's map. */
struct mapping {
	uint64_t begin, end, offset;
	struct str path;
};
/** What a process has mapped, and how it is read. */
struct mapped {
	const char *mem; // /proc/PID/mem
	size_t n;
	const struct mapping *maps; // by address
	struct probe_count *count;
};
/** Where a symbol that some mapped programs or libraries export lies in the process; 0: nowhere. Each of its steps is one batch of
 * reads for all of them. */
size_t process_symbols(const struct mapped *m, const char *name, uint64_t *ret, size_t most);
