// unhang check: whether the next job can run here, for people and schedulers.
#include <getopt.h>

#include "cmd/cmd.h"

enum { GPUS_MOST = 256 };

static const struct help_text check_help = {
	.name = "check",
	.usage = "unhang check [OPTION...]",
	.about = "Says whether the next job can run on this node: healthy, degraded (it can, with a warning), "
		 "failed, or unknown. It reads the state of unhang watch. If no watch runs, it looks at the GPUs itself, for 5 "
		 "seconds at most. With --slurm, --npd or --prometheus it only reads the watch's state, and answers within a "
		 "second. It asks no server and writes nothing to a GPU. docs/FLEET.md tells more.",
	.status = "exit status: 0 healthy or degraded, 1 failed, 2 unknown; docs/FLEET.md has the\n"
		  "statuses of --npd",
};

int cmd_check(int argc, char **argv)
{
	struct uh_check_options o = { .width = terminal_width() };
	bool slurm = false, npd = false, smoke = false;
	int status = EXIT_CANNOT;
	const struct option_row rows[] = {
		{ 0, "slurm", NULL, "a line for Slurm: status, fit, and a reason that names no program", TO_FLAG(&slurm) },
		{ 0, "npd", NULL, "a line for Kubernetes' node-problem-detector, and its exit statuses", TO_FLAG(&npd) },
		{ 0, "prometheus", "FILE", "metrics, in a file for node-exporter's textfile collector", TO_TEXT(&o.file) },
		{ 0, "look", NULL, "look at the GPUs, also if a watch runs", TO_FLAG(&o.look) },
		{ 0, "expect-gpus", "N", "fewer AMD GPUs than N are a failure", TO_COUNT(&o.expected, GPUS_MOST) },
		{ 0, "expect-partition", "MODE", "a GPU in another partition mode (SPX, CPX, ...) is a failure",
		  TO_TEXT(&o.partition) },
		{ 0, "publish", "DIR", "also write the document of --json to DIR/HOST.json", TO_TEXT(&o.publish) },
		{ 0, "new-rules", "PERCENT",
		  "rules of fitness that are new in this release count on so many of the machines (1)",
		  TO_COUNT(&o.new_rules, 100) },
		{ 0, "smoke-test", NULL, "compute on each GPU (unhang doctor --smoke-test), and note the result for this boot",
		  TO_FLAG(&smoke) },
		{ 0, "run-dir", "DIR", "where the watch writes its state (/run/unhang)", TO_TEXT(&o.run_dir) },
		{ 0, "state-dir", "DIR", "where the watch stores incidents (/var/lib/unhang)", TO_TEXT(&o.state_dir) },
		JSON_ROW(&o.json, "check"),
	};
	options_parse(&check_help, ROWS(rows), NO_ROWS, argc, argv);
	if (!operands_end(argc, argv, 0, "unhang check takes no arguments"))
		return EXIT_CANNOT;
	const char *const places[] = { o.file, o.publish, o.run_dir, o.state_dir };
	for (size_t n = 0; n < sizeof(places) / sizeof(*places); n++)
		if (places[n] && !*places[n])
			return refuse("--prometheus, --publish, --run-dir and --state-dir need a name");
	if (slurm + npd + (o.file != NULL) + o.json + smoke > 1)
		return refuse("--slurm, --npd, --prometheus, --json and --smoke-test do not go together");
	if (o.look && (slurm || npd || o.file))
		return refuse("--look may take 5 seconds; schedulers get only what the watch knows");
	if (smoke) {
		bool good = false;
		struct uh_error *err = uh_check_smoke(&o, stdout, &good);
		return err ? cannot(err) : good ? EXIT_NOTHING_WRONG : EXIT_INCIDENT;
	}
	o.form = slurm ? UH_CHECK_SLURM : npd ? UH_CHECK_NPD : o.file ? UH_CHECK_PROMETHEUS : UH_CHECK_TEXT;
	struct uh_error *err = uh_check(&o, stdout, &status);
	return err ? cannot(err) : status;
}
