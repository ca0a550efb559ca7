// What a code object says of its kernels: the note "AMDGPU" of type 32.
#pragma once

#include "code/object/object.h"
#include "code/problems.h"

struct metadata_kernel {
	struct code_kernel kernel; // its names, counts and arguments
	struct str symbol;         // of its descriptor
	size_t offset;             // in the file
};

struct metadata {
	struct str target; // amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-
	size_t nkernels;
	struct metadata_kernel *kernels;
};

/** Reads the note's text, @size bytes at @offset of @file. What lies before any damage is kept. */
void metadata_read(struct arena *a, struct str file, size_t offset, size_t size, struct code_problems *problems,
		   struct metadata *ret);
