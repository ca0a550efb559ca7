#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/door.h"
#include "base/json.h"
#include "base/print.h"
#include "cmd/cmd.h"
#include "cmd/knowledge.h"
#include "evidence/line.h"
#include "knowledge/know.h"
#include "knowledge/parameter.h"
#include "source/source.h"

static void print_kinds(void)
{
	int column = printf("kinds: %s", know_kind_name(0));
	for (size_t n = 1; know_kind_name(n); n++) {
		bool full = column + strlen(know_kind_name(n)) > 100;
		if (full)
			column = 0;
		column += printf("%s%s", full ? ",\n       " : ", ", know_kind_name(n));
	}
	putchar('\n');
}

static bool is_kind(const char *name)
{
	size_t n = 0;
	while (know_kind_name(n) && strcmp(know_kind_name(n), name))
		n++;
	return know_kind_name(n);
}

static void usage(void)
{
	puts("usage: unhang knowledge [list [KIND]] [--json]   what is known, by kind\n"
	     "       unhang knowledge show [--json] ID         one block: an event, cause, remedy, parameter, ...\n"
	     "       unhang knowledge check FILE...            whether these files are right\n"
	     "       unhang knowledge match [--json] [FILE]    what each line of a log is recognised as\n"
	     "       unhang knowledge version [--root DIR] [--json]\n"
	     "                                                 which version is in use, and where it is from\n"
	     "       unhang knowledge update [--root DIR] [--dry-run] FILE\n"
	     "                                                 install signed knowledge; --remove instead of FILE takes it "
	     "back\n"
	     "       unhang knowledge key FILE                 make a key to sign with: FILE, and FILE.pub for those who trust "
	     "it\n"
	     "       unhang knowledge export --key FILE --version N [--note TEXT] [-o OUT] [KNOW_FILE...]\n"
	     "                                                 sign these files, or else all that this machine knows\n");
	print_kinds();
	puts("docs/KNOWLEDGE.md describes the files; your own go to /etc/unhang/knowledge.d or\n"
	     "~/.config/unhang/knowledge.d. docs/KNOWLEDGE_UPDATES.md is about signed ones.");
}

static void print_problem(void *ctx, const char *file, unsigned line, const char *message)
{
	(void)ctx;
	print_safe(stderr, str_z(file));
	fprintf(stderr, ":%u: ", line);
	print_safe(stderr, str_z(message)); // what stands in a stranger's file
	fputc('\n', stderr);
}

// --- list and show ---

struct listing {
	const char *kind; // NULL: all
	struct json *json;
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
	struct listing *g = ctx;
	if (g->kind ? strcmp(g->kind, l->kind) : l->bulk)
		return;
	if (!g->json) {
		printf("%-11s %-32.*s " STR_FMT "\n", l->kind, STR_ARG(l->id), STR_ARG(str_cut(l->text, 110)));
		return;
	}
	listed_json(g->json, l);
	jw_close(g->json, '}');
}

static int knowledge_list(const char *kind, bool as_json)
{
	struct know_problems problems = { .report = print_problem };
	struct know *k = know_load(&problems);
	struct json json = { .out = stdout };
	struct listing g = { .kind = kind, .json = as_json ? &json : NULL };
	if (as_json)
		jw_open(&json, '[');
	else if (!kind)
		knowledge_versions(NULL, false);
	know_each_block(k, list_one, &g);
	if (as_json)
		jw_close(&json, ']');
	know_free(k);
	if (kind && !is_kind(kind)) {
		complain("there is no kind '%s'; unhang knowledge --help lists them", kind);
		return EXIT_CANNOT;
	}
	return EXIT_NOTHING_WRONG;
}

struct showing {
	const struct know *know;
	struct str id;
	struct json *json; // NULL: text
	unsigned found, line;
};

/** The block as it stands in its file: from its heading to the next one. */
static void print_block(struct str text, unsigned line)
{
	for (unsigned n = 1; text.n; n++) {
		struct str one = str_split(&text, '\n');
		if (n < line)
			continue;
		if (n > line && one.n && !char_space(one.p[0]))
			break;
		printf(STR_FMT "\n", STR_ARG(one));
	}
}

static void show_keys(void *ctx, const struct know_block *b)
{
	struct showing *s = ctx;
	for (size_t i = 0; b->line == s->line && i < b->nkeys; i++) {
		jw_open(s->json, '{');
		jw_field(s->json, "key", b->keys[i].key);
		jw_field(s->json, "value", b->keys[i].value);
		jw_close(s->json, '}');
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
	listed_json(s->json, l);
	jw_key(s->json, "keys");
	jw_open(s->json, '[');
	know_blocks(&arena, l->file, text, &problems, show_keys, s);
	jw_close(s->json, ']');
	jw_close(s->json, '}');
	arena_free(&arena);
}

static void show_one(void *ctx, const struct know_listed *l)
{
	struct showing *s = ctx;
	if (!str_eq(l->id, s->id) && (strcmp(l->kind, "parameter") || !parameter_same(l->id, s->id)))
		return;
	s->found++;
	struct str text = text_of(s->know, l);
	if (s->json) {
		show_json(s, l, text);
		return;
	}
	printf("# %s:%u\n", l->file, l->line);
	print_block(text, l->line);
	if (!l->line)
		printf("%s " STR_FMT "  " STR_FMT "\n", l->kind, STR_ARG(l->id), STR_ARG(l->text));
}

static int knowledge_show(const char *id, bool as_json)
{
	struct know_problems problems = { .report = print_problem };
	struct know *k = know_load(&problems);
	struct json json = { .out = stdout };
	struct showing s = { .know = k, .id = str_z(id), .json = as_json ? &json : NULL };
	if (as_json)
		jw_open(&json, '[');
	know_each_block(k, show_one, &s);
	if (as_json)
		jw_close(&json, ']');
	know_free(k);
	if (!s.found) {
		complain("nothing known is called '%s'; unhang knowledge list shows what is", id);
		return EXIT_CANNOT;
	}
	return EXIT_NOTHING_WRONG;
}

// --- check ---

static int knowledge_check(int argc, char **argv)
{
	int status = EXIT_NOTHING_WRONG;
	for (int i = 0; i < argc; i++) {
		struct arena room = { 0 };
		struct str text;
		struct uh_error *err = root_read(NULL, argv[i], KNOW_FILE_MOST, &room, &text, NULL);
		if (err) {
			complain("%s", err->message);
			uh_error_free(err);
			arena_free(&room);
			status = EXIT_CANNOT;
			continue;
		}
		struct know_problems problems = { .report = print_problem };
		know_free(know_load_with(argv[i], text, &problems));
		arena_free(&room);
		if (problems.count)
			status = EXIT_CANNOT;
		else
			printf("%s: right\n", argv[i]);
	}
	return status;
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

static void match_text(struct str line, const struct match *m)
{
	print_safe(stdout, line);
	if (!m) {
		printf("\n    not recognised\n");
		return;
	}
	const struct know_signature *s = match_signature(m);
	printf("\n    %-8.*s %-7s " STR_FMT "\n", STR_ARG(s->subsystem), level_name(s->level),
	       STR_ARG(s->head.id.n ? s->head.id : m->template->text));
	for (size_t i = 0; i < m->ncaptures; i++) {
		if (!m->captures[i].piece->name.n)
			continue;
		printf("        %-20.*s ", STR_ARG(m->captures[i].piece->name));
		print_safe(stdout, m->captures[i].text);
		putchar('\n');
	}
}

struct matching {
	struct know *know;
	struct json *json; // NULL: text
	unsigned number;
	bool failed;
};

static void match_line(struct matching *g, struct str raw)
{
	LINE_ROOM(room);
	struct logline line = { 0 };
	struct match m;
	g->number++;
	line_parse(g->know, line_clean(raw, &room), &line);
	bool found = line_recognise(g->know, &line, &m);
	if (g->json)
		match_json(g->json, g->number, found ? &m : NULL);
	else
		match_text(line.text, found ? &m : NULL);
}

/** Lines of a stream; of one that is longer than anything that is recognised, the front. */
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
	if (err) {
		complain("%s", err->message);
		g->failed = true;
		uh_error_free(err);
	}
}

static void match_problem(void *ctx, struct uh_error *err)
{
	complain("%s", err->message);
	((struct matching *)ctx)->failed = true;
	uh_error_free(err);
}

static void match_record(void *ctx, const char *name, const struct source_record *record)
{
	if (name && record)
		match_line(ctx, record->text);
}

static int knowledge_match(const char *path, bool as_json)
{
	struct opened what;
	struct uh_error *err = path ? door_look(&(struct named){ .path = path }, &what) : NULL;
	if (path && (err ? err->errnum == ETIMEDOUT : S_ISDIR(what.st.st_mode))) {
		complain("%s%s", err ? err->message : path, err ? "" : ": a directory; one file is matched at a time");
		uh_error_free(err);
		return EXIT_CANNOT;
	}
	uh_error_free(err);
	struct know_problems problems = { .report = print_problem };
	struct json json = { .out = stdout };
	struct matching g = { .know = know_load(&problems), .json = as_json ? &json : NULL };
	const struct source_visitor v = { match_source, match_record, match_problem, &g };
	if (as_json)
		jw_open(&json, '[');
	source_path(path ? path : "-", &v);
	if (as_json)
		jw_close(&json, ']');
	know_free(g.know);
	return g.failed ? EXIT_CANNOT : EXIT_NOTHING_WRONG;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} signed_verbs[] = {
	{ "update", knowledge_update },
	{ "export", knowledge_export },
	{ "key", knowledge_key },
	{ "version", knowledge_version },
};

int cmd_knowledge(int argc, char **argv)
{
	bool json = false;
	int n = 0;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			usage();
			return EXIT_NOTHING_WRONG;
		}
	}
	for (size_t i = 0; argc > 1 && i < sizeof(signed_verbs) / sizeof(signed_verbs[0]); i++)
		if (!strcmp(argv[1], signed_verbs[i].name))
			return signed_verbs[i].run(argc - 1, argv + 1);
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json"))
			json = true;
		else
			argv[n++] = argv[i];
	}
	const char *verb = n ? argv[0] : "list";
	if (!strcmp(verb, "list") && n <= 2)
		return knowledge_list(n == 2 ? argv[1] : NULL, json);
	if (!strcmp(verb, "show") && n == 2)
		return knowledge_show(argv[1], json);
	if (!strcmp(verb, "check") && n > 1)
		return knowledge_check(n - 1, argv + 1);
	if (!strcmp(verb, "match") && n <= 2)
		return knowledge_match(n == 2 ? argv[1] : NULL, json);
	complain("unhang knowledge: see unhang knowledge --help");
	return EXIT_CANNOT;
}
