// Prints the statistics of a file's elements: statistics_of FILE DTYPE [REPEAT]. With REPEAT also how long reading it and computing them
// takes, the best of so many times.
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "recorder/statistics.h"

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/** All bytes, read once: what memory allows. */
__attribute__((target_clones("avx512f", "avx2", "default"))) static uint64_t read_once(const uint64_t *p, size_t n)
{
	uint64_t sum[8] = { 0 };
	for (size_t i = 0; i + 8 <= n; i += 8)
		for (unsigned k = 0; k < 8; k++)
			sum[k] += p[i + k];
	return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

int main(int argc, char **argv)
{
	struct stat st;
	struct statistics s;
	const int fd = argc > 2 ? open(argv[1], O_RDONLY) : -1, repeat = argc > 3 ? atoi(argv[3]) : 0;
	const uint32_t dtype = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
	if (fd < 0 || fstat(fd, &st) || !dtype_size(dtype))
		return 2;
	const void *data = st.st_size ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0) : "";
	double reading = 1e9, computing = 1e9;
	uint64_t sum = 0;
	for (int i = 0; i <= repeat; i++) {
		const double begin = now();
		sum += repeat ? read_once(data, (size_t)st.st_size / 8) : 0;
		const double middle = now();
		statistics_begin(&s);
		statistics_add(&s, dtype, data, (size_t)st.st_size / dtype_size(dtype));
		const double end = now();
		reading = middle - begin < reading ? middle - begin : reading;
		computing = end - middle < computing ? end - middle : computing;
	}
	printf("%llu %llu %llu %llu %.17g %.17g %.17g\n", (unsigned long long)s.elements, (unsigned long long)s.zeros,
	       (unsigned long long)s.nans, (unsigned long long)s.infinities, s.least, s.most, statistics_mean(&s));
	if (repeat)
		printf("%.6f %.6f %llu\n", reading, computing, (unsigned long long)sum);
	return 0;
}
