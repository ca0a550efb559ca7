// The trap temporaries (TTMPs) of waves: when a wave of a compute queue starts, the hardware writes into them of which dispatch and
// workgroup it is. What a wave has there of which nothing is said is left over from others.
#include "emulator/machine.h"

#include "gpu/layout.h"

static void put_bits(const struct bits *b, uint32_t value, uint32_t ttmps[static WAVE_TTMPS])
{
	if (b->of != BITS_TTMP)
		return;
	const uint32_t mask = (uint32_t)((UINT64_C(2) << (b->high - b->low)) - 1) << b->low;
	ttmps[b->index] = (ttmps[b->index] & ~mask) | (value << b->low & mask);
}

/** How many packets the ring of the queue in a place has; 0: no queue is there. */
static uint64_t ring_packets(const struct emu_gpu *g, const struct wave_slot *s)
{
	const struct emu_machine *m = g->machine;
	for (size_t i = 0; i < m->queues.len; i++) {
		const struct emu_process_queue *q = &m->queues.data[i];
		const struct emu_queue *f = &q->facts;
		if (f->gpu == g && f->me == s->me && f->pipe == s->pipe && f->queue == s->queue && f->vmid == s->vmid &&
		    (!q->one_xcc || f->xcc == s->xcc))
			return f->size / AQL_PACKET;
	}
	return 0;
}

static uint32_t leftover(const struct wave_slot *s, unsigned number)
{
	uint32_t x = (((s->xcc * 64 + s->se) * 64 + s->cu) * 64 + s->simd) * 64 + s->slot * 16 + number + 1;
	for (int i = 0; i < 2; i++)
		x = (x ^ x >> 15) * 0x2c1b3c6d;
	return x | 1u << 31;
}

uint32_t emu_ttmp(const struct emu_gpu *g, const struct emu_dispatch *d, size_t ordinal, const struct wave_slot *place,
		  double t, unsigned number)
{
	uint32_t words[WAVE_WORDS_MOST];
	const size_t n = emu_wave(g, place, t, words);
	struct wave wave;
	if (!d->known || !g->layout || !n || !wave_from_words(&g->wave_words, g->layout, words, n, place, &wave))
		return leftover(place, number);
	const uint64_t packets = ring_packets(g, &wave.slot);
	const size_t each = d->group_waves ? d->group_waves : 1;
	const struct {
		enum layout_bits where;
		uint32_t value;
	} rows[] = {
		{ LAYOUT_PACKET, packets ? d->packet % (uint32_t)packets : d->packet },
		{ LAYOUT_WAVE_IN_GROUP, (uint32_t)(ordinal % each) },
		{ LAYOUT_X, d->group[0] + (uint32_t)(ordinal / each) },
		{ LAYOUT_Y, d->group[1] },
		{ LAYOUT_Z, d->group[2] },
		{ LAYOUT_YZ_VALID, 1 },
	};
	uint32_t ttmps[WAVE_TTMPS] = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		put_bits(&g->layout->bits[rows[i].where], rows[i].value, ttmps);
	return ttmps[number];
}

bool emu_dispatch_take(struct cursor *c, struct emu_dispatch *d, struct str key, bool *ret_good)
{
	const bool group = str_is(key, "group");
	unsigned *const number = str_is(key, "packet")      ? &d->packet :
				 str_is(key, "group-waves") ? &d->group_waves :
							      NULL;
	if (!group && !number)
		return false;
	d->known = true;
	*ret_good = true;
	for (size_t i = 0; i < (group ? 3 : 1) && *ret_good; i++)
		*ret_good = cursor_unsigned(c, group ? "the number of a workgroup" : number == &d->packet ? "packet" : "group-waves",
					    UINT32_MAX, group ? &d->group[i] : number);
	return true;
}
