// The flight recorder's door for frameworks: which operation the kernels belong to that are launched now, and which tensors it has.
//
// Nothing has to be linked. Where libunhang-recorder.so is loaded its functions are found by name, and where it is not they do nothing:
//
//     const struct unhang_recorder *r = unhang_recorder();  // once; NULL: there is no recorder
//     uint32_t op = r ? unhang_begin(r, "attention", tensors, 3) : 0;
//     launch(...);
//     if (op)
//             unhang_end(r, op);
//
// Operations of a thread nest. A dispatch is joined to the innermost one of the thread that rings the doorbell.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Numbers of the recording's format: never changed, new ones behind. */
enum unhang_dtype {
	UNHANG_DTYPE_UNKNOWN,
	UNHANG_FLOAT64,
	UNHANG_FLOAT32,
	UNHANG_FLOAT16,
	UNHANG_BFLOAT16,
	UNHANG_FLOAT8_E4M3,      // OCP: no infinities
	UNHANG_FLOAT8_E5M2,      // OCP
	UNHANG_FLOAT8_E4M3_FNUZ, // of gfx940 and gfx942
	UNHANG_FLOAT8_E5M2_FNUZ,
	UNHANG_INT64,
	UNHANG_INT32,
	UNHANG_INT16,
	UNHANG_INT8,
	UNHANG_UINT64,
	UNHANG_UINT32,
	UNHANG_UINT16,
	UNHANG_UINT8,
	UNHANG_BOOL,
	UNHANG_COMPLEX64,
	UNHANG_COMPLEX128,
	UNHANG_DTYPES
};

/** A tensor as a framework has it. @shape and @strides (in elements; NULL: contiguous) have @ndim numbers. They are copied. */
struct unhang_tensor {
	const void *data;
	uint32_t dtype; // enum unhang_dtype
	uint32_t ndim;
	const int64_t *shape;
	const int64_t *strides;
};

/** What the recorder's functions are. They may be called from any thread, never block, and never fail: what cannot be recorded is not.
 * Other languages look up unhang_recorder_begin, unhang_recorder_end and unhang_recorder_level by name. */
struct unhang_recorder {
	uint32_t size; // of this struct: more may come behind
	uint32_t reserved;
	/** An operation begins in this thread. Returns its number for end(), or 0: nothing is recorded. */
	uint32_t (*begin)(const char *name, const struct unhang_tensor *tensors, size_t n);
	void (*end)(uint32_t operation);
	/** The level that is in force now: 0 nothing, 1 launches, 3 arguments, 5 statistics, 10 inputs. */
	int (*level)(void);
};

uint32_t unhang_recorder_begin(const char *name, const struct unhang_tensor *tensors, size_t n);
void unhang_recorder_end(uint32_t operation);
int unhang_recorder_level(void);
/** The innermost operation of this thread, and its name in @ret_name, if it is not NULL; 0: it is in none. */
uint32_t unhang_recorder_operation(char *ret_name, size_t size);
const struct unhang_recorder *unhang_recorder_functions(void);

#ifndef UNHANG_RECORDER_INSIDE
#include <dlfcn.h>

/** NULL where no recorder is loaded in this process. */
static inline const struct unhang_recorder *unhang_recorder(void)
{
	// RTLD_DEFAULT finds a library that was preloaded; one that the runtime loaded is found by its name.
	void *in = dlopen("libunhang-recorder.so", RTLD_LAZY | RTLD_NOLOAD);
	void *f = dlsym(in ? in : (void *)0, "unhang_recorder_functions");
	const struct unhang_recorder *r = f ? ((const struct unhang_recorder *(*)(void))f)() : NULL;
	return r && r->size >= sizeof(*r) ? r : NULL;
}

static inline uint32_t unhang_begin(const struct unhang_recorder *r, const char *name, const struct unhang_tensor *tensors,
				    size_t n)
{
	return r->begin(name, tensors, n);
}

static inline void unhang_end(const struct unhang_recorder *r, uint32_t operation) { r->end(operation); }
#endif

#ifdef __cplusplus
}
#endif
