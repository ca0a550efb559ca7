// What is set where: the command line, modprobe.d, the files of boot loaders.
#include "host/settings/setting.h"
#include "knowledge/parameter.h"

enum { SETTINGS_MOST = 1024, KEPT_OUT_MOST = 64 };

const char *const settings_modules[MODULES] = { "amdgpu", "ttm", "amdttm", "drm", "radeon", "amdkfd" };

// --- what the list tells ---

struct module *settings_module(struct settings *s, struct str name)
{
	return list_find(s->modules, MODULES, it, str_is(name, it->name));
}

bool setting_counts(const struct setting *t) { return !strcmp(t->place, "cmdline") || !strcmp(t->place, "modprobe"); }

struct str settings_effective(struct settings *s, struct str name)
{
	struct str rest = name, module = str_split(&rest, '.');
	const struct module *m = settings_module(s, module);
	for (size_t i = 0; m && i < m->n; i++)
		if (str_eq(m->parameters[i], rest))
			return m->values[i];
	return (struct str){ 0 };
}

bool setting_reaches(const struct settings *s, const struct setting *t)
{
	return !t->unread && (!s->built_in || strcmp(t->place, "modprobe") != 0);
}

const struct setting *settings_winner(const struct settings *s, struct str name)
{
	const struct setting *winner = NULL;
	for (size_t i = 0; i < s->list.len; i++) {
		const struct setting *t = &s->list.data[i];
		if (setting_counts(t) && setting_reaches(s, t) && str_eq(t->name, name))
			winner = t;
	}
	return winner;
}

// --- words ---

/** `amdgpu.a=b`, or `a=b` of a module. */
static void setting_list_add_word(struct settings *s, struct str module, struct str word, const char *place, struct str where,
				  bool unread)
{
	struct arena *a = &s->h->arena;
	struct str name, value;
	bool has = word_split(word, &name, &value);
	name = word_plain(a, name);
	if (module.n)
		name = arena_printf(a, STR_FMT "." STR_FMT, STR_ARG(module), STR_ARG(name));
	struct setting one = (struct setting){
		.name = name, .value = has ? value : S("1"), .word = word, .place = place, .where = where, .unread = unread
	};
	struct str rest = one.name;
	one.module = str_split(&rest, '.');
	const bool of_gpu = rest.n && (settings_module(s, one.module) || str_is(one.module, "kfd"));
	if (!of_gpu)
		one.module = S("");
	// Only what somebody asks for: parameters of the GPU's modules, and what the table has.
	if (one.name.n && s->list.len < SETTINGS_MOST && (of_gpu || know_parameter(s->h->know, one.name)))
		vec_push(&s->list, one);
}

static void note_kept_out(struct settings *s, const char *how, struct str module, struct str what, const char *place,
			  struct str where)
{
	if (s->kept_out++ >= KEPT_OUT_MOST)
		return;
	struct host_item *i = host_add(s->h, "setting", NULL);
	host_note(s->h, i, "name", arena_printf(&s->h->arena, "%s." STR_FMT, how, STR_ARG(module)), where);
	host_note(s->h, i, "value", what, where);
	host_note(s->h, i, "place", str_z(place), where);
	host_note_command(s->h, i, "written", setting_written_step(s, &(struct setting){ .place = place, .where = where }),
			  where);
	setting_note_activate(s, i, place, where);
}

/** NAME=VALUE stands for words that cannot be told as they stand. */
static const struct command *right_line(struct settings *s, const char *module, struct str words)
{
	struct command_maker *m = command_begin(&s->h->arena);
	command_add(m, "Write it as: options ");
	command_add_value(m, PIECE_NAME, str_z(module));
	for (struct str word; (word = str_word(&words)).n;) {
		command_add(m, " ");
		if (piece_plain(PIECE_PARAMETER, word))
			command_add_value(m, PIECE_PARAMETER, word);
		else
			command_add(m, "NAME=VALUE");
	}
	return command_end(m);
}

void settings_add_cmdline(struct settings *s)
{
	const struct host_fact *line = host_fact(s->h, NULL, S("cmdline"), 0);
	struct str rest = line ? line->value : S(""), word, name, value;
	for (bool for_init = false; word_next(&rest, &word);) {
		for_init |= str_is(word, "--");
		word_split(word, &name, &value);
		// The kernel itself obeys the second.
		while ((str_is(name, "modprobe.blacklist") || str_is(name, "module_blacklist")) && value.n) {
			struct str module = word_plain(&s->h->arena, str_split(&value, ','));
			if (settings_module(s, module))
				note_kept_out(s, "blacklist", module, S("yes"), "cmdline", line->where);
		}
		// modprobe takes options from behind `--` too, the kernel nothing.
		if (!for_init || memchr(word.p, '.', word.n))
			setting_list_add_word(s, S(""), word, "cmdline", line->where, false);
	}
}

/** A line that modprobe ignores, or that is about a module that nobody has: a misspelt one for amdgpu. Others are left alone. */
static void note_misspelt(struct settings *s, const struct modprobe_line *l, struct str where)
{
	const char *module = settings_modules[0];
	const bool directive =
		l->kind == MODPROBE_OTHER && parameter_name_near(l->directive, S("options")) && str_is(l->module, module);
	const bool name = l->kind == MODPROBE_OPTIONS && parameter_name_near(l->module, str_z(module));
	if ((!directive && !name) || s->kept_out++ >= KEPT_OUT_MOST)
		return;
	struct host_item *i = host_add(s->h, "setting", NULL);
	host_note(s->h, i, "name", directive ? S("line.directive") : S("line.module"), where);
	host_note(s->h, i, "value", arena_printf(&s->h->arena, STR_FMT " " STR_FMT, STR_ARG(l->directive), STR_ARG(l->module)),
		  where);
	host_note(s->h, i, "place", S("modprobe"), where);
	host_note_command(s->h, i, "written", setting_written_step(s, &(struct setting){ .place = "modprobe", .where = where }),
			  where);
	host_note_command(s->h, i, "write", right_line(s, module, l->rest), where);
	setting_note_activate(s, i, "modprobe", where);
}

void settings_add_modprobe(struct settings *s, struct str text, const char *path, bool unread)
{
	struct modprobe_line l;
	struct arena *a = &s->h->arena;
	for (unsigned line = 0; modprobe_next(a, &text, &line, &l);) {
		struct str where = arena_printf(a, "%s:%u", path, l.line), word;
		bool known = settings_module(s, l.module) || str_is(l.module, "kfd");
		if (!unread && (!known || l.kind == MODPROBE_OTHER))
			note_misspelt(s, &l, where);
		if (!known || l.kind == MODPROBE_OTHER)
			continue;
		if (l.kind == MODPROBE_OPTIONS)
			while (word_next(&l.rest, &word))
				setting_list_add_word(s, l.module, word, "modprobe", where, unread);
		else if (!unread)
			note_kept_out(s, l.kind == MODPROBE_INSTALL ? "install" : "blacklist", l.module,
				      l.rest.n ? str_trim(l.rest) : S("yes"), "modprobe", where);
	}
}

void settings_add_boot(struct settings *s, const struct placed_words *words, const char *place)
{
	for (size_t i = 0; i < words->len; i++) {
		size_t before = s->list.len;
		bool there = false;
		setting_list_add_word(s, S(""), words->data[i].text, place, words->data[i].where, false);
		const struct setting *new = s->list.len > before ? &s->list.data[before] : NULL;
		for (size_t n = 0; s->list.len > before && n < before; n++) {
			struct setting *t = &s->list.data[n];
			if (!str_eq(t->name, new->name) || !str_eq(t->value, new->value) || !strcmp(t->place, "modprobe"))
				continue;
			there = true;
			if (t->from.n || strcmp(t->place, "cmdline") != 0)
				continue;
			t->from = new->where;
			t->from_place = place;
		}
		s->list.len -= there;
	}
}
