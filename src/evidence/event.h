// What a reader of evidence hands on: events with facts, each with the place where it was read.
#pragma once

#include "base/str.h"
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
};

enum { EVENT_FACTS = TEMPLATE_VALUES + 8 };

struct event {
	const struct know_signature *signature; // NULL: a line that says no more than that amdgpu drives this device
	struct stamp time;
	struct place at;
	struct str device;  // PCI address or FreeBSD's drmnN; empty where the line does not say
	struct str driver;  // the driver that the line names beside the device
	struct str text;    // the line, from the message on
	struct str boot_id; // where the evidence has one
	size_t nfacts;
	struct fact facts[EVENT_FACTS];
};

static inline const struct fact *event_fact(const struct event *e, const char *name)
{
	for (size_t i = 0; i < e->nfacts; i++)
		if (str_is(e->facts[i].name, name))
			return &e->facts[i];
	return NULL;
}

struct event_sink {
	void (*event)(void *ctx, const struct event *e);
	void *ctx;
};
