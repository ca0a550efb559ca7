// The run: tries, one after the other, each on the disk before its job starts.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "evidence/allocations/statistics.h"
#include "job/supervisor.h"

enum {
	// Where the user says nothing.
	GRACE_S = 20,
	HANG_S = 60,
	DELAY_S = 5,
	STUDY_MS = 60000,
	DECIDE_MS = 20000,
	FINISH_MS = 60000,
	RELEASE_MS = 5000, // for KFD to let go of a process that has ended
	DELAY_MOST_MS = 300000,
	STOOD_MS = 5000,
	STOPPED_MS = 5000, // who pressed Ctrl-C waits
};

// --- what is known before the start ---

/** All that the run took, and what it changed for this process. */
static void give_back(struct supervisor *s)
{
	helper_end(&s->helper);
	text_free(&s->helper.answer);
	cleanup_close(&s->terminal.fd);
	cleanup_close(&s->lock);
	cleanup_close(&s->signals.fd);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	signals_give_back(&s->signals);
}

/** The variables of a profile, a line for each. */
static struct uh_error *read_profile(struct supervisor *s, const char *path, struct text *to)
{
	struct str answer, error;
	loop_help(s, HELPER_PROFILE, path, DECIDE_MS);
	answer = text_str(&s->helper.answer);
	if (str_behind(answer, S("error "), &error))
		return uh_error_new(STR_FMT, STR_ARG(error));
	if (!answer.n)
		return uh_error_new("%s: there is no variable in it", path);
	text_add(to, answer);
	return NULL;
}

// --- one try ---

/** What the recordings, the log and the GPU say, now that the job is gone. */
static void study_try(struct supervisor *s, struct job_try *a)
{
	struct run_try *t = a->told;
	// Who ends a job whose queues stand mostly does so because it hangs.
	const bool stood = t->ended == RUN_STOPPED && a->stood_ms >= STOOD_MS;
	const bool failed = stood || (t->ended != RUN_DONE && t->ended != RUN_NO_LAUNCH && t->ended != RUN_STOPPED);
	const bool well = !failed && t->findings > 0; // it ended well, and the guard knows better
	// A job that never came to a GPU has nothing there; one without the recorder may have.
	const bool unseen = t->recordings <= 0 && t->ended != RUN_EXIT && !access("/sys/class/kfd", F_OK);
	const bool wanted = !well && (t->launches > 0 || unseen);
	struct job_study study = study_of(s, a);
	if ((!failed && !well) || s->life.studied || !disk_ours(s))
		return;
	study.capture = wanted && disk_first_of_node(s, a);
	study.elsewhere = wanted && !study.capture;
	study.starved = a->starved.kills > 0;
	study.deadline_ms = stood ? STOPPED_MS : STUDY_MS / 2;
	const struct run_try before = *t;
	loop_show(s, "saving and explaining the evidence");
	const bool answered = loop_help(s, HELPER_STUDY, &study, STUDY_MS);
	loop_show(s, NULL);
	if (!answered)
		t->lacking = S("The evidence could not be studied in time.");
	try_take(text_str(&s->helper.answer), s->arena, t); // which may be cut
	if (!t->lacking.n && (before.ended == RUN_SIGNAL || before.ended == RUN_OOM))
		t->lacking =
			S("Its processes were gone before they could be looked at: recording, control group and log are all "
			  "that is left.");
	try_keep_end(t, &before);
}

/** A fault held the process while it was studied: what it said then is its last words. */
static void study_words(struct supervisor *s, struct job_try *a)
{
	struct job_study study = study_of(s, a);
	study.output = true;
	if (s->life.studied && s->life.why == WHY_ITSELF && study.copy && disk_ours(s) &&
	    loop_help(s, HELPER_STUDY, &study, DECIDE_MS))
		try_take(text_str(&s->helper.answer), s->arena, a->told);
}

/** A file of the job's own directory; NULL: it is none. */
static struct allocations *allocations_in(int directory, const char *name)
{
	int64_t pid;
	struct allocations *of = NULL;
	struct stat st;
	if (!allocations_of_job(str_z(name), &pid))
		return NULL;
	_cleanup_close_ int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > ALLOCATIONS_MOST)
		return NULL;
	char *bytes = mem_alloc((size_t)st.st_size + 1);
	const ssize_t n = pread(fd, bytes, (size_t)st.st_size, 0);
	uh_error_free(allocations_parse(name, bytes, n > 0 ? (size_t)n : 0, &of));
	return of;
}

/** What guard or pool say of the job: of the process that allocated most. */
static struct str allocator_say(const struct supervisor *s, const char *directory, struct run_try *ret_counts)
{
	struct arena *a = s->arena;
	struct str said = { 0 };
	uint64_t most = 0;
	int64_t findings = 0, served = 0;
	unsigned align = 0;
	bool torch = false;
	_cleanup_dir_ DIR *d = opendir(directory);
	for (const char *name; (name = dir_next(d));) {
		struct allocations *of = allocations_in(dirfd(d), name);
		if (!of)
			continue;
		const struct allocations_sum sum = allocations_sum(of);
		if (!said.n || sum.count > most) {
			most = sum.count;
			said = allocations_statistics_say(a, of);
		}
		findings += (int64_t)sum.findings;
		served += (int64_t)sum.served;
		torch |= allocations_of_torch(of);
		align = of->header.align > align ? of->header.align : align;
		allocations_free(of);
	}
	ret_counts->findings = findings;
	ret_counts->served = served;
	if (!said.n)
		return S("No process of the job allocated GPU memory through it: the job ended before, is linked statically, lost LD_PRELOAD, or used no GPU.");
	if (!s->options->guard)
		return said;
	_cleanup_text_ struct text t = { 0 };
	text_printf(&t, STR_FMT " Limits:", STR_ARG(said));
	if (align > 1)
		text_printf(&t,
			    " past the end of a size that is no multiple of %u bytes, up to %u bytes do not fault: writes there are found "
			    "later, reads never (--guard-align %s finds more);",
			    align, align - 1, align > 16 ? "16 or 1" : "1");
	text_add(&t, S(" a GPU tells the page of a fault, so offsets are ranges; buffer instructions with exact bounds never fault."));
	if (torch)
		text_add(&t, S(" PyTorch: each tensor is guarded only with PYTORCH_NO_CUDA_MEMORY_CACHING=1, which unhang sets unless you have set it; "
			       "else its segments alone are."));
	return arena_str(a, text_str(&t));
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
			loop_wait(s, 100);
	}
}

static void job_run_decide(struct supervisor *s, struct job_try *a)
{
	struct run_try *t = a->told;
	const struct job_study study = study_of(s, a);
	if (s->life.state != LIFE_DECIDING)
		return;
	if (!loop_help(s, HELPER_DECIDE, &study, DECIDE_MS)) {
		t->act = RUN_STOP;
		t->reason = S("There was no time left to decide.");
	} else {
		try_take(text_str(&s->helper.answer), s->arena, t);
	}
	loop_step(s, t->act == RUN_RESTART ? LIFE_IS_RESTART : LIFE_IS_STOP);
}

static struct uh_error *try_once(struct supervisor *s, struct run_try *t)
{
	_cleanup_free_ struct job_try *a = mem_alloc(sizeof(*a));
	struct uh_error *err = NULL;
	struct oom_figures before;
	a->told = t;
	a->directory = arena_printf(s->arena, "%s/%lld", s->directory, (long long)t->number).p;
	if (mkdir(a->directory, 0700) && errno != EEXIST)
		err = disk_refuse(uh_error_os(errno, "%s", a->directory));
	// With our number: a job that was put back into the queue has the same name.
	group_begin(&a->group, s->arena,
		    arena_printf(s->arena, STR_FMT "-%lld-%lld", STR_ARG(str_cut(s->run->id, GROUP_NAME)),
				 (long long)s->run->pid, (long long)t->number));
	oom_read(&a->group, s->arena, &before);
	t->group = a->group.path;
	t->counted_in = before.group;
	t->oom_before = before.kills;
	if (!err)
		err = disk_refuse(disk_note(s));
	if (!err)
		disk_status(s); // not later: what the job itself puts in its place stays
	const bool refused = err;
	if (!err)
		err = start_try(s, a);
	if (err)
		loop_step(s, LIFE_IS_REFUSED);
	if (!err) {
		disk_report(s);
		attempt_run(s, a);
		if (WIFSIGNALED(a->status) || s->life.abandon_at)
			terminal_restore(&s->terminal);
		ended_judge(s, a);
		if (t->ended != RUN_DONE) // of which there is nothing more to find out
			disk_save(s);
		cores_collect(s, a);
		if (s->options->guard || s->options->pool)
			t->allocator = allocator_say(s, a->directory, t);
		study_try(s, a);
		study_words(s, a);
		ended_starved(s, a);
		cores_drop(s, a);
		wait_for_memory(s, a);
		if (t->ended != RUN_DONE)
			checkpoint_find(s->options->checkpoint, s->arena, t);
		loop_step(s, t->ended == RUN_DONE ? LIFE_IS_WELL : LIFE_IS_EXPLAINED);
		job_run_decide(s, a);
	}
	group_end(&a->group);
	copy_end(&a->copy);
	if (!refused)
		s->run->status = ended_status(a);
	rmdir(a->directory); // where nothing was saved
	return err;
}

// --- the tries ---

static void tell_restart(struct supervisor *s, const struct run_try *t)
{
	_cleanup_arena_ struct arena a = { 0 };
	if (!s->options->quiet && !s->options->json && t->act == RUN_RESTART) // the last one is in the report
		s->tell(arena_printf(&a, "try %lld: " STR_FMT " " STR_FMT, (long long)t->number, STR_ARG(t->because),
				     STR_ARG(t->reason))
				.p);
}

/** What --on-repeat changes: the level, a profile, or variables. */
static void apply_repeat(struct supervisor *s, struct run_try *t)
{
	_cleanup_text_ struct text lines = { 0 };
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
	if (t->changes == RUN_ON_REPEAT)
		apply_repeat(s, t);
	t->level = job_level(s->options, t->level); // whoever asked for it: a row of the user's, --on-repeat, a run before this
	return t;
}

/** Waits before the next try: twice as long each time. */
static void wait_to_restart(struct supervisor *s)
{
	for (; s->life.state == LIFE_RESTARTING; loop_step(s, s->asked ? LIFE_IS_ASKED : LIFE_IS_TIME))
		if (!s->asked)
			loop_wait(s, s->life.restart_at - now_ms());
	s->delay_ms = s->delay_ms * 2 < DELAY_MOST_MS ? s->delay_ms * 2 : DELAY_MOST_MS;
}

/** The next try could not begin: then the one before it was the last. */
static struct uh_error *not_again(struct supervisor *s, struct uh_error *err)
{
	s->tries.len--;
	struct run_try *last = s->tries.data[s->tries.len - 1];
	last->act = RUN_STOP;
	last->reason = arena_printf(s->arena, "There was no other try: %s.", uh_error_message(err));
	uh_error_free(err);
	disk_save(s);
	return NULL;
}

static struct uh_error *all_tries(struct supervisor *s)
{
	struct uh_error *err = NULL;
	for (bool ran = false; s->life.state == LIFE_STARTING && !err; ran = true) {
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
		tell_restart(s, t);
		if (s->life.state != LIFE_RESTARTING)
			break;
		wait_to_restart(s);
		if (s->life.state == LIFE_GIVEN_UP)
			ended_waiting(s, t);
	}
	return err;
}

static void finish(struct supervisor *s)
{
	const struct run_try *last = s->tries.len ? s->tries.data[s->tries.len - 1] : NULL;
	const struct job_study study = {
		.run = s->run, .of = last, .directory = s->directory, .recordings = s->recordings, .options = s->options
	};
	if ((!s->options->crash_diagnostics && !s->options->hooks) || !last || last->ended == RUN_DONE)
		return;
	loop_help(s, HELPER_FINISH, &study, FINISH_MS);
	for (struct str rest = text_str(&s->helper.answer); rest.n;)
		loop_tell(s, str_split(&rest, '\n'));
}

static struct uh_error *job_run_begin(struct supervisor *s)
{
	static const struct pid_list none;
	_cleanup_text_ struct text profile = { 0 };
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
	s->run->before = holders_say(s->arena, &none, s->run->id.p, &ours);
	if (s->run->before.n && !s->options->quiet && !s->options->json)
		s->tell(arena_printf(s->arena, "GPU memory is in use before the start: " STR_FMT, STR_ARG(s->run->before)).p);
	return err;
}

struct uh_error *job_run(const struct uh_run_options *o, const struct job_hands *hands, void (*tell_line)(const char *line),
			 struct job_result *ret)
{
	*ret = (struct job_result){ .status = -1 };
	struct supervisor s = { .options = o,
				.hands = hands,
				.tell = tell_line,
				.arena = &ret->arena,
				.run = &ret->run,
				.delay_ms = (int64_t)(o->delay_given ? o->delay : DELAY_S) * 1000,
				.silent_ms = (int64_t)o->silent * 1000,
				.hang_ms = (int64_t)(o->hang_after ? o->hang_after : HANG_S) * 1000,
				.lock = -1,
				.life = { .grace_ms = (int64_t)(o->grace ? o->grace : GRACE_S) * 1000 },
				.deadline = o->deadline ? now_ms() + (int64_t)o->deadline * 1000 : 0 };
	run_describe(&s);
	signals_take(&s.signals);
	tree_note_before(&s.helper);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	terminal_save(&s.terminal);
	struct uh_error *err = job_run_begin(&s);
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
	_cleanup_arena_ struct arena a = { 0 };
	struct run_told run;
	const struct uh_run_options o = { .command = nothing, .state_dir = state_dir };
	struct supervisor s = { .options = &o, .hands = hands, .tell = tell_line, .arena = &a, .run = &run, .lock = -1 };
	run_describe(&s);
	disk_complete(&s);
	text_free(&s.helper.answer);
	if (run.notes.n)
		tell_line(arena_z(&a, run.notes));
}

void job_result_free(struct job_result *r) { arena_free(&r->arena); }
