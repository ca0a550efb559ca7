#include "gpu/layout.h"

#include "base/bytes.h"

enum { LIKE_MAX = 8 };

static const char *const number_names[NUMBERS] = {
	[NUMBER_PADDING] = "padding",
	[NUMBER_STATE_WORDS] = "state-words",
	[NUMBER_VGPR_UNIT] = "vgpr-unit",
	[NUMBER_VGPR_UNIT_32] = "vgpr-unit-32",
	[NUMBER_ACC_UNIT] = "acc-unit",
	[NUMBER_ACC_LIKE_VGPR] = "acc-like-vgprs",
	[NUMBER_SGPRS] = "sgprs",
	[NUMBER_SGPR_UNIT] = "sgpr-unit",
	[NUMBER_SGPR_UNSAVED] = "sgprs-unsaved",
	[NUMBER_LDS_UNIT] = "lds-unit",
	[NUMBER_SHARED_UNIT] = "shared-unit",
	[NUMBER_SGPRS_NAMED] = "sgprs-named",
	[NUMBER_PARKED_SINCE] = "parked-since",
	[NUMBER_LDS_WHOLE] = "lds-whole",
	[NUMBER_TRAP_INSTRUCTION] = "trap-instruction",
};

static const char *const bits_names[LAYOUT_BITS] = {
	[LAYOUT_VGPRS] = "vgprs",
	[LAYOUT_ACCS] = "accs",
	[LAYOUT_SGPRS] = "sgprs",
	[LAYOUT_LDS] = "lds",
	[LAYOUT_LDS_WHOLE] = "lds-whole",
	[LAYOUT_WAVE32] = "wave32",
	[LAYOUT_SHARED] = "shared-vgprs",
	[LAYOUT_FIRST] = "first",
	[LAYOUT_LAST] = "last",
	[LAYOUT_SCRATCH] = "scratch",
	[LAYOUT_SE] = "se",
	[LAYOUT_PACKET] = "packet",
	[LAYOUT_WAVE_IN_GROUP] = "wave-in-group",
	[LAYOUT_X] = "x",
	[LAYOUT_Y] = "y",
	[LAYOUT_Z] = "z",
	[LAYOUT_YZ_VALID] = "yz-valid",
	[LAYOUT_NO_TTMPS] = "no-ttmps",
	[LAYOUT_MARK] = "mark",
	[LAYOUT_TRAP] = "trap",
	[LAYOUT_HALTED] = "halted",
	[LAYOUT_SAVED_HALT] = "saved-halt",
	[LAYOUT_STOPPED] = "stopped",
	[LAYOUT_IN_BARRIER] = "in-barrier",
	[LAYOUT_SKIP_EXPORT] = "skip-export",
	[LAYOUT_FATAL_HALT] = "fatal-halt",
	[LAYOUT_NO_VGPRS] = "no-vgprs",
	[LAYOUT_PARKED_LOW] = "parked-low",
	[LAYOUT_PARKED_HIGH] = "parked-high",
	[LAYOUT_VALID] = "valid",
	[LAYOUT_IDLE] = "idle",
	[LAYOUT_IN_TRAP] = "in-trap",
	[LAYOUT_TRAP_PENDING] = "trap-pending",
	[LAYOUT_WAVE64] = "wave64",
	[LAYOUT_VMID] = "vmid",
	[LAYOUT_ME] = "me",
	[LAYOUT_PIPE] = "pipe",
	[LAYOUT_QUEUE] = "queue",
};

static int find_name(const char *const *names, int n, struct str name)
{
	for (int i = 0; i < n; i++)
		if (str_is(name, names[i]))
			return i;
	return -1;
}

int layout_register(const struct wave_layout *l, struct str name)
{
	for (size_t i = 0; i < l->nregisters; i++)
		if (str_eq(l->registers[i], name))
			return (int)i;
	return -1;
}

/** Takes `state 29:24`, `ttmp6 24:0`, `trapsts 28` off @text. */
static bool take_bits(const struct wave_layout *l, struct str *text, struct bits *ret)
{
	struct str of = str_word(text), range = str_word(text), high = str_split(&range, ':');
	int64_t h, low, n;
	if (!str_number(high, &h) || h < 0 || h > 31)
		return false;
	low = h;
	if (range.n && (!str_number(range, &low) || low < 0 || low > h))
		return false;
	*ret = (struct bits){ .high = (unsigned)h, .low = (unsigned)low };
	if (str_is(of, "state"))
		ret->of = BITS_STATE;
	else if (str_is(of, "wave"))
		ret->of = BITS_WAVE;
	else if (str_starts(of, S("ttmp")) && str_number(str_from(of, 4), &n) && n >= 0 && n < WAVE_TTMPS)
		ret->of = BITS_TTMP, ret->index = (unsigned)n;
	else if (layout_register(l, of) >= 0)
		ret->of = BITS_REGISTER, ret->index = (unsigned)layout_register(l, of);
	return ret->of;
}

static struct uh_error *wrong(const struct know_head *h, const char *key, const struct know_pair *p)
{
	return uh_error_new("%s:%u: " STR_FMT ": '%s " STR_FMT " " STR_FMT "' is not understood", h->file, h->line,
			    STR_ARG(h->id), key, STR_ARG(p->name), STR_ARG(p->value));
}

/** NAME: BITS [if BITS] [unless BITS] */
static bool read_stop(const struct wave_layout *l, const struct know_pair *p, struct layout_stop *ret)
{
	struct str rest = p->value;
	if (!stop_reason_of(p->name, &ret->reason) || !take_bits(l, &rest, &ret->bit))
		return false;
	while (str_trim(rest).n) {
		struct str word = str_word(&rest);
		struct bits *to = str_is(word, "if") ? &ret->enabled : str_is(word, "unless") ? &ret->unless : NULL;
		if (!to || !take_bits(l, &rest, to))
			return false;
	}
	return true;
}

static const struct know_save_area *find_block(const struct know *k, struct str id)
{
	for (size_t i = 0; i < k->save_areas.len; i++)
		if (str_eq(k->save_areas.data[i]->head.id, id))
			return k->save_areas.data[i];
	return NULL;
}

/** The block and those that it is like, the furthest first; the number of them, or 0. */
static size_t ancestry(const struct know *k, const struct know_save_area *b, const struct know_save_area *ret[static LIKE_MAX])
{
	size_t n = 0;
	for (; b && n < LIKE_MAX; b = b->like.n ? find_block(k, b->like) : NULL) {
		memmove(ret + 1, ret, n * sizeof(*ret));
		ret[0] = b;
		n++;
		if (b->like.n && !find_block(k, b->like))
			return 0;
	}
	return b ? 0 : n;
}

static struct uh_error *take_stops(struct arena *a, const struct know_save_area *k, struct wave_layout *l)
{
	size_t n = 0;
	for (const struct know_pair *p = k->stops; p; p = p->next)
		n++;
	struct layout_stop *stops = arena_alloc(a, n * sizeof(*stops) + 1);
	l->stops = stops;
	l->nstops = n;
	for (const struct know_pair *p = k->stops; p; p = p->next)
		if (!read_stop(l, p, stops++))
			return wrong(&k->head, "stop", p);
	return NULL;
}

/** Which block says where a value is found. */
struct layout_said {
	const struct know_pair *bits[LAYOUT_BITS];
};

static struct uh_error *take_lines(const struct know_head *h, const struct know_list *registers,
				   const struct know_pair *numbers, const struct know_pair *bits, struct wave_layout *l,
				   struct layout_said *said)
{
	if (registers)
		l->nregisters = 0;
	for (const struct know_list *r = registers; r && l->nregisters < WAVE_HWREGS; r = r->next)
		l->registers[l->nregisters++] = r->text;
	for (const struct know_pair *p = numbers; p; p = p->next) {
		int64_t n;
		int i = find_name(number_names, NUMBERS, p->name);
		if (i < 0 || !str_number(p->value, &n) || n < 0 || n > 1 << 20)
			return wrong(h, "number", p);
		if (i == NUMBER_STATE_WORDS && (n < 1 || n > 2))
			return wrong(h, "number", p);
		l->numbers[i] = (uint64_t)n;
	}
	for (const struct know_pair *p = bits; p; p = p->next) {
		int i = find_name(bits_names, LAYOUT_BITS, p->name);
		if (i < 0)
			return wrong(h, "bits", p);
		said->bits[i] = str_is(p->value, "none") ? NULL : p;
	}
	return NULL;
}

/** To be called when all blocks were read: a register's name in an inherited line means the register of this block. */
static struct uh_error *take_said(const struct know_head *h, const struct layout_said *said, struct wave_layout *l)
{
	for (size_t i = 0; i < LAYOUT_BITS; i++) {
		struct str rest = said->bits[i] ? said->bits[i]->value : (struct str){ 0 };
		if (said->bits[i] && !take_bits(l, &rest, &l->bits[i]))
			return wrong(h, "bits", said->bits[i]);
	}
	l->pc_lo = layout_register(l, S("pc_lo"));
	l->pc_hi = layout_register(l, S("pc_hi"));
	l->exec_lo = layout_register(l, S("exec_lo"));
	l->exec_hi = layout_register(l, S("exec_hi"));
	if (l->pc_lo < 0 || l->pc_hi < 0 || l->exec_lo < 0 || l->exec_hi < 0)
		return uh_error_new("%s:%u: " STR_FMT ": it lacks pc_lo, pc_hi, exec_lo or exec_hi", h->file, h->line,
				    STR_ARG(h->id));
	return NULL;
}

/** The block @k and those that it is like, then @words, where it is not NULL. */
static struct uh_error *make(struct arena *a, const struct know *know, const struct know_save_area *k,
			     const struct know_wave_words *words, struct wave_layout *l)
{
	const struct know_save_area *blocks[LIKE_MAX];
	struct layout_said said = { 0 };
	size_t n = ancestry(know, k, blocks);
	if (!n)
		return uh_error_new("%s:%u: save-area " STR_FMT ": 'like' leads to no block, or round in a circle",
				    k->head.file, k->head.line, STR_ARG(k->head.id));
	l->know = k;
	l->numbers[NUMBER_STATE_WORDS] = 1;
	const struct know_save_area *stops = blocks[0];
	struct uh_error *err = NULL;
	for (size_t i = 0; i < n && !err; i++) {
		err = take_lines(&blocks[i]->head, blocks[i]->registers, blocks[i]->numbers, blocks[i]->bits, l, &said);
		stops = blocks[i]->stops ? blocks[i] : stops;
	}
	if (words && !err)
		err = take_lines(&words->head, words->words, words->numbers, words->bits, l, &said);
	if (!err)
		err = take_said(&k->head, &said, l);
	return err ? err : take_stops(a, stops, l);
}

static bool has_part(const struct know_list *parts, struct str gfx)
{
	for (; parts; parts = parts->next)
		if (str_glob(parts->text, gfx))
			return true;
	return false;
}

const struct know_wave_words *wave_words_block(const struct know *k, struct str gfx)
{
	for (size_t i = 0; i < k->wave_words.len; i++)
		if (has_part(k->wave_words.data[i]->parts, gfx))
			return k->wave_words.data[i];
	return NULL;
}

static struct uh_error *make_for(struct arena *a, const struct know *k, struct str gfx, const struct know_wave_words *words,
				 const struct wave_layout **ret)
{
	*ret = NULL;
	for (size_t i = 0; i < k->save_areas.len; i++) {
		if (!has_part(k->save_areas.data[i]->parts, gfx))
			continue;
		struct wave_layout *l = arena_alloc(a, sizeof(*l));
		struct uh_error *err = make(a, k, k->save_areas.data[i], words, l);
		if (!err)
			*ret = l;
		return err;
	}
	return NULL;
}

struct uh_error *layout_for(struct arena *a, const struct know *k, struct str gfx, const struct wave_layout **ret)
{
	return make_for(a, k, gfx, NULL, ret);
}

struct uh_error *layout_for_words(struct arena *a, const struct know *k, struct str gfx, const struct wave_layout **ret)
{
	const struct know_wave_words *words = wave_words_block(k, gfx);
	*ret = NULL;
	return words ? make_for(a, k, gfx, words, ret) : NULL;
}

static size_t count_words(const struct know_wave_words *w, const struct str *names, size_t n)
{
	size_t found = 0;
	for (size_t i = 0; i < n; i++)
		for (const struct know_list *l = w->words; l; l = l->next)
			found += str_eq(l->text, names[i]);
	return found;
}

/** A part of the block that a save area is known of; the block's own may be patterns. */
static struct str part_with_area(const struct know *k, const struct know_wave_words *w)
{
	for (size_t i = 0; i < k->save_areas.len; i++)
		for (const struct know_list *p = k->save_areas.data[i]->parts; p; p = p->next)
			if (has_part(w->parts, p->text))
				return p->text;
	return (struct str){ 0 };
}

struct uh_error *layout_for_registers(struct arena *a, const struct know *k, const struct str *names, size_t n,
				      const struct wave_layout **ret)
{
	const struct know_wave_words *best = NULL;
	size_t most = 0;
	for (size_t i = 0; i < k->wave_words.len; i++) {
		size_t found = count_words(k->wave_words.data[i], names, n);
		if (found > most) {
			best = k->wave_words.data[i];
			most = found;
		}
	}
	*ret = NULL;
	return best ? make_for(a, k, part_with_area(k, best), best, ret) : NULL;
}

const struct bits *layout_bits_named(const struct wave_layout *l, struct str name)
{
	int i = find_name(bits_names, LAYOUT_BITS, name);
	return i >= 0 && l->bits[i].of != BITS_NONE ? &l->bits[i] : NULL;
}

uint32_t layout_value(const struct bits *b, const uint32_t *hwregs, const uint32_t *ttmps)
{
	if (b->of == BITS_REGISTER)
		return get_bits(hwregs[b->index], b->high, b->low);
	return b->of == BITS_TTMP ? get_bits(ttmps[b->index], b->high, b->low) : 0;
}

uint32_t layout_stop_reasons(const struct wave_layout *l, const uint32_t *hwregs, const uint32_t *ttmps)
{
	uint32_t reasons = 0;
	for (size_t i = 0; i < l->nstops; i++) {
		const struct layout_stop *s = &l->stops[i];
		if (layout_value(&s->bit, hwregs, ttmps) &&
		    (s->enabled.of == BITS_NONE || layout_value(&s->enabled, hwregs, ttmps)) &&
		    !layout_value(&s->unless, hwregs, ttmps))
			reasons |= 1u << s->reason;
	}
	return reasons;
}
