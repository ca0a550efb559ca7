// Header, control stack, and blocks of waves that hang down from the end of the wave area. All sizes come from the control stack's
// words, so that nothing of a wave is read but its hardware registers.
#include "gpu/core/core.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/cleanup.h"

enum {
	HEADER = 24,
	SAVED_HWREGS = 16,
	PM4_WORDS = 2, // words in front of the control stack's own
	STACK_MOST = 16 << 20,
	WORD_STATE = 1u << 31,
	WORD_EVENT = 1u << 30,
	TRAP_BREAKPOINT = 1,
	TRAP_ASSERT = 2,
	TRAP_DEBUG = 3,
	VERSION_NO_TTMPS = 10, // since then the words of a wave tell whether they are set up
	VERSION_NEWEST = 11,
};

struct area_header {
	uint32_t stack_offset, stack_size, waves_offset, waves_size;
};

struct area_walk {
	const struct save_area *area;
	unsigned xcc;
	uint64_t base, cursor, bottom;
	uint32_t state, word;  // of the control stack
	size_t index;          // of the word
	struct wave_block lds; // of the workgroup's first wave
	bool in_group;
};

static uint64_t save_area_base_of(const struct save_area *s, unsigned xcc)
{
	return s->queue->save_area + (uint64_t)xcc * s->queue->save_area_size;
}

static struct uh_error *save_area_read_header(const struct save_area *s, unsigned xcc, struct area_header *h)
{
	uint64_t base = save_area_base_of(s, xcc);
	char bytes[HEADER];
	if (!s->read(s->ctx, base, bytes, sizeof(bytes)))
		return uh_error_new("save area header at 0x%llx (queue %u, XCC %u) is not in the core",
				    (unsigned long long)base, s->queue->id, xcc);
	*h = (struct area_header){ get_u32(bytes), get_u32(bytes + 4), get_u32(bytes + 8), get_u32(bytes + 12) };
	uint64_t stack_end = (uint64_t)h->stack_offset + h->stack_size;
	if (h->waves_size > h->waves_offset || stack_end != h->waves_offset - h->waves_size || h->stack_size % 4)
		return uh_error_new(
			"save area header at 0x%llx (queue %u, XCC %u): control stack 0x%x+0x%x and wave area 0x%x-0x%x do "
			"not fit together",
			(unsigned long long)base, s->queue->id, xcc, h->stack_offset, h->stack_size, h->waves_offset,
			h->waves_size);
	if (h->stack_size > STACK_MOST || h->waves_offset > s->queue->save_area_size)
		return uh_error_new("save area header at 0x%llx (queue %u, XCC %u): it is larger than its area of 0x%x bytes",
				    (unsigned long long)base, s->queue->id, xcc, s->queue->save_area_size);
	return NULL;
}

bool save_area_used(const struct save_area *s, unsigned xcc, uint64_t *ret_at, uint64_t *ret_size)
{
	struct area_header h = { 0 };
	_cleanup_error_ struct uh_error *err = save_area_read_header(s, xcc, &h);
	*ret_at = save_area_base_of(s, xcc) + h.stack_offset;
	*ret_size = h.waves_offset - h.stack_offset;
	return !err && h.waves_offset > h.stack_offset;
}

bool save_area_plausible(const struct save_area *s, unsigned xcc)
{
	struct area_header h = { 0 };
	_cleanup_error_ struct uh_error *err = save_area_read_header(s, xcc, &h);
	return !err && h.waves_offset;
}

// --- one wave ---

static uint32_t save_area_get(const struct area_walk *k, const struct wave *w, enum layout_bits which)
{
	const struct bits *b = &k->area->layout->bits[which];
	if (b->of == BITS_STATE || b->of == BITS_WAVE)
		return get_bits(b->of == BITS_STATE ? k->state : k->word, b->high, b->low);
	return layout_value(b, w->hwregs, w->ttmps);
}

/** The runtime's version. If it is not known, one that writes cores. */
static int save_area_version_of(const struct area_walk *k)
{
	return k->area->runtime_version > 0 ? k->area->runtime_version : VERSION_NEWEST;
}

static bool save_area_has(const struct area_walk *k, enum layout_bits which)
{
	return k->area->layout->bits[which].of != BITS_NONE;
}

/** Sizes, from the control stack. false where they contradict each other. */
static bool save_area_measure(const struct area_walk *k, struct wave *w)
{
	const uint64_t *n = k->area->layout->numbers;
	bool narrow = save_area_get(k, w, LAYOUT_WAVE32);
	w->lanes = narrow ? 32 : 64;
	uint64_t unit = narrow && n[NUMBER_VGPR_UNIT_32] ? n[NUMBER_VGPR_UNIT_32] : n[NUMBER_VGPR_UNIT];
	uint64_t vgprs = (save_area_get(k, w, LAYOUT_VGPRS) + 1ull) * unit, accs = 0, sgprs = n[NUMBER_SGPRS];
	if (n[NUMBER_ACC_LIKE_VGPR]) {
		accs = vgprs;
	} else if (n[NUMBER_ACC_UNIT]) {
		uint64_t both = (save_area_get(k, w, LAYOUT_ACCS) + 1ull) * n[NUMBER_ACC_UNIT];
		if (both < vgprs)
			return false;
		accs = both - vgprs;
	}
	if (!sgprs) {
		sgprs = (save_area_get(k, w, LAYOUT_SGPRS) + 1ull) * n[NUMBER_SGPR_UNIT];
		sgprs -= sgprs < n[NUMBER_SGPR_UNSAVED] ? sgprs : n[NUMBER_SGPR_UNSAVED];
	}
	w->first = save_area_get(k, w, LAYOUT_FIRST);
	w->last = save_area_get(k, w, LAYOUT_LAST);
	w->scratch = save_area_get(k, w, LAYOUT_SCRATCH);
	w->se = save_area_get(k, w, LAYOUT_SE);
	w->vgprs.count = (unsigned)vgprs;
	w->acc_vgprs.count = (unsigned)accs;
	w->sgprs.count = (unsigned)sgprs;
	w->shared_vgprs.count = (unsigned)(save_area_get(k, w, LAYOUT_SHARED) * n[NUMBER_SHARED_UNIT]);
	w->lds.count = (unsigned)(save_area_get(k, w, LAYOUT_LDS_WHOLE) ? n[NUMBER_LDS_WHOLE] :
									  save_area_get(k, w, LAYOUT_LDS) * n[NUMBER_LDS_UNIT]);
	return true;
}

/** Takes @size bytes off the lower end of the free area. */
static bool hang(struct area_walk *k, uint64_t size, uint64_t *ret)
{
	if (size > k->cursor - k->bottom)
		return false;
	k->cursor -= size;
	*ret = k->cursor;
	return true;
}

/** The blocks of a wave, from the top down. */
static bool place_blocks(struct area_walk *k, struct wave *w, uint64_t *ret_registers)
{
	uint64_t top, registers;
	uint64_t own_lds = w->first ? w->lds.count : 0, lanes = w->lanes;
	return hang(k, k->area->layout->numbers[NUMBER_PADDING], &top) && hang(k, own_lds, &w->lds.address) &&
	       hang(k, 4 * WAVE_TTMPS, &registers) && hang(k, 4 * SAVED_HWREGS, ret_registers) &&
	       hang(k, 4ull * w->sgprs.count, &w->sgprs.address) &&
	       hang(k, 4 * lanes * w->acc_vgprs.count, &w->acc_vgprs.address) &&
	       hang(k, 4ull * SHARED_LANES * w->shared_vgprs.count, &w->shared_vgprs.address) &&
	       hang(k, 4 * lanes * w->vgprs.count, &w->vgprs.address);
}

static void find_stop(const struct area_walk *k, struct wave *w)
{
	// Whether the trap handler's words about why a wave stopped count. Where nobody set them up they are what was there before.
	const bool marked = k->area->ttmps_set_up && (!save_area_has(k, LAYOUT_MARK) || save_area_get(k, w, LAYOUT_MARK));
	const bool skip_export = save_area_version_of(k) >= VERSION_NO_TTMPS && save_area_get(k, w, LAYOUT_SKIP_EXPORT);
	w->stopped = (marked || skip_export) && save_area_get(k, w, LAYOUT_STOPPED);
	w->halted = save_area_get(k, w, w->stopped ? LAYOUT_SAVED_HALT : LAYOUT_HALTED);
	w->barrier_known = save_area_has(k, LAYOUT_IN_BARRIER);
	w->in_barrier = save_area_get(k, w, LAYOUT_IN_BARRIER);
	w->fatal_halt = save_area_get(k, w, LAYOUT_FATAL_HALT);
	w->no_vgprs = save_area_get(k, w, LAYOUT_NO_VGPRS);
	if (!w->stopped)
		return;
	w->stop_reasons = layout_stop_reasons(k->area->layout, w->hwregs, w->ttmps);
	w->trap = save_area_get(k, w, LAYOUT_TRAP);
	if (w->trap)
		w->stop_reasons |= 1u << (w->trap == TRAP_BREAKPOINT ? STOP_BREAKPOINT :
					  w->trap == TRAP_ASSERT     ? STOP_ASSERT_TRAP :
					  w->trap == TRAP_DEBUG      ? STOP_DEBUG_TRAP :
								       STOP_TRAP);
}

static struct uh_error *read_wave(struct area_walk *k)
{
	const struct save_area *s = k->area;
	struct wave w = { .queue = s->queue, .layout = s->layout, .xcc = k->xcc };
	uint64_t top = k->cursor, registers;
	char words[4 * (SAVED_HWREGS + WAVE_TTMPS)];
	if (!save_area_measure(k, &w) || !place_blocks(k, &w, &registers))
		return uh_error_new("control stack word %zu (0x%08x, state 0x%08x; queue %u, XCC %u): a wave of that size "
				    "below 0x%llx does "
				    "not fit into the wave area, which begins at 0x%llx",
				    k->index, k->word, k->state, s->queue->id, k->xcc, (unsigned long long)top,
				    (unsigned long long)k->bottom);
	if (!s->read(s->ctx, registers, words, sizeof(words)))
		return uh_error_new("saved wave at 0x%llx (queue %u, XCC %u): its registers are not in the core",
				    (unsigned long long)registers, s->queue->id, k->xcc);
	memcpy(w.hwregs, words, 4 * SAVED_HWREGS);
	memcpy(w.ttmps, words + 4 * SAVED_HWREGS, sizeof(w.ttmps));
	if (!w.first && !k->in_group && s->odd)
		s->odd(s->ctx, "a saved wave belongs to a workgroup whose first wave is not there");
	if (w.first || !k->in_group)
		k->lds = w.first ? w.lds : (struct wave_block){ 0 };
	w.lds = k->lds;
	k->in_group = !w.last;
	if (s->ttmps_set_up)
		layout_find_place(s->layout, save_area_version_of(k) >= VERSION_NO_TTMPS, &w);
	find_stop(k, &w);
	const struct wave_layout *l = s->layout;
	w.pc = w.hwregs[l->pc_lo] | (uint64_t)w.hwregs[l->pc_hi] << 32;
	w.exec = w.hwregs[l->exec_lo] | (w.lanes == 32 ? 0 : (uint64_t)w.hwregs[l->exec_hi] << 32);
	// A stopped wave waits inside the trap handler on parts that cannot halt at their last instruction.
	w.parked = w.stopped && save_area_has(k, LAYOUT_PARKED_LOW) &&
		   (uint64_t)save_area_version_of(k) >= l->numbers[NUMBER_PARKED_SINCE];
	if (w.parked)
		w.pc = save_area_get(k, &w, LAYOUT_PARKED_LOW) | (uint64_t)save_area_get(k, &w, LAYOUT_PARKED_HIGH) << 32;
	s->wave(s->ctx, &w);
	return NULL;
}

struct uh_error *save_area_read(const struct save_area *s, unsigned xcc)
{
	struct area_header h = { 0 };
	struct uh_error *err = save_area_read_header(s, xcc, &h);
	if (err || !h.stack_size)
		return err;
	struct area_walk k = { .area = s, .xcc = xcc, .base = save_area_base_of(s, xcc) };
	k.cursor = k.base + h.waves_offset;
	k.bottom = k.cursor - h.waves_size;
	_cleanup_free_ char *stack = mem_alloc(h.stack_size);
	if (!s->read(s->ctx, k.base + h.stack_offset, stack, h.stack_size))
		return uh_error_new("control stack at 0x%llx (%u bytes; queue %u, XCC %u) is not in the core",
				    (unsigned long long)(k.base + h.stack_offset), h.stack_size, s->queue->id, xcc);
	bool any_state = false;
	for (k.index = PM4_WORDS; k.index < h.stack_size / 4 && !err; k.index++) {
		k.word = get_u32(stack + 4 * k.index);
		if (k.word & WORD_EVENT)
			continue;
		if (k.word & WORD_STATE) {
			any_state = true;
			k.state = k.word;
			k.index += s->layout->numbers[NUMBER_STATE_WORDS] - 1;
		} else if (any_state) {
			err = read_wave(&k);
		} else {
			err = uh_error_new("control stack word %zu (0x%08x; queue %u, XCC %u): a wave before any state",
					   k.index, k.word, s->queue->id, xcc);
		}
	}
	if (!err && k.cursor != k.bottom && s->odd)
		s->odd(s->ctx, "the saved waves do not fill their area: some are missing, or of another size");
	return err;
}
