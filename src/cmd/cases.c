// unhang cases: public incidents as facts, with what solved them; which of them are like some evidence; a draft of another one.
#include <getopt.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"

static const struct help_text cases_help = {
	.name = "cases",
	.usage = "unhang cases [OPTION...]               the base\n"
		 "       unhang cases [OPTION...] FILE...       cases like this evidence\n"
		 "       unhang cases [OPTION...] OWNER/REPO#N  cases like this one of the base\n"
		 "       unhang cases --add FILE LINK           a draft of a case",
	.about = "Lists public incidents that unhang knows as facts, by their defect: what goes wrong, what solved it, who "
		 "confirms that, and the threads. With FILE, it lists those that share facts with the evidence, the nearest "
		 "first; unhang explain names at most three of them, and only if they share enough. With --add, it writes a "
		 "draft for the base: the facts of FILE, and the public thread LINK where it was reported. Fill in what is "
		 "missing and put it into /etc/unhang/knowledge.d/NAME.know. docs/CASES.md tells more.",
	.status = "exit status: 0 it was shown, 2 something could not be read, or there is nothing to draft from",
	.operands = "FILE",
};

int cmd_cases(int argc, char **argv)
{
	struct uh_cases_options o = { .width = terminal_width() };
	const char *without = NULL;
	bool add = false;
	const struct option_row rows[] = {
		{ 0, "part", "GFX", "only cases of this part; * stands for any letters: gfx11*", TO_TEXT(&o.part) },
		{ 0, "class", "CLASS", "only cases with this cause; unhang knowledge list class lists them",
		  TO_TEXT(&o.cause) },
		{ 0, "program", "NAME", "only cases with this program: vllm, kwin_wayland", TO_TEXT(&o.program) },
		{ 0, "without", "LIST", "leave out these threads: OWNER/REPO#NUMBER, separated by commas, or @FILE",
		  TO_TEXT(&without) },
		{ 0, "add", NULL, "write a draft of a case", TO_FLAG(&add) },
		JSON_ROW(&o.json, "cases"),
	};
	options_parse(&cases_help, ROWS(rows), NO_ROWS, argc, argv);
	const int n = argc - optind;
	if (add && (n != 2 || o.json))
		return refuse("a draft takes evidence and a link: unhang cases --add FILE LINK");
	if (n && (o.part || o.cause || o.program))
		return refuse("--part, --class and --program belong to the list of the base, not to FILE");
	_cleanup_session_ struct uh_session *s = uh_session_new(complain_line, NULL);
	struct uh_error *err = without ? uh_session_without(s, without) : NULL;
	if (err)
		return cannot(err);
	if (!n)
		return done(uh_session_list_cases(s, stdout, &o));
	if (n == 1 && uh_session_like_case(s, argv[optind], stdout, &o))
		return EXIT_NOTHING_WRONG;
	if (n == 1 && uh_session_is_thread(argv[optind]) && access(argv[optind], F_OK))
		return refuse("%s is not in the base", argv[optind]);
	for (int i = optind; i < argc - add; i++)
		uh_session_add_path(s, argv[i]);
	uh_session_end(s);
	if (!uh_session_sources(s))
		return EXIT_CANNOT;
	if (add)
		return done(uh_session_draft_case(s, argv[argc - 1], stdout));
	uh_session_report_cases(s, stdout, &o);
	return uh_session_problems(s) ? EXIT_CANNOT : EXIT_NOTHING_WRONG;
}
