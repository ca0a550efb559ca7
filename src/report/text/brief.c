// The first screen: what happened, on which GPU, what to do now, whose fault, the few events that matter, why, how sure, what to try, and
// what would tell more. Everything else is one option away.
#include <stdlib.h>

#include "base/print.h"
#include "report/cases.h"
#include "report/text/prose.h"
#include "report/text/wrap.h"

// The few events that matter: the cause first, each kind of event once, and at most ROWS_BRIEF of them.

enum { ROWS_BRIEF = 4, WHOLE_LINES = 8 };

/** By what the process of an event is told from others. */
static struct str who_of(const struct diag_event *e, const char **ret_word)
{
	static const char *const names[][2] = { { "rank", "rank" }, { "group_rank", "rank" }, { "pid", "process" } };
	for (size_t n = 0; n < ARRAY_SIZE(names); n++) {
		const struct fact *f = diag_fact(e, names[n][0]);
		if (f) {
			*ret_word = names[n][1];
			return f->value;
		}
	}
	return (struct str){ 0 };
}

/** Whether the two are told in one row because several processes report the same. */
static bool same_of_another(const struct diag_event *a, const struct diag_event *b)
{
	const char *word;
	return b->many.n && str_eq(a->many, b->many) && who_of(a, &word).n && who_of(b, &word).n;
}

void rows_event(void *ctx, const struct diag_event *e, size_t id)
{
	struct text_report *t = ctx;
	const char *word;
	(void)id;
	if (!t->full || (e->kind->quiet && e->role != ROLE_CAUSE))
		return;
	for (size_t n = 0; n < t->rows.len; n++) {
		struct brief_row *r = &t->rows.data[n];
		if (r->event->kind != e->kind || r->event->role != e->role)
			continue;
		if (same_of_another(r->event, e)) {
			if (!r->who.n)
				text_add(&r->who, who_of(r->event, &word));
			text_printf(&r->who, " " STR_FMT, STR_ARG(who_of(e, &word)));
		} else if (str_eq(r->event->sentence, e->sentence)) {
			r->count += e->count;
		} else {
			r->others += e->count;
		}
		r->last = e->last;
		return;
	}
	struct brief_row row = { .event = e, .count = e->count, .last = e->last };
	vec_push(&t->rows, row);
}

/** How much a reader misses without it. What tells how the GPU came back, or did not, is the end of the story. */
static int brief_weight(const struct text_report *t, size_t n)
{
	const struct diag_event *e = t->rows.data[n].event;
	const bool ends = diag_fact(e, "reset_outcome") || diag_fact(e, "reset_method") || diag_fact(e, "vram_lost") ||
			  diag_fact(e, "ring_reset");
	enum { WHOLE = 100 }; // above what a role is worth
	static const int of_role[] = { [ROLE_CAUSE] = 40, [ROLE_EFFECT] = 40, [ROLE_ARTEFACT] = 0, [ROLE_BYSTANDER] = 10 };
	return of_role[e->role] + (e->kind->whole ? WHOLE : 0) + (ends ? 20 : 0) - (int)(n < 16 ? n : 16);
}

/** The row of the cause: the root's, where the ranks do not tell that another went first; else the first that is a cause, else the first. */
static size_t cause_row(const struct text_report *t, const struct incident *i)
{
	size_t first = 0;
	for (size_t n = t->rows.len; n; n--) {
		const struct diag_event *e = t->rows.data[n - 1].event;
		if (e == i->root && e->role == ROLE_CAUSE)
			return n - 1;
		if (e->role == ROLE_CAUSE)
			first = n - 1;
	}
	return first;
}

static void drop(struct text_report *t, size_t n)
{
	text_free(&t->rows.data[n].who);
	memmove(&t->rows.data[n], &t->rows.data[n + 1], (t->rows.len - n - 1) * sizeof(t->rows.data[0]));
	t->rows.len--;
}

/** `ranks 0-10, 12, 13: waited in vain ...` */
static void add_many(const struct brief_row *r, struct text *line)
{
	enum { SHOWN = 256 };
	int64_t numbers[SHOWN];
	size_t n = 0;
	const char *word = "process";
	struct str all = text_str(&r->who);
	who_of(r->event, &word);
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
	text_printf(line, " " STR_FMT, STR_ARG(r->event->many));
}

/** Of the first row when it was, of the others how long after that. Seconds since the boot, which tell nobody when it was, are for -v. */
static void brief_add_time(const struct text_report *t, const struct brief_row *r, struct text *to)
{
	const struct diag_event *e = r->event;
	const struct stamp time = prose_stamp(t->diagnosis, e);
	if (r == t->rows.data && time.clock != TIME_BOOT && time.clock != TIME_RELATIVE)
		prose_clock(to, time);
	else if (r == t->rows.data)
		return;
	else
		prose_elapsed(to, t->rows.data[0].event->time, r->event->time);
}

/** Columns of the rows' times and roles. */
struct row_columns {
	size_t time, role;
};

/** One event in a line: when, what, and where it stands, which is kept even if the text is cut. */
static void brief_add_row(struct text_report *t, const struct brief_row *r, const struct row_columns *wide)
{
	static const char *const colours[] = { "\033[1;31m", "\033[33m", "\033[2m", "\033[36m" };
	const bool stacked = t->width < STACKED_BELOW;
	const struct diag_event *e = r->event;
	const bool first = r == t->rows.data;
	_cleanup_text_ struct text line = { 0 };
	struct block *p = screen_add(&t->screen, (struct block){ .label = role_name(e->role),
								 .paint = colours[e->role],
								 .least = e->kind->whole ? WHOLE_LINES : first ? 2 : 1,
								 .most = e->kind->whole ? WHOLE_LINES : first ? 3 : 2,
								 .fixed = e->kind->whole,
								 .stacked = stacked });
	text_add(&p->lead, S("  "));
	brief_add_time(t, r, &p->lead);
	if (wide->time && (!stacked || p->lead.n > 2))
		text_printf(&p->lead, "%*s", (int)(2 + wide->time + 2 - p->lead.n), "");
	p->column = p->lead.n + wide->role + 2;
	p->indent = stacked ? 4 : p->column;
	text_printf(&line, STR_FMT ": ", STR_ARG(e->kind->title));
	if (r->who.n)
		add_many(r, &line);
	else
		text_add(&line, e->sentence);
	screen_text(&t->screen, p, text_str(&line));
	// What follows the sentence: how often, and where it was read.
	if (r->others)
		text_printf(&p->behind, " (and %u more)", r->others);
	else if (r->count > 1 && !e->kind->once && !r->who.n)
		text_printf(&p->behind, " (%u times)", r->count);
	prose_place(t, &p->behind, e->at);
}

// --- callbacks of the walk ---

enum { LINES = 24, COLUMNS_USUAL = 80, REMEDIES = 3, OTHERS = 3, NOW_LINES = 5 };

static struct block *add_label(struct text_report *t, const char *label, size_t least, size_t most)
{
	return screen_add(&t->screen, (struct block){ .label = label, .indent = LABEL, .least = least, .most = most });
}

static void add_gap(struct text_report *t) { screen_add(&t->screen, (struct block){ .form = FORM_GAP }); }

void brief_incident(void *ctx, const struct incident *i)
{
	struct text_report *t = ctx;
	t->full = (!t->index && !t->batch) || t->options->all;
	if (!t->full)
		return;
	t->screen = (struct screen){ t->out, t->options->colour, t->width };
	t->tried = 0;
	t->nexts = 0;
	t->knowns = 0;
	t->likes = 0;
	t->way_back = false;
	if (t->index)
		add_gap(t);
	_cleanup_text_ struct text line = { 0 };
	prose_title(i, &line);
	struct block *p = screen_add(&t->screen, (struct block){ .whole = true, .least = 3, .most = 3 });
	screen_text(&t->screen, p, text_str(&line));
	text_clear(&line);
	prose_summary(t, i, &line);
	screen_text(&t->screen, add_label(t, "GPU", 2, 2), text_str(&line));
	text_clear(&line);
	prose_module(i, &line);
	// Which module it is, and what to do with it, is what an operator opens the screen for.
	const bool service = i->action->service.n;
	if (line.n) {
		p = add_label(t, "Module", 2, 2);
		p->fixed = true;
		screen_text(&t->screen, p, text_str(&line));
	}
	p = add_label(t, "Now", service ? NOW_LINES : 2, service ? NOW_LINES : 3);
	p->fixed = service;
	screen_text(&t->screen, p, i->action_text);
	text_clear(&line);
	prose_fault(i, true, &line);
	p = add_label(t, "Fault", 3, 3);
	const ptrdiff_t sure = str_find(text_str(&line), S(". Confidence"));
	p->kept = sure < 0 ? 0 : (size_t)sure + 1; // whose fault it is says little without how sure that is
	screen_text(&t->screen, p, text_str(&line));
	add_gap(t);
}

/** Behind the timeline. */
static void add_why(struct text_report *t, const struct incident *i)
{
	// The few rows that matter, as blocks of the screen.
	struct row_columns wide = { 0 };
	_cleanup_text_ struct text time = { 0 };
	// Leaves those that matter most, in their order, the cause first.
	const size_t cause = cause_row(t, i);
	if (t->rows.len) {
		const struct brief_row first = t->rows.data[cause];
		memmove(&t->rows.data[1], &t->rows.data[0], cause * sizeof(first));
		t->rows.data[0] = first;
	}
	// That a reset begins is no news beside the row that says which one it was.
	bool named = false;
	for (size_t n = 0; n < t->rows.len; n++)
		named |= diag_fact(t->rows.data[n].event, "reset_method") != NULL;
	for (size_t n = t->rows.len; named && n > 1; n--)
		if (t->rows.data[n - 1].event->kind->tells == TELLS_RESET_BEGINS &&
		    !diag_fact(t->rows.data[n - 1].event, "reset_method"))
			drop(t, n - 1);
	while (t->rows.len > ROWS_BRIEF) {
		size_t least = 1;
		for (size_t n = 2; n < t->rows.len; n++)
			if (brief_weight(t, n) < brief_weight(t, least))
				least = n;
		drop(t, least);
	}
	for (size_t n = 0; n < t->rows.len; n++) {
		const size_t role = strlen(role_name(t->rows.data[n].event->role));
		text_clear(&time);
		brief_add_time(t, &t->rows.data[n], &time);
		wide.time = time.n > wide.time ? time.n : wide.time;
		wide.role = role > wide.role ? role : wide.role;
	}
	for (size_t n = 0; n < t->rows.len; n++)
		brief_add_row(t, &t->rows.data[n], &wide);
	for (size_t n = 0; n < t->rows.len; n++)
		text_free(&t->rows.data[n].who);
	vec_free(&t->rows);
	add_gap(t);
	screen_text(&t->screen, add_label(t, "Why", 2, 4), i->explanation);
}

/** The nearest with its fix; the others by their names, where there is room. */
void brief_like(void *ctx, const struct incident *i, const struct diag_like *l)
{
	enum { ROWS = 4 };
	struct text_report *t = ctx;
	_cleanup_text_ struct text line = { 0 };
	(void)i;
	if (!t->full)
		return;
	if (!t->likes++) {
		struct block *p = add_label(t, "Like", 2, ROWS);
		p->advice = true;
		p->kept = like_row(&line, l) - 1; // a thread, or half a fix, tells nobody what to do
		screen_text(&t->screen, p, text_str(&line));
		return;
	}
	struct block *p = &t->screen.blocks.data[t->screen.blocks.len - 1];
	text_printf(&line, "%s" STR_FMT ".", t->likes == 2 ? "Also: " : "", STR_ARG(l->nearest->head.id));
	screen_text(&t->screen, p, text_str(&line));
}

void brief_known(void *ctx, const struct know_bad *b)
{
	struct text_report *t = ctx;
	if (!t->full || t->knowns++)
		return;
	struct block *p = add_label(t, "Known", 1, 2);
	screen_text(&t->screen, p, b->title);
	if (b->good.n) {
		screen_text(&t->screen, p, S("Good:"));
		screen_text(&t->screen, p, b->good);
	}
}

/** The way back from a change is known to the letter, and everything below it makes room for it. A command that would fill the screen is
 * left to -v. */
static void add_way_back(struct text_report *t, const struct command *step)
{
	enum { COMMAND_LINES = 6, WORDS_LINES = 3, INDENT = LABEL + 3 };
	const struct str run = command_run(step, 0);
	const bool long_one = run.n && wrap_command(NULL, run, INDENT, t->width) > COMMAND_LINES;
	t->way_back = true;
	if (run.n && !long_one) {
		struct block *p = screen_add(&t->screen, (struct block){ .form = FORM_COMMAND, .indent = INDENT });
		text_add(&p->text, run);
		return;
	}
	struct block *p = screen_add(
		&t->screen,
		(struct block){ .indent = INDENT, .column = INDENT, .label = "", .least = WORDS_LINES, .most = WORDS_LINES });
	screen_text(&t->screen, p, long_one ? S("unhang explain -v has the command, which is long.") : command_str(step));
}

void brief_remedy(void *ctx, const struct diag_remedy *r, size_t number)
{
	struct text_report *t = ctx;
	(void)number;
	if (!t->full || r->verdict.state != REMEDY_TRY || !r->shown || t->tried == REMEDIES)
		return;
	_cleanup_text_ struct text line = { 0 };
	struct block *p = add_label(t, t->tried++ ? "" : "Try", 1, 4);
	text_printf(&line, "%zu. ", t->tried);
	if (!r->certain && r->steps.condition)
		text_printf(&line, "If " STR_FMT ": ", STR_ARG(command_str(r->steps.condition)));
	p->kept = line.n;
	p->advice = true;
	text_add(&line, r->remedy->title);
	text_printf(&p->behind, " [" STR_FMT "]", STR_ARG(r->remedy->head.id));
	p->column = LABEL;
	p->indent = LABEL + 3;
	screen_text(&t->screen, p, text_str(&line));
	p->yields = t->way_back;
	if (way_back_step(r))
		add_way_back(t, way_back_step(r));
}

/** What would tell more makes room for what solved the same elsewhere, and for the way back. */
void brief_next(void *ctx, const struct diag_next *n)
{
	struct text_report *t = ctx;
	if (!t->full || t->nexts++)
		return;
	const bool yields = t->likes || t->way_back;
	struct block *p = add_label(t, "Next", 1, 2);
	p->yields = yields;
	screen_text(&t->screen, p, n->why);
	text_add(&p->behind, S(":"));
	p = screen_add(&t->screen, (struct block){ .form = FORM_COMMAND, .indent = LABEL, .yields = yields });
	text_add(&p->text, command_str(n->run));
}

/** The question and a command that answers it, in one line, or with the command below it. A command that takes more than a line is said
 * by what to add to the one that was typed. */
void brief_question(void *ctx, const struct diag_question *q)
{
	struct text_report *t = ctx;
	_cleanup_text_ struct text command = { 0 }, all = { 0 }, others = { 0 };
	if (!t->full)
		return;
	question_command(t->diagnosis, q, &command);
	question_replies(q, 0, &all);
	question_replies(q, 1, &others);
	const struct str typed = command_str(t->diagnosis->again);
	const struct str added = typed.n ? str_from(text_str(&command), typed.n + 1) : text_str(&command);
	const size_t wide = print_columns(text_str(&command)), asked = LABEL + print_columns(q->question->ask) + 2;
	const bool below = typed.n && LABEL + wide <= t->width;
	struct block *p = add_label(t, "Ask", 2, 2);
	p->yields = true;
	text_printf(&p->text, STR_FMT "  ", STR_ARG(q->question->ask));
	if (typed.n && asked + wide + strlen(" (or )") + others.n <= t->width) {
		text_printf(&p->text, STR_FMT " (or " STR_FMT ")", STR_ARG(text_str(&command)), STR_ARG(text_str(&others)));
	} else if (!below) {
		text_printf(&p->text, "Add " STR_FMT " (or " STR_FMT ") to the command.", STR_ARG(added),
			    STR_ARG(text_str(&others)));
	} else {
		text_printf(&p->text, "(" STR_FMT ")", STR_ARG(text_str(&all)));
		p = screen_add(&t->screen, (struct block){ .form = FORM_COMMAND, .indent = LABEL, .yields = true });
		text_add(&p->text, text_str(&command));
	}
}

void brief_close(void *ctx, enum report_list list, const struct incident *i)
{
	struct text_report *t = ctx;
	if (!i || !t->full)
		return;
	if (list == LIST_TIMELINE)
		add_why(t, i);
	if (list == LIST_CHANGES)
		brief_not_blamed(t, i);
	if (list == LIST_REMEDIES && !t->tried && !incident_proof(i))
		screen_text(&t->screen, add_label(t, "Try", 1, 2),
			    i->next.len ? S("Nothing specific is known. The next step tells more.") :
					  S("Nothing specific is known."));
}

/** As many words as fit, with room for ` ...` where that is not all. */
static struct str brief_fitting(struct str s, size_t columns)
{
	enum { DOTS = 4 };
	struct str rest = s, shown = s;
	if (print_columns(s) <= columns)
		return s;
	for (shown.n = 0; rest.n;) {
		str_word(&rest);
		const struct str more = str_cut(s, s.n - rest.n);
		if (print_columns(more) + DOTS > columns)
			break;
		shown = more;
	}
	return shown;
}

/** Incidents that are not told in full: a line each. */
static void put_other(struct text_report *t, const struct incident *i, size_t total)
{
	if (t->index == OTHERS + 2)
		fprintf(t->out, "  and %zu more\n", total - t->index + 1);
	if (t->index > OTHERS + 1)
		return;
	_cleanup_text_ struct text line = { 0 };
	_cleanup_text_ struct text place = { 0 };
	prose_date(&line, evidence_wall(evidence_at(t->diagnosis->evidence, i->events.data[0]->at.source), i->begin));
	text_printf(&line, "%s" STR_FMT "%s" STR_FMT, line.n ? "  " : "", STR_ARG(i->gpu.device), i->gpu.device.n ? "  " : "",
		    STR_ARG(i->title));
	prose_place(t, &place, i->events.data[0]->at);
	const struct str shown = brief_fitting(text_str(&line), t->width - 2 - print_columns(text_str(&place)));
	fputs("  ", t->out);
	print_safe(t->out, shown);
	fputs(shown.n < line.n ? " ..." : "", t->out);
	print_safe(t->out, text_str(&place));
	fputc('\n', t->out);
}

/** What follows the incidents. */
static size_t notes_lines(const struct text_report *t)
{
	size_t n = 0;
	for (size_t i = 0; i < t->diagnosis->nnotes; i++)
		n += !t->diagnosis->notes[i].quiet && report_has_note(t->diagnosis, &t->diagnosis->notes[i]);
	return n ? 1 + NOTE_LINES * (n < NOTES_BRIEF ? n : NOTES_BRIEF) : 0;
}

void brief_end(void *ctx, const struct incident *i)
{
	struct text_report *t = ctx;
	const size_t total = t->diagnosis->ledger->incidents.len;
	const size_t others = t->options->all || total < 2 ? 0 : total - 1 > OTHERS ? OTHERS + 3 : total + 1;
	t->index++;
	if (t->batch && !t->full)
		return;
	if (!t->full) {
		put_other(t, i, total);
		return;
	}
	struct block *more = add_label(t, "More", 1, 2);
	more->spare = true;
	const struct str typed = command_str(t->diagnosis->again);
	const bool looked = t->diagnosis->observed && (!typed.n || str_is(typed, "unhang"));
	screen_text(&t->screen, more,
		    looked ? S("unhang -v: every event; unhang remedy ID: steps, cost and source") :
			     S("unhang explain -v: every event; unhang remedy ID: steps, cost and source"));
	const size_t lines = LINES - others - notes_lines(t);
	// Narrow lines hold less.
	screen_write(&t->screen, t->width < COLUMNS_USUAL ? lines * COLUMNS_USUAL / t->width : lines);
	prose_picture(t, i);
	evidence_lines(t, i);
	if (others)
		fprintf(t->out, "\n%zu more incident%s (--all):\n", total - 1, total > 2 ? "s" : "");
}
