// Runs of a job: what an experiment changes, what repairs a race, what to do after the same failure.
#include "knowledge/kinds/kinds.h"

const struct kind_key experiment_keys[] = {
	{ "title", KEY_TEXT, offsetof(struct know_experiment, title), .required = true },
	{ "guard", KEY_TEXT, offsetof(struct know_experiment, guard) },
	{ "pool", KEY_FLAG, offsetof(struct know_experiment, pool) },
	{ "another-gpu", KEY_FLAG, offsetof(struct know_experiment, another_gpu) },
	{ "remedies", KEY_FLAG, offsetof(struct know_experiment, remedies) },
	{ "finds", KEY_FLAG, offsetof(struct know_experiment, finds) },
	{ "includes", KEY_WORDS, offsetof(struct know_experiment, includes), .refers = "experiment" },
	{ "slower", KEY_NUMBER, offsetof(struct know_experiment, slower) },
	{ "env", KEY_LIST, offsetof(struct know_experiment, env) },
	{ "when", KEY_WHEN, offsetof(struct know_experiment, when) },
	{ "cost", KEY_TEXT, offsetof(struct know_experiment, cost) },
	{ "exposes", KEY_TEXT, offsetof(struct know_experiment, exposes), .required = true },
	{ "cures", KEY_TEXT, offsetof(struct know_experiment, cures), .required = true },
	{ "fails", KEY_TEXT, offsetof(struct know_experiment, fails), .required = true },
	{ "passes", KEY_TEXT, offsetof(struct know_experiment, passes), .required = true },
	{ "shows", KEY_TEXT, offsetof(struct know_experiment, shows) },
	{ "again", KEY_TEXT, offsetof(struct know_experiment, again) },
	{ 0 },
};
const struct kind_key suspect_keys[] = {
	{ "title", KEY_TEXT, offsetof(struct know_suspect, title), .required = true },
	{ "brief", KEY_TEXT, offsetof(struct know_suspect, brief) },
	{ "explain", KEY_TEXT, offsetof(struct know_suspect, explain), .required = true },
	{ "fault", KEY_TEXT, offsetof(struct know_suspect, fault), .required = true, .choices = "job driver node unknown" },
	{ "always", KEY_NUMBER, offsetof(struct know_suspect, always), .required = true },
	{ "prior", KEY_SET, offsetof(struct know_suspect, prior), .required = true, .refers = "class" },
	{ "likely", KEY_SET, offsetof(struct know_suspect, likely), .required = true, .refers = "experiment" },
	{ "remedy", KEY_WORDS, offsetof(struct know_suspect, remedies), .refers = "remedy" },
	{ "next", KEY_TEXT, offsetof(struct know_suspect, next), .required = true },
	{ 0 },
};

/** What the pair of this name says, else that of `any`. */
static struct str pair_or_any(const struct know_pair *list, struct str name)
{
	struct str any = { 0 };
	for (const struct know_pair *p = list; p; p = p->next) {
		if (str_eq(p->name, name))
			return p->value;
		if (str_is(p->name, "any"))
			any = p->value;
	}
	return any;
}

int suspect_prior(const struct know_suspect *s, struct str class)
{
	int64_t weight;
	return str_number(str_trim(pair_or_any(s->prior, class)), &weight) ? (int)weight : 0;
}

int suspect_likely(const struct know_suspect *s, struct str experiment, struct str end)
{
	struct str told = pair_or_any(s->likely, experiment);
	for (struct str word = str_word(&told); word.n; word = str_word(&told)) {
		int64_t percent = 0;
		if (str_number(str_word(&told), &percent) && str_eq(word, end))
			return (int)percent;
	}
	return 0;
}

static bool likely_right(struct str told)
{
	int64_t sum = 0, percent;
	for (struct str word = str_word(&told); word.n; word = str_word(&told)) {
		if (!str_is(word, "gone") && !str_is(word, "finds"))
			return false;
		if (!str_number(str_word(&told), &percent) || percent < 0)
			return false;
		sum += percent;
	}
	return sum > 0 && sum < 100;
}

/** Nothing is impossible: each experiment may also end in another way. */
bool check_suspect(struct loader *l, struct know_head *object)
{
	const struct know_suspect *s = (const void *)object;
	bool right = s->always >= 0 && s->always < 100;
	int64_t weight;
	for (const struct know_pair *p = s->prior; p; p = p->next)
		right &= str_number(str_trim(p->value), &weight) && weight > 0 && weight <= 100;
	for (const struct know_pair *p = s->likely; p; p = p->next)
		right &= likely_right(p->value);
	if (!right)
		know_problem(l->problems, object->file, object->line,
			     "a suspect has weights from 1 to 100, and percentages of gone and finds below 100 together");
	return right;
}

const struct kind_key race_keys[] = {
	{ "title", KEY_TEXT, offsetof(struct know_race, title), .required = true },
	{ "fix", KEY_TEXT, offsetof(struct know_race, fix), .required = true },
	{ "not", KEY_TEXT, offsetof(struct know_race, not_fix) },
	{ "source", KEY_TEXT, offsetof(struct know_race, source), .required = true },
	{ 0 },
};
const struct kind_key escalation_keys[] = {
	{ "when", KEY_WHEN, offsetof(struct know_escalation, when) },
	{ "do", KEY_CHOICE, offsetof(struct know_escalation, action), .required = true, .choices = "stop restart" },
	{ "level", KEY_NUMBER, offsetof(struct know_escalation, level) },
	{ "filter", KEY_FLAG, offsetof(struct know_escalation, filter) },
	{ "agent", KEY_FLAG, offsetof(struct know_escalation, agent) },
	{ "repeat", KEY_FLAG, offsetof(struct know_escalation, repeat) },
	{ "reason", KEY_TEXT, offsetof(struct know_escalation, reason), .required = true },
	{ "propose", KEY_TEXT, offsetof(struct know_escalation, propose) },
	{ 0 },
};
