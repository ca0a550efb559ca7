// What is known: listed, shown, checked, and held against the lines of a log.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "evidence/log/line.h"
#include "report/knowledge.h"
#include "source/source.h"
#include "unhang/unhang.h"

static void tell_mistake(void *ctx, const char *file, unsigned line, const char *message)
{
	const struct uh_knowledge_options *o = ctx;
	struct text full = { 0 };
	text_printf(&full, "%s:%u: %s", file, line, message);
	if (o->mistake)
		o->mistake(o->ctx, full.p);
	text_free(&full);
}

static struct know_problems problems_of(const struct uh_knowledge_options *o)
{
	return (struct know_problems){ .report = tell_mistake, .ctx = (void *)o };
}

static struct know *load(const struct uh_knowledge_options *o)
{
	struct know_problems problems = problems_of(o);
	return know_load(&problems);
}

const char *uh_knowledge_kind(size_t n) { return know_kind_name(n); }

struct uh_error *uh_knowledge_list(const struct uh_knowledge_options *o, const char *kind)
{
	struct know *k = load(o);
	if (!o->json && !kind)
		uh_knowledge_version(NULL, false, o->out);
	report_known(k, kind, o->json, o->out);
	know_free(k);
	size_t n = 0;
	while (kind && know_kind_name(n) && strcmp(know_kind_name(n), kind))
		n++;
	return !kind || know_kind_name(n) ? NULL :
					    uh_error_new("there is no kind '%s'; unhang knowledge --help lists them", kind);
}

struct uh_error *uh_knowledge_show(const struct uh_knowledge_options *o, const char *id)
{
	struct know *k = load(o);
	const unsigned n = report_known_as(k, str_z(id), o->json, o->out);
	know_free(k);
	return n ? NULL : uh_error_new("nothing is called '%s'; unhang knowledge list shows all names", id);
}

struct uh_error *uh_knowledge_check(const struct uh_knowledge_options *o, const char *path, unsigned *ret_mistakes)
{
	struct arena room = { 0 };
	struct str text;
	struct know_problems problems = problems_of(o);
	struct uh_error *err = root_read(NULL, path, KNOW_FILE_MOST, &room, &text, NULL);
	if (!err) {
		know_free(know_load_with(path, text, &problems));
		*ret_mistakes = problems.count;
	}
	arena_free(&room);
	return err;
}

// --- match ---

struct matching {
	struct know *know;
	const struct uh_knowledge_options *options;
	struct match_report report;
	unsigned *failed;
};

static void match_line(struct matching *g, struct str raw)
{
	LINE_ROOM(room);
	struct logline line = { 0 };
	struct match m;
	line_parse(g->know, line_clean(raw, &room), &line);
	bool found = line_recognise(g->know, &line, &m);
	report_match(&g->report, line.text, found ? &m : NULL);
}

static void match_problem(void *ctx, struct uh_error *err)
{
	const struct matching *g = ctx;
	if (g->options->problem)
		g->options->problem(g->options->ctx, err->message);
	++*g->failed;
	uh_error_free(err);
}

/** Matches each line of a stream. Only the front of a line that is longer than any message. */
static void match_source(void *ctx, struct source *s)
{
	enum { ROOM = 64 << 10 };
	struct matching *g = ctx;
	struct uh_error *err = NULL;
	_cleanup_free_ char *bytes = mem_alloc(ROOM);
	size_t have = 0;
	for (;;) {
		ssize_t n = s->read(s, bytes + have, ROOM - have, &err);
		if (n > 0)
			have += (size_t)n;
		struct str text = { bytes, have };
		while (memchr(text.p, '\n', text.n))
			match_line(g, str_split(&text, '\n'));
		if (text.n && (n <= 0 || text.n == ROOM)) {
			match_line(g, text);
			text.n = 0;
		}
		memmove(bytes, text.p, text.n);
		have = text.n;
		if (n <= 0)
			break;
	}
	if (err)
		match_problem(g, err);
}

static void match_record(void *ctx, const char *name, const struct source_record *record)
{
	if (name && record)
		match_line(ctx, record->text);
}

/** One that is not there is told when it is opened. */
static struct uh_error *one_file(const char *path)
{
	struct opened what;
	struct uh_error *err = path ? door_look(&(struct named){ .path = path }, &what) : NULL;
	if (err && err->errnum == ETIMEDOUT)
		return err;
	const bool directory = path && !err && S_ISDIR(what.st.st_mode);
	uh_error_free(err);
	return directory ? uh_error_new("%s: this is a directory; give one file", path) : NULL;
}

struct uh_error *uh_knowledge_match(const struct uh_knowledge_options *o, const char *path, unsigned *ret_failed)
{
	*ret_failed = 0;
	struct uh_error *err = one_file(path);
	if (err)
		return err;
	struct matching g = { load(o), o, { .sheet = sheet_on(o->json, o->out) }, ret_failed };
	const struct source_visitor v = {
		.visit = match_source, .record = match_record, .problem = match_problem, .ctx = &g
	};
	report_matches_begin(&g.report);
	source_path(path ? path : "-", &v);
	report_matches_end(&g.report);
	know_free(g.know);
	return NULL;
}
