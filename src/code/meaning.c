// The text of an instruction, taken apart by the table in knowledge/instructions.know.
#include "code/meaning.h"

#include <inttypes.h>
#include <stdio.h>

/** Offsets and literals: LLVM writes 16, -8, 0x10, -0x10. */
static bool meaning_number_of(struct str s, int64_t *ret)
{
	bool minus = str_starts(s, S("-0x"));
	int64_t v;
	if (!str_number(minus ? str_from(s, 1) : s, &v))
		return false;
	*ret = minus ? (int64_t)(0 - (uint64_t)v) : v;
	return true;
}

/** 7 or [4:5] behind the letters of a register. */
static bool register_numbers(struct str s, struct operand *ret)
{
	int64_t first, last;
	if (s.n && s.p[0] == '[') {
		if (s.p[s.n - 1] != ']')
			return false;
		struct str rest = { s.p + 1, s.n - 2 }, low = str_split(&rest, ':');
		if (!str_number(low, &first) || !str_number(rest.n ? rest : low, &last))
			return false;
	} else {
		if (!s.n || !char_digit(s.p[0]) || !str_number(s, &first))
			return false;
		last = first;
	}
	if (first < 0 || last < first || last > 1023)
		return false;
	ret->first = (unsigned)first;
	ret->count = (unsigned)(last - first) + 1;
	return true;
}

/** false where @s is neither registers, nor off or null, nor a number. */
static bool operand_parse(struct str s, struct operand *ret)
{
	*ret = (struct operand){ .name = s };
	int64_t number;
	if (str_is(s, "off") || str_is(s, "null") || meaning_number_of(s, &number))
		return true;
	struct str bare = str_ends(s, S(".l")) || str_ends(s, S(".h")) ? str_cut(s, s.n - 2) : s;
	if (bare.n > 1 && char_among(bare.p[0], "vsa") && register_numbers(str_from(bare, 1), ret)) {
		ret->bank = s.p[0];
		return true;
	}
	if (str_starts(s, S("ttmp")) && register_numbers(str_from(s, 4), ret)) {
		ret->bank = 'x';
		return true;
	}
	if (!s.n || !char_alpha(s.p[0]) || str_run(s, char_word) < s.n)
		return false;
	ret->bank = 'x';
	ret->count = str_among(s, STR_EQUALS, "exec|vcc|flat_scratch|xnack_mask").n ? 2 : 1;
	return true;
}

/** Length of @s up to a comma or, with @space, a space that no bracket holds. */
static size_t operand_length(struct str s, bool space)
{
	unsigned depth = 0;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (c == '[' || c == '(')
			depth++;
		else if ((c == ']' || c == ')') && depth)
			depth--;
		else if (!depth && (c == ',' || (space && c == ' ')))
			return i;
	}
	return s.n;
}

enum { OPERANDS = 12 };

/** Operands, and what stands behind the last of them. */
static size_t operands_split(struct str text, struct str ret[static OPERANDS], struct str *ret_modifiers)
{
	size_t n = 0;
	*ret_modifiers = S("");
	while (text.n && n < OPERANDS) {
		size_t comma = operand_length(text, false);
		struct str one = str_trim(str_cut(text, comma));
		bool last = comma == text.n;
		if (last) {
			size_t space = operand_length(one, true);
			*ret_modifiers = str_trim(str_from(one, space));
			one = str_cut(one, space);
			// offset:4 gds, without any operand.
			if (memchr(one.p, ':', one.n) && !memchr(one.p, '[', one.n)) {
				*ret_modifiers = str_trim(text);
				return n;
			}
		}
		ret[n++] = one;
		text = last ? S("") : str_trim(str_from(text, comma + 1));
	}
	return n;
}

/** Value of a modifier such as offset:16; false where it is not there or is no number. */
static bool modifier_number(struct str modifiers, struct str name, int64_t *ret)
{
	for (struct str one = str_word(&modifiers); one.n; one = str_word(&modifiers))
		if (str_starts(one, name))
			return meaning_number_of(str_from(one, name.n), ret);
	return false;
}

static bool modifier_has(struct str modifiers, const char *name)
{
	for (struct str one = str_word(&modifiers); one.n; one = str_word(&modifiers))
		if (str_is(one, name))
			return true;
	return false;
}

static unsigned meaning_bytes_of(const struct know *k, const struct know_instruction *what, struct str mnemonic)
{
	const struct know_names *table = list_find_of(k->names.data, k->names.len, it, str_is(it->head.id, "access-bytes"));
	while (table && mnemonic.n) {
		struct str part = str_split(&mnemonic, '_');
		for (const struct know_pair *p = table->names; p; p = p->next) {
			struct str words = p->value;
			int64_t bytes;
			for (struct str w = str_word(&words); w.n; w = str_word(&words))
				if (str_eq(w, part) && str_number(p->name, &bytes) && bytes > 0 && bytes <= 1024)
					return (unsigned)bytes;
		}
	}
	return (unsigned)what->bytes;
}

/** Puts an operand where its role says; false where it cannot be in that role. */
static bool operand_place(struct meaning *m, enum know_operand role, struct str text)
{
	struct operand o;
	int64_t number;
	if (role == OPERAND_SKIP)
		return true;
	// An image's addresses may be a list of registers.
	if (role == OPERAND_ADDRESS && m->what->space == SPACE_IMAGE && str_starts(text, S("["))) {
		m->address.name = text;
		return true;
	}
	if (!operand_parse(text, &o))
		return false;
	switch (role) {
	case OPERAND_RESULT:
		m->result = o;
		return o.bank;
	case OPERAND_DATA:
		*(m->data.name.n ? &m->data2 : &m->data) = o;
		return o.bank || str_is(text, "null");
	case OPERAND_ADDRESS:
		m->address = o;
		return m->what->form == FORM_SCALAR ? o.bank == 's' || o.bank == 'x' || str_is(text, "null") :
						      o.bank == 'v' || str_is(text, "off");
	case OPERAND_BASE:
		m->base = o;
		return o.bank == 's' || o.bank == 'x' || str_is(text, "off") || str_is(text, "null");
	default:
		if (meaning_number_of(text, &number))
			m->immediate = (int64_t)((uint64_t)m->immediate + (uint64_t)number);
		else if (!str_is(text, "null"))
			m->offset = o;
		return o.bank != 'v' && o.bank != 'a';
	}
}

/** Operands that may be missing are missing from the left. */
static bool operands_place(struct meaning *m, const struct str *texts, size_t n)
{
	const struct know_instruction *what = m->what;
	size_t missing = what->noperands > n ? what->noperands - n : 0, at = 0;
	for (size_t i = 0; i < what->noperands; i++) {
		if (missing && what->optional[i]) {
			missing--;
			continue;
		}
		if (at >= n || !operand_place(m, what->operands[i], texts[at++]))
			return false;
	}
	return true;
}

/** What an access says besides its operands; false where they do not fit together. */
static bool access_finish(const struct know *k, struct meaning *m)
{
	int64_t offset = 0;
	m->bytes = meaning_bytes_of(k, m->what, m->mnemonic);
	if (modifier_number(m->modifiers, S("offset:"), &offset))
		m->immediate = (int64_t)((uint64_t)m->immediate + (uint64_t)offset);
	if (m->what->pair) {
		int64_t unit = (int64_t)m->bytes * m->what->pair, second = 0;
		if (modifier_number(m->modifiers, S("offset0:"), &offset))
			m->immediate = (offset & 0xff) * unit;
		if (modifier_number(m->modifiers, S("offset1:"), &second))
			m->immediate2 = (second & 0xff) * unit;
	}
	m->offen = modifier_has(m->modifiers, "offen");
	m->idxen = modifier_has(m->modifiers, "idxen");
	m->gds = modifier_has(m->modifiers, "gds");
	m->scaled = modifier_has(m->modifiers, "scale_offset");
	m->checked = m->what->space == SPACE_BUFFER;
	const bool returns = modifier_has(m->modifiers, "glc") || modifier_has(m->modifiers, "sc0") ||
			     str_find(m->modifiers, S("_RETURN")) >= 0;
	if (m->what->act == ACT_ATOMIC && !m->result.bank && m->what->space != SPACE_LDS && returns)
		m->result = m->data;
	// Whether its address has the registers that its form wants; of a text that was cut off it has not.
	if (m->offset.count > 1)
		return false;
	switch (m->what->form) {
	case FORM_VECTOR:
		return m->base.bank ? m->base.count == 2 && m->address.count == 1 : m->address.count == 2;
	case FORM_LANE:
		return !m->base.bank || m->base.count == 2;
	case FORM_OFFSET:
		return m->address.count <= 1 && m->base.count <= 1;
	case FORM_SCALAR:
		return !m->address.bank || m->address.count == 2;
	case FORM_DESCRIPTOR:
		return m->base.count == 4 && m->address.count >= (unsigned)m->offen + m->idxen;
	default:
		return true;
	}
}

bool meaning_of(const struct know *k, struct str text, struct meaning *ret)
{
	*ret = (struct meaning){ 0 };
	text = str_trim(text);
	ret->mnemonic = str_word(&text);
	ret->what = ret->mnemonic.n ? know_instruction(k, ret->mnemonic) : NULL;
	if (!ret->what)
		return false;
	ret->operands = str_trim(text);
	struct str texts[OPERANDS];
	size_t n = operands_split(ret->operands, texts, &ret->modifiers);
	ret->understood = operands_place(ret, texts, n);
	if (!ret->what->noperands && n && (ret->what->act == ACT_COMPUTE) && !operand_parse(texts[0], &ret->data))
		ret->data = (struct operand){ 0 };
	if (meaning_accesses(ret))
		ret->understood &= access_finish(k, ret);
	return true;
}

// --- in words ---

struct meaning_saying {
	const struct know *know;
	const struct meaning *m;
	struct arena *arena;
};

static void meaning_add_register(struct text *t, const struct operand *o)
{
	if (o->bank)
		text_printf(t, "%s" STR_FMT, t->n ? "+" : "", STR_ARG(o->name));
}

static struct str address_text(struct arena *a, const struct meaning *m, int64_t immediate)
{
	_cleanup_text_ struct text t = { 0 };
	meaning_add_register(&t, &m->base);
	meaning_add_register(&t, &m->address);
	meaning_add_register(&t, &m->offset);
	if (!t.n && m->address.name.n)
		text_add(&t, S("0"));
	if (immediate && t.n)
		text_printf(&t, "%+" PRId64, immediate);
	return arena_str(a, text_str(&t));
}

/** What a counter is waited down to; false where this instruction does not wait for it. */
static bool counter_value(const struct meaning *m, const struct know_pair *counter, int64_t *ret)
{
	struct str texts[OPERANDS], modifiers, rest = m->operands;
	for (struct str one = str_word(&rest); one.n; one = str_word(&rest)) {
		if (!str_starts(one, counter->name) || one.n <= counter->name.n + 1 || one.p[counter->name.n] != '(')
			continue;
		one = str_from(one, counter->name.n + 1);
		return str_number(str_split(&one, ')'), ret);
	}
	// One number for one counter, or for two of six bits.
	const struct know_pair *first = m->what->counters;
	size_t n = operands_split(m->operands, texts, &modifiers);
	if (!n || !meaning_number_of(texts[n - 1], ret) || (first->next && first->next->next))
		return false;
	if (first->next)
		*ret = *ret >> (counter == first ? 8 : 0) & 0x3f;
	return true;
}

bool meaning_waits(struct arena *a, const struct meaning *m, struct str *ret_for)
{
	if (!m->what || !(m->what->waits_for.n || m->what->counters))
		return false;
	_cleanup_text_ struct text t = { 0 };
	int64_t value;
	for (const struct know_pair *c = m->what->counters; c; c = c->next)
		if (counter_value(m, c, &value))
			text_printf(&t, "%s" STR_FMT " (" STR_FMT " %" PRId64 ")", t.n ? "; " : "", STR_ARG(c->value),
				    STR_ARG(c->name), value);
	*ret_for = t.n ? arena_str(a, text_str(&t)) : m->what->waits_for.n ? m->what->waits_for : m->what->title;
	return true;
}

static bool through_memory(const struct know_instruction *i)
{
	return i->space != SPACE_NONE && i->space != SPACE_LDS && i->act <= ACT_PREFETCH;
}

/** Whether a counter counts accesses that go through the memory path: that of LDS alone does not. */
static bool counts_memory(const struct know *k, struct str counter)
{
	for (size_t i = 0; i < k->instructions.len; i++) {
		const struct know_instruction *it = k->instructions.data[i];
		for (const struct know_list *c = through_memory(it) ? it->counted : NULL; c; c = c->next)
			if (str_eq(c->text, counter))
				return true;
	}
	return false;
}

bool meaning_waits_memory(const struct know *k, const struct meaning *m)
{
	int64_t value;
	for (const struct know_pair *c = m->what ? m->what->counters : NULL; c; c = c->next)
		if (counts_memory(k, c->name) && counter_value(m, c, &value))
			return true;
	return m->what && through_memory(m->what);
}

bool meaning_waits_down(const struct meaning *m, const struct know_list *counters)
{
	int64_t value;
	for (const struct know_pair *c = m->what->counters; c; c = c->next)
		for (const struct know_list *l = counters; l; l = l->next)
			if (str_eq(c->name, l->text) && counter_value(m, c, &value) && !value)
				return true;
	return false;
}

/** What a sentence of the table may name: the operands of the instruction, and what follows from them. */
static bool meaning_saying_fact(const void *ctx, struct str name, size_t index, struct str *ret)
{
	const struct meaning_saying *s = ctx;
	const struct meaning *m = s->m;
	int64_t number;
	if (index)
		return false;
	if (str_is(name, "amount")) {
		*ret = arena_printf(s->arena, "%u byte%s", m->bytes, m->bytes == 1 ? "" : "s");
		return m->bytes;
	}
	if (str_is(name, "address") || str_is(name, "second")) {
		bool second = str_is(name, "second");
		*ret = address_text(s->arena, m, second ? m->immediate2 : m->immediate);
		return ret->n && m->understood && (!second || m->what->pair);
	}
	const struct operand *o = str_is(name, "data")   ? &m->data :
				  str_is(name, "data2")  ? &m->data2 :
				  str_is(name, "base")   ? &m->base :
				  str_is(name, "result") ? &m->result :
							   NULL;
	if (o) {
		*ret = o->name;
		return o->bank && m->understood;
	}
	if (str_is(name, "for"))
		return meaning_waits(s->arena, m, ret);
	*ret = m->operands;
	if (str_is(name, "value"))
		return ret->n;
	if (!str_is(name, "trap") || !meaning_number_of(m->operands, &number))
		return false;
	*ret = know_name(s->know, S("trap-ids"), number);
	return ret->n;
}

struct str meaning_say(struct arena *a, const struct know *k, const struct meaning *m)
{
	if (!m->what)
		return S("");
	const struct meaning_saying s = { k, m, a };
	const struct fact_view view = { meaning_saying_fact, &s };
	_cleanup_text_ struct text t = { 0 };
	phrase_fill(&t, m->what->say, &view);
	return arena_str(a, text_str(&t));
}
