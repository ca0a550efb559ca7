// Registers of a live GPU: which there are, which copies of them, and how they are read: adjacent ones with one operation.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "gpu/silicon/target.h"

enum {
	RENDER_RUN = 128, // words that one query answers
	DEBUGFS_RUN = 1024,
	REGS_SPACE = 1 << 22, // bytes that a position of amdgpu_regs can name
	QUERY_REGISTERS = 0x15,
	INSTANCES_ALWAYS = 32, // units other than CUs have instances too
};

/** What the render node's query reads (soc15, nv, soc21 and soc24 in the driver). */
static const char *const render_list[] = {
	"GRBM_STATUS",      "GRBM_STATUS2",         "GRBM_STATUS_SE0",
	"GRBM_STATUS_SE1",  "GRBM_STATUS_SE2",      "GRBM_STATUS_SE3",
	"SDMA0_STATUS_REG", "SDMA1_STATUS_REG",     "CP_STAT",
	"CP_STALLED_STAT1", "CP_STALLED_STAT2",     "CP_STALLED_STAT3",
	"CP_CPF_BUSY_STAT", "CP_CPF_STALLED_STAT1", "CP_CPF_STATUS",
	"CP_CPC_BUSY_STAT", "CP_CPC_STALLED_STAT1", "CP_CPC_STATUS",
	"GB_ADDR_CONFIG",
};

// --- positions ---

static bool in_grbm(const struct bank *b) { return b->se >= 0 || b->sh >= 0 || b->instance >= 0; }
static bool in_srbm(const struct bank *b) { return b->me >= 0; }
static bool banked(const struct bank *b) { return in_grbm(b) || in_srbm(b); }

static uint64_t bank_number(int n) { return n < 0 ? 0 : (uint64_t)n & 0x3ff; }
static uint64_t bank_selected(int n) { return n < 0 ? DEBUGFS_BROADCAST : bank_number(n); }

uint64_t debugfs_register_position(uint32_t address, const struct bank *b)
{
	uint64_t at = address & (REGS_SPACE - 1);
	if (in_grbm(b))
		return at | bank_selected(b->se) << 24 | bank_selected(b->sh) << 34 | bank_selected(b->instance) << 44 |
		       1ull << 62;
	if (in_srbm(b))
		return at | bank_number(b->me) << 24 | bank_number(b->pipe) << 34 | bank_number(b->queue) << 44 |
		       (bank_number(b->vmid) & 0x1f) << 54 | 1ull << 61;
	return at;
}

static struct regs2_state regs2_state_of(const struct bank *b)
{
	return (struct regs2_state){ .use_srbm = in_srbm(b),
				     .use_grbm = in_grbm(b),
				     .se = (uint32_t)b->se, // -1 is all of them
				     .sh = (uint32_t)b->sh,
				     .instance = (uint32_t)b->instance,
				     .me = (uint32_t)bank_number(b->me),
				     .pipe = (uint32_t)bank_number(b->pipe),
				     .queue = (uint32_t)bank_number(b->queue),
				     .vmid = (uint32_t)bank_number(b->vmid),
				     .xcc = (uint32_t)bank_number(b->xcc) };
}

// --- names ---

/** Where a register of a block is: in its space, in bytes. */
static bool address_of(const struct ip *ip, const struct reg *r, uint32_t *ret)
{
	const bool based = r->kind != REGISTER_DIDT && r->base != REGISTER_ABSOLUTE;
	if (r->kind == REGISTER_INDEX || (based && (!ip || r->base >= ip->nbases)))
		return false;
	const uint32_t base = based ? ip->bases[r->base] : 0;
	if (base > UINT32_MAX / 4 || r->offset > UINT32_MAX / 4 - base)
		return false;
	*ret = (base + r->offset) * 4;
	return true;
}

struct found_registers {
	struct device_register *list;
	size_t n, most;
};

/** Whether it is a register of an engine that this GPU lacks: a table has those of all engines that its version may have. GPUs tell of the
 * first four; of others nothing is known. */
static bool of_absent_engine(const struct device *d, const struct reg *r)
{
	struct str rest = r->name, engine = str_split(&rest, '_');
	if (!register_table_from(r->table).n || engine.n != 5 || !str_starts(engine, S("SDMA")) || engine.p[4] < '0' ||
	    engine.p[4] > '3')
		return false;
	return !list_find(d->ips, d->nips, it, !it->harvested && str_like(engine, it->name));
}

static void silicon_registers_add_found(struct found_registers *f, const struct device *d, const struct ip *ip,
					const struct reg *r)
{
	struct device_register one = { .reg = *r, .ip = ip };
	if (!address_of(ip, r, &one.address) || of_absent_engine(d, r))
		return;
	if (f->n < f->most)
		f->list[f->n] = one;
	f->n++;
}

/** The block that a register's offset counts from: copy engines may have theirs in the table of another block. */
static const struct ip *silicon_registers_base_of(const struct device *d, const struct ip *ip, const struct register_table *t)
{
	struct str from = register_table_from(t);
	return !from.n || str_eq(from, ip->name) ? ip : device_ip(d, from, 0);
}

/** Of the table of another block those with the block's name are its. */
static void silicon_registers_find_in(struct found_registers *f, const struct device *d, const struct ip *block,
				      struct str name, bool by_block)
{
	struct reg r;
	const struct register_table *t =
		register_table_for(block->name, block->version[0], block->version[1], block->version[2], NULL);
	const struct ip *ip = t ? silicon_registers_base_of(d, block, t) : NULL;
	const bool pattern = str_is_pattern(name);
	char own[64] = "*";
	if (!ip || (ip != block && !by_block))
		return;
	if (ip != block)
		snprintf(own, sizeof(own), STR_FMT "_*", STR_ARG(block->name));
	for (size_t i = 0; i < (pattern ? registers_count(t) : 1); i++) {
		if (pattern)
			r = register_at(t, i);
		else if (!register_find(t, name, &r))
			return;
		if ((!pattern || str_like(name, r.name)) && str_like(str_z(own), r.name))
			silicon_registers_add_found(f, d, ip, &r);
	}
}

size_t device_registers(const struct device *d, struct str pattern, struct device_register *ret, size_t most)
{
	struct found_registers f = { ret, 0, most };
	struct str name = pattern, block = str_split(&name, '.');
	bool of_block = block.n != pattern.n;
	for (size_t i = 0; i < d->nips; i++) {
		const struct ip *ip = &d->ips[i];
		char numbered[64]; // `mmhub1` is the second instance of `mmhub`
		snprintf(numbered, sizeof(numbered), STR_FMT "%u", STR_ARG(ip->name), ip->instance);
		if (!ip->harvested && (!of_block || str_like(block, ip->name) || str_like(block, str_z(numbered))))
			silicon_registers_find_in(&f, d, ip, of_block ? name : pattern, of_block);
	}
	return f.n;
}

// --- what is wanted ---

bool bank_exists(const struct device *d, const struct wave_words *w, const struct bank *b)
{
	const struct shader_array *s = &d->shaders;
	unsigned xccs = s->xccs ? s->xccs : 1;
	unsigned units = w->wgp ? (s->cus_per_sh + 1) / 2 * 4 : s->cus_per_sh;
	unsigned instances = units > INSTANCES_ALWAYS ? units : INSTANCES_ALWAYS;
	if (b->xcc >= (int)xccs)
		return false;
	if (in_grbm(b) && (b->se >= (int)s->ses || b->sh >= (int)s->shs_per_se || b->instance >= (int)instances))
		return false;
	return b->me <= 3 && b->pipe <= 3 && b->queue <= 15 && b->vmid <= 15;
}

static bool way_possible(const struct silicon *t, const struct wanted *w)
{
	const struct request *r = w->request;
	bool bank = banked(&w->bank);
	if ((w->way == WAY_PCIE) != (r->reg->kind == REGISTER_BUS) || (w->way == WAY_DIDT) != (r->reg->kind == REGISTER_DIDT))
		return false;
	if (t->device->guest || t->broken[w->way] || (w->way != WAY_RENDER && (t->debugfs_dead || !t->device->debugfs.n)))
		return false;
	switch (w->way) {
	case WAY_RENDER:
		return t->render && !t->render_dead && !t->by_debugfs && !bank && w->bank.xcc <= 0 && !r->ip_instance &&
		       str_among(r->ip, STR_EQUALS, "gc|sdma0|sdma1").n &&
		       list_find(render_list, ARRAY_SIZE(render_list), it, str_is(r->reg->name, *it));
	case WAY_REGS:
		return w->address < REGS_SPACE && !(bank && w->bank.xcc > 0) && !(in_grbm(&w->bank) && in_srbm(&w->bank));
	case WAY_REGS2:
		return true;
	case WAY_REGS2_V1: // it loses the VMID
		return bank && w->bank.xcc <= 0 && w->bank.vmid <= 0;
	case WAY_PCIE:
	case WAY_DIDT: // neither knows banks
		return !bank && w->bank.xcc <= 0;
	default:
		return false;
	}
}

static void next_way(const struct silicon *t, struct wanted *w)
{
	while (w->way < WAYS && !way_possible(t, w))
		w->way++;
}

void registers_choose(const struct silicon *t, struct wanted_list *w)
{
	for (size_t i = 0; i < w->n; i++) {
		w->data[i].way = WAY_RENDER;
		next_way(t, &w->data[i]);
	}
}

static bool register_wanted(struct silicon *t, struct request *r, struct wanted *ret)
{
	const struct device *d = t->device;
	bool gc = str_is(r->ip, "gc");
	*ret = (struct wanted){ .request = r, .bank = r->bank };
	if (gc && ret->bank.xcc < 0 && r->ip_instance)
		ret->bank.xcc = (int)r->ip_instance;
	r->answer = ANSWER_ABSENT;
	if (!r->reg || (!r->reg->table && r->reg->base != REGISTER_ABSOLUTE) || !bank_exists(d, &t->words, &ret->bank))
		return false;
	const struct ip *ip = device_ip(d, r->ip, gc && ret->bank.xcc > 0 ? (unsigned)ret->bank.xcc : r->ip_instance);
	ip = ip && r->reg->table ? silicon_registers_base_of(d, ip, r->reg->table) : NULL;
	if (!address_of(ip, r->reg, &ret->address))
		return false;
	r->answer = ANSWER_REFUSED;
	next_way(t, ret);
	return true;
}

struct wanted_list registers_wanted(struct silicon *t, struct arena *a, struct request *requests, size_t n)
{
	struct wanted_list w = { arena_alloc(a, n * sizeof(*w.data) + 1), 0 };
	for (size_t i = 0; i < n; i++)
		if (requests[i].kind == REQUEST_REGISTER && register_wanted(t, &requests[i], &w.data[w.n]))
			w.n++;
	return w;
}

// --- reading ---

static bool silicon_registers_concerns(const struct wanted *w, bool render)
{
	return w->way < WAYS && (w->way == WAY_RENDER) == render;
}

bool registers_left(const struct wanted_list *w, bool render)
{
	return list_find(w->data, w->n, it, silicon_registers_concerns(it, render)) != NULL;
}

/** An unbanked read must not follow a banked one of the same open file. */
static int by_run(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;
	if (x->way != y->way)
		return x->way < y->way ? -1 : 1;
	if (banked(&x->bank) != banked(&y->bank))
		return banked(&x->bank) ? 1 : -1;
	int order = banked(&x->bank) ? memcmp(&x->bank, &y->bank, sizeof(x->bank)) : 0;
	return order ? order : x->address < y->address ? -1 : x->address > y->address;
}

static bool silicon_registers_same_bank(const struct wanted *x, const struct wanted *y)
{
	return x->way == y->way && banked(&x->bank) == banked(&y->bank) &&
	       (!banked(&x->bank) || !memcmp(&x->bank, &y->bank, sizeof(x->bank)));
}

struct probe registers_query(struct batch *b, uint32_t address, size_t words)
{
	struct amdgpu_query *q = arena_alloc(&b->arena, sizeof(*q));
	*q = (struct amdgpu_query){ .query = QUERY_REGISTERS, .words = { address / 4, (uint32_t)words, UINT32_MAX, 0 } };
	return (struct probe){
		.kind = PROBE_QUERY, .path = b->t->render, .argument = q, .argument_size = sizeof(*q), .size = 4 * words
	};
}

struct probe registers_file(struct batch *b, uint32_t address, size_t words)
{
	return (struct probe){
		.kind = PROBE_READ, .path = silicon_file(b->t, &b->arena, "amdgpu_regs"), .offset = address, .size = 4 * words
	};
}

/** Whether its bank is set in the open file, for the reads that follow too. */
static bool sets_bank(const struct wanted *w) { return w->way != WAY_RENDER && w->way != WAY_REGS && banked(&w->bank); }

struct probe registers_of_xcc(struct batch *b, uint32_t address, unsigned xcc)
{
	struct bank bank = BANK_NONE;
	struct regs2_state *state = arena_alloc(&b->arena, sizeof(*state));
	bank.xcc = (int)xcc;
	*state = regs2_state_of(&bank);
	return (struct probe){ .kind = PROBE_BANKED,
			       .path = silicon_file(b->t, &b->arena, "amdgpu_regs2"),
			       .offset = address,
			       .size = sizeof(uint32_t),
			       .request = REGS2_IOCTL_V2,
			       .argument = state,
			       .argument_size = sizeof(*state) };
}

/** The run that begins with @w; @set: the bank has been set by the probe before. */
static struct probe silicon_registers_probe_of(struct batch *b, const struct wanted *w, size_t words, bool set)
{
	if (w->way == WAY_RENDER)
		return registers_query(b, w->address, words);
	static const char *const files[] = { [WAY_REGS] = "amdgpu_regs",
					     [WAY_REGS2] = "amdgpu_regs2",
					     [WAY_REGS2_V1] = "amdgpu_regs2",
					     [WAY_PCIE] = "amdgpu_regs_pcie",
					     [WAY_DIDT] = "amdgpu_regs_didt" };
	struct probe p = { .kind = PROBE_READ, .path = silicon_file(b->t, &b->arena, files[w->way]), .size = 4 * words };
	p.offset = w->way == WAY_REGS ? debugfs_register_position(w->address, &w->bank) : w->address;
	if (!sets_bank(w) || set)
		return p;
	struct regs2_state *state = arena_alloc(&b->arena, sizeof(*state));
	*state = regs2_state_of(&w->bank);
	p.kind = PROBE_BANKED;
	p.argument = state;
	p.request = w->way == WAY_REGS2 ? REGS2_IOCTL_V2 : REGS2_IOCTL_V1;
	p.argument_size = w->way == WAY_REGS2 ? sizeof(*state) : offsetof(struct regs2_state, xcc);
	return p;
}

void registers_plan(struct batch *b, struct wanted_list *w, bool render)
{
	size_t most = render ? RENDER_RUN : DEBUGFS_RUN, lead = SIZE_MAX;
	qsort(w->data, w->n, sizeof(*w->data), by_run);
	for (size_t i = 0; i < w->n;) {
		struct wanted *first = &w->data[i];
		size_t words = 1, k = i + 1;
		if (!silicon_registers_concerns(first, render)) {
			i++;
			continue;
		}
		for (; k < w->n && silicon_registers_same_bank(first, &w->data[k]) && words < most; k++) {
			uint32_t from = w->data[k].address - first->address;
			if (from > 4 * words)
				break;
			words = from / 4 + 1;
		}
		bool set = i && lead != SIZE_MAX && sets_bank(first) && silicon_registers_same_bank(first, first - 1);
		size_t probe = batch_add(b, silicon_registers_probe_of(b, first, words, set));
		lead = set ? lead : probe;
		for (; i < k; i++) {
			w->data[i].probe = probe;
			w->data[i].lead = lead;
			w->data[i].word = (w->data[i].address - first->address) / 4;
		}
	}
}

const struct wanted *registers_planned(const struct wanted_list *w, uint32_t address)
{
	return list_find(w->data, w->n, it, silicon_registers_concerns(it, true) && it->address == address);
}

void registers_take(struct batch *b, struct wanted_list *w, bool render)
{
	for (size_t i = 0; i < w->n; i++) {
		struct wanted *one = &w->data[i];
		if (!silicon_registers_concerns(one, render))
			continue;
		const struct probe *p = &b->probes.data[one->probe], *lead = &b->probes.data[one->lead];
		if (lead->end == PROBE_GOOD && p->end == PROBE_GOOD && p->n >= 4 * (one->word + 1)) {
			one->request->value = get_u32(p->data + 4 * one->word);
			one->request->answer = ANSWER_GIVEN;
			one->way = WAYS;
			continue;
		}
		p = lead->end == PROBE_GOOD ? p : lead;
		one->request->answer = batch_answer(b, p);
		b->t->broken[one->way] |=
			p->end == PROBE_FAILED && (p->error == EPERM || p->error == EACCES || p->error == ENOENT ||
						   p->error == ENODEV || p->error == ENOTTY || p->error == EOPNOTSUPP);
		if (p->end != PROBE_FAILED && p->end != PROBE_GOOD) {
			one->way = WAYS;
			continue;
		}
		one->way++;
		next_way(b->t, one);
	}
}
