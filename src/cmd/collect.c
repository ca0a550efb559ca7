// unhang collect, unhang triage, unhang store: the history of many machines, and of trees of logs.
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"

static const struct help_text collect_help = {
	.name = "collect",
	.usage = "unhang collect [OPTION...] --store WHERE SPOOL...",
	.about = "Brings the history of many machines into one store. SPOOL is the directory that the watches of the machines "
		 "write to "
		 "(spool-dir in watch.conf). WHERE is a directory or a file for SQLite, or postgresql://... for a server, "
		 "whose user and "
		 "password libpq finds as usual (PGPASSFILE, PGSERVICE). A line that comes twice counts once. docs/HISTORY.md "
		 "tells more.",
	.status = "exit status: 0 all was read, 2 a spool or the store cannot be used",
	.operands = "FILE",
};

int cmd_collect(int argc, char **argv)
{
	struct uh_collect_options o = { 0 };
	const struct option_row rows[] = {
		{ 0, "store", "WHERE", "a directory, a file, or postgresql://...", TO_TEXT(&o.store) },
		{ 'f', "follow", NULL, "go on until SIGTERM, and wait for a server that is gone", TO_FLAG(&o.follow) },
	};
	options_parse(&collect_help, ROWS(rows), NO_ROWS, argc, argv);
	o.spools = (const char *const *)argv + optind;
	o.nspools = (size_t)(argc - optind);
	if (!o.store || !o.nspools)
		return refuse("unhang collect needs a store and a spool: unhang collect --store WHERE SPOOL...");
	return done(uh_collect(&o, stdout, complain_line, NULL));
}

static const struct help_text triage_help = {
	.name = "triage",
	.usage = "unhang triage [OPTION...] --store DIR PATH...",
	.about = "Explains every file below PATH by itself: logs, cores, bundles. Each content is explained once, also if the "
		 "command is run again, "
		 "or was killed. Incidents go to the store DIR, and unhang history --store DIR shows them. With --part, "
		 "several machines share "
		 "the work: each takes the files whose content falls into its part, and nobody has to tell them which.",
	.status = "exit status: 0 all files were read, 1 some could not be read or explained, 2 the store cannot be written",
	.operands = "FILE",
};

/** As option_row.take: 3/8 is the third of eight. */
static bool take_part(void *to, const char *text)
{
	struct uh_triage_options *o = to;
	char *end;
	const unsigned long part = strtoul(text, &end, 10), parts = *end == '/' ? strtoul(end + 1, &end, 10) : 0;
	if (*end || !part || part > parts || parts > 65536)
		return reject("--part needs N/ALL, such as 3/8, not '%s'", text);
	o->part = (unsigned)part - 1;
	o->parts = (unsigned)parts;
	return true;
}

int cmd_triage(int argc, char **argv)
{
	const long cores = sysconf(_SC_NPROCESSORS_ONLN);
	struct uh_triage_options o = { .parts = 1, .jobs = cores > 0 ? (unsigned)cores : 1 };
	unsigned failed = 0;
	const struct option_row rows[] = {
		{ 0, "store", "DIR", "where the history goes", TO_TEXT(&o.store) },
		{ 'j', "jobs", "N", "so many files at once; without it, one for each core", TO_COUNT(&o.jobs, 256) },
		{ 0, "part", "N/ALL", "only this part of the files: 3/8", TO_FUNCTION(take_part, &o) },
	};
	options_parse(&triage_help, ROWS(rows), NO_ROWS, argc, argv);
	o.paths = (const char *const *)argv + optind;
	o.npaths = (size_t)(argc - optind);
	if (!o.store || !o.npaths)
		return refuse("unhang triage needs a store and files: unhang triage --store DIR PATH...");
	struct uh_error *err = uh_triage(&o, stdout, complain_line, NULL, &failed);
	return err ? cannot(err) : failed ? EXIT_INCIDENT : EXIT_NOTHING_WRONG;
}

static const struct help_text store_help = {
	.name = "store",
	.usage = "unhang store check|migrate|rebuild --store WHERE",
	.about = "Looks after a store of the history. check: whether it is sound. migrate: brings its tables to the form that "
		 "this unhang knows; "
		 "of a file that happens by itself. rebuild: makes the index of a directory again, from the incidents and lines "
		 "in it.",
	.status = "exit status: 0 it was done and all is well, 1 the store is damaged, 2 it could not be done",
	.operands = "check migrate rebuild",
};

int cmd_store(int argc, char **argv)
{
	const char *store = NULL;
	bool good = true;
	const struct option_row rows[] = { { 0, "store", "WHERE", "a directory, a file, or postgresql://...",
					     TO_TEXT(&store) } };
	options_parse(&store_help, ROWS(rows), NO_ROWS, argc, argv);
	const char *what = optind < argc ? argv[optind] : "";
	if (!store || !operands_end(argc, argv, 1, "unhang store takes one word: check, migrate or rebuild"))
		return store ? EXIT_CANNOT : refuse("unhang store needs --store WHERE");
	struct uh_error *err = NULL;
	if (!strcmp(what, "check"))
		err = uh_store_check(store, stdout, &good);
	else if (!strcmp(what, "migrate"))
		err = uh_store_migrate(store, stdout);
	else if (!strcmp(what, "rebuild"))
		err = uh_store_rebuild(store, stdout);
	else
		return refuse("unhang store does check, migrate or rebuild, not '%s'", what);
	return err ? cannot(err) : good ? EXIT_NOTHING_WRONG : EXIT_INCIDENT;
}
