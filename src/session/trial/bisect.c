// unhang bisect: what ties runs, questions and report together.
#include <fcntl.h>
#include <stdlib.h>

#include "base/child.h"
#include "base/door/door.h"
#include "base/save.h"
#include "report/trial/bisect.h"
#include "session/last/last.h"
#include "session/look.h"
#include "session/trial/journal.h"

enum { LAUNCHES_MOST = 8 << 20, DEADLINE_LEAST_MS = 2000 };
#define LAUNCHES "launches"

struct bisection {
	const struct uh_bisect_options *o;
	struct trial_log log;
	struct know *know;
	struct runs runs;
	char control[128];   // recordings of a control that is as it should be
	bool control_passed; // it ended well, so that all of it is there
	bool somewhere;      // it was recorded on a GPU
	bool listed;         // the launches of a run that failed are noted
	struct uh_error *error;
	int64_t began;
	struct str last_key;
	FILE *say;
};

// --- runs ---

static void say_question(struct bisection *b, const struct bisect_question *q)
{
	if (!b->say || str_eq(q->key, b->last_key))
		return;
	b->last_key = q->key;
	fprintf(b->say, "unhang: bisect: " STR_FMT "\n", STR_ARG(q->words));
}

/** Its recordings tell what the job launches: those of a run that ended well tell all. */
static void control_keep(struct bisection *b, const struct run_ended *x)
{
	if (b->control[0] && (b->control_passed || x->failed)) {
		runs_drop(x->recordings);
		return;
	}
	runs_drop(b->control);
	snprintf(b->control, sizeof(b->control), "%s", x->recordings);
	b->control_passed = !x->failed;
}

static uint64_t launches_recorded(const struct flight_recording *r)
{
	uint64_t n = 0;
	for (size_t i = 0; r && i < r->nqueues; i++)
		n += r->queues[i].n;
	return n;
}

/** The recording of the process of a run that launched most; NULL: there is none. */
static struct flight_recording *recording_of_run(const char *directory)
{
	struct recording_paths paths = { 0 };
	struct uh_error *err = *directory ? recordings_find(directory, &paths) : NULL;
	struct flight_recording *best = NULL;
	uint64_t most = 0;
	for (size_t i = 0; !err && i < paths.list.len; i++) {
		struct flight_recording *r = NULL;
		uh_error_free(recording_open(&paths.list.data[i], &r, NULL));
		const uint64_t launched = launches_recorded(r);
		const bool better = r && (!best || launched > most);
		recording_free(better ? best : r);
		best = better ? r : best;
		most = better ? launched : most;
	}
	uh_error_free(err);
	recording_paths_free(&paths);
	return best;
}

/** Whether it was recorded on a GPU at all. One that was and launched nothing may have ended before. */
static void look_somewhere(struct bisection *b, const struct run_ended *x, struct trial_outcome *ret)
{
	struct flight_recording *r = recording_of_run(x->recordings);
	ret->nowhere = !r;
	b->somewhere = ret->somewhere = launches_recorded(r);
	recording_free(r);
}

static unsigned bisect_run(void *ctx, const struct bisect_question *q, unsigned n, struct trial_outcome *ret)
{
	struct bisection *b = ctx;
	struct run_ended ended[RUNS_AT_ONCE];
	unsigned done = trial_told(&b->log, q->key, n, ret);
	if (done)
		return done;
	if (b->error || trial_over(&b->runs, &b->o->job, b->began))
		return 0;
	say_question(b, q);
	n = runs_at_once(&b->runs, n);
	const bool control = q->stage == STAGE_CONTROL;
	const struct trial_change change = { .table = q->stage == STAGE_BARE ? NULL : arena_z(&b->log.arena, q->table) };
	if (!runs_make(&b->runs, &change, n, control, ended, &b->error))
		return 0;
	for (; done < n; done++) {
		ret[done] = (struct trial_outcome){ .failed = ended[done].failed,
						    .lost = ended[done].waits_lost && !control,
						    .gpu = ended[done].gpu,
						    .seconds = ended[done].seconds };
		if (control && !b->somewhere)
			look_somewhere(b, &ended[done], &ret[done]);
		struct uh_error *err = trial_add(&b->log, q->key, &ret[done], ended[done].hung);
		b->error = b->error ? b->error : err;
		if (control)
			control_keep(b, &ended[done]);
	}
	trial_count(b->say, "bisect", q->tally, ret, done);
	return done;
}

// --- launches ---

static bool runs_together(const void *ctx, struct str name)
{
	const struct know *k = ctx;
	for (size_t i = 0; i < k->togethers.len; i++)
		if (str_glob(k->togethers.data[i]->head.id, name))
			return true;
	return false;
}

/** As they were, if it is resumed: numbers in the journal are places in this list. */
static bool bisect_list(void *ctx, struct bisect_launches *ret)
{
	struct bisection *b = ctx;
	const char *path = trial_file(&b->log, LAUNCHES);
	struct str text = { 0 };
	struct uh_error *err = named_read(&(struct named){ .path = path }, LAUNCHES_MOST, &b->log.arena, &text, NULL);
	uh_error_free(err);
	const bool better = b->listed && b->control_passed; // than a list of a run that failed
	if (!err && !better && bisect_launches_read(text, ret))
		return true;
	struct flight_recording *r = recording_of_run(b->control);
	if (!r) {
		if (!b->error)
			b->error = uh_error_new(
				"no process of the job was recorded: it used no ROCm, or its environment was changed");
		return false;
	}
	_cleanup_text_ struct text lines = { 0 };
	b->listed = !b->control_passed;
	bisect_launches_of(r, runs_together, b->know, ret);
	recording_free(r);
	bisect_launches_write(ret, &lines);
	err = save_soon(AT_FDCWD, path, text_str(&lines), 0600);
	b->error = b->error ? b->error : err;
	return true;
}

/** One more run, of which only who launches and who allocates is wanted: where it does not tell, the answer stays as it is. */
static void trace_pair(struct bisection *b, struct bisect_result *r)
{
	struct run_ended ended = { 0 };
	struct uh_error *err = NULL;
	const struct trial_change change = { .table = arena_z(&b->log.arena, bisect_trace_table(r, &b->log.arena)) };
	if (trial_over(&b->runs, &b->o->job, b->began) || !runs_make(&b->runs, &change, 1, true, &ended, &err)) {
		uh_error_free(err);
		return;
	}
	r->runs++;
	struct flight_recording *traced = recording_of_run(ended.recordings);
	if (traced)
		bisect_traced(r, traced);
	recording_free(traced);
	runs_drop(ended.recordings);
}

// --- the whole ---

static const struct know_race *repair_of(const struct know *k, const struct bisect_result *r)
{
	for (size_t i = 0; r->paired && i < k->races.len; i++)
		if (str_is(k->races.data[i]->head.id, bisect_pattern(r)))
			return k->races.data[i];
	return NULL;
}

static void write_json(const void *told, FILE *to) { report_bisect(told, true, to); }
static void write_page(const void *told, FILE *to) { report_bisect_html(told, to); }

/** The answer is stored; what has ended begins anew the next time. */
static struct uh_error *bisect_tell(struct bisection *b, const struct bisect_told *t, FILE *out)
{
	const struct uh_trial_options *o = &b->o->job;
	struct uh_error *err = trial_save(trial_file(&b->log, "bisect.json"), write_json, t, 0600);
	if (!err && o->html)
		err = trial_save(o->html, write_page, t, 0644);
	report_bisect(t, o->json, out);
	if (t->result->verdict != BISECT_UNFINISHED)
		trial_done(&b->log);
	return err;
}

/** All options that change what is run; not those of time and of how it is told. */
static struct uh_error *bisect_begin(struct bisection *b)
{
	const struct uh_bisect_options *o = b->o;
	struct trial_gpus gpus;
	trial_gpus_find(b->know, &o->job, &gpus);
	struct uh_error *err = trial_runs(&b->log, &o->job, &gpus, &b->runs);
	if (err)
		return err;
	b->runs.enough = o->repro;
	trial_is_number(&b->log, "repro", o->repro);
	return trial_begin(&b->log, b->know, "bisect", &o->job, &b->runs);
}

static struct uh_error *bisect_made(struct bisection *b, FILE *out, enum uh_trial_end *ret)
{
	const struct uh_trial_options *o = &b->o->job;
	const struct bisect_options options = { .low_rate = o->low_rate ? o->low_rate / 100.0 : 0.05,
						.error = 0.05,
						.deadline = DEADLINE_LEAST_MS };
	const struct bisect_hands hands = { bisect_run, bisect_list, b };
	const bool resumed = b->log.told.n;
	struct trial_signals signals;
	struct bisect_result result = { 0 };
	trial_signals_take(&signals, &b->runs.stop_fd);
	if (b->say && !resumed)
		report_bisect_plan(options.low_rate, options.error, o->jobs, b->say);
	else if (b->say)
		fprintf(b->say, "unhang: bisect: goes on where it was stopped\n");
	bisect(&options, &hands, &result);
	if (result.verdict == BISECT_RACE)
		trace_pair(b, &result);
	trial_signals_give(&signals, &b->runs.stop_fd);
	const struct bisect_told told = { .result = &result,
					  .asked = { .job = o, .repro = b->o->repro },
					  .directory = str_z(b->log.directory),
					  .said = trial_said(&b->log),
					  .error = str_z(b->error ? uh_error_message(b->error) : ""),
					  .stopped = result.verdict == BISECT_UNFINISHED ? trial_stopped(&b->log, &b->runs, o, b->began) :
										 (struct str){ 0 },
					  .repair = repair_of(b->know, &result),
					  .resumed = resumed,
					  .hung = b->log.hung,
					  .seconds = (double)(now_ms() - b->began) / 1e3,
					  .width = o->width };
	struct uh_error *err = bisect_tell(b, &told, out);
	*ret = result.verdict == BISECT_RACE || result.verdict == BISECT_NO_RACE || result.verdict == BISECT_NEVER ?
		       UH_TRIAL_ANSWERED :
	       result.verdict == BISECT_NOWHERE ? UH_TRIAL_IMPOSSIBLE :
						  UH_TRIAL_OPEN;
	bisect_result_free(&result);
	return err;
}

struct uh_error *uh_bisect(const struct uh_bisect_options *o, FILE *out, FILE *say, uh_problem_fn *problem, void *ctx,
			   enum uh_trial_end *ret)
{
	const struct teller teller = { problem, ctx };
	if (!o->job.recorder)
		return uh_error_new("libunhang-recorder.so was not found: bisect needs it");
	struct bisection b = { .o = o, .log.journal = -1, .log.lock = -1, .began = now_ms(), .say = say };
	b.know = look_knowledge(teller);
	struct uh_error *err = bisect_begin(&b);
	if (!err) {
		err = bisect_made(&b, out, ret);
		runs_end(&b.runs);
	}
	know_free(b.know);
	uh_error_free(b.error);
	trial_free(&b.log);
	return err;
}
