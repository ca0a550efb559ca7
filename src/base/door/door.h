// The door that everything comes through which a user or evidence names. A child opens and reads it: on a mount that does not answer any
// more, each of these operations may wait for ever, and who waits for a server cannot be killed. As long as something comes, however
// slowly, it goes on; after ten seconds without anything (UNHANG_PATIENCE says otherwise) the path is given up, the child is left
// behind, and the next question is answered by another.
#pragma once

#include <sys/types.h>

#include "base/arena.h"
#include "base/door/named.h"

enum {
	DOOR_WINDOWS = 10, // that a file is read into at the same time
	DOOR_WINDOW = 272 << 10,
};

struct door_file;

/** What is there, as its links lead to. */
struct uh_error *door_look(const struct named *n, struct opened *ret);
/** Opens it. A directory, a device, or a file of the driver: door_what() tells; only files and FIFOs are read. */
struct uh_error *door_open(const struct named *n, struct door_file **ret);
/** NULL is fine. */
void door_close(struct door_file *f);
/** For a second owner. */
struct door_file *door_share(struct door_file *f);
const struct opened *door_what(const struct door_file *f);
/** Up to @size bytes at @offset; fewer at the end of the file, and, with *ret_err, before what could not be read. -1: nothing could be. */
ssize_t door_read(struct door_file *f, uint64_t offset, void *to, size_t size, struct uh_error **ret_err);
/** The next bytes of a FIFO, or of a file that has no size; of a directory, its next entries as getdents64() has them. */
ssize_t door_next(struct door_file *f, void *to, size_t size, struct uh_error **ret_err);
/** The names in a directory, in order, without those that begin with a dot where @hidden is false. */
struct door_names {
	char **list;
	size_t n;
};
struct uh_error *door_names(const struct named *n, bool hidden, struct arena *a, struct door_names *ret);

/** A file that several threads read at once, each into windows that are not copied. door_scan_begin() returns how many threads may, of
 * those that are wanted; all the windows are theirs until door_scan_end(). */
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
/** The same of a file that nobody else can have written (base/door/trust.h). */
struct uh_error *believed_read(const char *root, const char *path, size_t most, struct arena *a, struct str *ret);
struct uh_error *named_read(const struct named *n, size_t most, struct arena *a, struct str *ret, struct stat *ret_st);

/** How long nothing may come. */
int door_patience_ms(void);
/** That a path did not answer is told to whom asked for it. Where an answer without that path is good enough, it is kept instead, and
 * told in the end by door_tell(). Frees @err. */
void door_forget(struct uh_error *err);
/** Ends the child. What it had open is closed with it: who writes to a FIFO must not take it for a reader. */
void door_end(void);
void door_tell(void (*tell)(void *ctx, const char *message), void *ctx);
