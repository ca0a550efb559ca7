// unhang remedy ID: what to do, what it costs, how to take it back, and who says so.
#include <getopt.h>

#include "cmd/cmd.h"
#include "unhang/unhang.h"

static void usage(void)
{
	puts("usage: unhang remedy [OPTION...] ID\n"
	     "\n"
	     "Shows one remedy in full: its steps on this machine, what it costs, how to undo\n"
	     "it, how well it is founded, and what its sources say. unhang explain shows the\n"
	     "ID after each remedy; unhang knowledge list remedy lists all of them.\n"
	     "\n"
	     "  --json        for programs: the document of docs/remedy.schema.json\n"
	     "  -h, --help    show this text\n"
	     "\n"
	     "exit status: 0 it was shown, 2 there is no such remedy");
}

int cmd_remedy(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'J' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct uh_remedy_options o = { .colour = terminal_colour(), .width = terminal_width() };
	int option;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (option) {
		case 'J':
			o.json = true;
			break;
		case 'h':
			usage();
			return EXIT_NOTHING_WRONG;
		default:
			complain_option(argv, option, "remedy");
			return EXIT_CANNOT;
		}
	}
	if (optind + 1 != argc) {
		complain("one remedy at a time: unhang remedy ID; unhang knowledge list remedy lists them");
		return EXIT_CANNOT;
	}
	struct uh_error *err = uh_remedy(&o, argv[optind], stdout, complain_line, NULL);
	return err ? cannot(err) : EXIT_NOTHING_WRONG;
}
