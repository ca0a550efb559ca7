// What is known, shown to people who check or extend it: blocks of knowledge, what a message matches, updates before they are
// installed, and one remedy with all that it costs.
#include "report/knowledge.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/print.h"
#include "knowledge/parameter.h"
#include "knowledge/signed/changes.h"
#include "report/report.h"
#include "report/sheet.h"

// --- list and show ---

struct kind_listing {
	const char *kind; // NULL: all
	struct sheet sheet;
};

static void walk_listed(struct sheet *s, const struct know_listed *l)
{
	sheet_fields(s, { "kind", v_word(l->kind) }, { "id", v_known(l->id) }, { "text", v_text(l->text) },
		     { "file", v_word(l->file) }, { "line", v_int(l->line) });
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

static void show_keys(void *ctx, const struct know_block *b)
{
	struct showing *g = ctx;
	for (size_t i = 0; b->line == g->line && i < b->nkeys; i++) {
		sheet_record(&g->sheet, NULL, { "key", v_text(b->keys[i].key) }, { "value", v_text(b->keys[i].value) });
	}
}

/** The text of the file that it is from; empty where it is of none. */
static struct str report_knowledge_text_of(const struct know *k, const struct know_listed *l)
{
	for (size_t i = 0; l->line && i < k->texts.len; i++)
		if (!strcmp(k->texts.data[i].name, l->file))
			return k->texts.data[i].text;
	return (struct str){ 0 };
}

/** The block as it stands in its file, comments too: who checks knowledge wants the source, not our reading of it. */
static void show_one(void *ctx, const struct know_listed *l)
{
	struct showing *g = ctx;
	struct sheet *s = &g->sheet;
	_cleanup_arena_ struct arena arena = { 0 };
	struct know_problems problems = { 0 };
	if (!str_eq(l->id, g->id) && (strcmp(l->kind, "parameter") || !parameter_same(l->id, g->id)))
		return;
	struct str text = report_knowledge_text_of(g->know, l);
	g->found++;
	g->line = l->line;
	sheet_open(s, NULL, '{');
	walk_listed(s, l);
	sheet_say(s, "# %s:%u\n", l->file, l->line);
	if (!s->as_json) {
		// The block as it stands in its file: from its heading to the next one.
		for (unsigned n = 1; text.n; n++) {
			struct str one = str_split(&text, '\n');
			if (n < l->line)
				continue;
			if (n > l->line && one.n && !char_space(one.p[0]))
				break;
			sheet_say(s, STR_FMT "\n", STR_ARG(one));
		}
	}
	if (!l->line)
		sheet_say(s, "%s " STR_FMT "  " STR_FMT "\n", l->kind, STR_ARG(l->id), STR_ARG(l->text));
	sheet_open(s, "keys", '[');
	if (s->as_json)
		know_blocks(&arena, l->file, text, &problems, show_keys, g);
	sheet_close(s, ']');
	sheet_close(s, '}');
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

void report_matches_begin(struct match_report *r) { sheet_open(&r->sheet, NULL, '['); }

void report_match(struct match_report *r, struct str line, const struct match *m)
{
	struct sheet *s = &r->sheet;
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "line", v_int(++r->lines) }, { "signature", m ? v_known(match_signature(m)->head.id) : v_null() });
	sheet_say_safe(s, "", line, "\n");
	if (m) {
		const struct know_signature *is = match_signature(m);
		sheet_fields(s, { "subsystem", v_text(is->subsystem) }, { "level", v_word(level_name(is->level)) },
			     { "template", v_text(m->template->text) });
		sheet_say(s, "    %-8.*s %-7s " STR_FMT "\n", STR_ARG(is->subsystem), level_name(is->level),
			  STR_ARG(is->head.id.n ? is->head.id : m->template->text));
		// What the message says: its captures are facts.
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
	} else {
		sheet_say(s, "    not recognised\n");
	}
	sheet_close(s, '}');
}

void report_matches_end(struct match_report *r) { sheet_close(&r->sheet, ']'); }

// An update of knowledge: what it holds, what it changes, and which version is in use.

typedef unsigned long long ull;

enum { NAMED_MOST = 8 }; // blocks of a kind that are named

/** Blocks of one kind that changed in one way. */
struct change_kind {
	struct str kind;
	struct str ids[NAMED_MOST];
	size_t n;
};

struct changed_blocks {
	struct arena arena;
	VEC(struct change_kind) of[DIFFERENCE_GONE + 1];
	bool any;
};

static void note_change(void *ctx, enum know_difference change, struct str kind, struct str id)
{
	struct changed_blocks *c = ctx;
	size_t i = 0;
	while (i < c->of[change].len && !str_eq(c->of[change].data[i].kind, kind))
		i++;
	if (i == c->of[change].len) {
		const struct change_kind one = { .kind = arena_str(&c->arena, kind) };
		vec_push(&c->of[change], one);
	}
	struct change_kind *k = &c->of[change].data[i];
	if (k->n < NAMED_MOST)
		k->ids[k->n] = arena_str(&c->arena, str_cut(id, 60));
	k->n++;
	c->any = true;
}

/** How many blocks of each of the kinds that people ask for. */
struct counts {
	unsigned of[4], all;
};
static const char *const counted_kinds[] = { "signature", "known-bad", "remedy", "retract" };

static void count_kind(void *ctx, struct str kind)
{
	struct counts *c = ctx;
	c->all++;
	for (size_t i = 0; i < ARRAY_SIZE(counted_kinds); i++)
		c->of[i] += str_is(kind, counted_kinds[i]);
}

void report_update(const struct container *c, const struct container *before, struct str key_file, FILE *out)
{
	struct changed_blocks changes = { 0 };
	// What is about to be installed, before anything is asked.
	struct counts counts = { 0 };
	know_update_blocks(c, count_kind, &counts);
	fprintf(out, "knowledge %llu of " STR_FMT ", signed with the key in ", (ull)c->version, STR_ARG(c->made));
	print_safe(out, key_file);
	if (c->note.n) {
		fputs("\n  note     ", out);
		print_safe(out, c->note);
	}
	fprintf(out, "\n  holds    %zu file%s, %u block%s:", c->nfiles, c->nfiles == 1 ? "" : "s", counts.all,
		counts.all == 1 ? "" : "s");
	for (size_t i = 0; i < ARRAY_SIZE(counted_kinds); i++)
		fprintf(out, "%s %u %s", i ? "," : "", counts.of[i], counted_kinds[i]);
	fputc('\n', out);
	know_changes(before, c, note_change, &changes);
	// What would change, before anything is asked.
	static const char *const words[] = { "new", "changed", "gone" };
	for (int change = DIFFERENCE_NEW; change <= DIFFERENCE_GONE; change++) {
		for (size_t i = 0; i < changes.of[change].len; i++) {
			const struct change_kind *k = &changes.of[change].data[i];
			fprintf(out, "  %-8s %zu ", words[change], k->n);
			print_safe(out, k->kind);
			for (size_t n = 0; n < k->n && n < NAMED_MOST; n++) {
				fputs(n ? ", " : ": ", out);
				print_safe(out, k->ids[n]);
			}
			fputs(k->n > NAMED_MOST ? ", ...\n" : "\n", out);
		}
		vec_free(&changes.of[change]);
	}
	if (!changes.any)
		fputs("  it changes no block\n", out);
	arena_free(&changes.arena);
}

// --- version ---

static bool in_use(const struct installed *v) { return v->there && v->update.version > know_embedded_version; }

void report_versions(const struct installed *v, bool as_json, FILE *out)
{
	struct sheet s = sheet_on(as_json, out);
	_cleanup_text_ struct text key = { 0 };
	const ull built_in = know_embedded_version, there = v->update.version;
	sheet_open(&s, NULL, '{');
	sheet_fields(&s, { "in_use", v_number(in_use(v) ? there : built_in) }, { "built_in", v_number(built_in) });
	if (sheet_object(&s, "update", v->there)) {
		base64_write(&key, v->update.key, KEY_BYTES);
		sheet_fields(&s, { "version", v_number(v->update.version) }, { "made", v_text(v->update.made) },
			     { "note", v_known(v->update.note) }, { "key", v_text(text_str(&key)) },
			     { "file", v_word(v->update.path) });
		sheet_close(&s, '}');
	}
	sheet_put(&s, "problem", v_word(v->err ? v->err->message : NULL));
	if (in_use(v))
		sheet_say(&s, "knowledge %llu of " STR_FMT ", from %s (built in: %llu)\n", there, STR_ARG(v->update.made),
			  v->update.path, built_in);
	else
		sheet_say(&s, "knowledge %llu, built in\n", built_in);
	if (v->there && !in_use(v))
		sheet_say(&s, "version %llu in %s is not newer, and not used\n", there, v->update.path);
	if (v->err)
		sheet_say(&s, "%s; not used\n", v->err->message);
	sheet_close(&s, '}');
}

// --- one remedy ---

enum { LABEL = 8, NUMBER = 3 };

/** Takes the next citation off @list: commas and semicolons in brackets do not separate. */
static struct str take_source(struct str *list)
{
	size_t n = 0;
	int depth = 0;
	for (; n < list->n && (depth > 0 || !char_among(list->p[n], ",;")); n++)
		depth += list->p[n] == '(' ? 1 : list->p[n] == ')' ? -1 : 0;
	struct str one = str_trim(str_cut(*list, n));
	*list = str_from(*list, n + 1);
	return one;
}

/** A citation is an id; what it says comes from the list of sources, where it has it. */
static void walk_sources(struct sheet *s, const struct remedy_view *v, const struct row_style *style)
{
	struct str list = v->remedy->source;
	bool first = true;
	sheet_open(s, "sources", '[');
	while (list.n) {
		const struct str id = take_source(&list);
		const struct know_source *source = NULL;
		for (size_t n = 0; n < v->know->sources.len && !source; n++)
			source = str_eq(v->know->sources.data[n]->head.id, id) ? v->know->sources.data[n] : NULL;
		_cleanup_text_ struct text line = { 0 };
		if (!id.n)
			continue;
		sheet_open(s, NULL, '{');
		sheet_fields(s, { "id", v_text(id) }, { "says", v_known(source ? source->says : (struct str){ 0 }) },
			     { "confirms", v_known(source ? source->confirms : (struct str){ 0 }) });
		text_add(&line, id);
		if (source)
			text_printf(&line, ": " STR_FMT, STR_ARG(source->says));
		if (source && str_is(source->confirms, "partly"))
			text_add(&line, S(" (It supports this in part.)"));
		if (!s->as_json)
			wrap_row(s->json.out, style, first ? "Source" : "", text_str(&line), 2);
		first = false;
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
}

/** Behind the steps. */
static void walk_rest(struct sheet *s, const struct remedy_view *v, const struct row_style *style)
{
	const struct know_remedy *r = v->remedy;
	_cleanup_text_ struct text here = { 0 };
	if (v->verdict.state != REMEDY_TRY && v->verdict.because.n)
		text_printf(&here, STR_FMT ".", STR_ARG(v->verdict.because));
	sheet_fields(s, { "check", v_command(v->steps.verify) }, { "cost", v_command(v->steps.cost) },
		     { "risk", v_command(v->steps.risk) }, { "undo", v_command(v->steps.undo) },
		     { "until", v_command(v->steps.until) }, { "takes", v_word(remedy_takes_name(r->takes)) },
		     { "state", v_word(remedy_state_name(v->verdict.state)) }, { "because", v_known(v->verdict.because) },
		     { "distribution", v_known(v->distribution) }, { "state_here", v_known(text_str(&here)), TEXT_ONLY });
	sheet_rows(s, style,
		   COLUMNS_OF({ "check", "Check" }, { "cost", "Cost" }, { "risk", "Risk" }, { "undo", "Undo" },
			      { "until", "Until" }, { "state_here", "Here" }));
}

static void report_knowledge_put_title(struct sheet *s, const struct know_remedy *r, bool colour, size_t width)
{
	_cleanup_text_ struct text line = { 0 };
	if (s->as_json)
		return;
	text_printf(&line, STR_FMT " [" STR_FMT "]", STR_ARG(r->title), STR_ARG(r->head.id));
	fputs(colour ? "\033[1m" : "", s->json.out);
	print_wrapped(s->json.out, text_str(&line), 0, 0, width);
	fputs(colour ? "\033[0m" : "", s->json.out);
}

void report_remedy(const struct remedy_view *v, const struct uh_remedy_options *o, FILE *out)
{
	const struct know_remedy *r = v->remedy;
	const struct row_style style = { 0, LABEL, report_width(&(struct uh_report_options){ .width = o->width }) };
	struct sheet s = sheet_on(o->json, out);
	_cleanup_text_ struct text kind = { 0 };
	text_printf(&kind, STR_FMT "; " STR_FMT " (grade " STR_FMT ")", STR_ARG(r->kind),
		    STR_ARG(str_is(r->grade, "A") ? S("an AMD engineer or a merged patch says so") :
			    str_is(r->grade, "B") ? S("several people report it") :
						    S("one person reports it")),
		    STR_ARG(r->grade));
	sheet_begin(&s, "unhang/remedy/1", NULL);
	sheet_fields(&s, { "id", v_text(r->head.id) }, { "title", v_text(r->title) }, { "kind", v_text(r->kind) },
		     { "grade", v_text(r->grade) });
	sheet_open(&s, "for", '[');
	for (const struct know_list *c = r->for_classes; c && s.as_json; c = c->next)
		jw_str(&s.json, c->text);
	sheet_close(&s, ']');
	sheet_fields(&s, { "if", v_known(r->condition_text) }, { "here", v_known(v->numbers) },
		     { "kind_text", v_known(text_str(&kind)), TEXT_ONLY });
	report_knowledge_put_title(&s, r, o->colour, style.width);
	sheet_rows(&s, &style, COLUMNS_OF({ "if", "If" }, { "kind_text", "Kind" }, { "here", "Value" }));
	sheet_commands(&s, "do", v->steps.list, v->steps.n);
	if (!s.as_json) {
		for (size_t n = 0; n < v->steps.n; n++) {
			_cleanup_text_ struct text line = { 0 };
			text_printf(&line, "%zu. " STR_FMT, n + 1, STR_ARG(command_str(v->steps.list[n])));
			wrap_row(out, &style, n ? "" : "Do", text_str(&line), NUMBER);
		}
	}
	// The command that makes its change, where unhang can.
	_cleanup_arena_ struct arena room = { 0 };
	const struct command *apply =
		(v->remedy->change.sets || v->remedy->change.clears || v->remedy->change.envs || v->remedy->change.sessions || v->remedy->change.drops) ?
			COMMAND_OF(&room, "sudo unhang doctor --apply ", PIECE_WORD, v->remedy->head.id) :
			NULL;
	sheet_put(&s, "apply", v_command(apply));
	if (!s.as_json && apply)
		wrap_row(s.json.out, &style, "Or", command_str(apply), 2);
	walk_rest(&s, v, &style);
	walk_sources(&s, v, &style);
	sheet_close(&s, '}');
}
