#include "evidence/recording/places.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/door/door.h"

enum { DIRECTORIES_MOST = 64 };

bool recording_named(struct str name) { return str_ends(name, S(".recording")); }

/** Those in @directory, or in the directory @below it. */
static struct uh_error *add_all(struct arena *a, const struct named *n, int64_t owner, struct recording_places *ret)
{
	struct door_names names = { 0 };
	struct uh_error *err = door_names(n, false, a, &names);
	for (size_t i = 0; !err && i < names.n; i++) {
		const char *name = names.list[i];
		if (recording_named(str_z(name)))
			vec_push(&ret->list,
				 ((struct recording_place){
					 n->path, n->below ? arena_printf(a, "%s/%s", n->below, name).p : name, owner }));
	}
	return err;
}

struct uh_error *recordings_in(struct arena *a, const char *directory, struct recording_places *ret)
{
	return add_all(a, &(struct named){ .path = directory }, -1, ret);
}

/** How many directories of each user were looked into: who makes many hides nobody else's. */
struct users_seen {
	VEC(struct user_seen {
		uid_t user;
		unsigned directories;
	})
	list;
};

static bool too_many(struct users_seen *u, uid_t user)
{
	for (size_t i = 0; i < u->list.len; i++)
		if (u->list.data[i].user == user)
			return ++u->list.data[i].directories > DIRECTORIES_MOST;
	vec_push(&u->list, ((struct user_seen){ user, 1 }));
	return false;
}

void recordings_default(struct arena *a, struct recording_places *ret)
{
	struct door_names names = { 0 };
	struct users_seen users = { 0 };
	const uid_t us = getuid();
	const struct str own = arena_printf(a, "unhang-%u", (unsigned)us);
	uh_error_free(door_names(&(struct named){ .path = RECORDINGS_ROOT }, false, a, &names));
	for (size_t i = 0; i < names.n; i++) {
		const struct named n = { .path = RECORDINGS_ROOT, .below = names.list[i] };
		struct str rest, name = str_z(n.below);
		struct opened found;
		const bool ours = str_behind(name, own, &rest) && (!rest.n || rest.p[0] == '.'); // with a dot: of unhang run
		if (!ours && (us || !str_starts(name, S("unhang-"))))
			continue;
		struct uh_error *err = door_look(&n, &found);
		if (!err && S_ISDIR(found.st.st_mode) && (!us || found.st.st_uid == us) && !too_many(&users, found.st.st_uid))
			err = add_all(a, &n, found.st.st_uid, ret);
		uh_error_free(err);
	}
	vec_free(&users.list);
}
