#include "evidence/recording/places.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/door/door.h"

enum { DIRECTORIES_MOST = 64, OWNERS_MOST = 1024 }; // of a user; users

bool recording_named(struct str name) { return str_ends(name, S(".recording")); }

/** Those in the directory @n; what lies below it without a link on the way is named so. */
static struct uh_error *add_all(struct arena *a, const struct named *n, int64_t owner, struct recording_places *ret)
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
	return add_all(a, &(struct named){ .path = directory }, -1, ret);
}

/** Directories that a user has. */
struct place_owner {
	uid_t user;
	size_t seen;
};
typedef VEC(struct place_owner) place_owners;

/** Whether one more of @user's may be looked at. */
static bool may_have_more(place_owners *owners, uid_t user)
{
	size_t at = 0;
	while (at < owners->len && owners->data[at].user != user)
		at++;
	if (at == owners->len && at < OWNERS_MOST)
		vec_push(owners, ((struct place_owner){ .user = user }));
	return at < owners->len && owners->data[at].seen++ < DIRECTORIES_MOST;
}

/** -1: it is nobody's directory. */
static int64_t owner_of(const char *directory)
{
	struct opened o;
	struct uh_error *err = door_look(&(struct named){ .path = RECORDINGS_ROOT, .below = directory }, &o);
	const bool good = !err && S_ISDIR(o.st.st_mode);
	uh_error_free(err);
	return good ? (int64_t)o.st.st_uid : -1;
}

void recordings_default(struct arena *a, struct recording_places *ret)
{
	struct door_names names = { 0 };
	const struct str own = arena_printf(a, "unhang-%u", (unsigned)getuid());
	place_owners owners = { 0 };
	uh_error_free(door_names(&(struct named){ .path = RECORDINGS_ROOT }, false, a, &names));
	for (size_t i = 0; i < names.n; i++) {
		struct str rest;
		const struct str name = str_z(names.list[i]);
		const bool ours = str_behind(name, own, &rest) && (!rest.n || rest.p[0] == '.'); // with a dot: of unhang run
		if (!ours && (getuid() || !str_starts(name, S("unhang-"))))
			continue;
		const int64_t owner = owner_of(names.list[i]);
		if (owner < 0 || (getuid() && owner != getuid()))
			continue;
		const struct named n = { .path = RECORDINGS_ROOT, .below = names.list[i] };
		if (may_have_more(&owners, (uid_t)owner))
			uh_error_free(add_all(a, &n, owner, ret));
		else
			ret->left_out++;
	}
	vec_free(&owners);
}
