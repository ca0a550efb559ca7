// The address that an access uses, from the registers of its wave.
#include "code/meaning.h"

/** exec_hi is the upper half of exec. */
static bool read_named(const struct meaning_registers *r, struct str name, uint64_t *ret)
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
		if (!read_named(r, (struct str){ name, (size_t)(end - name) }, &value))
			return false;
		*ret = (uint32_t)value;
		return true;
	}
	if (index > 1 || !read_named(r, o->name, &value))
		return false;
	*ret = (uint32_t)(value >> 32 * index);
	return true;
}

/** Up to 64 bits; an operand that is not there is 0. */
static bool read_value(const struct meaning_registers *r, const struct operand *o, unsigned lane, uint64_t *ret)
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
					       !read_value(r, &m->base, 0, &ret->base))
		return false;
	return read_value(r, &m->offset, 0, &ret->offset);
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
	if (!read_value(r, &m->address, 0, &address))
		return false;
	ret->address = (address & mask) + (c->offset & mask) + ((uint64_t)m->immediate & mask);
	return true;
}

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
		if (!read_value(r, &m->address, lane, &address))
			return false;
		ret->address = c->base + address + (uint64_t)m->immediate;
		if (m->what->form == FORM_OFFSET)
			ret->address &= UINT32_MAX;
		return true;
	default:
		return false;
	}
}

/** Scalar accesses of a buffer have no operand for VGPRs. */
static bool is_scalar(const struct meaning *m)
{
	if (m->what->form == FORM_SCALAR)
		return true;
	return m->what->form == FORM_DESCRIPTOR && str_starts(m->mnemonic, S("s_"));
}

size_t meaning_addresses(const struct meaning *m, const struct meaning_registers *r, uint64_t exec, unsigned lanes,
			 struct lane_address ret[static MEANING_LANES])
{
	struct common c;
	if (!meaning_accesses(m) || !m->understood || m->scaled || m->what->form == FORM_UNKNOWN || !common_read(m, r, &c))
		return 0;
	if (is_scalar(m)) {
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
