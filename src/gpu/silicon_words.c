// The driver's answers about waves: places and words.
#include "gpu/layout.h"
#include "gpu/silicon.h"

bool wave_words_of(const struct know *k, struct str gfx, struct wave_words *ret)
{
	const struct know_wave_words *b = wave_words_block(k, gfx);
	if (!b)
		return false;
	*ret = (struct wave_words){
		.type = (unsigned)b->type, .simds = (unsigned)b->simds, .slots = (unsigned)b->slots, .wgp = b->wgp
	};
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
	const struct bits *b = l ? layout_bits_named(l, name) : NULL;
	bool found = b && b->of == BITS_REGISTER;
	if (found) {
		*ret_word = b->index;
		*ret_high = b->high;
		*ret_low = b->low;
	}
	arena_free(&a);
	return found;
}
