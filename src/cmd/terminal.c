#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/str.h"
#include "cmd/cmd.h"
#include "unhang/unhang.h"

bool terminal_colour(void)
{
	const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
	return isatty(STDOUT_FILENO) && !(no_colour && *no_colour) && term && strcmp(term, "dumb");
}

unsigned stream_width(int fd)
{
	struct winsize size;
	const char *columns = getenv("COLUMNS");
	int64_t n;
	if (isatty(fd) && !ioctl(fd, TIOCGWINSZ, &size) && size.ws_col)
		return size.ws_col;
	return columns && str_number(str_z(columns), &n) && n > 0 && n < 10000 ? (unsigned)n : 0;
}

unsigned terminal_width(void) { return stream_width(STDOUT_FILENO); }

/** By the names of the locale, as setlocale() takes them. */
static bool locale_is_unicode(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
	for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
		const char *value = getenv(names[n]);
		if (value && *value)
			return str_like(S("*utf-8*"), str_z(value)) || str_like(S("*utf8*"), str_z(value));
	}
	return false;
}

void terminal_describe(struct uh_report_options *o)
{
	struct winsize size;
	const char *term = getenv("TERM");
	o->colour = terminal_colour();
	o->width = terminal_width();
	if (!isatty(STDOUT_FILENO) || !term || !strcmp(term, "dumb") || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		return;
	o->height = size.ws_row;
	o->drawing = locale_is_unicode() ? UH_DRAW_UNICODE : UH_DRAW_ASCII;
}

void complain_option(char **argv, int c, const char *command)
{
	const char *space = command ? " " : "";
	command = command ? command : "";
	if (c == '?' && optopt && strncmp(argv[optind - 1], "--", 2))
		complain("there is no option '-%c'; unhang%s%s --help lists the options", optopt, space, command);
	else
		complain("%s '%s'; unhang%s%s --help lists the options",
			 c == ':' ? "a value is missing after" : "there is no option", argv[optind - 1], space, command);
}

int cannot(struct uh_error *err)
{
	complain("%s", uh_error_message(err));
	uh_error_free(err);
	return EXIT_CANNOT;
}

bool add_path(const char **list, size_t *n, size_t most, const char *option, const char *path)
{
	if (*n == most) {
		complain("more than %zu times %s", most, option);
		return false;
	}
	list[(*n)++] = path;
	return true;
}

bool parse_count(const char *option, const char *text, unsigned most, unsigned *ret)
{
	int64_t n;
	if (!str_number(str_z(text), &n) || n < 1 || n > most) {
		complain("%s needs a number from 1 to %u, not '%s'", option, most, text);
		return false;
	}
	*ret = (unsigned)n;
	return true;
}

void show_look(void *ctx, const char *name, unsigned long long done, unsigned long long total)
{
	(void)ctx;
	if (!isatty(STDERR_FILENO))
		return;
	fputs("\r\033[K", stderr);
	if (done < total)
		fprintf(stderr, "looking at %s, %llu of %llu ", name, done + 1, total);
}
