// Packs a partial directory. The bundle is written within it, synced, and gets its name last: a bundle that has its name is whole. Who packs
// opens all items first and puts its rights down then, because what it packs was written by strangers.
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/door/library.h"
#include "base/save.h"
#include "capture/steps.h"

enum { BUNDLE_MODE = 0640, BLOCK = 1 << 17, SPARSE_LEAST = 1 << 20, PACK_MS = 120000 };

// clang-format off
#define ARCHIVE_WRITER_CALLS(call) \
	call(archive_write_new) call(archive_write_close) call(archive_write_set_format_pax_restricted) \
	call(archive_write_add_filter_zstd) call(archive_write_open_fd) call(archive_write_header) \
	call(archive_write_data) call(archive_error_string) call(archive_errno) call(archive_entry_new) \
	call(archive_entry_free) call(archive_entry_set_pathname) call(archive_entry_set_size) \
	call(archive_entry_set_filetype) call(archive_entry_set_perm) call(archive_entry_set_mtime) \
	call(archive_entry_sparse_add_entry)
// clang-format on

/** What of libarchive writes a bundle, loaded when it is needed. */
struct archive_writer {
	LIBRARY_API(ARCHIVE_WRITER_CALLS)
};

struct packer {
	struct archive_writer api;
	struct archive *archive;
	struct arena arena;
	struct partial_names names;
	int *items; // open before the rights are put down, by the order of their names
};

// --- the child ---

/** What is wrong with the library, as a phrase; NULL: nothing. */
static const char *load_archive_library(struct archive_writer *w)
{
	const char *lacks = LIBRARY_TAKE(w, ARCHIVE_WRITER_CALLS, "libarchive.so.13");
	if (!w->library)
		return "libarchive is not on this machine, which packs bundles";
	return lacks ? "this libarchive is too old to pack bundles" : NULL;
}

/** The manifest first: it tells that this is a bundle. */
static int by_member(const void *a, const void *b)
{
	struct str x = *(const struct str *)a, y = *(const struct str *)b;
	bool first = str_is(x, BUNDLE_MANIFEST), second = str_is(y, BUNDLE_MANIFEST);
	return first != second ? (first ? -1 : 1) : str_cmp(x, y);
}

/** All that needs rights: the library, and the items. What went wrong; NULL. */
static const char *open_items(struct packer *p, int dir)
{
	const char *why = load_archive_library(&p->api);
	partial_allow_files();
	if (why || !partial_items(dir, &p->arena, &p->names))
		return why ? why : strerror(errno);
	p->items = arena_alloc(&p->arena, (p->names.list.len + 1) * sizeof(*p->items));
	if (p->names.list.len)
		qsort(p->names.list.data, p->names.list.len, sizeof(*p->names.list.data), by_member);
	for (size_t i = 0; i < p->names.list.len && !why; i++) {
		p->items[i] = openat(dir, p->names.list.data[i].p, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		why = p->items[i] < 0 ? strerror(errno) : NULL;
	}
	return why;
}

/** What the library says went wrong. */
static const char *library_error(const struct packer *p)
{
	const char *said = p->api.archive_error_string(p->archive);
	int number = p->api.archive_errno(p->archive);
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

/** Adds an item. Of a large one the library is told where its data are, and leaves out the rest: most of a recording is room that was never
 * used. What went wrong; NULL. */
static const char *pack_item(struct packer *p, struct str name, int fd)
{
	struct stat st;
	if (fstat(fd, &st))
		return strerror(errno);
	const uint64_t size = (uint64_t)st.st_size;
	_cleanup_free_ char *room = mem_alloc(BLOCK);
	const char *why = NULL;
	struct archive_entry *e = p->api.archive_entry_new();
	p->api.archive_entry_set_pathname(e, name.p);
	p->api.archive_entry_set_size(e, st.st_size);
	p->api.archive_entry_set_filetype(e, AE_IFREG);
	p->api.archive_entry_set_perm(e, BUNDLE_MODE);
	p->api.archive_entry_set_mtime(e, st.st_mtime, 0);
	for (uint64_t at = 0; at < size && size >= SPARSE_LEAST && !why; at += BLOCK)
		if (piece_at(fd, at, piece_size(size, at), room, &why))
			p->api.archive_entry_sparse_add_entry(e, (la_int64_t)at, (la_int64_t)piece_size(size, at));
	if (!why && p->api.archive_write_header(p->archive, e) != ARCHIVE_OK)
		why = library_error(p);
	p->api.archive_entry_free(e);
	for (uint64_t at = 0; at < size && !why; at += BLOCK) {
		piece_at(fd, at, piece_size(size, at), room, &why);
		if (!why && p->api.archive_write_data(p->archive, room, piece_size(size, at)) < 0)
			why = library_error(p);
	}
	return why;
}

/** pax, because it keeps names of any length and sizes over 8 GB; restricted, so that plain items need no extra header. */
static const char *pack_all(struct packer *p, int to)
{
	const char *why = NULL;
	p->archive = p->api.archive_write_new();
	p->api.archive_write_add_filter_zstd(p->archive);
	p->api.archive_write_set_format_pax_restricted(p->archive);
	if (p->api.archive_write_open_fd(p->archive, to) != ARCHIVE_OK)
		return library_error(p);
	for (size_t i = 0; i < p->names.list.len && !why; i++)
		why = pack_item(p, p->names.list.data[i], p->items[i]);
	if (!why && p->api.archive_write_close(p->archive) != ARCHIVE_OK)
		why = library_error(p);
	return why;
}

struct pack_work {
	const struct pack *pack;
	int to;
};

/** Answers why it failed. */
static void pack_in_child(const void *asked, struct arena *a, void *answer)
{
	const struct pack_work *w = asked;
	struct packer p = { 0 };
	prctl(PR_SET_NAME, "unhang-pack");
	cleanup_close(&(int){ w->pack->lock });
	const char *why = open_items(&p, w->pack->dir);
	if (!why && !child_put_down(CHILD_PACK))
		why = "it could not put its rights down";
	if (!why)
		why = pack_all(&p, w->to);
	if (!why && fsync(w->to))
		why = strerror(errno);
	*(struct str *)answer = arena_str(a, str_z(why));
}

// --- the parent ---

/** Its deadline is some minutes where nobody waits for it: a large bundle on a slow disk is worth them. */
static struct uh_error *have_packed(const struct pack *p, int to)
{
	const struct pack_work work = { p, to };
	const struct child_task task = { CHILD_PACK, pack_in_child, &wire_one_text, p->until ? p->until : now_ms() + PACK_MS };
	_cleanup_arena_ struct arena a = { 0 };
	struct str why;
	const enum child_end end = child_call(&task, &work, &a, &why);
	if (end == CHILD_REFUSED)
		return uh_error_os(errno, "%s: nobody could pack it", p->file);
	if (end != CHILD_GOOD)
		return uh_error_new("%s: it could not be packed%s", p->file, end == CHILD_LATE ? " in time" : "");
	return why.n ? uh_error_new("%s: " STR_FMT, p->file, STR_ARG(why)) : NULL;
}

/** A new file of the partial directory; -1: see errno. */
static int create_in(const struct pack *p, const char *name)
{
	return openat(p->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, partial_mode(false));
}

/** What is left of a kill behind the mark is only the name. */
static struct uh_error *mark_packed(const struct pack *p)
{
	_cleanup_close_ int mark = create_in(p, PACKED_MARK);
	if (mark < 0 || write(mark, "\n", 1) != 1 || fsync(mark) || fsync(p->dir))
		return uh_error_os(errno, "%s/" PACKED_MARK, p->partial);
	return NULL;
}

const char *pack_directory(struct arena *a, const char *file)
{
	struct str path = str_z(file), directory = str_cut(path, path.n - str_base(path).n);
	while (directory.n > 1 && directory.p[directory.n - 1] == '/')
		directory = str_cut(directory, directory.n - 1);
	return directory.n ? arena_z(a, directory) : ".";
}

struct uh_error *pack_name(int dir, const char *file)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_close_ int above = open(pack_directory(&a, file), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (above < 0 || !save_name(dir, PACKED_BUNDLE, above, arena_z(&a, str_base(str_z(file)))))
		return uh_error_os(errno, "%s", file);
	return fsync(above) && errno != EINVAL ? uh_error_os(errno, "%s: it may not have reached the disk", file) : NULL;
}

/** Nothing is left of an earlier try. The mark goes first: without the bundle the items would be taken for packed. */
static void drop_packed(const struct pack *p)
{
	unlinkat(p->dir, PACKED_MARK, 0);
	unlinkat(p->dir, PACKED_BUNDLE, 0);
}

struct uh_error *pack_bundle(const struct pack *p)
{
	drop_packed(p);
	_cleanup_close_ int to = create_in(p, PACKED_BUNDLE);
	struct uh_error *err = to < 0 ? uh_error_os(errno, "%s", p->file) : have_packed(p, to);
	if (!err) {
		save_give(to, BUNDLE_MODE);
		err = mark_packed(p);
	}
	if (!err)
		err = pack_name(p->dir, p->file);
	if (err && faccessat(p->dir, PACKED_BUNDLE, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		drop_packed(p);
	return err;
}
