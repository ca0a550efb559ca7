// Unpacks, in a child with limits. Layers are taken off one by one: each is a stream of bytes that comes from the one below it, and its head
// says what it is.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "source/archive/archive.h"
#include "source/archive/library.h"
#include "source/source.h"

enum {
	BLOCK = 128 << 10,
	HEAD = ARCHIVE_HEAD,
	TEXT_LEAST = 16,
	ENTRIES_MAX = 4096,
	LAYERS_MAX = 6, // a tar.gz has two
	KEPT_MOST = 4 << 20,
	RATIO_MOST = 1000,
	UNPACKED_FREE = 256 << 20, // so much may come of anything
};
static const uint64_t unpacked_most = 16ull << 30;

// --- layers ---

struct unpacker {
	struct archive_api api;
	int to;
	_Atomic unsigned *unwanted;
	bool bundles; // are not unpacked
	unsigned sources, entries;
	uint64_t packed, unpacked; // bytes that went in, and that came out
	bool packs;                // something is compressed
	bool full;                 // a limit was reached
	bool said;                 // what is wrong: the rest follows from it
};

/** Bytes that come block by block. */
struct layer {
	struct unpacker *u;
	const char *name;
	/** The next bytes in ->block, which is empty; none: the end. What is wrong is in ->why. */
	void (*fill)(struct layer *l);
	void *ctx;
	struct str block;
	struct text front; // comes before the block
	bool keeps;        // what is handed on goes to ->kept as well
	struct text kept;
	struct text why; // empty: nothing is wrong
	bool ended, refused;
	bool seen; // something came
};

static void layer_end(struct layer *l)
{
	text_free(&l->why);
	text_free(&l->front);
	text_free(&l->kept);
}

static void archive_child_refuse(struct layer *l, const char *why)
{
	if (!l->why.n)
		text_printf(&l->why, "%s", why);
	l->ended = l->refused = true;
	l->block.n = 0;
}

static void account(struct layer *l)
{
	struct unpacker *u = l->u;
	u->unpacked += l->block.n;
	if (!u->packs || u->full || u->unpacked <= UNPACKED_FREE)
		return;
	u->full = u->unpacked > unpacked_most || u->unpacked / RATIO_MOST > u->packed;
	if (u->full)
		archive_child_refuse(l, u->unpacked > unpacked_most ?
						"unpacks to more than 16 GB; the rest was not read" :
						"unpacks to more than 1,000 times its size; the rest was not read");
}

/** Makes sure that there is a block, unless it has ended. */
static void next_block(struct layer *l)
{
	while (!l->block.n && !l->ended && !l->u->full) {
		l->fill(l);
		l->seen |= l->block.n > 0;
	}
	if (l->u->full)
		l->block.n = 0;
}

/** The next bytes, out of the front or of a block. Empty: the end. */
static struct str archive_child_take(struct layer *l)
{
	struct str s;
	if (l->front.n) {
		s = text_str(&l->front);
		l->front.n = 0;
	} else {
		next_block(l);
		s = l->block;
		l->block.n = 0;
	}
	if (l->keeps && l->kept.n + s.n > KEPT_MOST)
		l->keeps = false;
	if (l->keeps)
		text_add(&l->kept, s);
	return s;
}

/** Its first bytes, which stay there. */
static struct str archive_child_head_of(struct layer *l)
{
	while (l->front.n < HEAD) {
		next_block(l);
		if (!l->block.n)
			break;
		text_add(&l->front, l->block);
		l->block.n = 0;
	}
	return text_str(&l->front);
}

/** Sends what is wrong, once for the whole archive. */
static void archive_child_send_problem(struct unpacker *u, enum archive_piece kind, const char *name, const char *why)
{
	_cleanup_text_ struct text line = { 0 };
	if (why && *why && !u->said) {
		text_printf(&line, "%s: %s", name, why);
		u->said = true;
	}
	if (line.n || kind == ARCHIVE_ENDS)
		feed_send(u->to, kind, str_cut(text_str(&line), FEED_MOST), S(""));
}

/** What is no archive is a source. */
static void send_source(struct layer *l, enum archive_piece kind)
{
	struct unpacker *u = l->u;
	struct str s;
	unsigned number = ++u->sources;
	feed_send(u->to, kind, str_cut(str_z(l->name), FEED_MOST), S(""));
	while (*u->unwanted < number && (s = archive_child_take(l)).n)
		for (; s.n; s = str_from(s, str_cut(s, FEED_MOST).n))
			feed_send(u->to, ARCHIVE_DATA, str_cut(s, FEED_MOST), S(""));
	archive_child_send_problem(u, ARCHIVE_ENDS, l->name, l->why.p);
}

static void unpack_layer(struct layer *l, int layers);

/** Something that begins like an archive, and then goes on as a text: of a power cut, or of somebody who wants it overlooked. */
static bool text_after_all(struct layer *l)
{
	struct str s = str_from(str_cut(text_str(&l->kept), HEAD), 4);
	if (!l->keeps || s.n < TEXT_LEAST)
		return false;
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < ' ' && !char_among(s.p[i], "\t\n\r\x1b\f\b"))
			return false;
	return true;
}

/** Hands on what was taken for an archive as it is. */
static void send_as_text(struct layer *l, const char *why)
{
	_cleanup_text_ struct text line = { 0 }, rest = l->front;
	text_printf(&line, "begins like an archive but is not one (%s); it was read as text", why);
	archive_child_send_problem(l->u, ARCHIVE_PROBLEM, l->name, line.p);
	l->front = l->kept;
	text_add(&l->front, text_str(&rest));
	l->keeps = false;
	l->kept = (struct text){ 0 };
	send_source(l, ARCHIVE_SOURCE);
}

// --- gzip: libarchive would lose the last 64 KB of one that is cut ---

struct gzip {
	struct layer *below;
	z_stream z;
	struct str in;
	char *room;
	bool between; // members
};

static void gzip_ends(struct layer *l, struct gzip *g, const char *why)
{
	if (why)
		archive_child_refuse(l, why);
	l->ended = true;
	l->block = (struct str){ g->room, BLOCK - g->z.avail_out };
	account(l);
}

static void gzip_fill(struct layer *l)
{
	struct gzip *g = l->ctx;
	g->z.next_out = (Bytef *)g->room;
	g->z.avail_out = BLOCK;
	while (g->z.avail_out) {
		if (!g->in.n)
			g->in = archive_child_take(g->below);
		// Another member may follow the one that has ended. What else follows is padding.
		if (g->between && (!g->in.n || (unsigned char)g->in.p[0] != 0x1f || inflateReset(&g->z) != Z_OK)) {
			gzip_ends(l, g, NULL);
			return;
		}
		if (!g->in.n) {
			gzip_ends(l, g, g->below->why.n ? g->below->why.p : "is cut off; what is there was read");
			return;
		}
		g->z.next_in = (Bytef *)g->in.p;
		g->z.avail_in = (uInt)g->in.n;
		int rc = inflate(&g->z, Z_NO_FLUSH);
		g->in = str_from(g->in, g->in.n - g->z.avail_in);
		g->between = rc == Z_STREAM_END;
		if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR) {
			gzip_ends(l, g, g->z.msg ? g->z.msg : "damaged");
			return;
		}
	}
	l->block = (struct str){ g->room, BLOCK };
	account(l);
}

static void unpack_gzip(struct layer *below, int layers)
{
	enum { GZIP_WINDOW = 16 + MAX_WBITS };
	struct gzip g = { .below = below, .room = mem_large(BLOCK) };
	_cleanup_(layer_end) struct layer l = { .u = below->u, .name = below->name, .fill = gzip_fill, .ctx = &g };
	below->u->packs = true;
	below->keeps = true;
	inflateInit2(&g.z, GZIP_WINDOW);
	archive_child_head_of(&l);
	below->keeps &= !l.seen;
	if (l.seen || !text_after_all(below))
		unpack_layer(&l, layers + 1);
	else
		send_as_text(below, l.why.p ? l.why.p : "damaged");
	inflateEnd(&g.z);
	free(g.room);
}

// --- everything else ---

struct packed {
	struct archive *archive;
	struct layer *below;
};

static const char *why_of(const struct archive_api *api, struct archive *a)
{
	const char *why = api->archive_error_string(a);
	if (api->archive_errno(a) == ENOMEM)
		return "unpacking it needs more than 1 GB of memory, so it was not";
	return why ? why : "damaged";
}

/** Blocks leave out what a sparse file does not hold, so that it is not handed on as terabytes of zeros. */
static void packed_fill(struct layer *l)
{
	struct packed *p = l->ctx;
	const void *bytes;
	la_int64_t offset;
	int status = l->u->api.archive_read_data_block(p->archive, &bytes, &l->block.n, &offset);
	l->block.p = bytes;
	l->ended = status == ARCHIVE_EOF || status < ARCHIVE_WARN;
	if (l->ended)
		l->block.n = 0;
	if (status < ARCHIVE_WARN)
		archive_child_refuse(l, why_of(&l->u->api, p->archive));
	else
		account(l);
}

/** As libarchive wants to be fed. */
static la_ssize_t feed_below(struct archive *a, void *ctx, const void **ret_bytes)
{
	struct layer *l = ctx;
	struct str s = archive_child_take(l);
	if (!s.n && l->why.n) {
		l->u->api.archive_set_error(a, EIO, "%s", l->why.p);
		return ARCHIVE_FATAL;
	}
	*ret_bytes = s.p;
	return (la_ssize_t)s.n;
}

/** The members of a container, or the one of a compressed file. Whether any byte came. */
static bool unpack_members(struct layer *below, struct archive *a, bool container, int layers, struct text *ret_why)
{
	struct unpacker *u = below->u;
	struct archive_entry *entry;
	bool any = false, damaged = false;
	int status = ARCHIVE_OK;
	while (!u->full && !damaged &&
	       ((status = u->api.archive_read_next_header(a, &entry)) == ARCHIVE_OK || status == ARCHIVE_WARN)) {
		if (container && u->api.archive_entry_filetype(entry) != AE_IFREG)
			continue;
		if (u->entries++ == ENTRIES_MAX) {
			text_printf(ret_why, "more than %d members; the rest was not read", ENTRIES_MAX);
			return any;
		}
		_cleanup_text_ struct text name = { 0 };
		const char *inside = container ? u->api.archive_entry_pathname(entry) : NULL;
		text_printf(&name, "%s", below->name);
		if (container)
			text_printf(&name, "(%s)", inside ? inside : "?");
		struct packed p = { a, below };
		_cleanup_(layer_end) struct layer l = { .u = u, .name = name.p, .fill = packed_fill, .ctx = &p };
		archive_child_head_of(&l);
		any |= l.seen;
		if (!container && l.front.n && str_starts(text_str(&below->kept), text_str(&l.front))) {
			text_printf(ret_why, "not compressed"); // libarchive hands on what it does not know
			return false;
		}
		if (!any && l.why.n)
			text_printf(ret_why, "%s", l.why.p);
		else
			unpack_layer(&l, layers + 1);
		damaged = l.refused; // what follows in the archive is lost with it
	}
	if (status < ARCHIVE_WARN && !ret_why->n)
		text_printf(ret_why, "%s", why_of(&u->api, a));
	else if (!any && !ret_why->n && !u->entries)
		text_printf(ret_why, "it is empty");
	return any;
}

static void unpack_packed(struct layer *below, bool container, int layers)
{
	struct unpacker *u = below->u;
	_cleanup_text_ struct text why = { 0 };
	const char *missing = archive_load(&u->api);
	if (missing) {
		archive_child_send_problem(u, ARCHIVE_PROBLEM, below->name, missing);
		return;
	}
	struct archive *a = archive_new(&u->api, container);
	below->keeps = true;
	u->packs |= !container;
	bool any = false;
	if (u->api.archive_read_open(a, below, NULL, feed_below, NULL) == ARCHIVE_OK)
		any = unpack_members(below, a, container, layers, &why);
	else
		text_printf(&why, "%s", why_of(&u->api, a));
	if (!any && why.n && text_after_all(below))
		send_as_text(below, why.p);
	else
		archive_child_send_problem(u, ARCHIVE_PROBLEM, below->name, why.p);
	u->api.archive_read_free(a);
}

static void unpack_layer(struct layer *l, int layers)
{
	struct str head = archive_child_head_of(l);
	bool container = archive_is_container(head), archive = container || source_is_archive(head);
	if (layers > LAYERS_MAX || !archive)
		send_source(l, ARCHIVE_SOURCE);
	else if (l->u->bundles && archive_may_be_bundle(head))
		send_source(l, ARCHIVE_BUNDLE);
	else if (str_starts(head, S("\x1f\x8b"))) // gzip
		unpack_gzip(l, layers);
	else
		unpack_packed(l, container, layers);
	archive_child_send_problem(l->u, ARCHIVE_PROBLEM, l->name, l->why.p);
}

// --- the file ---

struct raw {
	int fd;
	bool file; // that has a size
	char *room;
};

static void raw_fill(struct layer *l)
{
	struct raw *r = l->ctx;
	ssize_t n;
	do
		n = read(r->fd, r->room, BLOCK);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		archive_child_refuse(l, errno == EBADF ? "standard input is closed" : strerror(errno));
	l->ended |= n <= 0;
	l->block = (struct str){ r->room, n < 0 ? 0 : (size_t)n };
	if (!r->file)
		l->u->packed += l->block.n;
}

static void memory_fill(struct layer *l)
{
	struct str *left = l->ctx;
	l->block = str_cut(*left, BLOCK);
	*left = str_from(*left, l->block.n);
	l->ended = !l->block.n;
}

void archive_child(int to, const void *ctx)
{
	const struct archive_work *w = ctx;
	struct opened o = { .fd = w->fd };
	struct unpacker u = { .to = to, .unwanted = w->unwanted, .bundles = w->bundles };
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (w->bytes.p) {
		struct str left = w->bytes;
		_cleanup_(layer_end) struct layer l = { .u = &u, .name = w->name, .fill = memory_fill, .ctx = &left };
		child_keep_only(to);
		u.packed = w->bytes.n;
		unpack_layer(&l, 0);
		return;
	}
	if (w->named)
		child_keep_only(to);
	else
		child_keep_two(w->fd, to);
	_cleanup_free_ char *room = mem_large(BLOCK);
	struct raw r = { .room = room };
	_cleanup_(layer_end) struct layer l = { .u = &u, .name = w->name, .fill = raw_fill, .ctx = &r };
	_cleanup_error_ struct uh_error *err = w->named ? named_open(w->named, false, &o) : NULL;
	if (err || o.fd < 0) {
		archive_child_send_problem(&u, ARCHIVE_PROBLEM, w->name, err ? strerror(err->errnum) : "not a file");
		return;
	}
	r.fd = o.fd;
	if (!w->named && fstat(r.fd, &o.st))
		o.st.st_mode = 0;
	r.file = S_ISREG(o.st.st_mode);
	u.packed = r.file ? (uint64_t)o.st.st_size : 0;
	if (!r.file)
		feed_send(to, FEED_ENDLESS, S(""), S(""));
	unpack_layer(&l, 0);
}
