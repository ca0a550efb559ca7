// A mount that stops answering: silent_mount MOUNTPOINT SOURCE OPERATION [NAME [COUNT TARGET]]
//
// Shows the files of SOURCE. A request for OPERATION (getattr, statfs, open, create, read, opendir, readdir, flush; late: a read behind the first
// 64 KB) of a path that contains NAME is never answered, as by a server that is gone. OPERATION slow: each read is answered with at most
// 4 KB, 20 ms late. OPERATION swap: such a path is a file the first COUNT times that it is asked for, and a link to TARGET from then on.
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

struct mount {
	const char *source, *operation, *name, *target;
	_Atomic int left; // how often what is swapped is still a file
};

static struct mount *mount_of(void) { return fuse_get_context()->private_data; }

/** Does not return where this is what is not answered. */
static void maybe_silent(const char *operation, const char *path)
{
	struct mount *m = mount_of();
	while (!strcmp(operation, m->operation) && (!m->name || strstr(path, m->name)))
		pause();
}

static void real_path(const char *path, char *to) { snprintf(to, PATH_MAX, "%s%s", mount_of()->source, path); }

static int do_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	char real[PATH_MAX];
	(void)fi;
	maybe_silent("getattr", path);
	real_path(path, real);
	if (lstat(real, st))
		return -errno;
	struct mount *m = mount_of();
	if (m->target && strstr(path, m->name) && m->left-- <= 0) {
		st->st_mode = S_IFLNK | 0777;
		st->st_size = (off_t)strlen(m->target);
	}
	return 0;
}

static int do_readlink(const char *path, char *to, size_t size)
{
	(void)path;
	snprintf(to, size, "%s", mount_of()->target ? mount_of()->target : "");
	return 0;
}

static int do_open(const char *path, struct fuse_file_info *fi)
{
	char real[PATH_MAX];
	maybe_silent("open", path);
	real_path(path, real);
	int fd = open(real, O_RDONLY);
	fi->fh = (uint64_t)fd;
	fi->direct_io = 1;
	return fd < 0 ? -errno : 0;
}

/** Of a file or a directory; nothing is made. */
static int do_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	(void)mode;
	(void)fi;
	maybe_silent("create", path);
	return -EROFS;
}

static int do_mkdir(const char *path, mode_t mode) { return do_create(path, mode, NULL); }

static int do_read(const char *path, char *to, size_t size, off_t offset, struct fuse_file_info *fi)
{
	maybe_silent("read", path);
	if (offset >= 1 << 16)
		maybe_silent("late", path);
	if (!strcmp(mount_of()->operation, "slow")) {
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
		size = size < 4096 ? size : 4096;
	}
	ssize_t n = pread((int)fi->fh, to, size, offset);
	return n < 0 ? -errno : (int)n;
}

static int do_flush(const char *path, struct fuse_file_info *fi)
{
	(void)fi;
	maybe_silent("flush", path);
	return 0;
}

static int do_release(const char *path, struct fuse_file_info *fi)
{
	(void)path;
	return close((int)fi->fh) ? -errno : 0;
}

static int do_opendir(const char *path, struct fuse_file_info *fi)
{
	(void)fi;
	maybe_silent("opendir", path);
	return 0;
}

static int do_readdir(const char *path, void *to, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *fi,
		      enum fuse_readdir_flags flags)
{
	char real[PATH_MAX];
	(void)offset;
	(void)fi;
	(void)flags;
	maybe_silent("readdir", path);
	real_path(path, real);
	DIR *list = opendir(real);
	if (!list)
		return -errno;
	for (struct dirent *e = readdir(list); e; e = readdir(list))
		fill(to, e->d_name, NULL, 0, 0);
	closedir(list);
	return 0;
}

static int do_statfs(const char *path, struct statvfs *st)
{
	maybe_silent("statfs", path);
	return statvfs(mount_of()->source, st) ? -errno : 0;
}

static void *do_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
	(void)connection;
	config->attr_timeout = config->entry_timeout = config->negative_timeout = 0;
	return (void *)mount_of();
}

int main(int argc, char **argv)
{
	static const struct fuse_operations operations = { .init = do_init,
							   .getattr = do_getattr,
							   .readlink = do_readlink,
							   .open = do_open,
							   .create = do_create,
							   .mkdir = do_mkdir,
							   .read = do_read,
							   .flush = do_flush,
							   .release = do_release,
							   .opendir = do_opendir,
							   .readdir = do_readdir,
							   .statfs = do_statfs };
	if (argc < 4)
		return fprintf(stderr, "usage: silent_mount MOUNTPOINT SOURCE OPERATION [NAME]\n"), 2;
	struct mount m = { argv[2], argv[3], argc > 4 ? argv[4] : NULL, argc > 6 ? argv[6] : NULL,
			   argc > 6 ? atoi(argv[5]) : 0 };
	char foreground[] = "-f", *arguments[] = { argv[0], argv[1], foreground, NULL };
	return fuse_main(3, arguments, &operations, &m);
}
