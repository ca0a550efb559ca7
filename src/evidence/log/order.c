// A log may have been pasted backwards, newest line first. Its first events are held back until their times, or messages that the driver
// always prints in one order, tell which way it runs; then they go on in the order in which they happened.
#include "evidence/log/log_reader.h"

#include <stdlib.h>

enum {
	HOLD_TO_DECIDE = 256, // events by which the direction of a log is decided
	HOLD_MAX = 16384,     // events of a log that runs backwards
	HELD_TEXT = 240,
};

static struct event *event_copy(struct arena *a, const struct event *e)
{
	struct event *c = arena_alloc(a, offsetof(struct event, facts) + e->nfacts * sizeof(e->facts[0]));
	memcpy(c, e, offsetof(struct event, facts) + e->nfacts * sizeof(e->facts[0]));
	c->device = arena_str(a, e->device);
	c->driver = arena_str(a, e->driver);
	c->text = arena_str(a, str_cut(e->text, HELD_TEXT));
	c->boot_id = arena_str(a, e->boot_id);
	c->host = arena_str(a, e->host);
	for (size_t i = 0; i < c->nfacts; i++) {
		c->facts[i].name = arena_str(a, e->facts[i].name);
		c->facts[i].value = arena_str(a, e->facts[i].value);
	}
	c->dump = dump_copy(a, &e->dump);
	return c;
}

static int sequence_rank(const struct know_sequence *s, struct str signature)
{
	int rank = 0;
	for (const struct know_list *l = s->order; l; l = l->next, rank++)
		if (str_eq(l->text, signature))
			return rank;
	return -1;
}

/** +1: @a stands before @b as the driver prints them; -1: behind; 0: it says nothing. */
static int sequence_vote(const struct know *k, const struct event *a, const struct event *b)
{
	if (!a->signature || !b->signature || !str_eq(a->device, b->device))
		return 0;
	for (size_t i = 0; i < k->sequences.len; i++) {
		int x = sequence_rank(k->sequences.data[i], a->signature->head.id);
		int y = sequence_rank(k->sequences.data[i], b->signature->head.id);
		// Neighbours only: a step of more than one may be the next round of the same messages.
		if (x >= 0 && y >= 0 && abs(x - y) == 1)
			return x < y ? 1 : -1;
	}
	return 0;
}

static enum log_direction order_decide(const struct log_order *o)
{
	int up = 0, down = 0, before = 0, behind = 0;
	for (size_t i = 1; i < o->held.len; i++) {
		const struct event *a = o->held.data[i - 1], *b = o->held.data[i];
		if (a->time.clock == b->time.clock && a->time.clock != TIME_NONE) {
			up += b->time.seconds > a->time.seconds;
			down += b->time.seconds < a->time.seconds;
		}
		int vote = sequence_vote(o->know, a, b);
		before += vote > 0;
		behind += vote < 0;
	}
	if (up != down)
		return down > up && down > 1        ? DIRECTION_BACKWARD :
		       down > up && behind > before ? DIRECTION_BACKWARD :
						      DIRECTION_FORWARD;
	return behind > before ? DIRECTION_BACKWARD : DIRECTION_FORWARD;
}

static void release_held(struct log_order *o)
{
	for (size_t i = 0; i < o->held.len; i++) {
		size_t at = o->direction == DIRECTION_BACKWARD ? o->held.len - 1 - i : i;
		o->sink.event(o->sink.ctx, o->held.data[at]);
	}
	o->held.len = 0;
	arena_free(&o->arena);
}

void log_order_event(struct log_order *o, const struct event *e)
{
	if (o->direction == DIRECTION_FORWARD) {
		o->sink.event(o->sink.ctx, e);
		return;
	}
	if (o->held.len < HOLD_MAX)
		vec_push(&o->held, event_copy(&o->arena, e));
	else
		o->lost++;
	if (o->direction == DIRECTION_UNKNOWN && o->held.len >= HOLD_TO_DECIDE) {
		o->direction = order_decide(o);
		if (o->direction == DIRECTION_FORWARD)
			release_held(o);
	}
}

void log_order_end(struct log_order *o)
{
	if (o->direction == DIRECTION_UNKNOWN)
		o->direction = order_decide(o);
	release_held(o);
}

void log_order_free(struct log_order *o)
{
	vec_free(&o->held);
	arena_free(&o->arena);
}
