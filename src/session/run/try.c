// unhang try: a job as it is, and once more with one thing changed.
#include "report/run/try.h"

#include <time.h>

#include "base/print.h"
#include "job/job.h"
#include "session/look.h"
#include "session/run/run.h"

static const struct know_experiment *experiment_named(const struct know *k, const char *name)
{
	for (size_t i = 0; i < k->experiments.len; i++)
		if (str_is(k->experiments.data[i]->head.id, name))
			return k->experiments.data[i];
	return NULL;
}

static struct uh_error *experiment_unknown(const struct know *k, const char *name)
{
	_cleanup_text_ struct text names = { 0 };
	for (size_t i = 0; i < k->experiments.len; i++)
		text_printf(&names, "%s" STR_FMT, i ? ", " : "", STR_ARG(k->experiments.data[i]->head.id));
	return uh_error_new("try %s: there is no such experiment; there is " STR_FMT, name, STR_ARG(text_str(&names)));
}

static bool went_wrong(const struct tried *t)
{
	return t->last && (t->status || (t->last->ended != RUN_DONE && t->last->ended != RUN_NO_LAUNCH) || t->findings);
}

static void outcome_find(struct try_told *t)
{
	const bool plain = went_wrong(&t->arms[0]), changed = went_wrong(&t->arms[1]);
	t->outcome = plain ? (changed ? TRY_FAILS : TRY_CURES) : changed ? TRY_EXPOSES : TRY_PASSES;
	const struct str texts[] = { [TRY_PASSES] = t->experiment->passes,
				     [TRY_EXPOSES] = t->experiment->exposes,
				     [TRY_CURES] = t->experiment->cures,
				     [TRY_FAILS] = t->experiment->fails };
	t->means = texts[t->outcome];
}

/** What the run of an arm left behind. */
static void arm_take(struct tried *t, const struct job_result *r)
{
	t->status = r->status;
	t->directory = r->run.directory;
	t->last = r->run.ntries ? r->run.tries[r->run.ntries - 1] : NULL;
	t->findings = t->last ? t->last->findings : 0;
}

struct uh_error *uh_try(const struct uh_run_options *o, const char *name, FILE *out, int *ret_status)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_know_ struct know *k = look_knowledge((struct teller){ 0 });
	struct job_result results[TRY_ARMS] = { 0 };
	const char *env[64];
	struct try_told told = { .experiment = experiment_named(k, name), .command = o->command };
	struct uh_error *err = NULL;
	*ret_status = -1;
	if (!told.experiment)
		return experiment_unknown(k, name);
	struct uh_run_options options = *o;
	err = run_state_directory(o, &a, &options.state_dir);
	for (size_t i = 0; i < TRY_ARMS && !err; i++) {
		size_t n = 0;
		for (size_t j = 0; j < o->nenv && n < ARRAY_SIZE(env); j++)
			env[n++] = o->env[j];
		for (const struct know_list *l = told.experiment->env; i && l && n < ARRAY_SIZE(env); l = l->next)
			env[n++] = arena_z(&a, l->text);
		options.env = env;
		options.nenv = n;
		options.guard = i && told.experiment->guard.n ? arena_z(&a, told.experiment->guard) : NULL;
		options.pool = i && told.experiment->pool;
		options.quiet = true;
		if ((options.guard || options.pool) && !options.allocator)
			err = uh_error_new("libunhang-guard.so is not installed: there is no guard and no pool");
		if (!err)
			err = job_run(&options, run_hands(), print_said, &results[i]);
		if (!err)
			arm_take(&told.arms[i], &results[i]);
		told.narms += !err;
		// Who ends the first run does not want the second.
		if (!err && told.arms[i].last && told.arms[i].last->ended == RUN_STOPPED)
			break;
	}
	if (!err) {
		outcome_find(&told);
		told.whole = told.narms == TRY_ARMS;
		report_try(&told, o->json, o->width, out);
		*ret_status = told.whole && told.outcome == TRY_PASSES ? 0 : 1;
	}
	for (size_t i = 0; i < TRY_ARMS; i++)
		job_result_free(&results[i]);
	return err;
}
