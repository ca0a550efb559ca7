// unhang try: what ties runs, experiments and report together. A run that is to be understood is made under `unhang run`, which looks, saves
// and explains as it always does: the first that fails as it is, and those of guard and pool. The others are only counted.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/save.h"
#include "evidence/documents/document.h"
#include "job/job.h"
#include "report/run/run.h"
#include "report/trial/try.h"
#include "session/look.h"
#include "session/trial/journal.h"
#include "store/record.h"

enum { STUDY_S = 120, FAILURE_MOST = 1 << 20, DIAGNOSIS_MOST = 16 << 20, WORDS_MOST = 96, CHANGE_ENV = 32 };

struct trying_job {
	const struct uh_try_options *o;
	struct trial_log log;
	struct know *know;
	struct runs runs;
	struct trial_gpus gpus;
	struct try_wanted wanted;
	struct try_failure failure, found;
	struct try_result *result; // as it is known by now
	struct try_options options;
	struct uh_error *error;
	bool unused;
	int64_t began;
	struct str last_key;
	FILE *say;
};

// --- what was learnt of a run ---

static const struct record_key failure_keys[] = {
	RECORD_TEXT(try_failure, class),  RECORD_TEXT(try_failure, title),    RECORD_TEXT(try_failure, kernel),
	RECORD_TEXT(try_failure, place),  RECORD_TEXT(try_failure, words),    RECORD_TEXT(try_failure, ended),
	RECORD_TEXT(try_failure, directory), RECORD_TEXT(try_failure, allocator), RECORD_TEXT(try_failure, lacking), RECORD_NUMBER(try_failure, findings), RECORD_NUMBER(try_failure, served),
	RECORD_NUMBER(try_failure, status), RECORD_NUMBER(try_failure, ran_ms), RECORD_NUMBER(try_failure, recordings), RECORD_TEXT(try_failure, remedies),
	RECORD_TEXT(try_failure, guard),
	{ 0 }
};

static struct str file_read(struct trying_job *j, const char *path, size_t most)
{
	struct str bytes = { 0 };
	struct uh_error *err = named_read(&(struct named){ .path = path }, most, &j->log.arena, &bytes, NULL);
	uh_error_free(err);
	return bytes;
}

/** As explain says: the ids of what helps against it, and what a guard makes of its address. */
static void diagnosis_take(struct trying_job *j, const char *path, struct try_failure *ret)
{
	const struct str bytes = file_read(j, path, DIAGNOSIS_MOST);
	_cleanup_json_ json_t *root = bytes.n ? json_loadb(bytes.p, bytes.n, 0, NULL) : NULL;
	const json_t *first = json_array_get(json_object_get(root, "incidents"), 0), *list = json_object_get(first, "remedies"), *fact;
	_cleanup_text_ struct text ids = { 0 };
	size_t i;
	for (i = 0; i < json_array_size(list); i++)
		text_printf(&ids, "%s" STR_FMT, i ? " " : "", STR_ARG(document_text(json_array_get(list, i), "id")));
	ret->remedies = arena_str(&j->log.arena, text_str(&ids));
	json_array_foreach(json_object_get(first, "facts"), i, fact)
		if (str_is(document_text(fact, "name"), "guard") && !ret->guard.n)
			ret->guard = arena_str(&j->log.arena, document_text(fact, "value"));
}

/** What `unhang run` wrote below @runs, which gets a name of its own. false: it did not come so far. */
static bool study_read(struct trying_job *j, const char *runs, struct str key, struct try_failure *ret)
{
	struct door_names names = { 0 };
	uh_error_free(door_names(&(struct named){ .path = runs }, false, &j->log.arena, &names));
	if (!names.n)
		return false;
	const char *from = arena_printf(&j->log.arena, "%s/%s", runs, names.list[0]).p;
	const char *to = trial_file(&j->log, arena_printf(&j->log.arena, "run-" STR_FMT, STR_ARG(key)).p);
	runs_drop(to);
	if (rename(from, to))
		return false;
	struct str text = file_read(j, arena_printf(&j->log.arena, "%s/run", to).p, FAILURE_MOST);
	const ptrdiff_t tried = str_find(text, S("\ntry\n"));
	*ret = (struct try_failure){ 0 };
	record_take(tried < 0 ? text : str_from(text, (size_t)tried), &j->log.arena, ret, failure_keys);
	ret->directory = str_z(to);
	diagnosis_take(j, arena_printf(&j->log.arena, "%s/1/diagnosis.json", to).p, ret);
	return true;
}

/** Whether a guarded run shows the cause: by itself, or by a fault at addresses that the guard keeps. A buffer that is only the nearest shows nothing. */
static bool failure_shows(const struct try_failure *f)
{
	return f->findings > 0 || str_is(f->guard, "past") || str_is(f->guard, "before") || str_is(f->guard, "freed");
}

static bool failure_hung(const struct try_failure *f)
{
	static const enum run_end hangs[] = { RUN_GPU_HANG, RUN_RUNTIME_HANG, RUN_SILENT, RUN_DEADLINE };
	for (size_t i = 0; i < ARRAY_SIZE(hangs); i++)
		if (str_is(f->ended, run_ended_words[hangs[i]]))
			return true;
	return false;
}

/** What happened to it is no matter of the GPU, as far as anybody saw. A runtime that did not call the recorder was there, though. */
static bool failure_nowhere(const struct try_failure *f)
{
	return f->directory.n && !f->recordings && f->served <= 0 && !f->class.n && !str_starts(f->lacking, S(RUN_UNCALLED));
}

static void failure_save(struct trying_job *j, const char *name, const struct try_failure *f)
{
	_cleanup_text_ struct text t = { 0 };
	record_text(f, failure_keys, &t);
	struct uh_error *err = save_soon(AT_FDCWD, trial_file(&j->log, name), text_str(&t), 0600);
	j->error = j->error ? j->error : err;
}

/** Guard or pool had nothing of the job to look at, or did not tell: that is no all-clear, also when a trial goes on. */
static void unused_note(struct trying_job *j)
{
	j->unused = true;
	struct uh_error *err = save_soon(AT_FDCWD, trial_file(&j->log, TRIAL_UNUSED), S(""), 0600);
	j->error = j->error ? j->error : err;
}

// --- the changes of an experiment ---

static void change_env(struct trying_job *j, const struct try_experiment *e, const char **env, size_t *n)
{
	const bool remedy = str_is(e->family, "switches");
	const struct know_experiment *x = remedy ? NULL : e->of;
	const struct know_remedy *r = remedy ? e->of : NULL;
	for (const struct know_list *l = x ? x->env : NULL; l && *n < CHANGE_ENV; l = l->next)
		env[(*n)++] = arena_z(&j->log.arena, l->text);
	for (const struct know_pair *p = r ? r->change.envs : NULL; p && *n < CHANGE_ENV; p = p->next)
		env[(*n)++] = arena_printf(&j->log.arena, STR_FMT "=" STR_FMT, STR_ARG(p->name), STR_ARG(p->value)).p;
	if (x && x->another_gpu && !j->runs.gpus && *n < CHANGE_ENV)
		env[(*n)++] = arena_printf(&j->log.arena, "ROCR_VISIBLE_DEVICES=%u", j->gpus.other).p;
}

/** The job under `unhang run`. */
static char *const *studied_command(struct trying_job *j, const struct know_experiment *e, const char *runs)
{
	const struct uh_try_options *o = j->o;
	struct arena *a = &j->log.arena;
	const char *seen[2];
	size_t n = 0, words = 0;
	while (o->job.command[words])
		words++;
	char **list = arena_alloc(a, (words + WORDS_MOST + 2 * o->job.nenv) * sizeof(*list));
	const char *ours[] = { o->program, "run", "--quiet", "--state-dir", runs, "--deadline",
			       arena_printf(a, "%u", j->runs.hang_after).p, "--hang-after",
			       arena_printf(a, "%u", j->runs.hang_after * 2 / 3 + 1).p };
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		list[n++] = (char *)ours[i];
	if (e && e->guard.n)
		list[n++] = (char *)arena_printf(a, "--guard=" STR_FMT, STR_ARG(e->guard)).p;
	if (e && e->guard.n && o->guard_align) {
		list[n++] = (char *)"--guard-align";
		list[n++] = (char *)arena_printf(a, "%u", o->guard_align).p;
	}
	if (e && e->pool)
		list[n++] = (char *)"--pool";
	for (size_t i = 0; i < o->job.nenv; i++) { // not for unhang itself: what it preloads may be a GPU without silicon
		list[n++] = (char *)"--env";
		list[n++] = (char *)o->job.env[i];
	}
	runs_gpu_variables(&j->runs, runs_gpu(&j->runs), a, seen);
	for (size_t i = 0; j->runs.gpus && i < ARRAY_SIZE(seen); i++) {
		list[n++] = (char *)"--env";
		list[n++] = (char *)seen[i];
	}
	list[n++] = (char *)"--";
	for (size_t i = 0; i < words; i++)
		list[n++] = o->job.command[i];
	list[n] = NULL;
	return list;
}

// --- runs ---

/** Of the GPUs that the job had as it is, the one on which it failed most often. */
static unsigned worst_gpu(const struct try_result *r)
{
	unsigned worst = 0;
	for (unsigned i = 1; i < TRIAL_GPUS; i++)
		if (tally_rate(r->on_gpu[i]) > tally_rate(r->on_gpu[worst]))
			worst = i;
	return worst;
}

static void try_say(struct trying_job *j, const struct try_question *q)
{
	if (!j->say || str_eq(q->key, j->last_key))
		return;
	j->last_key = q->key;
	if (q->stage == TRY_EXPERIMENT)
		fprintf(j->say, "unhang: try: with " STR_FMT " (" STR_FMT ")\n",
			STR_ARG(j->result->model.experiments[q->experiment].title), STR_ARG(q->key));
	else
		fprintf(j->say, "unhang: try: %s\n", q->stage == TRY_CONTROL ? "the job as it is" : "without the recorder");
}

/** After how many seconds a run under `unhang run` is ended. What it needs beyond its own limit ends with the budget. */
static unsigned study_limit(const struct trying_job *j)
{
	const unsigned budget = j->o->job.budget, spent = (unsigned)((now_ms() - j->began) / 1000);
	const unsigned left = !budget ? STUDY_S : budget > spent ? budget - spent : 0;
	return j->runs.hang_after + (left < STUDY_S ? left : STUDY_S);
}

/** A run under `unhang run`, with what it learnt. */
static bool studied_run(struct trying_job *j, const struct try_question *q, const struct know_experiment *e,
			struct trial_outcome *ret)
{
	struct run_ended ended = { 0 };
	struct try_failure f = { 0 };
	const char *runs = trial_file(&j->log, "runs");
	runs_drop(runs);
	const struct trial_change change = { .command = studied_command(j, e, runs) };
	struct runs r = j->runs;
	r.hang_after = study_limit(j);
	r.nenv = 0;
	const bool made = runs_make(&r, &change, 1, false, &ended, &j->error);
	j->runs.number = r.number;
	j->runs.stop = r.stop;
	if (!made)
		return false;
	const bool read = study_read(j, runs, q->key, &f);
	f.status = ended.status;
	const bool hung = ended.hung || (read && failure_hung(&f));
	*ret = (struct trial_outcome){ .failed = ended.failed || (hung && (r.fails.hang || r.fails.status)),
				       .found = read && e && e->finds && failure_shows(&f),
				       .gpu = ended.gpu,
				       .seconds = read && f.ran_ms > 0 ? (double)f.ran_ms / 1000 : ended.seconds };
	ret->failed |= ret->found;
	if (e && (e->guard.n || e->pool) && (read ? f.served <= 0 && f.findings <= 0 : !ret->failed))
		unused_note(j);
	// Before the run is noted: what follows from it must be there when it counts.
	if (read && ret->failed && q->stage == TRY_CONTROL) {
		j->failure = f;
		ret->nowhere = failure_nowhere(&f);
		failure_save(j, "failure", &f);
	} else if (ret->found) {
		j->found = f;
		failure_save(j, "found", &f);
	} else if (read && !ret->failed) {
		runs_drop(arena_z(&j->log.arena, f.directory));
	}
	struct uh_error *err = trial_add(&j->log, q->key, ret, hung);
	j->error = j->error ? j->error : err;
	return true;
}

static unsigned try_run(void *ctx, const struct try_question *q, unsigned n, struct trial_outcome *ret)
{
	struct trying_job *j = ctx;
	struct run_ended ended[RUNS_AT_ONCE];
	const struct try_experiment *x = q->stage == TRY_EXPERIMENT ? &j->result->model.experiments[q->experiment] : NULL;
	const struct know_experiment *e = x && !str_is(x->family, "switches") ? x->of : NULL;
	const char *env[CHANGE_ENV];
	unsigned done = trial_told(&j->log, q->key, n, ret);
	for (unsigned i = 0; i < done; i++)
		ret[i].nowhere = q->stage == TRY_CONTROL && failure_nowhere(&j->failure);
	if (done)
		return done;
	if (j->error || trial_over(&j->runs, &j->o->job, j->began))
		return 0;
	try_say(j, q);
	j->runs.without = e && e->another_gpu ? worst_gpu(j->result) : RUNS_ALL;
	if ((q->stage == TRY_CONTROL && !j->failure.directory.n) || (e && (e->guard.n || e->pool)))
		return studied_run(j, q, e, &ret[0]) ? (trial_count(j->say, "try", q->tally, ret, 1), 1) : 0;
	struct trial_change change = { .env = env, .record = q->stage != TRY_BARE };
	if (x)
		change_env(j, x, env, &change.nenv);
	n = runs_at_once(&j->runs, n);
	if (!runs_make(&j->runs, &change, n, false, ended, &j->error))
		return 0;
	for (; done < n; done++) {
		ret[done] = (struct trial_outcome){ .failed = ended[done].failed,
						    .gpu = ended[done].gpu,
						    .seconds = ended[done].seconds };
		struct uh_error *err = trial_add(&j->log, q->key, &ret[done], ended[done].hung);
		j->error = j->error ? j->error : err;
	}
	trial_count(j->say, "try", q->tally, ret, done);
	return done;
}

// --- the model ---

static bool failure_get(const void *ctx, struct str name, size_t index, struct str *ret)
{
	const struct try_failure *f = ctx;
	*ret = str_is(name, "class") ? f->class : str_is(name, "kernel_name") ? f->kernel : (struct str){ 0 };
	return !index && ret->n;
}

static void try_model(void *ctx, bool failed, struct try_model *ret)
{
	struct trying_job *j = ctx;
	const struct fact_view view = { .get = failure_get, .ctx = &j->failure };
	if (failed)
		try_model_failed(j->know, &j->wanted, j->failure.class, &view, j->failure.remedies, ret);
	else
		try_model_begin(j->know, &j->wanted, ret);
}

static void try_planned(void *ctx, const struct try_result *r, double expected_s)
{
	struct trying_job *j = ctx;
	if (j->say)
		fprintf(j->say, "unhang: try: it fails in %u of %u runs of %.1f s; %zu experiment%s would take about %.0f s\n",
			r->control.failed, r->control.runs, r->seconds, r->model.nexperiments,
			r->model.nexperiments == 1 ? "" : "s", expected_s);
}

// --- the whole ---

static struct uh_error *names_right(const struct trying_job *j)
{
	for (size_t n = 0; n < j->o->nnames; n++) {
		const struct know_experiment *e = NULL;
		for (size_t i = 0; i < j->know->experiments.len && !e; i++)
			if (str_is(j->know->experiments.data[i]->head.id, j->o->names[n]))
				e = j->know->experiments.data[i];
		if (!e)
			return look_no_such(j->know, "experiment", "unhang knowledge list experiment", j->o->names[n]);
		if ((e->guard.n || e->pool) && !j->wanted.allocator)
			return uh_error_new("libunhang-guard.so is not installed: there is no guard and no pool");
		if (e->another_gpu && !j->wanted.another_gpu)
			return uh_error_new("try %s: it needs a second GPU of the same kind, and no variable that chooses one",
					    j->o->names[n]);
	}
	return NULL;
}

/** All options that change what is run; not those of time and of how it is told. */
static struct uh_error *try_begin(struct trying_job *j)
{
	const struct uh_try_options *o = j->o;
	trial_gpus_find(j->know, &o->job, &j->gpus);
	j->wanted = (struct try_wanted){ .names = o->names,
					 .nnames = o->nnames,
					 .allocator = o->allocator,
					 .another_gpu = o->job.jobs > 1 || j->gpus.other };
	struct uh_error *err = trial_runs(&j->log, &o->job, &j->gpus, &j->runs);
	if (!err)
		err = names_right(j);
	if (err)
		return err;
	for (size_t i = 0; i < o->nnames; i++)
		trial_is(&j->log, "experiment", o->names[i]);
	trial_is_number(&j->log, "guard-align", o->guard_align);
	trial_is_number(&j->log, "allocator", j->wanted.allocator);
	trial_is_number(&j->log, "another-gpu", j->wanted.another_gpu);
	return trial_begin(&j->log, j->know, "try", &o->job, &j->runs);
}

/** What cannot be made here. */
static size_t experiments_absent(struct trying_job *j, const char **ret)
{
	size_t n = 0;
	for (size_t i = 0; i < j->know->experiments.len && n < TRY_EXPERIMENTS; i++) {
		const struct know_experiment *e = j->know->experiments.data[i];
		if (!j->o->nnames && ((e->another_gpu && !j->wanted.another_gpu) || ((e->guard.n || e->pool) && !j->wanted.allocator)))
			ret[n++] = arena_z(&j->log.arena, e->head.id);
	}
	return n;
}

static void failures_load(struct trying_job *j)
{
	if (!j->log.told.n)
		return;
	record_take(file_read(j, trial_file(&j->log, "failure"), FAILURE_MOST), &j->log.arena, &j->failure, failure_keys);
	record_take(file_read(j, trial_file(&j->log, "found"), FAILURE_MOST), &j->log.arena, &j->found, failure_keys);
	j->unused = !access(trial_file(&j->log, TRIAL_UNUSED), F_OK);
}

static void write_try_json(const void *told, FILE *to) { report_try(told, true, to); }
static void write_try_page(const void *told, FILE *to) { report_try_html(told, to); }

static struct uh_error *try_made(struct trying_job *j, FILE *out, enum uh_trial_end *ret)
{
	const struct uh_trial_options *o = &j->o->job;
	const struct try_hands hands = { .run = try_run, .model = try_model, .planned = try_planned, .ctx = j };
	const bool resumed = j->log.told.n;
	struct trial_signals signals;
	struct try_result *result = arena_alloc(&j->log.arena, sizeof(*result));
	const char *absent[TRY_EXPERIMENTS];
	j->result = result;
	failures_load(j);
	try_model(j, false, &result->model);
	if (j->say && !resumed)
		report_try_plan(&result->model, j->options.low_rate, j->options.error, j->say);
	else if (j->say)
		fprintf(j->say, "unhang: try: goes on where it was stopped\n");
	trial_signals_take(&signals, &j->runs.stop_fd);
	trial_try(&j->options, &hands, result);
	trial_signals_give(&signals, &j->runs.stop_fd);
	const struct try_told told = { .result = result,
				       .know = j->know,
				       .asked = { o, j->o->guard_align, 0, j->o->names, j->o->nnames },
				       .gpus = j->runs.gpus,
				       .directory = str_z(j->log.directory),
				       .said = trial_said(&j->log),
				       .error = str_z(j->error ? uh_error_message(j->error) : ""),
				       .stopped = result->verdict == TRY_UNFINISHED ? trial_stopped(&j->log, &j->runs, o, j->began) :
									      (struct str){ 0 },
				       .failure = j->failure,
				       .found = j->found,
				       .left_out = absent,
				       .nleft_out = experiments_absent(j, absent),
				       .resumed = resumed,
				       .unused = j->unused,
				       .hung = j->log.hung,
				       .seconds = (double)(now_ms() - j->began) / 1e3,
				       .width = o->width };
	struct uh_error *err = trial_save(trial_file(&j->log, "try.json"), write_try_json, &told, 0600);
	if (!err && o->html)
		err = trial_save(o->html, write_try_page, &told, 0644);
	report_try(&told, o->json, out);
	if (result->verdict != TRY_UNFINISHED)
		trial_done(&j->log);
	*ret = result->verdict == TRY_EXPLAINED || (result->verdict == TRY_NEVER && !j->unused) ? UH_TRIAL_ANSWERED :
	       result->verdict == TRY_NOWHERE							? UH_TRIAL_IMPOSSIBLE :
												  UH_TRIAL_OPEN;
	try_result_free(result);
	return err;
}

struct uh_error *uh_try(const struct uh_try_options *o, FILE *out, FILE *say, uh_problem_fn *problem, void *ctx,
			enum uh_trial_end *ret)
{
	const struct teller teller = { problem, ctx };
	struct trying_job j = { .o = o, .log.journal = -1, .log.lock = -1, .began = now_ms(), .say = say };
	j.know = look_knowledge(teller);
	j.options = (struct try_options){
		.low_rate = o->job.low_rate ? o->job.low_rate / 100.0 : 0.05, .error = 0.05, .certain = 0.9, .named = o->nnames, .unrecorded = o->unrecorded
	};
	struct uh_error *err = try_begin(&j);
	if (!err) {
		err = try_made(&j, out, ret);
		runs_end(&j.runs);
	}
	uh_error_free(j.error);
	know_free(j.know);
	trial_free(&j.log);
	return err;
}
