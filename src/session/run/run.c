// unhang run: what is looked at before a job starts, and what the run has others do, in children: save and explain, decide, look at the
// GPUs, read a profile.
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
#include "base/print.h"
#include "base/child/put.h"
#include "base/save.h"
#include "job/job.h"
#include "session/bundle/bundle.h"
#include "session/last/last.h"
#include "session/look.h"
#include "session/place.h"
#include "session/run/run.h"
#include "session/session.h"
#include "store/store.h"
#include "watch/hooks.h"

// --- before the start: what a job would learn only hours later is refused, places that nothing can be written to, hooks that nobody would run ---

/** Files are replaced as a whole, so their directory must be writable. */
static struct uh_error *check_file(struct arena *a, const char *option, const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	struct stat st;
	if (!path)
		return NULL;
	if (!*path)
		return uh_error_new("%s needs the name of a file", option);
	struct uh_error *silent = put_answers(path);
	if (silent)
		return silent;
	_cleanup_error_ struct uh_error *refused = save_check(AT_FDCWD, path);
	if (refused)
		return uh_error_new("%s: %s", option, uh_error_message(refused));
	const char *directory = slash == path ? "/" : slash ? arena_z(a, (struct str){ path, (size_t)(slash - path) }) : ".";
	if (stat(directory, &st))
		return uh_error_os(errno, "%s %s", option, path);
	if (!S_ISDIR(st.st_mode))
		return uh_error_os(ENOTDIR, "%s %s", option, path);
	// Rights alone do not tell: root has them also where nothing can be written.
	char *trial = arena_z(a, arena_printf(a, "%s/.unhang-XXXXXX", directory));
	_cleanup_close_ int fd = mkostemp(trial, O_CLOEXEC);
	if (fd < 0)
		return uh_error_os(errno, "%s %s", option, path);
	unlink(trial);
	return NULL;
}

/** Whether what the options name can be used. */
static struct uh_error *run_check(const struct uh_run_options *o)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct uh_error *err = NULL;
	if (o->state_dir && !*o->state_dir)
		err = uh_error_new("--state-dir needs the name of a directory");
	if (!err)
		err = check_file(&a, "--status-file", o->status_file);
	if (!err)
		err = check_file(&a, "--crash-diagnostics", o->crash_diagnostics);
	if (!err && o->hooks)
		err = hooks_check(o->hooks);
	return err;
}

/** Where runs are stored. The error is that there is no place for them. */
struct uh_error *run_state_directory(const struct uh_run_options *o, struct arena *a, const char **ret)
{
	const char *own = state_of_user(a);
	*ret = o->state_dir ? absolute_path(a, o->state_dir) : "/var/lib/unhang/runs";
	if (o->state_dir || !geteuid())
		return NULL;
	if (!own)
		return uh_error_new(
			"the job was not started: this user has no home directory for the files of the run; --state-dir "
			"names another place");
	*ret = arena_printf(a, "%s/runs", own).p;
	return NULL;
}

enum { PROFILE_MOST = 64 << 10, STUDY_WIDTH = 100 };

static void run_put_number(FILE *to, const char *key, int64_t value)
{
	if (value >= 0)
		fprintf(to, "%s %lld\n", key, (long long)value);
}

// --- save and explain ---

/** The bundle; where there is none, why. */
static struct str save_bundle(const struct job_study *s, struct arena *a, FILE *to)
{
	struct captured done = { 0 };
	const struct capture_options o = { .file = arena_printf(a, "%s/" STORE_BUNDLE, s->directory).p,
					   .recordings = s->recordings,
					   .allocations = s->directory,
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

/** The job's own processes: those that recorded themselves, and those that the run knows of. */
static const struct incident *incident_of(const struct uh_session *s, const struct job_study *study)
{
	struct job_pids own = { 0 };
	for (size_t i = 0; i < s->job.list.len && own.n < ARRAY_SIZE(own.list); i++)
		if (s->job.list.data[i].pid > 0)
			own.list[own.n++] = s->job.list.data[i].pid;
	for (size_t i = 0; i < study->npids && own.n < ARRAY_SIZE(own.list); i++)
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
	const bool blames = said && str_is(i->fault, "node");
	print_line(to, "class", i->cause->head.id);
	print_line(to, "title",
		   blames ? arena_printf(a, "The job printed, and the machine does not confirm: " STR_FMT, STR_ARG(i->title)) :
			    i->title);
	if (!blames) {
		print_line(to, "fault", i->fault);
		print_line(to, "action", i->action->action);
	}
	print_line(to, "fit", said ? S("unknown") : incident_fit(i));
	print_line(to, "gpu", i->gpu.device);
	static const char *const guarded[] = { "guard",    "allocation",       "found_in",         "allocated_in",
					       "freed_in", "allocated_before", "small_allocations" };
	for (size_t n = 0; n < ARRAY_SIZE(guarded); n++)
		print_line(to, guarded[n], diag_value(i->root, guarded[n]));
}

/** Only what happened since the try began is its. false: @path tells of nothing else than what was before, or of others. */
static bool explain_with(const struct job_study *s, const char *path, bool must, struct arena *a, struct told_texts *ret,
			 FILE *to)
{
	struct uh_session *session = uh_session_new(tell_nobody, NULL);
	session_since_job(session, (double)s->of->began / 1000);
	try_add_allocations(session, s->directory, a);
	uh_session_add_path(session, path);
	try_add_files(session, s->directory, a);
	try_add_files(session, s->recordings, a);
	uh_session_end(session);
	const struct incident *i = incident_of(session, s);
	const bool good = must || i || !session->ledger.incidents.len;
	if (good) {
		tell_incident(i, s->of, i && only_said(i, session, s), a, to);
		ret->json = session_report_text(session, true, STUDY_WIDTH, a);
		ret->text = session_report_text(session, false, STUDY_WIDTH, a);
		print_line(to, "diagnosis", arena_printf(a, "%s/" STORE_DIAGNOSIS, s->directory));
	}
	uh_session_free(session);
	return good;
}

/** What the job wrote last, and which line of it says why it failed. @rank: that failed; -1: nobody knows, and the line may tell. */
static bool study_output(const struct job_study *s, int64_t rank, struct arena *a, FILE *to)
{
	enum { OUTPUT_MOST = 2 * JOB_OUTPUT_KEPT + 256 };
	const char *path = arena_printf(a, "%s/" JOB_OUTPUT, s->directory).p;
	struct str output = { 0 };
	if (s->copy)
		uh_error_free(copy_save(s->copy, s->directory));
	uh_error_free(named_read(&(struct named){ .path = path }, OUTPUT_MOST, a, &output, NULL));
	if (!output.n)
		return false;
	struct know *k = look_knowledge((struct teller){ 0 });
	const struct last_words words = words_find(k, output, a);
	print_line(to, "output", str_z(path));
	print_line(to, "words", words.line);
	if (rank < 0)
		run_put_number(to, "rank", words.rank);
	if (s->starved && words.killed)
		print_line(to, "ended", S("oom"));
	know_free(k);
	return true;
}

static void study_all(const struct job_study *s, struct arena *a, struct told_texts *ret, FILE *to)
{
	if (s->output) {
		study_output(s, s->of->rank, a, to);
		return;
	}
	struct uh_session *recorded = uh_session_new(tell_nobody, NULL);
	const struct job_process *rank = NULL, *best = NULL;
	struct str first = { 0 };
	recordings_add(recorded, s->recordings);
	// A launcher ends the other ranks, which may be in the middle of a kernel then; that kernel is not to blame. Nor is one of a rank that
	// waits for another, which is inside of a call.
	const bool waits = s->of->ended == RUN_RUNTIME_HANG;
	if (s->of->ended == RUN_EXIT || s->of->ended == RUN_SIGNAL)
		first = job_first(&recorded->job, a, &rank);
	if (!waits)
		best = job_suspect(&recorded->job, rank ? rank->rank : -1);
	const struct job_process *of = best ? best : rank;
	const int64_t failed = waits ? s->of->rank : of ? of->rank : -1;
	const bool fault = best && best->fault.n;
	print_line(to, "ended",
		   str_of_list(run_ended_words,
			       fault ? RUN_GPU_FAULT : s->of->ended)); // an answer, also where there is nothing to find
	print_line(to, "because",
		   fault   ? best->fault :
		   first.n ? arena_printf(a, STR_FMT " " STR_FMT, STR_ARG(s->of->because), STR_ARG(first)) :
			     (struct str){ 0 });
	if (best) {
		print_line(to, "kernel", best->kernel);
		print_line(to, "symbol", best->symbol);
		print_line(to, "place", best->place);
		print_line(to, "offset", best->offset);
		run_put_number(to, "packet", best->packet);
		run_put_number(to, "launch", best->launch);
	}
	run_put_number(to, "rank", failed);
	run_put_number(to, "pid", of ? of->here : -1);
	run_put_number(to, "launches", job_packets(&recorded->job, failed));
	uh_session_free(recorded);
	fflush(to); // what comes may take too long
	const bool said = study_output(s, failed, a, to),
		   contained = container_save(s->options->command, arena_printf(a, "%s/" JOB_CONTAINER, s->directory).p);
	struct str bundle = save_bundle(s, a, to);
	fflush(to);
	if (bundle.n || said || contained || s->of->recordings > 0 || s->of->findings > 0) {
		if (!bundle.n || !explain_with(s, bundle.p, s->of->recordings <= 0, a, ret, to))
			explain_with(s, s->recordings, true, a, ret, to);
	}
}

static void study(void *ctx, const struct job_study *s, FILE *to)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct told_texts texts = { 0 };
	(void)ctx;
	study_all(s, &a, &texts, to);
	told_texts_save(&texts, s->directory, save_file);
}

/** What a child studies, and where the rest of its answer goes. */
struct left_study {
	const struct job_study *of;
	struct arena *arena;
	struct told_texts *texts;
};

static void write_study(const void *ctx, FILE *to)
{
	const struct left_study *l = ctx;
	study_all(l->of, l->arena, l->texts, to);
}

/** In a child, which may read and nothing else. */
static void study_child(const void *asked, struct arena *a, void *answer)
{
	struct told_texts *texts = answer;
	const struct left_study l = { asked, a, texts };
	prctl(PR_SET_NAME, "unhang-explain");
	door_leave();
	if (!child_put_down(CHILD_RUN_STUDY))
		_exit(1);
	texts->lines = text_written(write_study, &l, a);
	door_end();
}

/** Of a run that was killed, by a watch that is root: what its job recorded is taken apart by a process that can write nothing. */
static void run_study_left(void *ctx, const struct job_study *s, FILE *to)
{
	enum { STUDY_MS = 18000, MOST = 32 << 20 };
	_cleanup_arena_ struct arena a = { 0 };
	struct told_texts texts;
	if (geteuid() || s->capture) {
		study(ctx, s, to);
		return;
	}
	const struct child_task task = { CHILD_RUN_STUDY, study_child, &told_texts_kind, now_ms() + STUDY_MS, MOST };
	if (child_call(&task, s, &a, &texts) != CHILD_GOOD)
		return;
	fprintf(to, STR_FMT, STR_ARG(texts.lines));
	told_texts_save(&texts, s->directory, save_file);
}

static void run_decide(void *ctx, const struct job_study *s, FILE *to)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct know *k = look_knowledge((struct teller){ 0 });
	struct run_try t = *s->of;
	(void)ctx;
	job_decide(k, s, &a, &t);
	print_line(to, "fingerprint", t.fingerprint);
	print_line(to, "kind", t.kind);
	print_line(to, "row", t.row);
	print_line(to, "act", str_of_list(run_act_words, t.act));
	print_line(to, "reason", t.reason);
	print_line(to, "propose", t.propose);
	print_line(to, "next_filter", t.next_filter);
	print_line(to, "next_changes", str_of_list(run_changes_words, t.next_changes));
	run_put_number(to, "next_level", t.next_level);
	know_free(k);
}

// --- profiles: what `unhang doctor --apply` writes for one job ---

static void profile(void *ctx, const char *path, FILE *to)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct str text, wrong;
	_cleanup_text_ struct text lines = { 0 };
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
}

// --- the run ---

const struct job_hands *run_hands(void)
{
	static const struct job_hands hands = { study, run_decide, run_look, profile, run_finish, NULL };
	return &hands;
}

const struct job_hands *run_hands_left(void)
{
	static const struct job_hands hands = { run_study_left, run_decide, run_look, profile, run_finish, NULL };
	return &hands;
}

struct uh_error *uh_run(const struct uh_run_options *o, FILE *out, int *ret_status)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct job_result result;
	const char *state_dir;
	*ret_status = -1;
	struct uh_error *err = run_check(o);
	if (!err)
		err = run_state_directory(o, &a, &state_dir);
	if (err)
		return err;
	struct uh_run_options options = *o;
	options.state_dir = state_dir;
	err = job_run(&options, run_hands(), print_said, &result);
	void (*before)(int) = signal(SIGPIPE, SIG_IGN); // the status is the job's, also where nobody reads the report
	const struct run_told *r = &result.run;
	const struct run_try *last = !err && r->ntries ? r->tries[r->ntries - 1] : NULL;
	// Nothing is said of a job that ended well at once.
	const bool news = last && (r->ntries > 1 || last->ended != RUN_DONE || last->left.n || last->allocator.n || r->notes.n);
	if (!err && (o->json || (!o->quiet && news)))
		report_run(&result.run, o->json, o->width, out);
	signal(SIGPIPE, before);
	*ret_status = result.status;
	job_result_free(&result);
	return err;
}
