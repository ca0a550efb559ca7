// Finds recordings: by a path, in a directory, or of a process.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "evidence/recording/head.h"
#include "evidence/recording/places.h"
#include "evidence/recording/process.h"
#include "session/last/last.h"
#include "session/session.h"
#include "source/file.h"

static void last_recordings_add(struct recording_paths *p, struct str path, int64_t owner)
{
	vec_push(&p->list, ((struct recording_path){ .path = arena_z(&p->arena, path), .owner = owner }));
}

static void add_places(struct recording_paths *p, struct recording_places *places)
{
	for (size_t i = 0; i < places->list.len; i++) {
		const struct recording_place *r = &places->list.data[i];
		last_recordings_add(p, arena_printf(&p->arena, "%s/%s", r->directory, r->name), r->owner);
	}
	vec_free(&places->list);
}

static struct uh_error *add_directory(struct recording_paths *p, const char *directory)
{
	struct recording_places places = { 0 };
	struct uh_error *err = recordings_in(&p->arena, directory, &places);
	add_places(p, &places);
	return err;
}

static void add_default(struct recording_paths *p)
{
	struct recording_places places = { 0 };
	recordings_default(&p->arena, &places);
	add_places(p, &places);
}

/** The recording that a process of @user has mapped, as a path of this machine; it may have another root. */
static bool add_mapped(struct recording_paths *p, int64_t pid, int64_t user)
{
	struct str maps = process_maps(&p->arena, pid);
	while (maps.n) {
		struct str line = str_split(&maps, '\n');
		const ptrdiff_t at = str_find(line, S("/"));
		struct opened found;
		if (at < 0 || !recording_named(line))
			continue;
		struct str path =
			arena_printf(&p->arena, "/proc/%lld/root" STR_FMT, (long long)pid, STR_ARG(str_from(line, (size_t)at)));
		struct uh_error *err = door_look(&(struct named){ .path = arena_z(&p->arena, path) }, &found);
		last_recordings_add(p, err ? str_from(line, (size_t)at) : path, user);
		uh_error_free(err);
		return true;
	}
	return false;
}

/** Of a process that lives only recordings of its user count. If it is gone, nobody can say which of two users' it was. */
static struct uh_error *last_recordings_add_named(struct recording_paths *p, int64_t pid, int64_t user)
{
	struct recording_paths all = { 0 };
	const struct recording_path *first = NULL, *other = NULL;
	add_default(&all);
	for (size_t i = 0; i < all.list.len; i++) {
		const struct recording_path *r = &all.list.data[i];
		if (recording_pid(str_z(r->path)) != pid || (user >= 0 && r->owner != user))
			continue;
		last_recordings_add(p, str_z(r->path), r->owner);
		first = first ? first : r;
		other = r->owner != first->owner ? r : other;
	}
	struct uh_error *err =
		other ? uh_error_new("process %lld is gone, and users %lld and %lld each have a recording of it; name "
				     "one: %s, %s",
				     (long long)pid, (long long)first->owner, (long long)other->owner, first->path,
				     other->path) :
			NULL;
	recording_paths_free(&all);
	return err;
}

static struct uh_error *find_process(struct recording_paths *p, int64_t pid)
{
	const int64_t user = process_user(pid);
	const size_t before = p->list.len;
	if (add_mapped(p, pid, user))
		return NULL;
	struct uh_error *err = last_recordings_add_named(p, pid, user);
	if (err || p->list.len > before)
		return err;
	const struct str maps = process_maps(&p->arena, pid);
	const char *why = !process_unrecorded(maps, pid) ?
				  "" :
			  str_find(maps, S("libunhang-recorder.so")) >= 0 ?
				  ": it uses ROCm, whose runtime did not call the recorder, or "
				  "was told on stderr why nothing is recorded" :
				  ": it uses ROCm without the recorder; start it with unhang run, or with "
				  "HSA_TOOLS_LIB=libunhang-recorder.so HSA_TOOLS_ROCPROFILER_V1_TOOLS=1";
	return uh_error_new("process %lld has no recording%s", (long long)pid, why);
}

/** This user's own first, whatever times others gave to their files; then the newest. */
static int by_newest(const void *a, const void *b)
{
	const struct recording_path *x = a, *y = b;
	const bool own = x->owner == getuid(), other = y->owner == getuid();
	const struct timespec *s = &x->changed, *t = &y->changed;
	return own != other             ? other - own :
	       s->tv_sec != t->tv_sec   ? (s->tv_sec < t->tv_sec ? 1 : -1) :
	       s->tv_nsec != t->tv_nsec ? (s->tv_nsec < t->tv_nsec ? 1 : -1) :
					  strcmp(x->path, y->path);
}

/** Puts them in the order in which they are tried. A time that is still to come counts as now. */
static struct uh_error *order_newest(struct recording_paths *p)
{
	struct timespec now;
	size_t n = 0;
	clock_gettime(CLOCK_REALTIME, &now);
	for (size_t i = 0; i < p->list.len; i++) {
		struct opened found;
		struct recording_path r = p->list.data[i];
		struct uh_error *err = door_look(&(struct named){ .path = r.path }, &found);
		if (!err && found.st.st_uid == r.owner) {
			r.changed = found.st.st_mtim.tv_sec > now.tv_sec ? now : found.st.st_mtim;
			p->list.data[n++] = r;
		}
		uh_error_free(err);
	}
	p->list.len = n;
	if (!n)
		return uh_error_new("there is no recording in " RECORDINGS_ROOT "/unhang-%u", (unsigned)getuid());
	qsort(p->list.data, n, sizeof(p->list.data[0]), by_newest);
	p->one = true;
	return NULL;
}

struct uh_error *recordings_find(const char *target, struct recording_paths *ret)
{
	int64_t pid;
	struct opened found;
	struct uh_error *err = NULL;
	if (!target) {
		add_default(ret);
		return order_newest(ret);
	}
	if (str_number(str_z(target), &pid) && pid > 0)
		return find_process(ret, pid);
	err = door_look(&(struct named){ .path = target }, &found);
	if (!err && S_ISDIR(found.st.st_mode)) {
		const size_t before = ret->list.len;
		err = add_directory(ret, target);
		return err || ret->list.len > before ? err : uh_error_new("%s: there is no recording in it", target);
	}
	if (!err)
		last_recordings_add(ret, str_z(target), -1);
	return err;
}

void recordings_add(struct uh_session *s, const char *target)
{
	struct recording_paths paths = { 0 };
	const struct source_visitor v = session_visitor(s);
	uh_error_free(recordings_find(target, &paths));
	for (size_t i = 0; i < paths.list.len; i++)
		source_path(paths.list.data[i].path, &v);
	engine_end(s->engine);
	recording_paths_free(&paths);
}

void recording_paths_free(struct recording_paths *p)
{
	vec_free(&p->list);
	arena_free(&p->arena);
}

struct uh_error *recording_open(const struct recording_path *p, struct flight_recording **ret, int64_t *ret_owner)
{
	struct file f;
	struct uh_error *err = file_open(p->path, &f);
	if (err)
		return err;
	const size_t size = f.size;
	const int64_t owner = door_what(f.door)->st.st_uid;
	char *bytes = size && size <= RECORDING_MOST ? mem_large(size) : NULL;
	if (!bytes)
		err = uh_error_new("%s: no recording has %llu bytes", p->path, (unsigned long long)f.size);
	else if (p->owner >= 0 && owner != p->owner)
		err = uh_error_new("%s: it belongs to user %lld, not to user %lld, and is not believed", p->path,
				   (long long)owner, (long long)p->owner);
	else if (!file_read(&f, 0, bytes, size))
		err = uh_error_new("%s: it could not be read to its end", p->path);
	file_close(&f);
	if (err) {
		free(bytes);
		return err;
	}
	err = recording_parse(p->path, bytes, size, ret);
	if (!err && recording_alive(*ret, p->path, owner)) {
		(*ret)->alive = true;
		(*ret)->now = recording_now(*ret);
		recording_progress(*ret);
	}
	if (!err && ret_owner)
		*ret_owner = owner;
	return err;
}

// --- for a look at this machine ---

/** Whether its process, which must be of the file's own user, has waited for memory or a queue for seconds. */
static bool recording_stands(const struct recording_path *p)
{
	enum { STILL_MS = 5000 };
	struct rec_header h;
	struct recorded_call call;
	struct stat st;
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	_cleanup_close_ int fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	return fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == p->owner && recording_head(fd, &h) &&
	       h.state == RECORDING_ON && !fcntl(fd, F_GETLK, &lock) && lock.l_type != F_UNLCK &&
	       process_user(lock.l_pid) == p->owner && recording_call(fd, &h, &call) && call.age_ms >= STILL_MS;
}

void uh_session_add_stuck_calls(struct uh_session *s)
{
	struct recording_paths all = { 0 };
	add_default(&all);
	for (size_t i = 0; i < all.list.len; i++)
		if (recording_stands(&all.list.data[i]))
			uh_session_add_path(s, all.list.data[i].path);
	engine_end(s->engine);
	recording_paths_free(&all);
}
