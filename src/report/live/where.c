// What is at an address of code: kernel, instruction with its neighbours, source line and inline chain.
#include "report/live/look.h"

void walk_source(struct sheet *s, const struct where *w)
{
	if (!sheet_object(s, "source", w->nframes))
		return;
	sheet_put(s, "file", v_known(w->frames[0].file));
	sheet_put(s, "line", v_int(w->frames[0].line));
	sheet_close(s, '}');
}

static void walk_frames(struct sheet *s, const struct where *w, const struct str *texts)
{
	static const struct column at[] = { { "file" }, { "line", ":" }, { "column", ":", .least = 1 } };
	static const struct column text[] = { { "text", "             | " } };
	sheet_open(s, "frames", '[');
	for (size_t i = 0; i < w->nframes; i++) {
		const struct code_frame *f = &w->frames[i];
		sheet_open(s, NULL, '{');
		sheet_put(s, "function", v_known(f->function));
		sheet_put(s, "file", v_known(f->file));
		sheet_put(s, "line", v_int(f->line));
		sheet_put(s, "column", v_int(f->column));
		sheet_put(s, "inlined", v_bool(f->inlined));
		sheet_put(s, "text", texts ? v_known(texts[i]) : v_null());
		sheet_say(s, "     %s ", i ? "from" : "  at");
		sheet_part(s, COLUMNS(at));
		if (w->nframes > 1)
			sheet_say_safe(s, "  in ", f->function, f->inlined ? ", inlined" : "");
		sheet_say(s, "\n");
		sheet_line(s, 0, COLUMNS(text));
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
	if (!w->nframes && w->function)
		sheet_say(s, "     no source line: %s\n",
			  w->in->of_memory ? "only the code in memory is available, not its file" :
			  w->in->lines     ? "its debug information has none for this address" :
					     "compiled without debug information (-g)");
}

static void walk_instructions(struct sheet *s, const struct where *w, struct str meaning, bool colour)
{
	sheet_put(s, "meaning", v_text(meaning));
	sheet_open(s, "instructions", '[');
	for (size_t i = 0; i < w->ninstructions; i++) {
		const bool here = i == w->here;
		const struct column line[] = { { "address", here ? "       => " : "          " }, { "text", "  " } };
		sheet_open(s, NULL, '{');
		sheet_put(s, "address", v_hex(w->instructions[i].address + w->in->base));
		sheet_put(s, "text", v_text(w->instructions[i].text));
		sheet_put(s, "here", v_bool(here));
		sheet_say(s, "%s", here && colour ? "\033[1m" : "");
		sheet_part(s, COLUMNS(line));
		sheet_say(s, "%s\n", here && colour ? "\033[0m" : "");
		if (here && meaning.n)
			sheet_say_safe(s, "                ", meaning, "\n");
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
	if (w->here < w->ninstructions && w->instructions[w->here].address != w->address)
		sheet_say(s, "         The address is inside this instruction; no instruction begins there.\n");
}

/** The address; of a function that there is not, the name. */
static void add_asked(struct text *to, const struct found_address *f)
{
	if (f->by_name)
		text_printf(to, "%s  ", f->asked);
	else
		text_printf(to, "0x%llx  ", (unsigned long long)f->where->pc);
}

/** What is said where there is no function. */
static void add_missed(struct text *to, const struct found_address *f)
{
	if (f->size)
		text_printf(to, "past its end: the function has 0x%llx bytes", (unsigned long long)f->size);
	else
		text_add(to, f->where->in ? S("in no function") :
			     f->by_name   ? S("no function has this name") :
					    S("in none of the code objects"));
}

static void text_head(struct sheet *s, const struct found_address *f)
{
	const struct where *w = f->where;
	struct text head = { 0 };
	add_asked(&head, f);
	if (w->function)
		text_printf(&head, STR_FMT " +0x%llx", STR_ARG(w->name), (unsigned long long)w->offset);
	else
		add_missed(&head, f);
	if (w->in)
		text_printf(&head, "   (" STR_FMT ", " STR_FMT ")", STR_ARG(w->in->object->target_id), STR_ARG(w->in->name));
	sheet_say_safe(s, "", text_str(&head), "\n");
	text_free(&head);
}

/** All about one address. */
static void walk_address(struct sheet *s, const struct know *k, const struct found_address *f, bool colour)
{
	const struct where *w = f->where;
	const struct code_symbol *function = w->function;
	const struct str here = w->here < w->ninstructions ? w->instructions[w->here].text : (struct str){ 0 };
	struct arena a = { 0 };
	struct meaning m;
	sheet_open(s, NULL, '{');
	sheet_put(s, "asked", v_word(f->asked));
	sheet_put(s, "address", v_if(!f->by_name, v_hex(w->pc)));
	sheet_put(s, "code_object", w->in ? v_text(w->in->name) : v_null());
	sheet_put(s, "target", w->in ? v_text(w->in->object->target_id) : v_null());
	sheet_put(s, "kernel_name", v_if(function && function->kernel, v_text(w->name)));
	sheet_put(s, "function", v_text(w->name));
	sheet_put(s, "symbol", function ? v_text(function->name) : v_null());
	sheet_put(s, "offset", v_if(function, v_hex(w->offset)));
	text_head(s, f);
	walk_source(s, w);
	walk_frames(s, w, f->texts);
	sheet_put(s, "instruction", v_text(here));
	walk_instructions(s, w, here.n && meaning_of(k, here, &m) ? meaning_say(&a, k, &m) : (struct str){ 0 }, colour);
	sheet_put(s, "no_instructions", v_text(w->no_instructions));
	if (w->in && w->no_instructions.n)
		sheet_say_safe(s, "     no instructions: ", w->no_instructions, "\n");
	sheet_close(s, '}');
	arena_free(&a);
}

void report_where(const struct know *k, const struct found_address *found, size_t n, const struct uh_look_options *o, FILE *out)
{
	struct sheet s = sheet_on(o->json, out);
	sheet_begin(&s, "unhang/where/1", "addresses");
	for (size_t i = 0; i < n; i++) {
		if (i)
			sheet_say(&s, "\n");
		walk_address(&s, k, &found[i], o->colour);
	}
	sheet_end(&s);
}

// --- many addresses ---

enum { NUMBERS_MOST = 64 }; // bytes of the numbers behind a name, and what stands between them

static char *add(char *p, struct str s)
{
	memcpy(p, s.p, s.n);
	return p + s.n;
}

static char *add_hex(char *p, uint64_t v)
{
	unsigned shift = v ? (63 - (unsigned)__builtin_clzll(v)) & ~3u : 0;
	for (;; shift -= 4) {
		*p++ = "0123456789abcdef"[v >> shift & 15];
		if (!shift)
			return p;
	}
}

static char *add_decimal(char *p, unsigned v)
{
	if (v >= 10)
		p = add_decimal(p, v / 10);
	*p = (char)('0' + v % 10);
	return p + 1;
}

/** Many addresses are read by eye for what differs. stdio and printf would take their time for each word. */
static void compose_line(struct text *to, const struct where *w)
{
	struct code_frame frames[CODE_FRAMES];
	size_t n = code_where_frames(w, frames);
	size_t most = w->name.n + NUMBERS_MOST;
	for (size_t i = 0; i < n; i++)
		most += frames[i].file.n + NUMBERS_MOST;
	char *p = text_room(to, most);
	p = add_hex(add(p, S("0x")), w->pc);
	p = add(add(p, S("  ")), w->name);
	p = add_hex(add(p, S(" +0x")), w->offset);
	for (size_t i = 0; i < n; i++) {
		p = add(p, i ? S(" < ") : S("   "));
		if (frames[i].file.n)
			p = add(p, frames[i].file);
		*p++ = ':';
		p = add_decimal(p, frames[i].line);
		if (!frames[i].column)
			continue;
		*p++ = ':';
		p = add_decimal(p, frames[i].column);
	}
	to->n = (size_t)(p - to->p);
}

void report_where_line(const struct found_address *f, struct text *to)
{
	if (f->where->function) {
		compose_line(to, f->where);
	} else {
		add_asked(to, f);
		add_missed(to, f);
	}
}
