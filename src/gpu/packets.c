// Packets of rings and queues, taken apart by the tables of knowledge/packets.know, and the rings of the driver with the packets around the
// place where each of them stands.
#include <inttypes.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "gpu/memory/vm.h"
#include "gpu/packet.h"
#include "gpu/silicon/silicon.h"

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

static void add_field(const struct know *k, struct arena *a, const struct know_packet_field *f, struct packet_span s,
		      struct packet *ret)
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
		if (f->print == PACKET_REGISTER && ret->register_offset == UINT32_MAX)
			ret->register_offset = (uint32_t)v;
	}
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
			add_field(stream->know, a, f, s, ret);
	uint64_t v;
	if (p->ib_address && field_value(p->ib_address, s, 0, &ret->ib_address)) {
		ret->ib_words = p->ib_words && field_value(p->ib_words, s, 0, &v) ? v : 0;
		ret->ib_vmid = p->ib_vmid && field_value(p->ib_vmid, s, 0, &v) ? (unsigned)v : 0;
		ret->ib_chain = p->ib_chain && field_value(p->ib_chain, s, 0, &v) && v;
	}
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

// --- rings ---

enum {
	ROWS_MOST = 4096,   // of a ring, with --all
	BEFORE_FACTOR = 16, // packets looked back at for each that is shown: runs of NOPs are shown as one
	IB_WORDS_MOST = 4096,
	DEPTH_MOST = 2,
};

static const char *const state_names[] = {
	[RING_IDLE] = "idle",        [RING_WORKING] = "working", [RING_WAITING] = "waiting",
	[RING_STILL] = "not moving", [RING_UNSEEN] = "unseen",
};

const char *ring_state_name(enum ring_state s) { return state_names[s]; }

void ring_look(struct ring_view *v, const struct ring *now, const struct ring *before)
{
	const uint32_t n = now->n ? (uint32_t)now->n : 1;
	*v = (struct ring_view){ .ring = now };
	v->rptr = now->rptr % n;
	v->wptr = now->wptr % n;
	v->driver_wptr = now->driver_wptr % n;
	v->pending = (v->wptr + n - v->rptr) % n;
	if (before && (before->rptr != now->rptr || before->wptr != now->wptr))
		v->state = RING_WORKING;
	else if (v->pending)
		v->state = before ? RING_STILL : RING_WAITING;
	else
		v->state = v->driver_wptr == v->wptr ? RING_IDLE : RING_UNSEEN;
}

// --- packets ---

/** Words that are decoded: a ring that begins half its size before rptr, or an IB. */
struct span {
	struct packet_stream stream;
	size_t first;     // word of the ring that words[0] is
	size_t ring;      // words in the ring; 0: an IB
	uint64_t address; // of an IB
	unsigned depth, vmid;
};

struct rows {
	struct ring_packet *data;
	size_t len, cap;
};

/** Decodes the packets from @from to @to, at most @most; the same ones in a row become one. */
static void decode_span(struct ring_reading *r, const struct span *s, size_t from, size_t to, size_t most, struct rows *ret)
{
	struct packet p;
	for (size_t at = from; at < to && packet_decode(&s->stream, &r->arena, at, &p); at += p.words) {
		struct ring_packet row = {
			.packet = &p, .raw = s->stream.words + at, .repeat = 1, .depth = s->depth, .vmid = s->vmid
		};
		struct ring_packet *last = ret->len ? &ret->data[ret->len - 1] : NULL;
		row.at = s->ring ? (s->first + at) % s->ring : at;
		row.address = s->ring ? 0 : s->address + at * 4;
		if (last && last->packet->words == p.words && !memcmp(last->raw, row.raw, p.words * sizeof(*row.raw))) {
			last->repeat++;
			continue;
		}
		if (ret->len == most)
			return;
		row.packet = arena_copy(&r->arena, &p, offsetof(struct packet, fields) + p.nfields * sizeof(p.fields[0]));
		vec_push(ret, row);
	}
}

static void add_rows(struct ring_reading *r, struct ring_view *v, const struct rows *rows, size_t from);

/** Of an IB the packets around the one at which the engine stands are shown, or the first. */
static void add_ib(struct ring_reading *r, struct ring_view *v, const struct ring_packet *by, const struct request *memory)
{
	const size_t most = r->all ? ROWS_MOST : r->packets, n = memory->size / 4;
	_cleanup_vec_ struct rows rows = { 0 };
	struct span s = { .stream = { r->know, by->packet->language, r->gfx, memory->to, n },
			  .address = memory->address,
			  .depth = by->depth + 1,
			  .vmid = memory->vmid };
	size_t here = 0;
	decode_span(r, &s, 0, n, ROWS_MOST, &rows);
	for (size_t i = 0; i < rows.len && by->here; i++) {
		struct ring_packet *row = &rows.data[i];
		const uint64_t bytes = 4 * (uint64_t)row->packet->words * row->repeat;
		row->here = v->engine >= row->address && v->engine - row->address < bytes;
		here = row->here ? i : here;
	}
	const size_t from = here > most ? here - most : 0, left = rows.len - from;
	struct rows shown = { rows.data + from, left < (here - from) + most ? left : (here - from) + most, 0 };
	add_rows(r, v, &shown, 0);
}

/** A request for the IB that a packet runs. false: it runs none, or it would be too deep. Addresses in an IB belong to the VMID that the
 * IB runs for. */
static bool ib_request(struct ring_reading *r, const struct ring_view *v, const struct ring_packet *row, struct request *ret)
{
	const struct packet *p = row->packet;
	const uint64_t words = p->ib_words < IB_WORDS_MOST ? p->ib_words : IB_WORDS_MOST;
	if (!p->ib_address || !words || row->depth == DEPTH_MOST)
		return false;
	*ret = (struct request){ .kind = REQUEST_MEMORY,
				 .address = p->ib_address,
				 .size = words * 4,
				 .to = arena_alloc(&r->arena, words * 4),
				 .vmid = row->depth || v->buffer ? row->vmid : p->ib_vmid,
				 .hub = v->hub,
				 .hub_instance = v->hub_instance };
	return true;
}

/** Adds packets to the view, those from @from on each followed by what it runs: all IBs are asked for at once. */
static void add_rows(struct ring_reading *r, struct ring_view *v, const struct rows *rows, size_t from)
{
	_cleanup_free_ struct request *requests = mem_alloc(rows->len * sizeof(*requests) + 1);
	_cleanup_free_ size_t *of = mem_alloc(rows->len * sizeof(*of) + 1);
	size_t n = 0;
	for (size_t i = from; i < rows->len; i++)
		if (ib_request(r, v, &rows->data[i], &requests[n]))
			of[n++] = i;
	for (size_t i = 0; i < n && !r->target; i++) {
		requests[i].answer = ANSWER_ABSENT;
		requests[i].why_not = "there is no GPU to read them from";
	}
	if (n && r->target)
		r->target->ask(r->target, requests, n);
	for (size_t i = 0, k = 0; i < rows->len && v->packets.len < ROWS_MOST; i++) {
		const bool runs = k < n && of[k] == i;
		struct ring_packet row = rows->data[i];
		row.ib_read = runs && requests[k].answer == ANSWER_GIVEN;
		row.ib_why_not = runs ? requests[k].why_not : NULL;
		vec_push(&v->packets, row);
		if (row.ib_read)
			add_ib(r, v, &row, &requests[k]);
		k += runs;
	}
}

void ring_read_packets(struct ring_reading *r, struct ring_view *v)
{
	const size_t n = v->ring->n, back = n / 2;
	_cleanup_vec_ struct rows before = { 0 }, behind = { 0 };
	v->language = packet_language_of(r->know, v->ring->name);
	if (v->language == PACKETS_UNKNOWN || !n)
		return;
	vm_hub_of(r->know, r->gfx, v->ring->name, &v->hub, &v->hub_instance);
	v->engine = ring_engine(r->target, v->ring->name);
	// A copy that begins half a ring before rptr: then no packet wraps.
	uint32_t *words = arena_alloc(&r->arena, n * sizeof(*words));
	const size_t first = (v->rptr + n - back) % n;
	memcpy(words, v->ring->words + first, (n - first) * sizeof(*words));
	memcpy(words + n - first, v->ring->words, first * sizeof(*words));
	struct span s = { .stream = { r->know, v->language, r->gfx, words, n }, .first = first, .ring = n };
	const size_t most = r->all ? ROWS_MOST : r->packets;
	size_t earlier = packets_before(&s.stream, back, most * BEFORE_FACTOR);
	decode_span(r, &s, back - earlier, back, SIZE_MAX, &before);
	const size_t skipped = before.len > most ? before.len - most : 0;
	struct rows shown = { before.len ? before.data + skipped : NULL, before.len - skipped, 0 };
	// Of the packets before rptr only the last IB may still be running: the GPU reads ahead.
	size_t last = v->pending ? shown.len : 0;
	while (last && !shown.data[last - 1].packet->ib_address)
		last--;
	add_rows(r, v, &shown, r->all ? 0 : last ? last - 1 : shown.len);
	if (v->pending) {
		decode_span(r, &s, back, v->pending < n - back ? back + v->pending : n, most, &behind);
		if (behind.len)
			behind.data[0].here = true;
		add_rows(r, v, &behind, 0);
	}
}

void buffer_read_packets(struct ring_reading *r, struct ring_view *v, struct packet_stream words, uint64_t address,
			 unsigned vmid)
{
	_cleanup_vec_ struct rows rows = { 0 };
	const struct span s = { .stream = words, .address = address, .vmid = vmid };
	v->buffer = true;
	v->language = words.language;
	decode_span(r, &s, 0, words.n, ROWS_MOST, &rows);
	add_rows(r, v, &rows, 0);
}
