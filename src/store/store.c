#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/save.h"
#include "store/record.h"

#define INCIDENTS "incidents"
enum { FILE_MOST = 64 << 10, FILE_MODE = 0640 };

/** Those of the machine are for a group, too; a user's own are for nobody else, and their files get no more than their directory has. */
static mode_t store_directory_mode(void) { return geteuid() ? 0700 : 0750; }

const char *store_path(struct arena *a, const char *directory, struct str id)
{
	return arena_printf(a, "%s/" INCIDENTS "/" STR_FMT, directory, STR_ARG(id)).p;
}

enum { WHY_MOST = 200 };

static const char *close_path(struct arena *a, const char *directory, struct str id)
{
	return arena_printf(a, "%s/" STORE_CLOSE, store_path(a, directory, id)).p;
}

void store_give(const char *directory)
{
	_cleanup_arena_ struct arena a = { 0 };
	const char *all = arena_printf(&a, "%s/" INCIDENTS, directory).p;
	_cleanup_close_ int fd = open(all, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		save_give(fd, store_directory_mode());
}

/** The directory of all incidents, for the group; then that of one, which is for the same. */
static bool store_make_for(const char *directory, const char *all, const char *path)
{
	struct stat st;
	// Updates of the knowledge lie beside the incidents, and are for everybody.
	if (mkdir(directory, 0755) && errno != EEXIST)
		return false;
	if (!mkdir(all, store_directory_mode()))
		store_give(directory);
	else if (errno != EEXIST)
		return false;
	if (mkdir(path, store_directory_mode()))
		return errno == EEXIST;
	if (!stat(all, &st))
		(void)!chown(path, (uid_t)-1, st.st_gid);
	return true;
}

struct uh_error *store_save(const char *directory, const struct stored *i)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text text = { 0 };
	const char *all = arena_printf(&a, "%s/" INCIDENTS, directory).p, *path = store_path(&a, directory, i->id);
	struct uh_error *err = NULL;
	if (!store_make_for(directory, all, path))
		err = uh_error_os(errno, "%s", path);
	stored_text(i, &text);
	if (!err)
		err = save_shared(AT_FDCWD, arena_printf(&a, "%s/" STORE_INCIDENT, path).p, text_str(&text), FILE_MODE);
	if (!err && i->state == STORED_CLOSED)
		unlink(close_path(&a, directory, i->id)); // who asked for it has it
	return err;
}

struct uh_error *store_load(const char *directory, struct str id, struct arena *a, struct stored *ret)
{
	struct str text;
	if (!store_is_id(id))
		return uh_error_new("'" STR_FMT "' is no incident's id: that has 16 digits and letters from a to f",
				    STR_ARG(id));
	const char *path = arena_printf(a, "%s/" STORE_INCIDENT, store_path(a, directory, id)).p;
	const struct named record = { .path = arena_printf(a, "%s/" INCIDENTS, directory).p,
				      .below = arena_printf(a, STR_FMT "/" STORE_INCIDENT, STR_ARG(id)).p };
	struct uh_error *err = named_read(&record, FILE_MOST, a, &text, NULL);
	if (!err && (!stored_parse(text, a, ret) || !str_eq(ret->id, id)))
		err = uh_error_new("%s: this is no record of incident " STR_FMT, path, STR_ARG(id));
	return err;
}

struct str store_diagnosis(const char *directory, struct str id, size_t most, struct arena *a)
{
	struct str text = { 0 };
	const struct named file = { .path = arena_printf(a, "%s/" INCIDENTS, directory).p,
				    .below = arena_printf(a, STR_FMT "/" STORE_DIAGNOSIS, STR_ARG(id)).p };
	uh_error_free(named_read(&file, most, a, &text, NULL));
	return text;
}

struct uh_error *store_ask_close(const char *directory, struct str id, struct str why)
{
	_cleanup_arena_ struct arena a = { 0 };
	return save_file(AT_FDCWD, close_path(&a, directory, id), str_cut(why, WHY_MOST), FILE_MODE);
}

bool store_close_asked(const char *directory, struct str id, struct text *ret_why)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_close_ int fd = open(close_path(&a, directory, id), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	const ssize_t n = fd < 0 ? -1 : read(fd, text_room(ret_why, WHY_MOST), WHY_MOST);
	ret_why->n += n > 0 ? (size_t)n : 0;
	return n >= 0;
}

struct str store_closed_by(struct arena *a, struct str why)
{
	return why.n ? arena_printf(a, "an operator: " STR_FMT, STR_ARG(str_cut(why, WHY_MOST))) : S("an operator");
}

static int store_newest_first(const void *a, const void *b)
{
	const struct stored *x = *(const struct stored *const *)a, *y = *(const struct stored *const *)b;
	return x->began != y->began ? (x->began > y->began ? -1 : 1) : str_cmp(x->id, y->id);
}

bool store_begun(const char *directory)
{
	_cleanup_arena_ struct arena a = { 0 };
	const bool none = access(arena_printf(&a, "%s/" INCIDENTS, directory).p, F_OK) && errno == ENOENT;
	return !none;
}

struct uh_error *store_list(const char *directory, struct stored_list *ret)
{
	*ret = (struct stored_list){ 0 };
	return store_list_more(directory, ret);
}

struct uh_error *store_list_more(const char *directory, struct stored_list *ret)
{
	struct door_names names = { 0 };
	struct opened found;
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
		_cleanup_error_ struct uh_error *odd = store_load(directory, str_z(names.list[n]), &ret->arena, one);
		if (!odd) {
			vec_push(&ret->list, one);
			continue;
		}
		const char *record = arena_printf(&ret->arena, "%s/" STORE_INCIDENT,
						  store_path(&ret->arena, directory, str_z(names.list[n])))
					     .p;
		if (access(record, F_OK) && errno == ENOENT) // a start that was killed may leave a directory without its record
			continue;
		if (!ret->unread++)
			ret->why = arena_str(&ret->arena, str_z(uh_error_message(odd)));
	}
	if (ret->list.len)
		qsort(ret->list.data, ret->list.len, sizeof(*ret->list.data), store_newest_first);
	return err;
}

void stored_list_free(struct stored_list *l)
{
	vec_free(&l->list);
	arena_free(&l->arena);
}

// --- vacuum ---

static const char *const files[] = { STORE_BUNDLE, STORE_CUT,   STORE_CORE,    STORE_DIAGNOSIS,
				     STORE_TEXT,   STORE_CLOSE, STORE_INCIDENT };
enum { FILES = ARRAY_SIZE(files) };

static uint64_t store_bytes_of(const char *path)
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
static void store_forget(const char *path)
{
	_cleanup_close_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	for (size_t i = 0; dir >= 0 && i < FILES; i++) {
		save_left_over(dir, files[i], true);
		unlinkat(dir, files[i], 0);
	}
	rmdir(path);
}

int store_begin(const char *directory, struct str id)
{
	_cleanup_arena_ struct arena a = { 0 };
	const char *all = arena_printf(&a, "%s/" INCIDENTS, directory).p, *path = store_path(&a, directory, id);
	if (!make_above(AT_FDCWD, directory, geteuid() ? 0700 : 0755) || !store_make_for(directory, all, path))
		return -1;
	_cleanup_close_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir >= 0)
		flock(dir, LOCK_EX | LOCK_NB); // a file system without locks leaves it to the time that it was made
	return take_fd(&dir);
}

void store_drop(const char *directory, struct str id)
{
	_cleanup_arena_ struct arena a = { 0 };
	store_forget(store_path(&a, directory, id));
}

/** Whether nobody works in a directory any more. Who has a core in it holds it; one that is empty may be held in a moment, and on a file system
 * without locks only time tells. */
static bool store_left(int dir)
{
	enum { SETTLED_S = 60, LONGEST_S = 7200 };
	struct stat st;
	const bool held = !flock(dir, LOCK_EX | LOCK_NB);
	if (!held && errno == EWOULDBLOCK)
		return false;
	const bool core = !fstatat(dir, STORE_CORE, &st, AT_SYMLINK_NOFOLLOW);
	if (held && core)
		return true;
	return (core || !fstat(dir, &st)) && time(NULL) - st.st_mtime > (held ? SETTLED_S : LONGEST_S);
}

/** What was begun by one that was killed. */
static void store_sweep(const char *path)
{
	_cleanup_close_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir >= 0 && store_left(dir) && faccessat(dir, STORE_INCIDENT, F_OK, AT_SYMLINK_NOFOLLOW) && errno == ENOENT)
		store_forget(path);
}

static void store_sweep_all(const char *directory)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct door_names names = { 0 };
	const struct named all = { .path = arena_printf(&a, "%s/" INCIDENTS, directory).p };
	_cleanup_error_ struct uh_error *err = store_begun(directory) ? door_names(&all, false, &a, &names) : NULL;
	for (size_t n = 0; !err && n < names.n && n < STORE_LIST_MOST; n++) {
		const char *path = store_path(&a, directory, str_z(names.list[n]));
		if (store_is_id(str_z(names.list[n])) && access(arena_printf(&a, "%s/" STORE_INCIDENT, path).p, F_OK) &&
		    errno == ENOENT)
			store_sweep(path);
	}
}

unsigned store_vacuum(const char *directory, size_t most, uint64_t bytes)
{
	_cleanup_(stored_list_free) struct stored_list all;
	uint64_t used = 0;
	unsigned removed = 0;
	store_sweep_all(directory);
	uh_error_free(store_list(directory, &all));
	for (size_t n = 0; n < all.list.len; n++) {
		const struct stored *i = all.list.data[n];
		const char *path = store_path(&all.arena, directory, i->id);
		used += store_bytes_of(path);
		if ((n < most && used <= bytes) || !n || i->state != STORED_CLOSED)
			continue;
		store_forget(path);
		removed++;
	}
	return removed;
}

// === `incident` as text: a line for each value, its key first ===

#define TEXT(name) RECORD_TEXT(stored, name)
#define WORD(name, list) RECORD_WORD(stored, name, list)
#define NUMBER(name) RECORD_NUMBER(stored, name)
static const struct record_key keys[] = {
	TEXT(id),
	WORD(state, stored_states),
	TEXT(class),
	TEXT(title),
	TEXT(fault),
	TEXT(action),
	TEXT(host),
	TEXT(boot_id),
	TEXT(gpu),
	TEXT(unique_id),
	TEXT(serial),
	TEXT(origin),
	TEXT(bundle),
	TEXT(closed_by),
	TEXT(job),
	NUMBER(began),
	NUMBER(changed),
	NUMBER(ended),
	TEXT(votes),
	TEXT(reset_source),
	NUMBER(first_us),
	NUMBER(last_us),
	NUMBER(stood),
	NUMBER(events),
	NUMBER(hooks),
	NUMBER(pid),
	NUMBER(revision),
	TEXT(fingerprint),
	TEXT(fit),
	{ 0 },
};

bool store_is_id(struct str id)
{
	for (size_t i = 0; i < id.n; i++)
		if (!char_digit(id.p[i]) && !(id.p[i] >= 'a' && id.p[i] <= 'f'))
			return false;
	return id.n == STORE_ID;
}

void stored_text(const struct stored *i, struct text *to) { record_text(i, keys, to); }

void stored_json(const struct stored *i, struct json *j) { record_json(i, keys, j); }

void stored_add(struct str text, struct arena *a, struct stored *i) { record_take(text, a, i, keys); }

/** A state that nobody here knows is one of a newer unhang: nothing says that it is closed, so it counts as open. */
bool stored_parse(struct str text, struct arena *a, struct stored *ret)
{
	*ret = (struct stored){ 0 };
	record_take(text, a, ret, keys);
	if (ret->state > STORED_CLOSED)
		ret->state = STORED_OPEN;
	return store_is_id(ret->id) && ret->state;
}

// === up to where the kernel's log is stored: `boot BOOT-ID`, `sequence N`, `microseconds N` ===

#define PLACE "place"
enum { PLACE_MOST = 4096, PLACE_MODE = 0640 };

void store_place_text(const struct store_place *p, struct text *to)
{
	text_printf(to, "boot %s\nsequence %llu\nmicroseconds %lld\n", p->boot_id, (unsigned long long)p->sequence,
		    (long long)p->microseconds);
}

bool store_place_parse(struct str text, struct store_place *ret)
{
	int64_t n;
	*ret = (struct store_place){ 0 };
	while (text.n) {
		struct str value = str_split(&text, '\n'), key = str_word(&value);
		value = str_trim(value);
		if (str_is(key, "boot") && value.n < sizeof(ret->boot_id))
			str_copy(ret->boot_id, sizeof(ret->boot_id), value);
		else if (str_is(key, "sequence") && str_number(value, &n) && n >= 0)
			ret->sequence = (uint64_t)n;
		else if (str_is(key, "microseconds") && str_number(value, &n))
			ret->microseconds = n;
		else
			return false;
	}
	return ret->boot_id[0];
}

struct uh_error *store_place_save(const char *directory, const struct store_place *p)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text text = { 0 };
	store_place_text(p, &text);
	return save_file(AT_FDCWD, arena_printf(&a, "%s/" PLACE, directory).p, text_str(&text), PLACE_MODE);
}

bool store_place_load(const char *directory, struct store_place *ret)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct str text;
	*ret = (struct store_place){ 0 };
	const char *path = arena_printf(&a, "%s/" PLACE, directory).p;
	_cleanup_error_ struct uh_error *err = named_read(&(struct named){ .path = path }, PLACE_MOST, &a, &text, NULL);
	return !err && store_place_parse(text, ret);
}
