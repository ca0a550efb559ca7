// unhang selftest: does unhang read this machine's GPUs correctly.
#include "cmd/cmd.h"

static const struct help_text selftest_help = {
	.name = "selftest",
	.usage = "unhang selftest [OPTION...]",
	.about =
		"Tests unhang on this machine's GPUs: holds registers, counts, versions, clocks and rings against what the "
		"driver tells elsewhere, and lists every file that a look reads, with its time. Without --launch and --fault "
		"it only reads. Run it as root, on a machine where nothing is wrong. It writes one file to send, without names "
		"of people and machines.",
	.status = "exit status: 0 no check failed, 1 at least one failed, 2 nothing could be checked, or the file could not "
		  "be written",
};

int cmd_selftest(int argc, char **argv)
{
	struct uh_selftest_options o = { .width = terminal_width(), .progress = show_look };
	unsigned failed = 0, passed = 0;
	char recorder[PATH_MAX];
	const struct option_row rows[] = {
		{ 0, "gpu", "GPU", "only this GPU: its PCI address or number", TO_TEXT(&o.gpu) },
		{ 0, "launch", NULL,
		  "also run tiny kernels through ROCm. One spins for some seconds, until it is told to end. A GPU with a "
		  "desktop may stutter",
		  TO_FLAG(&o.launch) },
		{ 0, "fault", NULL,
		  "also make a page fault with a kernel of its own. Caution: on some GPUs and kernels a page fault leads to a "
		  "reset, and other programs on that GPU may fail",
		  TO_FLAG(&o.fault) },
		{ 'o', "output", "FILE", "the file to send (default: unhang-selftest-TIME.json here; with --json none)",
		  TO_TEXT(&o.file) },
		JSON_ROW(&o.json, "selftest"),
	};
	options_parse(&selftest_help, ROWS(rows), NO_ROWS, argc, argv);
	if (!operands_end(argc, argv, 0, "see unhang selftest --help"))
		return EXIT_CANNOT;
	o.recorder = find_recorder(recorder);
	struct uh_error *err = uh_selftest(&o, stdout, complain_line, NULL, &failed, &passed);
	return err ? cannot(err) : failed ? EXIT_INCIDENT : passed ? EXIT_NOTHING_WRONG : EXIT_CANNOT;
}
