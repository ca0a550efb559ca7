// Children of the watch: what they do may wait for the driver or for a disk. One runs at a time.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "watch/parts.h"

enum { LOOK_MS = 60000, EXPLAIN_MS = 60000, HOOKS_MS = 600000, BLOCK = 16 << 10, ANSWER_MOST = 1 << 20 };
static const uint64_t room_more = 1 << 20;

static enum hand_task task_of(enum job_kind kind)
{
	return kind == JOB_CAPTURE ? HAND_CAPTURE :
	       kind == JOB_EXPLAIN ? HAND_EXPLAIN :
	       kind == JOB_HOOKS   ? HAND_HOOKS :
				     HAND_LOOK;
}

static void start(struct watcher *w, enum job_kind kind, struct watch_case *of, int64_t deadline)
{
	struct text record = { 0 }, why = { 0 };
	w->job = (struct watch_job){ .kind = kind, .of = of, .deadline = deadline, .fd = -1 };
	if (of)
		stored_text(&of->stored, &record);
	if (hand_ask(w->hand, task_of(kind), text_str(&record), &why, &w->job.fd)) {
		fcntl(w->job.fd, F_SETFL, O_NONBLOCK);
	} else {
		voice_problem(&w->voice, why.p);
		w->job = (struct watch_job){ .fd = -1 };
	}
	text_free(&record);
	text_free(&why);
}

// --- bundles: evidence costs time and space, and what repeats itself must not use up those of others ---

enum { HOUR_MS = 3600000, ALIKE_MOST = 4, PROCESS_MOST = 4 };

static uint64_t hash(struct str s) { return str_hash(STR_HASH_BEGIN, s); }

static struct taken_bundle bundle_of(const struct stored *i, int64_t when)
{
	struct arena a = { 0 };
	// What only a look tells of has no class before it is explained.
	const struct str pid = i->pid ? arena_printf(&a, "%lld", (long long)i->pid) : i->job;
	const struct taken_bundle b = { when, hash(i->class.n ? i->class : i->origin),
					hash(i->fingerprint.n ? i->fingerprint : i->gpu), pid.n ? hash(pid) : 0 };
	arena_free(&a);
	return b;
}

static void forget_old(struct watcher *w, int64_t now)
{
	size_t kept = 0;
	for (size_t n = 0; n < w->nbundles; n++)
		if (now - w->bundles[n].when < HOUR_MS)
			w->bundles[kept++] = w->bundles[n];
	w->nbundles = kept;
}

static void count_bundle(struct watcher *w, struct taken_bundle b)
{
	if (w->nbundles == BUNDLES_MOST)
		memmove(w->bundles, w->bundles + 1, --w->nbundles * sizeof(b));
	w->bundles[w->nbundles++] = b;
}

int64_t quota_left(struct watcher *w, int64_t now)
{
	forget_old(w, now);
	return w->settings.bundles_per_hour > (int64_t)w->nbundles ? w->settings.bundles_per_hour - (int64_t)w->nbundles : 0;
}

struct str quota_take(struct watcher *w, const struct stored *i, int64_t now)
{
	const struct taken_bundle b = bundle_of(i, now);
	const int64_t left = quota_left(w, now);
	unsigned of_class = 0, alike = 0, of_process = 0;
	for (size_t n = 0; n < w->nbundles; n++) {
		of_class += w->bundles[n].class == b.class;
		alike += w->bundles[n].class == b.class && w->bundles[n].fingerprint == b.fingerprint;
		of_process += b.process && w->bundles[n].process == b.process;
	}
	if (of_class && !left)
		return S("there were as many bundles in an hour as the configuration allows");
	if (of_class && alike >= ALIKE_MOST)
		return S("there were enough bundles of the same fault in this hour");
	if (of_class && of_process >= PROCESS_MOST)
		return S("there were enough bundles of this program in this hour");
	count_bundle(w, b);
	return (struct str){ 0 };
}

void quota_remember(struct watcher *w)
{
	const int64_t now = now_ms(), seconds = (int64_t)time(NULL);
	for (size_t n = w->before.list.len; n-- > 0;) { // the oldest is the last of them
		const struct stored *i = w->before.list.data[n];
		if (str_is(i->bundle, "taken"))
			count_bundle(w, bundle_of(i, now - (seconds - i->began) * 1000));
	}
	forget_old(w, now);
}

static bool start_capture(struct watcher *w, struct watch_case *c, int64_t now)
{
	const struct str why_not =
		c->taken.n ? (struct str){ 0 } : quota_take(w, &c->stored, now); // one that was killed is counted already
	if (why_not.n) {
		c->stored.bundle = why_not;
		c->capture = CAPTURE_DONE;
		c->hooks_wanted = c->stored.hooks < 1;
		c->dirty = true;
		return false;
	}
	start(w, JOB_CAPTURE, c, now + w->settings.capture_deadline * 1000 + EXPLAIN_MS);
	return true;
}

// --- what they answer ---

static void take_answer(struct watch_case *c, struct str text)
{
	struct stored *s = &c->stored;
	const struct {
		const char *key;
		struct str *to;
	} keys[] = { { "bundle", &c->taken }, { "class", &s->class },   { "title", &s->title },
		     { "fault", &s->fault },  { "action", &s->action }, { "gpu", &s->gpu },
		     { "fit", &s->fit } };
	while (text.n) {
		struct str value = str_split(&text, '\n'), key = str_word(&value);
		value = str_trim(value);
		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
			if (str_is(key, keys[i].key) && value.n)
				*keys[i].to = arena_str(&c->arena, value);
		if (str_is(key, "job"))
			case_name_program(c, value);
	}
}

/** The bundle stands in the record from now on: a watch that is killed before explains it again. */
static void tell_explained(struct watcher *w, struct watch_case *c)
{
	c->stored.bundle = c->taken;
	suspicions_name_job(w, c);
	w->look_wanted = true;
	if (!str_is(c->stored.state, "closed")) {
		c->hooks_wanted = c->stored.hooks < 1;
		case_announce(w, c, "explained");
	}
}

// --- a disk that was full ---

static uint64_t room_of(const struct watcher *w)
{
	struct statvfs v;
	return fstatvfs(w->disk, &v) ? 0 : (uint64_t)v.f_bavail * v.f_frsize;
}

bool jobs_lack_room(struct str said)
{
	return str_find(said, str_z(strerror(ENOSPC))) >= 0 || str_find(said, str_z(strerror(EDQUOT))) >= 0;
}

/** The record says that the disk was full. When there is more room, and it is not over, there is still evidence. */
static void want_again(struct watcher *w, struct watch_case *c)
{
	if (!c->lacked || str_is(c->stored.state, "closed") || room_of(w) < c->lacked)
		return;
	c->lacked = 0;
	c->taken = c->stored.bundle = (struct str){ 0 };
	c->capture = CAPTURE_WANTED;
}

/** Evidence first: the bundle of one is explained when no other waits to be taken. One that was killed is taken once more: it may have left
 * all that it saved, and the next packs that. */
static void end_capture(struct watcher *w, struct watch_case *c, bool good, int64_t now)
{
	const bool first = !c->taken.n;
	take_answer(c, text_str(&w->job.answer));
	if (!c->taken.n)
		c->taken = good                   ? S("the capture ended without a word") :
			   now >= w->job.deadline ? S("the capture did not end in time") :
						    S("the capture was killed");
	if (first && !good && now < w->job.deadline && !str_is(c->taken, "taken"))
		return;
	c->capture = CAPTURE_DONE;
	c->explain_wanted = str_is(c->taken, "taken");
	c->lacked = jobs_lack_room(c->taken) ? room_of(w) + room_more : 0;
	if (!c->explain_wanted)
		tell_explained(w, c);
}

/** Without an explanation the record has no bundle, so that the next start explains it. Who waits for news is told of the incident. */
static void end_unexplained(struct watcher *w, struct watch_case *c)
{
	struct text line = { 0 };
	text_printf(&line, "The bundle of incident " STR_FMT " was not explained%s", STR_ARG(c->stored.id),
		    c->unexplained ? "." : "; that is tried once more.");
	voice_problem(&w->voice, line.p);
	text_free(&line);
	c->explain_wanted = !c->unexplained;
	c->hooks_wanted |= c->unexplained && !str_is(c->stored.state, "closed") && c->stored.hooks < 1;
	c->unexplained = true;
}

static void end_explain(struct watcher *w, struct watch_case *c, bool good)
{
	const struct str answer = text_str(&w->job.answer);
	take_answer(c, answer);
	c->dirty = true;
	if (!good || str_starts(answer, S("problem ")) || str_find(answer, S("\nproblem ")) >= 0) {
		end_unexplained(w, c);
		return;
	}
	c->unexplained = false;
	if (c->taken.n && !c->stored.bundle.n)
		tell_explained(w, c);
}

/** Behind them: a watch that is killed meanwhile runs them again, as it does where who runs them was. Who must not act twice drops a revision
 * that it knows. */
static void end_hooks(struct watcher *w, struct watch_case *c, bool good, int64_t now)
{
	enum { TRIES = 2 };
	if (!good && now < w->job.deadline && c->hook_tries++ < TRIES) {
		voice_problem(&w->voice, "The process that runs the hooks was killed; they are run again.");
		c->hooks_wanted = true;
		return;
	}
	c->hook_tries = 0;
	c->stored.hooks = str_is(c->stored.state, "closed") && c->stored.hooks ? 2 : 1;
	c->dirty = true;
	case_save(w, c, now);
}

static struct str known(struct arena *a, struct str word) { return str_is(word, "-") ? (struct str){ 0 } : arena_str(a, word); }

const struct watched_gpu *watched_gpu(const struct watcher *w, struct str pci)
{
	for (size_t n = 0; n < w->ngpus; n++)
		if (str_eq(w->gpus[n].pci, pci))
			return &w->gpus[n];
	return NULL;
}

static void take_gpu(struct watcher *w, struct arena *a, struct str line)
{
	if (w->ngpus == GPUS_MOST)
		return;
	struct watched_gpu *g = &w->gpus[w->ngpus++];
	g->pci = arena_str(a, str_word(&line));
	g->unique_id = known(a, str_word(&line));
	g->serial = known(a, str_word(&line));
	const struct str well = str_word(&line);
	g->unwell = str_is(well, "unwell");
	g->seen = g->unwell || str_is(well, "well");
	g->health = known(a, str_word(&line));
	g->says = arena_str(a, str_trim(line));
}

/** Once, when it is known what there is. */
static void tell_what_is_watched(struct watcher *w)
{
	struct text line = { 0 };
	text_printf(&line, "Watching %zu GPU%s. Incidents are stored in %s/incidents.%s", w->ngpus, w->ngpus == 1 ? "" : "s",
		    w->settings.state_dir, w->root ? "" : " Without root, it sees less of them.");
	voice_note(&w->voice, line.p);
	text_free(&line);
}

static void end_look(struct watcher *w, bool good, int64_t now)
{
	const bool first = good && !w->looked && !w->options->until_quiet;
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
	if (first)
		tell_what_is_watched(w);
	cases_looked(w, now, good);
}

static void end(struct watcher *w, bool good, int64_t now)
{
	struct str text = text_str(&w->job.answer);
	struct watch_job *j = &w->job;
	if (j->kind == JOB_CAPTURE)
		end_capture(w, j->of, good, now);
	else if (j->kind == JOB_LOOK)
		end_look(w, good, now);
	else if (j->kind == JOB_EXPLAIN)
		end_explain(w, j->of, good);
	else if (j->kind == JOB_HOOKS)
		end_hooks(w, j->of, good, now);
	while (text.n) {
		struct str line = str_split(&text, '\n');
		if (!str_is(str_word(&line), "problem"))
			continue;
		struct arena a = { 0 };
		voice_problem(&w->voice, arena_z(&a, str_trim(line)));
		arena_free(&a);
	}
	text_free(&j->answer);
	cleanup_close(&j->fd);
	w->job = (struct watch_job){ .fd = -1 };
}

// --- one after the other ---

/** It goes to the disk first. Where the disk is full nobody waits for it. */
static bool to_be_written(const struct watch_case *c) { return c->dirty && !c->retry; }

/** The next for those that are the node's fault, or for the others. false: there is none. */
static bool start_next(struct watcher *w, int64_t now, bool of_node)
{
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *c = w->cases.data[n];
		want_again(w, c);
		if (case_lasts(&c->stored) == of_node && c->known && c->capture == CAPTURE_WANTED && !to_be_written(c) &&
		    start_capture(w, c, now))
			return true;
	}
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *c = w->cases.data[n];
		if (case_lasts(&c->stored) != of_node || !c->explain_wanted || to_be_written(c))
			continue;
		c->explain_wanted = false;
		start(w, JOB_EXPLAIN, c, now + EXPLAIN_MS);
		if (w->job.kind == JOB_NONE)
			end_explain(w, c, false);
		return true;
	}
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *c = w->cases.data[n];
		if (case_lasts(&c->stored) != of_node || !c->hooks_wanted || to_be_written(c))
			continue;
		c->hooks_wanted = false;
		start(w, JOB_HOOKS, c, now + HOOKS_MS);
		if (w->job.kind == JOB_NONE)
			end_hooks(w, c, true, now);
		return true;
	}
	return false;
}

/** What the node is at fault for comes first: programs of a user may fault all day. */
void jobs_start(struct watcher *w, int64_t now)
{
	if (w->job.kind != JOB_NONE || !w->ready || start_next(w, now, true) || start_next(w, now, false))
		return;
	if (w->look_wanted) {
		w->look_wanted = false;
		suspicions_look(w, now);
		start(w, JOB_LOOK, NULL, now + LOOK_MS);
	}
}

/** Reads what is there. false: there will be no more. */
static bool read_answer(struct watch_job *j)
{
	for (;;) {
		ssize_t n = read(j->fd, text_room(&j->answer, BLOCK), BLOCK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 && errno == EAGAIN;
		j->answer.n += (size_t)n;
		if (j->answer.n > ANSWER_MOST)
			return false;
	}
}

bool jobs_saved(const struct watcher *w)
{
	const struct str said = text_str(&w->job.answer);
	return str_starts(said, S("saved\n")) || str_starts(said, S("bundle "));
}

void jobs_go_on(struct watcher *w, int64_t now)
{
	if (w->job.kind == JOB_NONE)
		return;
	bool more = read_answer(&w->job);
	if (more && now < w->job.deadline)
		return;
	bool good = !more && str_ends(text_str(&w->job.answer), S("done\n"));
	if (!good)
		hand_ask(w->hand, HAND_END, S("job"), NULL, NULL);
	end(w, good, now);
}

void jobs_stop(struct watcher *w)
{
	if (w->job.kind != JOB_NONE)
		hand_ask(w->hand, HAND_END, S("job"), NULL, NULL);
	text_free(&w->job.answer);
	cleanup_close(&w->job.fd);
	w->job = (struct watch_job){ .fd = -1 };
}
