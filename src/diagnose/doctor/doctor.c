#include "diagnose/doctor/doctor.h"

#include <stdlib.h>

struct doctor_search {
	const struct know *k;
	const struct host *h;
	struct findings *to;
	VEC(const struct know_list *) hides; // of checks that may be findings: something was not read
};

/** A block, whichever kind it is of, and the item that it was asked of. */
struct doctor_asked {
	struct know_head head;
	enum know_severity severity;
	struct str title, seen, why;
	const struct condition *when;
	const struct know_remedy *remedy;
	const struct know_check *check; // NULL: of known-bad
	const struct know_bad *bad;
	const struct host_item *item;
};

static struct str doctor_fill(struct doctor_search *s, struct str phrase, const struct fact_view *view)
{
	_cleanup_text_ struct text out = { 0 };
	phrase_fill(&out, phrase, view);
	return arena_str(&s->to->arena, text_str(&out));
}

static const struct command *fill_step(struct doctor_search *s, struct str text, const struct fact_view *view)
{
	return steps_fill(&s->to->arena, s->k, text, view, FILL_ALTERNATIVES);
}

/** `fw_mes 0x83 (/sys/...)` for each fact that made the condition true. */
struct doctor_listing {
	struct text text;
	const struct host_scope *scope;
};

static void list_fact(void *ctx, struct str name)
{
	struct doctor_listing *l = ctx;
	const struct host_fact *f = host_fact(l->scope->host, l->scope->item, name, 0);
	_cleanup_text_ struct text one = { 0 };
	if (!f)
		return;
	text_printf(&one, STR_FMT " " STR_FMT, STR_ARG(name), STR_ARG(f->value));
	if (f->where.n)
		text_printf(&one, " (" STR_FMT ")", STR_ARG(f->where));
	if (str_find(text_str(&l->text), text_str(&one)) < 0)
		text_printf(&l->text, "%s" STR_FMT, l->text.n ? ", " : "", STR_ARG(text_str(&one)));
}

static struct str what_was_seen(struct doctor_search *s, const struct doctor_asked *q, const struct fact_view *view)
{
	if (q->seen.n)
		return doctor_fill(s, q->seen, view);
	struct doctor_listing l = { .scope = view->ctx };
	condition_facts(q->when, view, list_fact, &l);
	struct str seen = arena_str(&s->to->arena, text_str(&l.text));
	text_free(&l.text);
	return seen;
}

/** `kernel 6.18 or newer` is no sentence. */
static const struct command *use_instead(struct doctor_search *s, struct str good)
{
	bool none = str_starts(good, S("none")) || str_starts(good, S("no "));
	struct command_maker *m = command_begin(&s->to->arena);
	command_add_text(m, none ? S("What helps: ") : S("Use instead: "));
	command_add_known(m, good);
	return command_end(m);
}

static bool changes(const struct know_change *c) { return c->sets || c->clears || c->envs || c->sessions || c->drops; }

/** What the block says, else what its remedy says. */
#define SAID(member) (c && c->member.n ? c->member : r ? r->member : (struct str){ 0 })
#define SAID_OF(member) (b && b->member.n ? b->member : SAID(member))
static void take_remedy(struct doctor_search *s, struct finding *f, const struct doctor_asked *q, const struct fact_view *view)
{
	const struct know_check *c = q->check;
	const struct know_bad *b = q->bad;
	const struct know_remedy *r = q->remedy;
	f->remedy = r;
	f->steps.undo = fill_step(s, SAID_OF(undo), view);
	f->steps.cost = fill_step(s, SAID_OF(cost), view);
	f->steps.risk = fill_step(s, SAID(risk), view);
	f->steps.until = fill_step(s, SAID(until), view);
	f->steps.verify = fill_step(s, SAID_OF(verify), view);
	f->grade = b ? b->grade : SAID(grade);
	f->source = b ? b->source : SAID(source);
	const struct know_list *texts = c && c->steps ? c->steps : r ? r->steps : NULL;
	steps_fill_list(&s->to->arena, s->k, texts, view, FILL_ALTERNATIVES, &f->steps);
	if (!texts && !r && b && b->good.n) {
		f->steps.list = arena_alloc(&s->to->arena, sizeof(*f->steps.list));
		f->steps.list[f->steps.n++] = use_instead(s, b->good);
	}
	if (c && changes(&c->change))
		f->change = &c->change;
	else if (r && changes(&r->change))
		f->change = &r->change;
}

/** The same finding of another GPU is told once, with both. */
static bool told_already(struct doctor_search *s, const struct finding *f, const struct host_item *item)
{
	for (size_t n = 0; n < s->to->list.len; n++) {
		struct finding *have = s->to->list.data[n];
		if (!str_eq(have->id, f->id) || !str_eq(have->title, f->title))
			continue;
		if (!item->gpu)
			return str_eq(have->seen, f->seen);
		for (size_t g = 0; g < have->gpus.len; g++)
			if (str_eq(have->gpus.data[g], item->gpu->pci))
				return str_eq(have->seen, f->seen);
		vec_push(&have->gpus, item->gpu->pci);
		return true;
	}
	return false;
}

static void doctor_tell(struct doctor_search *s, const struct doctor_asked *q)
{
	const struct host_scope scope = { s->h, q->item };
	const struct fact_view view = host_view(&scope);
	struct finding *f = arena_alloc(&s->to->arena, sizeof(*f));
	*f = (struct finding){ .id = q->head.id, .severity = q->severity, .item = q->item };
	f->hides = q->check ? q->check->hides : NULL;
	f->title = doctor_fill(s, q->title, &view);
	f->seen = what_was_seen(s, q, &view);
	if (told_already(s, f, q->item))
		return;
	f->why = q->why.n || q->check ? doctor_fill(s, q->why, &view) : S("The reports are about exactly this combination.");
	take_remedy(s, f, q, &view);
	if (q->item->gpu)
		vec_push(&f->gpus, q->item->gpu->pci);
	vec_push(&s->to->list, f);
}

static void ask_check(struct doctor_search *s, const struct know_check *c, const struct host_item *item)
{
	const struct host_scope scope = { s->h, item };
	const struct fact_view view = host_view(&scope);
	if (!s->h->devices.n && !c->without_gpu)
		return;
	enum truth when = condition_eval(c->when, &view), unless = c->unless ? condition_eval(c->unless, &view) : TRUTH_NO;
	if (when < TRUTH_UNREAD || unless == TRUTH_YES)
		return;
	if (when == TRUTH_UNREAD || unless == TRUTH_UNREAD) {
		vec_push(&s->hides, c->hides);
		return;
	}
	doctor_tell(s, &(struct doctor_asked){ c->head, c->severity, c->title, c->seen, c->why, c->when, c->remedy, c, NULL,
					       item });
}

static void ask_bad(struct doctor_search *s, const struct know_bad *b, const struct host_item *gpu)
{
	const struct host_scope scope = { s->h, gpu };
	const struct fact_view view = host_view(&scope);
	if (condition_eval(b->when, &view) == TRUTH_YES)
		doctor_tell(s, &(struct doctor_asked){
				       b->head, b->severity, b->title, { 0 }, b->why, b->when, b->remedy, NULL, b, gpu });
}

static void finding_free(struct finding *f) { vec_free(&f->gpus); }

static bool names(const struct know_list *list, struct str id)
{
	for (; list; list = list->next)
		if (str_eq(list->text, id))
			return true;
	return false;
}

/** What is good of one GPU is not told where another is worse; a fault of one GPU says nothing of another. */
static bool of_same_gpus(const struct finding *over, const struct finding *one)
{
	if (one->severity == SEVERITY_OK || !over->gpus.len)
		return true;
	for (size_t n = 0; n < one->gpus.len; n++)
		if (!list_find(over->gpus.data, over->gpus.len, it, str_eq(*it, one->gpus.data[n])))
			return false;
	return true;
}

static bool doctor_hidden(const struct doctor_search *s, const struct finding *one)
{
	const struct findings *f = s->to;
	for (size_t n = 0; n < f->list.len; n++)
		if (names(f->list.data[n]->hides, one->id) && of_same_gpus(f->list.data[n], one))
			return true;
	for (size_t n = 0; n < s->hides.len; n++)
		if (names(s->hides.data[n], one->id))
			return true;
	return false;
}

static void drop_hidden(struct doctor_search *s)
{
	struct findings *f = s->to;
	_cleanup_vec_ VEC(struct finding *) kept = { 0 };
	for (size_t n = 0; n < f->list.len; n++)
		if (!doctor_hidden(s, f->list.data[n]))
			vec_push(&kept, f->list.data[n]);
		else
			finding_free(f->list.data[n]);
	for (size_t n = 0; n < kept.len; n++)
		f->list.data[n] = kept.data[n];
	f->list.len = kept.len;
}

static int by_severity(const void *a, const void *b)
{
	const struct finding *x = *(struct finding *const *)a, *y = *(struct finding *const *)b;
	if (x->severity != y->severity)
		return x->severity < y->severity ? -1 : 1;
	int grade = str_cmp(x->grade, y->grade);
	return grade ? grade : str_cmp(x->id, y->id);
}

void doctor_find(const struct know *k, const struct host *h, struct findings *ret)
{
	struct doctor_search s = { .k = k, .h = h, .to = ret };
	*ret = (struct findings){ 0 };
	for (size_t n = 0; n < h->items.len; n++) {
		const struct host_item *item = h->items.data[n];
		for (size_t b = 0; str_is(item->kind, "gpu") && b < k->bad.len; b++)
			ask_bad(&s, k->bad.data[b], item);
		for (size_t c = 0; c < k->checks.len; c++)
			if (str_eq(k->checks.data[c]->each.n ? k->checks.data[c]->each : S("machine"), item->kind))
				ask_check(&s, k->checks.data[c], item);
	}
	drop_hidden(&s);
	vec_free(&s.hides);
	if (ret->list.len)
		qsort(ret->list.data, ret->list.len, sizeof(ret->list.data[0]), by_severity);
}

void findings_free(struct findings *f)
{
	for (size_t n = 0; n < f->list.len; n++)
		finding_free(f->list.data[n]);
	vec_free(&f->list);
	arena_free(&f->arena);
}

const char *severity_name(enum know_severity s)
{
	static const char *const names[] = { "critical", "warning", "advice", "ok" };
	return names[s];
}

const struct finding *findings_named(const struct findings *f, struct str id)
{
	for (size_t n = 0; n < f->list.len; n++)
		if (str_eq(f->list.data[n]->id, id))
			return f->list.data[n];
	return NULL;
}
