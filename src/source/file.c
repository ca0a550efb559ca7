#include "source/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/child.h"

const char *source_acting_filesystem(const char *path)
{
	struct statfs fs;
	if (statfs(path, &fs))
		return NULL;
	switch ((unsigned long)fs.f_type) {
	case DEBUGFS_MAGIC:
		return "debugfs";
	case SYSFS_MAGIC:
		return "sysfs";
	case TRACEFS_MAGIC:
		return "tracefs";
	case PROC_SUPER_MAGIC:
		return "proc";
	default:
		return NULL;
	}
}

struct uh_error *file_open(const char *path, struct file *ret)
{
	struct stat st;
	const char *acting = source_acting_filesystem(path);
	if (acting)
		return uh_error_new("%s: a file of %s is not read: some of them act on the GPU when they are", path, acting);
	// Before it is opened: that alone acts on some devices.
	if (!stat(path, &st) && !S_ISREG(st.st_mode))
		return uh_error_new("%s: not a file", path);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return uh_error_os(errno, "%s", path);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return uh_error_new("%s: not a file", path);
	}
	*ret = (struct file){ .name = str_z(path), .fd = fd, .size = (uint64_t)st.st_size };
	return NULL;
}

static void look_at(int fd, const void *path)
{
	struct stat st;
	if (!stat(path, &st) && S_ISREG(st.st_mode) && write(fd, "1", 1) != 1)
		_exit(1);
}

bool file_answers(const char *path)
{
	enum { DEADLINE_MS = 2000 };
	struct text answer = { 0 };
	bool there = child_run(look_at, path, DEADLINE_MS, 1, &answer) && answer.n;
	text_free(&answer);
	return there;
}

void file_close(struct file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	*f = (struct file){ .fd = -1 };
}

struct file file_memory(struct str name, struct str bytes)
{
	return (struct file){ .name = name, .fd = -1, .data = (const uint8_t *)bytes.p, .size = bytes.n };
}

bool file_read(const struct file *f, uint64_t offset, void *to, size_t size)
{
	if (offset > f->size || size > f->size - offset)
		return false;
	if (f->fd < 0) {
		if (size && f->data)
			memcpy(to, f->data + offset, size);
		return !size || f->data;
	}
	for (size_t have = 0; have < size;) {
		ssize_t n = pread(f->fd, (char *)to + have, size - have, (off_t)(offset + have));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) // it was truncated since
			return false;
		have += (size_t)n;
	}
	return true;
}
