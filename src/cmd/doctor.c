// unhang doctor: what to set, what to drop. unhang remedy ID: what to do, what it costs, how to undo it, and who says so.
#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

#include "cmd/cmd.h"

/** As uh_doctor_options.ask. */
static bool ask_terminal(const char *question)
{
	char answer[16] = "";
	fprintf(stderr, "%s [y/N] ", question);
	if (!fgets(answer, sizeof(answer), stdin))
		return false;
	return answer[0] == 'y' || answer[0] == 'Y';
}

// What the doctor is asked to do: without any of them, to look.
struct doctor_call {
	struct uh_doctor_options o;
	const char *apply, *undo;
	bool list, verify, smoke;
	const char *id; // of --verify; NULL: all
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

static int doctor_run(const struct doctor_call *a)
{
	struct uh_error *err = NULL;
	unsigned wrong = 0, half = 0, failed = 0;
	if (a->apply)
		err = uh_doctor_apply(&a->o, a->apply, stdout, complain_line, NULL);
	else if (a->undo)
		err = uh_doctor_undo(&a->o, a->undo, stdout, complain_line, NULL);
	else if (a->smoke)
		err = uh_doctor_smoke(&a->o, stdout, &wrong);
	else if (a->list || a->verify)
		err = uh_doctor_applied(&a->o, a->id, stdout, complain_line, NULL, &half, &wrong);
	else
		err = uh_doctor(&a->o, stdout, complain_line, NULL, &wrong);
	if (a->list) // a change that waits for a boot is not wrong; one that was cut short is
		wrong = 0;
	if (a->verify && !err)
		err = offer_smoke_test(a, &failed);
	return err ? cannot(err) : wrong + half + failed ? EXIT_INCIDENT : EXIT_NOTHING_WRONG;
}

static const struct help_text doctor_help = {
	.name = "doctor",
	.usage = "unhang doctor [OPTION...]",
	.about = "Compares this machine's kernel, driver, firmware, parameters, boot configuration and software with what "
		 "is known to be bad. Says what to set, what to remove, what that costs and how to undo it. It only reads, "
		 "unless --apply or --undo is given.",
	.status = "exit status: 0 nothing wrong, or advice only; 1 something critical or a warning, or a change that is not "
		  "in effect; 2 unknown: something needed could not be read, there is no AMD GPU, or nothing was done",
};

int cmd_doctor(int argc, char **argv)
{
	struct doctor_call a = { .o = { .colour = terminal_colour(), .width = terminal_width() } };
	const struct option_row rows[] = {
		{ 0, "apply", "ID", "make the change of a finding or a remedy; it is shown first, and you are asked",
		  TO_TEXT(&a.apply) },
		{ 0, "undo", "ID", "undo it", TO_TEXT(&a.undo) },
		{ 0, "list-applied", NULL, "what unhang changed here", TO_FLAG(&a.list) },
		{ 0, "verify", "[ID]", "whether the change is in effect, and if not, why; then offer a smoke test",
		  TO_FLAG(&a.verify) },
		{ 0, "yes", NULL, "do not ask", TO_FLAG(&a.o.yes) },
		{ 0, "dry-run", NULL, "only show what would be written", TO_FLAG(&a.o.dry_run) },
		{ 0, "profile", "DIR", "where to write the variables for one job (the current directory)",
		  TO_TEXT(&a.o.profile) },
		{ 0, "root", "DIR", "check another machine, whose proc, sys, etc, boot and usr are under DIR",
		  TO_FUNCTION(take_root, &a.o.root) },
		{ 0, "smoke-test", NULL,
		  "let each GPU compute and copy a little through ROCm's HIP runtime, with a deadline; this uses the GPU",
		  TO_FLAG(&a.smoke) },
		{ 0, "hip", "FILE", "the HIP runtime for the smoke test (default: ROCm's)", TO_TEXT(&a.o.hip) },
		{ 0, "seconds", "N", "the deadline for each GPU (30)", TO_COUNT(&a.o.seconds, 3600) },
		{ 'v', "verbose", NULL, "show every fact too", TO_FLAG(&a.o.verbose) },
		JSON_ROW(&a.o.json, "doctor"),
	};
	options_parse(&doctor_help, ROWS(rows), NO_ROWS, argc, argv);
	if (!!a.apply + !!a.undo + a.list + a.verify + a.smoke > 1)
		return refuse("one of --apply, --undo, --list-applied, --verify and --smoke-test at a time");
	a.o.ask = isatty(STDIN_FILENO) ? ask_terminal : NULL;
	a.id = a.verify ? argv[optind] : NULL;
	return operands_end(argc, argv, a.verify, "see unhang doctor --help") ? doctor_run(&a) : EXIT_CANNOT;
}

static const struct help_text remedy_help = {
	.name = "remedy",
	.usage = "unhang remedy [OPTION...] ID",
	.about = "Shows one remedy in full: its steps on this machine, what it costs, how to undo it, how well it is "
		 "founded, and what its sources say. unhang explain shows the ID after each remedy; unhang knowledge list "
		 "remedy lists all of them.",
	.status = "exit status: 0 it was shown, 2 there is no such remedy",
};

int cmd_remedy(int argc, char **argv)
{
	struct uh_remedy_options o = { .colour = terminal_colour(), .width = terminal_width() };
	const struct option_row rows[] = { JSON_ROW(&o.json, "remedy") };
	options_parse(&remedy_help, ROWS(rows), NO_ROWS, argc, argv);
	if (optind + 1 == argc)
		return done(uh_remedy(&o, argv[optind], stdout, complain_line, NULL));
	return refuse("one remedy at a time: unhang remedy ID; unhang knowledge list remedy lists them");
}
