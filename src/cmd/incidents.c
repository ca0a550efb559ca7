// unhang incidents: what unhang watch stored.
#include <getopt.h>

#include "cmd/telling.h"

static void usage(void)
{
	puts("usage: unhang incidents [OPTION...] [ID]\n"
	     "\n"
	     "Lists the incidents that unhang watch stored, the newest first. With the ID of\n"
	     "one, shows its diagnosis and where its files are.\n"
	     "\n"
	     "  --open             only those that are not closed\n"
	     "  --close            close the one with this ID, as root: what does not end by\n"
	     "                     itself, as after a GPU was replaced\n"
	     "  --reason TEXT      why, for its record\n"
	     "  --state-dir DIR    where they are stored (/var/lib/unhang)\n"
	     "  --run-dir DIR      where unhang watch writes its state (/run/unhang)\n"
	     "  --json             for programs: the document of\n"
	     "                     docs/incidents.schema.json\n"
	     "\n"
	     "With an ID, a report for others:\n" SHARING_HELP "  -h, --help         show this text\n"
	     "\n"
	     "exit status: 0 it was done, 2 they could not be read, none has this ID, or it\n"
	     "could not be closed");
}

static const struct option options[] = {
	{ "close", no_argument, NULL, 'c' },
	{ "reason", required_argument, NULL, 'r' },
	{ "open", no_argument, NULL, 'o' },
	{ "state-dir", required_argument, NULL, 's' },
	{ "json", no_argument, NULL, 'J' },
	{ "run-dir", required_argument, NULL, 'd' },
	SHARING_OPTIONS,
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/** What its bundle tells, written for others. */
static int share(const struct uh_incidents_options *o, const struct sharing *how)
{
	struct uh_session *s = uh_session_new(complain_line, NULL);
	bool written = sharing_begin(how, s);
	struct uh_error *err = written ? uh_session_add_incident(s, o->state_dir, o->id) : NULL;
	if (written && !err) {
		uh_session_end(s);
		written = sharing_write(how, s);
	}
	uh_session_free(s);
	return err ? cannot(err) : written ? EXIT_NOTHING_WRONG : EXIT_CANNOT;
}

struct closing {
	bool asked;
	const char *reason;
};

static int close_one(const struct uh_incidents_options *o, const struct closing *c, bool shared)
{
	if (!c->asked || !o->id || o->json || o->open || shared) {
		complain(!c->asked ? "--reason needs --close" :
			 !o->id    ? "--close needs the id of one incident" :
				     "--close goes with --reason and --state-dir alone");
		return EXIT_CANNOT;
	}
	struct uh_error *err = uh_incident_close(o->state_dir, o->id, c->reason, stdout);
	return err ? cannot(err) : EXIT_NOTHING_WRONG;
}

int cmd_incidents(int argc, char **argv)
{
	struct uh_incidents_options o = { 0 };
	struct sharing how = { 0 };
	struct closing closing = { 0 };
	int option;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (option) {
		case 'o':
			o.open = true;
			break;
		case 'c':
			closing.asked = true;
			break;
		case 'r':
			closing.reason = optarg;
			break;
		case 's':
			o.state_dir = optarg;
			break;
		case 'd':
			o.run_dir = optarg;
			break;
		case 'J':
			o.json = true;
			break;
		case 'h':
			usage();
			return EXIT_NOTHING_WRONG;
		default:
			if (sharing_take(&how, option, optarg) == -1)
				break;
			complain_option(argv, option, "incidents");
			return EXIT_CANNOT;
		}
	}
	if (argc - optind > 1) {
		complain("one id at a time, please; not '%s'", argv[optind + 1]);
		return EXIT_CANNOT;
	}
	o.id = argv[optind];
	if (closing.asked || closing.reason)
		return close_one(&o, &closing, sharing_asked(&how));
	if (sharing_asked(&how) && !o.id) {
		complain("--html and --markdown need the id of one incident");
		return EXIT_CANNOT;
	}
	if (sharing_asked(&how) && o.json) {
		complain("--html, --markdown and --json: one of them at a time, please");
		return EXIT_CANNOT;
	}
	if (sharing_asked(&how))
		return share(&o, &how);
	o.width = terminal_width();
	struct uh_error *err = uh_incidents(&o, stdout);
	return err ? cannot(err) : EXIT_NOTHING_WRONG;
}
