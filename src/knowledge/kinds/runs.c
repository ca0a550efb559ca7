// Runs of a job: what an experiment changes, what repairs a race, what to do after the same failure.
#include "knowledge/kinds/kinds.h"

const struct kind_key experiment_keys[] = {
	{ "title", KEY_TEXT, offsetof(struct know_experiment, title), .required = true },
	{ "guard", KEY_TEXT, offsetof(struct know_experiment, guard) },
	{ "pool", KEY_FLAG, offsetof(struct know_experiment, pool) },
	{ "env", KEY_LIST, offsetof(struct know_experiment, env) },
	{ "cost", KEY_TEXT, offsetof(struct know_experiment, cost) },
	{ "exposes", KEY_TEXT, offsetof(struct know_experiment, exposes), .required = true },
	{ "cures", KEY_TEXT, offsetof(struct know_experiment, cures), .required = true },
	{ "fails", KEY_TEXT, offsetof(struct know_experiment, fails), .required = true },
	{ "passes", KEY_TEXT, offsetof(struct know_experiment, passes), .required = true },
	{ 0 },
};
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
