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

unsigned terminal_width(void)
{
	struct winsize size;
	const char *columns = getenv("COLUMNS");
	int64_t n;
	if (isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col)
		return size.ws_col;
	return columns && str_number(str_z(columns), &n) && n > 0 && n < 10000 ? (unsigned)n : 0;
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
