// Redacts what was saved, file by file, before it is packed.
#include "capture/allow.h"

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

/** A file of the partial directory. */
struct redact_file {
	struct str name;
	char *bytes;
	size_t n;
};

/** One that is open before the rights are put down: what was saved, and what takes its place. */
struct redact_open {
	int from;
	struct item_file to;
};

struct redaction {
	const struct taking *capture;
	struct redactor redactor;
	struct allowed *allowed; // of a bug report: what may stay; NULL: everything that nothing speaks against
	struct arena arena;
	VEC(struct str) names;      // of files
	struct redact_open *opened; // in the child: each of them
};

static void list(struct redaction *r, int dir, const char *above, int depth)
{
	DIR *entries = dir < 0 ? NULL : fdopendir(dir);
	for (struct dirent *e = entries ? readdir(entries) : NULL; e; e = readdir(entries)) {
		struct str name = arena_printf(&r->arena, "%s%s", above, e->d_name);
		struct stat st;
		if (e->d_name[0] == '.' || fstatat(dirfd(entries), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (S_ISREG(st.st_mode) && !str_is(name, BUNDLE_MANIFEST))
			vec_push(&r->names, name);
		else if (S_ISDIR(st.st_mode) && depth < DEPTH_MOST)
			list(r, openat(dirfd(entries), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
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

// --- what an answer is ---

enum answer_form { FORM_TEXT, FORM_COMMAND, FORM_BYTES };

/** Memory and registers are bytes whose places matter; so is code. */
static enum answer_form form_of(int kind, struct str path)
{
	static const char *const bytes[] = { "/proc/*/mem", "/sys/kernel/debug/dri/*", "/dev/dri/*", "*/config", "code *",
					     "name *" };
	for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
		if (str_glob(str_z(bytes[i]), path) && (kind != PROBE_FILE || i == 0))
			return FORM_BYTES;
	bool command = str_ends(path, S("/cmdline")) || str_ends(path, S("/environ")) || str_is(path, "environment");
	return command                                                                             ? FORM_COMMAND :
	       kind == PROBE_FILE || kind == PROBE_LIST || kind == PROBE_LINK || kind == TAPE_SAID ? FORM_TEXT :
												     FORM_BYTES;
}

// --- finding ---

/** Texts in the middle of bytes: from eight letters on. */
static void find_in_bytes(struct redactor *r, struct str bytes)
{
	enum { LEAST = 8 };
	for (size_t i = 0, n; i < bytes.n; i += n + 1) {
		for (n = 0; i + n < bytes.n && bytes.p[i + n] >= ' ' && bytes.p[i + n] < 127;)
			n++;
		if (n >= LEAST)
			redact_find(r, (struct str){ bytes.p + i, n }, false);
	}
}

/** With spaces in place of the NULs: what an option of one letter means depends on the program. */
static void find_in_line(struct redactor *r, struct str data)
{
	struct text line = { 0 };
	text_add(&line, data);
	for (size_t i = 0; i < line.n; i++)
		line.p[i] = line.p[i] ? line.p[i] : ' ';
	redact_find(r, text_str(&line), true);
	text_free(&line);
}

/** Arguments and variables end with a NUL. An option may have its value behind it. */
static void find_in_command(struct redaction *r, struct str data)
{
	struct str all = data, before = { 0 };
	while (all.n) {
		struct str one = str_split(&all, 0), value = one, name = str_split(&value, '=');
		if (name.n < one.n)
			redact_value(&r->redactor, name, value);
		else if (before.n && before.p[0] == '-')
			redact_value(&r->redactor, before, one);
		before = one;
		redact_find(&r->redactor, one, true);
	}
	find_in_line(&r->redactor, data);
}

enum { FIRST_USER = 1000, NOBODY = 65534 };

/** The number of a group; -1: there is none. */
static int64_t group_of(struct str groups, struct str name)
{
	while (groups.n) {
		struct str line = str_split(&groups, '\n');
		int64_t id;
		if (!str_eq(str_split(&line, ':'), name))
			continue;
		str_split(&line, ':');
		return str_number(str_split(&line, ':'), &id) ? id : -1;
	}
	return -1;
}

static bool is_system(int64_t group) { return group >= 0 && (group < FIRST_USER || group >= NOBODY); }

/** `render:x:105:alice,bob`: members that are no part of the system, and groups of one user. */
static void find_in_groups(struct redaction *r, struct str text)
{
	struct str rest = text;
	while (rest.n) {
		struct str line = str_split(&rest, '\n'), group = str_split(&line, ':');
		if (group.n && !is_system(group_of(text, group)))
			redact_add(&r->redactor, REDACT_USER, group);
		str_split(&line, ':');
		str_split(&line, ':');
		while (line.n) {
			struct str member = str_split(&line, ',');
			if (!is_system(group_of(text, member)))
				redact_add(&r->redactor, REDACT_USER, member);
		}
	}
}

/** Files that hold a serial number and nothing else. */
static bool is_serial(struct str path)
{
	static const char *const files[] = { "*/serial_number", "*/unique_id", "/sys/class/dmi/*serial", "/sys/class/dmi/*_asset_tag",
					     "/sys/class/dmi/*uuid", "/sys/block/*/serial", "/sys/block/*/wwid" };
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (str_glob(str_z(files[i]), path))
			return true;
	return false;
}

static void find_in_answer(struct redaction *r, const struct tape_probe *p, struct str path)
{
	enum answer_form form = form_of(p->key.p[0], path);
	if (is_serial(path))
		redact_add(&r->redactor, REDACT_SERIAL, str_trim(p->data));
	if (str_is(path, "user"))
		redact_add(&r->redactor, REDACT_USER, p->data);
	if (str_is(path, "/etc/group"))
		find_in_groups(r, p->data);
	if (form == FORM_COMMAND)
		find_in_command(r, p->data);
	else if (form == FORM_TEXT)
		redact_find(&r->redactor, p->data, false);
	else
		find_in_bytes(&r->redactor, p->data);
}

/** A track being read: its paths by number. */
struct redact_track {
	struct str left;
	VEC(struct str) paths;
};

static struct str path_of(const struct redact_track *t, const struct tape_probe *p)
{
	return p->path < t->paths.len ? t->paths.data[p->path] : (struct str){ 0 };
}

static void find_in_track(struct redaction *r, struct str bytes)
{
	struct redact_track t = { .left = str_from(bytes, sizeof(TAPE_HEAD) - 1) };
	enum tape_type type;
	struct str record;
	struct tape_probe p;
	while (tape_take_record(&t.left, &type, &record)) {
		if (type == TAPE_PATH) {
			vec_push(&t.paths, record);
			redact_find(&r->redactor, record, false);
		} else if (type == TAPE_PROBE && tape_take_probe(record, &p)) {
			find_in_answer(r, &p, path_of(&t, &p));
		} else if (type == TAPE_LINE) {
			redact_find(&r->redactor, record, false);
		}
	}
	vec_free(&t.paths);
}

static bool is_track(const struct redact_file *f)
{
	return str_starts(f->name, S(BUNDLE_TRACKS)) && str_starts((struct str){ f->bytes, f->n }, S(TAPE_HEAD));
}

static void find_in_file(struct redaction *r, const struct redact_file *f)
{
	struct str bytes = { f->bytes, f->n };
	bool command = str_starts(f->name, S(BUNDLE_TOOLS)) || str_is(f->name, "processes.txt");
	if (is_track(f))
		find_in_track(r, bytes);
	else
		redact_find(&r->redactor, bytes, command);
}

// --- replacing ---

/** What is found goes; then, of a bug report, what is not known. */
static void replace_text(struct redaction *r, struct str text, enum allow_form form, char end, struct text *to)
{
	struct text found = { 0 };
	redact_text(&r->redactor, text, false, r->allowed ? &found : to);
	if (r->allowed)
		allow_text(r->allowed, form, text_str(&found), end, to);
	text_free(&found);
}

static void replace_bytes(struct redaction *r, struct str bytes, struct text *to)
{
	struct text found = { 0 };
	redact_text(&r->redactor, bytes, true, r->allowed ? &found : to);
	if (r->allowed)
		allow_bytes(r->allowed, text_str(&found), to);
	text_free(&found);
}

/** A path is also the key of what memory names: as long as it was. */
static void replace_path(struct redaction *r, struct str path, struct text *to)
{
	struct text found = { 0 };
	redact_text(&r->redactor, path, true, r->allowed ? &found : to);
	if (r->allowed && str_starts(path, S("/")))
		allow_path(r->allowed, text_str(&found), to);
	else if (r->allowed)
		allow_bytes(r->allowed, text_str(&found), to);
	text_free(&found);
}

static void replace_probe(struct redaction *r, struct str record, const struct tape_probe *p, struct str path, struct text *to)
{
	size_t start = tape_open_record(to, TAPE_PROBE), head = (size_t)(p->data.p - record.p);
	const int kind = p->key.p[0];
	text_add(to, str_cut(record, head));
	if (form_of(kind, path) == FORM_BYTES)
		replace_bytes(r, p->data, to);
	else
		replace_text(r, p->data, allow_form_of(path, kind == PROBE_LIST || kind == PROBE_LINK), 0, to);
	tape_close_record(to, start);
}

static void replace_record(struct redaction *r, enum tape_type type, struct str record, struct text *to)
{
	size_t start = tape_open_record(to, type);
	if (type == TAPE_PATH) {
		replace_path(r, record, to);
	} else if (type == TAPE_LINE) {
		struct tape_cursor c = { record };
		tape_take_bytes(&c, 16);
		tape_take_text(&c);
		text_add(to, str_cut(record, record.n - c.left.n));
		replace_text(r, c.left, ALLOW_LOG, 0, to);
	} else {
		text_add(to, record);
	}
	tape_close_record(to, start);
}

static void replace_track(struct redaction *r, struct str bytes, struct text *to)
{
	struct redact_track t = { .left = str_from(bytes, sizeof(TAPE_HEAD) - 1) };
	enum tape_type type;
	struct str record;
	struct tape_probe p;
	text_add(to, S(TAPE_HEAD));
	while (tape_take_record(&t.left, &type, &record)) {
		if (type == TAPE_PATH)
			vec_push(&t.paths, record);
		if (type == TAPE_PROBE && tape_take_probe(record, &p))
			replace_probe(r, record, &p, path_of(&t, &p), to);
		else
			replace_record(r, type, record, to);
	}
	vec_free(&t.paths);
}

static bool replace_file(struct redaction *r, const struct redact_file *f, struct item_file *item)
{
	struct text to = { 0 };
	struct str bytes = { f->bytes, f->n };
	if (is_track(f)) {
		replace_track(r, bytes, &to);
	} else if (memchr(f->bytes, 0, f->n)) { // what has NULs is no text
		if (r->allowed)
			allow_recording(r->allowed, f->bytes, f->n);
		replace_bytes(r, bytes, &to);
		redact_seal_recording(f->bytes, to.p, f->n);
	} else {
		replace_text(r, bytes, allow_form_of_member(f->name), '\n', &to);
	}
	bool good = item_write(item, text_str(&to)) && item_close(item);
	text_free(&to);
	return good;
}

// --- the child: what it takes apart was written by strangers ---

/** What went wrong; NULL. */
static const char *open_all(struct redaction *r)
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

static const char *each_file(struct redaction *r, bool replace)
{
	for (size_t i = 0; i < r->names.len; i++) {
		struct redact_file f;
		bool good = load(r->opened[i].from, r->names.data[i], &f);
		if (good && replace)
			good = replace_file(r, &f, &r->opened[i].to);
		else if (good)
			find_in_file(r, &f);
		const int why = errno;
		free(f.bytes);
		if (!good)
			return strerror(why);
	}
	return NULL;
}

static void put_redacted(struct redaction *r, struct str text, enum allow_form form, struct text *to)
{
	struct text redacted = { 0 };
	replace_text(r, text, form, 0, &redacted);
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
	struct redaction r = *(const struct redaction *)ctx;
	const struct manifest *m = r.capture->manifest;
	struct str host = m->host, first = str_split(&host, '.');
	struct text to = { 0 };
	struct allowed allowed;
	prctl(PR_SET_NAME, "unhang-redact");
	close(r.capture->lock);
	const char *why = open_all(&r);
	redact_add(&r.redactor, REDACT_HOST, m->host);
	redact_add(&r.redactor, REDACT_HOST, first);
	if (!why)
		why = each_file(&r, false);
	redact_ready(&r.redactor);
	if (r.capture->options->known_only) {
		allow_begin(&allowed, r.capture->options->know, &r.redactor);
		r.allowed = &allowed;
	}
	if (!why)
		why = each_file(&r, true);
	if (why) {
		text_add(&to, str_z(why));
	} else {
		text_add(&to, (struct str){ "", 1 });
		put_manifest(&r, m, &to);
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

static struct uh_error *run(const struct redaction *r, struct text *ret)
{
	struct child child;
	if (!child_begin_free(redact_child, r, &child))
		return uh_error_os(errno, "nobody could redact what was saved");
	enum child_end end = child_wait(&child, now_ms() + REDACT_MS, ANSWER_MOST, ret);
	child_kill(&child, KILL_MS);
	if (end == CHILD_GOOD && ret->n && !ret->p[0])
		return NULL;
	return end == CHILD_GOOD && ret->n ?
		       uh_error_new("what was saved could not be redacted: " STR_FMT, STR_ARG(text_str(ret))) :
		       uh_error_new("what was saved could not be redacted%s", end == CHILD_LATE ? " in time" : "");
}

/** Puts what is redacted in the place of what was saved, or drops it. */
static struct uh_error *name_all(const struct taking *c, const struct redaction *r, struct uh_error *err)
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

struct uh_error *redact_partial(struct taking *c)
{
	struct redaction r = { .capture = c };
	struct text answer = { 0 };
	list(&r, openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "", 0);
	struct uh_error *err = name_all(c, &r, run(&r, &answer));
	if (!err && !take_manifest(c, text_str(&answer)))
		err = uh_error_new("what was saved could not be redacted");
	vec_free(&r.names);
	arena_free(&r.arena);
	text_free(&answer);
	return err;
}
