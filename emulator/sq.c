// The shader sequencers' registers of an XCC: SQ_IND_INDEX and SQ_IND_DATA, as programs use them that scan waves through registers,
// and SQ_CMD, with which they halt the waves meanwhile.
#include "emulator/server.h"

enum {
	STATUS_LOCAL = 0x8, // SQ_DEBUG_STS_LOCAL: is the SIMD busy, how many waves
	FIRST_SGPR = 0x200,
	FIRST_VGPR = 0x400,
	WAVE_LEVEL_SHIFT = 4,
	COMMAND_HALT = 1,
	MODE_BROADCAST = 1,
};

void seat_sq_prepare(struct server *s, struct seat *seat)
{
	unsigned xccs = seat->facts->shaders.xccs;
	uint32_t address;
	seat->sq_index = arena_alloc(&s->arena, xccs * sizeof(*seat->sq_index));
	seat->halted_at = arena_alloc(&s->arena, xccs * sizeof(*seat->halted_at));
	for (unsigned i = 0; i < xccs; i++)
		seat->halted_at[i] = -1;
	seat_find_register(seat, S("gc"), S("SQ_IND_INDEX"), &seat->sq_index_register, &address);
	seat_find_register(seat, S("gc"), S("SQ_IND_DATA"), &seat->sq_data_register, &address);
	seat_find_register(seat, S("gc"), S("SQ_CMD"), &seat->sq_command_register, &address);
}

/** The XCC whose register @r this address is; -1: none's. */
static int xcc_of(const struct seat *seat, const struct reg *r, uint32_t address)
{
	for (size_t i = 0; i < seat->facts->nips && r->name.n; i++) {
		const struct ip *ip = &seat->facts->ips[i];
		if (r->base < ip->nbases && ip->instance < seat->facts->shaders.xccs && str_is(ip->name, "gc") &&
		    address == 4 * (ip->bases[r->base] + r->offset))
			return (int)ip->instance;
	}
	return -1;
}

static uint32_t field(const struct reg *r, const char *name, uint32_t value)
{
	struct reg_field f;
	return register_field_find(r, str_z(name), &f) ? field_of(&f, value) : 0;
}

// --- waves, which may be halted ---

static double time_of(struct server *s, const struct seat *seat, unsigned xcc)
{
	bool halted = xcc < seat->facts->shaders.xccs && seat->halted_at && seat->halted_at[xcc] >= 0;
	return halted ? seat->halted_at[xcc] : server_time(s);
}

/** The bit of a wave's words that says that it is halted. */
static void put_halt(struct server *s, const struct seat *seat, uint32_t *words, size_t n)
{
	struct wave_words names;
	if (!wave_words_of(s->know, seat->facts->gfx, &names))
		return;
	for (size_t i = 0; i < names.n && i < n; i++) {
		char name[64];
		struct reg r;
		struct reg_field f;
		snprintf(name, sizeof(name), "SQ_WAVE_" STR_FMT, STR_ARG(names.names[i]));
		if (!register_find(seat->gc_registers, str_z(name), &r) || !register_field_find(&r, S("HALT"), &f))
			continue;
		words[i] |= field_mask(&f);
		return;
	}
}

size_t seat_wave(struct server *s, const struct seat *seat, const struct wave_slot *slot,
		 uint32_t words[static WAVE_WORDS_MOST])
{
	double t = time_of(s, seat, slot->xcc);
	size_t n = emu_wave(seat->gpu, slot, t, words);
	if (n > 1 && words[1] && seat->halted_at && seat->halted_at[slot->xcc] >= 0)
		put_halt(s, seat, words + 1, n - 1);
	return n;
}

uint32_t seat_gpr(struct server *s, const struct seat *seat, const struct wave_slot *slot, bool vector, unsigned lane,
		  unsigned number)
{
	return emu_gpr(seat->gpu, slot, vector, lane, number, time_of(s, seat, slot->xcc));
}

// --- what SQ_IND_DATA answers for what SQ_IND_INDEX holds ---

static unsigned or_first(int selected) { return selected < 0 ? 0 : (unsigned)selected; }

static uint32_t local_status(struct server *s, const struct seat *seat, struct wave_slot slot)
{
	uint32_t waves = 0, words[WAVE_WORDS_MOST];
	unsigned simds = seat->gc_major >= 10 ? 1 : seat->facts->simds_per_cu;
	for (unsigned simd = 0; simd < simds; simd++) {
		if (simds > 1)
			slot.simd = simd;
		for (slot.slot = 0; slot.slot < seat->facts->slots_per_simd; slot.slot++)
			waves += seat_wave(s, seat, &slot, words) > 1 && words[1];
	}
	return waves << WAVE_LEVEL_SHIFT | (waves != 0);
}

/** The word of the driver's answer whose register has this index: M0 and EXEC, for some, are among the SGPRs. */
static bool wave_word(struct server *s, const struct seat *seat, const struct wave_slot *slot, unsigned index, uint32_t *ret)
{
	struct wave_words names;
	uint32_t words[WAVE_WORDS_MOST];
	size_t n = seat_wave(s, seat, slot, words);
	if (!wave_words_of(s->know, seat->facts->gfx, &names))
		return false;
	for (size_t i = 0; i < names.n && i + 1 < n; i++) {
		char name[64];
		struct reg r;
		snprintf(name, sizeof(name), "SQ_WAVE_" STR_FMT, STR_ARG(names.names[i]));
		if (register_find(seat->gc_registers, str_z(name), &r) && r.kind == REGISTER_INDEX && r.offset == index) {
			*ret = words[i + 1];
			return true;
		}
	}
	return false;
}

static uint32_t indexed(struct server *s, struct seat *seat, const struct bank *b, unsigned xcc)
{
	const struct reg *r = &seat->sq_index_register;
	uint32_t asked = seat->sq_index[xcc];
	unsigned index = field(r, "INDEX", asked);
	struct wave_slot slot = seat_slot(seat, xcc, or_first(b->se), or_first(b->sh), or_first(b->instance),
					  field(r, "SIMD_ID", asked), field(r, "WAVE_ID", asked));
	if (field(r, "AUTO_INCR", asked))
		seat->sq_index[xcc] += 1u << 16;
	uint32_t word;
	if (index == STATUS_LOCAL)
		return local_status(s, seat, slot);
	if (wave_word(s, seat, &slot, index, &word))
		return word;
	if (index < FIRST_SGPR)
		return 0;
	bool vector = index >= FIRST_VGPR;
	unsigned lane = field(r, seat->gc_major >= 10 ? "WORKITEM_ID" : "THREAD_ID", asked);
	return seat_gpr(s, seat, &slot, vector, lane, index - (vector ? FIRST_VGPR : FIRST_SGPR));
}

bool seat_sq_read(struct server *s, struct seat *seat, const struct bank *b, uint32_t address, uint32_t *ret)
{
	int xcc = xcc_of(seat, &seat->sq_index_register, address);
	if (xcc >= 0) {
		*ret = seat->sq_index[xcc];
		return true;
	}
	xcc = xcc_of(seat, &seat->sq_data_register, address);
	if (xcc < 0)
		return false;
	// What is selected in one XCC does not select in another.
	*ret = indexed(s, seat, (unsigned)xcc == or_first(b->xcc) ? b : &BANK_NONE, (unsigned)xcc);
	return true;
}

void seat_sq_write(struct server *s, struct seat *seat, uint32_t address, uint32_t value)
{
	const struct reg *command = &seat->sq_command_register;
	int xcc = xcc_of(seat, &seat->sq_index_register, address);
	if (xcc >= 0)
		seat->sq_index[xcc] = value;
	xcc = xcc_of(seat, command, address);
	if (xcc < 0 || field(command, "CMD", value) != COMMAND_HALT || field(command, "MODE", value) != MODE_BROADCAST)
		return;
	bool halt = field(command, "DATA", value);
	if (!halt || seat->halted_at[xcc] < 0)
		seat->halted_at[xcc] = halt ? server_time(s) : -1;
}
