// Functions of libc that lead to the kernel, put before libc's own. For /dev/kfd, render nodes and the files of sysfs about them this
// library answers; everything else goes on as if it were not there.
#undef _FILE_OFFSET_BITS // it would give one of each two functions the other's name
#include "emulator/preload/state.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#pragma GCC visibility push(default)

enum { DRM_MAJOR = 226, DESCRIPTORS_MOST = 1 << 16, DIRECTORIES_MOST = 16 };

/** What a descriptor of the program's is. */
enum { NOT_OURS, IS_KFD, IS_RENDER };         // and the GPU's number is added to the last
static uint8_t descriptors[DESCRIPTORS_MOST]; // read and written as atomics

static unsigned kind_of(int fd)
{
	return fd >= 0 && fd < DESCRIPTORS_MOST ? __atomic_load_n(&descriptors[fd], __ATOMIC_ACQUIRE) : NOT_OURS;
}

static int remember(int fd, unsigned kind)
{
	if (fd >= 0 && fd < DESCRIPTORS_MOST)
		__atomic_store_n(&descriptors[fd], (uint8_t)kind, __ATOMIC_RELEASE);
	return fd;
}

/** Of a path of a DRM device's node, its minor number; -1: it is none. An emulated machine has files in their places. */
static int minor_of(const char *path)
{
	int minor = -1;
	if (!path || sscanf(path, "/dev/dri/renderD%d", &minor) + sscanf(path, "/dev/dri/card%d", &minor) < 1)
		return -1;
	return minor;
}

static int as_node(int result, int minor, struct stat *st)
{
	if (!result && minor >= 0 && S_ISREG(st->st_mode)) {
		st->st_mode = S_IFCHR | (st->st_mode & ACCESSPERMS);
		st->st_rdev = makedev(DRM_MAJOR, (unsigned)minor);
	}
	return result;
}

static const struct plan_gpu *gpu_of(const struct kmt *t, unsigned kind)
{
	return kind >= IS_RENDER && kind - IS_RENDER < t->plan.ngpus ? &t->plan.gpus[kind - IS_RENDER] : NULL;
}

/** libc's own function, or that of the next library that was put before it. */
#define NEXT(name)                                                                                                             \
	({                                                                                                                     \
		static __typeof__(&name) found;                                                                                \
		if (!found)                                                                                                    \
			*(void **)&found = dlsym(RTLD_NEXT, #name);                                                            \
		found;                                                                                                         \
	})

// --- files ---

static bool may_be_ours(const char *path)
{
	return path && path[0] == '/' &&
	       (!strncmp(path, "/dev/kfd", 8) || !strncmp(path, "/dev/dri/", 9) || !strncmp(path, "/sys/", 5) ||
		!strcmp(path, "/proc/modules") || !strcmp(path, "/proc/self/maps") || strstr(path, "/amdgpu.ids"));
}

/** It begins when the program opens /dev/kfd or asks for its driver: who does not want to use a GPU sees the machine as it is, since unhang
 * too runs with this library. */
static struct kmt *kfd_for(const char *path)
{
	if (!may_be_ours(path))
		return NULL;
	bool asks = !strcmp(path, "/proc/modules") || !strcmp(path, "/sys/module/amdgpu/initstate");
	return !strcmp(path, "/dev/kfd") || (asks && getenv("UNHANG_KFD")) ? kfd_begin() : kfd_begun();
}

/** Whether a path is that of a device node of the emulated KFD: its kind. */
static unsigned node_of(const struct kmt *t, const char *path)
{
	char name[32];
	if (!strcmp(path, "/dev/kfd"))
		return IS_KFD;
	for (unsigned i = 0; i < t->plan.ngpus; i++) {
		snprintf(name, sizeof(name), "/dev/dri/renderD%d", t->plan.gpus[i].render);
		if (!strcmp(path, name))
			return IS_RENDER + i;
	}
	return NOT_OURS;
}

/** A text as a file that has no name. */
static int open_text(struct text *text)
{
	int fd = memfd_create("unhang-sysfs", MFD_CLOEXEC);
	if (fd >= 0 && (write(fd, text->p ? text->p : "", text->n) != (ssize_t)text->n || lseek(fd, 0, SEEK_SET)))
		errno = EIO;
	text_free(text);
	return fd;
}

/** Where it is this library's to answer. In an emulated machine its own render node is opened, since that wakes the GPU. */
static bool open_ours(const char *path, int *ret)
{
	struct kmt *t = kfd_for(path);
	struct text text = { 0 };
	if (!t) {
		errno = ENODEV;
		*ret = -1;
		return path && !strcmp(path, "/dev/kfd") && getenv("UNHANG_KFD");
	}
	unsigned kind = node_of(t, path);
	if (kind) {
		const char *real = t->alone || kind == IS_KFD ? "/dev/null" : path;
		*ret = remember((int)syscall(SYS_openat, AT_FDCWD, real, O_RDWR | O_CLOEXEC), kind);
		return true;
	}
	if (files_look(t, path, &text) == KMT_FILE) {
		*ret = open_text(&text);
		return true;
	}
	text_free(&text);
	return false;
}

static int open_at(int directory, const char *path, int flags, mode_t mode)
{
	int fd;
	return open_ours(path, &fd) ? fd : remember((int)syscall(SYS_openat, directory, path, flags, mode), NOT_OURS);
}

#define MODE_BEHIND(last)                                                                                                      \
	({                                                                                                                     \
		va_list ap;                                                                                                    \
		va_start(ap, last);                                                                                            \
		mode_t mode = (last) & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;                                       \
		va_end(ap);                                                                                                    \
		mode;                                                                                                          \
	})

int open(const char *path, int flags, ...) { return open_at(AT_FDCWD, path, flags, MODE_BEHIND(flags)); }
int open64(const char *path, int flags, ...) { return open_at(AT_FDCWD, path, flags, MODE_BEHIND(flags)); }
int openat(int directory, const char *path, int flags, ...) { return open_at(directory, path, flags, MODE_BEHIND(flags)); }
int openat64(int directory, const char *path, int flags, ...) { return open_at(directory, path, flags, MODE_BEHIND(flags)); }

FILE *fopen(const char *path, const char *mode)
{
	int fd;
	if (!open_ours(path, &fd))
		return NEXT(fopen)(path, mode);
	return fd < 0 ? NULL : fdopen(fd, mode);
}

FILE *fopen64(const char *path, const char *mode) { return fopen(path, mode); }

int close(int fd)
{
	remember(fd, NOT_OURS);
	return (int)syscall(SYS_close, fd);
}

int dup(int fd) { return remember((int)syscall(SYS_dup, fd), kind_of(fd)); }

int fcntl(int fd, int command, ...)
{
	va_list ap;
	va_start(ap, command);
	void *argument = va_arg(ap, void *);
	va_end(ap);
	int result = NEXT(fcntl)(fd, command, argument);
	return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? remember(result, kind_of(fd)) : result;
}

int fcntl64(int fd, int command, ...)
{
	va_list ap;
	va_start(ap, command);
	void *argument = va_arg(ap, void *);
	va_end(ap);
	return fcntl(fd, command, argument);
}

// --- what is there ---

/** Whether a path is answered for here, and what it is. */
static bool describe(const char *path, struct stat *ret)
{
	struct kmt *t = kfd_for(path);
	struct text text = { 0 };
	if (!t)
		return false;
	unsigned kind = node_of(t, path);
	enum kmt_file file = kind ? KMT_NO_FILE : files_look(t, path, &text);
	text_free(&text);
	if (!kind && !file)
		return false;
	*ret = (struct stat){ .st_nlink = 1, .st_blksize = KMT_PAGE };
	ret->st_mode = kind ? S_IFCHR | 0666 : file == KMT_DIRECTORY ? S_IFDIR | 0755 : S_IFREG | 0444;
	if (kind >= IS_RENDER)
		ret->st_rdev = makedev(DRM_MAJOR, (unsigned)gpu_of(t, kind)->render);
	return true;
}

int stat(const char *path, struct stat *ret)
{
	return describe(path, ret) ? 0 : as_node(NEXT(stat)(path, ret), minor_of(path), ret);
}

int lstat(const char *path, struct stat *ret)
{
	return describe(path, ret) ? 0 : as_node(NEXT(lstat)(path, ret), minor_of(path), ret);
}

int stat64(const char *path, struct stat64 *ret) { return stat(path, (struct stat *)ret); }

int access(const char *path, int mode)
{
	struct stat there;
	return describe(path, &there) ? 0 : NEXT(access)(path, mode);
}

/** A render node is known by its numbers, also where it is a file of an emulated machine. */
int fstat(int fd, struct stat *ret)
{
	unsigned kind = kind_of(fd);
	struct kmt *t = kind >= IS_RENDER ? kfd_begun() : NULL;
	int result = NEXT(fstat)(fd, ret);
	if (!result && t && gpu_of(t, kind)) {
		ret->st_mode = S_IFCHR | 0666;
		ret->st_rdev = makedev(DRM_MAJOR, (unsigned)gpu_of(t, kind)->render);
	} else if (!result && S_ISREG(ret->st_mode) && !ret->st_size && !ret->st_blocks) {
		char link[32], path[64] = "";
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		if (readlink(link, path, sizeof(path) - 1) > 0)
			as_node(0, minor_of(path), ret);
	}
	return result;
}

/** libsystemd takes a device only from sysfs; that of an emulated machine is a file system of ours. */
int fstatfs(int fd, struct statfs *ret)
{
	char link[32], path[8] = "";
	int result = NEXT(fstatfs)(fd, ret);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (!result && ret->f_type == FUSE_SUPER_MAGIC && readlink(link, path, sizeof(path) - 1) > 5 &&
	    !strncmp(path, "/sys/", 5))
		ret->f_type = SYSFS_MAGIC;
	return result;
}

int fstatfs64(int fd, struct statfs64 *ret) { return fstatfs(fd, (struct statfs *)ret); }

int fstat64(int fd, struct stat64 *ret) { return fstat(fd, (struct stat *)ret); }

// --- directories ---

struct kmt_directory {
	struct text names;
	struct str rest;
	struct dirent entry;
};
static struct kmt_directory *directories[DIRECTORIES_MOST]; // those that are open, in no order; read and written as atomics

static struct kmt_directory **place_of(const void *wanted)
{
	for (size_t i = 0; i < DIRECTORIES_MOST; i++)
		if (__atomic_load_n(&directories[i], __ATOMIC_ACQUIRE) == wanted)
			return &directories[i];
	return NULL;
}

DIR *opendir(const char *path)
{
	struct kmt *t = kfd_for(path);
	struct text names = { 0 };
	if (!t || files_look(t, path, &names) != KMT_DIRECTORY) {
		text_free(&names);
		return NEXT(opendir)(path);
	}
	struct kmt_directory *d = mem_alloc(sizeof(*d));
	*d = (struct kmt_directory){ .names = names, .rest = text_str(&names) };
	for (size_t i = 0; i < DIRECTORIES_MOST; i++) {
		struct kmt_directory *none = NULL;
		if (__atomic_compare_exchange_n(&directories[i], &none, d, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return (DIR *)d;
	}
	text_free(&d->names);
	free(d);
	errno = EMFILE;
	return NULL;
}

struct dirent *readdir(DIR *directory)
{
	if (!place_of(directory))
		return NEXT(readdir)(directory);
	struct kmt_directory *d = (struct kmt_directory *)directory;
	if (!d->rest.n)
		return NULL;
	d->entry.d_type = DT_DIR;
	str_copy(d->entry.d_name, sizeof(d->entry.d_name), str_split(&d->rest, '\n'));
	return &d->entry;
}

struct dirent64 *readdir64(DIR *directory)
{
	return place_of(directory) ? (struct dirent64 *)readdir(directory) : NEXT(readdir64)(directory);
}

int closedir(DIR *directory)
{
	struct kmt_directory **place = place_of(directory), *d = (struct kmt_directory *)directory;
	if (!place)
		return NEXT(closedir)(directory);
	__atomic_store_n(place, NULL, __ATOMIC_RELEASE);
	text_free(&d->names);
	free(d);
	return 0;
}

// --- using ---

int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	va_start(ap, request);
	void *argument = va_arg(ap, void *);
	va_end(ap);
	unsigned kind = kind_of(fd);
	struct kmt *t = kind ? kfd_begun() : NULL;
	if (!t || (kind >= IS_RENDER && !gpu_of(t, kind)))
		return (int)syscall(SYS_ioctl, fd, request, argument);
	int result = kind == IS_KFD ? kfd_ioctl(t, request, argument) : render_ioctl(t, gpu_of(t, kind), request, argument);
	if (result >= 0)
		return result;
	errno = -result;
	return -1;
}

/** libdrm asks a dma-buf for its size. */
off_t lseek(int fd, off_t offset, int whence)
{
	off_t at = syscall(SYS_lseek, fd, offset, whence);
	if (at >= 0 || errno != ESPIPE || !kfd_begun())
		return at;
	int64_t size = dmabuf_size(fd);
	errno = ESPIPE;
	return size < 0 ? at : whence == SEEK_END ? size + offset : offset;
}

off64_t lseek64(int fd, off64_t offset, int whence) { return lseek(fd, offset, whence); }

/** Memory of a GPU and doorbells are in one file. */
void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	struct kmt *t = kind_of(fd) ? kfd_begin() : NULL;
	uint64_t at = (uint64_t)offset;
	if (t)
		fd = memory_file(t, at, &at);
	return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, at);
}

void *mmap64(void *address, size_t size, int protection, int flags, int fd, off64_t offset)
{
	return mmap(address, size, protection, flags, fd, offset);
}

// --- one function of ROCm's ---

/** As on a gfx94x, whose runtime puts rings and the arguments of kernels into VRAM that the host may write: where VRAM is closed ROCm 5.2,
 * which has its thunk as a library, is told that they are there. */
int hsaKmtQueryPointerInfo(const void *address, uint32_t *ret);
int hsaKmtQueryPointerInfo(const void *address, uint32_t *ret)
{
	enum { FAILED = 1, NODE = 1 };
	int (*next)(const void *, uint32_t *) = NULL;
	void *thunk = dlopen("libhsakmt.so.1", RTLD_LAZY | RTLD_NOLOAD);
	if (thunk)
		*(void **)&next = dlsym(thunk, "hsaKmtQueryPointerInfo");
	struct kmt *t = kfd_begun();
	int status = next ? next(address, ret) : FAILED;
	if (!status && t && t->plan.closed && !ret[NODE] && memory_commands(t, (uintptr_t)address))
		ret[NODE] = t->plan.gpus[0].node;
	if (thunk)
		dlclose(thunk);
	return status;
}

#pragma GCC visibility pop
