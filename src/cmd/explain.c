// unhang explain: evidence in, diagnosis out. unhang, unhang live: this machine now, each GPU with its health, what is stuck and why, and the
// newest incident of the kernel's log. They stand together because `unhang FILE` is `unhang explain FILE`.
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/door/door.h"
#include "base/error.h"
#include "base/print.h"
#include "cmd/tell.h"

enum { GPUS_MOST = 1024 };

/** As option_row.take: 0, -1, -2, ... It asks for the journal, too. */
struct wanted_boot {
	bool journal;
	int n;
};
static bool take_boot(void *to, const char *text)
{
	struct wanted_boot *boot = to;
	int64_t n;
	if (!str_number(str_z(text), &n) || n > 0 || n < -10000)
		return reject("--boot needs 0, -1, -2, ..., not '%s'", text);
	*boot = (struct wanted_boot){ true, (int)n };
	return true;
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

/** What an allocator wrote comes first: it knows the addresses of the faults that others tell of. */
static bool of_allocator(const char *path)
{
	const struct str name = str_base(str_z(path));
	return str_ends(name, S(".allocations")) || str_starts(name, S("allocations."));
}

static int by_path(const void *a, const void *b)
{
	const char *x = *(char *const *)a, *y = *(char *const *)b;
	return of_allocator(x) != of_allocator(y) ? (of_allocator(x) ? -1 : 1) : strcmp(x, y);
}

/** Whether the tree that --root names can be looked into; NULL: none is named. false: behind a complaint. */
static bool root_is_there(const char *root)
{
	struct opened o;
	_cleanup_error_ struct uh_error *err = root ? door_look(&(struct named){ .path = root }, &o) : NULL;
	// One that does not answer is told when it is read, and other paths are explained meanwhile.
	return !err || err->errnum != ENOENT || reject("--root %s: %s", root, strerror(ENOENT));
}

static const struct help_text explain_help = {
	.name = "explain",
	.usage = "unhang explain [OPTION...] [PATH...]",
	.about = "Explains what happened to a GPU, and why. PATH is evidence in any form: a kernel log, the log of a server "
		 "or a rank, a wave dump of rocm-debug-agent, a rocgdb transcript, a GPU core (gpucore.PID) and the core of "
		 "its process, a device core, stacks (py-spy, gdb), a recording of unhang's flight recorder, a Flight "
		 "Recorder trace of PyTorch, `docker inspect` or a pod's JSON, output of umr, rocminfo, amd-smi or lspci; a "
		 "bundle of unhang capture or run, or a run's directory; a directory or archive of these, a journal file, "
		 "or - for standard input. Several are explained together, in any order. Without PATH, unhang explains the "
		 "newest incident of this machine: from the journal of this boot and the ones before it, pstore, and "
		 "kdump's dmesg. Of a machine, it also tells which change the incident came with, and the way back.",
	.status = "exit status: 0 no incident, 1 an incident, 2 unknown: no incident in what could be read, but not "
		  "everything could be read",
	.operands = "FILE",
};

int cmd_explain(int argc, char **argv)
{
	struct telling tell = { 0 };
	struct wanted_boot boot = { 0 };
	const char *root = NULL, *target = NULL, *store = NULL, *code[CODE_MOST];
	size_t ncode = 0;
	const struct option_row rows[] = {
		{ 0, "journal", NULL, "the kernel messages of this boot, from the journal", TO_FLAG(&boot.journal) },
		{ 'b', "boot", "N", "those of boot N: 0 is this one, -1 the one before", TO_FUNCTION(take_boot, &boot),
		  .words = "0 -1 -2 -3" },
		{ 0, "code", "PATH",
		  "code objects, programs or libraries with the code that waves ran, in addition to code beside the evidence",
		  TO_LIST(code, &ncode, CODE_MOST) },
		{ 0, "target", "BUNDLE", "a bundle of unhang capture; --target is optional", TO_TEXT(&target) },
		{ 0, "root", "DIR", "the journal, pstore and kdump files of the system that is mounted at DIR",
		  TO_TEXT(&root) },
		{ 0, "store", "DIR", "add the incidents to the history in DIR; unhang history --store DIR shows it",
		  TO_TEXT(&store) },
	};
	struct option_row shared[TELLING_ROWS];
	telling_rows(&tell, shared);
	char name[] = "explain";
	telling_keep(&tell, name, argc, argv);
	options_parse(&explain_help, ROWS(rows), ROWS(shared), argc, argv);
	if (!root_is_there(root))
		return EXIT_CANNOT;
	terminal_describe(&tell.report);
	tell.share.inputs = argv + optind;
	tell.share.ninputs = (size_t)(argc - optind);
	_cleanup_session_ struct uh_session *s = uh_session_new(complain_line, NULL);
	if (!telling_begin(&tell, s))
		return EXIT_CANNOT;
	struct progress_line progress = { 0 };
	clock_gettime(CLOCK_MONOTONIC, &progress.begin);
	if (isatty(STDERR_FILENO))
		uh_session_on_progress(s, show_progress, &progress);
	for (size_t i = 0; i < ncode; i++)
		uh_session_add_code(s, code[i]);
	if (boot.journal)
		uh_session_add_journal(s, root, boot.n);
	else if (optind == argc && !target)
		uh_session_add_newest(s, root);
	// The order in which they were typed must not matter, not even for the numbers of the sources.
	qsort(argv + optind, (size_t)(argc - optind), sizeof(*argv), by_path);
	if (target)
		uh_session_add_path(s, target);
	for (int i = optind; i < argc; i++)
		uh_session_add_path(s, argv[i]);
	uh_session_end(s);

	// What could be read is explained; what could not has had its line on stderr.
	const bool read = uh_session_sources(s);
	bool written = true;
	if (sharing_asked(&tell.share) && read)
		written = sharing_write(&tell.share, s);
	else if (read || tell.report.json || tell.report.oneline)
		uh_session_report(s, stdout, &tell.report);
	else if (!uh_session_problems(s))
		complain("%s has no journal, pstore or kdump log to explain; give a PATH%s", root ? root : "this machine",
			 root ? "" : " (in a container the kernel log is the host's)");
	struct uh_error *unstored = store ? uh_session_store(s, store) : NULL;
	if (unstored)
		return cannot(unstored);
	return written ? telling_status(&tell, s) : EXIT_CANNOT;
}

static void machine_end(struct uh_machine **m) { uh_machine_free(*m); }

static const struct help_text now_help = {
	.usage = "unhang [OPTION...]         this machine's GPUs and newest incident\n"
		 "       unhang [OPTION...] FILE    the same as unhang explain FILE\n"
		 "       unhang live [OPTION...]    only the GPUs, without the kernel log",
	.about = "Looks at each AMD GPU several times within a second: which blocks are busy, which are stuck, and what "
		 "they wait for. It writes nothing, and reads nothing that may act on the GPU. It reads registers and waves "
		 "only while the GPU is awake, not in its sleep state GFXOFF, and not being reset. A read that does not "
		 "return is abandoned after its deadline, and where it waits is part of the answer.",
	.status = "exit status: 0 nothing wrong, 1 an incident or an unhealthy GPU,\n"
		  "2 unknown: something needed could not be read, or there is no AMD GPU",
};

static int now(bool live, int argc, char **argv)
{
	struct telling tell = { 0 };
	const char *gpu = NULL, *root = NULL, *target = NULL, *code[CODE_MOST];
	size_t ncode = 0;
	unsigned expected = 0; // GPUs
	const struct option_row rows[] = {
		{ 0, "gpu", "GPU", "only this one: its PCI address, card1, renderD128, or its place in the list",
		  TO_TEXT(&gpu) },
		{ 0, "expect-gpus", "N", "fewer AMD GPUs than N are an incident", TO_COUNT(&expected, GPUS_MOST) },
		{ 0, "code", "PATH", "code objects, programs or libraries with the code that waves run",
		  TO_LIST(code, &ncode, CODE_MOST) },
		{ 0, "root", "DIR", "the newest incident of the system that is mounted at DIR; the GPUs are not read",
		  TO_TEXT(&root) },
		{ 0, "target", "BUNDLE", "the machine in a bundle of unhang capture, as it was then", TO_TEXT(&target) },
	};
	struct option_row shared[TELLING_ROWS];
	telling_rows(&tell, shared);
	struct help_text help = now_help;
	help.name = live ? "live" : NULL;
	char name[] = "live";
	telling_keep(&tell, live ? name : NULL, argc, argv);
	options_parse(&help, ROWS(rows), ROWS(shared), argc, argv);
	if (optind < argc && !live) { // `unhang -v FILE`
		optind = 1;
		return cmd_explain(argc, argv);
	}
	if (optind < argc)
		return refuse("'%s' is not an option; to explain evidence: unhang explain PATH", argv[optind]);
	if (!root_is_there(root))
		return EXIT_CANNOT;
	terminal_describe(&tell.report);
	_cleanup_(machine_end) struct uh_machine *machine = NULL;
	struct uh_error *err = target ? uh_machine_open(target, &machine) : NULL;
	if (err)
		return cannot(err);
	if (target && !machine)
		return refuse("%s: not a bundle of unhang capture", target);
	_cleanup_session_ struct uh_session *s = uh_session_new(complain_line, NULL);
	if (!telling_begin(&tell, s))
		return EXIT_CANNOT;
	uh_session_on_machine(s, machine);
	uh_session_expect_gpus(s, expected);
	for (size_t i = 0; i < ncode; i++)
		uh_session_add_code(s, code[i]);
	// The silicon first: the state of a hung GPU may be gone by the time that a log is read.
	if (!root)
		err = uh_session_add_machine(s, gpu);
	if (!root && !target && !gpu && !err)
		uh_session_add_stuck_calls(s);
	if (!live && !err)
		uh_session_add_newest(s, root);
	uh_session_end(s);
	if (err)
		return cannot(err);
	bool written = true;
	if (sharing_asked(&tell.share))
		written = sharing_write(&tell.share, s);
	else
		uh_session_report(s, stdout, &tell.report);
	if (uh_session_verdict(s) == UH_UNKNOWN)
		complain("%s; to explain evidence of another machine: unhang explain PATH", uh_session_unread(s));
	return written ? telling_status(&tell, s) : EXIT_CANNOT;
}

int cmd_now(int argc, char **argv) { return now(false, argc, argv); }
int cmd_live(int argc, char **argv) { return now(true, argc, argv); }
