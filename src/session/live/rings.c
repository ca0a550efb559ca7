// The rings of GPUs or of a device core: looked at, then written about.
#include "session/look.h"

enum { BETWEEN_LOOKS_MS = 100, PACKETS = 8 };

/** One GPU or device core. */
struct gpu_rings {
	const struct device *device; // NULL: a device core
	struct target *target;
	struct request first; // look, where there are two
	bool twice;           // it was answered
	struct ring_reading reading;
	struct register_places places;
	VEC(struct ring_view) views;
	const struct silicon_state *states; // of each, where it was looked at twice
};

/** A look at the rings of all of them. */
struct rings_look {
	struct looking at;
	const char *const *names; // that were asked for
	size_t nnames;
	struct gpu_rings *list;
	struct rings_seen *seen; // of each
	size_t n;
	struct uh_error *failed; // NULL where all targets answered
	size_t answered;         // targets
	size_t rings;            // that names meant
	const struct devices *devices;
	struct arena arena;
};

static const struct ring *find_ring(const struct request *r, struct str name)
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

/** Looks at the rings of a target, for the second time where there was a first. Fences come last: reading them changes them. */
static enum answer read_target_rings(struct rings_look *l, struct gpu_rings *g)
{
	const struct uh_look_options *o = &l->at.options;
	struct request rings = { .kind = REQUEST_RINGS }, fences = { .kind = REQUEST_FENCES };
	const bool refused = g->first.kind == REQUEST_RINGS && !g->twice;
	const enum answer answer = refused ? g->first.answer : target_ask(g->target, &rings);
	if (answer != ANSWER_GIVEN)
		return answer;
	for (size_t i = 0; i < rings.n; i++) {
		struct ring_view v;
		bool wanted = !l->nnames;
		for (size_t n = 0; n < l->nnames && !wanted; n++)
			wanted = str_like(str_z(l->names[n]), rings.rings[i].name);
		if (!wanted)
			continue;
		ring_look(&v, &rings.rings[i], g->twice ? find_ring(&g->first, rings.rings[i].name) : NULL);
		v.language = packet_language_of(l->at.know, v.ring->name);
		if (l->nnames || o->all || v.state != RING_IDLE)
			ring_read_packets(&g->reading, &v);
		vec_push(&g->views, v);
	}
	if (g->twice)
		g->states = live_ring_states(&l->at, l->devices, g->device->pci, g->views.data, g->views.len, &l->arena);
	if (o->fences)
		target_ask(g->target, &fences);
	for (size_t i = 0; i < g->views.len && fences.n; i++)
		g->views.data[i].fence = fence_of(&fences, g->views.data[i].ring->name);
	return answer;
}

/** What could not be read is told once, and does not keep the others from being shown. */
static void look_at_rings_of(struct rings_look *l, size_t i)
{
	const struct uh_look_options *o = &l->at.options;
	struct gpu_rings *g = &l->list[i];
	struct rings_seen *s = &l->seen[i];
	g->places = (struct register_places){ .know = l->at.know, .gfx = s->gfx };
	g->places.device = g->device ? g->device : devcoredump_device(g->target);
	g->reading = (struct ring_reading){ .know = l->at.know,
					    .target = g->target,
					    .gfx = s->gfx,
					    .places = &g->places,
					    .packets = o->packets ? o->packets : PACKETS,
					    .all = o->all };
	const enum answer answer = read_target_rings(l, g);
	if (answer != ANSWER_GIVEN) {
		s->why_not = g->device ? live_why_not(&l->arena, g->target, answer) : S("it has none");
		live_cannot(&l->failed, &l->at.teller, s->target, "rings", s->why_not);
	}
	s->watched_ms = g->twice ? BETWEEN_LOOKS_MS : 0;
	s->views = g->views.data;
	s->states = g->states;
	s->n = g->views.len;
	l->answered += answer == ANSWER_GIVEN;
	l->rings += s->n;
	look_tell(&l->at.teller, g->target->problems(g->target));
}

static void make_rings_room(struct rings_look *l, size_t n)
{
	l->n = n;
	l->list = arena_alloc(&l->arena, n * sizeof(*l->list));
	l->seen = arena_alloc(&l->arena, n * sizeof(*l->seen));
}

static struct uh_error *read_dump_rings(struct rings_look *l)
{
	struct target *t = NULL;
	struct str gfx;
	struct uh_error *err = look_open_dump(&l->at, &t, &gfx);
	if (err)
		return err;
	make_rings_room(l, 1);
	l->list->target = t;
	*l->seen = (struct rings_seen){ .target = t->name,
					.gfx = gfx,
					.title = arena_printf(&l->arena, STR_FMT "%s" STR_FMT, STR_ARG(t->name),
							      gfx.n ? ", " : "", STR_ARG(gfx)) };
	look_at_rings_of(l, 0);
	return NULL;
}

/** Each GPU is looked at twice, unless one look was asked for. Between the looks at all GPUs there is one pause. */
static void read_device_rings(struct rings_look *l, const struct live *live)
{
	const struct uh_look_options *o = &l->at.options;
	make_rings_room(l, live->n);
	l->devices = &live->found.devices;
	for (size_t i = 0; i < l->n; i++) {
		const struct device *d = live->list[i];
		struct gpu_rings *g = &l->list[i];
		live_progress(live, o, i);
		*g = (struct gpu_rings){ .device = d, .target = target_device(l->at.know, d) };
		l->seen[i] = (struct rings_seen){ .target = d->pci, .gfx = d->gfx, .title = live_title(&l->arena, d) };
		if (o->looks == 1)
			continue;
		g->first = (struct request){ .kind = REQUEST_RINGS };
		g->twice = target_ask(g->target, &g->first) == ANSWER_GIVEN;
	}
	live_progress(live, o, live->n);
	if (o->looks != 1)
		tape_pause(live->found.tape, BETWEEN_LOOKS_MS);
	for (size_t i = 0; i < l->n; i++)
		look_at_rings_of(l, i);
	live_tell_root(live, &l->at.teller);
}

static void rings_look_free(struct rings_look *l)
{
	for (size_t i = 0; i < l->n; i++) {
		struct gpu_rings *g = &l->list[i];
		for (size_t v = 0; v < g->views.len; v++)
			vec_free(&g->views.data[v].packets);
		vec_free(&g->views);
		arena_free(&g->reading.arena);
		register_places_free(&g->places);
		target_close(g->target);
	}
	arena_free(&l->arena);
	looking_end(&l->at);
}

struct uh_error *uh_look_rings(const struct uh_look_options *o, const char *const *names, size_t n, FILE *out,
			       uh_problem_fn *problem, void *ctx)
{
	_cleanup_(live_free) struct live live = { 0 };
	_cleanup_(rings_look_free) struct rings_look l = { .names = names, .nnames = n };
	struct uh_error *err = looking_begin(&l.at, o, out, (struct teller){ problem, ctx });
	o = &l.at.options;
	if (!err && o->ntargets)
		err = read_dump_rings(&l);
	else if (!err)
		err = live_find(&l.at, o->fences ? "fences" : "rings", false, &live);
	if (err)
		return err;
	if (!o->ntargets)
		read_device_rings(&l, &live);
	report_rings(l.seen, l.n, n, o, out);
	err = live_could(l.failed, &l.at.teller, l.answered);
	if (!err && n && !l.rings)
		err = uh_error_new("there is no ring '%s'%s", names[0], n > 1 ? ", nor the others" : "");
	return err;
}
