// What is at an address of code: kernel, instruction with its neighbours, source line and inline chain.
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/print.h"
#include "report/live/look.h"

static bool is_here(const struct where *w, size_t i) { return i == w->here; }

// --- JSON ---

static struct str or_null(struct str s) { return s.n ? s : (struct str){ 0 }; }

static void jw_frames(struct json *j, const struct where *w, const struct str *texts)
{
	jw_key(j, "frames");
	jw_open(j, '[');
	for (size_t i = 0; i < w->nframes; i++) {
		const struct code_frame *f = &w->frames[i];
		jw_open(j, '{');
		jw_field(j, "function", or_null(f->function));
		jw_field(j, "file", or_null(f->file));
		jw_key(j, "line");
		jw_int(j, f->line);
		jw_key(j, "column");
		jw_int(j, f->column);
		jw_key(j, "inlined");
		jw_bool(j, f->inlined);
		jw_field(j, "text", texts ? or_null(texts[i]) : (struct str){ 0 });
		jw_close(j, '}');
	}
	jw_close(j, ']');
}

static void jw_instructions(struct json *j, const struct know *k, const struct where *w, struct arena *a)
{
	struct meaning m;
	bool any = w->here < w->ninstructions;
	jw_field(j, "instruction", any ? w->instructions[w->here].text : (struct str){ 0 });
	jw_field(j, "meaning",
		 any && meaning_of(k, w->instructions[w->here].text, &m) ? meaning_say(a, k, &m) : (struct str){ 0 });
	jw_key(j, "instructions");
	jw_open(j, '[');
	for (size_t i = 0; i < w->ninstructions; i++) {
		jw_open(j, '{');
		jw_key(j, "address");
		jw_hex(j, w->instructions[i].address + w->in->base);
		jw_field(j, "text", w->instructions[i].text);
		jw_key(j, "here");
		jw_bool(j, is_here(w, i));
		jw_close(j, '}');
	}
	jw_close(j, ']');
}

static void jw_address(struct json *j, const struct know *k, const struct found_address *f, struct arena *a)
{
	const struct where *w = f->where;
	jw_open(j, '{');
	jw_field(j, "asked", str_z(f->asked));
	jw_key(j, "address");
	if (f->by_name)
		jw_null(j);
	else
		jw_hex(j, w->pc);
	jw_field(j, "code_object", w->in ? w->in->name : (struct str){ 0 });
	jw_field(j, "target", w->in ? w->in->object->target_id : (struct str){ 0 });
	jw_field(j, "kernel_name", w->function && w->function->kernel ? w->name : (struct str){ 0 });
	jw_field(j, "function", w->name);
	jw_field(j, "symbol", w->function ? w->function->name : (struct str){ 0 });
	jw_key(j, "offset");
	if (w->function)
		jw_hex(j, w->offset);
	else
		jw_null(j);
	jw_source(j, w);
	jw_frames(j, w, f->texts);
	jw_instructions(j, k, w, a);
	jw_field(j, "no_instructions", w->no_instructions);
	jw_close(j, '}');
}

static void where_json(const struct know *k, const struct found_address *found, size_t n, FILE *out)
{
	struct json j = { .out = out };
	struct arena arena = { 0 };
	jw_open(&j, '{');
	jw_field(&j, "schema", S("unhang/where/1"));
	jw_key(&j, "addresses");
	jw_open(&j, '[');
	for (size_t i = 0; i < n; i++)
		jw_address(&j, k, &found[i], &arena);
	jw_close(&j, ']');
	jw_close(&j, '}');
	arena_free(&arena);
}

// --- text ---

static void put_frame(FILE *out, const struct where *w, const struct code_frame *f, struct str text)
{
	print_safe(out, f->file);
	fprintf(out, ":%u", f->line);
	if (f->column)
		fprintf(out, ":%u", f->column);
	if (w->nframes > 1) {
		fprintf(out, "  in ");
		print_safe(out, f->function);
		fputs(f->inlined ? ", inlined" : "", out);
	}
	if (text.n) {
		fprintf(out, "\n             | ");
		print_safe(out, text);
	}
}

static void text_instructions(FILE *out, const struct know *k, const struct where *w, struct arena *a, const char *bold,
			      const char *plain)
{
	struct meaning m;
	for (size_t i = 0; i < w->ninstructions; i++) {
		bool here = is_here(w, i);
		fprintf(out, "%s       %s 0x%llx  ", here ? bold : "", here ? "=>" : "  ",
			(unsigned long long)(w->instructions[i].address + w->in->base));
		print_safe(out, w->instructions[i].text);
		fprintf(out, "%s\n", here ? plain : "");
		if (here && meaning_of(k, w->instructions[i].text, &m)) {
			fprintf(out, "                ");
			print_safe(out, meaning_say(a, k, &m));
			fputc('\n', out);
		}
	}
	if (w->here < w->ninstructions && w->instructions[w->here].address != w->address)
		fprintf(out, "         The address lies inside this instruction: no instruction begins there.\n");
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
		text_printf(to, "behind its end: the function has 0x%llx bytes", (unsigned long long)f->size);
	else
		text_add(to, f->where->in ? S("in no function") :
			     f->by_name   ? S("no function has this name") :
					    S("in none of the code objects"));
}

static void text_head(FILE *out, const struct found_address *f)
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
	print_safe(out, text_str(&head));
	fputc('\n', out);
	text_free(&head);
}

/** All about one address. */
static void text_full(FILE *out, const struct know *k, const struct found_address *f, struct arena *a, bool colour)
{
	const struct where *w = f->where;
	text_head(out, f);
	if (!w->in)
		return;
	for (size_t i = 0; i < w->nframes; i++) {
		fprintf(out, "     %s ", i ? "from" : "  at");
		put_frame(out, w, &w->frames[i], f->texts ? f->texts[i] : (struct str){ 0 });
		fputc('\n', out);
	}
	if (!w->nframes && w->function)
		fprintf(out, "     no source line: %s\n",
			w->in->of_memory ? "only the memory of the code is at hand, not its file" :
			w->in->lines     ? "its debug information has none for this address" :
					   "compiled without debug information (-g)");
	text_instructions(out, k, w, a, colour ? "\033[1m" : "", colour ? "\033[0m" : "");
	if (w->no_instructions.n) {
		fprintf(out, "     no instructions: ");
		print_safe(out, w->no_instructions);
		fputc('\n', out);
	}
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

static void where_text(const struct know *k, const struct found_address *found, size_t n, bool colour, FILE *out)
{
	struct arena arena = { 0 };
	for (size_t i = 0; i < n; i++) {
		if (i)
			fputc('\n', out);
		text_full(out, k, &found[i], &arena, colour);
	}
	arena_free(&arena);
}

void report_where(const struct know *k, const struct found_address *found, size_t n, const struct uh_look_options *o, FILE *out)
{
	if (o->json)
		where_json(k, found, n, out);
	else
		where_text(k, found, n, o->colour, out);
}
