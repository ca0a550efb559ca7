// ROCm, wherever it is installed, frameworks that bring their own, and the tools that the next crash needs. Nothing is run: versions come
// from files and from names.
#include "host/software.h"

#include <stdlib.h>

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
enum {
	ROCM_FILES = sizeof(rocm_files) / sizeof(rocm_files[0]),
	PYTHON_FILES = sizeof(python_files) / sizeof(python_files[0]),
	TORCH_FILES = 2
};

static void ask(struct software *s, enum probe_kind kind, struct str path)
{
	struct probe p = { .kind = kind,
			   .path = arena_z(&s->h->arena, path),
			   .size = kind == PROBE_LIST ? NAMES_MOST : TEXT_MOST };
	vec_push(&s->probes, p);
}

static void ask_place(struct software *s, struct str path, const char *source, const char *const *files, size_t n)
{
	struct rocm_place p = { path, source, s->probes.len };
	if (s->places.len == PLACES_MOST)
		return;
	vec_push(&s->places, p);
	for (size_t i = 0; i < n; i++)
		ask(s, files == rocm_files && i ? PROBE_LIST : PROBE_FILE,
		    arena_printf(&s->h->arena, STR_FMT "%s", STR_ARG(path), files[i]));
}

/** Each name that @pattern fits is a place. */
static void ask_each(struct software *s, const struct probe *list, struct str pattern, const char *source,
		     const char *const *files, size_t n)
{
	struct str names = probe_text(list);
	while (names.n) {
		struct str name = str_split(&names, '\n');
		if (str_glob(pattern, name))
			ask_place(s, arena_printf(&s->h->arena, "%s/" STR_FMT, list->path, STR_ARG(name)), source, files, n);
	}
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
		ask_each(s, &lists[i], S("python3*"), "torch", python_files, PYTHON_FILES);
}

static void add_listing(struct software *s, const struct probe *p, struct host_item *rocm)
{
	struct host_listing l = { str_z(p->path), rocm, probe_text(p) };
	if (p->end == PROBE_GOOD)
		vec_push(&s->listings, l);
}

/** `6.2.0-66` is 6.2.0. */
static struct str version_of(struct str text)
{
	struct str line = str_split(&text, '\n'), version = str_trim(line);
	version = str_split(&version, '-');
	return version.n && char_digit(version.p[0]) ? version : (struct str){ 0 };
}

static struct host_item *rocm_with(const struct host *h, struct str name, struct str value)
{
	for (size_t i = 0; i < h->items.len; i++) {
		const struct host_fact *f =
			str_is(h->items.data[i]->kind, "rocm") ? host_fact(h, h->items.data[i], name, 0) : NULL;
		if (f && str_eq(f->value, value))
			return h->items.data[i];
	}
	return NULL;
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
	struct str version = version_of(probe_text(&files[0]));
	struct host_item *i = version.n ? rocm_with(s->h, S("version"), version) : NULL;
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
	while (text.n) {
		struct str line = str_split(&text, '\n');
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

static void read_torch(struct software *s, const struct probe *file, bool has_sdk)
{
	struct host_item *m = host_machine(s->h);
	struct str text = probe_text(file), where = str_z(file->path);
	struct str hip = python_value(text, S("hip")), rocm = python_value(text, S("rocm"));
	if (!text.n)
		return;
	host_note(s->h, m, "torch", python_value(text, S("__version__")), where);
	host_note(s->h, m, "torch_build", hip.n ? S("hip") : python_value(text, S("cuda")).n ? S("cuda") : S("cpu"), where);
	if (!version_of(hip).n || has_sdk)
		return;
	bool exact = version_of(rocm).n;
	add_rocm(s->h, str_cut(where, where.n - sizeof("/version.py") + 1), "torch",
		 exact ? version_of(rocm) : two_numbers(version_of(hip)), exact, where);
}

static void read_python(struct software *s, const struct rocm_place *p)
{
	const struct probe *files = &s->probes.data[p->first];
	bool has_sdk = false;
	for (size_t i = TORCH_FILES; i < PYTHON_FILES; i++) {
		struct str where = str_z(files[i].path), version = version_of(probe_text(&files[i]));
		if (version.n)
			add_rocm(s->h, str_cut(where, where.n - sizeof("/.info/version") + 1), "torch", version, true, where);
		has_sdk |= version.n;
	}
	for (size_t i = 0; i < TORCH_FILES; i++)
		read_torch(s, &files[i], has_sdk);
}

/** The part of a name behind @prefix, where it begins with a number. */
static struct str number_behind(struct str name, struct str prefix)
{
	struct str rest = str_starts(name, prefix) ? str_from(name, prefix.n) : (struct str){ 0 };
	return rest.n && char_digit(rest.p[0]) ? rest : (struct str){ 0 };
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
		struct str behind = number_behind(str_split(&names, '\n'), prefix);
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
	if ((!known && !runtime.n) || rocm_with(s->h, S("path"), S("/usr")))
		return;
	struct str exact = core.n ? core : version_of(package), version = exact.n ? exact : known ? two_numbers(hip) : exact;
	struct str where = arena_printf(&s->h->arena, STR_FMT "/%s" STR_FMT, STR_ARG(l->path), known ? hip_name : runtime_name,
					STR_ARG(known ? hip : runtime));
	struct host_item *i = add_rocm(s->h, S("/usr"), "distribution", version, exact.n, where);
	host_note(s->h, i, "runtime", runtime, where);
}

/** The machine's ROCm: the one that /opt/rocm is, or the only one, those in Python packages aside. */
static void tell_machine(struct host *h)
{
	struct host_item *m = host_machine(h), *one = rocm_with(h, S("default"), S("yes")), *any = NULL, *only = NULL;
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
	ask_each(&s, &lists[LIST_OPT], S("rocm-*"), "system", rocm_files, ROCM_FILES);
	ask_each(&s, &lists[LIST_ROCM], S("core-*"), "system", rocm_files, ROCM_FILES);
	if (lists[LIST_ROCM].end == PROBE_GOOD)
		ask_place(&s, S("/opt/rocm"), "system", rocm_files, ROCM_FILES);
	size_t rocms = s.places.len;
	for (size_t i = LIST_LIB64; i < LIST_ENVS; i++)
		ask_each(&s, &lists[i], S("python3*"), "torch", python_files, PYTHON_FILES);
	list_envs(&s, &lists[LIST_ENVS]);
	if (s.probes.len)
		host_probe(h, s.probes.data, s.probes.len);
	for (size_t i = LIST_BIN; i < LIST_VENV; i++)
		add_listing(&s, &lists[i], NULL);
	for (size_t i = 0; i < s.listings.len; i++)
		read_distribution(&s, &s.listings.data[i], host_rocm_package(&lists[SYSTEM_LISTS]));
	for (size_t i = 0; i < s.places.len; i++)
		(i < rocms ? read_rocm : read_python)(&s, &s.places.data[i]);
	host_find_tools(h, s.listings.data, s.listings.len);
	tell_machine(h);
	vec_free(&s.probes);
	vec_free(&s.places);
	vec_free(&s.listings);
}
