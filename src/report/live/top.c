#include "report/live/top.h"

#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include "base/print.h"
#include "report/sheet.h"

enum { WIDTH = 80, ROW_WIDTH = 67, BLOCK_LINES = 4, FRAME_LINES = 5, BAR = 10, TOP_ROOM = 64, TOP_SLOWED = 256, MS = 1000, MILLI = 1000, MINUTE = 60, HOUR = 3600, DAY = 86400 };

static const double gigabyte = 1 << 30;

/** A line of the screen: what does not fit is cut off, and what is written over is wiped. */
struct top_page {
	const struct uh_top_style *style;
	FILE *out;
	unsigned lines;
};

static size_t top_fits(struct str s, size_t columns)
{
	size_t bytes = 0;
	for (size_t n; bytes < s.n && columns && (n = utf8_length(str_from(s, bytes))); bytes += n)
		columns--;
	return bytes;
}

static void top_put(struct top_page *p, const char *colour, struct text *line)
{
	const unsigned width = p->style->width ? p->style->width : WIDTH;
	struct text safe = { 0 };
	if (p->style->height && p->lines >= p->style->height)
		return;
	text_add_safe(&safe, text_str(line));
	const struct str all = text_str(&safe), shown = p->style->height ? str_cut(all, top_fits(all, width)) : all;
	// Wiped before it is written: behind a line that fills its row, the cursor is still on the last character.
	if (p->style->height)
		fputs(p->lines ? "\r\n\033[K" : "\033[K", p->out);
	if (p->style->colour && colour)
		fprintf(p->out, "\033[%sm" STR_FMT "\033[0m", colour, STR_ARG(shown));
	else
		print_str(p->out, shown);
	if (!p->style->height)
		fputc('\n', p->out);
	p->lines++;
	text_free(&safe);
	text_clear(line);
}

__attribute__((format(printf, 3, 4))) static void top_say(struct top_page *p, const char *colour, const char *format, ...)
{
	_cleanup_text_ struct text t = { 0 };
	va_list ap;
	va_start(ap, format);
	text_vprintf(&t, format, ap);
	va_end(ap);
	top_put(p, colour, &t);
}

/** `300 of 355 W`, `300 W`; `-`: not known. */
static const char *top_of(char room[static TOP_ROOM], int64_t value, int64_t most, int64_t divide, const char *of, const char *unit)
{
	if (value < 0)
		return strcpy(room, "-");
	if (most > 0)
		snprintf(room, TOP_ROOM, "%lld%s%lld%s%s", (long long)(value / divide), of, (long long)(most / divide), *unit ? " " : "",
			 unit);
	else
		snprintf(room, TOP_ROOM, "%lld%s%s", (long long)(value / divide), *unit && *unit != '%' ? " " : "", unit);
	return room;
}

static const char *top_memory(char room[static TOP_ROOM], const struct device *d, const char *of, const char *unit)
{
	if (d->vram_used < 0 || d->vram_total <= 0)
		return strcpy(room, "-");
	snprintf(room, TOP_ROOM, "%.1f%s%.1f%s", (double)d->vram_used / gigabyte, of, (double)d->vram_total / gigabyte, unit);
	return room;
}

/** `########--` */
static const char *top_bar(char room[static BAR + 3], int64_t part, int64_t whole)
{
	const int64_t full = whole > 0 && part >= 0 ? (part >= whole ? BAR : part * BAR / whole) : -1;
	if (full < 0)
		return strcpy(room, "");
	memset(room + 1, '-', BAR);
	memset(room + 1, '#', (size_t)full);
	room[0] = '[';
	room[BAR + 1] = ']';
	room[BAR + 2] = '\0';
	return room;
}

static bool top_stands(const struct top_queue *q) { return q->compared && !q->done && q->waiting; }

/** Its queues: `3, 1 stands`. */
static const char *top_queues(char room[static TOP_ROOM], const struct top_seen *t, const struct device *d)
{
	size_t n = 0, stand = 0;
	for (size_t i = 0; i < t->nqueues; i++)
		if (str_eq(t->queues[i].gpu, d->pci)) {
			n++;
			stand += top_stands(&t->queues[i]);
		}
	snprintf(room, TOP_ROOM, stand ? "%zu, %zu stand%s" : "%zu", n, stand, stand == 1 ? "s" : "");
	return room;
}

static const char *top_worry(const struct top_gpu *g)
{
	return g->throttle.n ? "33" : !str_is(g->state, "active") ? "2" : NULL;
}

/** `prochot 61 %, power 4 %` */
static const char *top_slowed(char room[static TOP_SLOWED], const struct top_gpu *g)
{
	size_t n = 0;
	if (!g->throttle.n)
		return strcpy(room, g->throttle_known ? "nothing" : "?");
	for (struct str rest = g->throttle; rest.n && n < TOP_SLOWED - 1;) {
		if (str_starts(rest, S(" of the time)"))) {
			rest = str_from(rest, sizeof(" of the time)") - 1);
			continue;
		}
		if (*rest.p != '(')
			room[n++] = *rest.p;
		rest = str_from(rest, 1);
	}
	room[n] = '\0';
	return room;
}

// --- a line for each ---

static void top_head_line(struct top_page *p)
{
	top_say(p, "1", "%-12s %4s %5s %8s %7s  %-11s %-11s %s", "GPU", "load", "MHz", "W", "C", "memory GB", "queues",
		"slowed by");
}

static void top_gpu_line(struct top_page *p, const struct top_seen *t, const struct top_gpu *g)
{
	const struct device *d = g->device;
	char load[TOP_ROOM], clock[TOP_ROOM], power[TOP_ROOM], heat[TOP_ROOM], memory[TOP_ROOM], queues[TOP_ROOM], slowed[TOP_SLOWED];
	const unsigned width = p->style->width ? p->style->width : WIDTH;
	if (!str_is(g->state, "active")) {
		top_say(p, top_worry(g), STR_FMT "  " STR_FMT, STR_ARG(d->pci), STR_ARG(g->state));
		return;
	}
	const bool fits = ROW_WIDTH + strlen(top_slowed(slowed, g)) <= width;
	top_say(p, top_worry(g), STR_FMT " %4s %5s %8s %7s  %-11s %-11s %s", STR_ARG(d->pci),
		top_of(load, d->busy, 0, 1, "", "%"), top_of(clock, d->clock, 0, 1, "", ""),
		top_of(power, d->power_mw, d->power_cap_mw, MILLI, "/", ""),
		top_of(heat, d->temperature, g->temperature_most, MILLI, "/", ""), top_memory(memory, d, "/", ""),
		top_queues(queues, t, d), fits ? slowed : "");
	if (!fits)
		top_say(p, top_worry(g), "%*sslowed by %s", 13, "", slowed);
}

// --- a block for each ---

static void top_block(struct top_page *p, const struct top_gpu *g)
{
	const struct device *d = g->device;
	char a[TOP_ROOM], b[TOP_ROOM], c[TOP_ROOM], slowed[TOP_SLOWED], bars[2][BAR + 3];
	top_say(p, "1", STR_FMT "  " STR_FMT "  " STR_FMT "  " STR_FMT, STR_ARG(d->pci), STR_ARG(d->name), STR_ARG(d->gfx),
		STR_ARG(str_is(g->state, "active") ? S("") : g->state));
	if (!str_is(g->state, "active"))
		return;
	top_say(p, NULL, "  load   %-13s %-12s  memory  %-17s %s", top_of(a, d->busy, 0, 1, "", "%"), top_bar(bars[0], d->busy, 100),
		top_memory(b, d, " of ", " GB"), top_bar(bars[1], d->vram_used, d->vram_total));
	top_say(p, NULL, "  power  %-13s %-12s  clock   %s%s%s", top_of(a, d->power_mw, d->power_cap_mw, MILLI, " of ", "W"),
		top_bar(bars[0], d->power_mw, d->power_cap_mw), top_of(b, d->clock, 0, 1, "", "MHz"),
		g->memory_clock >= 0 ? ", memory " : "", g->memory_clock >= 0 ? top_of(c, g->memory_clock, 0, 1, "", "MHz") : "");
	_cleanup_text_ struct text line = { 0 };
	text_printf(&line, "  temp   %-13s %-12s  slowed by  ",
		    top_of(a, d->temperature, g->temperature_most, MILLI, " of ", "C"),
		    top_bar(bars[0], d->temperature, g->temperature_most));
	text_printf(&line, "%s", top_slowed(slowed, g));
	top_put(p, g->throttle.n ? "33" : NULL, &line);
}

// --- queues ---

static void top_queue_line(struct top_page *p, const struct top_seen *t, const struct top_queue *q)
{
	char room[48] = "first look";
	if (q->compared && q->done && !strcmp(q->unit, "packets"))
		snprintf(room, sizeof(room), "%.0f a second", (double)q->done * MS / (double)(t->watched_ms ? t->watched_ms : 1));
	else if (q->compared)
		snprintf(room, sizeof(room), "%s", q->done ? "moves" : q->waiting ? "stands" : "empty");
	top_say(p, top_stands(q) ? "33" : NULL, STR_FMT "  %5u  %-6s %6llu %-7.*s  %-14s  " STR_FMT " (%lld)", STR_ARG(q->gpu), q->id,
		q->client ? "driver" : "KFD", (unsigned long long)q->waiting, (int)strlen(q->unit) - (q->waiting == 1), q->unit, room,
		STR_ARG(q->process), (long long)q->pid);
}

/** Those that stand come first: they are what somebody looks for. */
static void top_queue_table(struct top_page *p, const struct top_seen *t, unsigned room)
{
	size_t shown = 0;
	if (!t->nqueues)
		top_say(p, NULL, "%s", t->root ? "No program has queues." : "Queues of programs: only root sees them.");
	if (!t->nqueues || room < 2)
		return;
	top_say(p, "1", "%-12s  %5s  %-6s %14s  %-14s  %s", "GPU", "queue", "of", "waiting", "progress", "program");
	for (int stands = 1; stands >= 0; stands--)
		for (size_t i = 0; i < t->nqueues; i++) {
			if (top_stands(&t->queues[i]) != stands)
				continue;
			const bool last = shown + 2 >= room && shown + 1 < t->nqueues;
			if (last) {
				top_say(p, "2", "and %zu more: unhang queues", t->nqueues - shown);
				return;
			}
			top_queue_line(p, t, &t->queues[i]);
			shown++;
		}
}

// --- the screen ---

static void top_incident(struct top_page *p, const struct top_seen *t)
{
	const struct stored *i = t->incident;
	const int64_t age = i ? t->now - i->began : 0;
	if (!i)
		top_say(p, NULL, "Newest incident: none is stored");
	else
		top_say(p, i->state == STORED_CLOSED ? NULL : "31",
			"Newest incident: %lld %s ago, " STR_FMT ", " STR_FMT ": " STR_FMT " [" STR_FMT "]",
			(long long)(age >= DAY  ? age / DAY :
				    age >= HOUR ? age / HOUR :
						  age / MINUTE),
			age >= DAY ? "d" : age >= HOUR ? "h" : "min", STR_ARG(stored_state_word(i->state)),
			STR_ARG(i->gpu.n ? i->gpu : S("no GPU")), STR_ARG(i->title), STR_ARG(i->id));
}

static void top_screen(struct top_page *p, const struct top_seen *t)
{
	char clock[16];
	const time_t now = (time_t)t->now;
	struct tm local;
	const unsigned height = p->style->height;
	size_t blocks = 0;
	strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &local));
	for (size_t i = 0; i < t->ngpus; i++)
		blocks += str_is(t->gpus[i].state, "active") ? BLOCK_LINES : 1;
	const bool wide = blocks + FRAME_LINES + (t->nqueues < 3 ? t->nqueues + 1 : 4) <= height;
	top_say(p, "7", "unhang top  %s  kernel " STR_FMT "  %zu GPU%s, every %u s", clock, STR_ARG(t->kernel), t->ngpus,
		t->ngpus == 1 ? "" : "s", p->style->seconds);
	if (!wide)
		top_head_line(p);
	for (size_t i = 0; i < t->ngpus; i++) {
		if (wide) {
			top_block(p, &t->gpus[i]);
			continue;
		}
		if (i + 1 < t->ngpus && p->lines + FRAME_LINES >= height) {
			top_say(p, "2", "and %zu more: unhang top --once", t->ngpus - i);
			break;
		}
		top_gpu_line(p, t, &t->gpus[i]);
	}
	top_say(p, NULL, "%s", "");
	if (p->lines + 3 < height)
		top_queue_table(p, t, height - p->lines - 3);
	while (p->lines + 2 < height)
		top_say(p, NULL, "%s", "");
	top_incident(p, t);
	top_say(p, "7", "q quit  l look  w waves  u queues  r rings  i incidents  +/- pace  space now");
}

static void top_document(const struct top_seen *t, FILE *out)
{
	struct sheet s = sheet_on(true, out);
	s.json.one_line = true;
	sheet_open(&s, NULL, '{');
	sheet_fields(&s, { "schema", v_word("unhang/top/1") }, { "time", v_date(t->now) }, { "kernel", v_known(t->kernel) },
		     { "root", v_bool(t->root) }, { "watched_ms", v_if(t->watched_ms, v_int(t->watched_ms)) });
	sheet_each (i, &s, "gpus", t->ngpus) {
		const struct top_gpu *g = &t->gpus[i];
		const struct device *d = g->device;
		sheet_fields(&s, { "pci", v_text(d->pci) }, { "name", v_known(d->name) }, { "gfx", v_known(d->gfx) },
			     { "state", v_text(g->state) }, { "busy", v_count(d->busy) }, { "memory_busy", v_count(d->memory_busy) },
			     { "clock_mhz", v_count(d->clock) }, { "memory_clock_mhz", v_count(g->memory_clock) },
			     { "power_mw", v_count(d->power_mw) }, { "power_cap_mw", v_count(d->power_cap_mw) },
			     { "temperature_mc", v_count(d->temperature) }, { "temperature_limit_mc", v_count(g->temperature_most) },
			     { "vram_used", v_count(d->vram_used) }, { "vram_total", v_count(d->vram_total) },
			     { "throttle", v_known(g->throttle) });
	}
	sheet_each (i, &s, "queues", t->nqueues) {
		const struct top_queue *q = &t->queues[i];
		sheet_fields(&s, { "gpu", v_text(q->gpu) }, { "id", v_number(q->id) }, { "pid", v_int(q->pid) },
			     { "process", v_known(q->process) }, { "of", v_word(q->client ? "driver" : "kfd") },
			     { "waiting", v_number(q->waiting) }, { "unit", v_word(q->unit) },
			     { "moved", v_if(q->compared, v_bool(q->done)) } );
	}
	if (sheet_object(&s, "incident", t->incident)) {
		sheet_fields(&s, { "id", v_text(t->incident->id) }, { "state", v_text(stored_state_word(t->incident->state)) },
			     { "gpu", v_known(t->incident->gpu) }, { "title", v_known(t->incident->title) },
			     { "began", v_date(t->incident->began) });
		sheet_close(&s, '}');
	}
	sheet_close(&s, '}');
}

void report_top(const struct top_seen *t, const struct uh_top_style *style, FILE *out)
{
	struct top_page p = { .style = style, .out = out };
	if (style->json) {
		top_document(t, out);
		return;
	}
	if (style->height) {
		fputs("\033[H", out);
		top_screen(&p, t);
		return;
	}
	top_head_line(&p);
	for (size_t i = 0; i < t->ngpus; i++)
		top_gpu_line(&p, t, &t->gpus[i]);
}
