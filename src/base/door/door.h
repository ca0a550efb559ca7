// The door: every file that a user or evidence names comes through it. A child opens and reads these files. On a mount whose server is
// gone each of these operations may wait for ever, and a process that waits there cannot be killed. A file that is slow is read to its
// end. After ten seconds without a byte (UNHANG_PATIENCE changes that) the path is given up and the child left behind; a new child
// answers the next question.
#pragma once

#include <sys/types.h>

#include "base/arena.h"
#include "base/door/named.h"

enum {
	DOOR_WINDOWS = 10, // of a file that several threads read
	DOOR_WINDOW = 272 << 10,
};

struct door_file;

/** What the name leads to, with links followed. Nothing is opened for reading. */
struct uh_error *door_look(const struct named *n, struct opened *ret);
/** Opens it; door_close() closes it. door_what() says what it is: only files and FIFOs can be read. */
struct uh_error *door_open(const struct named *n, struct door_file **ret);
/** NULL is fine. */
void door_close(struct door_file *f);
/** For a second owner, who calls door_close() too. */
struct door_file *door_share(struct door_file *f);
const struct opened *door_what(const struct door_file *f);
/** Up to @size bytes at @offset; fewer at the end of the file. Where reading fails, *ret_err is set and the bytes before the failure are
 * returned; -1: there were none. */
ssize_t door_read(struct door_file *f, uint64_t offset, void *to, size_t size, struct uh_error **ret_err);
/** The next bytes of a FIFO or of a file without a size; for a directory, its next entries as getdents64() gives them. */
ssize_t door_next(struct door_file *f, void *to, size_t size, struct uh_error **ret_err);
/** The names in a directory, sorted, in @a. Those that begin with a dot only where @hidden. */
struct door_names {
	char **list;
	size_t n;
};
struct uh_error *door_names(const struct named *n, bool hidden, struct arena *a, struct door_names *ret);

/** For a file that several threads read at once, into windows that are not copied. Returns how many of the @wanted threads may read.
 * They own all windows until door_scan_end(). */
unsigned door_scan_begin(unsigned wanted);
void door_scan_end(void);
/** What of the file goes into which window, and which thread asks. */
struct door_wanted {
	unsigned thread, window;
	uint64_t offset;
	size_t size;
};
/** Fills a window. 0 at the end, -1 and *ret_err where it could not be read. */
ssize_t door_window(struct door_file *f, const struct door_wanted *w, const char **ret_bytes, struct uh_error **ret_err);

/** The whole of a regular file of at most @most bytes, with a NUL behind it. @ret_st may be NULL. */
struct uh_error *root_read(const char *root, const char *path, size_t most, struct arena *a, struct str *ret,
			   struct stat *ret_st);
/** The same for a file that nobody else can have written (base/door/trust.h); any other is an error. */
struct uh_error *believed_read(const char *root, const char *path, size_t most, struct arena *a, struct str *ret);
struct uh_error *named_read(const struct named *n, size_t most, struct arena *a, struct str *ret, struct stat *ret_st);

/** How long a path may be silent before it is given up. */
int door_patience_ms(void);
/** For callers who can do without a path that did not answer: keeps the message of @err for door_tell() and frees @err. */
void door_forget(struct uh_error *err);
/** Ends the child, which closes what it had open. A program that writes to a FIFO would otherwise take the child for a reader. */
void door_end(void);
/** For a process that is about to put its rights down: begins a child that puts down its own too, but may still open code (programs,
 * libraries, GPU code) that not everybody may read. Nothing else that only root could open goes through it. */
void door_begin_for_code(void);
/** In a child of unhang: leaves the door to the parent. What is opened from now on goes through one of its own. */
void door_leave(void);
/** In a child of unhang that has a deadline of its own: it reads with its own hands. */
void door_here(void);
/** The error of a path that was silent for so long. */
struct uh_error *door_no_answer(const char *name, int ms);
/** Tells each message that door_forget() kept. */
void door_tell(void (*tell)(void *ctx, const char *message), void *ctx);
