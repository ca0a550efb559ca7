// Files that the job leaves: cores, which --cores keep asks for, and checkpoints. The kernel writes cores where core_pattern says. Of a plain
// name that is the directory of the process, which is mostly ours: from there they are brought to the other files of the try.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/save.h"
#include "job/supervisor.h"

// Cores of the job's processes, which --cores keep asks for. The kernel writes them where core_pattern says. Of a plain name that is the
// directory of the process, which is mostly ours: from there they are brought to the other files of the try.

enum { CORE_SHARE = 4 }; // of what is free, a core may have at most the fourth part

uint64_t cores_most(const struct supervisor *s)
{
	struct statvfs fs;
	if (s->options->cores == UH_CORES_OFF)
		return 0;
	return statvfs(s->directory, &fs) ? UINT64_MAX : (uint64_t)fs.f_bavail * fs.f_frsize / CORE_SHARE;
}

/** The name that the kernel gives to the core of a process; empty: it goes to a program, to another place, or has a name that only the
 * kernel can fill in. */
static struct str core_name(struct arena *a, pid_t pid)
{
	char room[256], uses[8];
	struct str pattern = str_trim(small_file("/proc/sys/kernel/core_pattern", room, sizeof(room)));
	const bool with_pid = str_is(str_trim(small_file("/proc/sys/kernel/core_uses_pid", uses, sizeof(uses))), "1");
	const ptrdiff_t at = str_find(pattern, S("%p"));
	struct str rest = at < 0 ? (struct str){ 0 } : str_from(pattern, (size_t)at + 2);
	if (!pattern.n || str_find(pattern, S("|")) == 0 || str_find(pattern, S("/")) >= 0)
		return (struct str){ 0 };
	if (str_find(str_cut(pattern, at < 0 ? pattern.n : (size_t)at), S("%")) >= 0 || str_find(rest, S("%")) >= 0)
		return (struct str){ 0 };
	if (at >= 0)
		return arena_printf(a, STR_FMT "%d" STR_FMT, STR_ARG(str_cut(pattern, (size_t)at)), (int)pid, STR_ARG(rest));
	return with_pid ? arena_printf(a, STR_FMT ".%d", STR_ARG(pattern), (int)pid) : arena_str(a, pattern);
}

void cores_collect(const struct supervisor *s, struct job_try *a)
{
	struct stat st;
	for (size_t i = 0; s->options->cores == UH_CORES_KEEP && i < a->dumped.n; i++) {
		const struct str from = core_name(s->arena, (pid_t)a->dumped.list[i]);
		const char *to =
			arena_printf(s->arena, "%s/" JOB_PROCESS_CORE "%lld", a->directory, (long long)a->dumped.list[i]).p;
		// One that lay there before the job is none of ours.
		if (from.n && !lstat(from.p, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
		    st.st_mtim.tv_sec >= a->told->began / 1000)
			(void)!rename(from.p, to); // on another file system it stays where it is
	}
}

static bool light_copy(int from, int to)
{
	enum { PIECE = 8 << 10 };
	char room[PIECE];
	ssize_t n;
	while ((n = read(from, room, sizeof(room))) > 0)
		if (!write_all(to, (struct str){ room, (size_t)n }))
			return false;
	return !n;
}

/** The recorder's cores go with the recordings; without them an explanation later would know less than this one. They are some megabytes. */
static void cores_keep_light(const struct supervisor *s, const struct job_try *a)
{
	enum { MOST = 16 << 20 };
	_cleanup_dir_ DIR *d = opendir(s->recordings);
	struct stat st;
	for (const char *name; (name = dir_next(d));) {
		const struct str core = str_z(name);
		if (!str_ends(core, S(".gpucore")))
			continue;
		const struct str stem = str_cut(core, core.n - strlen(".gpucore"));
		const char *to = arena_printf(s->arena, "%s/" JOB_CORE STR_FMT ".light", a->directory, STR_ARG(stem)).p;
		_cleanup_close_ int from = openat(dirfd(d), name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (from < 0 || fstat(from, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_size > MOST)
			continue;
		_cleanup_close_ int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd >= 0 && !light_copy(from, fd))
			unlink(to);
	}
}

void cores_drop(const struct supervisor *s, const struct job_try *a)
{
	_cleanup_dir_ DIR *d = s->options->cores == UH_CORES_KEEP ? NULL : opendir(a->directory);
	for (const char *name; (name = dir_next(d));)
		if (str_starts(str_z(name), S(JOB_CORE)))
			unlinkat(dirfd(d), name, 0);
	if (d && s->options->cores != UH_CORES_OFF && s->recordings)
		cores_keep_light(s, a);
}

// The checkpoint that the next try would go on from, and what the work since then was worth.

void checkpoint_find(const char *pattern, struct arena *a, struct run_try *t)
{
	glob_t found;
	int64_t best = -1;
	if (!pattern || glob(pattern, GLOB_NOSORT, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct stat st;
		if (stat(found.gl_pathv[i], &st))
			continue;
		const int64_t written = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
		if (written <= best)
			continue;
		best = written;
		t->checkpoint = arena_str(a, str_z(found.gl_pathv[i]));
	}
	globfree(&found);
	if (best < 0 || t->ran_ms < 0)
		return;
	// One that is older than the try: all of the try was lost.
	const int64_t since = t->began + t->ran_ms - best;
	t->lost_ms = since < 0 ? 0 : since < t->ran_ms ? since : t->ran_ms;
}
