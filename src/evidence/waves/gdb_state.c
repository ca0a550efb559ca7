// What a transcript of gdb shows of the waves it stopped: registers, code objects and instructions, in the order in which somebody asked for
// them. All of it is kept by the pc that was looked at, because a transcript goes back and forth between threads.
#include "evidence/waves/gdb_state.h"

#include <stdlib.h>

#include "code/names.h"
#include "evidence/waves/wave_code.h"

enum {
	LIBRARIES_MAX = 256,
	POINTS_MAX = 64,
	BLOCKS_MAX = 16,
	REGISTERS_MAX = 1024, // of a block
	KEPT_BYTES = 4 << 20,
	NAME_BYTES = 2048,
	TRIES = 4, // functions whose objects are looked for
};

struct gdb_library {
	uint64_t from, to; // of its section .text
	struct str uri;
};

/** An instruction that was shown, with the function it is in. */
struct point {
	uint64_t pc;
	struct str function; // empty: not told
	uint64_t function_at;
	struct str instruction; // empty: not told
};

/** Registers of one wave. */
struct gdb_block {
	uint64_t pc;
	struct register_set registers;
};

struct gdb_state {
	struct arena arena;
	uint64_t pc; // of what is looked at
	VEC(struct gdb_library) libraries;
	VEC(struct point) points;
	size_t nblocks;
	struct gdb_block blocks[BLOCKS_MAX];
	bool in_block;
	uint64_t *open;  // lanes of a register whose value goes on in the next line
	struct str dump; // the function that is disassembled
};

struct gdb_state *gdb_state_new(void) { return mem_alloc(sizeof(struct gdb_state)); }

void gdb_state_free(struct gdb_state *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->nblocks; i++)
		vec_free(&s->blocks[i].registers);
	vec_free(&s->libraries);
	vec_free(&s->points);
	arena_free(&s->arena);
	free(s);
}

static bool is_full(const struct gdb_state *s) { return s->arena.total > KEPT_BYTES; }

void gdb_state_turn(struct gdb_state *s, uint64_t pc)
{
	s->pc = pc;
	s->in_block = false;
	s->open = NULL;
}

uint64_t gdb_state_pc(const struct gdb_state *s) { return s->pc; }

// --- frames ---

bool gdb_frame_is(struct str text)
{
	return (str_starts(text, S("0x")) && str_find(text, S(" in ")) > 0) ||
	       (str_find(text, S(" (")) > 0 && str_find(text, S(") at ")) > 0);
}

void gdb_frame_parse(struct str frame, uint64_t *ret_pc, struct str *ret_function, struct str *ret_source)
{
	struct str rest = str_trim(frame), word = rest, first = str_word(&word);
	*ret_pc = 0;
	if (str_starts(first, S("0x")) && str_hex(first, ret_pc)) {
		rest = str_trim(word);
		if (str_starts(rest, S("in ")))
			rest = str_from(rest, 3);
	}
	ptrdiff_t open = str_find(rest, S(" ("));
	*ret_function = str_trim(open < 0 ? rest : str_cut(rest, (size_t)open));
	*ret_source = (struct str){ 0 };
	for (ptrdiff_t at; (at = str_find(rest, S(" at "))) >= 0; rest = str_from(rest, (size_t)at + 4)) {
		struct str after = str_from(rest, (size_t)at + 4), name = str_word(&after);
		if (str_find(name, S(":")) > 0)
			*ret_source = name;
	}
}

// --- code objects ---

/** `0x7f00  0x7f80  Yes (*)     file:///tmp/a.out#offset=8192&size=9000`; also libraries of the host, whose URI is empty. */
static bool parse_library(struct str text, struct gdb_library *ret)
{
	struct str rest = text, from = str_word(&rest), to = str_word(&rest);
	if (!str_starts(from, S("0x")) || !str_starts(to, S("0x")) || !str_hex(from, &ret->from) || !str_hex(to, &ret->to))
		return false;
	ptrdiff_t file = str_find(rest, S(" file://")), memory = str_find(rest, S(" memory://"));
	ret->uri = file < 0 && memory < 0 ? (struct str){ 0 } : str_trim(str_from(rest, (size_t)(file < 0 ? memory : file)));
	rest = str_trim(rest);
	return ret->uri.n || str_starts(rest, S("Yes")) || str_starts(rest, S("No"));
}

bool gdb_state_library(struct str text)
{
	struct gdb_library l;
	return str_starts(str_trim(text), S("0x")) && parse_library(text, &l) && l.uri.n;
}

static bool library_line(struct gdb_state *s, struct str text)
{
	struct gdb_library l;
	if (!parse_library(text, &l))
		return str_starts(text, S("From ")) && str_find(text, S("Shared Object Library")) > 0;
	if (l.uri.n && l.from < l.to && s->libraries.len < LIBRARIES_MAX && !is_full(s)) {
		l.uri = arena_str(&s->arena, str_cut(l.uri, NAME_BYTES));
		vec_push(&s->libraries, l);
	}
	return true;
}

// --- instructions ---

/** Where `>` or `>:` ends a name, which may have both in it; -1 where nothing does. */
static ptrdiff_t name_end(struct str text)
{
	for (size_t i = 0; i + 1 < text.n; i++)
		if (text.p[i] == '>' && text.p[i + 1] == ':' && (i + 2 == text.n || char_space(text.p[i + 2])))
			return (ptrdiff_t)i;
	return str_ends(text, S(">")) ? (ptrdiff_t)text.n - 1 : -1;
}

/** `<saxpy(int*)+52>: ...` or, in a dump of one function, `<+52>: ...`; false where it is neither. @ret_rest: what follows. */
static bool parse_offset(struct str text, struct str *ret_function, uint64_t *ret_offset, struct str *ret_rest)
{
	ptrdiff_t end = name_end(text);
	int64_t offset = 0;
	if (!str_starts(text, S("<")) || end < 2)
		return false;
	struct str inner = str_cut(str_from(text, 1), (size_t)end - 1);
	const char *plus = memrchr(inner.p, '+', inner.n);
	size_t length = plus ? (size_t)(plus - inner.p) : inner.n;
	if (plus && (!str_number(str_from(inner, length + 1), &offset) || offset < 0)) {
		length = inner.n;
		offset = 0;
	}
	*ret_function = str_cut(inner, length);
	*ret_offset = (uint64_t)offset;
	*ret_rest = str_from(text, (size_t)end + 2);
	return true;
}

static void add_point(struct gdb_state *s, struct point p)
{
	for (size_t i = 0; i < s->points.len; i++)
		if (s->points.data[i].pc == p.pc && s->points.data[i].instruction.n >= p.instruction.n)
			return;
	if (s->points.len == POINTS_MAX || is_full(s))
		return;
	p.function = arena_str(&s->arena, str_cut(p.function, NAME_BYTES));
	p.instruction = arena_str(&s->arena, str_cut(p.instruction, 160));
	vec_push(&s->points, p);
}

/** `=> 0x7fffe1402a40 <stencil3+320>:	s_endpgm`; one that is not the pc's says no more than where its function is. */
static bool instruction_line(struct gdb_state *s, struct str text)
{
	bool here = str_starts(text, S("=> "));
	struct str rest = str_trim(here ? str_from(text, 3) : text), address = str_word(&rest);
	struct point p = { 0 };
	uint64_t offset = 0;
	rest = str_trim(rest);
	if (str_ends(address, S(":")) && here) // in no function that has a name
		address = str_cut(address, address.n - 1);
	else if (!parse_offset(rest, &p.function, &offset, &rest))
		return false;
	if (!str_starts(address, S("0x")) || !str_hex(address, &p.pc))
		return false;
	if (!p.function.n)
		p.function = s->dump;
	p.function_at = offset < p.pc ? p.pc - offset : 0;
	if (here) {
		p.instruction = str_trim(rest);
		s->pc = s->pc ? s->pc : p.pc;
		add_point(s, p);
	} else if (!s->points.len || s->points.data[s->points.len - 1].function_at != p.function_at) {
		add_point(s, p);
	}
	return true;
}

static bool dump_line(struct gdb_state *s, struct str text)
{
	struct str name = { 0 };
	const bool begins = str_behind(text, S("Dump of assembler code for function "), &name);
	if (!begins && !str_starts(text, S("End of assembler dump")))
		return false;
	name = str_cut(name, begins ? name.n - str_ends(name, S(":")) : 0);
	s->dump = is_full(s) ? (struct str){ 0 } : arena_str(&s->arena, str_cut(name, NAME_BYTES));
	return true;
}

// --- registers ---

static bool is_register(struct str name)
{
	const char *named = "pc|exec|vcc|m0|flat_scratch|xnack_mask|wave_id|mode|status|trapsts|xcc_id|scc";
	const size_t letters = str_starts(name, S("ttmp")) ? 4 : name.n && memchr("vsa", name.p[0], 3) ? 1 : name.n;
	const size_t digits = str_run(str_from(name, letters), char_digit);
	return str_among(name, STR_EQUALS, named).n || (digits && digits <= 4 && letters + digits == name.n);
}

/** `0x0, 0x4, 0x8 <repeats 62 times>}`: lanes from the first that is still unknown. Returns whether it goes on in the next line. */
static bool read_lanes(uint64_t lanes[static WAVE_LANES], struct str text, size_t *ret_n)
{
	size_t n = 0;
	while (n < WAVE_LANES && lanes[n] != UINT64_MAX)
		n++;
	bool closed = memchr(text.p, '}', text.n);
	struct str inner = str_split(&text, '}');
	for (struct str word = str_word(&inner); word.n; word = str_word(&inner)) {
		int64_t times;
		uint64_t value;
		struct str number = str_ends(word, S(",")) ? str_cut(word, word.n - 1) : word;
		if (str_is(word, "<repeats") && n) {
			if (!str_number(str_word(&inner), &times) || times < 1)
				break;
			for (uint64_t last = lanes[n - 1]; --times && n < WAVE_LANES;)
				lanes[n++] = last;
		} else if (str_starts(number, S("0x")) && str_hex(number, &value) && n < WAVE_LANES) {
			lanes[n++] = value;
		}
	}
	*ret_n = n;
	return !closed && n < WAVE_LANES;
}

static void gdb_state_keep_register(struct gdb_state *s, struct str name, struct str value)
{
	bool vector = str_starts(value, S("{"));
	struct gdb_block *b = s->in_block ? &s->blocks[s->nblocks - 1] : NULL;
	// What is shown again is of another time.
	const bool another = !b || wave_register_named(&b->registers, name);
	if (is_full(s) || (another && s->nblocks == BLOCKS_MAX))
		return;
	if (another) {
		s->in_block = true;
		b = &s->blocks[s->nblocks++];
		b->pc = s->pc;
	}
	if (b->registers.len == REGISTERS_MAX)
		return;
	uint64_t *data = vector ? wave_register_lanes(&s->arena) : arena_alloc(&s->arena, sizeof(*data));
	struct wave_register v = { .group = vector ? S("vector") : S("scalar"),
				   .name = arena_str(&s->arena, name),
				   .digits = 8,
				   .n = 1,
				   .data = data };
	if (vector) {
		s->open = read_lanes(data, str_from(value, 1), &v.n) ? data : NULL;
	} else {
		struct str number = str_word(&value);
		str_hex(number, data);
		v.digits = name.p[0] == 's' && name.n > 1 && char_digit(name.p[1]) ? 8 : 16;
	}
	if (str_is(name, "pc"))
		b->pc = s->pc = data[0];
	wave_register_add(&b->registers, v);
}

/** `s41            0x0                 0` */
static bool gdb_state_register_line(struct gdb_state *s, struct str text)
{
	struct str rest = text, name = str_word(&rest), number, function;
	uint64_t value, offset;
	if (s->open && (str_starts(text, S("0x")) || str_starts(text, S("<repeats")))) {
		struct gdb_block *b = &s->blocks[s->nblocks - 1];
		s->open = read_lanes(s->open, text, &b->registers.data[b->registers.len - 1].n) ? s->open : NULL;
		return true;
	}
	s->open = NULL;
	rest = str_trim(rest);
	number = rest;
	number = str_word(&number);
	if (!is_register(name) || !(str_starts(rest, S("{0x")) || (str_starts(number, S("0x")) && str_hex(number, &value))))
		return false;
	gdb_state_keep_register(s, name, rest);
	ptrdiff_t open = str_is(name, "pc") ? str_find(rest, S("<")) : -1;
	if (open > 0 && parse_offset(str_from(rest, (size_t)open), &function, &offset, &rest) && offset < value)
		add_point(s, (struct point){ .pc = value, .function = function, .function_at = value - offset });
	return true;
}

bool gdb_state_line(struct gdb_state *s, struct str text)
{
	struct str shown = text;
	if (str_behind(text, S("(gdb)"), &shown) && !shown.n)
		return false;
	return gdb_state_register_line(s, shown) || library_line(s, shown) || instruction_line(s, shown) || dump_line(s, shown);
}

// --- what the code says ---

/** Whether the code has the instruction that was shown there, and the frame's function is that of the code, or one that was inlined. */
static bool gdb_state_fits(const struct gdb_state *s, const struct where *at, const struct wave *w)
{
	for (size_t i = 0; i < s->points.len; i++) {
		const struct point *p = &s->points.data[i];
		if (p->pc == w->pc && p->instruction.n && !wave_code_is(at, p->instruction))
			return false;
	}
	const struct str bare = bare_name(w->kernel);
	bool fits = !bare.n || str_find(at->function->name, bare) >= 0;
	for (size_t i = 0; i < at->nframes && !fits; i++)
		fits = str_find(at->frames[i].function, bare) >= 0;
	return fits;
}

/** By the library that the pc is in, or else by the functions nearest before it. */
const struct where *gdb_state_code(const struct gdb_state *s, const struct artefact_output *out, const struct wave *w,
				   struct str gfx)
{
	if (!out->code || !w->pc)
		return NULL;
	for (size_t i = s->libraries.len; i--;) {
		const struct gdb_library *l = &s->libraries.data[i];
		const struct code_anchor anchor = { .uri = l->uri, .text_at = l->from };
		const struct where *at =
			w->pc >= l->from && w->pc < l->to ? code_shelf_where(out->code, out->name, &anchor, w->pc) : NULL;
		if (at && gdb_state_fits(s, at, w))
			return at;
	}
	uint64_t below = w->pc;
	for (int tries = 0; tries < TRIES; tries++) {
		const struct point *nearest = NULL;
		for (size_t i = 0; i < s->points.len; i++) {
			const struct point *p = &s->points.data[i];
			if (p->function.n && p->function_at && p->function_at <= below &&
			    (!nearest || p->function_at > nearest->function_at))
				nearest = p;
		}
		if (!nearest)
			return NULL;
		const struct code_anchor anchor = { .function = nearest->function,
						    .function_at = nearest->function_at,
						    .gfx = gfx };
		const struct where *at = code_shelf_where(out->code, out->name, &anchor, w->pc);
		if (at && gdb_state_fits(s, at, w))
			return at;
		below = nearest->function_at - 1;
	}
	return NULL;
}

struct register_set gdb_state_registers(const struct gdb_state *s, uint64_t pc)
{
	struct register_set found = { 0 };
	for (size_t i = 0; i < s->nblocks && pc; i++)
		if (s->blocks[i].pc == pc)
			found = s->blocks[i].registers;
	return found;
}

struct str gdb_state_instruction(const struct gdb_state *s, uint64_t pc)
{
	for (size_t i = 0; i < s->points.len && pc; i++)
		if (s->points.data[i].pc == pc && s->points.data[i].instruction.n)
			return s->points.data[i].instruction;
	return (struct str){ 0 };
}
