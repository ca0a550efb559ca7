// The driver's answers about waves: places and words.
#include "gpu/layout.h"
#include "gpu/silicon/silicon.h"

enum { NO_SUCH_UNIT = 0xbebebeef, ALL_ONES = 0xffffffff };

bool wave_words_of(const struct know *k, struct str gfx, struct wave_words *ret)
{
	const struct know_wave_words *b = wave_words_block(k, gfx);
	if (!b)
		return false;
	*ret = (struct wave_words){ .type = (unsigned)b->type,
				    .simds = (unsigned)b->simds,
				    .slots = (unsigned)b->slots,
				    .wgp = b->wgp,
				    .always_on = b->always_on };
	for (const struct know_list *w = b->words; w && ret->n + 1 < WAVE_WORDS_MOST; w = w->next)
		ret->names[ret->n++] = w->text;
	return true;
}

struct wave_slot wave_slot_asked(const struct wave_words *w, const struct wave_slot *s)
{
	struct wave_slot asked = *s;
	if (w->wgp) {
		asked.cu = s->cu << 2 | s->simd;
		asked.simd = 0;
	}
	return asked;
}

struct wave_slot wave_slot_meant(const struct wave_words *w, const struct wave_slot *asked)
{
	struct wave_slot s = *asked;
	if (w->wgp) {
		s.cu = asked->cu >> 2;
		s.simd = asked->cu & 3;
	}
	return s;
}

bool wave_bits_of(const struct know *k, struct str gfx, struct str name, size_t *ret_word, unsigned *ret_high,
		  unsigned *ret_low)
{
	struct arena a = { 0 };
	const struct wave_layout *l;
	_cleanup_error_ struct uh_error *err = layout_for_words(&a, k, gfx, &l);
	const struct bits *b = !err && l ? layout_bits_named(l, name) : NULL;
	bool found = b && b->of == BITS_REGISTER;
	if (found) {
		*ret_word = b->index;
		*ret_high = b->high;
		*ret_low = b->low;
	}
	arena_free(&a);
	return found;
}

static uint32_t get(const struct wave *w, enum layout_bits which)
{
	return layout_value(&w->layout->bits[which], w->hwregs, w->ttmps);
}

/** How many registers it has. LDS cannot be read. */
static void measure(struct wave *w)
{
	const uint64_t *n = w->layout->numbers;
	bool narrow = w->layout->bits[LAYOUT_WAVE64].of != BITS_NONE && !get(w, LAYOUT_WAVE64);
	w->lanes = narrow ? 32 : 64;
	uint64_t unit = narrow && n[NUMBER_VGPR_UNIT_32] ? n[NUMBER_VGPR_UNIT_32] : n[NUMBER_VGPR_UNIT];
	uint64_t both = n[NUMBER_ACC_UNIT] ? (get(w, LAYOUT_ACCS) + 1ull) * n[NUMBER_ACC_UNIT] : 0;
	w->vgprs.count = (unsigned)((get(w, LAYOUT_VGPRS) + 1ull) * unit);
	w->vgprs.vector = true;
	w->acc_vgprs.vector = true;
	w->acc_vgprs.count = n[NUMBER_ACC_LIKE_VGPR] ? w->vgprs.count :
			     both > w->vgprs.count   ? (unsigned)both - w->vgprs.count :
						       0;
	w->acc_vgprs.address = 4ull * w->vgprs.count;
	w->sgprs.count = (unsigned)(n[NUMBER_SGPRS] ? n[NUMBER_SGPRS] : (get(w, LAYOUT_SGPRS) + 1ull) * n[NUMBER_SGPR_UNIT]);
	w->lds.unread = true;
	w->lds.count = (unsigned)(get(w, LAYOUT_LDS_WHOLE) ? n[NUMBER_LDS_WHOLE] : get(w, LAYOUT_LDS) * n[NUMBER_LDS_UNIT]);
}

/** A wave that runs may have old flags of exceptions; they count where it was stopped. */
static void find_state(struct wave *w)
{
	w->halted = get(w, LAYOUT_HALTED);
	w->fatal_halt = get(w, LAYOUT_FATAL_HALT);
	w->idle = get(w, LAYOUT_IDLE);
	w->in_trap = get(w, LAYOUT_IN_TRAP);
	w->trap_pending = get(w, LAYOUT_TRAP_PENDING);
	w->barrier_known = w->layout->bits[LAYOUT_IN_BARRIER].of != BITS_NONE;
	w->in_barrier = get(w, LAYOUT_IN_BARRIER);
	w->no_vgprs = get(w, LAYOUT_NO_VGPRS);
	if (w->halted || w->fatal_halt || w->in_trap || w->trap_pending)
		w->stop_reasons = layout_stop_reasons(w->layout, w->hwregs, w->ttmps);
	if (w->fatal_halt)
		w->stop_reasons |= 1u << STOP_FATAL_HALT;
}

bool wave_from_words(const struct wave_words *w, const struct wave_layout *l, const uint32_t *words, size_t n,
		     const struct wave_slot *slot, struct wave *ret)
{
	*ret = (struct wave){ .layout = l, .slot = *slot, .xcc = slot->xcc, .se = slot->se };
	if (n < w->n + 1 || words[0] != w->type || words[1] == NO_SUCH_UNIT || words[1] == ALL_ONES)
		return false;
	memcpy(ret->hwregs, words + 1, l->nregisters * sizeof(*words));
	if (!get(ret, LAYOUT_VALID))
		return false;
	measure(ret);
	find_state(ret);
	ret->pc = ret->hwregs[l->pc_lo] | (uint64_t)ret->hwregs[l->pc_hi] << 32;
	ret->at = ret->pc;
	ret->exec = ret->hwregs[l->exec_lo] | (ret->lanes == 32 ? 0 : (uint64_t)ret->hwregs[l->exec_hi] << 32);
	ret->slot.known = true;
	ret->slot.vmid = get(ret, LAYOUT_VMID);
	ret->slot.me = get(ret, LAYOUT_ME);
	ret->slot.pipe = get(ret, LAYOUT_PIPE);
	ret->slot.queue = get(ret, LAYOUT_QUEUE);
	return true;
}
