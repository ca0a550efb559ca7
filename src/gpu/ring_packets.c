// The rings of the driver, with the packets around the place where each of them stands, and the buffers that these run.
#include <stdlib.h>

#include "base/cleanup.h"
#include "gpu/memory/vm.h"
#include "gpu/packet.h"
#include "gpu/silicon/silicon.h"

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
	struct span s = { .stream = { r->know, by->packet->language, r->gfx, memory->to, n, r->places },
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
	struct span s = { .stream = { r->know, v->language, r->gfx, words, n, r->places }, .first = first, .ring = n };
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
