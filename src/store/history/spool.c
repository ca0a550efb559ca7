#include "store/history/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/trust.h"
#include "base/save.h"
#include "store/history/line.h"
#include "store/store.h"

#define ENDING ".jsonl"
enum { DAY = 86400, NAME = 64, CHUNK = 4 << 20, LOCK_TRIES = 500, LOCK_PAUSE_NS = 10000000 };

// --- names: 2026-11-17-1f0a93c2.jsonl ---

/** Machines that take each other's place may have one name, and containers no id: both tell who writes a file. */
static uint32_t machine_hash(void)
{
	char id[64] = "";
	struct utsname names = { 0 };
	uname(&names);
	_cleanup_close_ int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	const ssize_t n = fd < 0 ? 0 : read(fd, id, sizeof(id));
	const uint64_t hash =
		str_hash(str_hash(STR_HASH_BEGIN, (struct str){ id, n > 0 ? (size_t)n : 0 }), str_z(names.nodename));
	return (uint32_t)(hash ^ hash >> 32);
}

static void day_name(int64_t when, char ret[static NAME])
{
	struct tm tm;
	const time_t t = (time_t)when;
	gmtime_r(&t, &tm);
	snprintf(ret, NAME, "%04d-%02d-%02d-%08x" ENDING, tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, machine_hash());
}

static bool is_spool(struct str name)
{
	return str_ends(name, S(ENDING)) && name.n > strlen("2026-01-01" ENDING) && char_digit(name.p[0]) && name.p[4] == '-' &&
	       name.p[7] == '-';
}

void spool_host_name(struct text *to, struct str host)
{
	for (size_t n = 0; n < host.n; n++) {
		const char c = host.p[n];
		text_add(to, char_word(c) || c == '-' || (c == '.' && n) ? (struct str){ host.p + n, 1 } : S("_"));
	}
	if (!host.n)
		text_add(to, S("unknown"));
}

// --- adding ---

/** Waits for another that writes, not for ever: a lock on a shared file system may be somebody's who is gone. */
static bool spool_lock(int fd)
{
	const struct timespec pause = { .tv_nsec = LOCK_PAUSE_NS };
	for (unsigned n = 0; n < LOCK_TRIES; n++) {
		if (!flock(fd, LOCK_EX | LOCK_NB))
			return true;
		if (errno != EWOULDBLOCK)
			return errno == ENOLCK || errno == EOPNOTSUPP; // it has none, and each host has files of its own
		nanosleep(&pause, NULL);
	}
	return false;
}

/** All of it at the end of a file, or the file is as it was. @mend: a line that a crash has cut gets its end first. */
static struct uh_error *spool_add(int fd, const char *name, struct str lines, bool mend)
{
	struct stat st;
	char last = '\n';
	if (!spool_lock(fd))
		return uh_error_os(EBUSY, "%s", name);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return uh_error_os(S_ISREG(st.st_mode) ? errno : EINVAL, "%s", name);
	if (mend && st.st_size && pread(fd, &last, 1, st.st_size - 1) != 1)
		return uh_error_os(errno, "%s", name);
	if ((last == '\n' || write_all(fd, S("\n"))) && write_all(fd, lines) && !fdatasync(fd))
		return NULL;
	const int why = errno;
	if (ftruncate(fd, st.st_size))
		(void)!write(fd, "\n", 1);
	return uh_error_os(why, "%s", name);
}

/** Its last name is no link: in a spool anybody may have put one there. */
static int spool_open_directory(const char *directory)
{
	if (!make_above(AT_FDCWD, directory, 0755))
		return -1;
	if (!mkdir(directory, 0750)) {
		_cleanup_close_ int made = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (made >= 0)
			save_give(made, geteuid() ? 0700 : 0750);
	} else if (errno != EEXIST) {
		return -1;
	}
	return open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/** Whether a file of this name was put there by somebody who must not read what is added. The owners of a server's files are what it says. */
static bool is_strangers(int fd)
{
	static const unsigned long servers[] = { 0x6969, 0xff534d42, 0xfe534d42, 0x00c36400, 0x0bd00bd0, 0x01021997 };
	struct stat st;
	struct statfs fs;
	if (fstat(fd, &st) || (trust_owner(st.st_uid) && st.st_nlink == 1))
		return false;
	for (size_t n = 0; n < ARRAY_SIZE(servers) && !fstatfs(fd, &fs); n++)
		if ((unsigned long)fs.f_type == servers[n])
			return false;
	return true;
}

static struct uh_error *spool_append_to(int dir, const char *name, struct str lines, bool mend)
{
	const bool there = !faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW);
	_cleanup_close_ int fd = openat(dir, name, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0640);
	if (fd < 0)
		return uh_error_os(errno, "%s", name);
	if (mend && is_strangers(fd))
		return uh_error_new("%s in the store belongs to another user, or has two names: choose another store", name);
	struct uh_error *err = spool_add(fd, name, lines, mend);
	if (!err && !there && fsync(dir) && errno != EINVAL)
		err = uh_error_os(errno, "the directory of %s", name);
	return err;
}

struct uh_error *spool_append(const char *directory, struct str lines)
{
	char name[NAME];
	_cleanup_close_ int dir = spool_open_directory(directory);
	if (dir < 0)
		return uh_error_os(errno, "%s", directory);
	day_name(time(NULL), name);
	return spool_append_to(dir, name, lines, true);
}

// --- reading ---

/** A hole has no newline, and is as good as read: a file of a terabyte may be nothing else. */
static uint64_t behind_hole(int fd, uint64_t offset, uint64_t size)
{
	const off_t data = lseek(fd, (off_t)offset, SEEK_DATA);
	return data >= 0 ? (uint64_t)data : errno == ENXIO ? size : offset;
}

/** Hands over the lines that are whole. false: no more are wanted. */
static bool spool_hand_over(struct text *room, struct spool_place *place, bool (*take)(void *ctx, struct str line), void *ctx)
{
	struct str rest = text_str(room);
	while (rest.n && memchr(rest.p, '\n', rest.n)) {
		const struct str line = str_split(&rest, '\n');
		if (!take(ctx, line))
			return false;
		place->offset += line.n + 1;
	}
	// A line that is too long is none of ours: it is passed over, up to its end.
	if (rest.n > HISTORY_LINE_MOST) {
		place->offset += rest.n;
		place->passed += rest.n;
		rest.n = 0;
	}
	memmove(room->p, rest.p, rest.n);
	room->n = rest.n;
	return true;
}

struct uh_error *spool_read_some(int fd, const char *path, struct spool_place *place, bool (*take)(void *ctx, struct str line),
				 void *ctx)
{
	_cleanup_text_ struct text room = { 0 };
	struct stat st;
	const uint64_t most = place->offset + SPOOL_AT_ONCE;
	place->passed = 0;
	place->more = false;
	if (fstat(fd, &st))
		return uh_error_os(errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return uh_error_os(EINVAL, "%s", path);
	while (place->offset + room.n < (uint64_t)st.st_size && !place->more) {
		const uint64_t at = place->offset + room.n, next = behind_hole(fd, at, (uint64_t)st.st_size);
		if (next - at > HISTORY_LINE_MOST) {
			place->offset = next; // no part of what was passed over: it cost nothing
			room.n = 0;
			continue;
		}
		const ssize_t n = pread(fd, text_room(&room, CHUNK), CHUNK, (off_t)at);
		if (n <= 0)
			return n ? uh_error_os(errno, "%s", path) : NULL;
		room.n += (size_t)n;
		if (!spool_hand_over(&room, place, take, ctx))
			return NULL;
		place->more = place->offset >= most;
	}
	return NULL;
}

struct uh_error *spool_read(const char *path, struct spool_place *place, bool (*take)(void *ctx, struct str line), void *ctx)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct uh_error *err = fd < 0 ? uh_error_os(errno, "%s", path) : NULL;
	uint64_t passed = 0;
	do {
		err = err ? err : spool_read_some(fd, path, place, take, ctx);
		passed += place->passed;
	} while (!err && place->more && passed < SPOOL_AT_ONCE);
	return err;
}

static int spool_by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/** @name in the directory @at is called @path. */
static struct uh_error *spool_list_in(int at, const char *name, const char *path, struct spool_files *ret)
{
	enum { FILES_MOST = 1 << 20 };
	const bool top = at == AT_FDCWD;
	const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (top ? 0 : O_NOFOLLOW));
	_cleanup_dir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		return errno == ENOENT ? NULL : uh_error_os(errno, "%s", path);
	for (struct dirent *e; (e = readdir(d)) && ret->list.len < FILES_MOST;) {
		const char *below = arena_printf(&ret->arena, "%s/%s", path, e->d_name).p;
		struct stat st;
		if (e->d_name[0] == '.' || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (S_ISREG(st.st_mode) && is_spool(str_z(e->d_name)))
			vec_push(&ret->list, below);
		else if (S_ISDIR(st.st_mode) && top && ret->hosts) // one host keeps the others from nothing
			uh_error_free(spool_list_in(dirfd(d), e->d_name, below, ret));
	}
	return NULL;
}

struct uh_error *spool_list(const char *directory, struct spool_files *ret)
{
	ret->hosts = true;
	struct uh_error *err = spool_list_in(AT_FDCWD, directory, directory, ret);
	if (ret->list.len)
		qsort(ret->list.data, ret->list.len, sizeof(*ret->list.data), spool_by_name);
	return err;
}

void spool_files_free(struct spool_files *f)
{
	vec_free(&f->list);
	arena_free(&f->arena);
}

// --- shipping ---

struct shipment {
	int to; // the directory
	const char *name;
	struct text lines;
	struct uh_error *err;
};

static bool ship_lines(struct shipment *s)
{
	s->err = s->lines.n ? spool_append_to(s->to, s->name, text_str(&s->lines), false) : NULL;
	text_clear(&s->lines);
	return !s->err;
}

static bool ship_line(void *ctx, struct str line)
{
	struct shipment *s = ctx;
	text_add(&s->lines, line);
	text_add(&s->lines, S("\n"));
	return s->lines.n < CHUNK || ship_lines(s);
}

/** Whether the last bytes of a copy are those of the file at that place: after a crash of its server they may be zeros. */
static bool ends_alike(int one, int to, const char *name, uint64_t size)
{
	enum { COMPARED = 4096 };
	char a[COMPARED], b[COMPARED];
	const size_t n = size < COMPARED ? (size_t)size : COMPARED;
	_cleanup_close_ int other = openat(to, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	return pread(one, a, n, (off_t)(size - n)) == (ssize_t)n && pread(other, b, n, (off_t)(size - n)) == (ssize_t)n &&
	       !memcmp(a, b, n);
}

/** A copy has the bytes of the file from its beginning on: how many says what is missing. One that is damaged is made anew. */
static struct uh_error *ship_file(const char *from, int to)
{
	const char *name = str_base(str_z(from)).p;
	_cleanup_close_ int in = open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct stat st, has = { 0 };
	if (in < 0 || fstat(in, &st))
		return uh_error_os(errno, "%s", from);
	if (fstatat(to, name, &has, AT_SYMLINK_NOFOLLOW) && errno != ENOENT)
		return uh_error_os(errno, "%s", name);
	if (has.st_size && !ends_alike(in, to, name, (uint64_t)(has.st_size < st.st_size ? has.st_size : st.st_size))) {
		if (unlinkat(to, name, 0))
			return uh_error_os(errno, "%s", name);
		has.st_size = 0;
	}
	struct spool_place place = { .offset = (uint64_t)has.st_size };
	struct shipment s = { .to = to, .name = name };
	if (has.st_size >= st.st_size)
		return NULL;
	struct uh_error *err = spool_read(from, &place, ship_line, &s);
	if (!err && !s.err)
		ship_lines(&s);
	text_free(&s.lines);
	if (!err)
		return s.err;
	uh_error_free(s.err);
	return err;
}

struct uh_error *spool_ship(const char *from, const char *to)
{
	_cleanup_(spool_files_free) struct spool_files files = { 0 };
	_cleanup_close_ int dir = spool_open_directory(to);
	struct uh_error *err = dir < 0 ? uh_error_os(errno, "%s", to) : spool_list_in(AT_FDCWD, from, from, &files);
	for (size_t n = 0; !err && n < files.list.len; n++)
		err = ship_file(files.list.data[n], dir);
	return err;
}

/** Whole or not at all: it gets its name when it is there. */
static struct uh_error *ship_bundle(const char *from, int to, const char *name)
{
	char partial[NAME];
	struct stat st;
	_cleanup_close_ int in = open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK), out = -1;
	if (in < 0 || !faccessat(to, name, F_OK, AT_SYMLINK_NOFOLLOW))
		return in < 0 && errno != ENOENT ? uh_error_os(errno, "%s", from) : NULL;
	snprintf(partial, sizeof(partial), ".%.40s.partial", name);
	unlinkat(to, partial, 0);
	out = openat(to, partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
	if (out < 0 || fstat(in, &st))
		return uh_error_os(errno, "%s", name);
	ssize_t n = 1;
	while (n > 0)
		n = copy_file_range(in, NULL, out, NULL, CHUNK, 0);
	if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
		_cleanup_free_ char *room = mem_large(CHUNK);
		while ((n = read(in, room, CHUNK)) > 0 && write_all(out, (struct str){ room, (size_t)n }))
			;
	}
	if (!n && !fsync(out) && !renameat(to, partial, to, name))
		return NULL;
	const int why = errno;
	unlinkat(to, partial, 0);
	return uh_error_os(why, "%s", name);
}

static int open_bundles(int host)
{
	const bool made = host >= 0 && !mkdirat(host, "bundles", 0750);
	const int dir = host < 0 ? -1 : openat(host, "bundles", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (made && dir >= 0)
		save_give(dir, geteuid() ? 0700 : 0750);
	return dir;
}

struct uh_error *spool_ship_bundles(const char *state, const char *to)
{
	_cleanup_(stored_list_free) struct stored_list all;
	_cleanup_arena_ struct arena a = { 0 };
	struct uh_error *err = store_list(state, &all);
	_cleanup_close_ int host = err ? -1 : spool_open_directory(to), dir = err ? -1 : open_bundles(host);
	if (!err && dir < 0)
		err = uh_error_os(errno, "%s", to);
	for (size_t n = 0; !err && n < all.list.len; n++) {
		const struct str id = all.list.data[n]->id;
		if (str_is(all.list.data[n]->bundle, "taken"))
			err = ship_bundle(arena_printf(&a, "%s/" STORE_BUNDLE, store_path(&a, state, id)).p, dir,
					  arena_printf(&a, STR_FMT ".tar.zst", STR_ARG(id)).p);
	}
	return err;
}

void spool_vacuum(const char *directory, int64_t days, uint64_t bytes)
{
	_cleanup_(spool_files_free) struct spool_files files = { 0 };
	char oldest[NAME];
	uint64_t used = 0;
	day_name(time(NULL) - days * DAY, oldest);
	uh_error_free(spool_list_in(AT_FDCWD, directory, directory, &files));
	if (files.list.len)
		qsort(files.list.data, files.list.len, sizeof(*files.list.data), spool_by_name);
	for (size_t n = files.list.len; n-- > 0;) {
		struct stat st;
		used += stat(files.list.data[n], &st) ? 0 : (uint64_t)st.st_size;
		const bool old = str_cmp(str_cut(str_base(str_z(files.list.data[n])), strlen("2026-01-01")),
					 str_cut(str_z(oldest), strlen("2026-01-01"))) < 0;
		if ((old || used > bytes) && n + 1 < files.list.len)
			unlink(files.list.data[n]);
	}
}
