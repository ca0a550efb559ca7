// The one question that an answer may end with. Explanations have weights (knowledge/explanations.know); a reply moves them, and the one that
// leads then says whose fault it is and which remedies come first. What each reply would change is found by advising a copy of the incident,
// so that no question is asked whose replies lead to the same.
#include "diagnose/ask/question.h"

enum {
	LEADS = 50,      // percent from which on an explanation counts as found
	SURE_MOST = 90,  // percent: a reply is somebody's word
	REMAINS = 10,    // percent from which on an explanation is one of those that remain
	SELDOM = 10,     // percent of replies below which what they change is not worth a question
	GAIN_LEAST = 12, // percent of certainty that a reply must be expected to bring
};

static bool explains(const struct know_explanation *e, const struct incident *i, const struct fact_view *view)
{
	bool listed = false;
	for (const struct know_list *c = e->for_classes; c && !listed; c = c->next)
		listed = str_eq(c->text, i->cause->head.id);
	return listed && know_work_fits(e->work, i->work) && condition_eval(e->when, view) == TRUTH_YES &&
	       !(e->unless && condition_eval(e->unless, view) == TRUTH_YES);
}

/** Makes the weights add up to 1. */
static void weights_share(struct diag_explanation *list, size_t n)
{
	double sum = 0;
	for (size_t k = 0; k < n; k++)
		sum += list[k].weight;
	for (size_t k = 0; k < n && sum > 0; k++)
		list[k].weight /= sum;
}

static const struct diag_explanation *heaviest(const struct diag_explanation *list, size_t n)
{
	const struct diag_explanation *most = NULL;
	for (size_t k = 0; k < n; k++)
		if (!most || list[k].weight > most->weight)
			most = &list[k];
	return most;
}

void incident_weigh_explanations(struct incident *i, const struct know *k, const struct fact_view *view)
{
	i->explanations.len = 0;
	i->leads = NULL;
	for (size_t n = 0; n < k->explanations.len; n++) {
		struct diag_explanation one = { k->explanations.data[n], k->explanations.data[n]->prior };
		if (!explains(one.explanation, i, view))
			continue;
		for (size_t a = 0; a < i->answers.len; a++)
			one.weight *=
				explanation_likely(one.explanation, i->answers.data[a].question, i->answers.data[a].reply);
		vec_push(&i->explanations, one);
	}
	weights_share(i->explanations.data, i->explanations.len);
	const struct diag_explanation *most = heaviest(i->explanations.data, i->explanations.len);
	// Without a reply nothing is claimed.
	if (!i->answers.len || !most || most->weight * 100 < LEADS)
		return;
	i->leads = most->explanation;
	if (i->unattested)
		return;
	const int percent = (int)(most->weight * 100);
	i->fault = i->leads->fault;
	i->fault_say = i->leads->title;
	i->fault_confidence = percent < SURE_MOST ? percent : SURE_MOST;
}

/** 1 where one has all the weight, 1/n where all have the same. */
static double certainty(const struct diag_explanation *list, size_t n)
{
	double sum = 0;
	for (size_t k = 0; k < n; k++)
		sum += list[k].weight * list[k].weight;
	return sum;
}

double question_gain(const struct know_question *q, const struct diag_explanation *list, size_t n)
{
	_cleanup_vec_ VEC(struct diag_explanation) after = { 0 };
	double gain = -certainty(list, n);
	for (const struct know_list *r = q->replies; r; r = r->next) {
		double share = 0;
		after.len = 0;
		for (size_t k = 0; k < n; k++) {
			struct diag_explanation one = list[k];
			one.weight *= explanation_likely(one.explanation, q, r->text) / 100.0;
			share += one.weight;
			vec_push(&after, one);
		}
		weights_share(after.data, n);
		gain += share * certainty(after.data, n);
	}
	return gain;
}

/** The first remedy that is shown; NULL: there is none. */
static const struct diag_remedy *first_shown(const struct incident *i)
{
	for (size_t n = 0; n < i->remedies.len; n++)
		if (i->remedies.data[n].shown)
			return &i->remedies.data[n];
	return NULL;
}

/** What would be said if this were the reply. */
static void try_reply(struct incident *i, const struct asking *a, const struct know_question *q, struct diag_reply *r)
{
	struct incident trial;
	const struct diag_answer answer = { q, r->reply };
	incident_trial_begin(&trial, i);
	vec_push(&trial.answers, answer);
	incident_advise_reply(&trial, a->know, a->host);
	const struct diag_remedy *first = first_shown(&trial), *now = first_shown(i);
	if (first) {
		struct diag_remedy *kept = arena_alloc(&trial.arena, sizeof(*kept));
		*kept = *first;
		kept->fact = NULL; // it may lie in the copy
		r->first = kept;
	}
	r->action = trial.action;
	r->action_text = trial.action_text;
	r->fault = trial.fault;
	r->fault_confidence = trial.fault_confidence;
	r->leads = trial.leads;
	r->acts = trial.action != i->action;
	r->changes = r->acts || (first ? first->remedy : NULL) != (now ? now->remedy : NULL);
	for (size_t k = 0; k < i->explanations.len; k++)
		r->likely += i->explanations.data[k].weight *
			     explanation_likely(i->explanations.data[k].explanation, q, r->reply) / 100.0;
	incident_trial_end(&trial, i);
}

/** Whether a reply would change what to do now, or what to try first. */
static bool would_change(struct incident *i, const struct asking *a, const struct know_question *q, struct diag_question *ret)
{
	bool changes = false;
	*ret = (struct diag_question){ .question = q };
	for (const struct know_list *r = q->replies; r && ret->n < QUESTION_REPLIES; r = r->next) {
		struct diag_reply *reply = &ret->replies[ret->n++];
		reply->reply = r->text;
		try_reply(i, a, q, reply);
		changes |= reply->changes && reply->likely * 100 >= SELDOM;
	}
	return changes;
}

/** Whether the evidence itself has chosen: a version that is known as bad, or a remedy for just what it shows. */
static bool is_settled(const struct incident *i)
{
	const struct diag_remedy *first = first_shown(i);
	return i->known.len || (first && first->certain && !first->remedy->general && first->met);
}

/** Nobody is asked what the evidence has, or what the machine itself tells. */
static bool may_ask(const struct know_question *q, const struct incident *i, const struct asking *a,
		    const struct fact_view *view)
{
	struct str known;
	return !(q->readable && a->machine) && !view->get(view->ctx, q->fact, 0, &known) && know_work_fits(q->work, i->work) &&
	       condition_eval(q->when, view) == TRUTH_YES && !(q->unless && condition_eval(q->unless, view) == TRUTH_YES);
}

void incident_ask(struct incident *i, const struct asking *a)
{
	const struct fact_view view = { incident_get, i };
	_cleanup_vec_ VEC(const struct know_question *) asked = { 0 };
	size_t remain = 0;
	i->question = NULL;
	for (size_t n = 0; n < i->explanations.len; n++)
		remain += i->explanations.data[n].weight * 100 >= REMAINS;
	const bool settled = is_settled(i);
	if (i->answers.len || remain < 2) // once
		return;
	for (;;) { // the one that tells most first
		const struct know_question *best = NULL;
		double most = GAIN_LEAST / 100.0;
		for (size_t n = 0; n < a->know->questions.len; n++) {
			const struct know_question *q = a->know->questions.data[n];
			bool before = false;
			for (size_t k = 0; k < asked.len; k++)
				before |= asked.data[k] == q;
			const double gain = before || (settled && !q->decides) ? 0 : question_gain(q, i->explanations.data, i->explanations.len);
			if (gain > most && may_ask(q, i, a, &view)) {
				best = q;
				most = gain;
			}
		}
		if (!best)
			return;
		vec_push(&asked, best);
		struct diag_question found;
		if (would_change(i, a, best, &found)) {
			struct diag_question *kept = arena_alloc(&i->arena, sizeof(*kept));
			*kept = found;
			i->question = kept;
			return;
		}
	}
}

void incident_take_answers(struct incident *i, const struct asking *a, const struct diag_answer *given, size_t n, bool *used)
{
	const struct fact_view view = { incident_get, i };
	struct incident trial; // what would be said without them
	incident_trial_begin(&trial, i);
	incident_advise_reply(&trial, a->know, a->host);
	const bool settled = is_settled(&trial);
	incident_trial_end(&trial, i);
	for (size_t k = 0; k < n; k++)
		if ((!settled || given[k].question->decides) && may_ask(given[k].question, i, a, &view)) {
			vec_push(&i->answers, given[k]);
			used[k] = true;
		}
}
