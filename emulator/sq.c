// The shader sequencer behind SQ_IND_INDEX and SQ_IND_DATA, as programs use it that scan waves through registers.
#include "emulator/server.h"

enum {
	STATUS_LOCAL = 0x8, // SQ_DEBUG_STS_LOCAL: is the SIMD busy, how many waves
	FIRST_SGPR = 0x200,
	FIRST_VGPR = 0x400,
	WAVE_LEVEL_SHIFT = 4,
};

static unsigned index_field(const struct seat *seat, const char *name)
{
	struct reg r;
	struct reg_field f;
	if (!register_find(seat->gc_registers, S("SQ_IND_INDEX"), &r) || !register_field_find(&r, str_z(name), &f))
		return 0;
	return field_of(&f, seat->sq_index);
}

static unsigned or_first(int selected) { return selected < 0 ? 0 : (unsigned)selected; }

static uint32_t local_status(const struct seat *seat, struct wave_slot slot, double t)
{
	uint32_t waves = 0, words[WAVE_WORDS_MOST];
	unsigned simds = seat->gc_major >= 10 ? 1 : seat->facts->simds_per_cu;
	for (unsigned simd = 0; simd < simds; simd++) {
		if (simds > 1)
			slot.simd = simd;
		for (slot.slot = 0; slot.slot < seat->facts->slots_per_simd; slot.slot++)
			waves += emu_wave(seat->gpu, &slot, t, words) > 1 && words[1];
	}
	return waves << WAVE_LEVEL_SHIFT | (waves != 0);
}

/** The word of the driver's answer whose register has this index. */
static uint32_t wave_word(struct server *s, const struct seat *seat, const struct wave_slot *slot, unsigned index)
{
	struct wave_words names;
	uint32_t words[WAVE_WORDS_MOST];
	size_t n = emu_wave(seat->gpu, slot, server_time(s), words);
	if (!wave_words_of(s->know, seat->facts->gfx, &names))
		return 0;
	for (size_t i = 0; i < names.n && i + 1 < n; i++) {
		char name[64];
		struct reg r;
		snprintf(name, sizeof(name), "SQ_WAVE_" STR_FMT, STR_ARG(names.names[i]));
		if (register_find(seat->gc_registers, str_z(name), &r) && r.kind == REGISTER_INDEX && r.offset == index)
			return words[i + 1];
	}
	return 0;
}

uint32_t seat_indexed(struct server *s, struct seat *seat, const struct bank *b)
{
	unsigned index = index_field(seat, "INDEX"), wave = index_field(seat, "WAVE_ID");
	struct wave_slot slot = seat_slot(seat, or_first(b->xcc), or_first(b->se), or_first(b->sh), or_first(b->instance),
					  index_field(seat, "SIMD_ID"), wave);
	double t = server_time(s);
	if (index == STATUS_LOCAL)
		return local_status(seat, slot, t);
	if (index < FIRST_SGPR)
		return wave_word(s, seat, &slot, index);
	bool vector = index >= FIRST_VGPR;
	unsigned lane = index_field(seat, seat->gc_major >= 10 ? "WORKITEM_ID" : "THREAD_ID");
	uint32_t value = emu_gpr(seat->gpu, &slot, vector, lane, index - (vector ? FIRST_VGPR : FIRST_SGPR), t);
	if (index_field(seat, "AUTO_INCR"))
		seat->sq_index += 1u << 16;
	return value;
}
