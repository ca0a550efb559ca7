// How a setting is taken out of the place where it stands, and what makes that active: by the place and by the boot loader's layout.
#include <stdlib.h>

#include "host/settings/setting.h"
#include "knowledge/parameter.h"
#include "knowledge/steps.h"

// --- what is said ---

struct str setting_written(const struct setting *t)
{
	if (t->from.n)
		return t->from;
	return strcmp(t->place, "cmdline") ? t->where : S("the boot loader's configuration");
}

const struct command *setting_written_step(const struct settings *s, const struct setting *t)
{
	struct arena *a = &s->h->arena;
	if (!t->from.n && !strcmp(t->place, "cmdline"))
		return COMMAND(a, "the boot loader's configuration");
	const struct command *path = COMMAND_OF(a, "", PIECE_PATH, setting_written(t));
	return path ? path : COMMAND(a, "its file");
}

/** The word where it can be told as it stands, else its name alone. */
static const struct command *word_of(struct arena *a, const struct setting *t)
{
	if (piece_plain(PIECE_PARAMETER, t->word))
		return COMMAND_OF(a, "", PIECE_PARAMETER, t->word);
	const struct command *name = COMMAND_OF(a, "", PIECE_NAME, t->name);
	return name ? name : COMMAND(a, "WORD");
}

static bool is_option(const struct setting *t)
{
	const char *place = t->from.n ? t->from_place : t->place;
	return !strcmp(place, "modprobe") || !strcmp(place, "sysfs");
}

/** What an action is on this machine, for a setting: `stands_in` is its file, where that is known. */
static const struct command *way_of(const struct settings *s, const struct setting *t, const char *action,
				    const struct command *it)
{
	struct host_item place = { .kind = S("setting") };
	const struct host_scope scope = { s->h, &place };
	const struct fact_view view = host_view(&scope);
	bool doubt = s->h->doubt;
	s->h->doubt = false;
	if (t->from.n || (strcmp(t->place, "cmdline") && strcmp(t->place, "sysfs")))
		host_note_command(s->h, &place, "stands_in", COMMAND_OF(&s->h->arena, "", PIECE_PATH, setting_written(t)),
				  t->where);
	if (t->word.n && !piece_plain(PIECE_PARAMETER, t->word))
		host_note(s->h, &place, "odd_value", S("yes"), t->where);
	s->h->doubt = doubt;
	const struct command *c = steps_action(&s->h->arena, s->h->know, str_z(action), it, &view);
	vec_free(&place.facts);
	return c;
}

static const struct command *remove_of(const struct settings *s, const struct setting *t)
{
	return way_of(s, t, is_option(t) ? "drop-option" : "drop-word", word_of(&s->h->arena, t));
}

static const struct command *restore_of(const struct settings *s, const struct setting *t)
{
	return way_of(s, t, is_option(t) ? "undo drop-option" : "undo drop-word", word_of(&s->h->arena, t));
}

static const struct command *activate_of(const struct settings *s, const struct setting *t)
{
	return way_of(s, t, is_option(t) ? "activate-options" : "activate-words", NULL);
}

void setting_note_change(struct settings *s, struct host_item *i, const struct setting *t)
{
	host_note_command(s->h, i, "written", setting_written_step(s, t), t->where);
	host_note_command(s->h, i, "remove", remove_of(s, t), t->where);
	host_note_command(s->h, i, "activate", activate_of(s, t), t->where);
	host_note_command(s->h, i, "restore", restore_of(s, t), t->where);
}

static void note_named(const struct settings *s, const char *fact, const struct setting *t, const struct command *c)
{
	struct arena *a = &s->h->arena;
	host_note_command(s->h, host_machine(s->h), arena_z(a, arena_printf(a, "%s." STR_FMT, fact, STR_ARG(t->name))), c,
			  t->where);
}

void setting_note_machine_change(struct settings *s, const struct setting *t)
{
	note_named(s, "remove", t, remove_of(s, t));
	note_named(s, "activate", t, activate_of(s, t));
	note_named(s, "restore", t, restore_of(s, t));
}

void setting_note_activate(struct settings *s, struct host_item *i, const char *place, struct str where)
{
	host_note_command(s->h, i, "activate", activate_of(s, &(struct setting){ .place = place, .where = where }), where);
}

/** NAME=VALUE, in modprobe's syntax where it goes there; VALUE where the value cannot be told as it stands. */
static void add_assignment(struct command_maker *m, struct str module, struct str word)
{
	struct str value = word, name = str_split(&value, '=');
	if (module.n) {
		command_add(m, "options ");
		command_add_value(m, PIECE_NAME, module);
		command_add(m, " ");
		name = str_from(name, module.n + 1);
	}
	command_add_value(m, PIECE_NAME, name);
	if (memchr(word.p, '=', word.n))
		command_add(m, "=");
	if (piece_plain(PIECE_PARAMETER, value))
		command_add_value(m, PIECE_PARAMETER, value);
	else if (value.n)
		command_add_blank(m, S("value"));
}

void setting_note_word(struct settings *s, struct host_item *i, const struct setting *t)
{
	struct command_maker *m = command_begin(&s->h->arena);
	add_assignment(m, S(""), arena_printf(&s->h->arena, STR_FMT "=" STR_FMT, STR_ARG(t->name), STR_ARG(t->value)));
	host_note_command(s->h, i, "word", command_end(m), t->where);
}

void setting_note_write(struct settings *s, struct host_item *i, const struct setting *t, struct str word)
{
	struct str rest = word, name = str_split(&rest, '=');
	const struct setting *there = settings_winner(s, name);
	there = there ? there : t;
	rest = word;
	struct str module = str_split(&rest, '.');
	bool option = !strcmp(there->place, "modprobe") && settings_module(s, module);
	struct command_maker *m = command_begin(&s->h->arena);
	add_assignment(m, option ? module : S(""), word);
	host_note_command(s->h, i, "write", way_of(s, there, option ? "set-option" : "set-word", command_end(m)), there->where);
}
