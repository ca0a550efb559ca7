// unhang history --html DIR: every page as a file.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/child/put.h"
#include "base/door/trust.h"
#include "base/save.h"
#include "session/history/pages.h"

/** Where pages go, and those that wait: a child writes many at a time, since the place may not answer. */
struct page_files {
	const char *directory;
	struct arena arena;
	VEC(struct {
		const char *path; // in the directory
		struct str bytes;
	})
	list;
	size_t bytes;
};

/** A page while it is written. */
struct page_file {
	FILE *out;
	char *bytes;
	size_t n;
};

/** Saves bytes as DIRECTORY/KIND/NAME.html or DIRECTORY/KIND.html. What is below the directory is no link: another may have put it there. */
static struct uh_error *page_put_file(int directory, const char *path, struct str bytes)
{
	_cleanup_arena_ struct arena a = { 0 };
	const char *slash = strrchr(path, '/'), *kind = slash ? arena_z(&a, str_cut(str_z(path), (size_t)(slash - path))) : ".";
	if (slash && mkdirat(directory, kind, 0755) && errno != EEXIST)
		return uh_error_os(errno, "%s", kind);
	_cleanup_close_ int dir = openat(directory, kind, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return dir < 0 ? uh_error_os(errno, "%s", kind) : save_soon(dir, slash ? slash + 1 : path, bytes, 0644);
}

/** Somebody else may have made the directory a link to where only the caller may write. */
static int open_for_pages(const char *directory)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct str name = str_z(directory);
	struct stat st;
	while (name.n > 1 && name.p[name.n - 1] == '/') // behind which a link is followed
		name.n--;
	const char *path = arena_z(&a, name);
	const bool ours = !lstat(path, &st) && S_ISLNK(st.st_mode) && trust_owner(st.st_uid);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (ours ? 0 : O_NOFOLLOW));
}

static struct uh_error *put_pages(const void *ctx)
{
	const struct page_files *all = ctx;
	_cleanup_arena_ struct arena a = { 0 };
	struct uh_error *err = NULL;
	if (!make_above(AT_FDCWD, arena_printf(&a, "%s/x", all->directory).p, 0755))
		return uh_error_os(errno, "%s", all->directory);
	_cleanup_close_ int dir = open_for_pages(all->directory);
	if (dir < 0)
		return uh_error_os(errno, "%s", all->directory);
	for (size_t n = 0; n < all->list.len && !err; n++)
		err = page_put_file(dir, all->list.data[n].path, all->list.data[n].bytes);
	return err;
}

static struct uh_error *pages_flush(struct page_files *all)
{
	struct uh_error *err = put_within(all->directory, 0, put_pages, all);
	arena_free(&all->arena);
	all->list.len = all->bytes = 0;
	return err;
}

static struct uh_error *page_save(struct page_file *f, struct page_files *all, const char *kind, struct str name, bool found)
{
	enum { WAITING = 256, WAITING_BYTES = 8 << 20 };
	_cleanup_text_ struct text path = { 0 };
	fclose(f->out);
	_cleanup_free_ char *gone = f->bytes;
	if (!found)
		return NULL;
	site_file(&path, kind, name);
	vec_push(&all->list, ((__typeof__(*all->list.data)){ arena_z(&all->arena, text_str(&path)),
							     arena_str(&all->arena, (struct str){ f->bytes, f->n }) }));
	all->bytes += f->n;
	return all->list.len < WAITING && all->bytes < WAITING_BYTES ? NULL : pages_flush(all);
}

static struct page_file *page_open(struct page_file *f)
{
	*f = (struct page_file){ 0 };
	f->out = open_memstream(&f->bytes, &f->n);
	return f;
}

typedef struct uh_error *page_of_fn(struct site_pages *p, struct str name, FILE *out, bool *ret_found);

/** One page of each name, in a directory below. */
static struct uh_error *write_each(struct site_pages *p, struct page_files *all, const char *kind, const struct str *names,
				   size_t n, page_of_fn *page)
{
	struct uh_error *err = NULL;
	p->site.depth = 1;
	for (size_t i = 0; i < n && !err; i++) {
		struct page_file f;
		bool found = false;
		err = page(p, names[i], page_open(&f)->out, &found);
		struct uh_error *unsaved = page_save(&f, all, kind, names[i], !err && found);
		if (err)
			uh_error_free(unsaved);
		else
			err = unsaved;
	}
	p->site.depth = 0;
	return err;
}

struct name_list {
	struct arena *arena;
	VEC(struct str) list;
};

static void pages_take_name(void *ctx, const struct db_value *row, size_t n)
{
	struct name_list *l = ctx;
	if (n && row[0].type == DB_TEXT)
		vec_push(&l->list, arena_str(l->arena, row[0].text));
}

static struct uh_error *write_names(struct site_pages *p, struct page_files *all, const char *kind, const char *sql,
				    page_of_fn *page)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct name_list names = { .arena = &a };
	struct uh_error *err = db_run(p->history.db, sql, NULL, 0, pages_take_name, &names);
	if (!err)
		err = write_each(p, all, kind, names.list.data, names.list.len, page);
	vec_free(&names.list);
	return err;
}

/** incidents.html, incidents-2.html, ... until one is not full. */
static struct uh_error *write_lists(struct site_pages *p, struct page_files *all, bool runs)
{
	enum { LISTS_MOST = 1000 };
	const struct history_filter every = { 0 };
	int64_t total = 0;
	struct uh_error *err = history_count(&p->history, &every, &total);
	for (int64_t n = 0; n < LISTS_MOST && !err && (!n || (!runs && n * PAGES_LIST < total)); n++) {
		struct page_file f;
		_cleanup_text_ struct text kind = { 0 };
		text_printf(&kind, runs ? "runs" : "incidents");
		if (n)
			text_printf(&kind, "-%lld", (long long)n + 1);
		text_add(&kind, (struct str){ "", 1 });
		page_open(&f);
		err = runs ? pages_runs(p, 0, f.out) : pages_incidents(p, &every, (struct str){ 0 }, n * PAGES_LIST, f.out);
		struct uh_error *unsaved = page_save(&f, all, kind.p, (struct str){ 0 }, !err);
		if (err)
			uh_error_free(unsaved);
		else
			err = unsaved;
	}
	return err;
}

static struct uh_error *write_plain(struct site_pages *p, struct page_files *all, const char *kind,
				    struct uh_error *(*page)(struct site_pages *p, FILE *out))
{
	struct page_file f;
	struct uh_error *err = page(p, page_open(&f)->out), *unsaved = page_save(&f, all, kind, (struct str){ 0 }, !err);
	if (!err)
		return unsaved;
	uh_error_free(unsaved);
	return err;
}

static struct uh_error *write_all_pages(struct site_pages *p, struct page_files *all)
{
	struct uh_error *err = write_plain(p, all, "", pages_overview);
	if (!err)
		err = write_plain(p, all, "machines", pages_machines);
	if (!err)
		err = write_lists(p, all, false);
	if (!err)
		err = write_lists(p, all, true);
	if (!err)
		err = write_names(p, all, "incident", "SELECT id FROM incidents ORDER BY began DESC LIMIT 20000",
				  pages_incident);
	if (!err)
		err = write_names(p, all, "run", "SELECT id FROM runs ORDER BY began DESC LIMIT 20000", pages_run);
	if (!err)
		err = write_names(p, all, "machine", "SELECT DISTINCT host FROM incidents WHERE host IS NOT NULL LIMIT 20000",
				  pages_machine);
	return err;
}

struct uh_error *pages_write_all(struct site_pages *p, const char *directory)
{
	struct page_files all = { .directory = directory };
	p->site.files = true;
	struct uh_error *err = pages_flush(&all); // a place that cannot be used is told before the work
	if (!err)
		err = write_all_pages(p, &all);
	if (!err)
		err = pages_flush(&all);
	arena_free(&all.arena);
	vec_free(&all.list);
	return err;
}
