// An incident in full (-v): head and timeline, what is advised, the lines of the evidence behind it, and its picture. It is the report
// for those who want to check the first screen.
#include <stdlib.h>

#include "base/print.h"
#include "report/cases.h"
#include "report/picture/picture.h"
#include "report/text/prose.h"
#include "report/text/wrap.h"

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

/** `4 times in 5 days`. */
static void times_part(const struct incident *i, struct text *part)
{
	_cleanup_text_ struct text over = { 0 };
	if (i->times < 2)
		return;
	text_printf(part, "%u times", i->times);
	if (prose_duration(&over, i->over))
		text_printf(part, " in " STR_FMT, STR_ARG(text_str(&over)));
}

/** As precise as the evidence is: name, part and address of the GPU, or that it names none. */
static void gpu_part(const struct incident *i, struct text *part)
{
	const struct fact *node = i->root ? diag_fact(i->root, "gpu_node") : NULL, *index = i->root ? diag_fact(i->root, "gpu_index") : NULL;
	if (i->gpu.device.n)
		text_add(part, i->gpu.device);
	else if (node)
		text_printf(part, "node-" STR_FMT, STR_ARG(node->value));
	else if (index)
		text_printf(part, "number " STR_FMT " (PCI address not known)", STR_ARG(index->value));
	else if (i->root && diag_fact(i->root, "gpu_card"))
		text_printf(part, "card" STR_FMT " (PCI address not known)", STR_ARG(diag_value(i->root, "gpu_card")));
	else if (!i->gpu.name.n && !i->gpu.gfx.n)
		text_add(part, i->other_gpus.len ? S("PCI address not known") : S("not named in this log"));
	if (i->other_gpus.len && i->gpu.device.n)
		text_printf(part, " and %zu more", i->other_gpus.len);
	else if (i->other_gpus.len)
		text_printf(part, "; %zu GPU%s announced it", i->other_gpus.len, i->other_gpus.len == 1 ? "" : "s");
	if (i->gpu.name.n)
		text_printf(part, "%s" STR_FMT " (" STR_FMT ")", part->n ? " " : "", STR_ARG(i->gpu.name), STR_ARG(i->gpu.gfx));
	else if (i->gpu.gfx.n)
		text_printf(part, "%s" STR_FMT, part->n ? " " : "", STR_ARG(i->gpu.gfx));
	if (i->host.n && !str_is(i->host, "host")) // what logs are made anonymous with says nothing
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
	_cleanup_text_ struct text lasted = { 0 };
	if (i->end.seconds > i->begin.seconds + 0.05 && prose_between(&lasted, i->begin, i->end))
		text_printf(&parts[3], i->now ? "for " STR_FMT " so far" : "lasted " STR_FMT, STR_ARG(text_str(&lasted)));
	struct text *part = &parts[4];
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
	if (i->ranks.len > 1)
		text_printf(&parts[5], "%zu processes", i->ranks.len);
	times_part(i, &parts[6]);
	for (size_t n = 0; n < PARTS; n++) {
		if (parts[n].n)
			text_printf(to, "%s" STR_FMT, to->n ? "; " : "", STR_ARG(text_str(&parts[n])));
		text_free(&parts[n]);
	}
}

void prose_fault(const struct incident *i, bool with_cause, struct text *to)
{
	const char *fault = prose_confidence(i->fault_confidence), *cause = prose_confidence(i->confidence);
	const bool known = !str_is(i->fault, "unknown"), same = with_cause && known && !strcmp(fault, cause);
	// A word tells how sure it is whose fault it was, in both reports; beside the cause's figure there is no second one.
	const bool guess = known && !same && i->fault_confidence < CONFIDENCE_HIGH;
	if (guess)
		text_add(to, i->fault_confidence < CONFIDENCE_MEDIUM ? S("perhaps ") : S("probably "));
	text_add(to, i->fault_say.n             ? i->fault_say :
		     str_is(i->fault, "job")    ? S("the program") :
		     str_is(i->fault, "node")   ? S("the node (hardware or setup)") :
		     str_is(i->fault, "driver") ? S("the driver or firmware") :
						  S("unknown"));
	if (known && !same && !(guess && with_cause))
		text_printf(to, " (%s confidence)", fault);
	for (size_t n = 0; n < i->processes.len; n++) {
		const struct diag_process *p = &i->processes.data[n];
		if (!str_is(str_z(p->role), "bystander"))
			continue;
		text_printf(to, "; " STR_FMT, STR_ARG(p->name));
		if (p->pid.n)
			text_printf(to, " (" STR_FMT ")", STR_ARG(p->pid));
		text_add(to, S(" is named but probably not to blame"));
	}
	if (!with_cause)
		return;
	// Of the reasons the first, which matters most.
	struct str reasons = i->sure;
	const struct str first = str_split(&reasons, ';');
	text_printf(to, ". %s: %s; " STR_FMT ".", same ? "Confidence" : "Confidence in the cause", cause, STR_ARG(first));
}

void prose_title(const struct incident *i, struct text *to)
{
	struct str now;
	const bool well = incident_get(i, S("gpu_now"), 0, &now);
	text_printf(to, "%s" STR_FMT ".", !i->history ? "" : well ? "Past incident, the GPU works now. " : "Past incident: the reset after it succeeded. ", STR_ARG(i->title));
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
	_cleanup_text_ struct text line = { 0 };
	prose_title(i, &line);
	prose_wrap(t, text_str(&line), 0, 0);
	fprintf(t->out, "%s", prose_plain(t));
	text_clear(&line);
	prose_summary(t, i, &line);
	prose_label(t, "GPU", text_str(&line));
	text_clear(&line);
	prose_module(i, &line);
	if (line.n)
		prose_label(t, "Module", text_str(&line));
	prose_label(t, "Now", i->action_text);
	text_clear(&line);
	prose_fault(i, false, &line);
	prose_label(t, "Fault", text_str(&line));
	prose_answers(t, i);
	fputc('\n', t->out);
}

// --- the timeline ---

/** Where the text of a row begins: below its time where there is no room beside it. */
static size_t row_text(const struct text_report *t) { return t->width < STACKED_BELOW ? STACKED_TEXT : ROW_TEXT; }

static void text_incident_put_row(const struct text_report *t, const struct diag_event *e)
{
	static const char *const colours[] = { "\033[1;31m", "\033[33m", "\033[2m", "\033[36m" };
	const bool stacked = t->width < STACKED_BELOW;
	_cleanup_text_ struct text time = { 0 }, elapsed = { 0 }, line = { 0 };
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
		_cleanup_text_ struct text over = { 0 };
		const bool told = prose_between(&over, e->time, e->last);
		text_printf(&line, " (%u times%s" STR_FMT ")", e->count, told ? " in " : "", STR_ARG(text_str(&over)));
	}
	if (e->unattested && e->role == ROLE_CAUSE)
		text_add(&line, S(" (unattested: the record carries no device)"));
	prose_place(t, &line, e->at);
	prose_wrap(t, text_str(&line), row_text(t), row_text(t));
}

void prose_event(void *ctx, const struct diag_event *e, size_t id)
{
	const struct text_report *t = ctx;
	(void)id;
	text_incident_put_row(t, e);
	// Why the event has its role: the rule of knowledge/chains.know by which another one can have led to it.
	if (e->lead) {
		_cleanup_text_ struct text line = { 0 };
		text_printf(&line, "after " STR_FMT ": " STR_FMT " (" STR_FMT ")", STR_ARG(e->led_by->kind->title),
			    STR_ARG(e->lead->why), STR_ARG(e->lead->head.id));
		fprintf(t->out, "%*s", (int)row_text(t), "");
		prose_wrap(t, text_str(&line), row_text(t), row_text(t));
	}
	for (size_t n = 0; n < e->nfacts; n++)
		prose_fact(t, t->width < STACKED_BELOW ? STACKED_TEXT : ROW_ROLE, &e->facts[n]);
}

// What an incident's report advises: remedies, settings, known-bad versions, next steps.

static void text_incident_put_extra(const struct text_report *t, const char *what, struct str text)
{
	if (!text.n)
		return;
	fprintf(t->out, "%*s%s: ", LABEL + 3, "", what);
	prose_wrap(t, text, LABEL + 3, LABEL + 5 + strlen(what));
}

static void put_extra_step(const struct text_report *t, const char *what, const struct command *c)
{
	if (!c)
		return;
	fprintf(t->out, "%*s%s:", LABEL + 3, "", what);
	wrap_step(t->out, c, &(struct row_style){ LABEL + 3, 0, t->width }, LABEL + 4 + strlen(what));
}

void prose_remedy(void *ctx, const struct diag_remedy *r, size_t number)
{
	struct text_report *t = ctx;
	const struct know_remedy *k = r->remedy;
	if (r->verdict.state != REMEDY_TRY) {
		// What is no step: it is in force, does not exist here, or is not needed any more.
		const struct remedy_verdict *v = &r->verdict;
		_cleanup_text_ struct text line = { 0 };
		if (!v->fact.n)
			text_printf(&line, STR_FMT ": ", STR_ARG(k->title));
		text_add(&line, v->because);
		if (r->fact)
			prose_place(t, &line, r->fact->at);
		else if (r->where.n)
			text_printf(&line, " [" STR_FMT "]", STR_ARG(r->where));
		text_add(&line, S("."));
		if (v->state == REMEDY_APPLIED && v->fact.n && !str_is(k->kind, "cure") && r->steps.cost && r->steps.undo)
			text_printf(&line, " Cost: " STR_FMT ". If it does not help: " STR_FMT ".",
				    STR_ARG(command_str(r->steps.cost)), STR_ARG(command_str(r->steps.undo)));
		prose_label(t, v->state == REMEDY_APPLIED ? "Tried" : "Not", text_str(&line));
		return;
	}
	fprintf(t->out, "%s%-*s%s", prose_paint(t, "\033[1m"), LABEL, number == 1 ? "Try" : "", prose_plain(t));
	_cleanup_text_ struct text line = { 0 };
	text_printf(&line, "%zu. ", number);
	if (!r->certain && r->steps.condition)
		text_printf(&line, "If " STR_FMT ": ", STR_ARG(command_str(r->steps.condition)));
	text_printf(&line, STR_FMT "  [" STR_FMT ": " STR_FMT ", grade " STR_FMT ", " STR_FMT "]", STR_ARG(k->title),
		    STR_ARG(k->head.id), STR_ARG(k->kind), STR_ARG(k->grade), STR_ARG(k->source));
	prose_wrap(t, text_str(&line), LABEL + 3, LABEL);
	for (size_t n = 0; n < r->steps.n; n++) {
		fprintf(t->out, "%*s", LABEL + 3, "");
		wrap_step(t->out, r->steps.list[n], &(struct row_style){ LABEL + 3, 0, t->width }, LABEL + 3);
	}
	text_incident_put_extra(t, "because", r->why);
	text_incident_put_extra(t, "here", r->numbers);
	put_extra_step(t, "check", r->steps.verify);
	put_extra_step(t, "cost", r->steps.cost);
	put_extra_step(t, "risk", r->steps.risk);
	put_extra_step(t, "undo", r->steps.undo);
	put_extra_step(t, "not needed once", r->steps.until);
}

void prose_setting(void *ctx, const struct diag_setting *s)
{
	struct text_report *t = ctx;
	_cleanup_text_ struct text line = { 0 };
	text_add(&line, s->text);
	if (s->fact)
		prose_place(t, &line, s->fact->at);
	text_printf(&line, ".  [grade " STR_FMT ", " STR_FMT "]", STR_ARG(s->grade), STR_ARG(s->source));
	prose_label(t, "Set", text_str(&line));
}

void prose_like(void *ctx, const struct incident *i, const struct diag_like *l)
{
	struct text_report *t = ctx;
	_cleanup_text_ struct text line = { 0 };
	(void)i;
	text_printf(&line, STR_FMT ": " STR_FMT " [" STR_FMT "]", STR_ARG(l->nearest->head.id), STR_ARG(l->defect->title),
		    STR_ARG(l->defect->head.id));
	prose_label(t, "Like", text_str(&line));
	text_clear(&line);
	case_link(&line, l->nearest);
	text_incident_put_extra(t, "link", text_str(&line));
	text_clear(&line);
	like_solved(&line, l->defect);
	text_incident_put_extra(t, "state", text_str(&line));
	text_incident_put_extra(t, "fix", l->defect->fix);
	text_clear(&line);
	like_facts_text(&line, l->same, l->nsame);
	text_incident_put_extra(t, "same", text_str(&line));
	text_clear(&line);
	like_facts_text(&line, l->differs, l->ndiffers);
	text_incident_put_extra(t, "differs", text_str(&line));
	text_clear(&line);
	for (size_t n = 1; n < l->ncases; n++)
		text_printf(&line, "%s" STR_FMT, n > 1 ? ", " : "", STR_ARG(l->cases[n]->head.id));
	text_incident_put_extra(t, "other threads", text_str(&line));
}

void prose_known(void *ctx, const struct know_bad *b)
{
	struct text_report *t = ctx;
	_cleanup_text_ struct text line = { 0 };
	text_printf(&line, STR_FMT ". ", STR_ARG(b->title));
	if (b->good.n)
		text_printf(&line, "Good: " STR_FMT ".", STR_ARG(b->good));
	text_printf(&line, "  [grade " STR_FMT ", " STR_FMT "]", STR_ARG(b->grade), STR_ARG(b->source));
	prose_label(t, "Known", text_str(&line));
}

void prose_next(void *ctx, const struct diag_next *n)
{
	struct text_report *t = ctx;
	_cleanup_text_ struct text why = { 0 };
	text_printf(&why, STR_FMT ":", STR_ARG(n->why));
	prose_label(t, "Next", text_str(&why));
	wrap_command(t->out, command_str(n->run), LABEL + 3, t->width);
}

// What is asked, and what was answered.

void prose_reply(const struct diag_reply *r, struct text *to)
{
	if (r->acts)
		text_printf(to, STR_FMT " ", STR_ARG(r->action_text));
	if (r->leads)
		text_printf(to, "Fault: " STR_FMT " (%s confidence). ", STR_ARG(r->leads->title),
			    prose_confidence(r->fault_confidence));
	if (r->first && (r->leads || r->changes))
		text_printf(to, "Try first: " STR_FMT " [" STR_FMT "].", STR_ARG(r->first->remedy->title),
			    STR_ARG(r->first->remedy->head.id));
	if (!to->n)
		text_add(to, S("This changes nothing."));
}

void prose_question(void *ctx, const struct diag_question *q)
{
	struct text_report *t = ctx;
	_cleanup_text_ struct text line = { 0 };
	text_printf(&line, STR_FMT " " STR_FMT, STR_ARG(q->question->ask), STR_ARG(q->question->why));
	prose_label(t, "Ask", text_str(&line));
	text_clear(&line);
	question_command(t->diagnosis, q, &line);
	wrap_command(t->out, text_str(&line), LABEL + 3, t->width);
	for (size_t n = 0; n < q->n; n++) {
		text_clear(&line);
		prose_reply(&q->replies[n], &line);
		_cleanup_text_ struct text label = { 0 };
		text_printf(&label, STR_FMT, STR_ARG(q->replies[n].reply));
		text_incident_put_extra(t, label.p, text_str(&line));
	}
}

void prose_answers(const struct text_report *t, const struct incident *i)
{
	_cleanup_text_ struct text line = { 0 };
	for (size_t n = 0; n < i->answers.len; n++) {
		text_clear(&line);
		text_printf(&line, STR_FMT " You replied: " STR_FMT ".", STR_ARG(i->answers.data[n].question->ask),
			    STR_ARG(i->answers.data[n].reply));
		prose_label(t, "Reply", text_str(&line));
	}
	text_clear(&line);
	for (size_t n = 0; n < i->explanations.len; n++)
		text_printf(&line, "%s" STR_FMT " %.0f %%", line.n ? "; " : "",
			    STR_ARG(i->explanations.data[n].explanation->title), 100 * i->explanations.data[n].weight);
	if (i->answers.len && line.n)
		prose_label(t, "Likely", text_str(&line));
}

// The lines of the evidence behind what a report says, in the form of grep: FILE:LINE:TEXT.

enum { LINES_BRIEF = 40 };

typedef VEC(struct place) places;

static void text_incident_add_place(places *list, struct place at)
{
	for (size_t n = 0; n < list->len; n++)
		if (!by_place(&list->data[n], &at))
			return;
	vec_push(list, at);
}

/** Returns how many lines there were. */
static size_t text_incident_put_lines(const struct text_report *t, places *list)
{
	size_t shown = 0;
	if (list->len)
		qsort(list->data, list->len, sizeof(list->data[0]), by_place);
	for (size_t n = 0; n < list->len; n++) {
		const struct str line = lines_at(t->diagnosis->lines, list->data[n]);
		if (!line.n)
			continue;
		print_safe(t->out, evidence_at(t->diagnosis->evidence, list->data[n].source)->path);
		fprintf(t->out, ":%llu:", (unsigned long long)list->data[n].line);
		for (struct str rest = line, part = str_split(&rest, '\t');; part = str_split(&rest, '\t')) {
			print_safe(t->out, part);
			if (part.p + part.n == line.p + line.n)
				break;
			fputc('\t', t->out);
		}
		fputc('\n', t->out);
		shown++;
	}
	list->len = 0;
	return shown;
}

static void put_heading(const struct text_report *t, struct str what, const char *role)
{
	fprintf(t->out, "%s# ", prose_paint(t, "\033[1m"));
	print_safe(t->out, what);
	if (role)
		fprintf(t->out, " (%s)", role);
	fprintf(t->out, "%s\n", prose_plain(t));
}

void evidence_lines(const struct text_report *t, const struct incident *i)
{
	_cleanup_vec_ places list = { 0 };
	size_t shown = 0, left = 0;
	if (!t->diagnosis->lines)
		return;
	fputc('\n', t->out);
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *e = i->events.data[n];
		text_incident_add_place(&list, e->at);
		for (size_t f = 0; f < e->nfacts; f++)
			text_incident_add_place(&list, e->facts[f].at);
		if (!t->options->verbose && (shown >= LINES_BRIEF || (e->kind->quiet && e->role != ROLE_CAUSE))) {
			left += list.len;
			list.len = 0;
			continue;
		}
		put_heading(t, e->kind->title, role_name(e->role));
		shown += text_incident_put_lines(t, &list);
	}
	for (size_t n = 0; n < i->machine.len; n++)
		text_incident_add_place(&list, i->machine.data[n].at);
	if (list.len)
		put_heading(t, S("the machine"), NULL);
	text_incident_put_lines(t, &list);
	if (left)
		fprintf(t->out, "# %zu more line%s (-vv)\n", left, left == 1 ? "" : "s");
}

// The lead picture of an incident below its first screen, whose rows are a timeline already: only on a terminal that has room for both.
enum { SCREEN = 24, PROMPT = 2 };

void prose_picture(const struct text_report *t, const struct incident *i)
{
	const enum know_picture kind = i->cause->class->picture;
	struct picture p;
	_cleanup_text_ struct text drawn = { 0 };
	if (t->options->drawing == UH_DRAW_NOTHING || kind == SHOWS_TIMELINE || !picture_make(kind, t->diagnosis, i, &p))
		return;
	picture_draw(&p, t->options->drawing == UH_DRAW_ASCII, t->width, &drawn);
	size_t lines = PROMPT;
	for (size_t n = 0; n < drawn.n; n++)
		lines += drawn.p[n] == '\n';
	if (drawn.n && SCREEN + lines <= t->options->height) {
		fprintf(t->out, "\n%s%s%s\n", prose_paint(t, "\033[1m"), picture_title(kind), prose_plain(t));
		fwrite(drawn.p, 1, drawn.n, t->out);
	}
	picture_free(&p);
}
