// Signed knowledge is installed on this machine, or taken back.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/door/lock.h"
#include "base/print.h"
#include "base/door/root.h"
#include "base/save.h"
#include "base/door/trust.h"
#include "knowledge/signed/update.h"
#include "report/knowledge.h"
#include "session/knowledge/show.h"
#include "unhang/unhang.h"

typedef unsigned long long ull;

/** The first problem is the reason. */
struct first_problem {
	struct text text;
	unsigned more;
};

static void keep_problem(void *ctx, const char *file, unsigned line, const char *message)
{
	struct first_problem *f = ctx;
	if (f->text.n)
		f->more++;
	else
		text_printf(&f->text, "%s:%u: %s", file, line, message);
}

struct uh_error *update_blocks_right(const struct container *c)
{
	struct first_problem first = { 0 };
	struct know_problems problems = { .report = keep_problem, .ctx = &first };
	struct uh_error *err = NULL;
	know_free(know_load_update(c, &problems));
	if (first.more)
		text_printf(&first.text, " (and %u more)", first.more);
	if (problems.count)
		err = uh_error_new("%s", first.text.p);
	text_free(&first.text);
	return err;
}

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
	struct uh_error *err = update_verify(a, root, c, ret_key_file);
	if (!err)
		err = newer_than(c, know_embedded_version, "built-in");
	if (!err && installed)
		err = newer_than(c, installed->version, "installed");
	if (err) {
		struct uh_error *named = uh_error_new("%s: %s", c->path, err->message);
		uh_error_free(err);
		return named;
	}
	return update_blocks_right(c);
}

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
	struct uh_error *err = trust_open(root, UPDATE_DIRECTORY, O_RDONLY | O_DIRECTORY, &dir);
	if (!err)
		err = lock_directory(dir, &lock);
	if (err)
		return err;
	uh_error_free(update_installed(a, root, &installed, &there));
	err = there ? newer_than(c, installed.version, "installed") : NULL;
	if (!err)
		save_left_over(dir, UPDATE_NAME, true);
	if (!err)
		err = save_file(dir, UPDATE_NAME, bytes, 0644);
	if (!err)
		return NULL;
	struct uh_error *named = uh_error_new("%s" UPDATE_DIRECTORY "/%s", root ? root : "", err->message);
	uh_error_free(err);
	return named;
}

/** An error if the output was lost: it says what was done nevertheless. NULL: the output arrived. */
static struct uh_error *told(const char *done, FILE *out)
{
	return !done || print_arrived(out) ? NULL : uh_error_new("%s, but that could not be shown", done);
}

static struct uh_error *update_file(struct arena *a, const char *root, const char *path, bool dry_run, FILE *out)
{
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
	return told(dry_run ? NULL : "the update was installed", out);
}

static struct uh_error *update_remove(struct arena *a, const char *root, FILE *out)
{
	struct container installed;
	bool there, file = false;
	_cleanup_close_ int dir = root_open(root, UPDATE_DIRECTORY, O_RDONLY | O_DIRECTORY);
	if (dir < 0 && errno != ENOENT)
		return uh_error_os(errno, "%s" UPDATE_DIRECTORY, root ? root : "");
	_cleanup_(lock_release) struct lock lock = LOCK_FREE;
	struct uh_error *err = dir < 0 ? NULL : lock_directory(dir, &lock);
	if (err)
		return err;
	uh_error_free(update_installed(a, root, &installed, &there));
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
	return told(file ? "the update was removed" : NULL, out);
}

struct uh_error *uh_knowledge_update(const char *root, const char *path, bool dry_run, FILE *out)
{
	struct arena a = { 0 };
	struct uh_error *err = update_file(&a, root, path, dry_run, out);
	arena_free(&a);
	return err;
}

struct uh_error *uh_knowledge_remove(const char *root, FILE *out)
{
	struct arena a = { 0 };
	struct uh_error *err = update_remove(&a, root, out);
	arena_free(&a);
	return err;
}

void uh_knowledge_version(const char *root, bool json, FILE *out)
{
	struct arena a = { 0 };
	struct installed i = { 0 };
	i.err = update_installed(&a, root, &i.update, &i.there);
	report_versions(&i, json, out);
	uh_error_free(i.err);
	arena_free(&a);
}
