// unhang regs: registers of a GPU, or what their values mean.
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cmd/cmd.h"
#include "unhang/unhang.h"

static void usage(void)
{
	puts("usage: unhang regs NAME... [OPTION...]\n"
	     "       unhang regs --decode PART NAME=VALUE...\n"
	     "       unhang regs --list PART [NAME...]\n"
	     "\n"
	     "Shows registers of a GPU and what their values mean. It only reads, and only\n"
	     "when that is safe: while the GPU sleeps, is being reset or does not answer, the\n"
	     "line of a register says so instead. NAME is a register such as GRBM_STATUS, in\n"
	     "upper or lower case, also with its block (gc.GRBM_STATUS, sdma0.*), or a pattern\n"
	     "with * or ?.\n"
	     "\n"
	     "  --gpu GPU               the GPU: its PCI address or number; needed if there\n"
	     "                          are several\n"
	     "  --target FILE           a device core of the driver (devcoredump) instead of a\n"
	     "                          GPU\n"
	     "  --bank SE,SH,INSTANCE   the copy for this shader engine, shader array and\n"
	     "                          instance; x or - means all\n"
	     "  --srbm ME,PIPE,QUEUE[,VMID]\n"
	     "                          the copy for this queue of the command processor\n"
	     "  --xcc N                 the copy for this XCC (compute die)\n"
	     "  --decode PART           no GPU needed: what VALUE means in a register of PART,\n"
	     "                          a GPU (gfx1100) or a table (mmhub_3_0_0);\n"
	     "                          NAME.FIELD=VALUE builds a value\n"
	     "  --list PART             the registers of PART, with their offsets in bytes;\n"
	     "                          with --all their fields\n"
	     "  -a, --all               show fields that are zero, too\n"
	     "  --json                  for programs: the document of docs/regs.schema.json\n"
	     "  -h, --help              show this text\n"
	     "\n"
	     "exit status: 0 at least one register was read, 2 none");
}

struct regs_command {
	struct uh_look_options o;
	const char *target, *decode, *list;
};

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
	complain("%s needs numbers separated by commas, not '%s'; see unhang regs --help", option, text);
	return false;
}

/** -1: go on; else the exit status. */
static int parse_options(int argc, char **argv, struct regs_command *c)
{
	static const struct option options[] = {
		{ "gpu", required_argument, NULL, 'g' },
		{ "target", required_argument, NULL, 't' },
		{ "bank", required_argument, NULL, 'b' },
		{ "srbm", required_argument, NULL, 's' },
		{ "xcc", required_argument, NULL, 'x' },
		{ "decode", required_argument, NULL, 'd' },
		{ "list", required_argument, NULL, 'l' },
		{ "all", no_argument, NULL, 'a' },
		{ "json", no_argument, NULL, 'J' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct uh_bank *b = &c->o.bank;
	int option;
	bool ok = true;
	opterr = 0;
	while (ok && (option = getopt_long(argc, argv, ":ah", options, NULL)) != -1) {
		switch (option) {
		case 'g':
			c->o.gpu = optarg;
			break;
		case 't':
			ok = add_path(&c->target, &c->o.ntargets, 1, "--target", optarg);
			break;
		case 'b':
			ok = parse_numbers("--bank", optarg, (int *const[]){ &b->se, &b->sh, &b->instance }, 3, 3);
			break;
		case 's':
			ok = parse_numbers("--srbm", optarg, (int *const[]){ &b->me, &b->pipe, &b->queue, &b->vmid }, 3, 4);
			break;
		case 'x':
			ok = parse_numbers("--xcc", optarg, (int *const[]){ &b->xcc }, 1, 1);
			break;
		case 'd':
			c->decode = optarg;
			break;
		case 'l':
			c->list = optarg;
			break;
		case 'a':
			c->o.all = true;
			break;
		case 'J':
			c->o.json = true;
			break;
		case 'h':
			usage();
			return EXIT_NOTHING_WRONG;
		default:
			complain_option(argv, option, "regs");
			return EXIT_CANNOT;
		}
	}
	return ok ? -1 : EXIT_CANNOT;
}

int cmd_regs(int argc, char **argv)
{
	struct regs_command c = {
		.o = { .bank = { -1, -1, -1, -1, -1, -1, -1, -1 }, .width = terminal_width(), .progress = show_look }
	};
	int status = parse_options(argc, argv, &c);
	if (status >= 0)
		return status;
	const char *const *names = (const char *const *)argv + optind;
	size_t n = (size_t)(argc - optind);
	unsigned got = 0;
	c.o.targets = &c.target;
	if (!n && !c.list) {
		complain("which %s", c.decode ? "value? unhang regs --decode gfx1100 GRBM_STATUS=0xa0003028" :
						"register? unhang regs GRBM_STATUS");
		return EXIT_CANNOT;
	}
	if (!!c.decode + !!c.list + !!c.target > 1) {
		complain("--decode, --list and --target do not go together");
		return EXIT_CANNOT;
	}
	if (c.decode || c.list) {
		struct uh_error *err = c.decode ? uh_decode_regs(&c.o, c.decode, names, n, stdout, complain_line, NULL) :
						  uh_list_regs(&c.o, c.list, names, n, stdout, complain_line, NULL);
		return err ? cannot(err) : EXIT_NOTHING_WRONG;
	}
	struct uh_error *err = uh_look_regs(&c.o, names, n, stdout, complain_line, NULL, &got);
	return err ? cannot(err) : got ? EXIT_NOTHING_WRONG : EXIT_CANNOT;
}
