// What a redaction does to a recording besides replacing bytes.
#include <stdlib.h>

#include "capture/redact/allow.h"
#include "recorder/format.h"

static bool is_recording(const char *bytes, size_t n)
{
	return n >= RECORDING_EXTENTS_AT + RECORDING_EXTENTS * sizeof(struct rec_extent) &&
	       !memcmp(bytes, RECORDING_MAGIC, sizeof(RECORDING_MAGIC) - 1);
}

static void allow_name(const struct allowed *a, char *name, size_t room)
{
	if (!allow_known(a, (struct str){ name, strnlen(name, room) }))
		memset(name, 0, room);
}

/** The extent at @index; false: it is not within the file, or of another kind. */
static bool extent_at(const char *bytes, size_t n, size_t index, enum extent_kind kind, struct rec_extent *ret)
{
	memcpy(ret, bytes + RECORDING_EXTENTS_AT + index * sizeof(*ret), sizeof(*ret));
	return ret->kind == kind && ret->offset <= n && ret->size <= n - ret->offset && ret->head <= ret->size;
}

/** A program's first thread has the program's name. */
static void allow_threads(const struct allowed *a, char *bytes, size_t n)
{
	struct rec_extent e;
	for (size_t i = 0; i < RECORDING_EXTENTS; i++) {
		if (!extent_at(bytes, n, i, EXTENT_THREADS, &e) || e.stride < sizeof(struct rec_thread))
			continue;
		for (uint64_t at = e.head; e.size - at >= sizeof(struct rec_thread); at += e.stride) {
			allow_name(a, bytes + e.offset + at + offsetof(struct rec_thread, name),
				   sizeof(((struct rec_thread *)0)->name));
			if (e.stride > e.size - at)
				break;
		}
	}
}

void allow_recording(struct allowed *a, char *bytes, size_t n)
{
	struct rec_header h;
	if (!is_recording(bytes, n))
		return;
	memcpy(&h, bytes, sizeof(h));
	memset(h.host, 0, sizeof(h.host));
	memset(h.command, 0, sizeof(h.command));
	memset(h.note, 0, sizeof(h.note));
	memset(h.dumps, 0, sizeof(h.dumps));
	memset(h.core, 0, sizeof(h.core));
	allow_name(a, h.program, sizeof(h.program));
	memcpy(bytes, &h, sizeof(h));
	allow_threads(a, bytes, n);
}

/** The entries of one log. What was torn before is not made whole: a reader ends there as before. */
static void seal_log(const char *before, char *bytes, uint64_t used)
{
	for (uint64_t at = 0; used - at >= sizeof(struct rec_entry);) {
		struct rec_entry e;
		memcpy(&e, before + at, sizeof(e));
		if (e.size < sizeof(e) || e.size % 8 || e.size > used - at)
			return;
		uint64_t *words = mem_alloc(e.size);
		memcpy(words, before + at, e.size);
		const bool whole = rec_check(words, e.size / 8, at) == e.check;
		memcpy(words, bytes + at, e.size);
		e.check = rec_check(words, e.size / 8, at);
		free(words);
		if (!whole)
			return;
		memcpy(bytes + at + offsetof(struct rec_entry, check), &e.check, sizeof(e.check));
		at += e.size;
	}
}

void redact_seal_recording(const char *before, char *bytes, size_t n)
{
	struct rec_extent e;
	uint64_t used;
	if (!is_recording(before, n))
		return;
	for (size_t i = 0; i < RECORDING_EXTENTS; i++) {
		if (!extent_at(before, n, i, EXTENT_LOG, &e) || e.size < sizeof(struct rec_log) || e.head < sizeof(used))
			continue;
		memcpy(&used, before + e.offset, sizeof(used));
		const uint64_t room = e.size - e.head, from = e.offset + e.head;
		seal_log(before + from, bytes + from, used < room ? used : room);
	}
}
