// Old runs go, but nothing that somebody else put beside their files: only what unhang writes into the directory of a run is removed. It is found
// by descriptors, so that no link leads elsewhere.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>

#include "base/save.h"
#include "job/parts.h"
#include "store/store.h"

enum { RUNS_KEPT = 64 };

/** What unhang writes. */
struct own_name {
	const char *name;
	bool begins; // it goes on
};
static const struct own_name of_run[] = { { "run" }, { "report.json" }, { RECORDINGS_BEGIN, true }, { 0 } };
static const struct own_name of_try[] = {
	{ STORE_BUNDLE },
	{ STORE_BUNDLE ".partial", true }, // a capture that was killed
	{ STORE_DIAGNOSIS },
	{ STORE_TEXT },
	{ JOB_OUTPUT },
	{ JOB_CONTAINER },
	{ JOB_AGENT_FILE },
	{ JOB_INPUTS },
	{ JOB_CORE, true },
	{ JOB_PROCESS_CORE, true },
	{ 0 },
};

static bool is_own(const struct own_name *list, struct str name)
{
	for (; list->name; list++)
		if (list->begins ? str_starts(name, str_z(list->name)) : str_is(name, list->name))
			return true;
	return false;
}

/** A file, or a directory with all that is in it. */
static void remove_at(int dir, const char *name)
{
	if (!unlinkat(dir, name, 0))
		return;
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		remove_below(fd);
	unlinkat(dir, name, AT_REMOVEDIR);
}

static void remove_own(int dir, const struct own_name *names, const struct own_name *below)
{
	const int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);
	for (const struct own_name *n = names; n->name; n++)
		save_left_over(dir, n->name, true);
	for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
		int64_t number;
		if (is_own(names, str_z(e->d_name))) {
			remove_at(dir, e->d_name);
		} else if (below && str_number(str_z(e->d_name), &number)) {
			_cleanup_close_ int fd = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (fd >= 0)
				remove_own(fd, below, NULL);
			unlinkat(dir, e->d_name, AT_REMOVEDIR);
		}
	}
	if (d)
		closedir(d);
	else if (again >= 0)
		close(again);
}

static int newest_first(const void *a, const void *b)
{
	const struct old_run *x = a, *y = b;
	return x->began < y->began ? 1 : x->began > y->began ? -1 : 0;
}

void prune(int state, struct old_run *list, size_t n)
{
	if (n)
		qsort(list, n, sizeof(*list), newest_first);
	for (size_t i = RUNS_KEPT; i < n; i++) {
		_cleanup_close_ int fd = disk_open_believed(state, list[i].name, O_DIRECTORY);
		if (fd < 0 ||
		    (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)) // a job of this name was just started again
			continue;
		remove_own(fd, of_run, of_try);
		unlinkat(state, list[i].name, AT_REMOVEDIR);
	}
}
