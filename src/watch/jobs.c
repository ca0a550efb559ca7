// Children of the watch: what they do may wait for the driver or for a disk. One runs at a time.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "watch/watcher.h"

enum { LOOK_MS = 60000, EXPLAIN_MS = 60000, HOOKS_MS = 600000, BLOCK = 16 << 10, ANSWER_MOST = 1 << 20 };
static const uint64_t room_more = 1 << 20;

static void job_free(struct watch_job *j)
{
	text_free(&j->answer);
	cleanup_close(&j->fd);
	*j = (struct watch_job){ .fd = -1 };
}

// --- bundles: evidence costs time and space, and what repeats itself must not use up those of others ---

enum { HOUR_MS = 3600000, ALIKE_MOST = 4, PROCESS_MOST = 4 };

static uint64_t hash(struct str s) { return str_hash(STR_HASH_BEGIN, s); }

static struct taken_bundle bundle_of(const struct stored *i, int64_t when)
{
	_cleanup_arena_ struct arena a = { 0 };
	// What only a look tells of has no class before it is explained.
	const struct str pid = i->pid ? arena_printf(&a, "%lld", (long long)i->pid) : i->job;
	const struct taken_bundle b = { when, hash(i->class.n ? i->class : i->origin),
					hash(i->fingerprint.n ? i->fingerprint : i->gpu), pid.n ? hash(pid) : 0 };
	return b;
}

static void forget_old(struct watcher *w)
{
	size_t kept = 0;
	for (size_t n = 0; n < w->nbundles; n++)
		if (w->now - w->bundles[n].when < HOUR_MS)
			w->bundles[kept++] = w->bundles[n];
	w->nbundles = kept;
}

static void count_bundle(struct watcher *w, struct taken_bundle b)
{
	if (w->nbundles == BUNDLES_MOST)
		memmove(w->bundles, w->bundles + 1, --w->nbundles * sizeof(b));
	w->bundles[w->nbundles++] = b;
}

int64_t quota_left(struct watcher *w)
{
	forget_old(w);
	return w->settings.bundles_per_hour > (int64_t)w->nbundles ? w->settings.bundles_per_hour - (int64_t)w->nbundles : 0;
}

/** Why there is none for this incident; empty: there is, and it counts from now on. The first of a class always has one. */
static struct str quota_take(struct watcher *w, const struct stored *i)
{
	const struct taken_bundle b = bundle_of(i, w->now);
	const int64_t left = quota_left(w);
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
	const int64_t seconds = (int64_t)time(NULL);
	for (size_t n = w->before.list.len; n-- > 0;) { // the oldest is the last of them
		const struct stored *i = w->before.list.data[n];
		if (str_is(i->bundle, "taken"))
			count_bundle(w, bundle_of(i, w->now - (seconds - i->began) * 1000));
	}
	forget_old(w);
}

// --- what they answer ---

static void case_take_answer(struct watch_case *c, struct str text)
{
	struct stored *s = &c->stored;
	const struct {
		const char *key;
		struct str *to;
	} keys[] = { { "bundle", &c->taken },  { "class", &s->class }, { "title", &s->title }, { "fault", &s->fault },
		     { "action", &s->action }, { "gpu", &s->gpu },     { "fit", &s->fit } };
	while (text.n) {
		struct str value = str_split(&text, '\n'), key = str_word(&value);
		value = str_trim(value);
		for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
			if (str_is(key, keys[i].key) && value.n)
				*keys[i].to = arena_str(&c->arena, value);
		if (str_is(key, "job"))
			case_name_program(c, value);
	}
}

// --- a disk that was full ---

static uint64_t jobs_room_of(const struct watcher *w)
{
	struct statvfs v;
	return fstatvfs(w->disk, &v) ? 0 : (uint64_t)v.f_bavail * v.f_frsize;
}

bool jobs_lack_room(struct str said)
{
	return str_find(said, str_z(strerror(ENOSPC))) >= 0 || str_find(said, str_z(strerror(EDQUOT))) >= 0;
}

static void end_capture(struct watcher *w, struct watch_case *c, const struct watch_job *j, bool good)
{
	const bool late = w->now >= j->deadline;
	c->taken = (struct str){ 0 };
	case_take_answer(c, text_str(&j->answer));
	const bool taken = str_is(c->taken, "taken");
	if (!c->taken.n)
		c->taken = good ? S("the capture ended without a word") :
			   late ? S("the capture did not end in time") :
				  S("the capture was killed");
	c->lacked = jobs_lack_room(c->taken) ? jobs_room_of(w) + room_more : 0;
	case_input(w, c, taken ? INPUT_CAPTURED : good || late ? INPUT_UNCAPTURED : INPUT_KILLED);
}

static void end_explain(struct watcher *w, struct watch_case *c, const struct watch_job *j, bool good)
{
	const struct str answer = text_str(&j->answer);
	case_take_answer(c, answer);
	c->unsaved = c->unsaved ? c->unsaved : SAVE_NOW;
	if (good && !str_starts(answer, S("problem ")) && str_find(answer, S("\nproblem ")) < 0) {
		case_input(w, c, INPUT_EXPLAINED);
		return;
	}
	_cleanup_text_ struct text line = { 0 };
	text_printf(&line, "The bundle of incident " STR_FMT " was not explained%s", STR_ARG(c->stored.id),
		    c->tries ? "." : "; that is tried once more.");
	voice_problem(&w->voice, line.p);
	case_input(w, c, INPUT_UNEXPLAINED);
}

static void end_hooks(struct watcher *w, struct watch_case *c, const struct watch_job *j, bool good)
{
	const bool killed = !good && w->now < j->deadline;
	if (killed)
		voice_problem(&w->voice, "The process that runs the hooks was killed; they are run again.");
	case_input(w, c, killed ? INPUT_TELLER_KILLED : INPUT_TOLD);
}

static struct str known(struct arena *a, struct str word) { return str_is(word, "-") ? (struct str){ 0 } : arena_str(a, word); }

const struct watched_gpu *watched_gpu(const struct watcher *w, struct str pci)
{
	for (size_t n = 0; n < w->ngpus; n++)
		if (str_eq(w->gpus[n].pci, pci))
			return &w->gpus[n];
	return NULL;
}

bool watched_other_card(const struct watcher *w, const struct stored *i)
{
	const struct watched_gpu *g = watched_gpu(w, i->gpu);
	return g && g->serial.n && i->serial.n && !str_eq(g->serial, i->serial) && !str_is(i->boot_id, w->boot_id);
}

static void take_gpu(struct watcher *w, struct arena *a, struct str line)
{
	if (w->ngpus == GPUS_MOST)
		return;
	struct watched_gpu *g = &w->gpus[w->ngpus++];
	g->pci = arena_str(a, str_word(&line));
	g->unique_id = known(a, str_word(&line));
	g->serial = known(a, str_word(&line));
	g->slot = known(a, str_word(&line));
	g->partition = known(a, str_word(&line));
	g->owned = !str_is(str_word(&line), "free");
	const struct str well = str_word(&line);
	g->unwell = str_is(well, "unwell");
	g->seen = g->unwell || str_is(well, "well");
	g->health = known(a, str_word(&line));
	g->says = arena_str(a, str_trim(line));
}

/** Once, when it is known what there is. */
static void tell_what_is_watched(struct watcher *w)
{
	_cleanup_text_ struct text line = { 0 };
	text_printf(&line, "Watching %zu GPU%s. Incidents are stored in %s/incidents.%s", w->ngpus, w->ngpus == 1 ? "" : "s",
		    w->settings.state_dir, w->root ? "" : " Without root, it sees less of them.");
	voice_note(&w->voice, line.p);
}

/** Since when it is unwell though nobody holds it: as long as each look saw it so. */
static void count_alone(struct watcher *w, const struct watched_gpu *before, size_t n)
{
	for (size_t i = 0; i < w->ngpus; i++) {
		struct watched_gpu *g = &w->gpus[i];
		const struct watched_gpu *was = list_find(before, n, it, str_eq(it->pci, g->pci));
		g->alone_since = !g->unwell || g->owned ? 0 : was && was->alone_since ? was->alone_since : w->looked;
	}
}

static void end_look(struct watcher *w, const struct watch_job *j, bool good)
{
	const bool first = good && !w->looked && !w->options->until_quiet;
	struct str text = text_str(&j->answer);
	_cleanup_arena_ struct arena old = { 0 };
	_cleanup_free_ struct watched_gpu *before = mem_alloc((w->ngpus + 1) * sizeof(*before));
	const size_t nbefore = w->ngpus;
	memcpy(before, w->gpus, w->ngpus * sizeof(*before));
	if (good) {
		old = w->gpus_arena;
		w->gpus_arena = (struct arena){ 0 };
		w->ngpus = 0;
		w->unlisted = (struct str){ 0 };
		w->looked = (int64_t)time(NULL);
	}
	while (good && text.n) {
		struct str line = str_split(&text, '\n'), rest = line;
		const struct str word = str_word(&rest);
		if (str_is(word, "gpu"))
			take_gpu(w, &w->gpus_arena, rest);
		else if (str_is(word, "unlisted"))
			w->unlisted = arena_str(&w->gpus_arena, rest);
		if (!str_is(line, "votes"))
			continue;
		ptrdiff_t end = str_find(text, S("\nend\n")); // lines of votes, up to one that says `end`
		struct str votes = end < 0 ? text : str_cut(text, (size_t)end + 1);
		votes_take(w, votes, true);
		text = str_from(text, votes.n);
	}
	if (good)
		count_alone(w, before, nbefore);
	if (first)
		tell_what_is_watched(w);
	cases_looked(w, good);
}

/** The job is over before its end is told: what that leads to may ask for the next one. */
void jobs_end(struct watcher *w, bool good)
{
	_cleanup_(job_free) struct watch_job j = w->job;
	w->job = (struct watch_job){ .fd = -1 };
	switch (j.kind) {
	case JOB_CAPTURE:
		end_capture(w, j.of, &j, good);
		break;
	case JOB_EXPLAIN:
		end_explain(w, j.of, &j, good);
		break;
	case JOB_HOOKS:
		end_hooks(w, j.of, &j, good);
		break;
	case JOB_LOOK:
		end_look(w, &j, good);
		break;
	case JOB_NOTE:
		if (good)
			diary_noted(w, text_str(&j.answer));
		break;
	case JOB_SHIP:
		w->unshipped |= !good; // it is tried again
		break;
	case JOB_NONE:
		break;
	}
	for (struct str text = text_str(&j.answer); text.n;) {
		struct str line = str_split(&text, '\n');
		if (!str_is(str_word(&line), "problem"))
			continue;
		_cleanup_arena_ struct arena a = { 0 };
		voice_problem(&w->voice, arena_z(&a, str_trim(line)));
	}
}

// --- one after the other ---

/** What the states of cases ask for, the most urgent first: evidence is gone soonest, and hooks want the explanation. */
static const struct {
	unsigned states;
	enum job_kind kind;
	enum keeper_task task;
} wanted[] = {
	{ CASES_CAPTURING, JOB_CAPTURE, KEEPER_CAPTURE },
	{ CASES_EXPLAINING, JOB_EXPLAIN, KEEPER_EXPLAIN },
	{ CASES_TELLING, JOB_HOOKS, KEEPER_HOOKS },
};

/** false: no process could be started. */
static bool job_start(struct watcher *w, enum job_kind kind, enum keeper_task task, struct watch_case *of)
{
	_cleanup_text_ struct text record = { 0 }, why = { 0 };
	const int64_t lasts = kind == JOB_CAPTURE ? w->settings.capture_deadline * 1000 + EXPLAIN_MS :
			      kind == JOB_EXPLAIN ? EXPLAIN_MS :
			      kind == JOB_HOOKS   ? HOOKS_MS :
						    LOOK_MS;
	w->job = (struct watch_job){ .kind = kind, .of = of, .deadline = w->now + lasts, .fd = -1 };
	if (of)
		stored_text(&of->stored, &record);
	if (!keeper_ask(w->keeper, task, text_str(&record), &why, &w->job.fd)) {
		voice_problem(&w->voice, why.p);
		return false;
	}
	fcntl(w->job.fd, F_SETFL, O_NONBLOCK);
	return true;
}

/** true: it has begun, or ended already; there may be another. */
static bool job_start_for(struct watcher *w, struct watch_case *c, enum job_kind kind, enum keeper_task task)
{
	const struct str refused = kind == JOB_CAPTURE && !c->tries ? // one that was killed is counted already
					   quota_take(w, &c->stored) :
					   (struct str){ 0 };
	if (refused.n) {
		case_set(c, &c->stored.bundle, refused);
		case_input(w, c, INPUT_REFUSED);
		return false;
	}
	if (!job_start(w, kind, task, c))
		jobs_end(w, kind == JOB_HOOKS); // who cannot be told is not waited for
	return true;
}

/** The next for those that are the node's fault, or for the others. A record goes to the disk first; where that is full nobody waits for it.
 * false: there is none. */
static bool start_next(struct watcher *w, bool of_node)
{
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *c = w->cases.data[n];
		if (c->lacked && case_is(c, AT(TELLING) | AT(WATCHED) | AT(QUIET)) && jobs_room_of(w) >= c->lacked)
			case_input(w, c, INPUT_ROOM); // it is not over: there is still evidence
	}
	for (size_t k = 0; k < ARRAY_SIZE(wanted); k++)
		for (size_t n = 0; n < w->cases.len; n++) {
			struct watch_case *c = w->cases.data[n];
			if (case_lasts(&c->stored) == of_node && case_is(c, wanted[k].states) && c->unsaved != SAVE_NOW &&
			    job_start_for(w, c, wanted[k].kind, wanted[k].task))
				return true;
		}
	return false;
}

/** What the node is at fault for comes first: programs of a user may fault all day. */
void jobs_start(struct watcher *w)
{
	if (w->job.kind != JOB_NONE || !w->ready || start_next(w, true) || start_next(w, false))
		return;
	enum job_kind kind = w->look_wanted       ? JOB_LOOK :
			     diary_note_wanted(w) ? JOB_NOTE :
			     diary_ship_wanted(w) ? JOB_SHIP :
						    JOB_NONE;
	if (kind == JOB_NONE)
		return;
	if (kind == JOB_LOOK) {
		w->look_wanted = false;
		suspicions_look(w);
	}
	if (!job_start(w, kind, kind == JOB_LOOK ? KEEPER_LOOK : kind == JOB_NOTE ? KEEPER_NOTE : KEEPER_SHIP, NULL))
		job_free(&w->job);
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

void jobs_go_on(struct watcher *w)
{
	if (w->job.kind == JOB_NONE)
		return;
	const bool more = read_answer(&w->job);
	if (more && w->now < w->job.deadline)
		return;
	const bool good = !more && str_ends(text_str(&w->job.answer), S("done\n"));
	if (!good)
		keeper_ask(w->keeper, KEEPER_END, S("job"), NULL, NULL);
	jobs_end(w, good);
}

void jobs_stop(struct watcher *w)
{
	if (w->job.kind != JOB_NONE)
		keeper_ask(w->keeper, KEEPER_END, S("job"), NULL, NULL);
	w->look_wanted |= w->job.kind == JOB_LOOK;
	job_free(&w->job);
}
