#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "cmd/cmd.h"
#include "unhang/unhang.h"

enum { PLACES_MAX = 64, MANY = 100, CONTEXT = 4, CONTEXT_MAX = 1000, INPUT = 64 << 10 };

static void usage(void)
{
	puts("usage: unhang where --code PATH [OPTION...] [ADDRESS...]\n"
	     "\n"
	     "Shows what is at an address of GPU code: the kernel, the instruction with its\n"
	     "neighbours and what it does, the source line, and the functions that were\n"
	     "inlined there. It needs neither ROCm nor a GPU. Without ADDRESS, it lists the\n"
	     "kernels in PATH, with the registers and memory that they need.\n"
	     "\n"
	     "ADDRESS is 0x1a34 or KERNEL+0x34; - reads addresses from standard input. PATH is\n"
	     "a code object, a program or library with GPU code in it (also compressed), a\n"
	     "directory of them, or a URI of the runtime (file://..., memory://PID...).\n"
	     "\n"
	     "  --code PATH         where the code is; may be given several times\n"
	     "  --loaded-at ADDRESS the process had loaded the code object at this address\n"
	     "  --gfx GFX           only code for this GPU (gfx90a), if PATH has code for\n"
	     "                      several\n"
	     "  --source DIR        also show lines of source files below DIR, not only of\n"
	     "                      those beside the code\n"
	     "  --context N         show N instructions before and after each address (4). For\n"
	     "                      more than 100 addresses: one line each, and with --json\n"
	     "                      only the instruction itself\n"
	     "  --json              for programs: the document of docs/where.schema.json or\n"
	     "                      code.schema.json\n"
	     "  -h, --help          show this text\n"
	     "\n"
	     "exit status: 0 each address was found, 1 some were not, 2 there is no code to\n"
	     "look into");
}

struct addresses {
	VEC(const char *) list;
	struct arena arena;
};

/** Words of standard input. */
static void read_addresses(struct addresses *a)
{
	struct text all = { 0 };
	size_t n;
	do {
		n = fread(text_room(&all, INPUT), 1, INPUT, stdin);
		all.n += n;
	} while (n == INPUT);
	char *p = arena_z(&a->arena, text_str(&all)), *end = p + all.n;
	text_free(&all);
	for (; p < end; *p++ = 0) {
		if (char_space(*p))
			continue;
		vec_push(&a->list, p);
		while (p < end && !char_space(*p))
			p++;
	}
}

static bool parse_context(const char *text, int *ret)
{
	int64_t n;
	if (!str_number(str_z(text), &n) || n < 0 || n > CONTEXT_MAX) {
		complain("--context needs a number up to %d, not '%s'", CONTEXT_MAX, text);
		return false;
	}
	*ret = (int)n;
	return true;
}

/** -1: go on; else the exit status. */
static int parse_options(int argc, char **argv, struct uh_look_options *o, const char **code, const char **sources)
{
	static const struct option options[] = {
		{ "code", required_argument, NULL, 'c' },    { "loaded-at", required_argument, NULL, 'l' },
		{ "gfx", required_argument, NULL, 'g' },     { "source", required_argument, NULL, 's' },
		{ "context", required_argument, NULL, 'n' }, { "json", no_argument, NULL, 'J' },
		{ "help", no_argument, NULL, 'h' },          { 0 },
	};
	int c;
	bool ok = true;
	opterr = 0;
	while (ok && (c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			ok = add_path(code, &o->ncode, PLACES_MAX, "--code", optarg);
			break;
		case 'l':
			o->loaded_at = optarg;
			break;
		case 'g':
			o->gfx = optarg;
			break;
		case 's':
			ok = add_path(sources, &o->nsources, PLACES_MAX, "--source", optarg);
			break;
		case 'n':
			ok = parse_context(optarg, &o->context);
			break;
		case 'J':
			o->json = true;
			break;
		case 'h':
			usage();
			return EXIT_NOTHING_WRONG;
		default:
			complain_option(argv, c, "where");
			return EXIT_CANNOT;
		}
	}
	return ok ? -1 : EXIT_CANNOT;
}

static int look_up(struct uh_look_options *o, const struct addresses *a)
{
	unsigned missed = 0;
	if (o->context < 0)
		o->context = a->list.len <= MANY ? CONTEXT : o->json ? 0 : -1;
	struct uh_error *err = a->list.len ? uh_look_where(o, a->list.data, a->list.len, stdout, complain_line, NULL, &missed) :
					     uh_look_code(o, stdout, complain_line, NULL);
	return err ? cannot(err) : missed ? EXIT_INCIDENT : EXIT_NOTHING_WRONG;
}

int cmd_where(int argc, char **argv)
{
	const char *code[PLACES_MAX], *sources[PLACES_MAX];
	struct uh_look_options o = { .code = code, .sources = sources, .context = -1 };
	int status = parse_options(argc, argv, &o, code, sources);
	if (status >= 0)
		return status;
	struct addresses a = { 0 };
	bool list = optind == argc;
	for (; optind < argc; optind++) {
		if (!strcmp(argv[optind], "-"))
			read_addresses(&a);
		else
			vec_push(&a.list, argv[optind]);
	}
	o.colour = terminal_colour();
	if (!o.ncode || (!list && !a.list.len)) {
		complain(o.ncode ? "standard input has no address" : "which code? unhang where --code PATH ADDRESS...");
		status = EXIT_CANNOT;
	} else {
		status = look_up(&o, &a);
	}
	vec_free(&a.list);
	arena_free(&a.arena);
	return status;
}
