// What level 10 saved of a launch: a directory with metadata.json and inputs.safetensors (recorder/inputs/dumps.c). Its bytes are a stranger's.
#pragma once

#include "base/arena.h"
#include "base/error.h"

enum { INPUTS_HEAD_MOST = 1 << 20, INPUTS_LAUNCHES = 4096 };
#define INPUTS_METADATA "metadata.json"
#define INPUTS_TENSORS "inputs.safetensors"

/** A buffer of a launch, as it was before the kernel ran. */
struct input_saved {
	uint32_t argument; // offset of the pointer among the arguments
	uint64_t address, bytes;
	uint64_t at; // where its bytes begin in the file
	struct str dtype;
	bool guessed; // nobody said what type it has
};

struct inputs_saved {
	int64_t pid;
	uint32_t queue;
	uint64_t packet;
	struct str kernel;
	struct str directory; // of the launch
	size_t n;
	struct input_saved *list;
};

/** Takes the two texts apart: all of metadata.json, and the head of the tensors, from the file's first byte on; @size: of that file. What is in
 * both and fits into the file is kept. An error where it is no such thing. */
struct uh_error *inputs_parse(struct arena *a, struct str metadata, struct str tensors, uint64_t size,
			      struct inputs_saved *ret);

/** The launches that have whole inputs in a directory, of one process; @ret_n: how many. None where there is no such directory. */
struct inputs_saved *inputs_read(struct arena *a, const char *directory, int64_t pid, size_t *ret_n);
/** The inputs of one of them; NULL: it has none. */
const struct inputs_saved *inputs_of(const struct inputs_saved *list, size_t n, uint32_t queue, uint64_t packet);
