#include "evidence/recording/places.h"

#include <unistd.h>

#include "base/door/door.h"

enum { DIRECTORIES_MOST = 64 };

bool recording_named(struct str name) { return str_ends(name, S(".recording")); }

struct uh_error *recordings_in(struct arena *a, const char *directory, struct recording_places *ret)
{
	struct door_names names = { 0 };
	struct uh_error *err = door_names(&(struct named){ .path = directory }, false, a, &names);
	for (size_t i = 0; !err && i < names.n; i++)
		if (recording_named(str_z(names.list[i])))
			vec_push(&ret->list, ((struct recording_place){ directory, names.list[i] }));
	return err;
}

void recordings_default(struct arena *a, struct recording_places *ret)
{
	struct door_names names = { 0 };
	const struct str own = arena_printf(a, "unhang-%u", (unsigned)getuid());
	size_t seen = 0;
	uh_error_free(door_names(&(struct named){ .path = RECORDINGS_ROOT }, false, a, &names));
	for (size_t i = 0; i < names.n && seen < DIRECTORIES_MOST; i++) {
		struct str rest;
		const struct str name = str_z(names.list[i]);
		const bool ours = str_behind(name, own, &rest) && (!rest.n || rest.p[0] == '.'); // with a dot: of unhang run
		if (!ours && (getuid() || !str_starts(name, S("unhang-"))))
			continue;
		seen++;
		uh_error_free(recordings_in(a, arena_z(a, arena_printf(a, RECORDINGS_ROOT "/%s", names.list[i])), ret));
	}
}
