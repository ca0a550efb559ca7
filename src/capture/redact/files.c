// Redacts what was saved, file by file, before it is packed.
#include "capture/redact/evidence.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lower.h"
#include "base/save.h"
#include "capture/parts.h"
#include "source/tape/format.h"

enum { DEPTH_MOST = 4, REDACT_MS = 300000, KILL_MS = 200, ANSWER_MOST = 16 << 20 };

/** One that is open before the rights are put down: what was saved, and what takes its place. */
struct redact_open {
	int from;
	struct item_file to;
};

struct redact_files {
	const struct taking *capture;
	struct redaction redaction;
	struct arena arena;
	VEC(struct str) names;      // of files
	struct redact_open *opened; // in the child: each of them
};

static void list(struct redact_files *r, int dir, const char *above, int depth)
{
	DIR *entries = dir < 0 ? NULL : fdopendir(dir);
	for (struct dirent *e = entries ? readdir(entries) : NULL; e; e = readdir(entries)) {
		struct str name = arena_printf(&r->arena, "%s%s", above, e->d_name);
		struct stat st;
		if (e->d_name[0] == '.' || str_ends(name, S(".new")) || fstatat(dirfd(entries), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (S_ISREG(st.st_mode) && !str_is(name, BUNDLE_MANIFEST))
			vec_push(&r->names, name);
		else if (S_ISDIR(st.st_mode) && depth < DEPTH_MOST)
			list(r, partial_open_below(dirfd(entries), e->d_name),
			     arena_printf(&r->arena, STR_FMT "/", STR_ARG(name)).p, depth + 1);
	}
	if (entries)
		closedir(entries);
}

static bool load(int fd, struct str name, struct redact_file *ret)
{
	struct stat st;
	*ret = (struct redact_file){ .name = name };
	if (fstat(fd, &st))
		return false;
	ret->bytes = mem_large((size_t)st.st_size + 1);
	while (ret->n < (size_t)st.st_size) {
		ssize_t n = pread(fd, ret->bytes + ret->n, (size_t)st.st_size - ret->n, (off_t)ret->n);
		if (n <= 0)
			break;
		ret->n += (size_t)n;
	}
	return true;
}

// --- the child: what it takes apart was written by strangers ---

/** What went wrong; NULL. */
static const char *open_all(struct redact_files *r)
{
	struct rlimit files;
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max; // there may be more of them than a process usually has open
		setrlimit(RLIMIT_NOFILE, &files);
	}
	r->opened = mem_alloc((r->names.len + 1) * sizeof(*r->opened));
	for (size_t i = 0; i < r->names.len; i++) {
		struct redact_open *o = &r->opened[i];
		o->from = openat(r->capture->dir, r->names.data[i].p, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (o->from < 0 || !item_create(r->capture, r->names.data[i].p, &o->to))
			return strerror(errno);
	}
	return lower_privileges(LOWER_NOGROUP) ? NULL : "it could not put its rights down";
}

static bool replace_file(struct redact_files *r, const struct redact_file *f, struct item_file *item)
{
	struct text to = { 0 };
	redaction_replace(&r->redaction, f, &to);
	bool good = item_write(item, text_str(&to)) && item_close(item);
	text_free(&to);
	return good;
}

enum redact_pass { REDACT_FIND, REDACT_HOLD, REDACT_REPLACE };

static const char *each_file(struct redact_files *r, enum redact_pass pass)
{
	bool held = false;
	for (size_t i = 0; i < r->names.len; i++) {
		struct redact_file f;
		bool good = load(r->opened[i].from, r->names.data[i], &f);
		if (good && pass == REDACT_REPLACE)
			good = replace_file(r, &f, &r->opened[i].to);
		else if (good && pass == REDACT_HOLD)
			held |= redaction_hold(&r->redaction, r->capture->options->know, &f);
		else if (good)
			redaction_find(&r->redaction, &f);
		const int why = errno;
		free(f.bytes);
		if (!good)
			return strerror(why);
	}
	if (pass == REDACT_FIND || held)
		redact_ready(&r->redaction.redactor);
	return NULL;
}

static void put_redacted(struct redaction *r, struct str text, enum allow_form form, struct text *to)
{
	struct text redacted = { 0 };
	redaction_replace_text(r, text, form, 0, &redacted);
	tape_put_text(to, text_str(&redacted));
	text_free(&redacted);
}

/** What the manifest is to say. */
static void put_manifest(struct redaction *r, const struct manifest *m, struct text *to)
{
	const struct manifest_replaced *counts = r->redactor.counts;
	put_redacted(r, m->host, ALLOW_WORDS, to);
	put_redacted(r, m->kernel, ALLOW_VALUES, to);
	for (size_t i = 0; i < m->items.len; i++) {
		put_redacted(r, m->items.data[i].reason, ALLOW_ALL, to); // unhang's own words
		put_redacted(r, m->items.data[i].what, ALLOW_ALL, to);
	}
	for (size_t i = 0; i < REDACT_KINDS; i++) {
		tape_put_text(to, str_z(counts[i].kind));
		tape_put_number(to, counts[i].names, 8);
		tape_put_number(to, counts[i].places, 8);
	}
}

/** Writes to the pipe why it failed, or a NUL and what the manifest is to say. */
static void redact_child(int fd, const void *ctx)
{
	struct redact_files r = *(const struct redact_files *)ctx;
	const struct manifest *m = r.capture->manifest;
	struct str host = m->host, first = str_split(&host, '.');
	struct text to = { 0 };
	struct allowed allowed;
	prctl(PR_SET_NAME, "unhang-redact");
	close(r.capture->lock);
	const char *why = open_all(&r);
	allow_begin(&allowed, r.capture->options->know, &r.redaction.redactor);
	r.redaction.redactor.words = &allowed;
	r.redaction.allowed = r.capture->options->known_only ? &allowed : NULL;
	redact_add(&r.redaction.redactor, REDACT_HOST, m->host);
	redact_add(&r.redaction.redactor, REDACT_HOST, first);
	for (enum redact_pass pass = REDACT_FIND; !why && pass <= REDACT_REPLACE; pass++)
		why = each_file(&r, pass);
	if (why) {
		text_add(&to, str_z(why));
	} else {
		text_add(&to, (struct str){ "", 1 });
		put_manifest(&r.redaction, m, &to);
	}
	if (!write_all(fd, text_str(&to)))
		_exit(1);
}

// --- the parent ---

static struct str take_text(struct tape_cursor *c, struct arena *a) { return arena_str(a, tape_take_text(c)); }

static bool take_manifest(struct taking *c, struct str answer)
{
	struct manifest *m = c->manifest;
	struct tape_cursor at = { str_from(answer, 1) };
	struct manifest_replaced *counts = arena_alloc(c->arena, REDACT_KINDS * sizeof(*counts));
	m->host = take_text(&at, c->arena);
	m->kernel = take_text(&at, c->arena);
	for (size_t i = 0; i < m->items.len; i++) {
		m->items.data[i].reason = take_text(&at, c->arena);
		m->items.data[i].what = take_text(&at, c->arena);
	}
	for (size_t i = 0; i < REDACT_KINDS; i++) {
		counts[i].kind = arena_z(c->arena, tape_take_text(&at));
		counts[i].names = tape_take_number(&at, 8);
		counts[i].places = tape_take_number(&at, 8);
	}
	m->redacted = true;
	m->replaced = counts;
	m->nreplaced = REDACT_KINDS;
	return !at.short_of && !at.left.n;
}

static struct uh_error *run(const struct redact_files *r, int64_t until, struct text *ret)
{
	struct child child;
	if (!child_begin_free(redact_child, r, &child))
		return uh_error_os(errno, "nobody could redact what was saved");
	enum child_end end = child_wait(&child, until ? until : now_ms() + REDACT_MS, ANSWER_MOST, ret);
	child_kill(&child, KILL_MS);
	if (end == CHILD_GOOD && ret->n && !ret->p[0])
		return NULL;
	return end == CHILD_GOOD && ret->n ?
		       uh_error_new("what was saved could not be redacted: " STR_FMT, STR_ARG(text_str(ret))) :
		       uh_error_new("what was saved could not be redacted%s", end == CHILD_LATE ? " in time" : "");
}

/** Puts what is redacted in the place of what was saved, or drops it. */
static struct uh_error *name_all(const struct taking *c, const struct redact_files *r, struct uh_error *err)
{
	char name[264];
	for (size_t i = 0; i < r->names.len; i++) {
		if (!err && !item_name(c, r->names.data[i].p))
			err = uh_error_os(errno, "%s", r->names.data[i].p);
		if (err && snprintf(name, sizeof(name), "%s.new", r->names.data[i].p) < (int)sizeof(name))
			unlinkat(c->dir, name, 0);
	}
	return err;
}

struct uh_error *redact_partial(struct taking *c, int64_t until)
{
	struct redact_files r = { .capture = c };
	struct text answer = { 0 };
	list(&r, openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "", 0);
	struct uh_error *err = name_all(c, &r, run(&r, until, &answer));
	if (!err && !take_manifest(c, text_str(&answer)))
		err = uh_error_new("what was saved could not be redacted");
	vec_free(&r.names);
	arena_free(&r.arena);
	text_free(&answer);
	return err;
}
