// Programs that race, and programs that do not, each made of a number: tests/races.py. `races NUMBER truth` says what is wrong with it;
// `races NUMBER always` fails in every run, and `races NUMBER never` in none.
//
// Every program launches decoys on its streams, each with buffers of its stream. Among them stands one scene, whose two parties were drawn
// among the decoys. Their order is not ensured, and mostly right: in a part of the runs, drawn anew, the earlier party's stream is busy.
#include "kernels.h"

#include <cstring>
#include <sys/random.h>
#include <unistd.h>
#include <vector>

enum { N = 256, GAP_US = 3000, GAP_MOST_US = 12000, SETTLE_US = 4000, DECOYS = 30 };

// --- chance: of the number, and of the run ---

struct chance {
	uint64_t state;
	uint32_t operator()(uint32_t below)
	{
		state += 0x9e3779b97f4a7c15u;
		uint64_t z = state;
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
		z = (z ^ z >> 27) * 0x94d049bb133111ebu;
		return (uint32_t)((z ^ z >> 31) >> 11) % below;
	}
};

static chance of_run()
{
	uint64_t seed = 0;
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		abort();
	return chance{ seed };
}

// --- kernels: one name each, and what the emulated KFD does for them is what their first word says ---

template <int I> __global__ void copy(char *to, const char *from, size_t bytes)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	if (i < bytes)
		to[i] = from[i] ^ (char)(I * 0);
}
template <int I> __global__ void fill(float *to, float value, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		to[i] = value + I * 0;
}
template <int I> __global__ void saxpy(const float *x, float *y, float a, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		y[i] += a * x[i] + I * 0;
}
template <int I> __global__ void reduction(const float *from, float *sum, int n)
{
	for (int i = threadIdx.x; i < n; i += blockDim.x)
		atomicAdd(sum, from[i] + I * 0);
}
__global__ void busy(int *p) { *p = 1; }

struct stream_of {
	hipStream_t stream;
	float *x, *y;
};

typedef void reads_fn(float *to, const float *from, hipStream_t s);
typedef void writes_fn(float *to, float value, hipStream_t s);
template <int I> static void reads(float *to, const float *from, hipStream_t s)
{
	copy<I><<<4, 256, 0, s>>>((char *)to, (const char *)from, N * sizeof(float));
}
template <int I> static void writes(float *to, float value, hipStream_t s) { fill<I><<<1, N, 0, s>>>(to, value, N); }
template <int I> static void adds(float *to, const float *from, hipStream_t s) { saxpy<I><<<1, N, 0, s>>>(from, to, 1, N); }
template <int I> static void sums(float *to, const float *from, hipStream_t s) { reduction<I><<<1, 64, 0, s>>>(from, to, N); }

#define EIGHT(f) f<0>, f<1>, f<2>, f<3>, f<4>, f<5>, f<6>, f<7>
static reads_fn *const readers[] = { EIGHT(reads) };
static writes_fn *const writers[] = { EIGHT(writes) };
static reads_fn *const adders[] = { EIGHT(adds) };
static reads_fn *const summers[] = { sums<0>, sums<1>, sums<2>, sums<3>, sums<4>, sums<5> };

static void decoy(unsigned which, const stream_of &s)
{
	if (which < 8)
		readers[which](s.y, s.x, s.stream);
	else if (which < 16)
		writers[which - 8](s.x, 1, s.stream);
	else if (which < 24)
		adders[which - 16](s.y, s.x, s.stream);
	else
		summers[which - 24](s.y, s.x, s.stream);
}

// --- the programs ---

enum kind { SOUND, BEYOND, FLAKY_HOST, BAD_NODE, STREAMS, HOST, GRAPH, COPY_EVENT, FREED, WORKSPACE, KINDS };
static const char *const kind_names[] = { "sound", "out-of-bounds",  "flaky-host", "bad-node", "streams",
					  "host",  "stale-graph",    "copy-event", "freed",    "workspace" };

struct program {
	kind what;
	unsigned rate;                // per cent of the runs that fail
	unsigned streams, before, after; // decoys before and after the scene
	unsigned early, late;         // streams of the two parties
	unsigned reader, writer, other_reader, other_writer; // which of the eight
	bool write_first;             // of two kernels on two streams
	bool settles;                 // waits for the GPU before the scene
	chance rest;
};

static program draw(unsigned number)
{
	chance c{ number * UINT64_C(0x2545f4914f6cdd1d) + 1 };
	program p = { .rest = c };
	const unsigned of = number % 80; // 30 of 80 do not race
	p.what = of < 10 ? SOUND : of < 17 ? BEYOND : of < 24 ? FLAKY_HOST : of < 30 ? BAD_NODE : (kind)(STREAMS + (of - 30) % 6);
	p.rate = 5 + c(56);
	p.streams = 2 + c(5);
	const unsigned launches = 5 + c(c(2) ? 40 : 196);
	p.before = 1 + c(launches);
	p.after = launches - p.before;
	p.early = c(p.streams < 3 ? 2 : 3);
	p.late = (p.early + 1 + c(p.streams < 3 ? 1 : 2)) % (p.streams < 3 ? 2 : 3);
	p.reader = c(8);
	p.writer = c(8);
	p.other_reader = (p.reader + 1 + c(7)) % 8;
	p.other_writer = (p.writer + 1 + c(7)) % 8;
	p.write_first = c(2);
	p.settles = c(2);
	p.rest = c;
	return p;
}

static void tell_truth(const program &p)
{
	char reader[32], writer[32];
	const char *racer = "none", *victim = "none";
	snprintf(reader, sizeof(reader), "copy<%u>", p.reader);
	snprintf(writer, sizeof(writer), "fill<%u>", p.writer);
	if (p.what >= STREAMS) {
		racer = p.what == HOST ? "host" : p.what == COPY_EVENT ? "copy" : writer;
		victim = reader;
	}
	printf("%s %u %u %u %s %s\n", kind_names[p.what], p.rate, p.streams, p.before + p.after, racer, victim);
}

struct stage {
	const program &p;
	std::vector<stream_of> streams;
	float *shared, *out, *more, *pinned;
	bool unlucky; // in this run the earlier party comes late
	bool sound;   // the order is ensured
	hipEvent_t event;
	hipStream_t early() const { return streams[p.early].stream; }
	hipStream_t late() const { return streams[p.late].stream; }
};

static void earlier_party(const stage &s)
{
	if (s.unlucky)
		busy<<<1, 64, 0, s.early()>>>((int *)s.more);
}

/** The program does other things, which mostly takes long enough: also on a busy machine, but not where the GPU is very late. */
static void others(const stage &s)
{
	for (unsigned us = 0; us < GAP_MOST_US; us += GAP_US) {
		usleep(GAP_US);
		if (s.unlucky || hipStreamQuery(s.early()) == hipSuccess)
			return;
	}
}

static void between(const stage &s)
{
	if (s.sound) {
		CHECK(hipEventRecord(s.event, s.early()));
		CHECK(hipStreamWaitEvent(s.late(), s.event, 0));
	}
	others(s);
}

/** Each leaves 1 in out if all went in order. */
static void scene_streams(const stage &s)
{
	const program &p = s.p;
	earlier_party(s);
	if (p.write_first) {
		writers[p.writer](s.shared, 1, s.early());
		between(s);
		readers[p.reader](s.out, s.shared, s.late());
	} else {
		readers[p.reader](s.out, s.shared, s.early());
		between(s);
		writers[p.writer](s.shared, 2, s.late());
	}
}

static void scene_host(const stage &s)
{
	for (int i = 0; i < N; i++)
		s.pinned[i] = 1;
	earlier_party(s);
	readers[s.p.reader](s.out, s.pinned, s.early());
	if (s.sound)
		CHECK(hipStreamSynchronize(s.early()));
	others(s);
	for (int i = 0; i < N; i++)
		s.pinned[i] = 2;
}

static void scene_graph(const stage &s)
{
	hipGraph_t graph;
	hipGraphExec_t whole;
	CHECK(hipStreamBeginCapture(s.late(), hipStreamCaptureModeRelaxed));
	readers[s.p.reader](s.out, s.shared, s.late());
	CHECK(hipStreamEndCapture(s.late(), &graph));
	CHECK(hipGraphInstantiate(&whole, graph, NULL, NULL, 0));
	earlier_party(s);
	writers[s.p.writer](s.shared, 1, s.early()); // what the graph was captured with is renewed
	between(s);
	CHECK(hipGraphLaunch(whole, s.late()));
	CHECK(hipDeviceSynchronize());
	CHECK(hipGraphExecDestroy(whole));
	CHECK(hipGraphDestroy(graph));
}

static void scene_copy(const stage &s)
{
	for (int i = 0; i < N; i++)
		s.pinned[i] = 1;
	earlier_party(s);
	CHECK(hipMemcpyAsync(s.shared, s.pinned, N * sizeof(float), hipMemcpyHostToDevice, s.early()));
	between(s);
	readers[s.p.reader](s.out, s.shared, s.late());
}

/** A pool of the program's own, as frameworks have: what was given back is handed out again, also to another stream. */
static void scene_freed(const stage &s)
{
	std::vector<float *> pool = { s.shared };
	float *mine = pool.back();
	pool.pop_back();
	earlier_party(s);
	readers[s.p.reader](s.out, mine, s.early());
	pool.push_back(mine);
	between(s);
	float *other = pool.back();
	pool.pop_back();
	writers[s.p.writer](other, 2, s.late());
}

static void scene_workspace(const stage &s)
{
	const program &p = s.p;
	writers[p.other_writer](s.shared, 1, s.early());
	usleep(SETTLE_US);
	earlier_party(s);
	readers[p.reader](s.out, s.shared, s.early());
	between(s);
	writers[p.writer](s.shared, 2, s.late());
	readers[p.other_reader](s.more, s.shared, s.late());
}

static void (*const scenes[])(const stage &) = { scene_streams, scene_host, scene_graph, scene_copy, scene_freed, scene_workspace };

static void beyond(const stage &s)
{
	int64_t *index;
	CHECK(hipHostMalloc(&index, N * sizeof(*index)));
	for (int i = 0; i < N; i++)
		index[i] = i;
	if (s.unlucky)
		index[N / 2] = N;
	index_copy<<<1, N, 0, s.early()>>>(s.out, s.shared, index, N, N);
	CHECK(hipDeviceSynchronize());
}

static int check(const stage &s)
{
	std::vector<float> out(N);
	CHECK(hipDeviceSynchronize());
	CHECK(hipMemcpy(out.data(), s.out, N * sizeof(float), hipMemcpyDeviceToHost));
	for (int i = 0; i < N; i++)
		if (out[i] != 1) {
			printf("wrong: %g at %d\n", (double)out[i], i);
			return 1;
		}
	puts("right");
	return 0;
}

/** @luck: `always` it fails, `never` by itself; else in a part of its runs. */
static int run(program p, const char *luck)
{
	stage s = { .p = p };
	chance now = of_run();
	s.unlucky = strcmp(luck, "never") && (!strcmp(luck, "always") || now(100) < p.rate) && p.what != SOUND;
	s.sound = p.what < STREAMS;
	for (unsigned i = 0; i < p.streams; i++) {
		stream_of o;
		CHECK(hipStreamCreateWithFlags(&o.stream, hipStreamNonBlocking));
		CHECK(hipMalloc(&o.x, N * sizeof(float)));
		CHECK(hipMalloc(&o.y, N * sizeof(float)));
		s.streams.push_back(o);
	}
	for (float **b : { &s.shared, &s.out, &s.more })
		CHECK(hipMalloc(b, N * sizeof(float)));
	CHECK(hipHostMalloc(&s.pinned, N * sizeof(float)));
	CHECK(hipEventCreateWithFlags(&s.event, hipEventDisableTiming));
	const bool written = p.what == FREED || (p.what == STREAMS && !p.write_first) || p.what < STREAMS;
	writers[0](s.shared, written ? 1 : 0, s.early());
	writers[1](s.out, 0, s.early());
	CHECK(hipDeviceSynchronize());
	for (unsigned i = 0; i < p.before; i++)
		decoy(p.rest(DECOYS), s.streams[p.rest(p.streams)]);
	if (p.settles)
		CHECK(hipDeviceSynchronize());
	usleep(SETTLE_US);
	if (p.what == BEYOND)
		beyond(s);
	else
		scenes[p.what < STREAMS ? p.rest(6) : p.what - STREAMS](s);
	for (unsigned i = 0; i < p.after; i++)
		decoy(p.rest(DECOYS), s.streams[p.rest(p.streams)]);
	if (p.what == FLAKY_HOST && s.unlucky) {
		fprintf(stderr, "cannot reach the server\n");
		return 1;
	}
	if (p.what == BAD_NODE && s.unlucky) {
		const float bad = 3;
		CHECK(hipDeviceSynchronize());
		CHECK(hipMemcpy(s.out + N / 3, &bad, sizeof(bad), hipMemcpyHostToDevice));
	}
	return check(s);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	const program p = draw((unsigned)atoi(argv[1]));
	if (argc > 2 && !strcmp(argv[2], "truth")) {
		tell_truth(p);
		return 0;
	}
	return run(p, argc > 2 ? argv[2] : "");
}
