// Locks that nobody else can hold. Who can open a file or a directory can lock it, so a lock is on a file of its own, .lock, that only its
// owner may open, in a directory that only its owner writes to.
#pragma once

enum lock_end {
	LOCK_TAKEN,
	LOCK_HELD, // by another process
	LOCK_NONE, // it could not be made; see errno
};
struct lock {
	int dir; // that it is in; not this one's to close
	int fd;
};
#define LOCK_FREE                                                                                                              \
	{                                                                                                                      \
		-1, -1                                                                                                         \
	}
#define LOCK_NAME ".lock"

/** Takes the lock of a directory, and does not wait for it. It ends with the process. */
enum lock_end lock_take(int dir, struct lock *ret);
/** Gives it back, and leaves no file behind. */
void lock_release(struct lock *l);
/** Opens a file to lock it. What is there and others may open is replaced. -1: see errno. */
int lock_open(int dir, const char *name);
