#include "source/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "source/probe.h"

enum { DEADLINE_MS = 5000 };

struct uh_error *process_memory(int64_t pid, uint64_t address, uint64_t size, char **ret)
{
	char path[64];
	_cleanup_arena_ struct arena a = { 0 };
	struct probe p = { .kind = PROBE_READ, .path = path, .offset = address, .size = (size_t)size };
	struct probe_count count = { 0 };
	struct uh_error *err = NULL;
	snprintf(path, sizeof(path), "/proc/%lld/mem", (long long)pid);
	probe_run(&a, &p, 1, DEADLINE_MS, NULL, &count);
	if (p.end == PROBE_STUCK || p.end == PROBE_NOT_MADE) {
		err = uh_error_new("process %lld: its memory could not be read in %d s; it may be stuck in the driver",
				   (long long)pid, DEADLINE_MS / 1000);
	} else if (p.end != PROBE_GOOD || p.n != size) {
		err = uh_error_new("process %lld: its memory at 0x%llx could not be read (it must be yours, or use root; is "
				   "it still there?)",
				   (long long)pid, (unsigned long long)address);
	} else {
		*ret = mem_large(size + 1);
		memcpy(*ret, p.data, size);
	}
	return err;
}

struct str small_file(const char *path, char *room, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	size_t n = 0;
	ssize_t more;
	while (fd >= 0 && n < size && ((more = read(fd, room + n, size - n)) > 0 || (more < 0 && errno == EINTR)))
		n += more > 0 ? (size_t)more : 0;
	return (struct str){ room, n };
}

struct str process_file(int64_t pid, const char *name, char *room, size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%lld/%s", (long long)pid, name);
	return small_file(path, room, size);
}

bool process_owner(int64_t pid, uid_t *ret)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%lld", (long long)pid);
	if (stat(path, &st))
		return false;
	*ret = st.st_uid;
	return true;
}

bool environ_value(struct str environ, struct str name, struct str *ret)
{
	while (environ.n)
		if (str_behind(str_split(&environ, '\0'), name, ret))
			return true;
	return false;
}

bool process_stat_parse(struct str text, struct process_stat *ret)
{
	enum { STATE = 0, PARENT = 1, SESSION = 3, UTIME = 11, STIME = 12, THREADS = 17, BEGAN = 19, WORDS = 20 };
	int64_t numbers[WORDS] = { 0 };
	ptrdiff_t begin = str_find(text, S("("));
	size_t end = text.n;
	while (end && text.p[end - 1] != ')')
		end--;
	if (begin < 0 || end < (size_t)begin + 2)
		return false;
	*ret = (struct process_stat){ 0 };
	str_copy(ret->name, sizeof(ret->name), str_cut(str_from(text, (size_t)begin + 1), end - (size_t)begin - 2));
	struct str rest = str_from(text, end), state = str_word(&rest);
	for (size_t i = PARENT; i < WORDS; i++)
		if (!str_number(str_word(&rest), &numbers[i]) && i <= BEGAN)
			return false;
	ret->state = state.n == 1 ? state.p[0] : '?';
	ret->parent = numbers[PARENT];
	ret->session = numbers[SESSION];
	ret->threads = numbers[THREADS];
	ret->cpu = (uint64_t)numbers[UTIME] + (uint64_t)numbers[STIME];
	ret->began = (uint64_t)numbers[BEGAN];
	return state.n == 1;
}

bool process_numbers_shared(void)
{
	// The kernel gives this number to the namespace that it makes at boot (PROC_PID_INIT_INO).
	static const struct str first = { "pid:[4026531836]", sizeof("pid:[4026531836]") - 1 };
	char room[64];
	const char *said = getenv("UNHANG_CONTAINER");
	const ssize_t n = readlink("/proc/self/ns/pid", room, sizeof(room));
	return (said && !strcmp(said, "no")) || (n > 0 && str_eq((struct str){ room, (size_t)n }, first));
}
