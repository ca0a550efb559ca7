// Waves of a live GPU: every slot that exists is read, with one operation where the GPU has one XCC.
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "gpu/silicon/parts.h"

/** What a unit that is not there answers for its status, which is the second word. */
static const struct str no_such_unit = { "\xef\xbe\xbe\xbe", 4 };
enum { STATUS_AT = 4 };

uint64_t debugfs_wave_position(const struct wave_slot *s)
{
	return (uint64_t)(s->se & 0xff) << 7 | (uint64_t)(s->sh & 0xff) << 15 | (uint64_t)(s->cu & 0xff) << 23 |
	       (uint64_t)(s->slot & 0x3f) << 31 | (uint64_t)(s->simd & 0xff) << 37;
}

struct gprwave_state *wave_gprwave(struct arena *a, const struct wave_slot *asked)
{
	struct gprwave_state *s = arena_alloc(a, sizeof(*s));
	*s = (struct gprwave_state){
		.se = asked->se, .sh = asked->sh, .cu = asked->cu, .wave = asked->slot, .simd = asked->simd, .xcc = asked->xcc
	};
	return s;
}

struct probe wave_gprwave_probe(const char *path, const struct gprwave_state *s, size_t size)
{
	return (struct probe){ .kind = PROBE_BANKED,
			       .path = path,
			       .request = GPRWAVE_IOCTL,
			       .argument = s,
			       .argument_size = sizeof(*s),
			       .size = size };
}

/** The files, NULL where they are of no use. */
struct wave_files {
	const char *wave, *gprwave;
};

static struct probe probe_of(struct batch *b, const struct wave_files *f, const struct wave_slot *s)
{
	const struct wave_words *w = &b->t->words;
	struct wave_slot asked = wave_slot_asked(w, s);
	size_t size = 4 * (w->n + 1);
	struct probe p = { .kind = PROBE_READ, .path = f->wave, .offset = debugfs_wave_position(&asked), .size = size };
	if (s->xcc || !f->wave)
		p = wave_gprwave_probe(f->gprwave, wave_gprwave(&b->arena, &asked), size);
	// A unit's first slot tells for the others.
	if (!s->slot && !b->waves->slots) {
		p.unless = no_such_unit;
		p.unless_at = STATUS_AT;
		p.skips = (s->simd ? 1 : w->simds) * w->slots - 1;
	}
	return p;
}

static void add_slot(struct batch *b, const struct wave_files *f, struct wave_slot s)
{
	vec_push(&b->slots, s);
	vec_push(&b->slot_probes, batch_add(b, probe_of(b, f, &s)));
}

static void add_units(struct batch *b, const struct wave_files *f, struct wave_slot s)
{
	const struct wave_words *w = &b->t->words;
	unsigned cus = b->t->device->shaders.cus_per_sh, units = w->wgp ? (cus + 1) / 2 : cus;
	if (b->waves->units && b->waves->units < units)
		units = b->waves->units;
	for (s.cu = 0; s.cu < units; s.cu++)
		for (s.simd = 0; s.simd < w->simds; s.simd++)
			for (s.slot = 0; s.slot < w->slots; s.slot++)
				add_slot(b, f, s);
}

/** Where GRBM_STATUS says that nothing of the graphics core is busy there are no waves: its thousands of slots are not read then. The bits
 * that say so, SPI_BUSY and GUI_ACTIVE among them, are the upper half of the register on every part. */
static const struct str nothing_busy = { "\0\0", 2 };
enum { BUSY_AT = 2 };

/** The probe that begins the slots of an XCC; SIZE_MAX: there is none. */
static size_t ask_whether_idle(struct batch *b, unsigned xcc)
{
	const struct silicon *t = b->t;
	struct device_register status = { .address = t->status_address };
	if (xcc && !device_registers(t->device, arena_printf(&b->arena, "gc%u.GRBM_STATUS", xcc), &status, 1))
		return SIZE_MAX;
	if (!status.address || t->broken[xcc ? WAY_REGS2 : WAY_REGS])
		return SIZE_MAX;
	size_t at = batch_add(b, xcc ? registers_of_xcc(b, status.address, xcc) : registers_file(b, status.address, 1));
	b->probes.data[at].unless = nothing_busy;
	b->probes.data[at].unless_at = BUSY_AT;
	vec_push(&b->idle_probes, at);
	return at;
}

static bool said_idle(const struct probe *p)
{
	return p->end == PROBE_GOOD && p->n >= BUSY_AT + nothing_busy.n &&
	       !memcmp(p->data + BUSY_AT, nothing_busy.p, nothing_busy.n);
}

void waves_plan(struct batch *b)
{
	struct silicon *t = b->t;
	const struct shader_array *s = &t->device->shaders;
	struct wave_files f = { .wave = t->no_wave_file ? NULL : silicon_file(t, &b->arena, "amdgpu_wave"),
				.gprwave = t->no_gprwave_file ? NULL : silicon_file(t, &b->arena, "amdgpu_gprwave") };
	unsigned xccs = s->xccs > 1 ? s->xccs : 1;
	struct wave_slot at = { 0 };
	const struct request *r = b->waves;
	for (size_t i = 0; i < r->nslots; i++)
		if (f.gprwave || (f.wave && !r->slots[i].xcc))
			add_slot(b, &f, r->slots[i]);
	for (at.xcc = 0; at.xcc < xccs && !r->slots; at.xcc++) {
		bool wanted = !r->xccs || (at.xcc < 64 && r->xccs >> at.xcc & 1);
		if (!wanted || !(f.gprwave || (f.wave && !at.xcc)))
			continue;
		const size_t first = ask_whether_idle(b, at.xcc);
		for (at.se = 0; at.se < s->ses; at.se++)
			for (at.sh = 0; at.sh < s->shs_per_se; at.sh++)
				add_units(b, &f, at);
		if (first != SIZE_MAX)
			b->probes.data[first].skips = b->probes.len - first - 1;
	}
}

bool waves_again(struct batch *b)
{
	struct silicon *t = b->t;
	bool again = false;
	for (size_t i = 0; i < b->slots.len && !b->late; i++) {
		const struct probe *p = &b->probes.data[b->slot_probes.data[i]];
		bool *gone = p->kind == PROBE_READ ? &t->no_wave_file : &t->no_gprwave_file;
		if (p->end != PROBE_FAILED || *gone || (p->error != ENOENT && p->error != EPERM && p->error != EACCES))
			continue;
		*gone = true;
		again = true;
	}
	return again && !(t->no_wave_file && t->no_gprwave_file);
}

/** Whether a unit is there: its first slot tells. One that was not read is not listed. */
static void units_take(const struct batch *b, struct request *r)
{
	VEC(struct wave_unit) units = { 0 };
	for (size_t i = 0; i < b->slots.len; i++) {
		const struct wave_slot *s = &b->slots.data[i];
		const struct probe *p = &b->probes.data[b->slot_probes.data[i]];
		if (s->simd || s->slot || p->end != PROBE_GOOD || p->n < STATUS_AT + no_such_unit.n)
			continue;
		const bool there = memcmp(p->data + STATUS_AT, no_such_unit.p, no_such_unit.n);
		vec_push(&units, ((struct wave_unit){ s->xcc, s->se, s->sh, s->cu, there }));
	}
	r->found = arena_copy(&b->t->arena, units.data, units.len * sizeof(*units.data));
	r->nfound = units.len;
	vec_free(&units);
}

/** Which registers can be read when they are asked for. */
static void give_registers(struct wave *w)
{
	w->sgprs.wave = w->id;
	w->vgprs.wave = w->id;
	w->acc_vgprs.wave = w->layout->numbers[NUMBER_ACC_UNIT] ? w->id : 0;
}

void waves_take(struct batch *b, struct request *r)
{
	struct silicon *t = b->t;
	VEC(struct wave) waves = { 0 };
	size_t read = 0, failed = 0;
	uint32_t words[WAVE_WORDS_MOST];
	struct wave w;
	for (size_t i = 0; i < b->idle_probes.len; i++)
		read += said_idle(&b->probes.data[b->idle_probes.data[i]]);
	for (size_t i = 0; i < b->slots.len; i++) {
		const struct probe *p = &b->probes.data[b->slot_probes.data[i]];
		failed += p->end == PROBE_FAILED;
		if (p->end != PROBE_GOOD)
			continue;
		size_t n = p->n / 4 < WAVE_WORDS_MOST ? p->n / 4 : WAVE_WORDS_MOST;
		memcpy(words, p->data, 4 * n);
		read++;
		if (!wave_from_words(&t->words, t->layout, words, n, &b->slots.data[i], &w))
			continue;
		w.id = waves.len + 1;
		if (!r->slots)
			give_registers(&w);
		vec_push(&waves, w);
	}
	struct wave *kept = arena_copy(&t->arena, waves.data, waves.len * sizeof(*kept));
	r->waves = kept;
	r->n = waves.len;
	if (!r->slots) { // ids of waves are those of the last list of all
		gprs_forget(t);
		t->waves = kept;
		t->nwaves = waves.len;
		units_take(b, r);
	}
	vec_free(&waves);
	r->answer = b->late ? ANSWER_TIMED_OUT : read ? ANSWER_GIVEN : ANSWER_REFUSED;
	if (read && failed)
		silicon_problem(t, "%zu of %zu wave slots could not be read", failed, b->slots.len);
}
