#include "diagnose/remedy_state.h"

#include "knowledge/parameter.h"

/** What a parameter or variable is at present; false where that is not known. */
static bool present(const struct fact_view *view, const char *prefix, struct str name, struct str *ret)
{
	_cleanup_text_ struct text full = { 0 };
	text_printf(&full, "%s" STR_FMT, prefix, STR_ARG(name));
	return view->get(view->ctx, text_str(&full), 0, ret);
}

/** Which parts of a change are in force. */
struct force {
	const struct fact_view *view;
	struct text said; // `amdgpu.cwsr_enable=0 and iommu=pt`
	struct text fact; // the first
	bool all, any;
};

static void force_add(struct force *f, const char *prefix, struct str name, struct str value, bool in_force)
{
	f->all &= in_force;
	if (!in_force)
		return;
	if (!f->any)
		text_printf(&f->fact, "%s" STR_FMT, prefix, STR_ARG(name));
	text_printf(&f->said, "%s" STR_FMT "=" STR_FMT, f->any ? " and " : "", STR_ARG(name), STR_ARG(value));
	f->any = true;
}

static void force_look(struct force *f, const struct know_change *c)
{
	struct str have = { 0 };
	uint64_t mask, bits;
	f->all = true;
	for (const struct know_pair *p = c->sets; p; p = p->next)
		force_add(f, "param.", p->name, p->value,
			  present(f->view, "param.", p->name, &have) && value_same(have, p->value));
	for (const struct know_pair *p = c->clears; p; p = p->next) {
		bool known = present(f->view, "param.", p->name, &have);
		bool clear = known && parameter_number(have, &mask) && parameter_number(p->value, &bits) && !(mask & bits);
		force_add(f, "param.", p->name, have, clear);
	}
	for (const struct know_pair *p = c->envs; p; p = p->next)
		force_add(f, "env.", p->name, p->value, present(f->view, "env.", p->name, &have) && str_eq(have, p->value));
	for (const struct know_pair *p = c->sessions; p; p = p->next)
		force_add(f, "env.", p->name, p->value, present(f->view, "env.", p->name, &have) && str_eq(have, p->value));
	f->all &= f->any && !c->drops;
}

/** `kernel 7.0.3 and ROCm 7.2.1`: the versions that make a condition true. */
struct remedy_versions {
	const struct fact_view *view;
	struct text said;
	struct str fact; // where it is not about versions: the first
};

static void add_version(void *ctx, struct str name)
{
	static const char *const words[][2] = { { "kernel", "kernel" },        { "rocm", "ROCm" },
						{ "driver", "amdgpu driver" }, { "linux_firmware", "linux-firmware" },
						{ "fw_mes", "MES firmware" },  { "fw_smu", "SMU firmware" } };
	struct remedy_versions *v = ctx;
	_cleanup_text_ struct text one = { 0 };
	struct str value;
	for (size_t n = 0; n < ARRAY_SIZE(words); n++)
		if (str_is(name, words[n][0]) && v->view->get(v->view->ctx, name, 0, &value))
			text_printf(&one, "%s " STR_FMT, words[n][1], STR_ARG(value));
	if (str_starts(name, S("param.")) && v->view->get(v->view->ctx, name, 0, &value)) {
		text_printf(&one, STR_FMT "=" STR_FMT, STR_ARG(str_from(name, 6)), STR_ARG(value));
		v->fact = v->fact.n ? v->fact : name;
	}
	// A range is two terms of one fact.
	if (one.n && str_find(text_str(&v->said), text_str(&one)) < 0)
		text_printf(&v->said, "%s" STR_FMT, v->said.n ? " and " : "", STR_ARG(text_str(&one)));
}

static struct remedy_verdict superseded(const struct know_remedy *r, const struct force *f, struct arena *arena)
{
	struct remedy_versions v = { .view = f->view };
	_cleanup_text_ struct text why = { 0 };
	condition_facts(r->obsolete, f->view, add_version, &v);
	if (r->until.n)
		text_printf(&why, "not needed once " STR_FMT ": ", STR_ARG(r->until));
	else
		text_add(&why, S("no longer needed: "));
	text_printf(&why, "this machine has " STR_FMT, STR_ARG(text_str(&v.said)));
	if (f->all)
		text_printf(&why, "; " STR_FMT " is set anyway", STR_ARG(text_str(&f->said)));
	struct remedy_verdict verdict = { .state = REMEDY_SUPERSEDED, .because = arena_str(arena, text_str(&why)) };
	text_free(&v.said);
	return verdict;
}

static struct remedy_verdict in_force(const struct force *f, struct arena *arena)
{
	return (struct remedy_verdict){
		.state = REMEDY_APPLIED,
		.because = arena_printf(arena, STR_FMT " is set, so it did not prevent this", STR_ARG(text_str(&f->said))),
		.fact = arena_str(arena, text_str(&f->fact)),
	};
}

static struct remedy_verdict remedy_done(const struct know_remedy *r, const struct fact_view *view, struct arena *arena)
{
	struct remedy_versions v = { .view = view };
	condition_facts(r->applied, view, add_version, &v);
	struct remedy_verdict verdict = { .state = REMEDY_APPLIED };
	verdict.because =
		v.fact.n ? arena_printf(arena, STR_FMT " is set, so it did not prevent this", STR_ARG(text_str(&v.said))) :
			   arena_printf(arena, "this machine has " STR_FMT " already", STR_ARG(text_str(&v.said)));
	verdict.fact = arena_str(arena, v.fact);
	text_free(&v.said);
	return verdict;
}

/** The first parameter of a list that this kernel does not have. */
static struct str missing(const struct know *k, const struct know_pair *p, struct str kernel)
{
	for (; p; p = p->next) {
		const struct know_parameter *known = know_parameter(k, p->name);
		if (known && parameter_exists(known, kernel) == TRUTH_NO)
			return p->name;
	}
	return (struct str){ 0 };
}

struct str parameter_missing_text(struct str name, struct str kernel, struct arena *arena)
{
	return kernel.n ? arena_printf(arena, "Linux " STR_FMT " has no parameter " STR_FMT, STR_ARG(kernel), STR_ARG(name)) :
			  arena_printf(arena, "Linux has no parameter " STR_FMT, STR_ARG(name));
}

static struct remedy_verdict no_such(const struct know *k, const struct know_change *c, const struct fact_view *view,
				     struct arena *arena)
{
	struct str kernel = { 0 };
	view->get(view->ctx, S("kernel"), 0, &kernel);
	struct str name = missing(k, c->sets, kernel);
	name = name.n ? name : missing(k, c->clears, kernel);
	if (!name.n)
		return (struct remedy_verdict){ 0 };
	return (struct remedy_verdict){ REMEDY_NO_SUCH, parameter_missing_text(name, kernel, arena), { 0 } };
}

struct remedy_verdict remedy_judge(const struct know *k, const struct know_remedy *r, const struct fact_view *view,
				   struct arena *arena)
{
	struct force f = { .view = view };
	struct remedy_verdict verdict = no_such(k, &r->change, view, arena);
	if (verdict.state != REMEDY_TRY)
		return verdict;
	force_look(&f, &r->change);
	if (r->obsolete && condition_eval(r->obsolete, view) == TRUTH_YES)
		verdict = superseded(r, &f, arena);
	else if (f.all)
		verdict = in_force(&f, arena);
	else if (r->applied && condition_eval(r->applied, view) == TRUTH_YES)
		verdict = remedy_done(r, view, arena);
	text_free(&f.said);
	text_free(&f.fact);
	return verdict;
}

struct str remedy_numbers(const struct know_change *c, const struct fact_view *view, struct arena *arena)
{
	_cleanup_text_ struct text all = { 0 };
	for (const struct know_pair *p = c->clears; p; p = p->next) {
		struct str have;
		int64_t mask, bits;
		if (!present(view, "param.", p->name, &have) || !str_number(have, &mask) || !str_number(p->value, &bits))
			return (struct str){ 0 };
		text_printf(&all, "%s" STR_FMT "=0x%llx", all.n ? " " : "", STR_ARG(p->name),
			    (unsigned long long)(mask & ~bits));
	}
	return arena_str(arena, text_str(&all));
}

const char *remedy_state_name(enum remedy_state s)
{
	static const char *const names[] = { "try", "applied", "no-such-parameter", "superseded" };
	return names[s];
}

const char *remedy_takes_name(enum know_takes t)
{
	static const char *const names[] = { "nothing", "restart", "reboot", "install", "hardware" };
	return names[t];
}

/** Cures, workarounds, experiments. */
static int kind_rank(const struct know_remedy *r)
{
	return str_is(r->kind, "cure") ? 0 : str_is(r->kind, "workaround") ? 1 : 2;
}

int remedy_compare(const struct know_remedy *a, const struct know_remedy *b)
{
	int grade = str_cmp(a->grade, b->grade), kind = kind_rank(a) - kind_rank(b);
	if (a->last != b->last)
		return a->last - b->last;
	return grade ? grade : kind ? kind : (int)a->takes - (int)b->takes;
}
