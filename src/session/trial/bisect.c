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

enum { LAUNCHES_MOST = 8 << 20, DEADLINE_LEAST_MS = 2000, HANG_AFTER_S = 600 };
#define LAUNCHES "launches"

struct bisection {
	const struct uh_bisect_options *o;
	struct trial_log log;
	struct know *know;
	struct runs runs;
	char control[128];   // recordings of a control that is as it should be
	bool control_passed; // it ended well, so that all of it is there
	struct uh_error *error;
	int64_t began;
	struct str last_key;
	FILE *say;
};

// --- runs ---

static bool time_over(struct bisection *b)
{
	return runs_stopped(&b->runs) || b->error || (b->o->budget && now_ms() - b->began > (int64_t)b->o->budget * 1000);
}

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

static unsigned bisect_run(void *ctx, const struct bisect_question *q, unsigned n, struct trial_outcome *ret)
{
	struct bisection *b = ctx;
	struct run_ended ended[RUNS_AT_ONCE];
	unsigned done = 0;
	while (done < n && trial_next(&b->log, q->key, &ret[done]))
		done++;
	if (done)
		return done;
	if (time_over(b))
		return 0;
	say_question(b, q);
	n = n < b->o->jobs ? n : b->o->jobs;
	n = n < RUNS_AT_ONCE ? n : RUNS_AT_ONCE;
	const bool control = q->stage == STAGE_CONTROL;
	const struct trial_change change = { .table = q->stage == STAGE_BARE ? NULL : arena_z(&b->log.arena, q->table) };
	if (!runs_make(&b->runs, &change, n, control, ended, &b->error))
		return 0;
	for (; done < n; done++) {
		ret[done] = (struct trial_outcome){ .failed = ended[done].failed,
						     .lost = ended[done].waits_lost && !control,
						     .seconds = ended[done].seconds };
		struct uh_error *err = trial_add(&b->log, q->key, &ret[done], ended[done].hung);
		b->error = b->error ? b->error : err;
		if (control)
			control_keep(b, &ended[done]);
	}
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

/** Of the processes of a run, the one that launched most. */
static bool launches_recorded(struct bisection *b, struct bisect_launches *ret)
{
	struct recording_paths paths = { 0 };
	struct uh_error *err = b->control[0] ? recordings_find(b->control, &paths) : NULL;
	bool found = false;
	for (size_t i = 0; !err && i < paths.list.len; i++) {
		struct flight_recording *r;
		struct bisect_launches l;
		struct uh_error *unread = recording_open(&paths.list.data[i], &r, NULL);
		if (unread) {
			uh_error_free(unread);
			continue;
		}
		bisect_launches_of(r, runs_together, b->know, &l);
		recording_free(r);
		if (found && l.launches <= ret->launches) {
			bisect_launches_free(&l);
			continue;
		}
		if (found)
			bisect_launches_free(ret);
		*ret = l;
		found = true;
	}
	uh_error_free(err);
	recording_paths_free(&paths);
	return found;
}

/** As they were, if it is resumed: numbers in the journal are places in this list. */
static bool bisect_list(void *ctx, struct bisect_launches *ret)
{
	struct bisection *b = ctx;
	const char *path = trial_file(&b->log, LAUNCHES);
	struct str text = { 0 };
	struct uh_error *err = named_read(&(struct named){ .path = path }, LAUNCHES_MOST, &b->log.arena, &text, NULL);
	uh_error_free(err);
	if (!err && bisect_launches_read(text, ret))
		return true;
	if (!launches_recorded(b, ret)) {
		if (!b->error)
			b->error = uh_error_new(
				"no process of the job was recorded: it used no ROCm, or its environment was changed");
		return false;
	}
	_cleanup_text_ struct text lines = { 0 };
	bisect_launches_write(ret, &lines);
	err = save_soon(AT_FDCWD, path, text_str(&lines), 0600);
	b->error = b->error ? b->error : err;
	return true;
}

// --- the whole ---

static const struct know_race *repair_of(const struct know *k, const struct bisect_result *r)
{
	for (size_t i = 0; r->paired && i < k->races.len; i++)
		if (str_is(k->races.data[i]->head.id, bisect_pattern(r)))
			return k->races.data[i];
	return NULL;
}

static struct str written(const struct bisect_told *t, void (*write)(const struct bisect_told *, FILE *), struct arena *a)
{
	char *bytes = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&bytes, &n);
	if (!to)
		return (struct str){ 0 };
	write(t, to);
	fclose(to);
	struct str text = arena_str(a, (struct str){ bytes, n });
	free(bytes);
	return text;
}

static void write_json(const struct bisect_told *t, FILE *to) { report_bisect(t, true, to); }

/** The answer is stored; what has ended begins anew the next time. */
static struct uh_error *bisect_tell(struct bisection *b, const struct bisect_told *t, FILE *out)
{
	const struct uh_bisect_options *o = b->o;
	struct uh_error *err = save_file(AT_FDCWD, trial_file(&b->log, "bisect.json"),
					 written(t, write_json, &b->log.arena), 0600);
	if (!err && o->html)
		err = save_file(AT_FDCWD, o->html, written(t, report_bisect_html, &b->log.arena), 0644);
	report_bisect(t, o->json, out);
	if (t->result->verdict != BISECT_UNFINISHED)
		trial_done(&b->log);
	return err;
}

/** All options that change what is run; not those of time and of how it is told. */
static struct uh_error *bisect_begin(struct bisection *b)
{
	const struct uh_bisect_options *o = b->o;
	struct uh_error *err = fails_if_parse(str_z(o->fails_if ? o->fails_if : "status or hang"), &b->runs.fails);
	if (err)
		return err;
	for (size_t i = 0; o->command[i]; i++)
		trial_is(&b->log, "command", o->command[i]);
	for (size_t i = 0; i < o->nenv; i++)
		trial_is(&b->log, "env", o->env[i]);
	trial_is(&b->log, "fails-if", o->fails_if ? o->fails_if : "");
	trial_is_number(&b->log, "hang-after", b->runs.hang_after);
	trial_is_number(&b->log, "repro", o->repro);
	trial_is_number(&b->log, "low-rate", o->low_rate);
	trial_is_number(&b->log, "spread", b->runs.spread);
	err = trial_begin(&b->log, "bisect", o->state_dir, o->fresh);
	return err ? err : trial_place(&b->log, &b->runs);
}

struct uh_error *uh_bisect(const struct uh_bisect_options *o, FILE *out, FILE *say, uh_problem_fn *problem, void *ctx,
			   bool *ret_answered)
{
	const struct teller teller = { problem, ctx };
	struct trial_signals signals;
	struct bisection b = { .o = o, .log.journal = -1, .log.lock = -1, .began = now_ms(), .say = say };
	struct bisect_result result = { 0 };
	b.runs = (struct runs){ .command = o->command,
				.recorder = o->recorder,
				.env = o->env,
				.nenv = o->nenv,
				.hang_after = o->hang_after ? o->hang_after : HANG_AFTER_S,
				.enough = o->repro,
				.spread = o->jobs > 1,
				.stop_fd = -1 };
	if (!o->recorder)
		return uh_error_new("libunhang-recorder.so was not found: bisect needs it");
	struct uh_error *err = bisect_begin(&b);
	if (!err) {
		const bool resumed = b.log.told.n;
		const struct bisect_options options = { .low_rate = o->low_rate ? o->low_rate / 100.0 : 0.05,
							.error = 0.05,
							.deadline = DEADLINE_LEAST_MS };
		const struct bisect_hands hands = { bisect_run, bisect_list, &b };
		b.know = look_knowledge(teller);
		b.runs.output = trial_file(&b.log, "output");
		trial_signals_take(&signals, &b.runs.stop_fd);
		if (say && !resumed)
			report_bisect_plan(options.low_rate, options.error, o->jobs, say);
		else if (say)
			fprintf(say, "unhang: bisect: goes on where it was stopped\n");
		bisect(&options, &hands, &result);
		trial_signals_give(&signals, &b.runs.stop_fd);
		const struct bisect_told told = { .result = &result,
						  .command = o->command,
						  .directory = str_z(b.log.directory),
						  .error = str_z(b.error ? uh_error_message(b.error) : ""),
						  .repair = repair_of(b.know, &result),
						  .resumed = resumed,
						  .hung = b.log.hung,
						  .seconds = (double)(now_ms() - b.began) / 1e3,
						  .width = o->width };
		err = bisect_tell(&b, &told, out);
		*ret_answered =
			result.verdict == BISECT_RACE || result.verdict == BISECT_NO_RACE || result.verdict == BISECT_NEVER;
		bisect_result_free(&result);
		know_free(b.know);
		runs_end(&b.runs);
	}
	uh_error_free(b.error);
	trial_free(&b.log);
	return err;
}
