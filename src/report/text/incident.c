// The head of an incident: what happened, on which GPU, what to do now, and its timeline.
#include <stdlib.h>

#include "base/print.h"
#include "report/text/parts.h"

enum { TITLE = 19 };

static struct str any_fact(const struct incident *i, const char *name)
{
	struct str last = { 0 };
	for (size_t n = 0; n < i->events.len; n++) {
		const struct fact *f = diag_fact(i->events.data[n], name);
		if (f)
			last = f->value;
	}
	return last;
}

/** One part of the second line, on a new line where it does not fit any more. */
static void put_part(const struct text_report *t, size_t *column, const struct text *part)
{
	size_t n = print_columns(text_str(part));
	if (*column && *column + 3 + n > t->width) {
		fputs("\n  ", t->out);
		*column = 2;
	} else if (*column) {
		fputs("   ", t->out);
		*column += 3;
	}
	print_safe(t->out, text_str(part));
	*column += n;
}

static void reset_part(const struct incident *i, struct text *part)
{
	struct str method = any_fact(i, "reset_method"), outcome = any_fact(i, "reset_outcome"),
		   ring = any_fact(i, "ring_reset");
	if (method.n || outcome.n) {
		text_printf(part, "reset: " STR_FMT "%s", STR_ARG(method), method.n ? ", " : "");
		text_add(part, any_fact(i, "reset_undone").n ? S("but the GPU did not come back") :
			       outcome.n                   ? outcome :
							     S("outcome not in this log"));
		if (any_fact(i, "vram_lost").n)
			text_add(part, S("; VRAM lost"));
	} else if (ring.n) {
		text_printf(part, "ring reset: " STR_FMT, STR_ARG(ring));
	} else if (i->reset_began) {
		text_add(part, S("reset begun, outcome not in this log"));
	}
}

/** `4 times in 5 days`. */
static void times_part(const struct incident *i, struct text *part)
{
	static const struct {
		double seconds;
		const char *unit;
	} units[] = { { 86400, "days" }, { 3600, "hours" }, { 60, "minutes" }, { 1, "seconds" } };
	if (i->times < 2)
		return;
	text_printf(part, "%u times", i->times);
	for (size_t n = 0; n < sizeof(units) / sizeof(units[0]); n++)
		if (i->over >= 2 * units[n].seconds) {
			text_printf(part, " in %.0f %s", i->over / units[n].seconds, units[n].unit);
			return;
		}
}

/** The second line: which GPU, which kernel, how long, and how it ended. */
static void put_summary(const struct text_report *t, const struct incident *i)
{
	struct text parts[6] = { 0 };
	struct str kernel = { 0 };
	const struct fact *node = i->root ? diag_fact(i->root, "gpu_node") : NULL;
	if (i->gpu.device.n)
		text_add(&parts[0], i->gpu.device);
	else if (node)
		text_printf(&parts[0], "GPU node-" STR_FMT, STR_ARG(node->value));
	else if (!i->gpu.name.n)
		text_add(&parts[0], S("GPU not named in this log"));
	if (i->other_gpus.len)
		text_printf(&parts[0], " and %zu more", i->other_gpus.len);
	if (i->gpu.name.n)
		text_printf(&parts[0], "%s" STR_FMT " (" STR_FMT ")", parts[0].n ? "  " : "", STR_ARG(i->gpu.name),
			    STR_ARG(i->gpu.gfx));
	else if (i->gpu.gfx.n)
		text_printf(&parts[0], "  " STR_FMT, STR_ARG(i->gpu.gfx));
	if (incident_get(i, S("kernel"), 0, &kernel))
		text_printf(&parts[1], "kernel " STR_FMT, STR_ARG(kernel));
	if (i->begin.clock != TIME_NONE && i->end.seconds > i->begin.seconds)
		text_printf(&parts[2], "lasted %.1f s", i->end.seconds - i->begin.seconds);
	reset_part(i, &parts[3]);
	times_part(i, &parts[5]);
	if (i->ranks.len > 1)
		text_printf(&parts[4], "%zu processes", i->ranks.len);
	size_t column = 0;
	for (size_t n = 0; n < sizeof(parts) / sizeof(parts[0]); n++) {
		if (parts[n].n)
			put_part(t, &column, &parts[n]);
		text_free(&parts[n]);
	}
	fputc('\n', t->out);
}

static struct str blame(struct str fault)
{
	return str_is(fault, "job")    ? S("the job's") :
	       str_is(fault, "node")   ? S("the node's (hardware or set-up)") :
	       str_is(fault, "driver") ? S("the driver's or firmware's") :
					 S("not known from this log");
}

static void put_action(const struct text_report *t, const struct incident *i)
{
	prose_label(t, "Now", i->action_text);
	prose_label(t, "Fault", blame(i->fault));
	for (size_t n = 0; n < i->processes.len; n++) {
		const struct diag_process *p = &i->processes.data[n];
		if (!str_is(str_z(p->role), "bystander"))
			continue;
		struct text note = { 0 };
		text_printf(&note, STR_FMT " (" STR_FMT ") is named in the log but is probably a bystander.", STR_ARG(p->name),
			    STR_ARG(p->pid.n ? p->pid : S("?")));
		prose_label(t, "", text_str(&note));
		text_free(&note);
	}
}

void prose_incident(void *ctx, const struct incident *i)
{
	struct text_report *t = ctx;
	t->full = !t->index || t->options->all || t->options->verbose;
	t->rows = 0;
	t->quiet = 0;
	t->held = NULL;
	t->begin = i->begin;
	if (!t->full)
		return;
	if (t->index)
		fprintf(t->out, "\n");
	fprintf(t->out, "%s", prose_paint(t, "\033[1m"));
	struct text title = { 0 };
	text_printf(&title, STR_FMT ".", STR_ARG(i->title));
	if (i->before_log)
		text_printf(&title, i->log_has_boot ? " What led to it is not in the log." :
						      " What led to it is earlier than this log.");
	prose_wrap(t, text_str(&title), 0, 0);
	text_free(&title);
	fprintf(t->out, "%s", prose_plain(t));
	put_summary(t, i);
	put_action(t, i);
	fputc('\n', t->out);
}

// --- the timeline ---

/** How long after the incident began. */
static void put_elapsed(const struct text_report *t, struct stamp time)
{
	char text[16] = "";
	double seconds = time.seconds - t->begin.seconds;
	if (time.clock == t->begin.clock && time.clock != TIME_NONE && seconds >= 0.001)
		snprintf(text, sizeof(text),
			 seconds < 1   ? "+%.0f ms" :
			 seconds < 100 ? "+%.3g s" :
					 "+%.0f s",
			 seconds < 1 ? seconds * 1000 : seconds);
	fprintf(t->out, " %-8s ", text);
}

/** By what the process of an event is told from others. */
static struct str who_of(const struct diag_event *e, const char **ret_word)
{
	static const char *const names[][2] = { { "rank", "rank" }, { "group_rank", "rank" }, { "pid", "process" } };
	for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
		const struct fact *f = diag_fact(e, names[n][0]);
		if (f) {
			*ret_word = names[n][1];
			return f->value;
		}
	}
	return (struct str){ 0 };
}

/** `ranks 0-10, 12, 13: waited in vain ...` */
static void put_many(const struct text_report *t, struct text *line, const struct diag_event *e)
{
	enum { SHOWN = 256 };
	int64_t numbers[SHOWN];
	size_t n = 0;
	const char *word = "process";
	struct str all = text_str(&t->held_who);
	who_of(e, &word);
	for (struct str one = str_word(&all); one.n && n < SHOWN; one = str_word(&all))
		n += str_number(one, &numbers[n]);
	qsort(numbers, n, sizeof(numbers[0]), compare_numbers);
	text_printf(line, "%s ", strcmp(word, "rank") ? "processes" : "ranks");
	for (size_t i = 0; i < n; i++) {
		size_t last = i;
		while (last + 1 < n && numbers[last + 1] <= numbers[last] + 1)
			last++;
		text_printf(line, "%s%lld", i ? ", " : "", (long long)numbers[i]);
		if (numbers[last] > numbers[i])
			text_printf(line, "%s%lld", numbers[last] == numbers[i] + 1 ? ", " : "-", (long long)numbers[last]);
		i = last;
	}
	text_printf(line, " " STR_FMT, STR_ARG(e->many));
}

void prose_row(struct text_report *t)
{
	const struct diag_event *e = t->held;
	static const char *const colours[] = { "\033[1;31m", "\033[33m", "\033[2m", "\033[36m" };
	if (!e)
		return;
	t->held = NULL;
	if (t->rows++ == ROWS_MAX && !t->options->verbose) {
		fprintf(t->out, "%s\n", "...         more with --verbose");
		return;
	}
	if (t->rows > ROWS_MAX && !t->options->verbose)
		return;
	prose_time(t, e->time);
	put_elapsed(t, e->time);
	fprintf(t->out, "%s%-9s%s  %-*.*s ", prose_paint(t, colours[e->role]), role_name(e->role), prose_plain(t), TITLE,
		STR_ARG(e->kind->title));
	struct text line = { 0 };
	if (t->held_who.n)
		put_many(t, &line, e);
	else
		text_add(&line, e->sentence);
	if (t->held_count > 1 && !e->kind->once && !t->held_who.n) {
		text_printf(&line, " (%u times", t->held_count);
		if (t->held_last.clock == e->time.clock && t->held_last.seconds > e->time.seconds + 0.05)
			text_printf(&line, " in %.1f s", t->held_last.seconds - e->time.seconds);
		text_add(&line, S(")"));
	}
	prose_place(t, &line, e->at);
	prose_wrap(t, text_str(&line), ROW_TEXT, ROW_TEXT);
	text_free(&line);
}

/** Why the event has its role: the rule of knowledge/chains.know by which another one can have led to it. */
static void put_rule(const struct text_report *t, const struct diag_event *e)
{
	if (!e->lead)
		return;
	struct text line = { 0 };
	text_printf(&line, "after " STR_FMT ": " STR_FMT " (" STR_FMT ")", STR_ARG(e->led_by->kind->title), STR_ARG(e->lead->why),
		    STR_ARG(e->lead->head.id));
	fprintf(t->out, "%*s", ROW_TEXT, "");
	prose_wrap(t, text_str(&line), ROW_TEXT, ROW_TEXT);
	text_free(&line);
}

void prose_event(void *ctx, const struct diag_event *e, size_t id)
{
	(void)id;
	struct text_report *t = ctx;
	if (t->full && e->kind->quiet && e->role != ROLE_CAUSE && !t->options->verbose) {
		t->quiet++;
		return;
	}
	if (!t->full)
		return;
	bool same = t->held && !t->options->verbose && t->held->kind == e->kind && t->held->role == e->role &&
		    t->rows < ROWS_MAX && str_eq(t->held->sentence, e->sentence);
	if (same) {
		t->held_count += e->count;
		t->held_last = e->last;
		return;
	}
	const char *word;
	if (t->held && !t->options->verbose && t->held->kind == e->kind && t->held->role == e->role && e->many.n &&
	    str_eq(t->held->many, e->many) && who_of(e, &word).n && who_of(t->held, &word).n) {
		if (!t->held_who.n)
			text_add(&t->held_who, who_of(t->held, &word));
		text_printf(&t->held_who, " " STR_FMT, STR_ARG(who_of(e, &word)));
		t->held_last = e->last;
		return;
	}
	prose_row(t);
	text_clear(&t->held_who);
	t->held = e;
	t->held_count = e->count;
	t->held_last = e->last;
	if (!t->options->verbose)
		return;
	prose_row(t);
	put_rule(t, e);
	for (size_t n = 0; n < e->nfacts; n++)
		prose_fact(t, ROW_TEXT, &e->facts[n]);
}
