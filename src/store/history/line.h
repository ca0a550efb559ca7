// The history of a machine as lines of JSON: what happened, how the machine was set up, and how many hours it worked. Each line says what it
// is and which revision of it, so that a line that comes twice, late or in another order changes nothing (docs/record.schema.json).
#pragma once

#include "base/error.h"
#include "report/watch/incidents.h"

#define HISTORY_SCHEMA "unhang/record/1"
enum { HISTORY_LINE_MOST = 1 << 20, HISTORY_DIAGNOSIS_MOST = 512 << 10 };

/** What a line is of. */
enum history_kind {
	HISTORY_INCIDENT,
	HISTORY_RUN,
	HISTORY_CONFIGURATION,
	HISTORY_EXPOSURE,
	HISTORY_SAMPLES,
	HISTORY_SOURCE,
	HISTORY_KINDS
};
extern const char *const history_kinds[]; // their words, NULL behind the last

/** A setting or version, as it is from a time on. */
struct history_item {
	struct str gpu, name, value; // gpu: PCI address; empty: of the machine
};

/** Time in which a GPU was watched, and for how much of it it worked. */
struct history_work {
	struct str gpu, serial, part;
	int64_t from, until; // seconds since 1970
	double busy;         // seconds
};

/** What a GPU was like at a moment. NAN: not known. */
struct history_sample {
	int64_t when;
	double busy, power, temperature, memory; // per cent; watts; degrees Celsius; bytes of VRAM in use
};
extern const char *const history_columns[]; // of a sample, NULL behind the last

/** Source files that were explained: what is in a store need not be explained again. */
struct history_source {
	struct str hash, path, verdict; // verdict: incident, healthy, unknown
	int64_t bytes, incidents;
};

// Each adds one line, with its newline, to @to.

/** @diagnosis: the document of unhang explain --json, of which incident is told; empty: none. @place: where its directory is. */
void line_of_incident(struct text *to, const struct stored *i, struct str place, struct str diagnosis);
/** @report: the document of docs/run.schema.json. */
void line_of_run(struct text *to, struct str host, struct str id, int64_t revision, struct str report);
/** All that is known of the machine at that time. */
void line_of_configuration(struct text *to, struct str host, int64_t when, const struct history_item *items, size_t n);
void line_of_work(struct text *to, struct str host, const struct history_work *w);
void line_of_samples(struct text *to, struct str host, struct str gpu, const struct history_sample *list, size_t n);
void line_of_source(struct text *to, const struct history_source *s, int64_t when);

/** A document of JSON in one line: what stands between its values goes. */
void json_in_line(struct text *to, struct str json);
