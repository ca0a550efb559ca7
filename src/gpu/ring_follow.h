// A ring that is looked at again and again: the packets that the driver has written since the look before, and where the engine is.
#pragma once

#include "gpu/packet.h"

/** A fence that an engine writes when it gets there. */
struct followed_fence {
	uint64_t end; // words that were written up to the end of its packet
	uint64_t value;
};

struct ring_follower {
	struct str name;
	bool begun;
	size_t n;                          // words of the ring
	uint32_t *words;                   // as they were at the look before
	uint32_t wptr, rptr;               // likewise
	uint64_t written;                  // words since the first look, and those that it showed
	uint64_t held;                     // of a packet that was not complete
	VEC(struct followed_fence) fences; // that the engine has not reached
	bool reached_known, emitted_known;
	uint64_t reached, emitted; // the newest fence before rptr, and the newest of all
};

enum follow_what {
	FOLLOW_PACKET,
	FOLLOW_OVERWRITTEN, // the ring went around between two looks: some packets were never seen
	FOLLOW_POSITION,    // rptr or wptr moved
	FOLLOW_STILL,       // neither did, and there is work
};

struct follow_event {
	enum follow_what what;
	const struct ring_packet *packet; // also of a position: the packet at which the engine is; NULL: it has no work
	uint32_t rptr, wptr, pending;
};
typedef void follow_fn(void *ctx, const struct ring_follower *f, const struct follow_event *e);

/** Tells what is new in @now. @like: how its packets are read, without words. Of the first look the last @first packets are told. */
void ring_follow(struct ring_follower *f, const struct ring *now, const struct packet_stream *like, unsigned first,
		 follow_fn *tell, void *ctx);
void ring_follower_free(struct ring_follower *f);
