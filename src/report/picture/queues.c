// How far queues and rings are: what waits in each, from the place that was read last.
#include "report/picture/picture.h"

enum { QUEUES_MOST = 32 };

#define READ_AT 0.06 // where the read position stands
#define LEAST 0.01   // of what waits, however little

/** One that is read and written: a queue of packets, or a ring of the driver's words. */
struct queue_track {
	struct str name, head, waits_for;
	bool known, words; // a ring's positions are those of words, which others print in hexadecimal
	uint64_t read, written;
	int64_t waves; // -1: not told
};

static void add_number(struct picture *p, bool known, bool words, uint64_t n)
{
	picture_cell(p, !known ? S("not known") : arena_printf(&p->arena, words ? "0x%llx" : "%llu", (unsigned long long)n));
}

static void add_row(struct picture *p, const struct queue_track *s)
{
	picture_cell(p, s->name);
	add_number(p, s->known, s->words, s->read);
	add_number(p, s->known, s->words, s->written);
	add_number(p, s->known && s->written >= s->read, false, s->written - s->read);
	picture_cell(p, s->head.n ? s->head : S("not known"));
	picture_cell(p, s->waits_for);
	picture_count(p, s->waves);
}

/** @most waits in the fullest of its kind. */
static void add_track(struct picture *p, const struct queue_track *s, uint64_t most)
{
	const size_t track = p->tracks.len;
	const bool ordered = s->known && s->written >= s->read; // a ring may have begun anew
	const uint64_t waiting = ordered ? s->written - s->read : 0;
	const double wide = waiting ? (1 - READ_AT) * (double)waiting / (double)most : 0;
	picture_track(p, s->head.n ? arena_printf(&p->arena, STR_FMT ", at " STR_FMT, STR_ARG(s->name), STR_ARG(s->head)) :
				     s->name);
	if (s->known)
		picture_mark(p, (struct picture_mark){ track, 0, READ_AT, LOOK_QUIET, S("") });
	if (waiting)
		picture_mark(p, (struct picture_mark){ track, READ_AT, READ_AT + (wide > LEAST ? wide : LEAST), LOOK_EFFECT,
						       arena_printf(&p->arena, "%llu", (unsigned long long)waiting) });
	if (!ordered)
		picture_mark(p, (struct picture_mark){ track, READ_AT, READ_AT, LOOK_UNKNOWN, S("not known") });
	add_row(p, s);
}

static size_t add_queues(struct picture *p, const struct dump *d)
{
	uint64_t most = 0;
	size_t waiting = 0;
	for (size_t n = 0; n < d->nqueues; n++) {
		const struct queue_row *q = &d->queues[n];
		if (!q->indexes_known || q->write_index <= q->read_index)
			continue;
		waiting++;
		most = q->write_index - q->read_index > most ? q->write_index - q->read_index : most;
	}
	for (size_t n = 0; n < d->nqueues && n < QUEUES_MOST; n++) {
		const struct queue_row *q = &d->queues[n];
		const struct queue_track s = { .name = arena_printf(&p->arena, "queue %u", q->id),
					       .head = q->head,
					       .known = q->indexes_known,
					       .read = q->read_index,
					       .written = q->write_index,
					       .waves = (int64_t)q->waves };
		add_track(p, &s, most);
	}
	return waiting;
}

/** What a look at the GPU, or its device core, told of a ring. */
static void add_ring(struct picture *p, const struct diag_event *e)
{
	struct queue_track s = { .name = arena_printf(&p->arena, "ring " STR_FMT, STR_ARG(diag_value(e, "ring"))),
				 .head = diag_value(e, "ring_packet"),
				 .waits_for = diag_value(e, "ring_waits"),
				 .words = true,
				 .waves = -1 };
	s.known = str_hex(diag_value(e, "ring_rptr"), &s.read) && str_hex(diag_value(e, "ring_wptr"), &s.written);
	add_track(p, &s, s.known && s.written > s.read ? s.written - s.read : 1);
}

bool picture_of_queues(const struct diagnosis *d, const struct incident *i, struct picture *p)
{
	static const char *const heads[] = { "Where",        "Read", "Written", "Waiting", "Packet at the head",
					     "It waits for", "Waves" };
	const struct dump *queues = NULL;
	size_t rings = 0, waiting = 0;
	(void)d;
	picture_heads(p, heads, sizeof(heads) / sizeof(heads[0]));
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *e = i->events.data[n];
		queues = !queues && e->dump.nqueues ? &e->dump : queues;
		if ((diag_fact(e, "ring_rptr") || diag_fact(e, "ring_packet")) && p->tracks.len < QUEUES_MOST && ++rings)
			add_ring(p, e);
	}
	if (queues)
		waiting = add_queues(p, queues);
	picture_tick(p, READ_AT, S("read"));
	p->looks[LOOK_QUIET] = "read";
	p->looks[LOOK_EFFECT] = "waits to be read";
	for (size_t n = 0; n < p->marks.len; n++)
		if (p->marks.data[n].look == LOOK_UNKNOWN)
			p->looks[LOOK_UNKNOWN] = "not known";
	p->says = queues ? arena_printf(&p->arena, "Work waits in %zu of %zu queues", waiting, queues->nqueues) :
			   arena_printf(&p->arena, "Rings that were read: %zu", rings);
	return p->tracks.len;
}
