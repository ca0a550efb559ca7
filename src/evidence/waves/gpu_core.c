// What a GPU core tells: stopped and waiting waves in groups, errors of queues, memory that existed, code that was overwritten.
#include "evidence/waves/gpu_core.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "evidence/waves/tell.h"
#include "gpu/target_code.h"
#include "gpu/layout.h"

enum {
	GROUPS_TOLD = 12,
	PIDS_FROM = 2,
	PIDS_UPTO = 1 << 22, // as the kernel counts them
	QUEUES_TOLD = 16,
	ARGUMENTS_TOLD = 32,
	MAP_MOST = 65536, // ranges
};

// --- which belong together ---

/** The last number that may be one of gpucore.4242 and core.4242.gpu; systemd-coredump writes it behind the boot's id, and a time
 * behind it: core.python.1000.BOOT.4242.TIME */
static int64_t pid_of_name(const char *name)
{
	enum { BOOT_ID = 32 };
	const char *slash = strrchr(name, '/');
	struct str rest = str_z(slash ? slash + 1 : name);
	int64_t n, pid = 0;
	bool behind_boot = false;
	while (rest.n) {
		struct str word = str_split(&rest, '.');
		bool number = str_number(word, &n) && n >= PIDS_FROM && n < PIDS_UPTO;
		if (number)
			pid = n;
		if (number && behind_boot)
			break;
		behind_boot = word.n == BOOT_ID;
	}
	return pid;
}

struct uh_error *core_source_keep(const struct source *s, struct text *bytes, struct core_source *ret)
{
	*ret = (struct core_source){ .bytes = s->door ? NULL : bytes->p };
	struct file f = file_memory(str_z(s->name), text_str(bytes));
	if (s->door)
		f = (struct file){ .name = f.name, .door = door_share(s->door), .size = s->size };
	struct uh_error *err = core_add(&ret->core, &f);
	if (err) {
		file_close(&f);
		core_source_free(ret);
		return err;
	}
	ret->has_gpu = ret->core.gpu_note.p;
	ret->pid = ret->core.files[0].pid ? ret->core.files[0].pid : pid_of_name(s->name);
	return NULL;
}

void core_source_free(struct core_source *c)
{
	core_close(&c->core);
	free(c->bytes);
	c->bytes = NULL;
}

// --- one target ---

struct reading {
	struct artefact_output out;
	struct target *target;
	struct target_code code;
	struct arena arena;
	int64_t pid;
	bool lone; // without the core of its process
	size_t nwaves;
	const struct wave *waves;
	const struct where **where;
	struct str *kernels;
	const struct wave *telling;    // the wave of the group that is being told
	struct register_set registers; // its own
	size_t nmap;
	struct address_range *map;
	struct dump tables; // of all waves and queues
	size_t told;        // groups of waves
};

static struct place gpu_core_here(const struct reading *r) { return (struct place){ r->out.source, 0 }; }

static void gpu_core_add_process(const struct reading *r, struct event *e, struct arena *a)
{
	event_add_text(e, a, "process", r->target->process);
	if (r->pid)
		event_add_number(e, a, "pid", r->pid);
}

/** The domain is taken to be 0, which it is but on large servers. */
static struct str gpu_core_pci_of(struct reading *r, const struct agent *g)
{
	char room[24];
	if (!g || !g->location)
		return (struct str){ 0 };
	struct str pci = agent_pci(g, room);
	return arena_printf(&r->arena, "0000:" STR_FMT, STR_ARG(pci));
}

static void tell_agents(struct reading *r)
{
	struct request agents = { .kind = REQUEST_AGENTS };
	target_ask(r->target, &agents);
	for (size_t i = 0; i < agents.n; i++) {
		const struct agent *g = &agents.agents[i];
		struct event e;
		if (!artefact_event(&r->out, "core-gpu", gpu_core_here(r), &e))
			return;
		event_add_text(&e, &r->arena, "pci", gpu_core_pci_of(r, g));
		if (g->vendor)
			event_add_code(&e, &r->arena, "vendor", g->vendor);
		// The version is what the code was loaded for; a number of a device that says otherwise is not known well enough.
		const struct know_part *part = know_part(r->out.know, g->device, (int)g->revision);
		if (g->device && (!part || str_eq(part->gfx, g->gfx)))
			event_add_code(&e, &r->arena, "device_id", g->device);
		event_add_text(&e, &r->arena, "gfx", g->gfx);
		artefact_tell(&r->out, &e);
	}
}

// --- groups of waves ---

static void add_dispatch(struct reading *r, const struct wave *w, struct event *e)
{
	struct dispatch d;
	if (!wave_dispatch(r->target, w, &d))
		return;
	event_add(e, S("grid"), arena_printf(&r->arena, "%u,%u,%u", d.grid[0], d.grid[1], d.grid[2]), FACT_TEXT);
	event_add(e, S("workgroup"), arena_printf(&r->arena, "%u,%u,%u", d.workgroup[0], d.workgroup[1], d.workgroup[2]),
		  FACT_TEXT);
	event_add(e, S("packet"), arena_printf(&r->arena, "%llu", (unsigned long long)d.packet), FACT_NUMBER);
	struct kernel_argument args[ARGUMENTS_TOLD];
	size_t n = dispatch_arguments(r->target, target_code_kernel(&r->code, d.kernel_object), &d, args, ARGUMENTS_TOLD);
	bool known = false;
	for (size_t i = 0; i < n; i++)
		known |= args[i].known;
	if (known)
		event_add_text(e, &r->arena, "arguments", arguments_say(&r->arena, args, n, r->map, r->nmap));
}

/** What the wave ran, where that is not what the file has there. */
static void tell_overwritten(struct reading *r, const struct wave *w, const struct where *at, struct event *e)
{
	uint32_t found;
	struct str file = { 0 };
	if (at->in && !at->in->of_memory && at->here < at->ninstructions)
		file = code_object_at(at->in->object, at->instructions[at->here].address);
	if (file.n < sizeof(found) || !target_memory(r->target, w->at, &found, sizeof(found)) ||
	    !memcmp(&found, file.p, sizeof(found)))
		return;
	event_add(e, S("instruction"),
		  arena_printf(&r->arena, ".long 0x%08x (in its file: " STR_FMT ")", found,
			       STR_ARG(at->instructions[at->here].text)),
		  FACT_TEXT);
}

static void gpu_core_add_own(void *of, struct event *e, struct arena *a)
{
	struct reading *r = of;
	const struct wave *w = r->telling;
	const struct where *at = r->where[w - r->waves];
	event_add_number(e, a, "queue", w->queue->id);
	if (at->in)
		event_add_text(e, a, "code_object", at->in->name);
	gpu_core_add_process(r, e, a);
	add_dispatch(r, w, e);
	tell_overwritten(r, w, at, e);
}

/** Every wave and queue, as tables have them. */
static void fill_tables(struct reading *r)
{
	enum { ROWS_MOST = 65536 };
	struct request queues = { .kind = REQUEST_QUEUES };
	target_ask(r->target, &queues);
	const size_t n = r->nwaves < ROWS_MOST ? r->nwaves : ROWS_MOST,
		     nqueues = queues.n < QUEUES_TOLD ? queues.n : QUEUES_TOLD;
	struct wave_row *rows = arena_alloc(&r->arena, n * sizeof(*rows) + 1);
	for (size_t i = 0; i < n; i++) {
		const struct wave *w = &r->waves[i];
		const bool same = i && w->stop_reasons == w[-1].stop_reasons;
		rows[i] =
			(struct wave_row){ .id = w->id,
					   .pc = w->pc,
					   .exec = w->exec,
					   .placed = w->placed,
					   .wave_in_group = w->wave_in_group,
					   .queue = w->queue->id,
					   .xcc = w->xcc,
					   .se = w->se,
					   .kernel = r->kernels[i],
					   .state = same ? rows[i - 1].state : stop_reasons_text(&r->arena, w->stop_reasons) };
		memcpy(rows[i].workgroup, w->workgroup, sizeof(rows[i].workgroup));
	}
	struct queue_row *list = arena_alloc(&r->arena, nqueues * sizeof(*list) + 1);
	for (size_t i = 0; i < nqueues; i++) {
		const struct queue *q = &queues.queues[i];
		struct dispatch d;
		const struct code_kernel *k =
			q->indexes_known && q->write_index > q->read_index && queue_dispatch(r->target, q, q->read_index, &d) ?
				target_code_kernel(&r->code, d.kernel_object) :
				NULL;
		list[i] = (struct queue_row){ q->id,
					      q->indexes_known,
					      q->read_index,
					      q->write_index,
					      k ? code_set_name(&r->code.set, k->name) : (struct str){ 0 },
					      q->nwaves };
	}
	r->tables = (struct dump){ .nwaves = n, .waves = rows, .nqueues = nqueues, .queues = list };
}

static void gpu_core_fill_tale(void *ctx, const struct wave_place *g, struct arena *a, struct wave_tale *ret)
{
	struct reading *r = ctx;
	const struct wave *w = r->telling = g->first;
	struct str reason = stop_reasons_text(a, w->stop_reasons);
	*ret = (struct wave_tale){ .signature = reason.n ? "core-waves-stopped" : "core-waves-running",
				   .at = gpu_core_here(r),
				   .text = arena_printf(a, "wave %zu: pc 0x%llx", w->id, (unsigned long long)w->pc),
				   .device = gpu_core_pci_of(r, w->queue->agent),
				   .wave = *w,
				   .count = g->count,
				   .pc_known = true,
				   .id = arena_printf(a, "%zu", w->id),
				   .where = r->where[w - r->waves],
				   .map = r->map,
				   .nmap = r->nmap,
				   .tables = r->told++ ? NULL : &r->tables,
				   .own = gpu_core_add_own,
				   .of = r };
	ret->wave.reason = reason;
	ret->wave.kernel = r->kernels[w - r->waves];
	wave_read_registers(r->target, a, &ret->wave);
	vec_free(&r->registers);
	r->registers = ret->wave.registers;
}

static void tell_waves(struct reading *r)
{
	struct request waves = { .kind = REQUEST_WAVES };
	target_ask(r->target, &waves);
	r->nwaves = waves.n;
	r->waves = waves.waves;
	r->where = target_code_waves(&r->code, waves.waves, waves.n, WAVE_CONTEXT);
	r->kernels = arena_alloc(&r->arena, waves.n * sizeof(*r->kernels) + 1);
	for (size_t i = 0; i < waves.n; i++)
		r->kernels[i] = target_code_kernel_name(&r->code, &waves.waves[i], r->where[i]);
	fill_tables(r);
	struct wave_group *groups = arena_alloc(&r->arena, waves.n * sizeof(*groups) + 1);
	size_t n = wave_groups(waves.waves, r->kernels, waves.n, groups);
	struct wave_places places = { .data = arena_alloc(&r->arena, n * sizeof(*places.data) + 1), .len = n };
	for (size_t i = 0; i < n; i++)
		places.data[i] = (struct wave_place){ .first = &waves.waves[groups[i].first], .count = groups[i].count };
	const struct wave_telling t = {
		.out = &r->out, .more = "core-waves-more", .most = GROUPS_TOLD, .fill = gpu_core_fill_tale, .ctx = r
	};
	waves_tell(&t, &places, 0);
	vec_free(&r->registers);
}

// --- queues, memory, code, problems ---

/** Errors of queues are evidence where the waves themselves are missing. */
static void tell_queues(struct reading *r)
{
	struct request queues = { .kind = REQUEST_QUEUES };
	target_ask(r->target, &queues);
	for (size_t i = 0; i < queues.n && i < QUEUES_TOLD; i++) {
		const struct queue *q = &queues.queues[i];
		struct dispatch d;
		// Of several packets in flight any may be the one.
		bool running = q->indexes_known && q->write_index - q->read_index == 1 &&
			       queue_dispatch(r->target, q, q->read_index, &d);
		const struct code_kernel *k = running ? target_code_kernel(&r->code, d.kernel_object) : NULL;
		struct str names[64];
		size_t n = exception_names(r->out.know, q->exceptions, names);
		for (size_t x = 0; x < n; x++) {
			struct event e;
			if (str_ends(names[x], S("_NEW")) || !artefact_event(&r->out, "core-queue-error", gpu_core_here(r), &e))
				continue;
			e.device = gpu_core_pci_of(r, q->agent);
			event_add_text(&e, &r->arena, "queue_error", names[x]);
			event_add_number(&e, &r->arena, "queue", q->id);
			if (k)
				event_add_text(&e, &r->arena, "kernel_name", code_set_name(&r->code.set, k->name));
			gpu_core_add_process(r, &e, &r->arena);
			artefact_tell(&r->out, &e);
		}
	}
}

static void tell_differences(struct reading *r)
{
	for (size_t i = 0; i < r->code.differences.len; i++) {
		const struct code_difference *d = &r->code.differences.data[i];
		const struct code_symbol *f = code_object_symbol(d->in->object, d->address - d->in->base);
		_cleanup_text_ struct text line = { 0 };
		struct event e;
		if (!artefact_event(&r->out, "core-code-overwritten", gpu_core_here(r), &e))
			return;
		code_difference_say(d, &line);
		e.text = arena_str(&r->arena, text_str(&line));
		event_add_text(&e, &r->arena, "code_object", d->in->name);
		event_add_code(&e, &r->arena, "overwritten_at", d->address);
		event_add_number(&e, &r->arena, "overwritten_bytes", (int64_t)d->bytes);
		event_add_code(&e, &r->arena, "found", d->found);
		event_add_code(&e, &r->arena, "expected", d->expected);
		if (f)
			event_add_text(&e, &r->arena, "kernel_name", code_set_name(&r->code.set, f->name));
		gpu_core_add_process(r, &e, &r->arena);
		artefact_tell(&r->out, &e);
	}
}

static void tell_note(const struct artefact_output *out, struct str text)
{
	struct event e;
	if (!text.n || !artefact_event(out, "core-note", (struct place){ out->source, 0 }, &e))
		return;
	event_add(&e, S("note"), text, FACT_TEXT);
	artefact_tell(out, &e);
}

static void tell_problems(struct reading *r)
{
	struct request queues = { .kind = REQUEST_QUEUES };
	target_ask(r->target, &queues);
	// What is no incident, but the answer of whoever asks whether the GPU hung.
	bool idle = queues.n && !r->nwaves;
	for (size_t i = 0; i < queues.n; i++)
		idle = idle && !queues.queues[i].problem.n && queues.queues[i].indexes_known &&
		       queues.queues[i].read_index == queues.queues[i].write_index;
	if (idle)
		tell_note(&r->out,
			  S("the GPU was idle when this core was written: no wave ran, and no packet waited in a queue"));
	struct str lines[] = { r->target->problems(r->target), text_str(&r->code.set.problems) };
	bool known_to_lack = r->lone && lines[0].n;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		while (lines[i].n)
			tell_note(&r->out, str_split(&lines[i], '\n'));
	for (size_t i = 0; i < queues.n && i < QUEUES_TOLD; i++)
		if (!known_to_lack || !str_ends(queues.queues[i].problem, S("is not in the core")))
			tell_note(&r->out, queues.queues[i].problem);
	for (size_t i = 0; i < r->nwaves; i++)
		if (r->where[i]->no_instructions.n) {
			tell_note(&r->out, arena_printf(&r->arena, "No instructions are shown: " STR_FMT,
							STR_ARG(r->where[i]->no_instructions)));
			break;
		}
}

static void gpu_core_read_target(struct reading *r, const struct code_places *places)
{
	struct request map = { .kind = REQUEST_MAP };
	struct event e;
	target_code_open(&r->code, r->target, places);
	// The ranges that existed, so that any fault's address can be held against them.
	target_ask(r->target, &map);
	r->nmap = map.n < MAP_MOST ? map.n : MAP_MOST;
	r->map = arena_alloc(&r->arena, r->nmap * sizeof(*r->map) + 1);
	for (size_t i = 0; i < r->nmap; i++)
		r->map[i] = (struct address_range){ map.map[i].begin, map.map[i].end };
	tell_agents(r);
	tell_waves(r);
	tell_queues(r);
	tell_differences(r);
	if (r->nmap && artefact_event(&r->out, "core-memory", gpu_core_here(r), &e)) {
		e.dump.map = r->map;
		e.dump.nmap = r->nmap;
		event_add_number(&e, &r->arena, "ranges", (int64_t)r->nmap);
		gpu_core_add_process(r, &e, &r->arena);
		artefact_tell(&r->out, &e);
	}
	tell_problems(r);
	target_code_close(&r->code);
}

/** The core @i with those of its process: by their process ids, or else the only two that there are. */
static struct core join_cores(struct core_source *cores, size_t n, size_t i, int64_t *ret_pid)
{
	struct core all = cores[i].core;
	size_t gpus = 0;
	cores[i].core = (struct core){ 0 };
	for (size_t k = 0; k < n; k++)
		gpus += cores[k].has_gpu;
	*ret_pid = cores[i].pid;
	for (size_t h = 0; h < n; h++) {
		struct core_source *host = &cores[h];
		const bool same = cores[i].pid && host->pid ? cores[i].pid == host->pid : gpus == 1 && n == 2;
		if (host->has_gpu || host->joined || !same || !core_join(&all, &host->core))
			continue;
		*ret_pid = host->pid ? host->pid : *ret_pid;
		host->joined = true;
	}
	return all;
}

static struct uh_error *gpu_core_read_core(const struct artefact_output *out, struct core_source *cores, size_t n, size_t i)
{
	struct reading r = { .out = *out };
	struct core all = join_cores(cores, n, i, &r.pid);
	struct code_places places = { .beside = arena_str(&r.arena, all.files[0].file.name) };
	r.lone = all.nfiles == 1;
	r.out.source = cores[i].evidence;
	places.paths = code_shelf_paths(out->code, &places.n);
	struct uh_error *err = target_parsed_core(out->know, &all, &r.target);
	if (!err)
		gpu_core_read_target(&r, &places);
	target_close(r.target);
	arena_free(&r.arena);
	return err;
}

struct uh_error *gpu_cores_read(const struct artefact_output *out, struct core_source *cores, size_t n)
{
	struct uh_error *first = NULL;
	for (size_t i = 0; i < n; i++) {
		struct uh_error *err = cores[i].has_gpu ? gpu_core_read_core(out, cores, n, i) : NULL;
		if (first)
			uh_error_free(err);
		else
			first = err;
	}
	for (size_t i = 0; i < n; i++) {
		struct artefact_output of = *out;
		of.source = cores[i].evidence;
		if (!cores[i].has_gpu && !cores[i].joined)
			tell_note(&of, S("this is the core of a process, without its GPU state; give the GPU's core too, "
					 "gpucore.PID: unhang explain gpucore.PID core.PID"));
	}
	return first;
}
