// Variables of the environment that change how ROCm or a framework behaves: of this process, of files that set them for everyone, of
// programs that compute. Only those that knowledge names (`variable`) are looked at: nothing else of an environment is kept.
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "host/host.h"
#include "source/tape/tape.h"

enum {
	VARIABLES_MOST = 64,    // in one source
	ENVIRONMENT_FILES = 96, // how many files are read
	ENVIRON_MOST = 1 << 16,
	PROCESSES_MOST = 32,
	VALUE_MOST = 200,
	ITEMS_MOST = 2048, // of all kinds: each is compared with those before it
};

struct variable {
	struct str name, value, where;
};

/** Where variables are set together. */
struct environment_source {
	struct host *h;
	const struct command *from; // for people
	struct host_item *gpu;      // the only GPU that it uses; NULL: any
	bool one;                   // it is for one program: what it sets does not count for the machine
	struct variable list[VARIABLES_MOST];
	size_t n;
};

/** The parts of a list between colons that @pattern fits. */
static struct str kept_parts(struct arena *a, struct str value, struct str pattern)
{
	struct str kept = { 0 };
	str_each (part, value, ':')
		if (str_glob(pattern, part))
			kept = arena_printf(a, STR_FMT "%s" STR_FMT, STR_ARG(kept), kept.n ? ":" : "", STR_ARG(part));
	return kept;
}

/** `A=B`: kept where knowledge names A. */
static void environment_take(struct environment_source *s, struct str entry, struct str where)
{
	struct str value = entry, name = str_split(&value, '=');
	const struct know_row *row = name.n && name.n < entry.n ? know_variable(s->h->know, name) : NULL;
	if (!row || s->n == VARIABLES_MOST)
		return;
	value = str_cut(value, ENVIRON_MOST);
	if (row->value.n && !(value = kept_parts(&s->h->arena, value, row->value)).n)
		return;
	s->list[s->n++] = (struct variable){ name, str_cut(value, VALUE_MOST), where };
}

// Files that set variables: for everyone (/etc/environment, profiles), and for a service (units of systemd).

enum { FILE_MOST = 1 << 14, NAMES_MOST = 1 << 15, DROP_INS_MOST = 16 };

#define UNITS "/etc/systemd/system"

static void environment_ask(struct host *h, struct probe *ret, size_t *n, const char *directory, struct str name)
{
	if (*n < ENVIRONMENT_FILES)
		ret[(*n)++] = (struct probe){ .path = arena_printf(&h->arena, "%s/" STR_FMT, directory, STR_ARG(name)).p,
					      .size = FILE_MOST };
}

static void environment_ask_each(struct host *h, const struct probe *names, struct str end, struct probe *ret, size_t *n)
{
	str_each (name, probe_text(names), '\n')
		if (str_ends(name, end))
			environment_ask(h, ret, n, names->path, name);
}

/** Files that set variables for everyone, and those of services. */
static size_t environment_files(struct host *h, struct probe ret[static ENVIRONMENT_FILES])
{
	struct probe names[] = {
		{ .kind = PROBE_LIST, .path = "/etc/profile.d", .size = NAMES_MOST },
		{ .kind = PROBE_LIST, .path = "/etc/environment.d", .size = NAMES_MOST },
		{ .kind = PROBE_LIST, .path = UNITS, .size = NAMES_MOST },
	};
	size_t n = 0;
	environment_ask(h, ret, &n, "/etc", S("environment"));
	environment_ask(h, ret, &n, "/etc", S("profile"));
	host_probe(h, names, ARRAY_SIZE(names));
	environment_ask_each(h, &names[0], S(".sh"), ret, &n);
	environment_ask_each(h, &names[1], S(".conf"), ret, &n);
	// The drop-ins of services that the administrator changed.
	struct probe lists[DROP_INS_MOST];
	struct str rest = probe_text(&names[2]);
	size_t found = 0;
	while (rest.n && found < DROP_INS_MOST) {
		struct str name = str_split(&rest, '\n');
		if (str_ends(name, S(".service.d")))
			lists[found++] = (struct probe){ .kind = PROBE_LIST,
							 .path = arena_printf(&h->arena, UNITS "/" STR_FMT, STR_ARG(name)).p };
	}
	if (found)
		host_probe(h, lists, found);
	for (size_t i = 0; i < found; i++)
		environment_ask_each(h, &lists[i], S(".conf"), ret, &n);
	environment_ask_each(h, &names[2], S(".service"), ret, &n);
	return n;
}

/** The word at the front, in quotes or not, without them. */
static struct str environment_take_word(struct str *line)
{
	*line = str_trim(*line);
	if (line->n && (line->p[0] == '"' || line->p[0] == '\'')) {
		char quote = line->p[0];
		*line = str_from(*line, 1);
		return str_split(line, quote);
	}
	size_t n = 0;
	while (n < line->n && !char_space(line->p[n]) && line->p[n] != ';')
		n++;
	struct str word = str_cut(*line, n);
	*line = str_from(*line, n);
	return word;
}

/** `A=B`, where the quotes may be around B. */
static void take_setting(struct environment_source *s, struct str line, struct str where)
{
	struct str value = line, name = str_split(&value, '=');
	if (name.n == line.n || !know_variable(s->h->know, name))
		return;
	value = value.n && !char_space(value.p[0]) ? environment_take_word(&value) : (struct str){ 0 };
	environment_take(s, arena_printf(&s->h->arena, STR_FMT "=" STR_FMT, STR_ARG(name), STR_ARG(value)), where);
}

/** `Environment="A=B" C=D`. */
static void take_unit_line(struct environment_source *s, struct str line, struct str where)
{
	struct str rest;
	if (!str_behind(line, S("Environment="), &rest))
		return;
	for (size_t n = rest.n + 1; rest.n && rest.n < n;) {
		n = rest.n;
		take_setting(s, environment_take_word(&rest), where);
	}
}

/** What such a file sets. Nothing is run. */
static void environment_take_file(struct environment_source *s, const struct probe *p)
{
	struct str text = probe_text(p), path = str_z(p->path);
	bool shell = str_starts(path, S("/etc/profile"));
	s->one = str_starts(path, S(UNITS "/"));
	for (size_t number = 1; text.n; number++) {
		struct str line = str_trim(str_split(&text, '\n')), rest = line;
		bool exported = str_starts(line, S("export ")) && str_behind(line, S("export "), &rest);
		struct str where = { 0 };
		if (memchr(line.p, '=', line.n) && (exported || !shell))
			where = arena_printf(&s->h->arena, "%s:%zu", p->path, number);
		if (where.n && s->one)
			take_unit_line(s, line, where);
		else if (where.n)
			take_setting(s, rest, where);
	}
}

// --- what a variable means for the machine and for each GPU ---

// --- what a variable says ---

#define OVERRIDE "HSA_OVERRIDE_GFX_VERSION"

/** 10.3.0 is gfx1030; empty: it is no such version. */
static struct str gfx_of_override(struct host *h, struct str value)
{
	static const int64_t most[] = { 63, 15, 15 };
	int64_t number, version = 0;
	struct str rest = value;
	for (size_t i = 0; i < 3; i++) {
		struct str part = str_split(&rest, '.');
		if (!part.n || !char_digit(part.p[0]) || !str_number(part, &number) || number > most[i])
			return (struct str){ 0 };
		version = 100 * version + number;
	}
	return rest.n || str_ends(value, S(".")) ? (struct str){ 0 } : gfx_of_target(&h->arena, (uint32_t)version);
}

/** The other way round: gfx1030 is 10.3.0; the last two digits are hexadecimal. */
static struct str override_of(struct host *h, struct str gfx)
{
	struct str digits = str_starts(gfx, S("gfx")) ? str_from(gfx, 3) : (struct str){ 0 };
	uint64_t low;
	if (digits.n < 3 || !str_hex(str_from(digits, digits.n - 2), &low))
		return (struct str){ 0 };
	return arena_printf(&h->arena, STR_FMT ".%u.%u", STR_ARG(str_cut(digits, digits.n - 2)), (unsigned)(low >> 4),
			    (unsigned)(low & 15));
}

/** gfx1151 is of 11. */
static struct str generation(struct str gfx) { return str_cut(gfx, gfx.n > 2 ? gfx.n - 2 : 0); }

static const char *fit(const struct know *k, struct str part, struct str code)
{
	if (!code.n)
		return "malformed";
	if (str_eq(part, code))
		return "unneeded";
	if (know_runs(k, part, code))
		return "family";
	return str_eq(generation(part), generation(code)) ? "related" : "wrong";
}

static void read_override(const struct environment_source *s, struct host_item *i, const struct variable *v)
{
	const struct device *d = i->gpu;
	struct str code = gfx_of_override(s->h, v->value);
	if (!d || !d->gfx.n || !v->value.n)
		return;
	host_note(s->h, i, "override_gfx", code, v->where);
	host_note(s->h, i, "override_fits", str_z(fit(s->h->know, d->gfx, code)), v->where);
	host_note(s->h, i, "override_right", override_of(s->h, know_usual_code(s->h->know, d->gfx)), v->where);
	if (d->kfd_node >= 0)
		host_note(s->h, i, "override_alone", arena_printf(&s->h->arena, OVERRIDE "_%lld", (long long)d->kfd_node),
			  v->where);
}

static void read_devices(const struct environment_source *s, struct host_item *i, const struct variable *v)
{
	int64_t highest = -1, number;
	str_each (part, v->value, ',')
		if (str_number(str_trim(part), &number) && number > highest)
			highest = number;
	if (v->value.n && char_digit(v->value.p[0]))
		host_note_number(s->h, i, "highest", highest, v->where);
}

static bool below(struct str path, struct str directory)
{
	return str_starts(path, directory) && (path.n == directory.n || path.p[directory.n] == '/');
}

/** The ROCms that a list of directories leads to. */
static void read_path(const struct environment_source *s, struct host_item *i, const struct variable *v)
{
	str_each (part, v->value, ':') {
		for (size_t n = 0; n < s->h->items.len; n++) {
			const struct host_item *rocm = s->h->items.data[n];
			if (!str_is(rocm->kind, "rocm"))
				continue;
			const struct host_fact *path = host_fact(s->h, rocm, S("path"), 0);
			bool is = path && (below(part, path->value) ||
					   (host_fact(s->h, rocm, S("default"), 0) && below(part, S("/opt/rocm"))));
			const struct host_fact *version = is ? host_fact(s->h, rocm, S("version"), 0) : NULL;
			if (version)
				host_note(s->h, i, "path_rocm", version->value, v->where);
		}
	}
}

static const struct {
	const char *pattern;
	void (*read)(const struct environment_source *s, struct host_item *i, const struct variable *v);
	bool each_gpu;
} meanings[] = {
	{ OVERRIDE, read_override, true },
	{ OVERRIDE "_*", read_override, true },
	{ "*_VISIBLE_DEVICES", read_devices, false },
	{ "GPU_DEVICE_ORDINAL", read_devices, false },
	{ "LD_LIBRARY_PATH", read_path, false },
};
enum { MEANINGS = ARRAY_SIZE(meanings) };

// --- items ---

/** The same setting in several places is one item with several `from`. */
static struct host_item *same_item(const struct host *h, const struct variable *v, const struct host_item *gpu)
{
	return list_find_of(h->items.data, h->items.len, i,
			    str_is(i->kind, "variable") && i->of == gpu && host_says(i, "name", v->name) &&
				    host_says(i, v->value.n ? "value" : "empty", v->value.n ? v->value : S("yes")));
}

static void note_beside(const struct environment_source *s, struct host_item *i, const struct variable *v)
{
	for (size_t n = 0; n < s->n; n++)
		if (!str_eq(s->list[n].name, v->name) && !host_says(i, "beside", s->list[n].name))
			host_note(s->h, i, "beside", s->list[n].name, s->list[n].where);
}

/** The same variable with the same value from several places is one item, which names them all. */
static void add_item(const struct environment_source *s, const struct variable *v, struct host_item *gpu)
{
	if (s->h->items.len >= ITEMS_MOST)
		return;
	struct host_item *i = same_item(s->h, v, gpu);
	if (i) {
		if (!host_says(i, "from", command_str(s->from)) && i->facts.len < VARIABLES_MOST)
			host_note_command(s->h, i, "from", s->from, v->where);
		note_beside(s, i, v);
		return;
	}
	i = host_add(s->h, "variable", gpu);
	host_note(s->h, i, "name", v->name, v->where);
	host_note(s->h, i, "value", v->value, v->where);
	host_note(s->h, i, "empty", v->value.n ? (struct str){ 0 } : S("yes"), v->where);
	host_note_command(s->h, i, "from", s->from, v->where);
	note_beside(s, i, v);
	for (size_t m = 0; m < MEANINGS; m++)
		if (str_glob(str_z(meanings[m].pattern), v->name))
			meanings[m].read(s, i, v);
}

/** An override counts for every GPU, or only for the GPU whose number is in its name. A GPU with its own ignores the general one. */
static bool environment_concerns(const struct environment_source *s, const struct variable *v, const struct device *d)
{
	struct str alone = arena_printf(&s->h->arena, OVERRIDE "_%lld", (long long)d->kfd_node);
	if (str_is(v->name, OVERRIDE))
		return d->kfd_node < 0 || !list_find(s->list, s->n, it, str_eq(it->name, alone));
	return d->kfd_node >= 0 && str_eq(v->name, alone);
}

/** A variable that says something about GPUs is an item for each GPU that it concerns; any other is one. */
static void add_source(const struct environment_source *s)
{
	for (size_t n = 0; n < s->n; n++) {
		const struct variable *v = &s->list[n];
		size_t gpus = 0;
		// What programs that are started from here get.
		const char *name = arena_printf(&s->h->arena, "env." STR_FMT, STR_ARG(v->name)).p;
		if (!s->one && !host_fact(s->h, host_machine(s->h), str_z(name), 0))
			host_note(s->h, host_machine(s->h), name, v->value, v->where);
		const bool each =
			list_find(meanings, MEANINGS, it, it->each_gpu && str_glob(str_z(it->pattern), v->name)) != NULL;
		for (size_t d = 0; each && d < s->h->devices.n; d++) {
			const struct device *device = &s->h->devices.list[d];
			struct host_item *gpu = host_gpu(s->h, device);
			if ((s->gpu && s->gpu != gpu) || !environment_concerns(s, v, device))
				continue;
			add_item(s, v, gpu);
			gpus++;
		}
		if (!gpus)
			add_item(s, v, s->gpu);
	}
}

// --- sources ---

/** A process and the GPU that it uses; NULL where it uses several. */
struct user {
	const struct holder *holder;
	struct host_item *gpu;
};

static size_t computing(const struct host *h, struct user *ret)
{
	size_t n = 0;
	for (size_t d = 0; d < h->devices.n; d++)
		for (size_t i = 0; i < h->devices.list[d].nholders; i++) {
			const struct holder *holder = &h->devices.list[d].holders[i];
			size_t at = 0;
			while (at < n && ret[at].holder->pid != holder->pid)
				at++;
			if (at < n)
				ret[at].gpu = NULL;
			else if (n < PROCESSES_MOST && holder->compute)
				ret[n++] = (struct user){ holder, host_gpu(h, &h->devices.list[d]) };
		}
	return n;
}

/** Environments: of processes, of this shell where it is another machine's, of a container's first process. */
static size_t ask_environs(struct host *h, const struct user *users, size_t n, struct probe *ret)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = (struct probe){
			.path = arena_printf(&h->arena, "/proc/%lld/environ", (long long)users[i].holder->pid).p,
			.size = ENVIRON_MOST
		};
	if (h->root)
		ret[n++] = (struct probe){ .path = "/proc/self/environ", .size = ENVIRON_MOST };
	if (str_is(host_value(h, NULL, "container"), "yes"))
		ret[n++] = (struct probe){ .path = "/proc/1/environ", .size = ENVIRON_MOST };
	return n;
}

/** `python3 (4711)` */
static const struct command *program_of(struct host *h, const struct holder *holder)
{
	struct command_maker *m = command_begin(&h->arena);
	if (piece_plain(PIECE_WORD, holder->name))
		command_add_value(m, PIECE_WORD, holder->name);
	else
		command_add(m, "the process");
	command_add(m, " (");
	command_add_value(m, PIECE_NUMBER, arena_printf(&h->arena, "%lld", (long long)holder->pid));
	command_add(m, ")");
	return command_end(m);
}

/** What was asked for: files, then the environments of programs. */
struct environment_asked {
	const struct probe *files;
	size_t nfiles, n;
	const struct user *users;
	size_t nusers;
};

/** Files that set variables first, then the environments of programs that compute, each as a source of its own. */
static void environment_add_all(struct host *h, struct environment_source *s, const struct environment_asked *all)
{
	const struct probe *files = all->files;
	const size_t nfiles = all->nfiles;
	for (size_t i = 0; i < all->n; i++) {
		const struct user *u = i >= nfiles && i - nfiles < all->nusers ? &all->users[i - nfiles] : NULL;
		*s = (struct environment_source){ .h = h,
						  .from = u ? program_of(h, u->holder) :
							  i < nfiles ?
							      COMMAND_OF(&h->arena, "", PIECE_PATH, str_z(files[i].path)) :
							      COMMAND(&h->arena, "the environment"),
						  .gpu = u ? u->gpu : NULL,
						  .one = u };
		if (i < nfiles) {
			environment_take_file(s, &files[i]);
		} else {
			// A process's environment: entries end in a NUL. One that was cut off is not taken.
			struct str text = { files[i].data, files[i].end == PROBE_GOOD ? files[i].n : 0 },
				   where = str_z(files[i].path);
			while (text.n && memchr(text.p, 0, text.n))
				environment_take(s, str_split(&text, 0), where);
			if (files[i].n < ENVIRON_MOST)
				environment_take(s, text, where);
		}
		add_source(s);
	}
}

void host_read_environment(struct host *h)
{
	_cleanup_free_ struct environment_source *s = mem_alloc(sizeof(*s));
	_cleanup_free_ struct probe *probes = mem_alloc((ENVIRONMENT_FILES + PROCESSES_MOST + 2) * sizeof(*probes));
	struct user users[PROCESSES_MOST];
	*s = (struct environment_source){ .h = h, .from = COMMAND(&h->arena, "the environment") };
	h->doubt |= devices_unsure(&h->devices);
	// Of this process, only what knowledge names: a tape keeps it.
	_cleanup_text_ struct text all = { 0 };
	for (char **e = environ; !h->root && e && *e; e++) {
		struct str entry = str_z(*e), value = entry, name = str_split(&value, '=');
		if (!know_variable(h->know, name))
			continue;
		text_add(&all, entry);
		text_add(&all, (struct str){ "", 1 });
	}
	str_each (entry, tape_said(h->tape, &h->arena, "environment", arena_str(&h->arena, text_str(&all))), '\0')
		environment_take(s, entry, (struct str){ 0 });
	add_source(s);
	size_t nfiles = environment_files(h, probes), nusers = computing(h, users);
	size_t n = nfiles + ask_environs(h, users, nusers, &probes[nfiles]);
	host_probe(h, probes, n);
	environment_add_all(h, s, &(struct environment_asked){ probes, nfiles, n, users, nusers });
}
