#include "gpu/find/found.h"

#include <errno.h>
#include <stdlib.h>

/** The driver answers ETIME where the power controller (SMU) does not answer it. */
static void count_sensor(struct device *d, const struct probe *p)
{
	const bool silent = p->end == PROBE_FAILED && p->error == ETIME;
	d->sensors += p->end == PROBE_GOOD || silent;
	d->sensors_silent += silent;
}

static void set_fact(struct found *f, const struct device_fact *fact, const struct probe *p)
{
	char *at = (char *)f + fact->at;
	struct str text = probe_text(p);
	int64_t number;
	if (fact->as == DEVICE_SENSOR)
		count_sensor(&f->d, p);
	if (p->end != PROBE_GOOD)
		return;
	if (fact->as == DEVICE_TEXT)
		*(struct str *)at = text;
	else if (!str_number(str_trim(text), &number))
		return;
	else if (fact->as == DEVICE_UNSIGNED)
		*(unsigned *)at = (unsigned)number;
	else
		*(int64_t *)at = number / (fact->divide ? fact->divide : 1);
}

static const char *fact_path(struct arena *a, const struct found *f, const char *file)
{
	struct str rest = str_z(file), before = str_split(&rest, '$');
	if (before.n == strlen(file))
		return arena_printf(a, STR_FMT "/%s", STR_ARG(f->d.sysfs), file).p;
	return arena_printf(a, STR_FMT "/" STR_FMT STR_FMT STR_FMT, STR_ARG(f->d.sysfs), STR_ARG(before), STR_ARG(f->monitor),
			    STR_ARG(rest))
		.p;
}

void facts_read(struct search *s, const struct device_fact *facts, size_t n, bool (*of)(const struct found *), int milliseconds)
{
	struct arena *a = &s->to->arena;
	struct probe_batch *batches = arena_alloc(a, s->n * sizeof(*batches) + 1);
	for (size_t i = 0; i < s->n; i++) {
		const struct found *f = &s->found[i];
		if (f->d.stuck.is || (of && !of(f)))
			continue;
		batches[i] = (struct probe_batch){ arena_alloc(a, n * sizeof(struct probe)), n, s->to->tree, { 0 } };
		for (size_t j = 0; j < n; j++)
			batches[i].probes[j] = (struct probe){ .kind = facts[j].kind, .path = fact_path(a, f, facts[j].file) };
	}
	look_run(s, batches, milliseconds);
	for (size_t i = 0; i < s->n; i++)
		for (size_t j = 0; j < batches[i].n; j++)
			set_fact(&s->found[i], &facts[j], &batches[i].probes[j]);
}

static void note_unread(struct search *s, struct unread *u, const struct probe *p)
{
	enum { NAMED = 32 };
	if (!probe_unread(p))
		return;
	if (u->n++ < NAMED)
		u->paths = arena_printf(&s->to->arena, STR_FMT "%s%s", STR_ARG(u->paths), u->paths.n ? "\n" : "", p->path);
}

static void look(struct search *s, struct probe *probes, size_t n, int milliseconds)
{
	struct probe_batch batch = { .probes = probes, .n = n, .root = s->to->tree, .goes_on = true };
	probe_run_all(&s->to->arena, &batch, 1, milliseconds, &s->to->count);
}

static void note_refused(struct search *s, struct device *d, const struct probe *p)
{
	if (p->end == PROBE_FAILED && p->error == EACCES)
		d->refused =
			arena_printf(&s->to->arena, STR_FMT "%s%s", STR_ARG(d->refused), d->refused.n ? "\n" : "", p->path);
}

/** Files of a tree wait for nothing: one child looks at those of all devices. */
static void look_together(struct search *s, struct probe_batch *batches, int milliseconds)
{
	size_t all = 0, at = 0;
	for (size_t i = 0; i < s->n; i++)
		all += batches[i].n;
	struct probe *probes = arena_alloc(&s->to->arena, all * sizeof(*probes) + 1);
	for (size_t i = 0; i < s->n; at += batches[i++].n)
		if (batches[i].n)
			memcpy(probes + at, batches[i].probes, batches[i].n * sizeof(*probes));
	look(s, probes, all, milliseconds);
	for (size_t i = at = 0; i < s->n; at += batches[i++].n)
		if (batches[i].n)
			memcpy(batches[i].probes, probes + at, batches[i].n * sizeof(*probes));
}

void look_run(struct search *s, struct probe_batch *batches, int milliseconds)
{
	if (s->to->tree)
		look_together(s, batches, milliseconds);
	else
		probe_run_all(&s->to->arena, batches, s->n, milliseconds, &s->to->count);
	for (size_t i = 0; i < s->n; i++) {
		struct device *d = &s->found[i].d;
		if (batches[i].stuck.is)
			d->stuck = batches[i].stuck;
		for (size_t j = 0; j < batches[i].n; j++)
			note_refused(s, d, &batches[i].probes[j]);
		for (size_t j = 0; j < batches[i].n; j++)
			note_unread(s, &d->unread, &batches[i].probes[j]);
	}
}

void look_once(struct search *s, struct probe *probes, size_t n, int milliseconds)
{
	look(s, probes, n, milliseconds);
	for (size_t i = 0; i < n; i++)
		note_unread(s, &s->to->unread, &probes[i]);
}

void look_processes(struct search *s, struct probe *probes, size_t n, int milliseconds)
{
	struct probe_patience *all = s->to->count.patience;
	const int64_t had = all->left < s->for_processes ? all->left : s->for_processes;
	struct probe_patience part = { had, all->tape };
	s->to->count.patience = &part;
	look(s, probes, n, milliseconds);
	s->to->count.patience = all;
	all->left -= had - part.left;
	s->for_processes -= had - part.left;
	for (size_t i = 0; i < n; i++)
		note_unread(s, &s->to->processes_unread, &probes[i]);
}

bool look_awake(const struct found *f) { return device_awake(&f->d); }

bool device_awake(const struct device *d)
{
	bool active = !d->runtime_status.n || str_is(d->runtime_status, "active") || str_is(d->runtime_status, "unsupported");
	return active && !d->off_bus && d->driver.n && !d->stuck.is;
}

static int compare_lines(const void *a, const void *b) { return str_cmp(*(const struct str *)a, *(const struct str *)b); }

size_t lines_of(struct arena *a, struct str text, size_t most, struct str **ret)
{
	size_t n = 0;
	*ret = arena_alloc(a, (most < text.n ? most : text.n + 1) * sizeof(**ret));
	while (text.n && n < most)
		(*ret)[n++] = str_split(&text, '\n');
	qsort(*ret, n, sizeof(**ret), compare_lines);
	return n;
}
