// unhang top: each round finds the GPUs anew, reads what they measure and how far queues are, and compares both with the round before.
#include <stdlib.h>
#include <time.h>

#include "base/child.h"
#include "evidence/silicon/user_queues.h"
#include "gpu/metrics.h"
#include "gpu/packet.h"
#include "report/live/top.h"
#include "session/look.h"
#include "store/store.h"
#include "watch/watch.h"

enum { FIRST_MS = 200, LIMITS_MS = 500, STORE_S = 10, NAMES_MOST = 4096, TABLE_MOST = 8192 };

/** How far a queue was. */
struct top_mark {
	int64_t pid;
	uint64_t client; // 0: of KFD; else the client's number and one
	uint32_t id;
	uint64_t read;
};

struct uh_top {
	struct know *know;
	struct str gpu;
	const char *state_dir;
	struct arena names;
	struct devices before; // of the round before: its tables
	VEC(struct top_mark) marks;
	int64_t marked; // ms: when they were taken; 0: never
	struct stored_list stored;
	int64_t listed; // seconds since 1970
};

struct uh_top *uh_top_new(const char *gpu, const char *state_dir, uh_problem_fn *problem, void *ctx)
{
	struct uh_top *t = mem_alloc(sizeof(*t));
	t->know = look_knowledge((struct teller){ problem, ctx });
	if (gpu)
		t->gpu = arena_str(&t->names, str_z(gpu));
	t->state_dir = arena_z(&t->names, str_z(state_dir ? state_dir : STATE_DIR));
	return t;
}

void uh_top_free(struct uh_top *t)
{
	if (!t)
		return;
	devices_free(&t->before);
	vec_free(&t->marks);
	stored_list_free(&t->stored);
	arena_free(&t->names);
	know_free(t->know);
	free(t);
}

// --- one round ---

struct top_round {
	struct arena arena;
	struct devices devices;
	struct user_queues queues;
	struct top_gpu *gpus;
	size_t n;
	struct probe_count count;
};

static struct str top_state(const struct device *d)
{
	if (d->off_bus)
		return S("off the bus");
	if (d->stuck.is)
		return S("its driver does not answer");
	if (!d->driver.n)
		return d->driver_known ? S("no driver") : S("its driver is not known");
	return device_awake(d) ? S("active") : S("asleep");
}

/** Where it acts on its temperature. The name of its sensors, hwmonN, is not the same at each start. */
static void read_limits(struct top_round *r)
{
	struct probe_batch *lists = arena_alloc(&r->arena, r->n * sizeof(*lists) + 1);
	struct probe_batch *limits = arena_alloc(&r->arena, r->n * sizeof(*limits) + 1);
	for (size_t i = 0; i < r->n; i++) {
		const struct device *d = r->gpus[i].device;
		if (!str_is(r->gpus[i].state, "active"))
			continue;
		lists[i] = (struct probe_batch){ .probes = arena_alloc(&r->arena, sizeof(struct probe)), .n = 1 };
		*lists[i].probes = (struct probe){ .kind = PROBE_LIST,
						   .path = arena_printf(&r->arena, STR_FMT "/hwmon", STR_ARG(d->sysfs)).p,
						   .size = NAMES_MOST };
	}
	probe_run_all(&r->arena, lists, r->n, LIMITS_MS, &r->count);
	for (size_t i = 0; i < r->n; i++) {
		struct str names = lists[i].n ? probe_text(lists[i].probes) : (struct str){ 0 };
		const struct str name = str_split(&names, '\n');
		if (!name.n)
			continue;
		limits[i] = (struct probe_batch){ .probes = arena_alloc(&r->arena, 2 * sizeof(struct probe)), .n = 2 };
		for (size_t k = 0; k < 2; k++)
			limits[i].probes[k] = (struct probe){ .kind = PROBE_FILE,
							      .path = arena_printf(&r->arena,
										   STR_FMT "/hwmon/" STR_FMT "/temp%zu_crit",
										   STR_ARG(r->gpus[i].device->sysfs),
										   STR_ARG(name), k + 1)
									      .p };
	}
	probe_run_all(&r->arena, limits, r->n, LIMITS_MS, &r->count);
	for (size_t i = 0; i < r->n; i++)
		for (size_t k = limits[i].n; k-- > 0;) { // the edge's, else the junction's: as devices_find() takes the temperature
			int64_t most;
			if (str_number(str_trim(probe_text(&limits[i].probes[k])), &most) && most > 0)
				r->gpus[i].temperature_most = most;
		}
}

static const struct device *device_before(const struct uh_top *t, const struct device *d)
{
	return list_find(t->before.list, t->before.n, it, str_eq(it->pci, d->pci));
}

/** Whether a table only counts what slowed its GPU down, so that one does not tell what does now. */
static bool wants_second(const struct uh_top *t, const struct top_gpu *g)
{
	struct metrics now;
	return str_is(g->state, "active") && !device_before(t, g->device) && metrics_of(t->know, g->device->metrics, &now) &&
	       metrics_counts_throttle(&now);
}

/** Reads these tables once more, in the first round: what it shows is complete, also where there is no second one. */
static struct probe_batch *read_second(const struct uh_top *t, struct top_round *r)
{
	struct probe_batch *again = arena_alloc(&r->arena, r->n * sizeof(*again) + 1);
	bool any = false;
	for (size_t i = 0; i < r->n; i++) {
		if (!wants_second(t, &r->gpus[i]))
			continue;
		again[i] = (struct probe_batch){ .probes = arena_alloc(&r->arena, sizeof(struct probe)), .n = 1 };
		*again[i].probes = (struct probe){
			.path = arena_printf(&r->arena, STR_FMT "/gpu_metrics", STR_ARG(r->gpus[i].device->sysfs)).p, .size = TABLE_MOST
		};
		any = true;
	}
	if (any) {
		tape_pause(NULL, FIRST_MS);
		probe_run_all(&r->arena, again, r->n, LIMITS_MS, &r->count);
	}
	return again;
}

static void read_tables(const struct uh_top *t, struct top_round *r)
{
	const struct probe_batch *again = read_second(t, r);
	for (size_t i = 0; i < r->n; i++) {
		struct top_gpu *g = &r->gpus[i];
		struct metrics now, older = { 0 };
		struct metrics_cause causes[METRICS_CAUSES];
		const struct device *before = device_before(t, g->device);
		uint64_t clock;
		if (!metrics_of(t->know, g->device->metrics, &now))
			continue;
		if (before)
			metrics_of(t->know, before->metrics, &older);
		if (again[i].n && again[i].probes->end == PROBE_GOOD) {
			older = now;
			if (!metrics_of(t->know, (struct str){ again[i].probes->data, again[i].probes->n }, &now))
				now = older;
		}
		if (metrics_value(&now, S("current_uclk"), 0, &clock))
			g->memory_clock = (int64_t)clock;
		// Where a table only counts, one is not enough.
		g->throttle_known = now.layout->status.n ||
				    (now.layout->residencies && (older.layout || !metrics_counts_throttle(&now)));
		g->throttle = metrics_throttle_text(&r->arena, causes, metrics_throttle(&older, &now, causes));
	}
}

static const struct top_mark *mark_of(const struct uh_top *t, const struct top_mark *m)
{
	return list_find(t->marks.data, t->marks.len, it, it->pid == m->pid && it->client == m->client && it->id == m->id);
}

static size_t read_top_queues(struct uh_top *t, struct top_round *r, const struct top_queue **ret)
{
	const struct user_queues *q = &r->queues;
	struct top_queue *list = arena_alloc(&r->arena, q->n * sizeof(*list) + 1);
	VEC(struct top_mark) marks = { 0 };
	size_t n = 0;
	for (size_t i = 0; i < q->n; i++) {
		const struct user_queue *u = &q->list[i];
		const struct top_mark m = { q->processes[u->process].pid, u->client ? u->client->client + 1 : 0, u->id,
					    u->read };
		const struct top_mark *before = mark_of(t, &m);
		vec_push(&marks, m);
		if (t->gpu.n && !list_find(r->gpus, r->n, it, str_eq(it->device->pci, u->gpu)))
			continue;
		list[n++] = (struct top_queue){ .gpu = u->gpu,
						.process = q->processes[u->process].name,
						.pid = m.pid,
						.id = u->id,
						.client = u->client,
						.unit = u->packets ? "packets" :
							u->client && u->client->queue.type == QUEUE_PM4 ? "words" :
													  "bytes",
						.waiting = u->pending,
						.compared = before,
						.done = before ? u->read - before->read : 0 };
	}
	vec_free(&t->marks);
	t->marks.data = marks.data;
	t->marks.len = marks.len;
	t->marks.cap = marks.cap;
	*ret = list;
	return n;
}

static const struct stored *top_newest_incident(struct uh_top *t, int64_t now)
{
	if (!t->listed || now - t->listed >= STORE_S) {
		stored_list_free(&t->stored);
		t->stored = (struct stored_list){ 0 };
		uh_error_free(store_list(t->state_dir, &t->stored));
		t->listed = now;
	}
	return t->stored.list.len ? t->stored.list.data[0] : NULL;
}

static struct uh_error *find_top_gpus(const struct uh_top *t, struct top_round *r)
{
	struct devices *d = &r->devices;
	devices_find(t->know, d);
	const struct device *named = t->gpu.n ? devices_named(d, t->gpu) : NULL;
	if (t->gpu.n && !named)
		return uh_error_new("there is no GPU " STR_FMT "; unhang top without --gpu shows all", STR_ARG(t->gpu));
	if (!d->n)
		return uh_error_new(d->unread.n ? "files of the system did not answer, so the GPUs are unknown" :
						  "this machine has no AMD GPU");
	r->n = named ? 1 : d->n;
	r->gpus = arena_alloc(&r->arena, r->n * sizeof(*r->gpus));
	for (size_t i = 0; i < r->n; i++) {
		const struct device *g = named ? named : &d->list[i];
		r->gpus[i] = (struct top_gpu){ g, top_state(g), -1, -1, false, { 0 } };
	}
	r->count.patience = d->count.patience;
	return NULL;
}

static void top_round_free(struct top_round *r)
{
	user_queues_free(&r->queues);
	devices_free(&r->devices);
	arena_free(&r->arena);
}

struct uh_error *uh_top_write(struct uh_top *t, const struct uh_top_style *style, FILE *out)
{
	_cleanup_(top_round_free) struct top_round r = { 0 };
	struct top_seen seen = { .now = time(NULL) };
	struct uh_error *err = find_top_gpus(t, &r);
	if (err)
		return err;
	read_limits(&r);
	read_tables(t, &r);
	user_queues_look(&r.queues, t->know, &r.devices);
	if (!t->marked && r.queues.n) {
		read_top_queues(t, &r, &seen.queues);
		t->marked = now_ms();
		tape_pause(NULL, FIRST_MS);
		user_queues_look(&r.queues, t->know, &r.devices);
	}
	seen.watched_ms = t->marked ? now_ms() - t->marked : 0;
	seen.nqueues = read_top_queues(t, &r, &seen.queues);
	t->marked = now_ms();
	seen.kernel = r.devices.kernel;
	seen.root = r.devices.root;
	seen.gpus = r.gpus;
	seen.ngpus = r.n;
	seen.incident = top_newest_incident(t, seen.now);
	report_top(&seen, style, out);
	devices_free(&t->before);
	t->before = r.devices;
	r.devices = (struct devices){ 0 };
	return NULL;
}
