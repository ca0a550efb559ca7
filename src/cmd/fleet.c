// unhang fleet: the nodes of a cluster, asked over ssh; and the arbiter beside Slurm's controller.
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"

static const struct help_text fleet_help = {
	.name = "fleet",
	.usage = "unhang fleet check [OPTION...] HOSTLIST...\n"
		 "       unhang fleet arbiter [OPTION...] --nodes DIR",
	.about = "check asks each host over ssh (unhang check --json) and prints a table; HOSTLIST is node1,node2 or "
		 "node[01-16]. arbiter works beside Slurm's controller: it reads what the nodes publish to DIR (unhang check "
		 "--publish), and drains, resumes and reboots nodes within a limit. Without --enforce yes it only writes "
		 "what it would do. docs/FLEET.md tells more.",
	.status = "exit status of check: the worst of all nodes: 0 healthy or degraded, 1 failed,\n"
		  "2 unknown; of arbiter: 0 it was told to end, 2 it cannot work",
	.operands = "check arbiter",
};

struct fleet_limit {
	const char *option;
	unsigned *nodes, *percent;
};

/** As option_row.take: 5 nodes, or 10%. */
static bool take_most(void *to, const char *text)
{
	const struct fleet_limit *limit = to;
	char *end;
	const unsigned long n = strtoul(text, &end, 10);
	const bool percent = !strcmp(end, "%");
	if (!n || n > 100000 || (*end && !percent) || (percent && n > 100))
		return reject("%s needs a number of nodes, or a share such as 5%%, not '%s'", limit->option, text);
	*(percent ? limit->percent : limit->nodes) = (unsigned)n;
	return true;
}

int cmd_fleet(int argc, char **argv)
{
	enum { SECONDS_MOST = 86400 };
	struct uh_fleet_options f = { 0 };
	struct uh_arbiter_options a = { .state_dir = "/var/lib/unhang/arbiter" };
	struct fleet_limit hour = { "--most", &a.most, &a.percent }, held = { "--most-drained", &a.held_most, &a.held_percent };
	char remote[64];
	unsigned expected = 0;
	int status = EXIT_CANNOT, enforce = 0;
	const struct option_row rows[] = {
		{ 0, "at-once", "N", "check: so many hosts at once (32)", TO_COUNT(&f.at_once, 1024) },
		{ 0, "ssh", "PROGRAM", "check: what connects (ssh)", TO_TEXT(&f.ssh) },
		{ 0, "expect-gpus", "N", "check: a host with fewer GPUs than this has failed", TO_COUNT(&expected, 1024) },
		{ 0, "command", "COMMAND", "check: what to run there (unhang check --json)", TO_TEXT(&f.remote) },
		{ 0, "any-name", NULL, "check: accept a host that reports a different name",
		  TO_FLAG(&f.any_name) },
		{ 'a', "all", NULL, "check: list healthy nodes, too", TO_FLAG(&f.all) },
		{ 0, "json", NULL, "check: for programs", TO_FLAG(&f.json) },
		{ 0, "nodes", "DIR", "arbiter: where the nodes publish", TO_TEXT(&a.nodes) },
		{ 0, "owner", "USER", "arbiter: believe files of this user there, too, not only root's", TO_TEXT(&a.owner) },
		{ 0, "enforce", "yes|no", "arbiter: act; without it, it only writes what it would do",
		  TO_CHOICE(&enforce, "no yes") },
		{ 0, "most", "N|P%", "arbiter: drain at most so many nodes in an hour (2); both may be given",
		  TO_FUNCTION(take_most, &hour) },
		{ 0, "most-drained", "N|P%", "arbiter: keep at most so many nodes drained at a time (10%); both may be given",
		  TO_FUNCTION(take_most, &held) },
		{ 0, "reboot", NULL, "arbiter: reboot drained nodes that need it", TO_FLAG(&a.reboots) },
		{ 0, "state-dir", "DIR", "arbiter: where its journal is (/var/lib/unhang/arbiter)", TO_TEXT(&a.state_dir) },
		{ 0, "interval", "SECONDS", "arbiter: how often it looks (30)", TO_COUNT(&a.interval, SECONDS_MOST) },
		{ 0, "stale", "SECONDS", "arbiter: ignore reports older than this (900)",
		  TO_COUNT(&a.stale, SECONDS_MOST) },
		{ 0, "reboot-wait", "SECONDS", "arbiter: after so long without a new boot it asks for the power switch (1800)",
		  TO_COUNT(&a.reboot_wait, SECONDS_MOST) },
		{ 0, "once", NULL, "arbiter: one round", TO_FLAG(&a.once) },
	};
	options_parse(&fleet_help, ROWS(rows), NO_ROWS, argc, argv);
	const char *what = optind < argc ? argv[optind++] : "";
	f.hosts = (const char *const *)argv + optind;
	f.nhosts = (size_t)(argc - optind);
	a.enforce = enforce;
	if (expected && f.remote)
		return refuse("--expect-gpus and --command: put --expect-gpus %u into the command", expected);
	if (expected) {
		snprintf(remote, sizeof(remote), "unhang check --json --expect-gpus %u", expected);
		f.remote = remote;
	}
	if (!strcmp(what, "check") && f.nhosts) {
		struct uh_error *err = uh_fleet_check(&f, stdout, &status);
		return err ? cannot(err) : status;
	}
	if (!strcmp(what, "arbiter") && !f.nhosts && a.nodes)
		return done(uh_fleet_arbiter(&a, stdout, complain_line, NULL));
	return refuse("unhang fleet needs 'check HOSTLIST' or 'arbiter --nodes DIR'; see unhang fleet --help");
}
