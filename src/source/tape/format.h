// How a track lies in its file: a line, then records. A record has its size and a checksum, so that a file that was cut is good up to
// the cut. Numbers are little-endian.
#pragma once

#include "base/arena.h"
#include "source/probe.h"

#define TAPE_HEAD "unhang answers 1\n"

enum { TAPE_ID = 16, TAPE_RECORD_HEAD = 8, TAPE_RECORD_MOST = 1 << 29, TAPE_KEY = 40 };

enum tape_type {
	TAPE_PATH = 'N',  // a path; the records behind it name it by its place among the paths
	TAPE_BATCH = 'B', // struct tape_batch
	TAPE_PROBE = 'P', // request and answer
	TAPE_LOG = 'L',   // a log begins; its name, and what its reader calls it
	TAPE_LINE = 'R',  // a record of it
	TAPE_NOTE = 'K',  // who wrote the record behind it: struct source_note
	TAPE_LOG_END = 'E',
	TAPE_END = 'Z', // struct tape_last: only what has it is whole
};

/** What a request is, beside enum probe_kind: something that the machine says without a file; and memory of a process, as
 * much as a look wanted of its pages. */
enum { TAPE_SAID = 64, TAPE_MEMORY = 65 };

/** A batch that ran. */
struct tape_batch {
	int64_t began, ended;
	struct probe_stuck stuck;
	uint32_t stuck_order; // of a tape that is played: the place of the answer that did not come
};

/** What ends a track. */
struct tape_last {
	struct str id; // of the capture, which all of its tracks have; TAPE_ID bytes
	uint32_t sum;  // of all bytes before it: no record was lost, added or moved
};

/** A request and its answer. @key is the request as it lies in the file. */
struct tape_probe {
	struct str key;
	uint32_t path, batch;
	enum probe_end end;
	int error;
	struct str data;
};

void tape_put_number(struct text *t, uint64_t value, unsigned bytes);
void tape_put_text(struct text *t, struct str s);
/** Ends the record that begins at @start of the text: fills in size and checksum. */
size_t tape_open_record(struct text *t, enum tape_type type);
void tape_close_record(struct text *t, size_t start);

/** The request as bytes that are equal for equal requests. @path: its number. */
void tape_put_key(struct text *t, const struct probe *p, uint32_t path);

/** Takes numbers and texts off a record. Once something is missing, all that follows is 0 or empty and @short_of is set. */
struct tape_cursor {
	struct str left;
	bool short_of;
};
uint64_t tape_take_number(struct tape_cursor *c, unsigned bytes);
struct str tape_take_text(struct tape_cursor *c);
struct str tape_take_bytes(struct tape_cursor *c, size_t n);
/** The next record of a track; false at its end, or where it is damaged. */
bool tape_take_record(struct str *left, enum tape_type *ret_type, struct str *ret);

bool tape_take_batch(struct str record, struct tape_batch *ret);
/** The sum of what has @sum, or 0, and @more behind it. */
uint32_t tape_sum(uint32_t sum, struct str more);
void tape_put_last(struct text *t, const struct tape_last *last);
/** false: it is none, or does not fit the bytes @before it. */
bool tape_take_last(struct str record, struct str before, struct tape_last *ret);
bool tape_take_probe(struct str record, struct tape_probe *ret);
