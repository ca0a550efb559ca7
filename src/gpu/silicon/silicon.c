#include "gpu/silicon/silicon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/silicon/parts.h"

// --- batches ---

void batch_run(struct batch *b, int milliseconds)
{
	struct silicon *t = b->t;
	const struct probe_stuck *stuck = &b->stuck;
	probe_run(&b->arena, b->probes.data, b->probes.len, milliseconds, &b->stuck, &t->count);
	b->late = stuck->is || stuck->late;
	t->debugfs_dead |= b->late;
	if (!stuck->is || t->stuck.is)
		return;
	t->stuck = (struct probe_stuck){ .is = true,
					 .uninterruptible = stuck->uninterruptible,
					 .at = arena_str(&t->arena, stuck->at),
					 .stack = arena_str(&t->arena, stuck->stack),
					 .wchan = arena_str(&t->arena, stuck->wchan) };
}

void batch_free(struct batch *b)
{
	vec_free(&b->probes);
	vec_free(&b->slots);
	vec_free(&b->slot_probes);
	vec_free(&b->idle_probes);
	arena_free(&b->arena);
}

enum answer batch_answer(const struct batch *b, const struct probe *p)
{
	if (p->end == PROBE_GOOD)
		return ANSWER_GIVEN;
	if (p->end == PROBE_STUCK || (p->end == PROBE_NOT_MADE && b->late))
		return ANSWER_TIMED_OUT;
	return p->end == PROBE_FAILED && p->error == ENOENT ? ANSWER_ABSENT : ANSWER_REFUSED;
}

const char *silicon_file(const struct silicon *t, struct arena *a, const char *name)
{
	struct str d = t->device->debugfs;
	return d.n ? arena_z(a, arena_printf(a, STR_FMT "/%s", STR_ARG(d), name)) : NULL;
}

void silicon_problem(struct silicon *t, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	text_vprintf(&t->problems, format, ap);
	va_end(ap);
	text_add(&t->problems, S("\n"));
}

// --- requests ---

static void shut_out(struct silicon *t, struct wanted_list *wanted, struct request *waves)
{
	enum answer a = t->gate.stuck || t->debugfs_dead ? ANSWER_TIMED_OUT : ANSWER_REFUSED;
	for (size_t i = 0; i < wanted->n; i++)
		if (wanted->data[i].way < WAYS)
			wanted->data[i].request->answer = a;
	if (waves)
		waves->answer = a;
}

/** Registers and waves through debugfs; again where a file was refused and another serves as well. */
static void look(struct silicon *t, struct wanted_list *wanted, struct request *waves)
{
	while ((registers_left(wanted, false) || waves) && t->gate.open && !t->debugfs_dead) {
		struct batch b = { .t = t, .waves = waves };
		gate_guard(&b);
		registers_plan(&b, wanted, false);
		if (waves)
			waves_plan(&b);
		batch_run(&b, SILICON_LOOK_MS);
		registers_take(&b, wanted, false);
		if (waves && !waves_again(&b)) {
			waves_take(&b, waves);
			waves = NULL;
		}
		if (b.late)
			t->gate = (struct gate){ .stuck = true, .why_not = S("reading it did not return") };
		batch_free(&b);
	}
	shut_out(t, wanted, waves);
}

void silicon_registers(struct silicon *t, struct request *requests, size_t n)
{
	struct arena a = { 0 };
	struct wanted_list wanted = registers_wanted(t, &a, requests, n);
	struct request *waves = NULL;
	const struct shader_array *s = &t->device->shaders;
	for (size_t i = 0; i < n; i++) {
		if (requests[i].kind != REQUEST_WAVES)
			continue;
		requests[i].answer = ANSWER_ABSENT;
		if (t->words_known && s->ses && s->shs_per_se && s->cus_per_sh)
			waves = &requests[i];
	}
	if (wanted.n || waves) {
		gate_pass(t, &wanted);
		look(t, &wanted, waves);
	}
	arena_free(&a);
}

static void silicon_ask(struct target *target, struct request *requests, size_t n)
{
	struct silicon *t = (struct silicon *)target;
	silicon_registers(t, requests, n);
	memory_answer(t, requests, n);
	for (size_t i = 0; i < n; i++) {
		struct request *r = &requests[i];
		switch (r->kind) {
		case REQUEST_REGISTER:
		case REQUEST_WAVES:
		case REQUEST_MEMORY:
			break;
		case REQUEST_AGENTS:
			r->agents = &t->agent;
			r->n = 1;
			r->answer = ANSWER_GIVEN;
			break;
		case REQUEST_WAVE_REGISTERS:
			wave_registers_answer(t, r);
			break;
		case REQUEST_RINGS:
			rings_answer(t, r);
			break;
		case REQUEST_FENCES:
			fences_answer(t, r);
			break;
		case REQUEST_QUEUES:
		case REQUEST_CODE:
		case REQUEST_MAP:
			r->answer = ANSWER_ABSENT;
			break;
		}
	}
}

static struct str silicon_problems(struct target *target) { return text_str(&((struct silicon *)target)->problems); }

static void silicon_close(struct target *target)
{
	struct silicon *t = (struct silicon *)target;
	gprs_forget(t);
	text_free(&t->problems);
	arena_free(&t->arena);
	free(t);
}

struct gate target_gate(struct target *t)
{
	gate_pass((struct silicon *)t, NULL);
	return ((struct silicon *)t)->gate;
}

const struct probe_stuck *target_stuck(const struct target *t)
{
	const struct silicon *s = (const struct silicon *)t;
	return s->stuck.is ? &s->stuck : NULL;
}

struct probe_count target_count(const struct target *t) { return ((const struct silicon *)t)->count; }
const struct device *target_device_of(const struct target *t) { return ((const struct silicon *)t)->device; }

// --- opening ---

static struct agent agent_of(const struct silicon *t)
{
	const struct device *d = t->device;
	struct str rest = d->pci, bus, slot;
	uint64_t b = 0, s = 0, f = 0;
	str_split(&rest, ':');
	bus = str_split(&rest, ':');
	slot = str_split(&rest, '.');
	if (!str_hex(bus, &b) || !str_hex(slot, &s) || !str_hex(rest, &f))
		b = s = f = 0;
	return (struct agent){ .gpu_id = d->gpu_id > 0 ? (uint32_t)d->gpu_id : 0,
			       .location = (uint32_t)(b << 8 | s << 3 | f),
			       .vendor = d->vendor,
			       .device = d->device,
			       .revision = d->revision,
			       .gfx = d->gfx,
			       .xccs = d->shaders.xccs ? d->shaders.xccs : 1,
			       .simds = t->words.simds,
			       .waves_per_simd = t->words.slots };
}

struct target *target_device(const struct know *k, const struct device *d)
{
	struct silicon *t = mem_alloc(sizeof(*t));
	struct device_register status = { 0 };
	*t = (struct silicon){ .know = k, .device = d, .count.patience = d->patience };
	t->target = (struct target){
		.kind = "gpu", .name = d->pci, .ask = silicon_ask, .problems = silicon_problems, .close = silicon_close
	};
	_cleanup_error_ struct uh_error *err = layout_for_words(&t->arena, k, d->gfx, &t->layout);
	t->words_known = t->layout && wave_words_of(k, d->gfx, &t->words);
	if (err)
		silicon_problem(t, "%s", uh_error_message(err));
	if (device_registers(d, S("gc.GRBM_STATUS"), &status, 1))
		t->status_address = status.address;
	if (d->render >= 0)
		t->render = arena_z(&t->arena, arena_printf(&t->arena, "/dev/dri/renderD%d", d->render));
	t->runtime_status = arena_z(&t->arena, arena_printf(&t->arena, STR_FMT "/power/runtime_status", STR_ARG(d->sysfs)));
	t->config = arena_z(&t->arena, arena_printf(&t->arena, STR_FMT "/config", STR_ARG(d->sysfs)));
	t->gfxoff = silicon_file(t, &t->arena, "amdgpu_gfxoff");
	t->level = arena_z(&t->arena, arena_printf(&t->arena, STR_FMT "/power_dpm_force_performance_level", STR_ARG(d->sysfs)));
	t->agent = agent_of(t);
	return &t->target;
}
