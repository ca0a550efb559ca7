// What a light core is while it is made, for its parts.
#pragma once

#include "gpu/core/core.h"
#include "gpu/core/light.h"
#include "gpu/process/memory.h"
#include "recorder/fault/core_form.h"

enum {
	LIGHT_PIECES_MOST = 4096,
	LIGHT_BUFFER = 64 << 10,
};

/** Memory that is in the file. */
struct light_piece {
	uint64_t address, size, offset;
};

/** A segment of the stream. */
struct light_part {
	uint64_t address, size, kept;
	uint64_t begin; // in the stream, as its header has it
	uint64_t to;    // in the file: where the bytes go that lie @gap before its begin; 0: it is not wanted
};

struct light {
	const struct light_options *o;
	struct text head;
	struct arena arena;
	struct core core; // the headers, parsed
	struct core_note note;
	struct runtime_list list;
	VEC(struct light_piece) pieces;
	VEC(struct light_part) parts; // in the order in which they come
	size_t from;                  // the first part that may still come
	unsigned gap;                 // between the notes and the first segment, by the headers
	uint64_t passed;              // bytes of the stream
	uint64_t begins, at, most;    // in the file: where memory begins, its end, its limit
	int64_t deadline;             // of now_ms(), for the process's memory
	uint32_t lacks;
	bool whole, wants, reads_code; // whole: the head is complete; wants: more of the stream
	char room[LIGHT_BUFFER];
};

/** Whether the disk has room for them; if not, it is noted. */
bool light_room(struct light *l, size_t bytes);
/** All of them. false: there is no room, see errno. */
bool light_write(struct light *l, struct str bytes, uint64_t at);
/** Whether the process gives what is needed; if not, the stream has to. */
void light_process_try(struct light *l);
/** Copies what is needed of its memory. */
void light_process_add(struct light *l);
