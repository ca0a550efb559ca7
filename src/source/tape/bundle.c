#include "source/tape/bundle.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "source/archive/library.h"
#include "source/feed.h"

enum { MAGIC = 4, DEPTH_MOST = 4 };
/** Of a member and of all, holes included; of all without them. What is packed more tightly than any evidence is made to eat memory. */
static const uint64_t member_most = 1ull << 30, logical_most = 16ull << 30, bundle_most = 2ull << 30;
static const uint64_t tight_most = 256ull << 20, times_most = 200;

enum bundle_piece {
	BUNDLE_MEMBER = FEED_KINDS, // its name
	BUNDLE_DATA,
	BUNDLE_HOLE,    // a uint64_t: so many zeros
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
	const char *name;
	const struct named *named; // NULL: it is open already at ->fd
	int fd;
	struct str bytes; // in place of both: which the child has from its parent
};

struct unbundler {
	struct archive_api api;
	struct archive *archive;
	int to;
	unsigned entries;
	uint64_t bytes, logical; // of the members so far; with their holes
	uint64_t packed;         // of the file
};

static void tape_bundle_refuse(const struct unbundler *u, struct str entry, const char *why)
{
	_cleanup_text_ struct text text = { 0 };
	text_printf(&text, "entry '" STR_FMT "': %s", STR_ARG(str_cut(entry, BUNDLE_NAME_MOST)), why);
	feed_send(u->to, BUNDLE_REFUSED, text_str(&text), S(""));
}

/** Zeros, which need no memory. */
static void send_hole(struct unbundler *u, uint64_t n)
{
	u->logical += n;
	if (n)
		feed_send(u->to, BUNDLE_HOLE, (struct str){ (const char *)&n, sizeof(n) }, S(""));
}

static void send_block(struct unbundler *u, struct str block)
{
	for (; block.n; block = str_from(block, FEED_MOST)) {
		const struct str part = str_cut(block, FEED_MOST);
		if (mem_zero(part.p, part.n)) {
			send_hole(u, part.n);
			continue;
		}
		u->bytes += part.n;
		u->logical += part.n;
		feed_send(u->to, BUNDLE_DATA, part, S(""));
	}
}

/** What is wrong with @n bytes at @offset of a member that has had @size so far; NULL: nothing. */
static const char *too_much(const struct unbundler *u, uint64_t size, uint64_t offset, uint64_t n)
{
	if (offset < size || offset > member_most || n > member_most - offset || offset + n - size > logical_most - u->logical)
		return "it is larger than a bundle's may be";
	if (u->bytes > bundle_most)
		return "the bundle is larger than one may be";
	if (u->bytes > tight_most + times_most * u->packed)
		return "the bundle unpacks to more than 200 times its size";
	return NULL;
}

/** false: it was refused. */
static bool send_data(struct unbundler *u, struct archive_entry *e, struct str name)
{
	const void *block;
	size_t n;
	la_int64_t offset;
	uint64_t size = 0;
	const char *why = NULL;
	int r;
	while (!why && (r = u->api.archive_read_data_block(u->archive, &block, &n, &offset)) == ARCHIVE_OK) {
		why = too_much(u, size, (uint64_t)offset, n);
		if (why)
			break;
		send_hole(u, (uint64_t)offset - size);
		send_block(u, (struct str){ block, n });
		size = (uint64_t)offset + n;
	}
	const uint64_t whole = (uint64_t)u->api.archive_entry_size(e); // with a hole at its end
	if (!why && r != ARCHIVE_EOF)
		why = "it is damaged, or ends too early";
	if (!why && whole > size)
		why = too_much(u, size, whole, 0);
	if (why)
		tape_bundle_refuse(u, name, why);
	else if (whole > size)
		send_hole(u, whole - size);
	return !why;
}

static void send_members(struct unbundler *u)
{
	struct archive_entry *e;
	int r;
	while ((r = u->api.archive_read_next_header(u->archive, &e)) == ARCHIVE_OK) {
		struct str name = str_z(u->api.archive_entry_pathname(e));
		bool first = !u->entries++;
		if (first && !str_is(name, BUNDLE_MANIFEST)) {
			feed_send(u->to, BUNDLE_OTHER, S(""), S(""));
			return;
		}
		const char *why = u->entries > BUNDLE_ENTRIES_MOST ? "a bundle has no more than 4096 entries" :
				  u->api.archive_entry_hardlink(e) || u->api.archive_entry_symlink(e) ? "it is a link" :
				  u->api.archive_entry_filetype(e) != AE_IFREG                        ? "it is no file" :
													bundle_name_wrong(name);
		if (why) {
			tape_bundle_refuse(u, name, why);
			return;
		}
		feed_send(u->to, BUNDLE_MEMBER, name, S(""));
		if (!send_data(u, e, name))
			return;
	}
	if (r == ARCHIVE_EOF && u->entries)
		feed_send(u->to, BUNDLE_WHOLE, S(""), S(""));
	else if (u->entries)
		tape_bundle_refuse(u, S("the next one"), "it is damaged, or ends too early");
	else
		feed_send(u->to, BUNDLE_OTHER, S(""), S(""));
}

/** As libarchive wants to be fed: all at once, and then nothing. */
static la_ssize_t feed_bytes(struct archive *a, void *ctx, const void **ret_bytes)
{
	struct str *left = ctx;
	const struct str all = *left;
	(void)a;
	*ret_bytes = all.p;
	left->n = 0;
	return (la_ssize_t)all.n;
}

static void unbundle(int to, const void *ctx)
{
	const struct bundle_work *w = ctx;
	struct str left = w->bytes;
	struct unbundler u = { .to = to, .packed = left.n };
	struct opened o = { .fd = w->fd };
	struct stat st;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (w->named || left.p)
		child_keep_only(to);
	else
		child_keep_two(to, w->fd);
	_cleanup_error_ struct uh_error *err = w->named ? named_open(w->named, false, &o) : NULL;
	const char *missing = archive_load(&u.api);
	if (err || (!left.p && o.fd < 0) || missing) {
		struct str why = str_z(err ? uh_error_message(err) : missing ? missing : "not a file");
		feed_send(to, BUNDLE_REFUSED, why, S(""));
		return;
	}
	if (!left.p)
		u.packed = fstat(o.fd, &st) ? 0 : (uint64_t)st.st_size;
	u.archive = archive_new_bundle(&u.api);
	const int opened = left.p ? u.api.archive_read_open(u.archive, &left, NULL, feed_bytes, NULL) :
				    u.api.archive_read_open_fd(u.archive, o.fd, FEED_MOST);
	if (opened == ARCHIVE_OK)
		send_members(&u);
	else
		feed_send(to, BUNDLE_OTHER, S(""), S(""));
	u.api.archive_read_free(u.archive);
}

// --- the parent ---

/** Makes room for @more zeros behind a member. Nobody has touched them, so that they need no memory. false: there is none. */
static bool tape_bundle_grow(struct bundle_member *m, uint64_t more)
{
	const size_t wanted = m->n + more;
	size_t cap = m->cap ? m->cap : FEED_MOST;
	while (cap < wanted)
		cap *= 2;
	if (cap == m->cap)
		return true;
	void *room = m->cap ? mremap(m->bytes, m->cap, cap, MREMAP_MAYMOVE) :
			      mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return false;
	m->bytes = room;
	m->cap = cap;
	return true;
}

/** Adds what a piece holds to the last member. false: there is no memory for it. */
static bool add_piece(struct bundle *b, int kind, struct str piece)
{
	struct bundle_member *m = b->members.len ? &b->members.data[b->members.len - 1] : NULL;
	uint64_t hole = 0;
	if (!m)
		return true;
	if (kind == BUNDLE_HOLE && piece.n == sizeof(hole))
		memcpy(&hole, piece.p, sizeof(hole));
	const uint64_t more = kind == BUNDLE_DATA ? piece.n : hole;
	if (more > member_most - m->n || !tape_bundle_grow(m, more))
		return false;
	if (kind == BUNDLE_DATA)
		mem_copy_sparse(m->bytes + m->n, piece.p, piece.n);
	m->n += more;
	return true;
}

/** true: it was read to its end. */
static bool tape_bundle_take_all(struct feed *feed, struct bundle *b, struct uh_error **ret_err, const char *path)
{
	struct str piece;
	int kind;
	while ((kind = feed_next(feed, &piece, ret_err)) > 0) {
		if (kind == BUNDLE_WHOLE || kind == BUNDLE_OTHER)
			return kind == BUNDLE_WHOLE;
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
			vec_push(&b->members, ((struct bundle_member){ .name = arena_str(&b->arena, piece) }));
		} else if (!add_piece(b, kind, piece)) {
			*ret_err = uh_error_os(ENOMEM, "%s", path);
			return false;
		}
	}
	if (!*ret_err)
		*ret_err = uh_error_new("%s: it could not be read to its end", path);
	return false;
}

/** Only what zstd packed can be a bundle: whatever else is left to those who read any archive. */
static bool tape_bundle_may_be(const struct named *named)
{
	char head[MAGIC];
	struct door_file *door = NULL;
	struct opened what;
	// Opening a FIFO and closing it again would send its writer away.
	struct uh_error *err = door_look(named, &what);
	ssize_t n = -1;
	if (!err && S_ISREG(what.st.st_mode) && !what.acting)
		err = door_open(named, &door);
	if (!err && door) {
		n = door_read(door, 0, head, sizeof(head), &err);
		door_close(door);
	}
	uh_error_free(err); // whoever opens it next will say it
	return n == MAGIC && !memcmp(head, "\x28\xb5\x2f\xfd", MAGIC);
}

static struct uh_error *read_bundle(const struct bundle_work *work, struct bundle **ret)
{
	const char *path = work->name;
	struct feed feed;
	struct uh_error *err = feed_begin(&feed, CHILD_BUNDLE, path, unbundle, work);
	if (err)
		return err;
	struct bundle *b = mem_alloc(sizeof(*b));
	const bool whole = tape_bundle_take_all(&feed, b, &err, path);
	const struct bundle_member *m = whole && b->members.len ? &b->members.data[0] : NULL;
	if (m && str_find((struct str){ m->bytes, m->n }, S("\"" BUNDLE_SCHEMA "\"")) >= 0)
		*ret = b;
	else
		bundle_free(b);
	feed_end(&feed);
	return err;
}

struct uh_error *bundle_open(const struct named *n, const char *name, struct bundle **ret)
{
	*ret = NULL;
	return tape_bundle_may_be(n) ? read_bundle(&(struct bundle_work){ .name = name, .named = n, .fd = -1 }, ret) : NULL;
}

struct uh_error *bundle_read(int fd, const char *name, struct bundle **ret)
{
	*ret = NULL;
	return read_bundle(&(struct bundle_work){ .name = name, .fd = fd }, ret);
}

struct uh_error *bundle_of_bytes(struct str bytes, const char *name, struct bundle **ret)
{
	*ret = NULL;
	return read_bundle(&(struct bundle_work){ .name = name, .bytes = bytes }, ret);
}

void bundle_free(struct bundle *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->members.len; i++)
		if (b->members.data[i].cap)
			munmap(b->members.data[i].bytes, b->members.data[i].cap);
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
