// A live GPU as a target: its batches, its requests, and the gate, which says when it is safe to look.
#include "gpu/silicon/silicon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/silicon/target.h"
#include "source/tape/tape.h"

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
					 .pid = stuck->pid,
					 .since = stuck->since,
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
	vec_free(&b->idle_xccs);
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
	return d.n ? arena_printf(a, STR_FMT "/%s", STR_ARG(d), name).p : NULL;
}

// --- requests ---

/** Registers and waves through debugfs; again where a file was refused and another serves as well. */
static void look_by_debugfs(struct silicon *t, struct wanted_list *wanted, struct request *waves)
{
	while ((registers_left(wanted, false) || waves) && t->gate.open && !t->debugfs_dead) {
		_cleanup_batch_ struct batch b = { .t = t, .waves = waves };
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
	}
	// What was not read, as the gate was shut or a read did not return.
	enum answer a = t->gate.stuck || t->debugfs_dead ? ANSWER_TIMED_OUT : ANSWER_REFUSED;
	for (size_t i = 0; i < wanted->n; i++)
		if (wanted->data[i].way < WAYS)
			wanted->data[i].request->answer = a;
	if (waves)
		waves->answer = a;
}

void silicon_registers(struct silicon *t, struct request *requests, size_t n)
{
	_cleanup_arena_ struct arena a = { 0 };
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
		look_by_debugfs(t, &wanted, waves);
	}
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

bool target_asleep(const struct target *t) { return ((const struct silicon *)t)->gate.asleep; }

const struct probe_stuck *target_stuck(const struct target *t)
{
	const struct silicon *s = (const struct silicon *)t;
	return s->stuck.is ? &s->stuck : NULL;
}

struct probe_count target_count(const struct target *t) { return ((const struct silicon *)t)->count; }
const struct device *target_device_of(const struct target *t) { return ((const struct silicon *)t)->device; }

// --- opening ---

struct target *target_device(const struct know *k, const struct device *d)
{
	struct silicon *t = mem_alloc(sizeof(*t));
	struct arena *a = &t->arena;
	struct device_register status = { 0 };
	unsigned domain, location = 0;
	*t = (struct silicon){ .know = k, .device = d, .count.patience = d->patience };
	t->target = (struct target){
		.kind = "gpu", .name = d->pci, .ask = silicon_ask, .problems = silicon_problems, .close = silicon_close
	};
	_cleanup_error_ struct uh_error *err = layout_for_words(a, k, d->gfx, &t->layout);
	t->words_known = t->layout && wave_words_of(k, d->gfx, &t->words);
	if (err)
		text_printf(&t->problems, "%s\n", uh_error_message(err));
	if (device_registers(d, S("gc.GRBM_STATUS"), &status, 1))
		t->status_address = status.address;
	if (d->render >= 0)
		t->render = arena_printf(a, "/dev/dri/renderD%d", d->render).p;
	t->runtime_status = arena_printf(a, STR_FMT "/power/runtime_status", STR_ARG(d->sysfs)).p;
	t->config = arena_printf(a, STR_FMT "/config", STR_ARG(d->sysfs)).p;
	t->gfxoff = silicon_file(t, a, "amdgpu_gfxoff");
	t->level = arena_printf(a, STR_FMT "/power_dpm_force_performance_level", STR_ARG(d->sysfs)).p;
	pci_numbers(d->pci, &domain, &location);
	t->agent = (struct agent){ .gpu_id = d->gpu_id > 0 ? (uint32_t)d->gpu_id : 0,
				   .location = location,
				   .vendor = d->vendor,
				   .device = d->device,
				   .revision = d->revision,
				   .gfx = d->gfx,
				   .xccs = d->shaders.xccs ? d->shaders.xccs : 1,
				   .simds = t->words.simds,
				   .waves_per_simd = t->words.slots };
	return &t->target;
}

// --- the gate ---
//
// When it is safe to look. The order matters: reads that wake the GPU, wait for a reset or touch a register come only after the reads that
// tell whether they are safe.

static const struct str ones = { "\xff\xff\xff\xff", 4 };
static const struct str off_the_bus = S("it is off the bus: its configuration space reads all ones");
static const struct str gfxoff_allowed = { "\x01\0\0\0", 4 }, gfxoff_forbidden = { "\0\0\0\0", 4 };

struct str stuck_in(const struct know *k, const struct probe_stuck *s)
{
	static const char prefix[] = "blocked-";
	const struct str texts[] = { s->stack, s->wchan, s->at };
	for (size_t t = 0; t < ARRAY_SIZE(texts); t++) {
		str_each (line, texts[t], '\n') {
			const struct know_row *in =
				list_find_of(k->frames.data, k->frames.len, p,
					     str_starts(p->head.id, str_z(prefix)) && str_find(line, p->value) >= 0);
			if (in)
				return str_from(in->head.id, sizeof(prefix) - 1);
		}
	}
	return S("unknown");
}

struct gate_probes {
	size_t runtime, config, query, gfxoff; // SIZE_MAX: it was not asked
	size_t status;                         // byte of the query's answer at which GRBM_STATUS is
};

static const struct probe *made(const struct batch *b, size_t i) { return i < b->probes.len ? &b->probes.data[i] : NULL; }

static bool says_at(const struct probe *p, size_t at, struct str bytes)
{
	return p && p->end == PROBE_GOOD && p->n >= at && p->n - at >= bytes.n && !memcmp(p->data + at, bytes.p, bytes.n);
}

static bool says(const struct probe *p, struct str bytes) { return says_at(p, 0, bytes); }

static bool silicon_failed(const struct probe *p, int error) { return p && p->end == PROBE_FAILED && p->error == error; }

/** What every look begins with: is it awake, is it on the bus? */
static struct gate_probes gate_begin(struct batch *b)
{
	const struct silicon *t = b->t;
	struct gate_probes at = { .query = SIZE_MAX, .gfxoff = SIZE_MAX };
	at.runtime = batch_add(
		b,
		(struct probe){
			.kind = PROBE_READ, .path = t->runtime_status, .size = 64, .unless = S("suspend"), .skips = SIZE_MAX });
	at.config = batch_add(
		b, (struct probe){ .kind = PROBE_READ, .path = t->config, .size = 4, .unless = ones, .skips = SIZE_MAX });
	return at;
}

static struct gate_probes gate_plan(struct batch *b, struct wanted_list *wanted)
{
	struct silicon *t = b->t;
	struct gate_probes at = gate_begin(b);
	if (wanted)
		registers_plan(b, wanted, true);
	// Where GRBM_STATUS is wanted anyway it is not read twice.
	const struct wanted *status = wanted ? registers_planned(wanted, t->status_address) : NULL;
	if (status) {
		at.query = status->probe;
		at.status = 4 * status->word;
	} else if (t->render && t->status_address && !t->broken[WAY_RENDER]) {
		at.query = batch_add(b, registers_query(b, t->status_address, 1));
	}
	if (at.query != SIZE_MAX) {
		b->probes.data[at.query].unless = ones;
		b->probes.data[at.query].unless_at = at.status;
		b->probes.data[at.query].skips = SIZE_MAX;
	}
	if (t->gfxoff)
		at.gfxoff = batch_add(b, (struct probe){ .kind = PROBE_READ, .path = t->gfxoff, .size = 4 });
	return at;
}

/** The driver refuses to tell it in a reset, and while the system sleeps; else it has it in memory. */
static size_t add_level(struct batch *b)
{
	return batch_add(
		b,
		(struct probe){ .kind = PROBE_READ, .path = b->t->level, .size = 64, .unless_fails = true, .skips = SIZE_MAX });
}

static size_t add_gfxoff(struct batch *b)
{
	return batch_add(
		b, (struct probe){
			   .kind = PROBE_READ, .path = b->t->gfxoff, .size = 4, .unless = gfxoff_allowed, .skips = SIZE_MAX });
}

size_t gate_guard(struct batch *b)
{
	if (b->t->by_debugfs) // it never goes into GFXOFF
		return add_level(b);
	const size_t at = add_gfxoff(b);
	b->probes.data[at].within = at ? SILICON_BATCH_MS : 0; // what a batch begins with is always tried
	return at;
}

bool gate_held(const struct batch *b, size_t guard)
{
	const struct probe *p = &b->probes.data[guard];
	return p->end == PROBE_GOOD &&
	       (b->t->by_debugfs || p->n < gfxoff_allowed.n || memcmp(p->data, gfxoff_allowed.p, gfxoff_allowed.n) != 0);
}

/** What a look that did not return waits for. If its stack does not tell, two files do that need no reset lock. */
static struct gate judge_stuck(struct silicon *t, const struct probe_stuck *stuck)
{
	struct gate g = { .stuck = true };
	_cleanup_batch_ struct batch b = { .t = t };
	if (!stuck->is) {
		g.why_not = S("files that answered late used up the time for this look");
		return g;
	}
	struct str in = stuck_in(t->know, stuck);
	g.reset = str_is(in, "reset");
	g.gfxoff = str_is(in, "smu");
	if (t->gfxoff)
		batch_add(&b, (struct probe){ .kind = PROBE_READ, .path = t->gfxoff, .size = 4 });
	batch_add(&b, (struct probe){ .kind = PROBE_FILE,
				      .path = arena_printf(&b.arena, STR_FMT "/gpu_busy_percent", STR_ARG(t->device->sysfs)).p,
				      .size = 64 });
	if (str_is(in, "unknown") || str_is(in, "lock")) {
		batch_run(&b, SILICON_QUERY_MS);
		g.gfxoff = t->gfxoff && says(&b.probes.data[0], gfxoff_allowed);
		g.reset = !g.gfxoff && silicon_failed(&b.probes.data[b.probes.len - 1], EPERM);
	}
	g.why_not = g.reset  ? S("a reset is in progress: the driver holds its lock") :
		    g.gfxoff ? S("it does not wake up: the driver waits for its power controller (SMU)") :
			       arena_printf(&t->arena, "reading it did not return in %d ms (" STR_FMT ")", SILICON_QUERY_MS,
					    STR_ARG(stuck->at));
	return g;
}

/** What the answers say, the worst first: each case makes the reads of those behind it unsafe, or their answers meaningless. */
static struct gate gate_judge(struct batch *b, const struct gate_probes *at)
{
	struct silicon *t = b->t;
	const struct probe *query = made(b, at->query), *gfxoff = made(b, at->gfxoff);
	if (says(made(b, at->runtime), S("suspend")))
		return (struct gate){ .why_not = S("it is asleep (runtime_status suspended)"), .asleep = true };
	if (silicon_failed(query, ENODEV))
		return (struct gate){ .why_not = S("the driver says that it is gone"), .off_bus = true };
	if (says(made(b, at->config), ones))
		return (struct gate){ .why_not = off_the_bus, .off_bus = true };
	if (says_at(query, at->status, ones))
		return (struct gate){ .why_not = S("its registers read all ones"), .ones = true };
	if (!gfxoff && !t->device->refused.n)
		return (struct gate){ .why_not = S("debugfs is not mounted"), .refused = true };
	if (silicon_failed(gfxoff, ECANCELED))
		return (struct gate){ .why_not = S("this kernel panics when a read does not return (kernel.hung_task_panic); "
						   "UNHANG_MAY_BLOCK=1 allows it"),
				      .refused = true };
	if (!gfxoff || silicon_failed(gfxoff, EACCES) || silicon_failed(gfxoff, EPERM))
		return (struct gate){ .why_not = S("debugfs cannot be read: that needs root"), .refused = true };
	if (says(gfxoff, gfxoff_allowed)) {
		// The query holds GFXOFF off while it reads: where that fails, the graphics block did not wake up.
		const bool sleeps =
			silicon_failed(query, ETIME) || silicon_failed(query, ETIMEDOUT) || silicon_failed(query, EIO);
		return (struct gate){ .why_not = sleeps ? S("it does not wake up: the driver's query fails") :
							  S("it may switch itself off at any moment (GFXOFF is on)"),
				      .gfxoff = true,
				      .error = sleeps ? query->error : 0 };
	}
	if (!says(gfxoff, gfxoff_forbidden) && !silicon_failed(gfxoff, ENOENT))
		return (struct gate){ .why_not = arena_printf(&t->arena, "%s cannot be read: %s", gfxoff->path,
							      gfxoff->error ? strerror(gfxoff->error) :
									      "its content makes no sense"),
				      .refused = true };
	return (struct gate){ .open = true };
}

/** Who opens a render node makes the driver set up an address space and clear its page directory with a copy engine. Where debugfs can be
 * read and tells enough, nothing is made to work. false: it does not tell enough. That is so, too, where the driver may let the GPU switch
 * itself off: only the render node's query keeps it awake for what follows. */
static bool open_by_debugfs(struct silicon *t)
{
	_cleanup_batch_ struct batch b = { .t = t };
	if (!t->gfxoff || !t->status_address || t->debugfs_dead || t->broken[WAY_REGS] ||
	    !(t->words.always_on || t->device->gfxoff_masked))
		return false;
	struct gate_probes at = gate_begin(&b);
	at.gfxoff = add_gfxoff(&b);
	add_level(&b);
	at.query = batch_add(&b, registers_file(&b, t->status_address, 1));
	batch_run(&b, SILICON_LOOK_MS);
	struct gate g = gate_judge(&b, &at);
	bool read = made(&b, at.query)->end == PROBE_GOOD && made(&b, at.query)->n == sizeof(uint32_t);
	bool told = !b.late && (g.asleep || g.off_bus || (read && (g.ones || g.open)));
	if (told)
		t->gate = g;
	return told;
}

void gate_pass(struct silicon *t, struct wanted_list *wanted)
{
	bool wants = wanted && registers_left(wanted, true);
	if (t->device->off_bus) {
		t->gate = (struct gate){ .why_not = off_the_bus, .off_bus = true };
		return;
	}
	// On a virtual function the driver may turn the read of a register into a packet for KIQ or MES and wait for it, a thousand times,
	// and debugfs changes how it reaches registers: none is read, not even through the render node.
	if (t->device->guest) {
		t->gate =
			(struct gate){ .why_not = S("it is a virtual function (SR-IOV): reading registers would give the GPU's "
						    "schedulers work"),
				       .guest = true,
				       .asleep = str_starts(t->device->runtime_status, S("suspend")) };
		return;
	}
	if (t->render_dead || t->gate.off_bus ||
	    (t->gate_time && !wants && tape_now(probe_tape(&t->count)) - t->gate_time < SILICON_GATE_MS))
		return;
	t->by_debugfs = open_by_debugfs(t);
	if (wanted)
		registers_choose(t, wanted);
	if (t->by_debugfs) {
		t->gate_time = tape_now(probe_tape(&t->count));
		return;
	}
	_cleanup_batch_ struct batch b = { .t = t };
	struct gate_probes at = gate_plan(&b, wanted);
	batch_run(&b, SILICON_QUERY_MS);
	if (wanted)
		registers_take(&b, wanted, true);
	t->render_dead |= b.late;
	t->gate = b.late ? judge_stuck(t, &b.stuck) : gate_judge(&b, &at);
	if (t->gate.open && t->debugfs_dead)
		t->gate = (struct gate){ .why_not = arena_printf(&t->arena, "reading it did not return (" STR_FMT ")",
								 STR_ARG(t->stuck.at)),
					 .stuck = true };
	t->gate_time = tape_now(probe_tape(&t->count));
}
