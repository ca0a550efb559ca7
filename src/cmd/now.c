// unhang, unhang live: this machine now. Each GPU with its health, what is stuck and why, and the newest incident of the kernel's log.
#include <getopt.h>
#include <stdlib.h>

#include "cmd/cmd.h"
#include "unhang/unhang.h"

enum { CODE_MAX = 64, GPUS_MOST = 1024 };

static void usage(void)
{
	puts("usage: unhang [OPTION...]         this machine's GPUs and newest incident\n"
	     "       unhang [OPTION...] FILE    the same as unhang explain FILE\n"
	     "       unhang live [OPTION...]    only the GPUs, without the kernel log\n"
	     "\n"
	     "Looks at each AMD GPU several times within a second: which blocks are busy,\n"
	     "which are stuck, and what they wait for. It writes nothing, and reads nothing\n"
	     "that may act on the GPU. It reads registers and waves only while the GPU is\n"
	     "awake, not in its sleep state GFXOFF, and not being reset. A read that does not\n"
	     "return is abandoned after its deadline, and where it waits is part of the\n"
	     "answer.\n"
	     "\n"
	     "  --gpu GPU     only this one: its PCI address, card1, renderD128, or its place\n"
	     "                in the list\n"
	     "  --expect-gpus N  fewer AMD GPUs than N are an incident\n"
	     "  --code PATH   code objects, programs or libraries with the code that waves run\n"
	     "  --root DIR    the newest incident of the system that is mounted at DIR; the\n"
	     "                GPUs are not read\n"
	     "  -a, --all     show every incident, not only the most important one\n"
	     "  -v, --verbose show every event and fact, and each remedy with its steps, cost\n"
	     "                and source\n"
	     "  --json        for programs: the document of docs/diagnosis.schema.json, with\n"
	     "                `machine`\n"
	     "  -h, --help    show this text\n"
	     "\n"
	     "exit status: 0 nothing wrong, 1 an incident or an unhealthy GPU, 2 unknown:\n"
	     "something needed could not be read, or there is no AMD GPU");
}

struct now {
	struct uh_report_options report;
	const char *gpu, *root;
	const char *code[CODE_MAX];
	size_t ncode;
	unsigned expected; // GPUs
	bool live;
};

/** -1: go on; else the exit status. */
static int parse_options(int argc, char **argv, struct now *o)
{
	static const struct option options[] = {
		{ "gpu", required_argument, NULL, 'g' },
		{ "code", required_argument, NULL, 'c' },
		{ "root", required_argument, NULL, 'r' },
		{ "all", no_argument, NULL, 'a' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "json", no_argument, NULL, 'J' },
		{ "help", no_argument, NULL, 'h' },
		{ "expect-gpus", required_argument, NULL, 'e' },
		{ 0 },
	};
	int c;
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":avh", options, NULL)) != -1) {
		switch (c) {
		case 'g':
			o->gpu = optarg;
			break;
		case 'c':
			if (!add_path(o->code, &o->ncode, CODE_MAX, "--code", optarg))
				return EXIT_CANNOT;
			break;
		case 'e':
			if (!parse_count("--expect-gpus", optarg, GPUS_MOST, &o->expected))
				return EXIT_CANNOT;
			break;
		case 'r':
			o->root = optarg;
			break;
		case 'a':
			o->report.all = true;
			break;
		case 'v':
			o->report.verbose = true;
			break;
		case 'J':
			o->report.json = true;
			break;
		case 'h':
			usage();
			return EXIT_NOTHING_WRONG;
		default:
			complain_option(argv, c, o->live ? "live" : NULL);
			return EXIT_CANNOT;
		}
	}
	if (optind < argc && !o->live) { // `unhang -v FILE`
		optind = 1;
		return cmd_explain(argc, argv);
	}
	if (optind < argc) {
		complain("'%s' is not an option; to explain evidence: unhang explain PATH", argv[optind]);
		return EXIT_CANNOT;
	}
	return -1;
}

static int now(struct now *o, int argc, char **argv)
{
	int status = parse_options(argc, argv, o);
	if (status >= 0)
		return status;
	o->report.colour = terminal_colour();
	o->report.width = terminal_width();
	struct uh_session *s = uh_session_new(complain_line, NULL);
	struct uh_error *err = NULL;
	uh_session_expect_gpus(s, o->expected);
	for (size_t i = 0; i < o->ncode; i++)
		uh_session_add_code(s, o->code[i]);
	// The silicon first: the state of a hung GPU may be gone by the time that a log is read.
	if (!o->root)
		err = uh_session_add_machine(s, o->gpu);
	if (!o->live && !err)
		uh_session_add_newest(s, o->root);
	uh_session_end(s);
	if (err) {
		status = cannot(err);
	} else {
		enum uh_verdict verdict = uh_session_verdict(s);
		uh_session_report(s, stdout, &o->report);
		status = verdict_status(verdict);
		if (verdict == UH_UNKNOWN)
			complain("%s; to explain evidence of another machine: unhang explain PATH", uh_session_unread(s));
	}
	uh_session_free(s);
	return status;
}

int cmd_now(int argc, char **argv) { return now(&(struct now){ 0 }, argc, argv); }
int cmd_live(int argc, char **argv) { return now(&(struct now){ .live = true }, argc, argv); }
