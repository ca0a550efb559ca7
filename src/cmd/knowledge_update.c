// unhang knowledge update and version: signed knowledge that is installed on this machine.
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/print.h"
#include "base/door.h"
#include "base/save.h"
#include "base/root.h"
#include "base/trust.h"
#include "cmd/cmd.h"
#include "cmd/knowledge.h"
#include "knowledge/signed/changes.h"
#include "knowledge/know.h"
#include "knowledge/signed/update.h"

typedef unsigned long long ull;

enum { NAMED_MOST = 8 }; // so many blocks of a kind are named

/** Blocks of one kind that changed in one way. */
struct change_kind {
	struct str kind;
	struct str ids[NAMED_MOST];
	size_t n;
};

struct changes {
	struct arena arena;
	VEC(struct change_kind) of[DIFFERENCE_GONE + 1];
	bool any;
};

static void note_change(void *ctx, enum know_difference change, struct str kind, struct str id)
{
	struct changes *c = ctx;
	size_t i = 0;
	while (i < c->of[change].len && !str_eq(c->of[change].data[i].kind, kind))
		i++;
	if (i == c->of[change].len) {
		const struct change_kind one = { .kind = arena_str(&c->arena, kind) };
		vec_push(&c->of[change], one);
	}
	struct change_kind *k = &c->of[change].data[i];
	if (k->n < NAMED_MOST)
		k->ids[k->n] = arena_str(&c->arena, str_cut(id, 60));
	k->n++;
	c->any = true;
}

static void print_changes(struct changes *c)
{
	static const char *const words[] = { "new", "changed", "gone" };
	for (int change = DIFFERENCE_NEW; change <= DIFFERENCE_GONE; change++) {
		for (size_t i = 0; i < c->of[change].len; i++) {
			const struct change_kind *k = &c->of[change].data[i];
			printf("  %-8s %zu ", words[change], k->n);
			print_safe(stdout, k->kind);
			for (size_t n = 0; n < k->n && n < NAMED_MOST; n++) {
				fputs(n ? ", " : ": ", stdout);
				print_safe(stdout, k->ids[n]);
			}
			fputs(k->n > NAMED_MOST ? ", ...\n" : "\n", stdout);
		}
		vec_free(&c->of[change]);
	}
	if (!c->any)
		puts("  it changes no block");
	arena_free(&c->arena);
}

/** How many blocks of each of the kinds that people ask for. */
struct counts {
	unsigned of[4], all;
};
static const char *const counted_kinds[] = { "signature", "known-bad", "remedy", "retract" };

static void count_kind(void *ctx, struct str kind)
{
	struct counts *c = ctx;
	c->all++;
	for (size_t i = 0; i < sizeof(counted_kinds) / sizeof(counted_kinds[0]); i++)
		c->of[i] += str_is(kind, counted_kinds[i]);
}

static void print_update(const struct container *c, struct str key_file)
{
	struct counts counts = { 0 };
	know_update_blocks(c, count_kind, &counts);
	printf("knowledge %llu of " STR_FMT ", signed with the key in ", (ull)c->version, STR_ARG(c->made));
	print_safe(stdout, key_file);
	if (c->note.n) {
		fputs("\n  note     ", stdout);
		print_safe(stdout, c->note);
	}
	printf("\n  holds    %zu file%s, %u block%s:", c->nfiles, c->nfiles == 1 ? "" : "s", counts.all,
	       counts.all == 1 ? "" : "s");
	for (size_t i = 0; i < sizeof(counted_kinds) / sizeof(counted_kinds[0]); i++)
		printf("%s %u %s", i ? "," : "", counts.of[i], counted_kinds[i]);
	putchar('\n');
}

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

struct uh_error *knowledge_blocks_right(const struct container *c)
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
	return knowledge_blocks_right(c);
}

static struct uh_error *lock_directory(int dir)
{
	if (!flock(dir, LOCK_EX | LOCK_NB))
		return NULL;
	return errno == EWOULDBLOCK ? uh_error_new(UPDATE_DIRECTORY ": another unhang knowledge update runs") :
				      uh_error_os(errno, UPDATE_DIRECTORY);
}

/** The version is looked at once more under the lock: somebody may have been quicker. */
static struct uh_error *update_install(struct arena *a, const char *root, const struct container *c, struct str bytes)
{
	struct container installed;
	bool there;
	_cleanup_close_ int made = root_make_directory(root, UPDATE_DIRECTORY), dir = -1;
	if (made < 0)
		return uh_error_os(errno, "%s" UPDATE_DIRECTORY, root ? root : "");
	// Where others may write it would not be used either.
	struct uh_error *err = trust_open(root, UPDATE_DIRECTORY, O_RDONLY | O_DIRECTORY, &dir);
	if (!err)
		err = lock_directory(dir);
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

/** What was done, where its answer is lost; NULL: nothing was. */
static struct uh_error *told(const char *done)
{
	return !done || print_arrived(stdout) ? NULL : uh_error_new("%s, but that could not be shown", done);
}

static struct uh_error *update_file(struct arena *a, const char *root, const char *path, bool dry_run)
{
	struct container c, installed;
	struct changes changes = { 0 };
	struct str key_file, bytes;
	bool there;
	struct uh_error *err = root_read(NULL, path, CONTAINER_MOST, a, &bytes, NULL);
	if (!err)
		err = container_read(a, path, bytes, &c);
	if (err)
		return err;
	// One that is damaged is no reason to keep it.
	uh_error_free(update_installed(a, root, &installed, &there));
	err = update_checked(a, root, &c, there ? &installed : NULL, &key_file);
	if (!err && !dry_run)
		err = update_install(a, root, &c, bytes);
	if (err)
		return err;
	print_update(&c, key_file);
	know_changes(there && installed.version > know_embedded_version ? &installed : NULL, &c, note_change, &changes);
	print_changes(&changes);
	printf("  %s %s%s\n", dry_run ? "right    would be written to" : "written to", root ? root : "", UPDATE_PATH);
	return told(dry_run ? NULL : "the update was installed");
}

static struct uh_error *update_remove(struct arena *a, const char *root)
{
	struct container installed;
	bool there, file = false;
	_cleanup_close_ int dir = root_open(root, UPDATE_DIRECTORY, O_RDONLY | O_DIRECTORY);
	if (dir < 0 && errno != ENOENT)
		return uh_error_os(errno, "%s" UPDATE_DIRECTORY, root ? root : "");
	struct uh_error *err = dir < 0 ? NULL : lock_directory(dir);
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
		printf("knowledge %llu was removed; ", (ull)installed.version);
	else
		printf("%s; ", file ? "the damaged update was removed" : "there was no update");
	printf("%llu, which is built in, is used\n", (ull)know_embedded_version);
	return told(file ? "the update was removed" : NULL);
}

int knowledge_update(int argc, char **argv)
{
	static const struct option options[] = {
		{ "root", required_argument, NULL, 'r' },
		{ "dry-run", no_argument, NULL, 'n' },
		{ "remove", no_argument, NULL, 'd' },
		{ 0 },
	};
	const char *root = NULL;
	bool dry_run = false, take_away = false;
	opterr = 0;
	for (int c; (c = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
		switch (c) {
		case 'r':
			root = other_root(optarg);
			break;
		case 'n':
			dry_run = true;
			break;
		case 'd':
			take_away = true;
			break;
		default:
			complain_option(argv, c, "knowledge");
			return EXIT_CANNOT;
		}
	}
	if (argc - optind != !take_away || (take_away && dry_run)) {
		complain("unhang knowledge update FILE, or unhang knowledge update --remove");
		return EXIT_CANNOT;
	}
	struct arena a = { 0 };
	struct uh_error *err = take_away ? update_remove(&a, root) : update_file(&a, root, argv[optind], dry_run);
	arena_free(&a);
	return err ? cannot(err) : EXIT_NOTHING_WRONG;
}

// --- version ---

struct versions {
	struct container update;
	bool there;           // and sound
	struct uh_error *err; // what is wrong with it
};

static bool in_use(const struct versions *v) { return v->there && v->update.version > know_embedded_version; }

static void versions_json(const struct versions *v)
{
	struct json j = { .out = stdout };
	struct text key = { 0 };
	jw_open(&j, '{');
	jw_key(&j, "in_use");
	jw_unsigned(&j, in_use(v) ? v->update.version : know_embedded_version);
	jw_key(&j, "built_in");
	jw_unsigned(&j, know_embedded_version);
	jw_key(&j, "update");
	if (v->there) {
		base64_write(&key, v->update.key, KEY_BYTES);
		jw_open(&j, '{');
		jw_key(&j, "version");
		jw_unsigned(&j, v->update.version);
		jw_field(&j, "made", v->update.made);
		jw_field(&j, "note", v->update.note.n ? v->update.note : (struct str){ 0 });
		jw_field(&j, "key", text_str(&key));
		jw_field(&j, "file", str_z(v->update.path));
		jw_close(&j, '}');
	} else {
		jw_null(&j);
	}
	jw_field(&j, "problem", str_z(v->err ? v->err->message : NULL));
	jw_close(&j, '}');
	text_free(&key);
}

static void versions_text(const struct versions *v)
{
	if (in_use(v))
		printf("knowledge %llu of " STR_FMT ", from %s (built in: %llu)\n", (ull)v->update.version,
		       STR_ARG(v->update.made), v->update.path, (ull)know_embedded_version);
	else
		printf("knowledge %llu, built in\n", (ull)know_embedded_version);
	if (v->there && !in_use(v))
		printf("version %llu in %s is not newer, and not used\n", (ull)v->update.version, v->update.path);
	if (v->err)
		printf("%s; not used\n", v->err->message);
}

void knowledge_versions(const char *root, bool json)
{
	struct arena a = { 0 };
	struct versions v = { 0 };
	v.err = update_installed(&a, root, &v.update, &v.there);
	(json ? versions_json : versions_text)(&v);
	uh_error_free(v.err);
	arena_free(&a);
}

int knowledge_version(int argc, char **argv)
{
	static const struct option options[] = {
		{ "root", required_argument, NULL, 'r' },
		{ "json", no_argument, NULL, 'J' },
		{ 0 },
	};
	const char *root = NULL;
	bool json = false;
	opterr = 0;
	for (int c; (c = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
		if (c != 'r' && c != 'J') {
			complain_option(argv, c, "knowledge");
			return EXIT_CANNOT;
		}
		if (c == 'r')
			root = other_root(optarg);
		json |= c == 'J';
	}
	if (optind < argc) {
		complain("unhang knowledge version takes no '%s'; see unhang knowledge --help", argv[optind]);
		return EXIT_CANNOT;
	}
	knowledge_versions(root, json);
	return EXIT_NOTHING_WRONG;
}
