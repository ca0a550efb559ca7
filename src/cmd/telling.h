// The options of `explain`, `live` and `unhang` alone that say what is told of incidents, and when they fail.
#pragma once

#include <getopt.h>

#include "cmd/cmd.h"

/** A report for others. */
struct sharing {
	const char *html; // file; NULL: none
	bool markdown;
	struct uh_share_options options;
	char *const *inputs; // paths of evidence, which no report may replace
	size_t ninputs;
};

struct telling {
	struct uh_report_options report;
	const char *since, *part;
	bool newest, node_only;
	struct sharing share;
};

enum {
	TELL_ONELINE = 256,
	TELL_EVIDENCE,
	TELL_SINCE,
	TELL_NEWEST,
	TELL_FAIL_ON,
	TELL_PART,
	TELL_HTML,
	TELL_MARKDOWN,
	TELL_REDACT,
	TELL_FULL
};

/** Rows of a table for getopt_long(). */
#define SHARING_OPTIONS                                                                                                        \
	{ "html", required_argument, NULL, TELL_HTML }, { "markdown", no_argument, NULL, TELL_MARKDOWN },                      \
		{ "redact", no_argument, NULL, TELL_REDACT },                                                                  \
	{                                                                                                                      \
		"full-evidence", no_argument, NULL, TELL_FULL                                                                  \
	}
#define TELLING_OPTIONS                                                                                                        \
	{ "all", no_argument, NULL, 'a' }, { "verbose", no_argument, NULL, 'v' }, { "json", no_argument, NULL, 'J' },          \
		{ "oneline", no_argument, NULL, TELL_ONELINE }, { "evidence", no_argument, NULL, TELL_EVIDENCE },              \
		{ "since", required_argument, NULL, TELL_SINCE }, { "newest", no_argument, NULL, TELL_NEWEST },                \
		{ "fail-on", required_argument, NULL, TELL_FAIL_ON }, SHARING_OPTIONS,                                         \
	{                                                                                                                      \
		"part", required_argument, NULL, TELL_PART                                                                     \
	}

/** Their part of --help. */
#define SHARING_HELP                                                                                                           \
	"  --html FILE        write a report with pictures into one HTML file, which\n"                                        \
	"                     needs no network; - is standard output\n"                                                        \
	"  --markdown         the answer for a bug tracker or a chat\n"                                                        \
	"  --redact           in these two, replace names of machines and people,\n"                                           \
	"                     addresses, serial numbers and secrets\n"                                                         \
	"  --full-evidence    in these two, quote every line, not only three around\n"                                         \
	"                     each that matters\n"

#define TELLING_HELP                                                                                                           \
	"  -a, --all          show every incident, not only the most important one\n"                                          \
	"  -v, --verbose      every event and fact, and each remedy with its steps\n"                                          \
	"  --evidence, -vv    the lines behind each statement, as FILE:LINE:TEXT\n"                                            \
	"  --since TIME       incidents since then: 2026-11-16, '3 days ago', 2h\n"                                            \
	"  --newest           only the newest incident\n"                                                                      \
	"  --part NAME        the GPU, if the evidence does not say which:\n"                                                  \
	"                     'RX 7900 XTX', MI300X, or its PCI device id\n"                                                   \
	"  --oneline          a line with tabs for each incident; docs/OPERATORS.md\n"                                         \
	"                     names the fields\n"                                                                              \
	"  --fail-on WHAT     exit with 1 on any `incident`, or only if the\n"                                                 \
	"                     machine is at fault or unfit: `node`\n"                                                          \
	"  --json             for programs: the document of\n"                                                                 \
	"                     docs/diagnosis.schema.json\n" SHARING_HELP "  -h, --help         show this text\n"

/** Takes an option that is one of them. -1: it was taken; -2: it is none of them; else the exit status, behind a complaint. */
int telling_take(struct telling *t, int option, const char *value);
/** Prepares a session; before the sources. false: behind a complaint. */
bool telling_begin(const struct telling *t, struct uh_session *s);
/** The same for those of SHARING_OPTIONS alone. */
int sharing_take(struct sharing *s, int option, const char *value);
/** Prepares a session; before the sources. false: behind a complaint. */
bool sharing_begin(const struct sharing *o, struct uh_session *s);
/** Whether a report for others is asked for, and so not the one on the terminal. */
static inline bool sharing_asked(const struct sharing *o) { return o->html || o->markdown; }
/** Writes it. false: behind a complaint. */
bool sharing_write(const struct sharing *o, struct uh_session *s);
/** The exit status of a session that has ended. */
int telling_status(const struct telling *t, const struct uh_session *s);
