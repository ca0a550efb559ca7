// Where recordings lie. Anybody can make files of such names in /dev/shm, so a recording counts only as its owner's, and a user has only so
// many directories that are looked at.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/door/door.h"
#include "evidence/recording/places.h"
#include "evidence/recording/process.h"
#include "source/probe.h"
#include "source/process.h"

enum { DIRECTORIES_MOST = 64, OWNERS_MOST = 1024 }; // of a user; users

#define ENDING ".recording"

bool recording_named(struct str name) { return str_ends(name, S(ENDING)); }

int64_t recording_pid(struct str name)
{
	int64_t pid;
	if (!recording_named(name))
		return -1;
	const struct str stem = str_cut(name, name.n - (sizeof(ENDING) - 1));
	size_t begin = stem.n;
	while (begin && char_digit(stem.p[begin - 1]))
		begin--;
	return str_number(str_from(stem, begin), &pid) ? pid : -1;
}

/** Those in the directory @n; what lies below it without a link on the way is named so. */
static struct uh_error *recording_places_add_all(struct arena *a, const struct named *n, int64_t owner,
						 struct recording_places *ret)
{
	struct door_names names = { 0 };
	struct uh_error *err = door_names(n, false, a, &names);
	for (size_t i = 0; !err && i < names.n; i++) {
		const char *name = names.list[i];
		if (!recording_named(str_z(name)))
			continue;
		if (n->below)
			name = arena_printf(a, "%s/%s", n->below, name).p;
		vec_push(&ret->list, ((struct recording_place){ n->path, name, owner }));
	}
	return err;
}

struct uh_error *recordings_in(struct arena *a, const char *directory, struct recording_places *ret)
{
	return recording_places_add_all(a, &(struct named){ .path = directory }, -1, ret);
}

/** Directories that a user has. */
struct place_owner {
	uid_t user;
	size_t seen;
};

void recordings_default(struct arena *a, struct recording_places *ret)
{
	struct door_names names = { 0 };
	const struct str own = arena_printf(a, "unhang-%u", (unsigned)getuid());
	_cleanup_vec_ VEC(struct place_owner) owners = { 0 };
	uh_error_free(door_names(&(struct named){ .path = RECORDINGS_ROOT }, false, a, &names));
	for (size_t i = 0; i < names.n; i++) {
		struct str rest;
		const struct str name = str_z(names.list[i]);
		const bool ours = str_behind(name, own, &rest) && (!rest.n || rest.p[0] == '.'); // with a dot: of unhang run
		if (!ours && (getuid() || !str_starts(name, S("unhang-"))))
			continue;
		const struct named n = { .path = RECORDINGS_ROOT, .below = names.list[i] };
		struct opened o;
		_cleanup_error_ struct uh_error *err = door_look(&n, &o);
		if (err || !S_ISDIR(o.st.st_mode) || (getuid() && o.st.st_uid != getuid()))
			continue;
		size_t at = 0;
		while (at < owners.len && owners.data[at].user != o.st.st_uid)
			at++;
		if (at == owners.len && at < OWNERS_MOST)
			vec_push(&owners, ((struct place_owner){ .user = o.st.st_uid }));
		if (at < owners.len && owners.data[at].seen++ < DIRECTORIES_MOST)
			uh_error_free(recording_places_add_all(a, &n, o.st.st_uid, ret));
		else
			ret->left_out++;
	}
}

// === The process of a recording, as far as this machine knows it. ===

enum { MAPS_MOST = 16 << 20, DEADLINE_MS = 2000, FILES_USER = 3 };

struct str process_maps(struct arena *a, int64_t pid)
{
	struct probe p = { .kind = PROBE_FILE,
			   .path = arena_printf(a, "/proc/%lld/maps", (long long)pid).p,
			   .size = MAPS_MOST };
	struct probe_stuck stuck = { 0 };
	struct probe_count count = { 0 };
	probe_run(a, &p, 1, DEADLINE_MS, &stuck, &count);
	return p.end == PROBE_GOOD ? (struct str){ p.data, p.n } : (struct str){ 0 };
}

static bool has_open(int64_t pid, const char *file)
{
	char path[64], target[64];
	snprintf(path, sizeof(path), "/proc/%lld/fd", (long long)pid);
	_cleanup_dir_ DIR *d = opendir(path);
	for (const struct dirent *e; d && (e = readdir(d));) {
		const ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof(target));
		if (n > 0 && str_is((struct str){ target, (size_t)n }, file))
			return true;
	}
	return false;
}

bool process_unrecorded(struct str maps, int64_t pid)
{
	static const char kfd[] = "/dev/kfd";
	bool runtime = false;
	while (maps.n) {
		const struct str line = str_split(&maps, '\n');
		if (recording_named(line))
			return false;
		runtime = runtime || str_find(line, S("/libhsa-runtime64")) >= 0;
	}
	return runtime && (access(kfd, F_OK) || has_open(pid, kfd));
}

int64_t process_user(int64_t pid)
{
	char room[4096];
	struct str text = process_file(pid, "status", room, sizeof(room)), rest;
	while (text.n) {
		struct str line = str_split(&text, '\n');
		int64_t user;
		if (!str_behind(line, S("Uid:\t"), &rest))
			continue;
		for (int i = 0; i < FILES_USER; i++) // real, effective, saved
			str_split(&rest, '\t');
		return str_number(rest, &user) ? user : -1;
	}
	return -1;
}

bool recording_numbers_ours(const struct flight_recording *r)
{
	struct stat st;
	const uint64_t of = r->header.pid_namespace;
	return of ? !stat("/proc/self/ns/pid", &st) && st.st_ino == of : process_numbers_shared();
}

bool recording_alive(const struct flight_recording *r, const char *path, int64_t owner)
{
	_cleanup_arena_ struct arena a = { 0 };
	return process_user(r->header.pid) == owner && str_find(process_maps(&a, r->header.pid), str_base(str_z(path))) >= 0;
}
