#include "gpu/mqd.h"

const struct know_mqd *mqd_layout(const struct know *k, struct str gfx)
{
	for (size_t i = 0; i < k->mqds.len; i++)
		for (const struct know_list *part = k->mqds.data[i]->parts; part; part = part->next)
			if (str_glob(part->text, gfx))
				return k->mqds.data[i];
	return NULL;
}

int mqd_word(const struct know_mqd *m, bool sdma, bool hqd, struct str name)
{
	int at = sdma || hqd ? 0 : m->first;
	for (const struct know_list *r = sdma ? m->sdma : m->registers; r; r = r->next, at++)
		if (str_eq(r->text, name))
			return at;
	return -1;
}

bool mqd_value(const struct know_mqd *m, bool sdma, bool hqd, const uint32_t *words, size_t n, const char *name, uint32_t *ret)
{
	const struct know_pair *p = sdma ? m->sdma_bits : m->bits;
	while (p && !str_is(p->name, name))
		p = p->next;
	struct str range = p ? p->value : (struct str){ 0 }, reg = str_word(&range);
	struct str high = str_trim(str_split(&range, ':'));
	int at = p ? mqd_word(m, sdma, hqd, reg) : -1;
	int64_t h, low;
	if (at < 0 || (size_t)at >= n || !str_number(high, &h) || h < 0 || h > 31)
		return false;
	low = h;
	if (range.n && (!str_number(str_trim(range), &low) || low < 0 || low > h))
		return false;
	*ret = words[at] >> low & (UINT32_MAX >> (31 - (h - low)));
	return true;
}

/** Two words. */
static bool address_of(const struct know_mqd *m, const struct kfd_mqd *q, const char *low, const char *high, uint64_t *ret)
{
	uint32_t l, h;
	bool sdma = q->kind == KFD_SDMA;
	if (!mqd_value(m, sdma, false, q->words, q->n, low, &l) || !mqd_value(m, sdma, false, q->words, q->n, high, &h))
		return false;
	*ret = (uint64_t)h << 32 | l;
	return true;
}

enum { RING_UNIT = 8, WORD = 2, SIZE_MOST = 40 }; // logarithms

bool mqd_queue(const struct know_mqd *m, const struct kfd_mqd *q, struct queue *ret)
{
	bool sdma = q->kind == KFD_SDMA;
	uint32_t size, aql = 0, doorbell = 0, save_size = 0;
	uint64_t ring;
	if (q->kind != KFD_COMPUTE && !sdma)
		return false;
	if (!address_of(m, q, "ring-low", "ring-high", &ring) || !mqd_value(m, sdma, false, q->words, q->n, "size", &size) ||
	    !address_of(m, q, "rptr-low", "rptr-high", &ret->read_address) ||
	    !address_of(m, q, "wptr-low", "wptr-high", &ret->write_address))
		return false;
	ret->ring = ring << RING_UNIT;
	size += WORD + !sdma;
	ret->ring_size = size < SIZE_MOST ? UINT64_C(1) << size : 0;
	mqd_value(m, sdma, false, q->words, q->n, "aql", &aql);
	mqd_value(m, sdma, false, q->words, q->n, "doorbell", &doorbell);
	mqd_value(m, sdma, false, q->words, q->n, "save-size", &save_size);
	address_of(m, q, "save-low", "save-high", &ret->save_area);
	ret->type = sdma ? QUEUE_SDMA : aql ? QUEUE_AQL : QUEUE_PM4;
	ret->doorbell = doorbell;
	ret->save_area_size = save_size;
	return true;
}

uint64_t hqd_ring(const struct know_mqd *m, const struct kfd_hqd *h)
{
	uint32_t low, high;
	bool sdma = h->kind == KFD_SDMA;
	if (!mqd_value(m, sdma, true, h->words, h->n, "ring-low", &low) ||
	    !mqd_value(m, sdma, true, h->words, h->n, "ring-high", &high))
		return 0;
	return ((uint64_t)high << 32 | low) << RING_UNIT;
}

bool hqd_active(const struct know_mqd *m, const struct kfd_hqd *h, unsigned *ret_vmid)
{
	uint32_t active = 0, vmid = 0;
	bool sdma = h->kind == KFD_SDMA;
	mqd_value(m, sdma, true, h->words, h->n, "active", &active);
	mqd_value(m, sdma, true, h->words, h->n, "vmid", &vmid);
	*ret_vmid = vmid;
	return active;
}
