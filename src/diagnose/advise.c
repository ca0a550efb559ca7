// What to do: with the machine now, against the cause, and to learn more.
#include "diagnose/incident.h"

enum { REMEDIES_MAX = 5, SPECULATIVE_MAX = 2 };

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

static void add_remedies(struct incident *i, const struct know *k, const struct fact_view *view, bool for_cause,
			 enum truth want, bool special)
{
	size_t added = 0;
	for (size_t n = 0; n < k->remedies.len && i->remedies.len < REMEDIES_MAX; n++) {
		const struct know_remedy *r = k->remedies.data[n];
		bool fits = for_cause ? listed(r->for_classes, i->cause->head.id) :
					!listed(r->for_classes, i->cause->head.id) && fits_also(i, r->for_classes);
		if (!fits || (r->when != NULL) != special || condition_eval(r->when, view) != want)
			continue;
		if (r->unless && condition_eval(r->unless, view) == TRUTH_YES)
			continue;
		if (want == TRUTH_UNKNOWN && added++ >= SPECULATIVE_MAX)
			break;
		struct diag_remedy one = { r, want == TRUTH_YES };
		vec_push(&i->remedies, one);
	}
}

static void add_next(struct incident *i, struct str why, struct str run)
{
	struct diag_next step = { why, run };
	vec_push(&i->next, step);
}

static bool is_fact_name(struct str s)
{
	for (size_t n = 0; n < s.n; n++)
		if (!(s.p[n] >= 'a' && s.p[n] <= 'z') && s.p[n] != '_')
			return false;
	return s.n;
}

/** Evidence is hostile, and commands are there to be copied: only what no shell reads as more than a word may enter one. */
static bool is_plain_word(struct str s)
{
	for (size_t n = 0; n < s.n; n++)
		if (!char_word(s.p[n]) && !strchr("./:-", s.p[n]))
			return false;
	return s.n && s.p[0] != '-';
}

/** {pid} in a command becomes the pid, or PID where it is not known; other braces are the shell's. */
static struct str command_fill(struct incident *i, struct str command, const struct fact_view *view)
{
	struct text out = { 0 };
	while (command.n) {
		ptrdiff_t open = str_find(command, S("{"));
		ptrdiff_t close = open < 0 ? -1 : str_find(str_from(command, (size_t)open), S("}"));
		if (close < 0)
			break;
		struct str name = { command.p + open + 1, (size_t)close - 1 }, value;
		text_add(&out, str_cut(command, (size_t)open));
		if (!is_fact_name(name))
			text_add(&out, (struct str){ command.p + open, (size_t)close + 1 });
		else if (view->get(view->ctx, name, 0, &value) && is_plain_word(value))
			text_add(&out, value);
		else
			for (size_t n = 0; n < name.n; n++)
				text_printf(&out, "%c", name.p[n] == '_' ? '_' : name.p[n] - 32);
		command = str_from(command, (size_t)(open + close) + 1);
	}
	text_add(&out, command);
	struct str filled = arena_str(&i->arena, text_str(&out));
	text_free(&out);
	return filled;
}

static void find_next_steps(struct incident *i, const struct fact_view *view)
{
	if (i->before_log && !i->log_has_boot)
		add_next(i, S("The cause is earlier than this log; the whole log of that boot has it"),
			 S("sudo journalctl -k -b -1 -o short-monotonic > boot.txt; unhang explain boot.txt"));
	for (const struct know_next *n = i->cause->next_steps; n; n = n->next)
		if (condition_eval(n->when, view) != TRUTH_NO)
			add_next(i, n->why, command_fill(i, n->run, view));
	bool kernel = false;
	for (size_t n = 0; n < i->events.len; n++)
		kernel |= !i->events.data[n]->program;
	if (!i->log_has_boot && !i->before_log && kernel && !incident_knows_machine(i))
		add_next(i, S("Part, kernel and firmware, which decide on what helps"),
			 S("sudo dmesg > dmesg.txt; sudo cat /sys/kernel/debug/dri/*/amdgpu_firmware_info >> dmesg.txt; unhang "
			   "explain "
			   "dmesg.txt"));
}

void incident_advise(struct incident *i, const struct know *k)
{
	// A user may have replaced the block that fits always.
	static const struct know_action none = { .action = { "nothing", 7 }, .text = { "What to do is not known.", 24 } };
	const struct fact_view view = { incident_get, i };
	i->action = NULL;
	i->remedies.len = i->known.len = i->next.len = 0;
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
	// First what is known to fit this very machine, then what fits everybody, last what fits if something is so.
	add_remedies(i, k, &view, true, TRUTH_YES, true);
	add_remedies(i, k, &view, true, TRUTH_YES, false);
	add_remedies(i, k, &view, true, TRUTH_UNKNOWN, true);
	add_remedies(i, k, &view, false, TRUTH_YES, true);
	find_next_steps(i, &view);
}
