#include "gpu/packet.h"

#include <inttypes.h>

#include "base/bytes.h"
#include "base/cleanup.h"

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
	for (size_t i = 0; i < k->rings.len; i++)
		if (str_glob(k->rings.data[i]->head.id, ring))
			return know_packet_language(k->rings.data[i]->value);
	return PACKETS_UNKNOWN;
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
	size_t wide = f->high > 31 ? 2 : 1, word = f->word + wide * index;
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
	for (size_t i = 0; i < w->n; i++)
		if (v == w->values[i])
			return true;
	return false;
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

static const struct know_packet *find(const struct know *k, enum packet_language l, struct str gfx,
				      const struct packet_header *h)
{
	return l == PACKETS_UNKNOWN ? NULL : know_packet(k, l, gfx, h->type, h->opcode, h->sub);
}

static unsigned field_digits(const struct know_packet_field *f)
{
	switch (f->print) {
	case PACKET_NUMBER:
		return 0;
	case PACKET_ADDRESS:
		return f->high / 4 + 1;
	default:
		return (f->high - f->low) / 4 + 1;
	}
}

static void add_field(const struct know *k, struct arena *a, const struct know_packet_field *f, struct packet_span s,
		      struct packet *ret)
{
	uint64_t v;
	for (size_t i = 0; ret->nfields < PACKET_FIELDS && (f->each || !i) && f->word + i < s.n; i++) {
		if (!field_value(f, s, i, &v))
			continue;
		struct packet_field *to = &ret->fields[ret->nfields++];
		*to = (struct packet_field){ .name = f->name, .value = v, .digits = field_digits(f) };
		if (f->each)
			to->name = arena_printf(a, STR_FMT "[%zu]", STR_ARG(f->name), i);
		if (f->table.n)
			to->text = know_name(k, f->table, (int64_t)v);
		if (f->print == PACKET_REGISTER && ret->register_offset == UINT32_MAX)
			ret->register_offset = (uint32_t)v;
	}
}

struct packet_saying {
	struct arena *arena;
	const struct packet *packet;
};

static bool saying_fact(const void *ctx, struct str name, size_t index, struct str *ret)
{
	const struct packet_saying *s = ctx;
	for (size_t i = 0; i < s->packet->nfields && !index; i++) {
		const struct packet_field *f = &s->packet->fields[i];
		if (!str_eq(f->name, name))
			continue;
		*ret = f->text.n ? f->text : arena_printf(s->arena, f->digits ? "0x%" PRIx64 : "%" PRIu64, f->value);
		return true;
	}
	return false;
}

static void say_waits(struct arena *a, const struct know_packet *p, struct packet_span s, struct packet *ret)
{
	const struct packet_saying saying = { a, ret };
	const struct fact_view view = { saying_fact, &saying };
	struct text t = { 0 };
	for (const struct know_packet_waits *w = p->waits; w && !t.n; w = w->next)
		if (when_holds(&w->when, s))
			phrase_fill(&t, w->say, &view);
	ret->waits_for = arena_str(a, text_str(&t));
	text_free(&t);
}

static void take_ib(const struct know_packet *p, struct packet_span s, struct packet *ret)
{
	uint64_t v;
	if (!p->ib_address || !field_value(p->ib_address, s, 0, &ret->ib_address))
		return;
	if (p->ib_words && field_value(p->ib_words, s, 0, &v))
		ret->ib_words = v;
	if (p->ib_vmid && field_value(p->ib_vmid, s, 0, &v))
		ret->ib_vmid = (unsigned)v;
	ret->ib_chain = p->ib_chain && field_value(p->ib_chain, s, 0, &v) && v;
}

static struct str number_name(struct arena *a, const struct packet_header *h)
{
	if (h->opcode < 0)
		return arena_printf(a, "type %d", h->type < 0 ? 0 : h->type);
	return h->sub < 0 ? arena_printf(a, "opcode 0x%02x", (unsigned)h->opcode) :
			    arena_printf(a, "opcode 0x%02x.%d", (unsigned)h->opcode, h->sub);
}

bool packet_decode(const struct packet_stream *stream, struct arena *a, size_t at, struct packet *ret)
{
	const enum packet_language l = stream->language;
	if (at >= stream->n)
		return false;
	struct packet_span s = { stream->words + at, stream->n - at };
	const struct packet_header h = header_of(l, s.words[0]);
	const struct know_packet *p = find(stream->know, l, stream->gfx, &h);
	size_t length = packet_length(p, &h, s);
	*ret = (struct packet){ .language = l, .at = at, .known = p, .register_offset = UINT32_MAX };
	ret->cut = length > s.n;
	ret->words = s.n = ret->cut ? s.n : length;
	ret->opcode = (uint32_t)(h.opcode < 0 ? 0 : h.opcode);
	ret->name = p ? p->name : l == PACKETS_UNKNOWN ? S("word") : number_name(a, &h);
	if (!p)
		return true;
	for (const struct know_packet_field *f = p->fields; f; f = f->next)
		if (!f->hidden)
			add_field(stream->know, a, f, s, ret);
	take_ib(p, s, ret);
	say_waits(a, p, s, ret);
	return true;
}

/** Where the packet at each place of a window would end; 0 where no well-formed one begins there. */
static void window_ends(const struct packet_stream *window, uint32_t *ends)
{
	const size_t n = window->n;
	for (size_t i = 0; i < n; i++) {
		const struct packet_header h = header_of(window->language, window->words[i]);
		const struct know_packet *p = find(window->know, window->language, window->gfx, &h);
		size_t length = packet_length(p, &h, (struct packet_span){ window->words + i, n - i });
		ends[i] = p && !p->rare && length <= n - i ? (uint32_t)(i + length) : 0;
	}
}

/** For each place, how many chains of packets pass it and end exactly at the window's end. Chains that begin at a wrong place soon meet
 * the right ones, so the right places get most votes. 0: no chain passes. */
static void window_votes(const uint32_t *ends, size_t n, uint32_t *votes)
{
	votes[n] = 1;
	for (size_t i = n; i-- > 0;)
		votes[i] = ends[i] && votes[ends[i]];
	for (size_t i = 0; i < n; i++)
		if (votes[i])
			votes[ends[i]] += votes[i];
}

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
	struct packet_stream window = *ring;
	window.words = words;
	window.n = size;
	window_ends(&window, ends);
	window_votes(ends, size, votes);
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
