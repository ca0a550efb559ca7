// User queues: what a process says of them, and what the GPU and its driver know of them: HQD and MQD.
#include "emulator/machine.h"

#include <stdio.h>
#include <stdlib.h>

uint64_t emu_queue_record(const struct emu_process_queue *q)
{
	if (q->record)
		return q->record;
	return (q->facts.ring + q->facts.size + EMU_PAGE - 1) & ~(uint64_t)(EMU_PAGE - 1);
}

enum {
	DOORBELLS = 0x1000, // offset in words of the first
	MQDS = 0x200000,    // where MQDs would be in the GPU's address space
	AMD_QUEUE_WRITE = 0x38,
	AMD_QUEUE_READ = 0x80,
	KERNEL_QUEUES = 2, // of each pipe are the driver's
};

/** A register of an HQD and what it holds. */
struct hqd_value {
	const char *name, *field;
	const struct value *value;
};

enum { HQD_VALUES = 24 };

static unsigned log2_of(uint32_t v)
{
	unsigned n = 0;
	while (v >>= 1)
		n++;
	return n;
}

/** Positions count packets, the registers words of 32 bits. */
static size_t hqd_values(struct arena *a, const struct emu_process_queue *q, size_t index,
			 struct hqd_value ret[static HQD_VALUES])
{
	uint64_t unit = q->facts.sdma ? 1 : EMU_AQL / 4, words = q->facts.size / 4, record = emu_queue_record(q);
	uint64_t mqd = MQDS + index * EMU_PAGE;
	const struct value *rptr = value_scaled(a, q->rptr, unit, words - 1, 0);
	const struct hqd_value values[] = {
		{ "CP_MQD_BASE_ADDR", NULL, value_constant(a, mqd) },
		{ "CP_MQD_BASE_ADDR_HI", NULL, value_constant(a, mqd >> 32) },
		{ "CP_HQD_ACTIVE", "ACTIVE", value_constant(a, 1) },
		{ "CP_HQD_VMID", "VMID", value_constant(a, q->facts.vmid) },
		{ "CP_HQD_PQ_BASE", NULL, value_constant(a, q->facts.ring >> 8) },
		{ "CP_HQD_PQ_BASE_HI", NULL, value_constant(a, q->facts.ring >> 40) },
		{ "CP_HQD_PQ_RPTR", NULL, rptr },
		{ "CP_HQD_PQ_WPTR_LO", NULL, value_scaled(a, q->wptr, unit, UINT32_MAX, 0) },
		{ "CP_HQD_PQ_WPTR_HI", NULL, value_scaled(a, q->wptr, unit, UINT64_MAX, 32) },
		{ "CP_HQD_PQ_RPTR_REPORT_ADDR", NULL, value_constant(a, record + AMD_QUEUE_READ) },
		{ "CP_HQD_PQ_RPTR_REPORT_ADDR_HI", NULL, value_constant(a, (record + AMD_QUEUE_READ) >> 32) },
		{ "CP_HQD_PQ_WPTR_POLL_ADDR", NULL, value_constant(a, record + AMD_QUEUE_WRITE) },
		{ "CP_HQD_PQ_WPTR_POLL_ADDR_HI", NULL, value_constant(a, (record + AMD_QUEUE_WRITE) >> 32) },
		{ "CP_HQD_PQ_CONTROL", "QUEUE_SIZE", value_constant(a, log2_of((uint32_t)words) - 1) },
		{ "CP_HQD_PQ_CONTROL", "NO_UPDATE_RPTR", value_constant(a, 1) }, // as of each queue of AQL packets
		{ "CP_HQD_PQ_CONTROL", "SLOT_BASED_WPTR", value_constant(a, 2) },
		{ "CP_HQD_PQ_DOORBELL_CONTROL", "DOORBELL_OFFSET", value_constant(a, q->doorbell) },
		{ "CP_HQD_PQ_DOORBELL_CONTROL", "DOORBELL_EN", value_constant(a, 1) },
	};
	memcpy(ret, values, sizeof(values));
	return ARRAY_SIZE(values);
}

static struct bank bank_of(const struct emu_queue *q)
{
	struct bank b = BANK_NONE;
	b.xcc = (int)q->xcc;
	b.me = (int)q->me;
	b.pipe = (int)q->pipe;
	b.queue = (int)q->queue;
	return b;
}

// --- MQD ---

/** Which word of an MQD of this GPU is called so. */
static bool mqd_word(const struct emu_gpu *g, struct str name, size_t *ret)
{
	const struct emu_machine *m = g->machine;
	for (size_t i = 0; i < m->nmqds; i++) {
		const struct emu_block *b = &m->mqds[i];
		if (!str_is(b->kind, "mqd") || !str_glob(b->id, g->facts.gfx))
			continue;
		for (size_t n = 0; n < b->nlines; n++) {
			struct str rest = b->lines[n].text;
			uint64_t at;
			if (emu_number_of(str_word(&rest), &at))
				for (struct str word; (word = str_word(&rest)).n; at++)
					if (str_eq(word, name)) {
						*ret = (size_t)at;
						return at < 512;
					}
		}
		return false;
	}
	return false;
}

/** CP_HQD_PQ_BASE is cp_hqd_pq_base or cp_hqd_pq_base_lo there. */
static bool mqd_word_of(const struct emu_gpu *g, struct str name, size_t *ret)
{
	char room[80];
	if (name.n > 64)
		return false;
	int n = snprintf(room, sizeof(room), STR_FMT "_lo", STR_ARG(name));
	for (int i = 0; i < n; i++)
		room[i] = room[i] >= 'A' && room[i] <= 'Z' ? (char)(room[i] | 32) : room[i];
	return mqd_word(g, str_cut(str_z(room), name.n), ret) || mqd_word(g, str_z(room), ret);
}

static void mqd_set(struct emu_process_queue *q, const struct reg_field *f, size_t word, const struct value *v)
{
	vec_push(&q->mqd, ((struct emu_wave_part){ word, f ? field_mask(f) : UINT32_MAX, f ? f->low : 0, v, 0 }));
}

/** Sets a register of its HQD, on each XCC that has the queue. */
static bool hqd_set(struct emu_gpu *g, const struct emu_process_queue *q, const char *name, const char *field,
		    const struct value *v)
{
	struct bank b = bank_of(&q->facts);
	if (q->one_xcc)
		return emu_register_set(g, &b, name, field, v);
	for (b.xcc = 0; b.xcc < (int)g->facts.shaders.xccs; b.xcc++)
		if (!emu_register_set(g, &b, name, field, v))
			return false;
	return true;
}

static void fill_queue(struct emu_machine *m, size_t index)
{
	struct emu_process_queue *q = &m->queues.data[index];
	struct emu_gpu *g = emu_gpu_named(m, q->facts.gpu->facts.pci);
	struct hqd_value values[HQD_VALUES];
	size_t n = hqd_values(&m->arena, q, index, values), word;
	if (mqd_word(g, S("header"), &word))
		mqd_set(q, NULL, word, value_constant(&m->arena, 0xC0310800));
	for (size_t i = 0; i < n && !q->facts.sdma; i++) {
		struct reg r;
		struct reg_field f;
		const char *field = values[i].field;
		bool bits = field && emu_gc_register(g, values[i].name, &r) && register_field_find(&r, str_z(field), &f);
		if (field && !bits)
			continue;
		hqd_set(g, q, values[i].name, field, values[i].value);
		if (mqd_word_of(g, str_z(values[i].name), &word))
			mqd_set(q, bits ? &f : NULL, word, values[i].value);
	}
}

static bool said_word(struct emu_reader *r, struct emu_gpu *g, const struct emu_queue_word *w)
{
	struct cursor c = { r, { 0 }, w->line };
	bool found = false;
	for (size_t i = 0; i < r->m->queues.len; i++) {
		struct emu_process_queue *q = &r->m->queues.data[i];
		char *name = arena_z(&r->m->arena, w->name);
		size_t word;
		if (q->facts.gpu != g || q->facts.id != w->queue)
			continue;
		found = true;
		if (w->hqd && !hqd_set(g, q, name, NULL, w->value))
			return emu_wrong(&c, STR_FMT " has no register %s", STR_ARG(g->facts.part), name);
		if (!w->hqd && !mqd_word_of(g, w->name, &word))
			return emu_wrong(&c, "MQDs of " STR_FMT " have no word %s", STR_ARG(g->facts.part), name);
		if (!w->hqd)
			mqd_set(q, NULL, word, w->value);
	}
	return found || emu_wrong(&c, "no process has a queue %u on this GPU", w->queue);
}

static void place_queue(struct emu_machine *m, size_t index)
{
	struct emu_process_queue *q = &m->queues.data[index];
	size_t before = 0;
	for (size_t n = 0; n < index; n++)
		before += m->queues.data[n].facts.gpu == q->facts.gpu && m->queues.data[n].facts.sdma == q->facts.sdma;
	if (!q->placed) {
		q->facts.me = q->facts.sdma ? 0 : 1;
		q->facts.pipe = q->facts.sdma ? 0 : (unsigned)(before % 4);
		q->facts.queue = (unsigned)(q->facts.sdma ? before : KERNEL_QUEUES + before / 4);
	}
	q->doorbell = DOORBELLS + 2 * index;
	fill_queue(m, index);
}

static bool place_taken(const struct emu_machine *m, const struct emu_process_queue *of, unsigned pipe, unsigned queue)
{
	for (size_t i = 0; i < m->queues.len; i++) {
		const struct emu_process_queue *q = &m->queues.data[i];
		if (q != of && q->facts.gpu == of->facts.gpu && !q->facts.sdma && q->facts.me == 1 && q->facts.pipe == pipe &&
		    q->facts.queue == queue)
			return true;
	}
	return false;
}

void emu_queue_place(struct emu_machine *m, size_t index)
{
	enum { PIPES = 4 };
	struct emu_process_queue *q = &m->queues.data[index];
	unsigned at = 0;
	while (place_taken(m, q, at % PIPES, KERNEL_QUEUES + at / PIPES))
		at++;
	q->placed = true;
	q->facts.me = 1;
	q->facts.pipe = at % PIPES;
	q->facts.queue = KERNEL_QUEUES + at / PIPES;
	place_queue(m, index);
	emu_settings_sort(emu_gpu_named(m, q->facts.gpu->facts.pci));
}

void emu_queue_vacate(struct emu_machine *m, const struct emu_process_queue *q)
{
	struct emu_gpu *g = emu_gpu_named(m, q->facts.gpu->facts.pci);
	hqd_set(g, q, "CP_HQD_ACTIVE", "ACTIVE", value_constant(&m->arena, 0));
	emu_settings_sort(g);
}

bool emu_queues_finish(struct emu_reader *r)
{
	struct emu_machine *m = r->m;
	for (size_t i = 0; i < m->queues.len; i++)
		place_queue(m, i);
	for (size_t i = 0; i < m->gpus.len; i++)
		for (size_t n = 0; n < m->gpus.data[i]->queue_words.len; n++)
			if (!said_word(r, m->gpus.data[i], &m->gpus.data[i]->queue_words.data[n]))
				return false;
	for (size_t i = 0; i < m->gpus.len; i++)
		emu_settings_sort(m->gpus.data[i]);
	return true;
}

// --- answers ---

size_t emu_queues(const struct emu_machine *m) { return m->queues.len; }
struct emu_queue emu_queue(const struct emu_machine *m, size_t index) { return m->queues.data[index].facts; }

size_t emu_queue_mqd(const struct emu_machine *m, size_t index, double t, uint32_t words[static 512])
{
	const struct emu_process_queue *q = &m->queues.data[index];
	memset(words, 0, 512 * sizeof(*words));
	for (size_t i = 0; i < q->mqd.len; i++) {
		const struct emu_wave_part *p = &q->mqd.data[i];
		words[p->word] = (words[p->word] & ~p->mask) | ((uint32_t)value_at(p->value, t) << p->low & p->mask);
	}
	return 512;
}

/** As the driver does: from CP_MQD_BASE_ADDR to CP_HQD_PQ_WPTR_HI, by byte offset. */
size_t emu_queue_hqd(const struct emu_machine *m, size_t index, double t, uint32_t pairs[static 256][2])
{
	const struct emu_queue *q = &m->queues.data[index].facts;
	struct bank b = bank_of(q);
	struct reg first, last;
	size_t n = 0;
	if (q->sdma || !emu_gc_register(q->gpu, "CP_MQD_BASE_ADDR", &first) ||
	    !emu_gc_register(q->gpu, "CP_HQD_PQ_WPTR_HI", &last))
		return 0;
	uint32_t end = emu_gc_address(q->gpu, q->xcc, &last);
	for (uint32_t at = emu_gc_address(q->gpu, q->xcc, &first); at <= end && n < 256; at += 4, n++) {
		pairs[n][0] = at;
		pairs[n][1] = emu_register(q->gpu, &b, at, t);
	}
	return n;
}
