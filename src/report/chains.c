#include "report/chains.h"

#include <stdlib.h>

#include "base/print.h"

enum { TEXT_MOST = 16 << 20, PLACE_MOST = 64 };

/** The chain of a scope, in the text of all. */
struct chain {
	uint32_t at, n;
	uint32_t depth; // + 1; 0: not made yet
};

struct chains {
	const struct code_lines *of;
	struct chain *chains; // by scope
	struct text text;
};

struct chains *chains_new(void) { return mem_alloc(sizeof(struct chains)); }

void chains_free(struct chains *c)
{
	free(c->chains);
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
	free(c->chains);
	c->chains = mem_alloc(code_lines_scopes(l) * sizeof(*c->chains) + 1);
	c->of = l;
	text_clear(&c->text);
}

/** The callers of what is in @scope. */
static struct str chain_of(struct chains *c, const struct code_lines *l, uint32_t scope)
{
	struct code_frame calls[CODE_FRAMES];
	uint32_t scopes[CODE_FRAMES], n = 0, depth = 0;
	begin(c, l);
	// Up to a caller whose chain is there, or to the outermost.
	struct chain upper = { 0 };
	while (n < CODE_FRAMES - 1 && scope < code_lines_scopes(l)) {
		if (c->chains[scope].depth) {
			upper = c->chains[scope];
			break;
		}
		scopes[n] = scope;
		if (!code_lines_caller(l, scope, &calls[n], &scope))
			break;
		n++;
	}
	depth = upper.depth ? upper.depth - 1 : 0;
	// From there down again, each with the chain of its caller behind it.
	while (n--) {
		if (depth == CODE_FRAMES - 1)
			break;
		uint32_t at = (uint32_t)c->text.n;
		add_place(&c->text, S(" < "), &calls[n]);
		char *p = text_room(&c->text, upper.n);
		if (upper.n)
			memcpy(p, c->text.p + upper.at, upper.n);
		c->text.n += upper.n;
		depth++;
		upper = (struct chain){ at, (uint32_t)c->text.n - at, depth + 1 };
		c->chains[scopes[n]] = upper;
	}
	return str_cut(str_from(text_str(&c->text), upper.at), upper.n);
}

void chains_add(struct chains *c, const struct code_lines *l, const struct code_frame *here, uint32_t scope, struct text *to)
{
	add_place(to, S("   "), here);
	text_add(to, chain_of(c, l, scope));
}
