// What the commands that look at a target or at code write: waves, queues, addresses.
#pragma once

#include "code/meaning.h"
#include "evidence/silicon/states.h"
#include "gpu/packet.h"
#include "gpu/register/register_names.h"
#include "gpu/target_code.h"
#include "gpu/layout.h"
#include "report/sheet.h"
#include "unhang/unhang.h"

/** A target that is being looked at. */
struct look {
	const struct know *know;
	struct target *target;
	struct target_code *code; // NULL of a GPU, whose waves have that of their processes
	const struct uh_look_options *options;
	FILE *out;
};

/** Waves of one address space and queue on a GPU, and what they do. */
struct wave_party {
	unsigned xcc, vmid;
	bool graphics;
	struct str process; // empty: not known
	int64_t pid;
	bool queue_known;
	unsigned queue;
	size_t waves;
	struct str kernel;
	struct str counts, polls; // registers that only grow or fall; the load that a loop repeats; empty
	bool polled_known, value_known;
	uint64_t polled, value;     // what it loads from, and what is there
	struct silicon_state state; // is.n 0: it was not judged
};

/** The waves that a target has, or that were on a GPU. */
struct waves_seen {
	struct look *look;
	struct str title, gfx;      // gfx: of a GPU of this machine
	struct str pci;             // empty: of a core
	unsigned xccs;              // of the GPU
	struct str why_not;         // its waves could not be read; empty
	const struct agent *agents; // of a core
	size_t nagents, nqueues;
	size_t n;
	const struct wave *waves;
	const struct where *const *where; // of each wave
	const struct str *kernels;        // the name of each wave's kernel; empty
	// Of a GPU, for each wave: the look at its process, and the shader that it is in; NULL: not known.
	struct look *const *looks;
	const struct shader_start *const *shaders;
	const struct wave_party *parties;
	size_t nparties;
	const bool *moved; // of each wave whether it is elsewhere than in the look before; NULL: there was one look
};

/** "verdict": what looks say that something does, or null. */
void walk_state(struct sheet *s, const struct silicon_state *v);
/** Those of a core, or of several GPUs, as one text or document. */
void report_waves(const struct waves_seen *seen, size_t n, const struct uh_look_options *o, FILE *out);

/** The queues of a core or of a process. */
struct queues_seen {
	struct look *look;
	const struct agent *agents;
	size_t nagents;
	const struct queue *queues;
	size_t nqueues;
	const struct silicon_state *states; // of each queue; NULL of a core
};

void report_queues(const struct queues_seen *s, const struct uh_look_options *o, FILE *out);
/** What the schedulers of this machine's GPUs were told to run. */
struct runlists {
	const struct know *know;
	const struct devices *devices;
	const struct kfd *kfd;
	const struct client_queues *user; // of clients of the driver
	const struct silicon_state *states; // of each of these
};
/** Those of all processes of this machine. */
void report_queues_of_all(const struct queues_seen *seen, size_t n, const struct runlists *r, const struct uh_look_options *o,
			  FILE *out);
/** "fields" of a packet. @texts: a text also shows what their values mean. */
struct packet;
void walk_packet_fields(struct sheet *s, const struct packet *p, struct wrapping *w, bool texts);

/** An address that was asked for, and what was found there. */
struct found_address {
	const char *asked;
	const struct where *where;
	size_t index;  // in the order of asking
	bool by_name;  // it is a name that was not found
	uint64_t size; // of the function of this name, where the offset is behind its end; 0: there is no such function
	const struct str *texts; // the line of source of each frame, or empty; NULL: not wanted
};
/** One of many, in one line without its end. */
void report_where_line(const struct found_address *f, struct text *to);
void report_where(const struct know *k, const struct found_address *found, size_t n, const struct uh_look_options *o,
		  FILE *out);

void report_kernels(struct code_set *set, bool as_json, FILE *out);

/** "source": { file, line } of the innermost frame, or null. */
void walk_source(struct sheet *s, const struct where *w);
/** A dispatch with its kernel's arguments. */
void walk_dispatch(struct sheet *s, const char *key, struct look *l, const struct dispatch *d);

// Registers that are written about, as text or as JSON.
enum row_state { ROW_LISTED, ROW_GIVEN, ROW_READ, ROW_REFUSED, ROW_ABSENT, ROW_TIMED_OUT };

struct row {
	struct named_register r;
	enum row_state state;
	struct str why_not;
	uint32_t value;
};

struct regs {
	const struct uh_look_options *options;
	FILE *out;
	struct arena arena;
	struct str target, gfx, title; // target: empty where no GPU was looked at
	VEC(struct row) rows;
};

void report_regs(const struct regs *g);
/** The registers of every look as a text for one screen: which units are busy, and of the registers what is not as at rest. */
void report_status(const struct regs *g, const struct know *k);
/** A value of a register of which the bits of a mask count. */
struct register_shown {
	const struct reg *reg;
	bool valued;
	uint32_t value, mask;
};
/** Whether its fields say no more than the value: there is none, or one that is all of it. */
bool register_is_plain(const struct reg *r, uint32_t value);
/** "fields" of a register. @all: a text has those that are zero, too. */
void walk_register_fields(struct sheet *s, const struct register_shown *r, bool all, struct wrapping *w);
/** "hardware_fields": what the hardware registers of a wave mean. */
void walk_wave_fields(struct sheet *s, const struct know *k, struct str gfx, const struct wave *w, unsigned width);

// The driver's rings, of each GPU or of a device core.
struct rings_seen {
	struct str target, gfx, title;
	struct str why_not;  // its rings could not be read; empty
	unsigned watched_ms; // between two looks; 0: there was one
	const struct ring_view *views;
	const struct silicon_state *states; // of each; NULL: there was one look
	size_t n;
};

/** A buffer of packets that is no ring. @target: empty where no GPU was looked at. */
struct packets_seen {
	struct str title, target, gfx;
	const struct ring_view *view;
	size_t words;
};
void report_packets(const struct packets_seen *p, const struct uh_look_options *o, FILE *out);

/** The members of a packet's object; as a text, its lines. */
void walk_ring_packet(struct sheet *s, const struct ring_packet *row, unsigned width);

/** What is told of a ring that is followed, in one line. */
enum followed_what {
	FOLLOWED_PACKET,
	FOLLOWED_POSITION,
	FOLLOWED_OVERWRITTEN, // packets that nobody saw
	FOLLOWED_STILL,       // it has work and does not move
	FOLLOWED_ASLEEP,      // the GPU
	FOLLOWED_LOST,        // the GPU: it is not asked any more
};
struct followed {
	enum followed_what what;
	int64_t time; // seconds since 1970
	struct str target, ring, why_not;
	bool several;                     // GPUs, so that a line has to say which
	const struct ring_packet *packet; // the one that was written, or at which the engine is; NULL
	bool positioned;
	uint32_t rptr, wptr, pending;
	bool reached_known, emitted_known;
	uint64_t reached, emitted; // fences
	int64_t seconds;           // for which it has not moved
};
void report_followed(const struct followed *f, const struct uh_look_options *o, FILE *out);

/** @named: rings were asked for by name. */
void report_rings(const struct rings_seen *seen, size_t n, bool named, const struct uh_look_options *o, FILE *out);
