// Rings of the driver and their fences.
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "gpu/silicon/parts.h"

enum {
	RING_HEAD = 12,
	RING_USUAL = (16 << 10) + 2 * RING_HEAD, // bytes; what is read costs memory
	RING_MOST = (1 << 20) + RING_HEAD,
	RINGS_MOST = 256,
	NAMES_MOST = 64 << 10,
	FENCES_MOST = 64 << 10,
};

/** Rings whose positions are registers of their block; those of the others lie in memory. */
static const char *const of_registers[] = { "vcn*", "jpeg*", "uvd*", "vce*", "vpe*", "umsch*" };
/** It is not laid out as a ring of words. */
static const char cper[] = "cper";

static bool reads_registers(struct str name)
{
	for (size_t i = 0; i < sizeof(of_registers) / sizeof(*of_registers); i++)
		if (str_glob(str_z(of_registers[i]), name))
			return true;
	return false;
}

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

/** The names behind amdgpu_ring_, one per line. */
static void list_rings(struct silicon *t)
{
	struct batch b = { .t = t };
	struct text names = { 0 };
	batch_add(&b, (struct probe){ .kind = PROBE_LIST, .path = arena_z(&b.arena, t->device->debugfs), .size = NAMES_MOST });
	batch_run(&b, SILICON_QUERY_MS);
	struct str rest = probe_text(&b.probes.data[0]), name;
	while (rest.n) {
		struct str file = str_split(&rest, '\n');
		if (str_behind(file, S("amdgpu_ring_"), &name) && name.n && !str_starts(name, str_z(cper)))
			text_printf(&names, STR_FMT "\n", STR_ARG(name));
	}
	t->ring_names = arena_str(&t->arena, text_str(&names));
	t->rings_listed = b.probes.data[0].end == PROBE_GOOD;
	text_free(&names);
	batch_free(&b);
}

/** A ring to read. */
struct wish {
	struct str name;
	size_t size;
	bool registers; // its positions are read from registers
};

static struct probe probe_of(struct batch *b, const struct wish *w)
{
	char file[80];
	snprintf(file, sizeof(file), "amdgpu_ring_" STR_FMT, STR_ARG(str_cut(w->name, 60)));
	return (struct probe){ .kind = w->size == RING_HEAD ? PROBE_READ : PROBE_FILE,
			       .path = silicon_file(b->t, &b->arena, file),
			       .size = w->size };
}

/** Adds those whose positions are in memory, or those whose positions are registers; returns the first probe of them. */
static size_t add_wishes(struct batch *b, const struct wish *wishes, size_t n, bool registers)
{
	size_t at = b->probes.len;
	for (size_t i = 0; i < n; i++)
		if (wishes[i].registers == registers)
			batch_add(b, probe_of(b, &wishes[i]));
	return at;
}

/** Reads them into @ret and returns how many were read. Rings that are longer than expected are remembered and stay wishes. */
static size_t read_wishes(struct silicon *t, struct wish *wishes, size_t *n, struct ring *ret)
{
	struct batch b = { .t = t };
	size_t good = 0, left = 0, at[2];
	at[false] = add_wishes(&b, wishes, *n, false);
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
	batch_free(&b);
	return good;
}

static bool is_long(const struct silicon *t, struct str name)
{
	struct str rest = t->long_rings;
	while (rest.n)
		if (str_eq(str_split(&rest, '\n'), name))
			return true;
	return false;
}

static size_t read_rings(struct silicon *t, const struct request *r, struct ring *ret)
{
	struct str rest = t->ring_names;
	struct wish wishes[RINGS_MOST];
	size_t n = 0, good = 0;
	bool all = t->gate.open && !t->debugfs_dead;
	while (rest.n && n < RINGS_MOST) {
		struct str name = str_split(&rest, '\n');
		bool registers = reads_registers(name), wanted = !r->ring.n || str_eq(r->ring, name);
		size_t size = r->positions ? RING_HEAD : is_long(t, name) ? RING_MOST : RING_USUAL;
		if (wanted && (all || !registers))
			wishes[n++] = (struct wish){ name, size, registers };
	}
	while (n && !t->rings_dead)
		good += read_wishes(t, wishes, &n, ret + good);
	return good;
}

static int by_name(const void *a, const void *b)
{
	return str_cmp(((const struct ring *)a)->name, ((const struct ring *)b)->name);
}

/** Positions in memory are read whatever the GPU does, as long as it does not sleep. */
void rings_answer(struct silicon *t, struct request *r)
{
	r->answer = t->rings_dead ? ANSWER_TIMED_OUT : ANSWER_REFUSED;
	gate_pass(t, NULL);
	if (t->gate.asleep || !t->device->debugfs.n || t->rings_dead)
		return;
	if (!t->rings_listed)
		list_rings(t);
	if (!t->rings_listed)
		return;
	struct ring *rings = arena_alloc(&t->arena, RINGS_MOST * sizeof(*rings));
	size_t n = read_rings(t, r, rings);
	qsort(rings, n, sizeof(*rings), by_name);
	r->rings = rings;
	r->n = n;
	r->answer = n ? ANSWER_GIVEN : t->rings_dead ? ANSWER_TIMED_OUT : ANSWER_REFUSED;
}

static bool number_behind(struct str line, struct str label, uint32_t *ret)
{
	struct str value;
	uint64_t n;
	if (!str_behind(line, label, &value) || !str_hex(value, &n) || n > UINT32_MAX)
		return false;
	*ret = (uint32_t)n;
	return true;
}

/** `--- ring 0 (gfx_0.0.0) ---`, then the two numbers; the second `Last emitted` of a ring is that of another fence. */
size_t fences_parse(struct arena *a, struct str text, const struct ring_fence **ret)
{
	VEC(struct ring_fence) list = { 0 };
	unsigned seen = 0;
	while (text.n && list.len < RINGS_MOST) {
		struct str line = str_trim(str_split(&text, '\n')), name;
		ptrdiff_t open = str_find(line, S("("));
		if (str_behind(line, S("--- ring "), &name) && open >= 0) {
			struct str rest = str_from(line, (size_t)open + 1);
			vec_push(&list, ((struct ring_fence){ .ring = arena_str(a, str_split(&rest, ')')) }));
			seen = 0;
			continue;
		}
		struct ring_fence *last = list.len ? &list.data[list.len - 1] : NULL;
		if (last && !seen && number_behind(line, S("Last signaled fence"), &last->signaled))
			seen = 1;
		else if (last && seen == 1 && number_behind(line, S("Last emitted"), &last->emitted))
			seen = 2;
	}
	struct ring_fence *kept = arena_alloc(a, list.len * sizeof(*kept) + 1);
	size_t n = list.len;
	if (n)
		memcpy(kept, list.data, n * sizeof(*kept));
	vec_free(&list);
	*ret = kept;
	return n;
}

void fences_answer(struct silicon *t, struct request *r)
{
	struct batch b = { .t = t };
	const char *path = silicon_file(t, &b.arena, "amdgpu_fence_info");
	r->answer = ANSWER_REFUSED;
	if (path && !t->gate.asleep) {
		batch_add(&b, (struct probe){ .kind = PROBE_FILE, .path = path, .size = FENCES_MOST });
		batch_run(&b, SILICON_QUERY_MS);
		r->n = fences_parse(&t->arena, probe_text(&b.probes.data[0]), &r->fences);
		r->answer = batch_answer(&b, &b.probes.data[0]);
	}
	batch_free(&b);
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
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]) && !strcmp(t->kind, "gpu"); i++)
		if (str_behind(ring, str_z(engines[i].ring), &number) && str_number(number, &engine) && engine >= 0 &&
		    engine < 16 && read_engine(t, engines[i].registers, (unsigned)engine, v))
			return ((uint64_t)v[1] << 32 | v[0]) + v[2];
	return 0;
}
