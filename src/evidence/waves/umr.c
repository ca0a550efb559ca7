// What umr prints: waves (`-wa`), registers (`-r`, `-O bits`), rings. Waves are grouped by pc, and of the first one of each its
// registers and the code around its pc are kept; registers and ring words are kept as they stand, for the tables of registers and
// packets to decode.
//
//   se0.sa0.wgp3.simd1.wave0
//        ixSQ_WAVE_STATUS: 00010c20 |      ixSQ_WAVE_PC_LO: 13e5674c |      ixSQ_WAVE_PC_HI: 00007616 |
//   >SGPRS[0..3] = { 00000000, 00007e00, 00000384, 00000000 }
//       [  0] = { 00000000 00000004 ... }
//    * pgm[8@0x761613e56700 + 0x4c  ] = 0xdc710000	global_store_dword v0, v1, s[0:1]
//   gfx1100.regCP_RB_BASE => 0xff0068d0
//   polaris11.gfx.ring[ 512] == 0xc0032200    r.. PKT3, ...
#include <endian.h>
#include <stdlib.h>

#include "evidence/waves/tell.h"
#include "gpu/layout.h"

enum {
	PLACES_MAX = 64,
	REGISTERS_MAX = 8192,
	WORDS_MAX = 1 << 18,
	WAVE_REGISTERS = 640,
	KEPT_BYTES = 8 << 20,
	CODE_WORDS = 32,    // around a pc
	CODE_WORDS_MIN = 4, // fewer are in many places
	CELLS_MAX = 40,     // registers of the hardware that umr prints of a wave
	CELL_NAME = 24,
	VIOLATIONS = 1 << STOP_MEMORY_VIOLATION | 1 << STOP_ADDRESS_ERROR,
};

static const uint64_t unreadable = 0xbebebeef;

/** The first wave at a place. */
struct umr_wave {
	struct wave wave;
	struct place at;
	uint64_t code_at;
	size_t nwords;
	uint32_t words[CODE_WORDS]; // as they lie in memory
	struct str instruction;     // that umr shows at the pc
};

/** A hardware register of the wave: `status`. */
struct cell {
	char name[CELL_NAME];
	uint32_t value;
};

struct umr {
	struct artefact_output out;
	struct arena arena;
	struct place at, wave_at;
	bool in_wave;
	uint64_t pc_low, pc_high, exec_low, exec_high;
	bool has_pc, has_exec;
	size_t ncells;
	struct cell cells[CELLS_MAX];
	bool layout_sought;
	const struct wave_layout *layout; // that the registers are taken to have; NULL: none is known
	struct umr_wave *wave;            // NULL: nothing of it is kept
	struct wave_places places;        // whose first is a umr_wave
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

static uint64_t wave_pc(const struct umr *u) { return u->pc_high << 32 | u->pc_low; }

static struct wave_place *umr_find_place(const struct umr *u)
{
	return wave_place_of(&u->places, &(struct wave){ .pc = wave_pc(u) });
}

// --- registers and code of a wave ---

/** Where its registers and code go; NULL where a wave at the same pc has been kept, or too much. */
static struct umr_wave *open_wave(struct umr *u)
{
	if (!u->in_wave || !u->has_pc || u->arena.total > KEPT_BYTES)
		return NULL;
	if (!u->wave && !umr_find_place(u) && u->places.len < PLACES_MAX)
		u->wave = arena_alloc(&u->arena, sizeof(*u->wave));
	return u->wave;
}

static void umr_add_register(struct umr *u, struct str group, struct str name, unsigned digits, const uint64_t *data, size_t n)
{
	if (u->wave->wave.registers.len < WAVE_REGISTERS)
		wave_register_add(&u->wave->wave.registers,
				  (struct wave_register){ .group = group,
							  .name = name,
							  .digits = digits,
							  .n = n,
							  .data = arena_copy(&u->arena, data, n * sizeof(*data)) });
}

/** `{ 00000000, 00007e00 }`; the number of them, 0 where that is not what it is. */
static size_t braced(struct str text, uint64_t ret[static WAVE_LANES])
{
	size_t n = 0;
	struct str word = str_word(&text);
	if (!str_is(word, "{"))
		return 0;
	for (word = str_word(&text); n < WAVE_LANES && word.n && !str_is(word, "}"); word = str_word(&text), n++)
		if (!str_hex(str_ends(word, S(",")) ? str_cut(word, word.n - 1) : word, &ret[n]) || ret[n] > UINT32_MAX)
			return 0;
	return n;
}

/** `>SGPRS[0..3] = { ... }` and, of one register, `[  0] = { ... }` with its lanes. */
static bool register_row(struct umr *u, struct str text)
{
	bool scalar = str_starts(text, S(">SGPRS["));
	struct str rest = str_from(text, scalar ? 7 : 1), index = str_split(&rest, ']');
	uint64_t data[WAVE_LANES];
	int64_t number;
	if (!scalar && !str_starts(text, S("[")))
		return false;
	if (!str_number(str_trim(str_split(&index, '.')), &number) || number < 0 || number > 1023 ||
	    !str_behind(rest, S(" ="), &rest))
		return false;
	size_t n = braced(rest, data);
	if (!n || !open_wave(u))
		return n;
	if (!scalar)
		umr_add_register(u, S("vector"), arena_printf(&u->arena, "v%u", (unsigned)number), 8, data, n);
	for (size_t i = 0; scalar && i < n; i++)
		umr_add_register(u, S("scalar"), arena_printf(&u->arena, "s%u", (unsigned)number + (unsigned)i), 8, &data[i],
				 1);
	return true;
}

/** `* pgm[8@0x7f00 + 0x4c  ] = 0xbf810000	s_endpgm`, of which old versions have no offset. */
static bool code_row(struct umr *u, struct str text)
{
	bool here = str_behind(text, S("* "), &text);
	struct str rest = str_from(text, str_starts(text, S(">")) ? 5 : 4), place = str_split(&rest, ']');
	uint64_t address, offset = 0, word;
	if (!str_starts(text, S("pgm[")) && !str_starts(text, S(">pgm[")))
		return false;
	str_split(&place, '@');
	struct str base = str_split(&place, '+');
	if (!str_hex(str_trim(base), &address) || (place.n && !str_hex(str_trim(place), &offset)) ||
	    !str_behind(rest, S(" ="), &rest) || !str_hex(str_word(&rest), &word) || word > UINT32_MAX)
		return false;
	struct umr_wave *w = open_wave(u);
	address += offset;
	uint64_t pc = wave_pc(u);
	if (!w || address + CODE_WORDS * 2 < pc || address >= pc + CODE_WORDS * 2)
		return true;
	if (here && address == pc)
		w->instruction = arena_str(&u->arena, str_cut(str_trim(rest), 160));
	if (!w->nwords)
		w->code_at = address;
	if (w->nwords < CODE_WORDS && address == w->code_at + 4 * w->nwords)
		w->words[w->nwords++] = htole32((uint32_t)word);
	return true;
}

// --- what its hardware registers say ---

/** Whether it was halted, and why it stopped. umr does not print the part: the registers of the first wave tell which it is like. */
static void read_state(struct umr *u, struct wave *ret)
{
	struct str names[CELLS_MAX];
	for (size_t i = 0; i < u->ncells; i++)
		names[i] = str_z(u->cells[i].name);
	_cleanup_error_ struct uh_error *err =
		u->layout_sought ? NULL : layout_for_registers(&u->arena, u->out.know, names, u->ncells, &u->layout);
	u->layout_sought = true;
	const struct wave_layout *l = u->layout;
	*ret = (struct wave){ .layout = l };
	for (size_t i = 0; l && i < u->ncells; i++) {
		int at = layout_register(l, names[i]);
		if (at >= 0)
			ret->hwregs[at] = u->cells[i].value;
	}
	if (!l)
		return;
	ret->halted = layout_value(&l->bits[LAYOUT_HALTED], ret->hwregs, ret->ttmps);
	ret->stop_reasons = layout_stop_reasons(l, ret->hwregs, ret->ttmps);
}

static void end_wave(struct umr *u)
{
	struct umr_wave *w = u->wave;
	u->wave = NULL;
	if (!u->in_wave || !u->has_pc)
		return;
	u->in_wave = false;
	struct wave state;
	read_state(u, &state);
	struct wave_place *have = umr_find_place(u);
	if (have) {
		have->count++;
		have->halted += state.halted;
	}
	if (have || u->places.len == PLACES_MAX) {
		if (w)
			vec_free(&w->wave.registers);
		return;
	}
	if (w && u->has_exec) {
		uint64_t exec = u->exec_high << 32 | u->exec_low;
		u->wave = w;
		umr_add_register(u, S("scalar"), S("exec"), 16, &exec, 1);
		u->wave = NULL;
	}
	if (!w)
		w = arena_alloc(&u->arena, sizeof(*w));
	w->wave.pc = wave_pc(u);
	w->wave.stop_reasons = state.stop_reasons;
	w->at = u->wave_at;
	vec_push(&u->places, ((struct wave_place){ &w->wave, 1, state.halted }));
}

/** Cells of `name: value |`. */
static bool wave_cells(struct umr *u, struct str text)
{
	const struct {
		const char *name;
		uint64_t *to;
		bool *has;
	} kept[] = { { "PC_LO", &u->pc_low, &u->has_pc },
		     { "PC_HI", &u->pc_high, NULL },
		     { "EXEC_LO", &u->exec_low, &u->has_exec },
		     { "EXEC_HI", &u->exec_high, NULL } };
	bool any = false;
	while (text.n) {
		struct str cell = str_split(&text, '|'), name = str_split(&cell, ':');
		uint64_t value;
		if (!str_hex(str_trim(cell), &value) || !str_behind(str_trim(name), S("ixSQ_WAVE_"), &name))
			continue;
		any = true;
		if (value == unreadable)
			continue;
		if (u->ncells < CELLS_MAX && name.n < CELL_NAME && value <= UINT32_MAX) {
			struct cell *c = &u->cells[u->ncells++];
			str_copy(c->name, sizeof(c->name), name);
			for (char *p = c->name; *p; p++)
				*p = char_lower(*p);
			c->value = (uint32_t)value;
		}
		for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
			if (str_is(name, kept[i].name)) {
				*kept[i].to = value;
				if (kept[i].has)
					*kept[i].has = true;
			}
	}
	return any;
}

/** Keeps registers or words of a ring as they stand. */
static void umr_keep(struct umr *u, struct str group, struct str name, const uint64_t *data, size_t n)
{
	if (u->registers.len < REGISTERS_MAX)
		vec_push(&u->registers, ((struct values){ .group = arena_str(&u->arena, group),
							  .name = arena_str(&u->arena, str_cut(name, 96)),
							  .digits = 8,
							  .n = n,
							  .data = arena_copy(&u->arena, data, n * sizeof(*data)) }));
}

/** What was read of a ring or an IB, kept under its name. */
static void umr_end_ring(struct umr *u)
{
	if (u->ring_words.len)
		umr_keep(u, S("ring"), u->ring, u->ring_words.data, u->ring_words.len);
	u->words += u->ring_words.len;
	u->ring_words.len = 0;
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
		u->has_pc = u->has_exec = false;
		u->pc_high = u->exec_high = u->ncells = 0;
		u->wave_at = at;
		return true;
	}
	if (register_of(text, &block, &name, &value)) {
		umr_keep(u, block, name, &value, 1);
		return true;
	}
	if ((ring_word(text, &name, &value) || stream_word(text, &name, &value)) && name.n) {
		if (!str_eq(u->ring, str_cut(name, 64))) { // another ring, or the IB that one calls
			umr_end_ring(u);
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
	// A number in brackets and a star are no prefixes here.
	struct str whole = str_trim(line->text);
	if (wave_cells(u, text) || register_row(u, whole) || register_row(u, text) || code_row(u, whole) || code_row(u, text))
		return TAKEN_YES;
	const char *furniture = ">SGPRS|>VGPRS|Main Registers|Register Bits|-----|ixSQ_WAVE|[";
	bool looks = !text.n || text.p[0] == '|' || str_find(text, S(" | ")) > 0 || str_among(text, STR_BEGINS, furniture).n;
	return looks ? TAKEN_LOOKS_LIKE : TAKEN_NO;
}

/** The object is not named: the code around the pc must be in one place of one object. */
static const struct where *find_code(struct umr *u, const struct umr_wave *w)
{
	uint64_t pc = w->wave.pc;
	size_t before = w->code_at < pc ? (size_t)(pc - w->code_at) / 4 : 0;
	const struct where *at = NULL;
	// What lies before the pc may not be of the function, nor of the object.
	for (size_t from = 0; !at && w->nwords >= from + CODE_WORDS_MIN && before < w->nwords; from = before) {
		const struct code_anchor anchor = { .bytes = { (const char *)(w->words + from), 4 * (w->nwords - from) },
						    .bytes_at = w->code_at + 4 * from };
		at = code_shelf_where(u->out.code, u->out.name, &anchor, pc);
		if (from == before)
			break;
	}
	return at;
}

/** What umr itself shows at the pc, where the code is not at hand. */
static void add_instruction(void *of, struct event *e, struct arena *a)
{
	event_add_text(e, a, "instruction", ((const struct umr_wave *)of)->instruction);
}

static void umr_fill_tale(void *ctx, const struct wave_place *p, struct arena *a, struct wave_tale *ret)
{
	struct umr *u = ctx;
	struct umr_wave *w = (struct umr_wave *)p->first;
	const struct where *at = u->out.code ? find_code(u, w) : NULL;
	*ret = (struct wave_tale){ .signature = "umr-waves",
				   .at = w->at,
				   .wave = w->wave,
				   .count = p->count,
				   .halted = p->halted,
				   .listed = true,
				   .pc_known = true,
				   .where = at,
				   .own = at ? NULL : add_instruction,
				   .of = w };
	// Of a wave that ran on, only what made it fault is a reason to have stopped.
	ret->wave.reason = stop_reasons_text(a, w->wave.stop_reasons & VIOLATIONS);
}

static void umr_close(void *self)
{
	struct umr *u = self;
	struct event e;
	end_wave(u);
	umr_end_ring(u);
	if (u->registers.len && artefact_event(&u->out, "umr-state", u->at, &e)) {
		event_add_number(&e, &u->arena, "registers", (int64_t)u->registers.len);
		e.dump.values = u->registers.data;
		e.dump.nvalues = u->registers.len;
		artefact_tell(&u->out, &e);
	}
	const struct wave_telling t = { .out = &u->out, .most = PLACES_MAX, .fill = umr_fill_tale, .ctx = u };
	waves_tell(&t, &u->places, 0);
	for (size_t i = 0; i < u->places.len; i++)
		vec_free(&((struct umr_wave *)u->places.data[i].first)->wave.registers);
	vec_free(&u->places);
	vec_free(&u->registers);
	vec_free(&u->ring_words);
	arena_free(&u->arena);
}

ARTEFACT_READER(umr, "umr", 40);
