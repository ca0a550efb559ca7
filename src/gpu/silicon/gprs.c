// Registers of waves. One child reads all blocks of a wave, and where many waves are wanted those of the next ones too: a child costs more
// than what it reads.
#include <stdlib.h>

#include "base/bytes.h"
#include "gpu/silicon/parts.h"

enum { LANES_MOST = 64, GPRS_MOST = 1024, AHEAD_MOST = 16 };

uint64_t debugfs_gpr_position(const struct wave_slot *s, bool vector, unsigned lane)
{
	return (uint64_t)(s->se & 0xff) << 12 | (uint64_t)(s->sh & 0xff) << 20 | (uint64_t)(s->cu & 0xff) << 28 |
	       (uint64_t)(s->slot & 0xff) << 36 | (uint64_t)(s->simd & 0xff) << 44 | (uint64_t)(lane & 0xff) << 52 |
	       (uint64_t)!vector << 60;
}

static size_t words_of(const struct wave_block *b) { return b->address / 4 + b->count; }

static bool possible(const struct wave_block *b, unsigned lanes)
{
	return lanes <= LANES_MOST && b->count <= GPRS_MOST && b->address / 4 <= GPRS_MOST - b->count;
}

static void plan_block(struct batch *b, const struct wave *w, const struct wave_block *block, unsigned lanes)
{
	struct silicon *t = b->t;
	struct wave_slot asked = wave_slot_asked(&t->words, &w->slot);
	const size_t size = 4 * words_of(block);
	const char *gpr = silicon_file(t, &b->arena, "amdgpu_gpr");
	const char *gprwave = silicon_file(t, &b->arena, "amdgpu_gprwave");
	const struct gpr_block planned = { w->id, words_of(block), block->vector, lanes, b->probes.len };
	vec_push(&t->gprs.blocks, planned);
	for (unsigned lane = 0; lane < lanes; lane++) {
		uint64_t at = debugfs_gpr_position(&asked, block->vector, lane);
		struct probe p = { .kind = PROBE_READ, .path = gpr, .offset = at, .size = size };
		if (w->slot.xcc) {
			struct gprwave_state *s = wave_gprwave(&b->arena, &asked);
			s->gpr_or_wave = 1;
			s->thread = lane;
			s->vgpr_or_sgpr = block->vector;
			p = wave_gprwave_probe(gprwave, s, size);
		}
		batch_add(b, p);
	}
}

/** The accumulation registers lie behind the others of a lane: who reads them has read those. */
static void plan_wave(struct batch *b, const struct wave *w)
{
	const bool acc = w->acc_vgprs.wave && w->acc_vgprs.count && possible(&w->acc_vgprs, w->lanes);
	gate_guard(b);
	if (w->sgprs.count && possible(&w->sgprs, 1))
		plan_block(b, w, &w->sgprs, 1);
	if (acc)
		plan_block(b, w, &w->acc_vgprs, w->lanes);
	else if (w->vgprs.count && !w->no_vgprs && possible(&w->vgprs, w->lanes))
		plan_block(b, w, &w->vgprs, w->lanes);
}

/** The block that holds what is asked for; NULL: it was not read. */
static const struct gpr_block *find(const struct silicon *t, const struct request *r)
{
	for (size_t i = 0; i < t->gprs.blocks.len; i++) {
		const struct gpr_block *b = &t->gprs.blocks.data[i];
		if (b->wave == r->block->wave && b->vector == r->block->vector && b->lanes == r->lanes &&
		    b->words >= words_of(r->block))
			return b;
	}
	return NULL;
}

/** Of each register the lanes, as in a save area. */
static bool take(const struct batch *b, size_t at, const struct request *r)
{
	const size_t first = r->block->address / 4;
	for (unsigned lane = 0; lane < r->lanes; lane++) {
		const struct probe *p = &b->probes.data[at + lane];
		if (p->end != PROBE_GOOD || p->n < 4 * words_of(r->block))
			return false;
		for (size_t i = 0; i < r->block->count; i++)
			((uint32_t *)r->to)[i * r->lanes + lane] = get_u32(p->data + 4 * (first + i));
	}
	return true;
}

void gprs_forget(struct silicon *t)
{
	batch_free(&t->gprs.batch);
	vec_free(&t->gprs.blocks);
	t->gprs = (struct gprs_read){ 0 };
}

/** Where nothing but the render node's query keeps the GPU awake, no more is read at once than its time allows. */
static void read_from(struct silicon *t, const struct request *r)
{
	struct batch *b = &t->gprs.batch;
	const size_t first = r->block->wave - 1, most = t->by_debugfs && t->target.all_registers ? AHEAD_MOST : 1;
	gprs_forget(t);
	b->t = t;
	for (size_t i = first; i < t->nwaves && i - first < most; i++)
		plan_wave(b, &t->waves[i]);
	if (!find(t, r)) { // a part of a wave in another form than its list says
		gprs_forget(t);
		b->t = t;
		gate_guard(b);
		plan_block(b, &t->waves[first], r->block, r->lanes);
	}
	batch_run(b, SILICON_LOOK_MS);
}

void wave_registers_answer(struct silicon *t, struct request *r)
{
	const struct wave_block *k = r->block;
	r->answer = ANSWER_ABSENT;
	if (!k->wave || k->wave > t->nwaves || !possible(k, r->lanes) || r->size != (size_t)k->count * r->lanes * 4)
		return;
	const struct gpr_block *have = find(t, r);
	if (!have) {
		gate_pass(t, NULL);
		r->answer = t->gate.stuck ? ANSWER_TIMED_OUT : ANSWER_REFUSED;
		if (!t->gate.open)
			return;
		read_from(t, r);
		have = find(t, r);
	}
	const struct batch *b = &t->gprs.batch;
	r->answer = take(b, have->probe, r) ? ANSWER_GIVEN : b->late ? ANSWER_TIMED_OUT : ANSWER_REFUSED;
}
