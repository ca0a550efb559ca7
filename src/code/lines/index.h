// The index behind lines.h: flat tables in one piece of memory. A child process fills it and its parent reads it. A hostile file may
// have taken over the child, so the parent checks everything in here before it uses it.
#pragma once

#include "base/arena.h"
#include "code/lines/lines.h"

enum { INDEX_NONE = UINT32_MAX };

// Addresses count from the beginning of the object's code.
struct index_sequence { // sorted by begin; not overlapping in good files
	uint32_t begin, end;
	uint32_t row, nrows;
};

struct index_row { // sorted by address inside its sequence
	uint32_t at, line, file;
	uint32_t column;
};

struct index_segment { // sorted; the code from here to the next one is of this scope
	uint32_t at, scope;
};

struct index_scope { // a function, or one that was inlined into its parent; the parent comes first
	uint32_t parent, name;
	uint32_t call_file, call_line, call_column;
};

struct index_text {
	uint32_t at, n;
};

enum index_table {
	INDEX_SEQUENCES,
	INDEX_ROWS,
	INDEX_SEGMENTS,
	INDEX_SCOPES,
	INDEX_FILES, // index_text
	INDEX_NAMES, // index_text
	INDEX_BYTES,
	INDEX_TABLES
};

struct index_head {
	uint64_t begin, size; // of the object's code
	struct {
		uint64_t at, n;
	} tables[INDEX_TABLES];
	struct index_text note; // what could not be read
};

static const size_t index_item[INDEX_TABLES] = {
	[INDEX_SEQUENCES] = sizeof(struct index_sequence),
	[INDEX_ROWS] = sizeof(struct index_row),
	[INDEX_SEGMENTS] = sizeof(struct index_segment),
	[INDEX_SCOPES] = sizeof(struct index_scope),
	[INDEX_FILES] = sizeof(struct index_text),
	[INDEX_NAMES] = sizeof(struct index_text),
	[INDEX_BYTES] = 1,
};

/** Checks the index in @room and opens it. false: it is not a sound index. @room must outlive *ret. */
bool lines_of_index(const void *room, size_t size, struct code_lines **ret);

struct lines_request {
	struct str bytes;          // the ELF file
	const uint64_t *addresses; // NULL: all
	size_t n;
};

/** The child's work: @ctx is a struct lines_request, @room is zeroed. */
void lines_build(void *room, size_t size, const void *ctx);
