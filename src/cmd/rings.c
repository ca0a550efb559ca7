// unhang rings: the driver's rings and the packets in them.
#include <getopt.h>
#include <stdlib.h>

#include "cmd/cmd.h"
#include "unhang/unhang.h"

enum { PACKETS_MOST = 1000 };

static void usage(void)
{
	puts("usage: unhang rings [NAME...] [OPTION...]\n"
	     "\n"
	     "Shows the rings through which the driver gives work to a GPU: how far the GPU is\n"
	     "(rptr), how far the driver has written (wptr), and whether the GPU moved between\n"
	     "two looks. Shows the packets around rptr, with > at the one where the GPU is and\n"
	     "what that packet waits for. NAME is a ring such as gfx_0.0.0 or sdma0, or a\n"
	     "pattern with * or ?. It needs root. ROCm's work is in its own queues: unhang\n"
	     "queues.\n"
	     "\n"
	     "  --gpu GPU      only this GPU: its PCI address or number\n"
	     "  --target FILE  a device core of the driver (devcoredump) instead of a GPU\n"
	     "  --once         look only once; this cannot show whether a ring moves\n"
	     "  --packets N    show N packets before rptr, and N from it on (8)\n"
	     "  --fences       show the fences of each ring (amdgpu_fence_info), too. Caution:\n"
	     "                 reading them makes the driver complete fences that are done.\n"
	     "                 That can cure a hang from a lost interrupt and erase its\n"
	     "                 traces. They are read last.\n"
	     "  -a, --all      show each ring with all of its packets\n"
	     "  --json         for programs: the document of docs/rings.schema.json\n"
	     "  -h, --help     show this text\n"
	     "\n"
	     "exit status: 0 rings were read, 2 none");
}

int cmd_rings(int argc, char **argv)
{
	static const struct option options[] = {
		{ "gpu", required_argument, NULL, 'g' },
		{ "target", required_argument, NULL, 't' },
		{ "once", no_argument, NULL, 'o' },
		{ "packets", required_argument, NULL, 'p' },
		{ "fences", no_argument, NULL, 'f' },
		{ "all", no_argument, NULL, 'a' },
		{ "json", no_argument, NULL, 'J' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	const char *target = NULL;
	struct uh_look_options o = { .targets = &target, .width = terminal_width(), .progress = show_look };
	int option;
	bool ok = true;
	opterr = 0;
	while (ok && (option = getopt_long(argc, argv, ":ah", options, NULL)) != -1) {
		switch (option) {
		case 'g':
			o.gpu = optarg;
			break;
		case 't':
			ok = add_path(&target, &o.ntargets, 1, "--target", optarg);
			break;
		case 'o':
			o.looks = 1;
			break;
		case 'p':
			ok = parse_count("--packets", optarg, PACKETS_MOST, &o.packets);
			break;
		case 'f':
			o.fences = true;
			break;
		case 'a':
			o.all = true;
			break;
		case 'J':
			o.json = true;
			break;
		case 'h':
			usage();
			return EXIT_NOTHING_WRONG;
		default:
			complain_option(argv, option, "rings");
			return EXIT_CANNOT;
		}
	}
	if (!ok)
		return EXIT_CANNOT;
	struct uh_error *err =
		uh_look_rings(&o, (const char *const *)argv + optind, (size_t)(argc - optind), stdout, complain_line, NULL);
	return err ? cannot(err) : EXIT_NOTHING_WRONG;
}
