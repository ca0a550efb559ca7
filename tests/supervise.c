// A supervisor of one recording: waits for a hold, answers it and lets the process go. Says what it saw.
//	supervise RECORDING release|early SECONDS
// early: answers before there is a hold, so that no time is lost, and never lets go.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "evidence/recording/hold.h"

static void moment(void) { nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL); }

int main(int argc, char **argv)
{
	struct held h = { 0 };
	int fd = -1;
	if (argc < 4)
		return 2;
	long rounds = strtol(argv[3], NULL, 10) * 200;
	// The recording is there some time after its process.
	for (; rounds > 0; rounds--) {
		fd = open(argv[1], O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd >= 0 && hold_announce(fd, (uint32_t)getpid()))
			break;
		if (fd >= 0)
			close(fd);
		moment();
	}
	const bool early = !strcmp(argv[2], "early");
	if (early && !hold_answer(fd, &(struct held){ .number = 1 }))
		return 1;
	puts("attends");
	fflush(stdout);
	if (early)
		return 0;
	for (; rounds > 0 && (!hold_look(fd, &h) || !hold_asks(&h)); rounds--)
		moment();
	if (rounds <= 0 || !hold_answer(fd, &h))
		return 1;
	while (hold_look(fd, &h) && (h.state == REC_HOLD_ASKED || h.state == REC_HOLD_WRITING))
		moment();
	printf("pid %u state %d why %d number %u left %d core %s\n", h.pid, h.state, h.why, h.number,
	       h.left_ms > 0 && h.left_ms <= 5000, h.core);
	hold_release(fd, &h);
	close(fd);
	return 0;
}
