// What a reader of evidence hands on: events with facts, each with the place where it was read. An event and its texts are views: the
// sink copies what it keeps.
#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "gpu/memory/map.h"
#include "gpu/wave.h"
#include "knowledge/know.h"

struct place {
	unsigned source;
	uint64_t line;
};

/** Which clock a time is of. Times of different clocks are never compared. */
enum time_clock {
	TIME_NONE,
	TIME_BOOT,     // seconds since the kernel started
	TIME_WALL,     // seconds since 1970, UTC
	TIME_LOCAL,    // the same in an unknown time zone
	TIME_YEARLESS, // seconds since 1 January of an unknown year, or since midnight of an unknown day
	TIME_RELATIVE, // seconds since the first line (logs that print differences)
};

struct stamp {
	enum time_clock clock;
	double seconds;
};

enum fact_type { FACT_TEXT, FACT_NUMBER, FACT_CODE, FACT_TRUE };

struct fact {
	struct str name, value;
	enum fact_type type;
	struct place at;
	bool concluded; // it follows from other facts, and is forgotten when more is known
};

/** Numbers under a name, as a dump holds them: a register of the GPU, a ring, a buffer. */
struct values {
	struct str group; // what it belongs to: `local`, `gfx_v11_0`, `ring gfx_0.0.0`
	struct str name;
	unsigned digits;  // hexadecimal digits of each number
	uint64_t address; // of memory; 0 where it has none
	size_t n;
	const uint64_t *data;
};

/** A wave as a line of a table. */
struct wave_row {
	size_t id;
	uint64_t pc, exec;
	bool placed; // workgroup and wave_in_group are known
	uint32_t workgroup[3];
	unsigned wave_in_group, queue;
	unsigned xcc, se;
	struct str kernel, state; // state: why it stopped, or what it does
};

/** An instruction of the code around a pc. */
struct code_row {
	uint64_t pc;
	struct str text;
	bool here;
};

/** Memory near an address. */
struct memory_row {
	uint64_t begin, end;
	bool freed;
};

/** A queue, and how far the GPU has read it. */
struct queue_row {
	unsigned id;
	bool indexes_known;
	uint64_t read_index, write_index;
	struct str head; // the kernel of the packet that is read next; empty: not known
	size_t waves;
};

/** The numbers that an event brings along, as the evidence holds them. */
struct dump {
	struct register_set registers; // of a wave
	size_t nvalues;
	const struct values *values;
	size_t naccesses;
	const struct wave_access *accesses;
	size_t nmap;
	const struct address_range *map; // of the memory that existed, by begin
	// For people to look at; all waves and queues of the target stand with its first event.
	size_t nwaves, ncode, nqueues, nmemory, nunits;
	const struct wave_row *waves;
	const struct code_row *code;
	const struct queue_row *queues;
	const struct memory_row *memory; // around the address of a fault, by begin
	const struct unit_seen *units;   // of the chip
};

enum { EVENT_FACTS = TEMPLATE_VALUES + 16 };

struct event {
	const struct know_signature *signature; // NULL: the line only shows that amdgpu drives this device
	struct stamp time;
	struct place at;
	struct str device;  // PCI address or FreeBSD's drmnN; empty where the line does not say
	struct str driver;  // the driver that the line names beside the device
	struct str text;    // the line, from the message on
	struct str boot_id; // where the evidence has one
	struct str host;    // whose log it is, where the line says so
	struct str named;   // how who saw it named the incident that it belongs to; empty: nobody did
	uint64_t
		began; // when its process was started, in ticks since the boot; of a recording: when that began, in nanoseconds. 0: not known
	uint64_t numbered; // the number, and 1, that the driver gave to the hardware error that it tells of; 0: none
	uint32_t hold;   // of a recording: number of the hold in which its process stood still, from 1; 0: it stood in none
	bool now;        // it is so at this moment
	bool unattested; // its record in a live log does not carry the device, as what users forge does not
	struct dump dump;
	size_t nfacts;
	struct fact facts[EVENT_FACTS]; // the last: all before it are cleared
};

/** An event of which nothing is known but its place. */
void event_begin(struct event *e, struct place at);
/** The first fact of this name, or NULL. */
const struct fact *event_fact(const struct event *e, const char *name);
/** As fact_view.get(). */
bool event_get(const void *event, struct str name, size_t index, struct str *ret_value);
/** An empty value is no fact. Neither name nor value is copied. */
void event_add(struct event *e, struct str name, struct str value, enum fact_type type);
/** The one form of hexadecimal values, so that they can be compared: 0x, lower case, no leading zeros. The text lies in @room. */
struct str code_text(uint64_t value, char room[static 24]);
/** As event_add(), with a copy of the value in @a. */
void event_add_text(struct event *e, struct arena *a, const char *name, struct str value);
void event_add_number(struct event *e, struct arena *a, const char *name, int64_t value);
void event_add_code(struct event *e, struct arena *a, const char *name, uint64_t value);

/** A copy in @a. */
struct dump dump_copy(struct arena *a, const struct dump *d);
size_t dump_bytes(const struct dump *d);

struct machine_observation;

struct event_sink {
	void (*event)(void *ctx, const struct event *e);
	void *ctx;
	/** How the GPUs of this machine were when they were looked at, behind the events about them; NULL: nobody asks. It lives as long as
	 * the reader of the evidence. */
	void (*machine)(void *ctx, const struct machine_observation *m);
	/** A name, program or setting of a case (struct know_terms) stands here; NULL: nobody asks. */
	void (*named)(void *ctx, uint32_t term, struct place at);
};
