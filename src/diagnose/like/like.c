// Cases like this one. Facts are compared, not words: each fact that an incident shares with a case counts by how rare it is among the
// defects of the base, and what contradicts counts against. Who is shown a wrong case loses time, so only what shares enough is told.
#include "diagnose/like/like.h"

#include <stdlib.h>

#include "diagnose/like/inside.h"

enum {
	NEAREST = 20,   // cases that are held against each other
	SHOWN_MAX = 3,  // defects
	FACTS_MAX = 64, // that are told of a case
	CASES_MAX = 64, // threads that are told of a defect
};

/** What is weighed of a case. */
enum feature {
	F_CLASS,
	F_FIRST_CLASS, // the main one of the case
	F_OTHER_CLASS, // it has classes, and none of the incident's
	F_EVENT,
	F_EVENT_SHARE, // of all events that either has
	F_NAME,
	F_ANY_NAME,
	F_NO_NAME, // it has names, and none of them is here
	F_CODE,
	F_CODE_SHARE,
	F_PROGRAM,
	F_OTHER_PROGRAM,
	F_PROGRAM_VERSION,
	F_PART,
	F_OTHER_PART,
	F_KERNEL,
	F_OTHER_KERNEL,
	F_FIRMWARE,
	F_ROCM,
	F_MESA,
	F_SETTING,
	F_OPEN,    // nobody knows what solves it
	F_THREADS, // logarithm of how many the defect has
	FEATURES
};

/** Found with tools/score-cases and the base itself, each case with its own thread left out (docs/CASES.md). */
static const double weights[FEATURES] = {
	[F_CLASS] = 1.97,   [F_FIRST_CLASS] = 1.53,    [F_OTHER_CLASS] = -0.75,    [F_EVENT] = 0.41, [F_EVENT_SHARE] = 2.40,
	[F_NAME] = 1.67,    [F_ANY_NAME] = 1.28,       [F_NO_NAME] = -0.44,        [F_CODE] = 0.41,  [F_CODE_SHARE] = 0.54,
	[F_PROGRAM] = 3.86, [F_OTHER_PROGRAM] = -1.27, [F_PROGRAM_VERSION] = 0.54, [F_PART] = 2.53,  [F_OTHER_PART] = -1.28,
	[F_KERNEL] = 2.13,  [F_OTHER_KERNEL] = -0.42,  [F_FIRMWARE] = 0.37,        [F_ROCM] = 1.07,  [F_MESA] = 0.11,
	[F_SETTING] = 1.49, [F_OPEN] = -1.04,          [F_THREADS] = 0.42,
};
/** The weight of there being no case like it, among those of the cases; and what it has more where this is not known of the incident. */
static const double nothing_like = 5.61, without_part = 0.45, without_kernel = 0.52, without_program = 0.37;
/** Shares of the weight from which on a defect is told, and from which on it moves remedies to the top, or is told though it is open. */
static const double near_from = 0.65, very_near_from = 0.8;
/** And what its own cases have at least of it, but for the first one: one that is far is not told because the same would help. */
static const double own_from = 0.15;

/** Whether number @n of the cases does not count. */
static bool left_out(const struct like_query *q, size_t n)
{
	return (q->without && q->without[n]) || q->know->base.cases.data[n] == q->of;
}

/** e to the power of @x, which is 0 at most: libm is not needed for a weight. */
static double power(double x)
{
	enum { HALVES = 10, LEAST = -30 };
	double p = 1 + x / (1 << HALVES);
	for (int n = 0; n < HALVES; n++)
		p *= p;
	return x < LEAST ? 0 : p;
}

static double at_most(double value, double most) { return value < most ? value : most; }

/** What @c and the incident share, less what contradicts. @sums: by kind. */
static double case_score(const struct like_query *q, const struct know_case *c, double sums[TERM_KINDS])
{
	double has[TERM_KINDS] = { 0 }, f[FEATURES] = { 0 }, score = 0;
	bool class_seen = false;
	memset(sums, 0, TERM_KINDS * sizeof(*sums));
	for (uint32_t n = 0; n < c->nterms; n++) {
		const enum know_term_kind kind = (enum know_term_kind)q->know->base.terms.list.data[c->terms[n]].kind;
		const bool best = kind == TERM_GFX || kind == TERM_KERNEL || kind == TERM_ROCM || kind == TERM_MESA;
		const double worth = q->worth[c->terms[n]];
		has[kind] += term_rarity(&q->know->base.terms, c->terms[n]);
		sums[kind] = !best ? sums[kind] + worth : worth > sums[kind] ? worth : sums[kind];
		if (kind == TERM_CLASS && !class_seen)
			f[F_FIRST_CLASS] = worth;
		class_seen |= kind == TERM_CLASS;
	}
#define LACKS(kind) (has[kind] > 0 && !(sums[kind] > 0))
#define SHARE(kind, more) (has[kind] > 0 ? sums[kind] / (has[kind] + q->sums[kind] - sums[kind] + (more)) : 0)
	f[F_CLASS] = at_most(sums[TERM_CLASS], 1);
	f[F_OTHER_CLASS] = LACKS(TERM_CLASS);
	f[F_EVENT] = at_most(sums[TERM_EVENT], 1.5);
	f[F_EVENT_SHARE] = SHARE(TERM_EVENT, 0.2);
	f[F_NAME] = at_most(sums[TERM_NAME], 2);
	f[F_ANY_NAME] = sums[TERM_NAME] > 0;
	f[F_NO_NAME] = LACKS(TERM_NAME);
	f[F_CODE] = at_most(sums[TERM_CODE], 2);
	f[F_CODE_SHARE] = SHARE(TERM_CODE, 0.3);
	f[F_PROGRAM] = at_most(sums[TERM_PROGRAM], 1);
	f[F_OTHER_PROGRAM] = q->known[TERM_PROGRAM].n && LACKS(TERM_PROGRAM);
	f[F_PROGRAM_VERSION] = at_most(sums[TERM_PROGRAM_VERSION], 1);
	f[F_PART] = sums[TERM_GFX];
	f[F_OTHER_PART] = q->known[TERM_GFX].n && LACKS(TERM_GFX);
	f[F_KERNEL] = sums[TERM_KERNEL];
	f[F_OTHER_KERNEL] = q->known[TERM_KERNEL].n && LACKS(TERM_KERNEL);
	f[F_FIRMWARE] = at_most(sums[TERM_FIRMWARE], 1);
	f[F_ROCM] = sums[TERM_ROCM];
	f[F_MESA] = sums[TERM_MESA];
	f[F_SETTING] = at_most(sums[TERM_SETTING], 1);
	f[F_OPEN] = c->defect->state == STATE_OPEN;
	f[F_THREADS] = cases_logarithm(c->defect->ncases) * 0.693; // of base 2, to the natural one
	for (int n = 0; n < FEATURES; n++)
		score += weights[n] * f[n];
	return score;
}

/** Whether it is told at all: what is open, and nobody has reported again in the year before the knowledge was made, is not. Who does not
 * update the knowledge loses nothing of it. */
static bool defect_is_told(const struct know *k, const struct know_defect *d)
{
	enum { YEAR = 10000, VERSION_NUMBERS = 100 }; // of a date as a number; of a version behind its date
	return d->state == STATE_SOLVED || (d->newest && d->newest + YEAR >= k->version / VERSION_NUMBERS);
}

/** One of the nearest cases. */
struct near_case {
	const struct know_case *of;
	double score, weight;
	double sums[TERM_KINDS];
};

/** Keeps the nearest cases, the nearest first. */
static void nearest_add(struct near_case nearest[NEAREST], size_t *n, const struct near_case *one)
{
	size_t at = *n;
	while (at && nearest[at - 1].score < one->score)
		at--;
	if (at == NEAREST)
		return;
	*n += *n < NEAREST;
	memmove(&nearest[at + 1], &nearest[at], (*n - at - 1) * sizeof(nearest[0]));
	nearest[at] = *one;
}

static bool lists_meet(const struct know_list *a, const struct know_list *b)
{
	for (; a; a = a->next)
		for (const struct know_list *l = b; l; l = l->next)
			if (str_eq(a->text, l->text))
				return true;
	return false;
}

bool defects_same_fix(const struct know_defect *a, const struct know_defect *b)
{
	return a == b || lists_meet(a->remedies, b->remedies) ||
	       (str_eq(a->by, b->by) && lists_meet(a->versions, b->versions)) || (a->fix.n && str_eq(a->fix, b->fix));
}

/** A defect is as near as all cases together that its fix solved: where those that are alike were solved by different things, none of
 * them is told. */
static void like_make(diag_likes *ret, const struct like_query *q, struct near_case *nearest, size_t n)
{
	const double nothing = nothing_like + (q->known[TERM_GFX].n ? 0 : without_part) +
			       (q->known[TERM_KERNEL].n ? 0 : without_kernel) +
			       (q->known[TERM_PROGRAM].n ? 0 : without_program);
	const double most = nearest[0].score > nothing ? nearest[0].score : nothing;
	double all = power(nothing - most);
	for (size_t c = 0; c < n; c++)
		all += nearest[c].weight = power(nearest[c].score - most);
	for (size_t c = 0; c < n; c++) {
		struct diag_like one = { .defect = nearest[c].of->defect, .nearest = nearest[c].of };
		bool told = false;
		for (size_t k = 0; k < ret->len; k++)
			told |= ret->data[k].defect == one.defect;
		for (size_t k = 0; k < n && !told; k++) {
			one.score += defects_same_fix(one.defect, nearest[k].of->defect) ? nearest[k].weight / all : 0;
			one.own += one.defect == nearest[k].of->defect ? nearest[k].weight / all : 0;
		}
		one.near = one.score >= very_near_from ? LIKE_VERY_NEAR : one.score >= near_from ? LIKE_NEAR : LIKE_FAR;
		memcpy(one.sums, nearest[c].sums, sizeof(one.sums));
		if (!told)
			vec_push(ret, one);
	}
}

static int by_score(const void *a, const void *b)
{
	const struct diag_like *x = a, *y = b;
	if (x->shown != y->shown)
		return x->shown ? -1 : 1;
	if (x->near != y->near)
		return x->near > y->near ? -1 : 1;
	if (x->own != y->own)
		return x->own > y->own ? -1 : 1;
	return str_cmp(x->defect->head.id, y->defect->head.id);
}

static int by_worth(const void *a, const void *b)
{
	const struct like_fact *x = a, *y = b;
	return x->worth != y->worth ? (x->worth > y->worth ? -1 : 1) : (int)x->kind - (int)y->kind;
}

/** What is the same, and what differs where both are known. */
static void like_facts(struct arena *a, const struct like_query *q, struct diag_like *l)
{
	struct like_fact same[FACTS_MAX], differs[FACTS_MAX];
	for (uint32_t n = 0; n < l->nearest->nterms; n++) {
		const uint32_t term = l->nearest->terms[n];
		const struct know_term *t = &q->know->base.terms.list.data[term];
		const enum know_term_kind kind = (enum know_term_kind)t->kind;
		const bool one_value = kind == TERM_GFX || kind == TERM_KERNEL || kind == TERM_ROCM || kind == TERM_MESA;
		const bool told = one_value || kind == TERM_PROGRAM || kind == TERM_CLASS;
		struct like_fact one = { kind, t->text, (struct str){ 0 }, q->worth[term] };
		if (one_value && !str_eq(t->text, q->known[kind]))
			one.here = q->known[kind];
		if (q->worth[term] > 0 && l->nsame < FACTS_MAX)
			same[l->nsame++] = one;
		one.here = q->known[kind];
		if (!(l->sums[kind] > 0) && one.here.n && told && l->ndiffers < FACTS_MAX)
			differs[l->ndiffers++] = one;
	}
	qsort(same, l->nsame, sizeof(same[0]), by_worth);
	l->same = arena_copy(a, same, l->nsame * sizeof(same[0]));
	l->differs = arena_copy(a, differs, l->ndiffers * sizeof(differs[0]));
}

/** Its threads, the nearest first. */
static void like_cases(struct arena *a, const struct like_query *q, struct diag_like *l)
{
	const struct know_case *cases[CASES_MAX] = { l->nearest };
	l->ncases = 1;
	for (size_t n = 0; n < q->know->base.cases.len && l->ncases < CASES_MAX; n++) {
		const struct know_case *c = q->know->base.cases.data[n];
		if (c->defect == l->defect && c != l->nearest && !left_out(q, n))
			cases[l->ncases++] = c;
	}
	l->cases = arena_copy(a, cases, l->ncases * sizeof(cases[0]));
}

/** What the facts of a query are like. @ret: the nearest first; texts lie in @a. */
static void find_like(struct like_query *q, struct arena *a, diag_likes *ret)
{
	const struct know *k = q->know;
	struct near_case nearest[NEAREST], one;
	size_t n = 0, shown = 0;
	for (size_t t = 0; t < k->base.terms.list.len; t++)
		q->sums[k->base.terms.list.data[t].kind] += q->worth[t];
	for (size_t c = 0; c < k->base.cases.len; c++) {
		one.of = k->base.cases.data[c];
		if (!one.of->defect || left_out(q, c) || !defect_is_told(k, one.of->defect))
			continue;
		one.score = case_score(q, one.of, one.sums);
		nearest_add(nearest, &n, &one);
	}
	if (!n)
		return;
	like_make(ret, q, nearest, n);
	if (!ret->len)
		return;
	qsort(ret->data, ret->len, sizeof(ret->data[0]), by_score);
	for (size_t c = 0; c < ret->len; c++) {
		struct diag_like *l = &ret->data[c];
		l->shown = shown < SHOWN_MAX && l->near != LIKE_FAR && (!shown || l->own >= own_from) &&
			   (l->defect->state == STATE_SOLVED || l->near == LIKE_VERY_NEAR);
		shown += l->shown;
		like_facts(a, q, l);
		like_cases(a, q, l);
	}
	// What is near but open is not shown, and makes room for what is.
	qsort(ret->data, ret->len, sizeof(ret->data[0]), by_score);
}

void incident_find_like(struct incident *i, const struct know *k, const struct fact_view *view)
{
	i->like.len = 0;
	if (!k->base.cases.len || !i->cause)
		return;
	_cleanup_free_ double *worth = mem_alloc(k->base.terms.list.len * sizeof(*worth));
	struct like_query q = { .know = k, .incident = i, .view = view, .worth = worth };
	q.without = i->cases ? i->cases->without : NULL;
	query_of_incident(&q);
	find_like(&q, &i->arena, &i->like);
}

void case_find_like(const struct know *k, const struct know_case *c, struct arena *a, diag_likes *ret)
{
	_cleanup_free_ double *worth = mem_alloc(k->base.terms.list.len * sizeof(*worth) + 1);
	struct like_query q = { .know = k, .worth = worth, .of = c };
	query_of_case(&q);
	find_like(&q, a, ret);
}

// --- what is left out ---

/** The source as it is called today: repositories are renamed. */
static struct str source_today(const struct know *k, struct arena *a, struct str source)
{
	for (size_t n = 0; n < k->base.renamed.len; n++) {
		struct str number;
		if (str_behind(source, k->base.renamed.data[n]->head.id, &number) && str_starts(number, S("#")))
			return arena_printf(a, STR_FMT STR_FMT, STR_ARG(k->base.renamed.data[n]->value), STR_ARG(number));
	}
	return source;
}

const struct know_case *case_called(const struct know *k, struct str source)
{
	_cleanup_arena_ struct arena room = { 0 };
	const struct str today = source_today(k, &room, source);
	return list_find_of(k->base.cases.data, k->base.cases.len, c, str_like(source_today(k, &room, c->head.id), today));
}

/** The same in small letters: there are thousands on both sides, and they are looked up by their order. */
static struct str source_key(const struct know *k, struct arena *a, struct str source)
{
	const struct str today = source_today(k, a, source);
	char *key = arena_z(a, today);
	for (size_t n = 0; n < today.n; n++)
		key[n] = char_lower(key[n]);
	return (struct str){ key, today.n };
}

static int by_key(const void *a, const void *b) { return str_cmp(*(const struct str *)a, *(const struct str *)b); }

void cases_leave_out(struct cases_asked *a, const struct know *k, struct str list)
{
	_cleanup_arena_ struct arena room = { 0 };
	_cleanup_vec_ VEC(struct str) keys = { 0 };
	if (!a->without)
		a->without = mem_alloc(k->base.cases.len + 1);
	while (list.n) {
		struct str some = str_split(&list, ',');
		for (struct str one = str_word(&some); one.n; one = str_word(&some))
			vec_push(&keys, source_key(k, &room, one));
	}
	if (!keys.len)
		return;
	qsort(keys.data, keys.len, sizeof(*keys.data), by_key);
	for (size_t n = 0; n < k->base.cases.len; n++) {
		const struct str key = source_key(k, &room, k->base.cases.data[n]->head.id);
		a->without[n] |= bsearch(&key, keys.data, keys.len, sizeof(*keys.data), by_key) != NULL;
	}
}

void cases_asked_free(struct cases_asked *a)
{
	vec_free(&a->names);
	free(a->without);
}
