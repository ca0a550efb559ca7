// How a setting is taken out of the place where it stands, and what makes that active: by the place and by the boot loader's layout.
#include "host/settings/setting.h"
#include "knowledge/parameter.h"

// --- boot loaders whose command line is changed by a command ---

static const struct {
	const char *loader, *remove, *add;
} commands[] = {
	{ "rpm-ostree", "sudo rpm-ostree kargs --delete=", "sudo rpm-ostree kargs --append=" },
	{ "grubby", "sudo grubby --update-kernel=ALL --remove-args=", "sudo grubby --update-kernel=ALL --args=" },
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

/** Distributions of the kind that rpm-ostree keeps, for a tree in which the program itself was not recorded. */
static const char *const ostree_distributions[] = { "fedora", "bazzite", "bluefin", "aurora" };

static struct str loader_of(const struct settings *s)
{
	const struct host_fact *f = host_fact(s->h, NULL, S("boot_loader"), 0);
	if (!f || !str_is(f->value, "unknown") || str_find(f->where, S("ostree")) < 0)
		return f ? f->value : (struct str){ 0 };
	for (size_t i = 0; i < sizeof(ostree_distributions) / sizeof(ostree_distributions[0]); i++)
		if (str_is(host_value(s->h, NULL, "distribution"), ostree_distributions[i]))
			return S("rpm-ostree");
	return f->value;
}

/** Of COMMANDS: none. */
static size_t loader_command(const struct settings *s, const char *place, struct str word)
{
	struct str loader = loader_of(s);
	size_t i = strcmp(place, "modprobe") && piece_plain(PIECE_PARAMETER, word) ? 0 : COMMANDS;
	while (i < COMMANDS && !str_is(loader, commands[i].loader))
		i++;
	return i;
}

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
static void add_word(struct command_maker *m, const struct setting *t)
{
	if (piece_plain(PIECE_PARAMETER, t->word))
		command_add_value(m, PIECE_PARAMETER, t->word);
	else if (piece_plain(PIECE_NAME, t->name))
		command_add_value(m, PIECE_NAME, t->name);
	else
		command_add(m, "this setting");
}

static const struct command *remove_of(const struct settings *s, const struct setting *t)
{
	struct arena *a = &s->h->arena;
	size_t command = loader_command(s, t->place, t->word);
	if (command < COMMANDS)
		return command_of(a, str_z(commands[command].remove), PIECE_PARAMETER, t->word);
	struct command_maker *m = command_begin(a);
	command_add(m, "Remove ");
	add_word(m, t);
	command_add(m, " from ");
	command_add_command(m, setting_written_step(s, t));
	if (!strcmp(t->place, "modprobe"))
		command_add(m, ", the whole line if it sets nothing else");
	return command_end(m);
}

/** `sudo update-grub, then reboot` */
static const struct command *then_reboot(const struct settings *s, const struct command *update)
{
	struct command_maker *m = command_begin(&s->h->arena);
	command_add(m, "sudo ");
	command_add_command(m, update);
	command_add(m, ", then reboot");
	return command_end(m);
}

static const struct command *machine_command(const struct settings *s, const char *name)
{
	const struct host_fact *f = host_fact(s->h, NULL, str_z(name), 0);
	return f ? f->command : NULL;
}

static const struct command *after_initramfs(const struct settings *s)
{
	const struct command *update = machine_command(s, "initramfs_update");
	if (str_is(loader_of(s), "rpm-ostree"))
		return COMMAND(&s->h->arena, "Reboot");
	return update ? then_reboot(s, update) :
			COMMAND(&s->h->arena, "Rebuild the initramfs (Debian, Ubuntu: sudo update-initramfs -u; Fedora: sudo "
					      "dracut -f; Arch: sudo mkinitcpio -P), then reboot");
}

static const struct command *after_grub(const struct settings *s)
{
	const struct command *update = machine_command(s, "boot_update");
	return update ? then_reboot(s, update) :
			COMMAND(&s->h->arena, "Rebuild GRUB's configuration (Debian, Ubuntu: sudo update-grub; Fedora: sudo "
					      "grub2-mkconfig -o /boot/grub2/grub.cfg; Arch: sudo grub-mkconfig -o "
					      "/boot/grub/grub.cfg), then reboot");
}

static const struct command *activate_of(const struct settings *s, const struct setting *t)
{
	struct arena *a = &s->h->arena;
	const char *place = t->from.n ? t->from_place : t->place;
	if (loader_command(s, place, t->word) < COMMANDS)
		return COMMAND(a, "Reboot");
	if (!strcmp(place, "modprobe") || !strcmp(place, "sysfs"))
		return after_initramfs(s);
	if (!strcmp(place, "grub") || (!strcmp(place, "cmdline") && str_starts(loader_of(s), S("grub"))))
		return after_grub(s);
	if (!strcmp(place, "kernel-cmdline"))
		return str_starts(host_value(s->h, NULL, "initramfs_update"), S("mkinitcpio")) ?
			       COMMAND(a, "sudo mkinitcpio -P, then reboot") :
			       COMMAND(a, "sudo kernel-install add-all, then reboot");
	if (!strcmp(place, "loader-entry"))
		return COMMAND(a, "Reboot");
	return COMMAND(a, "Rebuild the boot loader's configuration if it needs that, then reboot");
}

void setting_note_change(struct settings *s, struct host_item *i, const struct setting *t)
{
	host_note_command(s->h, i, "written", setting_written_step(s, t), t->where);
	host_note_command(s->h, i, "remove", remove_of(s, t), t->where);
	host_note_command(s->h, i, "activate", activate_of(s, t), t->where);
}

void setting_note_machine_change(struct settings *s, const struct setting *t)
{
	struct arena *a = &s->h->arena;
	struct host_item *m = host_machine(s->h);
	host_note_command(s->h, m, arena_z(a, arena_printf(a, "remove." STR_FMT, STR_ARG(t->name))), remove_of(s, t), t->where);
	host_note_command(s->h, m, arena_z(a, arena_printf(a, "activate." STR_FMT, STR_ARG(t->name))), activate_of(s, t),
			  t->where);
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

void setting_note_write(struct settings *s, struct host_item *i, const struct setting *t, struct str word)
{
	struct arena *a = &s->h->arena;
	struct str rest = word, name = str_split(&rest, '=');
	const struct setting *there = settings_winner(s, name);
	there = there ? there : t;
	size_t command = loader_command(s, there->place, word);
	rest = word;
	struct str module = str_split(&rest, '.');
	struct command_maker *m = command_begin(a);
	if (command < COMMANDS) {
		command_add_text(m, str_z(commands[command].add));
		command_add_value(m, PIECE_PARAMETER, word);
	} else {
		command_add(m, "Write ");
		add_assignment(m, !strcmp(there->place, "modprobe") && settings_module(s, module) ? module : S(""), word);
		command_add(m, " in ");
		command_add_command(m, setting_written_step(s, there));
	}
	host_note_command(s->h, i, "write", command_end(m), there->where);
}

void settings_note_adding(struct settings *s)
{
	struct str loader = loader_of(s);
	const struct host_fact *f = host_fact(s->h, NULL, S("boot_loader"), 0);
	struct str where = f ? f->where : S(""); // a note moves the machine's facts
	struct host_item *m = host_machine(s->h);
	for (size_t i = 0; i < COMMANDS; i++)
		if (str_is(loader, commands[i].loader))
			host_note_command(s->h, m, "add_with", command_literal(&s->h->arena, str_z(commands[i].add)), where);
	if (str_is(loader, "grub") || str_is(loader, "grub-d"))
		host_note_command(s->h, m, "add_grub", machine_command(s, "boot_update"), where);
}
