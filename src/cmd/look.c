// unhang waves, unhang queues: what a target holds.
#include <getopt.h>
#include <stdlib.h>

#include "cmd/cmd.h"
#include "unhang/unhang.h"

enum { FILES_MAX = 8, CODE_MAX = 64, LOOKS_MAX = 100 };

struct look_command {
	const char *name;
	void (*usage)(void);
	struct uh_error *(*run)(const struct uh_look_options *o, FILE *out, uh_problem_fn *problem, void *ctx);
};

static void usage_waves(void)
{
	puts("usage: unhang waves [OPTION...]\n"
	     "       unhang waves --target CORE [--target CORE] [OPTION...]\n"
	     "\n"
	     "Shows the waves (groups of 32 or 64 threads) on the GPUs of this machine, or in\n"
	     "a core: which kernel, source line and instruction they are at, what stopped them\n"
	     "or what they wait for. A GPU is read only when that is safe, and nothing is\n"
	     "halted. It needs root. CORE is a gpucore.PID of ROCm, the core of its process,\n"
	     "or one that holds both. If two cores belong together, name both.\n"
	     "\n"
	     "  --target FILE     the core; the word --target is optional\n"
	     "  --gpu GPU         only this GPU of this machine: its PCI address or number\n"
	     "  --sample N        look N times (2) to see which waves move\n"
	     "  --code PATH       more code objects, programs or libraries, or a directory of\n"
	     "                    them, besides those that the core or the process names\n"
	     "  --registers       show each wave with its registers and local memory (LDS)\n"
	     "  -a, --all         show every wave, however many\n"
	     "  --json            for programs: the document of docs/waves.schema.json\n"
	     "  -h, --help        show this text\n"
	     "\n"
	     "exit status: 0 the waves were read, 2 they could not be read");
}

static void usage_queues(void)
{
	puts("usage: unhang queues [--target PID | --target CORE [--target CORE]] [OPTION...]\n"
	     "\n"
	     "Shows the queues of programs that compute on GPUs: how many packets wait in\n"
	     "them, which kernels these are, and whether the queues move. Without a target, it\n"
	     "shows those of all processes of this machine; only root can see where they are\n"
	     "in memory. For a core it shows their errors too.\n"
	     "\n"
	     "  --target PID      a process\n"
	     "  --target FILE     a core, or a bundle of unhang capture; the word --target is\n"
	     "                    optional\n"
	     "  --code PATH       more code objects, programs or libraries, or a directory of\n"
	     "                    them, besides those that the target names\n"
	     "  --json            for programs: the document of docs/queues.schema.json\n"
	     "  -h, --help        show this text\n"
	     "\n"
	     "exit status: 0 the queues were read, 2 they could not be read");
}

static const struct look_command waves_command = { "waves", usage_waves, uh_look_waves };
static const struct look_command queues_command = { "queues", usage_queues, uh_look_queues };

static int look(const struct look_command *c, int argc, char **argv)
{
	static const struct option options[] = {
		{ "target", required_argument, NULL, 't' },
		{ "gpu", required_argument, NULL, 'g' },
		{ "sample", required_argument, NULL, 's' },
		{ "code", required_argument, NULL, 'c' },
		{ "registers", no_argument, NULL, 'r' },
		{ "all", no_argument, NULL, 'a' },
		{ "json", no_argument, NULL, 'J' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	const char *targets[FILES_MAX], *code[CODE_MAX];
	struct uh_look_options o = { .targets = targets, .code = code, .progress = show_look };
	int option;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":ah", options, NULL)) != -1) {
		bool ok = true;
		switch (option) {
		case 't':
			ok = add_path(targets, &o.ntargets, FILES_MAX, "--target", optarg);
			break;
		case 'g':
			o.gpu = optarg;
			break;
		case 's':
			ok = parse_count("--sample", optarg, LOOKS_MAX, &o.looks);
			break;
		case 'c':
			ok = add_path(code, &o.ncode, CODE_MAX, "--code", optarg);
			break;
		case 'r':
			o.registers = true;
			break;
		case 'a':
			o.all = true;
			break;
		case 'J':
			o.json = true;
			break;
		case 'h':
			c->usage();
			return EXIT_NOTHING_WRONG;
		default:
			complain_option(argv, option, c->name);
			return EXIT_CANNOT;
		}
		if (!ok)
			return EXIT_CANNOT;
	}
	for (; optind < argc; optind++)
		if (!add_path(targets, &o.ntargets, FILES_MAX, "--target", argv[optind]))
			return EXIT_CANNOT;
	struct uh_error *err = c->run(&o, stdout, complain_line, NULL);
	return err ? cannot(err) : EXIT_NOTHING_WRONG;
}

int cmd_waves(int argc, char **argv) { return look(&waves_command, argc, argv); }
int cmd_queues(int argc, char **argv) { return look(&queues_command, argc, argv); }
