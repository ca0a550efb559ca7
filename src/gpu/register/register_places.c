#include "gpu/register/register_places.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "gpu/silicon/silicon.h"

/** Of several names the one with most fields, then the one that is more special: STATIC_THREAD_MGMT, not DESTINATION_EN. */
static int by_place(const void *a, const void *b)
{
	const struct placed_register *x = a, *y = b;
	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	if (x->reg.nfields != y->reg.nfields)
		return x->reg.nfields > y->reg.nfields ? -1 : 1;
	return str_cmp(y->reg.name, x->reg.name);
}

/** Packets for an XCC have the addresses of the first one: each knows itself by them. */
static void place_device(struct register_places *p)
{
	size_t n = device_registers(p->device, S("*"), NULL, 0);
	_cleanup_free_ struct device_register *found = mem_alloc(n * sizeof(*found) + 1);
	n = device_registers(p->device, S("*"), found, n);
	for (size_t i = 0; i < n; i++)
		if (found[i].reg.kind == REGISTER_MMIO && (!found[i].ip->instance || !str_is(found[i].ip->name, "gc")))
			vec_push(&p->list, ((struct placed_register){ found[i].address / 4, found[i].ip->name, found[i].reg }));
}

/** Where no base addresses are at hand: those that the graphics core has on all GPUs of its generation. */
static void place_part(struct register_places *p)
{
	unsigned version[3];
	const uint32_t *bases;
	const struct ip *gc = p->device ? device_ip(p->device, S("gc"), 0) : NULL;
	if (gc)
		memcpy(version, gc->version, sizeof(version));
	else if (!p->gfx.n || !gc_of_gfx(p->know, p->gfx, version))
		return;
	const struct register_table *t = register_table_for(S("gc"), version[0], version[1], version[2], NULL);
	const size_t n = register_usual_bases(S("gc"), version[0], version[1], version[2], &bases);
	for (size_t i = 0; t && i < registers_count(t); i++) {
		const struct reg r = register_at(t, i);
		if (r.kind == REGISTER_MMIO && r.base < n)
			vec_push(&p->list, ((struct placed_register){ bases[r.base] + r.offset, S("gc"), r }));
	}
}

static void make_places(struct register_places *p)
{
	if (p->made)
		return;
	p->made = true;
	if (p->device)
		place_device(p);
	if (!p->list.len)
		place_part(p);
	if (p->list.len)
		qsort(p->list.data, p->list.len, sizeof(*p->list.data), by_place);
}

bool places_known(struct register_places *p)
{
	make_places(p);
	return p->list.len;
}

const struct placed_register *registers_placed(struct register_places *p, uint32_t place, size_t *ret_n)
{
	make_places(p);
	size_t from = 0, to = p->list.len;
	while (from < to) {
		const size_t middle = from + (to - from) / 2;
		if (p->list.data[middle].place < place)
			from = middle + 1;
		else
			to = middle;
	}
	size_t n = 0;
	while (from + n < p->list.len && p->list.data[from + n].place == place)
		n++;
	*ret_n = n;
	return n ? &p->list.data[from] : NULL;
}

const struct placed_register *register_placed_as(struct register_places *p, struct str name)
{
	make_places(p);
	return list_find(p->list.data, p->list.len, it, str_eq(it->reg.name, name) && str_is(it->block, "gc"));
}

void register_places_free(struct register_places *p)
{
	vec_free(&p->list);
	p->made = false;
}
