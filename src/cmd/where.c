// unhang where: what is at an address of GPU code.
#include <getopt.h>
#include <string.h>

#include "base/arena.h"
#include "cmd/cmd.h"

enum { PLACES_MOST = 64, MANY = 100, CONTEXT = 4, CONTEXT_MOST = 1000, INPUT = 64 << 10 };

struct addresses {
	VEC(const char *) list;
	struct arena arena;
};
static void addresses_free(struct addresses *a)
{
	vec_free(&a->list);
	arena_free(&a->arena);
}

/** Words of standard input. */
static void read_addresses(struct addresses *a)
{
	_cleanup_text_ struct text all = { 0 };
	size_t n;
	do {
		n = fread(text_room(&all, INPUT), 1, INPUT, stdin);
		all.n += n;
	} while (n == INPUT);
	char *p = arena_z(&a->arena, text_str(&all)), *end = p + all.n;
	for (; p < end; *p++ = 0) {
		if (char_space(*p))
			continue;
		vec_push(&a->list, p);
		while (p < end && !char_space(*p))
			p++;
	}
}

/** As option_row.take: it may be 0. */
static bool take_where_context(void *to, const char *text)
{
	int64_t n;
	if (!str_number(str_z(text), &n) || n < 0 || n > CONTEXT_MOST)
		return reject("--context needs a number up to %d, not '%s'", CONTEXT_MOST, text);
	*(int *)to = (int)n;
	return true;
}

static const struct help_text where_help = {
	.name = "where",
	.usage = "unhang where --code PATH [OPTION...] [ADDRESS...]",
	.about = "Shows what is at an address of GPU code: the kernel, the instruction with its neighbours and what it "
		 "does, the source line, and the functions that were inlined there. It needs neither ROCm nor a GPU. "
		 "Without ADDRESS, it lists the kernels in PATH, with the registers and memory that they need.\n"
		 "\n"
		 "ADDRESS is 0x1a34 or KERNEL+0x34; - reads addresses from standard input. PATH is a code object, a program "
		 "or library with GPU code in it (also compressed), a directory of them, or a URI of the runtime "
		 "(file://..., memory://PID...).",
	.status = "exit status: 0 each address was found, 1 some were not, 2 there is no code to look into",
	.operands = "FILE",
};

int cmd_where(int argc, char **argv)
{
	const char *code[PLACES_MOST], *sources[PLACES_MOST];
	struct uh_look_options o = { .code = code, .sources = sources, .context = -1, .colour = terminal_colour() };
	const struct option_row rows[] = {
		{ 0, "code", "PATH", "where the code is; may be given several times", TO_LIST(code, &o.ncode, PLACES_MOST) },
		{ 0, "loaded-at", "ADDRESS", "the process had loaded the code object at this address", TO_TEXT(&o.loaded_at) },
		{ 0, "gfx", "GFX", "only code for this GPU (gfx90a), if PATH has code for several", TO_TEXT(&o.gfx) },
		{ 0, "source", "DIR", "also show lines of source files below DIR, not only of those beside the code",
		  TO_LIST(sources, &o.nsources, PLACES_MOST) },
		{ 0, "context", "N",
		  "show N instructions before and after each address (4). For more than 100 addresses: one line each, and "
		  "with --json only the instruction itself",
		  TO_FUNCTION(take_where_context, &o.context) },
		{ 0, "json", NULL, "for programs: the document of docs/where.schema.json or code.schema.json",
		  TO_FLAG(&o.json) },
	};
	options_parse(&where_help, ROWS(rows), NO_ROWS, argc, argv);
	_cleanup_(addresses_free) struct addresses a = { 0 };
	const bool list = optind == argc;
	for (; optind < argc; optind++) {
		if (!strcmp(argv[optind], "-"))
			read_addresses(&a);
		else
			vec_push(&a.list, argv[optind]);
	}
	if (!o.ncode || (!list && !a.list.len))
		return refuse(o.ncode ? "standard input has no address" : "which code? unhang where --code PATH ADDRESS...");
	unsigned missed = 0;
	if (o.context < 0)
		o.context = a.list.len <= MANY ? CONTEXT : o.json ? 0 : -1;
	struct uh_error *err = list ? uh_look_code(&o, stdout, complain_line, NULL) :
				      uh_look_where(&o, a.list.data, a.list.len, stdout, complain_line, NULL, &missed);
	return err ? cannot(err) : missed ? EXIT_INCIDENT : EXIT_NOTHING_WRONG;
}
