// The GPUs of this machine, one line each, and what else an operator needs to know of them.
#include <stdio.h>

#include "base/command.h"
#include "base/print.h"
#include "report/report.h"

enum { INDENT = 14, NAMES = 30, HOLDERS_SHOWN = 3, FIRMWARE_SHOWN = 4 };

const char *verdict_name(enum uh_verdict v)
{
	static const char *const names[] = { "healthy", "unknown", "incident" };
	return names[v];
}

// --- text ---

static const char *colour_of(const struct gpu_observation *g, const struct uh_report_options *o)
{
	return !o->colour ? "" : g->unwell ? "\033[1;31m" : str_is(g->health, "unknown") ? "\033[33m" : "\033[32m";
}

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
		text_printf(to, "%s" STR_FMT " (%lld)", i ? ", " : "", STR_ARG(d->holders[i].name),
			    (long long)d->holders[i].pid);
	if (d->nholders > HOLDERS_SHOWN)
		text_printf(to, " and %zu more", d->nholders - HOLDERS_SHOWN);
}

static void add_word(struct text *to, const char *what, struct str value)
{
	if (value.n)
		text_printf(to, "%s%s " STR_FMT, to->n ? ", " : "", what, STR_ARG(value));
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
			const char *before = shown ? ", " : to->n ? ", firmware " : "firmware ";
			text_printf(to, "%s" STR_FMT " 0x%x", before, STR_ARG(d->firmware[i].name), d->firmware[i].version);
			shown++;
		}
	}
}

/** Which module it is, and how it is connected. */
static void put_details(const struct gpu_observation *g, FILE *out, size_t width)
{
	struct arena a = { 0 };
	const struct device *d = g->device;
	struct text line = { 0 };
	add_word(&line, "slot", d->slot);
	add_word(&line, "serial", d->serial);
	add_word(&line, "unique id", d->unique_id);
	add_word(&line, "partition", d->compute_partition);
	add_word(&line, "memory", d->memory_partition);
	add_word(&line, "XGMI hive", d->hive);
	if (d->shaders.xccs > 1)
		text_printf(&line, "%s%u XCCs", line.n ? ", " : "", d->shaders.xccs);
	if (d->guest)
		text_printf(&line, "%sguest of SR-IOV", line.n ? ", " : "");
	struct str link = link_text(d, &a);
	if (link.n)
		text_printf(&line, "%slink " STR_FMT, line.n ? ", " : "", STR_ARG(link));
	add_firmware(&line, d);
	if (line.n) {
		fprintf(out, "%*s", INDENT, "");
		print_wrapped(out, text_str(&line), INDENT, INDENT, width);
	}
	text_free(&line);
	arena_free(&a);
}

static void put_gpu(const struct gpu_observation *g, size_t name_width, bool details, FILE *out,
		    const struct uh_report_options *o)
{
	const struct device *d = g->device;
	struct text line = { 0 };
	struct text name = { 0 };
	text_printf(&name, STR_FMT "%s" STR_FMT "%s", STR_ARG(d->name.n ? d->name : S("AMD GPU")), d->gfx.n ? " (" : "",
		    STR_ARG(d->gfx), d->gfx.n ? ")" : "");
	print_safe(out, d->pci);
	fputs("  ", out);
	print_safe(out, text_str(&name));
	fprintf(out, "%*s  %s%-9.*s%s ", (int)(name.n < name_width ? name_width - name.n : 0), "", colour_of(g, o),
		STR_ARG(g->health), o->colour ? "\033[0m" : "");
	if (d->busy >= 0)
		text_printf(&line, "%3lld %%  ", (long long)d->busy);
	if (d->power_mw >= 0)
		text_printf(&line, "%3lld W  ", (long long)d->power_mw / 1000);
	add_size(&line, d->vram_used, d->vram_total);
	if (d->nholders)
		text_printf(&line, "  ");
	add_holders(&line, d);
	print_safe(out, text_str(&line));
	fputc('\n', out);
	if (details)
		put_details(g, out, report_width(o));
	if (d->devcoredump.n) {
		struct arena room = { 0 };
		struct command_maker *m = command_begin(&room);
		command_add(m, "the driver saved its state for some minutes: sudo cp ");
		command_add_value(m, PIECE_PATH, d->devcoredump);
		command_add(m, " gpu-core.txt; unhang explain gpu-core.txt");
		const struct command *saved = command_end(m);
		if (saved)
			fprintf(out, "%*s", INDENT, "");
		if (saved)
			print_wrapped(out, command_str(saved), INDENT, INDENT, report_width(o));
		arena_free(&room);
	}
	if (g->unseen.n && details) {
		fprintf(out, "%*s", INDENT, "");
		print_wrapped(out, g->unseen, INDENT, INDENT, report_width(o));
	}
	text_free(&line);
	text_free(&name);
}

void report_machine_text(const struct machine_observation *m, FILE *out, const struct uh_report_options *o)
{
	size_t width = 0;
	for (size_t i = 0; i < m->n; i++) {
		size_t n = m->gpus[i].device->name.n + m->gpus[i].device->gfx.n + 3;
		width = n > width ? n : width;
	}
	if (!m->n && m->devices.pci_known && !m->devices.unread.n)
		fputs("This machine has no AMD GPU.\n", out);
	for (size_t i = 0; i < m->n; i++)
		put_gpu(&m->gpus[i], width < NAMES ? width : NAMES, m->n <= 2 || m->gpus[i].unwell || o->verbose, out, o);
	bool refused = false;
	for (size_t i = 0; i < m->n; i++)
		refused |= m->gpus[i].device->refused.n;
	if (m->n && (!m->devices.root || refused))
		fputs("As root unhang would also see registers, waves, rings and queues: sudo unhang\n", out);
	else if (m->n && !m->devices.debugfs)
		fputs("debugfs is not mounted; with it unhang would also see registers, waves and rings: mount -t debugfs none "
		      "/sys/kernel/debug\n",
		      out);
}

// --- JSON ---

static void jw_known(struct json *j, const char *key, int64_t v)
{
	jw_key(j, key);
	if (v >= 0)
		jw_int(j, v);
	else
		jw_null(j);
}

static void jw_known_text(struct json *j, const char *key, struct str v)
{
	jw_key(j, key);
	if (v.n)
		jw_str(j, v);
	else
		jw_null(j);
}

static void jw_holders(struct json *j, const struct device *d)
{
	jw_key(j, "processes");
	jw_open(j, '[');
	for (size_t i = 0; i < d->nholders; i++) {
		jw_open(j, '{');
		jw_known_text(j, "name", d->holders[i].name);
		jw_known(j, "pid", d->holders[i].pid);
		jw_key(j, "compute");
		jw_bool(j, d->holders[i].compute);
		jw_known(j, "vram", d->holders[i].vram);
		jw_close(j, '}');
	}
	jw_close(j, ']');
}

static void jw_link(struct json *j, const struct link *l)
{
	jw_key(j, "link");
	jw_open(j, '{');
	jw_known_text(j, "speed", l->speed);
	jw_known(j, "width", l->width);
	jw_known_text(j, "max_speed", l->max_speed);
	jw_known(j, "max_width", l->max_width);
	jw_known(j, "correctable", l->correctable);
	jw_known(j, "nonfatal", l->nonfatal);
	jw_known(j, "fatal", l->fatal);
	jw_close(j, '}');
}

static void jw_firmware(struct json *j, const struct device *d)
{
	jw_key(j, "firmware");
	jw_open(j, '[');
	for (size_t i = 0; i < d->nfirmware; i++) {
		jw_open(j, '{');
		jw_field(j, "name", d->firmware[i].name);
		jw_key(j, "version");
		jw_hex(j, d->firmware[i].version);
		jw_close(j, '}');
	}
	jw_close(j, ']');
}

static void jw_gpu(struct json *j, const struct gpu_observation *g)
{
	const struct device *d = g->device;
	jw_open(j, '{');
	jw_field(j, "pci", d->pci);
	jw_known_text(j, "name", d->name);
	jw_known_text(j, "gfx", d->gfx);
	jw_field(j, "verdict", str_z(verdict_name(gpu_verdict(g))));
	jw_field(j, "health", g->health);
	jw_known_text(j, "stuck", g->unwell ? g->unit : (struct str){ 0 });
	jw_known_text(j, "says", g->says);
	jw_known_text(j, "unseen", g->unseen);
	jw_known_text(j, "driver", d->driver);
	jw_known(j, "card", d->card);
	jw_known(j, "render", d->render);
	jw_known(j, "busy", d->busy);
	jw_known(j, "power_mw", d->power_mw);
	jw_known(j, "temperature_mc", d->temperature);
	jw_known(j, "clock_mhz", d->clock);
	jw_known(j, "vram_used", d->vram_used);
	jw_known(j, "vram_total", d->vram_total);
	jw_known(j, "interrupts", d->interrupts);
	jw_known(j, "waves", g->waves_known ? (int64_t)g->waves : -1);
	jw_known_text(j, "runtime_status", d->runtime_status);
	jw_known_text(j, "serial", d->serial);
	jw_known_text(j, "unique_id", d->unique_id);
	jw_known_text(j, "slot", d->slot);
	jw_known_text(j, "xgmi_hive", d->hive);
	jw_known_text(j, "compute_partition", d->compute_partition);
	jw_known_text(j, "memory_partition", d->memory_partition);
	jw_known_text(j, "vbios", d->vbios);
	jw_known(j, "xccs", d->shaders.xccs ? (int64_t)d->shaders.xccs : -1);
	jw_key(j, "guest");
	jw_bool(j, d->guest);
	jw_link(j, &d->link);
	jw_firmware(j, d);
	jw_holders(j, d);
	jw_known_text(j, "devcoredump", d->devcoredump);
	jw_close(j, '}');
}

static void jw_unread(struct json *j, const struct unread *u)
{
	struct str paths = u->paths;
	while (paths.n)
		jw_str(j, str_split(&paths, '\n'));
}

void report_machine_json(const struct machine_observation *m, struct json *j)
{
	jw_key(j, "machine");
	jw_open(j, '{');
	jw_known_text(j, "kernel", m->devices.kernel);
	jw_known_text(j, "driver_version", m->devices.driver_version);
	jw_key(j, "root");
	jw_bool(j, m->devices.root);
	jw_key(j, "debugfs");
	jw_bool(j, m->devices.debugfs);
	jw_key(j, "unread");
	jw_open(j, '[');
	jw_unread(j, &m->devices.unread);
	for (size_t i = 0; i < m->n; i++)
		jw_unread(j, &m->devices.list[i].unread);
	jw_unread(j, &m->devices.processes_unread);
	jw_close(j, ']');
	jw_key(j, "gpus");
	jw_open(j, '[');
	for (size_t i = 0; i < m->n; i++)
		jw_gpu(j, &m->gpus[i]);
	jw_close(j, ']');
	jw_close(j, '}');
}
