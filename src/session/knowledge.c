// unhang knowledge: what is known, listed, shown, checked and held against the lines of a log; signed knowledge, installed, taken back and made.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/door/door.h"
#include "base/door/lock.h"
#include "base/door/root.h"
#include "base/door/trust.h"
#include "base/print.h"
#include "base/save.h"
#include "evidence/log/line.h"
#include "knowledge/signed/container.h"
#include "knowledge/signed/sign.h"
#include "report/knowledge.h"
#include "session/look.h"
#include "source/source.h"

// --- what is known ---

/** Mistakes in knowledge are told apart from other problems. */
static struct teller mistakes_of(const struct uh_knowledge_options *o) { return (struct teller){ o->mistake, o->ctx }; }

const char *uh_knowledge_kind(size_t n) { return know_kind_name(n); }

struct uh_error *uh_knowledge_list(const struct uh_knowledge_options *o, const char *kind)
{
	_cleanup_know_ struct know *k = look_knowledge(mistakes_of(o));
	if (!o->json && !kind)
		uh_knowledge_version(NULL, false, o->out);
	report_known(k, kind, o->json, o->out);
	size_t n = 0;
	while (kind && know_kind_name(n) && strcmp(know_kind_name(n), kind))
		n++;
	return !kind || know_kind_name(n) ? NULL :
					    uh_error_new("there is no kind '%s'; unhang knowledge --help lists them", kind);
}

struct uh_error *uh_knowledge_show(const struct uh_knowledge_options *o, const char *id)
{
	_cleanup_know_ struct know *k = look_knowledge(mistakes_of(o));
	const unsigned n = report_known_as(k, str_z(id), o->json, o->out);
	return n ? NULL : uh_error_new("nothing is called '%s'; unhang knowledge list shows all names", id);
}

struct uh_error *uh_knowledge_check(const struct uh_knowledge_options *o, const char *path, unsigned *ret_mistakes)
{
	_cleanup_arena_ struct arena room = { 0 };
	struct str text;
	const struct teller teller = mistakes_of(o);
	struct know_problems problems = knowledge_problems(&teller);
	struct uh_error *err = root_read(NULL, path, KNOW_FILE_MOST, &room, &text, NULL);
	if (!err) {
		know_free(know_load_with(path, text, &problems));
		*ret_mistakes = problems.count;
	}
	return err;
}

// --- lines held against it ---

struct matching {
	struct know *know;
	const struct uh_knowledge_options *options;
	struct match_report report;
	unsigned *failed;
};

/** As a log's line is read: prefix and colours go first. */
static void match_line(struct matching *g, struct str raw)
{
	LINE_ROOM(room);
	struct logline line = { 0 };
	struct match m;
	line_parse(g->know, line_clean(raw, &room), &line);
	bool found = line_recognise(g->know, &line, &m);
	report_match(&g->report, line.text, found ? &m : NULL);
}

static void match_problem(void *ctx, struct uh_error *err)
{
	const struct matching *g = ctx;
	if (g->options->problem)
		g->options->problem(g->options->ctx, err->message);
	++*g->failed;
	uh_error_free(err);
}

/** Matches each line of a stream. Only the front of a line that is longer than any message. */
static void match_source(void *ctx, struct source *s)
{
	enum { ROOM = 64 << 10 };
	struct matching *g = ctx;
	struct uh_error *err = NULL;
	_cleanup_free_ char *bytes = mem_alloc(ROOM);
	size_t have = 0;
	for (;;) {
		ssize_t n = s->read(s, bytes + have, ROOM - have, &err);
		if (n > 0)
			have += (size_t)n;
		struct str text = { bytes, have };
		while (memchr(text.p, '\n', text.n))
			match_line(g, str_split(&text, '\n'));
		if (text.n && (n <= 0 || text.n == ROOM)) {
			match_line(g, text);
			text.n = 0;
		}
		memmove(bytes, text.p, text.n);
		have = text.n;
		if (n <= 0)
			break;
	}
	if (err)
		match_problem(g, err);
}

static void match_record(void *ctx, const char *name, const struct source_record *record)
{
	if (name && record)
		match_line(ctx, record->text);
}

struct uh_error *uh_knowledge_match(const struct uh_knowledge_options *o, const char *path, unsigned *ret_failed)
{
	struct opened what;
	*ret_failed = 0;
	_cleanup_error_ struct uh_error *err = path ? door_look(&(struct named){ .path = path }, &what) : NULL;
	if (err && err->errnum == ETIMEDOUT)
		return take_ptr(err);
	if (path && !err && S_ISDIR(what.st.st_mode)) // one that is not there is told when it is opened
		return uh_error_new("%s: this is a directory; give one file", path);
	_cleanup_know_ struct know *k = look_knowledge(mistakes_of(o));
	struct matching g = { k, o, { .sheet = sheet_on(o->json, o->out) }, ret_failed };
	const struct source_visitor v = { .visit = match_source, .record = match_record, .problem = match_problem, .ctx = &g };
	report_matches_begin(&g.report);
	source_path(path ? path : "-", &v);
	report_matches_end(&g.report);
	return NULL;
}

// --- signed knowledge on this machine ---

typedef unsigned long long ull;

/** The first problem is the reason. */
struct first_problem {
	struct text text;
	unsigned more;
};

static void first_problem_free(struct first_problem *f) { text_free(&f->text); }

/** One mistake tends to cause others; the first is the one to mend. */
static void keep_problem(void *ctx, const char *file, unsigned line, const char *message)
{
	struct first_problem *f = ctx;
	if (f->text.n)
		f->more++;
	else
		text_printf(&f->text, "%s:%u: %s", file, line, message);
}

/** NULL where each block loads with what is built in; else the first problem. */
static struct uh_error *update_blocks_right(const struct container *c)
{
	_cleanup_(first_problem_free) struct first_problem first = { 0 };
	struct know_problems problems = { .report = keep_problem, .ctx = &first };
	know_free(know_load_update(c, &problems));
	if (first.more)
		text_printf(&first.text, " (and %u more)", first.more);
	return problems.count ? uh_error_new("%s", first.text.p) : NULL;
}

/** An older container may be replayed by somebody to bring back what was wrong in it. */
static struct uh_error *newer_than(const struct container *c, uint64_t version, const char *whose)
{
	if (c->version > version)
		return NULL;
	return uh_error_new("version %llu is not newer than the %s %llu", (ull)c->version, whose, (ull)version);
}

/** All that must hold before it is installed. */
static struct uh_error *update_checked(struct arena *a, const char *root, const struct container *c,
				       const struct container *installed, struct str *ret_key_file)
{
	_cleanup_error_ struct uh_error *err = update_verify(a, root, c, ret_key_file);
	if (!err)
		err = newer_than(c, know_embedded_version, "built-in");
	if (!err && installed)
		err = newer_than(c, installed->version, "installed");
	return err ? uh_error_new("%s: %s", c->path, err->message) : update_blocks_right(c);
}

/** Two updates at once would each believe that theirs is the newer. */
static struct uh_error *lock_directory(int dir, struct lock *ret)
{
	const enum lock_end end = lock_take(dir, ret);
	return end == LOCK_TAKEN ? NULL :
	       end == LOCK_HELD  ? uh_error_new(UPDATE_DIRECTORY ": another unhang knowledge update is running") :
				   uh_error_os(errno, UPDATE_DIRECTORY);
}

/** The version is looked at once more under the lock: somebody may have been quicker. */
static struct uh_error *update_install(struct arena *a, const char *root, const struct container *c, struct str bytes)
{
	struct container installed;
	bool there;
	_cleanup_close_ int made = root_make_directory(root, UPDATE_DIRECTORY), dir = -1;
	_cleanup_(lock_release) struct lock lock = LOCK_FREE;
	if (made < 0)
		return uh_error_os(errno, "%s" UPDATE_DIRECTORY, root ? root : "");
	// If others may write to the directory, the update would not be used either.
	_cleanup_error_ struct uh_error *err = trust_open(root, UPDATE_DIRECTORY, O_RDONLY | O_DIRECTORY, &dir);
	if (!err)
		err = lock_directory(dir, &lock);
	if (err)
		return take_ptr(err);
	uh_error_free(update_installed(a, root, &installed, &there));
	err = there ? newer_than(c, installed.version, "installed") : NULL;
	if (!err)
		save_left_over(dir, UPDATE_NAME, true);
	if (!err)
		err = save_file(dir, UPDATE_NAME, bytes, 0644);
	return err ? uh_error_new("%s" UPDATE_DIRECTORY "/%s", root ? root : "", err->message) : NULL;
}

/** An error if the output was lost: it says what was done nevertheless. NULL: the output arrived. */
static struct uh_error *change_told(const char *done, FILE *out)
{
	return !done || print_arrived(out) ? NULL : uh_error_new("%s, but that could not be shown", done);
}

struct uh_error *uh_knowledge_update(const char *root, const char *path, bool dry_run, FILE *out)
{
	_cleanup_arena_ struct arena room = { 0 };
	struct arena *a = &room;
	struct container c, installed;
	struct str key_file, bytes;
	bool there;
	struct uh_error *err = root_read(NULL, path, CONTAINER_MOST, a, &bytes, NULL);
	if (!err)
		err = container_read(a, path, bytes, &c);
	if (err)
		return err;
	// A damaged one may be removed too, so the error is ignored.
	uh_error_free(update_installed(a, root, &installed, &there));
	err = update_checked(a, root, &c, there ? &installed : NULL, &key_file);
	if (!err && !dry_run)
		err = update_install(a, root, &c, bytes);
	if (err)
		return err;
	report_update(&c, there && installed.version > know_embedded_version ? &installed : NULL, key_file, out);
	fprintf(out, "  %s %s%s\n", dry_run ? "right    would be written to" : "written to", root ? root : "", UPDATE_PATH);
	return change_told(dry_run ? NULL : "the update was installed", out);
}

struct uh_error *uh_knowledge_remove(const char *root, FILE *out)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct container installed;
	bool there, file = false;
	_cleanup_close_ int dir = root_open(root, UPDATE_DIRECTORY, O_RDONLY | O_DIRECTORY);
	if (dir < 0 && errno != ENOENT)
		return uh_error_os(errno, "%s" UPDATE_DIRECTORY, root ? root : "");
	_cleanup_(lock_release) struct lock lock = LOCK_FREE;
	struct uh_error *err = dir < 0 ? NULL : lock_directory(dir, &lock);
	if (err)
		return err;
	uh_error_free(update_installed(&a, root, &installed, &there));
	if (dir >= 0) {
		save_left_over(dir, UPDATE_NAME, true);
		file = !faccessat(dir, UPDATE_NAME, F_OK, AT_SYMLINK_NOFOLLOW);
		err = save_remove(dir, UPDATE_NAME);
	}
	if (err)
		return err;
	if (there)
		fprintf(out, "knowledge %llu was removed; ", (ull)installed.version);
	else
		fprintf(out, "%s; ", file ? "the damaged update was removed" : "there was no update");
	fprintf(out, "the built-in %llu is used\n", (ull)know_embedded_version);
	return change_told(file ? "the update was removed" : NULL, out);
}

void uh_knowledge_version(const char *root, bool json, FILE *out)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct installed i = { 0 };
	i.err = update_installed(&a, root, &i.update, &i.there);
	report_versions(&i, json, out);
	uh_error_free(i.err);
}

// --- making signed knowledge: a key, and what it signs ---

#define MACHINE_DIRECTORY "/etc/unhang/knowledge.d"
enum { KEY_FILE_MOST = 64 << 10 };

struct uh_error *uh_knowledge_key(const char *path, FILE *out)
{
	_cleanup_text_ struct text secret_pem = { 0 }, public_pem = { 0 }, public_path = { 0 };
	uint8_t secret[KEY_BYTES], public[KEY_BYTES];
	text_printf(&public_path, "%s.pub", path);
	struct uh_error *err = sign_new_key(secret);
	if (!err)
		err = sign_public_of(secret, public);
	if (err)
		return err;
	key_write_secret(&secret_pem, secret);
	key_write_public(&public_pem, public);
	if (!faccessat(AT_FDCWD, public_path.p, F_OK, AT_SYMLINK_NOFOLLOW))
		return uh_error_os(EEXIST, "%s", public_path.p);
	err = save_new_file(AT_FDCWD, path, text_str(&secret_pem), 0600);
	if (!err)
		err = save_new_file(AT_FDCWD, public_path.p, text_str(&public_pem), 0644);
	if (!err)
		fprintf(out,
			"%s signs knowledge: keep it secret\n%s goes to " KEYS_DIRECTORY
			" on each machine that should trust it\n",
			path, public_path.p);
	return err;
}

struct collection {
	struct arena arena;
	VEC(struct container_file) files;
};

static void collection_free(struct collection *c)
{
	vec_free(&c->files);
	arena_free(&c->arena);
}

/** A file of the machine that is called as one of ours is another file, and must not replace it. */
static bool collected(const struct collection *c, struct str name)
{
	for (size_t i = 0; i < c->files.len; i++)
		if (str_eq(c->files.data[i].name, name))
			return true;
	return false;
}

static void collect_text(void *ctx, const char *name, struct str text, bool added)
{
	struct collection *c = ctx;
	const char *colon = strrchr(name, ':'); // of an update: PATH:NAME
	(void)added;
	const struct container_file one = { str_z(colon ? colon + 1 : name), text };
	vec_push(&c->files, one);
}

/** @keeps_name: it may take the place of a file that is built in; else such a file gets another name. */
static struct uh_error *collect_file(struct collection *c, const char *path, bool keeps_name)
{
	const char *slash = strrchr(path, '/');
	struct container_file one = { .name = arena_str(&c->arena, str_z(slash ? slash + 1 : path)) };
	struct uh_error *err = root_read(NULL, path, CONTAINER_MOST, &c->arena, &one.text, NULL);
	while (!keeps_name && collected(c, one.name))
		one.name = arena_printf(&c->arena, "machine-" STR_FMT, STR_ARG(one.name));
	if (!err)
		vec_push(&c->files, one);
	return err;
}

/** What is in use on this machine, but for the user's own. */
static struct uh_error *collect_machine(struct collection *c)
{
	struct container update;
	struct door_names names;
	bool there;
	struct uh_error *err = update_installed(&c->arena, NULL, &update, &there);
	if (err)
		return err;
	know_each_text(&c->arena, there && update.version > know_embedded_version ? &update : NULL, collect_text, c);
	err = door_names(&(struct named){ .path = MACHINE_DIRECTORY }, true, &c->arena, &names);
	if (err && err->errnum != ETIMEDOUT) // there need be none
		cleanup_error(&err);
	for (size_t i = 0; i < names.n && !err; i++)
		if (str_ends(str_z(names.list[i]), S(".know")))
			err = collect_file(c, arena_printf(&c->arena, MACHINE_DIRECTORY "/%s", names.list[i]).p, false);
	return err;
}

/** A key that others can read signs for others. */
static struct uh_error *read_secret(struct arena *a, const char *path, uint8_t ret[static KEY_BYTES])
{
	struct str pem;
	struct stat st;
	struct uh_error *err = root_read(NULL, path, KEY_FILE_MOST, a, &pem, &st);
	if (err)
		return err;
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return uh_error_new("%s: others can read or write this secret key: chmod 600 it, or make a new one", path);
	return key_read_secret(pem, ret) ? NULL :
					   uh_error_new("%s: not a secret Ed25519 key; unhang knowledge key makes one", path);
}

/** Signed last, over all bytes; and not before all blocks loaded, because machines would refuse it. */
static struct uh_error *make_container(struct collection *c, const struct uh_export_options *o, struct text *to)
{
	uint8_t secret[KEY_BYTES], signature[SIGNATURE_BYTES];
	char made[16];
	time_t now = time(NULL);
	struct tm tm;
	strftime(made, sizeof(made), "%Y-%m-%d", gmtime_r(&now, &tm));
	struct container box = { .path = "export",
				 .version = o->version,
				 .made = str_z(made),
				 .note = str_z(o->note ? o->note : ""),
				 .files = c->files.data,
				 .nfiles = c->files.len };
	if (o->version <= know_embedded_version)
		return uh_error_new(
			"version %llu is not newer than the built-in %llu: machines with this unhang would refuse it",
			(unsigned long long)o->version, (unsigned long long)know_embedded_version);
	struct uh_error *err = read_secret(&c->arena, o->key, secret);
	if (!err)
		err = update_blocks_right(&box);
	if (!err)
		err = sign_public_of(secret, box.key);
	if (!err)
		err = container_write(&box, to);
	if (!err)
		err = sign_bytes(secret, text_str(to), signature);
	if (!err)
		container_finish(to, signature);
	return err;
}

/** Replaces only what is such a file too. */
static struct uh_error *write_out(const char *path, struct str bytes)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct str before;
	_cleanup_error_ struct uh_error *err = root_read(NULL, path, CONTAINER_MOST, &a, &before, NULL);
	const bool absent = err && err->errnum == ENOENT, ours = !err && container_is(before);
	if (!absent && !ours)
		return uh_error_new("%s: the file exists and is not signed knowledge, so it is not overwritten", path);
	return (ours ? save_file : save_new_file)(AT_FDCWD, path, bytes, 0644);
}

struct uh_error *uh_knowledge_export(const struct uh_export_options *o, const char *const *paths, size_t n, FILE *out)
{
	_cleanup_(collection_free) struct collection c = { 0 };
	_cleanup_text_ struct text bytes = { 0 };
	struct uh_error *err = n ? NULL : collect_machine(&c);
	for (size_t i = 0; i < n && !err; i++)
		err = collect_file(&c, paths[i], true);
	if (!err)
		err = make_container(&c, o, &bytes);
	if (!err && o->file)
		err = write_out(o->file, text_str(&bytes));
	else if (!err)
		print_str(out, text_str(&bytes));
	if (!err && o->file)
		fprintf(out, "%s: knowledge %llu, %zu file%s\n", o->file, (unsigned long long)o->version, c.files.len,
			c.files.len == 1 ? "" : "s");
	return err;
}
