#include "report/chains.h"

#include <stdlib.h>

#include "base/print.h"

enum { TEXT_MOST = 16 << 20, PLACE_MOST = 64 };

/** Where a scope was inlined, in the text of all. */
struct call {
	uint32_t at, n; // n 0: not made yet
};

struct chains {
	const struct code_lines *of;
	struct call *calls; // by scope
	struct text text;
};

struct chains *chains_new(void) { return mem_alloc(sizeof(struct chains)); }

void chains_free(struct chains *c)
{
	free(c->calls);
	text_free(&c->text);
	free(c);
}

static char *add(char *p, struct str s)
{
	if (s.n)
		memcpy(p, s.p, s.n);
	return p + s.n;
}

static void add_place(struct text *to, struct str before, const struct code_frame *f)
{
	char *p = text_room(to, before.n + f->file.n + PLACE_MOST), room[NUMBER_DIGITS];
	p = add(add(add(p, before), f->file), S(":"));
	p = add(p, number_digits(room, f->line, 10));
	if (f->column)
		p = add(add(p, S(":")), number_digits(room, f->column, 10));
	to->n = (size_t)(p - to->p);
}

/** Forgets all where another object's are asked for, or too many were kept. */
static void begin(struct chains *c, const struct code_lines *l)
{
	if (c->of == l && c->text.n < TEXT_MOST)
		return;
	free(c->calls);
	c->calls = mem_alloc(code_lines_scopes(l) * sizeof(*c->calls) + 1);
	c->of = l;
	text_clear(&c->text);
}

static struct str call_of(struct chains *c, const struct code_lines *l, uint32_t scope)
{
	struct call *call = &c->calls[scope];
	if (!call->n) {
		struct code_frame frame = code_lines_call(l, scope);
		call->at = (uint32_t)c->text.n;
		add_place(&c->text, S(" < "), &frame);
		call->n = (uint32_t)c->text.n - call->at;
	}
	return (struct str){ c->text.p + call->at, call->n };
}

void chains_add(struct chains *c, const struct code_lines *l, const struct code_frame *here, uint32_t scope, struct text *to)
{
	uint32_t caller;
	begin(c, l);
	add_place(to, S("   "), here);
	for (unsigned n = 1; n < CODE_FRAMES && (caller = code_lines_caller(l, scope)) != CODE_NO_SCOPE; n++, scope = caller) {
		struct str call = call_of(c, l, scope);
		memcpy(text_room(to, call.n), call.p, call.n);
		to->n += call.n;
	}
}
