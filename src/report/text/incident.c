// The head of an incident: what happened, on which GPU, what to do now, and its timeline.
#include "base/print.h"
#include "report/text/parts.h"

enum { TITLE = 19, ROW_TIME = 12, ROW_ELAPSED = 8, ROW_ROLE = 22, ROW_TEXT = 53, STACKED_TEXT = 4 };

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

static void reset_part(const struct incident *i, struct text *part)
{
	struct str method = any_fact(i, "reset_method"), outcome = any_fact(i, "reset_outcome"),
		   ring = any_fact(i, "ring_reset");
	if (method.n || outcome.n) {
		text_printf(part, "reset: " STR_FMT "%s", STR_ARG(method), method.n ? ", " : "");
		text_add(part, any_fact(i, "reset_undone").n ? S("but the GPU did not come back") :
			       outcome.n                     ? outcome :
							       S("outcome unknown"));
		if (any_fact(i, "vram_lost").n)
			text_add(part, S("; VRAM lost"));
	} else if (ring.n) {
		text_printf(part, "ring reset: " STR_FMT, STR_ARG(ring));
	} else if (i->reset_began) {
		text_add(part, S("reset begun, outcome unknown"));
	}
}

/** `4 times in 5 days`. */
static void times_part(const struct incident *i, struct text *part)
{
	struct text over = { 0 };
	if (i->times < 2)
		return;
	text_printf(part, "%u times", i->times);
	if (prose_duration(&over, i->over))
		text_printf(part, " in " STR_FMT, STR_ARG(text_str(&over)));
	text_free(&over);
}

static void gpu_part(const struct incident *i, struct text *part)
{
	const struct fact *node = i->root ? diag_fact(i->root, "gpu_node") : NULL;
	if (i->gpu.device.n)
		text_add(part, i->gpu.device);
	else if (node)
		text_printf(part, "node-" STR_FMT, STR_ARG(node->value));
	else if (!i->gpu.name.n && !i->gpu.gfx.n)
		text_add(part, S("not named in this log"));
	if (i->other_gpus.len)
		text_printf(part, " and %zu more", i->other_gpus.len);
	if (i->gpu.name.n)
		text_printf(part, "%s" STR_FMT " (" STR_FMT ")", part->n ? " " : "", STR_ARG(i->gpu.name), STR_ARG(i->gpu.gfx));
	else if (i->gpu.gfx.n)
		text_printf(part, "%s" STR_FMT, part->n ? " " : "", STR_ARG(i->gpu.gfx));
	if (i->host.n)
		text_printf(part, ", host " STR_FMT, STR_ARG(i->host));
}

void prose_summary(const struct text_report *t, const struct incident *i, struct text *to)
{
	enum { PARTS = 7 };
	struct text parts[PARTS] = { 0 };
	struct str kernel = { 0 };
	gpu_part(i, &parts[0]);
	if (incident_get(i, S("kernel"), 0, &kernel))
		text_printf(&parts[1], "kernel " STR_FMT, STR_ARG(kernel));
	if (i->events.len)
		prose_date(&parts[2],
			   evidence_wall(evidence_at(t->diagnosis->evidence, i->events.data[0]->at.source), i->begin));
	struct text lasted = { 0 };
	if (i->end.seconds > i->begin.seconds + 0.05 && prose_between(&lasted, i->begin, i->end))
		text_printf(&parts[3], i->now ? "for " STR_FMT " so far" : "lasted " STR_FMT, STR_ARG(text_str(&lasted)));
	text_free(&lasted);
	reset_part(i, &parts[4]);
	if (i->ranks.len > 1)
		text_printf(&parts[5], "%zu processes", i->ranks.len);
	times_part(i, &parts[6]);
	for (size_t n = 0; n < PARTS; n++) {
		if (parts[n].n)
			text_printf(to, "%s" STR_FMT, to->n ? "; " : "", STR_ARG(text_str(&parts[n])));
		text_free(&parts[n]);
	}
}

static struct str blame(struct str fault)
{
	return str_is(fault, "job")    ? S("the program") :
	       str_is(fault, "node")   ? S("the node (hardware or setup)") :
	       str_is(fault, "driver") ? S("the driver or firmware") :
					 S("unknown");
}

void prose_fault(const struct incident *i, struct text *to)
{
	text_add(to, blame(i->fault));
	for (size_t n = 0; n < i->processes.len; n++) {
		const struct diag_process *p = &i->processes.data[n];
		if (!str_is(str_z(p->role), "bystander"))
			continue;
		text_printf(to, "; " STR_FMT, STR_ARG(p->name));
		if (p->pid.n)
			text_printf(to, " (" STR_FMT ")", STR_ARG(p->pid));
		text_add(to, S(" is named but probably not to blame"));
	}
}

void prose_title(const struct incident *i, struct text *to)
{
	text_printf(to, "%s" STR_FMT ".", i->history ? "Past incident, the GPU works now. " : "", STR_ARG(i->title));
	if (i->last_work.n)
		text_printf(to, " " STR_FMT, STR_ARG(i->last_work));
	if (i->before_log)
		text_add(to,
			 i->log_has_boot ? S(" The log does not show the cause.") : S(" The cause is earlier than this log."));
}

void prose_incident(void *ctx, const struct incident *i)
{
	struct text_report *t = ctx;
	t->full = true;
	t->begin = i->begin;
	if (t->index)
		fprintf(t->out, "\n");
	fprintf(t->out, "%s", prose_paint(t, "\033[1m"));
	struct text line = { 0 };
	prose_title(i, &line);
	prose_wrap(t, text_str(&line), 0, 0);
	fprintf(t->out, "%s", prose_plain(t));
	text_clear(&line);
	prose_summary(t, i, &line);
	prose_label(t, "GPU", text_str(&line));
	prose_label(t, "Now", i->action_text);
	text_clear(&line);
	prose_fault(i, &line);
	prose_label(t, "Fault", text_str(&line));
	text_free(&line);
	fputc('\n', t->out);
}

// --- the timeline ---

/** Where the text of a row begins: below its time where there is no room beside it. */
static size_t row_text(const struct text_report *t) { return t->width < STACKED_BELOW ? STACKED_TEXT : ROW_TEXT; }

static void put_row(const struct text_report *t, const struct diag_event *e)
{
	static const char *const colours[] = { "\033[1;31m", "\033[33m", "\033[2m", "\033[36m" };
	const bool stacked = t->width < STACKED_BELOW;
	struct text time = { 0 }, elapsed = { 0 }, line = { 0 };
	prose_clock(&time, prose_stamp(t->diagnosis, e));
	prose_elapsed(&elapsed, t->begin, e->time);
	fprintf(t->out, "%-*.*s %-*.*s %s%-*s%s", ROW_TIME, STR_ARG(time.n ? text_str(&time) : S("-")), ROW_ELAPSED,
		STR_ARG(text_str(&elapsed)), prose_paint(t, colours[e->role]), stacked ? 0 : 9, role_name(e->role),
		prose_plain(t));
	if (stacked)
		fprintf(t->out, "\n    ");
	else
		fprintf(t->out, "  %-*.*s ", TITLE, STR_ARG(e->kind->title));
	if (stacked)
		text_printf(&line, STR_FMT ": ", STR_ARG(e->kind->title));
	text_add(&line, e->sentence);
	if (e->count > 1 && !e->kind->once) {
		struct text over = { 0 };
		const bool told = prose_between(&over, e->time, e->last);
		text_printf(&line, " (%u times%s" STR_FMT ")", e->count, told ? " in " : "", STR_ARG(text_str(&over)));
		text_free(&over);
	}
	if (e->unattested && e->role == ROLE_CAUSE)
		text_add(&line, S(" (unattested: the record carries no device)"));
	prose_place(t, &line, e->at);
	prose_wrap(t, text_str(&line), row_text(t), row_text(t));
	text_free(&time);
	text_free(&elapsed);
	text_free(&line);
}

/** Why the event has its role: the rule of knowledge/chains.know by which another one can have led to it. */
static void put_rule(const struct text_report *t, const struct diag_event *e)
{
	if (!e->lead)
		return;
	struct text line = { 0 };
	text_printf(&line, "after " STR_FMT ": " STR_FMT " (" STR_FMT ")", STR_ARG(e->led_by->kind->title),
		    STR_ARG(e->lead->why), STR_ARG(e->lead->head.id));
	fprintf(t->out, "%*s", (int)row_text(t), "");
	prose_wrap(t, text_str(&line), row_text(t), row_text(t));
	text_free(&line);
}

void prose_event(void *ctx, const struct diag_event *e, size_t id)
{
	const struct text_report *t = ctx;
	(void)id;
	put_row(t, e);
	put_rule(t, e);
	for (size_t n = 0; n < e->nfacts; n++)
		prose_fact(t, t->width < STACKED_BELOW ? STACKED_TEXT : ROW_ROLE, &e->facts[n]);
}
