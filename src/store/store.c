#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/save.h"

#define INCIDENTS "incidents"
enum { FILE_MOST = 64 << 10, DIRECTORY_MODE = 0750, FILE_MODE = 0640 };

const char *store_path(struct arena *a, const char *directory, struct str id)
{
	return arena_printf(a, "%s/" INCIDENTS "/" STR_FMT, directory, STR_ARG(id)).p;
}

enum { WHY_MOST = 200 };

static const char *close_path(struct arena *a, const char *directory, struct str id)
{
	return arena_printf(a, "%s/" STORE_CLOSE, store_path(a, directory, id)).p;
}

static bool make(const char *path, mode_t mode) { return !mkdir(path, mode) || errno == EEXIST; }

void store_give(const char *directory)
{
	struct arena a = { 0 };
	const char *all = arena_printf(&a, "%s/" INCIDENTS, directory).p;
	_cleanup_close_ int fd = open(all, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		save_give(fd, DIRECTORY_MODE);
	arena_free(&a);
}

/** The directory of all incidents, for the group; then that of one, which is for the same. */
static bool make_for(const char *directory, const char *all, const char *path)
{
	struct stat st;
	// Updates of the knowledge lie beside the incidents, and are for everybody.
	if (!make(directory, 0755))
		return false;
	if (!mkdir(all, DIRECTORY_MODE))
		store_give(directory);
	else if (errno != EEXIST)
		return false;
	if (mkdir(path, DIRECTORY_MODE))
		return errno == EEXIST;
	if (!stat(all, &st))
		(void)!chown(path, (uid_t)-1, st.st_gid);
	return true;
}

struct uh_error *store_save(const char *directory, const struct stored *i)
{
	struct arena a = { 0 };
	struct text text = { 0 };
	const char *all = arena_printf(&a, "%s/" INCIDENTS, directory).p, *path = store_path(&a, directory, i->id);
	struct uh_error *err = NULL;
	if (!make_for(directory, all, path))
		err = uh_error_os(errno, "%s", path);
	stored_text(i, &text);
	if (!err)
		err = save_shared(AT_FDCWD, arena_printf(&a, "%s/" STORE_INCIDENT, path).p, text_str(&text), FILE_MODE);
	if (!err && str_is(i->state, "closed"))
		unlink(close_path(&a, directory, i->id)); // who asked for it has it
	text_free(&text);
	arena_free(&a);
	return err;
}

struct uh_error *store_load(const char *directory, struct str id, struct arena *a, struct stored *ret)
{
	struct str text;
	if (!store_is_id(id))
		return uh_error_new("'" STR_FMT "' is no incident's id: that has 16 digits and letters from a to f",
				    STR_ARG(id));
	const char *path = arena_printf(a, "%s/" STORE_INCIDENT, store_path(a, directory, id)).p;
	struct uh_error *err = named_read(&(struct named){ .path = path }, FILE_MOST, a, &text, NULL);
	if (!err && (!stored_parse(text, a, ret) || !str_eq(ret->id, id)))
		err = uh_error_new("%s: this is no record of incident " STR_FMT, path, STR_ARG(id));
	return err;
}

struct uh_error *store_ask_close(const char *directory, struct str id, struct str why)
{
	struct arena a = { 0 };
	struct uh_error *err = save_file(AT_FDCWD, close_path(&a, directory, id), str_cut(why, WHY_MOST), FILE_MODE);
	arena_free(&a);
	return err;
}

bool store_close_asked(const char *directory, struct str id, struct text *ret_why)
{
	struct arena a = { 0 };
	_cleanup_close_ int fd = open(close_path(&a, directory, id), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	const ssize_t n = fd < 0 ? -1 : read(fd, text_room(ret_why, WHY_MOST), WHY_MOST);
	ret_why->n += n > 0 ? (size_t)n : 0;
	arena_free(&a);
	return n >= 0;
}

struct str store_closed_by(struct arena *a, struct str why)
{
	return why.n ? arena_printf(a, "an operator: " STR_FMT, STR_ARG(str_cut(why, WHY_MOST))) : S("an operator");
}

static int newest_first(const void *a, const void *b)
{
	const struct stored *x = *(const struct stored *const *)a, *y = *(const struct stored *const *)b;
	return x->began != y->began ? (x->began > y->began ? -1 : 1) : str_cmp(x->id, y->id);
}

bool store_begun(const char *directory)
{
	struct arena a = { 0 };
	const bool none = access(arena_printf(&a, "%s/" INCIDENTS, directory).p, F_OK) && errno == ENOENT;
	arena_free(&a);
	return !none;
}

struct uh_error *store_list(const char *directory, struct stored_list *ret)
{
	struct door_names names = { 0 };
	struct opened found;
	*ret = (struct stored_list){ 0 };
	const char *path = arena_printf(&ret->arena, "%s/" INCIDENTS, directory).p;
	const struct named all = { .path = path };
	if (!store_begun(directory))
		return NULL;
	struct uh_error *err = door_look(&all, &found);
	if (!err)
		err = door_names(&all, false, &ret->arena, &names);
	for (size_t n = 0; n < names.n && n < STORE_LIST_MOST; n++) {
		struct stored *one = arena_alloc(&ret->arena, sizeof(*one));
		if (!store_is_id(str_z(names.list[n])))
			continue;
		struct uh_error *odd = store_load(directory, str_z(names.list[n]), &ret->arena, one);
		if (odd) // a start that was killed may leave a directory without its record
			uh_error_free(odd);
		else
			vec_push(&ret->list, one);
	}
	if (ret->list.len)
		qsort(ret->list.data, ret->list.len, sizeof(*ret->list.data), newest_first);
	return err;
}

void stored_list_free(struct stored_list *l)
{
	vec_free(&l->list);
	arena_free(&l->arena);
}

// --- vacuum ---

static const char *const files[] = { STORE_BUNDLE, STORE_DIAGNOSIS, STORE_TEXT, STORE_CLOSE, STORE_INCIDENT };
enum { FILES = sizeof(files) / sizeof(files[0]) };

static uint64_t bytes_of(const char *path)
{
	uint64_t bytes = 0;
	_cleanup_close_ int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	for (size_t i = 0; dir >= 0 && i < FILES; i++)
		if (!fstatat(dir, files[i], &st, AT_SYMLINK_NOFOLLOW))
			bytes += (uint64_t)st.st_blocks * 512;
	return bytes;
}

/** Its record last: a removal that is cut short is gone on with. */
static void forget(const char *path)
{
	_cleanup_close_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	for (size_t i = 0; dir >= 0 && i < FILES; i++)
		unlinkat(dir, files[i], 0);
	rmdir(path);
}

unsigned store_vacuum(const char *directory, size_t most, uint64_t bytes)
{
	struct stored_list all;
	uint64_t used = 0;
	unsigned removed = 0;
	uh_error_free(store_list(directory, &all));
	for (size_t n = 0; n < all.list.len; n++) {
		const struct stored *i = all.list.data[n];
		const char *path = store_path(&all.arena, directory, i->id);
		used += bytes_of(path);
		if ((n < most && used <= bytes) || !n || !str_is(i->state, "closed"))
			continue;
		forget(path);
		removed++;
	}
	stored_list_free(&all);
	return removed;
}
