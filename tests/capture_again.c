// capture_again DIRECTORY N: captures N times in one process, as a program does that has the library. Says after five of them and at the end
// how many descriptors, children and kilobytes the process has, and how many files are in the directory.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <unhang/unhang.h>

static void problem(void *ctx, const char *message)
{
	(void)ctx;
	fprintf(stderr, "%s\n", message);
}

static unsigned entries(const char *path)
{
	unsigned n = 0;
	DIR *d = opendir(path);
	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static long kilobytes(void)
{
	long pages = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (f && fscanf(f, "%ld %ld", &pages, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/** The door's child stays: it serves the next one. */
static unsigned children(void)
{
	char path[64];
	unsigned n = 0;
	int pid;
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	FILE *f = fopen(path, "r");
	while (f && fscanf(f, "%d", &pid) == 1)
		n++;
	if (f)
		fclose(f);
	return n;
}

static void tell(const char *directory)
{
	printf("{\"descriptors\": %u, \"children\": %u, \"kilobytes\": %ld, \"files\": %u}\n", entries("/proc/self/fd"),
	       children(), kilobytes(), entries(directory) - 2);
}

int main(int argc, char **argv)
{
	enum { SETTLED = 5 };
	char file[512];
	FILE *nowhere = fopen("/dev/null", "w");
	if (argc != 3 || !nowhere)
		return 2;
	const int n = atoi(argv[2]);
	snprintf(file, sizeof(file), "%s/bundle.tar.zst", argv[1]);
	for (int i = 1; i <= n; i++) {
		unlink(file);
		struct uh_error *err = uh_capture(&(struct uh_capture_options){ .file = file }, nowhere, problem, NULL);
		if (err) {
			fprintf(stderr, "%d: %s\n", i, uh_error_message(err));
			return 1;
		}
		if (i == SETTLED || i == n)
			tell(argv[1]);
	}
	fclose(nowhere);
	return 0;
}
