// Hangs that nobody reports: what the votes on progress make of each GPU; and hardware errors that the driver only counts.
#include <stdio.h>

#include "watch/pulse/errors.h"
#include "watch/watcher.h"

/** NULL: nothing was counted on it yet. */
static struct watched_progress *suspicions_progress_of(const struct watcher *w, struct str pci)
{
	for (size_t i = 0; i < w->nprogress; i++)
		if (str_is(pci, w->progress[i].pci))
			return &w->progress[i];
	return NULL;
}

void votes_take(struct watcher *w, struct str text, bool deep)
{
	const struct str pci = str_split(&text, '\n');
	struct watched_progress *p = suspicions_progress_of(w, pci);
	if (!p) {
		if (w->nprogress == GPUS_MOST || !pci.n || pci.n >= sizeof(p->pci))
			return;
		p = &w->progress[w->nprogress++];
		*p = (struct watched_progress){ 0 };
		str_copy(p->pci, sizeof(p->pci), pci);
		progress_begin(&p->progress, w->know);
	}
	p->progress.suspect_after = w->settings.suspect_after;
	p->progress.hung_after = w->settings.hung_after;
	progress_take(&p->progress, text, deep, w->now);
	if (w->pulse < 0) // nobody counts them: what a look shows is all that there is
		progress_fact(&p->progress, "processes", S("0"));
}

void suspicions_look(struct watcher *w)
{
	for (size_t i = 0; i < w->nprogress; i++)
		progress_looks(&w->progress[i].progress, w->now);
}

/** `python, Slurm job 4711`: what a person has to look for. */
void suspicions_name_job(struct watcher *w, struct watch_case *c)
{
	const struct watched_progress *of = suspicions_progress_of(w, c->stored.gpu);
	if (!of)
		return;
	const struct gpu_progress *p = &of->progress;
	const struct str job = progress_fact_of(p, "job");
	int64_t pid;
	const bool other = c->stored.pid && str_number(progress_fact_of(p, "pid"), &pid) && pid != c->stored.pid;
	if (other || (c->stored.job.n && !job.n) || (job.n && str_find(c->stored.job, job) >= 0))
		return;
	const struct str name = c->stored.job.n ? c->stored.job : progress_fact_of(p, "process");
	case_set(c, &c->stored.job,
		 job.n && name.n ? arena_printf(&c->arena, STR_FMT ", " STR_FMT, STR_ARG(name), STR_ARG(job)) : name);
}

struct str suspicions_incident(const struct watcher *w, struct str pci)
{
	const struct watched_progress *p = suspicions_progress_of(w, pci);
	return p ? progress_fact_of(&p->progress, "incident") : (struct str){ 0 };
}

/** The open incident of a GPU; *@ret_other: one that may be of it. */
static struct watch_case *case_of_gpu(const struct watcher *w, const char *pci, bool *ret_other)
{
	*ret_other = false;
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *c = w->cases.data[n];
		if (!case_is(c, CASES_NEW | CASES_OPEN))
			continue;
		if (str_is(c->stored.gpu, pci))
			return c;
		*ret_other |= !c->stored.gpu.n;
	}
	return NULL;
}

static void keep_votes(struct watch_case *c, const struct watched_progress *p)
{
	_cleanup_text_ struct text list = { 0 };
	progress_list(&p->progress, &list);
	c->stored.stood = p->seconds;
	case_set(c, &c->stored.votes, text_str(&list));
}

/** A suspicion begins, becomes certain, or ends. What the driver has told of is none. */
static void suspicion_follow(struct watcher *w, const struct watched_progress *p)
{
	bool other;
	struct watch_case *c = case_of_gpu(w, p->pci, &other);
	const bool bad = p->pace == PACE_SUSPECTED || p->pace == PACE_HUNG;
	if (!c && bad && !other) {
		const struct watched_gpu *g = watched_gpu(w, str_z(p->pci));
		c = cases_suspect(w, str_z(p->pci),
				  p->says[0]     ? str_z(p->says) :
				  g && g->says.n ? g->says :
						   S("The GPU does not move, and the driver has not noticed"));
		if (c) {
			keep_votes(c, p);
			suspicions_name_job(w, c);
		}
		return;
	}
	if (!c || c->state != CASE_SUSPECTED)
		return;
	if (p->pace == PACE_HUNG) {
		keep_votes(c, p);
		c->stored.last_us = watch_kernel_ms(w) * 1000;
		case_set(c, &c->stored.title,
			 arena_printf(&c->arena, STR_FMT "; nothing moved for %lld s", STR_ARG(c->stored.title),
				      (long long)c->stored.stood));
		case_input(w, c, INPUT_HUNG);
	} else if (!bad && p->pace != PACE_UNKNOWN) {
		case_close(w, c, INPUT_MOVES, p->says[0] ? arena_str(&c->arena, str_z(p->says)) : S("it moves again"));
	}
}

/** Notes what it does, and tells once of a program that holds a GPU and uses it for nothing. */
static void progress_note(struct watcher *w, struct watched_progress *p, const struct progress_answer *a)
{
	_cleanup_text_ struct text says = { 0 };
	progress_say(&p->progress, a, &says);
	bool changed = p->pace != a->pace || !str_is(text_str(&says), p->says);
	bool begins = p->pace != a->pace && a->pace == PACE_UNUSED;
	p->pace = a->pace;
	p->seconds = a->seconds;
	str_copy(p->says, sizeof(p->says), text_str(&says));
	w->state_old |= changed;
	if (begins)
		voice_problem(&w->voice, p->says);
}

void suspicions_follow(struct watcher *w)
{
	for (size_t i = 0; i < w->nprogress && w->settings.silent; i++) {
		struct watched_progress *p = &w->progress[i];
		diary_count(w, p);
		const struct progress_answer a = progress_judge(&p->progress, w->now);
		progress_note(w, p, &a);
		suspicion_follow(w, p);
		w->look_wanted |= progress_look_due(&p->progress, w->now) && w->job.kind != JOB_LOOK;
	}
}

// --- errors that were counted ---

/** Whether the log has a hardware error in it, in whatever words. */
static bool told_by_driver(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (diag_fact(i->events.data[n], "driver_tells"))
			return true;
	return false;
}

void errors_take(struct watcher *w, struct str text)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct errors_told told;
	struct event e;
	if (!errors_told_parse(text, &told) || !errors_told_event(w->know, &told, &a, &e))
		return;
	for (size_t n = 0; engine_open(w->engine, n); n++) {
		const struct incident *i = engine_open(w->engine, n);
		if (told_by_driver(i) && (told.gpus > 1 || str_eq(i->gpu.device, told.pci)))
			return;
	}
	cases_second(w, &e);
}
