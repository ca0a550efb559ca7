// Where a value is in the words that the driver gives of a wave, by the layout that unhang reads them with.
#pragma once

#include "gpu/layout.h"

/** valid, halted, vmid, vgprs, ...; @ret_word is an index of wave_words.names. false: the part has no such value. */
static inline bool wave_bits_of(const struct know *k, struct str gfx, struct str name, size_t *ret_word, unsigned *ret_high,
				unsigned *ret_low)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct wave_layout *l;
	_cleanup_error_ struct uh_error *err = layout_for_words(&a, k, gfx, &l);
	const struct bits *b = !err && l ? layout_bits_named(l, name) : NULL;
	const bool there = b && b->of == BITS_REGISTER;
	*ret_word = there ? b->index : 0;
	*ret_high = there ? b->high : 0;
	*ret_low = there ? b->low : 0;
	return there;
}
