// unhang serve: the pages of the history, for a browser.
#include <getopt.h>

#include "cmd/cmd.h"

static const struct help_text serve_help = {
	.name = "serve",
	.usage = "unhang serve [OPTION...]",
	.about = "Serves the history as pages for a browser: what is open, faults over time, each incident, runs with their "
		 "tries, machines with "
		 "their changes and whether these helped; and as JSON below /api/1. It only reads. It listens on this machine "
		 "only, and asks "
		 "nobody for a password. docs/HISTORY.md tells how to put a proxy before it.",
	.status = "exit status: 0 it was told to end, 2 it cannot listen, or there is no history",
};

int cmd_serve(int argc, char **argv)
{
	struct uh_serve_options o = { 0 };
	const struct option_row rows[] = {
		{ 0, "store", "WHERE", "a directory, a file, or postgresql://...; without it, this machine's",
		  TO_TEXT(&o.store) },
		{ 'l', "listen", "WHERE", "PORT, ADDRESS:PORT, or the path of a Unix socket; without it, 127.0.0.1:8777",
		  TO_TEXT(&o.listen) },
		{ 0, "behind-proxy", NULL, "allow an address that others reach, and any name, because a proxy guards it",
		  TO_FLAG(&o.behind_proxy) },
	};
	options_parse(&serve_help, ROWS(rows), NO_ROWS, argc, argv);
	if (!operands_end(argc, argv, 0, "unhang serve takes no arguments"))
		return EXIT_CANNOT;
	return done(uh_serve(&o, stdout, complain_line, NULL));
}
