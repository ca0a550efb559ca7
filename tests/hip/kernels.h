// Kernels as the emulated KFD knows them by name (docs/SCENARIOS.md); their code is real, what runs is the stand-in.
#pragma once

#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <hip/hip_ext.h>
#include <hip/hip_runtime.h>

#define CHECK(call)                                                                                    \
	do {                                                                                           \
		hipError_t error_ = (call);                                                            \
		if (error_ != hipSuccess) {                                                            \
			fprintf(stderr, "%s: %s\n", #call, hipGetErrorName(error_));                   \
			exit(1);                                                                       \
		}                                                                                      \
	} while (0)

__global__ void copy(char *to, const char *from, size_t bytes)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	if (i < bytes)
		to[i] = from[i];
}

__global__ void fill(float *to, float value, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		to[i] = value;
}

__global__ void saxpy(const float *x, float *y, float a, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		y[i] += a * x[i];
}

__global__ void reduction(const float *from, float *sum, int n)
{
	for (int i = threadIdx.x; i < n; i += blockDim.x)
		atomicAdd(sum, from[i]);
}

__global__ void index_copy(float *to, const float *from, const int64_t *index, int n, int rows)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n) {
		assert(index[i] >= 0 && index[i] < rows);
		to[index[i]] = from[i];
	}
}

/** No stand-in is of this name: it completes and does nothing. */
__global__ void nothing(int *p) { *p = 1; }
