// Makes a `save-area` block of knowledge, with those that it is like and the part's `wave-words`, ready for use. A block says only what is
// other than in the one that it is like; so all lines are collected first, the furthest block's before, and names of registers are looked
// up when the last block has said which registers there are.
#include "gpu/layout.h"

#include "base/bytes.h"

enum { LIKE_MAX = 8 };

#define LAYOUT_NAME(which, name) [which] = name,
static const char *const number_names[NUMBERS] = { LAYOUT_NUMBER_LIST(LAYOUT_NAME) };
static const char *const bits_names[LAYOUT_BITS] = { LAYOUT_BITS_LIST(LAYOUT_NAME) };

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

static struct uh_error *layout_wrong(const struct know_head *h, const char *key, const struct know_pair *p)
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

static const struct know_save_area *layout_find_block(const struct know *k, struct str id)
{
	return list_find_of(k->save_areas.data, k->save_areas.len, it, str_eq(it->head.id, id));
}

/** The block and those that it is like, the furthest first; the number of them, or 0. */
static size_t ancestry(const struct know *k, const struct know_save_area *b, const struct know_save_area *ret[static LIKE_MAX])
{
	size_t n = 0;
	for (; b && n < LIKE_MAX; b = b->like.n ? layout_find_block(k, b->like) : NULL) {
		memmove(ret + 1, ret, n * sizeof(*ret));
		ret[0] = b;
		n++;
		if (b->like.n && !layout_find_block(k, b->like))
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
			return layout_wrong(&k->head, "stop", p);
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
		if (i < 0 || !str_number(p->value, &n) || n < 0 || n > 1 << 20 || (i == NUMBER_STATE_WORDS && (n < 1 || n > 2)))
			return layout_wrong(h, "number", p);
		l->numbers[i] = (uint64_t)n;
	}
	for (const struct know_pair *p = bits; p; p = p->next) {
		int i = find_name(bits_names, LAYOUT_BITS, p->name);
		if (i < 0)
			return layout_wrong(h, "bits", p);
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
			return layout_wrong(h, "bits", said->bits[i]);
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
static struct uh_error *layout_make(struct arena *a, const struct know *know, const struct know_save_area *k,
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

const struct know_wave_words *wave_words_block(const struct know *k, struct str gfx)
{
	return list_find_of(k->wave_words.data, k->wave_words.len, it, patterns_fit(it->parts, gfx));
}

static struct uh_error *layout_make_for(struct arena *a, const struct know *k, struct str gfx,
					const struct know_wave_words *words, const struct wave_layout **ret)
{
	const struct know_save_area *block =
		list_find_of(k->save_areas.data, k->save_areas.len, it, patterns_fit(it->parts, gfx));
	struct wave_layout *l = block ? arena_alloc(a, sizeof(*l)) : NULL;
	struct uh_error *err = block ? layout_make(a, k, block, words, l) : NULL;
	*ret = err ? NULL : l;
	return err;
}

struct uh_error *layout_for(struct arena *a, const struct know *k, struct str gfx, const struct wave_layout **ret)
{
	return layout_make_for(a, k, gfx, NULL, ret);
}

struct uh_error *layout_for_words(struct arena *a, const struct know *k, struct str gfx, const struct wave_layout **ret)
{
	const struct know_wave_words *words = wave_words_block(k, gfx);
	*ret = NULL;
	return words ? layout_make_for(a, k, gfx, words, ret) : NULL;
}

struct uh_error *layout_for_registers(struct arena *a, const struct know *k, const struct str *names, size_t n,
				      const struct wave_layout **ret)
{
	const struct know_wave_words *best = NULL;
	size_t most = 0;
	for (size_t i = 0; i < k->wave_words.len; i++) {
		size_t found = 0;
		for (size_t m = 0; m < n; m++)
			for (const struct know_list *l = k->wave_words.data[i]->words; l; l = l->next)
				found += str_eq(l->text, names[m]);
		if (found > most) {
			best = k->wave_words.data[i];
			most = found;
		}
	}
	*ret = NULL;
	// A part of the block that a save area is known of; the block's own may be patterns.
	for (size_t i = 0; best && i < k->save_areas.len; i++)
		for (const struct know_list *p = k->save_areas.data[i]->parts; p; p = p->next)
			if (patterns_fit(best->parts, p->text))
				return layout_make_for(a, k, p->text, best, ret);
	return NULL;
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

static uint32_t place_value(const struct wave_layout *l, const struct wave *w, enum layout_bits which)
{
	return layout_value(&l->bits[which], w->hwregs, w->ttmps);
}

void layout_find_place(const struct wave_layout *l, bool told, struct wave *w)
{
	bool unset = told && place_value(l, w, LAYOUT_NO_TTMPS);
	if (l->bits[LAYOUT_MARK].of != BITS_NONE && !place_value(l, w, LAYOUT_MARK))
		unset = false;
	w->placed = !unset;
	if (unset)
		return;
	w->packet = place_value(l, w, LAYOUT_PACKET);
	w->wave_in_group = place_value(l, w, LAYOUT_WAVE_IN_GROUP);
	w->workgroup[0] = place_value(l, w, LAYOUT_X);
	if (l->bits[LAYOUT_YZ_VALID].of == BITS_NONE || place_value(l, w, LAYOUT_YZ_VALID)) {
		w->workgroup[1] = place_value(l, w, LAYOUT_Y);
		w->workgroup[2] = place_value(l, w, LAYOUT_Z);
	}
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
