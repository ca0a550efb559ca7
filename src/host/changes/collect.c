// Which logs and files of a machine are read, and how they are found. All of it happens in a child without rights but to read: what it reads
// may be a stranger's tree, and SQLite and zlib take it apart. The child sends what it found row by row, so that one that is late or crashes
// loses the rest only.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <zlib.h>

#include "base/child.h"
#include "base/door/caller.h"
#include "base/door/named.h"
#include "base/door/root.h"
#include "base/save.h"
#include "host/changes/readers.h"

/** What is read of a file: its text, nothing (its name and time tell), or where it points as a link. */
enum change_how { HOW_TEXT, HOW_NAME, HOW_LINK };

#define PYTHON(lib) lib "/python3*/site-packages/*.dist-info/RECORD"
// `*` stands for a part of one name, `~` for the home of the user who asks; in a tree for those of all users.
static const struct change_reader {
	const char *paths;
	change_parse_fn *parse;
	enum change_how how;
	bool log;                 // of all that a package manager did: while one of it is unread, nothing is blamed
	const char *cut, *beside; // the end of the path that goes, and what is put there instead: a second file; NULL
} readers[] = {
	{ "/var/log/apt/history.log /var/log/apt/history.log.*", changes_of_apt, .log = true },
	{ "/var/log/dpkg.log /var/log/dpkg.log.*", changes_of_dpkg, .log = true },
	{ "/var/log/pacman.log", changes_of_pacman, .log = true },
	{ "/var/log/zypp/history /var/log/zypp/history-*", changes_of_zypper, .log = true },
	{ "/var/lib/dnf/history.sqlite", changes_of_dnf4, .log = true, .cut = "", .beside = "-wal" },
	{ "/usr/lib/sysimage/*/transaction_history.sqlite /var/lib/dnf/transaction_history.sqlite", changes_of_dnf5,
	  .log = true, .cut = "", .beside = "-wal" },
	{ "/ostree/deploy/*/deploy/*.origin", changes_of_ostree, HOW_NAME, .cut = ".origin", .beside = "/usr/lib/os-release" },
	{ "/nix/var/nix/profiles/system-*-link", changes_of_nix, HOW_LINK, .cut = "", .beside = "/kernel" },
	{ "/var/lib/snapd/snaps/*.snap", changes_of_snap, HOW_NAME },
	{ "/var/lib/dkms/*/*/*/*/module", changes_of_dkms, HOW_NAME },
	{ "/usr/local/lib/python3*/dist-packages/*.dist-info/RECORD", changes_of_record, HOW_NAME },
	{ PYTHON("/usr/local/lib") " " PYTHON("/opt/venv/lib") " " PYTHON("/opt/conda/lib") " " PYTHON("/opt/conda/envs/*/lib"),
	  changes_of_record, HOW_NAME },
	{ "/etc/modprobe.d/*.conf /etc/default/grub /etc/default/grub.d/*.cfg /etc/kernel/cmdline "
	  "/boot/loader/entries/*.conf "
	  "/efi/loader/entries/*.conf /etc/default/limine /boot/limine.conf /etc/kernelstub/configuration "
	  "/boot/refind_linux.conf",
	  changes_of_file, HOW_NAME },
	// What users can write comes last, so that it cannot crowd out the rest.
	{ PYTHON("~/.local/lib") " " PYTHON("~/.venv/lib") " " PYTHON("~/*/lib") " " PYTHON("~/*/venv/lib") " " PYTHON(
		  "~/*/.venv/lib") " " PYTHON("~/*/envs/*/lib"),
	  changes_of_record, HOW_NAME },
	{ "~/.local/share/Steam/steamapps/appmanifest_*.acf", changes_of_steam },
};

/** What a lower tool does for one above it, both tell: the upper one counts. `*`: any but those of the same row. */
static const struct {
	const char *lower, *upper;
} beneath[] = { { "dpkg", "apt" }, { "dkms", "*" }, { "file", "*" } };

enum { LOG_MOST = 4 << 20, UNPACKED_MOST = 16 << 20, DATABASE_MOST = 64 << 20, FILES_MOST = 4096, LINE_MOST = 1 << 20 };

// --- in the child: finding ---

struct found_file {
	char *path;
	double changed;
};

struct collecting {
	const struct know *know;
	const char *root;
	double oldest;
	const struct change_reader *reader; // the row at work
	struct changes *row;                // what it has told
	struct arena arena;                 // of a row
	struct arena bytes;                 // of a file
	VEC(struct found_file) files;
};

/** A file of a package has the time of its build, but arrives with a new status. A tree was copied, and its status with it. */
static double time_of(const struct collecting *w, const struct stat *st)
{
	return (double)(w->root ? st->st_mtim.tv_sec : st->st_ctim.tv_sec);
}

/** Of a log of packages only. A file of a user's own is not worth it: whoever makes one could silence all others. */
static void note_unread(struct collecting *w, const char *path, const char *why)
{
	if (w->reader->log)
		changes_unread(w->row, str_z(path), why);
}

/** A link that leads nowhere is there, too: in the place of a log it hides one. */
static void take_found(struct collecting *w, const char *path, bool link)
{
	struct stat st;
	_cleanup_close_ int to = root_open(w->root, path, O_PATH | (link ? O_NOFOLLOW : 0));
	const int why = errno;
	_cleanup_close_ int itself = to < 0 && w->reader->log ? root_open(w->root, path, O_PATH | O_NOFOLLOW) : -1;
	if (to < 0 && itself < 0) {
		if (why != ENOENT && why != ENOTDIR)
			note_unread(w, path, strerror(why));
		return;
	}
	if (fstat(to < 0 ? itself : to, &st))
		return;
	const struct found_file one = { arena_z(&w->arena, str_z(path)), link ? (double)st.st_mtim.tv_sec : time_of(w, &st) };
	if (w->files.len < FILES_MOST)
		vec_push(&w->files, one);
	else
		note_unread(w, path, "there are too many files");
}

/** Goes down @rest, a pattern, from @path on. */
static void find_files(struct collecting *w, const char *path, struct str rest, bool link)
{
	struct str name = str_split(&rest, '/');
	char next[PATH_MAX];
	while (name.n && !memchr(name.p, '*', name.n)) {
		if (snprintf(next, sizeof(next), "%s/" STR_FMT, path, STR_ARG(name)) >= (int)sizeof(next))
			return;
		path = arena_z(&w->arena, str_z(next));
		name = str_split(&rest, '/');
	}
	if (!name.n) {
		take_found(w, path, link);
		return;
	}
	const int fd = root_open(w->root, path, O_RDONLY | O_DIRECTORY);
	if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
		note_unread(w, path, strerror(errno));
	_cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	unsigned left = FILES_MOST;
	for (struct dirent *e = dir ? readdir(dir) : NULL; e && left; e = readdir(dir), left--)
		if ((e->d_name[0] != '.' || name.p[0] == '.') && str_glob(name, str_z(e->d_name)) &&
		    snprintf(next, sizeof(next), "%s/%s", path, e->d_name) < (int)sizeof(next)) {
			if (rest.n)
				find_files(w, next, rest, link);
			else
				take_found(w, next, link);
		}
}

/** The home of the user who asks, by the machine's own list; empty. */
static struct str home_of(struct arena *a, struct str passwd, uid_t uid)
{
	str_each (line, passwd, '\n') {
		struct str rest = line, fields[6];
		int64_t id;
		for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
			fields[i] = str_split(&rest, ':');
		if (str_number(fields[2], &id) && id == (int64_t)uid)
			return arena_str(a, fields[5]);
	}
	return (struct str){ 0 };
}

// --- in the child: reading ---

/** What a file has. */
struct collected {
	struct str text;
	const char *why; // it is not all of it; NULL: it is
	bool end_only;   // it is too large, and this is its end
};

/** @whole: all of it or nothing. */
static struct collected collect_bytes(struct collecting *w, const char *path, size_t most, bool whole)
{
	struct opened o = { .fd = -1 };
	_cleanup_error_ struct uh_error *err = named_open(&(struct named){ .path = path, .root = w->root }, false, &o);
	_cleanup_close_ int fd = err ? -1 : o.fd;
	if (err && err->errnum)
		return (struct collected){ .why = strerror(err->errnum) };
	if (fd < 0 || !S_ISREG(o.st.st_mode))
		return (struct collected){ .why = "it is no file" };
	const bool large = (size_t)o.st.st_size > most;
	if (large && whole)
		return (struct collected){ .why = "it is too large" };
	const off_t from = large ? o.st.st_size - (off_t)most : 0;
	const size_t size = (size_t)(o.st.st_size - from);
	char *room = arena_alloc(&w->bytes, size + 1);
	size_t n = 0;
	for (ssize_t got = 1; got > 0 && n<size; n += got> 0 ? (size_t)got : 0)
		got = pread(fd, room + n, size - n, from + (off_t)n);
	struct collected all = { { room, n }, n < size ? "it could not be read to its end" : NULL, large };
	if (large)
		str_split(&all.text, '\n'); // the rest of a line
	return all;
}

/** The time of the first line that has one; 0: none has. */
static double first_time(struct str text)
{
	str_each (line, text, '\n') {
		double when;
		bool local;
		while (line.n && !char_digit(line.p[0]))
			line = str_from(line, 1);
		if (change_time(&line, &when, &local))
			return when;
	}
	return 0;
}

/** What is wrong with the text of a log of packages; NULL: nothing. */
static const char *log_problem(const struct collecting *w, const struct collected *log)
{
	const struct str text = log->text;
	const char *end = text.n ? memrchr(text.p, '\n', text.n) : NULL;
	const double first = first_time(text);
	if (text.n - (end ? (size_t)(end + 1 - text.p) : 0) > LINE_MOST || (log->end_only && !text.n))
		return "a line of it is too long";
	if (str_trim(text).n && !first)
		return "it is no log of packages, or damaged";
	return log->end_only && first > w->oldest ? "it is too large, and only its end was read" : NULL;
}

/** A log that was rotated; several may stand one behind the other. */
static struct collected unpacked(struct collecting *w, struct str packed)
{
	enum { WITH_HEAD = 16 + MAX_WBITS, PIECE = 1 << 16 };
	z_stream z = { .next_in = (unsigned char *)packed.p, .avail_in = (unsigned)packed.n };
	int end = inflateInit2(&z, WITH_HEAD);
	_cleanup_text_ struct text out = { 0 };
	while (end == Z_OK && out.n < UNPACKED_MOST) {
		z.next_out = (unsigned char *)text_room(&out, PIECE);
		z.avail_out = PIECE;
		end = inflate(&z, Z_NO_FLUSH);
		out.n += PIECE - z.avail_out;
		if (end == Z_STREAM_END && z.avail_in)
			end = inflateReset(&z);
	}
	inflateEnd(&z);
	return (struct collected){ arena_str(&w->bytes, text_str(&out)),
				   end == Z_STREAM_END   ? NULL :
				   out.n < UNPACKED_MOST ? "it is cut, or damaged" :
							   "it is too large when it is unpacked" };
}

static struct collected collect_log_text(struct collecting *w, const char *path)
{
	const struct str name = str_z(path);
	const bool packed = str_ends(name, S(".gz"));
	if (str_among(name, STR_ENDS, ".xz|.bz2|.zst|.lz4").n)
		return (struct collected){ .why = "unhang cannot unpack it" };
	struct collected log = collect_bytes(w, path, LOG_MOST, packed);
	if (packed && !log.why)
		log = unpacked(w, log.text);
	if (!log.why && w->reader->log)
		log.why = log_problem(w, &log);
	return log;
}

/** With what was written beside it. */
static struct collected collect_database(struct collecting *w, const char *path, const char *beside, struct str *ret_wal)
{
	struct collected database = collect_bytes(w, path, DATABASE_MOST, true);
	_cleanup_close_ int there = root_open(w->root, beside, O_PATH | O_NOFOLLOW);
	const struct collected wal = there < 0 ? (struct collected){ 0 } : collect_bytes(w, beside, DATABASE_MOST, true);
	*ret_wal = wal.text;
	database.why = database.why ? database.why : wal.why;
	return database;
}

static struct str link_of(struct collecting *w, const char *path)
{
	char target[PATH_MAX];
	_cleanup_close_ int fd = root_open(w->root, path, O_PATH | O_NOFOLLOW);
	const ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof(target));
	return n > 0 ? arena_str(&w->arena, (struct str){ target, (size_t)n }) : (struct str){ 0 };
}

static void collect_log(struct collecting *w, const struct found_file *f)
{
	const struct change_reader *r = w->reader;
	struct change_log log = {
		.path = str_z(f->path), .changed = f->changed, .own = str_starts(str_z(r->paths), S("~")), .oldest = w->oldest
	};
	struct collected bytes = { 0 };
	const char *beside =
		r->beside ? arena_printf(&w->arena, "%.*s%s", (int)(log.path.n - strlen(r->cut)), f->path, r->beside).p : NULL;
	if (r->how == HOW_LINK)
		bytes.text = arena_printf(&w->arena, STR_FMT "\n" STR_FMT, STR_ARG(link_of(w, f->path)),
					  STR_ARG(link_of(w, beside)));
	else if (r->how == HOW_TEXT)
		bytes = beside ? collect_database(w, f->path, beside, &log.wal) : collect_log_text(w, f->path);
	else if (beside)
		bytes = collect_bytes(w, beside, LOG_MOST, true);
	log.text = bytes.text;
	if (bytes.why)
		note_unread(w, f->path, bytes.why);
	if (!bytes.why || bytes.text.n) // what can be read counts
		r->parse(w->row, w->know, &log);
	arena_free(&w->bytes);
}

static int oldest_first(const void *a, const void *b)
{
	const struct found_file *x = a, *y = b;
	return x->changed != y->changed ? (x->changed < y->changed ? -1 : 1) : strcmp(x->path, y->path);
}

static void read_row(struct collecting *w, const struct change_reader *r, struct str home, int to)
{
	_cleanup_changes_ struct changes c = { 0 };
	_cleanup_text_ struct text out = { 0 };
	const bool link = r->how == HOW_LINK;
	w->reader = r;
	w->row = &c;
	w->files.len = 0;
	str_each (path, str_z(r->paths), ' ') {
		if (!str_starts(path, S("~")))
			find_files(w, "", str_from(path, 1), link);
		else if (home.n)
			find_files(w, "",
				   arena_printf(&w->arena, STR_FMT STR_FMT, STR_ARG(str_from(home, 1)),
						STR_ARG(str_from(path, 1))),
				   link);
	}
	if (w->files.len)
		qsort(w->files.data, w->files.len, sizeof(*w->files.data), oldest_first);
	for (size_t i = 0; i < w->files.len; i++)
		// A log that was rotated so long ago has nothing that is kept.
		if (r->how != HOW_TEXT || w->files.data[i].changed >= w->oldest)
			collect_log(w, &w->files.data[i]);
	changes_order(&c);
	changes_keep_since(&c, w->oldest);
	changes_write(&c, &out);
	text_add(&out, S("end\n"));
	write_all(to, text_str(&out));
	arena_free(&w->arena);
}

/** Times without a zone are those of the machine's zone. */
static void take_zone(struct collecting *w)
{
	enum { ZONE_MOST = 1 << 16 };
	char name[64] = "UTC0";
	unsetenv("TZ");
	const struct str zone = w->root ? collect_bytes(w, "/etc/localtime", ZONE_MOST, true).text : (struct str){ 0 };
	const int fd = zone.n ? memfd_create("zone", MFD_CLOEXEC) : -1;
	if (fd >= 0 && write_all(fd, zone))
		snprintf(name, sizeof(name), ":/proc/self/fd/%d", fd);
	if (w->root)
		setenv("TZ", name, 1);
	tzset();
}

static void collect_child(int to, const void *ctx)
{
	enum { PASSWD_MOST = 1 << 20 };
	struct collecting w = *(const struct collecting *)ctx;
	_cleanup_arena_ struct arena kept = { 0 };
	child_keep_only(to);
	take_zone(&w);
	const struct str home =
		w.root ? S("/home/*") : home_of(&kept, collect_bytes(&w, "/etc/passwd", PASSWD_MOST, true).text, caller_uid());
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++)
		read_row(&w, &readers[i], home, to);
	vec_free(&w.files);
}

// --- in unhang ---

static bool at_once(const struct transaction *lower, const struct transaction *upper)
{
	enum { SLACK_S = 60 };
	return lower->when >= upper->begin - SLACK_S && lower->begin <= upper->when + SLACK_S;
}

static bool is_beneath(const struct changes *c, const struct transaction *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(beneath); i++) {
		const struct str upper = str_z(beneath[i].upper);
		if (str_is(t->manager, beneath[i].lower) &&
		    list_find(c->transactions.data, c->transactions.len, it,
			      !it->last && !str_eq(it->manager, t->manager) && str_glob(upper, it->manager) && at_once(t, it)))
			return true;
	}
	return false;
}

static void drop_beneath(struct changes *c)
{
	size_t kept = 0;
	for (size_t i = 0; i < c->transactions.len; i++) {
		struct transaction t = c->transactions.data[i];
		if (is_beneath(c, &t))
			vec_free(&t.changes);
		else
			c->transactions.data[kept++] = t;
	}
	c->transactions.len = kept;
}

void changes_collect(struct changes *c, const struct know *k, const char *root, double oldest)
{
	enum { SENT_MOST = 8 << 20 };
	const struct collecting work = { .know = k, .root = root, .oldest = oldest };
	const struct child_task task = { .name = CHILD_CHANGES, .most = SENT_MOST };
	_cleanup_text_ struct text sent = { 0 };
	const enum child_end end = child_collect(&task, collect_child, &work, &sent);
	struct str whole = text_str(&sent);
	while (whole.n && !str_ends(whole, S("\nend\n")))
		whole.n--;
	const bool good = changes_parse(c, k, whole) && end == CHILD_GOOD;
	if (!good)
		changes_unread(c, S("some logs of packages"),
			       end == CHILD_LATE ? "they did not answer in time" : "their reader crashed, or may not start");
	drop_beneath(c);
}
