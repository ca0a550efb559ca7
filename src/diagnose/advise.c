// What to do: with the machine now, against the cause, and to learn more.
#include "diagnose/incident.h"

#include <stdlib.h>

#include "diagnose/ask/question.h"
#include "host/host.h"
#include "knowledge/parameter.h"

enum { SHOWN_MAX = 3, GENERAL_MAX = 2, REMEDIES_MAX = 8, SPECULATIVE_MAX = 2, TOLD_MAX = 4 };

static bool advise_listed(const struct know_list *list, struct str word)
{
	for (; list; list = list->next)
		if (str_eq(list->text, word))
			return true;
	return false;
}

static bool fits_also(const struct incident *i, const struct know_list *classes)
{
	for (size_t n = 0; n < i->also.len; n++)
		if (advise_listed(classes, i->also.data[n]))
			return true;
	return false;
}

static void find_known_bad(struct incident *i, const struct know *k, const struct fact_view *view)
{
	for (size_t n = 0; n < k->bad.len; n++) {
		const struct know_bad *b = k->bad.data[n];
		if ((advise_listed(b->for_classes, i->cause->head.id) || fits_also(i, b->for_classes)) &&
		    condition_eval(b->when, view) == TRUTH_YES)
			vec_push(&i->known, b);
	}
	if (i->known.len && !i->before_log)
		i->confidence = i->confidence + 8 > 97 ? 97 : i->confidence + 8;
}

/** The facts of an incident and, behind them, those of the machine as it is. */
struct advice {
	struct incident *incident;
	const struct know *know;
	struct host_scope host; // without a host: of another machine, or of an earlier boot
	struct fact_view view;
};

static bool advice_get(const void *ctx, struct str name, size_t index, struct str *ret)
{
	const struct advice *a = ctx;
	struct str first;
	// What the driver says to be in effect is more than what was asked for on the command line.
	if (changes_get(&a->incident->changes, name, index, ret))
		return true;
	bool in_effect = a->host.host && str_starts(name, S("param.")) && host_get(&a->host, name, 0, &first);
	if (!in_effect && incident_get(a->incident, name, 0, &first))
		return incident_get(a->incident, name, index, ret);
	return a->host.host && host_get(&a->host, name, index, ret);
}

static const struct command *advice_command(const void *ctx, struct str name)
{
	return changes_command(&((const struct advice *)ctx)->incident->changes, name);
}

static const struct fact *machine_fact(const struct incident *i, struct str name)
{
	for (size_t n = 0; name.n && n < i->machine.len; n++)
		if (str_eq(i->machine.data[n].name, name))
			return &i->machine.data[n];
	return NULL;
}

/** Whether @step has something that the platform of the incident does not have. */
static bool step_is_foreign(const struct know *k, const struct fact_view *view, struct str step)
{
	struct str platform;
	for (size_t p = 0; view->get(view->ctx, S("platform"), p, &platform); p++)
		for (size_t n = 0; n < k->foreign.len; n++)
			if (str_eq(k->foreign.data[n]->head.id, platform) && str_find(step, k->foreign.data[n]->value) >= 0)
				return true;
	return false;
}

/** How well a remedy fits, best first. */
enum fit { FIT_SPECIAL, FIT_CLASS, FIT_ALSO, FIT_PERHAPS, FIT_NOT };

/** Where it stands among the remedies of the explanation that leads, from 1 on; 0: it is none of them. */
static unsigned place_called(const struct incident *i, const struct know_remedy *r)
{
	unsigned place = 1;
	for (const struct know_list *t = i->leads ? i->leads->tries : NULL; t; t = t->next, place++)
		if (str_eq(t->text, r->head.id))
			return place;
	return 0;
}

/** Its condition is known to hold; it has none; it is for what is true besides; whether it holds is not known. */
static enum fit fit_of(const struct advice *a, const struct know_remedy *r)
{
	const bool called = place_called(a->incident, r);
	bool cause = called || advise_listed(r->for_classes, a->incident->cause->head.id);
	if ((!cause && !fits_also(a->incident, r->for_classes)) || (!called && !know_work_fits(r->work, a->incident->work)) ||
	    (r->unless && condition_eval(r->unless, &a->view) == TRUTH_YES))
		return FIT_NOT;
	for (const struct know_list *step = r->steps; step; step = step->next)
		if (step_is_foreign(a->know, &a->view, step->text))
			return FIT_NOT;
	enum truth holds = condition_eval(r->when, &a->view);
	if (called && holds != TRUTH_NO) // the reply speaks for it
		return FIT_SPECIAL;
	if (!cause)
		return holds == TRUTH_YES && r->when ? FIT_ALSO : FIT_NOT;
	return holds == TRUTH_NO ? FIT_NOT : holds != TRUTH_YES ? FIT_PERHAPS : r->when ? FIT_SPECIAL : FIT_CLASS;
}

/** What the evidence has that a remedy asks for, in a few words. */
struct reasons {
	const struct advice *advice;
	struct text said;
};

static void add_reason(void *ctx, struct str name)
{
	struct reasons *r = ctx;
	const struct know *k = r->advice->know;
	struct str value;
	for (size_t n = 0; n < k->reasons.len; n++) {
		const struct know_row *row = k->reasons.data[n];
		if (!str_glob(row->head.id, name) || !r->advice->view.get(r->advice->view.ctx, name, 0, &value))
			continue;
		_cleanup_text_ struct text one = { 0 };
		struct str rest = row->value, before = str_split(&rest, '*');
		text_printf(&one, STR_FMT STR_FMT STR_FMT, STR_ARG(before), STR_ARG(value), STR_ARG(rest));
		if (str_find(text_str(&r->said), text_str(&one)) < 0)
			text_printf(&r->said, "%s" STR_FMT, r->said.n ? ", " : "", STR_ARG(text_str(&one)));
		return;
	}
}

static struct str why_here(const struct advice *a, const struct know_remedy *k)
{
	struct incident *i = a->incident;
	if (place_called(i, k))
		return arena_printf(&i->arena, "you replied " STR_FMT "=" STR_FMT,
				    STR_ARG(i->answers.data[0].question->head.id), STR_ARG(i->answers.data[0].reply));
	struct reasons r = { .advice = a };
	condition_facts(k->when, &a->view, add_reason, &r);
	struct str why = arena_str(&i->arena, text_str(&r.said));
	text_free(&r.said);
	return why;
}

/** How near the nearest of the defects is that this remedy solved. What one person reports moves nothing. */
static enum like_near like_solved_by(const struct incident *i, const struct know_remedy *r)
{
	for (size_t n = 0; n < i->like.len && i->like.data[n].shown; n++) {
		const struct know_defect *d = i->like.data[n].defect;
		if (d->confirmed > CONFIRMED_ONE && advise_listed(d->remedies, r->head.id))
			return i->like.data[n].near;
	}
	return LIKE_FAR;
}

/** How much of what is near this remedy solved, also where no case shares enough to be told, in tenths. */
static unsigned like_votes(const struct incident *i, const struct know_remedy *r)
{
	double votes = 0;
	for (size_t n = 0; n < i->like.len; n++) {
		const struct know_defect *d = i->like.data[n].defect;
		if (d->confirmed > CONFIRMED_ONE && advise_listed(d->remedies, r->head.id))
			votes += i->like.data[n].own;
	}
	return (unsigned)(votes * 10);
}

/** What is known to fit best, but for what solved a case that is near: that comes behind what is special, before what is for the class. */
static int advise_place(const struct diag_remedy *r)
{
	enum { BEHIND_SPECIAL = 1 };
	return r->like != LIKE_FAR && 2 * r->fit > BEHIND_SPECIAL ? BEHIND_SPECIAL : 2 * r->fit;
}

/** What solved a case that is very near stands first. What names no cause stands behind what does; then what the evidence speaks for, then
 * what is better founded. */
static bool advise_better(const struct diag_remedy *a, const struct diag_remedy *b)
{
	if (a->called != b->called)
		return a->called && (!b->called || a->called < b->called);
	const bool a_like = a->like != LIKE_FAR, b_like = b->like != LIKE_FAR;
	// A change that is to blame comes before what helped others.
	const bool a_first = a->certain && a->remedy->first, b_first = b->certain && b->remedy->first;
	if (a_first != b_first)
		return a_first;
	if ((a->like == LIKE_VERY_NEAR) != (b->like == LIKE_VERY_NEAR))
		return a->like == LIKE_VERY_NEAR;
	if ((a->certain || a_like) != (b->certain || b_like))
		return a->certain || a_like;
	if ((a->remedy->general && !a_like) != (b->remedy->general && !b_like))
		return b->remedy->general && !b_like;
	if ((a->remedy->last && !a_like) != (b->remedy->last && !b_like))
		return b->remedy->last && !b_like;
	if (advise_place(a) != advise_place(b))
		return advise_place(a) < advise_place(b);
	return a->met != b->met ? a->met > b->met : remedy_compare(a->remedy, b->remedy) < 0;
}

static void advise_judge(struct advice *a, const struct know_remedy *r, enum fit fit)
{
	struct incident *i = a->incident;
	struct diag_remedy one = { .remedy = r, .fit = (int)fit, .certain = fit != FIT_PERHAPS, .called = place_called(i, r) };
	one.met = condition_met(r->when, &a->view);
	one.like = like_solved_by(i, r);
	one.solved = like_votes(i, r);
	one.why = one.certain ? why_here(a, r) : (struct str){ 0 };
	one.verdict = remedy_judge(a->know, r, &a->view, &i->arena);
	const struct host_fact *now =
		a->host.host && one.verdict.fact.n ? host_fact(a->host.host, a->host.item, one.verdict.fact, 0) : NULL;
	if (now)
		one.where = arena_str(&i->arena, now->where);
	else
		one.fact = machine_fact(i, one.verdict.fact);
	if (one.verdict.state == REMEDY_TRY)
		one.numbers = remedy_numbers(&r->change, &a->view, &i->arena);
	// Of what may not fit at all, only that it was tried is worth telling.
	if (!one.certain && one.verdict.state != REMEDY_TRY && one.verdict.state != REMEDY_APPLIED)
		return;
	vec_push(&i->remedies, one);
	for (size_t n = i->remedies.len - 1; n > 0 && advise_better(&i->remedies.data[n], &i->remedies.data[n - 1]); n--) {
		struct diag_remedy first = i->remedies.data[n];
		i->remedies.data[n] = i->remedies.data[n - 1];
		i->remedies.data[n - 1] = first;
	}
}

/** Those to try before those that are told for another reason; of each the first few. */
static void keep_few(struct incident *i)
{
	_cleanup_vec_ VEC(struct diag_remedy) told = { 0 };
	size_t kept = 0, perhaps = 0;
	for (size_t n = 0; n < i->remedies.len; n++) {
		const struct diag_remedy r = i->remedies.data[n];
		if (r.verdict.state != REMEDY_TRY) {
			if (told.len < TOLD_MAX)
				vec_push(&told, r);
		} else if (kept < REMEDIES_MAX && (r.certain || perhaps++ < SPECULATIVE_MAX)) {
			i->remedies.data[kept++] = r;
		}
	}
	i->remedies.len = kept;
	for (size_t n = 0; n < told.len; n++)
		vec_push(&i->remedies, told.data[n]);
}

static void add_remedies(struct advice *a)
{
	for (size_t n = 0; n < a->know->remedies.len; n++) {
		enum fit fit = fit_of(a, a->know->remedies.data[n]);
		if (fit != FIT_NOT)
			advise_judge(a, a->know->remedies.data[n], fit);
	}
	keep_few(a->incident);
}

/** The first few that are known to fit; what is general beside a single one, because one alone may be the wrong one; and what fits only
 * if something is so that nobody knows, where there is nothing else. */
/** Whether another remedy that is shown says the same: kinds of work may have one each. */
static bool said_already(const struct incident *i, const struct diag_remedy *r)
{
	for (size_t n = 0; n < i->remedies.len; n++)
		if (i->remedies.data[n].shown && str_eq(i->remedies.data[n].remedy->title, r->remedy->title))
			return true;
	return false;
}

static void choose_shown(struct incident *i)
{
	size_t shown = 0;
	for (int pass = 0; pass < 3; pass++) {
		if (pass == 2 && shown)
			break;
		size_t most = pass ? GENERAL_MAX : SHOWN_MAX;
		for (size_t n = 0; n < i->remedies.len && shown < most; n++) {
			struct diag_remedy *r = &i->remedies.data[n];
			int wants = r->like != LIKE_FAR ? 0 : !r->certain ? 2 : r->remedy->general && !r->called ? 1 : 0;
			if (r->verdict.state != REMEDY_TRY || r->shown || wants > pass || said_already(i, r))
				continue;
			r->shown = true;
			shown++;
		}
	}
	// What solved something that is near fills what is left.
	while (shown < SHOWN_MAX) {
		struct diag_remedy *best = NULL;
		for (size_t n = 0; n < i->remedies.len; n++) {
			struct diag_remedy *r = &i->remedies.data[n];
			if (r->verdict.state == REMEDY_TRY && !r->shown && r->solved && !said_already(i, r) &&
			    (!best || r->solved > best->solved))
				best = r;
		}
		if (!best)
			break;
		best->shown = true;
		const struct diag_remedy one = *best; // those that are shown stand first
		struct diag_remedy *to = &i->remedies.data[shown++];
		if (best > to)
			memmove(to + 1, to, (size_t)(best - to) * sizeof(one));
		*(best > to ? to : best) = one;
	}
}

static void advise_note_parameter(void *ctx, struct str name)
{
	struct str *first = ctx;
	if (!first->n && str_starts(name, S("param.")))
		*first = name;
}

/** What is on the command line but not in the kernel changed nothing, whatever a guide says. */
static void add_missing_parameters(struct advice *a)
{
	struct incident *i = a->incident;
	struct str kernel = { 0 };
	a->view.get(a->view.ctx, S("kernel"), 0, &kernel);
	for (size_t n = 0; n < i->machine.len; n++) {
		const struct fact *f = &i->machine.data[n];
		const struct know_parameter *p =
			str_starts(f->name, S("param.")) ? know_parameter(a->know, str_from(f->name, 6)) : NULL;
		if (!p || parameter_exists(p, kernel) != TRUTH_NO)
			continue;
		struct str missing = parameter_missing_text(p->head.id, kernel, &i->arena), text;
		text = arena_printf(&i->arena, STR_FMT ": it changed nothing%s" STR_FMT, STR_ARG(missing),
				    p->instead.n ? "; use instead: " : "", STR_ARG(p->instead));
		struct str sources = p->source;
		struct diag_setting one = { S("no-such-parameter"), text, S("A"), str_trim(str_split(&sources, ';')), f };
		vec_push(&i->settings, one);
	}
}

static void add_settings(struct advice *a)
{
	struct incident *i = a->incident;
	for (size_t n = 0; n < a->know->settings.len; n++) {
		const struct know_setting *s = a->know->settings.data[n];
		if (s->for_classes && !advise_listed(s->for_classes, i->cause->head.id))
			continue;
		if (condition_eval(s->when, &a->view) != TRUTH_YES ||
		    (s->unless && condition_eval(s->unless, &a->view) == TRUTH_YES))
			continue;
		_cleanup_text_ struct text say = { 0 };
		struct str parameter = { 0 };
		phrase_fill(&say, s->say, &a->view);
		condition_facts(s->when, &a->view, advise_note_parameter, &parameter);
		struct diag_setting one = { s->head.id, arena_str(&i->arena, text_str(&say)), s->grade, s->source,
					    machine_fact(i, parameter) };
		vec_push(&i->settings, one);
	}
}

static void add_next(struct incident *i, struct str why, const struct command *run)
{
	struct diag_next step = { why, run };
	vec_push(&i->next, step);
}

/** @certain: only steps whose condition is known to hold. */
static void add_steps(struct incident *i, const struct know *k, const struct know_next *list, const struct fact_view *view,
		      bool certain)
{
	for (const struct know_next *n = list; n; n = n->next) {
		enum truth holds = condition_eval(n->when, view);
		_cleanup_text_ struct text why = { 0 };
		if (holds == TRUTH_NO || (certain && holds != TRUTH_YES) || !know_work_fits(n->work, i->work) ||
		    step_is_foreign(k, view, n->run))
			continue;
		phrase_fill(&why, n->why, view);
		add_next(i, arena_str(&i->arena, text_str(&why)), steps_fill(&i->arena, k, n->run, view, FILL_RUN));
	}
}

static void find_next_steps(struct incident *i, const struct know *k, const struct fact_view *view)
{
	add_steps(i, k, i->action->next_steps, view, false);
	if (i->before_log && !i->log_has_boot)
		add_next(
			i,
			S("The cause is earlier than this log; get the whole log of that boot (-b -1 if you have rebooted "
			  "since)"),
			COMMAND(&i->arena, "``sudo journalctl -k -b -o short-monotonic > boot.txt; unhang explain boot.txt``"));
	add_steps(i, k, i->cause->next_steps, view, false);
	add_steps(i, k, i->action->then_steps, view, true);
	if (!i->log_has_boot && !i->before_log && incident_has_kernel_events(i) && !incident_knows_machine(i))
		add_next(i, S("Get part, kernel and firmware, which decide what helps"),
			 COMMAND(&i->arena,
				 "``sudo dmesg > dmesg.txt; sudo sh -c 'cat /sys/kernel/debug/dri/*/amdgpu_firmware_info' >> "
				 "dmesg.txt; unhang explain dmesg.txt``"));
}

/** Whether the evidence tells how the machine is: its log, or a look at the GPU. What a program says of itself does not. */
static bool tells_of_machine(const struct incident *i)
{
	bool log = false;
	for (size_t n = 0; n < i->nevidence; n++)
		log |= str_is(i->evidence[n], "kernel-log");
	return log || i->history || incident_has_kernel_events(i);
}

static void choose_action(struct incident *i, const struct know *k, const struct fact_view *view)
{
	// A user may have replaced the block that fits always.
	static const struct know_action none = { .action = { "nothing", 7 }, .text = { "No advice is known.", 19 } };
	i->action = NULL;
	for (size_t n = 0; n < k->actions.len && !i->action; n++)
		if (condition_eval(k->actions.data[n]->when, view) == TRUTH_YES)
			i->action = k->actions.data[n];
	if (!i->action)
		i->action = &none;
	i->fit = i->action->fit == FIT_YES && !tells_of_machine(i) ? FIT_UNKNOWN : i->action->fit;
}

void incident_choose_action(struct incident *i, const struct know *k)
{
	struct advice a = { .incident = i, .know = k };
	choose_action(i, k, &(struct fact_view){ advice_get, &a });
}

static struct str advise_text_of(const struct incident *i)
{
	const struct know_action *a = i->action;
	return i->ended && a->ended.n ? a->ended : i->saved && a->saved.n ? a->saved : a->text;
}

/** What a reply may change: whose fault it is, what to do now, and which remedies are offered in which order. @like: the cases that it is
 * like are looked for; else they are known. */
static void advise_choose(struct advice *a, bool like)
{
	struct incident *i = a->incident;
	const struct know *k = a->know;
	_cleanup_text_ struct text now = { 0 };
	if (i->answers.len) // they may tell whose fault it is
		incident_judge_work(i, k);
	incident_weigh_explanations(i, k, &a->view);
	find_known_bad(i, k, &a->view);
	choose_action(i, k, &a->view);
	phrase_fill(&now, advise_text_of(i), &a->view);
	i->action_text = arena_str(&i->arena, text_str(&now));
	if (like)
		incident_find_like(i, k, &a->view);
	add_remedies(a);
	choose_shown(i);
}

static void advise_begin(struct advice *a, struct incident *i, const struct know *k, const struct host *host)
{
	*a = (struct advice){ .incident = i, .know = k };
	if (host && i->this_boot)
		a->host = (struct host_scope){ host, host_machine(host) };
	a->view = (struct fact_view){ .get = advice_get, .ctx = a, .command = advice_command };
	i->remedies.len = i->settings.len = i->known.len = i->next.len = 0;
}

static void advise_steps(struct advice *a, struct diag_remedy *r)
{
	steps_of_remedy(&a->incident->arena, r->remedy, a->know, &a->view, &r->steps);
}

void incident_advise(struct incident *i, const struct know *k, const struct host *host)
{
	struct advice a;
	advise_begin(&a, i, k, host);
	advise_choose(&a, true);
	for (size_t n = 0; n < i->remedies.len; n++)
		advise_steps(&a, &i->remedies.data[n]);
	add_missing_parameters(&a);
	add_settings(&a);
	find_next_steps(i, k, &a.view);
}

void incident_advise_reply(struct incident *i, const struct know *k, const struct host *host)
{
	struct advice a;
	advise_begin(&a, i, k, host);
	advise_choose(&a, false);
	if (i->remedies.len)
		advise_steps(&a, &i->remedies.data[0]);
}
