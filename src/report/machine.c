// The GPUs of this machine, one line each, and what else an operator needs to know of them. Of many GPUs those matter that are not
// well: the healthy ones share a line for each kind.
#include "base/command.h"
#include "base/print.h"
#include "report/report.h"
#include "report/sheet.h"

enum { INDENT = 14, INDENT_NARROW = 4, NARROW = 70, NAMES = 30, HOLDERS_SHOWN = 3, FIRMWARE_SHOWN = 4, HEALTH = 8 };

const char *verdict_name(enum uh_verdict v)
{
	static const char *const names[] = { "healthy", "unknown", "incident" };
	return names[v];
}

// --- what only a text says ---

/** Where what is said of a GPU begins. */
static size_t indent_in(const struct uh_report_options *o) { return report_width(o) < NARROW ? INDENT_NARROW : INDENT; }

/** Firmware whose versions are most asked for first; the others are in --json. */
static void add_firmware(struct text *to, const struct device *d)
{
	static const char *const asked[] = { "MES", "MEC", "SMC", "SDMA0", "SDMA" };
	size_t shown = 0;
	for (size_t a = 0; a < ARRAY_SIZE(asked); a++) {
		for (size_t i = 0; i < d->nfirmware && shown < FIRMWARE_SHOWN; i++) {
			if (!str_eq(d->firmware[i].name, str_z(asked[a])))
				continue;
			text_printf(to, "%s" STR_FMT " 0x%x", shown ? ", " : "", STR_ARG(d->firmware[i].name),
				    d->firmware[i].version);
			shown++;
		}
	}
}

static void put_line(const struct uh_report_options *o, FILE *out, struct str text)
{
	const struct row_style style = { indent_in(o), 0, report_width(o) };
	wrap_row(out, &style, "", text, 0);
}

static void put_devcoredump(const struct device *d, const struct uh_report_options *o, FILE *out)
{
	_cleanup_arena_ struct arena room = { 0 };
	struct command_maker *m = command_begin(&room);
	command_add(m, "the driver keeps its state for some minutes: ``sudo cp ");
	command_add_value(m, PIECE_PATH, d->devcoredump);
	command_add(m, " gpu-core.txt; unhang explain gpu-core.txt``");
	wrap_step_row(out, &(struct row_style){ INDENT, 0, report_width(o) }, "", command_end(m));
}

/** One figure of the line, on a new line where it does not fit; the next one takes the room of @line. */
static void put_figure(struct wrapping *w, struct text *line)
{
	_cleanup_text_ struct text spaced = { 0 };
	text_printf(&spaced, " " STR_FMT, STR_ARG(text_str(line)));
	if (line->n)
		wrap_word(w, text_str(&spaced));
	text_clear(line);
}

/** The line of a GPU: name and health, then figures as far as the driver tells them, wrapped at the terminal's width. */
static void put_gpu(const struct gpu_observation *g, size_t name_width, FILE *out, const struct uh_report_options *o)
{
	const struct device *d = g->device;
	_cleanup_text_ struct text line = { 0 };
	_cleanup_text_ struct text name = { 0 };
	text_printf(&name, STR_FMT "%s" STR_FMT "%s", STR_ARG(d->name.n ? d->name : S("AMD GPU")), d->gfx.n ? " (" : "",
		    STR_ARG(d->gfx), d->gfx.n ? ")" : "");
	const size_t padding = name.n < name_width ? name_width - name.n : 0;
	print_safe(out, d->pci);
	fputs("  ", out);
	print_safe(out, text_str(&name));
	size_t column = d->pci.n + 4 + name.n + padding;
	if (column + g->health.n > report_width(o)) {
		column = indent_in(o);
		fprintf(out, "\n%*s", (int)column, "");
	} else {
		fprintf(out, "%*s  ", (int)padding, "");
	}
	fprintf(out, "%s%.*s%s",
		(!o->colour                   ? "" :
		 g->unwell                    ? "\033[1;31m" :
		 str_is(g->health, "unknown") ? "\033[33m" :
						"\033[32m"),
		STR_ARG(g->health), o->colour ? "\033[0m" : "");
	struct wrapping w = { out, (unsigned)indent_in(o) - 2, (unsigned)report_width(o), (unsigned)(column + g->health.n) };
	if (d->busy >= 0)
		text_printf(&line, "%*s%3lld %%", g->health.n < HEALTH ? (int)(HEALTH - g->health.n) : 0, "",
			    (long long)d->busy);
	put_figure(&w, &line);
	if (d->power_mw >= 0)
		text_printf(&line, "%3lld W", (long long)d->power_mw / 1000);
	put_figure(&w, &line);
	const int64_t total = d->vram_total;
	const double gb = 1 << 30;
	if (total > 0 && d->vram_used >= 0)
		text_printf(&line, "%.1f of %.1f GB", (double)d->vram_used / gb, (double)total / gb);
	else if (total > 0)
		text_printf(&line, "%.1f GB", (double)total / gb);
	put_figure(&w, &line);
	// Those that compute are named: a GPU that hangs belongs to one of them.
	for (size_t i = 0; i < d->nholders && i < HOLDERS_SHOWN; i++)
		text_printf(&line, "%s" STR_FMT " (%lld%s)", i ? ", " : "", STR_ARG(d->holders[i].name),
			    (long long)d->holders[i].pid, d->holders[i].stopped ? ", stopped" : "");
	if (d->nholders > HOLDERS_SHOWN)
		text_printf(&line, " and %zu more", d->nholders - HOLDERS_SHOWN);
	put_figure(&w, &line);
	fputc('\n', out);
}

// --- a GPU ---

static void report_machine_walk_gpu(struct sheet *s, const struct gpu_observation *g)
{
	const struct device *d = g->device;
	sheet_fields(s, { "pci", v_text(d->pci) }, { "name", v_known(d->name) }, { "gfx", v_known(d->gfx) },
		     { "verdict", v_word(verdict_name(gpu_verdict(g))) }, { "health", v_text(g->health) },
		     { "stuck", v_if(g->unwell, v_known(g->unit)) }, { "says", v_known(g->says) }, { "hint", v_known(g->hint) },
		     { "unseen", v_known(g->unseen) }, { "driver", v_known(d->driver) }, { "card", v_count(d->card) },
		     { "render", v_count(d->render) }, { "busy", v_count(d->busy) }, { "power_mw", v_count(d->power_mw) },
		     { "temperature_mc", v_count(d->temperature) }, { "clock_mhz", v_count(d->clock) },
		     { "vram_used", v_count(d->vram_used) }, { "vram_total", v_count(d->vram_total) },
		     { "interrupts", v_count(d->interrupts) }, { "waves", v_if(g->waves_known, v_int((int64_t)g->waves)) },
		     { "runtime_status", v_known(d->runtime_status) }, { "serial", v_known(d->serial) },
		     { "unique_id", v_known(d->unique_id) }, { "slot", v_known(d->slot) }, { "xgmi_hive", v_known(d->hive) },
		     { "xgmi_position", v_count(d->oam) },
		     { "compute_partition", v_known(d->compute_partition) },
		     { "memory_partition", v_known(d->memory_partition) }, { "vbios", v_known(d->vbios) },
		     { "xccs", v_if(d->shaders.xccs, v_number(d->shaders.xccs)) }, { "guest", v_bool(d->guest) });
	sheet_record(s, "link", { "speed", v_known(d->link.speed) }, { "width", v_count(d->link.width) },
		     { "max_speed", v_known(d->link.max_speed) }, { "max_width", v_count(d->link.max_width) },
		     { "correctable", v_count(d->link.correctable) }, { "nonfatal", v_count(d->link.nonfatal) },
		     { "fatal", v_count(d->link.fatal) });
	sheet_record(s, "errors", { "fatal", v_count(d->ras.fatal) }, { "poison_created", v_count(d->ras.poison_created) },
		     { "poison_used", v_count(d->ras.poison_consumed) }, { "gpus", v_int((int64_t)d->ras.gpus) },
		     { "pages_pending", v_if(g->pages_known, v_int(g->pages_pending)) }, { "throttle", v_known(g->throttle) });
	sheet_each (i, s, "firmware", d->nfirmware) {
		sheet_fields(s, { "name", v_text(d->firmware[i].name) }, { "version", v_hex(d->firmware[i].version) });
	}
	sheet_each (i, s, "processes", d->nholders) {
		sheet_fields(s, { "name", v_known(d->holders[i].name) }, { "pid", v_count(d->holders[i].pid) },
			     { "compute", v_bool(d->holders[i].compute) }, { "stopped", v_bool(d->holders[i].stopped) },
			     { "vram", v_count(d->holders[i].vram) });
	}
	sheet_put(s, "devcoredump", v_known(d->devcoredump));
	sheet_each (i, s, "queues", g->nqueues) {
		const struct observed_queue *q = &g->queues[i];
		sheet_fields(s, { "ring", v_known(q->ring) }, { "process", v_known(q->process) }, { "pid", v_if(q->pid, v_int(q->pid)) },
			     { "id", v_if(!q->ring.n, v_number(q->id)) }, { "client", v_bool(q->client) },
			     { "vmid", v_if(q->placed, v_number(q->vmid)) }, { "xccs", v_if(q->xccs, v_hex(q->xccs)) },
			     { "kernel_name", v_known(q->kernel) }, { "state", v_text(q->is) }, { "reason", v_known(q->why) },
			     { "seconds", v_if(q->seconds > 0, v_decimal(q->seconds, 1)) });
	}
}

/** Which of several queues is stuck and which works: `train (4242): queue 1 stuck; infer (4243): queue 1 works`. Those that are stuck come first. */
static void put_queues(const struct gpu_observation *g, const struct uh_report_options *o, FILE *out)
{
	enum { QUEUES_SHOWN = 4 };
	_cleanup_text_ struct text line = { 0 };
	const struct observed_queue *last = NULL;
	size_t shown = 0;
	for (size_t i = 0; i < 2 * g->nqueues; i++) {
		const struct observed_queue *q = &g->queues[i % g->nqueues];
		if (str_is(q->is, "stuck") != (i < g->nqueues) || (shown++ >= QUEUES_SHOWN && !o->verbose))
			continue;
		if (q->ring.n)
			text_printf(&line, "%sring " STR_FMT, line.n ? "; " : "", STR_ARG(q->ring));
		else if (last && last->pid == q->pid)
			text_printf(&line, ", queue %u", q->id);
		else
			text_printf(&line, "%s" STR_FMT " (%lld): queue %u", line.n ? "; " : "", STR_ARG(q->process), (long long)q->pid, q->id);
		text_printf(&line, " " STR_FMT, STR_ARG(q->is));
		if (o->verbose && q->why.n)
			text_printf(&line, " (" STR_FMT ")", STR_ARG(q->why));
		last = q;
	}
	if (g->nqueues > QUEUES_SHOWN && !o->verbose)
		text_printf(&line, "; and %zu more", g->nqueues - QUEUES_SHOWN);
	put_line(o, out, text_str(&line));
}

// --- the machine ---

static void walk_unread(struct sheet *s, const struct unread *u)
{
	struct str paths = u->paths;
	while (s->as_json && paths.n)
		jw_str(&s->json, str_split(&paths, '\n'));
}

/** Whether it needs no line of its own: of many GPUs those matter that are not well, and the first of those of which there is a hint. */
static bool shares_line(const struct machine_observation *m, const struct gpu_observation *g, const struct uh_report_options *o)
{
	enum { HINTED_SHOWN = 2 };
	size_t hinted = 0;
	for (const struct gpu_observation *b = m->gpus; b <= g; b++)
		hinted += b->hint.n && gpu_verdict(b) == UH_HEALTHY;
	return o && m->n > 2 && !o->verbose && gpu_verdict(g) == UH_HEALTHY && !g->device->devcoredump.n && !g->hardware.n &&
	       (!g->hint.n || hinted > HINTED_SHOWN);
}

static bool report_machine_same_kind(const struct gpu_observation *a, const struct gpu_observation *b)
{
	return str_eq(a->device->name, b->device->name) && str_eq(a->device->gfx, b->device->gfx) && !a->hint.n == !b->hint.n;
}

/** `, in use by train (4242)` */
static void add_users(struct text *to, const struct device *d, size_t *shown)
{
	enum { USERS_SHOWN = 4 };
	char one[64];
	for (size_t i = 0; i < d->nholders && *shown < USERS_SHOWN; i++) {
		snprintf(one, sizeof(one), STR_FMT " (%lld)", STR_ARG(d->holders[i].name), (long long)d->holders[i].pid);
		if (!d->holders[i].name.n || str_find(text_str(to), str_z(one)) >= 0)
			continue;
		text_printf(to, "%s%s", (*shown)++ ? ", " : "; in use by ", one);
	}
}

/** `7 GPUs are well: Instinct MI210 (gfx90a) at 0000:03:00.0, ...; in use by train (4242)`, a line for each kind of GPU. */
static void put_healthy(const struct machine_observation *m, const struct uh_report_options *o, FILE *out)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct gpu_observation *g = &m->gpus[i];
		_cleanup_text_ struct text where = { 0 }, users = { 0 }, line = { 0 };
		size_t count = 0, shown = 0;
		bool first = shares_line(m, g, o);
		for (size_t k = 0; k < i && first; k++)
			first = !shares_line(m, &m->gpus[k], o) || !report_machine_same_kind(&m->gpus[k], g);
		for (size_t k = i; k < m->n && first; k++)
			if (shares_line(m, &m->gpus[k], o) && report_machine_same_kind(&m->gpus[k], g)) {
				text_printf(&where, "%s" STR_FMT, count++ ? ", " : "", STR_ARG(m->gpus[k].device->pci));
				add_users(&users, m->gpus[k].device, &shown);
			}
		text_printf(&line, "%zu %sGPU%s %s: " STR_FMT "%s" STR_FMT "%s at " STR_FMT STR_FMT, count, g->hint.n ? "more " : "",
			    count == 1 ? "" : "s", g->hint.n ? "with a hint (unhang -v)" : count == 1 ? "is well" : "are well", STR_ARG(g->device->name.n ? g->device->name : S("AMD GPU")),
			    g->device->gfx.n ? " (" : "", STR_ARG(g->device->gfx), g->device->gfx.n ? ")" : "",
			    STR_ARG(text_str(&where)), STR_ARG(text_str(&users)));
		if (count)
			print_wrapped(out, text_str(&line), INDENT_NARROW, 0, report_width(o));
	}
}

/** What is counted for several GPUs together is of none of them. */
static void walk_hives(struct sheet *s, const struct machine_observation *m, const struct uh_report_options *o)
{
	sheet_each (i, s, "hives", m->nhives) {
		const struct hive_observation *h = &m->hives[i];
		const struct ras_events *r = &h->first->ras;
		sheet_fields(s, { "id", v_text(h->first->hive) }, { "gpus", v_int((int64_t)r->gpus) }, { "fatal", v_count(r->fatal) },
			     { "poison_created", v_count(r->poison_created) }, { "poison_used", v_count(r->poison_consumed) },
			     { "hint", v_known(h->hint) });
		for (struct str hints = h->hint; hints.n && !s->as_json;) {
			const struct str hint = str_split(&hints, '\n');
			_cleanup_text_ struct text line = { 0 };
			text_printf(&line, "XGMI hive of %zu GPUs: " STR_FMT, r->gpus, STR_ARG(hint));
			print_wrapped(s->json.out, text_str(&line), INDENT_NARROW, 0, report_width(o));
		}
	}
}

/** JSON has every GPU; a text a line for each that is not well, or for all where there are few. */
static void walk_gpus(struct sheet *s, const struct machine_observation *m, const struct uh_report_options *o)
{
	size_t width = 0;
	for (size_t i = 0; i < m->n; i++) {
		size_t n = m->gpus[i].device->name.n + m->gpus[i].device->gfx.n + 3;
		width = n > width ? n : width;
	}
	sheet_open(s, "gpus", '[');
	for (size_t i = 0; i < m->n; i++) {
		const struct gpu_observation *g = &m->gpus[i];
		const bool alone = !s->as_json && !shares_line(m, g, o);
		const bool details = alone && (m->n <= 2 || g->unwell || o->verbose);
		sheet_open(s, NULL, '{');
		report_machine_walk_gpu(s, g);
		if (alone)
			put_gpu(g, width < NAMES ? width : NAMES, s->json.out, o);
		if (details) {
			// Which module it is, and how it is connected.
			static const struct column line[] = { { "slot", ", slot " },
							      { "serial", ", serial " },
							      { "unique_id", ", unique id " },
							      { "compute_partition", ", partition " },
							      { "memory_partition", ", memory " },
							      { "xgmi_hive", ", XGMI hive " },
							      { "xgmi_position", ", position " },
							      { "xccs", ", ", .after = " XCCs", .least = 2 },
							      { "guest", ", guest of SR-IOV" },
							      { "connected", ", link " },
							      { "firmware_asked", ", firmware " } };
			_cleanup_arena_ struct arena a = { 0 };
			_cleanup_text_ struct text firmware = { 0 };
			add_firmware(&firmware, g->device);
			sheet_fields(s, { "connected", v_known(link_text(g->device, &a)), TEXT_ONLY },
				     { "firmware_asked", v_known(text_str(&firmware)), TEXT_ONLY });
			sheet_list(s, COLUMNS(line), (struct row_style){ indent_in(o), 0, report_width(o) });
		}
		if (!s->as_json && g->device->devcoredump.n)
			put_devcoredump(g->device, o, s->json.out);
		for (struct str hints = g->hint; alone && hints.n;)
			put_line(o, s->json.out, str_split(&hints, '\n'));
		if (alone && (o->verbose || (g->unwell && g->nqueues > 1)))
			put_queues(g, o, s->json.out);
		if (details)
			put_line(o, s->json.out, g->unseen);
		sheet_close(s, '}');
	}
	if (!s->as_json)
		put_healthy(m, o, s->json.out);
	sheet_close(s, ']');
}

void report_machine(const struct machine_observation *m, struct sheet *s, const struct uh_report_options *o)
{
	bool refused = false;
	for (size_t i = 0; i < m->n; i++)
		refused |= m->gpus[i].device->refused.n;
	sheet_open(s, "machine", '{');
	sheet_fields(s, { "kernel", v_known(m->devices.kernel) }, { "driver_version", v_known(m->devices.driver_version) },
		     { "root", v_bool(m->devices.root) }, { "debugfs", v_bool(m->devices.debugfs) });
	sheet_open(s, "unread", '[');
	walk_unread(s, &m->devices.unread);
	for (size_t i = 0; i < m->n; i++)
		walk_unread(s, &m->devices.list[i].unread);
	walk_unread(s, &m->devices.processes_unread);
	sheet_close(s, ']');
	if (!m->n && m->devices.pci_known && !m->devices.unread.n)
		sheet_say(s, "This machine has no AMD GPU.\n");
	walk_gpus(s, m, o);
	walk_hives(s, m, o);
	if (m->n && (!m->devices.root || refused))
		sheet_say(s, "To see registers, waves, rings and queues too: sudo unhang\n");
	else if (m->n && !m->devices.debugfs)
		sheet_say(s, "debugfs is not mounted. To see registers, waves and rings: sudo mount -t "
			     "debugfs none "
			     "/sys/kernel/debug\n");
	sheet_close(s, '}');
}
