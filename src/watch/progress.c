#include "watch/progress.h"

enum { MS = 1000 };

const char *pace_name(enum pace p)
{
	static const char *const names[] = {
		"unknown", "idle", "working", "waiting", "stopped", "unused", "suspected", "hung"
	};
	return names[p];
}

const char *vote_name(enum vote v)
{
	static const char *const names[] = { "unknown", "moved", "stood" };
	return names[v];
}

void progress_begin(struct gpu_progress *p, const struct know *k) { *p = (struct gpu_progress){ .know = k }; }

/** How many votes there are; a knowledge file of a user may have more than there is room for. */
static size_t votes(const struct gpu_progress *p)
{
	return p->know->votes.len < PROGRESS_VOTES ? p->know->votes.len : PROGRESS_VOTES;
}

static size_t index_of(const struct gpu_progress *p, struct str name)
{
	size_t i = 0;
	while (i < votes(p) && !str_eq(p->know->votes.data[i]->head.id, name))
		i++;
	return i;
}

/** What a look saw before the work went on says nothing of the work that came then. */
static void forget_looks(struct gpu_progress *p)
{
	for (size_t i = 0; i < votes(p); i++)
		if (p->know->votes.data[i]->deep)
			p->votes[i] = (struct progress_vote){ 0 };
}

void progress_vote(struct gpu_progress *p, struct str name, enum vote says, int64_t now_ms)
{
	size_t i = index_of(p, name);
	if (i == votes(p))
		return;
	const struct know_vote *k = p->know->votes.data[i];
	if (says == VOTE_MOVED && k->proves && !k->deep && p->votes[i].says != VOTE_MOVED)
		forget_looks(p);
	if (says != p->votes[i].says)
		p->votes[i].since = now_ms;
	p->votes[i].says = says;
	p->votes[i].seen = now_ms;
}

struct progress_vote progress_vote_of(const struct gpu_progress *p, struct str name)
{
	size_t i = index_of(p, name);
	return i == votes(p) ? (struct progress_vote){ 0 } : p->votes[i];
}

void progress_fact(struct gpu_progress *p, const char *name, struct str value)
{
	size_t i = 0;
	while (i < p->nfacts && strcmp(p->facts[i].name, name) != 0)
		i++;
	if (i == PROGRESS_FACTS || (i == p->nfacts && !value.n))
		return;
	if (!value.n) {
		p->facts[i] = p->facts[--p->nfacts];
		return;
	}
	p->facts[i].name = name;
	str_copy(p->facts[i].value, sizeof(p->facts[i].value), value);
	p->nfacts += i == p->nfacts;
}

struct str progress_fact_of(const struct gpu_progress *p, const char *name)
{
	for (size_t i = 0; i < p->nfacts; i++)
		if (!strcmp(p->facts[i].name, name))
			return str_z(p->facts[i].value);
	return (struct str){ 0 };
}

/** What may be said of a GPU, and who says it. */
static const struct {
	const char *name;
	bool deep;
} fact_names[] = { { "processes", false }, { "process", false },  { "pid", false },  { "rank", false },  { "stopped", false },
		   { "busy", false },      { "launched", false }, { "held", false }, { "peers", false }, { "waiting", false },
		   { "lagging", false },   { "job", false },   { "inside", false },      { "loop", true },  { "kernel", true }, { "incident", true } };
enum { FACT_NAMES = ARRAY_SIZE(fact_names) };

void progress_take(struct gpu_progress *p, struct str lines, bool deep, int64_t now_ms)
{
	for (size_t i = 0; i < FACT_NAMES; i++)
		if (fact_names[i].deep == deep)
			progress_fact(p, fact_names[i].name, (struct str){ 0 });
	while (lines.n) {
		struct str value = str_split(&lines, '\n'), kind = str_word(&value), name = str_word(&value);
		value = str_trim(value);
		for (int v = VOTE_UNKNOWN; v <= VOTE_STOOD; v++)
			if (str_is(kind, "vote") && str_is(value, vote_name((enum vote)v)))
				progress_vote(p, name, (enum vote)v, now_ms);
		for (size_t i = 0; i < FACT_NAMES; i++)
			if (str_is(kind, "fact") && str_is(name, fact_names[i].name) && fact_names[i].deep == deep)
				progress_fact(p, fact_names[i].name, value);
	}
}

static bool watch_progress_get(const void *ctx, struct str name, size_t index, struct str *ret)
{
	const struct gpu_progress *p = ctx;
	*ret = (struct str){ 0 };
	if (index)
		return false;
	for (size_t i = 0; i < p->nfacts; i++)
		if (str_is(name, p->facts[i].name)) {
			*ret = str_z(p->facts[i].value);
			return true;
		}
	size_t i = index_of(p, name);
	if (i == votes(p) || p->votes[i].says == VOTE_UNKNOWN)
		return false;
	*ret = str_z(vote_name(p->votes[i].says));
	return true;
}

// --- judging ---

static bool gpu_stands(const struct gpu_progress *p)
{
	for (size_t i = 0; i < votes(p); i++)
		if (p->votes[i].says == VOTE_STOOD && p->know->votes.data[i]->own)
			return true;
	return false;
}

/** Whether this vote shows that work was done. What a program's file tells shows it only as long as the GPU itself does not say otherwise. */
static bool proves(const struct gpu_progress *p, size_t i)
{
	const struct know_vote *k = p->know->votes.data[i];
	return p->votes[i].says == VOTE_MOVED && k->proves && !(k->told && gpu_stands(p));
}

static bool proved(const struct gpu_progress *p)
{
	for (size_t i = 0; i < votes(p); i++)
		if (proves(p, i))
			return true;
	return false;
}

static const struct know_work *work_of(const struct gpu_progress *p)
{
	const struct fact_view view = { .get = watch_progress_get, .ctx = p };
	for (size_t i = 0; i < p->know->works.len; i++)
		if (condition_eval(p->know->works.data[i]->when, &view) == TRUTH_YES)
			return p->know->works.data[i];
	return NULL;
}

/** How long a vote stood, in ms; -1: it did not. */
static int64_t stood(const struct gpu_progress *p, const struct progress_vote *v)
{
	int64_t since = v->since > p->excused ? v->since : p->excused;
	return v->says != VOTE_STOOD ? -1 : v->seen > since ? v->seen - since : 0;
}

/** How many of the votes that count stood for @seconds. */
static unsigned watch_progress_count(const struct gpu_progress *p, const struct know_work *w, int64_t seconds)
{
	unsigned n = 0;
	for (const struct know_list *l = w->votes; l; l = l->next) {
		struct progress_vote v = progress_vote_of(p, l->text);
		n += v.says == VOTE_STOOD && stood(p, &v) >= seconds * MS;
	}
	return n;
}

static int64_t watch_progress_longest(const struct gpu_progress *p, const struct know_work *w)
{
	int64_t most = 0;
	for (const struct know_list *l = w->votes; l; l = l->next) {
		struct progress_vote v = progress_vote_of(p, l->text);
		int64_t ms = stood(p, &v);
		most = ms > most ? ms : most;
	}
	return most / MS;
}

/** Whether one of the votes that must be there stood for @ms. One from before the work was last seen to go on is too old. */
static bool has_needed(const struct gpu_progress *p, const struct know_work *w, int64_t ms)
{
	for (const struct know_list *l = w->needs; l; l = l->next) {
		struct progress_vote v = progress_vote_of(p, l->text);
		if (v.says == VOTE_STOOD && v.seen > p->excused && stood(p, &v) >= ms)
			return true;
	}
	return !w->needs;
}

static int64_t hung_after(const struct gpu_progress *p, const struct know_work *w)
{
	return p->hung_after ? p->hung_after : w->hung_after;
}

static struct progress_answer watch_progress_judge(const struct gpu_progress *p)
{
	struct progress_answer a = { .pace = PACE_WORKING };
	if (proved(p))
		return a;
	a.work = work_of(p);
	a.pace = a.work ? (enum pace)a.work->is : PACE_UNKNOWN;
	if (!a.work || a.work->is != WORK_VOTES)
		return a;
	const struct know_work *w = a.work;
	a.stood = watch_progress_count(p, w, 0);
	a.seconds = watch_progress_longest(p, w);
	if (!has_needed(p, w, 0))
		return a;
	if (watch_progress_count(p, w, hung_after(p, w)) >= (unsigned)w->hung_votes &&
	    has_needed(p, w, hung_after(p, w) * MS / 2))
		a.pace = PACE_HUNG;
	else if (watch_progress_count(p, w, p->suspect_after ? p->suspect_after : w->suspect_after) >=
		 (unsigned)w->suspect_votes)
		a.pace = PACE_SUSPECTED;
	return a;
}

struct progress_answer progress_judge(struct gpu_progress *p, int64_t now_ms)
{
	struct progress_answer a = watch_progress_judge(p);
	if (a.pace != PACE_UNKNOWN && a.pace < PACE_SUSPECTED)
		p->excused = now_ms;
	return a;
}

/** For how long the votes of each second stood by now, in ms: the one that began last. -1: none did, or one of them proves work. */
static int64_t cheap_stood(const struct gpu_progress *p)
{
	int64_t least = -1;
	for (size_t i = 0; i < votes(p); i++) {
		const struct know_vote *k = p->know->votes.data[i];
		const struct progress_vote *v = &p->votes[i];
		if (k->deep || v->says == VOTE_UNKNOWN)
			continue;
		if (proves(p, i))
			return -1;
		if (v->says == VOTE_STOOD && (least < 0 || v->seen - v->since < least))
			least = v->seen - v->since;
	}
	return least;
}

bool progress_look_due(const struct gpu_progress *p, int64_t now_ms)
{
	enum { LOOKS = 3 }; // at least, between a suspicion and certainty
	const struct know_work *w = work_of(p);
	int64_t pause = p->pause, long_ms = cheap_stood(p);
	if (!w || !w->look_after || long_ms < 0)
		return false;
	int64_t after = MS * (p->suspect_after && p->suspect_after < w->look_after ? p->suspect_after : w->look_after);
	int64_t since = now_ms - long_ms > p->excused ? now_ms - long_ms : p->excused;
	if (!p->looked || p->looked <= since)
		return now_ms - since >= after || (long_ms >= after && now_ms - p->looked >= pause);
	if (w->is == WORK_VOTES && hung_after(p, w) * MS / LOOKS < pause && watch_progress_judge(p).pace == PACE_SUSPECTED)
		pause = hung_after(p, w) * MS / LOOKS;
	return long_ms >= after && now_ms - p->looked >= pause;
}

void progress_looks(struct gpu_progress *p, int64_t now_ms)
{
	enum { FIRST_MS = 60 * MS, MOST_MS = 600 * MS };
	int64_t long_ms = cheap_stood(p);
	bool again = p->pause && long_ms >= 0 && p->looked > now_ms - long_ms;
	int64_t next = again ? p->pause * 2 : FIRST_MS;
	p->looked = now_ms;
	p->pause = next < MOST_MS ? next : MOST_MS;
}

// --- telling ---

void progress_say(const struct gpu_progress *p, const struct progress_answer *a, struct text *to)
{
	const struct fact_view view = { .get = watch_progress_get, .ctx = p };
	if (a->work && a->work->say.n)
		phrase_fill(to, a->work->say, &view);
}

/** The votes that say @v; how long they stood. */
static void list(const struct gpu_progress *p, enum vote v, struct text *to)
{
	static const char *const heads[] = { "not known", "moved", "stood still" };
	bool first = true;
	for (size_t i = 0; i < votes(p); i++) {
		if (p->votes[i].says != v)
			continue;
		if (first)
			text_printf(to, "%s%s: ", to->n ? "; " : "", heads[v]);
		else
			text_add(to, S(", "));
		text_add(to, p->know->votes.data[i]->title);
		if (v == VOTE_STOOD)
			text_printf(to, " (%lld s)", (long long)stood(p, &p->votes[i]) / MS);
		first = false;
	}
}

void progress_list(const struct gpu_progress *p, struct text *to)
{
	list(p, VOTE_STOOD, to);
	list(p, VOTE_MOVED, to);
	list(p, VOTE_UNKNOWN, to);
}
