// What is in a ring or an indirect buffer: packets of the command processor (PM4), of the copy engine (SDMA), of the scheduler firmware
// (MES) and of user queues (AQL), taken apart by the tables of knowledge/packets.know.
#pragma once

#include "base/arena.h"
#include "gpu/register/register_places.h"
#include "gpu/target.h"
#include "knowledge/know.h"

/** The language of a ring by its name: gfx_0.0.0, comp_1.0.0, kiq_0.2.1.0 -> PM4; sdma0, page0 -> SDMA; mes_3.1.0 -> MES. */
enum packet_language packet_language_of(const struct know *k, struct str ring);
const char *packet_language_name(enum packet_language l);

enum { PACKET_FIELDS = 48 };

struct packet_field {
	struct str name;
	uint64_t value;
	unsigned digits; // hexadecimal digits; 0: a plain number
	struct str text; // what the value means, where a table says: `SUBMIT_CONTEXT`; the name of a register; empty
	bool told;       // what is done with registers tells it
};

/** What a packet does with one register. */
struct packet_register {
	enum packet_access access;
	uint32_t place;                   // as the packet has it, in words
	const struct placed_register *is; // NULL: none is known there
	size_t nnames;                    // of it
	bool valued;                      // false: the value is not in the packet
	uint32_t value, mask;             // mask: the bits that count
	uint32_t count;                   // registers from this one on; 1, but of loads
};

struct packet {
	enum packet_language language;
	size_t at;       // word in the buffer
	size_t words;    // that it takes, header included; at least 1; never behind the end of the buffer
	bool cut;        // it claims to be longer than the buffer
	bool known;      // false: no table has it, and the name is only its number
	struct str name; // INDIRECT_BUFFER, COPY_LINEAR, ADD_QUEUE, kernel_dispatch
	uint32_t opcode;
	/** What it makes the engine wait for, as a phrase: `memory at 0x7f00 to equal 3`; empty where it waits for nothing. */
	struct str waits_for;
	/** Another buffer that it runs: an IB, a chained IB, or a kernel's object. 0: none. */
	uint64_t ib_address;
	uint64_t ib_words;
	unsigned ib_vmid;
	bool ib_chain; // execution goes on there and does not come back
	/** The value of a fence that it writes to memory. */
	bool fences;
	uint64_t fence;
	/** The offset, in words, of the first register that it writes, reads or waits for, as the packet has it; UINT32_MAX: none. */
	uint32_t register_offset;
	/** Only of a stream with places. */
	const struct packet_register *registers;
	size_t nregisters;
	size_t nfields;
	struct packet_field fields[PACKET_FIELDS];
};

/** Words, and what they are taken to be. */
struct packet_stream {
	const struct know *know;
	enum packet_language language;
	struct str gfx; // gfx1100 and the like: some packets differ between generations
	const uint32_t *words;
	size_t n;
	struct register_places *places; // NULL: registers are not looked up
};

/** The packet at word @at. false where @at is not inside. Texts are in @a. */
bool packet_decode(const struct packet_stream *s, struct arena *a, size_t at, struct packet *ret);

/** Where the packets before word @rptr of a ring begin, at which one begins: chains of well-formed packets that end exactly there, from
 * any place, meet in the right beginnings. Returns how many words before @rptr the @most-th packet begins, or the first that is found. The
 * ring is round: that may be more than @rptr. */
size_t packets_before(const struct packet_stream *ring, size_t rptr, size_t most);

// --- The driver's rings: where each of them stands, and the packets around ---

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
	bool buffer;     // it is no ring, but a buffer whose addresses belong to the VMID of its packets
	uint64_t engine; // where the engine stands in an IB; 0: not known
	VEC(struct ring_packet) packets;
};

struct ring_reading {
	const struct know *know;
	struct target *target;
	struct str gfx;
	struct register_places *places; // NULL: registers are not looked up
	unsigned packets;               // before and behind rptr
	bool all;
	struct arena arena;
};

/** Where a ring stands; @before is the ring as it was some time ago, or NULL. */
void ring_look(struct ring_view *v, const struct ring *now, const struct ring *before);
/** Decodes the packets around rptr, and the IBs that they run where these can be read. */
void ring_read_packets(struct ring_reading *r, struct ring_view *v);
/** The same of a buffer of words at @address of @vmid, all of it. Without a target, the buffers that it runs are not read. */
void buffer_read_packets(struct ring_reading *r, struct ring_view *v, struct packet_stream words, uint64_t address,
			 unsigned vmid);
const char *ring_state_name(enum ring_state s);
