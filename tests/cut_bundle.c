// cut_bundle FILE STEP FLIPS SEED: opens FILE, of which this program makes a copy, cut at every STEPth byte of its first megabyte; then as often as
// FLIPS says with some bytes changed. Each must be opened, or refused with one line, or be no bundle. Says how many were what.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <unhang/unhang.h>

enum { MOST = 1 << 20, CHANGES = 8 };

struct tried {
	unsigned long opened, refused, other, wrong; // other: it is not taken for a bundle
};

static void try_it(const char *path, struct tried *t)
{
	struct uh_machine *m = NULL;
	struct uh_error *err = uh_machine_open(path, &m);
	const char *said = err ? uh_error_message(err) : "";
	t->wrong += err && (!*said || strchr(said, '\n') || m);
	if (m)
		t->opened++;
	else if (err)
		t->refused++;
	else
		t->other++;
	uh_error_free(err);
	uh_machine_free(m);
}

static char *whole(const char *path, size_t *ret)
{
	FILE *f = fopen(path, "rb");
	char *bytes = malloc(64 << 20);
	*ret = f && bytes ? fread(bytes, 1, 64 << 20, f) : 0;
	if (f)
		fclose(f);
	return bytes;
}

static void tell(const char *what, const struct tried *t)
{
	printf("{\"what\": \"%s\", \"opened\": %lu, \"refused\": %lu, \"other\": %lu, \"wrong\": %lu}\n", what, t->opened,
	       t->refused, t->other, t->wrong);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char path[] = "/tmp/unhang-cut-XXXXXX";
	size_t n = 0;
	if (argc != 5)
		return 2;
	char *bytes = whole(argv[1], &n);
	const long step = atol(argv[2]), flips = atol(argv[3]);
	int fd = mkstemp(path);
	if (fd < 0 || !n || step < 1 || write(fd, bytes, n) != (ssize_t)n)
		return 2;
	struct tried cut = { 0 }, flipped = { 0 };
	for (long at = (long)(n < MOST ? n : MOST) - 1; at >= 0 && !ftruncate(fd, at); at -= step)
		try_it(path, &cut);
	tell("cut", &cut);
	srandom((unsigned)atol(argv[4]));
	for (long i = 0; i < flips; i++) {
		size_t places[CHANGES];
		if (pwrite(fd, bytes, n, 0) != (ssize_t)n)
			return 2;
		for (int k = 0; k < CHANGES; k++) {
			places[k] = (size_t)random() % (k % 2 ? n : n < 4096 ? n : 4096);
			char changed = (char)random();
			if (pwrite(fd, &changed, 1, (off_t)places[k]) != 1)
				return 2;
		}
		try_it(path, &flipped);
	}
	tell("changed", &flipped);
	unlink(path);
	close(fd);
	free(bytes);
	return cut.wrong || flipped.wrong;
}
