// The rings of GPUs or of a device core: looked at, then written about.
#include <stdlib.h>

#include "base/cleanup.h"
#include "report/live/rings.h"
#include "session/live.h"
#include "session/machine.h"
#include "source/file.h"

enum { BETWEEN_LOOKS_MS = 100, PACKETS = 8 };

/** One GPU or device core. */
struct gpu_rings {
	const struct device *device; // NULL: a device core
	struct target *target;
	struct request first; // look, where there are two
	bool twice;           // it was answered
	struct ring_reading reading;
	VEC(struct ring_view) views;
};

/** A look at the rings of all of them. */
struct rings_look {
	const struct know *know;
	const struct uh_look_options *options;
	const char *const *names;
	size_t nnames;
	const struct teller *teller;
	struct gpu_rings *list;
	struct rings_seen *seen; // of each
	size_t n;
	struct uh_error *failed; // NULL where all targets answered
	size_t answered;         // targets
	size_t rings;            // that names meant
	struct arena arena;
};

static bool wanted(const char *const *names, size_t n, struct str ring)
{
	for (size_t i = 0; i < n; i++)
		if (str_like(str_z(names[i]), ring))
			return true;
	return !n;
}

static const struct ring *ring_named(const struct request *r, struct str name)
{
	for (size_t i = 0; i < r->n; i++)
		if (str_eq(r->rings[i].name, name))
			return &r->rings[i];
	return NULL;
}

static const struct ring_fence *fence_of(const struct request *r, struct str ring)
{
	for (size_t i = 0; i < r->n; i++)
		if (str_eq(r->fences[i].ring, ring))
			return &r->fences[i];
	return NULL;
}

/** The first of two looks at a GPU. */
static void look_first(struct gpu_rings *g)
{
	g->first = (struct request){ .kind = REQUEST_RINGS };
	g->twice = target_ask(g->target, &g->first) == ANSWER_GIVEN;
}

static enum answer look_again(struct gpu_rings *g, struct request *ret)
{
	*ret = (struct request){ .kind = REQUEST_RINGS };
	if (g->first.kind == REQUEST_RINGS && !g->twice)
		return g->first.answer;
	return target_ask(g->target, ret);
}

/** Looks at the rings of a target, for the second time where there was a first. Fences come last: reading them changes them. */
static enum answer read_rings(struct rings_look *l, struct gpu_rings *g)
{
	const struct uh_look_options *o = l->options;
	struct request rings, fences = { .kind = REQUEST_FENCES };
	const enum answer answer = look_again(g, &rings);
	if (answer != ANSWER_GIVEN)
		return answer;
	for (size_t i = 0; i < rings.n; i++) {
		struct ring_view v;
		if (!wanted(l->names, l->nnames, rings.rings[i].name))
			continue;
		ring_look(&v, &rings.rings[i], g->twice ? ring_named(&g->first, rings.rings[i].name) : NULL);
		v.language = packet_language_of(l->know, v.ring->name);
		if (l->nnames || o->all || v.state != RING_IDLE)
			ring_read_packets(&g->reading, &v);
		vec_push(&g->views, v);
	}
	if (o->fences)
		target_ask(g->target, &fences);
	for (size_t i = 0; i < g->views.len && fences.n; i++)
		g->views.data[i].fence = fence_of(&fences, g->views.data[i].ring->name);
	return answer;
}

static void read_target(struct rings_look *l, size_t i)
{
	struct gpu_rings *g = &l->list[i];
	struct rings_seen *s = &l->seen[i];
	g->reading = (struct ring_reading){ .know = l->know,
					    .target = g->target,
					    .gfx = s->gfx,
					    .packets = l->options->packets ? l->options->packets : PACKETS,
					    .all = l->options->all };
	const enum answer answer = read_rings(l, g);
	if (answer != ANSWER_GIVEN) {
		s->why_not = g->device ? live_why_not(&l->arena, g->target, answer) : S("it has none");
		live_cannot(&l->failed, l->teller, s->target, "rings", s->why_not);
	}
	s->watched_ms = g->twice ? BETWEEN_LOOKS_MS : 0;
	s->views = g->views.data;
	s->n = g->views.len;
	l->answered += answer == ANSWER_GIVEN;
	l->rings += s->n;
	look_tell(l->teller, g->target->problems(g->target));
}

static void make_room(struct rings_look *l, size_t n)
{
	l->n = n;
	l->list = arena_alloc(&l->arena, n * sizeof(*l->list));
	l->seen = arena_alloc(&l->arena, n * sizeof(*l->seen));
}

static struct uh_error *read_dump(struct rings_look *l)
{
	struct file f;
	struct target *t = NULL;
	struct request agents = { .kind = REQUEST_AGENTS };
	if (l->options->ntargets > 1)
		return uh_error_new("give one device core at a time");
	struct uh_error *err = file_open(l->options->targets[0], &f);
	if (err)
		return err;
	err = target_devcoredump(l->know, &f, &t);
	file_close(&f);
	if (err)
		return err;
	make_room(l, 1);
	l->list->target = t;
	target_ask(t, &agents);
	const struct str gfx = agents.n ? agents.agents[0].gfx : (struct str){ 0 };
	l->seen->target = t->name;
	l->seen->gfx = gfx;
	l->seen->title = arena_printf(&l->arena, STR_FMT "%s" STR_FMT, STR_ARG(t->name), gfx.n ? ", " : "", STR_ARG(gfx));
	read_target(l, 0);
	return NULL;
}

/** Between the looks at all GPUs there is one pause. */
static void read_devices(struct rings_look *l, const struct live *live)
{
	const struct uh_look_options *o = l->options;
	make_room(l, live->n);
	for (size_t i = 0; i < l->n; i++) {
		const struct device *d = live->list[i];
		live_progress(live, o, i);
		l->list[i] = (struct gpu_rings){ .device = d, .target = target_device(l->know, d) };
		l->seen[i] = (struct rings_seen){ .target = d->pci, .gfx = d->gfx, .title = live_title(&l->arena, d) };
		if (o->looks != 1)
			look_first(&l->list[i]);
	}
	live_progress(live, o, live->n);
	if (o->looks != 1)
		tape_pause(live->found.tape, BETWEEN_LOOKS_MS);
	for (size_t i = 0; i < l->n; i++)
		read_target(l, i);
	live_tell_root(live, l->teller);
}

static struct uh_error *rings_could(struct rings_look *l)
{
	struct uh_error *err = live_could(l->failed, l->teller, l->answered);
	if (!err && l->nnames && !l->rings)
		err = uh_error_new("there is no ring '%s'%s", l->names[0], l->nnames > 1 ? ", nor the others" : "");
	return err;
}

static void rings_look_free(struct rings_look *l)
{
	for (size_t i = 0; i < l->n; i++) {
		struct gpu_rings *g = &l->list[i];
		for (size_t v = 0; v < g->views.len; v++)
			vec_free(&g->views.data[v].packets);
		vec_free(&g->views);
		arena_free(&g->reading.arena);
		target_close(g->target);
	}
	arena_free(&l->arena);
}

struct uh_error *uh_look_rings(const struct uh_look_options *o, const char *const *names, size_t n, FILE *out,
			       uh_problem_fn *problem, void *ctx)
{
	struct teller teller = { problem, ctx };
	struct machine_options at;
	struct uh_error *err = machine_resolve(o, &at);
	if (err)
		return err;
	o = &at.options;
	struct know *k = look_knowledge_of(o->machine, &teller);
	struct live live = { 0 };
	struct rings_look l = { .know = k, .options = o, .names = names, .nnames = n, .teller = &teller };
	err = o->ntargets ? NULL : live_find(k, o, o->fences ? "fences" : "rings", false, &live);
	if (!err && o->ntargets)
		err = read_dump(&l);
	else if (!err)
		read_devices(&l, &live);
	if (!err) {
		report_rings(l.seen, l.n, n, o, out);
		err = rings_could(&l);
	}
	rings_look_free(&l);
	live_free(&live);
	look_knowledge_free(o->machine, k);
	machine_options_free(&at);
	return err;
}
