// The job runs in our process group, so Ctrl-C, Ctrl-Z, fg and a resize reach it from the kernel as they would without us. What is left to do:
// to stop when the job alone stops, and to put the terminal right when the job was killed with it in another mode.
#include <fcntl.h>
#include <unistd.h>

#include "job/parts.h"

void terminal_save(struct terminal *t)
{
	*t = (struct terminal){ .fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY) };
	if (t->fd < 0)
		return;
	t->foreground = tcgetpgrp(t->fd);
	if (tcgetattr(t->fd, &t->modes)) {
		close(t->fd);
		t->fd = -1;
	}
}

void terminal_restore(const struct terminal *t)
{
	sigset_t output, before;
	// In the background the terminal is somebody else's.
	if (t->fd < 0 || t->foreground != getpgrp())
		return;
	sigemptyset(&output);
	sigaddset(&output, SIGTTOU);
	sigprocmask(SIG_BLOCK, &output, &before);
	if (tcgetpgrp(t->fd) != t->foreground)
		tcsetpgrp(t->fd, t->foreground);
	tcsetattr(t->fd, TCSADRAIN, &t->modes);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

bool terminal_job_control(const struct terminal *t)
{
	const pid_t parent = getppid();
	return t->fd >= 0 && getsid(parent) == getsid(0) && getpgid(parent) != getpgrp();
}
