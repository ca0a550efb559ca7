// Words at addresses: memory, and what is in a ring.
#include "emulator/machine.h"

#include <stdlib.h>

void words_add(struct emu_words *w, uint64_t address, const struct value *v)
{
	vec_push(&w->list, ((struct emu_word){ address, w->list.len, v }));
	w->sorted = false;
}

static int compare_words(const void *a, const void *b)
{
	const struct emu_word *x = a, *y = b;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

void words_sort(struct emu_words *w)
{
	if (w->list.len)
		qsort(w->list.data, w->list.len, sizeof(*w->list.data), compare_words);
	// Of several statements about one word the last is in force.
	size_t n = 0;
	for (size_t i = 0; i < w->list.len; i++)
		if (i + 1 == w->list.len || w->list.data[i].address != w->list.data[i + 1].address)
			w->list.data[n++] = w->list.data[i];
	w->list.len = n;
	w->sorted = true;
}

const struct emu_word *words_find(const struct emu_words *w, uint64_t address)
{
	size_t low = 0, high = w->list.len;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (w->list.data[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < w->list.len && w->list.data[low].address == address ? &w->list.data[low] : NULL;
}

bool words_read(struct cursor *c, struct emu_words *w, unsigned step)
{
	uint64_t address;
	if (!cursor_number(c, "the address", UINT64_MAX - EMU_TEXT_MOST, &address))
		return false;
	if (address % step)
		return emu_wrong(c, "0x%llx is no multiple of %u", (unsigned long long)address, step);
	do {
		const struct value *v;
		if (!cursor_value(c, NULL, &v))
			return false;
		words_add(w, address, v);
		address += step;
	} while (cursor_more(c));
	return true;
}

uint32_t emu_vram(const struct emu_gpu *g, uint64_t address, double t)
{
	const struct emu_word *w = words_find(&g->vram, address & ~UINT64_C(3));
	return w ? (uint32_t)value_at(w->value, t) : 0;
}

bool emu_iomem(const struct emu_gpu *g, uint64_t address, double t, uint32_t *ret)
{
	const struct emu_words *m = &g->iomem;
	uint64_t page = address & ~(uint64_t)(EMU_PAGE - 1);
	const struct emu_word *w = words_find(m, address & ~UINT64_C(3));
	*ret = w ? (uint32_t)value_at(w->value, t) : 0;
	for (size_t i = 0; i < m->list.len && !w; i++)
		if ((m->list.data[i].address & ~(uint64_t)(EMU_PAGE - 1)) == page)
			w = &m->list.data[i];
	return w || emu_page_shown(g, address);
}
