// Cores of GPUs and of their processes, as evidence.
#pragma once

#include "evidence/artefact.h"
#include "gpu/core/core.h"
#include "source/source.h"

/** A core that was given, until all are known. */
struct core_source {
	struct core core; // with a descriptor of its own, or bytes; empty once it was read
	char *bytes;
	unsigned evidence; // id of the source
	bool has_gpu;      // it tells of GPUs
	bool joined;       // it was read together with the core of its GPU
	int64_t pid;       // 0: not known
};

/** Takes a descriptor of its own, or the bytes of a stream. */
struct uh_error *core_source_keep(const struct source *s, struct text *bytes, struct core_source *ret);
void core_source_free(struct core_source *c);
/** Reads those that belong together and hands on what they tell. */
struct uh_error *gpu_cores_read(const struct artefact_output *out, struct core_source *cores, size_t n);
