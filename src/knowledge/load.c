// From files to struct know: what is built in, an update of it, the machine's and the user's files. What one block says of another must
// exist; that can be told only when all are there.
#include "knowledge/know.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/door/door.h"
#include "knowledge/image.h"
#include "knowledge/kinds/kinds.h"
#include "knowledge/matcher.h"
#include "knowledge/parameter.h"
#include "knowledge/signed/container.h"
#include "knowledge_version.h"

/** retract KIND ID: what stands behind it counts again. */
static void load_retract(struct loader *l, const struct know_block *b)
{
	struct str id = b->id, kind = str_word(&id);
	id = str_trim(id);
	if (!id.n || b->nkeys)
		know_problem(l->problems, b->file, b->line, "to take a block out: retract KIND ID");
	else if (!know_retract(l->know, kind, id))
		know_problem(l->problems, b->file, b->line, "blocks of the kind '" STR_FMT "' cannot be retracted",
			     STR_ARG(kind));
}

static void load_block(void *ctx, const struct know_block *b)
{
	struct loader *l = ctx;
	const struct know_kind *kind = kind_named(b->kind);
	if (kind)
		kind_load(l, kind, b);
	else if (str_is(b->kind, "retract"))
		load_retract(l, b);
	else
		know_problem(l->problems, b->file, b->line, "unknown kind of block '" STR_FMT "'", STR_ARG(b->kind));
}

static void load_text_as(void *ctx, const char *file, struct str text, bool added)
{
	struct loader *l = ctx;
	const struct know_text one = { file, text };
	l->user = added;
	vec_push(&l->know->texts, one);
	know_blocks(&l->know->arena, file, text, l->problems, load_block, l);
}

/** What is built in, with the update: when the first file is there that adds to it, or at the end. */
static void load_built_in(struct loader *l)
{
	if (!l->built_in)
		know_each_text(&l->know->arena, l->update, load_text_as, l);
	l->built_in = true;
}

static void load_text(struct loader *l, const char *file, struct str text)
{
	load_built_in(l);
	load_text_as(l, file, text, true);
}

/** Without the path in front, which problems have already. */
static struct str reason(const struct uh_error *err, const char *path)
{
	struct str why = str_z(err->message);
	str_behind(why, str_z(path), &why);
	str_behind(why, S(": "), &why);
	return why;
}

/** What others could have written is named and not used. */
static void load_file(struct loader *l, const char *directory, const char *name)
{
	struct arena *a = &l->know->arena;
	const char *path = arena_printf(a, "%s/%s", directory, name).p;
	struct str text;
	_cleanup_error_ struct uh_error *err = believed_read(NULL, path, KNOW_FILE_MOST, a, &text);
	if (!err) {
		load_text(l, path, text);
		return;
	}
	struct str why = reason(err, path);
	know_problem(l->problems, path, 0, "%s" STR_FMT,
		     str_starts(why, S("not used: ")) ? "" : "cannot be read as knowledge: ", STR_ARG(why));
}

static void load_directory(struct loader *l, const char *directory)
{
	_cleanup_arena_ struct arena room = { 0 };
	struct door_names names;
	_cleanup_error_ struct uh_error *err =
		door_names(&(struct named){ .path = directory, .believed = true }, true, &room, &names);
	if (err && err->errnum == ETIMEDOUT)
		know_problem(l->problems, directory, 0, "does not answer, so the knowledge in it is not used");
	else if (err && !err->errnum)
		know_problem(l->problems, directory, 0, STR_FMT, STR_ARG(reason(err, directory)));
	for (size_t i = 0; i < names.n; i++)
		if (str_ends(str_z(names.list[i]), S(".know")))
			load_file(l, directory, names.list[i]);
}

static void load_directories(struct loader *l)
{
	load_directory(l, "/etc/unhang/knowledge.d");
	_cleanup_text_ struct text path = { 0 };
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	if (config && *config)
		text_printf(&path, "%s/unhang/knowledge.d", config);
	else if (home)
		text_printf(&path, "%s/.config/unhang/knowledge.d", home);
	if (path.n)
		load_directory(l, path.p);
}

const uint64_t know_embedded_version = KNOWLEDGE_VERSION;

/** With @update (NULL: none). */
static void load_begin(struct loader *l, const struct container *update, struct know_problems *problems)
{
	*l = (struct loader){ .know = mem_alloc(sizeof(*l->know)), .problems = problems, .update = update };
	l->know->matcher = matcher_new();
	l->know->version = update ? update->version : know_embedded_version;
	l->know->update = update ? update->path : NULL;
}

/** With the update that is installed, where it is newer. One that is damaged is a problem, not the end. @update lives as long as @l. */
static void load_begin_installed(struct loader *l, struct container *update, struct know_problems *problems)
{
	struct arena a = { 0 };
	bool there;
	_cleanup_error_ struct uh_error *err = update_installed(&a, NULL, update, &there);
	if (err) {
		struct str why = str_z(err->message);
		str_behind(why, S(UPDATE_PATH ": "), &why);
		know_problem(problems, UPDATE_PATH, 0, STR_FMT "; what is built in is used", STR_ARG(why));
	}
	load_begin(l, there && update->version > know_embedded_version ? update : NULL, problems);
	l->know->update_arena = a;
}

// --- what blocks say of others ---

static const struct know_event *resolve_event(struct know *k, const struct know_head *head, struct str id,
					      struct know_problems *problems)
{
	const struct know_event *event = know_event(k, id);
	if (!event)
		know_problem(problems, head->file, head->line, "there is no event '" STR_FMT "'", STR_ARG(id));
	return event;
}

/** A signature that refers to nothing that does not exist is given to the matcher. */
static void resolve_signature(struct know *k, struct know_signature *s, struct know_problems *problems)
{
	unsigned before = problems->count;
	if (s->event_id.n)
		s->event = resolve_event(k, &s->head, s->event_id, problems);
	size_t n = 0;
	for (struct know_list *d = s->detail_ids; d && n < 4; d = d->next)
		s->details[n++] = resolve_event(k, &s->head, d->text, problems);
	for (size_t t = 0; t < s->ntemplates; t++)
		for (size_t i = 0; i < s->templates[t]->npieces; i++)
			if (s->templates[t]->pieces[i].type == VALUE_NAME &&
			    !KNOW_BY_ID(k->names, s->templates[t]->pieces[i].table))
				know_problem(problems, s->head.file, s->templates[t]->line,
					     "'" STR_FMT "' is neither a type nor a table of names",
					     STR_ARG(s->templates[t]->pieces[i].table));
	if (problems->count != before) // nobody may match what refers to nothing
		s->ntemplates = 0;
	for (size_t t = 0; t < s->ntemplates; t++)
		if (!matcher_add(k->matcher, s->templates[t]))
			know_problem(problems, s->head.file, s->templates[t]->line,
				     "the message has no four characters in a row to find it by");
}

static const struct know_class *resolve_class(const struct know *k, const struct know_head *head, struct str id,
					      struct know_problems *problems)
{
	const struct know_class *class = know_class(k, id);
	if (!class)
		know_problem(problems, head->file, head->line, "there is no class or tag '" STR_FMT "'", STR_ARG(id));
	return class;
}

static void resolve_cause(struct know *k, struct know_cause *c, struct know_problems *problems)
{
	static const struct know_class unknown;
	const struct know_class *class = resolve_class(k, &c->head, c->head.id, problems);
	c->class = class ? class : &unknown;
	static const struct know_stage nowhere = { .counts = BAND_UNEXPLAINED };
	const struct know_stage *stage = KNOW_BY_ID(k->stages, c->stage_id);
	c->stage = stage ? stage : &nowhere;
}

/** Packets are put into their lists from the last to the first, so that the first stands first. */
static void resolve_packet(struct know *k, struct know_packet *p, struct know_problems *problems)
{
	const struct know_packet **first = &k->packets_of[p->language][p->opcode < 0 ? p->type : p->opcode];
	p->same = *first;
	*first = p;
	for (const struct know_packet_field *f = p->fields; f; f = f->next)
		if (f->table.n && !KNOW_BY_ID(k->names, f->table))
			know_problem(problems, p->head.file, p->head.line,
				     "'" STR_FMT "' of field " STR_FMT " is neither a way to print nor a table of names",
				     STR_ARG(f->table), STR_ARG(f->name));
}

static void resolve_findings(const struct know *k, struct know_problems *problems)
{
	for (size_t i = 0; i < k->bad.len; i++)
		k->bad.data[i]->remedy = know_remedy(k, k->bad.data[i]->remedy_id);
	for (size_t i = 0; i < k->checks.len; i++) {
		struct know_check *c = k->checks.data[i];
		c->remedy = know_remedy(k, c->remedy_id);
		if (c->severity != SEVERITY_OK && !c->remedy && (!c->steps || !c->why.n || !c->grade.n || !c->source.n))
			know_problem(problems, c->head.file, c->head.line,
				     "'" STR_FMT "' lacks 'why', 'do', 'grade' or 'source', or the remedy that says it",
				     STR_ARG(c->head.id));
	}
}

static int by_month_name(const void *a, const void *b)
{
	return str_cmp((*(struct know_row *const *)a)->head.id, (*(struct know_row *const *)b)->head.id);
}

/** What reports a failure is worth the search for a mistyped line. */
static void list_typed(struct know *k)
{
	for (size_t i = 0; i < k->signatures.len; i++) {
		const struct know_signature *s = k->signatures.data[i];
		bool worth = (s->event || s->detail_ids) && !s->message && s->level == LEVEL_ERROR;
		for (size_t n = 0; worth && n < s->ntemplates; n++)
			if (s->templates[n]->pieces[0].literal.n)
				vec_push(&k->typed[know_letter(s->templates[n]->pieces[0].literal.p[0])], s->templates[n]);
	}
}

/** When all blocks are there: finds what they name (events, remedies, tables, classes), tells what does not exist, and gives the templates
 * to the matcher. */
static void know_resolve(struct know *k, struct know_problems *problems)
{
	if (k->months.len)
		qsort(k->months.data, k->months.len, sizeof(k->months.data[0]), by_month_name);
	for (size_t i = 0; i < k->signatures.len; i++)
		resolve_signature(k, k->signatures.data[i], problems);
	list_typed(k);
	const struct know_head own = { .file = "unhang" };
	resolve_event(k, &own, S(KNOW_EVENT_MESSAGE), problems);
	resolve_class(k, &own, S(KNOW_CLASS_RESET_LOOP), problems);
	for (size_t i = 0; i < k->causes.len; i++)
		resolve_cause(k, k->causes.data[i], problems);
	cases_resolve(k, problems);
	kinds_refer(k, problems);
	resolve_findings(k, problems);
	explanations_resolve(k, problems);
	parameters_resolve(k, problems);
	for (size_t i = k->packets.len; i-- > 0;)
		resolve_packet(k, k->packets.data[i], problems);
}

static struct know *load_end(struct loader *l)
{
	load_built_in(l);
	know_resolve(l->know, l->problems);
	matcher_finish(l->know->matcher);
	return l->know;
}

struct know *know_load(struct know_problems *problems)
{
	struct loader l;
	struct container update;
	load_begin_installed(&l, &update, problems);
	load_directories(&l);
	struct know *image = l.built_in || l.update ? NULL : image_load();
	if (!image)
		return load_end(&l);
	know_free(l.know);
	return image;
}

struct know *know_load_with(const char *file, struct str text, struct know_problems *problems)
{
	struct loader l;
	struct container update;
	load_begin_installed(&l, &update, problems);
	load_text(&l, file, text);
	return load_end(&l);
}

struct know *know_load_alone(const char *file, struct str text, struct know_problems *problems)
{
	struct loader l;
	load_begin(&l, NULL, problems);
	l.built_in = true;
	load_text(&l, file, text);
	return load_end(&l);
}

struct know *know_load_update(const struct container *update, struct know_problems *problems)
{
	struct loader l;
	load_begin(&l, update, problems);
	return load_end(&l);
}

void know_free(struct know *k)
{
	if (!k)
		return;
	if (k->image) {
		image_free(k);
		return;
	}
	matcher_free(k->matcher);
	for (size_t i = 0; i < KNOW_LETTERS; i++)
		vec_free(&k->typed[i]);
	kinds_free(k);
	terms_free(&k->base.terms);
	vec_free(&k->texts);
	arena_free(&k->update_arena);
	arena_free(&k->arena);
	free(k);
}
