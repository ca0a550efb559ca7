// The options of `explain`, `live` and `unhang` alone that say what is told of incidents, and when they fail.
#pragma once

#include <getopt.h>

#include "cmd/cmd.h"

struct telling {
	struct uh_report_options report;
	const char *since, *part;
	bool newest, node_only;
};

enum { TELL_ONELINE = 256, TELL_EVIDENCE, TELL_SINCE, TELL_NEWEST, TELL_FAIL_ON, TELL_PART };

/** Rows of a table for getopt_long(). */
#define TELLING_OPTIONS                                                                                                        \
	{ "all", no_argument, NULL, 'a' }, { "verbose", no_argument, NULL, 'v' }, { "json", no_argument, NULL, 'J' },          \
		{ "oneline", no_argument, NULL, TELL_ONELINE }, { "evidence", no_argument, NULL, TELL_EVIDENCE },              \
		{ "since", required_argument, NULL, TELL_SINCE }, { "newest", no_argument, NULL, TELL_NEWEST },                \
		{ "fail-on", required_argument, NULL, TELL_FAIL_ON },                                                          \
	{                                                                                                                      \
		"part", required_argument, NULL, TELL_PART                                                                     \
	}

/** Their part of --help. */
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
	"                     machine itself is at fault: `node`\n"                                                            \
	"  --json             for programs: the document of\n"                                                                 \
	"                     docs/diagnosis.schema.json\n"                                                                    \
	"  -h, --help         show this text\n"

/** Takes an option that is one of them. -1: it was taken; -2: it is none of them; else the exit status, behind a complaint. */
int telling_take(struct telling *t, int option, const char *value);
/** Prepares a session; before the sources. false: behind a complaint. */
bool telling_begin(const struct telling *t, struct uh_session *s);
/** The exit status of a session that has ended. */
int telling_status(const struct telling *t, const struct uh_session *s);
