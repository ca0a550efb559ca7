// Jobs that fail by a cause which is known to the test alone (tests/causes.py): `causes MODE PERCENT` fails in so many of its runs, unless the
// switch is set that the cause obeys. Of graphs and libraries the program itself obeys it, as real ones do. The emulated GPU has no copy engines,
// and its queues do not fail: there the program stands in for the driver.
#include "kernels.h"

#include <cstring>
#include <sys/random.h>
#include <unistd.h>
#include <vector>

enum { FLOATS = 256, STREAMS = 4 };

static bool unlucky(unsigned percent)
{
	uint32_t drawn = 0;
	if (getrandom(&drawn, sizeof(drawn), 0) != sizeof(drawn))
		abort();
	return drawn % 100 < percent;
}

static bool is_set(const char *name, const char *value)
{
	const char *now = getenv(name);
	return now && !strcmp(now, value);
}

// Kernels of libraries that are known to fail, by their names. What becomes of them is in the plan.
__global__ void fused_moe_kernel(float *x) { x[threadIdx.x] = 1; }
__global__ void fmoe_fp8_vs_g1u1(float *x) { x[threadIdx.x] = 1; }
__global__ void Cijk_Ailk_Bljk_SK3_WG64(float *x) { x[threadIdx.x] = 1; }

static int judged(const float *device, float wanted)
{
	std::vector<float> out(FLOATS);
	CHECK(hipDeviceSynchronize());
	CHECK(hipMemcpy(out.data(), device, FLOATS * sizeof(float), hipMemcpyDeviceToHost));
	for (float f : out)
		if (f != wanted) {
			printf("wrong: %g instead of %g\n", (double)f, (double)wanted);
			return 1;
		}
	puts("right");
	return 0;
}

static float *floats(float value)
{
	float *p;
	CHECK(hipMalloc(&p, FLOATS * sizeof(float)));
	fill<<<1, FLOATS>>>(p, value, FLOATS);
	return p;
}

/** The program captures a launch, moves what it reads, and forgets to tell the graph. */
static int graphs(bool fails)
{
	float *out = floats(0), *before = floats(1), *after = floats(1);
	hipStream_t stream;
	hipGraph_t graph;
	hipGraphExec_t replay;
	CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
	CHECK(hipDeviceSynchronize());
	CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
	copy<<<4, 256, 0, stream>>>((char *)out, (char *)before, FLOATS * sizeof(float));
	CHECK(hipStreamEndCapture(stream, &graph));
	CHECK(hipGraphInstantiate(&replay, graph, NULL, NULL, 0));
	if (fails)
		fill<<<1, FLOATS, 0, stream>>>(before, -1, FLOATS);
	if (getenv("GGML_CUDA_DISABLE_GRAPHS"))
		copy<<<4, 256, 0, stream>>>((char *)out, (char *)after, FLOATS * sizeof(float));
	else
		CHECK(hipGraphLaunch(replay, stream));
	return judged(out, 1);
}

static int library(const char *which, bool fails)
{
	float *x = floats(1);
	if (!fails)
		return judged(x, 1);
	if (!strcmp(which, "moe") && !is_set("VLLM_ROCM_USE_AITER_MOE", "0"))
		fused_moe_kernel<<<1, 64>>>(x);
	if (!strcmp(which, "vskip") && !is_set("AITER_ENABLE_VSKIP", "0"))
		fmoe_fp8_vs_g1u1<<<1, 64>>>(x);
	if (!strcmp(which, "stream-k") && !is_set("TORCH_BLAS_PREFER_HIPBLASLT", "0"))
		Cijk_Ailk_Bljk_SK3_WG64<<<1, 64>>>(x);
	return judged(x, 1);
}

/** Work on several streams; the driver's part is played. */
static int queues(bool fails, bool hangs)
{
	float *x = floats(1);
	for (int i = 0; i < STREAMS; i++) {
		hipStream_t s;
		CHECK(hipStreamCreateWithFlags(&s, hipStreamNonBlocking));
		fill<<<1, FLOATS, 0, s>>>(floats(0), 2, FLOATS);
	}
	const int status = judged(x, 1);
	if (!fails || is_set("GPU_MAX_HW_QUEUES", "1"))
		return status;
	while (hangs)
		pause();
	return 1;
}

/** Copies; the engine's part is played. */
static int copies(bool fails)
{
	float *x = floats(1);
	const float bad = 3;
	CHECK(hipDeviceSynchronize());
	if (fails && !is_set("HSA_ENABLE_SDMA", "0"))
		CHECK(hipMemcpy(x + FLOATS / 2, &bad, sizeof(bad), hipMemcpyHostToDevice));
	return judged(x, 1);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "";
	const bool fails = unlucky(argc > 2 ? (unsigned)atoi(argv[2]) : 100);
	if (!strcmp(mode, "graphs"))
		return graphs(fails);
	if (!strcmp(mode, "queues") || !strcmp(mode, "queues-hang"))
		return queues(fails, !strcmp(mode, "queues-hang"));
	if (!strcmp(mode, "copies"))
		return copies(fails);
	return argc > 2 ? library(mode, fails) : 2;
}
