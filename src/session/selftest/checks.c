// The checks that only read: what unhang reads of a GPU against what the driver tells of it elsewhere.
#include "session/selftest/selftest.h"

#include "gpu/packet.h"

static void disagree(struct text *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void disagree(struct text *to, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	text_printf(to, "%s", to->n ? "; " : "");
	text_vprintf(to, format, ap);
	va_end(ap);
}

static void add_witness(struct selftest *t, struct selftest_gpu *g, const char *about, const char *fact, struct str place,
			struct str value)
{
	vec_push(&g->witnesses.list, ((struct witness){ about, arena_str(&t->arena, str_z(fact)), place, value }));
}

static struct str decimal(struct selftest *t, uint64_t n) { return arena_printf(&t->arena, "%llu", (unsigned long long)n); }
static struct str hexadecimal(struct selftest *t, uint64_t n)
{
	return arena_printf(&t->arena, "0x%llx", (unsigned long long)n);
}

static bool is_about(const struct witness *w, const char *id) { return str_eq(str_z(w->about), str_z(id)); }

/** Why a GPU cannot be asked; empty: it can. */
static struct str why_silent(struct selftest *t, const struct selftest_gpu *g)
{
	const struct device *d = g->device;
	if (d->off_bus)
		return S("it is off the bus");
	if (!d->driver.n)
		return S("no driver is loaded for it");
	if (!device_awake(d))
		return S("it sleeps, and unhang does not wake it: start a program on it and try again");
	if (d->guest)
		return S("it is a virtual function, whose registers are not read");
	if (!t->devices.root)
		return S("it needs root");
	return (struct str){ 0 };
}

// --- facts with several witnesses ---

/** Who says otherwise than the first; NULL: nobody. *@ret_n: how many tell the fact. */
static const struct witness *contradicts(const struct witnesses *w, const struct witness *first, size_t *ret_n)
{
	const struct witness *other = NULL;
	*ret_n = 0;
	for (size_t i = 0; i < w->list.len; i++) {
		const struct witness *one = &w->list.data[i];
		if (!is_about(one, first->about) || !str_eq(one->fact, first->fact))
			continue;
		++*ret_n;
		if (!other && !str_eq(one->value, first->value))
			other = one;
	}
	return other;
}

static bool witness_before(const struct witnesses *w, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (is_about(&w->list.data[i], w->list.data[at].about) && str_eq(w->list.data[i].fact, w->list.data[at].fact))
			return true;
	return false;
}

struct selftest_result check_told(struct selftest *t, struct selftest_gpu *g, const char *id)
{
	enum { SHOWN = 34 }; // columns, beside the first fact
	const struct witnesses *w = &g->witnesses;
	_cleanup_text_ struct text good = { 0 }, bad = { 0 };
	size_t facts = 0, n;
	for (size_t i = 0; i < w->list.len; i++) {
		const struct witness *one = &w->list.data[i];
		if (!is_about(one, id) || witness_before(w, i))
			continue;
		const struct witness *other = contradicts(w, one, &n);
		if (other)
			disagree(&bad, STR_FMT ": " STR_FMT " by " STR_FMT ", " STR_FMT " by " STR_FMT, STR_ARG(one->fact),
				 STR_ARG(one->value), STR_ARG(one->place), STR_ARG(other->value), STR_ARG(other->place));
		if (n < 2)
			continue;
		facts++;
		if (!good.n || good.n + one->fact.n + one->value.n < SHOWN)
			text_printf(&good, "%s" STR_FMT " " STR_FMT, good.n ? ", " : "", STR_ARG(one->fact),
				    STR_ARG(one->value));
	}
	if (bad.n)
		return FAILED(&t->arena, STR_FMT, STR_ARG(text_str(&bad)));
	if (facts)
		return PASSED(&t->arena, "%zu %s: " STR_FMT, facts, facts > 1 ? "facts agree" : "fact agrees",
			      STR_ARG(text_str(&good)));
	const struct str why = why_silent(t, g);
	return NOT_POSSIBLE(&t->arena, STR_FMT, STR_ARG(why.n ? why : S("only one place tells it")));
}

// --- registers ---

/** A register that was asked for. */
struct asked_register {
	struct reg reg;
	uint32_t value;
	struct str why; // there is no value; else empty
};

static bool ask_register(struct selftest *t, struct selftest_gpu *g, const char *name, struct bank bank,
			 struct asked_register *ret)
{
	struct device_register *r = arena_alloc(&t->arena, sizeof(*r));
	*ret = (struct asked_register){ .why = S("its table has no such register") };
	if (!device_registers(g->device, str_z(name), r, 1))
		return false;
	struct request q = { .kind = REQUEST_REGISTER, .ip = r->ip->name, .reg = &r->reg, .bank = bank };
	const enum answer answer = target_ask(g->target, &q);
	*ret = (struct asked_register){ r->reg, q.value, { 0 } };
	if (answer != ANSWER_GIVEN)
		ret->why = live_why_not(&t->arena, g->target, answer);
	return answer == ANSWER_GIVEN;
}

/** Each way to a register, and each copy of it, is a witness. */
struct selftest_result check_registers(struct selftest *t, struct selftest_gpu *g, const char *id)
{
	static const char config[] = "gc.GB_ADDR_CONFIG", *const fact = "GB_ADDR_CONFIG";
	const struct shader_array *x = &g->device->shaders;
	struct bank bank = BANK_NONE;
	struct asked_register r;
	if (ask_register(t, g, config, bank, &r))
		add_witness(t, g, id, fact, S("its register"), hexadecimal(t, r.value));
	bank.se = 0;
	if (ask_register(t, g, config, bank, &r))
		add_witness(t, g, id, fact, S("its register in shader engine 0"), hexadecimal(t, r.value));
	bank = BANK_NONE;
	for (bank.xcc = 1; bank.xcc < (int)x->xccs; bank.xcc++)
		if (ask_register(t, g, config, bank, &r))
			add_witness(t, g, id, fact, arena_printf(&t->arena, "its register in XCC %d", bank.xcc),
				    hexadecimal(t, r.value));
	bank = BANK_NONE;
	if (!g->device->apu && ask_register(t, g, "nbio.*RCC_CONFIG_MEMSIZE", bank, &r))
		add_witness(t, g, id, "VRAM in MiB", S("the register RCC_CONFIG_MEMSIZE"), decimal(t, r.value));
	const struct selftest_result told = check_told(t, g, id);
	return told.end == SELFTEST_NOT_POSSIBLE && r.why.n ? NOT_POSSIBLE(&t->arena, STR_FMT, STR_ARG(r.why)) : told;
}

/** The CUs of an array that are on by its own registers. false: they were not read. */
static bool array_cus(struct selftest *t, struct selftest_gpu *g, unsigned se, unsigned sh, uint32_t *ret, struct str *ret_why)
{
	const unsigned cus = g->device->shaders.cus_per_sh;
	struct bank bank = BANK_NONE;
	struct asked_register factory, user;
	struct reg_field f;
	bank.se = (int)se, bank.sh = (int)sh;
	const bool given = ask_register(t, g, "gc.CC_GC_SHADER_ARRAY_CONFIG", bank, &factory);
	*ret_why = factory.why;
	if (!given)
		return false;
	const bool wgp = register_field_find(&factory.reg, S("INACTIVE_WGPS"), &f);
	if (!wgp && !register_field_find(&factory.reg, S("INACTIVE_CUS"), &f))
		return false;
	ask_register(t, g, "gc.GC_USER_SHADER_ARRAY_CONFIG", bank, &user); // which not every table has
	*ret = 0;
	for (unsigned cu = 0; cu < cus && cu < 32; cu++)
		*ret |= (factory.value | user.value) >> (f.low + cu / (wgp ? 2 : 1)) & 1 ? 0 : 1u << cu;
	return true;
}

/** Each array has a copy of the register that says which of its CUs were switched off; the driver read them when it started. */
struct selftest_result check_banks(struct selftest *t, struct selftest_gpu *g, const char *id)
{
	const struct shader_array *x = &g->device->shaders;
	_cleanup_text_ struct text bad = { 0 };
	struct str why = why_silent(t, g);
	size_t arrays = 0, differing = 0;
	uint32_t cus, first = 0;
	for (unsigned se = 0; se < x->ses && !why.n; se++)
		for (unsigned sh = 0; sh < x->shs_per_se && !why.n; sh++) {
			const uint32_t told = witness_cus(&g->witnesses, x, se, sh);
			if (!told || !array_cus(t, g, se, sh, &cus, &why))
				continue;
			const struct str fact = arena_printf(&t->arena, "CUs of array %u.%u", se, sh);
			add_witness(t, g, id, fact.p, S("the render node"), hexadecimal(t, told));
			add_witness(t, g, id, fact.p, S("its register"), hexadecimal(t, cus));
			differing += arrays && told != first;
			first = arrays++ ? first : told;
			if (told != cus)
				disagree(&bad, "array %u of engine %u: CUs 0x%x by its register, 0x%x by the render node", sh,
					 se, cus, told);
		}
	if (bad.n)
		return FAILED(&t->arena, STR_FMT, STR_ARG(text_str(&bad)));
	if (!arrays)
		return NOT_POSSIBLE(&t->arena, STR_FMT,
				    STR_ARG(why.n ? why : S("the render node does not say which CUs are there")));
	return PASSED(&t->arena, "%zu arrays%s as the driver says", arrays, differing ? " are" : ", all alike, are");
}

/** The first slot of each unit. */
static size_t unit_slots(struct selftest *t, const struct shader_array *x, unsigned each, struct wave_slot **ret)
{
	const unsigned units = (x->cus_per_sh + each - 1) / each, xccs = x->xccs ? x->xccs : 1;
	const size_t n = (size_t)xccs * x->ses * x->shs_per_se * units;
	*ret = arena_alloc(&t->arena, n * sizeof(**ret) + 1);
	for (size_t i = 0; i < n; i++)
		(*ret)[i] = (struct wave_slot){ .xcc = (unsigned)(i / units / x->shs_per_se / x->ses),
						.se = (unsigned)(i / units / x->shs_per_se % x->ses),
						.sh = (unsigned)(i / units % x->shs_per_se),
						.cu = (unsigned)(i % units) };
	return n;
}

/** Asks each unit for its first wave: one that is switched off says that it is not there, or, on some parts, that it has none. */
struct selftest_result check_units(struct selftest *t, struct selftest_gpu *g, const char *id)
{
	const struct shader_array *x = &g->device->shaders;
	struct request q = { .kind = REQUEST_WAVES };
	struct wave_words words;
	struct wave_slot *slots;
	_cleanup_text_ struct text bad = { 0 };
	uint64_t xccs = 0; // that answer, a bit each
	size_t there = 0;
	const struct str why = why_silent(t, g);
	if (why.n)
		return NOT_POSSIBLE(&t->arena, STR_FMT, STR_ARG(why));
	if (!x->ses || !wave_words_of(t->know, g->device->gfx, &words))
		return NOT_POSSIBLE(&t->arena, "how its waves are read is not known");
	const unsigned each = words.wgp ? 2 : 1;
	q.nslots = unit_slots(t, x, each, &slots);
	q.slots = slots;
	if (target_ask(g->target, &q) != ANSWER_GIVEN || !q.nfound)
		return NOT_POSSIBLE(&t->arena, STR_FMT, STR_ARG(live_why_not(&t->arena, g->target, q.answer)));
	for (size_t i = 0; i < q.nfound; i++) {
		const struct wave_unit *u = &q.found[i];
		const uint32_t told = u->xcc ? 0 : witness_cus(&g->witnesses, x, u->se, u->sh);
		there += u->there;
		xccs |= u->there && u->xcc < 64 ? 1ull << u->xcc : 0;
		if (!u->there && told >> u->cu * each & 1 && !bad.n)
			disagree(&bad, "unit %u of array %u.%u is there by the render node, and does not answer", u->cu, u->se,
				 u->sh);
	}
	const bool whole = q.nfound == q.nslots; // else some XCCs cannot be read here
	const size_t active = g->device->active_cus > 0 ? (size_t)g->device->active_cus / each : 0;
	if (whole && active) {
		add_witness(t, g, "shaders", "XCCs", S("units that answer"), decimal(t, (uint64_t)__builtin_popcountll(xccs)));
		add_witness(t, g, id, "units", S("units that answer"), decimal(t, there));
		add_witness(t, g, id, "units", S("KFD's topology"), decimal(t, active));
	}
	if (whole && there < active && !bad.n)
		disagree(&bad, "%zu units answer, %zu are there by KFD's topology", there, active);
	if (bad.n)
		return FAILED(&t->arena, STR_FMT, STR_ARG(text_str(&bad)));
	return PASSED(&t->arena, "%zu %ss answer, as the driver says%s", there, words.wgp ? "WGP" : "CU",
		      whole ? "" : "; other XCCs cannot be read");
}

// --- what moves ---

struct selftest_result check_clocks(struct selftest *t, struct selftest_gpu *g, const char *id)
{
	const struct selftest_result told = check_told(t, g, id);
	const int64_t now = g->device->clock;
	int64_t most = -1;
	for (size_t i = 0; i < g->witnesses.list.len; i++)
		if (is_about(&g->witnesses.list.data[i], id))
			str_number(g->witnesses.list.data[i].value, &most);
	if (now < 0 || most <= 0 || told.end == SELFTEST_FAILED)
		return told;
	add_witness(t, g, id, "clock now in MHz", S("freq1_input in sysfs"), decimal(t, (uint64_t)now));
	// An overclocked card reaches more than it says.
	if (now > most + most / 4)
		return FAILED(&t->arena, "the clock is %lld MHz by sysfs, and %lld MHz at most by the driver", (long long)now,
			      (long long)most);
	return PASSED(&t->arena, "%lld MHz now, %lld MHz at most", (long long)now, (long long)most);
}

struct selftest_result check_verdict(struct selftest *t, struct selftest_gpu *g, const char *id)
{
	const struct gpu_observation *o = g->seen;
	struct str says = o ? o->says : (struct str){ 0 };
	const struct str why = str_split(&says, ';');
	(void)id;
	if (!o)
		return NOT_POSSIBLE(&t->arena, "it was not looked at");
	if (o->unwell)
		return FAILED(&t->arena, STR_FMT ", not healthy: " STR_FMT ". If this GPU works, unhang is wrong",
			      STR_ARG(o->health), STR_ARG(why));
	if (!o->known)
		return NOT_POSSIBLE(&t->arena, STR_FMT, STR_ARG(o->unseen.n ? o->unseen : S("not enough of it could be read")));
	return PASSED(&t->arena, "healthy (" STR_FMT "). Run it once idle and once busy", STR_ARG(o->health));
}

static const struct ring *ring_named(const struct request *r, struct str name)
{
	return list_find(r->rings, r->n, it, str_eq(it->name, name));
}

/** Reading fences completes those that are done, which could end a hang: so this is the last check, and only of a GPU that is well. */
struct selftest_result check_rings(struct selftest *t, struct selftest_gpu *g, const char *id)
{
	struct request before = { .kind = REQUEST_RINGS }, fences = { .kind = REQUEST_FENCES },
		       after = { .kind = REQUEST_RINGS };
	const struct str why = why_silent(t, g);
	_cleanup_text_ struct text bad = { 0 };
	size_t agree = 0, moving = 0;
	before.positions = after.positions = true;
	if (why.n || !g->seen || g->seen->unwell)
		return NOT_POSSIBLE(&t->arena, STR_FMT,
				    STR_ARG(why.n ? why : S("fences are read only where nothing is wrong")));
	if (target_ask(g->target, &before) != ANSWER_GIVEN || target_ask(g->target, &fences) != ANSWER_GIVEN ||
	    target_ask(g->target, &after) != ANSWER_GIVEN)
		return NOT_POSSIBLE(&t->arena, "rings or fences could not be read");
	for (size_t i = 0; i < fences.n; i++) {
		const struct ring_fence *f = &fences.fences[i];
		const struct ring *one = ring_named(&before, f->ring), *two = ring_named(&after, f->ring);
		if (!one || !two)
			continue;
		const bool idle = two->rptr == two->wptr;
		if (one->rptr != two->rptr || one->wptr != two->wptr || one->driver_wptr != two->driver_wptr)
			moving++; // between the looks its fences moved, too
		else if (idle && f->signaled != f->emitted)
			disagree(&bad, STR_FMT ": the GPU has done all, but fence %u of %u has not come", STR_ARG(f->ring),
				 f->signaled + 1, f->emitted);
		else if (!idle && f->signaled == f->emitted)
			disagree(&bad, STR_FMT ": all fences have come, but the GPU stands at word %u of %u", STR_ARG(f->ring),
				 two->rptr, two->wptr);
		else
			agree++;
		const char *name = arena_z(&t->arena, f->ring);
		add_witness(t, g, id, name, S("rptr, wptr"), hexadecimal(t, (uint64_t)two->rptr << 32 | two->wptr));
		add_witness(t, g, id, name, S("signaled, emitted"), hexadecimal(t, (uint64_t)f->signaled << 32 | f->emitted));
	}
	if (bad.n)
		return FAILED(&t->arena, STR_FMT, STR_ARG(text_str(&bad)));
	if (!agree)
		return NOT_POSSIBLE(&t->arena, moving ? "all rings move" : "no ring has both a position and fences");
	return PASSED(&t->arena, "%zu rings are where their fences say%s", agree, moving ? "; others move" : "");
}
