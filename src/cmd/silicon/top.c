// unhang top: the screen, its keys and its clock. The terminal is given back on every way out.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/print.h"
#include "cmd/cmd.h"

enum { SECONDS = 2, SECONDS_MOST = 3600, MS = 1000 };

// A handler has no other way to what it gives back.
static struct {
	volatile sig_atomic_t taken; // the terminal is changed now
	pid_t owner;                 // children get the same signals, and leave the terminal alone
	struct termios before;
	bool keys; // standard input is a terminal, too
} screen;

#define SCREEN_BEGIN "\033[?1049h\033[?25l\033[?7l"
#define SCREEN_END "\033[?7h\033[?25h\033[0m\033[?1049l"

static void screen_take(void)
{
	struct termios raw = screen.before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	screen.taken = 1;
	if (screen.keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	(void)!write(STDOUT_FILENO, SCREEN_BEGIN, sizeof(SCREEN_BEGIN) - 1);
}

/** May be called from a handler. */
static void screen_give(void)
{
	if (!screen.taken || getpid() != screen.owner)
		return;
	screen.taken = 0;
	(void)!write(STDOUT_FILENO, SCREEN_END, sizeof(SCREEN_END) - 1);
	if (screen.keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
}

static void on_end(int number)
{
	screen_give();
	signal(number, SIG_DFL);
	raise(number);
}

static void on_stop(int number)
{
	const int kept = errno;
	const bool taken = screen.taken;
	(void)number;
	screen_give();
	raise(SIGSTOP);
	if (taken && getpid() == screen.owner)
		screen_take();
	errno = kept;
}

static void on_size(int number) { (void)number; } // it wakes up who waits for a key

static void screen_begin(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGPIPE };
	screen.owner = getpid();
	screen.keys = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &screen.before);
	atexit(screen_give);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		sigaction(ends[i], &(struct sigaction){ .sa_handler = on_end }, NULL);
	sigaction(SIGTSTP, &(struct sigaction){ .sa_handler = on_stop }, NULL);
	sigaction(SIGWINCH, &(struct sigaction){ .sa_handler = on_size }, NULL);
	screen_take();
}

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

/** What a key does. false: it ends. */
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
	return key != 'q' && key != 'Q' && key != 4; // Ctrl-D
}

/** Until the next round. false: somebody asked to end. */
static bool wait_for_round(unsigned *seconds)
{
	struct pollfd input = { .fd = screen.keys ? STDIN_FILENO : -1, .events = POLLIN };
	char key;
	// A signal, such as that of another size, begins the next round at once.
	if (poll(&input, 1, (int)(*seconds * MS)) <= 0 || !input.revents)
		return true;
	return read(STDIN_FILENO, &key, 1) == 1 ? take_screen_key(key, seconds) : false;
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
	.status = "exit status: 0 it was ended, 2 the GPUs could not be read",
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
	const char *term = getenv("TERM");
	const bool full = !once && !style.json && isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
	struct uh_error *err = NULL;
	struct uh_top *t = uh_top_new(gpu, state_dir, complain_line, NULL);
	style.colour = terminal_colour();
	if (full)
		screen_begin();
	while (!err && arrived && goes_on) {
		struct winsize size;
		if (full && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row && size.ws_col) {
			style.width = size.ws_col;
			style.height = size.ws_row;
		}
		err = write_round(t, &style, &arrived);
		goes_on = !once && !err && arrived && wait_for_round(&style.seconds);
	}
	uh_top_free(t);
	screen_give();
	return done(err);
}
