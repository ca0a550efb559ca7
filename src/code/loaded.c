// What is at a program counter. Lines and instructions each cost a child process, so all addresses of an object are gathered first and
// asked for at once. Names are demangled once each, because the same few kernels stand in thousands of waves.
#include "code/loaded.h"

#include <elf.h>
#include <stdlib.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "code/names.h"

enum {
	DEMANGLE_MS = 10000,
	CHILDREN_MS = 60000,   // for all objects: each of a stranger's may use its own deadline up
	INSTRUCTION_MOST = 20, // bytes; the longest has 16 and a literal
	SYNC_BACK = 64,        // how far before the first shown instruction a line-table row is looked for
};

/** Each line of @found, with the name of the file before it. */
static void add_problems(struct code_set *s, struct str name, struct str found)
{
	str_each (line, found, '\n')
		text_printf(&s->problems, STR_FMT ": " STR_FMT "\n", STR_ARG(name), STR_ARG(line));
}

struct loaded *code_set_take(struct code_set *s, struct str name, char *bytes, size_t size, uint64_t base)
{
	struct loaded *l = arena_alloc(&s->arena, sizeof(*l));
	l->name = arena_str(&s->arena, name);
	l->bytes = bytes;
	l->base = base;
	_cleanup_(text_free) struct text problems = { 0 };
	_cleanup_error_ struct uh_error *err = (s->functions_only ? code_object_parse_functions : code_object_parse)(
		&s->arena, l->name, (struct str){ bytes, size }, &problems, &l->object);
	add_problems(s, l->name, text_str(&problems));
	if (err) {
		add_problems(s, l->name, str_z(uh_error_message(err)));
		free(bytes);
		return NULL;
	}
	vec_push(&s->objects, l);
	return l;
}

struct loaded *code_set_take_bare(struct code_set *s, struct str gfx, struct str bytes, uint64_t base,
				  const struct code_symbol *functions, size_t n)
{
	struct loaded *l = arena_alloc(&s->arena, sizeof(*l));
	struct code_object *o = arena_alloc(&s->arena, sizeof(*o));
	struct code_segment *segment = arena_alloc(&s->arena, sizeof(*segment));
	*segment = (struct code_segment){ .file_size = bytes.n, .memory_size = bytes.n, .flags = PF_R | PF_X };
	*o = (struct code_object){ .name = S("code in memory"),
				   .bytes = bytes,
				   .gfx = gfx,
				   .target_id = gfx,
				   .nsegments = 1,
				   .segments = segment,
				   .nsymbols = n,
				   .symbols = arena_copy(&s->arena, functions, n * sizeof(*functions)),
				   .end = bytes.n };
	*l = (struct loaded){ .name = o->name, .object = o, .base = base, .of_memory = true, .bare = true, .bytes = (char *)bytes.p };
	vec_push(&s->objects, l);
	return l;
}

static void loaded_free(struct loaded *l)
{
	code_lines_free(l->lines);
	code_lines_free(l->earlier);
	free(l->bytes);
}

void code_set_drop(struct code_set *s, struct loaded *l)
{
	size_t kept = 0;
	for (size_t i = 0; i < s->objects.len; i++)
		if (s->objects.data[i] != l)
			s->objects.data[kept++] = s->objects.data[i];
	s->objects.len = kept;
	loaded_free(l);
	memset(s->names, 0, sizeof(s->names)); // they are found by address, and other names may soon lie there
}

void code_set_free(struct code_set *s)
{
	for (size_t i = 0; i < s->objects.len; i++)
		loaded_free(s->objects.data[i]);
	vec_free(&s->objects);
	text_free(&s->problems);
	arena_free(&s->arena);
}

struct code_name {
	struct str name, plain;
	struct code_name *next;
};

struct str code_set_name(struct code_set *s, struct str name)
{
	struct code_name **slot = &s->names[((uintptr_t)name.p >> 2) * 0x9e3779b97f4a7c15ull >> 54];
	for (struct code_name *n = *slot; n; n = n->next)
		if (n->name.p == name.p && n->name.n == name.n)
			return n->plain;
	struct code_name *n = arena_alloc(&s->arena, sizeof(*n));
	int64_t begin = now_ms();
	// Names may be written so that each takes seconds.
	*n = (struct code_name){ name, s->demangling < DEMANGLE_MS ? demangle(&s->arena, name) : name, *slot };
	s->demangling += now_ms() - begin;
	*slot = n;
	return n->plain;
}

struct loaded *code_set_find(const struct code_set *s, uint64_t pc)
{
	return list_find_of(s->objects.data, s->objects.len, l,
			    pc >= l->base && pc - l->base >= l->object->begin && pc - l->base < l->object->end);
}

static struct uh_error *out_of_time(const struct loaded *l)
{
	return uh_error_new(STR_FMT ": lines and instructions of the code objects before it took more than %d s",
			    STR_ARG(l->name), CHILDREN_MS / 1000);
}

/** Builds the index for @addresses; NULL: for all. The second time it is always built for all. */
static void ask_lines(struct code_set *s, struct loaded *l, const uint64_t *addresses, size_t n)
{
	if (l->lines_asked == LINES_ALL || l->of_memory)
		return;
	if (l->lines_asked == LINES_SOME)
		addresses = NULL;
	l->lines_asked = addresses ? LINES_SOME : LINES_ALL;
	l->earlier = l->lines;
	l->lines = NULL;
	int64_t begin = now_ms();
	_cleanup_error_ struct uh_error *err =
		s->children > CHILDREN_MS ? out_of_time(l) : code_lines_new(l->name, l->object->bytes, addresses, n, &l->lines);
	s->children += now_ms() - begin;
	if (err)
		text_printf(&s->problems, "%s\n", uh_error_message(err));
	else if (l->lines && code_lines_note(l->lines).n)
		text_printf(&s->problems, "debug information of " STR_FMT ": " STR_FMT "\n", STR_ARG(l->name),
			    STR_ARG(code_lines_note(l->lines)));
}

size_t code_where_frames(const struct where *w, struct code_frame frames[static CODE_FRAMES])
{
	// Padding behind a function still has a line, which is not its own.
	return w->function && w->in->lines ? code_lines_at(w->in->lines, w->address, frames) : 0;
}

static void find_frames(struct code_set *s, struct where *w)
{
	struct code_frame frames[CODE_FRAMES];
	size_t n = code_where_frames(w, frames);
	if (!n)
		return;
	struct code_frame *copy = arena_alloc(&s->arena, n * sizeof(*copy));
	for (size_t i = 0; i < n; i++) {
		copy[i] = frames[i];
		copy[i].function = code_set_name(s, frames[i].function);
	}
	w->frames = copy;
	w->nframes = n;
}

// --- instructions ---

/** Where the code that @w lies in begins, as far as that is known. */
static uint64_t begin_of_code(const struct where *w)
{
	return w->function ? w->function->address : w->in->bare ? 0 : w->address;
}

/** A place before @address that an instruction begins at. */
static uint64_t sync_before(const struct where *w, unsigned context)
{
	uint64_t begin = begin_of_code(w), row;
	uint64_t back = SYNC_BACK + (uint64_t)context * INSTRUCTION_MOST;
	if (w->function && w->offset > back && w->in->lines && code_lines_row(w->in->lines, w->address - back, &row) &&
	    row >= begin)
		return row;
	return begin;
}

struct code_span {
	uint64_t begin, end;
	unsigned wave_size;
};

static int compare_spans(const void *a, const void *b)
{
	const struct code_span *x = a, *y = b;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/** Where the code that @w lies in ends: the function, or the padding before the next one. */
static uint64_t end_of_code(const struct where *w)
{
	const struct code_object *o = w->in->object;
	if (w->function)
		return w->function->address + w->function->size;
	const size_t next = sorted_upto(o->symbols, o->nsymbols, address, w->address);
	return next < o->nsymbols ? o->symbols[next].address : UINT64_MAX;
}

/** Those around a pc, out of the ones of its whole span. An address inside of an instruction belongs to that instruction. */
static void pick_instructions(struct where *w, const struct disassembly *d, unsigned context)
{
	const size_t upto = sorted_upto(d->instructions, d->n, address, w->address), at = upto - 1;
	if (!upto || w->address - d->instructions[at].address >= d->instructions[at].size)
		return;
	uint64_t begin = begin_of_code(w), end = end_of_code(w);
	size_t from = at, to = at + 1;
	while (from && at - from < context && d->instructions[from - 1].address >= begin &&
	       d->instructions[from - 1].address + d->instructions[from - 1].size == d->instructions[from].address)
		from--;
	while (to < d->n && to - at <= context && d->instructions[to].address < end &&
	       d->instructions[to - 1].address + d->instructions[to - 1].size == d->instructions[to].address)
		to++;
	w->instructions = d->instructions + from;
	w->ninstructions = to - from;
	w->here = at - from;
}

/** Instructions for all program counters of an object at once: spans that overlap are merged, because each disassembly costs a child. */
static void find_instructions(struct code_set *s, struct loaded *l, struct where *all, size_t n, unsigned context)
{
	_cleanup_free_ struct code_span *spans = mem_alloc(n * sizeof(*spans) + 1);
	size_t nspans = 0;
	for (size_t i = 0; i < n; i++) {
		const struct where *w = &all[i];
		const struct code_segment *segment =
			list_find(l->object->segments, l->object->nsegments, it,
				  w->address >= it->address && w->address - it->address < it->file_size);
		if (!segment || !(segment->flags & PF_X)) {
			all[i].no_instructions = S("this address has data, not code");
			continue;
		}
		const uint64_t end = end_of_code(w), wanted = w->address + (uint64_t)(context + 1) * INSTRUCTION_MOST;
		spans[nspans++] = (struct code_span){ sync_before(w, context), wanted < end ? wanted : end,
						      w->function && w->function->kernel ? w->function->kernel->wave_size : 0 };
	}
	// Merges spans that overlap: disassembly from the earlier begin reaches the later one at an instruction. Afterwards none overlap.
	size_t kept = 0;
	qsort(spans, nspans, sizeof(*spans), compare_spans);
	for (size_t i = 0; i < nspans; i++) {
		struct code_span *last = kept ? &spans[kept - 1] : NULL;
		if (last && spans[i].begin <= last->end && spans[i].wave_size == last->wave_size) {
			last->end = spans[i].end > last->end ? spans[i].end : last->end;
			continue;
		}
		if (last && spans[i].begin < last->end)
			last->end = spans[i].begin;
		spans[kept++] = spans[i];
	}
	nspans = kept;
	_cleanup_free_ struct code_range *ranges = mem_alloc(nspans * sizeof(*ranges) + 1);
	for (size_t i = 0; i < nspans; i++)
		ranges[i] = (struct code_range){ spans[i].begin,
						 str_cut(code_object_at(l->object, spans[i].begin),
							 (size_t)(spans[i].end - spans[i].begin)),
						 spans[i].wave_size };
	struct disassembly d = { 0 };
	int64_t begin = now_ms();
	_cleanup_error_ struct uh_error *err = !nspans ? NULL :
					       s->children > CHILDREN_MS ?
							 out_of_time(l) :
							 disassemble(&s->arena, l->object->target_id, ranges, nspans, &d);
	s->children += now_ms() - begin;
	if (d.refused && !s->refused)
		text_printf(&s->problems, "%s\n", s->refused = d.refused);
	struct str why = err ? arena_str(&s->arena, str_z(uh_error_message(err))) : (struct str){ 0 };
	for (size_t i = 0; i < n; i++) {
		if (all[i].no_instructions.n)
			continue;
		all[i].no_instructions = why;
		if (!err)
			pick_instructions(&all[i], &d, context);
	}
}

void code_where_expect(struct code_set *s, struct loaded *l, const uint64_t *pcs, size_t n)
{
	_cleanup_free_ uint64_t *addresses = mem_alloc(n * sizeof(*addresses) + 1);
	for (size_t i = 0; i < n; i++)
		addresses[i] = pcs[i] - l->base;
	ask_lines(s, l, addresses, n);
}

struct where code_where_one(struct code_set *s, struct loaded *l, uint64_t pc, const struct code_symbol *function)
{
	struct where w = { .pc = pc, .in = l, .address = pc - l->base, .function = function };
	if (function) {
		w.offset = w.address - function->address;
		w.name = code_set_name(s, function->name);
	}
	return w;
}

void code_where_in(struct code_set *s, struct loaded *l, const uint64_t *pcs, size_t n, int context, struct where *ret)
{
	if (context < 0)
		code_where_expect(s, l, pcs, n);
	else
		ask_lines(s, l, NULL, 0); // where instructions begin is asked for between them
	for (size_t i = 0; i < n; i++) {
		ret[i] = code_where_one(s, l, pcs[i], code_object_symbol(l->object, pcs[i] - l->base));
		find_frames(s, &ret[i]);
	}
	if (n && context >= 0)
		find_instructions(s, l, ret, n, (unsigned)context);
}

void code_where(struct code_set *s, const uint64_t *pcs, size_t n, int context, struct where *ret)
{
	_cleanup_free_ uint64_t *mine = mem_alloc(n * sizeof(*mine) + 1);
	_cleanup_free_ size_t *slots = mem_alloc(n * sizeof(*slots) + 1);
	_cleanup_free_ struct where *found = mem_alloc(n * sizeof(*found) + 1);
	for (size_t i = 0; i < n; i++)
		ret[i] = (struct where){ .pc = pcs[i], .in = code_set_find(s, pcs[i]) };
	for (size_t o = 0; o < s->objects.len; o++) {
		size_t k = 0;
		for (size_t i = 0; i < n; i++)
			if (ret[i].in == s->objects.data[o]) {
				slots[k] = i;
				mine[k++] = pcs[i];
			}
		if (!k)
			continue;
		code_where_in(s, s->objects.data[o], mine, k, context, found);
		for (size_t i = 0; i < k; i++)
			ret[slots[i]] = found[i];
	}
}
