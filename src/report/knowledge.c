#include "report/knowledge.h"

#include <string.h>

#include "knowledge/parameter.h"

// --- list and show ---

struct kind_listing {
	const char *kind; // NULL: all
	struct sheet sheet;
};

static void walk_listed(struct sheet *s, const struct know_listed *l)
{
	sheet_put(s, "kind", v_word(l->kind));
	sheet_put(s, "id", v_known(l->id));
	sheet_put(s, "text", v_text(l->text));
	sheet_put(s, "file", v_word(l->file));
	sheet_put(s, "line", v_int(l->line));
}

static void list_one(void *ctx, const struct know_listed *l)
{
	struct kind_listing *g = ctx;
	if (g->kind ? strcmp(g->kind, l->kind) : l->bulk)
		return;
	sheet_open(&g->sheet, NULL, '{');
	walk_listed(&g->sheet, l);
	sheet_say(&g->sheet, "%-11s %-32.*s " STR_FMT "\n", l->kind, STR_ARG(l->id), STR_ARG(str_cut(l->text, 110)));
	sheet_close(&g->sheet, '}');
}

void report_known(const struct know *k, const char *kind, bool as_json, FILE *out)
{
	struct kind_listing g = { kind, sheet_on(as_json, out) };
	sheet_open(&g.sheet, NULL, '[');
	know_each_block(k, list_one, &g);
	sheet_close(&g.sheet, ']');
}

struct showing {
	const struct know *know;
	struct str id;
	struct sheet sheet;
	unsigned found, line;
};

/** The block as it stands in its file: from its heading to the next one. */
static void put_block(struct str text, unsigned line, struct sheet *s)
{
	for (unsigned n = 1; text.n; n++) {
		struct str one = str_split(&text, '\n');
		if (n < line)
			continue;
		if (n > line && one.n && !char_space(one.p[0]))
			break;
		sheet_say(s, STR_FMT "\n", STR_ARG(one));
	}
}

static void show_keys(void *ctx, const struct know_block *b)
{
	struct showing *g = ctx;
	for (size_t i = 0; b->line == g->line && i < b->nkeys; i++) {
		sheet_open(&g->sheet, NULL, '{');
		sheet_put(&g->sheet, "key", v_text(b->keys[i].key));
		sheet_put(&g->sheet, "value", v_text(b->keys[i].value));
		sheet_close(&g->sheet, '}');
	}
}

/** The text of the file that it is from; empty where it is of none. */
static struct str text_of(const struct know *k, const struct know_listed *l)
{
	for (size_t i = 0; l->line && i < k->texts.len; i++)
		if (!strcmp(k->texts.data[i].name, l->file))
			return k->texts.data[i].text;
	return (struct str){ 0 };
}

static void show_one(void *ctx, const struct know_listed *l)
{
	struct showing *g = ctx;
	struct sheet *s = &g->sheet;
	struct arena arena = { 0 };
	struct know_problems problems = { 0 };
	if (!str_eq(l->id, g->id) && (strcmp(l->kind, "parameter") || !parameter_same(l->id, g->id)))
		return;
	const struct str text = text_of(g->know, l);
	g->found++;
	g->line = l->line;
	sheet_open(s, NULL, '{');
	walk_listed(s, l);
	sheet_say(s, "# %s:%u\n", l->file, l->line);
	if (!s->as_json)
		put_block(text, l->line, s);
	if (!l->line)
		sheet_say(s, "%s " STR_FMT "  " STR_FMT "\n", l->kind, STR_ARG(l->id), STR_ARG(l->text));
	sheet_open(s, "keys", '[');
	if (s->as_json)
		know_blocks(&arena, l->file, text, &problems, show_keys, g);
	sheet_close(s, ']');
	sheet_close(s, '}');
	arena_free(&arena);
}

unsigned report_known_as(const struct know *k, struct str id, bool as_json, FILE *out)
{
	struct showing g = { .know = k, .id = id, .sheet = sheet_on(as_json, out) };
	sheet_open(&g.sheet, NULL, '[');
	know_each_block(k, show_one, &g);
	sheet_close(&g.sheet, ']');
	return g.found;
}

// --- match ---

static const char *level_name(enum know_level level)
{
	static const char *const names[] = { "info", "warning", "error" };
	return names[level];
}

static void walk_captures(struct sheet *s, const struct match *m)
{
	char name[64];
	sheet_open(s, "facts", '{');
	for (size_t i = 0; i < m->ncaptures; i++) {
		const struct str text = m->captures[i].text;
		snprintf(name, sizeof(name), STR_FMT, STR_ARG(m->captures[i].piece->name));
		if (!name[0])
			continue;
		if (s->as_json)
			sheet_put(s, name, v_text(text));
		sheet_say(s, "        %-20s ", name);
		sheet_say_safe(s, "", text, "\n");
	}
	sheet_close(s, '}');
}

static void walk_match(struct sheet *s, const struct match *m)
{
	const struct know_signature *is = match_signature(m);
	sheet_put(s, "subsystem", v_text(is->subsystem));
	sheet_put(s, "level", v_word(level_name(is->level)));
	sheet_put(s, "template", v_text(m->template->text));
	sheet_say(s, "    %-8.*s %-7s " STR_FMT "\n", STR_ARG(is->subsystem), level_name(is->level),
		  STR_ARG(is->head.id.n ? is->head.id : m->template->text));
	walk_captures(s, m);
}

void report_matches_begin(struct match_report *r) { sheet_open(&r->sheet, NULL, '['); }

void report_match(struct match_report *r, struct str line, const struct match *m)
{
	struct sheet *s = &r->sheet;
	sheet_open(s, NULL, '{');
	sheet_put(s, "line", v_int(++r->lines));
	sheet_put(s, "signature", m ? v_known(match_signature(m)->head.id) : v_null());
	sheet_say_safe(s, "", line, "\n");
	if (m)
		walk_match(s, m);
	else
		sheet_say(s, "    not recognised\n");
	sheet_close(s, '}');
}

void report_matches_end(struct match_report *r) { sheet_close(&r->sheet, ']'); }
