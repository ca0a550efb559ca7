// How files of devices become facts about them, a batch for each device, so that one that hangs costs the others nothing; and the
// interrupts that the kernel counted.
#include "gpu/find/found.h"

#include <errno.h>
#include <stdlib.h>

static void set_fact(struct found *f, const struct device_fact *fact, const struct probe *p)
{
	char *at = (char *)f + fact->at;
	struct str text = probe_text(p);
	int64_t number;
	// The driver answers ETIME where the power controller (SMU) does not answer it.
	const bool silent = p->end == PROBE_FAILED && p->error == ETIME;
	if (fact->as == DEVICE_SENSOR) {
		f->d.sensors += p->end == PROBE_GOOD || silent;
		f->d.sensors_silent += silent;
	}
	if (p->end != PROBE_GOOD)
		return;
	if (fact->as == DEVICE_TEXT)
		*(struct str *)at = text;
	else if (fact->as == DEVICE_RAW)
		*(struct str *)at = (struct str){ p->data, p->n };
	else if (!str_number(str_trim(text), &number))
		return;
	else if (fact->as == DEVICE_UNSIGNED)
		*(unsigned *)at = (unsigned)number;
	else
		*(int64_t *)at = number / (fact->divide ? fact->divide : 1);
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
		for (size_t j = 0; j < n; j++) {
			struct str rest = str_z(facts[j].file), before = str_split(&rest, '$');
			struct str monitor = before.n < strlen(facts[j].file) ? f->monitor : (struct str){ 0 };
			batches[i].probes[j] = (struct probe){ .kind = facts[j].kind,
							       .path = arena_printf(a, STR_FMT "/" STR_FMT STR_FMT STR_FMT,
										    STR_ARG(f->d.sysfs), STR_ARG(before),
										    STR_ARG(monitor), STR_ARG(rest))
									       .p };
		}
	}
	look_run(s, batches, milliseconds);
	for (size_t i = 0; i < s->n; i++)
		for (size_t j = 0; j < batches[i].n; j++)
			set_fact(&s->found[i], &facts[j], &batches[i].probes[j]);
}

/** A path behind those that a list of lines has. */
static void add_path_line(struct search *s, struct str *lines, const char *path)
{
	*lines = arena_printf(&s->to->arena, STR_FMT "%s%s", STR_ARG(*lines), lines->n ? "\n" : "", path);
}

static void found_note_unread(struct search *s, struct unread *u, const struct probe *p)
{
	enum { NAMED = 32 };
	if (probe_unread(p) && u->n++ < NAMED)
		add_path_line(s, &u->paths, p->path);
}

static void look_together(struct search *s, struct probe *probes, size_t n, int milliseconds)
{
	struct probe_batch batch = { .probes = probes, .n = n, .root = s->to->tree, .goes_on = true };
	probe_run_all(&s->to->arena, &batch, 1, milliseconds, &s->to->count);
}

/** Files of a tree wait for nothing: one child looks at those of all devices. */
static void look_in_tree(struct search *s, struct probe_batch *batches, int milliseconds)
{
	size_t all = 0, at = 0;
	for (size_t i = 0; i < s->n; i++)
		all += batches[i].n;
	struct probe *probes = arena_alloc(&s->to->arena, all * sizeof(*probes) + 1);
	for (size_t i = 0; i < s->n; at += batches[i++].n)
		if (batches[i].n)
			memcpy(probes + at, batches[i].probes, batches[i].n * sizeof(*probes));
	look_together(s, probes, all, milliseconds);
	for (size_t i = at = 0; i < s->n; at += batches[i++].n)
		if (batches[i].n)
			memcpy(batches[i].probes, probes + at, batches[i].n * sizeof(*probes));
}

void look_run(struct search *s, struct probe_batch *batches, int milliseconds)
{
	if (s->to->tree)
		look_in_tree(s, batches, milliseconds);
	else
		probe_run_all(&s->to->arena, batches, s->n, milliseconds, &s->to->count);
	for (size_t i = 0; i < s->n; i++) {
		struct device *d = &s->found[i].d;
		if (batches[i].stuck.is)
			d->stuck = batches[i].stuck;
		for (size_t j = 0; j < batches[i].n; j++) {
			const struct probe *p = &batches[i].probes[j];
			if (p->end == PROBE_FAILED && p->error == EACCES)
				add_path_line(s, &d->refused, p->path);
			found_note_unread(s, &d->unread, p);
		}
	}
}

void look_once(struct search *s, struct probe *probes, size_t n, int milliseconds)
{
	look_together(s, probes, n, milliseconds);
	for (size_t i = 0; i < n; i++)
		found_note_unread(s, &s->to->unread, &probes[i]);
}

void look_processes(struct search *s, struct probe *probes, size_t n, int milliseconds)
{
	struct probe_patience *all = s->to->count.patience;
	const int64_t had = all->left < s->for_processes ? all->left : s->for_processes;
	struct probe_patience part = { had, all->tape };
	s->to->count.patience = &part;
	look_together(s, probes, n, milliseconds);
	s->to->count.patience = all;
	all->left -= had - part.left;
	s->for_processes -= had - part.left;
	for (size_t i = 0; i < n; i++)
		found_note_unread(s, &s->to->processes_unread, &probes[i]);
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

// --- The interrupts of the GPUs, as the kernel counts them ---

enum { INTERRUPTS_SIZE = 1 << 20, DEADLINE_MS = 500 };

static const int64_t count_most = INT64_C(1) << 48;

/** ` 94:  0  12  IR-PCI-MSI-0000:03:00.0  0-edge  amdgpu`: a count for each CPU of the first line. An interrupt is a GPU's by its number, or
 * by the name of its controller. */
static void found_count_interrupts(const struct devices *d, struct str text, int64_t *ret)
{
	struct str head = str_split(&text, '\n');
	size_t cpus = 0;
	while (str_word(&head).n)
		cpus++;
	str_each (line, text, '\n') {
		struct str rest = line, number = str_word(&rest);
		if (!str_ends(str_trim(line), S("amdgpu")) || !number.n)
			continue;
		int64_t sum = 0, n;
		for (size_t i = 0; i < cpus; i++)
			sum += str_number(str_word(&rest), &n) && n > 0 && n < count_most ? n : 0;
		for (size_t i = 0; i < d->n; i++)
			if (has_line(d->list[i].irqs, str_cut(number, number.n - 1)) || str_find(line, d->list[i].pci) >= 0)
				ret[i] = (ret[i] < 0 ? 0 : ret[i]) + sum;
	}
}

void devices_interrupts(const struct devices *d, int64_t *ret)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct probe p = { .path = "/proc/interrupts", .size = INTERRUPTS_SIZE };
	struct probe_count unused = { .patience = d->count.patience };
	for (size_t i = 0; i < d->n; i++)
		ret[i] = -1;
	if (d->n && !d->tree) { // a record does not count on
		struct probe_batch batch = { .probes = &p, .n = 1 };
		probe_run_all(&a, &batch, 1, DEADLINE_MS, &unused);
		found_count_interrupts(d, probe_text(&p), ret);
	}
}

bool has_line(struct str text, struct str line)
{
	str_each (one, text, '\n')
		if (str_eq(one, line))
			return true;
	return false;
}

struct str line_behind(struct str text, struct str key)
{
	struct str rest;
	str_each (line, text, '\n')
		if (str_behind(line, key, &rest))
			return rest;
	return (struct str){ 0 };
}

int node_number(struct str name, struct str prefix)
{
	struct str rest;
	int64_t number;
	return str_behind(name, prefix, &rest) && str_number(rest, &number) && number >= 0 && number < CARDS_MOST ?
		       (int)number :
		       -1;
}
