// unhang doctor: what to set, what to drop.
#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "unhang/unhang.h"

static void usage(void)
{
	puts("usage: unhang doctor [OPTION...]\n"
	     "\n"
	     "Compares this machine's kernel, driver, firmware, parameters, boot configuration\n"
	     "and software with what is known to be bad. Says what to set, what to remove,\n"
	     "what that costs and how to undo it. It only reads, unless --apply or --undo is\n"
	     "given.\n"
	     "\n"
	     "  --apply ID    make the change of a finding or a remedy; it is shown first, and\n"
	     "                you are asked\n"
	     "  --undo ID     undo it\n"
	     "  --list-applied  what unhang changed here\n"
	     "  --verify [ID] whether the change is in effect, and if not, why; then offer a\n"
	     "                smoke test\n"
	     "  --yes         do not ask\n"
	     "  --dry-run     only show what would be written\n"
	     "  --profile DIR where to write the variables for one job (the current directory)\n"
	     "  --root DIR    check another machine, whose proc, sys, etc, boot and usr are\n"
	     "                under DIR\n"
	     "  --smoke-test  let each GPU compute and copy a little through ROCm's HIP\n"
	     "                runtime, with a deadline; this uses the GPU\n"
	     "  --hip FILE    the HIP runtime for the smoke test (default: ROCm's)\n"
	     "  --seconds N   the deadline for each GPU (30)\n"
	     "  -v, --verbose show every fact too\n"
	     "  --json        for programs: the document of docs/doctor.schema.json\n"
	     "  -h, --help    show this text\n"
	     "\n"
	     "exit status: 0 nothing wrong, or advice only; 1 something critical or a warning,\n"
	     "or a change that is not in effect; 2 unknown: something needed could not be\n"
	     "read, there is no AMD GPU, or nothing was done");
}

/** As uh_doctor_options.ask. */
static bool ask_terminal(const char *question)
{
	char answer[16] = "";
	fprintf(stderr, "%s [y/N] ", question);
	if (!fgets(answer, sizeof(answer), stdin))
		return false;
	return answer[0] == 'y' || answer[0] == 'Y';
}

enum task { TASK_LOOK, TASK_SMOKE, TASK_APPLY, TASK_UNDO, TASK_LIST, TASK_VERIFY };

struct doctor_call {
	struct uh_doctor_options o;
	enum task task;
	const char *id;
};

/** Whether a change is in effect is half of the answer; whether the GPU works with it is the other. */
static struct uh_error *offer_smoke_test(const struct doctor_call *a, unsigned *ret_failed)
{
	if (a->o.root || a->o.json)
		return NULL;
	if (a->o.ask && a->o.ask("Let each GPU compute and copy a little now, with a deadline?"))
		return uh_doctor_smoke(&a->o, stdout, ret_failed);
	puts("To see whether the GPUs work: unhang doctor --smoke-test");
	return NULL;
}

static int run(struct doctor_call *a)
{
	struct uh_error *err = NULL;
	unsigned wrong = 0, half = 0, failed = 0;
	switch (a->task) {
	case TASK_LOOK:
		err = uh_doctor(&a->o, stdout, complain_line, NULL, &wrong);
		break;
	case TASK_SMOKE:
		err = uh_doctor_smoke(&a->o, stdout, &wrong);
		break;
	case TASK_APPLY:
		err = uh_doctor_apply(&a->o, a->id, stdout, complain_line, NULL);
		break;
	case TASK_UNDO:
		err = uh_doctor_undo(&a->o, a->id, stdout, complain_line, NULL);
		break;
	case TASK_LIST:
		err = uh_doctor_applied(&a->o, NULL, stdout, complain_line, NULL, &half, &wrong);
		wrong = half;
		break;
	case TASK_VERIFY:
		err = uh_doctor_applied(&a->o, a->id, stdout, complain_line, NULL, &half, &wrong);
		if (!err)
			err = offer_smoke_test(a, &failed);
		wrong += half + failed;
		break;
	}
	return err ? cannot(err) : wrong ? EXIT_INCIDENT : EXIT_NOTHING_WRONG;
}

/** false, and it is said, where there are two of them. */
static bool set_task(struct doctor_call *a, enum task task, const char *id)
{
	if (a->task != TASK_LOOK)
		complain("one of --apply, --undo, --list-applied, --verify and --smoke-test at a time");
	bool first = a->task == TASK_LOOK;
	a->task = task;
	a->id = id;
	return first;
}

/** What @optarg gives, where the option takes something. false: it was not understood, and that was said. */
static bool take_option(struct doctor_call *a, int c, char **argv)
{
	switch (c) {
	case 'r':
		a->o.root = other_root(optarg);
		return true;
	case 's':
		return set_task(a, TASK_SMOKE, NULL);
	case 'a':
		return set_task(a, TASK_APPLY, optarg);
	case 'u':
		return set_task(a, TASK_UNDO, optarg);
	case 'l':
		return set_task(a, TASK_LIST, NULL);
	case 'V':
		return set_task(a, TASK_VERIFY, NULL);
	case 'y':
		return a->o.yes = true;
	case 'n':
		return a->o.dry_run = true;
	case 'p':
		a->o.profile = optarg;
		return true;
	case 'H':
		a->o.hip = optarg;
		return true;
	case 'S':
		return parse_count("--seconds", optarg, 3600, &a->o.seconds);
	case 'v':
		return a->o.verbose = true;
	case 'J':
		return a->o.json = true;
	default:
		complain_option(argv, c, "doctor");
		return false;
	}
}

int cmd_doctor(int argc, char **argv)
{
	static const struct option options[] = {
		{ "root", required_argument, NULL, 'r' },
		{ "smoke-test", no_argument, NULL, 's' },
		{ "hip", required_argument, NULL, 'H' },
		{ "seconds", required_argument, NULL, 'S' },
		{ "apply", required_argument, NULL, 'a' },
		{ "undo", required_argument, NULL, 'u' },
		{ "list-applied", no_argument, NULL, 'l' },
		{ "verify", no_argument, NULL, 'V' },
		{ "yes", no_argument, NULL, 'y' },
		{ "dry-run", no_argument, NULL, 'n' },
		{ "profile", required_argument, NULL, 'p' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "json", no_argument, NULL, 'J' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct doctor_call a = { .o = { .colour = terminal_colour(), .width = terminal_width() } };
	int c;
	opterr = 0;
	a.o.ask = isatty(STDIN_FILENO) ? ask_terminal : NULL;
	while ((c = getopt_long(argc, argv, ":vh", options, NULL)) != -1) {
		if (c == 'h') {
			usage();
			return EXIT_NOTHING_WRONG;
		}
		if (!take_option(&a, c, argv))
			return EXIT_CANNOT;
	}
	if (a.task == TASK_VERIFY && optind < argc)
		a.id = argv[optind++];
	if (optind < argc) {
		complain("what is '%s'? see unhang doctor --help", argv[optind]);
		return EXIT_CANNOT;
	}
	return run(&a);
}
