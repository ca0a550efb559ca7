// The supervisor's side of a hold: a recorder keeps its process still after a fault, for some seconds, so that a supervisor can look while
// the process exists. Both talk through the head of the recording (docs/RECORDING.md): the supervisor looks every 50 ms or so, or when
// inotify says that the file changed, answers, does what it has to do, and releases. Whatever it does, the job goes on at the deadline.
//
//	hold_attend(path, getpid(), &fd);
//	while (...)
//		if (hold_look(fd, &h) && hold_asks(&h) && hold_answer(fd, &h)) {
//			while (hold_look(fd, &h) && h.state == REC_HOLD_WRITING) wait a moment: h.core is not whole yet
//			look at process h.pid for at most h.left_ms
//			hold_release(fd, &h);
//		}
//	close(fd);
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "recorder/format.h"

struct held {
	enum rec_hold state;
	uint32_t number;   // of the hold; 0: there was none
	uint32_t answered; // number of the hold that a supervisor answered last
	uint32_t supervisor;
	uint32_t pid;      // as the process itself sees it
	enum rec_call why; // CALL_FAULT or CALL_QUEUE_ERROR
	uint32_t left_ms;  // until the process goes on by itself
	char core[256];    // the light GPU core, once it is whole; empty: there is none. A stranger's text
};

/** Opens a recording and announces the process @supervisor in it; *ret_fd is to be closed. The file is neither mapped nor believed: who
 * shortens it hurts nobody. */
struct uh_error *hold_attend(const char *path, uint32_t supervisor, int *ret_fd);
/** Announces it in a recording that is open, to be read and written. false: that is none, or one of another version; or see errno. */
bool hold_announce(int fd, uint32_t supervisor);
/** How it stands; false: there is nothing to read any more. */
bool hold_look(int fd, struct held *ret);
/** Whether the process waits for an answer, or stands still without having got one. */
bool hold_asks(const struct held *h);
/** false: it could not be written. */
bool hold_answer(int fd, const struct held *h);
/** Lets the process go on to its end. */
bool hold_release(int fd, const struct held *h);
