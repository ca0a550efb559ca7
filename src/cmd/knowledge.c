#include <stdio.h>
#include <string.h>

#include "base/print.h"
#include "cmd/cmd.h"
#include "cmd/knowledge.h"
#include "unhang/unhang.h"

static void print_kinds(void)
{
	int column = printf("kinds: %s", uh_knowledge_kind(0));
	for (size_t n = 1; uh_knowledge_kind(n); n++) {
		bool full = column + strlen(uh_knowledge_kind(n)) > 78;
		if (full)
			column = 0;
		column += printf("%s%s", full ? ",\n       " : ", ", uh_knowledge_kind(n));
	}
	putchar('\n');
}

static void usage(void)
{
	puts("usage: unhang knowledge [list [KIND]] [--json]\n"
	     "           list what is known, by kind\n"
	     "       unhang knowledge show [--json] ID\n"
	     "           show one block, such as an event or remedy\n"
	     "       unhang knowledge check FILE...\n"
	     "           check knowledge files\n"
	     "       unhang knowledge match [--json] [FILE]\n"
	     "           say what each line of a log is recognised as\n"
	     "       unhang knowledge version [--root DIR] [--json]\n"
	     "           say which version is in use, and where it is from\n"
	     "       unhang knowledge update [--root DIR] [--dry-run] FILE\n"
	     "           install signed knowledge; --remove instead of FILE removes it\n"
	     "       unhang knowledge key FILE\n"
	     "           make a key to sign with: FILE, and FILE.pub for those who trust it\n"
	     "       unhang knowledge export --key FILE --version N [--note TEXT] [-o OUT]\n"
	     "                               [KNOW_FILE...]\n"
	     "           sign these files, or all that this machine knows\n");
	print_kinds();
	puts("docs/KNOWLEDGE.md describes the files. Your own go to /etc/unhang/knowledge.d or\n"
	     "~/.config/unhang/knowledge.d. docs/KNOWLEDGE_UPDATES.md is about signed ones.");
}

/** As uh_problem_fn. FILE:LINE comes first, as compilers have it. */
static void print_mistake(void *ctx, const char *message)
{
	(void)ctx;
	print_safe(stderr, str_z(message)); // what stands in a stranger's file
	fputc('\n', stderr);
}

static int ended(struct uh_error *err) { return err ? cannot(err) : EXIT_NOTHING_WRONG; }

static int knowledge_check(const struct uh_knowledge_options *o, int argc, char **argv)
{
	int status = EXIT_NOTHING_WRONG;
	for (int i = 0; i < argc; i++) {
		unsigned mistakes = 0;
		struct uh_error *err = uh_knowledge_check(o, argv[i], &mistakes);
		if (err)
			status = cannot(err);
		else if (mistakes)
			status = EXIT_CANNOT;
		else
			printf("%s: right\n", argv[i]);
	}
	return status;
}

static int knowledge_match(const struct uh_knowledge_options *o, const char *path)
{
	unsigned failed;
	struct uh_error *err = uh_knowledge_match(o, path, &failed);
	return err ? cannot(err) : failed ? EXIT_CANNOT : EXIT_NOTHING_WRONG;
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
	const struct uh_knowledge_options o = { stdout, json, print_mistake, complain_line, NULL };
	const char *verb = n ? argv[0] : "list";
	if (!strcmp(verb, "list") && n <= 2)
		return ended(uh_knowledge_list(&o, n == 2 ? argv[1] : NULL));
	if (!strcmp(verb, "show") && n == 2)
		return ended(uh_knowledge_show(&o, argv[1]));
	if (!strcmp(verb, "check") && n > 1)
		return knowledge_check(&o, n - 1, argv + 1);
	if (!strcmp(verb, "match") && n <= 2)
		return knowledge_match(&o, n == 2 ? argv[1] : NULL);
	complain("unhang knowledge: see unhang knowledge --help");
	return EXIT_CANNOT;
}
