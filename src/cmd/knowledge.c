// unhang knowledge: what unhang knows, listed, checked, tried on a log; and signed knowledge. Each verb has its own options.
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/print.h"
#include "cmd/cmd.h"

enum { HELP_WIDTH = 80 };

/** As uh_problem_fn. FILE:LINE comes first, as compilers have it. */
static void print_mistake(void *ctx, const char *message)
{
	(void)ctx;
	print_safe(stderr, str_z(message)); // what stands in a stranger's file
	fputc('\n', stderr);
}

/** The names of the kinds, with blanks between, or commas. */
static const char *kinds_listed(struct text *room, const char *between)
{
	for (size_t n = 0; uh_knowledge_kind(n); n++)
		text_printf(room, "%s%s", n ? between : "", uh_knowledge_kind(n));
	return room->p;
}

/** A verb of `unhang knowledge`, which has options of its own. */
struct verb {
	const char *name;
	int (*run)(const struct verb *v, int argc, char **argv);
	const char *usage, *about, *operands;
};

/** Takes the options of a verb, as options_parse() does. */
static void verb_parse(const struct verb *v, struct option_rows rows, int argc, char **argv)
{
	_cleanup_text_ struct text kinds = { 0 };
	const char *operands = strcmp(v->name, "list") ? v->operands : kinds_listed(&kinds, " ");
	const struct help_text help = { .name = "knowledge", .usage = v->usage, .about = v->about, .operands = operands };
	options_parse(&help, rows, NO_ROWS, argc, argv);
}

/** list, show, check and match: --json is their one option, and check has none. */
static int knowledge_ask(const struct verb *v, int argc, char **argv)
{
	struct uh_knowledge_options o = { stdout, false, print_mistake, complain_line, NULL };
	const struct option_row rows[] = { { 0, "json", NULL, "for programs", TO_FLAG(&o.json) } };
	verb_parse(v, strcmp(v->name, "check") ? ROWS(rows) : NO_ROWS, argc, argv);
	const int n = argc - optind;
	unsigned wrong = 0;
	argv += optind;
	if (!strcmp(v->name, "list") && n <= 1)
		return done(uh_knowledge_list(&o, argv[0]));
	if (!strcmp(v->name, "show") && n == 1)
		return done(uh_knowledge_show(&o, argv[0]));
	if (!strcmp(v->name, "match") && n <= 1) {
		struct uh_error *err = uh_knowledge_match(&o, argv[0], &wrong);
		return err ? cannot(err) : wrong ? EXIT_CANNOT : EXIT_NOTHING_WRONG;
	}
	if (strcmp(v->name, "check") || !n)
		return refuse("unhang knowledge: see unhang knowledge --help");
	int status = EXIT_NOTHING_WRONG;
	for (; *argv; argv++, wrong = 0) {
		struct uh_error *err = uh_knowledge_check(&o, *argv, &wrong);
		if (err || wrong)
			status = EXIT_CANNOT;
		if (err)
			cannot(err);
		if (!err && !wrong) {
			print_safe(stdout, str_z(*argv));
			puts(": right");
		}
	}
	return status;
}

// --- Signed knowledge ---

static int knowledge_version(const struct verb *v, int argc, char **argv)
{
	const char *root = NULL;
	bool json = false;
	const struct option_row rows[] = {
		{ 0, "root", "DIR", "of the machine whose file system is below DIR", TO_FUNCTION(take_root, &root) },
		{ 0, "json", NULL, "for programs", TO_FLAG(&json) },
	};
	verb_parse(v, ROWS(rows), argc, argv);
	if (optind < argc)
		return refuse("unhang knowledge version takes no '%s'; see unhang knowledge --help", argv[optind]);
	uh_knowledge_version(root, json, stdout);
	return EXIT_NOTHING_WRONG;
}

static int knowledge_update(const struct verb *v, int argc, char **argv)
{
	const char *root = NULL;
	bool dry_run = false, removes = false;
	const struct option_row rows[] = {
		{ 0, "root", "DIR", "on the machine whose file system is below DIR", TO_FUNCTION(take_root, &root) },
		{ 0, "dry-run", NULL, "only check, and show what would change", TO_FLAG(&dry_run) },
		{ 0, "remove", NULL, "remove the installed update", TO_FLAG(&removes) },
	};
	verb_parse(v, ROWS(rows), argc, argv);
	if (argc - optind != !removes || (removes && dry_run))
		return refuse("unhang knowledge update FILE, or unhang knowledge update --remove");
	return done(removes ? uh_knowledge_remove(root, stdout) : uh_knowledge_update(root, argv[optind], dry_run, stdout));
}

static int knowledge_key(const struct verb *v, int argc, char **argv)
{
	verb_parse(v, NO_ROWS, argc, argv);
	if (argc - optind == 1)
		return done(uh_knowledge_key(argv[optind], stdout));
	return refuse("unhang knowledge key FILE: makes the key FILE and FILE.pub; see unhang knowledge --help");
}

/** As option_row.take: a whole number above 0. */
static bool take_knowledge_version(void *to, const char *text)
{
	int64_t v;
	if (!char_digit(text[0]) || strlen(text) > 18 || !str_number(str_z(text), &v) || v <= 0)
		return reject("--version needs a whole number, such as 2026111501 (YYYYMMDDNN), not '%s'", text);
	*(unsigned long long *)to = (unsigned long long)v;
	return true;
}

static int knowledge_export(const struct verb *v, int argc, char **argv)
{
	struct uh_export_options o = { 0 };
	const struct option_row rows[] = {
		{ 0, "key", "FILE", "the secret key to sign with", TO_TEXT(&o.key) },
		{ 0, "version", "N", "a whole number that must grow, by convention YYYYMMDDNN",
		  TO_FUNCTION(take_knowledge_version, &o.version) },
		{ 0, "note", "TEXT", "what changed, for those who install it", TO_TEXT(&o.note) },
		{ 'o', NULL, "OUT", "the file to write, instead of standard output", TO_TEXT(&o.file), .words = "FILE" },
	};
	verb_parse(v, ROWS(rows), argc, argv);
	if (!o.key || !o.version)
		return refuse("unhang knowledge export needs --key FILE and --version N");
	return done(uh_knowledge_export(&o, (const char *const *)argv + optind, (size_t)(argc - optind), stdout));
}

static const struct verb verbs[] = {
	{ "list", knowledge_ask, "unhang knowledge [list [KIND]] [--json]", "Lists what is known, by kind.", NULL },
	{ "show", knowledge_ask, "unhang knowledge show [--json] ID", "Shows one block, such as an event or remedy.", NULL },
	{ "check", knowledge_ask, "unhang knowledge check FILE...", "Checks knowledge files.", "FILE" },
	{ "match", knowledge_ask, "unhang knowledge match [--json] [FILE]", "Says what each line of a log is recognised as.",
	  "FILE" },
	{ "version", knowledge_version, "unhang knowledge version [--root DIR] [--json]",
	  "Says which version is in use, and where it is from.", NULL },
	{ "update", knowledge_update, "unhang knowledge update [--root DIR] [--dry-run] FILE",
	  "Installs signed knowledge; --remove instead of FILE removes it.", "FILE" },
	{ "key", knowledge_key, "unhang knowledge key FILE",
	  "Makes a key to sign with: FILE, and FILE.pub for those who trust it.", "FILE" },
	{ "export", knowledge_export,
	  "unhang knowledge export --key FILE --version N [--note TEXT] [-o OUT]\n"
	  "                               [KNOW_FILE...]",
	  "Signs these files, or all that this machine knows.", "FILE" },
};

static void knowledge_help(void)
{
	_cleanup_text_ struct text kinds = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		printf("%s %s\n           %s\n", i ? "      " : "usage:", verbs[i].usage, verbs[i].about);
	fputs("\nunhang knowledge VERB --help lists the options of one of them.\n\nkinds: ", stdout);
	print_wrapped(stdout, str_z(kinds_listed(&kinds, ", ")), 7, 7, HELP_WIDTH);
	puts("docs/KNOWLEDGE.md describes the files. Your own go to /etc/unhang/knowledge.d or\n"
	     "~/.config/unhang/knowledge.d. docs/KNOWLEDGE_UPDATES.md is about signed ones.");
}

int cmd_knowledge(int argc, char **argv)
{
	int at = 1; // of the verb, behind --json
	while (argv[at] && !strcmp(argv[at], "--json"))
		at++;
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		knowledge_help();
		return EXIT_NOTHING_WRONG;
	}
	if (argc > 1 && !strcmp(argv[1], "--list-options")) {
		_cleanup_text_ struct text names = { 0 };
		for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
			text_printf(&names, "%s%s", i ? " " : "", verbs[i].name);
		const struct help_text help = { .name = "knowledge", .operands = names.p };
		options_parse(&help, NO_ROWS, NO_ROWS, argc, argv);
	}
	for (size_t i = 0; argv[at] && i < ARRAY_SIZE(verbs); i++) {
		if (strcmp(argv[at], verbs[i].name))
			continue;
		for (; at > 1; at--)
			argv[at] = argv[at - 1];
		return verbs[i].run(&verbs[i], argc - 1, argv + 1);
	}
	if (!argv[at] || argv[at][0] == '-') // `unhang knowledge --json`
		return verbs[0].run(&verbs[0], argc, argv);
	return refuse("unhang knowledge: see unhang knowledge --help");
}
