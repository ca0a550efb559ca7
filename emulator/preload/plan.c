// The statements of the block `kfd`, word by word. The first mistake is told with its line, and then nothing is planned: a machine that
// does half of what it should would answer for the whole.
#include "emulator/preload/plan.h"

#include <stdarg.h>
#include <stdio.h>

#include "emulator/number.h"

/** A statement that is being read. */
struct plan_line {
	struct kfd_plan *plan;
	struct str rest;
	char *why;
};

static bool wrong(struct plan_line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(struct plan_line *l, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	vsnprintf(l->why, PLAN_WHY, format, ap);
	va_end(ap);
	return false;
}

static struct str peek(const struct plan_line *l)
{
	struct str rest = l->rest, word = str_word(&rest);
	return word.n && word.p[0] == '#' ? (struct str){ 0 } : word;
}

static struct str next(struct plan_line *l)
{
	struct str word = peek(l);
	if (word.n)
		str_word(&l->rest);
	return word;
}

static bool is(struct plan_line *l, const char *word)
{
	if (!str_is(peek(l), word))
		return false;
	next(l);
	return true;
}

static bool number(struct plan_line *l, const char *what, uint64_t most, uint64_t *ret)
{
	struct str word = next(l);
	if (!emu_number_of(word, ret) || *ret > most)
		return wrong(l, "%s: '" STR_FMT "' is no such number", what, STR_ARG(str_cut(word, 40)));
	return true;
}

static bool small(struct plan_line *l, const char *what, unsigned most, unsigned *ret)
{
	uint64_t v;
	if (!number(l, what, most, &v))
		return false;
	*ret = (unsigned)v;
	return true;
}

static bool end(struct plan_line *l)
{
	struct str word = peek(l);
	return !word.n || wrong(l, "'" STR_FMT "' is not expected here", STR_ARG(str_cut(word, 40)));
}

// --- gpu ---

static bool read_pci(struct plan_line *l, struct plan_gpu *g)
{
	char text[32];
	unsigned domain, bus, device, function;
	str_copy(text, sizeof(text), next(l));
	if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4 || bus > 0xff || device > 0x1f || function > 7)
		return wrong(l, "'%s' is no PCI address", text);
	g->domain = domain;
	g->location = bus << 8 | device << 3 | function;
	return true;
}

static bool read_gpu_key(struct plan_line *l, struct plan_gpu *g)
{
	static const struct {
		const char *name;
		size_t at;
		unsigned most;
	} keys[] = {
		{ "node", offsetof(struct plan_gpu, node), 4096 },
		{ "id", offsetof(struct plan_gpu, id), UINT32_MAX },
		{ "device", offsetof(struct plan_gpu, device), 0xffff },
		{ "revision", offsetof(struct plan_gpu, revision), 15 },
		{ "engines", offsetof(struct plan_gpu, engines), 64 },
		{ "arrays", offsetof(struct plan_gpu, arrays), 8 },
		{ "cus", offsetof(struct plan_gpu, cus), 64 },
		{ "simds", offsetof(struct plan_gpu, simds), 8 },
		{ "waves", offsetof(struct plan_gpu, waves), 64 },
	};
	struct str key = next(l);
	unsigned render;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (str_is(key, keys[i].name))
			return small(l, keys[i].name, keys[i].most, (unsigned *)((char *)g + keys[i].at));
	if (str_is(key, "pci"))
		return read_pci(l, g);
	if (str_is(key, "vram"))
		return number(l, "vram", UINT64_C(1) << 40, &g->vram);
	if (str_is(key, "name")) {
		str_copy(g->name, sizeof(g->name), str_trim(l->rest));
		l->rest = (struct str){ 0 };
		return true;
	}
	if (!str_is(key, "render"))
		return wrong(l, "'" STR_FMT "' is nothing that is said of a gpu", STR_ARG(str_cut(key, 40)));
	if (!small(l, "render", 4096, &render))
		return false;
	g->render = (int)render;
	return true;
}

/** gpu GFX [node N] [id N] [pci ADDRESS] [device N] [revision N] [render N] [vram BYTES] [engines N] [arrays N] [cus N] [simds N]
 * [waves N] [name TEXT] */
static bool read_gpu(struct plan_line *l)
{
	struct kfd_plan *p = l->plan;
	struct str gfx = next(l);
	if (p->ngpus == PLAN_GPUS_MOST)
		return wrong(l, "more than %d GPUs", PLAN_GPUS_MOST);
	unsigned n = (unsigned)p->ngpus;
	struct plan_gpu g = { .node = n + 1,
			      .id = 0x5000 + n,
			      .location = (3 + n) << 8,
			      .device = str_is(gfx, "gfx90a") ? 0x740f : 0x7ff0, // ROCm 5 believes the numbers that it knows
			      .render = 128 + (int)n,
			      .vram = UINT64_C(16) << 30,
			      .engines = 4,
			      .arrays = 1,
			      .cus = 16,
			      .simds = 4,
			      .waves = 8 };
	if (gfx.n < 6 || gfx.n >= sizeof(g.gfx) || !str_starts(gfx, S("gfx")))
		return wrong(l, "'" STR_FMT "' is none of gfx90a, gfx1030 and the like", STR_ARG(str_cut(gfx, 40)));
	str_copy(g.gfx, sizeof(g.gfx), gfx);
	while (peek(l).n)
		if (!read_gpu_key(l, &g))
			return false;
	if (!g.engines || !g.arrays || !g.cus || !g.simds || !g.waves || g.vram < 64 << 20)
		return wrong(l, "a GPU has engines, arrays, CUs, SIMDs, waves, and 64M of VRAM at least");
	for (size_t i = 0; i < p->ngpus; i++)
		if (p->gpus[i].node >= g.node)
			return wrong(l, "the nodes of GPUs go up");
	p->gpus[p->ngpus++] = g;
	return true;
}

// --- rules ---

static bool read_trigger(struct plan_line *l, struct plan_rule *r)
{
	if (is(l, "allocation")) {
		r->allocation = true;
		if (is(l, "of"))
			return number(l, "the size", UINT64_MAX, &r->bytes);
		return number(l, "which allocation", UINT64_MAX, &r->nth);
	}
	bool any = false;
	if (is(l, "kernel")) {
		struct str name = next(l);
		if (!name.n || name.n >= sizeof(r->kernel))
			return wrong(l, "which kernel?");
		str_copy(r->kernel, sizeof(r->kernel), name);
		any = true;
	}
	if (is(l, "launch")) {
		if (!number(l, "which launch", UINT64_MAX, &r->nth))
			return false;
		any = true;
	}
	return any || wrong(l, "at what? 'kernel NAME', 'launch N' or 'allocation N'");
}

/** [on GPU] [chance PERCENT], behind any trigger. */
static bool read_where(struct plan_line *l, struct plan_rule *r)
{
	unsigned gpu;
	if (is(l, "on")) {
		if (!small(l, "which GPU, from 0", PLAN_GPUS_MOST - 1, &gpu))
			return false;
		r->gpu = (int)gpu;
	}
	return !is(l, "chance") || small(l, "the chance in per cent", 100, &r->chance);
}

/** hang TRIGGER */
static bool read_hang(struct plan_line *l, struct plan_rule *r)
{
	(void)l;
	r->does = PLAN_HANG;
	return true;
}

/** fault TRIGGER at ADDRESS|argument N [plus BYTES] [write] */
static bool read_fault(struct plan_line *l, struct plan_rule *r)
{
	unsigned argument;
	r->does = PLAN_FAULT;
	if (r->allocation || !is(l, "at"))
		return wrong(l, "'at ADDRESS' or 'at argument N' of a kernel is missing");
	if (is(l, "argument")) {
		if (!small(l, "the argument", 64, &argument))
			return false;
		r->argument = (int)argument;
		if (is(l, "plus") && !number(l, "the bytes", UINT64_MAX, &r->address))
			return false;
	} else if (!number(l, "the address", UINT64_MAX, &r->address)) {
		return false;
	}
	r->write = is(l, "write");
	return true;
}

/** exception TRIGGER NAME */
static bool read_exception(struct plan_line *l, struct plan_rule *r)
{
	// As the driver numbers what it tells of a queue (KFD_EC_*).
	static const struct {
		const char *name;
		unsigned code;
	} names[] = { { "abort", 1 },
		      { "trap", 2 },
		      { "math-error", 3 },
		      { "illegal-instruction", 4 },
		      { "memory-violation", 5 },
		      { "aperture-violation", 6 },
		      { "dimensions", 16 },
		      { "group-segment", 17 },
		      { "code", 18 },
		      { "packet", 20 },
		      { "workgroup", 21 },
		      { "registers", 22 },
		      { "vendor-packet", 23 } };
	struct str name = next(l);
	r->does = PLAN_EXCEPTION;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_is(name, names[i].name))
			r->code = names[i].code;
	if (r->allocation || !r->code)
		return wrong(l, "'" STR_FMT "' is no exception of a queue: abort, trap, math-error, illegal-instruction, ...",
			     STR_ARG(str_cut(name, 40)));
	return true;
}

/** slow TRIGGER SECONDS */
static bool read_slow(struct plan_line *l, struct plan_rule *r)
{
	struct str word = next(l);
	r->does = PLAN_SLOW;
	return emu_seconds_of(word, &r->seconds) ||
	       wrong(l, "'" STR_FMT "' is no number of seconds", STR_ARG(str_cut(word, 40)));
}

static bool read_lose(struct plan_line *l, struct plan_rule *r)
{
	(void)l;
	r->does = PLAN_LOSE;
	return true;
}

static bool read_vram(struct plan_line *l)
{
	if (!is(l, "closed"))
		return wrong(l, "of VRAM 'closed' can be said");
	l->plan->closed = true;
	return true;
}

bool plan_statement(struct kfd_plan *p, struct str text, char why[static PLAN_WHY])
{
	static const struct {
		const char *name;
		bool (*whole)(struct plan_line *l);
		bool (*rule)(struct plan_line *l, struct plan_rule *r);
	} statements[] = { { "gpu", read_gpu, NULL },     { "vram", read_vram, NULL }, { "hang", NULL, read_hang },
			   { "fault", NULL, read_fault }, { "slow", NULL, read_slow }, { "exception", NULL, read_exception },
			   { "lose", NULL, read_lose } };
	struct plan_line l = { p, text, why };
	struct plan_rule r = { .argument = -1, .gpu = -1, .chance = 100 };
	struct str name = next(&l);
	for (size_t i = 0; i < ARRAY_SIZE(statements); i++) {
		if (!str_is(name, statements[i].name))
			continue;
		if (statements[i].whole)
			return statements[i].whole(&l) && end(&l);
		if (p->nrules == PLAN_RULES_MOST)
			return wrong(&l, "more than %d rules", PLAN_RULES_MOST);
		if (!read_trigger(&l, &r) || !read_where(&l, &r) || !statements[i].rule(&l, &r) || !end(&l))
			return false;
		p->rules[p->nrules++] = r;
		return true;
	}
	return wrong(&l, "'" STR_FMT "' is none of gpu, vram, hang, fault, exception, slow, lose", STR_ARG(str_cut(name, 40)));
}

bool plan_read(struct kfd_plan *p, struct str text, char why[static PLAN_WHY])
{
	while (text.n) {
		struct str line = str_split(&text, '\n');
		while (line.n) {
			struct str statement = str_trim(str_split(&line, ';'));
			if (statement.n && statement.p[0] != '#' && !plan_statement(p, statement, why))
				return false;
		}
	}
	return true;
}

// --- names ---

/** _Z5saxpyPKfPffi, _ZN4unit5saxpyE...: of the identifiers that follow each other at its beginning, the last. */
struct str plan_plain_name(struct str symbol)
{
	struct str rest = symbol, name = symbol;
	if (!str_starts(rest, S("_Z")))
		return symbol;
	rest = str_from(rest, 2);
	while (rest.n && char_among(rest.p[0], "NLKVr"))
		rest = str_from(rest, 1);
	while (rest.n && char_digit(rest.p[0])) {
		size_t n = 0;
		while (rest.n && char_digit(rest.p[0]) && n < PLAN_TEXT_MOST) {
			n = n * 10 + (size_t)(rest.p[0] - '0');
			rest = str_from(rest, 1);
		}
		if (n > rest.n)
			return name;
		name = str_cut(rest, n);
		rest = str_from(rest, n);
	}
	return name;
}

bool plan_names(const struct plan_rule *r, struct str symbol)
{
	struct str pattern = str_z(r->kernel);
	return str_glob(pattern, symbol) || str_glob(pattern, plan_plain_name(symbol));
}
