// Journal files without libsystemd, which the static file and many containers lack, and which passes over damage in silence. It has the same
// calls, so that everything that asks a journal works with both.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "source/journal.h"
#include "source/journal/objects.h"

enum { FILES_MOST = 4096, VALUE_MOST = 64 << 10 }; // the last as libsystemd's

struct sd_journal {
	VEC(struct journal_file) files;
	struct {
		unsigned n;
		char name[128]; // of the newest, and why
		int why;
		uint64_t changed; // when, in microseconds since 1970
	} refused;                // files of which not even the head could be read
	bool foreign;             // one of them has a form that is not known here
	struct arena room;        // of matches
	struct journal_match matches[MATCHES_MOST];
	size_t nmatches;
	enum { AT_HEAD, AT_TAIL, BEFORE, AT_ENTRY } where;
	struct journal_place at;
	int prepared; // the direction that candidates are for; 0: there are none
	struct journal_file *file;
	const uint8_t *entry; // the current one; NULL: none
	struct text field;
};

// --- matches: one of the values of each name ---

static bool same_name(const struct journal_match *a, const struct journal_match *b)
{
	return str_eq(str_cut(a->text, a->name), str_cut(b->text, b->name));
}

static bool entry_matches(const struct sd_journal *j, const struct journal_file *f, const uint8_t *entry)
{
	for (size_t i = 0; i < j->nmatches; i++) {
		bool has = false;
		for (size_t k = 0; k < j->nmatches && !has; k++)
			has = same_name(&j->matches[i], &j->matches[k]) && journal_entry_has(f, entry, f->values[k]);
		if (!has)
			return false;
	}
	return true;
}

/** The shortest list that has all entries that match. */
static void file_prepare(const struct sd_journal *j, struct journal_file *f)
{
	f->list = journal_all_entries(f);
	for (size_t i = 0; i < j->nmatches; i++)
		f->values[i] = journal_find_value(f, &j->matches[i]);
	for (size_t i = 0; i < j->nmatches; i++) {
		if (list_find(j->matches, j->nmatches, it, it != &j->matches[i] && same_name(it, &j->matches[i])))
			continue;
		const struct entry_list own = journal_value_list(f, f->values[i]);
		if (!own.damaged && (f->list.damaged || own.n < f->list.n))
			f->list = own;
	}
	f->damaged |= f->list.damaged || !journal_is_whole(f);
}

// --- moving ---

/** From the @i-th on, counted from 1, in this direction: the first that matches. */
static size_t file_seek(const struct sd_journal *j, struct journal_file *f, size_t i, int direction)
{
	for (; i >= 1 && i <= f->list.n; i += (size_t)direction) {
		const uint8_t *entry = journal_list_entry(f, &f->list, i - 1);
		f->damaged |= !entry;
		if (entry && entry_matches(j, f, entry))
			return i;
	}
	return 0;
}

/** How many of the list stand before the place; with @same also those that are there. */
static size_t file_count(const struct journal_file *f, const struct entry_list *l, const struct journal_place *at, bool same)
{
	size_t low = 0, high = l->n;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const uint8_t *entry = journal_list_entry(f, l, middle);
		const struct journal_place here = entry ? journal_entry_place(f, entry) : (struct journal_place){ 0 };
		// What is damaged counts as the end: it was being written.
		const int c = entry ? journal_place_compare(&here, at) : 1;
		if (c < 0 || (same && !c))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void file_begin(const struct sd_journal *j, struct journal_file *f, int direction)
{
	size_t from = j->where == AT_HEAD ? 0 : f->list.n; // how many are behind us
	if (j->where == BEFORE || j->where == AT_ENTRY)
		from = file_count(f, &f->list, &j->at, (j->where == AT_ENTRY) == (direction > 0));
	f->candidate = file_seek(j, f, direction > 0 ? from + 1 : from, direction);
}

/** Past the current entry, which another file may have too. No other is passed over, whatever its place says: that may be damaged. */
static void file_go_on(const struct sd_journal *j, struct journal_file *f, int direction)
{
	const uint8_t *own = f->candidate ? journal_list_entry(f, &f->list, f->candidate - 1) : NULL;
	const struct journal_place here = own ? journal_entry_place(f, own) : (struct journal_place){ 0 };
	if (own && (own == j->entry || !journal_place_compare(&here, &j->at)))
		f->candidate = file_seek(j, f, f->candidate + (size_t)direction, direction);
}

static int journal_move(struct sd_journal *j, int direction)
{
	struct journal_place best;
	struct journal_file *from = NULL;
	const uint8_t *entry = NULL;
	for (size_t i = 0; i < j->files.len; i++) {
		struct journal_file *f = &j->files.data[i];
		if (j->prepared != direction) {
			file_prepare(j, f);
			file_begin(j, f, direction);
		} else if (j->where == AT_ENTRY) {
			file_go_on(j, f, direction);
		}
		const uint8_t *own = f->candidate ? journal_list_entry(f, &f->list, f->candidate - 1) : NULL;
		const struct journal_place here = own ? journal_entry_place(f, own) : (struct journal_place){ 0 };
		if (own && (!entry || journal_place_compare(&here, &best) * direction < 0)) {
			best = here;
			from = f;
			entry = own;
		}
	}
	j->prepared = direction;
	if (!entry)
		return 0;
	j->at = best;
	j->where = AT_ENTRY;
	j->file = from;
	j->entry = entry;
	return 1;
}

static int files_next(sd_journal *j) { return journal_move(j, 1); }

static int files_previous(sd_journal *j) { return journal_move(j, -1); }

static int seek_to(sd_journal *j, int where)
{
	j->where = where;
	j->prepared = 0;
	j->entry = NULL;
	return 0;
}

static int files_seek_head(sd_journal *j) { return seek_to(j, AT_HEAD); }

static int files_seek_tail(sd_journal *j) { return seek_to(j, AT_TAIL); }

/** Before the first entry of that boot from then on; at the end where there is none. */
static int files_seek_monotonic_usec(sd_journal *j, sd_id128_t boot, uint64_t usec)
{
	char text[sizeof("_BOOT_ID=") + 2 * ID] = "_BOOT_ID=";
	for (size_t i = 0; i < ID; i++)
		snprintf(text + strlen("_BOOT_ID=") + 2 * i, 3, "%02x", boot.bytes[i]);
	const struct journal_match m = { str_z(text), strlen("_BOOT_ID=") };
	struct journal_place best;
	bool found = false;
	for (size_t i = 0; i < j->files.len; i++) {
		struct journal_file *f = &j->files.data[i];
		file_prepare(j, f);
		const struct entry_list l = journal_value_list(f, journal_find_value(f, &m));
		for (size_t k = 0; k < l.n; k++) {
			const uint8_t *entry = journal_list_entry(f, &l, k);
			const struct journal_place here = entry ? journal_entry_place(f, entry) : (struct journal_place){ 0 };
			if (!entry || here.monotonic < usec || !entry_matches(j, f, entry))
				continue;
			if (!found || journal_place_compare(&here, &best) < 0)
				best = here;
			found = true;
			break;
		}
	}
	if (found)
		j->at = best;
	return seek_to(j, found ? BEFORE : AT_TAIL);
}

/** A cursor is good for its own journal only. */
static int files_get_cursor(sd_journal *j, char **ret)
{
	if (!j->entry)
		return -EADDRNOTAVAIL;
	*ret = mem_alloc(2 * sizeof(j->at) + 1);
	for (size_t i = 0; i < sizeof(j->at); i++)
		snprintf(*ret + 2 * i, 3, "%02x", ((const uint8_t *)&j->at)[i]);
	return 0;
}

static int files_seek_cursor(sd_journal *j, const char *cursor)
{
	struct journal_place at;
	if (strlen(cursor) != 2 * sizeof(at))
		return -EINVAL;
	for (size_t i = 0; i < sizeof(at); i++)
		((uint8_t *)&at)[i] = (uint8_t)strtoul((const char[]){ cursor[2 * i], cursor[2 * i + 1], 0 }, NULL, 16);
	j->at = at;
	return seek_to(j, BEFORE);
}

// --- the current entry ---

static int files_get_realtime_usec(sd_journal *j, uint64_t *ret)
{
	if (!j->entry)
		return -EADDRNOTAVAIL;
	*ret = j->at.realtime;
	return 0;
}

static int files_get_monotonic_usec(sd_journal *j, uint64_t *ret, sd_id128_t *ret_boot)
{
	if (!j->entry)
		return -EADDRNOTAVAIL;
	*ret = j->at.monotonic;
	memcpy(ret_boot->bytes, j->at.boot, ID);
	return 0;
}

static int files_get_data(sd_journal *j, const char *name, const void **ret, size_t *ret_n)
{
	const size_t n = strlen(name);
	if (!j->entry)
		return -EADDRNOTAVAIL;
	for (uint64_t i = 0, at; (at = journal_entry_value(j->file, j->entry, i)); i++) {
		const struct str begin = journal_data_text(j->file, at, n + 1, &j->field);
		if (begin.n != n + 1 || begin.p[n] != '=' || memcmp(begin.p, name, n))
			continue;
		const struct str all = journal_data_text(j->file, at, n + 1 + VALUE_MOST, &j->field);
		*ret = all.p;
		*ret_n = all.n;
		return 0;
	}
	return -ENOENT;
}

static int files_add_match(sd_journal *j, const void *data, size_t n)
{
	const struct str text = { data, n ? n : strlen(data) };
	const void *equals = text.n ? memchr(text.p, '=', text.n) : NULL;
	if (!equals || j->nmatches == MATCHES_MOST)
		return -EINVAL;
	j->matches[j->nmatches++] =
		(struct journal_match){ arena_str(&j->room, text), (size_t)((const char *)equals - text.p) + 1 };
	j->prepared = 0;
	return 0;
}

static void files_flush_matches(sd_journal *j)
{
	j->nmatches = 0;
	j->prepared = 0;
}

// --- opening ---

static int add_bytes(sd_journal *j, struct str bytes, bool mapped)
{
	struct journal_file f;
	const int r = j->files.len < FILES_MOST ? journal_file_begin(bytes, &f) : -ETOOMANYREFS;
	j->foreign |= r == -EPROTONOSUPPORT;
	if (r < 0)
		return r;
	f.mapped = mapped;
	vec_push(&j->files, f);
	return 0;
}

static int add_file(sd_journal *j, int fd)
{
	struct stat st;
	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EBADFD;
	if (!st.st_size)
		return -ENODATA;
	const size_t n = (size_t)st.st_size;
	void *map = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	const int r = add_bytes(j, (struct str){ map, n }, true);
	if (r < 0)
		munmap(map, n);
	return r;
}

static bool is_journal(const char *name)
{
	const struct str s = str_z(name);
	return str_ends(s, S(".journal")) || str_ends(s, S(".journal~"));
}

/** Somebody packed it to keep it. */
static bool is_packed_journal(const char *name)
{
	return str_among(str_z(name), STR_ENDS, ".journal.zst|.journal.xz|.journal.gz|.journal.lz4|.journal.bz2").n;
}

/** Users' own journals have nothing of the kernel. */
static void journal_note_refused(sd_journal *j, int dir, const char *name, int why)
{
	struct stat st;
	if (str_starts(str_z(name), S("user-")))
		return;
	const bool known = !fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW);
	const uint64_t changed = known ? (uint64_t)st.st_mtim.tv_sec * 1000000 : UINT64_MAX;
	if (j->refused.n++ && changed < j->refused.changed)
		return;
	j->refused.changed = changed;
	j->refused.why = why;
	str_copy(j->refused.name, sizeof(j->refused.name), str_z(name));
}

/** The journals in a directory, and with @deeper those of the machines below it. Links might lead out of another machine's tree. */
static void journal_add_directory(sd_journal *j, int fd, bool deeper)
{
	DIR *d = fdopendir(fd);
	if (!d) {
		close(fd);
		return;
	}
	for (struct dirent *e; (e = readdir(d));) {
		const bool file = is_journal(e->d_name);
		if (is_packed_journal(e->d_name))
			journal_note_refused(j, dirfd(d), e->d_name, EOPNOTSUPP);
		if (e->d_name[0] == '.' || (!file && !deeper))
			continue;
		const int type = file ? O_NONBLOCK : O_DIRECTORY;
		int entry = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | type);
		const int r = entry < 0 ? -errno : file ? add_file(j, entry) : 0;
		if (r < 0 && file)
			journal_note_refused(j, dirfd(d), e->d_name, -r);
		if (entry >= 0 && !file)
			journal_add_directory(j, entry, false);
		else if (entry >= 0)
			close(entry);
	}
	closedir(d);
}

static void files_close(sd_journal *j)
{
	for (size_t i = 0; j && i < j->files.len; i++)
		if (j->files.data[i].mapped)
			munmap((void *)j->files.data[i].p, j->files.data[i].n);
	if (!j)
		return;
	vec_free(&j->files);
	arena_free(&j->room);
	text_free(&j->field);
	free(j);
}

/** The id of the only machine whose journal lies in a directory. false: there are several, or none. */
static bool only_machine(const char *place, char ret[static 2 * ID + 1])
{
	unsigned n = 0;
	_cleanup_dir_ DIR *d = opendir(place);
	for (struct dirent *e; d && (e = readdir(d));) {
		const struct str name = str_z(e->d_name);
		if (name.n != 2 * ID || str_run(name, char_hex) != name.n)
			continue;
		str_copy(ret, 2 * ID + 1, name);
		n++;
	}
	return n == 1;
}

/** Those of this machine. */
static int files_open(sd_journal **ret, int flags)
{
	(void)flags;
	static const char *const places[] = { "/var/log/journal", "/run/log/journal" };
	char id[2 * ID + 1] = "", path[128];
	FILE *f = fopen("/etc/machine-id", "re");
	const bool known = f && fscanf(f, "%32[0-9a-f]", id) == 1;
	if (f)
		fclose(f);
	*ret = mem_alloc(sizeof(**ret));
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		// A container may have the machine's journal, but not its id.
		if (!known && !only_machine(places[i], id))
			continue;
		snprintf(path, sizeof(path), "%s/%s", places[i], id);
		int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			journal_add_directory(*ret, fd, false);
	}
	return 0;
}

static int files_open_directory_fd(sd_journal **ret, int fd, int flags)
{
	(void)flags;
	int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (own < 0)
		return -errno;
	*ret = mem_alloc(sizeof(**ret));
	journal_add_directory(*ret, own, true);
	return 0;
}

static int files_open_files_fd(sd_journal **ret, int *fds, unsigned n, int flags)
{
	(void)flags;
	sd_journal *j = mem_alloc(sizeof(*j));
	int r = 0;
	for (unsigned i = 0; i < n && r >= 0; i++)
		r = add_file(j, fds[i]);
	if (r < 0)
		files_close(j);
	else
		*ret = j;
	return r;
}

sd_journal *journal_of_bytes(struct str bytes)
{
	sd_journal *j = mem_alloc(sizeof(*j));
	if (add_bytes(j, bytes, false) >= 0)
		return j;
	files_close(j);
	return NULL;
}

bool journal_files_foreign(const sd_journal *j) { return j->foreign; }

bool journal_files_unread(const sd_journal *j, uint64_t from, uint64_t until, struct text *ret)
{
	bool damaged = false;
	for (size_t i = 0; i < j->files.len && !damaged; i++)
		damaged = j->files.data[i].damaged && journal_file_spans(&j->files.data[i], from, until);
	if (j->refused.n && j->refused.changed >= from)
		text_printf(ret, "the journal's %s could not be read (%s)", j->refused.name, strerror(j->refused.why));
	else if (damaged)
		text_printf(ret, "part of the journal is damaged, and was not read");
	return ret->n;
}

const struct journal_api journal_files = {
	.sd_journal_open = files_open,
	.sd_journal_close = files_close,
	.sd_journal_open_directory_fd = files_open_directory_fd,
	.sd_journal_open_files_fd = files_open_files_fd,
	.sd_journal_add_match = files_add_match,
	.sd_journal_flush_matches = files_flush_matches,
	.sd_journal_next = files_next,
	.sd_journal_previous = files_previous,
	.sd_journal_seek_tail = files_seek_tail,
	.sd_journal_seek_head = files_seek_head,
	.sd_journal_seek_monotonic_usec = files_seek_monotonic_usec,
	.sd_journal_seek_cursor = files_seek_cursor,
	.sd_journal_get_cursor = files_get_cursor,
	.sd_journal_get_data = files_get_data,
	.sd_journal_get_monotonic_usec = files_get_monotonic_usec,
	.sd_journal_get_realtime_usec = files_get_realtime_usec,
};
