#include "gpu/ring_follow.h"

#include <stdlib.h>

#include "base/cleanup.h"

enum { HELD_MOST = 2048, AROUND_PACKETS = 4096 };

/** A look at a ring: its newest words in a row, whose last one stands before wptr. */
struct follow_look {
	struct ring_follower *f;
	const struct ring *now;
	struct packet_stream stream;
	uint32_t wptr;
	bool around; // packets were lost
	follow_fn *tell;
	void *ctx;
	struct arena arena;
};

static void follow_tell(struct follow_look *l, enum follow_what what, const struct ring_packet *p)
{
	const struct ring_follower *f = l->f;
	const struct follow_event e = { what, p, f->rptr, l->wptr, (uint32_t)((l->wptr + f->n - f->rptr) % f->n) };
	l->tell(l->ctx, f, &e);
}

/** The driver writes from wptr on. Words elsewhere that changed say that it went around the ring since the look before. */
static bool went_around(const struct ring_follower *f, const struct ring *now, uint32_t wptr)
{
	const uint32_t new_words = (uint32_t)((wptr + f->n - f->wptr) % f->n);
	for (size_t i = new_words; i < f->n; i++) {
		const size_t at = (f->wptr + i) % f->n;
		if (f->words[at] != now->words[at])
			return true;
	}
	return false;
}

/** How many words before wptr have not been told. */
static size_t words_to_tell(struct follow_look *l, unsigned first)
{
	struct ring_follower *f = l->f;
	const struct packet_stream ring = { l->stream.know, l->stream.language, l->stream.gfx, l->now->words, l->now->n, NULL };
	if (!f->begun)
		return packets_before(&ring, l->wptr, first);
	const size_t new_words = f->held + (l->wptr + f->n - f->wptr) % f->n;
	if (new_words <= f->n && !went_around(f, l->now, l->wptr))
		return new_words;
	f->fences.len = 0;
	f->held = 0;
	f->reached_known = false;
	l->around = true;
	follow_tell(l, FOLLOW_OVERWRITTEN, NULL);
	return packets_before(&ring, l->wptr, AROUND_PACKETS);
}

static void note_fence(struct ring_follower *f, const struct packet *p, uint64_t end)
{
	if (!p->fences)
		return;
	vec_push(&f->fences, ((struct followed_fence){ end, p->fence }));
	f->emitted = p->fence;
	f->emitted_known = true;
}

/** Tells the packets of @n words, the same ones in a row as one. What is not complete is left for the next look. */
static void tell_packets(struct follow_look *l, size_t n)
{
	struct ring_follower *f = l->f;
	struct packet p, last = { 0 };
	struct ring_packet row = { .packet = &last };
	const uint64_t begin = f->written - n;
	size_t at = 0;
	for (; at < n && packet_decode(&l->stream, &l->arena, at, &p); at += p.words) {
		if (p.cut && n - at <= HELD_MOST && n - at < f->n / 2)
			break;
		const uint32_t *raw = l->stream.words + at;
		note_fence(f, &p, begin + at + p.words);
		if (row.repeat && last.words == p.words && !memcmp(row.raw, raw, p.words * sizeof(*raw))) {
			row.repeat++;
			continue;
		}
		if (row.repeat)
			follow_tell(l, FOLLOW_PACKET, &row);
		last = p;
		row.raw = raw;
		row.repeat = 1;
		row.at = (l->wptr + f->n - (n - at) % f->n) % f->n;
	}
	if (row.repeat)
		follow_tell(l, FOLLOW_PACKET, &row);
	f->held = n - at;
}

/** The fences that the engine has passed are no longer kept. */
static void pass_fences(struct ring_follower *f, uint64_t read)
{
	size_t n = 0;
	while (n < f->fences.len && f->fences.data[n].end <= read) {
		f->reached = f->fences.data[n++].value;
		f->reached_known = true;
	}
	if (n)
		memmove(f->fences.data, f->fences.data + n, (f->fences.len - n) * sizeof(*f->fences.data));
	f->fences.len -= n;
}

/** The packet at which the engine is, where a packet begins there. */
static void tell_position(struct follow_look *l, enum follow_what what, size_t pending)
{
	struct packet p;
	struct ring_packet row = { .packet = &p, .repeat = 1, .here = true, .at = l->f->rptr };
	const size_t at = l->stream.n - pending;
	const bool there = pending && packet_decode(&l->stream, &l->arena, at, &p);
	row.raw = l->stream.words + at;
	follow_tell(l, what, there ? &row : NULL);
}

void ring_follow(struct ring_follower *f, const struct ring *now, const struct packet_stream *like, unsigned first,
		 follow_fn *fn, void *ctx)
{
	const size_t n = now->n;
	if (!n)
		return;
	if (f->n != n)
		ring_follower_free(f);
	_cleanup_free_ uint32_t *words = mem_alloc(n * sizeof(*words));
	struct follow_look l = {
		.f = f, .now = now, .stream = *like, .wptr = (uint32_t)(now->driver_wptr % n), .tell = fn, .ctx = ctx
	};
	for (size_t i = 0; i < n; i++)
		words[i] = now->words[(l.wptr + i) % n];
	const bool moved = !f->begun || f->wptr != l.wptr || f->rptr != now->rptr % n;
	f->n = n;
	f->rptr = (uint32_t)(now->rptr % n);
	const size_t told = words_to_tell(&l, first), pending = (l.wptr + n - f->rptr) % n;
	f->written += told - f->held;
	l.stream.words = words + n - told;
	l.stream.n = told;
	tell_packets(&l, told);
	pass_fences(f, f->written > pending ? f->written - pending : 0);
	l.stream.words = words;
	l.stream.n = n;
	if (moved || l.around || pending)
		tell_position(&l, moved || l.around ? FOLLOW_POSITION : FOLLOW_STILL, pending);
	free(f->words);
	f->words = mem_alloc(n * sizeof(*f->words));
	memcpy(f->words, now->words, n * sizeof(*f->words));
	f->wptr = l.wptr;
	f->begun = true;
	arena_free(&l.arena);
}

void ring_follower_free(struct ring_follower *f)
{
	free(f->words);
	vec_free(&f->fences);
	*f = (struct ring_follower){ .name = f->name };
}
