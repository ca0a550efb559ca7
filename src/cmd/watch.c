// unhang watch: the daemon.
#include <getopt.h>

#include "cmd/cmd.h"

static void usage(void)
{
	puts("usage: unhang watch [OPTION...]\n"
	     "\n"
	     "Watches the GPUs of this machine for as long as it runs. It follows the kernel\n"
	     "log. When a GPU hangs or faults, it saves the evidence, explains it, stores both\n"
	     "and runs your hooks. It stays in the foreground: let systemd, a container or\n"
	     "your shell run it. SIGTERM ends it; SIGHUP reads the configuration again. It\n"
	     "writes nothing to a GPU. Run it as root so that it sees everything.\n"
	     "unhang incidents shows what it stored.\n"
	     "\n"
	     "  --config FILE     the configuration (/etc/unhang/watch.conf); FILE.d/*.conf\n"
	     "                    is read after it\n"
	     "  --check-config    only check the configuration\n"
	     "  --once            read the log, store and report what is in it, then end\n"
	     "  --state-dir DIR   where to store incidents (/var/lib/unhang)\n"
	     "  --run-dir DIR     where to write state.json (/run/unhang)\n"
	     "  --hooks-dir DIR   programs to run after an incident (/etc/unhang/hooks.d)\n"
	     "  -h, --help        show this text\n"
	     "\n"
	     "exit status: 0 it was told to end, 2 it could not begin, or the configuration\n"
	     "has mistakes");
}

static const struct option options[] = {
	{ "config", required_argument, NULL, 'c' },  { "check-config", no_argument, NULL, 'C' },
	{ "once", no_argument, NULL, 'o' },          { "state-dir", required_argument, NULL, 's' },
	{ "run-dir", required_argument, NULL, 'r' }, { "hooks-dir", required_argument, NULL, 'H' },
	{ "help", no_argument, NULL, 'h' },          { 0 },
};

/** -1: go on; else the exit status. */
static int take_option(int option, struct uh_watch_options *o, char **argv)
{
	switch (option) {
	case 'c':
		o->config = optarg;
		break;
	case 'C':
		o->check_config = true;
		break;
	case 'o':
		o->until_quiet = true;
		break;
	case 's':
		o->state_dir = optarg;
		break;
	case 'r':
		o->run_dir = optarg;
		break;
	case 'H':
		o->hooks_dir = optarg;
		break;
	case 'h':
		usage();
		return EXIT_NOTHING_WRONG;
	default:
		complain_option(argv, option, "watch");
		return EXIT_CANNOT;
	}
	return -1;
}

int cmd_watch(int argc, char **argv)
{
	struct uh_watch_options o = { 0 };
	int option;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		int status = take_option(option, &o, argv);
		if (status >= 0)
			return status;
	}
	if (optind < argc) {
		complain("what is '%s'? unhang watch takes no arguments", argv[optind]);
		return EXIT_CANNOT;
	}
	struct uh_error *err = uh_watch(&o, stdout, complain_line, NULL);
	return err ? cannot(err) : EXIT_NOTHING_WRONG;
}
