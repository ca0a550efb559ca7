// Packs a partial directory. The bundle is written within it, synced, and gets its name last.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/lower.h"
#include "base/save.h"
#include "capture/archive_writer.h"
#include "capture/parts.h"

enum { BUNDLE_MODE = 0640, BLOCK = 1 << 17, SPARSE_LEAST = 1 << 20, DEPTH_MOST = 4, PACK_MS = 120000 };

/** An item, which is open before the rights are put down. */
struct pack_item {
	struct str name;
	int fd;
};

struct packer {
	struct archive_writer api;
	struct archive *archive;
	int dir, to;
	struct arena arena;
	VEC(struct pack_item) items;
};

// --- the child ---

/** The manifest first: it tells that this is a bundle. */
static int by_name(const void *a, const void *b)
{
	struct str x = ((const struct pack_item *)a)->name, y = ((const struct pack_item *)b)->name;
	bool first = str_is(x, BUNDLE_MANIFEST), second = str_is(y, BUNDLE_MANIFEST);
	return first != second ? (first ? -1 : 1) : str_cmp(x, y);
}

/** What is not an item yet, or stays here. */
static bool is_ours(struct str name)
{
	return str_ends(name, S(".new")) || str_ends(name, S(".unhang-new")) || str_is(name, PACKED_MARK);
}

/** What went wrong; NULL. */
static const char *list(struct packer *p, int dir, const char *above, int depth)
{
	DIR *entries = fdopendir(dir);
	const char *why = entries ? NULL : strerror(errno);
	for (struct dirent *e = entries ? readdir(entries) : NULL; e && !why; e = readdir(entries)) {
		struct pack_item item = { arena_printf(&p->arena, "%s%s", above, e->d_name), -1 };
		struct stat st;
		if (e->d_name[0] == '.' || is_ours(str_z(e->d_name)) ||
		    fstatat(dirfd(entries), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		bool file = S_ISREG(st.st_mode) && st.st_size && !bundle_name_wrong(item.name); // what is empty was never begun
		if (!file && (!S_ISDIR(st.st_mode) || depth >= DEPTH_MOST))
			continue;
		item.fd = file ? openat(dirfd(entries), e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) :
				 partial_open_below(dirfd(entries), e->d_name);
		if (item.fd < 0 && errno == EXDEV)
			continue;
		if (item.fd < 0)
			why = strerror(errno);
		else if (file)
			vec_push(&p->items, item);
		else
			why = list(p, item.fd, arena_printf(&p->arena, STR_FMT "/", STR_ARG(item.name)).p, depth + 1);
	}
	if (entries)
		closedir(entries);
	return why;
}

static const char *why_of(const struct packer *p)
{
	const char *said = p->api.error_string(p->archive);
	int number = p->api.error_number(p->archive);
	return number > 0 ? strerror(number) : said ? said : "libarchive failed";
}

/** A piece of a file; false: it is all zeros. A file may not grow meanwhile, but one that shrank is filled up: the header has said its
 * size. */
static bool piece_at(int fd, uint64_t offset, size_t size, char *room, const char **ret_why)
{
	const off_t data = lseek(fd, (off_t)offset, SEEK_DATA); // a hole would fill the page cache
	const bool hole = data < 0 ? errno == ENXIO : data >= (off_t)(offset + size);
	const ssize_t n = hole ? 0 : pread(fd, room, size, (off_t)offset);
	*ret_why = n < 0 ? strerror(errno) : NULL;
	memset(room + (n < 0 ? 0 : n), 0, size - (n < 0 ? 0 : (size_t)n));
	return !mem_zero(room, size);
}

static size_t piece_size(uint64_t size, uint64_t at) { return size - at < BLOCK ? (size_t)(size - at) : BLOCK; }

/** Tells where the data of a large file are: most of a recording is room that was never used. */
static const char *find_data(struct packer *p, struct archive_entry *e, int fd, uint64_t size)
{
	_cleanup_free_ char *room = mem_alloc(BLOCK);
	const char *why = NULL;
	for (uint64_t at = 0; at < size && size >= SPARSE_LEAST && !why; at += BLOCK)
		if (piece_at(fd, at, piece_size(size, at), room, &why))
			p->api.add_data(e, (la_int64_t)at, (la_int64_t)piece_size(size, at));
	return why;
}

/** The library leaves out what is in no range of data. */
static const char *add_bytes(struct packer *p, int fd, uint64_t size)
{
	_cleanup_free_ char *room = mem_alloc(BLOCK);
	const char *why = NULL;
	for (uint64_t at = 0; at < size && !why; at += BLOCK) {
		piece_at(fd, at, piece_size(size, at), room, &why);
		if (!why && p->api.data(p->archive, room, piece_size(size, at)) < 0)
			why = why_of(p);
	}
	return why;
}

/** What went wrong; NULL. */
static const char *add(struct packer *p, const struct pack_item *item)
{
	struct stat st;
	if (fstat(item->fd, &st))
		return strerror(errno);
	struct archive_entry *e = p->api.entry_new();
	p->api.set_pathname(e, item->name.p);
	p->api.set_size(e, st.st_size);
	p->api.set_filetype(e, AE_IFREG);
	p->api.set_perm(e, BUNDLE_MODE);
	p->api.set_mtime(e, st.st_mtime, 0);
	const char *why = find_data(p, e, item->fd, (uint64_t)st.st_size);
	if (!why && p->api.header(p->archive, e) != ARCHIVE_OK)
		why = why_of(p);
	p->api.entry_free(e);
	return why ? why : add_bytes(p, item->fd, (uint64_t)st.st_size);
}

/** All that needs rights: the library, and the items. They may be more than a process usually has open. */
static const char *open_all(struct packer *p)
{
	struct rlimit files;
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	const char *why = archive_writer_load(&p->api);
	int again = why ? -1 : openat(p->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (again < 0)
		return why ? why : strerror(errno);
	return list(p, again, "", 0);
}

static const char *pack_all(struct packer *p)
{
	const char *why = NULL;
	if (p->items.len)
		qsort(p->items.data, p->items.len, sizeof(*p->items.data), by_name);
	p->archive = p->api.write_new();
	p->api.add_zstd(p->archive);
	p->api.set_format(p->archive);
	if (p->api.open_fd(p->archive, p->to) != ARCHIVE_OK)
		return why_of(p);
	for (size_t i = 0; i < p->items.len && !why; i++)
		why = add(p, &p->items.data[i]);
	if (!why && p->api.write_close(p->archive) != ARCHIVE_OK)
		why = why_of(p);
	return why;
}

struct pack_work {
	const struct pack *pack;
	int to;
};

/** Writes to the pipe why it failed. */
static void pack_child(int fd, const void *ctx)
{
	const struct pack_work *w = ctx;
	struct packer p = { .dir = w->pack->dir, .to = w->to };
	prctl(PR_SET_NAME, "unhang-pack");
	close(w->pack->lock);
	const char *why = open_all(&p);
	if (!why && !lower_privileges(LOWER_NOGROUP))
		why = "it could not put its rights down";
	if (!why)
		why = pack_all(&p);
	if (!why && fsync(w->to))
		why = strerror(errno);
	if (why && write(fd, why, strlen(why)) < 0)
		_exit(1);
}

// --- the parent ---

static struct uh_error *run(const struct pack *p, int to)
{
	const struct pack_work work = { p, to };
	struct child child;
	struct text why = { 0 };
	if (!child_begin_free(pack_child, &work, &child))
		return uh_error_os(errno, "%s: nobody could pack it", p->file);
	enum child_end end = child_wait(&child, p->until ? p->until : now_ms() + PACK_MS, BLOCK, &why);
	child_kill(&child, 0);
	struct uh_error *err = NULL;
	if (why.n)
		err = uh_error_new("%s: " STR_FMT, p->file, STR_ARG(text_str(&why)));
	else if (end != CHILD_GOOD)
		err = uh_error_new("%s: it could not be packed%s", p->file, end == CHILD_LATE ? " in time" : "");
	text_free(&why);
	return err;
}

/** What is left of a kill behind the mark is only the name. */
static struct uh_error *mark_packed(const struct pack *p)
{
	_cleanup_close_ int mark = openat(p->dir, PACKED_MARK, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, partial_mode(false));
	if (mark < 0 || write(mark, "\n", 1) != 1 || fsync(mark) || fsync(p->dir))
		return uh_error_os(errno, "%s/" PACKED_MARK, p->partial);
	return NULL;
}

struct uh_error *pack_name(int dir, const char *file)
{
	struct arena a = { 0 };
	struct uh_error *err = NULL;
	_cleanup_close_ int above = open(pack_directory(&a, file), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (above < 0 || !save_name(dir, PACKED_BUNDLE, above, arena_z(&a, str_base(str_z(file)))))
		err = uh_error_os(errno, "%s", file);
	else if (fsync(above) && errno != EINVAL)
		err = uh_error_os(errno, "%s: it may not have reached the disk", file);
	arena_free(&a);
	return err;
}

const char *pack_directory(struct arena *a, const char *file)
{
	struct str path = str_z(file), directory = str_cut(path, path.n - str_base(path).n);
	while (directory.n > 1 && directory.p[directory.n - 1] == '/')
		directory = str_cut(directory, directory.n - 1);
	return directory.n ? arena_z(a, directory) : ".";
}

/** Nothing is left of an earlier try. The mark goes first: without the bundle the items would be taken for packed. */
static void drop(const struct pack *p)
{
	unlinkat(p->dir, PACKED_MARK, 0);
	unlinkat(p->dir, PACKED_BUNDLE, 0);
}

struct uh_error *pack_bundle(struct pack *p)
{
	struct stat st;
	struct uh_error *err = NULL;
	drop(p);
	_cleanup_close_ int to = openat(p->dir, PACKED_BUNDLE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, partial_mode(false));
	if (to < 0)
		err = uh_error_os(errno, "%s", p->file);
	if (!err)
		err = run(p, to);
	if (!err)
		save_give(to, BUNDLE_MODE);
	if (!err && !fstat(to, &st))
		p->bytes = (uint64_t)st.st_size;
	if (!err)
		err = mark_packed(p);
	if (!err)
		err = pack_name(p->dir, p->file);
	if (err && faccessat(p->dir, PACKED_BUNDLE, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		drop(p);
	return err;
}
