// The run: tries, one after the other, each on the disk before its job starts.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "job/decide.h"
#include "job/parts.h"

enum {
	STUDY_MS = 60000,
	DECIDE_MS = 20000,
	FINISH_MS = 60000,
	RELEASE_MS = 5000, // for KFD to let go of a process that has ended
	DELAY_MOST_MS = 300000,
	STOOD_MS = 5000,
	STOPPED_MS = 5000, // who pressed Ctrl-C waits
	NOT_FOUND = 127,
	NOT_EXECUTABLE = 126,
};

// --- what is known before the start ---

static void take_over(struct supervisor *s)
{
	signals_take(&s->signals);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	terminal_save(&s->terminal);
}

static void give_back(struct supervisor *s)
{
	helper_end(&s->helper);
	text_free(&s->helper.answer);
	if (s->terminal.fd >= 0)
		close(s->terminal.fd);
	if (s->lock >= 0)
		close(s->lock);
	close(s->signals.fd);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	signals_give_back(&s->signals);
}

/** The variables of a profile, a line for each. */
static struct uh_error *read_profile(struct supervisor *s, const char *path, struct text *to)
{
	const struct helper_task task = { .hands = s->hands, .kind = HELPER_PROFILE, .path = path };
	struct str answer, error;
	loop_help(s, &task, DECIDE_MS);
	answer = text_str(&s->helper.answer);
	if (str_behind(answer, S("error "), &error))
		return uh_error_new(STR_FMT, STR_ARG(error));
	if (!answer.n)
		return uh_error_new("%s: there is no variable in it", path);
	text_add(to, answer);
	return NULL;
}

// --- one try ---

/** The command, with what --resume adds from the second try on. */
static char *const *command_line(struct supervisor *s, const struct run_try *t)
{
	VEC(char *) list = { 0 };
	for (size_t i = 0; s->options->command[i]; i++)
		vec_push(&list, s->options->command[i]);
	struct str more = str_z(t->number > 1 && s->options->resume ? s->options->resume : "");
	for (struct str word = str_word(&more); word.n; word = str_word(&more))
		vec_push(&list, arena_z(s->arena, word));
	char **kept = arena_alloc(s->arena, (list.len + 1) * sizeof(*kept));
	memcpy(kept, list.data, list.len * sizeof(*kept));
	vec_free(&list);
	return kept;
}

static struct uh_error *start(struct supervisor *s, struct job_try *a)
{
	struct run_try *t = a->told;
	const char *dumps = arena_printf(s->arena, "%s/" JOB_INPUTS, a->directory).p;
	const bool agent = str_is(t->changes, CHANGE_AGENT); // which and GPU cores exclude each other in most versions of ROCm
	const struct start_settings settings = { .options = s->options,
						 .of = t,
						 .recordings = s->recordings,
						 .dumps = dumps,
						 .directory = a->directory,
						 .cores = s->options->cores != CORES_OFF && !agent,
						 .run_id = s->run->id.p,
						 .profile = s->profile,
						 .on_repeat = str_is(t->changes, CHANGE_REPEAT) ? s->repeat : (struct str){ 0 },
						 .agent = agent };
	const struct start job = { .command = command_line(s, t),
				   .environment = start_environment(s->arena, &settings),
				   .signals = &s->signals,
				   .core_most = agent ? 0 : cores_most(s),
				   .raise = s->options->cores == CORES_KEEP,
				   .group = a->group.fd,
				   .copy = &a->copy };
	if (t->level > 5)
		mkdir(dumps, 0700);
	copy_begin(&a->copy, a->directory);
	s->helper.copier = a->copy.pid;
	if (a->copy.lacking && !s->options->quiet)
		loop_tell(s, S("The output of the job is not kept: no process could be put between the job and its reader. "
			       "Mostly too few "
			       "files can be open at a time (ulimit -n)."));
	a->root = start_job(&job);
	const int why = errno;
	copy_started(&a->copy);
	if (a->root > 0)
		return NULL;
	s->missing = true;
	a->status = (why == ENOENT ? NOT_FOUND : NOT_EXECUTABLE) << 8;
	return uh_error_os(why, "%s", job.command[0]);
}

/** What the recordings, the log and the GPU say, now that the job is gone. */
static void study(struct supervisor *s, struct job_try *a)
{
	struct run_try *t = a->told;
	// Who ends a job whose queues stand mostly does so because it hangs.
	const bool stood = str_is(t->ended, "stopped") && a->stood_ms >= STOOD_MS;
	const bool failed =
		stood || (!str_is(t->ended, "done") && !str_is(t->ended, "no-launch") && !str_is(t->ended, "stopped"));
	// A job that never came to a GPU has nothing there; one without the recorder may have.
	const bool unseen = t->recordings <= 0 && !str_is(t->ended, "exit") && !access("/sys/class/kfd", F_OK);
	const bool wanted = (t->launches > 0 || unseen) && failed && !a->studied, first = wanted && disk_first_of_node(s, a);
	const struct job_study study = { .run = s->run,
					 .of = t,
					 .directory = a->directory,
					 .recordings = s->recordings,
					 .copy = copy_mark(&a->copy) ? &a->copy : NULL,
					 .capture = first,
					 .starved = a->starved.kills > 0,
					 .elsewhere = wanted && !first,
					 .deadline_ms = stood ? STOPPED_MS : STUDY_MS / 2,
					 .options = s->options };
	const struct helper_task task = { .hands = s->hands, .kind = HELPER_STUDY, .study = &study };
	if (!failed || a->studied || !disk_ours(s))
		return;
	const struct str ended = t->ended, because = t->because;
	loop_show(s, "saving and explaining the evidence");
	const bool answered = loop_help(s, &task, STUDY_MS);
	loop_show(s, NULL);
	if (!answered)
		t->lacking = S("The evidence could not be studied in time.");
	try_take(text_str(&s->helper.answer), s->arena, t); // which may be cut
	if (!t->lacking.n && (str_is(ended, "signal") || str_is(ended, "oom")))
		t->lacking =
			S("Its processes were gone before they could be looked at: recording, control group and log are all "
			  "that is left.");
	// Only what the status leaves open is the recordings' to say.
	if (!str_is(ended, "exit") && !str_is(ended, "signal")) {
		t->ended = ended;
		t->because = because;
	}
}

/** A fault held the process while it was studied: what it said then is its last words. */
static void study_words(struct supervisor *s, struct job_try *a)
{
	struct run_try *t = a->told;
	const struct job_study study = { .run = s->run,
					 .of = t,
					 .directory = a->directory,
					 .copy = copy_mark(&a->copy) ? &a->copy : NULL,
					 .output = true,
					 .options = s->options };
	const struct helper_task task = { .hands = s->hands, .kind = HELPER_STUDY, .study = &study };
	if (a->studied && a->why == WHY_ITSELF && study.copy && disk_ours(s) && loop_help(s, &task, DECIDE_MS))
		try_take(text_str(&s->helper.answer), s->arena, t);
}

/** KFD lets go of a process some time after it has ended; a new try would find no memory until then. */
static void wait_for_memory(struct supervisor *s, struct job_try *a)
{
	const int64_t end = now_ms() + RELEASE_MS;
	const struct pid_list *own = &a->votes.computed;
	static const struct pid_list nobody;
	bool ours = true;
	while (ours) {
		a->told->holders = holders_say(s->arena, own, s->run->id.p, &ours);
		if (!ours || own == &nobody)
			break;
		if (now_ms() >= end || s->asked)
			own = &nobody; // those are named, too
		else
			loop_wait(s, NULL, 100);
	}
}

static void decide(struct supervisor *s, struct job_try *a)
{
	struct run_try *t = a->told;
	const struct job_study study = { .run = s->run, .of = t, .directory = a->directory, .options = s->options };
	const struct helper_task task = { .hands = s->hands, .kind = HELPER_DECIDE, .study = &study };
	if (str_is(t->ended, "done"))
		return;
	if (!loop_help(s, &task, DECIDE_MS)) {
		t->act = S("stop");
		t->reason = S("There was no time left to decide.");
		return;
	}
	try_take(text_str(&s->helper.answer), s->arena, t);
}

/** Nobody else's: a job that was put back into the queue has the same name. */
static struct str group_name(const struct supervisor *s, const struct run_try *t)
{
	return arena_printf(s->arena, STR_FMT "-%lld-%lld", STR_ARG(str_cut(s->run->id, GROUP_NAME)), (long long)s->run->pid,
			    (long long)t->number);
}

static struct uh_error *try_once(struct supervisor *s, struct run_try *t)
{
	struct job_try *a = mem_alloc(sizeof(*a));
	struct uh_error *err = NULL;
	struct oom_figures before;
	a->told = t;
	a->directory = arena_printf(s->arena, "%s/%lld", s->directory, (long long)t->number).p;
	if (mkdir(a->directory, 0700) && errno != EEXIST)
		err = disk_refuse(uh_error_os(errno, "%s", a->directory));
	group_begin(&a->group, s->arena, group_name(s, t));
	oom_read(&a->group, s->arena, &before);
	t->group = a->group.path;
	t->counted_in = before.group;
	t->oom_before = before.kills;
	if (!err)
		err = disk_refuse(disk_note(s));
	if (!err && s->options->status_file)
		disk_status(s);
	const bool refused = err;
	if (!err)
		err = start(s, a);
	if (!err) {
		disk_report(s);
		attempt_run(s, a);
		if (WIFSIGNALED(a->status) || a->kill_sent)
			terminal_restore(&s->terminal);
		ended_judge(s, a);
		if (!str_is(t->ended, "done")) // of which there is nothing more to find out
			disk_save(s);
		cores_collect(s, a);
		study(s, a);
		study_words(s, a);
		ended_starved(s, a);
		cores_drop(s, a);
		wait_for_memory(s, a);
		if (!str_is(t->ended, "done"))
			checkpoint_find(s->options->checkpoint, s->arena, t);
		decide(s, a);
	}
	group_end(&a->group);
	copy_end(&a->copy);
	if (!refused)
		s->run->status = ended_status(a);
	rmdir(a->directory); // where nothing was saved
	free(a);
	return err;
}

// --- the tries ---

static void tell(struct supervisor *s, const struct run_try *t)
{
	struct arena a = { 0 };
	if (!s->options->quiet && !s->options->json && str_is(t->act, "restart")) // the last one is in the report
		s->tell(arena_printf(&a, "try %lld: " STR_FMT " " STR_FMT, (long long)t->number, STR_ARG(t->because),
				     STR_ARG(t->reason))
				.p);
	arena_free(&a);
}

/** What --on-repeat changes: the level, a profile, or variables. */
static void apply_repeat(struct supervisor *s, struct run_try *t)
{
	struct text lines = { 0 };
	for (size_t i = 0; i < s->options->non_repeat; i++) {
		struct str line = str_z(s->options->on_repeat[i]), value;
		int64_t level;
		if (str_behind(line, S("level="), &value) && str_number(value, &level))
			t->level = level;
		else if (str_behind(line, S("profile="), &value))
			uh_error_free(read_profile(s, arena_z(s->arena, value), &lines));
		else
			text_printf(&lines, STR_FMT "\n", STR_ARG(line));
	}
	s->repeat = arena_str(s->arena, text_str(&lines));
	text_free(&lines);
}

static struct run_try *next_try(struct supervisor *s)
{
	const struct run_try *last = s->tries.len ? s->tries.data[s->tries.len - 1] : NULL;
	struct run_try *t = try_new(s->arena);
	t->number = last ? last->number + 1 : 1;
	t->level = last && last->next_level >= 0 ? last->next_level : s->options->level;
	t->began = run_now_ms();
	if (last) {
		t->filter = last->next_filter;
		t->changes = last->next_changes;
	}
	if (str_is(t->changes, CHANGE_REPEAT))
		apply_repeat(s, t);
	t->level = job_level(s->options, t->level); // whoever asked for it: a row of the user's, --on-repeat, a run before this
	return t;
}

/** Waits before the next try: twice as long each time. false: somebody ended us. */
static bool pause_before(struct supervisor *s)
{
	const int64_t end = now_ms() + s->delay_ms;
	while (!s->asked && now_ms() < end)
		loop_wait(s, NULL, end - now_ms());
	s->delay_ms = s->delay_ms * 2 < DELAY_MOST_MS ? s->delay_ms * 2 : DELAY_MOST_MS;
	return !s->asked;
}

/** The next try could not begin: then the one before it was the last. */
static struct uh_error *not_again(struct supervisor *s, struct uh_error *err)
{
	s->tries.len--;
	struct run_try *last = s->tries.data[s->tries.len - 1];
	last->act = S("stop");
	last->reason = arena_printf(s->arena, "There was no other try: %s.", uh_error_message(err));
	uh_error_free(err);
	disk_save(s);
	return NULL;
}

static struct uh_error *all_tries(struct supervisor *s)
{
	struct uh_error *err = NULL;
	for (bool again = true, ran = false; again && !err;) {
		struct run_try *t = next_try(s);
		vec_push(&s->tries, t);
		recordings_empty(s->recordings); // of the try before
		const int64_t before = s->run->status;
		err = try_once(s, t);
		if (err && ran) {
			s->run->status = before;
			err = not_again(s, err);
		} else if (!err || s->missing) {
			disk_save(s);
		}
		tell(s, t);
		ran = true;
		again = !err && str_is(t->act, "restart");
		if (again && !pause_before(s)) {
			ended_waiting(s, t);
			again = false;
		}
	}
	return err;
}

static void finish(struct supervisor *s)
{
	const struct run_try *last = s->tries.len ? s->tries.data[s->tries.len - 1] : NULL;
	const struct job_study study = {
		.run = s->run, .of = last, .directory = s->directory, .recordings = s->recordings, .options = s->options
	};
	const struct helper_task task = { .hands = s->hands, .kind = HELPER_FINISH, .study = &study };
	if ((!s->options->crash_diagnostics && !s->options->hooks) || !last || str_is(last->ended, "done"))
		return;
	loop_help(s, &task, FINISH_MS);
	for (struct str rest = text_str(&s->helper.answer); rest.n;)
		loop_tell(s, str_split(&rest, '\n'));
}

static struct uh_error *begin(struct supervisor *s)
{
	static const struct pid_list none;
	struct text profile = { 0 };
	bool ours;
	if (s->options->restarts && s->run->rank >= 0 && s->run->world > 1)
		return uh_error_new(
			"--restart is for the command that starts all ranks; this is rank %lld of %lld under " STR_FMT
			", which would leave the others behind. Put unhang run around the launcher",
			(long long)s->run->rank, (long long)s->run->world, STR_ARG(s->run->launcher));
	struct uh_error *err = disk_begin(s);
	if (!err)
		err = recordings_make(s);
	if (!err && s->options->profile)
		err = read_profile(s, s->options->profile, &profile);
	s->profile = arena_str(s->arena, text_str(&profile));
	text_free(&profile);
	s->run->before = holders_say(s->arena, &none, s->run->id.p, &ours);
	if (s->run->before.n && !s->options->quiet && !s->options->json)
		s->tell(arena_printf(s->arena, "GPU memory is in use before the start: " STR_FMT, STR_ARG(s->run->before)).p);
	return err;
}

struct uh_error *job_run(const struct job_options *o, const struct job_hands *hands, void (*tell_line)(const char *line),
			 struct job_result *ret)
{
	*ret = (struct job_result){ .status = -1 };
	struct supervisor s = { .options = o,
				.hands = hands,
				.tell = tell_line,
				.arena = &ret->arena,
				.run = &ret->run,
				.delay_ms = o->delay_ms,
				.lock = -1,
				.deadline = o->deadline_ms ? now_ms() + o->deadline_ms : 0 };
	run_describe(&s);
	take_over(&s);
	struct uh_error *err = begin(&s);
	if (!err) {
		err = all_tries(&s);
		disk_complete(&s);
		if (ret->run.notes.n)
			disk_save(&s);
		finish(&s);
	}
	if (err)
		rmdir(s.directory); // where nothing could be written
	if (s.recordings)
		recordings_remove(s.recordings);
	const struct run_try **list = arena_alloc(&ret->arena, (s.tries.len + 1) * sizeof(*list));
	for (size_t i = 0; i < s.tries.len; i++)
		list[i] = s.tries.data[i];
	ret->run.tries = list;
	ret->run.ntries = s.tries.len;
	ret->status = (int)ret->run.status;
	vec_free(&s.tries);
	give_back(&s);
	return err;
}

void job_complete(const char *state_dir, const struct job_hands *hands, void (*tell_line)(const char *line))
{
	static char *const nothing[] = { NULL };
	struct arena a = { 0 };
	struct run_told run;
	const struct job_options o = { .command = nothing, .state_dir = state_dir };
	struct supervisor s = { .options = &o, .hands = hands, .tell = tell_line, .arena = &a, .run = &run, .lock = -1 };
	run_describe(&s);
	disk_complete(&s);
	text_free(&s.helper.answer);
	if (run.notes.n)
		tell_line(arena_z(&a, run.notes));
	arena_free(&a);
}

void job_result_free(struct job_result *r) { arena_free(&r->arena); }
