// unhang incidents: what unhang watch stored.
#include <getopt.h>

#include "cmd/cmd.h"

static void usage(void)
{
	puts("usage: unhang incidents [OPTION...] [ID]\n"
	     "\n"
	     "Lists the incidents that unhang watch stored, the newest first. With the id of one, shows it with its\n"
	     "diagnosis and says where its files are.\n"
	     "\n"
	     "  --open            only those that are not closed\n"
	     "  --state-dir DIR   where they are stored; otherwise /var/lib/unhang\n"
	     "  --json            for machines, docs/incidents.schema.json\n"
	     "  -h, --help        this text\n"
	     "\n"
	     "exit status: 0 they were listed, 2 they could not be read, or there is none of this id");
}

static const struct option options[] = {
	{ "open", no_argument, NULL, 'o' },
	{ "state-dir", required_argument, NULL, 's' },
	{ "json", no_argument, NULL, 'J' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

int cmd_incidents(int argc, char **argv)
{
	struct uh_incidents_options o = { 0 };
	int option;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (option) {
		case 'o':
			o.open = true;
			break;
		case 's':
			o.state_dir = optarg;
			break;
		case 'J':
			o.json = true;
			break;
		case 'h':
			usage();
			return EXIT_NOTHING_WRONG;
		default:
			complain_option(argv, option, "incidents");
			return EXIT_CANNOT;
		}
	}
	if (argc - optind > 1) {
		complain("one id at a time, please; not '%s'", argv[optind + 1]);
		return EXIT_CANNOT;
	}
	o.id = argv[optind];
	struct uh_error *err = uh_incidents(&o, stdout);
	return err ? cannot(err) : EXIT_NOTHING_WRONG;
}
