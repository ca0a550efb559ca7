// A process that computes, without a GPU: queues as ROCm's runtime keeps them, with the list of code objects that it keeps for debuggers.
//
//     queue_process OBJECT OFFSET [moves]
//
// loads the code object, fills queue 0 with dispatches of the kernel whose descriptor lies at OFFSET of it, and queue 1 with a barrier;
// prints where all of it is, and waits. With `moves` queue 0 goes on.
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RING = 4096, WRITE_INDEX = 0x38, READ_INDEX = 0x80, QUEUE = 256, PACKETS = 3, FIRST = 130 };

struct link {
	uint64_t base;
	const char *name;
	void *ld;
	struct link *next, *previous;
};
struct debug {
	int version;
	struct link *first;
	uint64_t brk;
	int state;
	uint64_t ldbase;
};
__attribute__((visibility("default"))) struct debug _amdgpu_r_debug = { .version = 9 };

static char *room(size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

static char *load(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	char *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0), *base = room(1 << 20);
	const Elf64_Ehdr *e = (const void *)file;
	const Elf64_Phdr *p = (const void *)(file + e->e_phoff);
	for (unsigned i = 0; i < e->e_phnum; i++)
		if (p[i].p_type == PT_LOAD)
			memcpy(base + p[i].p_vaddr, file + p[i].p_offset, p[i].p_filesz);
	return base;
}

static void put(char *at, uint64_t value, size_t size) { memcpy(at, &value, size); }

static void dispatch(char *p, uint64_t kernel, uint32_t grid)
{
	put(p, 2, 2);
	put(p + 4, 64, 2);
	put(p + 6, 1, 2);
	put(p + 8, 1, 2);
	put(p + 12, grid, 4);
	put(p + 16, 1, 4);
	put(p + 20, 1, 4);
	put(p + 32, kernel, 8);
}

int main(int argc, char **argv)
{
	static struct link link;
	static char uri[512];
	char path[400];
	if (argc < 3 || !realpath(argv[1], path))
		return 2;
	prctl(PR_SET_PDEATHSIG, 9);
	char *base = load(argv[1]), *ring[2] = { room(RING), room(RING) }, *queue = room(QUEUE * 2), *signal = room(64);
	if (!base || !ring[0] || !ring[1] || !queue || !signal)
		return 2;
	snprintf(uri, sizeof(uri), "file://%s", path);
	link = (struct link){ .base = (uint64_t)base, .name = uri };
	_amdgpu_r_debug.first = &link;
	uint64_t kernel = (uint64_t)base + strtoull(argv[2], NULL, 0);
	for (unsigned i = 0; i < (argc > 3 ? RING / 64 : PACKETS); i++)
		dispatch(ring[0] + (FIRST + i) % (RING / 64) * 64, kernel, 64 * (i + 1));
	put(ring[1], 3, 2);
	put(ring[1] + 8, (uint64_t)signal, 8);
	put(signal + 8, 1, 8);
	put(queue + READ_INDEX, FIRST, 8);
	put(queue + WRITE_INDEX, FIRST + PACKETS, 8);
	put(queue + QUEUE + WRITE_INDEX, 1, 8);
	printf("%d %p %p %p %p\n", (int)getpid(), (void *)ring[0], (void *)ring[1], (void *)queue, (void *)signal);
	fflush(stdout);
	for (uint64_t i = FIRST; argc > 3; i++) {
		usleep(5000);
		put(queue + WRITE_INDEX, i + PACKETS, 8);
		put(queue + READ_INDEX, i, 8);
	}
	pause();
	return 0;
}
