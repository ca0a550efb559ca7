// Packets of rings and queues, taken apart by the tables of knowledge/packets.know.
#include <inttypes.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "gpu/packet.h"

enum {
	AQL_WORDS = 16,
	GUESS_WORDS = 8192, // how far back beginnings are looked for
};

static const char *const names[] = {
	[PACKETS_PM4] = "PM4", [PACKETS_SDMA] = "SDMA",       [PACKETS_MES] = "MES",
	[PACKETS_AQL] = "AQL", [PACKETS_UNKNOWN] = "unknown",
};

const char *packet_language_name(enum packet_language l) { return names[l <= PACKETS_UNKNOWN ? l : PACKETS_UNKNOWN]; }

enum packet_language packet_language_of(const struct know *k, struct str ring)
{
	const struct know_row *row = list_find_of(k->rings.data, k->rings.len, it, str_glob(it->head.id, ring));
	return row ? know_packet_language(row->value) : PACKETS_UNKNOWN;
}

/** What the first word says. */
struct packet_header {
	int type, opcode, sub; // -1: it has none
	uint32_t words;        // where the table says nothing else
};

static struct packet_header header_of(enum packet_language l, uint32_t word)
{
	struct packet_header h = { -1, -1, -1, 1 };
	switch (l) {
	case PACKETS_PM4:
		if (word >> 30 == 3)
			h.opcode = (int)get_bits(word, 15, 8);
		else
			h.type = (int)(word >> 30);
		if (word >> 30 == 3 || word >> 30 == 0)
			h.words = get_bits(word, 29, 16) + 2;
		break;
	case PACKETS_SDMA:
		h.opcode = (int)get_bits(word, 7, 0);
		h.sub = (int)get_bits(word, 15, 8);
		break;
	case PACKETS_MES:
		if (get_bits(word, 3, 0) == 1)
			h.opcode = (int)get_bits(word, 11, 4);
		else
			h.type = (int)get_bits(word, 3, 0);
		if (h.opcode >= 0 && get_bits(word, 19, 12))
			h.words = get_bits(word, 19, 12);
		break;
	case PACKETS_AQL:
		h.opcode = (int)get_bits(word, 7, 0);
		h.sub = (int)get_bits(word, 23, 16);
		h.words = AQL_WORDS;
		break;
	case PACKETS_UNKNOWN:
		break;
	}
	return h;
}

/** A packet's words, as far as they are there. */
struct packet_span {
	const uint32_t *words;
	size_t n;
};

static bool when_holds(const struct know_packet_when *w, struct packet_span s);

static bool field_value(const struct know_packet_field *f, struct packet_span s, size_t index, uint64_t *ret)
{
	const size_t wide = f->high > 31 ? 2 : 1, word = f->word + (f->step ? f->step : wide) * index;
	if (word >= s.n || s.n - word < wide || !when_holds(&f->when, s))
		return false;
	uint64_t v = s.words[word];
	if (wide == 2)
		v |= (uint64_t)s.words[word + 1] << 32;
	v = f->high < 63 ? v & ((UINT64_C(1) << (f->high + 1)) - 1) : v;
	v = f->print == PACKET_ADDRESS ? v >> f->low << f->low : v >> f->low;
	*ret = v + f->plus;
	return *ret || !f->nonzero;
}

/** Depth is bounded: a condition is on a field that stands before. */
static bool when_holds(const struct know_packet_when *w, struct packet_span s)
{
	uint64_t v;
	if (!w->field)
		return true;
	if (!field_value(w->field, s, 0, &v))
		return false;
	return list_find(w->values, w->n, it, v == *it) != NULL;
}

/** At least 1; more than @s has where it does not fit. */
static size_t packet_length(const struct know_packet *p, const struct packet_header *h, struct packet_span s)
{
	for (const struct know_packet_words *w = p ? p->words : NULL; w; w = w->next) {
		uint64_t v = 0;
		if (!when_holds(&w->when, s))
			continue;
		if ((w->field && !field_value(w->field, s, 0, &v)) || v > s.n)
			return s.n + 1;
		size_t length = (size_t)v * w->times + w->plus;
		return length ? length : 1;
	}
	return h->words;
}

/** The table's entry for a packet with this header; NULL: it has none. */
static const struct know_packet *packet_known(const struct packet_stream *s, const struct packet_header *h)
{
	return s->language == PACKETS_UNKNOWN ? NULL : know_packet(s->know, s->language, s->gfx, h->type, h->opcode, h->sub);
}

static void add_field(const struct know *k, struct register_places *places, struct arena *a, const struct know_packet_field *f,
		      struct packet_span s, struct packet *ret)
{
	uint64_t v;
	const unsigned digits = f->print == PACKET_NUMBER ? 0 : (f->high - (f->print == PACKET_ADDRESS ? 0 : f->low)) / 4 + 1;
	for (size_t i = 0; ret->nfields < PACKET_FIELDS && (f->each || !i) && f->word + i < s.n; i++) {
		if (!field_value(f, s, i, &v))
			continue;
		struct packet_field *to = &ret->fields[ret->nfields++];
		*to = (struct packet_field){ .name = f->name, .value = v, .digits = digits };
		if (f->each)
			to->name = arena_printf(a, STR_FMT "[%zu]", STR_ARG(f->name), i);
		if (f->table.n)
			to->text = know_name(k, f->table, (int64_t)v);
		if (f->print == PACKET_REGISTER) {
			size_t n;
			const struct placed_register *r = places ? registers_placed(places, (uint32_t)v, &n) : NULL;
			to->text = r ? r->reg.name : to->text;
			ret->register_offset = ret->register_offset == UINT32_MAX ? (uint32_t)v : ret->register_offset;
		}
	}
}

// --- registers ---

struct packet_registers {
	struct packet_register *data;
	size_t len, cap;
};

/** The value of the first field of this name that the packet has: others may stand in other forms of it. */
static bool named_value(const struct know_packet_field *f, struct packet_span s, size_t index, uint64_t *ret)
{
	for (const struct know_packet_field *one = f; one; one = one->next)
		if (str_eq(one->name, f->name) && (one->each || !index) && field_value(one, s, index, ret))
			return true;
	return false;
}

static bool field_is_set(const struct know_packet_field *f, struct packet_span s)
{
	uint64_t v;
	return f && named_value(f, s, 0, &v) && v;
}

/** The register of an access in round @i, and its value; false: the packet has no more. A register without a value comes once. */
static bool packet_next_access(const struct know_packet_access *by, struct register_places *places, struct packet_span s,
			       size_t i, struct packet_register *ret, uint64_t *ret_value)
{
	uint64_t place = 0;
	const bool each = by->reg && by->reg->each;
	ret->valued = by->value && named_value(by->value, s, i, ret_value);
	if (!by->reg) {
		ret->is = ret->valued && !i ? register_placed_as(places, by->name) : NULL;
		ret->nnames = 1;
		ret->place = ret->is ? ret->is->place : 0;
		return ret->is;
	}
	if (!named_value(by->reg, s, each ? i : 0, &place) || (i && !each && !ret->valued))
		return false;
	ret->place = (uint32_t)(place + (each || field_is_set(by->still, s) ? 0 : i));
	ret->is = registers_placed(places, ret->place, &ret->nnames);
	return true;
}

/** What an access does in round @i; false: nothing, and it is done. */
static bool packet_take_access(const struct know_packet_access *by, struct register_places *places, struct packet_span s,
			       size_t i, struct packet_registers *to)
{
	uint64_t value = 0, bits;
	struct packet_register r = { .access = by->access, .mask = UINT32_MAX, .count = 1 };
	if (!when_holds(&by->when, s) || !packet_next_access(by, places, s, i, &r, &value))
		return false;
	r.value = (uint32_t)value;
	if (by->mask && named_value(by->mask, s, 0, &bits))
		r.mask = (uint32_t)bits;
	if (by->keep && named_value(by->keep, s, 0, &bits))
		r.mask = ~(uint32_t)bits | r.value;
	if (by->count && named_value(by->count, s, by->count->each ? i : 0, &bits))
		r.count = (uint32_t)bits;
	vec_push(to, r);
	if (field_is_set(by->two, s)) {
		r.place++;
		r.is = registers_placed(places, r.place, &r.nnames);
		r.value = (uint32_t)(value >> 32);
		vec_push(to, r);
	}
	return true;
}

/** A text that shows the registers need not show the fields that they were made of. */
static void mark_told(const struct know_packet_access *by, struct packet *p)
{
	const struct know_packet_field *fields[] = { by->reg, by->value, by->mask, by->keep, by->count };
	for (size_t f = 0; f < ARRAY_SIZE(fields); f++)
		for (size_t i = 0; fields[f] && i < p->nfields; i++) {
			struct str name = p->fields[i].name;
			p->fields[i].told |= str_eq(fields[f]->name, str_split(&name, '['));
		}
}

static void packet_find_registers(const struct know_packet *p, const struct packet_stream *stream, struct arena *a,
				  struct packet_span s, struct packet *ret)
{
	_cleanup_vec_ struct packet_registers found = { 0 };
	if (!stream->places || !p->accesses || !places_known(stream->places))
		return;
	bool more = true;
	for (size_t i = 0; more; i++) {
		more = false;
		for (const struct know_packet_access *by = p->accesses; by; by = by->next)
			if (packet_take_access(by, stream->places, s, i, &found)) {
				more = true;
				if (!i)
					mark_told(by, ret);
			}
	}
	ret->registers = found.len ? arena_copy(a, found.data, found.len * sizeof(*found.data)) : NULL;
	ret->nregisters = found.len;
}

struct packet_saying {
	struct arena *arena;
	const struct packet *packet;
};

static bool packets_saying_fact(const void *ctx, struct str name, size_t index, struct str *ret)
{
	const struct packet_saying *s = ctx;
	const struct packet_field *f = list_find(s->packet->fields, s->packet->nfields, it, str_eq(it->name, name));
	if (!f || index)
		return false;
	*ret = f->text.n ? f->text : arena_printf(s->arena, f->digits ? "0x%" PRIx64 : "%" PRIu64, f->value);
	return true;
}

bool packet_decode(const struct packet_stream *stream, struct arena *a, size_t at, struct packet *ret)
{
	const enum packet_language l = stream->language;
	if (at >= stream->n)
		return false;
	struct packet_span s = { stream->words + at, stream->n - at };
	const struct packet_header h = header_of(l, s.words[0]);
	const struct know_packet *p = packet_known(stream, &h);
	size_t length = packet_length(p, &h, s);
	*ret = (struct packet){ .language = l, .at = at, .known = p, .register_offset = UINT32_MAX };
	ret->cut = length > s.n;
	ret->words = s.n = ret->cut ? s.n : length;
	ret->opcode = (uint32_t)(h.opcode < 0 ? 0 : h.opcode);
	if (p)
		ret->name = p->name;
	else if (l == PACKETS_UNKNOWN)
		ret->name = S("word");
	else if (h.opcode < 0)
		ret->name = arena_printf(a, "type %d", h.type < 0 ? 0 : h.type);
	else
		ret->name = h.sub < 0 ? arena_printf(a, "opcode 0x%02x", ret->opcode) :
					arena_printf(a, "opcode 0x%02x.%d", ret->opcode, h.sub);
	if (!p)
		return true;
	for (const struct know_packet_field *f = p->fields; f; f = f->next)
		if (!f->hidden)
			add_field(stream->know, stream->places, a, f, s, ret);
	packet_find_registers(p, stream, a, s, ret);
	uint64_t v;
	if (p->ib_address && field_value(p->ib_address, s, 0, &ret->ib_address)) {
		ret->ib_words = p->ib_words && field_value(p->ib_words, s, 0, &v) ? v : 0;
		ret->ib_vmid = p->ib_vmid && field_value(p->ib_vmid, s, 0, &v) ? (unsigned)v : 0;
		ret->ib_chain = p->ib_chain && field_value(p->ib_chain, s, 0, &v) && v;
	}
	ret->fences = p->fence && field_value(p->fence, s, 0, &ret->fence);
	const struct packet_saying saying = { a, ret };
	const struct fact_view view = { packets_saying_fact, &saying };
	_cleanup_text_ struct text t = { 0 };
	for (const struct know_packet_waits *w = p->waits; w && !t.n; w = w->next)
		if (when_holds(&w->when, s))
			phrase_fill(&t, w->say, &view);
	ret->waits_for = arena_str(a, text_str(&t));
	return true;
}

/** Of a window before @rptr each place is tried: where the packet there would end (0: no well-formed one begins there), and how many chains
 * of packets pass it that end exactly at the window's end. Chains that begin at a wrong place soon meet the right ones, so the right places
 * get most votes. */
size_t packets_before(const struct packet_stream *ring, size_t rptr, size_t most)
{
	const size_t n = ring->n;
	size_t size = n < GUESS_WORDS ? n : GUESS_WORDS, at = size;
	if (rptr >= n || !most || ring->language == PACKETS_UNKNOWN)
		return 0;
	_cleanup_free_ uint32_t *words = mem_alloc((3 * size + 1) * sizeof(*words));
	uint32_t *ends = words + size, *votes = ends + size;
	for (size_t i = 0; i < size; i++)
		words[i] = ring->words[(rptr + n - size + i) % n];
	for (size_t i = 0; i < size; i++) {
		const struct packet_header h = header_of(ring->language, words[i]);
		const struct know_packet *p = packet_known(ring, &h);
		size_t length = packet_length(p, &h, (struct packet_span){ words + i, size - i });
		ends[i] = p && !p->rare && length <= size - i ? (uint32_t)(i + length) : 0;
	}
	votes[size] = 1;
	for (size_t i = size; i-- > 0;)
		votes[i] = ends[i] && votes[ends[i]];
	for (size_t i = 0; i < size; i++)
		if (votes[i])
			votes[ends[i]] += votes[i];
	for (; most; most--) {
		size_t best = at;
		for (size_t i = 0; i < at; i++)
			if (ends[i] == at && votes[i] && (best == at || votes[i] > votes[best]))
				best = i;
		if (best == at)
			break;
		at = best;
	}
	return size - at;
}
