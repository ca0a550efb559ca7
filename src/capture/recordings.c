// What flight recorders wrote: files in memory that are gone with a reboot. Anybody can make such files, of any size and number. So each
// user has a share of the room, and those come first whose processes hold a GPU. Holes need no room.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/door/named.h"
#include "capture/steps.h"
#include "evidence/recording/places.h"
#include "preload/format.h"
#include "recorder/format.h"

#define RECORDING ".recording"
#define CORE ".gpucore"
enum { COPY_MS = 8000, FILES_MOST = 1024, PIECE = 1 << 18, CHECKED_MOST = 32, FILES_EACH = 32 };
static const uint64_t logical_most = 8ull << 30, data_each = 64 << 20, logical_each = 1 << 30;

/** A recording that there is. */
struct found_recording {
	struct recording_place place;
	struct str stem; // of its name
	uid_t user;
	int rank; // of its user
	int64_t born;
};

/** What recordings may have: bytes, bytes with holes, files. */
struct share {
	uint64_t data, logical, files;
};

struct recordings_work {
	struct step *step;
	struct arena arena;
	struct recording_places places;
	VEC(struct found_recording) all;
	struct share left;
	int64_t until;
	size_t saved, failed, left_out;
};

/** HOST.PID.recording: the name in the bundle tells the process, and not the host. */
static struct str recorded_pid(struct str stem)
{
	size_t digits = 0;
	while (digits < stem.n && char_digit(stem.p[stem.n - 1 - digits]))
		digits++;
	return str_from(stem, stem.n - digits);
}

/** Two hosts may have processes of one number: the index tells them apart. */
static const char *member_name(struct arena *a, struct str stem, size_t index, const char *ending)
{
	return arena_printf(a, BUNDLE_RECORDINGS "%zu-" STR_FMT "%s", index, STR_ARG(recorded_pid(stem)), ending).p;
}

// --- one file ---

/** The head of a recording, and where arguments of kernels are: they are the users'. */
struct blanked {
	char head[RECORDING_HEAD];
	size_t n;
	struct rec_extent arguments[RECORDING_EXTENTS];
};

/** Reads the head and leaves arguments out of its table, with a kind that readers pass over. What has another version may have them
 * anywhere. */
static bool blank_table(int from, struct blanked *ret)
{
	struct rec_header h;
	if (pread(from, ret->head, sizeof(ret->head), 0) != sizeof(ret->head))
		return false;
	memcpy(&h, ret->head, sizeof(h));
	if (memcmp(h.magic, RECORDING_MAGIC, sizeof(h.magic)) != 0 || h.version != RECORDING_VERSION)
		return false;
	ret->n = 0;
	for (size_t i = 0; i < RECORDING_EXTENTS; i++) {
		char *at = ret->head + RECORDING_EXTENTS_AT + i * sizeof(struct rec_extent);
		struct rec_extent e;
		memcpy(&e, at, sizeof(e));
		if (e.kind != EXTENT_ARGUMENTS)
			continue;
		ret->arguments[ret->n++] = e;
		e.kind = EXTENT_LEFT_OUT;
		memcpy(at, &e, sizeof(e));
	}
	return true;
}

/** Blanks a piece of the file at @offset. */
static void blank_piece(const struct blanked *b, char *piece, uint64_t offset, size_t n)
{
	const size_t of_head = offset >= RECORDING_HEAD ? 0 : RECORDING_HEAD - (size_t)offset;
	for (size_t i = 0; i < b->n; i++) {
		const struct rec_extent *e = &b->arguments[i];
		const uint64_t from = e->offset > offset ? e->offset - offset : 0;
		const uint64_t skipped = offset > e->offset ? offset - e->offset : 0;
		if (from >= n || skipped >= e->size)
			continue;
		const uint64_t size = e->size - skipped;
		memset(piece + from, 0, size < n - from ? (size_t)size : n - (size_t)from);
	}
	memcpy(piece, b->head + (of_head ? offset : 0), of_head < n ? of_head : n);
}

/** Copies the @n bytes at @offset, but not those that are zero. false: see errno. */
static bool copy_piece(struct item_file *f, int from, uint64_t offset, size_t n, const struct blanked *blanked, char *room)
{
	const off_t here = lseek(f->fd, 0, SEEK_CUR);
	const ssize_t got = pread(from, room, n, (off_t)offset);
	if (got < 0 || here < 0 || !item_skip(f, offset - (uint64_t)here))
		return false;
	if (blanked)
		blank_piece(blanked, room, offset, (size_t)got);
	return mem_zero(room, (size_t)got) || item_write(f, (struct str){ room, (size_t)got });
}

/** false: see errno. EFBIG: it has more than @most bytes. */
static bool copy_data(struct item_file *f, int from, uint64_t size, uint64_t most, const struct blanked *blanked)
{
	_cleanup_free_ char *room = mem_large(PIECE);
	for (off_t at = 0, end; at < (off_t)size; at = end) {
		at = lseek(from, at, SEEK_DATA);
		if (at < 0 && errno != ENXIO)
			return false;
		if (at < 0 || at >= (off_t)size)
			break;
		end = lseek(from, at, SEEK_HOLE);
		end = end < at + 1 || end > (off_t)size ? (off_t)size : end;
		end = end > at + PIECE ? at + PIECE : end;
		if (f->bytes + (uint64_t)(end - at) > most) {
			errno = EFBIG;
			return false;
		}
		if (!copy_piece(f, from, (uint64_t)at, (size_t)(end - at), blanked, room))
			return false;
	}
	const off_t here = lseek(f->fd, 0, SEEK_CUR);
	return here >= 0 && item_skip(f, size - (uint64_t)here);
}

/** Opens it as the one that was looked at: what took its place meanwhile may be anybody's. -1: see errno. */
static int open_recording(const struct found_recording *c, const char *name, struct stat *ret)
{
	struct opened o = { .fd = -1 };
	_cleanup_error_ struct uh_error *err =
		named_open(&(struct named){ .path = c->place.directory, .below = name }, false, &o);
	_cleanup_close_ int fd = o.fd;
	errno = err && err->errnum ? err->errnum : EACCES;
	if (err || fd < 0 || !S_ISREG(o.st.st_mode) || o.st.st_uid != c->user || o.acting)
		return -1;
	*ret = o.st;
	return take_fd(&fd);
}

/** Takes what it used out of @left. false: it could not be saved, see errno. EAGAIN: the job has got more arguments meanwhile. */
static bool copy_open(struct step *s, int from, uint64_t size, const char *name, struct share *left)
{
	struct item_file f = { .fd = -1 };
	// Arguments are the users'. Who captures a job of his own has all of its recordings.
	const bool blank = str_ends(str_z(name), S(RECORDING)) && s->capture->options->user_data != USER_DATA_ALL &&
			   !s->capture->options->recordings;
	_cleanup_free_ struct blanked *blanked = blank ? mem_alloc(sizeof(*blanked)) : NULL;
	_cleanup_free_ struct blanked *after = blank ? mem_alloc(sizeof(*after)) : NULL;
	errno = EBADMSG;
	if (blank && !blank_table(from, blanked))
		return false;
	errno = EFBIG;
	if (!left->files || size > left->logical)
		return false;
	bool good = item_create(s->capture, name, &f) && copy_data(&f, from, size, left->data, blanked);
	if (good && blank && (!blank_table(from, after) || after->n != blanked->n)) {
		errno = EAGAIN;
		good = false;
	}
	if (good && item_finish(s->capture, &f)) {
		s->shared->result.bytes += f.bytes;
		*left = (struct share){ left->data - f.bytes, left->logical - size, left->files - 1 };
		return true;
	}
	item_drop(s->capture, &f);
	return false;
}

/** A job that runs writes while it is copied. Its arguments are left out by a table that may be old by then, so it is tried again. */
static bool copy_file(struct step *s, const struct found_recording *c, const char *from_name, const char *name,
		      struct share *left)
{
	enum { TIMES = 4 };
	struct stat st;
	bool good = false;
	_cleanup_close_ int from = open_recording(c, from_name, &st);
	for (int i = 0; from >= 0 && !good && i < TIMES && (!i || errno == EAGAIN); i++)
		good = copy_open(s, from, (uint64_t)st.st_size, name, left);
	return good;
}

/** What the guard or the pool wrote of the same process. Most have none. */
static void copy_allocations(struct recordings_work *w, const struct found_recording *c, size_t index, struct share *left)
{
	const char *apart = w->step->capture->options->allocations, *name = member_name(&w->arena, c->stem, index, ALLOC_SUFFIX);
	struct found_recording of = *c;
	if (copy_file(w->step, c, arena_printf(&w->arena, STR_FMT ALLOC_SUFFIX, STR_ARG(c->stem)).p, name, left) || !apart)
		return;
	of.place.directory = (char *)apart;
	copy_file(w->step, &of, arena_printf(&w->arena, ALLOC_OF_JOB STR_FMT, STR_ARG(recorded_pid(c->stem))).p, name, left);
}

/** With the light GPU core of a fault, which the recorder writes beside it: registers, LDS and arguments are the users'. */
static void copy_with_core(struct recordings_work *w, const struct found_recording *c, size_t index, struct share *left)
{
	struct step *s = w->step;
	if (copy_file(s, c, c->place.name, member_name(&w->arena, c->stem, index, RECORDING), left))
		w->saved++;
	else if (errno == EFBIG)
		w->left_out++;
	else
		w->failed++;
	copy_allocations(w, c, index, left);
	if (s->capture->options->user_data == USER_DATA_ALL)
		copy_file(s, c, arena_printf(&w->arena, STR_FMT CORE, STR_ARG(c->stem)).p,
			  member_name(&w->arena, c->stem, index, CORE), left);
	step_moved(s);
}

// --- whose come first ---

/** Whether the process of a recording is its owner's, and has a GPU open. */
static bool recorded_holds_gpu(const struct found_recording *c)
{
	char path[64], target[64];
	const struct str pid = recorded_pid(c->stem);
	struct stat st;
	bool holds = false;
	snprintf(path, sizeof(path), "/proc/" STR_FMT "/fd", STR_ARG(str_cut(pid, sizeof(path) / 2)));
	_cleanup_dir_ DIR *list = pid.n ? opendir(path) : NULL;
	const bool its = list && !fstat(dirfd(list), &st) && st.st_uid == c->user;
	for (struct dirent *e; its && !holds && (e = dir_next(list));) {
		const ssize_t n = readlinkat(dirfd(list), e->d_name, target, sizeof(target));
		const struct str to = { target, n > 0 ? (size_t)n : 0 };
		holds = str_is(to, "/dev/kfd") || str_starts(to, S("/dev/dri/renderD"));
	}
	return holds;
}

/** Sorted twice: first to bring the files of each user together, then by the rank that was found for him. */
static int by_user(const void *a, const void *b)
{
	const struct found_recording *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->user != y->user)
		return x->user < y->user ? -1 : 1;
	return x->born != y->born ? (x->born > y->born ? -1 : 1) : strcmp(x->place.name, y->place.name);
}

/** How many follow that are of the same user as the one at @from, with it. */
static size_t count_of_user(const struct recordings_work *w, size_t from)
{
	size_t n = 1;
	while (from + n < w->all.len && w->all.data[from + n].user == w->all.data[from].user)
		n++;
	return n;
}

/** Users in this order: who captures, those whose processes hold a GPU, the others. Of each the newest first. */
static void put_in_order(struct recordings_work *w)
{
	if (!w->all.len)
		return;
	qsort(w->all.data, w->all.len, sizeof(*w->all.data), by_user);
	for (size_t i = 0, n; i < w->all.len; i += n) {
		struct found_recording *c = &w->all.data[i];
		bool holds = false;
		n = count_of_user(w, i);
		for (size_t k = 0; k < n && k < CHECKED_MOST && now_ms() < w->until && !holds; k++)
			holds = recorded_holds_gpu(&c[k]);
		for (size_t k = 0; k < n; k++)
			c[k].rank = c->user == getuid() ? 0 : holds ? 1 : 2;
	}
	qsort(w->all.data, w->all.len, sizeof(*w->all.data), by_user);
}

/** Whose a recording is counts, not where it lies: its directory may be anybody's. */
static void find_recordings(struct recordings_work *w)
{
	const char *only = w->step->capture->options->recordings;
	if (only)
		uh_error_free(recordings_in(&w->arena, only, &w->places));
	else
		recordings_default(&w->arena, &w->places);
	for (size_t i = 0; i < w->places.list.len; i++) {
		const struct recording_place p = w->places.list.data[i];
		struct opened o = { .fd = -1 };
		_cleanup_error_ struct uh_error *err =
			named_open(&(struct named){ .path = p.directory, .below = p.name }, true, &o);
		const bool good = !err && S_ISREG(o.st.st_mode) && (p.owner < 0 || (int64_t)o.st.st_uid == p.owner);
		w->failed += !good;
		if (good)
			vec_push(&w->all, ((struct found_recording){
						  .place = p,
						  .stem = str_cut(str_z(p.name), strlen(p.name) - (sizeof(RECORDING) - 1)),
						  .user = o.st.st_uid,
						  .born = o.st.st_ctim.tv_sec }));
	}
	put_in_order(w);
}

// --- all of them ---

static uint64_t larger_of(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t smaller_of(uint64_t a, uint64_t b) { return a < b ? a : b; }

/** What one of @users has: the same part as the others, or what somebody needs in any case. */
static struct share share_of(const struct share *left, size_t users)
{
	return (struct share){ smaller_of(left->data, larger_of(left->data / users, data_each)),
			       smaller_of(left->logical, larger_of(left->logical / users, logical_each)),
			       smaller_of(left->files, larger_of(left->files / users, FILES_EACH)) };
}

/** What one user does not need of his share is there for those behind him. */
static void copy_users(struct recordings_work *w)
{
	size_t users = 0;
	for (size_t i = 0; i < w->all.len; i += count_of_user(w, i))
		users++;
	for (size_t i = 0, n; i < w->all.len; i += n, users--) {
		const struct share had = share_of(&w->left, users);
		struct share left = had;
		n = count_of_user(w, i);
		for (size_t k = 0; k < n; k++) {
			if (now_ms() < w->until && left.files)
				copy_with_core(w, &w->all.data[i + k], i + k, &left);
			else
				w->left_out++;
		}
		w->left.data -= had.data - left.data;
		w->left.logical -= had.logical - left.logical;
		w->left.files -= had.files - left.files;
	}
}

/** What was left out is told with its reason: a recording that is missing must not look like a job without a recorder. */
static void tell_end(const struct recordings_work *w)
{
	_cleanup_text_ struct text t = { 0 };
	const size_t all = w->saved + w->failed + w->left_out;
	if (w->failed)
		text_printf(&t, "%zu of %zu could not be saved", w->failed, all);
	if (w->left_out)
		text_printf(&t, "%s%zu of %zu were left out: %s", t.n ? "; " : "", w->left_out, all,
			    now_ms() < w->until ? "their users have more than their share" : "there was no more time");
	if (w->places.left_out)
		text_printf(&t, "%s%zu directories were not looked at: their users have too many", t.n ? "; " : "",
			    w->places.left_out);
	if (t.n)
		step_end(w->step, ITEM_CUT, "%s", t.p);
	else
		step_end(w->step, w->saved ? ITEM_SAVED : ITEM_ABSENT, "%s", w->saved ? "" : "no flight recorder was used");
}

/** Half of the room and of the time is left to what comes behind. */
void copy_recordings(struct step *s)
{
	const int64_t now = now_ms(), half = (s->capture->deadline - now) / 2;
	struct recordings_work w = { .step = s,
				     .left = { step_room(s) / 2, logical_most, FILES_MOST },
				     .until = now + (half < COPY_MS ? half : COPY_MS) };
	find_recordings(&w);
	copy_users(&w);
	tell_end(&w);
	vec_free(&w.all);
	vec_free(&w.places.list);
	arena_free(&w.arena);
}
