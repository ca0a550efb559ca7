// Files that a user names for output: a name in the wrong place must not cost them their evidence.
#include <errno.h>

#include "base/door/door.h"
#include "cmd/cmd.h"

enum { FIRST_BYTES = 2048 };

static bool is_input(const struct stat *st, char *const *inputs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct opened input;
		struct uh_error *err = door_look(&(struct named){ .path = inputs[i] }, &input); // reported when it is read
		const bool same = !err && input.st.st_dev == st->st_dev && input.st.st_ino == st->st_ino;
		uh_error_free(err);
		if (same)
			return true;
	}
	return false;
}

/** An empty file has nothing to lose. */
static bool is_ours(const struct output_kind *kind, const char *path)
{
	char bytes[FIRST_BYTES];
	struct door_file *file = NULL;
	struct uh_error *err = door_open(&(struct named){ .path = path }, &file);
	const ssize_t n = err ? -1 : door_read(file, 0, bytes, sizeof(bytes), &err);
	const struct str first = { bytes, n > 0 ? (size_t)n : 0 };
	door_close(file);
	uh_error_free(err);
	return n == 0 || (str_starts(first, str_z(kind->begins)) && str_find(first, str_z(kind->has)) >= 0);
}

bool output_allowed(const struct output_kind *kind, const char *path, char *const *inputs, size_t n)
{
	struct opened there;
	struct uh_error *err = door_look(&(struct named){ .path = path }, &there);
	if (err) {
		const bool none = err->errnum == ENOENT || err->errnum == ENOTDIR; // if the name is a bad one, writing tells
		if (none)
			uh_error_free(err);
		else
			cannot(err);
		return none;
	}
	if (is_input(&there.st, inputs, n))
		complain("%s %s: this is the evidence; give the report a name of its own", kind->option, path);
	else if (!S_ISREG(there.st.st_mode) || !is_ours(kind, path))
		complain("%s %s: this exists, and unhang did not write it; give %s a new name", kind->option, path,
			 kind->option);
	else
		return true;
	return false;
}
