// What must hold of a tape, whatever is on it.
#pragma once

#include "source/tape/tape.h"

static inline void tape_check_record(void *ctx, const char *name, const struct source_record *record)
{
	(void)name;
	if (record)
		*(size_t *)ctx += record->text.n + record->boot_id.n;
}

/** Plays it: asks what a look asks. Returns how many answers came. */
static inline size_t tape_ask_all(struct tape *t)
{
	static const char *const paths[] = { "/proc/cmdline", "/sys/kernel/debug/dri/0/amdgpu_regs", "/dev/dri/renderD128" };
	size_t given = 0, bytes = 0;
	struct arena a = { 0 };
	const struct amdgpu_query query = { .query = 0x15, .words = { 4, 2, 0xffffffff } };
	const struct source_visitor v = { .record = tape_check_record, .ctx = &bytes };
	for (size_t i = 0; i < 3 * 6; i++) {
		struct probe p[2] = {
			{ .kind = (enum probe_kind)(i % 6), .path = paths[i / 6], .size = 8, .offset = 4 },
			{ .kind = PROBE_QUERY, .path = paths[2], .argument = &query, .argument_size = sizeof(query), .size = 8 }
		};
		struct probe_batch b = { .probes = p, .n = 2 };
		tape_answer(t, &a, &b, 1);
		for (size_t j = 0; j < 2; j++)
			given += p[j].end == PROBE_GOOD;
		for (size_t j = 0; j < 2; j++)
			for (size_t k = 0; k < p[j].n && p[j].data; k++)
				bytes += (unsigned char)p[j].data[k]; // every byte is there
	}
	tape_number(t, "euid", 0);
	tape_play_log(t, TAPE_LOG_BOOT, &v);
	tape_play_log(t, TAPE_LOG_BUFFER, &v);
	arena_free(&a);
	return given + (bytes == (size_t)-1);
}

static inline size_t tape_play_bytes(struct str bytes)
{
	struct tape *t = tape_new();
	size_t given = 0;
	if (tape_add(t, S("machine"), bytes)) {
		tape_begin(t, "machine");
		given = tape_ask_all(t);
		tape_begin(t, "other");
		given += tape_ask_all(t);
	}
	tape_free(t);
	return given;
}
