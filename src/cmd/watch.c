// unhang watch: the daemon. unhang incidents: what it stored.
#include <getopt.h>

#include "cmd/tell.h"

static const struct help_text watch_help = {
	.name = "watch",
	.usage = "unhang watch [OPTION...]",
	.about = "Watches the GPUs of this machine for as long as it runs. It follows the kernel log. When a GPU hangs or "
		 "faults, it saves the evidence, explains it, stores both and runs your hooks. It stays in the foreground: "
		 "let systemd, a container or your shell run it. SIGTERM ends it; SIGHUP reads the configuration again. It "
		 "writes nothing to a GPU. Run it as root so that it sees everything. unhang incidents shows what it stored.",
	.status = "exit status: 0 it was told to end, 2 it could not begin, or the configuration has mistakes",
};

int cmd_watch(int argc, char **argv)
{
	struct uh_watch_options o = { 0 };
	const struct option_row rows[] = {
		{ 0, "config", "FILE", "the configuration (/etc/unhang/watch.conf); FILE.d/*.conf is read after it",
		  TO_TEXT(&o.config) },
		{ 0, "check-config", NULL, "only check the configuration", TO_FLAG(&o.check_config) },
		{ 0, "once", NULL, "read the log, store and report what is in it, then end", TO_FLAG(&o.until_quiet) },
		{ 0, "state-dir", "DIR", "where to store incidents (/var/lib/unhang)", TO_TEXT(&o.state_dir) },
		{ 0, "run-dir", "DIR", "where to write state.json (/run/unhang)", TO_TEXT(&o.run_dir) },
		{ 0, "hooks-dir", "DIR", "programs to run after an incident (/etc/unhang/hooks.d)", TO_TEXT(&o.hooks_dir) },
	};
	options_parse(&watch_help, ROWS(rows), NO_ROWS, argc, argv);
	if (!operands_end(argc, argv, 0, "unhang watch takes no arguments"))
		return EXIT_CANNOT;
	return done(uh_watch(&o, stdout, complain_line, NULL));
}

/** What its bundle tells, written for others. */
static int share_incident(const struct uh_incidents_options *o, const struct sharing *how)
{
	_cleanup_session_ struct uh_session *s = uh_session_new(complain_line, NULL);
	if (!sharing_begin(how, s))
		return EXIT_CANNOT;
	struct uh_error *err = uh_session_add_incident(s, o->state_dir, o->id);
	if (err)
		return cannot(err);
	uh_session_end(s);
	return sharing_write(how, s) ? EXIT_NOTHING_WRONG : EXIT_CANNOT;
}

static const struct help_text incidents_help = {
	.name = "incidents",
	.usage = "unhang incidents [OPTION...] [ID]",
	.about = "Lists the incidents that unhang watch and unhang core stored, the newest first. With the ID of one, shows its diagnosis "
		 "and where its files are.",
	.status = "exit status: 0 it was done, 2 they could not be read, none has this ID, or it could not be closed",
	.between = "With an ID, a report for others:",
};

int cmd_incidents(int argc, char **argv)
{
	struct uh_incidents_options o = { .width = terminal_width() };
	struct sharing how = { 0 };
	bool closes = false;
	const char *reason = NULL, *wrong = NULL;
	const struct option_row rows[] = {
		{ 0, "open", NULL, "only those that are not closed", TO_FLAG(&o.open) },
		{ 0, "close", NULL,
		  "close the one with this ID, as root: what does not end by itself, as after a GPU was replaced",
		  TO_FLAG(&closes) },
		{ 0, "reason", "TEXT", "why, for its record", TO_TEXT(&reason) },
		{ 0, "state-dir", "DIR", "where they are stored (/var/lib/unhang)", TO_TEXT(&o.state_dir) },
		{ 0, "run-dir", "DIR", "where unhang watch writes its state (/run/unhang)", TO_TEXT(&o.run_dir) },
		JSON_ROW(&o.json, "incidents"),
	};
	struct option_row shared[SHARING_ROWS];
	sharing_rows(&how, shared);
	options_parse(&incidents_help, ROWS(rows), ROWS(shared), argc, argv);
	if (argc - optind > 1)
		return refuse("one id at a time, please; not '%s'", argv[optind + 1]);
	o.id = argv[optind];
	const bool shares = sharing_asked(&how);
	if (reason && !closes)
		wrong = "--reason needs --close";
	else if (closes && !o.id)
		wrong = "--close needs the id of one incident";
	else if (closes && (o.json || o.open || shares))
		wrong = "--close goes with --reason and --state-dir alone";
	else if (shares && !o.id)
		wrong = "--html and --markdown need the id of one incident";
	else if (shares && o.json)
		wrong = "--html, --markdown and --json: one of them at a time, please";
	if (wrong)
		return refuse("%s", wrong);
	if (closes)
		return done(uh_incident_close(o.state_dir, o.id, reason, stdout));
	return shares ? share_incident(&o, &how) : done(uh_incidents(&o, stdout));
}
