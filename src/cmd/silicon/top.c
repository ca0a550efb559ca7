// unhang top: the screen, its keys and its clock.
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/print.h"
#include "cmd/cmd.h"
#include "cmd/silicon/screen.h"

enum { SECONDS = 2, SECONDS_MOST = 3600 };

/** Another look, by this very program, below the terminal's own prompt. */
static void show_other(const char *command)
{
	char key;
	screen_give();
	fprintf(stdout, "\n$ unhang %s\n", command);
	fflush(stdout);
	const pid_t pid = fork();
	if (!pid) {
		execl("/proc/self/exe", "unhang", command, (char *)NULL);
		_exit(EXIT_CANNOT);
	}
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	fputs("\n[Enter] back to unhang top ", stdout);
	fflush(stdout);
	while (read(STDIN_FILENO, &key, 1) == 1 && key != '\n')
		;
	screen_take();
}

/** As screen_wait() wants it. */
static bool take_screen_key(char key, unsigned *seconds)
{
	static const struct {
		char key;
		const char *command;
	} others[] = { { 'l', "live" }, { 'w', "waves" }, { 'u', "queues" }, { 'r', "rings" }, { 'i', "incidents" } };
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (key == others[i].key)
			show_other(others[i].command);
	if (key == '+' && *seconds < SECONDS_MOST)
		++*seconds;
	if (key == '-' && *seconds > 1)
		--*seconds;
	return true;
}

/** A round is written at once: a terminal that is slow shows no half of one. */
static struct uh_error *write_round(struct uh_top *t, const struct uh_top_style *style, bool *ret_arrived)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	FILE *memory = open_memstream(&text, &n);
	struct uh_error *err = uh_top_write(t, style, memory);
	fclose(memory);
	fwrite(text, 1, n, stdout);
	*ret_arrived = print_arrived(stdout);
	return err;
}

static const struct help_text top_help = {
	.name = "top",
	.usage = "unhang top [OPTION...]",
	.about = "Shows what all GPUs do now, again and again: load, clock, power, temperature and their limits, what slows "
		 "them down, memory, the queues of programs with their progress, and the newest incident that was stored. Many "
		 "GPUs get a line each, and so do all where the output is no terminal. It only reads, and nothing of a GPU "
		 "that sleeps. Root sees the queues of all programs.",
	.status = "exit status: 0 stopped by the user, 2 the GPUs could not be read",
	.between = "Keys: q ends it; l, w, u, r and i show unhang live, waves, queues, rings and incidents; + and - change the "
		   "pace; space looks now.",
};

int cmd_top(int argc, char **argv)
{
	const char *gpu = NULL, *state_dir = NULL;
	struct uh_top_style style = { .seconds = SECONDS };
	bool once = false, arrived = true, goes_on = true;
	const struct option_row rows[] = {
		{ 0, "gpu", "GPU", "only this GPU: its PCI address or number", TO_TEXT(&gpu) },
		{ 0, "every", "SECONDS", "how often (2)", TO_COUNT(&style.seconds, SECONDS_MOST) },
		{ 0, "once", NULL, "look once, write a line for each GPU, and end", TO_FLAG(&once) },
		{ 0, "state-dir", "DIR", "where incidents are stored (/var/lib/unhang)", TO_TEXT(&state_dir) },
		{ 0, "json", NULL, "for programs: a line for each look, the document of docs/top.schema.json",
		  TO_FLAG(&style.json) },
	};
	options_parse(&top_help, ROWS(rows), NO_ROWS, argc, argv);
	if (!operands_end(argc, argv, 0, "unhang top takes no arguments"))
		return EXIT_CANNOT;
	const bool full = !once && !style.json && screen_possible();
	struct uh_error *err = NULL;
	struct uh_top *t = uh_top_new(gpu, state_dir, complain_line, NULL);
	style.colour = terminal_colour();
	if (full)
		screen_begin();
	while (!err && arrived && goes_on) {
		if (full)
			screen_size(&style.width, &style.height);
		err = write_round(t, &style, &arrived);
		goes_on = !once && !err && arrived && screen_wait(&style.seconds, take_screen_key);
	}
	uh_top_free(t);
	screen_give();
	return done(err);
}
