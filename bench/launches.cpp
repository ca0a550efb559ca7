// What the recorder adds to a launch: batches with and without it in turns, in one process. It prints for each level what is added to the median and to the
// tenth percentile, and both without it: `NAME NANOSECONDS NANOSECONDS NANOSECONDS NANOSECONDS`.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <hip/hip_runtime.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>
#include <vector>

#include "recorder/format.h"
#include "unhang/recorder.h"

__global__ void small(const float *x, float *y, float a, int n) { y[0] = a * x[0] + n; }

static const int BATCH = 100, ROUNDS = 1000, NODES = 50, COLD = 50, WALK = 1 << 20;
static void (*bench_switch)(bool on);
static const struct unhang_recorder *recorder;
static float *buffer;
static volatile char walk_over[WALK];

static double now()
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

/** The value that so many percent are below: 50 is the median; 10 is what a busy machine does not spoil. */
static double percentile(std::vector<double> v, unsigned percent)
{
	std::sort(v.begin(), v.end());
	return v.empty() ? 0 : v[v.size() * percent / 100];
}
static double median(const std::vector<double> &v) { return percentile(v, 50); }

/** The recorder takes a level over when its sampler looks. */
static bool set_level(uint32_t level)
{
	const char *path = getenv("UNHANG_RECORDING");
	const int fd = path ? open(path, O_WRONLY) : -1;
	if (fd < 0 || pwrite(fd, &level, sizeof(level), offsetof(struct rec_header, wanted)) != sizeof(level))
		return false;
	close(fd);
	while (recorder && recorder->level() != (int)level)
		usleep(1000);
	return true;
}

static double batch(int n)
{
	const double begin = now();
	for (int i = 0; i < n; i++)
		small<<<1, 64>>>(buffer, buffer, 1.0f, i);
	const double took = (now() - begin) / n;
	(void)hipDeviceSynchronize();
	return took;
}

static double cold()
{
	std::vector<double> all;
	for (int i = 0; i < COLD; i++) {
		for (int at = 0; at < WALK; at += 64)
			walk_over[at]++;
		const double begin = now();
		small<<<1, 64>>>(buffer, buffer, 1.0f, i);
		all.push_back(now() - begin);
	}
	(void)hipDeviceSynchronize();
	return median(all);
}

static hipGraphExec_t graph;
static hipStream_t stream;

static void make_graph()
{
	hipGraph_t g;
	(void)hipStreamCreate(&stream);
	(void)hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal);
	for (int i = 0; i < NODES; i++)
		small<<<1, 64, 0, stream>>>(buffer, buffer, 1.0f, i);
	(void)hipStreamEndCapture(stream, &g);
	(void)hipGraphInstantiate(&graph, g, nullptr, nullptr, 0);
}

static double nodes()
{
	const double begin = now();
	for (int i = 0; i < 10; i++)
		(void)hipGraphLaunch(graph, stream);
	const double took = (now() - begin) / (10 * NODES);
	(void)hipStreamSynchronize(stream);
	return took;
}

/** The median with the recorder over that without, of rounds in turns. */
template <typename F> static void compare(const char *name, int rounds, F one)
{
	std::vector<double> off, on;
	for (int i = 0; i < rounds; i++) {
		bench_switch(false);
		off.push_back(one());
		bench_switch(true);
		on.push_back(one());
	}
	printf("%s %.1f %.1f %.1f %.1f\n", name, median(on) - median(off), percentile(on, 10) - percentile(off, 10), median(off), percentile(off, 10));
	fflush(stdout);
}

/** With an argument: hot launches alone. */
int main(int argc, char **)
{
	cpu_set_t cpu;
	CPU_ZERO(&cpu);
	CPU_SET(0, &cpu);
	if (hipMalloc(&buffer, 4096) != hipSuccess)
		return 2;
	bench_switch = (void (*)(bool))dlsym(dlopen(getenv("BENCH_SWITCH"), RTLD_NOW), "bench_switch");
	if (!bench_switch) {
		printf("launch %.1f\n", [] { std::vector<double> all; for (int i = 0; i < ROUNDS; i++) all.push_back(batch(BATCH)); return median(all); }());
		return 0;
	}
	recorder = unhang_recorder();
	make_graph();
	batch(BATCH);
	nodes();
	sched_setaffinity(0, sizeof(cpu), &cpu); // of this thread: the GPU has the other core
	for (uint32_t level : { 0u, 1u, 3u }) {
		char name[32];
		if (!set_level(level))
			return 2;
		snprintf(name, sizeof(name), "hot%u", level);
		compare(name, ROUNDS, [] { return batch(BATCH); });
		snprintf(name, sizeof(name), "cold%u", level);
		if (argc < 2)
			compare(name, 100, cold);
	}
	set_level(1);
	if (argc < 2)
		compare("node", ROUNDS, nodes);
	return 0;
}
