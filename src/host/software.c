// ROCm, wherever it is installed, frameworks that bring their own, and the tools that the next crash needs. Nothing is run: versions come
// from files and from names.
#include "host/host.h"

#include <stdio.h>
#include <stdlib.h>

// Tools that the next crash needs, by their files. None is run: a version comes from a name, or is that of its ROCm.

/** The version in a file's name: llvm-objdump-19, librocm-debug-agent.so.2.0.4. */
static struct str version_in(struct str name)
{
	size_t at = name.n;
	while (at && (char_digit(name.p[at - 1]) || name.p[at - 1] == '.'))
		at--;
	while (at < name.n && name.p[at] == '.')
		at++;
	return str_from(name, at);
}

static bool fits_tool(struct host *h, const struct host_listing *l, struct str pattern, struct str path)
{
	if (str_starts(pattern, S("/")))
		return !l->rocm && str_glob(pattern, path);
	const struct host_fact *root = l->rocm ? host_fact(h, l->rocm, S("path"), 0) : NULL;
	struct str below = root && path.n > root->value.n ? str_from(path, root->value.n + 1) : (struct str){ 0 };
	return below.n && str_glob(pattern, below);
}

/** The file of a tool in a directory: of several the longest name, which has the version. */
static struct str find_tool(struct host *h, const struct host_listing *l, struct str patterns)
{
	struct str found = { 0 };
	for (struct str one = str_word(&patterns); one.n; one = str_word(&patterns)) {
		str_each (name, l->names, '\n') {
			char room[512];
			int n = snprintf(room, sizeof(room), STR_FMT "/" STR_FMT, STR_ARG(l->path), STR_ARG(name));
			struct str path = { room, (size_t)n };
			if (n > 0 && (size_t)n < sizeof(room) && path.n > found.n && fits_tool(h, l, one, path))
				found = arena_str(&h->arena, path);
		}
	}
	return found;
}

static void find_tools(struct host *h, const struct host_listing *l)
{
	for (size_t t = 0; t < h->know->tools.len; t++) {
		const struct know_row *tool = h->know->tools.data[t];
		struct str path = find_tool(h, l, tool->value);
		if (path.n && !(l->rocm && host_says(l->rocm, "has", tool->head.id))) {
			const struct host_fact *version = l->rocm ? host_fact(h, l->rocm, S("version"), 0) : NULL;
			struct host_item *i = host_add(h, "tool", NULL);
			host_note(h, i, "name", tool->head.id, path);
			host_note(h, i, "path", path, path);
			host_note(h, i, "version", version_in(path), path);
			if (version) {
				host_note(h, i, "rocm", version->value, version->where);
				host_note(h, l->rocm, "has", tool->head.id, path);
			}
		}
	}
}

// --- ROCm and frameworks ---

enum { NAMES_MOST = 1 << 19, PLACES_MOST = 32, TEXT_MOST = 4096 };

/** A ROCm that may be there: its version's file and its directories are asked for. */
struct rocm_place {
	struct str path;
	const char *source;
	size_t first; // of its probes
};

struct software {
	struct host *h;
	VEC(struct probe) probes;
	VEC(struct rocm_place) places;
	VEC(struct host_listing) listings;
};

/** Directories that are listed: ROCm's, programs, libraries, Pythons. */
enum system_list {
	LIST_OPT,
	LIST_ROCM,
	LIST_BIN,
	LIST_LOCAL_BIN,
	LIST_MULTIARCH,
	LIST_LIB64, // the first that may have a Python
	LIST_LIB,
	LIST_LOCAL_LIB,
	LIST_VENV,
	LIST_CONDA,
	LIST_ENVS,
	SYSTEM_LISTS
};
static const char *const system_lists[] = {
	[LIST_OPT] = "/opt",
	[LIST_ROCM] = "/opt/rocm",
	[LIST_BIN] = "/usr/bin",
	[LIST_LOCAL_BIN] = "/usr/local/bin",
	[LIST_MULTIARCH] = "/usr/lib/x86_64-linux-gnu",
	[LIST_LIB64] = "/usr/lib64",
	[LIST_LIB] = "/usr/lib",
	[LIST_LOCAL_LIB] = "/usr/local/lib",
	[LIST_VENV] = "/opt/venv/lib",
	[LIST_CONDA] = "/opt/conda/lib",
	[LIST_ENVS] = "/opt/conda/envs",
};

/** What is asked of a ROCm: the first is the file of its version. */
static const char *const rocm_files[] = { "/.info/version", "/bin", "/lib", "/llvm/bin", "/lib/llvm/bin" };
/** What is asked of a Python: the last two are a ROCm in packages of its own. */
static const char *const python_files[] = { "/dist-packages/torch/version.py", "/site-packages/torch/version.py",
					    "/dist-packages/_rocm_sdk_core/.info/version",
					    "/site-packages/_rocm_sdk_core/.info/version" };
enum { ROCM_FILES = ARRAY_SIZE(rocm_files), PYTHON_FILES = ARRAY_SIZE(python_files), TORCH_FILES = 2 };

static void software_ask(struct software *s, enum probe_kind kind, struct str path)
{
	const size_t size = kind == PROBE_LIST ? NAMES_MOST : TEXT_MOST;
	vec_push(&s->probes, ((struct probe){ .kind = kind, .path = arena_z(&s->h->arena, path), .size = size }));
}

static void ask_place(struct software *s, struct str path, const char *source, const char *const *files, size_t n)
{
	if (s->places.len == PLACES_MOST)
		return;
	vec_push(&s->places, ((struct rocm_place){ path, source, s->probes.len }));
	for (size_t i = 0; i < n; i++)
		software_ask(s, files == rocm_files && i ? PROBE_LIST : PROBE_FILE,
			     arena_printf(&s->h->arena, STR_FMT "%s", STR_ARG(path), files[i]));
}

/** Each name that @pattern fits is a place. */
static void software_ask_each(struct software *s, const struct probe *list, struct str pattern, const char *source,
			      const char *const *files, size_t n)
{
	str_each (name, probe_text(list), '\n')
		if (str_glob(pattern, name))
			ask_place(s, arena_printf(&s->h->arena, "%s/" STR_FMT, list->path, STR_ARG(name)), source, files, n);
}

static void list_envs(struct software *s, const struct probe *envs)
{
	struct probe lists[PLACES_MOST];
	struct str names = probe_text(envs);
	size_t n = 0;
	while (names.n && n < PLACES_MOST) {
		struct str name = str_split(&names, '\n');
		lists[n++] =
			(struct probe){ .kind = PROBE_LIST,
					.path = arena_printf(&s->h->arena, "%s/" STR_FMT "/lib", envs->path, STR_ARG(name)).p,
					.size = NAMES_MOST };
	}
	if (n)
		host_probe(s->h, lists, n);
	for (size_t i = 0; i < n; i++)
		software_ask_each(s, &lists[i], S("python3*"), "torch", python_files, PYTHON_FILES);
}

static void add_listing(struct software *s, const struct probe *p, struct host_item *rocm)
{
	if (p->end == PROBE_GOOD)
		vec_push(&s->listings, ((struct host_listing){ str_z(p->path), rocm, probe_text(p) }));
}

/** `6.2.0-66` is 6.2.0. */
static struct str software_version_of(struct str text)
{
	struct str line = str_split(&text, '\n'), version = str_trim(line);
	version = str_split(&version, '-');
	return version.n && char_digit(version.p[0]) ? version : (struct str){ 0 };
}

static struct host_item *rocm_with(const struct host *h, const char *name, struct str value)
{
	return list_find_of(h->items.data, h->items.len, i, str_is(i->kind, "rocm") && host_says(i, name, value));
}

/** @exact: the version is known to its last number, so that the machine's may be told by it. */
static struct host_item *add_rocm(struct host *h, struct str path, const char *source, struct str version, bool exact,
				  struct str where)
{
	struct host_item *i = host_add(h, "rocm", NULL);
	struct str major = version;
	host_note(h, i, "version", version, where);
	host_note(h, i, "major", str_split(&major, '.'), where);
	host_note(h, i, "path", path, where);
	host_note(h, i, "source", str_z(source), where);
	host_note(h, i, "exact", exact ? S("yes") : S("no"), where);
	return i;
}

/** /opt/rocm is mostly a link to another directory, which is noted only once. If it exists, it is the first place. */
static void read_rocm(struct software *s, const struct rocm_place *p)
{
	const struct probe *files = &s->probes.data[p->first];
	struct str version = software_version_of(probe_text(&files[0]));
	struct host_item *i = version.n ? rocm_with(s->h, "version", version) : NULL;
	if (!version.n)
		return;
	if (i && str_is(p->path, "/opt/rocm")) {
		host_note(s->h, i, "default", S("yes"), p->path);
		return;
	}
	i = add_rocm(s->h, p->path, p->source, version, true, str_z(files[0].path));
	if (str_is(p->path, "/opt/rocm"))
		host_note(s->h, i, "default", S("yes"), p->path);
	for (size_t n = 1; n < ROCM_FILES; n++)
		add_listing(s, &files[n], i);
}

/** `hip: Optional[str] = '6.2.41133-dd7f95766'` has 6.2.41133-dd7f95766; None has nothing. */
static struct str python_value(struct str text, struct str key)
{
	str_each (line, text, '\n') {
		if (!str_starts(line, key) || line.n == key.n || char_word(line.p[key.n]))
			continue;
		str_split(&line, '=');
		line = str_trim(line);
		char quote = line.n ? line.p[0] : 0;
		if (quote != '\'' && quote != '"')
			return (struct str){ 0 };
		line = str_from(line, 1);
		return str_split(&line, quote);
	}
	return (struct str){ 0 };
}

/** The first two numbers of HIP's version are ROCm's; the third is its own. */
static struct str two_numbers(struct str version)
{
	struct str rest = version;
	str_split(&rest, '.');
	str_split(&rest, '.');
	return rest.n ? str_cut(version, version.n - rest.n - 1) : version;
}

/** Frameworks bring a ROCm of their own, whose version is in a file of their package: Python is not started for it. */
static void read_python(struct software *s, const struct rocm_place *p)
{
	const struct probe *files = &s->probes.data[p->first];
	bool has_sdk = false;
	for (size_t i = TORCH_FILES; i < PYTHON_FILES; i++) {
		struct str where = str_z(files[i].path), version = software_version_of(probe_text(&files[i]));
		if (version.n)
			add_rocm(s->h, str_cut(where, where.n - sizeof("/.info/version") + 1), "torch", version, true, where);
		has_sdk |= version.n;
	}
	for (size_t i = 0; i < TORCH_FILES; i++) {
		const struct probe *file = &files[i];
		struct host_item *m = host_machine(s->h);
		struct str text = probe_text(file), where = str_z(file->path);
		struct str hip = python_value(text, S("hip")), rocm = python_value(text, S("rocm"));
		if (!text.n)
			continue;
		host_note(s->h, m, "torch", python_value(text, S("__version__")), where);
		host_note(s->h, m, "torch_build",
			  hip.n                           ? S("hip") :
			  python_value(text, S("cuda")).n ? S("cuda") :
							    S("cpu"),
			  where);
		if (!software_version_of(hip).n || has_sdk)
			continue;
		bool exact = software_version_of(rocm).n;
		add_rocm(s->h, str_cut(where, where.n - sizeof("/version.py") + 1), "torch",
			 exact ? software_version_of(rocm) : two_numbers(software_version_of(hip)), exact, where);
	}
}

/** librocm-core.so.1.0.60104 is of ROCm 6.1.4. */
static struct str core_version(struct host *h, struct str digits)
{
	int64_t n;
	if (!str_number(digits, &n) || n < 10000 || n > 999999)
		return (struct str){ 0 };
	return arena_printf(&h->arena, "%lld.%lld.%lld", (long long)(n / 10000), (long long)(n / 100 % 100),
			    (long long)(n % 100));
}

/** Of several files of a library the longest name, which has the whole version. */
static struct str library_version(const struct host_listing *l, struct str prefix)
{
	struct str names = l->names, found = { 0 };
	while (names.n) {
		// The part of a name behind @prefix, where it begins with a number.
		const struct str name = str_split(&names, '\n');
		struct str rest = str_starts(name, prefix) ? str_from(name, prefix.n) : (struct str){ 0 };
		struct str behind = rest.n && char_digit(rest.p[0]) ? rest : (struct str){ 0 };
		found = behind.n > found.n ? behind : found;
	}
	return found;
}

/** A distribution's own ROCm lies among its other libraries. @package: its version, where the package manager has one. */
static void read_distribution(struct software *s, const struct host_listing *l, struct str package)
{
	static const char hip_name[] = "libamdhip64.so.", runtime_name[] = "libhsa-runtime64.so.";
	struct str hip = library_version(l, S(hip_name)), runtime = library_version(l, S(runtime_name));
	struct str core = core_version(s->h, library_version(l, S("librocm-core.so.1.0.")));
	bool known = hip.n && memchr(hip.p, '.', hip.n);
	if ((!known && !runtime.n) || rocm_with(s->h, "path", S("/usr")))
		return;
	struct str exact = core.n ? core : software_version_of(package), version = exact.n ? exact :
										   known   ? two_numbers(hip) :
											     exact;
	struct str where = arena_printf(&s->h->arena, STR_FMT "/%s" STR_FMT, STR_ARG(l->path), known ? hip_name : runtime_name,
					STR_ARG(known ? hip : runtime));
	struct host_item *i = add_rocm(s->h, S("/usr"), "distribution", version, exact.n, where);
	host_note(s->h, i, "runtime", runtime, where);
}

/** The machine's ROCm: the one that /opt/rocm is, or the only one, those in Python packages aside. */
static void tell_machine(struct host *h)
{
	struct host_item *m = host_machine(h), *one = rocm_with(h, "default", S("yes")), *any = NULL, *only = NULL;
	const struct host_fact *version;
	struct str list = { 0 };
	int64_t all = 0, system = 0;
	for (size_t i = 0; i < h->items.len; i++) {
		if (!str_is(h->items.data[i]->kind, "rocm"))
			continue;
		any = h->items.data[i];
		all++;
		if (str_is(host_fact(h, any, S("source"), 0)->value, "torch"))
			continue;
		system++;
		only = any;
		version = host_fact(h, any, S("version"), 0);
		list = arena_printf(&h->arena, STR_FMT "%s" STR_FMT " (" STR_FMT ")", STR_ARG(list), list.n ? ", " : "",
				    STR_ARG(version ? version->value : S("one of unknown version")),
				    STR_ARG(host_fact(h, any, S("path"), 0)->value));
	}
	one = one ? one : system == 1 ? only : all == 1 ? any : NULL;
	version = one ? host_fact(h, one, S("version"), 0) : NULL;
	if (all)
		host_note_number(h, m, "rocm_count", system, (struct str){ 0 });
	host_note(h, m, "rocm_all", list, (struct str){ 0 });
	if (version && str_is(host_fact(h, one, S("exact"), 0)->value, "yes"))
		host_note(h, m, "rocm", version->value, version->where);
	if (version)
		host_note(h, m, "rocm_major", host_fact(h, one, S("major"), 0)->value, version->where);
}

void host_read_software(struct host *h)
{
	struct software s = { .h = h };
	struct probe lists[SYSTEM_LISTS + HOST_PACKAGES];
	for (size_t i = 0; i < SYSTEM_LISTS; i++)
		lists[i] = (struct probe){ .kind = PROBE_LIST, .path = system_lists[i], .size = NAMES_MOST };
	host_ask_packages(&lists[SYSTEM_LISTS]);
	host_probe(h, lists, SYSTEM_LISTS + HOST_PACKAGES);
	host_note_packages(h, &lists[SYSTEM_LISTS]);
	software_ask_each(&s, &lists[LIST_OPT], S("rocm-*"), "system", rocm_files, ROCM_FILES);
	software_ask_each(&s, &lists[LIST_ROCM], S("core-*"), "system", rocm_files, ROCM_FILES);
	if (lists[LIST_ROCM].end == PROBE_GOOD)
		ask_place(&s, S("/opt/rocm"), "system", rocm_files, ROCM_FILES);
	size_t rocms = s.places.len;
	for (size_t i = LIST_LIB64; i < LIST_ENVS; i++)
		software_ask_each(&s, &lists[i], S("python3*"), "torch", python_files, PYTHON_FILES);
	list_envs(&s, &lists[LIST_ENVS]);
	if (s.probes.len)
		host_probe(h, s.probes.data, s.probes.len);
	for (size_t i = LIST_BIN; i < LIST_VENV; i++)
		add_listing(&s, &lists[i], NULL);
	for (size_t i = 0; i < s.listings.len; i++)
		read_distribution(&s, &s.listings.data[i], host_rocm_package(&lists[SYSTEM_LISTS]));
	for (size_t i = 0; i < s.places.len; i++)
		(i < rocms ? read_rocm : read_python)(&s, &s.places.data[i]);
	// Finds the tools that knowledge names in these directories, and notes which of them each ROCm has or lacks.
	for (size_t i = 0; i < s.listings.len; i++)
		find_tools(h, &s.listings.data[i]);
	for (size_t i = 0; i < s.listings.len; i++) {
		// What a ROCm lacks is only told of one whose libraries are there: a tree may hold a part of it.
		const struct host_listing *l = &s.listings.data[i];
		if (!l->rocm || str_find(l->names, S("libhsa-runtime64.so")) < 0)
			continue;
		struct str lacks = { 0 };
		for (size_t t = 0; t < h->know->tools.len; t++) {
			const struct know_row *tool = h->know->tools.data[t];
			if (!str_starts(tool->value, S("/")) && !host_says(l->rocm, "has", tool->head.id))
				lacks = arena_printf(&h->arena, STR_FMT "%s" STR_FMT, STR_ARG(lacks), lacks.n ? ", " : "",
						     STR_ARG(tool->head.id));
		}
		host_note(h, l->rocm, "lacks", lacks, l->path);
	}
	tell_machine(h);
	vec_free(&s.probes);
	vec_free(&s.places);
	vec_free(&s.listings);
}
