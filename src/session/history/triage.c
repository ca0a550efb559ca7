// unhang triage: a tree of logs and bundles, each explained once, into a store. What it finds is known by its content, so that a copy is not
// explained again, and whoever goes on later, or does another part of it, needs nobody but the store.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/print.h"
#include "base/save.h"
#include "session/history/history.h"
#include "session/history/sha256.h"
#include "session/session.h"
#include "store/history/index.h"
#include "store/history/line.h"

enum { FILE_DEPTH = 32, READ_BYTES = 1 << 20, EXPLAIN_MS = 600000, ANSWER_MOST = 8 << 20, WORKERS_MOST = 256 };
enum { SAVE_EVERY_MS = 1000, SAVE_BYTES = 4 << 20 };
#define TRIAGE_FILE_MOST (INT64_C(16) << 30) // a file may be a hole of any size, and each is read to know it

// --- what was done ---

/** Hashes that the store has, in the order of their digits. */
struct hashes {
	struct arena arena;
	VEC(const char *) list;
};

static int hash_compare(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static bool take_done(void *ctx, struct str line)
{
	struct hashes *h = ctx;
	struct str rest;
	if (str_starts(line, S("{\"schema\":\"" HISTORY_SCHEMA "\",\"kind\":\"source\",\"id\":\"")) &&
	    str_after(line, S("\"id\":\""), &rest))
		vec_push(&h->list, arena_z(&h->arena, str_split(&rest, '"')));
	return true;
}

static struct uh_error *read_done(const char *store, struct hashes *ret)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_(spool_files_free) struct spool_files files = { 0 };
	struct uh_error *err = spool_list(history_lines_of(&a, store), &files);
	for (size_t n = 0; n < files.list.len && !err; n++) {
		struct spool_place place = { 0 };
		err = spool_read(files.list.data[n], &place, take_done, ret);
	}
	if (ret->list.len)
		qsort(ret->list.data, ret->list.len, sizeof(*ret->list.data), hash_compare);
	return err;
}

static bool is_done(const struct hashes *h, const char *hash)
{
	return h->list.len && bsearch(&hash, h->list.data, h->list.len, sizeof(*h->list.data), hash_compare);
}

// --- files ---

struct triage_files {
	struct arena arena;
	VEC(const char *) list;
	uh_problem_fn *problem;
	void *ctx;
	unsigned unread;
};

static void triage_tell_unread(struct triage_files *f, const char *path, int why)
{
	_cleanup_error_ struct uh_error *err = uh_error_os(why, "%s", path);
	f->problem(f->ctx, uh_error_message(err));
	f->unread++;
}

/** The directories of runs and incidents are no logs, and neither is the store itself: it is left out by its name. */
static void triage_find_files(struct triage_files *f, const char *path, unsigned depth)
{
	struct stat st;
	if (lstat(path, &st)) {
		triage_tell_unread(f, path, errno);
		return;
	}
	if (S_ISREG(st.st_mode) && st.st_size > TRIAGE_FILE_MOST) {
		triage_tell_unread(f, path, EFBIG);
		return;
	}
	if (S_ISREG(st.st_mode) && st.st_size) {
		vec_push(&f->list, path);
		return;
	}
	if (!S_ISDIR(st.st_mode))
		return; // a link may lead anywhere
	_cleanup_dir_ DIR *d = depth ? opendir(path) : NULL;
	if (!d) {
		triage_tell_unread(f, path, depth ? errno : ELOOP);
		return;
	}
	for (struct dirent *e; (e = readdir(d));)
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			triage_find_files(f, arena_printf(&f->arena, "%s/%s", path, e->d_name).p, depth - 1);
}

/** false: see errno. */
static bool hash_file(const char *path, char ret[static 65], int64_t *ret_bytes)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	_cleanup_free_ char *room = mem_large(READ_BYTES);
	struct sha256 s;
	ssize_t n = -1;
	*ret_bytes = 0;
	sha256_begin(&s);
	while (fd >= 0 && *ret_bytes <= TRIAGE_FILE_MOST && (n = read(fd, room, READ_BYTES)) > 0) {
		sha256_add(&s, (struct str){ room, (size_t)n });
		*ret_bytes += n;
	}
	sha256_end(&s, ret);
	return fd >= 0 && n == 0;
}

// --- explaining, one file in one child: it may crash, or never end ---

static void triage_explain(int fd, const void *ctx)
{
	const struct history_source *source = ctx;
	_cleanup_text_ struct text lines = { 0 };
	struct stat st;
	struct uh_session *s = uh_session_new(tell_nobody, NULL);
	const int64_t changed = stat(source->path.p, &st) ? (int64_t)time(NULL) : (int64_t)st.st_mtime;
	uh_session_add_path(s, source->path.p);
	uh_session_end(s);
	session_history_lines(s, source->path, changed, &lines);
	struct history_source told = *source;
	told.incidents = (int64_t)s->ledger.incidents.len;
	told.verdict = uh_session_verdict(s) == UH_INCIDENT ? S("incident") :
		       uh_session_verdict(s) == UH_HEALTHY  ? S("healthy") :
							      S("unknown");
	line_of_source(&lines, &told, (int64_t)time(NULL));
	if (!write_all(fd, text_str(&lines)))
		_exit(1);
	uh_session_free(s);
	_exit(0);
}

/** What a worker and its parent say to each other: what was done. */
struct triage_counts {
	unsigned explained, known, incidents, failed, others; // others: of another partition
};

/** The first digits of hashes that a worker has met, in slots; 0: a free one. */
struct met {
	uint64_t *slots;
	size_t n, used;
};

/** Whether it is met for the first time. */
static bool met_first(struct met *m, uint64_t digits)
{
	if (2 * (m->used + 1) > m->n) {
		const struct met before = *m;
		*m = (struct met){ mem_alloc((before.n ? 2 * before.n : 1024) * sizeof(*m->slots)),
				   before.n ? 2 * before.n : 1024, 0 };
		for (size_t i = 0; i < before.n; i++)
			if (before.slots[i])
				met_first(m, before.slots[i]);
		_cleanup_free_ uint64_t *gone = before.slots;
	}
	size_t at = digits & (m->n - 1);
	while (m->slots[at] && m->slots[at] != digits)
		at = (at + 1) & (m->n - 1);
	const bool first = !m->slots[at];
	m->slots[at] = digits;
	m->used += first;
	return first;
}

struct triage_worker {
	const struct uh_triage_options *o;
	const struct triage_files *files;
	const struct hashes *done;
	unsigned number; // which of the workers
	struct text lines;
	struct met met;
	int64_t saved;
	struct triage_counts counts;
	const char *history;
};

/** Those of the store come first: what is told is on the disk. */
static void triage_save(struct triage_worker *w)
{
	struct uh_error *err = w->lines.n ? spool_append(w->history, text_str(&w->lines)) : NULL;
	text_clear(&w->lines);
	w->saved = now_ms();
	if (!err)
		return;
	print_said(uh_error_message(err));
	uh_error_free(err);
	_exit(2);
}

static void triage_file(struct triage_worker *w, const char *path)
{
	char hash[65];
	struct history_source s = { .path = str_z(path) };
	if (!hash_file(path, hash, &s.bytes)) {
		w->counts.failed++;
		return;
	}
	s.hash = str_z(hash);
	const unsigned long part =
		strtoul((const char[]){ hash[0], hash[1], hash[2], hash[3], hash[4], hash[5], hash[6], 0 }, NULL, 16);
	if (part % w->o->parts != w->o->part) {
		w->counts.others++;
		return;
	}
	if (part / w->o->parts % w->o->jobs != w->number) // copies of a file are one worker's
		return;
	uint64_t digits = 0;
	str_hex(str_cut(s.hash, 16), &digits);
	if (!met_first(&w->met, digits | 1) || is_done(w->done, hash)) {
		w->counts.known++;
		return;
	}
	_cleanup_text_ struct text answer = { 0 };
	const struct child_task task = { .name = CHILD_TRIAGE, .deadline = now_ms() + EXPLAIN_MS, .most = ANSWER_MOST };
	const enum child_end end = child_collect(&task, triage_explain, &s, &answer);
	if (end != CHILD_GOOD || !answer.n) {
		w->counts.failed++;
		text_clear(&answer);
		s.verdict = S("failed");
		line_of_source(&answer, &s, (int64_t)time(NULL));
	}
	w->counts.explained += end == CHILD_GOOD;
	w->counts.incidents += str_find(text_str(&answer), S("\"kind\":\"incident\"")) >= 0;
	text_add(&w->lines, text_str(&answer));
	if (w->lines.n >= SAVE_BYTES || now_ms() - w->saved >= SAVE_EVERY_MS)
		triage_save(w);
}

static void triage_work(int fd, const void *ctx)
{
	struct triage_worker w = *(const struct triage_worker *)ctx;
	prctl(PR_SET_NAME, "unhang-triage");
	w.saved = now_ms();
	for (size_t n = 0; n < w.files->list.len; n++)
		triage_file(&w, w.files->list.data[n]);
	triage_save(&w);
	if (!write_all(fd, (struct str){ (const char *)&w.counts, sizeof(w.counts) }))
		_exit(1);
	_exit(0);
}

/** Two copies of one file in this run are one worker's, which explains the first: the second is known when its line is written. */
static bool triage_gather(struct child *workers, unsigned n, struct triage_counts *ret)
{
	bool good = true;
	for (unsigned i = 0; i < n; i++) {
		_cleanup_text_ struct text answer = { 0 };
		struct triage_counts c;
		good &= child_wait(&workers[i], INT64_MAX, sizeof(c), &answer) == CHILD_GOOD && answer.n == sizeof(c);
		child_drop(&workers[i]);
		if (answer.n != sizeof(c))
			continue;
		memcpy(&c, answer.p, sizeof(c));
		ret->explained += c.explained;
		ret->known += c.known;
		ret->incidents += c.incidents;
		ret->failed += c.failed;
		ret->others = c.others; // each of them has seen all
	}
	return good;
}

struct uh_error *uh_triage(const struct uh_triage_options *o, FILE *out, uh_problem_fn *problem, void *ctx,
			   unsigned *ret_failed)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct hashes done = { 0 };
	struct triage_files files = { .problem = problem, .ctx = ctx };
	struct triage_counts counts = { 0 };
	struct child workers[WORKERS_MOST];
	unsigned n = 0;
	struct uh_error *err = history_place_answers(o->store);
	if (!err)
		err = read_done(o->store, &done);
	for (size_t i = 0; i < o->npaths && !err; i++)
		triage_find_files(&files, o->paths[i], FILE_DEPTH);
	const struct triage_worker all = { .o = o, .files = &files, .done = &done, .history = history_lines_of(&a, o->store) };
	for (; n < o->jobs && n < WORKERS_MOST && !err; n++) {
		struct triage_worker one = all;
		one.number = n;
		if (!child_start(CHILD_TRIAGE_WORKER, triage_work, &one, &workers[n]))
			err = uh_error_os(errno, "a worker of triage");
	}
	n -= err != NULL && n > 0;
	const bool good = triage_gather(workers, n, &counts);
	if (!err && !good)
		err = uh_error_new("a worker of triage was killed; run it again: what was stored is not done twice");
	*ret_failed = counts.failed + files.unread;
	if (!err)
		fprintf(out,
			"%zu %s: %u explained now, %u known, %u of other parts, %u not readable. Of those explained now, %u "
			"%s an incident.\n",
			files.list.len, files.list.len == 1 ? "file" : "files", counts.explained, counts.known, counts.others,
			*ret_failed, counts.incidents, counts.incidents == 1 ? "has" : "have");
	vec_free(&files.list);
	arena_free(&files.arena);
	vec_free(&done.list);
	arena_free(&done.arena);
	return err;
}
