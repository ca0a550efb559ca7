#include "report/knowledge.h"

#include <string.h>

#include "base/print.h"
#include "knowledge/parameter.h"

// --- list and show ---

struct kind_listing {
	const char *kind; // NULL: all
	bool as_json;
	struct json json;
};

/** Its fields, in an object that the caller closes. */
static void listed_json(struct json *j, const struct know_listed *l)
{
	jw_open(j, '{');
	jw_field(j, "kind", str_z(l->kind));
	jw_field(j, "id", l->id.n ? l->id : (struct str){ 0 });
	jw_field(j, "text", l->text);
	jw_field(j, "file", str_z(l->file));
	jw_key(j, "line");
	jw_int(j, l->line);
}

static void list_one(void *ctx, const struct know_listed *l)
{
	struct kind_listing *g = ctx;
	if (g->kind ? strcmp(g->kind, l->kind) : l->bulk)
		return;
	if (!g->as_json) {
		fprintf(g->json.out, "%-11s %-32.*s " STR_FMT "\n", l->kind, STR_ARG(l->id), STR_ARG(str_cut(l->text, 110)));
		return;
	}
	listed_json(&g->json, l);
	jw_close(&g->json, '}');
}

void report_known(const struct know *k, const char *kind, bool as_json, FILE *out)
{
	struct kind_listing g = { .kind = kind, .as_json = as_json, .json = { .out = out } };
	if (as_json)
		jw_open(&g.json, '[');
	know_each_block(k, list_one, &g);
	if (as_json)
		jw_close(&g.json, ']');
}

struct showing {
	const struct know *know;
	struct str id;
	bool as_json;
	struct json json;
	unsigned found, line;
};

/** The block as it stands in its file: from its heading to the next one. */
static void put_block(struct str text, unsigned line, FILE *out)
{
	for (unsigned n = 1; text.n; n++) {
		struct str one = str_split(&text, '\n');
		if (n < line)
			continue;
		if (n > line && one.n && !char_space(one.p[0]))
			break;
		fprintf(out, STR_FMT "\n", STR_ARG(one));
	}
}

static void show_keys(void *ctx, const struct know_block *b)
{
	struct showing *s = ctx;
	for (size_t i = 0; b->line == s->line && i < b->nkeys; i++) {
		jw_open(&s->json, '{');
		jw_field(&s->json, "key", b->keys[i].key);
		jw_field(&s->json, "value", b->keys[i].value);
		jw_close(&s->json, '}');
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

static void show_json(struct showing *s, const struct know_listed *l, struct str text)
{
	struct arena arena = { 0 };
	struct know_problems problems = { 0 };
	s->line = l->line;
	listed_json(&s->json, l);
	jw_key(&s->json, "keys");
	jw_open(&s->json, '[');
	know_blocks(&arena, l->file, text, &problems, show_keys, s);
	jw_close(&s->json, ']');
	jw_close(&s->json, '}');
	arena_free(&arena);
}

static void show_one(void *ctx, const struct know_listed *l)
{
	struct showing *s = ctx;
	if (!str_eq(l->id, s->id) && (strcmp(l->kind, "parameter") || !parameter_same(l->id, s->id)))
		return;
	s->found++;
	struct str text = text_of(s->know, l);
	if (s->as_json) {
		show_json(s, l, text);
		return;
	}
	fprintf(s->json.out, "# %s:%u\n", l->file, l->line);
	put_block(text, l->line, s->json.out);
	if (!l->line)
		fprintf(s->json.out, "%s " STR_FMT "  " STR_FMT "\n", l->kind, STR_ARG(l->id), STR_ARG(l->text));
}

unsigned report_known_as(const struct know *k, struct str id, bool as_json, FILE *out)
{
	struct showing s = { .know = k, .id = id, .as_json = as_json, .json = { .out = out } };
	if (as_json)
		jw_open(&s.json, '[');
	know_each_block(k, show_one, &s);
	if (as_json)
		jw_close(&s.json, ']');
	return s.found;
}

// --- match ---

static const char *level_name(enum know_level level)
{
	static const char *const names[] = { "info", "warning", "error" };
	return names[level];
}

static void match_json(struct json *j, unsigned line, const struct match *m)
{
	jw_open(j, '{');
	jw_key(j, "line");
	jw_int(j, line);
	jw_field(j, "signature", m && match_signature(m)->head.id.n ? match_signature(m)->head.id : (struct str){ 0 });
	if (m) {
		const struct know_signature *s = match_signature(m);
		jw_field(j, "subsystem", s->subsystem);
		jw_field(j, "level", str_z(level_name(s->level)));
		jw_field(j, "template", m->template->text);
		jw_key(j, "facts");
		jw_open(j, '{');
		for (size_t i = 0; i < m->ncaptures; i++) {
			char name[64];
			snprintf(name, sizeof(name), STR_FMT, STR_ARG(m->captures[i].piece->name));
			if (!name[0])
				continue;
			jw_key(j, name);
			jw_str(j, m->captures[i].text);
		}
		jw_close(j, '}');
	}
	jw_close(j, '}');
}

static void match_text(FILE *out, struct str line, const struct match *m)
{
	print_safe(out, line);
	if (!m) {
		fprintf(out, "\n    not recognised\n");
		return;
	}
	const struct know_signature *s = match_signature(m);
	fprintf(out, "\n    %-8.*s %-7s " STR_FMT "\n", STR_ARG(s->subsystem), level_name(s->level),
		STR_ARG(s->head.id.n ? s->head.id : m->template->text));
	for (size_t i = 0; i < m->ncaptures; i++) {
		if (!m->captures[i].piece->name.n)
			continue;
		fprintf(out, "        %-20.*s ", STR_ARG(m->captures[i].piece->name));
		print_safe(out, m->captures[i].text);
		fputc('\n', out);
	}
}

void report_matches_begin(struct match_report *r)
{
	if (r->as_json)
		jw_open(&r->json, '[');
}

void report_match(struct match_report *r, struct str line, const struct match *m)
{
	r->lines++;
	if (r->as_json)
		match_json(&r->json, r->lines, m);
	else
		match_text(r->json.out, line, m);
}

void report_matches_end(struct match_report *r)
{
	if (r->as_json)
		jw_close(&r->json, ']');
}
