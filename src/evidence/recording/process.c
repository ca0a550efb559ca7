#include "evidence/recording/process.h"

#include <sys/stat.h>

#include "source/probe.h"
#include "source/process.h"

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
	struct arena a = { 0 };
	const bool is =
		process_user(r->header.pid) == owner && str_find(process_maps(&a, r->header.pid), str_base(str_z(path))) >= 0;
	arena_free(&a);
	return is;
}
