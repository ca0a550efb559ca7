// Cores of the job's processes, which --cores keep asks for. The kernel writes them where core_pattern says. Of a plain name that is the
// directory of the process, which is mostly ours: from there they are brought to the other files of the try.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "job/parts.h"

enum { CORE_SHARE = 4 }; // of what is free, a core may have at most the fourth part

uint64_t cores_most(const struct supervisor *s)
{
	struct statvfs fs;
	if (s->options->cores == CORES_OFF)
		return 0;
	return statvfs(s->directory, &fs) ? UINT64_MAX : (uint64_t)fs.f_bavail * fs.f_frsize / CORE_SHARE;
}

/** The name that the kernel gives to the core of a process; empty: it goes to a program, to another place, or has a name that only the
 * kernel can fill in. */
static struct str name_of(struct arena *a, pid_t pid)
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
	for (size_t i = 0; s->options->cores == CORES_KEEP && i < a->dumped.n; i++) {
		const struct str from = name_of(s->arena, (pid_t)a->dumped.list[i]);
		const char *to =
			arena_printf(s->arena, "%s/" JOB_PROCESS_CORE "%lld", a->directory, (long long)a->dumped.list[i]).p;
		// One that lay there before the job is none of ours.
		if (from.n && !lstat(from.p, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
		    st.st_mtim.tv_sec >= a->told->began / 1000)
			(void)!rename(from.p, to); // on another file system it stays where it is
	}
}

void cores_drop(const struct supervisor *s, const struct job_try *a)
{
	DIR *d = s->options->cores == CORES_KEEP ? NULL : opendir(a->directory);
	for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
		if (!strncmp(e->d_name, JOB_CORE, strlen(JOB_CORE)))
			unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
}
