// What became of each parameter that somebody set: whether there is such a parameter, whether it took effect, and how it is taken out
// of the place where it stands.
#include <stdlib.h>

#include "host/settings/setting.h"
#include "knowledge/parameter.h"
#include "knowledge/steps.h"

// How a setting is taken out of the place where it stands, and what makes that active: by the place and by the boot loader's layout.

// --- what is said ---

/** Where it has to be changed: a file and its line, or in words. */
static struct str setting_written(const struct setting *t)
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

/** What each fact about a change is, for an option of a module and for a word of the kernel. */
enum change { CHANGE_REMOVE, CHANGE_ACTIVATE, CHANGE_RESTORE, CHANGES };
static const struct {
	const char *fact, *option, *word;
	bool names; // the action is about the word itself
} changes[CHANGES] = {
	[CHANGE_REMOVE] = { "remove", "drop-option", "drop-word", true },
	[CHANGE_ACTIVATE] = { "activate", "activate-options", "activate-words", false },
	[CHANGE_RESTORE] = { "restore", "undo drop-option", "undo drop-word", true },
};

static void note_setting_change(const struct settings *s, struct host_item *i, const char *fact, const struct setting *t,
				enum change c)
{
	const struct command *it = changes[c].names ? word_of(&s->h->arena, t) : NULL;
	host_note_command(s->h, i, fact, way_of(s, t, is_option(t) ? changes[c].option : changes[c].word, it), t->where);
}

void setting_note_change(struct settings *s, struct host_item *i, const struct setting *t)
{
	host_note_command(s->h, i, "written", setting_written_step(s, t), t->where);
	for (size_t c = 0; c < CHANGES; c++)
		note_setting_change(s, i, changes[c].fact, t, (enum change)c);
}

void setting_note_machine_change(struct settings *s, const struct setting *t)
{
	for (size_t c = 0; c < CHANGES; c++)
		note_setting_change(s, host_machine(s->h),
				    arena_printf(&s->h->arena, "%s." STR_FMT, changes[c].fact, STR_ARG(t->name)).p, t,
				    (enum change)c);
}

void setting_note_activate(struct settings *s, struct host_item *i, const char *place, struct str where)
{
	note_setting_change(s, i, "activate", &(struct setting){ .place = place, .where = where }, CHANGE_ACTIVATE);
}

/** NAME=VALUE, in modprobe's syntax where it goes there; VALUE where the value cannot be told as it stands. */
static void setting_state_add_assignment(struct command_maker *m, struct str module, struct str word)
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

void setting_note_write(struct settings *s, struct host_item *i, const struct setting *t, struct str word)
{
	struct str rest = word, name = str_split(&rest, '=');
	const struct setting *there = settings_winner(s, name);
	there = there ? there : t;
	rest = word;
	struct str module = str_split(&rest, '.');
	bool option = !strcmp(there->place, "modprobe") && settings_module(s, module);
	struct command_maker *m = command_begin(&s->h->arena);
	setting_state_add_assignment(m, option ? module : S(""), word);
	host_note_command(s->h, i, "write", way_of(s, there, option ? "set-option" : "set-word", command_end(m)), there->where);
}

// --- whether there is such a parameter ---

static struct str bare(const struct setting *t) { return str_from(t->name, t->module.n ? t->module.n + 1 : 0); }

static bool setting_state_listed(const struct module *m, struct str name)
{
	return m && list_find(m->parameters, m->n, it, str_eq(*it, name));
}

bool setting_wants_modinfo(struct settings *s, const struct setting *t)
{
	const struct know_parameter *p = know_parameter(s->h->know, t->name);
	const struct module *m = settings_module(s, t->module);
	return str_is(t->module, "amdgpu") && !setting_state_listed(m, bare(t)) && !(p && p->absent);
}

static enum truth exists(struct settings *s, const struct setting *t)
{
	const struct know_parameter *p = know_parameter(s->h->know, t->name);
	const struct module *m = settings_module(s, t->module);
	if (!t->module.n || setting_state_listed(m, bare(t)))
		return TRUTH_YES;
	if (p && p->absent)
		return TRUTH_NO;
	if (s->has_modinfo && str_is(t->module, "amdgpu"))
		return modinfo_has(&s->modinfo, bare(t)) ? TRUTH_YES : TRUTH_NO;
	enum truth table = p && s->own_driver ? parameter_exists(p, s->kernel) : TRUTH_UNKNOWN;
	// The modules show all that they have; what the table knows better may be hidden there.
	if (m && m->listed)
		return table == TRUTH_YES ? TRUTH_UNKNOWN : TRUTH_NO;
	return table;
}

/** The compute part was a module of its own once: its parameters are amdgpu's now. */
static bool moved_into_amdgpu(const struct setting *t) { return str_is(t->module, "amdkfd") || str_is(t->module, "kfd"); }

/** Of the table, where it is sure that this kernel has it: /sys may be recorded in part, or not at all. */
static struct str near_in_table(struct settings *s, const struct setting *t)
{
	struct arena *a = &s->h->arena;
	struct str near = s->own_driver ? parameter_near(s->h->know, t->name, NULL, 0) : S("");
	struct str name = near.n ? arena_printf(a, STR_FMT "." STR_FMT, STR_ARG(t->module), STR_ARG(near)) : S("");
	const struct know_parameter *p = name.n ? know_parameter(s->h->know, name) : NULL;
	return p && parameter_exists(p, s->kernel) == TRUTH_YES ? name : S("");
}

static struct str setting_state_near_name(struct settings *s, const struct setting *t)
{
	struct arena *a = &s->h->arena;
	struct module *m = settings_module(s, moved_into_amdgpu(t) ? S("amdgpu") : t->module);
	if (!m || know_parameter(s->h->know, t->name))
		return S("");
	if (moved_into_amdgpu(t))
		return setting_state_listed(m, bare(t)) ? arena_printf(a, "amdgpu." STR_FMT, STR_ARG(bare(t))) : S("");
	bool by_file = s->has_modinfo && !m->listed && str_is(t->module, "amdgpu");
	size_t n = by_file ? s->modinfo.n : m->n;
	struct str near = n ? parameter_near(s->h->know, t->name, by_file ? s->modinfo.parameters : m->parameters, n) : S("");
	return near.n ? arena_printf(a, "%s." STR_FMT, m->name, STR_ARG(near)) : near_in_table(s, t);
}

// --- masks ---

static struct str bit_names(struct arena *a, const struct know_parameter *p, uint64_t bits)
{
	_cleanup_text_ struct text out = { 0 };
	for (const struct know_pair *b = p->bits; b; b = b->next) {
		uint64_t bit;
		struct str meaning = b->value, name = str_split(&meaning, ':');
		if (!parameter_number(b->name, &bit) || !(bits & bit))
			continue;
		bits &= ~bit;
		text_printf(&out, "%s" STR_FMT " (" STR_FMT ")", out.n ? ", " : "", STR_ARG(name), STR_ARG(b->name));
	}
	return arena_str(a, text_str(&out));
}

/** The mask as it is: /sys, else what was set, else the driver's own. */
static struct str mask_now(struct settings *s, const struct know_parameter *mask, struct str *ret_where)
{
	struct str name = mask->head.id, now = settings_effective(s, name);
	const struct setting *set = settings_winner(s, name);
	*ret_where = now.n ? arena_printf(&s->h->arena, "/sys/module/amdgpu/parameters/" STR_FMT,
					  STR_ARG(str_from(name, sizeof("amdgpu.") - 1))) :
			     S("");
	if (now.n)
		return now;
	*ret_where = set ? set->where : mask->source;
	return set ? set->value : s->own_driver ? parameter_default(mask, s->kernel) : (struct str){ 0 };
}

/** Notes what achieves what was meant, as a word for the command line if there is one: `better`, the mask of this machine with bits taken
 * out; or `already`, if they are out. Neither if nothing needs to be done. */
static void note_instead(struct settings *s, struct host_item *i, const struct know_parameter *p, struct str value)
{
	const struct know_pair *clear = p->instead_change.clears, *set = p->instead_change.sets;
	const struct know_parameter *mask = clear ? know_parameter(s->h->know, clear->name) : NULL;
	struct arena *a = &s->h->arena;
	struct str where = p->source, better = p->instead;
	uint64_t have, bits, never = 0;
	bool on;
	if (mask)
		parameter_number(mask->never, &never);
	if (set)
		better = arena_printf(a, STR_FMT "=" STR_FMT, STR_ARG(set->name), STR_ARG(set->value));
	else if (mask && parameter_truth(value, &on) && on)
		return;
	else if (mask && parameter_number(mask_now(s, mask, &where), &have) && parameter_number(clear->value, &bits)) {
		bool out = !(have & bits);
		have &= out ? have : ~(bits | never);
		better = arena_printf(a, STR_FMT "=0x%llx", STR_ARG(clear->name), (unsigned long long)have);
		if (out) {
			host_note(s->h, i, "already", better, where);
			return;
		}
	}
	struct command_maker *m = command_begin(a); // numbers, and text of knowledge
	command_add_known(m, better);
	host_note_command(s->h, i, "better", command_end(m), p->source);
}

// --- items ---

static bool driver_writes(const struct know_parameter *p, struct str value)
{
	for (const struct know_list *r = p ? p->reads : NULL; r; r = r->next)
		if (str_is(r->text, "*") || value_same(r->text, value))
			return true;
	return false;
}

/** What /sys shows of a value: of a list the driver may leave only the first. */
static struct str setting_state_shown(const struct settings *s, const struct setting *t)
{
	const struct know_parameter *p = know_parameter(s->h->know, t->name);
	struct str value = t->value;
	return p && p->shows_first ? str_split(&value, ',') : value;
}

/** NULL: not known. */
static const char *setting_state_state_of(struct settings *s, const struct setting *t, struct str near, struct str usual)
{
	struct str now = settings_effective(s, t->name);
	if (near.n)
		return "misspelt";
	if (exists(s, t) == TRUTH_NO)
		return "unknown-name";
	if (!setting_reaches(s, t))
		return "not-in-effect";
	if (!setting_counts(t))
		return "pending";
	if (!t->module.n)
		return "in-effect";
	if (settings_winner(s, t->name) != t)
		return "overridden";
	if (!now.p)
		return NULL;
	if (value_same(setting_state_shown(s, t), now) || value_same(t->value, now))
		return usual.p && value_same(now, usual) ? "default" : "in-effect";
	return driver_writes(know_parameter(s->h->know, t->name), now) ? NULL : "not-in-effect";
}

/** Which kernels have it, in words: `6.8 and newer`. */
static struct str kernels_of(struct arena *a, const struct know_parameter *p)
{
	_cleanup_text_ struct text out = { 0 };
	if (p->since.n && p->until.n)
		text_printf(&out, STR_FMT " and newer, before " STR_FMT, STR_ARG(p->since), STR_ARG(p->until));
	else if (p->since.n)
		text_printf(&out, STR_FMT " and newer", STR_ARG(p->since));
	else if (p->until.n)
		text_printf(&out, "those before " STR_FMT, STR_ARG(p->until));
	const char *before = "of those whose sources were read ";
	for (const struct know_list *v = out.n ? NULL : p->seen; v; v = v->next, before = ", ")
		text_printf(&out, "%s" STR_FMT, before, STR_ARG(v->text));
	return arena_str(a, text_str(&out));
}

static void setting_state_note_parameter(struct settings *s, struct host_item *i, struct str name, struct str value,
					 struct str *ret_usual)
{
	const struct know_parameter *p = know_parameter(s->h->know, name);
	struct str usual = p && s->own_driver ? parameter_default(p, s->kernel) : (struct str){ 0 };
	*ret_usual = usual;
	if (!p)
		return;
	host_note(s->h, i, "default", usual, p->source);
	host_note(s->h, i, "meaning", p->meaning, p->source);
	host_note(s->h, i, "meant", p->instead, p->source);
	uint64_t have, want;
	if (p->bits && parameter_number(value, &have) && parameter_number(usual, &want)) {
		host_note(s->h, i, "bits_on", bit_names(&s->h->arena, p, have & ~want), p->head.id);
		host_note(s->h, i, "bits_off", bit_names(&s->h->arena, p, want & ~have), p->head.id);
	}
	note_instead(s, i, p, value);
	host_note(s->h, i, "kernels", kernels_of(&s->h->arena, p), p->source);
}

void setting_note(struct settings *s, const struct setting *t)
{
	struct host *h = s->h;
	struct host_item *i = host_add(h, "setting", NULL);
	struct str usual;
	const struct setting *winner = settings_winner(s, t->name);
	host_note(h, i, "name", t->name, t->where);
	host_note(h, i, "value", t->value, t->where);
	// Notes `word`, NAME=VALUE as the kernel takes it, for steps.
	struct command_maker *m = command_begin(&s->h->arena);
	setting_state_add_assignment(m, S(""),
				     arena_printf(&s->h->arena, STR_FMT "=" STR_FMT, STR_ARG(t->name), STR_ARG(t->value)));
	host_note_command(s->h, i, "word", command_end(m), t->where);
	host_note(h, i, "place", str_z(t->place), t->where);
	host_note(h, i, "from", t->from, t->from);
	setting_note_change(s, i, t);
	if (!setting_reaches(s, t))
		host_note(h, i, "unread", t->unread ? S("file") : S("built-in"), t->where);
	setting_state_note_parameter(s, i, t->name, t->value, &usual);
	struct str near = exists(s, t) == TRUTH_YES ? S("") : setting_state_near_name(s, t);
	const char *state = setting_state_state_of(s, t, near, usual);
	if (state)
		host_note(h, i, "state", str_z(state), t->where);
	// What it should have been, as it is written there.
	const struct host_fact *better = host_fact(s->h, i, S("better"), 0);
	struct arena *a = &s->h->arena;
	if (near.n) {
		struct str rest = near, module = str_split(&rest, '.');
		host_note(s->h, i, "near", near,
			  arena_printf(a, "/sys/module/" STR_FMT "/parameters/" STR_FMT, STR_ARG(module), STR_ARG(rest)));
		setting_note_write(s, i, t, arena_printf(a, STR_FMT "=" STR_FMT, STR_ARG(near), STR_ARG(t->value)));
	} else if (better && str_find(better->value, S(" ")) < 0) {
		setting_note_write(s, i, t, better->value);
	}
	struct str now = settings_effective(s, t->name), path = t->where;
	if (t->module.n) {
		path = arena_printf(&s->h->arena, "/sys/module/" STR_FMT "/parameters/" STR_FMT, STR_ARG(t->module),
				    STR_ARG(bare(t)));
		host_note(s->h, i, "sysfs", path, path);
		host_note(s->h, i, "shown", setting_state_shown(s, t), path);
	}
	host_note(s->h, i, "effective", now.n || t->module.n ? now : t->value, path);
	if (winner && winner != t && setting_counts(t))
		host_note(h, i, "by", winner->where, winner->where);
}

void settings_note_unset(struct settings *s)
{
	for (size_t m = 0; m < MODULES && s->own_driver; m++) {
		const struct module *module = &s->modules[m];
		for (size_t n = 0; n < module->n; n++) {
			struct arena *a = &s->h->arena;
			struct str name = arena_printf(a, "%s." STR_FMT, module->name, STR_ARG(module->parameters[n]));
			struct str now = module->values[n];
			const struct know_parameter *p = know_parameter(s->h->know, name);
			struct str usual = p ? parameter_default(p, s->kernel) : (struct str){ 0 };
			if (!now.p || !usual.p || value_same(now, usual) || driver_writes(p, now) || settings_winner(s, name))
				continue;
			struct host_item *i = host_add(s->h, "setting", NULL);
			struct str where = arena_printf(a, "/sys/module/%s/parameters/" STR_FMT, module->name,
							STR_ARG(module->parameters[n]));
			host_note(s->h, i, "name", name, where);
			host_note(s->h, i, "place", S("sysfs"), where);
			host_note(s->h, i, "state", S("unset-but-effective"), where);
			host_note(s->h, i, "effective", now, where);
			setting_note_activate(s, i, "sysfs", where);
			setting_state_note_parameter(s, i, name, now, &usual);
		}
	}
}
