// From files to struct know: what is built in, an update of it, the machine's and the user's files.
#include "knowledge/know.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/door/door.h"
#include "knowledge/kinds/kinds.h"
#include "knowledge/matcher.h"
#include "knowledge/resolve.h"
#include "knowledge/signed/update.h"
#include "knowledge_version.h"

/** retract KIND ID: what stands behind it counts again. */
static void load_retract(struct loader *l, const struct know_block *b)
{
	struct str id = b->id, kind = str_word(&id);
	id = str_trim(id);
	if (!id.n || b->nkeys)
		know_problem(l->problems, b->file, b->line, "to take a block out: retract KIND ID");
	else if (!know_retract(l->know, kind, id))
		know_problem(l->problems, b->file, b->line, "blocks of the kind '" STR_FMT "' cannot be retracted",
			     STR_ARG(kind));
}

static void load_block(void *ctx, const struct know_block *b)
{
	struct loader *l = ctx;
	const struct know_kind *kind = kind_named(b->kind);
	if (kind)
		kind_load(l, kind, b);
	else if (str_is(b->kind, "retract"))
		load_retract(l, b);
	else
		know_problem(l->problems, b->file, b->line, "unknown kind of block '" STR_FMT "'", STR_ARG(b->kind));
}

static void load_text(struct loader *l, const char *file, struct str text)
{
	const struct know_text one = { file, text };
	vec_push(&l->know->texts, one);
	know_blocks(&l->know->arena, file, text, l->problems, load_block, l);
}

/** Without the path in front, which problems have already. */
static struct str reason(const struct uh_error *err, const char *path)
{
	struct str why = str_z(err->message);
	str_behind(why, str_z(path), &why);
	str_behind(why, S(": "), &why);
	return why;
}

/** What others could have written is named and not used. */
static void load_file(struct loader *l, const char *directory, const char *name)
{
	struct arena *a = &l->know->arena;
	const char *path = arena_printf(a, "%s/%s", directory, name).p;
	struct str text;
	_cleanup_error_ struct uh_error *err = believed_read(NULL, path, KNOW_FILE_MOST, a, &text);
	if (!err) {
		load_text(l, path, text);
		return;
	}
	struct str why = reason(err, path);
	know_problem(l->problems, path, 0, "%s" STR_FMT,
		     str_starts(why, S("not used: ")) ? "" : "cannot be read as knowledge: ", STR_ARG(why));
}

static void load_directory(struct loader *l, const char *directory)
{
	struct arena room = { 0 };
	struct door_names names;
	_cleanup_error_ struct uh_error *err =
		door_names(&(struct named){ .path = directory, .believed = true }, true, &room, &names);
	if (err && err->errnum == ETIMEDOUT)
		know_problem(l->problems, directory, 0, "does not answer, so the knowledge in it is not used");
	else if (err && !err->errnum)
		know_problem(l->problems, directory, 0, STR_FMT, STR_ARG(reason(err, directory)));
	for (size_t i = 0; i < names.n; i++)
		if (str_ends(str_z(names.list[i]), S(".know")))
			load_file(l, directory, names.list[i]);
	arena_free(&room);
}

static void load_directories(struct loader *l)
{
	load_directory(l, "/etc/unhang/knowledge.d");
	struct text path = { 0 };
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	if (config && *config)
		text_printf(&path, "%s/unhang/knowledge.d", config);
	else if (home)
		text_printf(&path, "%s/.config/unhang/knowledge.d", home);
	if (path.n)
		load_directory(l, path.p);
	text_free(&path);
}

const uint64_t know_embedded_version = KNOWLEDGE_VERSION;

static void load_one(void *ctx, const char *name, struct str text, bool added)
{
	struct loader *l = ctx;
	l->user = added;
	load_text(l, name, text);
}

static void load_nothing(struct loader *l, struct know_problems *problems)
{
	*l = (struct loader){ .know = mem_alloc(sizeof(*l->know)), .problems = problems, .user = true };
	l->know->matcher = matcher_new();
}

/** What is built in, with @update. */
static void load_begin(struct loader *l, const struct container *update, struct know_problems *problems)
{
	load_nothing(l, problems);
	struct know *k = l->know;
	k->version = update ? update->version : know_embedded_version;
	k->update = update ? update->path : NULL;
	know_each_text(&k->arena, update, load_one, l);
	l->user = true;
}

/** With the update that is installed, where it is newer. One that is damaged is a problem, not the end. */
static void load_begin_installed(struct loader *l, struct know_problems *problems)
{
	struct container update;
	struct arena a = { 0 };
	bool there;
	struct uh_error *err = update_installed(&a, NULL, &update, &there);
	if (err) {
		struct str why = str_z(err->message);
		str_behind(why, S(UPDATE_PATH ": "), &why);
		know_problem(problems, UPDATE_PATH, 0, STR_FMT "; what is built in is used", STR_ARG(why));
	}
	uh_error_free(err);
	load_begin(l, there && update.version > know_embedded_version ? &update : NULL, problems);
	l->know->update_arena = a;
}

static struct know *load_end(struct loader *l)
{
	know_resolve(l->know, l->problems);
	matcher_finish(l->know->matcher);
	return l->know;
}

struct know *know_load(struct know_problems *problems)
{
	struct loader l;
	load_begin_installed(&l, problems);
	load_directories(&l);
	return load_end(&l);
}

struct know *know_load_with(const char *file, struct str text, struct know_problems *problems)
{
	struct loader l;
	load_begin_installed(&l, problems);
	load_text(&l, file, text);
	return load_end(&l);
}

struct know *know_load_alone(const char *file, struct str text, struct know_problems *problems)
{
	struct loader l;
	load_nothing(&l, problems);
	load_text(&l, file, text);
	return load_end(&l);
}

struct know *know_load_update(const struct container *update, struct know_problems *problems)
{
	struct loader l;
	load_begin(&l, update, problems);
	return load_end(&l);
}

void know_free(struct know *k)
{
	if (!k)
		return;
	matcher_free(k->matcher);
	for (size_t i = 0; i < KNOW_LETTERS; i++)
		vec_free(&k->typed[i]);
	kinds_free(k);
	vec_free(&k->texts);
	arena_free(&k->update_arena);
	arena_free(&k->arena);
	free(k);
}
