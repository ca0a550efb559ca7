// What umr prints: waves (`-wa`), registers (`-r`, `-O bits`), rings. Waves are grouped by pc; registers and ring words are kept
// as they stand, for the tables of registers and packets to decode.
//
//   se0.sa0.wgp3.simd1.wave0
//        ixSQ_WAVE_STATUS: 00010c20 |      ixSQ_WAVE_PC_LO: 13e5674c |      ixSQ_WAVE_PC_HI: 00007616 |
//   gfx1100.regCP_RB_BASE => 0xff0068d0
//   polaris11.gfx.ring[ 512] == 0xc0032200    r.. PKT3, ...
#include <stdlib.h>

#include "evidence/artefact.h"

enum { PLACES_MAX = 64, REGISTERS_MAX = 8192, WORDS_MAX = 1 << 18 };

static const uint64_t unreadable = 0xbebebeef;

struct umr_place {
	uint64_t pc;
	unsigned count, halted;
	struct place at;
};

struct umr {
	struct artefact_output out;
	struct arena arena;
	struct place at, wave_at;
	bool in_wave;
	uint64_t pc_low, pc_high, status;
	bool has_pc;
	VEC(struct umr_place) places;
	VEC(struct values) registers;
	struct str ring;
	VEC(uint64_t) ring_words;
	size_t words; // of rings that have ended
};

/** `se0.sa0.wgp3.simd1.wave0`, `se0.sh0.cu0.simd0.wave0` */
static bool is_wave(struct str text)
{
	return text.n < 48 && str_starts(text, S("se")) && text.n > 3 && char_digit(text.p[2]) &&
	       str_find(text, S(".simd")) > 0 && str_find(text, S(".wave")) > 0;
}

/** `gfx1100.regCP_RB_BASE => 0xff0068d0` */
static bool register_of(struct str text, struct str *ret_block, struct str *ret_name, uint64_t *ret_value)
{
	ptrdiff_t arrow = str_find(text, S(" => 0x"));
	if (arrow <= 0)
		return false;
	struct str rest = str_from(text, (size_t)arrow + 4), name = str_cut(text, (size_t)arrow);
	*ret_block = str_split(&name, '.');
	*ret_name = name;
	for (ptrdiff_t dot; (dot = str_find(*ret_name, S("."))) >= 0;)
		*ret_name = str_from(*ret_name, (size_t)dot + 1);
	bool named = str_starts(*ret_name, S("reg")) || str_starts(*ret_name, S("mm")) || str_starts(*ret_name, S("ix"));
	return named && str_hex(str_word(&rest), ret_value);
}

/** `[0x0@0x00001800 + 0x011c]   [        0xc0023f00]    Opcode 0x3f ...` of `-RS` and of decoded IBs */
static bool stream_word(struct str text, struct str *ret_where, uint64_t *ret_value)
{
	ptrdiff_t close = str_find(str_cut(text, 64), S("]"));
	if (!str_starts(text, S("[0x")) || close < 0 || str_find(str_cut(text, (size_t)close), S("@0x")) < 0)
		return false;
	struct str rest = str_trim(str_from(text, (size_t)close + 1));
	ptrdiff_t plus = str_find(text, S(" + "));
	*ret_where = str_cut(str_from(text, 1), plus > 1 && plus < close ? (size_t)plus - 1 : 0);
	if (!str_starts(rest, S("[")))
		return false;
	rest = str_from(rest, 1);
	return str_hex(str_trim(str_split(&rest, ']')), ret_value);
}

/** `polaris11.gfx.ring[ 512] == 0xc0032200` */
static bool ring_word(struct str text, struct str *ret_ring, uint64_t *ret_value)
{
	ptrdiff_t at = str_find(text, S(".ring["));
	ptrdiff_t equals = str_find(text, S("] == 0x"));
	if (at <= 0 || equals < at)
		return false;
	struct str rest = str_from(text, (size_t)equals + 5);
	*ret_ring = str_cut(text, (size_t)at);
	return str_hex(str_word(&rest), ret_value);
}

static bool umr_begins(struct str line)
{
	struct str text = str_trim(line), a, b;
	uint64_t value;
	return is_wave(text) || register_of(text, &a, &b, &value) || ring_word(text, &a, &value) ||
	       stream_word(text, &a, &value) || str_find(text, S("ixSQ_WAVE_STATUS: ")) >= 0;
}

static void *umr_open(const struct artefact_output *out)
{
	struct umr *u = mem_alloc(sizeof(*u));
	u->out = *out;
	return u;
}

static void end_wave(struct umr *u)
{
	if (!u->in_wave || !u->has_pc)
		return;
	uint64_t pc = u->pc_high << 32 | u->pc_low;
	u->in_wave = false;
	bool halted = u->status >> 13 & 1;
	for (size_t i = 0; i < u->places.len; i++) {
		if (u->places.data[i].pc == pc) {
			u->places.data[i].count++;
			u->places.data[i].halted += halted;
			return;
		}
	}
	struct umr_place p = { pc, 1, halted, u->wave_at };
	if (u->places.len < PLACES_MAX)
		vec_push(&u->places, p);
}

/** Cells of `name: value |`. */
static bool wave_cells(struct umr *u, struct str text)
{
	bool any = false;
	while (text.n) {
		struct str cell = str_split(&text, '|'), name = str_split(&cell, ':');
		uint64_t value;
		name = str_trim(name);
		if (!str_hex(str_trim(cell), &value) || !str_starts(name, S("ixSQ_WAVE_")))
			continue;
		any = true;
		if (value == unreadable)
			continue;
		if (str_is(name, "ixSQ_WAVE_PC_LO")) {
			u->pc_low = value;
			u->has_pc = true;
		} else if (str_is(name, "ixSQ_WAVE_PC_HI")) {
			u->pc_high = value;
		} else if (str_is(name, "ixSQ_WAVE_STATUS")) {
			u->status = value;
		}
	}
	return any;
}

/** What was read of a ring or an IB, kept under its name. */
static void end_ring(struct umr *u)
{
	if (!u->ring_words.len)
		return;
	if (u->registers.len < REGISTERS_MAX) {
		uint64_t *data = arena_alloc(&u->arena, u->ring_words.len * sizeof(*data));
		memcpy(data, u->ring_words.data, u->ring_words.len * sizeof(*data));
		struct values v = { .group = S("ring"), .name = u->ring, .digits = 8, .n = u->ring_words.len, .data = data };
		vec_push(&u->registers, v);
	}
	u->words += u->ring_words.len;
	u->ring_words.len = 0;
}

static void keep_register(struct umr *u, struct str block, struct str name, uint64_t value)
{
	if (u->registers.len >= REGISTERS_MAX)
		return;
	uint64_t *data = arena_alloc(&u->arena, sizeof(*data));
	*data = value;
	struct values v = { .group = arena_str(&u->arena, block),
			    .name = arena_str(&u->arena, str_cut(name, 96)),
			    .digits = 8,
			    .n = 1,
			    .data = data };
	vec_push(&u->registers, v);
}

static enum taken umr_line(void *self, const struct logline *line, struct place at)
{
	struct umr *u = self;
	struct str text = str_trim(line->message), block, name;
	uint64_t value;
	if (!u->at.line)
		u->at = at;
	if (is_wave(text)) {
		end_wave(u);
		u->in_wave = true;
		u->has_pc = false;
		u->status = u->pc_high = 0;
		u->wave_at = at;
		return true;
	}
	if (register_of(text, &block, &name, &value)) {
		keep_register(u, block, name, value);
		return true;
	}
	if (ring_word(text, &name, &value) || stream_word(text, &name, &value)) {
		if (!str_eq(u->ring, str_cut(name, 64))) { // another ring, or the IB that one calls
			end_ring(u);
			u->ring = arena_str(&u->arena, str_cut(name, 64));
		}
		if (u->words + u->ring_words.len < WORDS_MAX)
			vec_push(&u->ring_words, value);
		return true;
	}
	if (str_find(text, S("ixSQ_WAVE_")) >= 0 && !u->in_wave) {
		u->in_wave = true;
		u->wave_at = at;
	}
	// Bits, SGPRs and rules between them.
	if (wave_cells(u, text))
		return TAKEN_YES;
	bool looks = str_find(text, S(" | ")) > 0 || str_starts(text, S(">SGPRS")) || str_starts(text, S(">VGPRS")) ||
		     str_starts(text, S("Main Registers")) || str_starts(text, S("Register Bits")) ||
		     str_starts(text, S("-----")) || str_starts(text, S("ixSQ_WAVE")) || str_starts(text, S("[")) ||
		     str_starts(text, S("|")) || !text.n;
	return looks ? TAKEN_LOOKS_LIKE : TAKEN_NO;
}

static void tell_waves(struct umr *u)
{
	for (size_t i = 0; i < u->places.len; i++) {
		const struct umr_place *p = &u->places.data[i];
		struct event e;
		if (!artefact_event(&u->out, "umr-waves", p->at, &e))
			return;
		event_add_number(&e, &u->arena, "waves", p->count);
		event_add_code(&e, &u->arena, "pc", p->pc);
		if (p->halted)
			event_add_number(&e, &u->arena, "halted", p->halted);
		artefact_tell(&u->out, &e);
	}
}

static void umr_close(void *self)
{
	struct umr *u = self;
	struct event e;
	end_wave(u);
	end_ring(u);
	if (u->registers.len && artefact_event(&u->out, "umr-state", u->at, &e)) {
		event_add_number(&e, &u->arena, "registers", (int64_t)u->registers.len);
		e.values = u->registers.data;
		e.nvalues = u->registers.len;
		artefact_tell(&u->out, &e);
	}
	tell_waves(u);
	vec_free(&u->places);
	vec_free(&u->registers);
	vec_free(&u->ring_words);
	arena_free(&u->arena);
	free(u);
}

const struct artefact_reader umr_reader = {
	.kind = "umr",
	.begins = umr_begins,
	.open = umr_open,
	.line = umr_line,
	.close = umr_close,
	.patience = 40,
};
