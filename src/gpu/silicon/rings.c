// Rings of the driver and their fences. A ring's file shows its positions and its words; the positions of most rings lie in memory, so that
// they can be read whatever the GPU does, those of others are registers, for which the gate must be open.
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "gpu/silicon/target.h"

enum {
	RING_HEAD = 12,
	RING_USUAL = (16 << 10) + 2 * RING_HEAD, // bytes; what is read costs memory
	RING_MOST = (1 << 20) + RING_HEAD,
	RINGS_MOST = 256,
	NAMES_MOST = 64 << 10,
	FENCES_MOST = 64 << 10,
};

/** Rings whose positions are registers of their block; those of the others lie in memory. */
static const char of_registers[] = "vcn*|jpeg*|uvd*|vce*|vpe*|umsch*";
/** It is not laid out as a ring of words. */
static const char cper[] = "cper";

bool ring_parse(struct arena *a, struct str name, const char *bytes, size_t n, struct ring *ret)
{
	if (n < RING_HEAD + 4 && n != RING_HEAD)
		return false;
	size_t words = (n - RING_HEAD) / 4;
	uint32_t *copy = arena_alloc(a, 4 * words);
	memcpy(copy, bytes + RING_HEAD, 4 * words);
	*ret = (struct ring){ .name = arena_str(a, name),
			      .rptr = get_u32(bytes),
			      .wptr = get_u32(bytes + 4),
			      .driver_wptr = get_u32(bytes + 8),
			      .n = words,
			      .words = copy };
	return !words || (ret->rptr < words && ret->wptr < words && ret->driver_wptr < words);
}

/** A ring to read. */
struct wish {
	struct str name;
	size_t size;
	bool registers; // its positions are read from registers
};

/** Adds those whose positions are in memory, or those whose positions are registers; returns the first probe of them. */
static size_t add_wishes(struct batch *b, const struct wish *wishes, size_t n, bool registers)
{
	size_t at = b->probes.len;
	for (size_t i = 0; i < n; i++) {
		char file[80];
		snprintf(file, sizeof(file), "amdgpu_ring_" STR_FMT, STR_ARG(str_cut(wishes[i].name, 60)));
		if (wishes[i].registers == registers)
			batch_add(b, (struct probe){ .kind = wishes[i].size == RING_HEAD ? PROBE_READ : PROBE_FILE,
						     .path = silicon_file(b->t, &b->arena, file),
						     .size = wishes[i].size });
	}
	return at;
}

/** Reads them into @ret and returns how many were read. Rings that are longer than expected are remembered and stay wishes. */
static size_t read_wishes(struct silicon *t, struct wish *wishes, size_t *n, bool light, struct ring *ret)
{
	_cleanup_batch_ struct batch b = { .t = t };
	size_t good = 0, left = 0, at[2];
	at[false] = add_wishes(&b, wishes, *n, false);
	if (!light) // it asks a file that keeps the GPU awake
		gate_guard(&b);
	at[true] = add_wishes(&b, wishes, *n, true);
	batch_run(&b, SILICON_LOOK_MS);
	t->rings_dead |= b.late;
	for (size_t i = 0; i < *n; i++) {
		struct wish w = wishes[i];
		const struct probe *p = &b.probes.data[at[w.registers]++];
		if (p->end != PROBE_GOOD)
			continue;
		if (p->n == RING_USUAL && w.size == RING_USUAL) {
			w.size = RING_MOST;
			wishes[left++] = w;
			t->long_rings = arena_printf(&t->arena, STR_FMT STR_FMT "\n", STR_ARG(t->long_rings), STR_ARG(w.name));
		} else {
			good += ring_parse(&t->arena, w.name, p->data, p->n, &ret[good]);
		}
	}
	*n = left;
	return good;
}

static size_t read_rings(struct silicon *t, const struct request *r, struct ring *ret)
{
	struct str rest = t->ring_names;
	struct wish wishes[RINGS_MOST];
	size_t n = 0, good = 0;
	bool all = !r->light && t->gate.open && !t->debugfs_dead;
	while (rest.n && n < RINGS_MOST) {
		struct str name = str_split(&rest, '\n');
		struct wish w = { name, r->positions ? RING_HEAD : RING_USUAL, str_among(name, STR_MATCHES, of_registers).n };
		str_each (longer, t->long_rings, '\n')
			if (str_eq(longer, name) && !r->positions)
				w.size = RING_MOST;
		if ((!r->ring.n || str_eq(r->ring, name)) && (all || !w.registers))
			wishes[n++] = w;
	}
	while (n && !t->rings_dead)
		good += read_wishes(t, wishes, &n, r->light, ret + good);
	return good;
}

static int rings_by_name(const void *a, const void *b)
{
	return str_cmp(((const struct ring *)a)->name, ((const struct ring *)b)->name);
}

/** Whether it sleeps, which a file in memory says. */
static void look_whether_asleep(struct silicon *t)
{
	_cleanup_batch_ struct batch b = { .t = t };
	batch_add(&b, (struct probe){ .kind = PROBE_READ, .path = t->runtime_status, .size = 64 });
	batch_run(&b, SILICON_QUERY_MS);
	t->gate = (struct gate){ .asleep = str_starts(probe_text(&b.probes.data[0]), S("suspend")) };
	t->gate.why_not = t->gate.asleep ? S("it is asleep (runtime_status suspended)") : (struct str){ 0 };
}

/** Positions in memory are read whatever the GPU does, as long as it does not sleep. */
void rings_answer(struct silicon *t, struct request *r)
{
	r->answer = t->rings_dead ? ANSWER_TIMED_OUT : ANSWER_REFUSED;
	if (r->light)
		look_whether_asleep(t);
	else
		gate_pass(t, NULL);
	if (t->gate.asleep || !t->device->debugfs.n || t->rings_dead)
		return;
	if (!t->rings_listed) {
		// The names behind amdgpu_ring_, one per line.
		_cleanup_batch_ struct batch b = { .t = t };
		_cleanup_text_ struct text names = { 0 };
		batch_add(&b, (struct probe){
				      .kind = PROBE_LIST, .path = arena_z(&b.arena, t->device->debugfs), .size = NAMES_MOST });
		batch_run(&b, SILICON_QUERY_MS);
		struct str name;
		str_each (file, probe_text(&b.probes.data[0]), '\n')
			if (str_behind(file, S("amdgpu_ring_"), &name) && name.n && !str_starts(name, str_z(cper)))
				text_printf(&names, STR_FMT "\n", STR_ARG(name));
		t->ring_names = arena_str(&t->arena, text_str(&names));
		t->rings_listed = b.probes.data[0].end == PROBE_GOOD;
	}
	if (!t->rings_listed)
		return;
	struct ring *rings = arena_alloc(&t->arena, RINGS_MOST * sizeof(*rings));
	size_t n = read_rings(t, r, rings);
	qsort(rings, n, sizeof(*rings), rings_by_name);
	r->rings = rings;
	r->n = n;
	r->answer = n ? ANSWER_GIVEN : t->rings_dead ? ANSWER_TIMED_OUT : ANSWER_REFUSED;
}

/** `--- ring 0 (gfx_0.0.0) ---`, then the two numbers; the second `Last emitted` of a ring is that of another fence. */
size_t fences_parse(struct arena *a, struct str text, const struct ring_fence **ret)
{
	static const char *const labels[] = { "Last signaled fence", "Last emitted" };
	_cleanup_vec_ VEC(struct ring_fence) list = { 0 };
	unsigned seen = 0;
	while (text.n && list.len < RINGS_MOST) {
		struct str line = str_trim(str_split(&text, '\n')), rest;
		ptrdiff_t open = str_find(line, S("("));
		uint64_t n;
		if (str_behind(line, S("--- ring "), &rest) && open >= 0) {
			rest = str_from(line, (size_t)open + 1);
			vec_push(&list, ((struct ring_fence){ .ring = arena_str(a, str_split(&rest, ')')) }));
			seen = 0;
		} else if (list.len && seen < ARRAY_SIZE(labels) && str_behind(line, str_z(labels[seen]), &rest) &&
			   str_hex(rest, &n) && n <= UINT32_MAX) {
			struct ring_fence *last = &list.data[list.len - 1];
			*(seen++ ? &last->emitted : &last->signaled) = (uint32_t)n;
		}
	}
	*ret = arena_copy(a, list.data, list.len * sizeof(*list.data));
	return list.len;
}

void fences_answer(struct silicon *t, struct request *r)
{
	_cleanup_batch_ struct batch b = { .t = t };
	const char *path = silicon_file(t, &b.arena, "amdgpu_fence_info");
	r->answer = ANSWER_REFUSED;
	if (!path || t->gate.asleep)
		return;
	batch_add(&b, (struct probe){ .kind = PROBE_FILE, .path = path, .size = FENCES_MOST });
	batch_run(&b, SILICON_QUERY_MS);
	r->n = fences_parse(&t->arena, probe_text(&b.probes.data[0]), &r->fences);
	r->answer = batch_answer(&b, &b.probes.data[0]);
}

// --- where an engine stands ---

/** How the registers about an indirect buffer begin, with the number of the engine. */
static const struct {
	const char *ring, *registers;
} engines[] = {
	{ "sdma", "sdma%u.SDMA%u_QUEUE0_IB_%s" },
	{ "sdma", "sdma%u.SDMA%u_GFX_IB_%s" },
	{ "page", "sdma%u.SDMA%u_PAGE_IB_%s" },
};

/** The value of each of three registers, by what is behind the engine's name. */
static bool read_engine(struct target *t, const char *format, unsigned engine, uint32_t ret[static 3])
{
	static const char *const names[] = { "BASE_LO", "BASE_HI", "RPTR" };
	struct device_register found[3];
	struct request r[3];
	for (size_t i = 0; i < 3; i++) {
		char name[64];
		snprintf(name, sizeof(name), format, engine, engine, names[i]);
		if (!device_registers(target_device_of(t), str_z(name), &found[i], 1))
			return false;
		r[i] = (struct request){ .kind = REQUEST_REGISTER,
					 .ip = found[i].ip->name,
					 .ip_instance = found[i].ip->instance,
					 .reg = &found[i].reg,
					 .bank = BANK_NONE };
	}
	t->ask(t, r, 3);
	for (size_t i = 0; i < 3; i++) {
		if (r[i].answer != ANSWER_GIVEN)
			return false;
		ret[i] = r[i].value;
	}
	return true;
}

uint64_t ring_engine(struct target *t, struct str ring)
{
	struct str number;
	int64_t engine;
	uint32_t v[3];
	for (size_t i = 0; i < ARRAY_SIZE(engines) && !strcmp(t->kind, "gpu"); i++)
		if (str_behind(ring, str_z(engines[i].ring), &number) && str_number(number, &engine) && engine >= 0 &&
		    engine < 16 && read_engine(t, engines[i].registers, (unsigned)engine, v))
			return ((uint64_t)v[1] << 32 | v[0]) + v[2];
	return 0;
}
