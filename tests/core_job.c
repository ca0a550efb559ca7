// A program that fails on a GPU, as far as its GPU core goes: core_job GPU-CORE HOST-CORE. It has the memory that the two files tell of at the
// same addresses, pipes the first to the handler that HSA_COREDUMP_PATTERN names, as ROCr 7.2.4 does, and aborts.
// CORE_JOB_CUT=N: it is killed behind N bytes. CORE_JOB_HOST=1: the GPU's memory cannot be read by others. CORE_JOB_PLAIN=1: its segments lie
// where the headers say. CORE_JOB_CLOSED=1: who is not root may not read it.
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 64, LENGTH = 4096, STEP = 1 << 16 };

static void die(const char *what)
{
	perror(what);
	exit(99);
}

static const char *load(const char *path, size_t *ret)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		die(path);
	const char *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		die(path);
	*ret = (size_t)st.st_size;
	return p;
}

/** @shift: how far its segments lie before their offsets. */
static void map_core(const char *core, size_t size, uint64_t shift)
{
	Elf64_Ehdr e;
	memcpy(&e, core, sizeof(e));
	for (unsigned i = 0; i < e.e_phnum; i++) {
		Elf64_Phdr p;
		memcpy(&p, core + e.e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type != PT_LOAD || !p.p_filesz || p.p_offset - shift + p.p_filesz > size)
			continue;
		void *at = mmap((void *)(uintptr_t)p.p_vaddr, p.p_memsz, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (at == MAP_FAILED)
			die("mmap");
		memcpy(at, core + p.p_offset - shift, p.p_filesz);
	}
}

/** The gap between the notes and the first segment, which ROCr does not write. */
static uint64_t gap_of(const char *core)
{
	Elf64_Ehdr e;
	Elf64_Phdr note, first;
	memcpy(&e, core, sizeof(e));
	if (e.e_phnum < 2)
		return 0;
	memcpy(&note, core + e.e_phoff, sizeof(note));
	memcpy(&first, core + e.e_phoff + sizeof(note), sizeof(first));
	return first.p_offset - note.p_offset - note.p_filesz;
}

/** Double quotes and backslashes work, %p is this process. */
static void handler(const char *pattern, int self)
{
	static char room[LENGTH], *words[WORDS];
	char *to = room;
	bool quoted = false, word = false;
	size_t n = 0;
	for (const char *p = pattern + 1; *p && to < room + LENGTH - 32 && n < WORDS - 1; p++) {
		if (*p == ' ' && !quoted) {
			*to++ = 0;
			word = false;
			continue;
		}
		if (!word)
			words[n++] = to;
		word = true;
		if (*p == '"')
			quoted = !quoted;
		else if (*p == '%' && p[1] == 'p')
			to += sprintf(to, "%d", self), p++;
		else
			*to++ = *p == '\\' && p[1] ? *++p : *p;
	}
	execvp(words[0], words);
	_exit(127);
}

static void pipe_core(const char *core, size_t size, const char *pattern)
{
	const char *cut = getenv("CORE_JOB_CUT");
	const size_t end = cut && strtoul(cut, NULL, 10) < size ? strtoul(cut, NULL, 10) : size;
	const int self = getpid();
	int ends[2];
	if (pipe(ends))
		die("pipe");
	pid_t child = fork();
	if (!child) {
		dup2(ends[0], STDIN_FILENO);
		close(ends[0]);
		close(ends[1]);
		handler(pattern, self);
	}
	close(ends[0]);
	for (size_t at = 0; at < end;) {
		ssize_t n = write(ends[1], core + at, end - at < STEP ? end - at : STEP);
		if (n < 0)
			die("write");
		at += (size_t)n;
	}
	if (end < size)
		raise(SIGKILL);
	close(ends[1]);
	waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	size_t gpu_size, host_size;
	const char *pattern = getenv("HSA_COREDUMP_PATTERN");
	const int now = personality(0xffffffff);
	if (argc != 3)
		return 99;
	if (!(now & ADDR_NO_RANDOMIZE) && personality((unsigned long)now | ADDR_NO_RANDOMIZE) >= 0)
		execv(argv[0], argv);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	const char *gpu = load(argv[1], &gpu_size), *host = load(argv[2], &host_size);
	const uint64_t gap = getenv("CORE_JOB_PLAIN") ? 0 : gap_of(gpu);
	map_core(host, host_size, 0);
	if (!getenv("CORE_JOB_HOST"))
		map_core(gpu, gpu_size, gap);
	if (getenv("CORE_JOB_CLOSED"))
		prctl(PR_SET_DUMPABLE, 0);
	puts("before");
	fflush(stdout);
	if (pattern && pattern[0] == '|')
		pipe_core(gpu, gpu_size - gap, pattern); // it is as much shorter than its headers say
	fputs("Memory access fault by GPU node-1\n", stderr);
	abort();
}
