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

struct mqd_words mqd_words_of(const struct know_mqd *m, const struct kfd_mqd *q)
{
	return (struct mqd_words){ m, q->kind == KFD_SDMA, false, q->words, q->n };
}

struct mqd_words hqd_words_of(const struct know_mqd *m, const struct kfd_hqd *h)
{
	return (struct mqd_words){ m, h->kind == KFD_SDMA, true, h->words, h->n };
}

bool mqd_value(struct mqd_words w, const char *name, uint32_t *ret)
{
	const struct know_pair *p = w.sdma ? w.layout->sdma_bits : w.layout->bits;
	while (p && !str_is(p->name, name))
		p = p->next;
	struct str range = p ? p->value : (struct str){ 0 }, reg = str_word(&range);
	struct str high = str_trim(str_split(&range, ':'));
	int at = p ? mqd_word(w.layout, w.sdma, w.hqd, reg) : -1;
	int64_t h, low;
	if (at < 0 || (size_t)at >= w.n || !str_number(high, &h) || h < 0 || h > 31)
		return false;
	low = h;
	if (range.n && (!str_number(str_trim(range), &low) || low < 0 || low > h))
		return false;
	*ret = w.words[at] >> low & (UINT32_MAX >> (31 - (h - low)));
	return true;
}

/** Two words. */
static bool address_of(struct mqd_words w, const char *low, const char *high, uint64_t *ret)
{
	uint32_t l, h;
	if (!mqd_value(w, low, &l) || !mqd_value(w, high, &h))
		return false;
	*ret = (uint64_t)h << 32 | l;
	return true;
}

enum { RING_UNIT = 8, WORD = 2, SIZE_MOST = 40 }; // logarithms

bool mqd_queue(const struct know_mqd *m, const struct kfd_mqd *q, struct queue *ret)
{
	const struct mqd_words w = mqd_words_of(m, q);
	bool sdma = w.sdma;
	uint32_t size, aql = 0, doorbell = 0, save_size = 0;
	uint64_t ring;
	if (q->kind != KFD_COMPUTE && !sdma)
		return false;
	if (!address_of(w, "ring-low", "ring-high", &ring) || !mqd_value(w, "size", &size) ||
	    !address_of(w, "rptr-low", "rptr-high", &ret->read_address) ||
	    !address_of(w, "wptr-low", "wptr-high", &ret->write_address))
		return false;
	ret->ring = ring << RING_UNIT;
	size += WORD + !sdma;
	ret->ring_size = size < SIZE_MOST ? UINT64_C(1) << size : 0;
	mqd_value(w, "aql", &aql);
	mqd_value(w, "doorbell", &doorbell);
	mqd_value(w, "save-size", &save_size);
	address_of(w, "save-low", "save-high", &ret->save_area);
	ret->type = sdma ? QUEUE_SDMA : aql ? QUEUE_AQL : QUEUE_PM4;
	ret->doorbell = doorbell;
	ret->save_area_size = save_size;
	return true;
}

uint64_t hqd_ring(const struct know_mqd *m, const struct kfd_hqd *h)
{
	uint32_t low, high;
	const struct mqd_words w = hqd_words_of(m, h);
	if (!mqd_value(w, "ring-low", &low) || !mqd_value(w, "ring-high", &high))
		return 0;
	return ((uint64_t)high << 32 | low) << RING_UNIT;
}

bool hqd_active(const struct know_mqd *m, const struct kfd_hqd *h, unsigned *ret_vmid)
{
	uint32_t active = 0, vmid = 0;
	const struct mqd_words w = hqd_words_of(m, h);
	mqd_value(w, "active", &active);
	mqd_value(w, "vmid", &vmid);
	*ret_vmid = vmid;
	return active;
}
