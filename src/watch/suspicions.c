// Hangs that nobody reports: what the votes on progress make of each GPU.
#include <stdio.h>

#include "watch/parts.h"

static struct watched_progress *progress_of(struct watcher *w, struct str pci)
{
	for (size_t i = 0; i < w->nprogress; i++)
		if (str_is(pci, w->progress[i].pci))
			return &w->progress[i];
	if (w->nprogress == GPUS_MOST || !pci.n || pci.n >= sizeof(w->progress[0].pci))
		return NULL;
	struct watched_progress *p = &w->progress[w->nprogress++];
	*p = (struct watched_progress){ 0 };
	str_copy(p->pci, sizeof(p->pci), pci);
	progress_begin(&p->progress, w->know);
	return p;
}

void votes_take(struct watcher *w, struct str text, bool deep, int64_t now)
{
	struct watched_progress *p = progress_of(w, str_split(&text, '\n'));
	if (!p)
		return;
	p->progress.suspect_after = w->settings.suspect_after;
	p->progress.hung_after = w->settings.hung_after;
	progress_take(&p->progress, text, deep, now);
	if (w->pulse < 0) // nobody counts them: what a look shows is all that there is
		progress_fact(&p->progress, "processes", S("0"));
}

void suspicions_look(struct watcher *w, int64_t now)
{
	for (size_t i = 0; i < w->nprogress; i++)
		progress_looks(&w->progress[i].progress, now);
}

/** `python, Slurm job 4711`: what a person has to look for. */
void suspicions_name_job(struct watcher *w, struct watch_case *c)
{
	struct arena *a = &c->arena;
	for (size_t i = 0; i < w->nprogress; i++) {
		const struct gpu_progress *p = &w->progress[i].progress;
		struct str job = progress_fact_of(p, "job"), name = progress_fact_of(p, "process");
		int64_t pid;
		const bool other = c->stored.pid && str_number(progress_fact_of(p, "pid"), &pid) && pid != c->stored.pid;
		if (other || !str_is(c->stored.gpu, w->progress[i].pci) || (c->stored.job.n && !job.n) ||
		    (job.n && str_find(c->stored.job, job) >= 0))
			continue;
		name = c->stored.job.n ? c->stored.job : name;
		case_set(c, &c->stored.job,
			 job.n && name.n ? arena_printf(a, STR_FMT ", " STR_FMT, STR_ARG(name), STR_ARG(job)) : name);
	}
}

void suspicions_forget(struct watcher *w) { w->nprogress = 0; }

/** The open incident of a GPU; *@ret_other: one that may be of it. */
static struct watch_case *case_of(const struct watcher *w, const char *pci, bool *ret_other)
{
	*ret_other = false;
	for (size_t n = 0; n < w->cases.len; n++) {
		struct watch_case *c = w->cases.data[n];
		if (c->done || (!c->live && str_is(c->stored.state, "closed")))
			continue;
		if (str_is(c->stored.gpu, pci))
			return c;
		*ret_other |= !c->stored.gpu.n;
	}
	return NULL;
}

static struct str says_of(const struct watcher *w, const char *pci)
{
	for (size_t n = 0; n < w->ngpus; n++)
		if (str_is(w->gpus[n].pci, pci) && w->gpus[n].says.n)
			return w->gpus[n].says;
	return S("The GPU does not move, and the driver has not noticed");
}

static void keep_votes(struct watch_case *c, const struct watched_progress *p)
{
	struct text list = { 0 };
	progress_list(&p->progress, &list);
	c->stored.stood = p->seconds;
	case_set(c, &c->stored.votes, text_str(&list));
	text_free(&list);
}

static void make_certain(struct watcher *w, struct watch_case *c, int64_t now)
{
	c->stored.last_us = watch_kernel_ms(w) * 1000;
	c->stored.state = S("hung");
	case_set(c, &c->stored.title,
		 arena_printf(&c->arena, STR_FMT "; nothing moved for %lld s", STR_ARG(c->stored.title),
			      (long long)c->stored.stood));
	case_want_capture(w, c);
	case_announce(w, c, "hung");
	c->hooks_wanted = c->stored.hooks < 1 && c->capture != CAPTURE_WANTED;
	c->patience = HUNG_CHECK_MS;
	c->check = now + c->patience;
}

/** A suspicion begins, becomes certain, or ends. What the driver has told of is none. */
static void follow(struct watcher *w, struct watched_progress *p, int64_t now)
{
	bool other;
	struct watch_case *c = case_of(w, p->pci, &other);
	bool bad = p->pace == PACE_SUSPECTED || p->pace == PACE_HUNG;
	if (!c && bad && !other) {
		c = case_begin_look(w, str_z(p->pci), says_of(w, p->pci));
		if (c) {
			keep_votes(c, p);
			suspicions_name_job(w, c);
		}
		return;
	}
	if (!c || !c->known || !str_is(c->stored.state, "suspected"))
		return;
	if (p->pace == PACE_HUNG) {
		keep_votes(c, p);
		make_certain(w, c, now);
	} else if (!bad && p->pace != PACE_UNKNOWN) {
		case_close(w, c, p->says[0] ? str_z(p->says) : S("it moves again"));
	}
}

/** Notes what it does, and tells once of a program that holds a GPU and uses it for nothing. */
static void note(struct watcher *w, struct watched_progress *p, const struct progress_answer *a)
{
	struct text says = { 0 };
	progress_say(&p->progress, a, &says);
	bool changed = p->pace != a->pace || !str_is(text_str(&says), p->says);
	bool begins = p->pace != a->pace && a->pace == PACE_UNUSED;
	p->pace = a->pace;
	p->seconds = a->seconds;
	str_copy(p->says, sizeof(p->says), text_str(&says));
	w->state_old |= changed;
	if (begins)
		voice_problem(&w->voice, p->says);
	text_free(&says);
}

void suspicions_follow(struct watcher *w, int64_t now)
{
	for (size_t i = 0; i < w->nprogress && w->settings.silent; i++) {
		struct watched_progress *p = &w->progress[i];
		const struct progress_answer a = progress_judge(&p->progress, now);
		note(w, p, &a);
		follow(w, p, now);
		w->look_wanted |= progress_look_due(&p->progress, now) && w->job.kind != JOB_LOOK;
	}
}
