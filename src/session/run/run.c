// unhang run: what the run has others do, in children: save and explain, decide, look at the GPUs, read a profile.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/door/caller.h"
#include "base/door/door.h"
#include "base/lower.h"
#include "base/print.h"
#include "base/save.h"
#include "job/decide.h"
#include "job/job.h"
#include "job/profile.h"
#include "session/bundle/capture.h"
#include "session/look.h"
#include "session/run/check.h"
#include "session/run/container.h"
#include "session/run/directory.h"
#include "session/run/finish.h"
#include "session/run/look.h"
#include "session/run/suspect.h"
#include "session/run/words.h"
#include "session/session.h"
#include "source/tape/format.h"
#include "store/store.h"

enum { PROFILE_MOST = 64 << 10, GRACE_S = 20, HANG_S = 60, DELAY_S = 5 };

static void put_number(FILE *to, const char *key, int64_t value)
{
	if (value >= 0)
		fprintf(to, "%s %lld\n", key, (long long)value);
}

// --- save and explain ---

/** What a study wrote down, where another process saves it. */
struct study_texts {
	struct text json, text;
};

static void keep_report(struct uh_session *s, bool json, struct text *to)
{
	const struct uh_report_options options = { .json = json, .width = 100 };
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);
	if (!out)
		return;
	uh_session_report(s, out, &options);
	fclose(out);
	text_clear(to);
	text_add(to, (struct str){ text, n });
	free(text);
}

static void save_texts(const char *directory, struct str json, struct str text)
{
	enum { MODE = 0640 };
	struct arena a = { 0 };
	if (json.n)
		uh_error_free(save_file(AT_FDCWD, arena_printf(&a, "%s/" STORE_DIAGNOSIS, directory).p, json, MODE));
	if (text.n)
		uh_error_free(save_file(AT_FDCWD, arena_printf(&a, "%s/" STORE_TEXT, directory).p, text, MODE));
	arena_free(&a);
}

/** The bundle; where there is none, why. */
static struct str save_bundle(const struct job_study *s, struct arena *a, FILE *to)
{
	struct captured done = { 0 };
	const struct capture_options o = { .file = arena_printf(a, "%s/" STORE_BUNDLE, s->directory).p,
					   .recordings = s->recordings,
					   .output = arena_printf(a, "%s/output", s->directory).p,
					   .pids = s->pids,
					   .npids = s->npids,
					   .user_data = USER_DATA_REGISTERS,
					   .job_began = s->of->began,
					   .deadline_ms = (int)s->deadline_ms };
	struct uh_error *err = s->capture ? bundle_take(&o, &done) : NULL;
	const bool cut = err && !access(o.file, F_OK); // what an earlier capture of this try had when it was ended
	struct str file = (err && !cut) || !s->capture ? (struct str){ 0 } : str_z(o.file);
	if (s->elsewhere)
		print_line(to, "lacking", S("Another rank of this node saved the bundle."));
	print_line(to, "bundle", file);
	if (cut)
		print_line(to, "lacking", S("The bundle was cut short: there was no more time to save all."));
	else if (err)
		print_line(to, "lacking", arena_printf(a, "There is no bundle: %s.", uh_error_message(err)));
	uh_error_free(err);
	captured_free(&done);
	return file;
}

/** Whether it began with the try, or later. What is so now, without a time of its own, may be the job's. */
static bool began_in(const struct incident *i, const struct uh_session *s)
{
	const double now = (double)time(NULL);
	double when;
	if (i->begin.clock == TIME_BOOT)
		when = now - source_uptime() + i->begin.seconds;
	else if (!incident_when(i, s->evidence, (time_t)now, &when))
		return true;
	return when >= s->told.since;
}

static const struct incident *incident_of(const struct uh_session *s, const struct job_study *study)
{
	struct job_pids own = { 0 };
	suspect_pids(study->recordings, &own);
	for (size_t i = 0; i < study->npids && own.n < sizeof(own.list) / sizeof(own.list[0]); i++)
		own.list[own.n++] = study->pids[i];
	for (size_t i = 0; i < s->ledger.incidents.len; i++) {
		const struct incident *x = s->ledger.incidents.data[i];
		if (began_in(x, s) && incident_of_job(x, &own))
			return x;
	}
	return NULL;
}

/** Whether nothing but what the job itself wrote, or its container's state, tells of it. */
static bool only_said(const struct incident *i, const struct uh_session *s, const struct job_study *study)
{
	for (size_t e = 0; e < i->events.len; e++) {
		const struct str path = evidence_at(s->evidence, i->events.data[e]->at.source)->path, name = str_base(path);
		if (!str_starts(path, str_z(study->directory)) || (!str_is(name, JOB_OUTPUT) && !str_is(name, JOB_CONTAINER)))
			return false;
	}
	return i->events.len;
}

/** No process of the job was recorded: what the machine shows is then hardly the job's. -1: nobody recorded. A job can say what it likes: that
 * never makes it the machine's fault. */
static void tell_incident(const struct incident *i, const struct run_try *of, bool said, struct arena *a, FILE *to)
{
	if (!i)
		return;
	if (!of->recordings && !said) {
		print_line(to, "beside", arena_printf(a, "this machine shows: " STR_FMT, STR_ARG(i->title)));
		return;
	}
	print_line(to, "class", i->cause->head.id);
	print_line(to, "title", i->title);
	if (!said || !str_is(i->fault, "node"))
		print_line(to, "fault", i->fault);
	print_line(to, "action", i->action->action);
	print_line(to, "fit", said ? S("unknown") : incident_fit(i));
	print_line(to, "gpu", i->gpu.device);
}

/** Only what happened since the try began is its. false: @path tells of nothing else than what was before, or of others. */
static bool explain_with(const struct job_study *s, const char *path, bool must, struct study_texts *ret, FILE *to)
{
	struct arena a = { 0 };
	struct uh_session *session = uh_session_new(tell_nobody, NULL);
	session_since_job(session, (double)s->of->began / 1000);
	uh_session_add_path(session, path);
	try_add_files(session, s->directory, &a);
	try_add_files(session, s->recordings, &a);
	uh_session_end(session);
	const struct incident *i = incident_of(session, s);
	const bool good = must || i || !session->ledger.incidents.len;
	if (good) {
		tell_incident(i, s->of, i && only_said(i, session, s), &a, to);
		keep_report(session, true, &ret->json);
		keep_report(session, false, &ret->text);
		print_line(to, "diagnosis", arena_printf(&a, "%s/" STORE_DIAGNOSIS, s->directory));
	}
	uh_session_free(session);
	arena_free(&a);
	return good;
}

static void explain(const struct job_study *s, struct str bundle, struct study_texts *ret, FILE *to)
{
	if (!bundle.n || !explain_with(s, bundle.p, s->of->recordings <= 0, ret, to))
		explain_with(s, s->recordings, true, ret, to);
}

static const char *output_of(const struct job_study *s, struct arena *a)
{
	return arena_printf(a, "%s/" JOB_OUTPUT, s->directory).p;
}

/** What the job wrote last, and which line of it says why it failed. @rank: that failed; -1: nobody knows, and the line may tell. */
static bool study_output(const struct job_study *s, int64_t rank, struct arena *a, FILE *to)
{
	enum { OUTPUT_MOST = 2 * JOB_OUTPUT_KEPT + 256 };
	const char *path = output_of(s, a);
	struct str output = { 0 };
	if (s->copy)
		uh_error_free(copy_save(s->copy, s->directory));
	uh_error_free(named_read(&(struct named){ .path = path }, OUTPUT_MOST, a, &output, NULL));
	if (!output.n)
		return false;
	struct teller teller = { tell_nobody, NULL };
	struct know *k = look_knowledge(&teller);
	const struct last_words words = words_find(k, output, a);
	print_line(to, "output", str_z(path));
	print_line(to, "words", words.line);
	if (rank < 0)
		put_number(to, "rank", words.rank);
	if (s->starved && words.killed)
		print_line(to, "ended", S("oom"));
	know_free(k);
	return true;
}

static bool study_container(const struct job_study *s, struct arena *a)
{
	return container_save(s->options->command, arena_printf(a, "%s/" JOB_CONTAINER, s->directory).p);
}

static void study_all(const struct job_study *s, struct study_texts *ret, FILE *to)
{
	struct arena a = { 0 };
	if (s->output) {
		study_output(s, s->of->rank, &a, to);
		arena_free(&a);
		return;
	}
	struct run_try found = { .packet = -1, .launch = -1, .rank = -1, .pid = -1 };
	struct str first = { 0 };
	// A launcher ends the other ranks, which may be in the middle of a kernel then; that kernel is not to blame. Nor is one of a rank that
	// waits for another, which is inside of a call.
	if (str_is(s->of->ended, "exit") || str_is(s->of->ended, "signal"))
		first = suspect_first(s->recordings, &a, &found);
	if (str_is(s->of->ended, "runtime-hang"))
		found.rank = s->of->rank;
	else
		suspect_find(s->recordings, found.rank, &a, &found);
	if (first.n && !found.ended.n)
		found.because = arena_printf(&a, STR_FMT " " STR_FMT, STR_ARG(s->of->because), STR_ARG(first));
	print_line(to, "ended", found.ended.n ? found.ended : s->of->ended); // an answer, also where there is nothing to find
	print_line(to, "because", found.because);
	print_line(to, "kernel", found.kernel);
	print_line(to, "symbol", found.symbol);
	print_line(to, "place", found.place);
	print_line(to, "offset", found.offset);
	put_number(to, "packet", found.packet);
	put_number(to, "launch", found.launch);
	put_number(to, "rank", found.rank);
	put_number(to, "pid", found.pid);
	put_number(to, "launches", suspect_packets(s->recordings, found.rank));
	fflush(to); // what comes may take too long
	const bool said = study_output(s, found.rank, &a, to), contained = study_container(s, &a);
	struct str bundle = save_bundle(s, &a, to);
	fflush(to);
	if (bundle.n || said || contained || s->of->recordings > 0)
		explain(s, bundle, ret, to);
	arena_free(&a);
}

static void study(void *ctx, const struct job_study *s, FILE *to)
{
	struct study_texts texts = { 0 };
	(void)ctx;
	study_all(s, &texts, to);
	save_texts(s->directory, text_str(&texts.json), text_str(&texts.text));
	text_free(&texts.json);
	text_free(&texts.text);
}

/** In a child, which may read and nothing else: three texts. */
static void study_child(int fd, const void *ctx)
{
	struct study_texts texts = { 0 };
	struct text all = { 0 };
	char *lines = NULL;
	size_t n = 0;
	prctl(PR_SET_NAME, "unhang-explain");
	door_leave();
	FILE *to = lower_keeping(LOWER_NOGROUP, LOWER_READS_FILES | LOWER_READS_LOG) ? open_memstream(&lines, &n) : NULL;
	if (!to)
		_exit(1);
	study_all(ctx, &texts, to);
	fclose(to);
	tape_put_text(&all, (struct str){ lines, n });
	tape_put_text(&all, text_str(&texts.json));
	tape_put_text(&all, text_str(&texts.text));
	door_end();
	_exit(!write_all(fd, text_str(&all)));
}

/** Of a run that was killed, by a watch that is root: what its job recorded is taken apart by a process that can write nothing. */
static void study_left(void *ctx, const struct job_study *s, FILE *to)
{
	enum { STUDY_MS = 18000, MOST = 32 << 20, KILL_MS = 200 };
	struct child c;
	struct text all = { 0 };
	if (geteuid() || s->capture) {
		study(ctx, s, to);
		return;
	}
	if (!child_begin_free(study_child, s, &c))
		return;
	const enum child_end end = child_wait(&c, now_ms() + STUDY_MS, MOST, &all);
	child_kill(&c, KILL_MS);
	struct tape_cursor at = { text_str(&all) };
	const struct str lines = tape_take_text(&at), json = tape_take_text(&at), text = tape_take_text(&at);
	if (end == CHILD_GOOD && !at.short_of) {
		fprintf(to, STR_FMT, STR_ARG(lines));
		save_texts(s->directory, json, text);
	}
	text_free(&all);
}

static void decide(void *ctx, const struct job_study *s, FILE *to)
{
	struct arena a = { 0 };
	struct teller teller = { tell_nobody, NULL };
	struct know *k = look_knowledge(&teller);
	struct run_try t = *s->of;
	(void)ctx;
	job_decide(k, s, &a, &t);
	print_line(to, "fingerprint", t.fingerprint);
	print_line(to, "kind", t.kind);
	print_line(to, "row", t.row);
	print_line(to, "act", t.act);
	print_line(to, "reason", t.reason);
	print_line(to, "propose", t.propose);
	print_line(to, "next_filter", t.next_filter);
	print_line(to, "next_changes", t.next_changes);
	put_number(to, "next_level", t.next_level);
	know_free(k);
	arena_free(&a);
}

// --- profiles: what `unhang doctor --apply` writes for one job ---

static void profile(void *ctx, const char *path, FILE *to)
{
	struct arena a = { 0 };
	struct str text, wrong;
	struct text lines = { 0 };
	(void)ctx;
	struct uh_error *err = named_read(&(struct named){ .path = path }, PROFILE_MOST, &a, &text, NULL);
	if (!err && !profile_parse(text, &lines, &wrong))
		err = uh_error_new("%s: no profile of unhang doctor has a line such as '" STR_FMT "'", path,
				   STR_ARG(str_cut(wrong, 60)));
	if (err)
		print_line(to, "error", str_z(uh_error_message(err)));
	else
		print_str(to, text_str(&lines));
	uh_error_free(err);
	text_free(&lines);
	arena_free(&a);
}

// --- what the user asked for ---

static int64_t milliseconds(unsigned seconds, unsigned usual) { return (int64_t)(seconds ? seconds : usual) * 1000; }

/** Words of the recorder's own setting, in the job's environment. */
static bool means_unrecorded(const struct uh_run_options *o)
{
	const struct str name = S("UNHANG_RECORDING=");
	const char *set = getenv("UNHANG_RECORDING");
	struct str value = str_z(set ? set : "");
	for (size_t i = 0; i < o->nenv; i++)
		str_behind(str_z(o->env[i]), name, &value);
	return str_is(value, "off") || str_is(value, "0") || str_is(value, "/dev/null");
}

static struct job_options options_of(const struct uh_run_options *o, const char *state_dir)
{
	return (struct job_options){ .command = o->command,
				     .state_dir = state_dir,
				     .status_file = o->status_file,
				     .recorder = o->recorder,
				     .agent = o->agent,
				     .python = o->python,
				     .env = o->env,
				     .nenv = o->nenv,
				     .on_repeat = o->on_repeat,
				     .non_repeat = o->non_repeat,
				     .profile = o->profile,
				     .resume = o->resume,
				     .checkpoint = o->checkpoint,
				     .crash_diagnostics = o->crash_diagnostics,
				     .hooks = o->hooks,
				     .silent_ms = milliseconds(o->silent, 0),
				     .deadline_ms = milliseconds(o->deadline, 0),
				     .grace_ms = milliseconds(o->grace, GRACE_S),
				     .hang_ms = milliseconds(o->hang_after, HANG_S),
				     .delay_ms = o->delay_given ? (int64_t)o->delay * 1000 : DELAY_S * 1000,
				     .hang_given = o->hang_after,
				     .restarts = o->restarts,
				     .level = o->level,
				     .allow_inputs = o->allow_inputs,
				     .unrecorded = means_unrecorded(o),
				     .quiet = o->quiet,
				     .json = o->json,
				     .cores = (enum job_cores)o->cores };
}

static void say(const char *line)
{
	fputs("unhang: ", stderr);
	print_safe(stderr, str_z(line));
	fputc('\n', stderr);
}

/** Nothing is said of a job that ended well at once. */
static bool is_news(const struct run_told *r)
{
	const struct run_try *last = r->ntries ? r->tries[r->ntries - 1] : NULL;
	return last && (r->ntries > 1 || !str_is(last->ended, "done") || last->left.n || r->notes.n);
}

const struct job_hands *run_hands(void)
{
	static const struct job_hands hands = { study, decide, run_look, profile, run_finish, NULL };
	return &hands;
}

const struct job_hands *run_hands_left(void)
{
	static const struct job_hands hands = { study_left, decide, run_look, profile, run_finish, NULL };
	return &hands;
}

struct uh_error *uh_run(const struct uh_run_options *o, FILE *out, int *ret_status)
{
	struct arena a = { 0 };
	struct job_result result;
	const char *state_dir;
	*ret_status = -1;
	struct uh_error *err = run_check(o);
	if (!err)
		err = run_state_directory(o, &a, &state_dir);
	if (err) {
		arena_free(&a);
		return err;
	}
	const struct job_options options = options_of(o, state_dir);
	err = job_run(&options, run_hands(), say, &result);
	void (*before)(int) = signal(SIGPIPE, SIG_IGN); // the status is the job's, also where nobody reads the report
	if (!err && (o->json || (!o->quiet && is_news(&result.run))))
		report_run(&result.run, o->json, o->width, out);
	signal(SIGPIPE, before);
	*ret_status = result.status;
	job_result_free(&result);
	arena_free(&a);
	return err;
}
