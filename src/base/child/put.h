// Writing where a user says: in a child with a deadline. On a mount whose server is gone each step of it may wait for ever, as reading does
// (base/door/door.h); then the child is left behind, and the caller is told.
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

/** What writes. It runs in a copy of this process: what it changes in memory stays there. */
typedef struct uh_error *put_fn(const void *ctx);
/** Has @work done by @deadline (now_ms(); 0: three times as long as a path that is read may be silent). @path stands in the errors; the one of a place
 * that did not answer has errnum ETIMEDOUT. A late file may still appear when the place answers again. */
struct uh_error *put_within(const char *path, int64_t deadline, put_fn *work, const void *ctx);
enum put_how {
	PUT_SAFE, // save_file(), and what is no regular file is refused (save_check())
	PUT_SOON, // the same with save_soon()
	PUT_OVER, // save_soon(), whatever is there: the name is ours
};
struct uh_error *put_file(const char *path, struct str bytes, mode_t mode, enum put_how how, int64_t deadline);
/** Before work that ends in files at @path: whether its place answers. That it is not there, or may not be written, is no error here. */
struct uh_error *put_answers(const char *path);
