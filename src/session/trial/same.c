// What a job was when its trial began. One that was stopped goes on only with the same: runs of two programs, added up, tell of neither.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/door/door.h"
#include "base/print.h"
#include "base/save.h"
#include "knowledge/know.h"
#include "session/trial/journal.h"

enum { HASHED_MOST = 64 << 20, LOOKED_AT = 4096, NOTED_MOST = 1 << 20 };
#define NOTED "job"

/** Where a shell would find it; NULL: nowhere. */
static const char *program_path(struct arena *a, const char *name)
{
	struct str places = str_z(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
	if (strchr(name, '/'))
		return name;
	while (places.n) {
		const char *path = arena_printf(a, STR_FMT "/%s", STR_ARG(str_split(&places, ':')), name).p;
		if (!access(path, X_OK))
			return path;
	}
	return NULL;
}

/** Its bytes as a number; of a large one its size and time. @script: only if it is a text, which an interpreter may read. */
static bool file_note(struct text *to, const char *path, bool script)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct stat st;
	struct str bytes = { 0 };
	if (!path || stat(path, &st) || !S_ISREG(st.st_mode) || (script && st.st_size > HASHED_MOST))
		return false;
	uint64_t hash = str_hash(STR_HASH_BEGIN, S("size and time"));
	if (st.st_size <= HASHED_MOST) {
		struct uh_error *err = named_read(&(struct named){ .path = path }, HASHED_MOST, &a, &bytes, NULL);
		uh_error_free(err);
		hash = str_hash(STR_HASH_BEGIN, bytes);
	} else {
		hash = hash_mix(hash_mix(hash, (uint64_t)st.st_size), (uint64_t)st.st_mtime);
	}
	if (script && bytes.n && memchr(bytes.p, 0, bytes.n < LOOKED_AT ? bytes.n : LOOKED_AT))
		return false;
	text_printf(to, "%s %016llx\n", path, (unsigned long long)hash);
	return true;
}

static int by_letters(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/** The program, the first file that it is given if that is a text, and the variables that change what it does (knowledge: `matters`). */
static void job_note(struct text *to, struct arena *a, const struct know *k, char *const *command)
{
	file_note(to, program_path(a, command[0]), false);
	for (size_t i = 1; command[i] && !file_note(to, command[i], true); i++)
		;
	VEC(const char *) found = { 0 };
	for (char **e = environ; *e; e++)
		for (size_t i = 0; i < k->matters.len; i++)
			if (str_glob(k->matters.data[i]->head.id, str_cut(str_z(*e), strcspn(*e, "=")))) {
				vec_push(&found, *e);
				break;
			}
	if (found.len)
		qsort(found.data, found.len, sizeof(found.data[0]), by_letters);
	for (size_t i = 0; i < found.len; i++)
		text_printf(to, "%s\n", found.data[i]);
	vec_free(&found);
}

/** The first line that only one of the two has: up to its value or number. */
static struct str line_changed(struct str was, struct str is)
{
	while (was.n || is.n) {
		const struct str x = str_split(&was, '\n'), y = str_split(&is, '\n');
		const struct str line = y.n ? y : x;
		if (!str_eq(x, y))
			return str_cut(line, strcspn(line.p, " =\n"));
	}
	return S("?");
}

struct uh_error *trial_same(struct trial_log *l, const struct know *k, char *const *command)
{
	_cleanup_text_ struct text now = { 0 }, name = { 0 };
	struct str was = { 0 };
	job_note(&now, &l->arena, k, command);
	const char *path = trial_file(l, NOTED);
	struct uh_error *none = named_read(&(struct named){ .path = path }, NOTED_MOST, &l->arena, &was, NULL);
	uh_error_free(none);
	if (!l->told.n || none)
		return save_soon(AT_FDCWD, path, text_str(&now), 0600);
	if (str_eq(was, text_str(&now)))
		return NULL;
	text_add_safe(&name, line_changed(was, arena_str(&l->arena, text_str(&now))));
	return uh_error_new("the job has changed since this trial was stopped (" STR_FMT "): start again with --fresh, or change it back",
			    STR_ARG(text_str(&name)));
}
