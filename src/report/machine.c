// The GPUs of this machine, one line each, and what else an operator needs to know of them.
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

static const char *colour_of(const struct gpu_observation *g, const struct uh_report_options *o)
{
	return !o->colour ? "" : g->unwell ? "\033[1;31m" : str_is(g->health, "unknown") ? "\033[33m" : "\033[32m";
}

/** Where what is said of a GPU begins. */
static size_t indent_in(const struct uh_report_options *o) { return report_width(o) < NARROW ? INDENT_NARROW : INDENT; }

static void add_size(struct text *to, int64_t used, int64_t total)
{
	const double gb = 1 << 30;
	if (total > 0 && used >= 0)
		text_printf(to, "%.1f of %.1f GB", (double)used / gb, (double)total / gb);
	else if (total > 0)
		text_printf(to, "%.1f GB", (double)total / gb);
}

static void add_holders(struct text *to, const struct device *d)
{
	for (size_t i = 0; i < d->nholders && i < HOLDERS_SHOWN; i++)
		text_printf(to, "%s" STR_FMT " (%lld%s)", i ? ", " : "", STR_ARG(d->holders[i].name),
			    (long long)d->holders[i].pid, d->holders[i].stopped ? ", stopped" : "");
	if (d->nholders > HOLDERS_SHOWN)
		text_printf(to, " and %zu more", d->nholders - HOLDERS_SHOWN);
}

/** Firmware whose versions are most asked for first; the others are in --json. */
static void add_firmware(struct text *to, const struct device *d)
{
	static const char *const asked[] = { "MES", "MEC", "SMC", "SDMA0", "SDMA" };
	size_t shown = 0;
	for (size_t a = 0; a < sizeof(asked) / sizeof(asked[0]); a++) {
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
	struct arena room = { 0 };
	struct command_maker *m = command_begin(&room);
	command_add(m, "the driver keeps its state for some minutes: ``sudo cp ");
	command_add_value(m, PIECE_PATH, d->devcoredump);
	command_add(m, " gpu-core.txt; unhang explain gpu-core.txt``");
	wrap_step_row(out, &(struct row_style){ INDENT, 0, report_width(o) }, "", command_end(m));
	arena_free(&room);
}

/** One figure of the line, on a new line where it does not fit; the next one takes the room of @line. */
static void put_figure(struct wrapping *w, struct text *line)
{
	struct text spaced = { 0 };
	text_printf(&spaced, " " STR_FMT, STR_ARG(text_str(line)));
	if (line->n)
		wrap_word(w, text_str(&spaced));
	text_clear(line);
	text_free(&spaced);
}

static void put_gpu(const struct gpu_observation *g, size_t name_width, FILE *out, const struct uh_report_options *o)
{
	const struct device *d = g->device;
	struct text line = { 0 };
	struct text name = { 0 };
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
	fprintf(out, "%s%.*s%s", colour_of(g, o), STR_ARG(g->health), o->colour ? "\033[0m" : "");
	struct wrapping w = { out, (unsigned)indent_in(o) - 2, (unsigned)report_width(o), (unsigned)(column + g->health.n) };
	if (d->busy >= 0)
		text_printf(&line, "%*s%3lld %%", g->health.n < HEALTH ? (int)(HEALTH - g->health.n) : 0, "",
			    (long long)d->busy);
	put_figure(&w, &line);
	if (d->power_mw >= 0)
		text_printf(&line, "%3lld W", (long long)d->power_mw / 1000);
	put_figure(&w, &line);
	add_size(&line, d->vram_used, d->vram_total);
	put_figure(&w, &line);
	add_holders(&line, d);
	put_figure(&w, &line);
	fputc('\n', out);
	text_free(&line);
	text_free(&name);
}

/** Which module it is, and how it is connected. */
static void put_details(struct sheet *s, const struct gpu_observation *g, const struct uh_report_options *o)
{
	static const struct column line[] = { { "slot", ", slot " },
					      { "serial", ", serial " },
					      { "unique_id", ", unique id " },
					      { "compute_partition", ", partition " },
					      { "memory_partition", ", memory " },
					      { "xgmi_hive", ", XGMI hive " },
					      { "xccs", ", ", .after = " XCCs", .least = 2 },
					      { "guest", ", guest of SR-IOV" },
					      { "connected", ", link " },
					      { "firmware_asked", ", firmware " } };
	struct arena a = { 0 };
	struct text firmware = { 0 };
	add_firmware(&firmware, g->device);
	sheet_note(s, "connected", v_known(link_text(g->device, &a)));
	sheet_note(s, "firmware_asked", v_known(text_str(&firmware)));
	sheet_list(s, COLUMNS(line), (struct row_style){ indent_in(o), 0, report_width(o) });
	text_free(&firmware);
	arena_free(&a);
}

// --- a GPU ---

static void walk_holders(struct sheet *s, const struct device *d)
{
	sheet_open(s, "processes", '[');
	for (size_t i = 0; i < d->nholders; i++) {
		sheet_open(s, NULL, '{');
		sheet_put(s, "name", v_known(d->holders[i].name));
		sheet_put(s, "pid", v_count(d->holders[i].pid));
		sheet_put(s, "compute", v_bool(d->holders[i].compute));
		sheet_put(s, "stopped", v_bool(d->holders[i].stopped));
		sheet_put(s, "vram", v_count(d->holders[i].vram));
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
}

static void walk_link(struct sheet *s, const struct link *l)
{
	sheet_open(s, "link", '{');
	sheet_put(s, "speed", v_known(l->speed));
	sheet_put(s, "width", v_count(l->width));
	sheet_put(s, "max_speed", v_known(l->max_speed));
	sheet_put(s, "max_width", v_count(l->max_width));
	sheet_put(s, "correctable", v_count(l->correctable));
	sheet_put(s, "nonfatal", v_count(l->nonfatal));
	sheet_put(s, "fatal", v_count(l->fatal));
	sheet_close(s, '}');
}

static void walk_firmware(struct sheet *s, const struct device *d)
{
	sheet_open(s, "firmware", '[');
	for (size_t i = 0; i < d->nfirmware; i++) {
		sheet_open(s, NULL, '{');
		sheet_put(s, "name", v_text(d->firmware[i].name));
		sheet_put(s, "version", v_hex(d->firmware[i].version));
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
}

static void walk_gpu(struct sheet *s, const struct gpu_observation *g)
{
	const struct device *d = g->device;
	sheet_put(s, "pci", v_text(d->pci));
	sheet_put(s, "name", v_known(d->name));
	sheet_put(s, "gfx", v_known(d->gfx));
	sheet_put(s, "verdict", v_word(verdict_name(gpu_verdict(g))));
	sheet_put(s, "health", v_text(g->health));
	sheet_put(s, "stuck", v_if(g->unwell, v_known(g->unit)));
	sheet_put(s, "says", v_known(g->says));
	sheet_put(s, "hint", v_known(g->hint));
	sheet_put(s, "unseen", v_known(g->unseen));
	sheet_put(s, "driver", v_known(d->driver));
	sheet_put(s, "card", v_count(d->card));
	sheet_put(s, "render", v_count(d->render));
	sheet_put(s, "busy", v_count(d->busy));
	sheet_put(s, "power_mw", v_count(d->power_mw));
	sheet_put(s, "temperature_mc", v_count(d->temperature));
	sheet_put(s, "clock_mhz", v_count(d->clock));
	sheet_put(s, "vram_used", v_count(d->vram_used));
	sheet_put(s, "vram_total", v_count(d->vram_total));
	sheet_put(s, "interrupts", v_count(d->interrupts));
	sheet_put(s, "waves", v_if(g->waves_known, v_int((int64_t)g->waves)));
	sheet_put(s, "runtime_status", v_known(d->runtime_status));
	sheet_put(s, "serial", v_known(d->serial));
	sheet_put(s, "unique_id", v_known(d->unique_id));
	sheet_put(s, "slot", v_known(d->slot));
	sheet_put(s, "xgmi_hive", v_known(d->hive));
	sheet_put(s, "compute_partition", v_known(d->compute_partition));
	sheet_put(s, "memory_partition", v_known(d->memory_partition));
	sheet_put(s, "vbios", v_known(d->vbios));
	sheet_put(s, "xccs", v_if(d->shaders.xccs, v_number(d->shaders.xccs)));
	sheet_put(s, "guest", v_bool(d->guest));
	walk_link(s, &d->link);
	walk_firmware(s, d);
	walk_holders(s, d);
	sheet_put(s, "devcoredump", v_known(d->devcoredump));
}

// --- the machine ---

static void walk_unread(struct sheet *s, const struct unread *u)
{
	struct str paths = u->paths;
	while (s->as_json && paths.n)
		jw_str(&s->json, str_split(&paths, '\n'));
}

/** Whether it needs no line of its own: of many GPUs those matter that are not well. */
static bool shares_line(const struct machine_observation *m, const struct gpu_observation *g, const struct uh_report_options *o)
{
	return o && m->n > 2 && !o->verbose && gpu_verdict(g) == UH_HEALTHY && !g->device->devcoredump.n;
}

static bool same_kind(const struct gpu_observation *a, const struct gpu_observation *b)
{
	return str_eq(a->device->name, b->device->name) && str_eq(a->device->gfx, b->device->gfx);
}

/** `7 GPUs are well: Instinct MI210 (gfx90a) at 0000:03:00.0, ...`, a line for each kind of GPU. */
static void put_healthy(const struct machine_observation *m, const struct uh_report_options *o, FILE *out)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct gpu_observation *g = &m->gpus[i];
		struct text where = { 0 }, line = { 0 };
		size_t count = 0;
		bool first = shares_line(m, g, o);
		for (size_t k = 0; k < i && first; k++)
			first = !shares_line(m, &m->gpus[k], o) || !same_kind(&m->gpus[k], g);
		for (size_t k = i; k < m->n && first; k++)
			if (shares_line(m, &m->gpus[k], o) && same_kind(&m->gpus[k], g))
				text_printf(&where, "%s" STR_FMT, count++ ? ", " : "", STR_ARG(m->gpus[k].device->pci));
		text_printf(&line, "%zu GPU%s well: " STR_FMT "%s" STR_FMT "%s at " STR_FMT, count,
			    count == 1 ? " is" : "s are", STR_ARG(g->device->name.n ? g->device->name : S("AMD GPU")),
			    g->device->gfx.n ? " (" : "", STR_ARG(g->device->gfx), g->device->gfx.n ? ")" : "",
			    STR_ARG(text_str(&where)));
		if (count)
			print_wrapped(out, text_str(&line), INDENT_NARROW, 0, report_width(o));
		text_free(&where);
		text_free(&line);
	}
}

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
		walk_gpu(s, g);
		if (alone)
			put_gpu(g, width < NAMES ? width : NAMES, s->json.out, o);
		if (details)
			put_details(s, g, o);
		if (!s->as_json && g->device->devcoredump.n)
			put_devcoredump(g->device, o, s->json.out);
		for (struct str hints = g->hint; alone && hints.n;)
			put_line(o, s->json.out, str_split(&hints, '\n'));
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
	sheet_put(s, "kernel", v_known(m->devices.kernel));
	sheet_put(s, "driver_version", v_known(m->devices.driver_version));
	sheet_put(s, "root", v_bool(m->devices.root));
	sheet_put(s, "debugfs", v_bool(m->devices.debugfs));
	sheet_open(s, "unread", '[');
	walk_unread(s, &m->devices.unread);
	for (size_t i = 0; i < m->n; i++)
		walk_unread(s, &m->devices.list[i].unread);
	walk_unread(s, &m->devices.processes_unread);
	sheet_close(s, ']');
	if (!m->n && m->devices.pci_known && !m->devices.unread.n)
		sheet_say(s, "This machine has no AMD GPU.\n");
	walk_gpus(s, m, o);
	if (m->n && (!m->devices.root || refused))
		sheet_say(s, "To see registers, waves, rings and queues too: sudo unhang\n");
	else if (m->n && !m->devices.debugfs)
		sheet_say(s, "debugfs is not mounted. To see registers, waves and rings: sudo mount -t "
			     "debugfs none "
			     "/sys/kernel/debug\n");
	sheet_close(s, '}');
}
