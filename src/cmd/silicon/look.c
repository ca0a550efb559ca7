// unhang waves, queues, rings, regs: what a target holds, be it a GPU of this machine, a process or a core.
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/print.h"
#include "cmd/cmd.h"
#include "cmd/silicon/again.h"
#include "cmd/silicon/screen.h"

enum { TARGETS_MOST = 8, LOOKS_MOST = 100, PACKETS_MOST = 1000 };

/** A look that may be made again and again. */
struct again {
	struct uh_look_options *options;
	const char *const *names;
	size_t n;
	unsigned seconds; // 0: it is made once
	unsigned got;     // registers
	uh_problem_fn *problem;
};

#define WATCH_ROW(p)                                                                                                           \
	{                                                                                                                      \
		0, "watch", "SECONDS", "look again every SECONDS, and mark what changed; q ends it", TO_COUNT(p, WATCH_MOST)   \
	}

static struct uh_error *again_waves(void *ctx, FILE *out)
{
	const struct again *a = ctx;
	return uh_look_waves(a->options, out, a->problem, NULL);
}

static struct uh_error *again_queues(void *ctx, FILE *out)
{
	const struct again *a = ctx;
	return uh_look_queues(a->options, out, a->problem, NULL);
}

static struct uh_error *again_rings(void *ctx, FILE *out)
{
	const struct again *a = ctx;
	return uh_look_rings(a->options, a->names, a->n, out, a->problem, NULL);
}

static struct uh_error *again_regs(void *ctx, FILE *out)
{
	struct again *a = ctx;
	return uh_look_regs(a->options, a->names, a->n, out, a->problem, NULL, &a->got);
}

/** Once, or as --watch says. The screen has no room for progress and remarks; a look without --watch tells them. */
static struct uh_error *again_make(struct again *a, struct uh_error *(*look)(void *ctx, FILE *out))
{
	a->problem = complain_line;
	if (!a->seconds)
		return look(a, stdout);
	if (a->options->json)
		return uh_error_new("--watch shows text: not with --json");
	a->problem = tell_nobody;
	a->options->progress = NULL;
	return look_again(a->seconds, look, a);
}

/** Waves and queues: operands are targets. */
static bool targets_end(const char **targets, size_t *n, int argc, char **argv)
{
	for (; optind < argc; optind++)
		if (!add_path(targets, n, TARGETS_MOST, "--target", argv[optind]))
			return false;
	return true;
}

static const struct help_text waves_help = {
	.name = "waves",
	.usage = "unhang waves [OPTION...]\n"
		 "       unhang waves --target CORE [--target CORE] [OPTION...]",
	.about = "Shows the waves (groups of 32 or 64 threads) on the GPUs of this machine, or in a core: which kernel, "
		 "source line and instruction they are at, what stopped them or what they wait for, and what each program does: stuck, works or waits. A GPU is read only when "
		 "that is safe, and nothing is halted. It needs root. CORE is a gpucore.PID of ROCm, the core of its "
		 "process, or one that holds both. If two cores belong together, name both.",
	.status = "exit status: 0 the waves were read, 2 they could not be read",
	.operands = "FILE",
};

int cmd_waves(int argc, char **argv)
{
	const char *targets[TARGETS_MOST], *code[CODE_MOST];
	struct uh_look_options o = { .targets = targets, .code = code, .progress = show_look };
	struct again again = { .options = &o };
	const struct option_row rows[] = {
		{ 0, "target", "FILE", "the core; the word --target is optional", TO_LIST(targets, &o.ntargets, TARGETS_MOST) },
		{ 0, "gpu", "GPU", "only this GPU of this machine: its PCI address or number", TO_TEXT(&o.gpu) },
		{ 0, "sample", "N", "look N times to see which waves move, without a verdict", TO_COUNT(&o.looks, LOOKS_MOST) },
		{ 0, "code", "PATH",
		  "more code objects, programs or libraries, or a directory of them, besides those that the core or the "
		  "process names",
		  TO_LIST(code, &o.ncode, CODE_MOST) },
		{ 0, "registers", NULL, "show each wave with its registers and local memory (LDS)", TO_FLAG(&o.registers) },
		{ 'a', "all", NULL, "show every wave, however many", TO_FLAG(&o.all) },
		WATCH_ROW(&again.seconds),
		JSON_ROW(&o.json, "waves"),
	};
	options_parse(&waves_help, ROWS(rows), NO_ROWS, argc, argv);
	if (!targets_end(targets, &o.ntargets, argc, argv))
		return EXIT_CANNOT;
	return done(again_make(&again, again_waves));
}

static const struct help_text queues_help = {
	.name = "queues",
	.usage = "unhang queues [--target PID | --target CORE [--target CORE]] [OPTION...]",
	.about = "Shows the queues of programs that compute on GPUs: how many packets wait in them, which kernels these "
		 "are, and what each queue does: stuck, works, waits or idle. Without a target, it shows those of all processes of this machine; only "
		 "root can see where they are in memory. For a core it shows their errors too.",
	.status = "exit status: 0 the queues were read, 2 they could not be read",
	.operands = "FILE",
};

int cmd_queues(int argc, char **argv)
{
	const char *targets[TARGETS_MOST], *code[CODE_MOST];
	struct uh_look_options o = { .targets = targets, .code = code, .width = terminal_width(), .progress = show_look };
	struct again again = { .options = &o };
	const struct option_row rows[] = {
		{ 0, "registers", NULL,
		  "also the descriptor of each queue in memory (MQD) and its registers on the GPU (HQD), word by word, and what the scheduler was told to run",
		  TO_FLAG(&o.registers) },
		{ 0, "target", "TARGET",
		  "a process by its PID, a core, or a bundle of unhang capture; the word --target is optional",
		  TO_LIST(targets, &o.ntargets, TARGETS_MOST) },
		{ 0, "code", "PATH",
		  "more code objects, programs or libraries, or a directory of them, besides those that the target names",
		  TO_LIST(code, &o.ncode, CODE_MOST) },
		WATCH_ROW(&again.seconds),
		JSON_ROW(&o.json, "queues"),
	};
	options_parse(&queues_help, ROWS(rows), NO_ROWS, argc, argv);
	if (!targets_end(targets, &o.ntargets, argc, argv))
		return EXIT_CANNOT;
	return done(again_make(&again, again_queues));
}

/** As option_row.take: --once. */
static bool take_once(void *to, const char *text)
{
	(void)text;
	*(unsigned *)to = 1;
	return true;
}

/** Seconds with a point in them, as option_row.take. */
static bool take_interval(void *to, const char *text)
{
	char *end;
	const double seconds = strtod(text, &end);
	if (end == text || *end || !(seconds >= 0.1 && seconds <= WATCH_MOST))
		return reject("--interval needs a number of seconds from 0.1 on, not '%s'", text);
	*(double *)to = seconds;
	return true;
}

static const struct help_text rings_help = {
	.name = "rings",
	.usage = "unhang rings [NAME...] [OPTION...]",
	.about = "Shows the rings through which the driver gives work to a GPU: how far the GPU is (rptr), how far the "
		 "driver has written (wptr), and whether the GPU moved between two looks. Shows the packets around rptr, "
		 "with > at the one where the GPU is and what that packet waits for. NAME is a ring such as gfx_0.0.0 or "
		 "sdma0, or a pattern with * or ?. It needs root. ROCm's work is in its own queues: unhang queues.",
	.status = "exit status: 0 rings were read, 2 none",
	.operands = "gfx* comp* sdma* mes* kiq*",
};

int cmd_rings(int argc, char **argv)
{
	const char *target = NULL;
	struct uh_look_options o = { .targets = &target, .width = terminal_width(), .progress = show_look };
	struct again again = { .options = &o };
	double interval = 1;
	bool follow = false;
	const struct option_row rows[] = {
		{ 0, "gpu", "GPU", "only this GPU: its PCI address or number", TO_TEXT(&o.gpu) },
		{ 0, "target", "FILE", "a device core of the driver (devcoredump) instead of a GPU",
		  TO_LIST(&target, &o.ntargets, 1) },
		{ 'f', "follow", NULL,
		  "show packets as the driver writes them, and where the GPU is, in one line each, until Ctrl-C; with --json "
		  "one "
		  "document a line",
		  TO_FLAG(&follow) },
		{ 0, "interval", "SECONDS", "with --follow: look so often (1), at least every 0.1",
		  TO_FUNCTION(take_interval, &interval) },
		{ 0, "once", NULL, "look only once; this cannot show whether a ring moves", TO_FUNCTION(take_once, &o.looks) },
		{ 0, "packets", "N", "show N packets before rptr, and N from it on (8)", TO_COUNT(&o.packets, PACKETS_MOST) },
		{ 0, "fences", NULL,
		  "show the fences of each ring (amdgpu_fence_info), too. Caution: reading them makes the driver complete "
		  "fences that are done. That can cure a hang from a lost interrupt and erase its traces. They are read last.",
		  TO_FLAG(&o.fences) },
		{ 'a', "all", NULL, "show each ring with all of its packets", TO_FLAG(&o.all) },
		WATCH_ROW(&again.seconds),
		JSON_ROW(&o.json, "rings"),
	};
	options_parse(&rings_help, ROWS(rows), NO_ROWS, argc, argv);
	again.names = (const char *const *)argv + optind;
	again.n = (size_t)(argc - optind);
	if (again.seconds && o.fences)
		return refuse("--fences changes what it reads, so --watch does not repeat it");
	if (follow && (again.seconds || o.fences || o.all || target))
		return refuse("--follow needs a GPU, and does not go with --watch, --fences or --all");
	if (follow) {
		o.width = screen_possible() ? o.width : 0;
		return done(uh_follow_rings(&o, interval, again.names, again.n, stdout, complain_line, NULL));
	}
	return done(again_make(&again, again_rings));
}

/** Numbers with commas between them; x and - are -1. */
static bool parse_numbers(const char *option, const char *text, int *const *to, size_t least, size_t most)
{
	struct str rest = str_z(text);
	size_t n = 0;
	for (; rest.n && n < most; n++) {
		struct str word = str_split(&rest, ',');
		int64_t v = -1;
		if (!str_is(word, "x") && !str_is(word, "-") && (!str_number(word, &v) || v < 0 || v >= 0x3ff))
			break;
		*to[n] = (int)v;
	}
	if (!rest.n && n >= least)
		return true;
	return reject("%s needs numbers separated by commas, not '%s'; see unhang regs --help", option, text);
}
static bool take_bank(void *to, const char *text)
{
	struct uh_bank *b = to;
	return parse_numbers("--bank", text, (int *const[]){ &b->se, &b->sh, &b->instance }, 3, 3);
}
static bool take_srbm(void *to, const char *text)
{
	struct uh_bank *b = to;
	return parse_numbers("--srbm", text, (int *const[]){ &b->me, &b->pipe, &b->queue, &b->vmid }, 3, 4);
}
static bool take_xcc(void *to, const char *text)
{
	struct uh_bank *b = to;
	return parse_numbers("--xcc", text, (int *const[]){ &b->xcc }, 1, 1);
}

static const struct help_text regs_help = {
	.name = "regs",
	.usage = "unhang regs [NAME...] [OPTION...]\n"
		 "       unhang regs --decode PART NAME=VALUE...\n"
		 "       unhang regs --list PART [NAME...]",
	.about = "Shows registers of a GPU and what their values mean. It only reads, and only when that is safe: while the "
		 "GPU sleeps, is being reset or does not answer, the line of a register says so instead. NAME is a register "
		 "such as GRBM_STATUS, in upper or lower case, also with its block (gc.GRBM_STATUS, sdma0.*), or a pattern "
		 "with * or ?. Of a GPU it may be an address in bytes, such as 0x8010. Without NAME, it shows on one "
		 "screen which units are busy, and which status registers are not as at rest.",
	.status = "exit status: 0 at least one register was read, 2 none",
	.operands = "GRBM_STATUS GRBM_STATUS2 CP_STAT SDMA0_STATUS_REG RLC_STAT",
};

int cmd_regs(int argc, char **argv)
{
	const char *target = NULL, *decode = NULL, *list = NULL;
	struct uh_look_options o = {
		.targets = &target, .bank = { -1, -1, -1, -1, -1, -1, -1, -1 }, .width = terminal_width(), .progress = show_look
	};
	struct again again = { .options = &o };
	const struct option_row rows[] = {
		{ 0, "gpu", "GPU", "the GPU: its PCI address or number; needed if there are several", TO_TEXT(&o.gpu) },
		{ 0, "target", "FILE", "a device core of the driver (devcoredump) instead of a GPU",
		  TO_LIST(&target, &o.ntargets, 1) },
		{ 0, "bank", "SE,SH,INSTANCE", "the copy for this shader engine, shader array and instance; x or - means all",
		  TO_FUNCTION(take_bank, &o.bank) },
		{ 0, "srbm", "ME,PIPE,QUEUE[,VMID]", "the copy for this queue of the command processor",
		  TO_FUNCTION(take_srbm, &o.bank) },
		{ 0, "queue", "PID:ID", "the copy for this queue of a program, such as of CP_HQD_*; unhang queues shows both",
		  TO_TEXT(&o.queue) },
		{ 0, "xcc", "N", "the copy for this XCC (compute die)", TO_FUNCTION(take_xcc, &o.bank) },
		{ 0, "space", "SPACE",
		  "NAME is an address in mmio, on the internal bus (pcie) or an index of the current limiter (didt); read even "
		  "if no "
		  "register is known there",
		  TO_TEXT(&o.space) },
		{ 0, "decode", "PART",
		  "no GPU needed: what VALUE means in a register of PART, a GPU (gfx1100) or a table (mmhub_3_0_0); "
		  "NAME.FIELD=VALUE builds a value",
		  TO_TEXT(&decode) },
		{ 0, "list", "PART", "the registers of PART, with their offsets in bytes; with --all their fields",
		  TO_TEXT(&list) },
		{ 'a', "all", NULL, "show fields that are zero, too", TO_FLAG(&o.all) },
		WATCH_ROW(&again.seconds),
		JSON_ROW(&o.json, "regs"),
	};
	options_parse(&regs_help, ROWS(rows), NO_ROWS, argc, argv);
	const char *const *names = (const char *const *)argv + optind;
	const size_t n = (size_t)(argc - optind);
	if (!n && decode)
		return refuse("which value? unhang regs --decode gfx1100 GRBM_STATUS=0xa0003028");
	if (!!decode + !!list + !!target > 1)
		return refuse("--decode, --list and --target do not go together");
	if (again.seconds && (decode || list))
		return refuse("--watch needs a GPU: not with --decode or --list");
	if (o.space && (decode || list || target))
		return refuse("--space needs a GPU");
	if (o.queue && (decode || list || target || o.bank.me >= 0))
		return refuse("--queue needs a GPU, and does not go with --srbm");
	if (decode)
		return done(uh_decode_regs(&o, decode, names, n, stdout, complain_line, NULL));
	if (list)
		return done(uh_list_regs(&o, list, names, n, stdout, complain_line, NULL));
	again.names = names;
	again.n = n;
	struct uh_error *err = again_make(&again, again_regs);
	return err ? cannot(err) : again.got ? EXIT_NOTHING_WRONG : EXIT_CANNOT;
}
