#include "source/probe_stuck.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { PAGE = 4096 };

/** A file of the child's in /proc, read here: none of these waits for the child. */
static struct str of_child(struct arena *a, int pid, const char *name)
{
	char path[64], text[PAGE];
	str_copy(path, sizeof(path), arena_printf(a, "/proc/%d/%s", pid, name));
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	return n < 0 ? (struct str){ 0 } : arena_str(a, str_trim((struct str){ text, (size_t)n }));
}

bool probe_in_state(struct arena *a, int pid, struct str state)
{
	struct str status = of_child(a, pid, "status");
	ptrdiff_t at = str_find(status, S("State:"));
	return at >= 0 && str_starts(str_trim(str_from(status, (size_t)at + 6)), state);
}

/** `[<0>] mutex_lock+0x30/0x40` is mutex_lock. */
static struct str functions_of(struct arena *a, struct str stack)
{
	struct str ret = { 0 };
	while (stack.n) {
		struct str line = str_split(&stack, '\n');
		ptrdiff_t at = str_find(line, S("] "));
		line = str_trim(at < 0 ? line : str_from(line, (size_t)at + 2));
		struct str function = str_split(&line, '+');
		ret = arena_printf(a, STR_FMT "%s" STR_FMT, STR_ARG(ret), ret.n ? "\n" : "", STR_ARG(function));
	}
	return ret;
}

void probe_where_stuck(struct arena *a, int pid, const char *path, struct probe_stuck *ret)
{
	*ret = (struct probe_stuck){ .is = true, .at = arena_str(a, str_z(path)) };
	if (!pid)
		return;
	ret->uninterruptible = probe_in_state(a, pid, S("D"));
	ret->stack = functions_of(a, of_child(a, pid, "stack"));
	ret->wchan = of_child(a, pid, "wchan");
	if (str_is(ret->wchan, "0"))
		ret->wchan = (struct str){ 0 };
}
