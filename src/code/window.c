// The instructions around a pc: which access may have caused a late fault, and what a wave that stands still waits for.
#include "code/meaning.h"

#include <stdlib.h>

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

/** gfx11 issues two instructions as one: `v_dual_mov_b32 v1, v2 :: v_dual_add_f32 v4, v4, v5`. */
static void written_by_second(struct written *w, const struct know *k, struct str text)
{
	struct meaning m;
	ptrdiff_t colons = str_find(text, S(" :: "));
	if (colons >= 0 && meaning_of(k, str_from(text, (size_t)colons + 4), &m))
		written_by(w, &m);
}

/** Control may come from elsewhere, or an instruction is not known. */
static bool ends_search(const struct meaning *m) { return !m->what || m->what->act == ACT_BRANCH || m->what->act == ACT_END; }

/** What was passed between an access and the pc. */
struct passed {
	struct written written;
	VEC(struct meaning) waits;
};

static bool was_waited(const struct passed *p, const struct meaning *access)
{
	for (size_t i = 0; i < p->waits.len; i++)
		if (meaning_waits_down(&p->waits.data[i], access->what->counted))
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
	struct passed p = { 0 };
	size_t found = 0;
	for (size_t i = n; i-- && found < MEANING_CANDIDATES;) {
		struct meaning m;
		meaning_of(k, before[i].text, &m);
		if (ends_search(&m))
			break;
		struct meaning_candidate c = { .index = i, .meaning = m, .exec_changed = written_has(&p.written, 0, &exec) };
		c.clobbered = writes_address(&p.written, 0, &m);
		c.waited = was_waited(&p, &m);
		size_t before_own = p.written.registers.len;
		written_by(&p.written, &m);
		c.overwritten = before_own < p.written.registers.len && writes_address(&p.written, before_own, &m);
		written_by_second(&p.written, k, before[i].text);
		if (m.what->counters)
			vec_push(&p.waits, m);
		if (meaning_accesses(&m) && spaces >> m.what->space & 1)
			ret[found++] = c;
	}
	vec_free(&p.written.registers);
	vec_free(&p.waits);
	return found;
}

// --- standing still ---

enum { LOOP = 256 }; // a loop that waits is no longer than this

/** Where a branch goes: its operand counts dwords from the next instruction on. */
static bool branch_target(const struct meaning *m, uint64_t address, uint64_t *ret)
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
		if (!branch_target(&m, code[end].address, &target) || target > code[at].address)
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
