// Reads a scenario and asks the machine for everything, and says what must not be. For the fuzz target and the test.
#pragma once

#include <stdlib.h>

#include "emulator/model.h"

static inline const char *scenario_gpu_complaint(const struct emu_gpu *g, double t)
{
	const struct emu_facts *f = emu_facts(g);
	uint32_t words[WAVE_WORDS_MOST], word;
	unsigned state = emu_state(g, t);
	if (state > EMU_OFF_BUS)
		return "a state that is none";
	for (size_t i = 0; i < emu_rings(g); i++) {
		struct emu_ring r = emu_ring(g, i, t);
		if (!r.words || r.words & (r.words - 1))
			return "a ring whose size is no power of two";
		if (r.rptr >= r.words || r.wptr >= r.words || r.driver >= r.words)
			return "a position outside of its ring";
		emu_ring_word(g, i, r.rptr, t);
		emu_fence(g, i, t);
	}
	for (unsigned i = 0; i < f->shaders.xccs * f->shaders.ses * f->shaders.shs_per_se; i++) {
		struct wave_slot s = { .xcc = i % f->shaders.xccs,
				       .se = i / f->shaders.xccs % f->shaders.ses,
				       .sh = i / f->shaders.xccs / f->shaders.ses };
		if (emu_wave(g, &s, t, words) > WAVE_WORDS_MOST)
			return "more words of a wave than there may be";
		emu_gpr(g, &s, true, 0, 0, t);
	}
	if (emu_wave(g, &(struct wave_slot){ .se = f->shaders.ses }, t, words))
		return "a wave in an SE that does not exist";
	for (uint32_t at = 0x8000; at < 0x8100; at += 4)
		emu_register(g, &BANK_NONE, at, t);
	emu_vram(g, 0x1000, t);
	emu_iomem(g, 0x1000, t, &word);
	for (enum emu_number n = EMU_BUSY; n <= EMU_INTERRUPTS; n++)
		emu_number(g, n, t);
	for (enum emu_tree tree = EMU_SYSFS; tree <= EMU_DEBUGFS; tree++)
		for (size_t i = 0; i < emu_files(g, tree); i++) {
			struct text text = { 0 };
			if (!emu_file_path(g, tree, i).n)
				return "a file without a path";
			emu_file_text(g, tree, i, t, &text);
			text_free(&text);
		}
	return NULL;
}

static inline const char *scenario_machine_complaint(const struct emu_machine *m, double t)
{
	const char *complaint = emu_gpus(m) ? NULL : "a machine without a GPU";
	for (size_t i = 0; i < emu_gpus(m) && !complaint; i++) {
		complaint = scenario_gpu_complaint(emu_gpu(m, i), t);
		emu_behaviour(m, emu_gpu(m, i), S("amdgpu_regs2"), t);
	}
	for (size_t i = 0; i < emu_queues(m) && !complaint; i++) {
		uint32_t mqd[512], hqd[256][2];
		if (emu_queue_mqd(m, i, t, mqd) > 512 || emu_queue_hqd(m, i, t, hqd) > 256)
			complaint = "a queue of more words than there may be";
	}
	for (size_t i = 0; i < emu_messages(m) && !complaint; i++) {
		struct text text = { 0 };
		emu_expand(m, emu_message(m, i).text, &text);
		text_free(&text);
		if (i && emu_message(m, i).time < emu_message(m, i - 1).time)
			complaint = "messages that are not in the order of time";
	}
	return complaint;
}

/** NULL where nothing is wrong with what a scenario of these bytes gives. @ret_error: why it is none; NULL: nobody asks. */
static inline const char *scenario_complaint(const struct know *k, const void *bytes, size_t size, struct text *ret_error)
{
	struct emu_machine *m;
	struct uh_error *err = emu_read(k, "scenario", (struct str){ bytes, size }, &m);
	const char *complaint = NULL;
	if (!err == !m)
		complaint = "neither a machine nor an error, or both";
	if (err && ret_error)
		text_printf(ret_error, "%s", uh_error_message(err));
	for (unsigned i = 0; i < 3 && m && !complaint; i++)
		complaint = scenario_machine_complaint(m, (const double[]){ 0, 0.7, 1e8 }[i]);
	uh_error_free(err);
	emu_free(m);
	return complaint;
}
