// The emulated machine is a mount namespace: FUSE lies over /sys, and parts of it over their places in /proc and in a /dev that is made
// anew. It is put together in a child, because mounts wait for the server, which is this process.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "emulator/namespace.h"

/** Of the real machine. */
static const char *const nodes_kept[] = { "null", "zero", "full", "random", "urandom", "tty", "fuse", "pts", "shm", "mqueue" };
static const struct {
	const char *from, *to;
} mounts_kept[] = { { "/sys/devices/system", "/sys/devices/system" }, { "/sys/fs/cgroup", "/sys/fs/cgroup" } };

enum { NODES = ARRAY_SIZE(nodes_kept), MOUNTS = ARRAY_SIZE(mounts_kept) };

struct kept {
	int nodes[NODES], mounts[MOUNTS]; // detached mounts; -1: there is none
};

// The C library has this and move_mount() since glibc 2.36, and packages are for 2.34.
static int detach(const char *path)
{
	return (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
}

static bool write_file(const char *path, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

bool namespace_as_user(void)
{
	char line[64];
	unsigned uid = getuid(), gid = getgid();
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return false;
	snprintf(line, sizeof(line), "0 %u 1", uid);
	bool ok = write_file("/proc/self/setgroups", "deny") && write_file("/proc/self/uid_map", line);
	snprintf(line, sizeof(line), "0 %u 1", gid);
	return ok && write_file("/proc/self/gid_map", line);
}

struct uh_error *namespace_enter(struct kept **ret_kept, int *ret_fuse)
{
	char options[96];
	if (unshare(CLONE_NEWNS) && !namespace_as_user())
		return uh_error_os(errno, "no mount namespace can be had, neither as root nor in a user namespace");
	// The kernel wants it opened in the user namespace that mounts it.
	_cleanup_close_ int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fuse < 0)
		return uh_error_os(errno, "/dev/fuse: the emulated machine is made with FUSE");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return uh_error_os(errno, "mounts cannot be made private");
	struct kept *k = mem_alloc(sizeof(*k));
	for (size_t i = 0; i < NODES; i++) {
		char path[64];
		snprintf(path, sizeof(path), "/dev/%s", nodes_kept[i]);
		k->nodes[i] = detach(path);
	}
	for (size_t i = 0; i < MOUNTS; i++)
		k->mounts[i] = detach(mounts_kept[i].from);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions", fuse);
	if (mount("unhang", "/sys", "fuse.unhang", MS_NOSUID | MS_NODEV, options)) {
		int error = errno;
		kept_free(k);
		return uh_error_os(error, "/sys: FUSE cannot be mounted");
	}
	*ret_kept = k;
	*ret_fuse = fuse;
	fuse = -1;
	return NULL;
}

void kept_free(struct kept *k)
{
	if (!k)
		return;
	for (size_t i = 0; i < NODES; i++)
		cleanup_close(&k->nodes[i]);
	for (size_t i = 0; i < MOUNTS; i++)
		cleanup_close(&k->mounts[i]);
	free(k);
}

static struct uh_error *place(int tree, const char *to)
{
	if (tree >= 0 && syscall(SYS_move_mount, tree, "", AT_FDCWD, to, MOVE_MOUNT_F_EMPTY_PATH))
		return uh_error_os(errno, "%s", to);
	return NULL;
}

/** Something to mount over. */
static void make(const char *path, bool directory)
{
	if (directory)
		mkdir(path, 0755);
	else
		cleanup_close(&(int){ open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644) });
}

static struct uh_error *furnish_dev(struct kept *k, int dri, int kmsg, int kfd)
{
	static const char *const links[][2] = { { "/proc/self/fd", "/dev/fd" },
						{ "/proc/self/fd/0", "/dev/stdin" },
						{ "/proc/self/fd/1", "/dev/stdout" },
						{ "/proc/self/fd/2", "/dev/stderr" },
						{ "pts/ptmx", "/dev/ptmx" } };
	struct uh_error *err = NULL;
	if (mount("unhang", "/dev", "tmpfs", MS_NOSUID, "mode=755,size=1m"))
		return uh_error_os(errno, "/dev");
	for (size_t i = 0; i < NODES && !err; i++) {
		char path[64];
		struct stat st;
		if (k->nodes[i] < 0 || fstat(k->nodes[i], &st))
			continue;
		snprintf(path, sizeof(path), "/dev/%s", nodes_kept[i]);
		make(path, S_ISDIR(st.st_mode));
		err = place(k->nodes[i], path);
	}
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		(void)!symlink(links[i][0], links[i][1]);
	const struct {
		const char *path;
		int tree;
		bool directory;
	} emulated[] = { { "/dev/dri", dri, true }, { "/dev/kmsg", kmsg, false }, { "/dev/kfd", kfd, false } };
	for (size_t i = 0; i < ARRAY_SIZE(emulated) && !err; i++) {
		if (emulated[i].tree < 0)
			continue;
		make(emulated[i].path, emulated[i].directory);
		err = place(emulated[i].tree, emulated[i].path);
	}
	return err;
}

/** What /proc shows of a process's open files is the kernel's, which knows of no GPU here. */
static void furnish_clients(const struct server *s)
{
	for (size_t i = 0; i < emu_processes(s->machine); i++) {
		char from[64], to[64];
		int pid = emu_process_pid(emu_process(s->machine, i));
		snprintf(from, sizeof(from), "/sys/proc/fdinfo/%d", pid);
		snprintf(to, sizeof(to), "/proc/%d/fdinfo", pid);
		_cleanup_close_ int tree = detach(from);
		uh_error_free(place(tree, to));
	}
}

/** The emulated machine has no log of the real one, and none of what unhang knows of it. */
static void hide_logs(void)
{
	static const char *const places[] = { "/var/log/journal", "/run/log/journal", "/var/crash", "/var/lib/systemd/coredump",
					      "/run/unhang" };
	mkdir("/run/unhang", 0755);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		mount("unhang", places[i], "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m");
}

struct uh_error *namespace_furnish(const struct server *s, struct kept *k)
{
	_cleanup_close_ int sys = detach("/sys/sys"), dri = detach("/sys/dev/dri"), kmsg = detach("/sys/dev/kmsg"),
			    kfd = detach("/sys/dev/kfd"), interrupts = detach("/sys/proc/interrupts"),
			    uptime = detach("/sys/proc/uptime"), release = detach("/sys/proc/osrelease"),
			    version = detach("/sys/proc/version"), modules = detach("/sys/proc/modules");
	if (sys < 0 || dri < 0 || kmsg < 0 || interrupts < 0 || uptime < 0)
		return uh_error_os(errno, "the emulated files cannot be reached");
	struct uh_error *err = furnish_dev(k, dri, kmsg, kfd);
	furnish_clients(s);
	if (!err)
		err = place(interrupts, "/proc/interrupts");
	if (!err)
		err = place(uptime, "/proc/uptime");
	if (!err)
		err = place(release, "/proc/sys/kernel/osrelease");
	if (!err)
		err = place(version, "/proc/version");
	if (!err && !access("/proc/modules", F_OK)) // not every kernel has modules, and nothing can be added to /proc
		err = place(modules, "/proc/modules");
	if (!err)
		err = place(sys, "/sys");
	hide_logs();
	for (size_t i = 0; i < MOUNTS && !err; i++)
		err = place(k->mounts[i], mounts_kept[i].to);
	return err;
}
