// Programs that crash, for unhang repro: thirty, by their number. Each is one of the families below, among decoys: buffers that do not matter, and
// launches before it that are sound.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kernels.h"

struct crasher {
	unsigned long long state;
	std::vector<float *> decoys;
	std::vector<size_t> sizes;

	explicit crasher(unsigned seed) : state(seed * 2654435761u + 12345) {}
	unsigned pick(unsigned least, unsigned most)
	{
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		return least + (unsigned)(state >> 33) % (most - least + 1);
	}
	template <typename T> T *buffer(size_t bytes, int value)
	{
		T *p;
		std::vector<char> host(bytes, (char)value);
		CHECK(hipMalloc(&p, bytes));
		CHECK(hipMemcpy(p, host.data(), bytes, hipMemcpyHostToDevice));
		return p;
	}
	size_t megabytes(unsigned least, unsigned most) { return (size_t)pick(least, most) << 20; }
	void sound(unsigned n)
	{
		for (unsigned i = 0; i < n; i++) {
			const size_t a = pick(0, decoys.size() - 1), b = pick(0, decoys.size() - 1);
			const int words = (int)((sizes[a] < sizes[b] ? sizes[a] : sizes[b]) / 4);
			if (pick(0, 1))
				fill<<<words / 256, 256>>>(decoys[a], (float)i, words);
			else
				saxpy<<<words / 256, 256>>>(decoys[a], decoys[b], 0.5f, words);
		}
		CHECK(hipDeviceSynchronize());
	}
};

static std::vector<int64_t> some_index(size_t n, size_t bad_at, int64_t bad)
{
	std::vector<int64_t> index(n);
	for (size_t i = 0; i < n; i++)
		index[i] = (int64_t)(i % 64);
	if (bad_at < n)
		index[bad_at] = bad;
	return index;
}

/** The code of this program from a copy in memory, as what compiles while it runs has it. */
static hipFunction_t from_memory(const char *name)
{
	std::ifstream file("/proc/self/exe", std::ios::binary);
	std::string program((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
	hipModule_t module;
	hipFunction_t kernel;
	const size_t at = program.find(std::string("__CLANG_OFFLOAD_") + "BUNDLE__"); // these letters stand nowhere else
	static std::string bundle;
	bundle = program.substr(at);
	CHECK(hipModuleLoadData(&module, bundle.data()));
	CHECK(hipModuleGetFunction(&kernel, module, name));
	return kernel;
}

/** For what never ends, or is held: HIP would keep a processor busy while it waits. */
static void wait_quietly() { CHECK(hipSetDeviceFlags(hipDeviceScheduleBlockingSync)); }

static void crash(unsigned number)
{
	wait_quietly();
	crasher c(number);
	const unsigned family = number % 15;
	for (unsigned i = 0, n = c.pick(2, 5); i < n; i++) {
		c.sizes.push_back(c.megabytes(2, 5));
		c.decoys.push_back(c.buffer<float>(c.sizes.back(), 0));
	}
	// The runtime takes memory in multiples of 2 MiB: right behind such a one there is nothing.
	const size_t bytes = 2 * c.megabytes(1, 3), over = c.pick(1, 64) * 64;
	float *x = c.buffer<float>(bytes, 1), *y = c.buffer<float>(bytes + (16 << 20), 2), *pinned, *freed;
	const size_t n = 1024;
	c.sound(c.pick(0, 6));
	copy<<<16, 256>>>((char *)y, (char *)x, bytes);
	std::vector<int64_t> good = some_index(n, n, 0), bad = some_index(n, c.pick(0, 1023), 1 << 20);
	int64_t *index = c.buffer<int64_t>(4 << 20, 0), *other = c.buffer<int64_t>(4 << 20, 0);
	CHECK(hipMemcpy(index, good.data(), n * 8, hipMemcpyHostToDevice));
	hipStream_t stream;
	CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
	CHECK(hipDeviceSynchronize());
	struct {
		const void *x;
		void *y;
		float a;
		int n;
	} arguments = { x, y, 2, (int)((bytes + over) / 4) };
	size_t size = sizeof(arguments);
	void *extra[] = { HIP_LAUNCH_PARAM_BUFFER_POINTER, &arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size, HIP_LAUNCH_PARAM_END };
	switch (family) {
	case 0: // reads beyond
		copy<<<64, 256>>>((char *)y, (char *)x, bytes + over);
		break;
	case 1: // writes beyond
		fill<<<64, 256>>>(x, 1.5f, (int)((bytes + over) / 4));
		break;
	case 2: // from the middle of a buffer
		saxpy<<<64, 256>>>(x + c.pick(1, 1000), y, 2.0f, (int)(bytes / 4));
		break;
	case 3:
		reduction<<<1, 256>>>(x, y, (int)((bytes + over) / 4));
		break;
	case 4: // what was freed
		CHECK(hipMalloc(&freed, bytes));
		fill<<<64, 256>>>(freed, 1.0f, (int)(bytes / 4));
		CHECK(hipFree(freed));
		copy<<<64, 256>>>((char *)y, (char *)freed + c.pick(0, 4096), 1 << 20);
		break;
	case 5: // an index that the host wrote
		CHECK(hipMemcpy(index, bad.data(), n * 8, hipMemcpyHostToDevice));
		index_copy<<<4, 256>>>(y, x, index, (int)n, 64);
		break;
	case 6: // an index that an earlier kernel wrote
		CHECK(hipMemcpy(other, bad.data(), n * 8, hipMemcpyHostToDevice));
		index_copy<<<4, 256>>>(y, x, index, (int)n, 64);
		copy<<<4, 256>>>((char *)index, (char *)other, n * 8);
		index_copy<<<4, 256>>>(y, x, index, (int)n, 64);
		break;
	case 7: // an index that its check lets pass
		bad = some_index(n, c.pick(0, 1023), (int64_t)(bytes / 4 + over / 4));
		CHECK(hipMemcpy(index, bad.data(), n * 8, hipMemcpyHostToDevice));
		index_copy<<<4, 256>>>(x, y, index, (int)n, 1 << 30);
		break;
	case 8: // a pointer that is none
		saxpy<<<64, 256>>>((float *)(0x7ead0000ull + c.pick(0, 9) * 4096), y, 2.0f, 1024);
		break;
	case 9:
		fill<<<64, 256>>>(nullptr, 1.0f, 1024);
		break;
	case 10: // pinned memory of the host
		CHECK(hipHostMalloc((void **)&pinned, bytes, 0));
		fill<<<64, 256>>>(pinned, 1.0f, (int)(bytes / 4));
		copy<<<64, 256>>>((char *)y, (char *)pinned, bytes + over + (1 << 20));
		break;
	case 11: // code in memory, on another stream
		CHECK(hipModuleLaunchKernel(from_memory("_Z5saxpyPKfPffi"), 64, 1, 1, 256, 1, 1, 4096, stream, nullptr, extra));
		break;
	case 12: // whatever UNHANG_KFD has for a kernel that nothing else launches
		reduction<<<1, 256>>>(x, y, 1024);
		break;
	case 13: // two streams, of which one fails
		fill<<<64, 256>>>(y, 1.0f, 1024);
		copy<<<64, 256, 0, stream>>>((char *)y, (char *)x, bytes + over);
		break;
	default: // memory of the host that the GPU cannot reach
		freed = (float *)malloc(64 << 20);
		fill<<<64, 256>>>(freed + 4096, 1.0f, 1024);
	}
	CHECK(hipDeviceSynchronize());
	puts("no crash");
}
