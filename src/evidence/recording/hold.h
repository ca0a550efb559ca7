// The supervisor's side of a hold: a recorder keeps its process still after a fault, for some seconds, so that a supervisor can look while
// the process exists. Both talk through the head of the recording (docs/RECORDING.md): the supervisor looks every 50 ms or so, or when
// inotify says that the file changed, answers, does what it has to do, and releases. Whatever it does, the job goes on at the deadline.
//
//	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
//	hold_announce(fd, getpid());
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

enum { HOLDS_KEPT = 64 }; // so many a supervisor attends to at a time, as there are ranks on a node

struct held {
	enum rec_hold state;
	uint32_t number;   // of the hold; 0: there was none
	uint32_t answered; // number of the hold that a supervisor answered last
	uint32_t supervisor;
	uint32_t pid;      // as the process itself sees it
	uint64_t began;    // the recording, in nanoseconds since the boot; 0: not known
	enum rec_call why; // CALL_FAULT or CALL_QUEUE_ERROR
	uint32_t left_ms;  // until the process goes on by itself
	char core[256];    // the light GPU core, once it is whole; empty: there is none. A stranger's text
};

/** Announces the process @supervisor in a recording that is open, to be read and written. The file is neither mapped nor believed: who shortens
 * it hurts nobody. false: that is none, or one of another version; or see errno. */
bool hold_announce(int fd, uint32_t supervisor);
/** How it stands; false: there is nothing to read any more. */
bool hold_look(int fd, struct held *ret);
/** Whether the process waits for an answer, or stands still without having got one. */
bool hold_asks(const struct held *h);
/** false: it could not be written. */
bool hold_answer(int fd, const struct held *h);
/** Lets the process go on to its end. */
bool hold_release(int fd, const struct held *h);
