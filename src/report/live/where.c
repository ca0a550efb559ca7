// What is at an address of code: kernel, instruction with its neighbours, source line and inline chain; and the kernels that code
// objects hold.
#include "report/live/look.h"

void walk_source(struct sheet *s, const struct where *w)
{
	if (!sheet_object(s, "source", w->nframes))
		return;
	sheet_fields(s, { "file", v_known(w->frames[0].file) }, { "line", v_int(w->frames[0].line) });
	sheet_close(s, '}');
}

/** Innermost first, as debuggers do: the line that runs, then who inlined it. */
static void walk_frames(struct sheet *s, const struct where *w, const struct str *texts)
{
	sheet_each (i, s, "frames", w->nframes) {
		const struct code_frame *f = &w->frames[i];
		sheet_fields(s, { "function", v_known(f->function) }, { "file", v_known(f->file) }, { "line", v_int(f->line) },
			     { "column", v_int(f->column) }, { "inlined", v_bool(f->inlined) },
			     { "text", texts ? v_known(texts[i]) : v_null() });
		sheet_say(s, "     %s ", i ? "from" : "  at");
		sheet_part(s, COLUMNS_OF({ "file" }, { "line", ":" }, { "column", ":", .least = 1 }));
		if (w->nframes > 1)
			sheet_say_safe(s, "  in ", f->function, f->inlined ? ", inlined" : "");
		sheet_say(s, "\n");
		sheet_line(s, 0, COLUMNS_OF({ "text", "             | " }));
	}
	if (!w->nframes && w->function)
		sheet_say(s, "     no source line: %s\n",
			  w->in->of_memory ? "only the code in memory is available, not its file" :
			  w->in->lines     ? "its debug information has none for this address" :
					     "compiled without debug information (-g)");
}

static void walk_instructions(struct sheet *s, const struct where *w, struct str meaning, bool colour)
{
	sheet_put(s, "meaning", v_text(meaning));
	sheet_each (i, s, "instructions", w->ninstructions) {
		const bool here = i == w->here;
		sheet_fields(s, { "address", v_hex(w->instructions[i].address + w->in->base) },
			     { "text", v_text(w->instructions[i].text) }, { "here", v_bool(here) });
		sheet_say(s, "%s", here && colour ? "\033[1m" : "");
		sheet_part(s, COLUMNS_OF({ "address", here ? "       => " : "          " }, { "text", "  " }));
		sheet_say(s, "%s\n", here && colour ? "\033[0m" : "");
		if (here && meaning.n)
			sheet_say_safe(s, "                ", meaning, "\n");
	}
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

/** All about one address. */
static void walk_address(struct sheet *s, const struct know *k, const struct found_address *f, bool colour)
{
	const struct where *w = f->where;
	const struct code_symbol *function = w->function;
	const struct str here = w->here < w->ninstructions ? w->instructions[w->here].text : (struct str){ 0 };
	_cleanup_arena_ struct arena a = { 0 };
	struct meaning m;
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "asked", v_word(f->asked) }, { "address", v_if(!f->by_name, v_hex(w->pc)) },
		     { "code_object", w->in ? v_text(w->in->name) : v_null() },
		     { "target", w->in ? v_text(w->in->object->target_id) : v_null() },
		     { "kernel_name", v_if(function && function->kernel, v_text(w->name)) }, { "function", v_text(w->name) },
		     { "symbol", function ? v_text(function->name) : v_null() },
		     { "offset", v_if(function, v_hex(w->offset)) });
	_cleanup_text_ struct text head = { 0 };
	add_asked(&head, f);
	if (w->function)
		text_printf(&head, STR_FMT " +0x%llx", STR_ARG(w->name), (unsigned long long)w->offset);
	else
		add_missed(&head, f);
	if (w->in)
		text_printf(&head, "   (" STR_FMT ", " STR_FMT ")", STR_ARG(w->in->object->target_id), STR_ARG(w->in->name));
	sheet_say_safe(s, "", text_str(&head), "\n");
	walk_source(s, w);
	walk_frames(s, w, f->texts);
	sheet_put(s, "instruction", v_text(here));
	walk_instructions(s, w, here.n && meaning_of(k, here, &m) ? meaning_say(&a, k, &m) : (struct str){ 0 }, colour);
	sheet_put(s, "no_instructions", v_text(w->no_instructions));
	if (w->in && w->no_instructions.n)
		sheet_say_safe(s, "     no instructions: ", w->no_instructions, "\n");
	sheet_close(s, '}');
}

void report_where(const struct know *k, const struct found_address *found, size_t n, const struct uh_look_options *o, FILE *out)
{
	struct sheet s = sheet_on(o->json, out);
	sheet_begin(&s, "unhang/where/1", "addresses");
	for (size_t i = 0; i < n; i++) {
		sheet_say(&s, i ? "\n" : "");
		walk_address(&s, k, &found[i], o->colour);
	}
	sheet_end(&s);
}

// --- many addresses ---

enum { NUMBERS_MOST = 64 }; // bytes of the numbers behind a name, and what stands between them

static char *live_where_add(char *p, struct str s)
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
	p = add_hex(live_where_add(p, S("0x")), w->pc);
	p = live_where_add(live_where_add(p, S("  ")), w->name);
	p = add_hex(live_where_add(p, S(" +0x")), w->offset);
	for (size_t i = 0; i < n; i++) {
		p = live_where_add(p, i ? S(" < ") : S("   "));
		if (frames[i].file.n)
			p = live_where_add(p, frames[i].file);
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

// The kernels in code: what they need and which arguments they take.

/** What a kernel needs decides how many of its waves fit, which is why registers and LDS stand beside its name. */
static void walk_kernel(struct sheet *s, struct code_set *set, const struct code_kernel *k)
{
	sheet_fields(s, { "kernel_name", v_text(code_set_name(set, k->name)) }, { "symbol", v_text(k->name) },
		     { "address", v_hex(k->entry) }, { "size", v_number(k->size) }, { "descriptor", v_hex(k->descriptor) },
		     { "vgprs", v_number(k->vgprs) }, { "vgprs_allocated", v_number(k->vgprs_allocated) },
		     { "agprs", v_number(k->agprs) }, { "accum_offset", v_number(k->accum_offset) },
		     { "sgprs", v_number(k->sgprs) }, { "vgpr_spills", v_number(k->vgpr_spills) },
		     { "sgpr_spills", v_number(k->sgpr_spills) }, { "lds_bytes", v_number(k->lds) },
		     { "scratch_bytes", v_number(k->scratch) }, { "kernarg_bytes", v_number(k->kernarg_size) },
		     { "wave_size", v_number(k->wave_size) }, { "max_workgroup", v_number(k->max_workgroup) },
		     { "dynamic_stack", v_bool(k->dynamic_stack) });
	sheet_line(s, 0,
		   COLUMNS_OF({ "address", .width = 8, .none = "0", .least = 1 }, { "wave_size", "  ", 4 },
			      { "vgprs", "  ", 5 }, { "agprs", "  ", 5 }, { "sgprs", "  ", 5 }, { "lds_bytes", "  ", 6 },
			      { "scratch_bytes", "  ", 7, .after = "  " }, { "kernel_name" }));
	sheet_each (i, s, "arguments", k->narguments) {
		const struct code_argument *a = &k->arguments[i];
		sheet_fields(s, { "name", v_text(a->name) }, { "type", v_text(a->type_name) },
			     { "kind", v_text(a->value_kind) }, { "address_space", v_text(a->address_space) },
			     { "offset", v_number(a->offset) }, { "size", v_number(a->size) });
	}
}

void report_kernels(struct code_set *set, bool as_json, FILE *out)
{
	struct sheet s = sheet_on(as_json, out);
	sheet_begin(&s, "unhang/code/1", NULL);
	sheet_each (i, &s, "objects", set->objects.len) {
		const struct code_object *o = set->objects.data[i]->object;
		sheet_fields(&s, { "code_object", v_text(set->objects.data[i]->name) }, { "target", v_text(o->target_id) },
			     { "kernels", v_number(o->nkernels), TEXT_ONLY });
		sheet_say(&s, i ? "\n" : "");
		sheet_line(&s, 0,
			   COLUMNS_OF({ "code_object" }, { "kernels", ": ", .after = " kernel", .plural = true },
				      { "target", " for ", .none = "an unknown GPU" }));
		if (o->nkernels)
			sheet_say(&s, " address  wave  VGPRs  AGPRs  SGPRs     LDS  scratch  kernel\n");
		sheet_each (k, &s, "kernels", o->nkernels)
			walk_kernel(&s, set, &o->kernels[k]);
	}
	sheet_close(&s, '}');
}
