// Variables for one job: a shell file to source and a JSON file for launchers. The system is not changed, so there is no record.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "apply/plan.h"
#include "base/cleanup.h"
#include "base/command.h"
#include "base/json.h"
#include "base/door/door.h"
#include "base/save.h"

enum { PROFILE_MOST = 1 << 16 };

static bool variable_good(struct str name)
{
	bool good = name.n && !char_digit(name.p[0]);
	for (size_t n = 0; good && n < name.n; n++)
		good = char_word(name.p[n]);
	return good;
}

struct uh_error *profile_text(const struct apply_request *r, struct text *ret)
{
	_cleanup_arena_ struct arena room = { 0 };
	text_printf(ret, "# unhang profile " STR_FMT ": " STR_FMT "\n# for one job: . ./" STR_FMT ".sh\n", STR_ARG(r->id),
		    STR_ARG(title_line(&room, r->title)), STR_ARG(r->id));
	for (const struct know_pair *e = r->change->envs; e; e = e->next) {
		if (!variable_good(e->name))
			return uh_error_new(STR_FMT ": no variable can have this name", STR_ARG(e->name));
		text_printf(ret, "export " STR_FMT "=", STR_ARG(e->name));
		shell_quote(ret, e->value);
		text_add(ret, S("\n"));
	}
	return NULL;
}

/** The same variables for launchers, which cannot source a shell file. */
static void profile_json(const struct apply_request *r, struct text *ret)
{
	_cleanup_free_ char *p = NULL;
	size_t n = 0;
	_cleanup_arena_ struct arena room = { 0 };
	FILE *out = open_memstream(&p, &n);
	struct json j = { .out = out };
	if (!out)
		return;
	jw_open(&j, '{');
	jw_field(&j, "schema", S("unhang/profile/1"));
	jw_field(&j, "id", r->id);
	jw_field(&j, "title", r->title);
	jw_key(&j, "env");
	jw_open(&j, '{');
	for (const struct know_pair *e = r->change->envs; e; e = e->next)
		jw_field(&j, arena_z(&room, e->name), e->value);
	jw_close(&j, '}');
	jw_close(&j, '}');
	fclose(out);
	text_add(ret, (struct str){ p, n });
}

enum profile_file { FILE_ABSENT, FILE_OURS, FILE_ODD };

static const char *const ends[] = { ".sh", ".json" };

static void profile_path(char *room, size_t size, const char *directory, struct str id, const char *end)
{
	snprintf(room, size, "%s/" STR_FMT "%s", directory, STR_ARG(id), end);
}

static enum profile_file profile_look(const char *directory, struct str id, const char *end)
{
	_cleanup_arena_ struct arena room = { 0 };
	struct str text = { 0 };
	const struct named n = { .path = directory, .below = arena_printf(&room, STR_FMT "%s", STR_ARG(id), end).p };
	_cleanup_error_ struct uh_error *err = named_read(&n, PROFILE_MOST, &room, &text, NULL);
	bool there = !err || err->errnum != ENOENT;
	struct str mark = arena_printf(&room, "# unhang profile " STR_FMT ":", STR_ARG(id));
	bool ours = !err && (str_starts(text, mark) ||
			     (str_starts(text, S("{")) && str_find(str_cut(text, 64), S("\"unhang/profile/1\"")) > 0));
	return !there ? FILE_ABSENT : ours ? FILE_OURS : FILE_ODD;
}

struct uh_error *profile_write(const char *directory, const struct apply_request *r)
{
	struct text texts[2] = { 0 };
	char paths[2][4096];
	struct uh_error *err = applied_id_good(r->id) ?
				       profile_text(r, &texts[0]) :
				       uh_error_new(STR_FMT ": no file can be named after this", STR_ARG(r->id));
	if (!err)
		profile_json(r, &texts[1]);
	for (size_t n = 0; n < 2; n++) {
		profile_path(paths[n], sizeof(paths[n]), directory, r->id, ends[n]);
		if (!err && profile_look(directory, r->id, ends[n]) == FILE_ODD)
			err = uh_error_new("%s: there is a file of this name that unhang did not write", paths[n]);
	}
	for (size_t n = 0; n < 2; n++) {
		if (!err)
			err = save_file(AT_FDCWD, paths[n], text_str(&texts[n]), 0644);
		text_free(&texts[n]);
	}
	return err;
}

struct uh_error *profile_remove(const char *directory, struct str id, unsigned *ret)
{
	struct uh_error *err = NULL;
	char path[4096];
	*ret = 0;
	for (size_t n = 2; !err && n-- > 0;) {
		profile_path(path, sizeof(path), directory, id, ends[n]);
		*ret += save_left_over(AT_FDCWD, path, true);
		if (profile_look(directory, id, ends[n]) != FILE_OURS)
			continue;
		err = save_remove(AT_FDCWD, path);
		*ret += !err;
	}
	return err;
}

bool profile_there(const char *directory, struct str id)
{
	char path[4096];
	for (size_t n = 0; n < 2; n++) {
		profile_path(path, sizeof(path), directory, id, ends[n]);
		if (profile_look(directory, id, ends[n]) == FILE_OURS || save_left_over(AT_FDCWD, path, false))
			return true;
	}
	return false;
}
