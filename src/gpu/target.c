// What all targets have in common: requests for one thing at a time, packets of queues, and the names of what happened.
#include "gpu/target.h"

#include <stdio.h>

#include "base/bytes.h"

static const char *const stop_reasons[STOP_REASONS] = {
#define STOP_NAME(reason, name) [reason] = name,
	STOP_REASON_LIST(STOP_NAME)
#undef STOP_NAME
};

const char *stop_reason_name(enum stop_reason reason) { return stop_reasons[reason]; }

bool stop_reason_of(struct str name, enum stop_reason *ret)
{
	for (int i = 0; i < STOP_REASONS; i++)
		if (str_is(name, stop_reasons[i])) {
			*ret = (enum stop_reason)i;
			return true;
		}
	return false;
}

struct str stop_reasons_text(struct arena *a, uint32_t reasons)
{
	_cleanup_text_ struct text out = { 0 };
	for (int i = 0; i < STOP_REASONS; i++)
		if (reasons >> i & 1)
			text_printf(&out, "%s%s", out.n ? "|" : "", stop_reasons[i]);
	return arena_str(a, text_str(&out));
}

struct str agent_pci(const struct agent *g, char room[static 24])
{
	int n = g->domain_known ? snprintf(room, 24, "%04x:", g->domain) : 0;
	n += snprintf(room + n, 24 - (size_t)n, "%02x:%02x.%x", g->location >> 8 & 0xff, g->location >> 3 & 0x1f,
		      g->location & 7);
	return (struct str){ room, (size_t)n };
}

size_t exception_names(const struct know *k, uint64_t status, struct str ret[static 64])
{
	size_t n = 0;
	for (int code = 1; code <= 64; code++) {
		struct str name = status >> (code - 1) & 1 ? know_name(k, S("queue-exception"), code) : (struct str){ 0 };
		if (name.n)
			ret[n++] = name;
	}
	return n;
}

bool patterns_fit(const struct know_list *patterns, struct str name)
{
	while (patterns && !str_glob(patterns->text, name))
		patterns = patterns->next;
	return patterns;
}

enum answer target_ask(struct target *t, struct request *r)
{
	t->ask(t, r, 1);
	return r->answer;
}

bool target_memory(struct target *t, uint64_t address, void *to, size_t size)
{
	struct request r = { .kind = REQUEST_MEMORY, .address = address, .to = to, .size = size };
	return target_ask(t, &r) == ANSWER_GIVEN;
}

bool target_contents(struct target *t, uint64_t address, void *to, size_t size)
{
	struct request r = { .kind = REQUEST_MEMORY, .address = address, .contents = true, .to = to, .size = size };
	return target_ask(t, &r) == ANSWER_GIVEN;
}

void target_close(struct target *t)
{
	if (t)
		t->close(t);
}

bool wave_registers(struct target *t, const struct wave_block *b, unsigned lanes, uint32_t *ret)
{
	size_t size = (size_t)b->count * lanes * sizeof(*ret);
	struct request r = { .kind = REQUEST_WAVE_REGISTERS, .block = b, .lanes = lanes, .to = ret, .size = size };
	if (!size) // a GPU would be asked for its page tables first
		return true;
	return b->wave ? target_ask(t, &r) == ANSWER_GIVEN : target_memory(t, b->address, ret, size);
}

uint64_t queue_whole_packet(const struct queue *q, uint64_t index)
{
	uint64_t ring = q->ring_size / AQL_PACKET;
	if (!ring || !q->indexes_known)
		return index;
	uint64_t id = index + q->read_index / ring * ring;
	if (id < q->read_index && q->write_index > id && q->write_index - id > ring)
		id += ring;
	else if (id >= q->write_index && id >= ring) // done already
		id -= ring;
	return id;
}

bool queue_dispatch(struct target *t, const struct queue *q, uint64_t packet, struct dispatch *ret)
{
	char p[AQL_PACKET];
	uint64_t slots = q->ring_size / AQL_PACKET;
	if (!slots)
		return false;
	*ret = (struct dispatch){ .packet = packet, .address = q->ring + packet % slots * AQL_PACKET };
	if (!target_memory(t, ret->address, p, sizeof(p)))
		return false;
	ret->header = get_u16(p);
	for (unsigned i = 0; i < 3; i++) {
		ret->workgroup[i] = get_u16(p + 4 + 2 * i);
		ret->grid[i] = get_u32(p + 12 + 4 * i);
	}
	ret->scratch = get_u32(p + 24);
	ret->lds = get_u32(p + 28);
	ret->kernel_object = get_u64(p + 32);
	ret->kernarg = get_u64(p + 40);
	// When the packet processor has taken a packet, it marks it as invalid; the rest of it stays.
	unsigned type = ret->header & 0xff;
	return ret->kernel_object && (type == AQL_DISPATCH || type == AQL_INVALID);
}

bool wave_dispatch(struct target *t, const struct wave *w, struct dispatch *ret)
{
	return w->dispatched && queue_dispatch(t, w->queue, w->packet, ret);
}

bool queue_packet(struct target *t, const struct queue *q, uint64_t index, struct aql_packet *ret)
{
	enum { SIGNALS = 8, SIGNAL_VALUE = 8 }; // offsets
	char p[AQL_PACKET], value[8];
	uint64_t slots = q->ring_size / AQL_PACKET;
	if (q->type != QUEUE_AQL || !slots || !target_memory(t, q->ring + index % slots * AQL_PACKET, p, sizeof(p)))
		return false;
	*ret = (struct aql_packet){ .index = index, .type = get_u16(p) & 0xff };
	memcpy(ret->words, p, sizeof(p));
	if (ret->type != AQL_BARRIER_AND && ret->type != AQL_BARRIER_OR)
		return true;
	for (size_t i = 0; i < 5; i++) {
		struct aql_signal *s = &ret->signals[ret->nsignals];
		s->address = get_u64(p + SIGNALS + 8 * i);
		if (!s->address)
			continue;
		s->known = target_memory(t, s->address + SIGNAL_VALUE, value, sizeof(value));
		s->value = s->known ? (int64_t)get_u64(value) : 0;
		ret->nsignals++;
	}
	return true;
}
