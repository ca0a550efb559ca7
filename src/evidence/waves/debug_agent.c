// Wave dumps of rocm-debug-agent: one block for each wave, of any number. What becomes of them is dumped_waves.c's.
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
#include "evidence/waves/tell.h"

enum {
	HEADER_LINES = 40, // over which a kernel's name may be wrapped
	NAME_BYTES = 2048,
	REGISTERS_MAX = 1024,
	WAVE_BYTES = 2 << 20,
	LOCAL_WORDS = 16384,
	WINDOW_LINES = 48,
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
	uint64_t lane;      // of the old agent's registers
	bool open_register; // the newest one's lanes go on in the next line
	struct dumped_waves waves;
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

static void wave_end(struct debug_agent *d)
{
	if (d->wave)
		dumped_waves_add(&d->waves, d->wave);
	d->wave = NULL;
	d->open_register = false;
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
	struct str rest;
	if (!str_after(s, key, &rest))
		return false;
	struct str word = str_word(&rest);
	size_t n = str_starts(word, S("0x")) ? 2 : 0;
	while (n < word.n && char_hex(word.p[n]))
		n++;
	return str_hex(str_cut(word, n), ret);
}

static struct str debug_agent_kernel_of(struct str header)
{
	static const char *const ends[] = { ">) (stopped", ">) (running", ">, kernargs", ") (stopped", ") (running" };
	struct str name;
	if (!str_after(header, S("kernel_code_entry="), &name) || !str_after(name, S("<"), &name))
		return (struct str){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		ptrdiff_t end = str_find(name, str_z(ends[i]));
		if (end >= 0)
			return str_trim(str_cut(name, (size_t)end));
	}
	return str_trim(name);
}

static void header_end(struct debug_agent *d)
{
	struct dumped_wave *w = d->wave;
	struct str header = text_str(&d->header), id = str_from(header, 5), reason;
	w->id = arena_str(&w->arena, str_split(&id, ':'));
	hex_behind(header, S("pc="), &w->wave.pc);
	w->wave.kernel = arena_str(&w->arena, str_cut(debug_agent_kernel_of(header), NAME_BYTES));
	if (str_after(header, S("reason: "), &reason))
		w->wave.reason = arena_str(&w->arena, str_cut(str_trim(str_split(&reason, ')')), 256));
	d->section = SECTION_REGISTERS;
}

static void wave_begin(struct debug_agent *d, const struct logline *line, struct place at)
{
	if (d->section == SECTION_HEADER) // one that was cut off
		header_end(d);
	wave_end(d);
	d->wave = dumped_wave_new(&d->waves, line, at);
	d->lane = UINT64_MAX;
}

/** A name that was wrapped goes on: joined without a space where one could not stand. */
static bool debug_agent_header_line(struct debug_agent *d, struct str text)
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

static struct wave_register *debug_agent_add_register(struct debug_agent *d, struct str name)
{
	struct dumped_wave *w = d->wave;
	if (w->wave.registers.len >= REGISTERS_MAX || name.n > 24 || w->arena.total > WAVE_BYTES)
		return NULL;
	wave_register_add(&w->wave.registers, (struct wave_register){ .group = arena_str(&w->arena, d->register_group),
								      .name = arena_str(&w->arena, name),
								      .data = arena_alloc(&w->arena, sizeof(uint64_t)) });
	return &w->wave.registers.data[w->wave.registers.len - 1];
}

/** A register has one value of so many @digits, or gets its lanes one by one; the agent prints them all, but people cut them out.
 * UINT64_MAX: no lane. */
static void register_set_value(struct dumped_wave *w, struct wave_register *r, uint64_t lane, uint64_t value, size_t digits)
{
	if (lane == UINT64_MAX) {
		r->data[0] = value;
		r->digits = (unsigned)digits;
		r->n = 1;
	}
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
		// It prints all vector registers of a lane, then those of the next.
		struct register_set *s = &d->wave->wave.registers;
		const struct wave_register *have = d->lane < WAVE_LANES ? wave_register_named(s, name) : NULL;
		struct wave_register *r = have ? &s->data[have - s->data] : debug_agent_add_register(d, name);
		if (r)
			register_set_value(d->wave, r, d->lane < WAVE_LANES ? d->lane : UINT64_MAX, value,
					   number.n > 2 ? number.n - 2 : 1);
	}
	return any;
}

/** `s0: ffffffff  s1: 00000000` or `v0: [0] 95f02814 [1] 95f02818`; false where nothing of it is a register. */
static bool debug_agent_register_line(struct debug_agent *d, struct str text)
{
	bool any = false;
	uint64_t lane = UINT64_MAX, value;
	struct register_set *s = &d->wave->wave.registers;
	struct wave_register *r = text.n && text.p[0] == '[' && d->open_register ? &s->data[s->len - 1] : NULL;
	for (struct str word = str_word(&text); word.n; word = str_word(&text)) {
		if (word.n > 1 && word.p[word.n - 1] == ':') {
			r = debug_agent_add_register(d, str_cut(word, word.n - 1));
			lane = UINT64_MAX;
		} else if (word.p[0] == '[') {
			struct str number = str_cut(str_from(word, 1), word.n - 2);
			int64_t index;
			lane = word.n > 2 && str_number(number, &index) && index >= 0 ? (uint64_t)index : UINT64_MAX;
		} else if (r && word.n <= 16 && str_hex(word, &value)) {
			any = true;
			register_set_value(d->wave, r, lane, value, word.n);
			r = lane != UINT64_MAX ? r : NULL;
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
		wave_begin(d, line, at);
		text_clear(&d->header);
		text_add(&d->header, str_from(line->message, (size_t)header));
		d->section = SECTION_HEADER;
		d->header_lines = 1;
		d->register_group = S("");
		if (header_is_whole(text_str(&d->header)))
			header_end(d);
		return true;
	}
	int64_t count;
	uint64_t pc;
	if (old_header(line->message, &count, &pc)) {
		wave_begin(d, line, at);
		d->wave->count = (unsigned)count;
		d->wave->wave.pc = pc;
		d->wave->old = true;
		d->section = SECTION_REGISTERS;
		d->register_group = S("scalar");
		return true;
	}
	if (d->wave && d->wave->old && (old_line(d, text) || str_starts(text, S("printing the first"))))
		return true;
	if (d->section == SECTION_HEADER && debug_agent_header_line(d, text))
		return true;
	struct str name;
	if (str_after(text, S("Disassembly for function "), &name)) {
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
	return (d->section == SECTION_REGISTERS && debug_agent_register_line(d, text)) ||
	       (d->section == SECTION_LOCAL && local_line(d, text));
}

static void debug_agent_close(void *self)
{
	struct debug_agent *d = self;
	if (d->section == SECTION_HEADER)
		header_end(d);
	wave_end(d);
	dumped_waves_tell(&d->waves, &d->out, &d->stray);
	dumped_waves_free(&d->waves);
	arena_free(&d->code_arena);
	text_free(&d->header);
}

ARTEFACT_READER(debug_agent, "debug-agent", 40);
