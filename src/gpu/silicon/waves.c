// Waves of a live GPU: every slot that exists is read, with one operation where the GPU has one XCC.
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "gpu/layout.h"
#include "gpu/silicon/target.h"
#include "gpu/silicon/silicon.h"

/** What a unit that is not there answers for its status, which is the second word. */
static const struct str no_such_unit = { "\xef\xbe\xbe\xbe", 4 };
enum { STATUS_AT = 4 };

uint64_t debugfs_wave_position(const struct wave_slot *s)
{
	return (uint64_t)(s->se & 0xff) << 7 | (uint64_t)(s->sh & 0xff) << 15 | (uint64_t)(s->cu & 0xff) << 23 |
	       (uint64_t)(s->slot & 0x3f) << 31 | (uint64_t)(s->simd & 0xff) << 37;
}

struct gprwave_state *gprwave_of(struct arena *a, const struct wave_slot *asked)
{
	struct gprwave_state *s = arena_alloc(a, sizeof(*s));
	*s = (struct gprwave_state){
		.se = asked->se, .sh = asked->sh, .cu = asked->cu, .wave = asked->slot, .simd = asked->simd, .xcc = asked->xcc
	};
	return s;
}

struct probe gprwave_probe(const char *path, const struct gprwave_state *s, size_t size)
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

static struct probe silicon_waves_probe_of(struct batch *b, const struct wave_files *f, const struct wave_slot *s)
{
	const struct wave_words *w = &b->t->words;
	struct wave_slot asked = wave_slot_asked(w, s);
	size_t size = 4 * (w->n + 1);
	struct probe p = { .kind = PROBE_READ, .path = f->wave, .offset = debugfs_wave_position(&asked), .size = size };
	if (s->xcc || !f->wave)
		p = gprwave_probe(f->gprwave, gprwave_of(&b->arena, &asked), size);
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
	vec_push(&b->slot_probes, batch_add(b, silicon_waves_probe_of(b, f, &s)));
}

static void silicon_waves_add_units(struct batch *b, const struct wave_files *f, struct wave_slot s)
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
	vec_push(&b->idle_xccs, xcc);
	return at;
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
				silicon_waves_add_units(b, &f, at);
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
	_cleanup_vec_ VEC(struct wave_unit) units = { 0 };
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
}

void waves_take(struct batch *b, struct request *r)
{
	struct silicon *t = b->t;
	_cleanup_vec_ VEC(struct wave) waves = { 0 };
	size_t read = 0, failed = 0;
	uint32_t words[WAVE_WORDS_MOST];
	struct wave w;
	for (size_t i = 0; i < b->idle_probes.len; i++) {
		const struct probe *p = &b->probes.data[b->idle_probes.data[i]];
		const bool idle = p->end == PROBE_GOOD && p->n >= BUSY_AT + nothing_busy.n &&
				  !memcmp(p->data + BUSY_AT, nothing_busy.p, nothing_busy.n);
		read += idle;
		r->xccs_seen |= idle ? UINT64_C(1) << (b->idle_xccs.data[i] % 64) : 0;
	}
	for (size_t i = 0; i < b->slots.len; i++) {
		const struct probe *p = &b->probes.data[b->slot_probes.data[i]];
		failed += p->end == PROBE_FAILED;
		if (p->end != PROBE_GOOD)
			continue;
		size_t n = p->n / 4 < WAVE_WORDS_MOST ? p->n / 4 : WAVE_WORDS_MOST;
		memcpy(words, p->data, 4 * n);
		read++;
		r->xccs_seen |= UINT64_C(1) << (b->slots.data[i].xcc % 64);
		if (!wave_from_words(&t->words, t->layout, words, n, &b->slots.data[i], &w))
			continue;
		w.id = waves.len + 1;
		if (!r->slots) { // these can be read when they are asked for
			w.sgprs.wave = w.vgprs.wave = w.id;
			w.acc_vgprs.wave = w.layout->numbers[NUMBER_ACC_UNIT] ? w.id : 0;
		}
		vec_push(&waves, w);
	}
	r->waves = arena_copy(&t->arena, waves.data, waves.len * sizeof(*r->waves));
	r->n = waves.len;
	if (!r->slots) { // ids of waves are those of the last list of all
		gprs_forget(t);
		t->waves = r->waves;
		t->nwaves = waves.len;
	}
	units_take(b, r);
	r->answer = b->late ? ANSWER_TIMED_OUT : read ? ANSWER_GIVEN : ANSWER_REFUSED;
	if (read && failed)
		text_printf(&t->problems, "%zu of %zu wave slots could not be read\n", failed, b->slots.len);
}

// Registers of waves. One child reads all blocks of a wave, and where many waves are wanted those of the next ones too: a child costs more
// than what it reads.

enum { LANES_MOST = 64, GPRS_MOST = 1024, AHEAD_MOST = 16, LATE_MOST = 200 };

uint64_t debugfs_gpr_position(const struct wave_slot *s, bool vector, unsigned lane)
{
	return (uint64_t)(s->se & 0xff) << 12 | (uint64_t)(s->sh & 0xff) << 20 | (uint64_t)(s->cu & 0xff) << 28 |
	       (uint64_t)(s->slot & 0xff) << 36 | (uint64_t)(s->simd & 0xff) << 44 | (uint64_t)(lane & 0xff) << 52 |
	       (uint64_t)!vector << 60;
}

static size_t words_of(const struct wave_block *b) { return b->address / 4 + b->count; }

static bool block_possible(const struct wave_block *b, unsigned lanes)
{
	return lanes <= LANES_MOST && b->count <= GPRS_MOST && b->address / 4 <= GPRS_MOST - b->count;
}

static void plan_block(struct batch *b, const struct wave *w, const struct wave_block *block, unsigned lanes)
{
	struct silicon *t = b->t;
	struct wave_slot asked = wave_slot_asked(&t->words, &w->slot);
	const size_t size = 4 * words_of(block);
	const char *gpr = silicon_file(t, &b->arena, "amdgpu_gpr");
	const char *gprwave = silicon_file(t, &b->arena, "amdgpu_gprwave");
	vec_push(&t->gprs.blocks, ((struct gpr_block){ w->id, words_of(block), block->vector, lanes, b->probes.len }));
	for (unsigned lane = 0; lane < lanes; lane++) {
		uint64_t at = debugfs_gpr_position(&asked, block->vector, lane);
		struct probe p = { .kind = PROBE_READ, .path = gpr, .offset = at, .size = size };
		if (w->slot.xcc) {
			struct gprwave_state *s = gprwave_of(&b->arena, &asked);
			s->gpr_or_wave = 1;
			s->thread = lane;
			s->vgpr_or_sgpr = block->vector;
			p = gprwave_probe(gprwave, s, size);
		}
		batch_add(b, p);
	}
}

/** Whether a block was read: not where the GPU might have switched itself off by then. */
static bool gprs_tried(const struct silicon *t, const struct gpr_block *b)
{
	const struct batch *read = &t->gprs.batch;
	return read->late || (read->probes.data[b->probe].end != PROBE_NOT_MADE && gate_held(read, b->guard));
}

/** The block that holds what is asked for; NULL: it is not planned. */
static const struct gpr_block *gprs_find(const struct silicon *t, const struct request *r)
{
	return list_find(t->gprs.blocks.data, t->gprs.blocks.len, b,
			 b->wave == r->block->wave && b->vector == r->block->vector && b->lanes == r->lanes &&
				 b->words >= words_of(r->block));
}

/** Of each register the lanes, as in a save area. */
static bool gprs_take(const struct batch *b, size_t at, const struct request *r)
{
	const size_t first = r->block->address / 4;
	for (unsigned lane = 0; lane < r->lanes; lane++) {
		const struct probe *p = &b->probes.data[at + lane];
		if (p->end != PROBE_GOOD || p->n < 4 * words_of(r->block))
			return false;
		for (size_t i = 0; i < r->block->count; i++)
			((uint32_t *)r->to)[i * r->lanes + lane] = get_u32(p->data + 4 * (first + i));
	}
	return true;
}

void gprs_forget(struct silicon *t)
{
	batch_free(&t->gprs.batch);
	vec_free(&t->gprs.blocks);
	t->gprs = (struct gprs_read){ 0 };
}

/** The blocks since the last look at the gate are valid if the next look finds it open, too. */
static void guard_blocks(struct silicon *t)
{
	const size_t at = gate_guard(&t->gprs.batch);
	for (size_t i = t->gprs.blocks.len; i && !t->gprs.blocks.data[i - 1].guard; i--)
		t->gprs.blocks.data[i - 1].guard = at;
}

/** Before each wave there is a look at the gate, and one behind the last. Where it was shut the rest is read later, when the gate was opened again. */
static void read_from(struct silicon *t, const struct request *r)
{
	struct batch *b = &t->gprs.batch;
	const size_t first = r->block->wave - 1, most = t->target.all_registers ? AHEAD_MOST : 1;
	gprs_forget(t);
	b->t = t;
	for (size_t i = first; i < t->nwaves && i - first < most; i++) {
		// The accumulation registers lie behind the others of a lane: who reads them has read those.
		const struct wave *w = &t->waves[i];
		guard_blocks(t);
		if (w->sgprs.count && block_possible(&w->sgprs, 1))
			plan_block(b, w, &w->sgprs, 1);
		if (w->acc_vgprs.wave && w->acc_vgprs.count && block_possible(&w->acc_vgprs, w->lanes))
			plan_block(b, w, &w->acc_vgprs, w->lanes);
		else if (w->vgprs.count && !w->no_vgprs && block_possible(&w->vgprs, w->lanes))
			plan_block(b, w, &w->vgprs, w->lanes);
	}
	if (!gprs_find(t, r)) { // a part of a wave in another form than its list says
		gprs_forget(t);
		b->t = t;
		guard_blocks(t);
		plan_block(b, &t->waves[first], r->block, r->lanes);
	}
	guard_blocks(t);
	batch_run(b, SILICON_LOOK_MS);
}

void wave_registers_answer(struct silicon *t, struct request *r)
{
	const struct wave_block *k = r->block;
	r->answer = ANSWER_ABSENT;
	if (!k->wave || k->wave > t->nwaves || !block_possible(k, r->lanes) || r->size != (size_t)k->count * r->lanes * 4)
		return;
	const struct gpr_block *have = gprs_find(t, r);
	// On a busy machine the gate may be shut again before the reader has the processor.
	while (!(have && gprs_tried(t, have)) && t->late < LATE_MOST) {
		gate_pass(t, NULL);
		r->answer = t->gate.stuck ? ANSWER_TIMED_OUT : ANSWER_REFUSED;
		if (!t->gate.open)
			return;
		read_from(t, r);
		have = gprs_find(t, r);
		t->late += !gprs_tried(t, have);
	}
	if (!have)
		return;
	const struct batch *b = &t->gprs.batch;
	r->answer = gprs_take(b, have->probe, r) ? ANSWER_GIVEN : b->late ? ANSWER_TIMED_OUT : ANSWER_REFUSED;
}

// --- The driver's answers about waves: places and words ---

enum { NO_SUCH_UNIT = 0xbebebeef, ALL_ONES = 0xffffffff };

bool wave_words_of(const struct know *k, struct str gfx, struct wave_words *ret)
{
	const struct know_wave_words *b = wave_words_block(k, gfx);
	if (!b)
		return false;
	*ret = (struct wave_words){ .type = (unsigned)b->type,
				    .simds = (unsigned)b->simds,
				    .slots = (unsigned)b->slots,
				    .wgp = b->wgp,
				    .always_on = b->always_on };
	for (const struct know_list *w = b->words; w && ret->n + 1 < WAVE_WORDS_MOST; w = w->next)
		ret->names[ret->n++] = w->text;
	return true;
}

struct wave_slot wave_slot_asked(const struct wave_words *w, const struct wave_slot *s)
{
	struct wave_slot asked = *s;
	if (w->wgp) {
		asked.cu = s->cu << 2 | s->simd;
		asked.simd = 0;
	}
	return asked;
}

static uint32_t silicon_waves_get(const struct wave *w, enum layout_bits which)
{
	return layout_value(&w->layout->bits[which], w->hwregs, w->ttmps);
}

/** How many registers it has. LDS cannot be read. */
static void silicon_waves_measure(struct wave *w)
{
	const uint64_t *n = w->layout->numbers;
	bool narrow = w->layout->bits[LAYOUT_WAVE64].of != BITS_NONE && !silicon_waves_get(w, LAYOUT_WAVE64);
	w->lanes = narrow ? 32 : 64;
	uint64_t unit = narrow && n[NUMBER_VGPR_UNIT_32] ? n[NUMBER_VGPR_UNIT_32] : n[NUMBER_VGPR_UNIT];
	uint64_t both = n[NUMBER_ACC_UNIT] ? (silicon_waves_get(w, LAYOUT_ACCS) + 1ull) * n[NUMBER_ACC_UNIT] : 0;
	w->vgprs.count = (unsigned)((silicon_waves_get(w, LAYOUT_VGPRS) + 1ull) * unit);
	w->vgprs.vector = true;
	w->acc_vgprs.vector = true;
	w->acc_vgprs.count = n[NUMBER_ACC_LIKE_VGPR] ? w->vgprs.count :
			     both > w->vgprs.count   ? (unsigned)both - w->vgprs.count :
						       0;
	w->acc_vgprs.address = 4ull * w->vgprs.count;
	w->sgprs.count = (unsigned)(n[NUMBER_SGPRS] ? n[NUMBER_SGPRS] :
						      (silicon_waves_get(w, LAYOUT_SGPRS) + 1ull) * n[NUMBER_SGPR_UNIT]);
	w->lds.unread = true;
	w->lds.count =
		(unsigned)(silicon_waves_get(w, LAYOUT_LDS_WHOLE) ? n[NUMBER_LDS_WHOLE] :
								    silicon_waves_get(w, LAYOUT_LDS) * n[NUMBER_LDS_UNIT]);
}

bool wave_from_words(const struct wave_words *w, const struct wave_layout *l, const uint32_t *words, size_t n,
		     const struct wave_slot *slot, struct wave *ret)
{
	*ret = (struct wave){ .layout = l, .slot = *slot, .xcc = slot->xcc, .se = slot->se };
	if (n < w->n + 1 || words[0] != w->type || words[1] == NO_SUCH_UNIT || words[1] == ALL_ONES)
		return false;
	memcpy(ret->hwregs, words + 1, l->nregisters * sizeof(*words));
	if (!silicon_waves_get(ret, LAYOUT_VALID))
		return false;
	silicon_waves_measure(ret);
	// A wave that runs may have old flags of exceptions; they count where it was stopped.
	ret->halted = silicon_waves_get(ret, LAYOUT_HALTED);
	ret->fatal_halt = silicon_waves_get(ret, LAYOUT_FATAL_HALT);
	ret->idle = silicon_waves_get(ret, LAYOUT_IDLE);
	ret->in_trap = silicon_waves_get(ret, LAYOUT_IN_TRAP);
	ret->trap_pending = silicon_waves_get(ret, LAYOUT_TRAP_PENDING);
	ret->barrier_known = ret->layout->bits[LAYOUT_IN_BARRIER].of != BITS_NONE;
	ret->in_barrier = silicon_waves_get(ret, LAYOUT_IN_BARRIER);
	ret->no_vgprs = silicon_waves_get(ret, LAYOUT_NO_VGPRS);
	if (ret->halted || ret->fatal_halt || ret->in_trap || ret->trap_pending)
		ret->stop_reasons = layout_stop_reasons(ret->layout, ret->hwregs, ret->ttmps);
	if (ret->fatal_halt)
		ret->stop_reasons |= 1u << STOP_FATAL_HALT;
	ret->pc = ret->hwregs[l->pc_lo] | (uint64_t)ret->hwregs[l->pc_hi] << 32;
	ret->at = ret->pc;
	ret->exec = ret->hwregs[l->exec_lo] | (ret->lanes == 32 ? 0 : (uint64_t)ret->hwregs[l->exec_hi] << 32);
	ret->slot.known = true;
	ret->slot.vmid = silicon_waves_get(ret, LAYOUT_VMID);
	ret->slot.me = silicon_waves_get(ret, LAYOUT_ME);
	ret->slot.pipe = silicon_waves_get(ret, LAYOUT_PIPE);
	ret->slot.queue = silicon_waves_get(ret, LAYOUT_QUEUE);
	return true;
}
