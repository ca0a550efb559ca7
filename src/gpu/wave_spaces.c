// Code behind waves: that of the process whose queue they are of, or else what the page tables of their VMID lead to.
#include "gpu/wave_spaces.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "gpu/find/clients.h"
#include "gpu/memory/vm.h"

enum { XCCS_MOST = 16 };

struct wave_space *wave_space_of(struct wave_spaces *s, const struct wave_slot *of, struct target *process)
{
	const bool graphics = !of->me;
	for (size_t i = 0; i < s->list.len; i++) {
		struct wave_space *w = s->list.data[i];
		if (w->xcc == of->xcc && w->vmid == of->vmid && w->graphics == graphics && w->process == process)
			return w;
	}
	struct wave_space *w = arena_alloc(&s->arena, sizeof(*w));
	*w = (struct wave_space){ .xcc = of->xcc, .vmid = of->vmid, .graphics = graphics, .process = process };
	if (process)
		target_code_open(&w->code, process, s->places);
	vec_push(&s->list, w);
	return w;
}

void wave_spaces_free(struct wave_spaces *s)
{
	for (size_t i = 0; i < s->list.len; i++) {
		struct wave_space *w = s->list.data[i];
		if (w->process)
			target_code_close(&w->code);
		if (w->memory)
			target_code_close(&w->seen);
		target_close(w->memory);
	}
	vec_free(&s->list);
	arena_free(&s->arena);
}

// --- as the GPU sees it ---

static struct address_space space_as_it_is(struct wave_spaces *s, const struct wave_space *w)
{
	struct address_space spaces[XCCS_MOST];
	const size_t n = target_spaces(s->gpu, w->vmid, spaces, XCCS_MOST);
	return w->xcc < n ? spaces[w->xcc] : (struct address_space){ .answer = ANSWER_ABSENT };
}

static bool still_the_same(struct wave_spaces *s, const struct wave_space *w)
{
	const struct address_space now = space_as_it_is(s, w), *before = &w->before;
	return now.answer == ANSWER_GIVEN && now.root == before->root && now.pasid_known == before->pasid_known &&
	       now.pasid == before->pasid;
}

/** Those that the buffers set which the rings run, and the queues of the client whose page tables the VMID has. */
static void find_shaders(struct wave_spaces *s, struct wave_space *w)
{
	const struct client_queues *c = s->clients;
	w->nshaders = w->xcc ? 0 : shaders_of_rings(&s->arena, s->know, s->gpu, w->vmid, &w->shaders);
	for (size_t i = 0; c && i < c->n && !w->nshaders; i++)
		if (c->list[i].device == target_device_of(s->gpu) && c->list[i].tables_known &&
		    c->list[i].tables.root == w->before.root)
			w->nshaders = shaders_of_client(&s->arena, s->know, s->gpu, &c->list[i], &w->shaders);
	struct code_symbol *starts = arena_alloc(&s->arena, (w->nshaders + 1) * sizeof(*starts));
	for (size_t i = 0; i < w->nshaders; i++)
		starts[i] = (struct code_symbol){ .name = w->shaders[i].stage, .address = w->shaders[i].address };
	w->seen.starts = starts;
	w->seen.nstarts = w->nshaders;
}

/** false: it cannot be had, or the VMID has no tables. */
static bool open_memory(struct wave_spaces *s, struct wave_space *w)
{
	if (w->memory)
		return w->before.root;
	w->before = space_as_it_is(s, w);
	if (w->before.answer != ANSWER_GIVEN)
		w->before.root = 0;
	w->memory = target_vmid(s->gpu, HUB_GFX, w->xcc, w->vmid && w->before.root ? w->vmid : VM_IDS);
	target_code_open(&w->seen, w->memory, s->places);
	w->seen.bare_gfx = target_device_of(s->gpu)->gfx;
	w->seen.bare_only = w->graphics;
	if (w->before.root)
		find_shaders(s, w);
	return w->before.root;
}

// --- what is at a pc ---

bool wave_space_where(struct wave_spaces *s, struct wave_space *w, const uint64_t *pcs, size_t n, int context,
		      const struct where **ret)
{
	static const struct where nothing = { 0 };
	_cleanup_free_ uint64_t *left = mem_alloc(n * sizeof(*left) + 1);
	_cleanup_free_ size_t *of = mem_alloc(n * sizeof(*of) + 1);
	size_t k = 0;
	const struct where **found = w->process ? target_code_pcs(&w->code, pcs, n, context) : NULL;
	for (size_t i = 0; i < n; i++) {
		ret[i] = found ? found[i] : &nothing;
		if (!ret[i]->in) {
			of[k] = i;
			left[k++] = pcs[i];
		}
	}
	if (!k || !open_memory(s, w))
		return true;
	found = target_code_pcs(&w->seen, left, k, context);
	const bool same = still_the_same(s, w);
	for (size_t i = 0; i < k && same; i++)
		ret[of[i]] = found[i];
	return same;
}

struct str wave_space_kernel(struct wave_space *s, const struct wave *w, const struct where *at)
{
	if (s->process && w->dispatched)
		return target_code_kernel_name(&s->code, w, at);
	return at->function && at->function->kernel ? at->name : (struct str){ 0 };
}

const struct shader_start *wave_space_shader(const struct wave_space *s, uint64_t pc)
{
	const size_t before = sorted_upto(s->shaders, s->nshaders, address, pc);
	return before && pc - s->shaders[before - 1].address < CODE_FUNCTION_MOST ? &s->shaders[before - 1] : NULL;
}

bool wave_space_contents(struct wave_spaces *s, struct wave_space *w, uint64_t address, void *to, size_t size)
{
	if (w->process && target_contents(w->process, address, to, size))
		return true;
	if (!open_memory(s, w))
		return false;
	struct request r = { .kind = REQUEST_MEMORY,
			     .address = address,
			     .size = size,
			     .to = to,
			     .vmid = w->vmid,
			     .hub = HUB_GFX,
			     .hub_instance = w->xcc,
			     .contents = true };
	return target_ask(s->gpu, &r) == ANSWER_GIVEN && still_the_same(s, w);
}

// --- dispatches ---

static bool inside_grid(const struct dispatch *d, const struct wave *w)
{
	uint64_t items = 1;
	for (size_t i = 0; i < 3; i++) {
		const uint64_t each = d->workgroup[i] ? d->workgroup[i] : 1, all = d->grid[i] ? d->grid[i] : 1;
		if (w->workgroup[i] * each >= all)
			return false;
		items *= each;
	}
	return w->lanes && w->wave_in_group < (items + w->lanes - 1) / w->lanes;
}

static int compare_places(const void *a, const void *b)
{
	const struct wave *x = *(struct wave *const *)a, *y = *(struct wave *const *)b;
	const uint64_t p[] = { x->packet, x->workgroup[0], x->workgroup[1], x->workgroup[2], x->wave_in_group },
		       q[] = { y->packet, y->workgroup[0], y->workgroup[1], y->workgroup[2], y->wave_in_group };
	for (size_t i = 0; i < ARRAY_SIZE(p); i++)
		if (p[i] != q[i])
			return p[i] < q[i] ? -1 : 1;
	return 0;
}

size_t waves_check_dispatch(struct target *process, const struct queue *q, struct wave **waves, size_t n, bool mark)
{
	_cleanup_free_ struct wave **good = mem_alloc(n * sizeof(*good) + 1);
	struct dispatch d = { 0 };
	uint64_t packet = UINT64_MAX;
	bool there = false;
	size_t k = 0, kept = 0;
	for (size_t i = 0; i < n; i++) {
		struct wave *w = waves[i];
		if (w->placed && w->packet != packet) { // thousands of waves are of one dispatch
			packet = w->packet;
			there = packet < q->ring_size / AQL_PACKET && queue_dispatch(process, q, packet, &d);
		}
		if (w->placed && there && inside_grid(&d, w))
			good[k++] = w;
	}
	// No two waves are the same one of a dispatch: where two say so, neither is believed.
	qsort(good, k, sizeof(*good), compare_places);
	for (size_t i = 0; i < k; i++)
		if ((!i || compare_places(&good[i - 1], &good[i])) && (i + 1 == k || compare_places(&good[i], &good[i + 1])))
			good[kept++] = good[i];
	for (size_t i = 0; i < n && mark; i++)
		waves[i]->placed = false;
	for (size_t i = 0; i < kept && mark; i++) {
		good[i]->placed = good[i]->dispatched = true;
		good[i]->queue = q;
		good[i]->packet = queue_whole_packet(q, good[i]->packet);
	}
	return kept;
}
