#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/print.h"
#include "base/str.h"
#include "cmd/cmd.h"
#include "cmd/telling.h"
#include "unhang/unhang.h"

static void usage(void)
{
	puts("usage: unhang explain [OPTION...] [PATH...]\n"
	     "\n"
	     "Explains what happened to a GPU, and why. PATH is evidence in any form: a kernel\n"
	     "log, the log of a server or a rank, a wave dump of rocm-debug-agent, a rocgdb\n"
	     "transcript, a GPU core (gpucore.PID) and the core of its process, a device core,\n"
	     "stacks (py-spy, gdb), a recording of unhang's flight recorder, a Flight Recorder\n"
	     "trace of PyTorch, `docker inspect` or a pod's JSON, output of umr, rocminfo,\n"
	     "amd-smi or lspci; a bundle of unhang capture or run, or a run's directory; a\n"
	     "directory or archive of these, a journal file, or - for standard input. Several\n"
	     "are explained together, in any order. Without PATH, unhang explains the newest\n"
	     "incident of this machine: from the journal of this boot and the ones before it,\n"
	     "pstore, and kdump's dmesg.\n"
	     "\n"
	     "  --journal          the kernel messages of this boot, from the journal\n"
	     "  -b, --boot N       those of boot N: 0 is this one, -1 the one before\n"
	     "  --code PATH        code objects, programs or libraries with the code that\n"
	     "                     waves ran, in addition to code beside the evidence\n"
	     "  --target BUNDLE    a bundle of unhang capture; --target is optional\n"
	     "  --root DIR         the journal, pstore and kdump files of the system that is\n"
	     "                     mounted at DIR\n" TELLING_HELP "\n"
	     "exit status: 0 no incident, 1 an incident, 2 unknown: no incident in what could\n"
	     "be read, but not everything could be read");
}

enum { CODE_MAX = 64 };

struct explain {
	struct telling tell;
	const char *root, *target;
	const char *code[CODE_MAX];
	size_t ncode;
	bool journal;
	int boot;
};

static bool parse_boot(const char *text, int *ret)
{
	int64_t n;
	if (!str_number(str_z(text), &n) || n > 0 || n < -10000)
		return false;
	*ret = (int)n;
	return true;
}

/** -1: go on; else the exit status. */
static int parse_options(int argc, char **argv, struct explain *e)
{
	static const struct option options[] = {
		{ "journal", no_argument, NULL, 'j' },      { "boot", required_argument, NULL, 'b' },
		{ "root", required_argument, NULL, 'r' },   { "code", required_argument, NULL, 'c' },
		{ "target", required_argument, NULL, 't' }, TELLING_OPTIONS,
		{ "help", no_argument, NULL, 'h' },         { 0 },
	};
	int c, taken;
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":avhb:", options, NULL)) != -1) {
		switch (c) {
		case 'j':
			e->journal = true;
			break;
		case 'b':
			e->journal = true;
			if (!parse_boot(optarg, &e->boot)) {
				complain("--boot needs 0, -1, -2, ..., not '%s'", optarg);
				return EXIT_CANNOT;
			}
			break;
		case 'r':
			e->root = optarg;
			break;
		case 't':
			e->target = optarg;
			break;
		case 'c':
			if (!add_path(e->code, &e->ncode, CODE_MAX, "--code", optarg))
				return EXIT_CANNOT;
			break;
		case 'h':
			usage();
			return EXIT_NOTHING_WRONG;
		default:
			taken = telling_take(&e->tell, c, optarg);
			if (taken == -2)
				complain_option(argv, c, "explain");
			if (taken != -1)
				return EXIT_CANNOT;
		}
	}
	return -1;
}

struct progress_line {
	struct timespec begin;
	bool shown;
};

/** After a second, a line that is overwritten and wiped in the end. */
static void show_progress(void *ctx, const char *name, unsigned long long done, unsigned long long total)
{
	struct progress_line *p = ctx;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	double seconds = (double)(now.tv_sec - p->begin.tv_sec) + (double)(now.tv_nsec - p->begin.tv_nsec) / 1e9;
	if (done < total && seconds > 1) {
		fprintf(stderr, "\r\033[Kreading ");
		print_safe(stderr, str_z(name));
		fprintf(stderr, "  %llu %%", done * 100 / total);
		p->shown = true;
	} else if (done == total && p->shown) {
		fputs("\r\033[K", stderr);
		p->shown = false;
	}
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int cmd_explain(int argc, char **argv)
{
	struct explain e = { 0 };
	int status = parse_options(argc, argv, &e);
	if (status >= 0)
		return status;
	terminal_describe(&e.tell.report);
	e.tell.share.inputs = argv + optind;
	e.tell.share.ninputs = (size_t)(argc - optind);
	struct uh_session *s = uh_session_new(complain_line, NULL);
	if (!telling_begin(&e.tell, s)) {
		uh_session_free(s);
		return EXIT_CANNOT;
	}
	struct progress_line progress = { 0 };
	clock_gettime(CLOCK_MONOTONIC, &progress.begin);
	if (isatty(STDERR_FILENO))
		uh_session_on_progress(s, show_progress, &progress);
	for (size_t i = 0; i < e.ncode; i++)
		uh_session_add_code(s, e.code[i]);
	if (e.journal)
		uh_session_add_journal(s, e.root, e.boot);
	else if (optind == argc && !e.target)
		uh_session_add_newest(s, e.root);
	// The order in which they were typed must not matter, not even for the numbers of the sources.
	qsort(argv + optind, (size_t)(argc - optind), sizeof(*argv), by_name);
	if (e.target)
		uh_session_add_path(s, e.target);
	for (int i = optind; i < argc; i++)
		uh_session_add_path(s, argv[i]);
	uh_session_end(s);

	// What could be read is explained; what could not has had its line on stderr.
	bool read = uh_session_sources(s);
	bool written = true;
	if (sharing_asked(&e.tell.share) && read)
		written = sharing_write(&e.tell.share, s);
	else if (read || e.tell.report.json || e.tell.report.oneline)
		uh_session_report(s, stdout, &e.tell.report);
	else if (!uh_session_problems(s))
		complain("this machine has no journal, pstore or kdump log to explain; give a PATH (in a container the "
			 "kernel log is "
			 "the host's)");
	status = written ? telling_status(&e.tell, s) : EXIT_CANNOT;
	uh_session_free(s);
	return status;
}
