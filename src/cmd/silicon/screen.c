#include "cmd/silicon/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/arena.h"

enum { MS = 1000, CTRL_D = 4 };

// A handler has no other way to what it gives back.
static struct {
	volatile sig_atomic_t taken; // the terminal is changed now
	pid_t owner;                 // children get the same signals, and leave the terminal alone
	struct termios before;
	bool keys; // standard input is a terminal, too
} screen;

#define SCREEN_BEGIN "\033[?1049h\033[?25l\033[?7l"
#define SCREEN_END "\033[?7h\033[?25h\033[0m\033[?1049l"

void screen_take(void)
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

// Both may be called from a handler.
void screen_give(void)
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

void screen_begin(void)
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

bool screen_possible(void)
{
	const char *term = getenv("TERM");
	return isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
}

bool screen_size(unsigned *ret_columns, unsigned *ret_lines)
{
	struct winsize size;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col)
		return false;
	*ret_columns = size.ws_col;
	*ret_lines = size.ws_row;
	return true;
}

bool screen_wait(unsigned *seconds, bool (*take)(char key, unsigned *seconds))
{
	struct pollfd input = { .fd = screen.keys ? STDIN_FILENO : -1, .events = POLLIN };
	char key;
	// A signal, such as that of another size, begins the next page at once.
	if (poll(&input, 1, (int)(*seconds * MS)) <= 0 || !input.revents)
		return true;
	if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q' || key == CTRL_D)
		return false;
	return take ? take(key, seconds) : true;
}
