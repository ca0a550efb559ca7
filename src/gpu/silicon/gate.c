// When it is safe to look. The order matters: reads that wake the GPU, wait for a reset or touch a register come only after the reads that
// tell whether they are safe.
#include <errno.h>
#include <stdlib.h>

#include "gpu/silicon/parts.h"
#include "source/tape/tape.h"

static const struct str ones = { "\xff\xff\xff\xff", 4 };
static const struct str gfxoff_allowed = { "\x01\0\0\0", 4 }, gfxoff_forbidden = { "\0\0\0\0", 4 };

struct str stuck_in(const struct know *k, const struct probe_stuck *s)
{
	static const char prefix[] = "blocked-";
	const struct str texts[] = { s->stack, s->wchan, s->at };
	for (size_t t = 0; t < sizeof(texts) / sizeof(*texts); t++) {
		struct str rest = texts[t];
		while (rest.n) {
			struct str line = str_split(&rest, '\n');
			for (size_t i = 0; i < k->frames.len; i++) {
				const struct know_row *p = k->frames.data[i];
				if (str_starts(p->head.id, str_z(prefix)) && str_find(line, p->value) >= 0)
					return str_from(p->head.id, sizeof(prefix) - 1);
			}
		}
	}
	return S("unknown");
}

struct gate_probes {
	size_t runtime, config, query, gfxoff, level; // SIZE_MAX: it was not asked
	size_t status;                                // byte of the query's answer at which GRBM_STATUS is
};

static struct gate shut(struct str why) { return (struct gate){ .why_not = why }; }

static const struct probe *made(const struct batch *b, size_t i) { return i < b->probes.len ? &b->probes.data[i] : NULL; }

static bool says_at(const struct probe *p, size_t at, struct str bytes)
{
	return p && p->end == PROBE_GOOD && p->n >= at && p->n - at >= bytes.n && !memcmp(p->data + at, bytes.p, bytes.n);
}

static bool says(const struct probe *p, struct str bytes) { return says_at(p, 0, bytes); }

static bool failed(const struct probe *p, int error) { return p && p->end == PROBE_FAILED && p->error == error; }

/** What every look begins with: is it awake, is it on the bus? */
static struct gate_probes begin(struct batch *b)
{
	const struct silicon *t = b->t;
	struct gate_probes at = { .query = SIZE_MAX, .gfxoff = SIZE_MAX, .level = SIZE_MAX };
	at.runtime = batch_add(
		b,
		(struct probe){
			.kind = PROBE_READ, .path = t->runtime_status, .size = 64, .unless = S("suspend"), .skips = SIZE_MAX });
	at.config = batch_add(
		b, (struct probe){ .kind = PROBE_READ, .path = t->config, .size = 4, .unless = ones, .skips = SIZE_MAX });
	return at;
}

static struct gate_probes plan(struct batch *b, struct wanted_list *wanted)
{
	struct silicon *t = b->t;
	struct gate_probes at = begin(b);
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

void gate_guard(struct batch *b)
{
	add_gfxoff(b);
	if (b->t->by_debugfs)
		add_level(b);
}

/** What a look that did not return waits for. If its stack does not tell, two files do that need no reset lock. */
static struct gate judge_stuck(struct silicon *t, const struct probe_stuck *stuck)
{
	struct gate g = { .stuck = true };
	struct batch b = { .t = t };
	if (!stuck->is) {
		g.why_not = S("files that did not answer used up all the time for this look");
		return g;
	}
	struct str in = stuck_in(t->know, stuck);
	g.reset = str_is(in, "reset");
	g.gfxoff = str_is(in, "smu");
	const char *busy = arena_z(&b.arena, arena_printf(&b.arena, STR_FMT "/gpu_busy_percent", STR_ARG(t->device->sysfs)));
	if (t->gfxoff)
		batch_add(&b, (struct probe){ .kind = PROBE_READ, .path = t->gfxoff, .size = 4 });
	batch_add(&b, (struct probe){ .kind = PROBE_FILE, .path = busy, .size = 64 });
	if (str_is(in, "unknown") || str_is(in, "lock")) {
		batch_run(&b, SILICON_QUERY_MS);
		g.gfxoff = t->gfxoff && says(&b.probes.data[0], gfxoff_allowed);
		g.reset = !g.gfxoff && failed(&b.probes.data[b.probes.len - 1], EPERM);
	}
	batch_free(&b);
	g.why_not = g.reset  ? S("a reset is in progress: the driver holds its lock") :
		    g.gfxoff ? S("it does not wake up: the driver waits for its power controller (SMU)") :
			       arena_printf(&t->arena, "reading it did not return in %d ms (" STR_FMT ")", SILICON_QUERY_MS,
					    STR_ARG(stuck->at));
	return g;
}

static struct gate judge(struct batch *b, const struct gate_probes *at)
{
	struct silicon *t = b->t;
	const struct probe *query = made(b, at->query), *gfxoff = made(b, at->gfxoff);
	struct gate g = { 0 };
	if (says(made(b, at->runtime), S("suspend"))) {
		g = shut(S("it is asleep (runtime_status suspended)"));
		g.asleep = true;
	} else if (says(made(b, at->config), ones) || failed(query, ENODEV)) {
		g = shut(S("it is off the bus: its configuration space reads all ones"));
		g.off_bus = true;
		if (failed(query, ENODEV))
			g.why_not = S("the driver says that it is gone");
	} else if (says_at(query, at->status, ones)) {
		g = shut(S("its registers read all ones"));
		g.ones = true;
	} else if (!gfxoff && !t->device->refused.n) {
		g = shut(S("debugfs is not mounted"));
		g.refused = true;
	} else if (failed(gfxoff, ECANCELED)) {
		g = shut(S("this kernel panics when a read does not return (kernel.hung_task_panic); UNHANG_MAY_BLOCK=1 allows "
			   "it"));
		g.refused = true;
	} else if (!gfxoff || failed(gfxoff, EACCES) || failed(gfxoff, EPERM)) {
		g = shut(S("debugfs cannot be read: that needs root"));
		g.refused = true;
	} else if (says(gfxoff, gfxoff_allowed)) {
		g = shut(S("it may switch itself off at any moment (GFXOFF is on)"));
		g.gfxoff = true;
		// The query holds GFXOFF off while it reads: where that fails, the graphics block did not wake up.
		if (failed(query, ETIME) || failed(query, ETIMEDOUT) || failed(query, EIO)) {
			g.error = query->error;
			g.why_not = S("it does not wake up: the driver's query fails");
		}
	} else if (!says(gfxoff, gfxoff_forbidden) && !failed(gfxoff, ENOENT)) {
		g = shut(arena_printf(&t->arena, "%s cannot be read: %s", gfxoff->path,
				      gfxoff->error ? strerror(gfxoff->error) : "its content makes no sense"));
		g.refused = true;
	} else {
		g.open = true;
	}
	return g;
}

/** On a virtual function the driver may turn the read of a register into a packet for KIQ or MES and wait for it, a thousand times, and
 * debugfs changes how it reaches registers: none is read, not even through the render node. */
static struct gate shut_to_guests(const struct device *d)
{
	struct gate g = shut(S("it is a virtual function (SR-IOV): reading registers would give the GPU's schedulers work"));
	g.guest = true;
	g.asleep = str_starts(d->runtime_status, S("suspend"));
	return g;
}

/** Whether the driver never lets it switch itself off: the part cannot, or the mask of features forbids it. Elsewhere only the render node's
 * query keeps it awake for what follows. */
static bool steady(const struct silicon *t) { return t->words.always_on || t->device->gfxoff_masked; }

/** Who opens a render node makes the driver set up an address space and clear its page directory with a copy engine. Where debugfs can be
 * read and tells enough, nothing is made to work. false: it does not tell enough. */
static bool open_by_debugfs(struct silicon *t)
{
	struct batch b = { .t = t };
	if (!t->gfxoff || !t->status_address || t->debugfs_dead || t->broken[WAY_REGS] || !steady(t))
		return false;
	struct gate_probes at = begin(&b);
	at.gfxoff = add_gfxoff(&b);
	at.level = add_level(&b);
	at.query = batch_add(&b, registers_file(&b, t->status_address, 1));
	batch_run(&b, SILICON_LOOK_MS);
	struct gate g = judge(&b, &at);
	bool read = made(&b, at.query)->end == PROBE_GOOD && made(&b, at.query)->n == sizeof(uint32_t);
	bool told = !b.late && (g.asleep || g.off_bus || (read && (g.ones || g.open)));
	if (told)
		t->gate = g;
	batch_free(&b);
	return told;
}

void gate_pass(struct silicon *t, struct wanted_list *wanted)
{
	bool wants = wanted && registers_left(wanted, true);
	if (t->device->off_bus) {
		t->gate = shut(S("it is off the bus: its configuration space reads all ones"));
		t->gate.off_bus = true;
		return;
	}
	if (t->device->guest) {
		t->gate = shut_to_guests(t->device);
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
	struct batch b = { .t = t };
	struct gate_probes at = plan(&b, wanted);
	batch_run(&b, SILICON_QUERY_MS);
	if (wanted)
		registers_take(&b, wanted, true);
	t->render_dead |= b.late;
	t->gate = b.late ? judge_stuck(t, &b.stuck) : judge(&b, &at);
	if (t->gate.open && t->debugfs_dead) {
		t->gate = shut(arena_printf(&t->arena, "reading it did not return (" STR_FMT ")", STR_ARG(t->stuck.at)));
		t->gate.stuck = true;
	}
	t->gate_time = tape_now(probe_tape(&t->count));
	batch_free(&b);
}
