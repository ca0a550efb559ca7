// Wave dumps of rocm-debug-agent: one block for each wave, of any number. Waves that stopped at the same place for the same
// reason are one group; the registers, local memory and disassembly of its first wave are kept.
//
//   wave_1: pc=0x7fd4f100d0e8 (kernel_code_entry=0x… <name>) (stopped, reason: ASSERT_TRAP)
//   vector registers:
//               v0: [0] 00000000 [1] …
//   Local memory content:
//       0x0000: 22222222 11111111 …
//   Disassembly for function name:
//    => 0x7fd4f100d0e8 <+232>:    s_trap 2
//
// The first generation (ROCm 1.9 to 3.5) counted the waves itself:
//
//   64 wavefront(s) found in @PC: 0x00007F63364042EC
//      EXEC: 0xFFFFFFFFFFFFFFFF
//        s0: 0x3B6D8000    s1: 0x00007F64
//   Lane 0x0
//        v0: 0x0000000C    v1: 0x3B670000
#include <stdlib.h>

#include "evidence/artefact.h"
#include "evidence/lanes.h"
#include "evidence/wave_code.h"
#include "gpu/wave_groups.h"

enum {
	GROUPS_FULL = 16, // groups of which a wave is kept with all it has
	GROUPS_MAX = 256,
	TOLD_MAX = 12,
	HEADER_LINES = 40, // over which a kernel's name may be wrapped
	NAME_BYTES = 2048,
	REGISTERS_MAX = 1024,
	WAVE_BYTES = 2 << 20,
	LOCAL_WORDS = 16384,
	WINDOW_LINES = 48,
};

/** What the agent disassembled around a pc. */
struct window_of_code {
	uint64_t pc, begin; // of the marked instruction, of the function
	uint64_t loaded_at; // begin of the code object
	struct str function, uri, instruction, before, source_file, source_line;
};

struct dumped_wave {
	struct wave wave;
	struct arena arena;
	struct str id;
	struct place at;
	struct stamp time;
	struct writer writer;
	unsigned count; // the old agent prints one wave for many
	bool full;      // all it has is kept
	bool telling;   // lanes of it are out of step
	bool old;
	VEC(uint64_t) local;
	struct window_of_code code;
};

enum section { SECTION_NONE, SECTION_HEADER, SECTION_REGISTERS, SECTION_LOCAL, SECTION_CODE };

struct debug_agent {
	struct artefact_output out;
	enum section section;
	unsigned header_lines;
	struct text header;
	struct str register_group;
	char group_room[24];
	struct dumped_wave *wave; // that is being read
	struct arena code_arena;
	struct window_of_code stray; // a disassembly that stands before the waves
	bool in_stray;
	unsigned code_lines;
	uint64_t lane;             // of the old agent's registers
	bool open_register;        // the newest one's lanes go on in the next line
	struct wave_places groups; // whose first is a dumped_wave
	size_t waves;
	unsigned beyond; // waves of groups for which there was no room
};

/** Where `wave_12: pc=` begins; -1 where it does not. */
static ptrdiff_t find_header(struct str line)
{
	struct str rest = line;
	for (ptrdiff_t at; (at = str_find(rest, S("wave_"))) >= 0; rest = str_from(rest, (size_t)at + 5)) {
		size_t begin = (size_t)(rest.p - line.p) + (size_t)at, n = begin + 5;
		while (n < line.n && char_digit(line.p[n]))
			n++;
		if (n > begin + 5 && str_starts(str_from(line, n), S(": pc=")) && (!begin || !char_word(line.p[begin - 1])))
			return (ptrdiff_t)begin;
	}
	return -1;
}

/** `64 wavefront(s) found in @PC: 0x00007F63364042EC` */
static bool old_header(struct str line, int64_t *ret_count, uint64_t *ret_pc)
{
	struct str rest = str_trim(line), count = str_word(&rest);
	ptrdiff_t pc = str_find(rest, S("@PC: 0x"));
	if (!str_starts(str_trim(rest), S("wavefront(s) found in")) || pc < 0 || !str_number(count, ret_count) ||
	    *ret_count < 1)
		return false;
	rest = str_from(rest, (size_t)pc + 5);
	return *ret_count < INT32_MAX && str_hex(str_word(&rest), ret_pc);
}

static bool debug_agent_begins(struct str line)
{
	int64_t count;
	uint64_t pc;
	return find_header(line) >= 0 || old_header(line, &count, &pc) || str_find(line, S("Disassembly for function ")) >= 0;
}

static void *debug_agent_open(const struct artefact_output *out)
{
	struct debug_agent *d = mem_alloc(sizeof(*d));
	d->out = *out;
	return d;
}

// --- groups ---

static void wave_free(struct dumped_wave *w)
{
	if (!w)
		return;
	vec_free(&w->wave.registers);
	vec_free(&w->local);
	arena_free(&w->arena);
	free(w);
}

static void add_dump(struct dumped_wave *w, struct event *e)
{
	struct values *local = arena_alloc(&w->arena, sizeof(*local));
	*local =
		(struct values){ .group = S("local"), .name = S("lds"), .digits = 8, .n = w->local.len, .data = w->local.data };
	e->dump.registers = w->wave.registers;
	e->dump.values = local;
	e->dump.nvalues = w->local.len > 0;
}

/** Whether lanes of the wave are out of step: of many waves that failed the same check, such a one tells why. */
static bool is_telling(struct dumped_wave *w)
{
	struct lane_pattern odd;
	const struct wave_register *exec = wave_register_named(&w->wave.registers, S("exec"));
	return str_find(w->wave.reason, S("ASSERT")) >= 0 && exec && exec->n &&
	       lanes_find_odd(&w->wave.registers, exec->data[0], &odd);
}

static struct dumped_wave *first_of(const struct wave_place *g) { return (struct dumped_wave *)g->first; }

/** One more wave of the group; it takes the place of the first where it tells more. */
static void join_group(struct wave_place *g, struct dumped_wave *w)
{
	struct dumped_wave *first = first_of(g);
	g->count += w->count;
	if (first->full && !first->telling && is_telling(w)) {
		w->full = w->telling = true;
		g->first = &w->wave;
		w = first;
	}
	wave_free(w);
}

static struct writer writer_copy(struct arena *a, const struct writer *w)
{
	return (struct writer){ arena_str(a, w->rank), arena_str(a, w->worker), arena_str(a, w->pid), arena_str(a, w->host) };
}

/** The wave without its registers and memory; @w is freed. */
static struct dumped_wave *strip_wave(struct dumped_wave *w)
{
	struct dumped_wave *s = mem_alloc(sizeof(*s));
	struct arena *a = &s->arena;
	s->id = arena_str(a, w->id);
	s->wave.kernel = arena_str(a, w->wave.kernel);
	s->wave.reason = arena_str(a, w->wave.reason);
	s->wave.pc = w->wave.pc;
	s->wave.id = w->wave.id;
	s->at = w->at;
	s->time = w->time;
	s->count = w->count;
	s->old = w->old;
	s->code = w->code;
	s->code.function = arena_str(a, w->code.function);
	s->code.uri = arena_str(a, w->code.uri);
	s->code.instruction = arena_str(a, w->code.instruction);
	s->code.before = arena_str(a, w->code.before);
	s->code.source_file = arena_str(a, w->code.source_file);
	s->code.source_line = arena_str(a, w->code.source_line);
	s->writer = writer_copy(a, &w->writer);
	wave_free(w);
	return s;
}

static void wave_end(struct debug_agent *d)
{
	struct dumped_wave *w = d->wave;
	d->wave = NULL;
	d->open_register = false;
	if (!w)
		return;
	struct wave_place *have = wave_place_of(&d->groups, &w->wave);
	if (have) {
		join_group(have, w);
		return;
	}
	if (d->groups.len == GROUPS_MAX) {
		d->beyond += w->count;
		wave_free(w);
		return;
	}
	w->full = d->groups.len < GROUPS_FULL;
	w->telling = w->full && is_telling(w);
	if (!w->full)
		w = strip_wave(w);
	vec_push(&d->groups, ((struct wave_place){ .first = &w->wave, .count = w->count }));
}

// --- the header ---

static bool header_is_whole(struct str header)
{
	ptrdiff_t stopped = str_find(header, S("(stopped"));
	return (stopped >= 0 && str_find(str_from(header, (size_t)stopped), S(")")) >= 0) ||
	       str_find(header, S("(running)")) >= 0;
}

/** Takes `key=0x...` apart. */
static bool hex_behind(struct str s, struct str key, uint64_t *ret)
{
	ptrdiff_t at = str_find(s, key);
	if (at < 0)
		return false;
	struct str rest = str_from(s, (size_t)at + key.n), word = str_word(&rest);
	size_t n = str_starts(word, S("0x")) ? 2 : 0;
	while (n < word.n && char_hex(word.p[n]))
		n++;
	return str_hex(str_cut(word, n), ret);
}

static struct str kernel_of(struct str header)
{
	ptrdiff_t entry = str_find(header, S("kernel_code_entry="));
	ptrdiff_t open = entry < 0 ? -1 : str_find(str_from(header, (size_t)entry), S("<"));
	if (open < 0)
		return (struct str){ 0 };
	struct str name = str_from(header, (size_t)entry + (size_t)open + 1);
	static const char *const ends[] = { ">) (stopped", ">) (running", ">, kernargs", ") (stopped", ") (running" };
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		ptrdiff_t end = str_find(name, str_z(ends[i]));
		if (end >= 0)
			return str_trim(str_cut(name, (size_t)end));
	}
	return str_trim(name);
}

static struct str reason_of(struct str header)
{
	ptrdiff_t at = str_find(header, S("reason: "));
	if (at < 0)
		return (struct str){ 0 };
	struct str reason = str_from(header, (size_t)at + 8);
	return str_trim(str_split(&reason, ')'));
}

static void header_end(struct debug_agent *d)
{
	struct dumped_wave *w = d->wave;
	struct str header = text_str(&d->header);
	struct str id = str_from(header, 5);
	w->id = arena_str(&w->arena, str_split(&id, ':'));
	hex_behind(header, S("pc="), &w->wave.pc);
	w->wave.kernel = arena_str(&w->arena, str_cut(kernel_of(header), NAME_BYTES));
	w->wave.reason = arena_str(&w->arena, str_cut(reason_of(header), 256));
	d->section = SECTION_REGISTERS;
}

static void wave_begin(struct debug_agent *d, const struct logline *line, struct place at)
{
	if (d->section == SECTION_HEADER) // one that was cut off
		header_end(d);
	wave_end(d);
	d->wave = mem_alloc(sizeof(*d->wave));
	d->wave->wave.id = ++d->waves;
	d->wave->count = 1;
	d->wave->at = at;
	d->wave->time = line_time(line);
	d->wave->writer = writer_copy(&d->wave->arena, &line->writer);
	d->lane = UINT64_MAX;
}

static bool old_header_begin(struct debug_agent *d, const struct logline *line, struct place at)
{
	int64_t count;
	uint64_t pc;
	if (!old_header(line->message, &count, &pc))
		return false;
	wave_begin(d, line, at);
	d->wave->count = (unsigned)count;
	d->wave->wave.pc = pc;
	d->wave->old = true;
	d->section = SECTION_REGISTERS;
	d->register_group = S("scalar");
	return true;
}

static void header_begin(struct debug_agent *d, const struct logline *line, struct str header, struct place at)
{
	wave_begin(d, line, at);
	text_clear(&d->header);
	text_add(&d->header, header);
	d->section = SECTION_HEADER;
	d->header_lines = 1;
	d->register_group = S("");
	if (header_is_whole(header))
		header_end(d);
}

/** A name that was wrapped goes on: joined without a space where one could not stand. */
static bool header_line(struct debug_agent *d, struct str text)
{
	if (!text.n || d->header_lines++ > HEADER_LINES || d->header.n + text.n > 2 * NAME_BYTES) {
		header_end(d);
		return !text.n;
	}
	// What follows a header that was cut is its registers.
	if (str_ends(text, S("registers:"))) {
		header_end(d);
		return false;
	}
	char last = d->header.p[d->header.n - 1];
	if (last != '<' && last != '(' && last != ':')
		text_add(&d->header, S(" "));
	text_add(&d->header, text);
	if (header_is_whole(text_str(&d->header)))
		header_end(d);
	return true;
}

// --- registers ---

static struct wave_register *add_register(struct debug_agent *d, struct str name)
{
	struct dumped_wave *w = d->wave;
	if (w->wave.registers.len >= REGISTERS_MAX || name.n > 24 || w->arena.total > WAVE_BYTES)
		return NULL;
	wave_register_add(&w->wave.registers, (struct wave_register){ .group = arena_str(&w->arena, d->register_group),
								      .name = arena_str(&w->arena, name),
								      .data = arena_alloc(&w->arena, sizeof(uint64_t)) });
	return &w->wave.registers.data[w->wave.registers.len - 1];
}

/** A register gets its lanes one by one; the agent prints them all, but people cut them out. */
static void set_lane(struct dumped_wave *w, struct wave_register *r, uint64_t lane, uint64_t value)
{
	if (lane >= WAVE_LANES)
		return;
	if (r->n <= 1) {
		r->data = wave_register_lanes(&w->arena);
		r->digits = 8;
		r->n = 2;
	}
	r->data[lane] = value;
	if (lane >= r->n)
		r->n = (size_t)lane + 1;
}

/** The old agent prints all vector registers of a lane, then those of the next. */
static void old_vector(struct debug_agent *d, struct str name, uint64_t value)
{
	struct register_set *s = &d->wave->wave.registers;
	const struct wave_register *have = wave_register_named(s, name);
	struct wave_register *r = have ? &s->data[have - s->data] : add_register(d, name);
	if (r)
		set_lane(d->wave, r, d->lane, value);
}

static bool old_line(struct debug_agent *d, struct str text)
{
	struct str rest = text, word = str_word(&rest);
	uint64_t value;
	if (str_is(word, "Lane")) {
		if (!str_hex(str_trim(rest), &d->lane))
			d->lane = UINT64_MAX;
		d->register_group = S("vector");
		return true;
	}
	bool any = false;
	for (; word.n; word = str_word(&rest)) {
		struct str number = str_word(&rest);
		if (!str_ends(word, S(":")) || !str_hex(number, &value))
			return any;
		char lower[24];
		size_t n = word.n - 1 < sizeof(lower) ? word.n - 1 : sizeof(lower);
		for (size_t i = 0; i < n; i++) // EXEC, TRAPSTS
			lower[i] = char_lower(word.p[i]);
		struct str name = { lower, n };
		any = true;
		if (d->lane < WAVE_LANES) {
			old_vector(d, name, value);
			continue;
		}
		struct wave_register *r = add_register(d, name);
		if (r) {
			r->data[0] = value;
			r->digits = (unsigned)(number.n > 2 ? number.n - 2 : 1);
			r->n = 1;
		}
	}
	return any;
}

/** `s0: ffffffff  s1: 00000000` or `v0: [0] 95f02814 [1] 95f02818`; false where nothing of it is a register. */
static bool register_line(struct debug_agent *d, struct str text)
{
	bool any = false;
	uint64_t lane = UINT64_MAX, value;
	struct register_set *s = &d->wave->wave.registers;
	struct wave_register *r = text.n && text.p[0] == '[' && d->open_register ? &s->data[s->len - 1] : NULL;
	for (struct str word = str_word(&text); word.n; word = str_word(&text)) {
		if (word.n > 1 && word.p[word.n - 1] == ':') {
			r = add_register(d, str_cut(word, word.n - 1));
			lane = UINT64_MAX;
		} else if (word.p[0] == '[') {
			struct str number = str_cut(str_from(word, 1), word.n - 2);
			int64_t index;
			lane = word.n > 2 && str_number(number, &index) && index >= 0 ? (uint64_t)index : UINT64_MAX;
		} else if (r && word.n <= 16 && str_hex(word, &value)) {
			any = true;
			if (lane != UINT64_MAX) {
				set_lane(d->wave, r, lane, value);
			} else {
				r->data[0] = value;
				r->digits = (unsigned)word.n;
				r->n = 1;
				r = NULL;
			}
		} else if (!any && !r) {
			return false;
		}
	}
	d->open_register = r && r->n > 1;
	return any;
}

static bool local_line(struct debug_agent *d, struct str text)
{
	struct str word = str_word(&text);
	uint64_t offset, value;
	if (!str_starts(word, S("0x")) || !str_ends(word, S(":")) || !str_hex(str_cut(word, word.n - 1), &offset))
		return false;
	for (word = str_word(&text); word.n; word = str_word(&text))
		if (str_hex(word, &value) && d->wave->local.len < LOCAL_WORDS)
			vec_push(&d->wave->local, value);
	return true;
}

// --- disassembly ---

static void code_begin(struct debug_agent *d, struct str name)
{
	struct arena *a = d->wave ? &d->wave->arena : &d->code_arena;
	struct window_of_code *c = d->wave ? &d->wave->code : &d->stray;
	if (!d->wave)
		arena_free(&d->code_arena);
	if (a->total > WAVE_BYTES)
		return;
	*c = (struct window_of_code){ .function = arena_str(a, str_cut(name, NAME_BYTES)) };
	d->in_stray = !d->wave;
	d->section = SECTION_CODE;
	d->code_lines = 0;
}

/** `=> 0x7fd4f100d0e8 <+232>:    s_trap 2` */
static void code_instruction(struct window_of_code *c, struct arena *a, struct str text, bool marked)
{
	struct str rest = text, address = str_word(&rest), offset = str_word(&rest);
	uint64_t pc;
	int64_t distance;
	if (!str_hex(str_ends(address, S(":")) ? str_cut(address, address.n - 1) : address, &pc))
		return;
	if (!str_starts(offset, S("<+")))
		rest = str_from(text, address.n);
	struct str instruction = arena_str(a, str_cut(str_trim(rest), 160));
	if (!marked) {
		if (!c->pc)
			c->before = instruction;
		return;
	}
	c->pc = pc;
	c->instruction = instruction;
	struct str number = str_from(offset, 2);
	if (str_starts(offset, S("<+")) && str_number(str_split(&number, '>'), &distance) && distance >= 0 &&
	    (uint64_t)distance < pc)
		c->begin = pc - (uint64_t)distance;
}

static bool code_line(struct debug_agent *d, struct str text)
{
	struct arena *a = d->in_stray ? &d->code_arena : &d->wave->arena;
	struct window_of_code *c = d->in_stray ? &d->stray : &d->wave->code;
	if (d->code_lines++ > WINDOW_LINES || str_starts(text, S("End of disassembly"))) {
		d->section = SECTION_NONE;
		return str_starts(text, S("End of"));
	}
	if (a->total > WAVE_BYTES)
		return true;
	if (str_starts(text, S("code object: ")))
		c->uri = arena_str(a, str_cut(str_from(text, 13), 512));
	else if (str_starts(text, S("=> ")))
		code_instruction(c, a, str_from(text, 3), true);
	else if (str_starts(text, S("0x")))
		code_instruction(c, a, text, false);
	else if (str_starts(text, S("loaded at: ")))
		hex_behind(text, S("loaded at: ["), &c->loaded_at);
	else if (!text.n)
		return true;
	else if (str_starts(text, S("/")) && str_ends(text, S(":")) && !c->pc)
		c->source_file = arena_str(a, str_cut(text, text.n - 1));
	else if (text.n && char_digit(text.p[0]) && c->source_file.n && !c->pc)
		c->source_line = arena_str(a, str_word(&text));
	else
		return false;
	return true;
}

// --- lines ---

static enum taken debug_agent_line(void *self, const struct logline *line, struct place at)
{
	struct debug_agent *d = self;
	// A name that was wrapped may begin with `>`, which is no mark of quoting here.
	bool prefixed = (line->stamps.found && !line->stamps.borrowed) || line->writer.rank.n || line->writer.worker.n ||
			line->writer.pid.n;
	struct str text = str_trim(prefixed ? line->message : line->text);
	ptrdiff_t header = find_header(line->message);
	if (header >= 0) {
		header_begin(d, line, str_from(line->message, (size_t)header), at);
		return true;
	}
	if (old_header_begin(d, line, at))
		return true;
	if (d->wave && d->wave->old && (old_line(d, text) || str_starts(text, S("printing the first"))))
		return true;
	if (d->section == SECTION_HEADER && header_line(d, text))
		return true;
	ptrdiff_t code = str_find(text, S("Disassembly for function "));
	if (code >= 0) {
		struct str name = str_from(text, (size_t)code + 25);
		code_begin(d, str_ends(name, S(":")) ? str_cut(name, name.n - 1) : name);
		return true;
	}
	if (str_starts(text, S("----------")) || !text.n)
		return true;
	if (d->section == SECTION_CODE && code_line(d, text))
		return true;
	if (str_starts(text, S("=> 0x")) && d->wave) { // an excerpt without the line before it
		if (d->wave->arena.total < WAVE_BYTES)
			code_instruction(&d->wave->code, &d->wave->arena, str_from(text, 3), true);
		return true;
	}
	if (!d->wave)
		return false;
	if (str_ends(text, S(" registers:")) && text.n < sizeof(d->group_room) + 11) {
		memcpy(d->group_room, text.p, text.n - 11);
		d->register_group = (struct str){ d->group_room, text.n - 11 };
		d->section = SECTION_REGISTERS;
		d->open_register = false;
		return true;
	}
	if (str_starts(text, S("Local memory content"))) {
		d->section = SECTION_LOCAL;
		return true;
	}
	return (d->section == SECTION_REGISTERS && register_line(d, text)) ||
	       (d->section == SECTION_LOCAL && local_line(d, text));
}

// --- what is handed on ---

/** The stray disassembly is of this wave's function where its pc lies in it. */
static const struct window_of_code *code_for(const struct debug_agent *d, const struct dumped_wave *w)
{
	if (w->code.function.n || w->code.pc)
		return &w->code;
	bool inside = d->stray.begin && w->wave.pc >= d->stray.begin && w->wave.pc < d->stray.pc + 256;
	return inside ? &d->stray : &w->code;
}

/** The code itself, where it lies beside the dump, knows more than what the agent printed of it. */
static void tell_code(struct debug_agent *d, struct dumped_wave *w, const struct window_of_code *c, struct event *e)
{
	const struct code_anchor anchor = { .uri = c->uri,
					    .loaded_at = c->uri.n ? c->loaded_at : 0,
					    .instruction = c->pc == w->wave.pc ? c->instruction : (struct str){ 0 } };
	const struct where *at = d->out.code ? code_shelf_where(d->out.code, d->out.name, &anchor, w->wave.pc) : NULL;
	if (!at || (anchor.instruction.n && !wave_code_is(at, anchor.instruction)))
		return;
	struct wave_code code = { .know = d->out.know, .where = at, .wave = &w->wave };
	wave_code_tell(e, &w->arena, &code);
}

static void tell_group(struct debug_agent *d, const struct wave_place *g)
{
	struct dumped_wave *w = first_of(g);
	struct event e;
	const struct window_of_code *c = code_for(d, w);
	if (!artefact_event(&d->out, w->wave.reason.n || w->old ? "waves-stopped" : "waves-running", w->at, &e))
		return;
	e.time = w->time;
	e.text = arena_printf(&w->arena, "wave_" STR_FMT ": pc=0x%llx", STR_ARG(w->id), (unsigned long long)w->wave.pc);
	event_add_text(&e, &w->arena, "stop_reason", w->wave.reason);
	if (w->wave.pc)
		event_add_code(&e, &w->arena, "pc", w->wave.pc);
	event_add_text(&e, &w->arena, "kernel_name", w->wave.kernel.n ? w->wave.kernel : c->function);
	event_add_number(&e, &w->arena, "waves", (int64_t)g->count);
	event_add_text(&e, &w->arena, "wave", w->id);
	event_add_text(&e, &w->arena, "code_object", c->uri);
	event_add_text(&e, &w->arena, "source_file", c->source_file);
	event_add_text(&e, &w->arena, "source_line", c->source_line);
	if (c->pc && c != &d->stray) {
		event_add_text(&e, &w->arena, "instruction", c->instruction);
		event_add_text(&e, &w->arena, "instruction_before", c->before);
	}
	int64_t rank;
	event_add(&e, S("rank"), w->writer.rank, str_number(w->writer.rank, &rank) ? FACT_NUMBER : FACT_TEXT);
	event_add_text(&e, &w->arena, "worker", w->writer.worker);
	if (w->full)
		add_dump(w, &e);
	tell_code(d, w, c, &e);
	artefact_tell(&d->out, &e);
}

static void debug_agent_close(void *self)
{
	struct debug_agent *d = self;
	if (d->section == SECTION_HEADER)
		header_end(d);
	wave_end(d);
	wave_places_sort(&d->groups);
	for (size_t i = 0; i < d->groups.len && i < TOLD_MAX; i++)
		tell_group(d, &d->groups.data[i]);
	size_t rest = d->beyond;
	for (size_t i = TOLD_MAX; i < d->groups.len; i++)
		rest += d->groups.data[i].count;
	struct event e;
	if (rest && artefact_event(&d->out, "waves-more", first_of(&d->groups.data[0])->at, &e)) {
		struct arena arena = { 0 };
		event_add_number(&e, &arena, "waves", (int64_t)rest);
		artefact_tell(&d->out, &e);
		arena_free(&arena);
	}
	for (size_t i = 0; i < d->groups.len; i++)
		wave_free(first_of(&d->groups.data[i]));
	vec_free(&d->groups);
	arena_free(&d->code_arena);
	text_free(&d->header);
	free(d);
}

const struct artefact_reader debug_agent_reader = {
	.kind = "debug-agent",
	.begins = debug_agent_begins,
	.open = debug_agent_open,
	.line = debug_agent_line,
	.close = debug_agent_close,
	.patience = 40,
};
