#include "host/changes/cache.h"

enum { ASK_MS = 700, PATIENCE_MS = 3000, NAMES_MOST = 1 << 20, FILES_MOST = 20000, REPOSITORIES_MOST = 64 };

static const char *const cache_directories[] = { "/var/cache/apt/archives", "/var/cache/pacman/pkg" };
static const char *const cache_modules[] = { "/lib/modules", "/usr/lib/modules" };
/** With a directory for each repository, which has a directory `packages`. */
static const char *const cache_nested[] = { "/var/cache/libdnf5", "/var/cache/dnf" };

struct cache_asking {
	struct package_cache *to;
	struct machine_at at;
	struct probe_count count;
};

static void ask_names(struct cache_asking *a, struct probe *probes, size_t n)
{
	struct probe_batch batch = { .probes = probes, .n = n, .root = a->at.root, .goes_on = true };
	for (size_t i = 0; i < n; i++) {
		probes[i].kind = PROBE_LIST;
		probes[i].size = NAMES_MOST;
	}
	probe_run_all(&a->to->arena, &batch, 1, ASK_MS, &a->count);
}

static void take_files(struct package_cache *c, const struct probe *p)
{
	str_each (name, probe_text(p), '\n')
		if ((str_ends(name, S(".deb")) || str_ends(name, S(".rpm")) || str_find(name, S(".pkg.tar")) > 0) &&
		    !str_ends(name, S(".sig")) && c->files.len < FILES_MOST)
			vec_push(&c->files, arena_printf(&c->arena, "%s/" STR_FMT, p->path, STR_ARG(name)));
}

static void take_nested(struct cache_asking *a, const struct probe *repositories, size_t n)
{
	struct probe inside[REPOSITORIES_MOST] = { 0 };
	size_t ninside = 0;
	for (size_t i = 0; i < n; i++)
		str_each (name, probe_text(&repositories[i]), '\n')
			if (ninside < REPOSITORIES_MOST)
				inside[ninside++].path = arena_printf(&a->to->arena, "%s/" STR_FMT "/packages",
								      repositories[i].path, STR_ARG(name))
								 .p;
	if (ninside)
		ask_names(a, inside, ninside);
	for (size_t i = 0; i < ninside; i++)
		take_files(a->to, &inside[i]);
}

void package_cache_read(struct machine_at at, struct package_cache *ret)
{
	enum {
		DIRECTORIES = ARRAY_SIZE(cache_directories),
		MODULES = ARRAY_SIZE(cache_modules),
		NESTED = ARRAY_SIZE(cache_nested)
	};
	struct probe_patience patience = { PATIENCE_MS, at.tape };
	struct cache_asking a = { ret, at, { .patience = &patience } };
	struct probe probes[DIRECTORIES + MODULES + NESTED] = { 0 };
	*ret = (struct package_cache){ 0 };
	for (size_t i = 0; i < DIRECTORIES; i++)
		probes[i].path = cache_directories[i];
	for (size_t i = 0; i < MODULES; i++)
		probes[DIRECTORIES + i].path = cache_modules[i];
	for (size_t i = 0; i < NESTED; i++)
		probes[DIRECTORIES + MODULES + i].path = cache_nested[i];
	ask_names(&a, probes, ARRAY_SIZE(probes));
	for (size_t i = 0; i < DIRECTORIES; i++)
		take_files(ret, &probes[i]);
	for (size_t i = 0; i < MODULES; i++)
		str_each (name, probe_text(&probes[DIRECTORIES + i]), '\n')
			vec_push(&ret->kernels, arena_str(&ret->arena, name));
	take_nested(&a, probes + DIRECTORIES + MODULES, NESTED);
}

/** Whether a file's name says so: mesa_1%3a25.0-1_amd64.deb, mesa-1:25.0-1-x86_64.pkg.tar.zst, mesa-25.0-1.fc42.x86_64.rpm. */
static bool names_version(struct str file, struct str package, struct str version)
{
	const bool deb = str_ends(file, S(".deb"));
	const char *behind = deb ? "_" : str_ends(file, S(".rpm")) ? "." : "-";
	if (!str_starts(file, package) || !str_starts(str_from(file, package.n), deb ? S("_") : S("-")))
		return false;
	file = str_from(file, package.n + 1);
	const ptrdiff_t epoch = str_find(version, S(":"));
	if (epoch > 0 && behind[0] == '.') {
		version = str_from(version, (size_t)epoch + 1);
	} else if (epoch > 0 && deb) {
		const struct str number = str_cut(version, (size_t)epoch);
		if (!str_starts(file, number) || !str_starts(str_from(file, number.n), S("%3a")))
			return false;
		file = str_from(file, number.n + 3);
		version = str_from(version, (size_t)epoch + 1);
	}
	return str_starts(file, version) && str_starts(str_from(file, version.n), str_z(behind));
}

struct str package_cache_find(const struct package_cache *c, struct str package, struct str version)
{
	const struct str *found = list_find(c->files.data, c->files.len, f, names_version(str_base(*f), package, version));
	return found && package.n && version.n ? *found : (struct str){ 0 };
}

bool package_cache_boots(const struct package_cache *c, struct str release)
{
	return list_find(c->kernels.data, c->kernels.len, k, str_eq(*k, release));
}

void package_cache_free(struct package_cache *c)
{
	vec_free(&c->files);
	vec_free(&c->kernels);
	arena_free(&c->arena);
}
