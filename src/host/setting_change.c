// How a setting is taken out of the place where it stands, and what makes that active: by the place and by the boot loader's layout.
#include "host/setting.h"
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

/** Whether a shell takes it as it stands. */
static bool harmless(struct str word)
{
	for (size_t i = 0; i < word.n; i++)
		if (!char_word(word.p[i]) && !strchr(".,:=+-/", word.p[i]))
			return false;
	return word.n;
}

/** Of COMMANDS: none. */
static size_t command_of(const struct settings *s, const char *place, struct str word)
{
	struct str loader = loader_of(s);
	size_t i = strcmp(place, "modprobe") && harmless(word) ? 0 : COMMANDS;
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

static struct str remove_of(const struct settings *s, const struct setting *t)
{
	struct arena *a = &s->h->arena;
	size_t command = command_of(s, t->place, t->word);
	if (command < COMMANDS)
		return arena_printf(a, "%s" STR_FMT, commands[command].remove, STR_ARG(t->word));
	return arena_printf(a, "Take " STR_FMT " out of " STR_FMT "%s", STR_ARG(t->word), STR_ARG(setting_written(t)),
			    strcmp(t->place, "modprobe") ? "" : ", the whole line if it sets nothing else");
}

static struct str after_initramfs(const struct settings *s)
{
	struct str update = host_value(s->h, NULL, "initramfs_update");
	if (str_is(loader_of(s), "rpm-ostree"))
		return S("Reboot");
	return update.n ? arena_printf(&s->h->arena, "sudo " STR_FMT ", then reboot", STR_ARG(update)) :
			  S("Build the initramfs again (Debian, Ubuntu: sudo update-initramfs -u; Fedora: sudo dracut -f; "
			    "Arch: sudo mkinitcpio -P), then reboot");
}

static struct str after_grub(const struct settings *s)
{
	struct str update = host_value(s->h, NULL, "boot_update");
	return update.n ? arena_printf(&s->h->arena, "sudo " STR_FMT ", then reboot", STR_ARG(update)) :
			  S("Make GRUB's configuration anew (Debian, Ubuntu: sudo update-grub; Fedora: sudo grub2-mkconfig -o "
			    "/boot/grub2/grub.cfg; Arch: sudo grub-mkconfig -o /boot/grub/grub.cfg), then reboot");
}

static struct str activate_of(const struct settings *s, const struct setting *t)
{
	const char *place = t->from.n ? t->from_place : t->place;
	if (command_of(s, place, t->word) < COMMANDS)
		return S("Reboot");
	if (!strcmp(place, "modprobe") || !strcmp(place, "sysfs"))
		return after_initramfs(s);
	if (!strcmp(place, "grub") || (!strcmp(place, "cmdline") && str_starts(loader_of(s), S("grub"))))
		return after_grub(s);
	if (!strcmp(place, "kernel-cmdline"))
		return str_starts(host_value(s->h, NULL, "initramfs_update"), S("mkinitcpio")) ?
			       S("sudo mkinitcpio -P, then reboot") :
			       S("sudo kernel-install add-all, then reboot");
	if (!strcmp(place, "loader-entry"))
		return S("Reboot");
	return S("Make the boot loader's configuration anew where it has to be, then reboot");
}

void setting_note_change(struct settings *s, struct host_item *i, const struct setting *t)
{
	host_note(s->h, i, "written", setting_written(t), t->where);
	host_note(s->h, i, "remove", remove_of(s, t), t->where);
	host_note(s->h, i, "activate", activate_of(s, t), t->where);
}

void setting_note_machine_change(struct settings *s, const struct setting *t)
{
	struct arena *a = &s->h->arena;
	struct host_item *m = host_machine(s->h);
	host_note(s->h, m, arena_z(a, arena_printf(a, "remove." STR_FMT, STR_ARG(t->name))), remove_of(s, t), t->where);
	host_note(s->h, m, arena_z(a, arena_printf(a, "activate." STR_FMT, STR_ARG(t->name))), activate_of(s, t), t->where);
}

void setting_note_activate(struct settings *s, struct host_item *i, const char *place, struct str where)
{
	host_note(s->h, i, "activate", activate_of(s, &(struct setting){ .place = place, .where = where }), where);
}

void setting_note_write(struct settings *s, struct host_item *i, const struct setting *t, struct str word)
{
	struct arena *a = &s->h->arena;
	struct str rest = word, name = str_split(&rest, '=');
	const struct setting *there = settings_winner(s, name);
	there = there ? there : t;
	size_t command = command_of(s, there->place, word);
	rest = word;
	struct str module = str_split(&rest, '.');
	if (!strcmp(there->place, "modprobe") && settings_module(s, module))
		word = arena_printf(a, "options " STR_FMT " " STR_FMT, STR_ARG(module), STR_ARG(rest));
	host_note(s->h, i, "write",
		  command < COMMANDS ?
			  arena_printf(a, "%s" STR_FMT, commands[command].add, STR_ARG(word)) :
			  arena_printf(a, "Write " STR_FMT " in " STR_FMT, STR_ARG(word), STR_ARG(setting_written(there))),
		  there->where);
}

void settings_note_adding(struct settings *s)
{
	struct str loader = loader_of(s), update = host_value(s->h, NULL, "boot_update");
	const struct host_fact *f = host_fact(s->h, NULL, S("boot_loader"), 0);
	struct str where = f ? f->where : S(""); // a note moves the machine's facts
	struct host_item *m = host_machine(s->h);
	for (size_t i = 0; i < COMMANDS; i++)
		if (str_is(loader, commands[i].loader))
			host_note(s->h, m, "add_with", str_z(commands[i].add), where);
	if (str_is(loader, "grub") || str_is(loader, "grub-d"))
		host_note(s->h, m, "add_grub", update, where);
}
