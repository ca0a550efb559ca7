// unhang doctor: what to set, what to drop.
#include <getopt.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "unhang/unhang.h"

static void usage(void)
{
	puts("usage: unhang doctor [OPTION...]\n"
	     "\n"
	     "Holds this machine's kernel, driver, firmware, parameters, boot configuration and software against what is known "
	     "to\n"
	     "be bad, and says what to set, what to drop, what that costs and how to take it back. It only reads.\n"
	     "\n"
	     "  --root DIR    another machine, whose proc, sys, etc, boot and usr lie under DIR\n"
	     "  --smoke-test  let each GPU compute and copy a little, through ROCm's HIP runtime, with a deadline; this uses "
	     "the GPU\n"
	     "  --hip FILE    the runtime for that; without it the one of ROCm\n"
	     "  --seconds N   the deadline for each GPU (30)\n"
	     "  -v, --verbose what is good too, and every fact\n"
	     "  --json        for machines: the document of docs/doctor.schema.json\n"
	     "  -h, --help    this text\n"
	     "\n"
	     "exit status: 0 nothing wrong, or advice only; 1 something critical or a warning; 2 there was nothing to look at");
}

int cmd_doctor(int argc, char **argv)
{
	static const struct option options[] = {
		{ "root", required_argument, NULL, 'r' }, { "smoke-test", no_argument, NULL, 's' },
		{ "hip", required_argument, NULL, 'H' },  { "seconds", required_argument, NULL, 'S' },
		{ "verbose", no_argument, NULL, 'v' },    { "json", no_argument, NULL, 'J' },
		{ "help", no_argument, NULL, 'h' },       { 0 },
	};
	struct uh_doctor_options o = { .colour = terminal_colour(), .width = terminal_width() };
	unsigned wrong = 0;
	bool smoke = false;
	int c;
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":vh", options, NULL)) != -1) {
		switch (c) {
		case 'r':
			o.root = optarg;
			break;
		case 's':
			smoke = true;
			break;
		case 'H':
			o.hip = optarg;
			break;
		case 'S':
			if (!parse_count("--seconds", optarg, 3600, &o.seconds))
				return EXIT_CANNOT;
			break;
		case 'v':
			o.verbose = true;
			break;
		case 'J':
			o.json = true;
			break;
		case 'h':
			usage();
			return EXIT_NOTHING_WRONG;
		default:
			complain_option(argv, c, "doctor");
			return EXIT_CANNOT;
		}
	}
	if (optind < argc) {
		complain("what is '%s'? see unhang doctor --help", argv[optind]);
		return EXIT_CANNOT;
	}
	struct uh_error *err = smoke ? uh_doctor_smoke(&o, stdout, &wrong) : uh_doctor(&o, stdout, complain_line, NULL, &wrong);
	return err ? cannot(err) : wrong ? EXIT_INCIDENT : EXIT_NOTHING_WRONG;
}
