// Addresses that were asked for, looked up in all the code that was named.
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/print.h"
#include "session/look.h"
#include "session/source_text.h"

struct asked {
	const char *text;
	struct str name;      // of a function; empty: @value is the address
	uint64_t value;       // address, or offset in the function
	uint64_t size;        // of a function with the name that is too short
	uint32_t first, last; // numbers of its hits, from 1 on; 0: not found
};

struct hit {
	struct loaded *in;
	const struct code_symbol *function; // NULL: between functions
	uint64_t pc;
	uint32_t asked, next; // next: of the same address, 0 for none
};

struct hunt {
	struct code_set set;
	struct asked *asked;
	size_t n;
	struct str gfx; // of the GPU; empty: any
	bool based;
	uint64_t loaded_at;
	VEC(struct hit) matches;
	size_t objects;
};

static bool parse_asked(const char *text, struct asked *ret)
{
	struct str s = str_trim(str_z(text));
	*ret = (struct asked){ .text = text };
	// A kernel may be named add; no name begins with a digit.
	if (s.n && char_digit(s.p[0]))
		return str_hex(s, &ret->value);
	ptrdiff_t plus = -1;
	for (size_t i = s.n; i-- && plus < 0;)
		plus = s.p[i] == '+' ? (ptrdiff_t)i : -1;
	struct str offset = plus < 0 ? (struct str){ 0 } : str_trim(str_from(s, (size_t)plus + 1));
	int64_t n = 0;
	if (plus >= 0 && str_number(offset, &n) && n >= 0) {
		ret->name = str_trim(str_cut(s, (size_t)plus));
		ret->value = (uint64_t)n;
	} else {
		ret->name = s;
	}
	return ret->name.n;
}

/** Without arguments and result: saxpy for saxpy(float const*, float*), fill<int> for void fill<int>(int*). */
static bool short_for(struct str name, struct str plain)
{
	ptrdiff_t at = str_find(plain, name);
	return at >= 0 && (!at || plain.p[at - 1] == ' ') && plain.n > (size_t)at + name.n &&
	       plain.p[(size_t)at + name.n] == '(';
}

/** The function of this name, mangled or as people write it. */
static const struct code_symbol *find_symbol(struct hunt *h, const struct code_object *o, struct str name)
{
	for (size_t i = 0; i < o->nsymbols; i++)
		if (str_eq(o->symbols[i].name, name))
			return &o->symbols[i];
	for (size_t i = 0; i < o->nsymbols; i++) {
		struct str plain = code_set_name(&h->set, o->symbols[i].name);
		if (str_eq(plain, name) || short_for(name, plain))
			return &o->symbols[i];
	}
	return NULL;
}

static bool match_address(struct hunt *h, struct loaded *l, struct asked *a, struct hit *ret)
{
	ret->pc = a->value;
	if (a->name.n) {
		const struct code_symbol *s = find_symbol(h, l->object, a->name);
		if (!s || a->value >= s->size) {
			a->size = s ? s->size : a->size;
			return false;
		}
		ret->pc += l->base + s->address;
	} else if (a->value < l->base) {
		return false;
	}
	ret->function = code_object_symbol(l->object, ret->pc - l->base); // of a name, too: one may lie in the other
	return a->name.n || ret->function;
}

static void add_hit(struct hunt *h, const struct hit *m)
{
	struct asked *a = &h->asked[m->asked];
	vec_push(&h->matches, *m);
	if (a->first)
		h->matches.data[a->last - 1].next = (uint32_t)h->matches.len;
	else
		a->first = (uint32_t)h->matches.len;
	a->last = (uint32_t)h->matches.len;
}

/** An object for the GPU that is asked for, or NULL. */
static struct loaded *take_wanted(struct hunt *h, struct str name, char *bytes, size_t size)
{
	struct loaded *l = code_set_take(&h->set, name, bytes, size, 0);
	struct str wanted = h->gfx;
	if (!l || !wanted.n || str_eq(l->object->gfx, str_split(&wanted, ':')))
		return l;
	code_set_drop(&h->set, l);
	return NULL;
}

static bool take_object(void *ctx, struct str name, char *bytes, size_t size)
{
	struct hunt *h = ctx;
	struct loaded *l = take_wanted(h, name, bytes, size);
	if (!l)
		return false;
	h->objects++;
	l->base = h->based ? h->loaded_at - code_object_page(l->object) : 0;
	size_t before = h->matches.len;
	for (size_t i = 0; i < h->n; i++) {
		struct hit m = { .in = l, .asked = (uint32_t)i };
		if (match_address(h, l, &h->asked[i], &m))
			add_hit(h, &m);
	}
	// An address between functions still lies in an object; one object is kept for that case.
	if (h->matches.len == before && h->objects > 1)
		code_set_drop(&h->set, l);
	return true;
}

/** Matches of one object, from @begin on: their addresses. */
static size_t same_object(const struct hunt *h, size_t begin, uint64_t *ret_pcs)
{
	size_t end = begin;
	for (; end < h->matches.len && h->matches.data[end].in == h->matches.data[begin].in; end++)
		ret_pcs[end - begin] = h->matches.data[end].pc;
	return end - begin;
}

/** The matches of each object at once. */
static void resolve(struct hunt *h, int context, struct where *where)
{
	_cleanup_free_ uint64_t *pcs = mem_alloc(h->matches.len * sizeof(*pcs) + 1);
	for (size_t begin = 0, n; begin < h->matches.len; begin += n) {
		n = same_object(h, begin, pcs);
		code_where_in(&h->set, h->matches.data[begin].in, pcs, n, context, where + begin);
	}
}

static int by_asked(const void *a, const void *b)
{
	const struct found_address *x = a, *y = b;
	if (x->index != y->index)
		return x->index < y->index ? -1 : 1;
	return x->where < y->where ? -1 : x->where > y->where;
}

static struct found_address not_found(const struct hunt *h, size_t i, struct where *where)
{
	const struct asked *a = &h->asked[i];
	*where = (struct where){ .pc = a->name.n ? 0 : a->value };
	return (struct found_address){ a->text, where, i, a->name.n, a->size, NULL };
}

/** The line of source of each frame. */
static const struct str *source_lines(struct source_texts *t, const struct where *w, struct arena *a)
{
	struct str *lines = arena_alloc(a, w->nframes * sizeof(*lines) + 1);
	for (size_t i = 0; i < w->nframes; i++)
		lines[i] = source_line(t, w->in->name, w->frames[i].file, w->frames[i].line);
	return lines;
}

static void report_found(struct hunt *h, const struct know *k, const struct uh_look_options *o, FILE *out)
{
	size_t n = h->matches.len, shown = 0;
	_cleanup_free_ struct where *where = mem_alloc((n + h->n) * sizeof(*where) + 1);
	_cleanup_free_ struct found_address *found = mem_alloc((n + h->n) * sizeof(*found) + 1);
	resolve(h, o->context, where);
	for (; shown < n; shown++)
		found[shown] = (struct found_address){
			h->asked[h->matches.data[shown].asked].text, &where[shown], h->matches.data[shown].asked, false, 0, NULL
		};
	for (size_t i = 0; i < h->n; i++)
		if (!h->asked[i].first) {
			found[shown] = not_found(h, i, &where[shown]);
			shown++;
		}
	qsort(found, shown, sizeof(*found), by_asked);
	struct source_texts *texts = source_texts_new(o->sources, o->nsources);
	struct arena a = { 0 };
	for (size_t i = 0; i < shown && o->context >= 0; i++)
		found[i].texts = source_lines(texts, found[i].where, &a);
	report_where(k, found, shown, o, out);
	source_texts_free(texts, &h->set.problems);
	arena_free(&a);
}

static void print_found(const struct found_address *f, struct text *line, FILE *out)
{
	text_clear(line);
	report_where_line(f, line);
	print_safe(out, text_str(line));
	putc_unlocked('\n', out);
}

/** One line for each of very many: made and written while it is in the processor's cache. */
static void report_lines(struct hunt *h, FILE *out)
{
	struct text line = { 0 };
	size_t n = h->matches.len;
	_cleanup_free_ uint64_t *pcs = mem_alloc(n * sizeof(*pcs) + 1);
	for (size_t begin = 0, count; begin < n; begin += count) {
		count = same_object(h, begin, pcs);
		code_where_expect(&h->set, h->matches.data[begin].in, pcs, count);
	}
	for (size_t i = 0; i < h->n; i++) {
		for (uint32_t at = h->asked[i].first; at; at = h->matches.data[at - 1].next) {
			const struct hit *m = &h->matches.data[at - 1];
			const struct where w = code_where_one(&h->set, m->in, m->pc, m->function);
			print_found(&(struct found_address){ .asked = h->asked[i].text, .where = &w }, &line, out);
		}
		if (!h->asked[i].first) {
			struct where w;
			const struct found_address f = not_found(h, i, &w);
			print_found(&f, &line, out);
		}
	}
	text_free(&line);
}

/** What lies in no function still has its place. */
static void find_others(struct hunt *h)
{
	for (size_t i = 0; i < h->n; i++) {
		struct loaded *l = h->asked[i].first || h->asked[i].name.n ? NULL : code_set_find(&h->set, h->asked[i].value);
		if (l)
			add_hit(h, &(struct hit){ .in = l, .pc = h->asked[i].value, .asked = (uint32_t)i });
	}
}

static struct uh_error *parse_addresses(const char *const *addresses, size_t n, struct hunt *h)
{
	h->asked = mem_alloc(n * sizeof(*h->asked) + 1);
	h->n = n;
	h->matches.data = mem_alloc(n * sizeof(*h->matches.data) + 1);
	h->matches.cap = n;
	for (size_t i = 0; i < n; i++)
		if (!parse_asked(addresses[i], &h->asked[i]))
			return uh_error_new("'%s' is neither an address (0x1a34) nor a function with an offset (saxpy+0x34)",
					    addresses[i]);
	return NULL;
}

/** Why there is nothing to look into. */
static struct uh_error *no_code(struct hunt *h, const struct uh_look_options *o, const struct teller *t, struct str problems)
{
	look_tell(t, problems);
	look_tell(t, text_str(&h->set.problems));
	if (problems.n || h->set.problems.n)
		return uh_error_new("no code could be read");
	return uh_error_new("%s%s: no AMD GPU code in it%s%s", o->code[0], o->ncode > 1 ? " and others" : "",
			    o->gfx ? " for " : "", o->gfx ? o->gfx : "");
}

static bool keep_object(void *ctx, struct str name, char *bytes, size_t size)
{
	struct hunt *h = ctx;
	struct loaded *l = take_wanted(h, name, bytes, size);
	h->objects += l != NULL;
	return l;
}

struct uh_error *uh_look_code(const struct uh_look_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	struct teller teller = { problem, ctx };
	struct hunt h = { .gfx = str_z(o->gfx) };
	struct text problems = { 0 };
	struct uh_error *err = NULL;
	struct code_places places = { .n = o->ncode, .paths = o->code, .gfx = h.gfx };
	struct code_taker taker = { keep_object, &h };
	code_places_all(&places, &taker, &problems);
	if (h.objects) {
		look_tell(&teller, text_str(&problems));
		look_tell(&teller, text_str(&h.set.problems));
		report_kernels(&h.set, o->json, out);
	} else {
		err = no_code(&h, o, &teller, text_str(&problems));
	}
	text_free(&problems);
	code_set_free(&h.set);
	return err;
}

struct uh_error *uh_look_where(const struct uh_look_options *o, const char *const *addresses, size_t n, FILE *out,
			       uh_problem_fn *problem, void *ctx, unsigned *ret_missed)
{
	struct teller teller = { problem, ctx };
	struct hunt h = { .set.functions_only = o->context < 0 && !o->json, .gfx = str_z(o->gfx) };
	struct text problems = { 0 };
	*ret_missed = 0;
	struct uh_error *err = parse_addresses(addresses, n, &h);
	struct str at = str_z(o->loaded_at);
	// As the debug agent prints it: [0x7f00-0x8f00]
	if (str_starts(at, S("[")))
		at = str_from(at, 1);
	at = str_split(&at, '-');
	at = str_starts(at, S("0x")) ? str_from(at, 2) : at;
	h.based = o->loaded_at;
	if (!err && h.based && !(at.n && str_hex(at, &h.loaded_at)))
		err = uh_error_new("--loaded-at needs an address such as 0x7f3a00000000, not '%s'", o->loaded_at);
	if (!err) {
		struct code_places places = { .n = o->ncode, .paths = o->code, .gfx = str_z(o->gfx) };
		struct code_taker taker = { take_object, &h };
		code_places_all(&places, &taker, &problems);
		if (!h.objects)
			err = no_code(&h, o, &teller, text_str(&problems));
	}
	if (!err) {
		struct know *k = o->context < 0 ? NULL : look_knowledge(&teller); // it is of instructions
		look_tell(&teller, text_str(&problems));
		find_others(&h);
		if (o->context < 0 && !o->json)
			report_lines(&h, out);
		else
			report_found(&h, k, o, out);
		look_tell(&teller, text_str(&h.set.problems));
		for (size_t i = 0; i < n; i++)
			*ret_missed += !h.asked[i].first;
		know_free(k);
	}
	text_free(&problems);
	vec_free(&h.matches);
	free(h.asked);
	code_set_free(&h.set);
	return err;
}
