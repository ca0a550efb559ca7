// The files that looks read: how long each took, and whether one woke a GPU that slept.
#include "base/child.h"
#include "session/selftest/selftest.h"

enum { ASK_MS = 1000, SLEEP_AGAIN_MS = 20000, NAP_MS = 200 };

static bool lies_below(struct str path, struct str directory)
{
	return directory.n && path.n > directory.n && str_starts(path, directory) && path.p[directory.n] == '/';
}

/** Whose file it is; NULL: no GPU's. */
static const struct device *owner_of(const struct selftest *t, struct str path)
{
	struct str render;
	int64_t minor;
	const bool node = str_behind(path, S("/dev/dri/renderD"), &render) && str_number(render, &minor);
	for (size_t i = 0; i < t->devices.n; i++) {
		const struct device *d = &t->devices.list[i];
		if (lies_below(path, d->sysfs) || lies_below(path, d->debugfs) || (node && d->render == minor))
			return d;
	}
	return NULL;
}

/** /proc/4711/fdinfo/3 is /proc/PID/fdinfo/3: whose it is concerns nobody. */
static struct str path_told(struct arena *a, struct str path)
{
	struct str rest;
	if (!str_behind(path, S("/proc/"), &rest))
		return arena_str(a, path);
	const struct str pid = str_split(&rest, '/'), name = str_split(&rest, '/');
	int64_t n;
	return str_number(pid, &n) ? arena_printf(a, "/proc/PID/" STR_FMT, STR_ARG(name)) : arena_str(a, path);
}

void selftest_file_seen(void *ctx, const struct probe *p)
{
	struct selftest *t = ctx;
	if (p->end == PROBE_FORBIDDEN || p->kind > PROBE_QUERY)
		return;
	const struct str path = path_told(&t->arena, str_z(p->path));
	struct selftest_file *f = NULL;
	for (size_t i = t->files.len; i-- > 0 && !f;)
		if (str_eq(t->files.data[i].path, path))
			f = &t->files.data[i];
	if (!f) {
		struct selftest_file one = { .path = path, .first = *p };
		one.first.path = arena_z(&t->arena, str_z(p->path));
		one.first.argument = p->argument ? arena_copy(&t->arena, p->argument, p->argument_size) : NULL;
		one.first.find = arena_str(&t->arena, p->find);
		one.first.unless = (struct str){ 0 };
		one.first.skips = 0;
		vec_push(&t->files, one);
		f = &t->files.data[t->files.len - 1];
	}
	f->operations += p->end == PROBE_GOOD || p->end == PROBE_FAILED;
	f->bytes += p->end == PROBE_GOOD ? p->n : 0;
	f->microseconds += p->microseconds;
	f->failed += p->end == PROBE_FAILED;
	f->late |= p->end == PROBE_STUCK;
}

static bool asleep(struct str status) { return str_starts(status, S("suspend")); }

static struct str status_now(struct arena *a, const struct device *d)
{
	struct probe p = { .path = arena_printf(a, STR_FMT "/power/runtime_status", STR_ARG(d->sysfs)).p };
	struct probe_count count = { 0 };
	probe_run(a, &p, 1, ASK_MS, NULL, &count);
	return probe_text(&p);
}

/** Reads its files again, one by one, once it sleeps again: which of them wakes it up. NULL: none did. */
static struct selftest_file *find_waker(struct selftest *t, const struct device *d)
{
	const int64_t until = now_ms() + SLEEP_AGAIN_MS;
	while (!asleep(status_now(&t->arena, d)) && now_ms() < until)
		tape_pause(NULL, NAP_MS);
	for (size_t i = 0; i < t->files.len && asleep(status_now(&t->arena, d)); i++) {
		struct selftest_file *f = &t->files.data[i];
		struct probe p = f->first;
		struct probe_count count = { 0 };
		if (!lies_below(str_z(f->first.path), d->sysfs) || f->late)
			continue;
		probe_run(&t->arena, &p, 1, ASK_MS, NULL, &count);
		if (!asleep(status_now(&t->arena, d)))
			return f;
	}
	return NULL;
}

static void find_woken(struct selftest *t, struct text *bad, size_t *ret_slept)
{
	*ret_slept = 0;
	for (size_t i = 0; i < t->ngpus; i++) {
		const struct device *d = t->gpus[i].device;
		if (!asleep(d->runtime_status))
			continue;
		++*ret_slept;
		if (asleep(status_now(&t->arena, d)))
			continue;
		struct selftest_file *f = find_waker(t, d);
		if (f)
			f->woke = true;
		text_printf(bad, "%s" STR_FMT " woke " STR_FMT " up", bad->n ? "; " : "", STR_ARG(f ? f->path : S("the look")),
			    STR_ARG(d->pci));
	}
}

struct selftest_result check_files(struct selftest *t)
{
	_cleanup_text_ struct text bad = { 0 };
	uint64_t all = 0, slowest = 0;
	size_t n = 0;
	for (size_t i = 0; i < t->files.len; i++) {
		struct selftest_file *f = &t->files.data[i];
		const struct device *d = owner_of(t, str_z(f->first.path));
		f->gpu = d ? d->pci : (struct str){ 0 };
		if (f->late)
			text_printf(&bad, "%s" STR_FMT " did not answer", bad.n ? "; " : "", STR_ARG(f->path));
		if (!d)
			continue;
		n++;
		all += f->microseconds;
		slowest = f->microseconds > slowest ? f->microseconds : slowest;
	}
	if (bad.n)
		return FAILED(&t->arena, STR_FMT, STR_ARG(text_str(&bad)));
	if (!n)
		return NOT_POSSIBLE(&t->arena, "no file of a GPU was read");
	return PASSED(&t->arena, "%zu read in %.1f ms; the slowest took %.1f ms", n, (double)all / 1000,
		      (double)slowest / 1000);
}

struct selftest_result check_sleep(struct selftest *t)
{
	_cleanup_text_ struct text bad = { 0 };
	size_t slept;
	find_woken(t, &bad, &slept);
	if (bad.n)
		return FAILED(&t->arena, STR_FMT, STR_ARG(text_str(&bad)));
	if (!slept)
		return NOT_POSSIBLE(&t->arena, "no GPU sleeps now, so none can be woken");
	return PASSED(&t->arena, "%zu %s, and no look woke %s", slept, slept > 1 ? "GPUs sleep" : "GPU sleeps",
		      slept > 1 ? "one" : "it");
}
