// The instructions around a pc: the address that an access uses, computed from the registers of its wave as the hardware does; which
// access may have caused a fault that is reported late; and what a wave that stands still waits for.
#include <stdlib.h>

#include "code/meaning.h"

// The address that an access uses, from the registers of its wave.

/** exec_hi is the upper half of exec. */
static bool window_read_named(const struct meaning_registers *r, struct str name, uint64_t *ret)
{
	bool low = str_ends(name, S("_lo")), high = str_ends(name, S("_hi"));
	if (!r->read_named || !r->read_named(r->ctx, low || high ? str_cut(name, name.n - 3) : name, ret))
		return false;
	if (low || high)
		*ret = high ? *ret >> 32 : *ret & UINT32_MAX;
	return true;
}

/** The @index-th 32 bits of an operand. */
static bool read_word(const struct meaning_registers *r, const struct operand *o, unsigned index, unsigned lane, uint32_t *ret)
{
	uint64_t value;
	if (index >= o->count)
		return false;
	if (o->bank != 'x')
		return r->read && r->read(r->ctx, o->bank, o->first + index, lane, ret);
	if (str_starts(o->name, S("ttmp"))) {
		unsigned number = o->first + index;
		char name[8] = "ttmp", *end = name + 4;
		if (number > 99)
			return false;
		if (number > 9)
			*end++ = (char)('0' + number / 10);
		*end++ = (char)('0' + number % 10);
		if (!window_read_named(r, (struct str){ name, (size_t)(end - name) }, &value))
			return false;
		*ret = (uint32_t)value;
		return true;
	}
	if (index > 1 || !window_read_named(r, o->name, &value))
		return false;
	*ret = (uint32_t)(value >> 32 * index);
	return true;
}

/** Up to 64 bits; an operand that is not there is 0. */
static bool window_read_value(const struct meaning_registers *r, const struct operand *o, unsigned lane, uint64_t *ret)
{
	uint32_t low, high = 0;
	*ret = 0;
	if (!o->bank)
		return true;
	if (!read_word(r, o, 0, lane, &low) || (o->count > 1 && !read_word(r, o, 1, lane, &high)))
		return false;
	*ret = (uint64_t)high << 32 | low;
	return true;
}

struct buffer_descriptor {
	uint64_t base;
	uint32_t stride, records;
};

/** false where a register is not known, or where the descriptor scatters the lanes (swizzle, lane numbers added). */
static bool descriptor_read(const struct meaning_registers *r, const struct operand *o, struct buffer_descriptor *ret)
{
	uint32_t words[4];
	for (unsigned i = 0; i < 4; i++)
		if (!read_word(r, o, i, 0, &words[i]))
			return false;
	*ret = (struct buffer_descriptor){ .base = (uint64_t)(words[1] & 0xffff) << 32 | words[0],
					   .stride = words[1] >> 16 & 0x3fff,
					   .records = words[2] };
	return !(words[1] >> 30) && !(words[3] >> 23 & 1);
}

/** The parts of an address that are the same for all lanes. */
struct common {
	uint64_t base, offset;
	struct buffer_descriptor buffer;
};

static bool common_read(const struct meaning *m, const struct meaning_registers *r, struct common *ret)
{
	*ret = (struct common){ 0 };
	if (m->what->form == FORM_DESCRIPTOR ? !descriptor_read(r, &m->base, &ret->buffer) :
					       !window_read_value(r, &m->base, 0, &ret->base))
		return false;
	return window_read_value(r, &m->offset, 0, &ret->offset);
}

static bool buffer_address(const struct meaning *m, const struct meaning_registers *r, const struct common *c, unsigned lane,
			   struct lane_address *ret)
{
	uint32_t index = 0, voffset = 0;
	if (m->idxen && !read_word(r, &m->address, 0, lane, &index))
		return false;
	if (m->offen && !read_word(r, &m->address, m->idxen, lane, &voffset))
		return false;
	uint64_t inside = (uint64_t)voffset + (uint64_t)m->immediate;
	ret->address = c->buffer.base + c->offset + inside + (uint64_t)index * c->buffer.stride;
	// With a stride, what the hardware compares depends on the generation and on more bits.
	ret->outside = !c->buffer.stride && inside >= c->buffer.records;
	return true;
}

/** The hardware ignores the bits below a dword (gfx12's small loads: below their size) of every part. */
static bool scalar_address(const struct meaning *m, const struct meaning_registers *r, const struct common *c,
			   struct lane_address *ret)
{
	unsigned align = m->what->act != ACT_LOAD || !m->bytes || m->bytes > 4 ? 4 : m->bytes;
	uint64_t address, mask = ~(uint64_t)(align - 1);
	if (m->what->form == FORM_DESCRIPTOR) {
		ret->address = (c->buffer.base & mask) + (c->offset & mask) + ((uint64_t)m->immediate & mask);
		ret->outside = !c->buffer.stride && c->offset + (uint64_t)m->immediate >= c->buffer.records;
		return true;
	}
	if (!window_read_value(r, &m->address, 0, &address))
		return false;
	ret->address = (address & mask) + (c->offset & mask) + ((uint64_t)m->immediate & mask);
	return true;
}

/** The address of one lane, as the form of the instruction adds it up. Whatever register is not known makes the lane unknown, never a
 * guess. */
static bool lane_access(const struct meaning *m, const struct meaning_registers *r, const struct common *c, unsigned lane,
			struct lane_address *ret)
{
	uint64_t address;
	switch (m->what->form) {
	case FORM_DESCRIPTOR:
		return buffer_address(m, r, c, lane, ret);
	case FORM_LANE:
		ret->address = c->base + (uint64_t)m->immediate + 4ull * lane;
		return true;
	case FORM_VECTOR:
	case FORM_OFFSET:
		if (!window_read_value(r, &m->address, lane, &address))
			return false;
		ret->address = c->base + address + (uint64_t)m->immediate;
		if (m->what->form == FORM_OFFSET)
			ret->address &= UINT32_MAX;
		return true;
	default:
		return false;
	}
}

size_t meaning_addresses(const struct meaning *m, const struct meaning_registers *r, uint64_t exec, unsigned lanes,
			 struct lane_address ret[static MEANING_LANES])
{
	struct common c;
	if (!meaning_accesses(m) || !m->understood || m->scaled || m->what->form == FORM_UNKNOWN || !common_read(m, r, &c))
		return 0;
	// Scalar accesses of a buffer have no operand for VGPRs.
	if (m->what->form == FORM_SCALAR || (m->what->form == FORM_DESCRIPTOR && str_starts(m->mnemonic, S("s_")))) {
		ret[0] = (struct lane_address){ 0 };
		return scalar_address(m, r, &c, &ret[0]);
	}
	size_t n = 0;
	for (unsigned lane = 0; lane < lanes && lane < MEANING_LANES; lane++) {
		struct lane_address one = { .lane = lane };
		if (exec >> lane & 1 && lane_access(m, r, &c, lane, &one))
			ret[n++] = one;
	}
	return n;
}

enum know_space meaning_space(const struct meaning *m, const struct meaning_registers *r, uint64_t address)
{
	if (!m->what || m->what->space != SPACE_FLAT)
		return !m->what ? SPACE_NONE : m->gds && m->what->space == SPACE_LDS ? SPACE_GDS : m->what->space;
	if (r->lds_base && address >> 32 == r->lds_base >> 32)
		return SPACE_LDS;
	if (r->scratch_base && address >> 32 == r->scratch_base >> 32)
		return SPACE_SCRATCH;
	return SPACE_GLOBAL;
}

// --- which access may have faulted ---

/** vcc, vcc_lo and vcc_hi are parts of one register. */
static struct str whole_name(struct str name)
{
	return str_ends(name, S("_lo")) || str_ends(name, S("_hi")) ? str_cut(name, name.n - 3) : name;
}

static bool overlaps(const struct operand *a, const struct operand *b)
{
	if (!a->bank || a->bank != b->bank)
		return false;
	bool named = a->bank == 'x' && !(str_starts(a->name, S("ttmp")) && str_starts(b->name, S("ttmp")));
	if (named)
		return str_eq(whole_name(a->name), whole_name(b->name));
	return a->first < b->first + b->count && b->first < a->first + a->count;
}

/** What was written between an access and the pc. */
struct written {
	VEC(struct operand) registers;
	bool all;
};

static void written_add(struct written *w, const struct operand *o)
{
	if (o->bank)
		vec_push(&w->registers, *o);
}

static void written_by(struct written *w, const struct meaning *m)
{
	if (!m->what)
		w->all = true;
	written_add(w, &m->result);
	if (m->what && (m->what->act == ACT_LOAD || m->what->act == ACT_COMPUTE)) {
		written_add(w, &m->data);
		written_add(w, &m->data2);
	}
	for (const struct know_list *l = m->what ? m->what->writes : NULL; l; l = l->next) {
		const struct operand named = { .bank = 'x', .count = 2, .name = l->text };
		w->all |= str_is(l->text, "all");
		written_add(w, &named);
	}
	// An instruction whose operands are not where they should be may write anything.
	w->all |= m->what && m->what->noperands && !m->understood;
}

/** Whether @o was written. The first @from writes do not count. */
static bool written_has(const struct written *w, size_t from, const struct operand *o)
{
	if (w->all && !from && o->bank)
		return true;
	for (size_t i = from; i < w->registers.len; i++)
		if (overlaps(&w->registers.data[i], o))
			return true;
	return false;
}

static bool writes_address(const struct written *w, size_t from, const struct meaning *m)
{
	return written_has(w, from, &m->address) || written_has(w, from, &m->base) || written_has(w, from, &m->offset);
}

size_t meaning_candidates(const struct know *k, const struct instruction *before, size_t n, unsigned spaces,
			  struct meaning_candidate ret[static MEANING_CANDIDATES])
{
	const struct operand exec = { .bank = 'x', .count = 2, .name = S("exec") };
	// What was written, and what was waited for, between the access and the pc.
	struct written written = { 0 };
	_cleanup_vec_ VEC(struct meaning) waits = { 0 };
	size_t found = 0;
	for (size_t i = n; i-- && found < MEANING_CANDIDATES;) {
		struct meaning m;
		meaning_of(k, before[i].text, &m);
		// Control may come from elsewhere, or an instruction is not known.
		if (!m.what || m.what->act == ACT_BRANCH || m.what->act == ACT_END)
			break;
		struct meaning_candidate c = { .index = i, .meaning = m, .exec_changed = written_has(&written, 0, &exec) };
		c.clobbered = writes_address(&written, 0, &m);
		c.waited = list_find(waits.data, waits.len, it, meaning_waits_down(it, m.what->counted));
		size_t before_own = written.registers.len;
		written_by(&written, &m);
		c.overwritten = before_own < written.registers.len && writes_address(&written, before_own, &m);
		// gfx11 issues two instructions as one: `v_dual_mov_b32 v1, v2 :: v_dual_add_f32 v4, v4, v5`.
		struct meaning second;
		const struct str text = before[i].text;
		ptrdiff_t colons = str_find(text, S(" :: "));
		if (colons >= 0 && meaning_of(k, str_from(text, (size_t)colons + 4), &second))
			written_by(&written, &second);
		if (m.what->counters)
			vec_push(&waits, m);
		if (meaning_accesses(&m) && spaces >> m.what->space & 1)
			ret[found++] = c;
	}
	vec_free(&written.registers);
	return found;
}

// --- standing still ---

enum { LOOP = 256 }; // a loop that waits is no longer than this

/** Where a branch goes: its operand counts dwords from the next instruction on. */
static bool window_branch_target(const struct meaning *m, uint64_t address, uint64_t *ret)
{
	int64_t words;
	if (m->what->act != ACT_BRANCH || !str_number(m->operands, &words))
		return false;
	*ret = address + 4 + (uint64_t)((int64_t)(int16_t)words * 4);
	return true;
}

/** The smallest loop around @at: the instructions from *ret_begin to the branch back at *ret_end. */
static bool loop_around(const struct know *k, const struct instruction *code, size_t n, size_t at, size_t *ret_begin,
			size_t *ret_end)
{
	for (size_t end = at; end < n && end - at < LOOP; end++) {
		struct meaning m;
		uint64_t target;
		if (!meaning_of(k, code[end].text, &m) || m.what->act == ACT_END)
			return false;
		if (!window_branch_target(&m, code[end].address, &target) || target > code[at].address)
			continue;
		size_t begin = at;
		while (begin && code[begin - 1].address >= target && end - begin < LOOP)
			begin--;
		*ret_begin = begin;
		*ret_end = end;
		return true;
	}
	return false;
}

static bool is_load(const struct meaning *m)
{
	return meaning_accesses(m) && m->understood && (m->what->act == ACT_LOAD || m->what->act == ACT_ATOMIC) &&
	       m->what->space != SPACE_SCRATCH;
}

/** The first of the loop's instructions that @is such; @end + 1 where none is. */
static size_t find_in_loop(const struct know *k, const struct instruction *code, size_t begin, size_t end,
			   bool (*is)(const struct meaning *m))
{
	for (size_t i = begin; i <= end; i++) {
		struct meaning m;
		if (meaning_of(k, code[i].text, &m) && is(&m))
			return i;
	}
	return end + 1;
}

static bool is_sleep(const struct meaning *m) { return m->what->act == ACT_SLEEP; }

/** The instruction at which a wave at @at stands still; the pc may already be behind a barrier. */
static bool find_wait(struct arena *a, const struct know *k, const struct instruction *code, size_t at,
		      struct meaning_parked *p)
{
	p->index = at;
	if (meaning_of(k, code[at].text, &p->meaning) && meaning_waits(a, &p->meaning, &p->waits_for))
		return true;
	if (!at || !meaning_of(k, code[at - 1].text, &p->meaning) ||
	    (p->meaning.what->act != ACT_BARRIER && p->meaning.what->act != ACT_SLEEP))
		return false;
	p->index = at - 1;
	return meaning_waits(a, &p->meaning, &p->waits_for);
}

bool meaning_parked(struct arena *a, const struct know *k, const struct instruction *code, size_t n, size_t at,
		    struct meaning_parked *ret)
{
	struct meaning_parked p = { 0 };
	size_t begin, end;
	if (at >= n)
		return false;
	bool waits = find_wait(a, k, code, at, &p);
	p.waits_here = waits ? p.waits_for : (struct str){ 0 };
	p.loops = loop_around(k, code, n, waits ? p.index : at, &begin, &end);
	size_t load = p.loops ? find_in_loop(k, code, begin, end, is_load) : 0;
	p.polls = p.loops && load <= end;
	p.polled = p.polls ? load : 0;
	// Wherever in such a loop it was seen, it waits for what it loads.
	size_t sleep = p.polls ? find_in_loop(k, code, begin, end, is_sleep) : 0;
	if (p.polls && sleep <= end) {
		p.index = sleep;
		meaning_of(k, code[sleep].text, &p.meaning);
		p.waits_for = S("another wave or the host to change a value in memory (it sleeps in a polling loop)");
		waits = true;
	}
	*ret = p;
	return waits;
}
