// Parameters of the kernel and of modules: collects what is set where (modprobe.d as libkmod reads it), what modules know (.modinfo),
// and what is in effect.
#include <stdlib.h>

#include "host/settings/setting.h"
#include "host/host.h"

const char *const modprobe_directories[MODPROBE_DIRECTORIES] = {
	"/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d",
};

/** A line with those that a backslash joins to it. */
static struct str settings_take_line(struct arena *a, struct str *text, unsigned *line)
{
	struct str raw = str_split(text, '\n');
	++*line;
	if (!raw.n || !memchr(raw.p, '\\', raw.n))
		return raw;
	_cleanup_text_ struct text joined = { 0 };
	for (;;) {
		bool open = false;
		for (size_t i = 0; i < raw.n; i++) {
			open = raw.p[i] == '\\' && i + 1 == raw.n;
			i += raw.p[i] == '\\' && !open;
			if (!open)
				text_add(&joined, str_cut(str_from(raw, i), 1));
		}
		if (!open || !text->n)
			break;
		raw = str_split(text, '\n');
		++*line;
	}
	return arena_str(a, text_str(&joined));
}

bool modprobe_next(struct arena *a, struct str *text, unsigned *line, struct modprobe_line *ret)
{
	static const char *const kinds[] = { "options", "blacklist", "install" };
	while (text->n) {
		unsigned begins = *line + 1;
		struct str rest = settings_take_line(a, text, line), word = str_word(&rest);
		struct str module = str_word(&rest);
		size_t k = 0;
		while (k < ARRAY_SIZE(kinds) && !str_is(word, kinds[k]))
			k++;
		*ret = (struct modprobe_line){ (enum modprobe_kind)k, word, word_plain(a, module), rest, begins };
		if (module.n && word.p[0] != '#')
			return true;
	}
	return false;
}

static int settings_by_name(const void *a, const void *b)
{
	return str_cmp(((const struct modprobe_file *)a)->name, ((const struct modprobe_file *)b)->name);
}

size_t modprobe_order(struct modprobe_file *files, size_t n)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++)
		if (str_ends(files[i].name, S(".conf")) && !list_find(files, kept, it, str_eq(it->name, files[i].name)))
			files[kept++] = files[i];
	if (kept)
		qsort(files, kept, sizeof(files[0]), settings_by_name);
	return kept;
}

// --- what a module says of itself ---

enum { MODINFO_MOST = 1024 };

bool modinfo_has(const struct modinfo *m, struct str parameter)
{
	return list_find(m->parameters, m->n, it, str_eq(*it, parameter)) != NULL;
}

void modinfo_read(struct arena *a, struct str section, struct modinfo *ret)
{
	*ret = (struct modinfo){ .parameters = arena_alloc(a, MODINFO_MOST * sizeof(struct str)) };
	str_each (value, section, '\0') {
		struct str key = str_split(&value, '=');
		if (str_is(key, "version")) {
			ret->version = value;
		} else if (str_is(key, "vermagic")) {
			ret->vermagic = value;
		} else if (str_is(key, "parm") || str_is(key, "parmtype")) {
			struct str name = str_split(&value, ':');
			if (name.n && ret->n < MODINFO_MOST && !modinfo_has(ret, name))
				ret->parameters[ret->n++] = name;
		}
	}
}

// --- all of it together ---

enum {
	FILE_MOST = 1 << 16,
	LIST_MOST = 1 << 16,
	FILES_MOST = 256,
	ENTRIES_MOST = 64,
	PARAMETERS_MOST = 512,
	SECTION_MOST = 1 << 20
};

static const char *const entry_directories[] = { "/boot/loader/entries", "/boot/efi/loader/entries", "/efi/loader/entries" };
enum { ENTRY_DIRECTORIES = 3 };

// --- files ---

/** What is read in one child: where it goes to depends on its kind. */
struct settings_reading {
	struct probe *probes;
	struct modprobe_file *files;
	size_t nfiles, nunread; // modprobe.d, then those that it does not read
	size_t nparameters;
	size_t ngrub; // /etc/default/grub, grub.d
	size_t nentries;
	size_t n;
};

static const char *path_in(struct settings *s, const char *directory, struct str name)
{
	return arena_z(&s->h->arena, arena_printf(&s->h->arena, "%s/" STR_FMT, directory, STR_ARG(name)));
}

static void settings_ask(struct settings_reading *r, const char *path, size_t size)
{
	r->probes[r->n++] = (struct probe){ .path = path, .size = size };
}

static int by_text(const void *a, const void *b) { return str_cmp(*(const struct str *)a, *(const struct str *)b); }

/** The names in a directory that end so, ordered. */
static size_t names_of(struct settings *s, const struct probe *list, struct str ending, size_t most, struct str **ret)
{
	struct str text = probe_text(list);
	size_t n = 0;
	*ret = arena_alloc(&s->h->arena, most * sizeof(struct str));
	while (text.n && n < most) {
		struct str name = str_split(&text, '\n');
		if (str_ends(name, ending))
			(*ret)[n++] = name;
	}
	if (n)
		qsort(*ret, n, sizeof(struct str), by_text);
	return n;
}

static void ask_parameters(struct settings *s, struct settings_reading *r, const struct probe *lists)
{
	struct arena *a = &s->h->arena;
	for (size_t m = 0; m < MODULES; m++) {
		struct module *module = &s->modules[m];
		module->listed = lists[m].end == PROBE_GOOD;
		module->n = names_of(s, &lists[m], S(""), PARAMETERS_MOST, &module->parameters);
		module->values = arena_alloc(a, (module->n + 1) * sizeof(struct str));
		for (size_t i = 0; i < module->n; i++)
			settings_ask(r, path_in(s, lists[m].path, module->parameters[i]), 0);
		r->nparameters += module->n;
	}
}

/** All files of all places in one list, because each child costs more than many files. */
static void ask_all(struct settings *s, struct settings_reading *r)
{
	enum { GRUB_D = MODPROBE_DIRECTORIES + MODULES, ENTRIES, LISTS = ENTRIES + ENTRY_DIRECTORIES };
	struct probe lists[LISTS] = { [GRUB_D] = { .path = "/etc/default/grub.d" } };
	for (size_t i = 0; i < MODPROBE_DIRECTORIES; i++)
		lists[i].path = modprobe_directories[i];
	for (size_t i = 0; i < MODULES; i++)
		lists[MODPROBE_DIRECTORIES + i].path =
			arena_z(&s->h->arena, arena_printf(&s->h->arena, "/sys/module/%s/parameters", settings_modules[i]));
	for (size_t i = 0; i < ENTRY_DIRECTORIES; i++)
		lists[ENTRIES + i].path = entry_directories[i];
	for (size_t i = 0; i < LISTS; i++) {
		lists[i].kind = PROBE_LIST;
		lists[i].size = LIST_MOST;
	}
	host_probe(s->h, lists, LISTS);
	size_t most =
		FILES_MOST + ENTRIES_MOST + (size_t)MODULES * PARAMETERS_MOST + (1 + ENTRY_DIRECTORIES) * ENTRIES_MOST + 2;
	r->probes = arena_alloc(&s->h->arena, most * sizeof(*r->probes));
	// A file for modprobe whose name has no ending at all is one that somebody forgot.
	size_t n = 0;
	struct str *names;
	r->files = arena_alloc(&s->h->arena, (size_t)MODPROBE_DIRECTORIES * FILES_MOST * sizeof(*r->files));
	for (size_t d = 0; d < MODPROBE_DIRECTORIES; d++)
		for (size_t i = 0, have = names_of(s, &lists[d], S(""), FILES_MOST, &names); i < have; i++)
			r->files[n++] = (struct modprobe_file){ names[i], modprobe_directories[d] };
	r->nfiles = modprobe_order(r->files, n);
	r->nfiles = r->nfiles < FILES_MOST ? r->nfiles : FILES_MOST;
	for (size_t i = 0; i < r->nfiles; i++)
		settings_ask(r, path_in(s, r->files[i].directory, r->files[i].name), FILE_MOST);
	for (size_t i = 0, have = names_of(s, &lists[0], S(""), FILES_MOST, &names); i < have; i++) {
		if (memchr(names[i].p, '.', names[i].n) || r->nunread == ENTRIES_MOST)
			continue;
		settings_ask(r, path_in(s, modprobe_directories[0], names[i]), FILE_MOST);
		r->nunread++;
	}
	ask_parameters(s, r, lists + MODPROBE_DIRECTORIES);
	const struct probe *grub_d = &lists[GRUB_D];
	const struct probe *entries = &lists[ENTRIES];
	settings_ask(r, "/etc/default/grub", FILE_MOST);
	for (size_t i = 0, have = names_of(s, grub_d, S(".cfg"), ENTRIES_MOST, &names); i < have; i++)
		settings_ask(r, path_in(s, grub_d->path, names[i]), FILE_MOST);
	r->ngrub = r->n - r->nfiles - r->nunread - r->nparameters;
	settings_ask(r, "/etc/kernel/cmdline", FILE_MOST);
	for (size_t d = 0; d < ENTRY_DIRECTORIES; d++)
		for (size_t i = 0, have = names_of(s, &entries[d], S(".conf"), ENTRIES_MOST, &names); i < have;
		     i++, r->nentries++)
			settings_ask(r, path_in(s, entries[d].path, names[i]), FILE_MOST);
	host_probe(s->h, r->probes, r->n);
}

// --- what they say ---

static void take_values(struct settings *s, const struct probe *p)
{
	for (size_t m = 0; m < MODULES; m++)
		for (size_t i = 0; i < s->modules[m].n; i++, p++)
			if (p->end == PROBE_GOOD)
				s->modules[m].values[i] = p->n ? probe_text(p) : S("");
}

/** Entries of the running kernel; where none says that it is one, all but those for rescue. */
static bool entry_counts(const struct settings *s, const struct loader_entry *e, const char *path, bool some_run)
{
	if (some_run)
		return str_eq(e->version, s->kernel);
	return str_find(str_z(path), S("rescue")) < 0 && str_find(e->title, S("rescue")) < 0 &&
	       str_find(e->title, S("ecovery")) < 0;
}

static void settings_take_entries(struct settings *s, const struct probe *p, size_t n)
{
	struct loader_entry *entries = arena_alloc(&s->h->arena, (n + 1) * sizeof(*entries));
	bool some_run = false;
	for (size_t i = 0; i < n; i++) {
		loader_entry_read(&s->h->arena, probe_text(&p[i]), p[i].path, &entries[i]);
		some_run |= s->kernel.n && str_eq(entries[i].version, s->kernel);
	}
	for (size_t i = 0; i < n; i++) {
		if (entry_counts(s, &entries[i], p[i].path, some_run))
			settings_add_boot(s, &entries[i].words, "loader-entry");
		vec_free(&entries[i].words);
	}
}

/** In the order in which the kernel and modprobe apply them, so that the last one of a name is in effect. */
static void settings_take_all(struct settings *s, const struct settings_reading *r)
{
	struct arena *a = &s->h->arena;
	const struct probe *p = r->probes;
	_cleanup_vec_ struct placed_words words = { 0 };
	struct grub grub = { 0 };
	for (size_t i = 0; i < r->nfiles + r->nunread; i++, p++)
		settings_add_modprobe(s, probe_text(p), p->path, i >= r->nfiles);
	settings_add_cmdline(s);
	take_values(s, p);
	p += r->nparameters;
	for (size_t i = 0; i < r->ngrub; i++, p++)
		grub_read(a, probe_text(p), p->path, &grub);
	settings_add_boot(s, &grub.all, "grub");
	settings_add_boot(s, &grub.normal, "grub");
	grub_free(&grub);
	kernel_cmdline_read(a, probe_text(p), p->path, &words);
	settings_add_boot(s, &words, "kernel-cmdline");
	settings_take_entries(s, p + 1, r->nentries);
}

void host_read_settings(struct host *h)
{
	struct settings s = { .h = h, .kernel = h->devices.kernel };
	struct settings_reading r = { 0 };
	for (size_t i = 0; i < MODULES; i++)
		s.modules[i].name = settings_modules[i];
	const struct str kind = host_value(h, NULL, "driver_kind"), running = host_value(h, NULL, "driver_running");
	s.built_in = str_is(kind, "built-in");
	s.own_driver = !str_is(running, "dkms") && (str_is(running, "in-tree") || !str_is(kind, "dkms"));
	ask_all(&s, &r);
	settings_take_all(&s, &r);
	// Asks the module's file, which takes long where it is compressed, only where nothing else can tell.
	const struct host_fact *file = host_fact(s.h, NULL, S("driver_file"), 0);
	bool want = false;
	for (size_t i = 0; i < s.list.len; i++)
		want |= setting_wants_modinfo(&s, &s.list.data[i]);
	if (want && file) {
		struct probe p = { .kind = PROBE_SECTION,
				   .path = arena_z(&s.h->arena, file->value),
				   .find = S(".modinfo"),
				   .size = SECTION_MOST };
		host_probe(s.h, &p, 1);
		s.has_modinfo = p.end == PROBE_GOOD && p.n && p.n < SECTION_MOST;
		if (s.has_modinfo)
			modinfo_read(&s.h->arena, (struct str){ p.data, p.n }, &s.modinfo);
	}
	struct host_item *m = host_machine(s.h);
	struct arena *a = &s.h->arena;
	for (size_t n = 0; n < MODULES; n++) {
		const struct module *module = &s.modules[n];
		for (size_t i = 0; i < module->n; i++)
			host_note(
				s.h, m,
				arena_z(a, arena_printf(a, "param.%s." STR_FMT, module->name, STR_ARG(module->parameters[i]))),
				module->values[i],
				arena_printf(a, "/sys/module/%s/parameters/" STR_FMT, module->name,
					     STR_ARG(module->parameters[i])));
	}
	for (size_t i = 0; i < s.list.len; i++) {
		const struct setting *t = &s.list.data[i];
		if (settings_winner(&s, t->name) != t)
			continue;
		host_note(s.h, m, arena_z(a, arena_printf(a, "set." STR_FMT, STR_ARG(t->name))), t->value, t->where);
		setting_note_machine_change(&s, t);
		if (!settings_effective(&s, t->name).p &&
		    (!t->module.n || !settings_module(&s, t->module) || !settings_module(&s, t->module)->listed))
			host_note(s.h, m, arena_z(a, arena_printf(a, "param." STR_FMT, STR_ARG(t->name))), t->value, t->where);
	}
	for (size_t i = 0; i < s.list.len; i++)
		setting_note(&s, &s.list.data[i]);
	settings_note_unset(&s);
	vec_free(&s.list);
}
