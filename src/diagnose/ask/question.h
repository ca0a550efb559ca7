// What may be behind an incident, as far as replies of its user tell; and what to ask.
#pragma once

#include "diagnose/incident.h"

/** Weighs the explanations of an incident by its answers. The one that leads says whose fault it is. */
void incident_weigh_explanations(struct incident *i, const struct know *k, const struct fact_view *view);

/** How much more certain a reply is expected to make which explanation holds: of 1. */
double question_gain(const struct know_question *q, const struct diag_explanation *list, size_t n);

struct asking {
	const struct know *know;
	const struct host *host; // as in incident_advise()
	bool machine;            // the evidence is of a machine that can be looked at
};
/** Takes those replies that answer what may be asked of this incident, and marks them as used: what the evidence tells itself, no reply
 * changes. Before incident_advise(). */
void incident_take_answers(struct incident *i, const struct asking *a, const struct diag_answer *given, size_t n, bool *used);
/** Finds the question whose replies would change the advice, and tell most; behind incident_advise(). None where a reply was given. */
void incident_ask(struct incident *i, const struct asking *a);
