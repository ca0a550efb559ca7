// What the rings of a GPU do that did not move between two looks: a round of more looks tells it.
#include "evidence/silicon/states.h"
#include "session/look.h"

const struct silicon_state *live_ring_states(const struct looking *at, const struct devices *d, struct str gpu, const struct ring_view *views,
					     size_t n, struct arena *a)
{
	struct silicon_round r;
	struct silicon_state *states = arena_alloc(a, (n + 1) * sizeof(*states));
	if (!list_find(views, n, it, it->state == RING_STILL))
		return states; // what moves or has no work needs no verdict
	silicon_round_begin(&r, at->know, d, gpu);
	silicon_round_look(&r, false);
	for (size_t i = 0; i < r.n; i++)
		watch_contents(&r.gpus[i].watch);
	silicon_round_judge(&r);
	for (size_t i = 0; i < n && r.n; i++)
		if (views[i].state == RING_STILL) {
			states[i] = state_of_ring(&r, &r.gpus[0], views[i].ring->name);
			states[i].why = arena_str(a, states[i].why);
		}
	silicon_round_end(&r);
	return states;
}
