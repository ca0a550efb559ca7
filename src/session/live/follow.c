// Rings of GPUs, followed: what the driver writes, and where the engine is. Only what lies in memory is read, so that a GPU may fall asleep
// meanwhile. One whose files did not return once is not asked again.
#include <time.h>

#include "base/print.h"
#include "gpu/ring_follow.h"
#include "session/look.h"

enum { FIRST_PACKETS = 8, RINGS_FOLLOWED = 256, STILL_SECONDS = 2 };

struct followed_ring {
	struct ring_follower follower;
	int64_t moved_at; // milliseconds
	int64_t told;     // for how many seconds it has been told to stand
};

struct followed_gpu {
	const struct device *device;
	bool asleep, lost;
	struct register_places places;
	struct followed_ring *rings;
	size_t n;
};

struct follow {
	struct looking at;
	struct live live;
	const char *const *names;
	size_t nnames;
	struct followed_gpu *gpus;
	size_t n;
	unsigned first; // packets of the first look
	struct arena arena;
};

/** One look at one ring, for what it tells. */
struct follow_telling {
	struct follow *l;
	struct followed_gpu *gpu;
	struct followed_ring *ring;
	int64_t now;
};

static struct followed followed_line(const struct follow *l, const struct followed_gpu *g, enum followed_what what)
{
	return (struct followed){ .what = what, .time = (int64_t)time(NULL), .target = g->device->pci, .several = l->n > 1 };
}

static void write_followed(struct follow *l, const struct followed *f) { report_followed(f, &l->at.options, l->at.out); }

static void tell_followed(void *ctx, const struct ring_follower *r, const struct follow_event *e)
{
	static const enum followed_what whats[] = { [FOLLOW_PACKET] = FOLLOWED_PACKET,
						    [FOLLOW_POSITION] = FOLLOWED_POSITION,
						    [FOLLOW_STILL] = FOLLOWED_STILL,
						    [FOLLOW_OVERWRITTEN] = FOLLOWED_OVERWRITTEN };
	const struct follow_telling *t = ctx;
	struct followed f = followed_line(t->l, t->gpu, whats[e->what]);
	f.ring = r->name;
	f.packet = e->packet;
	f.positioned = true;
	f.rptr = e->rptr;
	f.wptr = e->wptr;
	f.pending = e->pending;
	f.reached_known = r->reached_known;
	f.emitted_known = r->emitted_known;
	f.reached = r->reached;
	f.emitted = r->emitted;
	const int64_t still = (t->now - t->ring->moved_at) / 1000;
	if (e->what == FOLLOW_STILL) {
		// The longer it stands, the more seldom it is told.
		if (still < STILL_SECONDS || still < 2 * t->ring->told)
			return;
		t->ring->told = f.seconds = still;
	} else if (e->what == FOLLOW_POSITION) {
		t->ring->moved_at = t->now;
		t->ring->told = 0;
	}
	write_followed(t->l, &f);
}

static struct followed_ring *ring_followed(struct follow *l, struct followed_gpu *g, struct str name)
{
	struct followed_ring *r = list_find(g->rings, g->n, it, str_eq(it->follower.name, name));
	if (r || g->n == RINGS_FOLLOWED)
		return r;
	r = &g->rings[g->n++];
	r->follower.name = arena_str(&l->arena, name);
	return r;
}

static bool ring_wanted(const struct follow *l, struct str name)
{
	bool wanted = !l->nnames;
	for (size_t i = 0; i < l->nnames && !wanted; i++)
		wanted = str_like(str_z(l->names[i]), name);
	return wanted;
}

/** As a phrase; without another look at the GPU. */
static struct str follow_why_not(struct follow *l, struct target *t)
{
	const struct probe_stuck *stuck = target_stuck(t);
	return stuck ? arena_printf(&l->arena, "reading " STR_FMT " did not return", STR_ARG(stuck->at)) :
	       target_device_of(t)->debugfs.n ? S("its rings cannot be read") :
						S("debugfs cannot be read: that needs root");
}

/** A target for each look: what it reads does not pile up. */
static void follow_gpu(struct follow *l, struct followed_gpu *g)
{
	_cleanup_target_ struct target *t = target_device(l->at.know, g->device);
	struct request r = { .kind = REQUEST_RINGS, .light = true };
	const enum answer answer = target_ask(t, &r);
	const bool asleep = answer != ANSWER_GIVEN && target_asleep(t);
	struct followed f = followed_line(l, g, asleep ? FOLLOWED_ASLEEP : FOLLOWED_LOST);
	if (answer != ANSWER_GIVEN && !asleep) {
		f.why_not = follow_why_not(l, t);
		g->lost = true;
		write_followed(l, &f);
	} else if (asleep && !g->asleep) {
		write_followed(l, &f);
	}
	g->asleep = asleep;
	for (size_t i = 0; answer == ANSWER_GIVEN && i < r.n; i++) {
		const struct ring *now = &r.rings[i];
		struct followed_ring *ring = ring_wanted(l, now->name) ? ring_followed(l, g, now->name) : NULL;
		if (!ring)
			continue;
		const struct packet_stream like = {
			l->at.know, packet_language_of(l->at.know, now->name), g->device->gfx, NULL, 0, &g->places
		};
		struct follow_telling telling = { l, g, ring, tape_now(l->live.found.tape) };
		ring_follow(&ring->follower, now, &like, l->first, tell_followed, &telling);
	}
}

static void follow_free(struct follow *l)
{
	for (size_t i = 0; i < l->n; i++) {
		for (size_t k = 0; k < l->gpus[i].n; k++)
			ring_follower_free(&l->gpus[i].rings[k].follower);
		register_places_free(&l->gpus[i].places);
	}
	live_free(&l->live);
	arena_free(&l->arena);
	looking_end(&l->at);
}

struct uh_error *uh_follow_rings(const struct uh_look_options *o, double seconds, const char *const *names, size_t n, FILE *out,
				 uh_problem_fn *problem, void *ctx)
{
	_cleanup_(follow_free) struct follow l = { .names = names, .nnames = n };
	struct uh_error *err = looking_begin(&l.at, o, out, (struct teller){ problem, ctx });
	if (!err)
		err = live_find(&l.at, "follow", false, &l.live);
	if (err)
		return err;
	l.first = l.at.options.packets ? l.at.options.packets : FIRST_PACKETS;
	l.gpus = arena_alloc(&l.arena, l.live.n * sizeof(*l.gpus));
	for (l.n = 0; l.n < l.live.n; l.n++)
		l.gpus[l.n] =
			(struct followed_gpu){ .device = l.live.list[l.n],
					       .places = { .know = l.at.know, .device = l.live.list[l.n] },
					       .rings = arena_alloc(&l.arena, RINGS_FOLLOWED * sizeof(struct followed_ring)) };
	live_tell_root(&l.live, &l.at.teller);
	for (size_t look = 1;; look++) {
		size_t lost = 0, rings = 0;
		for (size_t i = 0; i < l.n; i++) {
			if (!l.gpus[i].lost)
				follow_gpu(&l, &l.gpus[i]);
			lost += l.gpus[i].lost;
			rings += l.gpus[i].n + l.gpus[i].asleep;
		}
		if (lost == l.n)
			return uh_error_new("no GPU is left whose rings can be followed");
		if (!rings && n)
			return uh_error_new(
				"there is no ring '%s' that can be followed; those of video engines are in registers",
				names[0]);
		if (!print_arrived(out) || look == l.at.options.looks)
			return NULL;
		tape_pause(l.live.found.tape, (int)(seconds * 1000));
	}
}
