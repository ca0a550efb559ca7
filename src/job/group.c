// Control groups: memory of the host that ran out, by their counters; and, of version 2, a group of its own for each try, where one may be
// made: whoever belongs to the job is in it, whatever it did with its parents, and one word ends all of them at once.
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/save.h"
#include "job/supervisor.h"

#define GROUP_BEGINS "unhang-"
enum { FILE_ROOM = 64 << 10, SMALL = 4096, DEPTH_MOST = 32 };

/** How a version of control groups names things. */
struct group_version {
	const char *fs, *option; // file system; an option of its mount, NULL: any
	const char *events, *peak, *limit;
};
static const struct group_version versions[] = {
	{ "cgroup2", NULL, "memory.events", "memory.peak", "memory.max" },
	{ "cgroup", "memory", "memory.oom_control", "memory.max_usage_in_bytes", "memory.limit_in_bytes" },
};
enum { VERSIONS = ARRAY_SIZE(versions) };

static bool has_option(struct str options, const char *name)
{
	while (options.n)
		if (str_is(str_split(&options, ','), name))
			return true;
	return false;
}

/** Our path in the hierarchy: behind `0::`, or behind `N:...,memory,...:`. */
static struct str own_path(const struct group_version *v, struct str groups)
{
	while (groups.n) {
		struct str line = str_split(&groups, '\n'), number = str_split(&line, ':'), names = str_split(&line, ':');
		if (v->option ? has_option(names, v->option) : str_is(number, "0") && !names.n)
			return line;
	}
	return (struct str){ 0 };
}

/** A group as a directory: the path of its mount, and all of it. */
struct group_place {
	struct str mount, directory;
};

/** The directory of a path of the hierarchy, from /proc/self/mountinfo. */
static struct group_place group_place_of(struct arena *a, const struct group_version *v, struct str mounts, struct str path)
{
	while (mounts.n) {
		struct str line = str_split(&mounts, '\n'), root, at;
		const ptrdiff_t dash = str_find(line, S(" - "));
		if (dash < 0)
			continue;
		struct str behind = str_from(line, (size_t)dash + 3), fs = str_word(&behind);
		str_word(&behind); // source
		if (!str_is(fs, v->fs) || (v->option && !has_option(str_word(&behind), v->option)))
			continue;
		for (int i = 0; i < 3; i++)
			str_word(&line);
		root = str_word(&line);
		at = str_word(&line);
		if (root.n > 1 && str_starts(path, root))
			path = str_from(path, root.n);
		path = str_is(path, "/") ? (struct str){ 0 } : path;
		return (struct group_place){ at, arena_printf(a, STR_FMT "%s" STR_FMT, STR_ARG(at),
							      path.n && path.p[0] != '/' ? "/" : "", STR_ARG(path)) };
	}
	return (struct group_place){ 0 };
}

/** Where this process is in the hierarchy of a version; an empty directory: nowhere. */
static struct group_place own_place(struct arena *a, const struct group_version *v)
{
	_cleanup_free_ char *groups_room = mem_large(FILE_ROOM), *mounts_room = mem_large(FILE_ROOM);
	struct str path = own_path(v, small_file("/proc/self/cgroup", groups_room, FILE_ROOM));
	struct group_place p = { 0 };
	if (path.n)
		p = group_place_of(a, v, small_file("/proc/self/mountinfo", mounts_room, FILE_ROOM), path);
	p.mount = arena_str(a, p.mount);
	return p;
}

// --- memory that ran out ---

static int64_t number_in(struct str directory, const char *file, const char *key)
{
	char room[SMALL], path[SMALL];
	int64_t n;
	snprintf(path, sizeof(path), STR_FMT "/%s", STR_ARG(directory), file);
	struct str text = small_file(path, room, sizeof(room));
	if (!key)
		return str_number(str_trim(text), &n) ? n : -1;
	while (text.n) {
		struct str line = str_split(&text, '\n');
		if (str_is(str_word(&line), key) && str_number(str_trim(line), &n))
			return n;
	}
	return -1;
}

/** The lowest limit among the group's own and those above it, and how much was used at most of that one. */
static void read_limit(const struct group_version *v, const struct group_place *p, struct oom_figures *ret)
{
	struct str directory = p->directory;
	ret->peak = number_in(directory, v->peak, NULL);
	for (int i = 0; i < DEPTH_MOST && directory.n >= p->mount.n && directory.n; i++) {
		const int64_t limit = number_in(directory, v->limit, NULL);
		// Version 1 writes no limit as the largest number of pages.
		if (limit >= 0 && limit < INT64_MAX / 2 && (ret->limit < 0 || limit < ret->limit)) {
			ret->limit = limit;
			ret->peak = number_in(directory, v->peak, NULL);
		}
		while (directory.n && directory.p[directory.n - 1] != '/')
			directory.n--;
		directory.n -= directory.n > 0;
	}
}

static bool read_place(const struct group_version *v, const struct group_place *p, struct arena *a, struct oom_figures *ret)
{
	ret->kills = p->directory.n ? number_in(p->directory, v->events, "oom_kill") : -1;
	if (ret->kills < 0)
		return false;
	ret->group = arena_str(a, p->directory);
	read_limit(v, p, ret);
	return true;
}

void oom_read(const struct job_group *g, struct arena *a, struct oom_figures *ret)
{
	const struct group_place own = { g->mount, g->path };
	*ret = (struct oom_figures){ .kills = -1, .peak = -1, .limit = -1 };
	ret->own = read_place(&versions[0], &own, a, ret);
	// Without the memory controller in it, the job's group is counted with ours.
	for (size_t i = 0; i < VERSIONS && ret->kills < 0; i++) {
		const struct group_place ours = own_place(a, &versions[i]);
		read_place(&versions[i], &ours, a, ret);
	}
}

void oom_read_left(struct str group, struct arena *a, struct oom_figures *ret)
{
	const struct group_place noted = { group, group };
	*ret = (struct oom_figures){ .kills = -1, .peak = -1, .limit = -1 };
	for (size_t i = 0; i < VERSIONS && ret->kills < 0; i++)
		read_place(&versions[i], &noted, a, ret);
}

// --- a group of the job's own ---

void group_begin(struct job_group *g, struct arena *a, struct str name)
{
	const struct group_place own = own_place(a, &versions[0]);
	*g = (struct job_group){ .fd = -1, .mount = own.mount };
	if (!own.directory.n)
		return;
	g->path = arena_printf(a, STR_FMT "/" GROUP_BEGINS STR_FMT, STR_ARG(own.directory), STR_ARG(name));
	if (mkdir(g->path.p, 0755)) {
		g->path = (struct str){ 0 };
		return;
	}
	g->fd = open(g->path.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (g->fd < 0)
		group_end(g);
}

void group_list(const struct job_group *g, struct pid_list *to)
{
	_cleanup_free_ char *room = mem_large(FILE_ROOM);
	_cleanup_close_ int fd = g->fd < 0 ? -1 : openat(g->fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? -1 : read(fd, room, FILE_ROOM);
	struct str text = { room, n > 0 ? (size_t)n : 0 };
	for (to->n = 0; text.n && to->n < PIDS_MOST;) {
		int64_t pid;
		if (str_number(str_split(&text, '\n'), &pid) && pid > 0) // 0: a process of another namespace
			to->list[to->n++] = pid;
	}
}

void group_kill(const struct job_group *g)
{
	_cleanup_close_ int fd = g->fd < 0 ? -1 : openat(g->fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!write(fd, "1", 1);
}

static void remove_group(struct str path, bool noted)
{
	char room[SMALL];
	struct statfs fs;
	if (!path.n || path.n >= sizeof(room))
		return;
	str_copy(room, sizeof(room), path);
	_cleanup_close_ int fd = open(room, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || (noted && (fstatfs(fd, &fs) || fs.f_type != CGROUP2_SUPER_MAGIC)))
		return;
	remove_below(fd); // groups: their files go with them
	rmdir(room);
}

void group_remove_noted(struct str path, struct str run_id)
{
	struct str rest;
	if (str_behind(str_base(path), S(GROUP_BEGINS), &rest) && str_starts(rest, str_cut(run_id, GROUP_NAME)))
		remove_group(path, true);
}

void group_end(struct job_group *g)
{
	remove_group(g->path, false);
	cleanup_close(&g->fd);
	*g = (struct job_group){ .fd = -1 };
}
