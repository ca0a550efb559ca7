// What comes after a failed try: the rows of the table `escalation` (knowledge) are held against how the try ended and how often that
// happened before. The first that fits says whether to try again, with which changes and at which level of recording.
#include "job/job.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { LEVEL_USUAL_MOST = 5, LEVEL_MOST = 10, FILTER_MOST = 250 };

/** The user's own setting of the recorder, in the job's environment: no level makes it record then. */
static bool means_unrecorded(const struct uh_run_options *o)
{
	const char *set = getenv("UNHANG_RECORDING");
	struct str value = str_z(set ? set : "");
	for (size_t i = 0; i < o->nenv; i++)
		str_behind(str_z(o->env[i]), S("UNHANG_RECORDING="), &value);
	return str_is(value, "off") || str_is(value, "0") || str_is(value, "/dev/null");
}

int64_t job_level(const struct uh_run_options *o, int64_t level)
{
	const int64_t most = means_unrecorded(o) ? 0 : o->allow_inputs ? LEVEL_MOST : LEVEL_USUAL_MOST;
	return level < most ? level : most;
}

/** The facts that rows ask for. */
struct escalation_facts {
	const struct run_try *of;
	struct str seen, earlier, sure, guarded, level, allowed, at_top, agent, on_repeat, tries_left, launches, signal, at, peak, limit;
};

struct str job_size_say(struct arena *a, int64_t bytes)
{
	return bytes < 0       ? (struct str){ 0 } :
	       bytes < 1 << 30 ? arena_printf(a, "%lld MiB", (long long)bytes >> 20) :
				 arena_printf(a, "%.1f GiB", (double)bytes / (1 << 30));
}

static bool decide_get(const void *ctx, struct str name, size_t index, struct str *ret)
{
	const struct escalation_facts *f = ctx;
	const struct {
		const char *name;
		struct str value;
	} all[] = { { "ended", str_of_list(run_ended_words, f->of->ended) },
		    { "class", f->of->class },
		    { "fault", f->of->fault },
		    { "kernel", f->of->kernel },
		    { "place", f->of->place },
		    { "guard", f->of->guard },
		    { "guarded", f->guarded },
		    { "allocation", f->of->allocation },
		    { "small_allocations", f->of->small_allocations },
		    { "seen", f->seen },
		    { "earlier", f->earlier },
		    { "sure", f->sure },
		    { "level", f->level },
		    { "allowed", f->allowed },
		    { "at_top", f->at_top },
		    { "agent", f->agent },
		    { "on_repeat", f->on_repeat },
		    { "tries_left", f->tries_left },
		    { "launches", f->launches },
		    { "signal", f->signal },
		    { "at", f->at },
		    { "memory_peak", f->peak },
		    { "memory_limit", f->limit } };
	for (size_t i = 0; !index && i < ARRAY_SIZE(all); i++)
		if (str_is(name, all[i].name) && all[i].value.n) {
			*ret = all[i].value;
			return true;
		}
	return false;
}

/** What makes two failures of one kind, and what makes them the same: where in the work it happened. Addresses change from try to try. */
static void set_fingerprint(struct arena *a, struct run_try *t)
{
	// Other packets lie between the launches at higher levels: a launch is counted among those of its kernel.
	struct str at = t->launch >= 0  ? arena_printf(a, "launch %lld", (long long)t->launch) :
			t->kernel.n     ? t->offset :
			t->launches > 0 ? arena_printf(a, "after %lld packets", (long long)t->launches) :
					  (struct str){ 0 };
	// What a look makes of a hang depends on how long it stood.
	const bool hung = t->ended == RUN_RUNTIME_HANG || (t->ended == RUN_GPU_HANG && t->kernel.n);
	const struct str class = hung ? (struct str){ 0 } : t->class;
	t->kind =
		arena_printf(a, STR_FMT "/%lld/" STR_FMT "/" STR_FMT, STR_ARG(str_of_list(run_ended_words, t->ended)),
			     (long long)(t->signal >= 0 ? 128 + t->signal : t->exit_code), STR_ARG(class), STR_ARG(t->kernel));
	t->fingerprint = at.n ? arena_printf(a, STR_FMT "/" STR_FMT, STR_ARG(t->kind), STR_ARG(at)) : (struct str){ 0 };
}

/** Not only the same launch, but also the same place of the same buffer: that is no chance. */
static bool same_place(const struct run_try *a, const struct run_try *b)
{
	return a->launch >= 0 && a->launch == b->launch && a->offset.n && str_eq(a->offset, b->offset);
}

/** Two failures at one launch may be chance: a kernel that is launched often fails there often. Three are not. A program that ends by itself
 * with an error decides that itself. */
static void decide_compare(const struct run_told *r, const struct run_try *t, struct arena *a, struct escalation_facts *f)
{
	const unsigned enough = t->ended == RUN_EXIT ? 2 : 3;
	const struct run_try *same = NULL, *kind = NULL;
	bool exactly = false;
	unsigned times = 1;
	for (size_t i = 0; i < r->ntries; i++) {
		const struct run_try *o = r->tries[i];
		if (o->number >= t->number)
			continue;
		if (t->fingerprint.n && str_eq(o->fingerprint, t->fingerprint)) {
			same = o;
			times++;
			exactly |= same_place(o, t);
		}
		if (str_eq(o->kind, t->kind))
			kind = o;
	}
	same = exactly || times >= enough ? same : NULL;
	const struct run_try *earlier = same ? same : kind;
	f->seen = same ? S("same") : kind ? S("kind") : S("new");
	f->sure = !same   ? (struct str){ 0 } :
		  exactly ? S("certain: the same launch, and the same place of its buffer") :
			    arena_printf(a, "likely: %u tries ended there", times);
	f->earlier = earlier ? arena_printf(a, "%lld", (long long)earlier->number) : (struct str){ 0 };
}

static struct str decide_number(struct arena *a, int64_t n) { return arena_printf(a, "%lld", (long long)n); }

static struct escalation_facts facts_of(const struct job_study *s, struct arena *a, const struct run_try *t)
{
	const struct uh_run_options *o = s->options;
	const int64_t allowed = job_level(o, LEVEL_MOST);
	const int64_t left = (int64_t)o->restarts - (t->number - 1);
	const char *name = t->signal >= 0 ? sigabbrev_np((int)t->signal) : NULL;
	struct escalation_facts f = { .of = t,
				      .guarded = o->guard ? S("yes") : S("no"),
				      .level = decide_number(a, t->level),
				      .allowed = decide_number(a, allowed),
				      .at_top = t->level >= allowed ? S("yes") : S("no"),
				      .agent = o->agent && t->changes != RUN_WITH_AGENT ? S("yes") : S("no"),
				      .on_repeat = o->non_repeat && t->changes != RUN_ON_REPEAT ? S("yes") : S("no"),
				      .tries_left = decide_number(a, left > 0 ? left : 0),
				      .launches = t->launches >= 0 ? decide_number(a, t->launches) : (struct str){ 0 },
				      .signal = str_z(name ? name : ""),
				      .peak = job_size_say(a, t->memory_peak),
				      .limit = job_size_say(a, t->memory_limit) };
	f.at = t->launch >= 0 ? decide_number(a, t->launch) : (struct str){ 0 };
	decide_compare(s->run, t, a, &f);
	return f;
}

/** The suspect kernel as a pattern for the recorder; empty where its name would be another pattern there. */
static struct str filter_of(const struct run_try *t)
{
	for (size_t i = 0; i < t->symbol.n; i++)
		if (!char_word(t->symbol.p[i]) && !char_among(t->symbol.p[i], ".$@"))
			return (struct str){ 0 };
	return t->symbol.n <= FILTER_MOST ? t->symbol : (struct str){ 0 };
}

static struct str filled(struct arena *a, struct str text, const struct fact_view *view)
{
	_cleanup_text_ struct text t = { 0 };
	if (text.n)
		phrase_fill(&t, text, view);
	return arena_str(a, text_str(&t));
}

/** Nothing follows where no try is left: what would have followed is proposed. */
static void propose_instead(struct arena *a, const struct job_study *s, struct run_try *t)
{
	const struct uh_run_options *o = s->options;
	const bool one_rank = s->run->rank >= 0 && s->run->world > 1; // which may not restart
	struct str what = t->next_level > t->level ?
				  arena_printf(a, "Run it again with --level %lld", (long long)t->next_level) :
				  S("Run it again");
	t->act = RUN_STOP;
	t->propose = arena_printf(a, STR_FMT "%s" STR_FMT ", or let unhang do that: --restart N%s.", STR_ARG(t->propose),
				  t->propose.n ? " " : "", STR_ARG(what), one_rank ? ", around the launcher" : "");
	t->reason = o->restarts ? arena_printf(a, "All tries of --restart %u are used up.", o->restarts) :
				  (struct str){ 0 }; // the advice says it
}

void job_decide(const struct know *k, const struct job_study *s, struct arena *a, struct run_try *t)
{
	set_fingerprint(a, t);
	const struct escalation_facts f = facts_of(s, a, t);
	const struct fact_view view = { .get = decide_get, .ctx = &f };
	const struct know_escalation *row = NULL;
	for (size_t i = 0; i < k->escalations.len && !row; i++)
		if (condition_eval(k->escalations.data[i]->when, &view) == TRUTH_YES)
			row = k->escalations.data[i];
	if (!row) {
		t->act = RUN_STOP;
		t->reason = S("No row of the table fits.");
		return;
	}
	t->row = row->head.id;
	t->act = row->action == FOLLOW_RESTART ? RUN_RESTART : RUN_STOP;
	t->next_level = job_level(s->options, row->level > t->level ? row->level : t->level);
	t->reason = filled(a, row->reason, &view);
	t->propose = filled(a, row->propose, &view);
	t->next_changes = row->agent ? RUN_WITH_AGENT : row->repeat ? RUN_ON_REPEAT : RUN_SAME;
	t->next_filter = row->filter ? filter_of(t) : t->filter;
	if (row->action == FOLLOW_RESTART && str_is(f.tries_left, "0"))
		propose_instead(a, s, t);
}
