// unhang, unhang live: this machine now. Each GPU with its health, what is stuck and why, and the newest incident of the kernel's log.
#include <getopt.h>
#include <stdlib.h>

#include "cmd/cmd.h"
#include "cmd/telling.h"
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
	     "  --gpu GPU          only this one: its PCI address, card1, renderD128, or its\n"
	     "                     place in the list\n"
	     "  --expect-gpus N    fewer AMD GPUs than N are an incident\n"
	     "  --code PATH        code objects, programs or libraries with the code that\n"
	     "                     waves run\n"
	     "  --root DIR         the newest incident of the system that is mounted at DIR;\n"
	     "                     the GPUs are not read\n"
	     "  --target BUNDLE    the machine in a bundle of unhang capture, as it was then\n" TELLING_HELP "\n"
	     "exit status: 0 nothing wrong, 1 an incident or an unhealthy GPU,\n"
	     "2 unknown: something needed could not be read, or there is no AMD GPU");
}

struct now {
	struct telling tell;
	const char *gpu, *root, *target;
	const char *code[CODE_MAX];
	size_t ncode;
	unsigned expected; // GPUs
	bool live;
};

/** -1: go on; else the exit status. */
static int parse_options(int argc, char **argv, struct now *o)
{
	static const struct option options[] = {
		{ "target", required_argument, NULL, 't' },
		{ "gpu", required_argument, NULL, 'g' },
		{ "code", required_argument, NULL, 'c' },
		{ "root", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ "expect-gpus", required_argument, NULL, 'e' },
		TELLING_OPTIONS,
		{ 0 },
	};
	int c, taken;
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
		case 't':
			o->target = optarg;
			break;
		case 'h':
			usage();
			return EXIT_NOTHING_WRONG;
		default:
			taken = telling_take(&o->tell, c, optarg);
			if (taken == -2)
				complain_option(argv, c, o->live ? "live" : NULL);
			if (taken != -1)
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
	terminal_describe(&o->tell.report);
	struct uh_machine *machine = NULL;
	struct uh_error *err = o->target ? uh_machine_open(o->target, &machine) : NULL;
	if (err)
		return cannot(err);
	if (o->target && !machine) {
		complain("%s: not a bundle of unhang capture", o->target);
		return EXIT_CANNOT;
	}
	struct uh_session *s = uh_session_new(complain_line, NULL);
	if (!telling_begin(&o->tell, s)) {
		uh_session_free(s);
		uh_machine_free(machine);
		return EXIT_CANNOT;
	}
	uh_session_on_machine(s, machine);
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
		bool written = true;
		if (sharing_asked(&o->tell.share))
			written = sharing_write(&o->tell.share, s);
		else
			uh_session_report(s, stdout, &o->tell.report);
		status = written ? telling_status(&o->tell, s) : EXIT_CANNOT;
		if (verdict == UH_UNKNOWN)
			complain("%s; to explain evidence of another machine: unhang explain PATH", uh_session_unread(s));
	}
	uh_session_free(s);
	uh_machine_free(machine);
	return status;
}

int cmd_now(int argc, char **argv) { return now(&(struct now){ 0 }, argc, argv); }
int cmd_live(int argc, char **argv) { return now(&(struct now){ .live = true }, argc, argv); }
