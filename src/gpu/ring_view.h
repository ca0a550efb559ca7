// The driver's rings: where each of them stands, and the packets around.
#pragma once

#include "gpu/packet.h"
#include "gpu/target.h"

/** A packet of a ring, or of an indirect buffer (IB) that the packet before it runs. */
struct ring_packet {
	const struct packet *packet; // with as many fields as it has
	const uint32_t *raw;
	size_t at;              // word of the ring, or of the IB
	uint64_t address;       // of an IB's packet; 0: in the ring
	size_t repeat;          // how many equal packets this stands for
	unsigned depth;         // 0: in the ring itself
	unsigned vmid;          // of an IB's packet: the VMID of its addresses
	bool here;              // the engine is at this packet
	bool ib_read;           // the packets of the IB that it runs follow
	const char *ib_why_not; // why that IB could not be read, as a phrase; NULL
};

enum ring_state {
	RING_IDLE,
	RING_WORKING, // it moved
	RING_WAITING, // it has work, and was looked at only once
	RING_STILL,   // it has work and did not move
	RING_UNSEEN,  // the driver has written packets that the GPU does not know of
};

struct ring_view {
	const struct ring *ring;
	const struct ring_fence *fence; // NULL: not asked for
	enum packet_language language;
	enum ring_state state;
	uint32_t rptr, wptr, driver_wptr; // inside the ring
	uint32_t pending;                 // words from rptr to wptr
	enum hub hub;                     // which translates its addresses
	unsigned hub_instance;
	uint64_t engine; // where the engine stands in an IB; 0: not known
	VEC(struct ring_packet) packets;
};

struct ring_reading {
	const struct know *know;
	struct target *target;
	struct str gfx;
	unsigned packets; // before and behind rptr
	bool all;
	struct arena arena;
};

/** Where a ring stands; @before is the ring as it was some time ago, or NULL. */
void ring_look(struct ring_view *v, const struct ring *now, const struct ring *before);
/** Decodes the packets around rptr, and the IBs that they run where these can be read. */
void ring_read_packets(struct ring_reading *r, struct ring_view *v);
const char *ring_state_name(enum ring_state s);
