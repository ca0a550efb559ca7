// Parameters of the kernel and of the GPU's modules: where they are set, and what is in effect.
#pragma once

#include "host/settings/boot_settings.h"
#include "host/host.h"
#include "host/settings/modinfo.h"

struct setting {
	struct str name;   // amdgpu.cwsr_enable, iommu; - is _
	struct str module; // amdgpu; empty: a word for the kernel itself
	struct str value;
	const char *place; // cmdline, modprobe, grub, kernel-cmdline, loader-entry
	struct str where;
	struct str word; // as it stands there
	struct str from; // of one on the command line: the boot loader's file that it came from
	const char *from_place;
	bool unread; // it stands in a file that modprobe does not read
};

struct module {
	const char *name;
	bool listed; // its parameters are known from /sys: it is loaded
	struct str *parameters, *values;
	size_t n;
};

enum { MODULES = 6 };
extern const char *const settings_modules[MODULES];

struct settings {
	struct host *h;
	struct str kernel;
	bool own_driver; // the driver is the kernel's own, which the table is about
	bool built_in;
	struct module modules[MODULES];
	/** In the order in which they are applied: modprobe.d, then the command line, then what boot loaders will say. */
	VEC(struct setting) list;
	size_t kept_out; // lines that keep a module from being loaded
	bool has_modinfo;
	struct modinfo modinfo; // of the amdgpu that would be loaded
};

/** One of the modules that are looked at, or NULL. */
struct module *settings_module(struct settings *s, struct str name);
/** Whether a word counts for the machine now: it stands on the command line or in modprobe.d. */
bool setting_counts(const struct setting *t);
/** Whether it reaches its module at all. From a file that modprobe does not read it does not, nor through modprobe to a built-in driver. */
bool setting_reaches(const struct settings *s, const struct setting *t);
/** The value that /sys shows; no pointer where it does not. */
struct str settings_effective(struct settings *s, struct str name);
/** The setting that decides a module's parameter; NULL: none. */
const struct setting *settings_winner(const struct settings *s, struct str name);

void settings_add_cmdline(struct settings *s);
/** @unread: modprobe does not read this file. */
void settings_add_modprobe(struct settings *s, struct str text, const char *path, bool unread);
/** Adds a boot loader's words. A word that is on the command line already says where that came from; any other is pending. */
void settings_add_boot(struct settings *s, const struct placed_words *words, const char *place);

/** Whether only the module's file can tell if a parameter exists. */
bool setting_wants_modinfo(struct settings *s, const struct setting *t);
/** Adds the item of a setting, with what became of it. */
void setting_note(struct settings *s, const struct setting *t);
/** Adds an item for each parameter that nobody set and that differs from the driver's default. */
void settings_note_unset(struct settings *s);

/** Where it has to be changed: a file and its line, or in words. */
struct str setting_written(const struct setting *t);
/** The same as part of a step. */
const struct command *setting_written_step(const struct settings *s, const struct setting *t);
/** Notes `written`, `remove`, `activate` and `restore`: how to take it out, what makes that active, how to put it back. */
void setting_note_change(struct settings *s, struct host_item *i, const struct setting *t);
/** The same for the setting that decides, as facts of the machine: `remove.NAME`, `activate.NAME`, `restore.NAME`. */
void setting_note_machine_change(struct settings *s, const struct setting *t);
/** Notes `activate` alone, for something at such a place. */
void setting_note_activate(struct settings *s, struct host_item *i, const char *place, struct str where);
/** Notes `word`, NAME=VALUE as the kernel takes it, for steps. */
void setting_note_word(struct settings *s, struct host_item *i, const struct setting *t);
/** Notes `write`, a step: how @word, `amdgpu.name=value`, is set, instead of @t or where its parameter is set already. */
void setting_note_write(struct settings *s, struct host_item *i, const struct setting *t, struct str word);
