// The directory of a run, or of one of its tries, as evidence: that try alone, from its beginning on. What unhang wrote about it is no evidence.
#include "session/run/run.h"

#include "base/cleanup.h"
#include "base/door/door.h"
#include "evidence/allocations/allocations.h"
#include "job/job.h"
#include "session/session.h"
#include "store/record.h"
#include "store/store.h"

enum { RUN_MOST = 4 << 20, TRIES_MOST = 1000, FILES_MOST = 16, ALLOCATIONS_FILES_MOST = 64 };

/** What of `run` is needed here. */
struct noted_try {
	int64_t number, began;
	struct str ended;
};

static const struct record_key keys[] = {
	RECORD_NUMBER(noted_try, number), RECORD_NUMBER(noted_try, began), RECORD_TEXT(noted_try, ended), { 0 }
};

/** Whether @path, or what is called @below in it, is there and of this kind. Who can put a link into a directory may not read what it leads to. */
static bool is_there(const char *path, const char *below, mode_t kind)
{
	struct opened what;
	_cleanup_error_ struct uh_error *err = door_look(&(struct named){ .path = path, .below = below }, &what);
	return !err && (what.st.st_mode & S_IFMT) == kind; // whoever reads it says what is wrong
}

static bool is_evidence(struct str name)
{
	return str_starts(name, S(JOB_CORE)) || str_starts(name, S(JOB_PROCESS_CORE)) || str_ends(name, S(".gpucore")) ||
	       str_is(name, JOB_AGENT_FILE) || str_is(name, JOB_OUTPUT) || str_is(name, JOB_CONTAINER);
}

static void directory_add_file(struct uh_session *s, const char *directory, const char *name, struct arena *a)
{
	if (is_there(directory, name, S_IFREG))
		uh_session_add_path(s, arena_printf(a, "%s/%s", directory, name).p);
}

void try_add_allocations(struct uh_session *s, const char *directory, struct arena *a)
{
	struct door_names names = { 0 };
	uh_error_free(door_names(&(struct named){ .path = directory }, false, a, &names));
	int64_t pid;
	for (size_t i = 0, n = 0; i < names.n && n < ALLOCATIONS_FILES_MOST; i++) {
		const bool is = allocations_of_job(str_z(names.list[i]), &pid);
		if (is)
			directory_add_file(s, directory, names.list[i], a);
		n += is;
	}
}

void try_add_files(struct uh_session *s, const char *directory, struct arena *a)
{
	struct door_names names = { 0 };
	size_t n = 0;
	uh_error_free(door_names(&(struct named){ .path = directory }, false, a, &names));
	for (size_t i = 0; i < names.n && n < FILES_MOST; i++) {
		if (!is_evidence(str_z(names.list[i])))
			continue;
		directory_add_file(s, directory, names.list[i], a);
		n++;
	}
}

/** The newest try of @run that has a directory; with @only, that one. false: there is none. */
static bool find_try(struct str run, const char *path, int64_t only, struct arena *a, struct noted_try *ret)
{
	const struct str mark = S("\n" TRY_BEGINS "\n");
	ptrdiff_t at = str_find(run, mark);
	bool found = false;
	for (size_t n = 0; at >= 0 && n < TRIES_MOST; n++) {
		struct noted_try t = { 0 };
		run = str_from(run, (size_t)at + mark.n);
		at = str_find(run, mark);
		record_take(at < 0 ? run : str_cut(run, (size_t)at), a, &t, keys);
		if (only ? t.number != only : !is_there(path, arena_printf(a, "%lld", (long long)t.number).p, S_IFDIR))
			continue;
		*ret = t;
		found = true;
	}
	return found;
}

static bool directory_read_run(const char *path, struct arena *a, struct str *ret)
{
	_cleanup_error_ struct uh_error *err = named_read(&(struct named){ .path = path }, RUN_MOST, a, ret, NULL);
	return !err && str_starts(*ret, S("id "));
}

bool session_add_run(struct uh_session *s, const char *path)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct str run, name = str_z(path);
	struct noted_try t;
	int64_t number;
	bool found = false;
	while (name.n > 1 && str_ends(name, S("/")))
		name.n--;
	if (!is_there(path, NULL, S_IFDIR)) {
		found = false;
	} else if (directory_read_run(arena_printf(&a, "%s/run", path).p, &a, &run)) {
		found = find_try(run, path, 0, &a, &t);
		path = found ? arena_printf(&a, "%s/%lld", path, (long long)t.number).p : path;
	} else if (str_number(str_base(name), &number) && number > 0 &&
		   directory_read_run(arena_printf(&a, "%s/../run", path).p, &a, &run)) {
		found = find_try(run, path, number, &a, &t);
	}
	if (found) {
		s->job_ended = t.ended.n;
		session_since_job(s, (double)t.began / 1000);
		try_add_allocations(s, path, &a);
		directory_add_file(s, path, STORE_BUNDLE, &a);
		try_add_files(s, path, &a);
	}
	return found;
}
