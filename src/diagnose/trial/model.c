// Experiments and suspects of knowledge, as far as they fit the job.
#include "diagnose/trial/try.h"

#include <math.h>

#include "knowledge/know.h"

static bool is_wanted(const struct try_wanted *w, struct str id)
{
	for (size_t i = 0; i < w->nnames; i++)
		if (str_is(id, w->names[i]))
			return true;
	return !w->nnames;
}

static bool is_here(const struct try_wanted *w, const struct know_experiment *e)
{
	return (w->allocator || (!e->guard.n && !e->pool)) && (w->another_gpu || !e->another_gpu);
}

static void model_add(struct try_model *m, const struct know_experiment *e, struct str id, struct str title, const void *of)
{
	if (m->nexperiments == TRY_EXPERIMENTS)
		return;
	m->experiments[m->nexperiments++] = (struct try_experiment){
		.id = id, .family = e->head.id, .title = title, .slower = e->slower ? e->slower : 1, .finds = e->finds, .of = of
	};
}

static bool is_switch(const struct try_experiment *e) { return str_is(e->family, "switches"); }

static void model_includes(struct try_model *m)
{
	for (size_t i = 0; i < m->nexperiments; i++) {
		const struct know_experiment *e = m->experiments[i].of;
		for (const struct know_list *l = is_switch(&m->experiments[i]) ? NULL : e->includes; l; l = l->next)
			for (size_t k = 0; k < m->nexperiments; k++)
				if (str_eq(m->experiments[k].id, l->text))
					m->experiments[i].includes |= UINT64_C(1) << k;
	}
}

/** Where a failure has several switches, one of them helps: that none does is as likely as if there were one. */
static double gone_each(double gone, size_t nswitches) { return 1 - pow(1 - gone, 1.0 / (double)nswitches); }

static void model_suspects(const struct know *k, struct str class, struct try_model *m)
{
	size_t nswitches = 0;
	for (size_t e = 0; e < m->nexperiments; e++)
		nswitches += is_switch(&m->experiments[e]);
	model_includes(m);
	m->nsuspects = 0;
	for (size_t i = 0; i < k->suspects.len && m->nsuspects < TRY_SUSPECTS; i++) {
		const struct know_suspect *of = k->suspects.data[i];
		struct try_suspect *s = &m->suspects[m->nsuspects++];
		*s = (struct try_suspect){
			.id = of->head.id, .prior = suspect_prior(of, class), .always = of->always / 100.0, .of = of
		};
		for (size_t e = 0; e < m->nexperiments; e++) {
			const double gone = suspect_likely(of, m->experiments[e].family, S("gone")) / 100.0;
			s->gone[e] = is_switch(&m->experiments[e]) ? gone_each(gone, nswitches) : gone;
			s->found[e] = suspect_likely(of, m->experiments[e].family, S("finds")) / 100.0;
		}
	}
}

void try_model_begin(const struct know *k, const struct try_wanted *w, struct try_model *m)
{
	*m = (struct try_model){ 0 };
	for (size_t i = 0; i < k->experiments.len; i++) {
		const struct know_experiment *e = k->experiments.data[i];
		if (!e->when && !e->remedies && is_wanted(w, e->head.id) && is_here(w, e))
			model_add(m, e, e->head.id, e->title, e);
	}
	model_suspects(k, (struct str){ 0 }, m);
}

/** Whether another experiment already sets the first of its variables. */
static bool is_set(const struct try_model *m, struct str name)
{
	for (size_t i = 0; i < m->nexperiments; i++) {
		const struct know_experiment *e = m->experiments[i].of;
		for (const struct know_list *l = is_switch(&m->experiments[i]) ? NULL : e->env; l; l = l->next) {
			const ptrdiff_t equals = str_find(l->text, S("="));
			if (equals > 0 && str_eq(str_cut(l->text, (size_t)equals), name))
				return true;
		}
	}
	return false;
}

static void model_switches(const struct know *k, const struct know_experiment *e, struct str remedies, struct try_model *m)
{
	for (struct str id = str_word(&remedies); id.n; id = str_word(&remedies))
		for (size_t r = 0; r < k->remedies.len; r++) {
			const struct know_remedy *remedy = k->remedies.data[r];
			if (str_eq(remedy->head.id, id) && remedy->change.envs && !is_set(m, remedy->change.envs->name))
				model_add(m, e, remedy->head.id, remedy->title, remedy);
		}
}

void try_model_failed(const struct know *k, const struct try_wanted *w, struct str class, const struct fact_view *facts,
		      struct str remedies, struct try_model *m)
{
	for (size_t i = 0; i < k->experiments.len; i++) {
		const struct know_experiment *e = k->experiments.data[i];
		if (!is_wanted(w, e->head.id) || !is_here(w, e))
			continue;
		if (e->remedies)
			model_switches(k, e, remedies, m);
		else if (e->when && condition_eval(e->when, facts) == TRUTH_YES)
			model_add(m, e, e->head.id, e->title, e);
	}
	model_suspects(k, class, m);
}
