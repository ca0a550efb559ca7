// The runtime's list of loaded code objects, as it keeps it for debuggers (_amdgpu_r_debug), read from a core or from a process.
#pragma once

#include "gpu/target.h"

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
