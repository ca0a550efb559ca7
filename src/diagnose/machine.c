#include "diagnose/machine.h"

#include <stdlib.h>

enum { VALUE_MAX = 256 };

/** Values that change leave their old text behind; now and then what is in use moves to fresh memory. */
static void compact(struct machine *m)
{
	struct arena fresh = { 0 };
	for (size_t i = 0; i < m->facts.len; i++) {
		struct machine_fact *f = &m->facts.data[i];
		f->fact.name = arena_str(&fresh, f->fact.name);
		f->fact.value = arena_str(&fresh, f->fact.value);
		f->device = arena_str(&fresh, f->device);
	}
	for (size_t i = 0; i < m->ngpus; i++) {
		m->gpus[i].device = arena_str(&fresh, m->gpus[i].device);
		m->gpus[i].gfx = arena_str(&fresh, m->gpus[i].gfx);
		m->gpus[i].name = arena_str(&fresh, m->gpus[i].name);
	}
	m->told_gfx = arena_str(&fresh, m->told_gfx);
	arena_free(&m->arena);
	m->arena = fresh;
}

/** A fact of which each value counts. */
static void diagnose_machine_add(struct machine *m, struct fact new)
{
	for (size_t i = 0; i < m->facts.len; i++)
		if (str_eq(m->facts.data[i].fact.name, new.name) && str_eq(m->facts.data[i].fact.value, new.value))
			return;
	if (m->facts.len >= MACHINE_FACTS)
		return;
	new.name = arena_str(&m->arena, new.name);
	new.value = arena_str(&m->arena, str_cut(new.value, VALUE_MAX));
	struct machine_fact fact = { new, { 0 }, true };
	vec_push(&m->facts, fact);
}

static void set(struct machine *m, struct str device, struct fact new)
{
	new.value = str_cut(new.value, VALUE_MAX);
	for (size_t i = 0; i < m->facts.len; i++) {
		struct fact *f = &m->facts.data[i].fact;
		if (!str_eq(f->name, new.name) || !str_eq(m->facts.data[i].device, device))
			continue;
		if (!str_eq(f->value, new.value)) {
			f->value = arena_str(&m->arena, new.value);
			f->type = new.type;
			f->at = new.at;
		}
		if (m->arena.total > MACHINE_BYTES)
			compact(m);
		return;
	}
	if (m->facts.len >= MACHINE_FACTS)
		return;
	struct machine_fact fact = { new, arena_str(&m->arena, device), false };
	fact.fact.name = arena_str(&m->arena, new.name);
	fact.fact.value = arena_str(&m->arena, new.value);
	vec_push(&m->facts, fact);
}

/** `amdgpu.cwsr_enable=0 iommu=pt` becomes param.amdgpu.cwsr_enable and param.iommu. */
static void note_parameters(struct machine *m, struct str line, struct place at)
{
	for (struct str word = str_word(&line); word.n; word = str_word(&line)) {
		struct str value = word, name = str_split(&value, '=');
		bool ours = str_starts(name, S("amdgpu.")) || str_starts(name, S("pcie_")) || str_is(name, "iommu") ||
			    str_is(name, "amd_iommu") || str_starts(name, S("ttm.")) || str_starts(name, S("drm."));
		if (!ours || name.n > 60)
			continue;
		_cleanup_text_ struct text full = { 0 };
		text_printf(&full, "param." STR_FMT, STR_ARG(name));
		set(m, S(""), (struct fact){ text_str(&full), value.n ? value : S("1"), FACT_TEXT, at });
	}
}

static struct machine_gpu *find_or_add(struct machine *m, struct str device, struct place at)
{
	for (size_t i = 0; i < m->ngpus; i++)
		if (str_eq(m->gpus[i].device, device))
			return &m->gpus[i];
	if (!device.n || m->ngpus == MACHINE_GPUS)
		return NULL;
	struct machine_gpu *g = &m->gpus[m->ngpus++];
	*g = (struct machine_gpu){ .device = arena_str(&m->arena, device), .at = at };
	return g;
}

struct machine_gpu *machine_gpu(struct machine *m, struct str device, struct place at)
{
	struct machine_gpu *g = find_or_add(m, device, at);
	if (g && !g->part && m->unnamed) {
		g->part = m->unnamed;
		m->unnamed = NULL;
	}
	if (g)
		m->named = g;
	return g;
}

bool machine_is_gpu(const struct machine *m, struct str device)
{
	for (size_t i = 0; i < m->ngpus; i++)
		if (device.n && str_ends(m->gpus[i].device, device))
			return true;
	return false;
}

static const struct know_part *find_part(const struct know *k, const struct event *e)
{
	const struct fact *vendor = event_fact(e, "vendor"), *device = event_fact(e, "device_id");
	const struct fact *revision = event_fact(e, "revision");
	uint64_t v, d, r;
	if (!vendor || !device || !str_hex(vendor->value, &v) || v != 0x1002 || !str_hex(device->value, &d))
		return NULL;
	return know_part(k, (unsigned)d, revision && str_hex(revision->value, &r) ? (int)r : -1);
}

static void note_probe(struct machine *m, const struct know *k, struct machine_gpu *g, const struct event *e)
{
	const struct know_part *part = find_part(k, e);
	if (!g && m->named && !m->named->part)
		g = m->named;
	if (!g) {
		m->unnamed = part ? part : m->unnamed;
		return;
	}
	if (part)
		g->part = part;
	g->probing = true;
}

/** Of several parts nobody can tell which one failed. */
static void note_spoken(struct machine *m, const struct know_part *part)
{
	m->several |= part && m->spoken && !str_eq(m->spoken->name, part->name);
	m->spoken = m->spoken ? m->spoken : part;
}

/** `Device 0: AMD Radeon Graphics, gfx1103`: of several targets nobody can tell which one failed. */
static void diagnose_machine_note_told(struct machine *m, struct str gfx, bool apu)
{
	if (m->told_gfx.n || !gfx.n) {
		m->told_others |= gfx.n && !str_eq(m->told_gfx, gfx);
		return;
	}
	m->told_gfx = arena_str(&m->arena, gfx);
	m->told_apu = apu;
}

struct str machine_node(const struct machine *m, int64_t node)
{
	for (size_t i = 0; i < m->ngpus && node > 0; i++)
		if (m->gpus[i].node == node)
			return m->gpus[i].device;
	return (struct str){ 0 };
}

/** Domain and bus of `0000:9e:00.0` as one number. */
static bool pci_bus(struct str address, uint64_t *ret_domain, uint64_t *ret_bus)
{
	struct str rest = address, domain = str_split(&rest, ':'), bus = str_split(&rest, ':');
	return rest.n && str_hex(domain, ret_domain) && str_hex(bus, ret_bus);
}

struct str machine_behind(const struct machine *m, struct str port, uint64_t bus)
{
	enum { OWN_SWITCH = 2 };
	uint64_t domain, other, at, least = bus + OWN_SWITCH + 1;
	struct str found = { 0 };
	if (!pci_bus(port, &domain, &other))
		return found;
	for (size_t i = 0; i < m->ngpus; i++)
		if (pci_bus(m->gpus[i].device, &other, &at) && other == domain && at >= bus && at < least) {
			found = m->gpus[i].device;
			least = at;
		}
	return found;
}

struct str machine_index(const struct machine *m, int64_t index)
{
	for (size_t i = 0; i < m->ngpus && index >= 0; i++)
		if (m->gpus[i].index == index + 1)
			return m->gpus[i].device;
	return (struct str){ 0 };
}

/** busId of RCCL: domain, bus, device and function as one hexadecimal number. */
static void note_rank(struct machine *m, const struct event *e)
{
	const struct fact *bus = event_fact(e, "bus_id"), *rank = event_fact(e, "rank");
	uint64_t id;
	if (!bus || !rank || !str_hex(bus->value, &id) || id > 0xfffffffff)
		return;
	_cleanup_text_ struct text name = { 0 }, pci = { 0 };
	text_printf(&name, "rank." STR_FMT, STR_ARG(rank->value));
	text_printf(&pci, "%04x:%02x:%02x.%x", (unsigned)(id >> 20), (unsigned)(id >> 12 & 0xff), (unsigned)(id >> 4 & 0xff),
		    (unsigned)(id & 15));
	set(m, S(""), (struct fact){ text_str(&name), text_str(&pci), FACT_TEXT, e->at });
	const struct fact *nranks = event_fact(e, "nranks");
	if (nranks)
		set(m, S(""), (struct fact){ S("nranks"), nranks->value, FACT_NUMBER, e->at });
}

void machine_merge(struct machine *m, const struct machine *from)
{
	for (size_t i = 0; i < from->ngpus; i++) {
		struct machine_gpu *g = find_or_add(m, from->gpus[i].device, from->gpus[i].at);
		if (!g)
			continue;
		g->part = g->part ? g->part : from->gpus[i].part;
		g->node = g->node ? g->node : from->gpus[i].node;
		g->index = g->index ? g->index : from->gpus[i].index;
		g->gfx = g->gfx.n ? g->gfx : arena_str(&m->arena, from->gpus[i].gfx);
		g->name = g->name.n ? g->name : arena_str(&m->arena, from->gpus[i].name);
	}
	note_spoken(m, from->spoken);
	m->several |= from->several;
	diagnose_machine_note_told(m, from->told_gfx, from->told_apu);
	m->told_others |= from->told_others;
	for (size_t i = 0; i < from->facts.len; i++) {
		const struct machine_fact *f = &from->facts.data[i];
		struct machine_fact *have = NULL;
		if (f->many) {
			diagnose_machine_add(m, f->fact);
			continue;
		}
		for (size_t n = 0; n < m->facts.len && !have; n++)
			if (str_eq(m->facts.data[n].fact.name, f->fact.name) && str_eq(m->facts.data[n].device, f->device))
				have = &m->facts.data[n];
		if (!have)
			set(m, f->device, f->fact);
		else if (!str_eq(have->fact.value, f->fact.value))
			have->fact.value = (struct str){ 0 };
	}
}

void machine_note(struct machine *m, const struct know *k, const struct event *e)
{
	enum know_tells tells = e->signature->event->tells;
	if (tells == TELLS_BOOT)
		m->has_boot = true;
	if (tells == TELLS_SLEEP || tells == TELLS_WAKE) {
		m->sleeping = tells == TELLS_SLEEP;
		m->slept = e->time;
	}
	if (tells == TELLS_COMMAND_LINE) {
		const struct fact *line = event_fact(e, "cmdline");
		if (line)
			note_parameters(m, line->value, e->at);
		return;
	}
	if (tells == TELLS_CONTEXT) {
		const struct fact *named = event_fact(e, "named_part");
		for (size_t i = 0; i < e->nfacts; i++)
			diagnose_machine_add(m, e->facts[i]);
		if (named)
			note_spoken(m, know_part_with_name(k, named->value));
		return;
	}
	if (tells == TELLS_RANK_GPU) {
		note_rank(m, e);
		return;
	}
	const struct fact *named = event_fact(e, "pci"); // `Initialized amdgpu ... for 0000:03:00.0`
	struct machine_gpu *g = named                       ? machine_gpu(m, named->value, e->at) :
				str_is(e->driver, "amdgpu") ? machine_gpu(m, e->device, e->at) :
							      NULL;
	if (tells == TELLS_IDENTITY) {
		const struct fact *node = event_fact(e, "gpu_node");
		const struct know_part *part = find_part(k, e);
		const struct fact *gfx = event_fact(e, "gfx"), *name = event_fact(e, "gpu_name"), *index = event_fact(e, "gpu_index");
		if (g && index && str_number(index->value, &g->index))
			g->index++;
		if (g && gfx && !g->gfx.n)
			g->gfx = arena_str(&m->arena, gfx->value);
		if (!g && gfx)
			diagnose_machine_note_told(m, gfx->value, know_gfx_is_apu(k, gfx->value));
		if (g && name && !g->name.n)
			g->name = arena_str(&m->arena, name->value);
		if (g && node)
			str_number(node->value, &g->node);
		if (g && part)
			g->part = part;
		else if (part && !m->ngpus)
			m->unnamed = part;
		return;
	}
	if (tells == TELLS_GPU_FOUND)
		note_probe(m, k, g, e);
	else if (tells == TELLS_GPU_READY && (g || m->named))
		(g ? g : m->named)->probing = false;
	if (tells == TELLS_NOTICE || tells == TELLS_GPU_FOUND || tells == TELLS_GPU_READY)
		return;
	for (size_t i = 0; i < e->nfacts; i++)
		set(m, g ? g->device : S(""), e->facts[i]);
}

void machine_clear(struct machine *m)
{
	vec_free(&m->facts);
	arena_free(&m->arena);
	*m = (struct machine){ .said = m->said };
}

void machine_begin_boot(struct machine *m, struct place at)
{
	struct machine old = *m;
	*m = (struct machine){ 0 };
	// Words of a text are told before the messages that stand among them.
	for (size_t i = 0; i < old.facts.len; i++) {
		const struct fact *f = &old.facts.data[i].fact;
		if (old.facts.data[i].many && f->at.source == at.source && f->at.line >= at.line)
			diagnose_machine_add(m, *f);
	}
	machine_clear(&old);
}
