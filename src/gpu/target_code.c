// The code that the waves of a target ran, and the arguments of their kernels.
//
// A file on the disk may be of another build than what was loaded. So a file is taken only if everything of it that memory has besides the
// code is equal; code that differs then is told, because something has overwritten it. What no file has is taken from memory itself.
#include "gpu/target_code.h"

#include <elf.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "code/names.h"

enum {
	OBJECT_MOST = 1 << 30,
	IMAGE_MOST = 256 << 20, // a segment of an object that only memory has
	IMAGES_MOST = 1 << 30,  // all of them
	SEGMENTS_MOST = 64,
	PAGE = 4096,
	OBJECTS_MOST = 1024, // are loaded
	SEARCHES_MOST = 64,
	SEARCH_PAGES = 16384, // how far before a pc the beginning of its object is looked for
	COMPARE_CHUNK = 64 << 10,
	BARE_BEFORE = 4096,       // how far before a pc a loop around it may begin
	BARE_BEHIND = 1024,       // how much code behind a pc is taken
};

void target_code_open(struct target_code *c, struct target *t, const struct code_places *places)
{
	*c = (struct target_code){ .target = t, .places = places };
}

void target_code_close(struct target_code *c)
{
	code_set_free(&c->set);
	vec_free(&c->tried);
	vec_free(&c->differences);
}

// --- memory against file ---

struct comparison {
	uint64_t compared, different, first; // bytes; the address of the first that differs
	uint32_t expected, found;
};

/** Holds the segments of an object, code or the rest, against the target's memory. */
static void target_code_compare_segments(struct target *t, const struct loaded *l, bool code, struct comparison *c)
{
	_cleanup_free_ char *memory = mem_alloc(COMPARE_CHUNK);
	for (size_t i = 0; i < l->object->nsegments; i++) {
		const struct code_segment *s = &l->object->segments[i];
		// What can be written was written: data and relocated pointers.
		if (!!(s->flags & PF_X) != code || s->flags & PF_W)
			continue;
		struct str bytes = str_cut(code_object_at(l->object, s->address), s->file_size);
		for (size_t at = 0; at < bytes.n; at += COMPARE_CHUNK) {
			size_t n = bytes.n - at < COMPARE_CHUNK ? bytes.n - at : COMPARE_CHUNK;
			if (!target_memory(t, l->base + s->address + at, memory, n))
				break;
			c->compared += n;
			if (!memcmp(memory, bytes.p + at, n))
				continue;
			for (size_t k = 0; k < n; k++) {
				if (memory[k] == bytes.p[at + k])
					continue;
				size_t word = k & ~3ull, whole = n - word < 4 ? n - word : 4;
				if (c->different++)
					continue;
				c->first = s->address + at + k;
				memcpy(&c->expected, bytes.p + at + word, whole);
				memcpy(&c->found, memory + word, whole);
			}
		}
	}
}

// --- objects ---

/** The object as it lies in memory, with headers that say so: nothing but its segments was loaded. */
static char *memory_image(struct target_code *c, uint64_t base, size_t *ret_size)
{
	struct target *t = c->target;
	Elf64_Ehdr e;
	Elf64_Phdr p[SEGMENTS_MOST];
	if (!target_memory(t, base, &e, sizeof(e)) || memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_ident[EI_CLASS] != ELFCLASS64 ||
	    e.e_machine != EM_AMDGPU || e.e_phentsize != sizeof(*p) || !e.e_phnum || e.e_phnum > SEGMENTS_MOST ||
	    e.e_phoff > PAGE || !target_memory(t, base + e.e_phoff, p, e.e_phnum * sizeof(*p)))
		return NULL;
	uint64_t end = e.e_phoff + e.e_phnum * sizeof(*p), loads = 0;
	for (unsigned i = 0; i < e.e_phnum; i++) {
		if (p[i].p_type != PT_LOAD)
			continue;
		if (p[i].p_vaddr > IMAGE_MOST || p[i].p_filesz > IMAGE_MOST)
			return NULL;
		loads += p[i].p_filesz;
		if (p[i].p_vaddr + p[i].p_filesz > end)
			end = p[i].p_vaddr + p[i].p_filesz;
	}
	if (end < sizeof(e) || loads > IMAGES_MOST - c->images || end > IMAGES_MOST - c->images)
		return NULL;
	c->images += loads > end ? loads : end;
	char *bytes = mem_alloc(end);
	for (unsigned i = 0; i < e.e_phnum; i++) {
		// Pages that the core lacks are left out; the others still name kernels.
		if (p[i].p_type == PT_LOAD)
			for (uint64_t at = 0; at < p[i].p_filesz; at += PAGE)
				target_memory(t, base + p[i].p_vaddr + at, bytes + p[i].p_vaddr + at,
					      p[i].p_filesz - at < PAGE ? p[i].p_filesz - at : PAGE);
		p[i].p_offset = p[i].p_vaddr;
	}
	e.e_shoff = e.e_shnum = e.e_shstrndx = 0;
	memcpy(bytes, &e, sizeof(e));
	memcpy(bytes + e.e_phoff, p, e.e_phnum * sizeof(*p));
	*ret_size = end;
	return bytes;
}

struct code_taking {
	struct target_code *code;
	uint64_t base;
	struct loaded *loaded;
	bool another_build;
	bool guess; // nothing but the bytes shows that this is the right file
};

/** A file belongs to the loaded object if everything around the code is equal. Then the code should be equal too. */
static bool target_code_take_file(void *ctx, struct str name, char *bytes, size_t size)
{
	struct code_taking *t = ctx;
	struct target_code *c = t->code;
	size_t before = c->set.problems.n;
	_cleanup_free_ char *unused = t->loaded ? bytes : NULL;
	if (unused)
		return true;
	struct loaded *l = code_set_take(&c->set, name, bytes, size, t->base);
	if (!l) {
		c->set.problems.n = before; // other candidates may do
		return false;
	}
	struct comparison rest = { 0 }, text = { 0 };
	target_code_compare_segments(c->target, l, false, &rest);
	target_code_compare_segments(c->target, l, true, &text);
	if (rest.different || (t->guess && !rest.compared && !text.compared)) {
		t->another_build |= rest.different;
		code_set_drop(&c->set, l);
		return false;
	}
	if (text.different)
		vec_push(&c->differences,
			 ((struct code_difference){ l, l->base + text.first, text.different, text.expected, text.found }));
	t->loaded = l;
	return true;
}

static bool take_memory_uri(struct code_taking *t, struct str uri)
{
	_cleanup_arena_ struct arena arena = { 0 };
	struct target *target = t->code->target;
	struct code_uri u;
	char last;
	// The last byte first: no room is made for a size that the core does not have.
	if (!code_uri_parse(&arena, uri, &u) || !u.memory || !u.has_range || !u.size || u.size > OBJECT_MOST ||
	    !target_memory(target, u.offset + u.size - 1, &last, 1))
		return false;
	_cleanup_free_ char *bytes = mem_alloc(u.size + 1);
	return target_memory(target, u.offset, bytes, u.size) && target_code_take_file(t, uri, take_ptr(bytes), u.size);
}

static struct loaded *take_image(struct target_code *c, uint64_t base, struct str name)
{
	size_t size;
	char *bytes = memory_image(c, base, &size);
	struct loaded *l = bytes ? code_set_take(&c->set, name, bytes, size, base) : NULL;
	if (l)
		l->of_memory = true;
	return l;
}

static void load_object(struct target_code *c, const struct loaded_code *code)
{
	struct code_taking t = { .code = c, .base = code->base };
	struct code_taker taker = { target_code_take_file, &t };
	if (take_memory_uri(&t, code->uri) || code_places_find(c->places, code->uri, &taker))
		return;
	t.guess = true;
	if (code_places_any(c->places, &taker))
		return;
	if (t.another_build)
		text_printf(&c->set.problems,
			    STR_FMT ": the file is of another build than the code in the core; its lines would be wrong\n",
			    STR_ARG(code->uri));
	take_image(c, code->base, code->uri);
}

/** Without the runtime's list: objects begin with an ELF header on a page, in the same range as their code. */
static void search_object(struct target_code *c, uint64_t address)
{
	uint64_t page = address & ~(PAGE - 1ull);
	for (unsigned i = 0; i < SEARCH_PAGES && page >= PAGE; i++, page -= PAGE) {
		char magic[SELFMAG];
		if (!target_memory(c->target, page, magic, sizeof(magic)))
			break;
		if (memcmp(magic, ELFMAG, SELFMAG))
			continue;
		struct code_taking t = { .code = c, .base = page, .guess = true };
		struct code_taker taker = { target_code_take_file, &t };
		struct loaded *image = take_image(c, page, S("code in memory"));
		if (!image)
			return;
		bool inside = address - page < image->object->end;
		if (inside)
			code_places_all(c->places, &taker, NULL);
		if (!inside || t.loaded)
			code_set_drop(&c->set, image);
		return;
	}
}

struct loaded *target_code_need(struct target_code *c, uint64_t address)
{
	struct loaded *l = code_set_find(&c->set, address);
	if (l || !address)
		return l;
	// Of the runtime's list the last object that begins at or before the address.
	struct request r = { .kind = REQUEST_CODE };
	target_ask(c->target, &r);
	const size_t before = sorted_upto(r.code, r.n, base, address);
	const struct loaded_code *best = before ? &r.code[before - 1] : NULL;
	uint64_t key = best ? best->base : address & ~(PAGE - 1ull);
	if (list_find(c->tried.data, c->tried.len, it, *it == key) || c->tried.len >= (best ? OBJECTS_MOST : SEARCHES_MOST))
		return NULL;
	vec_push(&c->tried, key);
	if (c->tried.len == OBJECTS_MOST)
		text_printf(&c->set.problems, "more than %d code objects were running: the rest is not loaded\n", OBJECTS_MOST);
	if (best)
		load_object(c, best);
	else
		search_object(c, address);
	return code_set_find(&c->set, address);
}

const struct code_kernel *target_code_kernel(struct target_code *c, uint64_t kernel_object)
{
	struct loaded *l = target_code_need(c, kernel_object);
	return l ? list_find(l->object->kernels, l->object->nkernels, it, l->base + it->descriptor == kernel_object) : NULL;
}

// --- code without an object ---

/** What is there from @address on, at most @size bytes; *@ret is malloc'ed. */
static size_t read_bare(struct target_code *c, uint64_t address, size_t size, char **ret)
{
	char *bytes = mem_alloc(size + 1);
	size_t n = 0;
	while (n < size) {
		const size_t left = PAGE - (address + n) % PAGE, part = left < size - n ? left : size - n;
		if (!target_memory(c->target, address + n, bytes + n, part))
			break;
		n += part;
	}
	*ret = bytes;
	return n;
}

/** Where a loop around a pc begins, which is an instruction: the furthest place before it that the code behind it branches back to. */
static uint64_t loop_begin(struct target_code *c, uint64_t pc)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_free_ char *bytes = NULL;
	const size_t n = read_bare(c, pc, BARE_BEHIND, &bytes);
	struct code_range range = { .begin = pc, .bytes = { bytes, n & ~(size_t)3 } };
	struct disassembly d = { 0 };
	uint64_t begin = pc;
	_cleanup_error_ struct uh_error *err = range.bytes.n ? disassemble(&a, c->bare_gfx, &range, 1, &d) : NULL;
	for (size_t i = 0; i < d.n; i++) {
		const uint64_t to = d.instructions[i].target;
		if (to && to < begin && pc - to <= BARE_BEFORE)
			begin = to;
		if (str_starts(d.instructions[i].text, S("s_endpgm")))
			break;
	}
	return begin;
}

/** The code around pcs that lie in no object. They are sorted; those beside each other are taken together. */
static void take_bare(struct target_code *c, const uint64_t *pcs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!pcs[i] || code_set_find(&c->set, pcs[i]))
			continue;
		const size_t before = sorted_upto(c->starts, c->nstarts, address, pcs[i]);
		const struct code_symbol *start = before ? &c->starts[before - 1] : NULL;
		if (start && pcs[i] - start->address >= CODE_FUNCTION_MOST)
			start = NULL;
		const uint64_t begin = start ? start->address : loop_begin(c, pcs[i]);
		uint64_t end = pcs[i] + BARE_BEHIND;
		for (size_t k = i + 1; k < n && pcs[k] < end; k++)
			end = pcs[k] + BARE_BEHIND;
		char *bytes;
		const size_t size = read_bare(c, begin, (size_t)(end - begin), &bytes) & ~(size_t)3;
		const struct code_symbol function = { .name = start ? start->name : (struct str){ 0 }, .size = size };
		if (size > pcs[i] - begin)
			code_set_take_bare(&c->set, c->bare_gfx, (struct str){ bytes, size }, begin, &function, start ? 1 : 0);
		else
			free(bytes);
	}
}

const struct where **target_code_pcs(struct target_code *c, const uint64_t *wanted, size_t n, int context)
{
	const struct where **ret = arena_alloc(&c->set.arena, n * sizeof(*ret) + 1);
	_cleanup_free_ uint64_t *pcs = mem_alloc(n * sizeof(*pcs) + 1);
	size_t distinct = 0;
	memcpy(pcs, wanted, n * sizeof(*pcs));
	qsort(pcs, n, sizeof(*pcs), compare_numbers);
	for (size_t i = 0; i < n; i++)
		if (!i || pcs[i] != pcs[distinct - 1])
			pcs[distinct++] = pcs[i];
	for (size_t i = 0; i < distinct && !c->bare_only; i++)
		target_code_need(c, pcs[i]);
	if (c->bare_gfx.n)
		take_bare(c, pcs, distinct);
	struct where *found = arena_alloc(&c->set.arena, distinct * sizeof(*found) + 1);
	code_where(&c->set, pcs, distinct, context, found);
	for (size_t i = 0; i < n; i++)
		ret[i] = found + ((uint64_t *)bsearch(&wanted[i], pcs, distinct, sizeof(*pcs), compare_numbers) - pcs);
	return ret;
}

const struct where **target_code_waves(struct target_code *c, const struct wave *waves, size_t n, int context)
{
	_cleanup_free_ uint64_t *pcs = mem_alloc(n * sizeof(*pcs) + 1);
	for (size_t i = 0; i < n; i++)
		pcs[i] = waves[i].at;
	return target_code_pcs(c, pcs, n, context);
}

struct str target_code_kernel_name(struct target_code *c, const struct wave *w, const struct where *at)
{
	struct dispatch d;
	// Thousands of waves are of one dispatch.
	if (w->dispatched && (c->queue != w->queue || c->packet != w->packet)) {
		c->kernel = wave_dispatch(c->target, w, &d) ? target_code_kernel(c, d.kernel_object) : NULL;
		c->queue = w->queue;
		c->packet = w->packet;
	}
	if (w->dispatched && c->kernel)
		return code_set_name(&c->set, c->kernel->name);
	return at->function && at->function->kernel ? at->name : (struct str){ 0 };
}

void code_difference_say(const struct code_difference *d, struct text *out)
{
	const struct loaded *l = d->in;
	const struct code_symbol *f = code_object_symbol(l->object, d->address - l->base);
	text_printf(out, "code in memory differs from its file " STR_FMT ": %llu bytes, the first at 0x%llx", STR_ARG(l->name),
		    (unsigned long long)d->bytes, (unsigned long long)d->address);
	if (f)
		text_printf(out, " (" STR_FMT " +0x%llx)", STR_ARG(f->name),
			    (unsigned long long)(d->address - l->base - f->address));
	text_printf(out, ": 0x%08x instead of 0x%08x", d->found, d->expected);
}

enum { SEGMENT_MOST = 64 << 10, HEX_FROM = 1 << 24 };

size_t dispatch_arguments(struct target *t, const struct code_kernel *k, const struct dispatch *d, struct kernel_argument *ret,
			  size_t most)
{
	size_t n = 0;
	for (size_t i = 0; k && i < k->narguments && n < most; i++) {
		const struct code_argument *a = &k->arguments[i];
		if (str_starts(a->value_kind, S("hidden_")))
			continue;
		struct kernel_argument *x = &ret[n++];
		size_t size = a->size < ARGUMENT_BYTES ? a->size : ARGUMENT_BYTES;
		*x = (struct kernel_argument){ .what = a };
		x->pointer = a->size == 8 &&
			     (str_is(a->value_kind, "global_buffer") || str_is(a->value_kind, "dynamic_shared_pointer"));
		x->known = a->offset < SEGMENT_MOST && d->kernarg && target_contents(t, d->kernarg + a->offset, x->bytes, size);
		uint8_t word[8] = { 0 };
		memcpy(word, x->bytes, size < 8 ? size : 8);
		x->value = get_u64(word);
	}
	return n;
}

static void say_value(struct text *out, struct arena *a, const struct kernel_argument *x, const struct address_range *map,
		      size_t nmap)
{
	if (!x->known) {
		text_add(out, S("?"));
	} else if (x->pointer) {
		struct map_place p = nmap ? map_locate(map, nmap, x->value) : (struct map_place){ 0 };
		text_printf(out, "0x%llx", (unsigned long long)x->value);
		if (nmap && (p.relation != MAP_INSIDE || p.distance))
			text_printf(out, " (" STR_FMT ")", STR_ARG(map_say(a, &p)));
		else if (nmap)
			text_printf(out, " (a buffer of " STR_FMT ")", STR_ARG(map_size_say(a, p.range.end - p.range.begin)));
	} else if (x->what->size > 8) {
		text_printf(out, "%u bytes", x->what->size);
	} else {
		text_printf(out, x->value < HEX_FROM ? "%llu" : "0x%llx", (unsigned long long)x->value);
	}
}

struct str arguments_say(struct arena *a, const struct kernel_argument *args, size_t n, const struct address_range *map,
			 size_t nmap)
{
	_cleanup_text_ struct text out = { 0 };
	for (size_t i = 0; i < n; i++) {
		text_printf(&out, "%s", i ? ", " : "");
		if (args[i].what->name.n)
			text_printf(&out, STR_FMT " = ", STR_ARG(args[i].what->name));
		say_value(&out, a, &args[i], map, nmap);
	}
	return arena_str(a, text_str(&out));
}
