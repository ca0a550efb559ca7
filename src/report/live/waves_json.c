#include "base/cleanup.h"
#include "evidence/waves/wave_code.h"
#include "report/live/waves.h"

static struct str gfx_of(const struct listing *l, const struct wave *w)
{
	return l->seen->gfx.n ? l->seen->gfx : w->queue && w->queue->agent ? w->queue->agent->gfx : (struct str){ 0 };
}

void jw_source(struct json *j, const struct where *w)
{
	jw_key(j, "source");
	if (!w->nframes) {
		jw_null(j);
		return;
	}
	jw_open(j, '{');
	jw_field(j, "file", w->frames[0].file.n ? w->frames[0].file : (struct str){ 0 });
	jw_key(j, "line");
	jw_int(j, w->frames[0].line);
	jw_close(j, '}');
}

static void jw_known_int(struct json *j, const char *key, uint64_t v, bool known)
{
	jw_key(j, key);
	if (known)
		jw_unsigned(j, v);
	else
		jw_null(j);
}

/** Registers as "0x..." strings; a block of several lanes as an array of them for each register. */
static void jw_block(struct json *j, struct target *t, const char *key, const struct wave_block *b, unsigned lanes)
{
	size_t n = (size_t)b->count * lanes;
	_cleanup_free_ uint32_t *values = mem_alloc(n * sizeof(*values) + 1);
	jw_key(j, key);
	if (!wave_registers(t, b, lanes, values)) {
		jw_null(j);
		return;
	}
	jw_open(j, '[');
	for (size_t i = 0; i < n; i++) {
		if (lanes > 1 && i % lanes == 0)
			jw_open(j, '[');
		jw_hex(j, values[i]);
		if (lanes > 1 && i % lanes == lanes - 1)
			jw_close(j, ']');
	}
	jw_close(j, ']');
}

/** Of each lane the address that it accesses with the instruction at the pc. */
static void jw_addresses(struct json *j, struct listing *l, size_t i)
{
	struct wave w = l->waves[i];
	struct arena a = { 0 };
	struct wave_code code = { .know = l->look->know, .where = l->where[i], .wave = &w };
	struct lane_address lanes[MEANING_LANES];
	bool access = wave_code_accesses(&code); // else no register is needed
	if (access)
		wave_read_registers(l->look->target, &a, &w);
	size_t n = access ? wave_code_addresses(&code, lanes) : 0, at = 0;
	jw_key(j, "effective_addresses");
	if (!n) {
		jw_null(j);
	} else {
		jw_open(j, '[');
		for (unsigned lane = 0; lane < w.lanes; lane++)
			at < n &&lanes[at].lane == lane ? jw_hex(j, lanes[at++].address) : jw_null(j);
		jw_close(j, ']');
	}
	vec_free(&w.registers);
	arena_free(&a);
}

static void jw_registers(struct json *j, struct target *t, const struct wave *w)
{
	struct wave_block words = { .address = w->lds.address, .count = w->lds.count / 4 };
	jw_key(j, "hardware_registers");
	jw_open(j, '{');
	for (size_t i = 0; w->layout && i < w->layout->nregisters; i++) {
		char name[32];
		str_copy(name, sizeof(name), w->layout->registers[i]);
		jw_key(j, name);
		jw_hex(j, w->hwregs[i]);
	}
	jw_close(j, '}');
	jw_block(j, t, "sgprs", &w->sgprs, 1);
	if (w->no_vgprs) {
		jw_key(j, "vgprs");
		jw_null(j);
	} else {
		jw_block(j, t, "vgprs", &w->vgprs, w->lanes);
	}
	jw_block(j, t, "shared_vgprs", &w->shared_vgprs, SHARED_LANES);
	jw_block(j, t, "acc_vgprs", &w->acc_vgprs, w->lanes);
	jw_block(j, t, "lds", &words, 1);
}

static void jw_stop_reasons(struct json *j, uint32_t reasons)
{
	jw_key(j, "stop_reasons");
	jw_open(j, '[');
	for (int i = 0; i < STOP_REASONS; i++)
		if (reasons >> i & 1)
			jw_str(j, str_z(stop_reason_name((enum stop_reason)i)));
	jw_close(j, ']');
}

static void jw_where(struct json *j, struct listing *l, size_t i)
{
	const struct where *at = l->where[i];
	jw_field(j, "kernel_name", l->kernels[i]);
	jw_field(j, "function", at->name);
	jw_key(j, "offset");
	if (at->function)
		jw_hex(j, at->offset);
	else
		jw_null(j);
	jw_source(j, at);
	jw_field(j, "instruction", at->here < at->ninstructions ? at->instructions[at->here].text : (struct str){ 0 });
	jw_field(j, "waits_for", wave_waits(&l->arena, l->look->know, &l->waves[i], at));
}

/** Where it is on the GPU. */
static void jw_slot(struct json *j, const struct wave_slot *s)
{
	jw_key(j, "slot");
	if (!s->known) {
		jw_null(j);
		return;
	}
	jw_open(j, '{');
	jw_number(j, "sh", s->sh);
	jw_number(j, "cu", s->cu);
	jw_number(j, "simd", s->simd);
	jw_number(j, "slot", s->slot);
	jw_number(j, "vmid", s->vmid);
	jw_number(j, "me", s->me);
	jw_number(j, "pipe", s->pipe);
	jw_number(j, "queue", s->queue);
	jw_close(j, '}');
}

static void jw_state(struct json *j, const struct listing *l, size_t i)
{
	const uint32_t *trap = wave_trap_status(&l->waves[i]);
	jw_field(j, "state", wave_state(&l->waves[i]));
	jw_key(j, "moved");
	l->seen->moved ? jw_bool(j, l->seen->moved[i]) : jw_null(j);
	jw_key(j, "trap_status");
	trap ? jw_hex(j, *trap) : jw_null(j);
}

static void jw_wave(struct json *j, struct listing *l, size_t i)
{
	const struct wave *w = &l->waves[i];
	jw_open(j, '{');
	jw_known_int(j, "id", l->first + w->id, true);
	jw_field(j, "gpu", l->seen->pci.n ? l->seen->pci : (struct str){ 0 });
	jw_known_int(j, "queue", w->queue ? w->queue->id : 0, w->queue);
	jw_field(j, "gfx", gfx_of(l, w));
	jw_known_int(j, "xcc", w->xcc, true);
	jw_known_int(j, "se", w->se, true);
	jw_slot(j, &w->slot);
	jw_state(j, l, i);
	jw_key(j, "pc");
	jw_hex(j, w->pc);
	jw_key(j, "exec");
	jw_hex(j, w->exec);
	jw_known_int(j, "lanes", w->lanes, true);
	if (w->placed) {
		jw_three(j, "workgroup", w->workgroup);
	} else {
		jw_key(j, "workgroup");
		jw_null(j);
	}
	jw_known_int(j, "wave_in_group", w->wave_in_group, w->placed);
	jw_known_int(j, "packet", w->packet, w->dispatched);
	jw_key(j, "stopped");
	jw_bool(j, w->stopped);
	jw_stop_reasons(j, w->stop_reasons);
	jw_where(j, l, i);
	jw_known_int(j, "vgpr_count", w->vgprs.count, true);
	jw_known_int(j, "acc_vgpr_count", w->acc_vgprs.count, true);
	jw_known_int(j, "shared_vgpr_count", w->shared_vgprs.count, true);
	jw_known_int(j, "sgpr_count", w->sgprs.count, true);
	jw_known_int(j, "lds_bytes", w->lds.count, true);
	struct dispatch d;
	jw_key(j, "dispatch");
	if (wave_dispatch(l->look->target, w, &d))
		jw_dispatch(j, l->look, &d);
	else
		jw_null(j);
	if (l->look->options->registers) {
		jw_registers(j, l->look->target, w);
		jw_addresses(j, l, i);
	}
	jw_close(j, '}');
}

static void jw_gpu(struct json *j, const struct waves_seen *s)
{
	jw_open(j, '{');
	jw_field(j, "pci", s->pci);
	jw_field(j, "gfx", s->gfx.n ? s->gfx : (struct str){ 0 });
	jw_number(j, "waves", s->n);
	jw_field(j, "why_not", s->why_not.n ? s->why_not : (struct str){ 0 });
	jw_close(j, '}');
}

void waves_json(struct listing *l, size_t n, FILE *out)
{
	struct json j = { .out = out };
	jw_open(&j, '{');
	jw_field(&j, "schema", S("unhang/waves/1"));
	jw_field(&j, "target", n == 1 ? l->look->target->name : S("this machine"));
	jw_key(&j, "gpus");
	jw_open(&j, '[');
	for (size_t i = 0; i < n; i++)
		if (l[i].seen->pci.n)
			jw_gpu(&j, l[i].seen);
	jw_close(&j, ']');
	jw_key(&j, "waves");
	jw_open(&j, '[');
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < l[i].n; k++)
			jw_wave(&j, &l[i], k);
	jw_close(&j, ']');
	jw_close(&j, '}');
}
