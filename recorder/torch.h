// PyTorch's operators as operations of the recording: an observer for its RECORD_FUNCTION, which every operator passes.
//
// PyTorch promises no layout for C. python/unhang/observer.py finds out where things lie in the PyTorch at hand, by operators whose
// tensors it knows, and hands it over; nothing of a version is known here.
#pragma once

#include <stdint.h>

enum { TORCH_DTYPES = 64, TORCH_FLAGS = 16 };

/** RecordFunctionCallback, the same from PyTorch 1.13 to 2.9: which scopes are observed, and behind them whether inputs are needed. */
struct torch_callback {
	void *start, *end;
	double probability;
	uint8_t flags[TORCH_FLAGS];
};

/** Numbers are bytes from the beginning of what is named, unless it says otherwise. */
struct unhang_torch {
	uint32_t size;               // of this struct
	uint32_t inputs;             // RecordFunction: address and number of its inputs
	uint32_t value, tag, tensor; // an input: its size, where its kind stands, the kind that is a tensor
	uint32_t list, elements;     // the kind that is a list of tensors, ~0: not known; in the list: where they begin and end
	uint32_t dimensions, inside; // TensorImpl: number of dimensions; so many have sizes and strides right behind it
	uint32_t storage, data, offset, dtype;     // TensorImpl: storage, in which the data; the offset in elements; the type
	uint8_t dtypes[TORCH_DTYPES];              // enum unhang_dtype, by PyTorch's numbers
	const char *(*name)(const void *function); // RecordFunction::name()
	uint64_t (*add)(struct torch_callback which); // at::addGlobalCallback()
	struct torch_callback callback;               // start and end are filled in here
};

/** From now on operators are operations. 0: it is so; -1: not in this build, or not that layout. Once in a process. */
int unhang_recorder_torch(const struct unhang_torch *layout);
