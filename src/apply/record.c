// Records of changes: a key and its values in each line. A record may come with a stranger's tree, so it is refused if it names a file
// or a word that this program would not write.
#include "apply/applied.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/door/lock.h"

enum { RECORD_MOST = 1 << 18, RECORDS_MOST = 1000, BYTES_MOST = 4 << 20, SETS_MOST = 64 };

static const char *const states[] = { "planned", "applied", "undoing" };
static const char *const kinds[] = { "modprobe", "environment", "profile",     "grub-d",
				     "grub",     "entry-line",  "entry-words", "cmdline" };

void applied_free(struct applied *a)
{
	vec_free(&a->sets);
	vec_free(&a->variables);
	vec_free(&a->limits);
	vec_free(&a->files);
	vec_free(&a->made);
	vec_free(&a->had);
	arena_free(&a->arena);
}

void applied_write(const struct applied *a, struct text *to)
{
	text_printf(to, "unhang/applied/1\nid " STR_FMT "\nstate %s\ndate %lld\ntitle " STR_FMT "\n", STR_ARG(a->id),
		    states[a->state], (long long)a->date, STR_ARG(a->title));
	if (a->kargs)
		text_add(to, S("kargs\n"));
	for (size_t n = 0; n < a->sets.len; n++)
		text_printf(to, "set " STR_FMT " " STR_FMT "\n", STR_ARG(a->sets.data[n].name), STR_ARG(a->sets.data[n].value));
	for (size_t n = 0; n < a->variables.len; n++)
		text_printf(to, "variable " STR_FMT " " STR_FMT "\n", STR_ARG(a->variables.data[n].name),
			    STR_ARG(a->variables.data[n].value));
	for (size_t n = 0; n < a->limits.len; n++)
		text_printf(to, "limit " STR_FMT " " STR_FMT "\n", STR_ARG(a->limits.data[n].name),
			    STR_ARG(a->limits.data[n].value));
	for (size_t n = 0; n < a->made.len; n++)
		text_printf(to, "made " STR_FMT "\n", STR_ARG(a->made.data[n]));
	for (size_t n = 0; n < a->had.len; n++)
		text_printf(to, "had " STR_FMT "\n", STR_ARG(a->had.data[n]));
	for (size_t n = 0; n < a->files.len; n++) {
		const struct own_file *f = &a->files.data[n];
		text_printf(to, "file %s " STR_FMT "\n", kinds[f->kind], STR_ARG(f->path));
		if (!own_session(f->kind))
			text_printf(to, "words " STR_FMT "\n%s%s", STR_ARG(f->words), f->bare ? "bare\n" : "",
				    f->last ? "last\n" : "");
	}
	text_add(to, S("end\n"));
}

static int choice(const char *const *names, size_t n, struct str word)
{
	for (size_t i = 0; i < n; i++)
		if (str_is(word, names[i]))
			return (int)i;
	return -1;
}

static bool words_good(struct str words)
{
	size_t n = 0;
	for (struct str word; (word = str_word(&words)).n; n++) {
		struct str value = word, name = str_split(&value, '=');
		if (n == SETS_MOST || !applied_set_good(name, value))
			return false;
	}
	return n;
}

static bool text_good(struct str s)
{
	for (size_t n = 0; n < s.n; n++)
		if ((unsigned char)s.p[n] < ' ' || s.p[n] == 0x7f)
			return false;
	return true;
}

static bool apply_record_take_file(struct applied *a, struct str rest)
{
	int kind = choice(kinds, ARRAY_SIZE(kinds), str_split(&rest, ' '));
	if (kind < 0 || a->files.len == APPLIED_FILES_MOST || !own_file_good(a, (enum own_kind)kind, rest))
		return false;
	vec_push(&a->files, ((struct own_file){ .kind = (enum own_kind)kind, .path = rest }));
	return true;
}

static bool take_set(struct applied *a, struct str key, struct str rest)
{
	struct str name = str_split(&rest, ' ');
	const struct applied_set set = { name, rest };
	if (a->sets.len + a->variables.len + a->limits.len == SETS_MOST)
		return false;
	if (str_is(key, "set") && applied_set_good(name, rest))
		vec_push(&a->sets, set);
	else if (str_is(key, "variable") && applied_variable_good(name, rest))
		vec_push(&a->variables, set);
	else if (str_is(key, "limit") && applied_limit_good(name, rest))
		vec_push(&a->limits, set);
	else
		return false;
	return true;
}

/** One line; false where it is not right. */
static bool apply_record_take_line(struct applied *a, struct str key, struct str rest)
{
	struct own_file *f = a->files.len ? &a->files.data[a->files.len - 1] : NULL;
	int state = choice(states, ARRAY_SIZE(states), rest);
	if (str_is(key, "id"))
		return str_eq(rest, a->id);
	if (str_is(key, "title"))
		return a->title = rest, text_good(rest);
	if (str_is(key, "state"))
		return a->state = (enum applied_state)state, state >= 0;
	if (str_is(key, "date"))
		return str_number(rest, &a->date) && a->date >= 0 && a->date < (int64_t)1 << 40;
	if (str_is(key, "kargs"))
		return a->kargs = true;
	if (str_is(key, "set") || str_is(key, "variable") || str_is(key, "limit"))
		return take_set(a, key, rest);
	if (str_is(key, "file"))
		return apply_record_take_file(a, rest);
	if (str_is(key, "words") && f && !own_session(f->kind))
		return f->words = rest, words_good(rest);
	if (str_is(key, "bare") && f && (f->kind == OWN_GRUB || f->kind == OWN_ENTRY_LINE))
		return f->bare = true;
	if (str_is(key, "last") && f && (f->kind == OWN_GRUB || f->kind == OWN_GRUB_D))
		return f->last = true;
	static const char *const places[] = {
		"/etc", "/etc/modprobe.d", "/etc/default/grub.d", "/etc/environment.d", "/etc/profile.d",
	};
	if (str_is(key, "made") && choice(places, ARRAY_SIZE(places), rest) >= 0 && a->made.len < APPLIED_FILES_MOST) {
		vec_push(&a->made, rest);
		return true;
	}
	if (str_is(key, "had") && own_file_good(a, OWN_ENTRY_WORDS, rest) && a->had.len < APPLIED_FILES_MOST) {
		vec_push(&a->had, rest);
		return true;
	}
	return false;
}

struct uh_error *applied_parse(struct str text, struct str id, const char *where, struct applied *ret)
{
	*ret = (struct applied){ 0 };
	ret->id = arena_str(&ret->arena, id);
	struct str rest = arena_str(&ret->arena, text);
	bool ended = false, good = str_eq(str_split(&rest, '\n'), S("unhang/applied/1"));
	size_t line = 1;
	while (good && rest.n && !ended) {
		struct str value = str_split(&rest, '\n'), key = str_split(&value, ' ');
		line++;
		ended = str_is(key, "end");
		good = ended || apply_record_take_line(ret, key, value);
	}
	for (size_t n = 0; n < ret->files.len; n++)
		good &= ret->files.data[n].words.n > 0 || own_session(ret->files.data[n].kind);
	if (good && ended && applied_id_good(ret->id))
		return NULL;
	applied_free(ret);
	return uh_error_new("%s:%zu: this is no record of a change that unhang made%s", where, line,
			    good ? ": its end is missing" : "");
}

/** A record that cannot be read is a problem that is told, and no reason not to read the others. */
static void load_one(const char *root, struct str id, struct applied_list *ret, size_t *left)
{
	_cleanup_arena_ struct arena room = { 0 };
	struct str text = { 0 };
	struct applied *a = arena_alloc(&ret->arena, sizeof(*a));
	const char *path = arena_printf(&ret->arena, APPLIED_DIRECTORY "/" STR_FMT ".record", STR_ARG(id)).p;
	_cleanup_error_ struct uh_error *err = root_read(root, path, RECORD_MOST, &room, &text, NULL);
	if (!err && text.n > *left)
		err = uh_error_new("%s: the records are larger than %d MB", path, BYTES_MOST >> 20);
	if (!err) {
		*left -= text.n;
		err = applied_parse(text, id, path, a);
	}
	if (!err)
		vec_push(&ret->list, a);
	else
		vec_push(&ret->problems, arena_str(&ret->arena, str_z(err->message)));
}

/** ID of ID.record, or of the unfinished .ID.record.1234abcd.unhang-new. */
static bool record_id(struct str name, bool *ret_cut, struct str *ret)
{
	ptrdiff_t end = str_find(name, S(".record"));
	*ret_cut = str_starts(name, S(".")) && str_ends(name, S(".unhang-new"));
	if (end <= *ret_cut || (!*ret_cut && !str_ends(name, S(".record"))))
		return false;
	*ret = *ret_cut ? str_cut(str_from(name, 1), (size_t)end - 1) : str_cut(name, name.n - S(".record").n);
	return applied_id_good(*ret);
}

static int apply_record_by_id(const void *a, const void *b)
{
	return str_cmp((*(struct applied *const *)a)->id, (*(struct applied *const *)b)->id);
}

void applied_load_all(const char *root, struct applied_list *ret)
{
	*ret = (struct applied_list){ 0 };
	struct door_names names;
	_cleanup_error_ struct uh_error *err =
		door_names(&(struct named){ .path = APPLIED_DIRECTORY, .root = root }, true, &ret->arena, &names);
	if (err && err->errnum != ETIMEDOUT) {
		cleanup_error(&err);
		err = door_names(&(struct named){ .path = "/etc/unhang", .root = root }, true, &ret->arena, &names);
	}
	if (err && err->errnum == ETIMEDOUT)
		vec_push(&ret->problems, arena_str(&ret->arena, str_z(err->message)));
	if (err)
		return;
	size_t left = BYTES_MOST;
	ret->empty = !names.n || (names.n == 1 && !strcmp(names.list[0], LOCK_NAME));
	for (size_t i = 0; i < names.n && i < RECORDS_MOST; i++) {
		struct str id;
		bool cut;
		if (!record_id(str_z(names.list[i]), &cut, &id))
			continue;
		id = arena_str(&ret->arena, id);
		if (cut)
			vec_push(&ret->cut, id);
		else
			load_one(root, id, ret, &left);
	}
	if (ret->list.len)
		qsort(ret->list.data, ret->list.len, sizeof(ret->list.data[0]), apply_record_by_id);
}

void applied_list_free(struct applied_list *l)
{
	for (size_t n = 0; n < l->list.len; n++)
		applied_free(l->list.data[n]);
	vec_free(&l->list);
	vec_free(&l->cut);
	vec_free(&l->problems);
	arena_free(&l->arena);
}

struct applied *applied_named(const struct applied_list *l, struct str id)
{
	for (size_t n = 0; n < l->list.len; n++)
		if (str_eq(l->list.data[n]->id, id))
			return l->list.data[n];
	return NULL;
}
