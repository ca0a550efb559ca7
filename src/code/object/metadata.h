// What a code object says of its kernels: the note "AMDGPU" of type 32.
#pragma once

#include "base/str.h"
#include "code/object/object.h"
#include "code/object/elf.h"

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

// MessagePack, value by value. Positions are those in the file, so that an error can name them.
enum msgpack_kind {
	MSGPACK_NIL,
	MSGPACK_BOOL,
	MSGPACK_UNSIGNED,
	MSGPACK_NEGATIVE,
	MSGPACK_TEXT,
	MSGPACK_ARRAY,
	MSGPACK_MAP,
	MSGPACK_OTHER
};

struct msgpack_value {
	enum msgpack_kind kind;
	uint64_t number; // the number or bool; how many values an array has, how many pairs a map
	struct str text;
};

struct msgpack {
	struct str file; // up to where the data ends
	size_t at;
};
