// Looks up source lines in the index that a child built (build.c). A hostile file may have taken over that child, so every number of
// the index is checked before it is used.
#include "code/lines/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/child.h"
#include "code/lines/build.h"

enum {
	ROOM_LEAST = 16 << 20, // address space; only the pages that the index uses cost memory
	ROOM_MOST = 512 << 20,
	ROOM_FACTOR = 32,
};

struct code_lines {
	void *mapped; // NULL: not ours
	size_t size;
	uint64_t begin, code_size;
	const void *tables[INDEX_TABLES];
	size_t counts[INDEX_TABLES];
	struct str note;
};

static const void *item(const struct code_lines *l, enum index_table t, size_t i)
{
	return i < l->counts[t] ? (const char *)l->tables[t] + i * index_item[t] : NULL;
}

static struct str lines_text_of(const struct code_lines *l, const struct index_text *t)
{
	if (!t || t->at > l->counts[INDEX_BYTES] || t->n > l->counts[INDEX_BYTES] - t->at)
		return (struct str){ 0 };
	return (struct str){ (const char *)l->tables[INDEX_BYTES] + t->at, t->n };
}

bool lines_of_index(const void *room, size_t size, struct code_lines **ret)
{
	struct index_head head;
	if (size < sizeof(head) || (uintptr_t)room % 8)
		return false;
	memcpy(&head, room, sizeof(head));
	struct code_lines l = { NULL, size, head.begin, head.size, { 0 }, { 0 }, { 0 } };
	for (int t = 0; t < INDEX_TABLES; t++) {
		uint64_t at = head.tables[t].at, n = head.tables[t].n;
		if (at % 8 || at > size || n > (size - at) / index_item[t])
			return false;
		l.tables[t] = (const char *)room + at;
		l.counts[t] = (size_t)n;
	}
	l.note = lines_text_of(&l, &head.note);
	*ret = mem_alloc(sizeof(l));
	**ret = l;
	return true;
}

struct uh_error *code_lines_new(struct str name, struct str bytes, const uint64_t *addresses, size_t n, struct code_lines **ret)
{
	const struct lines_request request = { bytes, addresses, n };
	const size_t size = bytes.n > ROOM_MOST / ROOM_FACTOR  ? ROOM_MOST :
			    bytes.n < ROOM_LEAST / ROOM_FACTOR ? ROOM_LEAST :
								 bytes.n * ROOM_FACTOR;
	void *room = NULL;
	struct code_lines *l = NULL;
	enum child_end end = child_fill(&(struct child_task){ .name = CHILD_LINES }, lines_build, &request, size, &room);
	if (end != CHILD_GOOD) {
		// The file is the stranger's, so its reader may end in any way; what came of it is told.
		static const char *const what[] = {
			[CHILD_LATE] = "did not end within 20 s",
			[CHILD_CRASHED] = "crashed",
			[CHILD_MEMORY] = "needed too much memory",
		};
		if (end == CHILD_REFUSED)
			return uh_error_os(errno, "debug information of " STR_FMT ": no process for its reader", STR_ARG(name));
		return uh_error_new("debug information of " STR_FMT ": its reader %s", STR_ARG(name), what[end]);
	}
	if (!lines_of_index(room, size, &l)) {
		munmap(room, size);
		return uh_error_new("debug information of " STR_FMT ": its reader left no index", STR_ARG(name));
	}
	l->mapped = room;
	struct uh_error *err = NULL;
	if (!l->counts[INDEX_SEQUENCES] && !l->counts[INDEX_SEGMENTS]) {
		if (l->note.n)
			err = uh_error_new("debug information of " STR_FMT ": " STR_FMT, STR_ARG(name), STR_ARG(l->note));
		code_lines_free(l);
		l = NULL;
	}
	if (!err)
		*ret = l;
	return err;
}

void code_lines_free(struct code_lines *l)
{
	if (!l)
		return;
	if (l->mapped)
		munmap(l->mapped, l->size);
	free(l);
}

struct str code_lines_note(const struct code_lines *l) { return l->note; }

/** The last of @n items of @size bytes whose first number is at most @at, or NULL. Without a branch that depends on what is found. */
static inline const void *last_at(const void *items, size_t n, size_t size, uint32_t at)
{
	const char *first = items;
	uint32_t there;
	if (!n || (memcpy(&there, first, sizeof(there)), there > at))
		return NULL;
	while (n > 1) {
		size_t half = n / 2;
		memcpy(&there, first + half * size, sizeof(there));
		first += there <= at ? half * size : 0;
		n -= half;
	}
	return first;
}

static bool code_offset(const struct code_lines *l, uint64_t address, uint32_t *ret)
{
	uint64_t at = address - l->begin;
	*ret = (uint32_t)at;
	return address >= l->begin && at < l->code_size && at <= UINT32_MAX;
}

static const struct index_row *find_row(const struct code_lines *l, uint32_t at)
{
	const struct index_sequence *s =
		last_at(l->tables[INDEX_SEQUENCES], l->counts[INDEX_SEQUENCES], sizeof(struct index_sequence), at);
	if (!s || at >= s->end || s->row > l->counts[INDEX_ROWS] || s->nrows > l->counts[INDEX_ROWS] - s->row)
		return NULL;
	return last_at((const struct index_row *)l->tables[INDEX_ROWS] + s->row, s->nrows, sizeof(struct index_row), at);
}

static void set_place(const struct code_lines *l, struct code_frame *f, uint32_t file, uint32_t line, uint32_t column)
{
	f->file = lines_text_of(l, item(l, INDEX_FILES, file));
	f->line = line;
	f->column = column;
}

size_t code_lines_at(const struct code_lines *l, uint64_t address, struct code_frame frames[static CODE_FRAMES])
{
	uint32_t at;
	if (!code_offset(l, address, &at))
		return 0;
	const struct index_row *row = find_row(l, at);
	const struct index_segment *s =
		last_at(l->tables[INDEX_SEGMENTS], l->counts[INDEX_SEGMENTS], sizeof(struct index_segment), at);
	uint32_t id = s ? s->scope : INDEX_NONE;
	const struct index_scope *scope = item(l, INDEX_SCOPES, id);
	if (!row && !scope)
		return 0;
	frames[0] = (struct code_frame){ 0 };
	if (row)
		set_place(l, &frames[0], row->file, row->line, row->column);
	for (size_t n = 0;; n++) {
		const struct index_scope *parent = scope && scope->parent < id ? item(l, INDEX_SCOPES, scope->parent) : NULL;
		if (scope)
			frames[n].function = lines_text_of(l, item(l, INDEX_NAMES, scope->name));
		frames[n].inlined = parent;
		if (!parent || n + 1 == CODE_FRAMES)
			return n + 1;
		frames[n + 1] = (struct code_frame){ 0 };
		set_place(l, &frames[n + 1], scope->call_file, scope->call_line, scope->call_column);
		id = scope->parent;
		scope = parent;
	}
}

bool code_lines_row(const struct code_lines *l, uint64_t address, uint64_t *ret_begin)
{
	uint32_t at;
	const struct index_row *row = code_offset(l, address, &at) ? find_row(l, at) : NULL;
	if (row)
		*ret_begin = l->begin + row->at;
	return row;
}
