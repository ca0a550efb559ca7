// What to do: with the machine now, against the cause, and to learn more.
#include "diagnose/incident.h"

#include <stdlib.h>

#include "host/host.h"
#include "knowledge/parameter.h"

enum { REMEDIES_MAX = 5, SPECULATIVE_MAX = 2, TOLD_MAX = 4 };

static bool listed(const struct know_list *list, struct str word)
{
	for (; list; list = list->next)
		if (str_eq(list->text, word))
			return true;
	return false;
}

static bool fits_also(const struct incident *i, const struct know_list *classes)
{
	for (size_t n = 0; n < i->also.len; n++)
		if (listed(classes, i->also.data[n]))
			return true;
	return false;
}

static void find_known_bad(struct incident *i, const struct know *k, const struct fact_view *view)
{
	for (size_t n = 0; n < k->bad.len; n++) {
		const struct know_bad *b = k->bad.data[n];
		if ((listed(b->for_classes, i->cause->head.id) || fits_also(i, b->for_classes)) &&
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
	bool in_effect = a->host.host && str_starts(name, S("param.")) && host_get(&a->host, name, 0, &first);
	if (!in_effect && incident_get(a->incident, name, 0, &first))
		return incident_get(a->incident, name, index, ret);
	return a->host.host && host_get(&a->host, name, index, ret);
}

static const struct fact *machine_fact(const struct incident *i, struct str name)
{
	for (size_t n = 0; name.n && n < i->machine.len; n++)
		if (str_eq(i->machine.data[n].name, name))
			return &i->machine.data[n];
	return NULL;
}

/** Remedies of one kind, the best first. */
struct candidates {
	bool for_cause; // for the cause, not for what is true besides
	enum truth want;
	bool special; // they have a condition
	VEC(struct diag_remedy) list;
};

static bool fits(const struct advice *a, const struct know_remedy *r, const struct candidates *c)
{
	bool cause = listed(r->for_classes, a->incident->cause->head.id);
	if (c->for_cause ? !cause : cause || !fits_also(a->incident, r->for_classes))
		return false;
	if ((r->when != NULL) != c->special || condition_eval(r->when, &a->view) != c->want)
		return false;
	return !r->unless || condition_eval(r->unless, &a->view) != TRUTH_YES;
}

static void judge(struct advice *a, struct candidates *c, const struct know_remedy *r)
{
	struct diag_remedy one = { .remedy = r, .certain = c->want == TRUTH_YES };
	one.verdict = remedy_judge(a->know, r, &a->view, &a->incident->arena);
	const struct host_fact *now =
		a->host.host && one.verdict.fact.n ? host_fact(a->host.host, a->host.item, one.verdict.fact, 0) : NULL;
	if (now)
		one.where = arena_str(&a->incident->arena, now->where);
	else
		one.fact = machine_fact(a->incident, one.verdict.fact);
	if (one.verdict.state == REMEDY_TRY)
		one.numbers = remedy_numbers(&r->change, &a->view, &a->incident->arena);
	// If it may not fit at all, it is mentioned only because it was tried.
	if (one.certain || one.verdict.state == REMEDY_TRY || one.verdict.state == REMEDY_APPLIED)
		vec_push(&c->list, one);
	for (size_t n = c->list.len - 1;
	     c->list.len && n > 0 && remedy_compare(c->list.data[n - 1].remedy, c->list.data[n].remedy) > 0; n--) {
		struct diag_remedy better = c->list.data[n];
		c->list.data[n] = c->list.data[n - 1];
		c->list.data[n - 1] = better;
	}
}

static void find_remedies(struct advice *a, struct candidates *c)
{
	for (size_t n = 0; n < a->know->remedies.len; n++)
		if (fits(a, a->know->remedies.data[n], c))
			judge(a, c, a->know->remedies.data[n]);
}

static void take_remedies(struct incident *i, const struct candidates *c, bool to_try, size_t most)
{
	for (size_t n = 0; n < c->list.len && most; n++) {
		if ((c->list.data[n].verdict.state == REMEDY_TRY) != to_try)
			continue;
		vec_push(&i->remedies, c->list.data[n]);
		most--;
	}
}

static void add_remedies(struct advice *a)
{
	// First what is known to fit this very machine, then what fits everybody, last what fits under a condition that is not known.
	struct candidates groups[] = {
		{ .for_cause = true, .want = TRUTH_YES, .special = true },
		{ .for_cause = true, .want = TRUTH_YES },
		{ .for_cause = true, .want = TRUTH_UNKNOWN, .special = true },
		{ .want = TRUTH_YES, .special = true },
	};
	struct incident *i = a->incident;
	size_t n = sizeof(groups) / sizeof(groups[0]);
	for (size_t g = 0; g < n; g++) {
		find_remedies(a, &groups[g]);
		size_t room = REMEDIES_MAX - i->remedies.len;
		take_remedies(i, &groups[g], true,
			      groups[g].want == TRUTH_UNKNOWN && room > SPECULATIVE_MAX ? SPECULATIVE_MAX : room);
	}
	size_t most = i->remedies.len + TOLD_MAX;
	for (size_t g = 0; g < n; g++) {
		take_remedies(i, &groups[g], false, most - i->remedies.len);
		vec_free(&groups[g].list);
	}
}

static void note_parameter(void *ctx, struct str name)
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
				    p->instead.n ? "; what was meant: " : "", STR_ARG(p->instead));
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
		if (s->for_classes && !listed(s->for_classes, i->cause->head.id))
			continue;
		if (condition_eval(s->when, &a->view) != TRUTH_YES ||
		    (s->unless && condition_eval(s->unless, &a->view) == TRUTH_YES))
			continue;
		struct text say = { 0 };
		struct str parameter = { 0 };
		phrase_fill(&say, s->say, &a->view);
		condition_facts(s->when, &a->view, note_parameter, &parameter);
		struct diag_setting one = { s->head.id, arena_str(&i->arena, text_str(&say)), s->grade, s->source,
					    machine_fact(i, parameter) };
		vec_push(&i->settings, one);
		text_free(&say);
	}
}

static void add_next(struct incident *i, struct str why, const struct command *run)
{
	struct diag_next step = { why, run };
	vec_push(&i->next, step);
}

static void find_next_steps(struct incident *i, const struct know *k, const struct fact_view *view)
{
	if (i->before_log && !i->log_has_boot)
		add_next(i, S("The cause is earlier than this log; the whole log of that boot has it"),
			 COMMAND(&i->arena, "sudo journalctl -k -b -1 -o short-monotonic > boot.txt; unhang explain boot.txt"));
	for (const struct know_next *n = i->cause->next_steps; n; n = n->next)
		if (condition_eval(n->when, view) != TRUTH_NO)
			add_next(i, n->why, steps_fill(&i->arena, k, n->run, view, FILL_BLANKS));
	bool kernel = false;
	for (size_t n = 0; n < i->events.len; n++)
		kernel |= !i->events.data[n]->program;
	if (!i->log_has_boot && !i->before_log && kernel && !incident_knows_machine(i))
		add_next(i, S("Part, kernel and firmware, which decide on what helps"),
			 COMMAND(&i->arena, "sudo dmesg > dmesg.txt; sudo cat /sys/kernel/debug/dri/*/amdgpu_firmware_info >> "
					    "dmesg.txt; unhang explain dmesg.txt"));
}

void incident_advise(struct incident *i, const struct know *k, const struct host *host)
{
	// A user may have replaced the block that fits always.
	static const struct know_action none = { .action = { "nothing", 7 }, .text = { "What to do is not known.", 24 } };
	struct advice a = { .incident = i, .know = k };
	if (host && i->this_boot)
		a.host = (struct host_scope){ host, host_machine(host) };
	a.view = (struct fact_view){ advice_get, &a };
	const struct fact_view view = a.view;
	i->action = NULL;
	i->remedies.len = i->settings.len = i->known.len = i->next.len = 0;
	find_known_bad(i, k, &view);
	for (size_t n = 0; n < k->actions.len && !i->action; n++)
		if (condition_eval(k->actions.data[n]->when, &view) == TRUTH_YES)
			i->action = k->actions.data[n];
	if (!i->action)
		i->action = &none;
	struct text now = { 0 };
	phrase_fill(&now, i->action->text, &view);
	i->action_text = arena_str(&i->arena, text_str(&now));
	text_free(&now);
	add_remedies(&a);
	for (size_t n = 0; n < i->remedies.len; n++)
		steps_of_remedy(&i->arena, i->remedies.data[n].remedy, k, &view, &i->remedies.data[n].steps);
	add_missing_parameters(&a);
	add_settings(&a);
	find_next_steps(i, k, &view);
}
