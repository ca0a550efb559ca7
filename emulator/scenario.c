// The text of a scenario: lines, blocks, words, numbers.
#include "emulator/machine.h"

#include <stdio.h>
#include <stdlib.h>

bool emu_wrong(struct cursor *c, const char *format, ...)
{
	if (c->r->error)
		return false;
	struct text message = { 0 };
	va_list ap;
	va_start(ap, format);
	text_vprintf(&message, format, ap);
	va_end(ap);
	c->r->error = uh_error_new("%s:%u: %s", c->r->file, c->line, message.p);
	text_free(&message);
	return false;
}

// --- words ---

bool cursor_more(struct cursor *c)
{
	while (c->rest.n && char_space(c->rest.p[0]))
		c->rest = str_from(c->rest, 1);
	return c->rest.n && c->rest.p[0] != '#';
}

static bool char_alone(char ch) { return ch == '=' || ch == '(' || ch == ')'; }

struct str cursor_peek(struct cursor *c)
{
	if (!cursor_more(c))
		return (struct str){ 0 };
	size_t n = 0;
	while (n < c->rest.n && !char_space(c->rest.p[n]) && !char_alone(c->rest.p[n]))
		n++;
	return str_cut(c->rest, n ? n : 1);
}

struct str cursor_word(struct cursor *c)
{
	struct str word = cursor_peek(c);
	c->rest = str_from(c->rest, word.n);
	return word;
}

bool cursor_is(struct cursor *c, const char *word)
{
	if (!str_is(cursor_peek(c), word))
		return false;
	cursor_word(c);
	return true;
}

struct str cursor_text(struct cursor *c)
{
	struct str text = str_trim(c->rest);
	c->rest = str_from(c->rest, c->rest.n);
	return text;
}

bool cursor_end(struct cursor *c)
{
	struct str word = cursor_peek(c);
	return !word.n || emu_wrong(c, "'" STR_FMT "' is not expected here", STR_ARG(str_cut(word, 80)));
}

bool cursor_number(struct cursor *c, const char *what, uint64_t most, uint64_t *ret)
{
	struct str word = cursor_word(c);
	if (!word.n)
		return emu_wrong(c, "%s is missing", what);
	if (!emu_number_of(word, ret))
		return emu_wrong(c, "%s: '" STR_FMT "' is no number", what, STR_ARG(str_cut(word, 80)));
	return *ret <= most || emu_wrong(c, "%s is more than %llu", what, (unsigned long long)most);
}

bool cursor_unsigned(struct cursor *c, const char *what, unsigned most, unsigned *ret)
{
	uint64_t v = 0;
	if (!cursor_number(c, what, most, &v))
		return false;
	*ret = (unsigned)v;
	return true;
}

bool cursor_seconds(struct cursor *c, double *ret)
{
	struct str word = cursor_word(c);
	return emu_seconds_of(word, ret) || emu_wrong(c, "'" STR_FMT "' is no number of seconds", STR_ARG(str_cut(word, 80)));
}

// --- lines and blocks ---

struct block_list {
	VEC(struct emu_block) blocks;
	VEC(struct emu_line) lines; // of the newest
};

static void block_end(struct emu_reader *r, struct block_list *l)
{
	if (l->blocks.len && l->lines.len) {
		struct emu_block *b = &l->blocks.data[l->blocks.len - 1];
		b->lines = arena_alloc(&r->m->arena, l->lines.len * sizeof(*b->lines));
		memcpy(b->lines, l->lines.data, l->lines.len * sizeof(*b->lines));
		b->nlines = l->lines.len;
	}
	l->lines.len = 0;
}

/** Whether a line goes on in the next; then without the \ at its end. */
static bool goes_on(struct str *line)
{
	struct str bare = *line;
	while (bare.n && char_space(bare.p[bare.n - 1]))
		bare.n--;
	if (!bare.n || bare.p[bare.n - 1] != '\\')
		return false;
	*line = str_cut(bare, bare.n - 1);
	return true;
}

/** A line, with those that it goes on in. */
static struct str whole_line(struct emu_reader *r, struct str *text, unsigned *number)
{
	struct str line = str_split(text, '\n');
	struct text joined = { 0 };
	++*number;
	while (goes_on(&line) && text->n) {
		text_add(&joined, line);
		line = str_split(text, '\n');
		++*number;
	}
	if (!joined.p)
		return line;
	text_add(&joined, line);
	line = arena_str(&r->m->arena, text_str(&joined));
	text_free(&joined);
	return line;
}

static bool line_add(struct emu_reader *r, struct block_list *l, struct str line, unsigned number)
{
	struct cursor c = { r, line, number };
	if (line.n > EMU_LINE_MOST)
		return emu_wrong(&c, "a line of more than %d KB", EMU_LINE_MOST >> 10);
	if (memchr(line.p ? line.p : "", 0, line.n))
		return emu_wrong(&c, "a NUL byte; this is not a text file");
	if (!cursor_more(&c))
		return true;
	if (c.rest.p != line.p) {
		if (!l->blocks.len)
			return emu_wrong(&c, "an indented line before the first block");
		vec_push(&l->lines, ((struct emu_line){ str_trim(c.rest), number }));
		return true;
	}
	block_end(r, l);
	struct emu_block b = { .kind = cursor_word(&c), .line = number };
	b.id = cursor_word(&c);
	if (!cursor_end(&c))
		return false;
	vec_push(&l->blocks, b);
	return true;
}

bool emu_blocks(struct emu_reader *r, struct str text, struct emu_block **ret, size_t *ret_n)
{
	struct block_list l = { 0 };
	unsigned number = 0;
	bool good = true;
	while (text.n && good) {
		unsigned first = number + 1;
		struct str line = whole_line(r, &text, &number);
		good = line_add(r, &l, line, first);
	}
	block_end(r, &l);
	*ret_n = l.blocks.len;
	*ret = arena_alloc(&r->m->arena, l.blocks.len * sizeof(**ret) + 1);
	if (l.blocks.len)
		memcpy(*ret, l.blocks.data, l.blocks.len * sizeof(**ret));
	vec_free(&l.blocks);
	vec_free(&l.lines);
	return good;
}

bool emu_statements(struct emu_reader *r, const struct emu_block *b, const struct emu_statement *statements, void *of)
{
	for (size_t i = 0; i < b->nlines; i++) {
		struct cursor c = { r, b->lines[i].text, b->lines[i].number };
		struct str name = cursor_word(&c);
		const struct emu_statement *s = statements;
		while (s->name && !str_is(name, s->name))
			s++;
		if (!s->name)
			return emu_wrong(&c, "'" STR_FMT "' is no statement of %s" STR_FMT, STR_ARG(str_cut(name, 80)),
					 str_is(b->kind, "messages") ? "" : "a block ", STR_ARG(b->kind));
		if (!s->read(&c, of) || !cursor_end(&c))
			return false;
	}
	return true;
}
