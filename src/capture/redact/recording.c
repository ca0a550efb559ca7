// What a redaction does to a recording besides replacing bytes.
#include <stdlib.h>

#include "capture/redact/allow.h"
#include "recorder/format.h"

static bool is_recording(const char *bytes, size_t n)
{
	return n >= RECORDING_EXTENTS_AT + RECORDING_EXTENTS * sizeof(struct rec_extent) &&
	       !memcmp(bytes, RECORDING_MAGIC, sizeof(RECORDING_MAGIC) - 1);
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
	if (!allow_known(a, (struct str){ h.program, strnlen(h.program, sizeof(h.program)) }))
		memset(h.program, 0, sizeof(h.program));
	memcpy(bytes, &h, sizeof(h));
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
		memcpy(&e, before + RECORDING_EXTENTS_AT + i * sizeof(e), sizeof(e));
		if (e.kind != EXTENT_LOG || e.offset > n || e.size > n - e.offset || e.size < sizeof(struct rec_log) ||
		    e.head < sizeof(used) || e.head > e.size)
			continue;
		memcpy(&used, before + e.offset, sizeof(used));
		const uint64_t room = e.size - e.head, from = e.offset + e.head;
		seal_log(before + from, bytes + from, used < room ? used : room);
	}
}
