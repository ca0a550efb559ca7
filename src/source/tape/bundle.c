#include "source/tape/bundle.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "source/archive/library.h"
#include "source/feed.h"

enum { PROCESSOR_MS = 120000, MAGIC = 4, DEPTH_MOST = 4 };
static const uint64_t member_most = 1ull << 30, bundle_most = 2ull << 30;

enum bundle_piece {
	BUNDLE_MEMBER = FEED_KINDS, // its name
	BUNDLE_DATA,
	BUNDLE_REFUSED, // why
	BUNDLE_OTHER,   // it is no bundle
	BUNDLE_WHOLE,
};

const char *bundle_name_wrong(struct str name)
{
	unsigned depth = 0;
	if (!name.n || name.n > BUNDLE_NAME_MOST)
		return "its name is empty or too long";
	if (name.p[0] == '/')
		return "its name is absolute";
	while (name.n) {
		struct str part = str_split(&name, '/');
		if (str_is(part, "..") || str_is(part, ".") || !part.n || ++depth > DEPTH_MOST)
			return "its name leads elsewhere";
	}
	return NULL;
}

// --- the child ---

struct bundle_work {
	const char *path;
	int fd; // where it is open already; -1
};

struct unbundler {
	struct archive_api api;
	struct archive *archive;
	int to;
	unsigned entries;
	uint64_t bytes;
};

static void refuse(const struct unbundler *u, struct str entry, const char *why)
{
	struct text text = { 0 };
	text_printf(&text, "entry '" STR_FMT "': %s", STR_ARG(str_cut(entry, BUNDLE_NAME_MOST)), why);
	feed_send(u->to, BUNDLE_REFUSED, text_str(&text), S(""));
	text_free(&text);
}

static const char *wrong(const struct unbundler *u, struct archive_entry *e, struct str name)
{
	if (u->entries > BUNDLE_ENTRIES_MOST)
		return "a bundle has no more than 4096 entries";
	if (u->api.entry_hardlink(e) || u->api.entry_symlink(e))
		return "it is a link";
	if (u->api.entry_filetype(e) != AE_IFREG)
		return "it is no file";
	return bundle_name_wrong(name);
}

/** false: it was refused. */
static bool send_data(struct unbundler *u, struct str name)
{
	const void *block;
	size_t n;
	la_int64_t offset;
	uint64_t size = 0;
	int r;
	while ((r = u->api.read_data_block(u->archive, &block, &n, &offset)) == ARCHIVE_OK) {
		if (n > member_most - size || n > bundle_most - u->bytes || (uint64_t)offset != size) {
			refuse(u, name, "it is larger than a bundle's may be, or has holes");
			return false;
		}
		size += n;
		u->bytes += n;
		for (struct str left = { block, n }; left.n; left = str_from(left, FEED_MOST))
			feed_send(u->to, BUNDLE_DATA, str_cut(left, FEED_MOST), S(""));
	}
	if (r != ARCHIVE_EOF)
		refuse(u, name, "it is damaged, or ends too early");
	return r == ARCHIVE_EOF;
}

static void send_members(struct unbundler *u)
{
	struct archive_entry *e;
	int r;
	while ((r = u->api.read_next_header(u->archive, &e)) == ARCHIVE_OK) {
		struct str name = str_z(u->api.entry_pathname(e));
		bool first = !u->entries++;
		if (first && !str_is(name, BUNDLE_MANIFEST)) {
			feed_send(u->to, BUNDLE_OTHER, S(""), S(""));
			return;
		}
		const char *why = wrong(u, e, name);
		if (why) {
			refuse(u, name, why);
			return;
		}
		feed_send(u->to, BUNDLE_MEMBER, name, S(""));
		if (!send_data(u, name))
			return;
	}
	if (r == ARCHIVE_EOF && u->entries)
		feed_send(u->to, BUNDLE_WHOLE, S(""), S(""));
	else if (u->entries)
		refuse(u, S("the next one"), "it is damaged, or ends too early");
	else
		feed_send(u->to, BUNDLE_OTHER, S(""), S(""));
}

static void unbundle(int to, const void *ctx)
{
	const struct bundle_work *w = ctx;
	struct unbundler u = { .to = to };
	struct opened o = { .fd = -1 };
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (w->fd < 0)
		child_keep_only(to);
	else
		child_keep_two(to, w->fd);
	o.fd = w->fd;
	_cleanup_error_ struct uh_error *err = w->fd < 0 ? named_open(&(struct named){ .path = w->path }, false, &o) : NULL;
	const char *missing = archive_load(&u.api);
	if (err || o.fd < 0 || missing) {
		struct str why = str_z(err ? uh_error_message(err) : missing ? missing : "not a file");
		feed_send(to, BUNDLE_REFUSED, why, S(""));
		return;
	}
	u.archive = archive_new_bundle(&u.api);
	if (u.api.read_open_fd(u.archive, o.fd, FEED_MOST) == ARCHIVE_OK)
		send_members(&u);
	else
		feed_send(to, BUNDLE_OTHER, S(""), S(""));
	u.api.read_free(u.archive);
}

// --- the parent ---

static void add_member(struct bundle *b, struct str name)
{
	vec_push(&b->members, ((struct bundle_member){ .name = arena_str(&b->arena, name) }));
}

/** Grows by doubling: a member may have a gigabyte. */
static void add_data(struct bundle *b, size_t *cap, struct str bytes)
{
	struct bundle_member *m = &b->members.data[b->members.len - 1];
	size_t had = *cap;
	while (*cap - m->n < bytes.n)
		*cap = *cap ? 2 * *cap : FEED_MOST;
	if (*cap != had)
		m->bytes = mem_grow(m->bytes, had, *cap);
	memcpy(m->bytes + m->n, bytes.p, bytes.n);
	m->n += bytes.n;
}

/** true: it was read to its end. */
static bool take_all(struct feed *feed, struct bundle *b, struct uh_error **ret_err, const char *path)
{
	struct str piece;
	size_t cap = 0;
	int kind;
	while ((kind = feed_next(feed, &piece, ret_err)) > 0) {
		if (kind == BUNDLE_WHOLE)
			return true;
		if (kind == BUNDLE_OTHER)
			return false;
		if (kind == BUNDLE_REFUSED) {
			*ret_err = uh_error_new("%s: " STR_FMT "; the bundle was refused", path, STR_ARG(piece));
			return false;
		}
		if (kind == BUNDLE_MEMBER) {
			if (bundle_member(b, piece)) {
				*ret_err = uh_error_new("%s: entry '" STR_FMT "' is there twice; the bundle was refused", path,
							STR_ARG(piece));
				return false;
			}
			add_member(b, piece);
			cap = 0;
		} else if (kind == BUNDLE_DATA && b->members.len && piece.n) {
			add_data(b, &cap, piece);
		}
	}
	if (!*ret_err)
		*ret_err = uh_error_new("%s: it could not be read to its end", path);
	return false;
}

/** Only what zstd packed can be a bundle: whatever else is left to those who read any archive. */
static bool may_be(const char *path)
{
	char head[MAGIC];
	struct door_file *door = NULL;
	struct opened what;
	// Opening a FIFO and closing it again would send its writer away.
	struct uh_error *err = door_look(&(struct named){ .path = path }, &what);
	ssize_t n = -1;
	if (!err && S_ISREG(what.st.st_mode) && !what.acting)
		err = door_open(&(struct named){ .path = path }, &door);
	if (!err && door) {
		n = door_read(door, 0, head, sizeof(head), &err);
		door_close(door);
	}
	uh_error_free(err); // whoever opens it next will say it
	return n == MAGIC && !memcmp(head, "\x28\xb5\x2f\xfd", MAGIC);
}

static bool is_manifest(const struct bundle *b)
{
	const struct bundle_member *m = b->members.len ? &b->members.data[0] : NULL;
	return m && str_find((struct str){ m->bytes, m->n }, S("\"" BUNDLE_SCHEMA "\"")) >= 0;
}

static struct uh_error *read_bundle(const struct bundle_work *work, struct bundle **ret)
{
	const char *path = work->path;
	struct feed feed;
	struct uh_error *err = feed_begin(&feed, path, unbundle, work, PROCESSOR_MS);
	if (err)
		return err;
	struct bundle *b = mem_alloc(sizeof(*b));
	if (take_all(&feed, b, &err, path) && is_manifest(b))
		*ret = b;
	else
		bundle_free(b);
	feed_end(&feed);
	return err;
}

struct uh_error *bundle_open(const char *path, struct bundle **ret)
{
	*ret = NULL;
	return may_be(path) ? read_bundle(&(struct bundle_work){ path, -1 }, ret) : NULL;
}

struct uh_error *bundle_read(int fd, const char *name, struct bundle **ret)
{
	*ret = NULL;
	return read_bundle(&(struct bundle_work){ name, fd }, ret);
}

void bundle_free(struct bundle *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->members.len; i++)
		free(b->members.data[i].bytes);
	vec_free(&b->members);
	arena_free(&b->arena);
	free(b);
}

const struct bundle_member *bundle_member(const struct bundle *b, struct str name)
{
	for (size_t i = 0; i < b->members.len; i++)
		if (str_eq(b->members.data[i].name, name))
			return &b->members.data[i];
	return NULL;
}
