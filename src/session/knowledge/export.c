// Making signed knowledge: a key, and what it signs.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/print.h"
#include "base/save.h"
#include "knowledge/know.h"
#include "knowledge/signed/keys.h"
#include "knowledge/signed/update.h"
#include "session/knowledge/show.h"
#include "unhang/unhang.h"

#define MACHINE_DIRECTORY "/etc/unhang/knowledge.d"
enum { KEY_FILE_MOST = 64 << 10 };

// --- key ---

static struct uh_error *make_key(const char *path, struct text *secret_pem, struct text *public_pem, struct text *public_path)
{
	uint8_t secret[KEY_BYTES], public[KEY_BYTES];
	text_printf(public_path, "%s.pub", path);
	struct uh_error *err = sign_new_key(secret);
	if (!err)
		err = sign_public_of(secret, public);
	if (err)
		return err;
	key_write_secret(secret_pem, secret);
	key_write_public(public_pem, public);
	if (!faccessat(AT_FDCWD, public_path->p, F_OK, AT_SYMLINK_NOFOLLOW))
		return uh_error_os(EEXIST, "%s", public_path->p);
	err = save_new_file(AT_FDCWD, path, text_str(secret_pem), 0600);
	return err ? err : save_new_file(AT_FDCWD, public_path->p, text_str(public_pem), 0644);
}

struct uh_error *uh_knowledge_key(const char *path, FILE *out)
{
	struct text secret = { 0 }, public = { 0 }, public_path = { 0 };
	struct uh_error *err = make_key(path, &secret, &public, &public_path);
	if (!err)
		fprintf(out,
			"%s signs knowledge: keep it secret\n%s goes to " KEYS_DIRECTORY
			" on each machine that should trust it\n",
			path, public_path.p);
	text_free(&secret);
	text_free(&public);
	text_free(&public_path);
	return err;
}

// --- export ---

struct collection {
	struct arena arena;
	VEC(struct container_file) files;
};

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
	if (err && err->errnum != ETIMEDOUT) { // there need be none
		uh_error_free(err);
		err = NULL;
	}
	for (size_t i = 0; i < names.n && !err; i++)
		if (str_ends(str_z(names.list[i]), S(".know")))
			err = collect_file(c, arena_printf(&c->arena, MACHINE_DIRECTORY "/%s", names.list[i]).p, false);
	return err;
}

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
	struct arena a = { 0 };
	struct str before;
	struct uh_error *err = root_read(NULL, path, CONTAINER_MOST, &a, &before, NULL);
	bool absent = err && err->errnum == ENOENT, ours = !err && container_is(before);
	arena_free(&a);
	uh_error_free(err);
	if (!absent && !ours)
		return uh_error_new("%s: the file exists and is not signed knowledge, so it is not overwritten", path);
	return (ours ? save_file : save_new_file)(AT_FDCWD, path, bytes, 0644);
}

struct uh_error *uh_knowledge_export(const struct uh_export_options *o, const char *const *paths, size_t n, FILE *out)
{
	struct collection c = { 0 };
	struct text bytes = { 0 };
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
	text_free(&bytes);
	vec_free(&c.files);
	arena_free(&c.arena);
	return err;
}
