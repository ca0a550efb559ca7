// unhang bisect: the journal of runs, and what ties runs, questions and report together.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/door/door.h"
#include "base/save.h"
#include "job/trial/runs.h"
#include "report/trial/bisect.h"
#include "session/last/last.h"
#include "session/look.h"
#include "session/place.h"

enum { JOURNAL_MOST = 8 << 20, DEADLINE_LEAST_MS = 2000, HANG_AFTER_S = 600 };
#define JOURNAL "journal"
#define LAUNCHES "launches"

struct bisection {
	const struct uh_bisect_options *o;
	struct arena arena;
	struct know *know;
	struct runs runs;
	const char *directory;
	int journal;         // where runs are noted
	struct str told;     // runs of before, that have not been asked for yet
	char control[128];   // recordings of a control that is as it should be
	bool control_passed; // it ended well, so that all of it is there
	struct uh_error *error;
	unsigned hung;
	int64_t began;
	struct str last_key;
	FILE *say;
};

// --- the journal: a line for each run, in the order in which they count ---

/** The next run of before, if it was made for this question. */
static bool journal_next(struct bisection *b, const struct bisect_question *q, struct trial_outcome *ret)
{
	struct str rest = b->told, line = str_split(&rest, '\n'), values = line;
	const struct str failed = str_word(&values), lost = str_word(&values), hung = str_word(&values), ms = str_word(&values);
	int64_t n[4];
	if (!line.n || !str_eq(str_trim(values), q->key) || !str_number(failed, &n[0]) || !str_number(lost, &n[1]) ||
	    !str_number(hung, &n[2]) || !str_number(ms, &n[3])) {
		b->told = (struct str){ 0 };
		return false;
	}
	*ret = (struct trial_outcome){ .failed = n[0], .lost = n[1], .seconds = (double)n[3] / 1000 };
	b->hung += n[2] != 0;
	b->told = rest;
	return true;
}

static void journal_add(struct bisection *b, const struct bisect_question *q, const struct trial_outcome *x, bool hung)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct str line = arena_printf(&a, "%d %d %d %" PRId64 " " STR_FMT "\n", x->failed, x->lost, hung,
					     (int64_t)(x->seconds * 1000), STR_ARG(q->key));
	if (!write_all(b->journal, line) && !b->error)
		b->error = uh_error_os(errno, "%s/" JOURNAL, b->directory);
}

/** Whole lines only: a kill may have cut the last. The file ends behind them. */
static struct uh_error *runs_journal_open(struct bisection *b)
{
	const char *path = arena_printf(&b->arena, "%s/" JOURNAL, b->directory).p;
	b->journal = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND | O_NOFOLLOW, 0600);
	struct stat st;
	if (b->journal < 0 || fstat(b->journal, &st))
		return uh_error_os(errno, "%s", path);
	const size_t n = st.st_size < JOURNAL_MOST ? (size_t)st.st_size : JOURNAL_MOST;
	char *bytes = arena_alloc(&b->arena, n + 1);
	const ssize_t got = pread(b->journal, bytes, n, 0);
	size_t whole = got > 0 ? (size_t)got : 0;
	while (whole && bytes[whole - 1] != '\n')
		whole--;
	b->told = (struct str){ bytes, whole };
	if (whole != (size_t)st.st_size && ftruncate(b->journal, (off_t)whole))
		return uh_error_os(errno, "%s", path);
	return NULL;
}

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
	while (done < n && journal_next(b, q, &ret[done]))
		done++;
	if (done)
		return done;
	if (time_over(b))
		return 0;
	say_question(b, q);
	n = n < b->o->jobs ? n : b->o->jobs;
	n = n < RUNS_AT_ONCE ? n : RUNS_AT_ONCE;
	const bool control = q->stage == STAGE_CONTROL;
	if (!runs_make(&b->runs, q->stage == STAGE_BARE ? NULL : arena_z(&b->arena, q->table), n, control, ended, &b->error))
		return 0;
	for (; done < n; done++) {
		ret[done] = (struct trial_outcome){ .failed = ended[done].failed,
						     .lost = ended[done].waits_lost && !control,
						     .seconds = ended[done].seconds };
		b->hung += ended[done].hung;
		journal_add(b, q, &ret[done], ended[done].hung);
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
	const char *path = arena_printf(&b->arena, "%s/" LAUNCHES, b->directory).p;
	struct str text = { 0 };
	struct uh_error *err = named_read(&(struct named){ .path = path }, JOURNAL_MOST, &b->arena, &text, NULL);
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

/** A directory for this job and this question: a number of its words. */
static struct uh_error *bisect_directory(struct bisection *b)
{
	const struct uh_bisect_options *o = b->o;
	const char *own = state_of_user(&b->arena);
	const char *root = o->state_dir ? absolute_path(&b->arena, o->state_dir) :
			   own          ? arena_printf(&b->arena, "%s/bisect", own).p :
					  "/var/lib/unhang/bisect";
	uint64_t hash = 0xcbf29ce484222325u;
	const char *more[] = { o->fails_if ? o->fails_if : "", NULL };
	char *const *lists[] = { o->command, (char *const *)more };
	for (size_t l = 0; l < ARRAY_SIZE(lists); l++)
		for (size_t i = 0; lists[l][i]; i++)
			for (const char *c = lists[l][i];; c++) {
				hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
				if (!*c)
					break;
			}
	b->directory = arena_printf(&b->arena, "%s/%016" PRIx64, root, hash).p;
	make_above(AT_FDCWD, b->directory, 0700);
	if (mkdir(b->directory, 0700) && errno != EEXIST)
		return uh_error_os(errno, "%s", b->directory);
	if (o->fresh) {
		unlink(arena_printf(&b->arena, "%s/" JOURNAL, b->directory).p);
		unlink(arena_printf(&b->arena, "%s/" LAUNCHES, b->directory).p);
	}
	return NULL;
}

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
	struct uh_error *err = save_file(AT_FDCWD, arena_printf(&b->arena, "%s/bisect.json", b->directory).p,
					 written(t, write_json, &b->arena), 0600);
	if (!err && o->html)
		err = save_file(AT_FDCWD, o->html, written(t, report_bisect_html, &b->arena), 0644);
	report_bisect(t, o->json, out);
	if (t->result->verdict != BISECT_UNFINISHED) {
		unlink(arena_printf(&b->arena, "%s/" JOURNAL, b->directory).p);
		unlink(arena_printf(&b->arena, "%s/" LAUNCHES, b->directory).p);
	}
	return err;
}

/** Recordings of one that was killed are still there: they are large. */
static struct uh_error *bisect_place(struct bisection *b)
{
	const char *path = arena_printf(&b->arena, "%s/place", b->directory).p;
	struct str old = { 0 };
	uh_error_free(named_read(&(struct named){ .path = path }, sizeof(b->runs.place), &b->arena, &old, NULL));
	if (str_find(old, S("/unhang-bisect-")) > 0)
		runs_drop(arena_z(&b->arena, old));
	struct uh_error *err = runs_begin(&b->runs);
	return err ? err : save_soon(AT_FDCWD, path, str_z(b->runs.place), 0600);
}

static struct uh_error *bisect_begin(struct bisection *b)
{
	const struct uh_bisect_options *o = b->o;
	struct uh_error *err = fails_if_parse(str_z(o->fails_if ? o->fails_if : "status or hang"), &b->runs.fails);
	if (!err)
		err = bisect_directory(b);
	if (!err)
		err = runs_journal_open(b);
	if (!err)
		err = bisect_place(b);
	return err;
}

struct uh_error *uh_bisect(const struct uh_bisect_options *o, FILE *out, FILE *say, uh_problem_fn *problem, void *ctx,
			   bool *ret_answered)
{
	const struct teller teller = { problem, ctx };
	sigset_t ends, before;
	struct bisection b = { .o = o, .journal = -1, .began = now_ms(), .say = say };
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
		const bool resumed = b.told.n;
		const struct bisect_options options = { .low_rate = o->low_rate ? o->low_rate / 100.0 : 0.05,
							.error = 0.05,
							.deadline = DEADLINE_LEAST_MS };
		const struct bisect_hands hands = { bisect_run, bisect_list, &b };
		b.know = look_knowledge(teller);
		b.runs.output = arena_printf(&b.arena, "%s/output", b.directory).p;
		sigemptyset(&ends);
		sigaddset(&ends, SIGINT);
		sigaddset(&ends, SIGTERM);
		sigprocmask(SIG_BLOCK, &ends, &before);
		b.runs.stop_fd = signalfd(-1, &ends, SFD_NONBLOCK | SFD_CLOEXEC);
		if (say && !resumed)
			report_bisect_plan(options.low_rate, options.error, o->jobs, say);
		else if (say)
			fprintf(say, "unhang: bisect: goes on where it was stopped\n");
		bisect(&options, &hands, &result);
		cleanup_close(&b.runs.stop_fd);
		sigprocmask(SIG_SETMASK, &before, NULL);
		const struct bisect_told told = { .result = &result,
						  .command = o->command,
						  .directory = str_z(b.directory),
						  .error = str_z(b.error ? uh_error_message(b.error) : ""),
						  .repair = repair_of(b.know, &result),
						  .resumed = resumed,
						  .hung = b.hung,
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
	cleanup_close(&b.journal);
	arena_free(&b.arena);
	return err;
}
