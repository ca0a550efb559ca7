// unhang history: what happened over time, and whether changes helped.
#include <getopt.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "cmd/tell.h"

static const struct help_text history_help = {
	.name = "history",
	.usage = "unhang history [OPTION...]",
	.about = "Shows what happened on this machine, or in a store of many: each fault once, how often it came this week and "
		 "last week, and on "
		 "how many nodes. With --remedies, it tells for each change of a setting or version whether it helped. unhang "
		 "watch and unhang "
		 "run add to the history, and so does unhang explain --store. docs/HISTORY.md tells more.",
	.status = "exit status: 0 it was shown, 2 there is no history, it cannot be read, or what is asked for makes no sense",
};

/** An option that would be ignored is refused: the answer would look like that to another question. */
static bool fits_together(const struct uh_history_options *o)
{
	if (o->csv && (o->json || o->remedies))
		return reject("--csv is the list of incidents; give --json for the rest");
	if (o->html && (o->filtered || o->list || o->remedies || o->csv || o->json || o->id))
		return reject("--html writes all pages: give it with no other option than --store");
	if (o->id && (o->filtered || o->list || o->remedies || o->csv))
		return reject("--id shows one incident: give it with no other option than --store and --json");
	if ((o->nodes || o->gpus) && (o->list || o->remedies || o->csv || o->html || o->id || o->open || (o->nodes && o->gpus)))
		return reject("--nodes and --gpus are answers of their own: give filters with one of them, and --json");
	if (o->remedies && (o->gpu || o->serial || o->program || o->job || o->fingerprint || o->open || o->list || o->skip))
		return reject("--remedies goes with --class, --part, --node, --since and --until, and with no other filter");
	return true;
}

/** A directory whose index.html somebody else wrote is a site of theirs. */
static bool pages_allowed(const char *directory)
{
	static const struct output_kind page = { "--html", "<!DOCTYPE html>", " - unhang</title>" };
	_cleanup_arena_ struct arena a = { 0 };
	return output_allowed(&page, arena_printf(&a, "%s/index.html", directory).p, NULL, 0);
}

int cmd_history(int argc, char **argv)
{
	struct uh_history_options o = { .width = terminal_width() };
	enum { MOST = 100000000 };
	unsigned skip = 0;
	const struct option_row rows[] = {
		{ 0, "store", "WHERE", "a directory, a file, or postgresql://...; without it, this machine's",
		  TO_TEXT(&o.store) },
		{ 0, "since", "TIME", "from then on: 2026-11-01, 3d, yesterday; without it, the last 8 weeks",
		  TO_TEXT(&o.since) },
		{ 0, "until", "TIME", "before that", TO_TEXT(&o.until) },
		{ 0, "class", "CLASS", "only this cause; unhang knowledge list class lists them", TO_TEXT(&o.cause) },
		{ 0, "node", "HOST", "only this machine; * stands for any letters: rack7-*", TO_TEXT(&o.node) },
		{ 0, "gpu", "PCI", "only the GPU at this address", TO_TEXT(&o.gpu) },
		{ 0, "serial", "NUMBER", "only the GPU with this serial number", TO_TEXT(&o.serial) },
		{ 0, "part", "GFX", "only this part: gfx942, gfx11*", TO_TEXT(&o.part) },
		{ 0, "program", "NAME", "only incidents of this program", TO_TEXT(&o.program) },
		{ 0, "job", "TEXT", "only incidents of this job: '*job 4711*'", TO_TEXT(&o.job) },
		{ 0, "fingerprint", "ID", "only this fault", TO_TEXT(&o.fingerprint) },
		{ 0, "id", "ID", "one incident: its events, what to do and what to try", TO_TEXT(&o.id) },
		{ 0, "open", NULL, "only incidents that are not over, however old", TO_FLAG(&o.open) },
		{ 0, "list", NULL, "each incident, the newest first", TO_FLAG(&o.list) },
		{ 0, "remedies", NULL, "whether changes of settings and versions helped", TO_FLAG(&o.remedies) },
		{ 0, "nodes", NULL, "how often each node fails, by its hours of work; the worst first", TO_FLAG(&o.nodes) },
		{ 0, "gpus", NULL, "the same of each GPU, by its serial number", TO_FLAG(&o.gpus) },
		{ 0, "limit", "N", "so many incidents, changes, nodes or GPUs", TO_COUNT(&o.most, MOST) },
		{ 'a', "all", NULL, "all of them", TO_FLAG(&o.all) },
		{ 0, "skip", "N", "leave out the newest N incidents", TO_COUNT(&skip, MOST) },
		{ 0, "html", "DIR", "all of it as pages in DIR, for any web server", TO_TEXT(&o.html) },
		{ 0, "csv", NULL, "incidents as a table with commas", TO_FLAG(&o.csv) },
		JSON_ROW(&o.json, "history"),
	};
	options_parse(&history_help, ROWS(rows), NO_ROWS, argc, argv);
	if (!operands_end(argc, argv, 0, "unhang history takes no arguments"))
		return EXIT_CANNOT;
	o.skip = skip;
	o.filtered = o.until || o.cause || o.node || o.gpu || o.serial || o.part || o.program || o.job || o.fingerprint ||
		     o.open || o.since;
	if (!fits_together(&o) || (o.html && !pages_allowed(o.html)))
		return EXIT_CANNOT;
	return done(uh_history(&o, stdout, complain_line, NULL));
}
