// Parameters of the kernel and of the GPU's modules: where they are set (boot loaders, modprobe.d), which of them exist (modinfo), and
// what is in effect. Whoever sets a parameter twice gets the last one, and a file that nothing reads sets nothing: both are told.
#pragma once

#include "base/arena.h"
#include "host/host.h"

// What boot loaders will put on the kernel's command line, from their configuration. Nothing is executed.
struct placed_words {
	struct placed_word *data;
	size_t len, cap;
};

/** /etc/default/grub, then the files in grub.d. They are shell files; only assignments to two variables are understood. */
struct grub {
	struct placed_words all, normal; // GRUB_CMDLINE_LINUX, GRUB_CMDLINE_LINUX_DEFAULT
};
void grub_read(struct arena *a, struct str text, const char *path, struct grub *g);
void grub_free(struct grub *g);

/** /etc/kernel/cmdline. */
void kernel_cmdline_read(struct arena *a, struct str text, const char *path, struct placed_words *ret);

/** An entry of the Boot Loader Specification. Adds the words of its options. */
struct loader_entry {
	struct str version, title;
	struct placed_words words;
};
void loader_entry_read(struct arena *a, struct str text, const char *path, struct loader_entry *ret);

// What a kernel module says of itself: the section .modinfo of its file, `key=value` with a zero behind each.
struct modinfo {
	struct str version, vermagic; // version: of modules that are not the kernel's own
	struct str *parameters;
	size_t n;
};

void modinfo_read(struct arena *a, struct str section, struct modinfo *ret);
bool modinfo_has(const struct modinfo *m, struct str parameter);

// modprobe.d: what it says of modules, read as libkmod reads it.
//
// What kmod 30 does, tried with `modprobe --show-depends` (tests/doctor_settings.py tries it again): files are read in the order of their
// names over all directories, and a name in an earlier directory hides the same name in a later one; only names that end in .conf count.
// Options of all lines for a module are put behind one another, then those of the kernel's command line, also from behind `--`; the
// kernel takes the last of several. So the command line wins over every file. A `#` begins a comment only as the first character of a
// line; behind an option it is an option. A backslash joins lines and is dropped before any other character.
enum modprobe_kind { MODPROBE_OPTIONS, MODPROBE_BLACKLIST, MODPROBE_INSTALL, MODPROBE_OTHER };

struct modprobe_line {
	enum modprobe_kind kind;
	struct str directive; // the first word
	struct str module;    // - is _
	struct str rest;      // options; or the command
	unsigned line;        // where it begins
};

/** Takes lines off @text until one has a directive and a module; MODPROBE_OTHER is any other directive. @line counts them. false at the end. */
bool modprobe_next(struct arena *a, struct str *text, unsigned *line, struct modprobe_line *ret);

struct modprobe_file {
	struct str name;
	const char *directory;
};

/** The directories. The first one wins. */
extern const char *const modprobe_directories[];
enum { MODPROBE_DIRECTORIES = 5 };

/** Orders @files, which come directory by directory, and drops those that are hidden or do not count. How many are left. */
size_t modprobe_order(struct modprobe_file *files, size_t n);

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

/** The same as part of a step. */
const struct command *setting_written_step(const struct settings *s, const struct setting *t);
/** Notes `written`, `remove`, `activate` and `restore`: how to take it out, what makes that active, how to put it back. */
void setting_note_change(struct settings *s, struct host_item *i, const struct setting *t);
/** The same for the setting that decides, as facts of the machine: `remove.NAME`, `activate.NAME`, `restore.NAME`. */
void setting_note_machine_change(struct settings *s, const struct setting *t);
/** Notes `activate` alone, for something at such a place. */
void setting_note_activate(struct settings *s, struct host_item *i, const char *place, struct str where);
/** Notes `write`, a step: how @word, `amdgpu.name=value`, is set, instead of @t or where its parameter is set already. */
void setting_note_write(struct settings *s, struct host_item *i, const struct setting *t, struct str word);
