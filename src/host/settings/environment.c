// Variables of the environment that change how ROCm or a framework behaves: of this process, of files that set them for everyone, of
// programs that compute. Only those that knowledge names (`variable`) are looked at: nothing else of an environment is kept.
#include "base/cleanup.h"
#include "host/settings/environment.h"
#include "source/tape/tape.h"

#include <stdlib.h>
#include <unistd.h>

enum {
	ENVIRON_MOST = 1 << 16,
	PROCESSES_MOST = 32,
	VALUE_MOST = 200,
	ITEMS_MOST = 2048, // of all kinds: each is compared with those before it
};

/** The parts of a list between colons that @pattern fits. */
static struct str kept_parts(struct arena *a, struct str value, struct str pattern)
{
	struct str kept = { 0 };
	while (value.n) {
		struct str part = str_split(&value, ':');
		if (str_glob(pattern, part))
			kept = arena_printf(a, STR_FMT "%s" STR_FMT, STR_ARG(kept), kept.n ? ":" : "", STR_ARG(part));
	}
	return kept;
}

/** `A=B`: kept where knowledge names A. */
void environment_take(struct environment_source *s, struct str entry, struct str where)
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

static const struct variable *of_source(const struct environment_source *s, struct str name)
{
	for (size_t i = 0; i < s->n; i++)
		if (str_eq(s->list[i].name, name))
			return &s->list[i];
	return NULL;
}

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
	struct str rest = v->value;
	while (rest.n)
		if (str_number(str_trim(str_split(&rest, ',')), &number) && number > highest)
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
	struct str rest = v->value;
	while (rest.n) {
		struct str part = str_split(&rest, ':');
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
enum { MEANINGS = sizeof(meanings) / sizeof(meanings[0]) };

// --- items ---

/** The same setting in several places is one item with several `from`. */
static struct host_item *same_item(const struct host *h, const struct variable *v, const struct host_item *gpu)
{
	for (size_t n = 0; n < h->items.len; n++) {
		struct host_item *i = h->items.data[n];
		if (str_is(i->kind, "variable") && i->of == gpu && host_says(i, "name", v->name) &&
		    host_says(i, v->value.n ? "value" : "empty", v->value.n ? v->value : S("yes")))
			return i;
	}
	return NULL;
}

static void note_beside(const struct environment_source *s, struct host_item *i, const struct variable *v)
{
	for (size_t n = 0; n < s->n; n++)
		if (!str_eq(s->list[n].name, v->name) && !host_says(i, "beside", s->list[n].name))
			host_note(s->h, i, "beside", s->list[n].name, s->list[n].where);
}

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
static bool concerns(const struct environment_source *s, const struct variable *v, const struct device *d)
{
	struct str alone = arena_printf(&s->h->arena, OVERRIDE "_%lld", (long long)d->kfd_node);
	if (str_is(v->name, OVERRIDE))
		return d->kfd_node < 0 || !of_source(s, alone);
	return d->kfd_node >= 0 && str_eq(v->name, alone);
}

static bool is_for_each_gpu(struct str name)
{
	for (size_t m = 0; m < MEANINGS; m++)
		if (meanings[m].each_gpu && str_glob(str_z(meanings[m].pattern), name))
			return true;
	return false;
}

/** What programs that are started from here get. */
static void note_machine(const struct environment_source *s, const struct variable *v)
{
	const char *name = arena_printf(&s->h->arena, "env." STR_FMT, STR_ARG(v->name)).p;
	if (!s->one && !host_fact(s->h, host_machine(s->h), str_z(name), 0))
		host_note(s->h, host_machine(s->h), name, v->value, v->where);
}

static void add_source(const struct environment_source *s)
{
	for (size_t n = 0; n < s->n; n++) {
		const struct variable *v = &s->list[n];
		size_t gpus = 0;
		note_machine(s, v);
		for (size_t d = 0; is_for_each_gpu(v->name) && d < s->h->devices.n; d++) {
			const struct device *device = &s->h->devices.list[d];
			struct host_item *gpu = host_gpu(s->h, device);
			if ((s->gpu && s->gpu != gpu) || !concerns(s, v, device))
				continue;
			add_item(s, v, gpu);
			gpus++;
		}
		if (!gpus)
			add_item(s, v, s->gpu);
	}
}

// --- sources ---

/** A process's environment: entries end in a NUL. One that was cut off is not taken. */
static void take_environ(struct environment_source *s, const struct probe *p)
{
	struct str text = { p->data, p->end == PROBE_GOOD ? p->n : 0 }, where = str_z(p->path);
	while (text.n && memchr(text.p, 0, text.n))
		environment_take(s, str_split(&text, 0), where);
	if (p->n < ENVIRON_MOST)
		environment_take(s, text, where);
}

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

static void add_all(struct host *h, struct environment_source *s, const struct environment_asked *all)
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
		if (i < nfiles)
			environment_take_file(s, &files[i]);
		else
			take_environ(s, &files[i]);
		add_source(s);
	}
}

/** Of this process, only what knowledge names: a tape keeps it. */
static struct str own_environment(struct host *h)
{
	struct text all = { 0 };
	for (char **e = environ; !h->root && e && *e; e++) {
		struct str entry = str_z(*e), value = entry, name = str_split(&value, '=');
		if (!know_variable(h->know, name))
			continue;
		text_add(&all, entry);
		text_add(&all, (struct str){ "", 1 });
	}
	struct str kept = tape_said(h->tape, &h->arena, "environment", arena_str(&h->arena, text_str(&all)));
	text_free(&all);
	return kept;
}

void host_read_environment(struct host *h)
{
	struct environment_source *s = mem_alloc(sizeof(*s));
	_cleanup_free_ struct probe *probes = mem_alloc((ENVIRONMENT_FILES + PROCESSES_MOST + 2) * sizeof(*probes));
	struct user users[PROCESSES_MOST];
	*s = (struct environment_source){ .h = h, .from = COMMAND(&h->arena, "the environment") };
	h->doubt |= devices_unsure(&h->devices);
	struct str own = own_environment(h);
	while (own.n)
		environment_take(s, str_split(&own, 0), (struct str){ 0 });
	add_source(s);
	size_t nfiles = environment_files(h, probes), nusers = computing(h, users);
	size_t n = nfiles + ask_environs(h, users, nusers, &probes[nfiles]);
	host_probe(h, probes, n);
	add_all(h, s, &(struct environment_asked){ probes, nfiles, n, users, nusers });
	free(s);
}
