// What jobs do beside computing, for those who look after them: each is a mode that comes behind launches.
#pragma once

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <vector>

static void say(const char *word, int number = -1)
{
	char room[64];
	int n = number < 0 ? snprintf(room, sizeof(room), "%s\n", word) : snprintf(room, sizeof(room), "%s%d\n", word, number);
	if (write(1, room, (size_t)n) != n)
		_exit(3);
}

/** Takes so many MiB of the host's memory, and uses all of it; in so many processes more each. */
static void eat(int megabytes, int others)
{
	while (others-- > 0 && fork())
		;
	std::vector<char *> all;
	for (int i = 0; i < megabytes; i++) {
		all.push_back((char *)malloc(1 << 20));
		memset(all.back(), i | 1, 1 << 20);
	}
	printf("ate %d %d\n", megabytes, all[all.size() / 2][5] != 0);
}

/** Leaves two processes behind: a daemon that ignores TERM, and a child whose parent does not wait for it. */
static void daemons()
{
	const pid_t between = fork();
	if (!between) {
		setsid();
		if (fork())
			_exit(0);
		signal(SIGTERM, SIG_IGN);
		for (;;)
			pause();
	}
	waitpid(between, NULL, 0); // then there is the daemon, and its parent no more
	if (!fork())
		for (;;)
			pause();
	say("daemons");
}

static void deaf()
{
	signal(SIGTERM, SIG_IGN);
	say("deaf");
	for (;;)
		pause();
}

/** Writes 10 MB in each second to standard output. */
static void talk(int seconds)
{
	std::vector<char> block(1 << 20, 'x');
	for (int i = 0; i < seconds * 10; i++) {
		for (size_t done = 0; done < block.size();) {
			ssize_t n = write(1, block.data() + done, block.size() - done);
			if (n < 0)
				_exit(3);
			done += (size_t)n;
		}
		usleep(100000);
	}
}

static void on_signal(int n)
{
	winsize size;
	if (n == SIGWINCH && !ioctl(0, TIOCGWINSZ, &size))
		say("size!", size.ws_col);
	else
		say(n == SIGINT ? "interrupt!" : "continued!");
}

/** Reads words from the terminal; work goes on for each of them. */
template <typename WORK> static void terminal(WORK work)
{
	struct sigaction action = {};
	action.sa_handler = on_signal;
	for (int n : { SIGINT, SIGCONT, SIGWINCH })
		sigaction(n, &action, nullptr);
	say("ready!");
	for (char line[64];;) {
		ssize_t n = read(0, line, sizeof(line) - 1);
		if (n < 0 && (errno == EINTR || errno == EIO))
			continue;
		if (n <= 0)
			return;
		line[strcspn(line, "\n") < (size_t)n ? strcspn(line, "\n") : (size_t)n] = 0;
		if (!strcmp(line, "stop"))
			raise(SIGSTOP);
		else if (!strcmp(line, "end"))
			exit(6);
		else if (!strcmp(line, "raw")) {
			termios modes;
			tcgetattr(0, &modes);
			cfmakeraw(&modes);
			tcsetattr(0, TCSANOW, &modes);
			raise(SIGKILL);
		}
		work();
		char said[80];
		snprintf(said, sizeof(said), "read!%s", line);
		say(said);
	}
}
