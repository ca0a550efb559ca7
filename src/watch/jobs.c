// Children of the watch: what they do may wait for the driver or for a disk. One runs at a time.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/door/door.h"
#include "watch/hooks.h"
#include "watch/parts.h"

enum { LOOK_MS = 60000, EXPLAIN_MS = 60000, HOOKS_MS = 600000, KILL_MS = 200, ANSWER_MOST = 1 << 20, HOUR_MS = 3600000 };

static void prepare(int fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	child_keep_two(fd, STDERR_FILENO);
	door_leave();
}

/** The votes, as a line of a log: the diagnosis reads it like any other. */
static struct str note_of(struct arena *a, const struct stored *i)
{
	enum { US = 1000000 };
	if (!i->votes.n)
		return (struct str){ 0 };
	return arena_printf(a, "[%5lld.%06lld] unhang watch: amdgpu " STR_FMT ": no progress: " STR_FMT "\n",
			    (long long)(i->last_us / US), (long long)(i->last_us % US), STR_ARG(i->gpu), STR_ARG(i->votes));
}

static void work(int fd, const void *ctx)
{
	const struct watcher *w = ctx;
	const struct watch_settings *s = &w->settings;
	struct arena a = { 0 };
	struct text problems = { 0 };
	prepare(fd);
	FILE *to = fdopen(fd, "w");
	if (!to)
		_exit(1);
	if (w->job.kind == JOB_CAPTURE) {
		store_vacuum(s->state_dir, (size_t)s->keep_incidents, (uint64_t)s->keep_megabytes << 20);
		w->hands->capture(w->hands->ctx, s, store_path(&a, s->state_dir, w->job.of->stored.id),
				  note_of(&a, &w->job.of->stored), to);
	}
	if (w->job.kind == JOB_LOOK)
		w->hands->look(w->hands->ctx, to);
	if (w->job.kind == JOB_HOOKS)
		hooks_tell(s, &w->job.of->stored, &problems);
	for (struct str rest = text_str(&problems); rest.n;) {
		struct str line = str_split(&rest, '\n');
		fprintf(to, "problem " STR_FMT "\n", STR_ARG(line));
	}
	fclose(to);
	door_end();
	_exit(0);
}

static void start(struct watcher *w, enum job_kind kind, struct watch_case *of, int64_t deadline)
{
	w->job = (struct watch_job){ .kind = kind, .of = of, .deadline = deadline };
	if (child_begin_free(work, w, &w->job.child))
		return;
	voice_problem(&w->voice, "No process could be started.");
	w->job = (struct watch_job){ 0 };
}

/** Whether there may be another one this hour. */
static bool may_capture(struct watcher *w, int64_t now)
{
	size_t kept = 0;
	for (size_t n = 0; n < w->nbundles; n++)
		if (now - w->bundles[n] < HOUR_MS)
			w->bundles[kept++] = w->bundles[n];
	w->nbundles = kept;
	return kept < (size_t)w->settings.bundles_per_hour && kept < BUNDLES_MOST;
}

static bool start_capture(struct watcher *w, struct watch_case *c, int64_t now)
{
	if (!may_capture(w, now)) {
		c->stored.bundle = S("there were as many bundles in an hour as the configuration allows");
		c->capture = CAPTURE_DONE;
		c->hooks_wanted = c->stored.hooks < 1;
		c->dirty = true;
		return false;
	}
	w->bundles[w->nbundles++] = now;
	start(w, JOB_CAPTURE, c, now + w->settings.capture_deadline * 1000 + EXPLAIN_MS);
	return true;
}

void jobs_start(struct watcher *w, int64_t now)
{
	if (w->job.kind != JOB_NONE || !w->ready)
		return;
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *c = w->cases.data[n];
		if (c->known && c->capture == CAPTURE_WANTED && !c->dirty && start_capture(w, c, now))
			return;
	}
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *c = w->cases.data[n];
		if (!c->hooks_wanted || c->dirty)
			continue;
		c->hooks_wanted = false;
		c->stored.hooks++;
		c->dirty = true;
		case_save(w, c, now); // before they run: whoever is told twice may act twice
		start(w, JOB_HOOKS, c, now + HOOKS_MS);
		return;
	}
	if (w->look_wanted) {
		w->look_wanted = false;
		suspicions_look(w, now);
		start(w, JOB_LOOK, NULL, now + LOOK_MS);
	}
}

// --- what they answer ---

static void take_answer(struct watch_case *c, struct str text)
{
	struct stored *s = &c->stored;
	const struct {
		const char *key;
		struct str *to;
	} keys[] = { { "bundle", &s->bundle }, { "class", &s->class }, { "title", &s->title }, { "fault", &s->fault },
		     { "action", &s->action }, { "gpu", &s->gpu },     { "job", &s->job } };
	while (text.n) {
		struct str value = str_split(&text, '\n'), key = str_word(&value);
		value = str_trim(value);
		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
			if (str_is(key, keys[i].key) && value.n)
				*keys[i].to = arena_str(&c->arena, value);
	}
}

static void end_capture(struct watcher *w, struct watch_case *c, bool good)
{
	take_answer(c, text_str(&w->job.answer));
	if (!c->stored.bundle.n)
		c->stored.bundle = good ? S("the capture ended without a word") : S("the capture did not end in time");
	c->capture = CAPTURE_DONE;
	c->hooks_wanted = c->stored.hooks < 1;
	case_announce(w, c, "explained");
	w->look_wanted = true;
}

static struct str known(struct arena *a, struct str word) { return str_is(word, "-") ? (struct str){ 0 } : arena_str(a, word); }

static void take_gpu(struct watcher *w, struct arena *a, struct str line)
{
	if (w->ngpus == GPUS_MOST)
		return;
	struct watched_gpu *g = &w->gpus[w->ngpus++];
	g->pci = arena_str(a, str_word(&line));
	g->unique_id = known(a, str_word(&line));
	g->serial = known(a, str_word(&line));
	g->unwell = str_is(str_word(&line), "unwell");
	g->health = known(a, str_word(&line));
	g->says = arena_str(a, str_trim(line));
}

static void end_look(struct watcher *w, bool good, int64_t now)
{
	struct str text = text_str(&w->job.answer);
	struct arena *a = &w->gpus_arena;
	if (good) {
		arena_free(a);
		*a = (struct arena){ 0 };
		w->ngpus = 0;
		w->looked = (int64_t)time(NULL);
	}
	while (good && text.n) {
		struct str line = str_split(&text, '\n'), rest = line;
		if (str_is(str_word(&rest), "gpu"))
			take_gpu(w, a, rest);
		if (!str_is(line, "votes"))
			continue;
		ptrdiff_t end = str_find(text, S("\nend\n")); // lines of votes, up to one that says `end`
		struct str votes = end < 0 ? text : str_cut(text, (size_t)end + 1);
		votes_take(w, votes, true, now);
		text = str_from(text, votes.n);
	}
	cases_looked(w, now, good);
}

static void end(struct watcher *w, bool good, int64_t now)
{
	struct str text = text_str(&w->job.answer);
	struct watch_job *j = &w->job;
	if (j->kind == JOB_CAPTURE)
		end_capture(w, j->of, good);
	else if (j->kind == JOB_LOOK)
		end_look(w, good, now);
	while (text.n) {
		struct str line = str_split(&text, '\n');
		if (!str_is(str_word(&line), "problem"))
			continue;
		struct arena a = { 0 };
		voice_problem(&w->voice, arena_z(&a, str_trim(line)));
		arena_free(&a);
	}
	text_free(&j->answer);
	w->job = (struct watch_job){ 0 };
}

void jobs_go_on(struct watcher *w, int64_t now)
{
	if (w->job.kind == JOB_NONE)
		return;
	enum child_end how = child_wait(&w->job.child, 0, ANSWER_MOST, &w->job.answer);
	if (how == CHILD_LATE && now < w->job.deadline)
		return;
	if (how != CHILD_GOOD)
		child_kill(&w->job.child, KILL_MS);
	end(w, how == CHILD_GOOD, now);
}

void jobs_stop(struct watcher *w)
{
	if (w->job.kind != JOB_NONE)
		child_kill(&w->job.child, KILL_MS);
	text_free(&w->job.answer);
	w->job = (struct watch_job){ 0 };
}
