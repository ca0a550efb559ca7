// Asks a core for everything that it has, and says what must not be. For the fuzz target and the test.
#pragma once

#include <stdlib.h>

#include "gpu/layout.h"
#include "gpu/target_code.h"
#include "source/file.h"

static inline bool core_block_inside(const struct wave *w, const struct wave_block *b, uint64_t unit)
{
	uint64_t begin = w->queue->save_area + (uint64_t)w->xcc * w->queue->save_area_size;
	return !b->count || (b->address - begin <= w->queue->save_area_size &&
			     unit * b->count <= w->queue->save_area_size - (b->address - begin));
}

static inline bool core_read_block(struct target *t, const struct wave_block *b, unsigned lanes)
{
	uint32_t *values = malloc((size_t)b->count * lanes * sizeof(*values) + 1);
	bool read = wave_registers(t, b, lanes, values);
	free(values);
	return read;
}

static inline const char *core_wave_complaint(struct target *t, const struct wave *w)
{
	struct dispatch d;
	if (w->lanes != 32 && w->lanes != 64)
		return "a wave of neither 32 nor 64 lanes";
	if (w->lanes == 32 && w->exec >> 32)
		return "a wave of 32 lanes has more of them active";
	if (!w->stopped && w->stop_reasons)
		return "a wave that did not stop has a reason for it";
	if (w->stop_reasons >> STOP_REASONS)
		return "a reason that has no name";
	if (w->at != w->pc && w->at != w->pc - 4)
		return "a wave is elsewhere than at its pc or the trap before";
	if (!core_block_inside(w, &w->sgprs, 4) || !core_block_inside(w, &w->vgprs, 4ull * w->lanes) ||
	    !core_block_inside(w, &w->acc_vgprs, 4ull * w->lanes) || !core_block_inside(w, &w->shared_vgprs, 4ull * 32) ||
	    !core_block_inside(w, &w->lds, 1))
		return "registers outside of the save area";
	core_read_block(t, &w->sgprs, 1);
	core_read_block(t, &w->vgprs, w->lanes);
	core_read_block(t, &w->acc_vgprs, w->lanes);
	core_read_block(t, &(struct wave_block){ w->lds.address, w->lds.count / 4 }, 1);
	return wave_dispatch(t, w, &d) && !w->placed ? "a packet of a wave whose packet is not known" : NULL;
}

static inline const char *core_answers_complaint(struct target *t)
{
	const char *complaint = NULL;
	struct request r[] = { { .kind = REQUEST_AGENTS },
			       { .kind = REQUEST_QUEUES },
			       { .kind = REQUEST_WAVES },
			       { .kind = REQUEST_CODE },
			       { .kind = REQUEST_MAP } };
	t->ask(t, r, ARRAY_SIZE(r));
	size_t waves = 0;
	for (size_t i = 0; i < r[1].n; i++) {
		struct dispatch d;
		waves += r[1].queues[i].nwaves;
		queue_dispatch(t, &r[1].queues[i], r[1].queues[i].read_index, &d);
	}
	if (waves != r[2].n)
		complaint = "queues count other waves than there are";
	for (size_t i = 0; i < r[2].n && !complaint; i++)
		complaint = core_wave_complaint(t, &r[2].waves[i]);
	for (size_t i = 0; i < r[4].n && !complaint; i++) {
		char byte;
		const struct memory_range *m = &r[4].map[i];
		if (m->begin > m->end)
			complaint = "a range of memory ends before it begins";
		else
			target_memory(t, m->begin, &byte, 1);
	}
	// Files are not looked for: their names would be the input's.
	if (!r[3].n && r[2].n) {
		struct code_places places = { 0 };
		struct target_code code;
		target_code_open(&code, t, &places);
		target_code_need(&code, r[2].waves[0].at);
		target_code_close(&code);
	}
	return complaint;
}

/** NULL where nothing is wrong with what a core of these bytes gives. @ret_error: why it is no core; NULL: nobody asks. */
static inline const char *core_complaint(const struct know *k, const void *bytes, size_t size, struct text *ret_error)
{
	struct file f = file_memory(S("core"), (struct str){ bytes, size });
	struct target *t = NULL;
	struct uh_error *err = target_core(k, &f, 1, &t);
	const char *complaint = err ? NULL : core_answers_complaint(t);
	if (ret_error && err)
		text_printf(ret_error, "%s", uh_error_message(err));
	if (ret_error && !err) {
		struct request queues = { .kind = REQUEST_QUEUES };
		target_ask(t, &queues);
		for (size_t i = 0; i < queues.n; i++)
			text_add(ret_error, queues.queues[i].problem);
	}
	uh_error_free(err);
	target_close(t);
	return complaint;
}
