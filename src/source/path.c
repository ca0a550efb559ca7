// Files, directories and what else a path may name.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "source/file.h"
#include "source/source.h"

enum { DEPTH_MAX = 8, FIFO_MS = 10000 };

static void path_walk(const char *path, int depth, const struct source_visitor *v);

static ssize_t read_fd(struct source *s, void *buffer, size_t size, struct uh_error **ret_err)
{
	for (;;) {
		ssize_t n = read(*(int *)s->ctx, buffer, size);
		if (n >= 0)
			return n;
		if (errno == EINTR)
			continue;
		*ret_err = uh_error_os(errno, "%s", s->name);
		return -1;
	}
}

struct fifo {
	int fd;
	bool seen;
};

/** A FIFO whose writer never comes, or never ends, must not hang the reader. */
static ssize_t read_fifo(struct source *s, void *buffer, size_t size, struct uh_error **ret_err)
{
	struct fifo *f = s->ctx;
	struct pollfd wait = { .fd = f->fd, .events = POLLIN };
	int ready;
	do
		ready = poll(&wait, 1, FIFO_MS);
	while (ready < 0 && errno == EINTR);
	if (ready == 0) {
		*ret_err =
			uh_error_new(f->seen ? "%s: nothing more came through this FIFO for 10 s; what came before was read" :
					       "%s: nothing came through this FIFO for 10 s",
				     s->name);
		return -1;
	}
	ssize_t n = read(f->fd, buffer, size);
	if (n < 0)
		*ret_err = uh_error_os(errno, "%s", s->name);
	f->seen |= n > 0;
	return n;
}

static int not_dots(const struct dirent *e) { return strcmp(e->d_name, ".") && strcmp(e->d_name, ".."); }

static void directory_walk(const char *path, int depth, const struct source_visitor *v)
{
	if (depth >= DEPTH_MAX) {
		v->problem(v->ctx, uh_error_new("%s: more than %d directories deep; not read", path, DEPTH_MAX));
		return;
	}
	struct dirent **names;
	int n = scandir(path, &names, not_dots, alphasort);
	if (n < 0) {
		v->problem(v->ctx, uh_error_os(errno, "%s", path));
		return;
	}
	bool any = false;
	for (int i = 0; i < n; i++) {
		struct text below = { 0 };
		text_printf(&below, "%s%s%s", path, str_ends(str_z(path), S("/")) ? "" : "/", names[i]->d_name);
		struct stat st;
		// Links are not followed inside a directory: they may lead round in circles, or out of a bundle.
		if (!lstat(below.p, &st) && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) {
			any = true;
			path_walk(below.p, depth + 1, v);
		}
		text_free(&below);
		free(names[i]);
	}
	free(names);
	if (!any && !depth) // one inside another is no news
		v->problem(v->ctx, uh_error_new("%s: there is no file in this directory", path));
}

static void regular_file(const char *path, int fd, const struct stat *st, const struct source_visitor *v)
{
	char head[512];
	ssize_t n = pread(fd, head, sizeof(head), 0);
	struct str start = { head, n > 0 ? (size_t)n : 0 };
	if (n < 0) {
		v->problem(v->ctx, uh_error_os(errno, "%s", path));
	} else if (!n) {
		v->problem(v->ctx, uh_error_new("%s: the file is empty", path));
	} else if (str_starts(start, S("LPKSHHRH"))) {
		struct uh_error *err = source_journal_file(path, v);
		if (err)
			v->problem(v->ctx, err);
	} else if (source_is_archive(start)) {
		source_archive(path, fd, v);
	} else {
		struct source s = {
			.name = path, .fd = st->st_size ? fd : -1, .size = (uint64_t)st->st_size, .read = read_fd, .ctx = &fd
		};
		v->visit(v->ctx, &s);
	}
}

static void path_walk(const char *path, int depth, const struct source_visitor *v)
{
	struct stat st;
	const char *acting = source_acting_filesystem(path);
	if (stat(path, &st)) {
		v->problem(v->ctx, uh_error_os(errno, "%s", path));
		return;
	}
	if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 11)) {
		struct uh_error *err = source_kmsg(path, v);
		if (err)
			v->problem(v->ctx, err);
		return;
	}
	if (acting && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) {
		v->problem(v->ctx,
			   uh_error_new("%s: a file of %s; reading such files may act on the driver, so it was not read", path,
					acting));
		return;
	}
	if (S_ISDIR(st.st_mode)) {
		directory_walk(path, depth, v);
		return;
	}
	if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode)) {
		v->problem(v->ctx, uh_error_new("%s: neither a file nor a directory", path));
		return;
	}
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st)) {
		v->problem(v->ctx, uh_error_os(errno, "%s", path));
	} else if (S_ISFIFO(st.st_mode)) {
		struct fifo f = { .fd = fd };
		struct source s = { .name = path, .fd = -1, .read = read_fifo, .ctx = &f };
		v->visit(v->ctx, &s);
	} else if (S_ISREG(st.st_mode)) {
		regular_file(path, fd, &st, v);
	} else {
		v->problem(v->ctx, uh_error_new("%s: has changed its kind while it was opened", path));
	}
}

void source_path(const char *path, const struct source_visitor *v)
{
	if (!strcmp(path, "-"))
		source_archive("-", STDIN_FILENO, v);
	else
		path_walk(path, 0, v);
}

/** Every file that is a dmesg by its name, in @directory and the ones in it. */
static void crash_directory(const char *directory, int depth, const struct source_visitor *v)
{
	struct dirent **names;
	int n = scandir(directory, &names, not_dots, alphasort);
	for (int i = 0; i < n; i++) {
		struct text path = { 0 };
		text_printf(&path, "%s/%s", directory, names[i]->d_name);
		// pstore's own files are plain copies of what the crash left; reading them changes nothing.
		_cleanup_close_ int fd = open(path.p, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
		struct stat st;
		if (fd >= 0 && !fstat(fd, &st)) {
			if (S_ISDIR(st.st_mode) && depth)
				crash_directory(path.p, depth - 1, v);
			else if (S_ISREG(st.st_mode) && strstr(names[i]->d_name, "dmesg"))
				regular_file(path.p, fd, &st, v);
		}
		text_free(&path);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
}

void source_crash_files(const char *root, const struct source_visitor *v)
{
	// systemd-pstore empties /sys/fs/pstore into /var/lib; kdump writes beside its vmcore.
	static const char *const places[] = { "/var/lib/systemd/pstore", "/sys/fs/pstore", "/var/crash" };
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct text directory = { 0 };
		text_printf(&directory, "%s%s", root, places[i]);
		crash_directory(directory.p, 2, v);
		text_free(&directory);
	}
}
