// The head of a recording and its table of extents.
#include <stdlib.h>
#include <time.h>

#include "base/bytes.h"
#include "evidence/recording/recording.h"

bool recording_begins(struct str head)
{
	return str_starts(head, (struct str){ RECORDING_MAGIC, sizeof(RECORDING_MAGIC) - 1 });
}

/** Whether an extent lies in the file with all of its slots. A file that was cut has fewer extents. */
static bool extent_in(const struct rec_extent *e, size_t size)
{
	enum { KINDS_MOST = 255 }; // also of recorders to come
	if (!e->kind || e->kind > KINDS_MOST || e->offset < RECORDING_HEAD || e->offset > size || e->size > size - e->offset ||
	    e->head > e->size)
		return false;
	if (!e->stride || e->stride % 8 || e->head % 8 || e->offset % 8)
		return false;
	return e->slots && !(e->slots & (e->slots - 1)) && e->slots <= (e->size - e->head) / e->stride;
}

bool recording_damaged(struct str head)
{
	struct rec_extent e;
	if (head.n < RECORDING_EXTENTS_AT + sizeof(e) || recording_begins(head))
		return false;
	if (get_u32(head.p + offsetof(struct rec_header, version)) == RECORDING_VERSION &&
	    get_u32(head.p + offsetof(struct rec_header, size)) == RECORDING_HEAD)
		return true;
	memcpy(&e, head.p + RECORDING_EXTENTS_AT, sizeof(e));
	return e.offset == RECORDING_HEAD && extent_in(&e, SIZE_MAX);
}

bool record_whole(const char *words, unsigned nwords, uint64_t upto, uint64_t *ret_id)
{
	uint64_t w[sizeof(struct rec_operation) / 8 + 1];
	const uint32_t low = get_u32(words), check = get_u32(words + 4);
	if (!check || nwords > ARRAY_SIZE(w))
		return false;
	const uint64_t id = upto - (uint32_t)((uint32_t)upto - low);
	memcpy(w, words, nwords * sizeof(w[0]));
	*ret_id = id;
	return id <= upto && rec_check(w, nwords, id) == check;
}

bool record_at(const struct recording_piece *p, uint64_t i, unsigned nwords, uint64_t next, uint64_t *ret_id, uint64_t *torn)
{
	const char *at = p->slots + i * p->extent.stride;
	const bool used = get_u64(at),
		   good = used && next && record_whole(at, nwords, next - 1, ret_id) && (*ret_id & (p->extent.slots - 1)) == i;
	*torn += used && !good;
	return good;
}

static struct str text_in(const char *field, size_t size) { return (struct str){ field, strnlen(field, size) }; }

/** Of a file that was cut, pieces that begin in it get their end back, as zeros: slots that were never used. */
static void end_restore(struct flight_recording *r)
{
	enum { RESTORED_MOST = 64 << 20 };
	size_t end = r->size;
	for (size_t i = 0; i < RECORDING_EXTENTS; i++) {
		struct rec_extent e;
		memcpy(&e, r->bytes + RECORDING_EXTENTS_AT + i * sizeof(e), sizeof(e));
		if (e.kind && e.offset < r->size && e.head < r->size - e.offset && e.size <= RESTORED_MOST &&
		    e.offset + e.size > end)
			end = e.offset + e.size;
	}
	if (end > r->size) {
		r->cut = true;
		r->bytes = mem_grow(r->bytes, r->size, end);
		r->size = end;
	}
}

static size_t pieces_find(struct flight_recording *r, struct recording_piece *ret)
{
	size_t n = 0;
	for (size_t i = 0; i < RECORDING_EXTENTS; i++) {
		struct recording_piece p = { 0 };
		memcpy(&p.extent, r->bytes + RECORDING_EXTENTS_AT + i * sizeof(p.extent), sizeof(p.extent));
		if (!extent_in(&p.extent, r->size)) {
			r->cut = r->cut || p.extent.kind; // without one it was not finished
			continue;
		}
		p.head = r->bytes + p.extent.offset;
		p.slots = p.head + p.extent.head;
		ret[n++] = p;
	}
	return n;
}

/** The recorder makes one piece behind the other, the first ones before it records anything. One that is missing was there. */
static bool has_lost(const struct flight_recording *r, const struct recording_piece *p, size_t n)
{
	uint64_t end = RECORDING_HEAD;
	unsigned threads = 0, events = 0;
	for (size_t i = 0; i < n; i++) {
		if (p[i].extent.offset != end)
			return true;
		end += p[i].extent.size;
		threads += p[i].extent.kind == EXTENT_THREADS;
		events += p[i].extent.kind == EXTENT_EVENTS;
	}
	const bool begun = r->header.state == RECORDING_ON || r->header.state == RECORDING_ENDED;
	return begun && (end < r->size || !threads || !events);
}

static const struct recording_piece *piece_of(const struct recording_piece *p, size_t n, enum extent_kind kind)
{
	for (size_t i = 0; i < n; i++)
		if (p[i].extent.kind == kind)
			return &p[i];
	return NULL;
}

static void header_take(struct flight_recording *r)
{
	memcpy(&r->header, r->bytes, sizeof(r->header));
	const struct rec_header *h = &r->header;
	r->host = text_in(h->host, sizeof(h->host));
	r->program = text_in(h->program, sizeof(h->program));
	r->boot_id = text_in(h->boot_id, sizeof(h->boot_id));
	r->note = text_in(h->note, sizeof(h->note));
	r->core = text_in(h->core, sizeof(h->core));
	r->command = arena_str(&r->arena, (struct str){ h->command, sizeof(h->command) });
	while (r->command.n && !r->command.p[r->command.n - 1])
		r->command.n--;
	for (size_t i = 0; i < r->command.n; i++)
		if (!r->command.p[i])
			((char *)r->command.p)[i] = ' ';
	// The newest clock that is whole and later than the first.
	const struct rec_clock *c = &h->clocks[h->newest & 1];
	r->rate = (double)h->ticks_per_second;
	r->now = c->ticks > h->start.ticks ? c->ticks : h->start.ticks;
	if (c->ticks > h->start.ticks && c->boot_ns > h->start.boot_ns && c->boot_ns - h->start.boot_ns > 1000000)
		r->rate = (double)(c->ticks - h->start.ticks) * 1e9 / (double)(c->boot_ns - h->start.boot_ns);
	if (!(r->rate >= 1000) || !(r->rate < 1e12))
		r->rate = 1e9;
}

double recording_age(const struct flight_recording *r, uint64_t ticks)
{
	return ticks && r->now > ticks ? (double)(r->now - ticks) / r->rate : 0;
}

double recording_time(const struct flight_recording *r, uint64_t ticks)
{
	const struct rec_clock *c = &r->header.start;
	const double since = ticks >= c->ticks ? (double)(ticks - c->ticks) : -(double)(c->ticks - ticks);
	return (double)c->real_ns / 1e9 + since / r->rate;
}

uint64_t recording_now(const struct flight_recording *r)
{
	struct timespec t;
	const struct rec_clock *c = &r->header.clocks[r->header.newest & 1];
	clock_gettime(CLOCK_BOOTTIME, &t);
	const uint64_t boot = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	return boot > c->boot_ns ? c->ticks + (uint64_t)((double)(boot - c->boot_ns) * r->rate / 1e9) : c->ticks;
}

const struct recorded_thread *recording_thread(const struct flight_recording *r, uint16_t slot)
{
	for (size_t i = 0; i < r->nthreads; i++)
		if (r->threads[i].slot == slot)
			return &r->threads[i];
	return NULL;
}

struct uh_error *recording_parse(const char *name, char *bytes, size_t size, struct flight_recording **ret)
{
	struct flight_recording *r = mem_alloc(sizeof(*r));
	struct recording_piece *pieces = mem_alloc(RECORDING_EXTENTS * sizeof(*pieces));
	struct uh_error *err = NULL;
	*r = (struct flight_recording){ .bytes = bytes, .size = size };
	if (size < RECORDING_HEAD || !recording_begins((struct str){ bytes, size }))
		err = uh_error_new("%s: no recording, or one that was cut off in its first page", name);
	else if (!get_u32(bytes + offsetof(struct rec_header, version)))
		err = uh_error_new("%s: its process ended before anything was recorded", name);
	else if (get_u32(bytes + offsetof(struct rec_header, version)) != RECORDING_VERSION)
		err = uh_error_new("%s: a recording of version %u; this unhang reads version %d", name,
				   get_u32(bytes + offsetof(struct rec_header, version)), RECORDING_VERSION);
	if (!err) {
		header_take(r);
		end_restore(r);
		const size_t n = pieces_find(r, pieces);
		r->cut = r->cut || has_lost(r, pieces, n);
		const struct recording_piece *log = piece_of(pieces, n, EXTENT_LOG);
		if (log)
			recording_names(r, log);
		recording_calls(r, pieces, n);
		recording_memory(r, piece_of(pieces, n, EXTENT_MEMORY));
		recording_queues(r, pieces, n);
		recording_seen(r, pieces, n);
		recording_progress(r);
	}
	free(pieces);
	if (err)
		recording_free(r);
	else
		*ret = r;
	return err;
}

const char *recording_gap(const struct flight_recording *r)
{
	return r->cut                                    ? "the recording is cut off or damaged" :
	       r->header.torn_queues && r->header.closed ? "the program closed the recorder's file before it made a queue" :
	       r->header.torn_queues                     ? "there was no room to record a queue" :
	       r->header.state == RECORDING_ASIDE        ? "there was no room for a recording" :
							   NULL;
}

void recording_free(struct flight_recording *r)
{
	if (!r)
		return;
	vec_free(&r->seen);
	arena_free(&r->arena);
	free(r->bytes);
	free(r);
}
