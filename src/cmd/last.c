// unhang last, unhang level: what a job's flight recorder saw, and how much it records.
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>

#include "cmd/cmd.h"
#include "unhang/unhang.h"

enum { PACKETS_MOST = 1 << 20, PACKETS = 16, LEVEL_MOST = 10 };

static void usage(void)
{
	puts("usage: unhang last [PID|FILE|DIR...] [OPTION...]\n"
	     "\n"
	     "Shows what a job runs on the GPU now, or ran last: the kernels in flight, the\n"
	     "calls that have not returned, and where a faulting address is among the\n"
	     "buffers. The job must run with the flight recorder:\n"
	     "    HSA_TOOLS_LIB=libunhang-recorder.so PROGRAM\n"
	     "PID is a process, FILE its recording, and DIR a directory with the recordings\n"
	     "of several ranks. Without any of them, unhang takes your newest recording in\n"
	     "/dev/shm; root without one gets the newest of all users. A recording outlives\n"
	     "its process, even if that was killed.\n"
	     "\n"
	     "  --address ADDRESS  tell which buffer this address is in, or near\n"
	     "  --packets N        in JSON, show N packets before those in flight (16)\n"
	     "  -a, --all          show every recorded packet and every queue\n"
	     "  --perfetto FILE    write a timeline for ui.perfetto.dev and chrome://tracing\n"
	     "  --json             for programs: the document of docs/last.schema.json\n"
	     "  -h, --help         show this text\n"
	     "\n"
	     "exit status: 0 a recording was read, 2 none");
}

static bool parse_address(const char *text, unsigned long long *ret)
{
	char *end;
	errno = 0;
	*ret = strtoull(text, &end, 0);
	if (!errno && *text && !*end && *ret)
		return true;
	complain("--address %s: not an address such as 0x7f0000001000", text);
	return false;
}

int cmd_last(int argc, char **argv)
{
	static const struct option options[] = {
		{ "address", required_argument, NULL, 'A' },
		{ "packets", required_argument, NULL, 'p' },
		{ "all", no_argument, NULL, 'a' },
		{ "perfetto", required_argument, NULL, 'P' },
		{ "json", no_argument, NULL, 'J' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct uh_last_options o = { .packets = PACKETS };
	int option;
	bool ok = true;
	opterr = 0;
	while (ok && (option = getopt_long(argc, argv, ":ah", options, NULL)) != -1) {
		switch (option) {
		case 'A':
			ok = parse_address(optarg, &o.address);
			break;
		case 'p':
			ok = parse_count("--packets", optarg, PACKETS_MOST, &o.packets);
			break;
		case 'a':
			o.all = true;
			break;
		case 'P':
			o.perfetto = optarg;
			break;
		case 'J':
			o.json = true;
			break;
		case 'h':
			usage();
			return EXIT_NOTHING_WRONG;
		default:
			complain_option(argv, option, "last");
			return EXIT_CANNOT;
		}
	}
	if (!ok)
		return EXIT_CANNOT;
	o.targets = (const char *const *)argv + optind;
	o.ntargets = (size_t)(argc - optind);
	static const struct output_kind timeline = { "--perfetto", "{", "\"generator\": \"unhang\"" };
	if (o.perfetto && !output_allowed(&timeline, o.perfetto, argv + optind, o.ntargets))
		return EXIT_CANNOT;
	struct uh_error *err = uh_last(&o, stdout, complain_line, NULL);
	if (!err && o.perfetto)
		complain("the timeline is in %s", o.perfetto);
	return err ? cannot(err) : EXIT_NOTHING_WRONG;
}

static void level_usage(void)
{
	puts("usage: unhang level PID|FILE|DIR LEVEL\n"
	     "\n"
	     "Changes how much the flight recorder of a running job records:\n"
	     "  0   nothing\n"
	     "  1   each launch and copy, each allocation, calls that do not return\n"
	     "  3   the arguments of kernels, too\n"
	     "  5   statistics of the buffers behind them, too\n"
	     "  10  the contents of these buffers, too\n"
	     "Levels 5 and 10 need queues of another kind. They are made when the job starts:\n"
	     "set UNHANG_MAX_LEVEL=10 for it.\n"
	     "\n"
	     "  -h, --help  show this text\n"
	     "\n"
	     "exit status: 0 the recorder was told, 2 it cannot have this level");
}

int cmd_level(int argc, char **argv)
{
	static const struct option options[] = { { "help", no_argument, NULL, 'h' }, { 0 } };
	int option;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (option == 'h') {
			level_usage();
			return EXIT_NOTHING_WRONG;
		}
		complain_option(argv, option, "level");
		return EXIT_CANNOT;
	}
	char *end = NULL;
	const unsigned long level = argc - optind == 2 ? strtoul(argv[optind + 1], &end, 10) : 0;
	if (!end || *end || end == argv[optind + 1] || level > LEVEL_MOST) {
		complain("level needs a process or a recording, and a level from 0 to %d; see unhang level --help", LEVEL_MOST);
		return EXIT_CANNOT;
	}
	struct uh_error *err = uh_record_level(argv[optind], (unsigned)level, stdout);
	return err ? cannot(err) : EXIT_NOTHING_WRONG;
}
